// The positions of a block that past confidence says become tokens next, and those
// near them, over the keys that one layer has chosen for all behind it.
//
// After Focus-dLLM (arXiv 2602.02159): confidences of one step tell where the next
// ones are, and what draws attention is the same across layers. Its numbers are not
// at hand; these are for a model of 32 layers.
//
// likely: the most confident positions. near: how many beside each of them. keep:
// the share of keys that layer `chooser` keeps, with the first `first` ones as
// sinks, for groups of `group` rows. The layers up to `dense` read all keys.
//
// A block's first step computes all rows and chooses the keys. The first masked
// position is computed at every step, so that a run ends, and the last step's
// tokens, whose keys and values are those of masks before. docs/Spec/Behaviours.md
// has the rest (number 56).

heddle.schedule @focus_dllm(likely = 4, near = 8, keep = 20 percent, first = 4, group = 32, dense = 7, chooser = 8) {
  %start = cadence first(1) in block
  %block = positions block
  %sure = confident(likely) of %block
  %around = neighbors(near) of %sure in %block
  %left = positions undecoded(first = 1)
  %new = positions committed(last = 1)
  %rows = union %sure, %around, %left, %new
  %cols = select columns(keep = keep, group = group) by mean_probability on %start in layers(chooser)
  %sinks = sinks(first)
  %pairs = union %cols, %sinks
  reuse kv
  recompute all on %start
  recompute %rows
  commit above(0.9)
  attend dense in layers(0 to dense)
  attend pairs(%pairs)
}
