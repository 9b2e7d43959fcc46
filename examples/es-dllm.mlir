// The block being decoded, of which rows end after early layers: those whose
// values changed least and whose last prediction was least confident. Later layers
// keep their keys and values as they were, and they predict nothing in this step.
//
// After ES-dLLM (arXiv 2603.10088), for a model of 32 layers: in layers 4 and 8
// half of the rows go on, besides the first masked position, the two masked ones
// that were last predicted with the highest confidence, and what the last step
// committed, which always do, as in its released code.
//
// Rows go by a sum of what changed and of the confidence of the row's last
// prediction, with the weights of that code; what changed is the cosine of V.
// docs/Spec/Behaviours.md has the rest (number 51).

heddle.schedule @es_dllm(first = 4, second = 8, keep = 1/2, confidence = 1/2) {
  %start = cadence first(1) in block
  %block = positions block
  %left = positions undecoded(first = 1)
  %sure = confident(2) of %block
  %new = positions committed(last = 1)
  %kept = union %left, %sure, %new
  %others = except %block, %kept
  reuse kv
  recompute all on %start
  recompute least_similar(keep = keep, among = %others, confidence = confidence) in %block in layers(first, second)
  recompute %block
  attend dense
}
