heddle.schedule @hints {
  %often = cadence every(4)
  %cols = select columns(keep = 0.2, group = 32) mean_probability on %often
  %masks = undecoded
  %first = prompt
  %near = pairs window(16)
  %few = columns(keep = 0.2, group = 32) by mean_probability on %often
  %then = every(8)
  %far = sinks 4)
  %all = attend dense
  %late %more = window(4)
  %half = positions committed(last 2)
  %same = window(64)
  %both = union %same %same
  %twice = sinks(4)
  %twice = sinks(8)
  recompute all on every(8)
  reuse kv, kv
  commit quota within(undecoded(first = 3)) stop(eos)
  %late = select columns(keep = 0.2, group = 64) on %often by mean_probability
  commit above(0.4)) stop(eos)
  commit quota verfy(drafts = 3)
  commit above(0.4) edits(above = 0.3)
  commit above(0.4) revok(below = 0.2)
  recompute in all salient(below = 0.9)
  heddle.attend dense in layers(0)
  attend dense until(%same) then pairs(%same) in layers(1)
  attend dense until(%often) pairs(%same) in layers(2)
  attend pairs(%same in layers(3)
  attend dense scores(%logit) {
    yield %logit : f32
  }
  attend dence
}
