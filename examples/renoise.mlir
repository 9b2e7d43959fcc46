// Positions of the block that have no token yet are noise, drawn anew at each
// step, in place of masks; a step commits all predictions of confidence 0.95 and
// more. What stands behind the block is not there.
//
// After Diffusers' BlockRefinementScheduler without a mask token (its
// threshold), for models that were trained on noise, as DiffusionGemma; others
// make poor text of it. What it does otherwise: docs/Spec/Commit.md,
// "Renoising".

heddle.schedule @renoise(threshold = 0.95) {
  %start = cadence first(1) in block
  %before = positions before(block)
  %block = positions block
  %both = union %before, %block
  %seen = fix %both on %start
  visible %seen
  commit above(threshold) renoise
  attend dense
}
