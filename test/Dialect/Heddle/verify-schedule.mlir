// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-schedule --split-input-file --verify-diagnostics

heddle.schedule @fine {
  %near = window(64)
  attend pairs(%near)
}

// -----

heddle.schedule @idle {
  // expected-warning@+1 {{has no effect: no op of the schedule reads it}}
  %near = window(64)
  // expected-warning@+1 {{has no effect: no op of the schedule reads it}}
  %c = cadence every(2)
  attend dense
}

// -----

heddle.schedule @few_keys {
  %c = cadence every(2)
  // expected-warning@+1 {{keeps 20 keys for 128 rows; write 20 percent if a fraction is meant}}
  %s = select columns(keep = 20, group = 128) by mean_probability on %c
  %more = select columns(keep = 128, group = 32) by mean_probability on %c
  %blocks = select blocks(keep = 20, size = 128) by mean_probability on %c
  %all = union %s, %more, %blocks
  attend pairs(%all)
}

// -----

heddle.schedule @nobody_looks {
  // expected-warning@+1 {{`or after eos` has no effect: no commit has `stop(eos)`}}
  %c = cadence every(2) or after eos
  %some = positions undecoded(first = 1)
  commit best(1) within(%some) on %c
  commit above(0.9)
  attend dense
}

// -----

heddle.schedule @nobody_ever_looks {
  // expected-warning@+1 {{`or after eos` has no effect}}
  %c = cadence every(2) or after eos
  %never = cadence never
  // expected-warning@+1 {{has no effect: its cadence has no steps}}
  commit best(2) on %never stop(eos)
  commit best(1) on %c
  commit above(0.9)
  attend dense
}

// -----

heddle.schedule @somebody_looks {
  %c = cadence every(2) or after eos
  commit best(1) on %c
  commit above(0.9) stop(eos)
  attend dense
}

// -----

heddle.schedule @until {
  // expected-note@+1 {{the cadence is here}}
  %c = cadence every(2)
  %near = window(64)
  // expected-warning@+1 {{`until` has no effect: its cadence includes step 1}}
  attend dense until(%c) then pairs(%near)
}

// -----

heddle.schedule @revoking {
  // expected-warning@+1 {{`revoke` has no effect: a step makes masks of fewer tokens than it commits, and these commit one}}
  commit best(1) revoke(below = 0.9)
  attend dense
}

// -----

// Of what stands near a mask never all is decoded: the mask itself is not.
heddle.schedule @near {
  %early = cadence at(1/4)
  // expected-warning@+1 {{no confidence reaches the threshold: with `near(1)` they count at most 0.60 of themselves, so that a step commits the surest position alone; write a lower one, or `best(1)`}}
  commit above(0.9) near(1) on %early
  // expected-warning@+1 {{with `near(10)` they count at most 0.96 of themselves}}
  commit even_above(0.97) near(10)
  attend dense
}

// -----

heddle.schedule @near_enough {
  %early = cadence at(1/4)
  commit above(0.6) near(1) on %early
  commit above(0.96) near(10)
  attend dense
}

// -----

// One key is rarely meant: all are a fraction, 1/1. A stage that begins when the
// one in front of it goes on never comes.
heddle.schedule @stages {
  %often = cadence every(8)
  %late = cadence at(1/2)
  // expected-note@+1 {{the cadence is here}}
  %early = cadence at(1/4)
  // expected-warning@+1 {{keeps one key for 32 rows; write 1/1 if all are meant}}
  %one = select columns(keep = 1, group = 32) by mean_probability on %often
  // expected-warning@+1 {{keeps one block for 64 rows; write 1/1 if all are meant}}
  %block = select blocks(keep = 1, size = 64) by mean_probability on %often
  %near = window(8)
  // expected-warning@+1 {{`until` has no effect: a stage in front of it does not end before its cadence begins}}
  attend pairs(%one) until(%late) then pairs(%block) until(%early) then pairs(%near)
}

// -----

// expected-error@+1 {{expected a heddle.schedule, found none}}
module {}

// -----

// expected-error@+1 {{'func.func' op does not belong at the schedule level; a file holds heddle.schedule ops}}
func.func private @f()

// -----

// expected-error@+1 {{'heddle.plan' op does not belong at the schedule level}}
heddle.plan @p {
  heddle.kernel @attention_dense attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @attention_dense
    }
  }
}

// -----

heddle.schedule @each_step {
  %each = cadence every(1)
  // expected-note@+1 {{the selection is here}}
  %near = select blocks(keep = 1/4, size = 64) by mean_logit on %each
  // expected-warning@+1 {{is dense in every step, since each refreshes a selection; write `at_once` for steps that attend over what they have chosen}}
  attend pairs(%near)
}

// -----

// Other steps read what was chosen, or the step itself does.
heddle.schedule @some_steps {
  %some = cadence every(2)
  %each = cadence every(1)
  %near = select blocks(keep = 1/4, size = 64) by mean_logit on %some
  %now = select blocks(keep = 1/4, size = 64) by mean_logit on %each
  %other = select blocks(keep = 1/8, size = 64) by mean_logit on %each in layers(0)
  attend pairs(%near) in layers(1)
  attend pairs(%other) in layers(2)
  attend pairs(%now) at_once
}

// -----

heddle.schedule @nothing_was_drawn {
  // expected-note@+1 {{the cadence is here}}
  %once = cadence first(1)
  %start = cadence first(1) in block
  %left = positions undecoded(first = 1)
  %all = positions all
  %drawing = attended(share = 1/2) of %all
  // expected-warning@+1 {{is empty at every step: before the first one nothing drew attention; write a cadence with later steps}}
  %empty = fix %drawing on %once
  %some = fix %drawing on %start
  %rows = union %left, %empty, %some
  reuse kv
  recompute all on %start
  recompute %rows
  attend dense
}
