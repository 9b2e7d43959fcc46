// Computes the rows whose attention changed; the others are corrected by what
// changed in V.
//
// Source: DyLLM, algorithms 1 to 4. After 4 full steps a layer computes K, V,
// attention and FFN of salient rows: those whose attention context had a cosine
// below 0.99 against the cached one. Every fourth step looks at the whole
// sequence, the others at the response.
//
// below   0.99 is the paper's threshold for LLaDA; 0.995 for Dream.
// from    5: steps 5, 9, 13, ... are the paper's t mod 4 = 0 counted from 0.

heddle.schedule @dyllm {
  %full = heddle.cadence first(4)
  %whole = heddle.cadence every(4, from = 5)
  %response = heddle.positions response
  heddle.reuse kv, context(propagating), ffn
  heddle.recompute all on %full
  heddle.recompute salient(below = 0.99) in all on %whole
  heddle.recompute salient(below = 0.99) in %response
  heddle.attend dense
}
