// A sliding window of masks; caches made anew from the layer on that has drifted.
//
// After Elastic-Cache (arXiv:2510.14973), for a model of 32 layers: each step
// computes the first 16 masked positions and what the last one committed, and
// reads all other keys and values from the cache, those of distant masks as well.
// Once a measured layer has drifted, that layer and all behind it compute all
// rows; the layers before keep what they have.
//
// There each layer is measured, by what the row of its most attended token attends
// to, and acted on in the step itself; here two are, by what the response's rows of
// the step attend to, and the next step acts. docs/Spec/Behaviours.md has the rest.
//
// below        the mean cosine of the rows' attention weights to those after the
//              layer's latest refresh, below which it has drifted: gamma.
// within       the most steps from one refresh to the next.
// early, late  the layers, from the end: more of them are as many lines.

heddle.schedule @elastic_cache(window = 16, below = 0.9, within = 64, early = -24, late = -12) {
  %first = cadence first(1)
  %early = cadence drift(attention, below = below, within = within, layer = early)
  %late = cadence drift(attention, below = below, within = within, layer = late)
  %window = positions undecoded(first = window)
  %new = positions committed(last = 1)
  %rows = union %window, %new
  reuse kv, output, ffn
  recompute all on %first
  recompute all on %early in layers(early to -1)
  recompute all on %late in layers(late to -1)
  recompute %rows
  commit quota within(%window)
  attend dense
}
