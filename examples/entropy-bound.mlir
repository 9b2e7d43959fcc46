// Commits the predictions of least entropy, as many as may be so that the
// entropies of all but the last sum to 0.1 nats at most: together they are then
// little less certain than each alone.
//
// Source: EB-Sampler (Ben-Hamu et al. 2025, arXiv:2505.24857); the bound is that
// of DiffusionGemma's samplers, SGLang's for masked models is 0.15.

heddle.schedule @entropy_bound(bound = 0.1) {
  commit entropy(bound)
  attend dense
}
