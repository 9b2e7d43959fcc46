// Commits all predictions of confidence 0.6 and more; what of the block is less
// probable than 0.9 at a later step becomes a mask again.
//
// After WINO (Hong et al. 2025, arXiv:2507.18578), whose thresholds these are;
// but it is not WINO as released, which verifies the block's tokens in a second
// copy of the block, all masks. Here it is the step's own predictions that do:
// docs/Spec/Commit.md, "What WINO does otherwise".

heddle.schedule @threshold_revoke(draft = 0.6, verify = 0.9) {
  commit above(draft) revoke(below = verify)
  attend dense
}
