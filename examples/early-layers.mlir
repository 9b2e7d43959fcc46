// All rows of the block in the first layers; in the others what is masked of it
// and what the last step committed. The other rows of the block end there: later
// layers keep their keys and values as they were.
//
// After ES-dLLM (arXiv 2603.10088), which lets rows end after early layers: of a
// block's rows the share goes on whose hidden states, keys or values changed most
// since the step before, or whose predictions were most confident. Which rows
// these are is not said here by what a layer finds, but by what is masked or new;
// docs/Spec/Behaviours.md says what else is missing.
//
// early: the last of the first layers; 3 of 32 layers in the paper's setting with
// one place to leave.

heddle.schedule @early_layers(early = 3) {
  %start = cadence first(1) in block
  %block = positions block
  %masked = positions undecoded
  %new = positions committed(last = 1)
  %both = union %masked, %new
  %live = intersect %block, %both
  reuse kv
  recompute all on %start
  recompute %block in layers(0 to early)
  recompute %live
  attend dense
}
