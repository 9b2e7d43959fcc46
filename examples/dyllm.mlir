// Computes the rows whose attention changed; the others are corrected by what
// changed in V.
//
// Source: DyLLM, algorithms 1 to 4. After 4 full steps a layer computes K, V,
// attention and FFN of salient rows: those whose attention context had a cosine
// below 0.99 against the cached one. Every fourth step looks at the whole
// sequence, the others at the response.
//
// below   0.99 is the paper's threshold for LLaDA; 0.995 for Dream.
// from    5: steps 5, 9, 13, ... are the paper's t mod 4 = 0 counted from 0. Its
//         released code (scale-snu/DyLLM) counts from 1: --set from=8 gives
//         steps 8, 12, 16, ...

heddle.schedule @dyllm(below = 0.99, from = 5) {
  %full = cadence first(4)
  %whole = cadence every(4, from = from)
  %response = positions response
  reuse kv, context(propagating), ffn
  recompute all on %full
  recompute salient(below = below) in all on %whole
  recompute salient(below = below) in %response
  attend dense
}
