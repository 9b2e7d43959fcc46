// Commits all predictions of confidence 0.6 and more; what of the block is less
// probable than 0.9 at a later step becomes a mask again.
//
// After WINO (Hong et al. 2025, arXiv:2507.18578), whose thresholds these are;
// but that looks at the block's tokens in a second view of the block: wino.mlir.
// Here it is the step's own predictions, which cost no rows more.

heddle.schedule @threshold_revoke(draft = 0.6, verify = 0.9) {
  commit above(draft) revoke(below = verify)
  attend dense
}
