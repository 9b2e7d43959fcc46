// Dense attention and the model's own commits, in fewer forward passes: up to
// `ahead` steps after each are drafted from the latest predictions and verified
// in its pass. The tokens are those of dense.mlir.
//
// Source: FreeDave (Wu and Zhang 2025, arXiv:2510.00294), whose draft_steps is
// `ahead` + 1; SSD (Gao et al. 2025, arXiv:2510.04147). docs/Spec/Commit.md,
// "Verifying drafts", says what else they do.

heddle.schedule @drafted_steps(ahead = 3) {
  commit quota verify(drafts = ahead)
  attend dense
}
