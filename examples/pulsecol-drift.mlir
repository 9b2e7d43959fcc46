// PulseCol's columns, refreshed when the response has drifted.
//
// Source: PulseCol, whose refreshes are the same steps of every run; its appendix E
// proposes to refresh by what changes in a run instead. The test of drift is after
// Elastic-Cache's (arXiv:2510.14973), on values in place of attention weights
// (docs/Spec/Cadence.md#drift).
//
// below   the mean cosine of the response's values to those right after the latest
//         refresh, below which the next step refreshes.
// within  the most steps from one refresh to the next.

heddle.schedule @pulsecol_drift(keep = 0.2, group = 32, below = 0.9, within = 64) {
  %refresh = cadence drift(below = below, within = within)
  %cols = select columns(keep = keep, group = group) by mean_probability on %refresh
  attend pairs(%cols)
}
