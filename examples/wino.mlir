// Commits predictions whose confidence exceeds 0.6, at most 70% of a block's
// masks but 5 to 20, and looks at the block's tokens in a second view of it, of
// masks that do not see them: what is less probable than 0.9 there becomes a
// mask again, fewer than the step before committed.
//
// Source: WINO (Hong et al. 2025, arXiv:2507.18578), as released, for LLaDA
// (Feng-Hong/WINO-DLLM, LLaDA/decoding.py), with its thresholds.
// docs/Spec/Commit.md, "By a shadow", says what it does otherwise.

heddle.schedule @wino(draft = 0.6, verify = 0.9) {
  commit above(draft, strictly) at_most(share = 0.7, least = 5, most = 20)
      revoke(below = verify, by = shadow, fewer_than = step_before)
  attend dense
}
