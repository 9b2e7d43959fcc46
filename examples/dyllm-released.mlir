// dyllm as its released code has it.
//
// Source: scale-snu/DyLLM. It counts steps from 1, so that the steps that look
// at the whole sequence are the 8th, 12th, 16th, ...

heddle.schedule @dyllm_released {
  %full = heddle.cadence first(4)
  %whole = heddle.cadence every(4, from = 8)
  %response = heddle.positions response
  heddle.reuse kv, context(propagating), ffn
  heddle.recompute all on %full
  heddle.recompute salient(below = 0.99) in all on %whole
  heddle.recompute salient(below = 0.99) in %response
  heddle.attend dense
}
