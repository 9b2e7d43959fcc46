// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-schedule --split-input-file --verify-diagnostics

heddle.schedule @fine {
  %near = heddle.window(64)
  heddle.attend pairs(%near)
}

// -----

heddle.schedule @idle {
  // expected-warning@+1 {{has no effect: no op of the schedule reads it}}
  %near = heddle.window(64)
  // expected-warning@+1 {{has no effect: no op of the schedule reads it}}
  %c = heddle.cadence every(2)
  heddle.attend dense
}

// -----

heddle.schedule @nobody_looks {
  // expected-warning@+1 {{`or after eos` has no effect: no heddle.commit has `stop(eos)`}}
  %c = heddle.cadence every(2) or after eos
  %some = heddle.positions undecoded(first = 1)
  heddle.commit best(1) within(%some) on %c
  heddle.commit above(0.9)
  heddle.attend dense
}

// -----

heddle.schedule @nobody_ever_looks {
  // expected-warning@+1 {{`or after eos` has no effect}}
  %c = heddle.cadence every(2) or after eos
  %never = heddle.cadence never
  // expected-warning@+1 {{has no effect: its cadence has no steps}}
  heddle.commit best(2) on %never stop(eos)
  heddle.commit best(1) on %c
  heddle.commit above(0.9)
  heddle.attend dense
}

// -----

heddle.schedule @somebody_looks {
  %c = heddle.cadence every(2) or after eos
  heddle.commit best(1) on %c
  heddle.commit above(0.9) stop(eos)
  heddle.attend dense
}

// -----

heddle.schedule @until {
  // expected-note@+1 {{the cadence is here}}
  %c = heddle.cadence every(2)
  %near = heddle.window(64)
  // expected-warning@+1 {{`until` has no effect: its cadence includes step 1}}
  heddle.attend dense until(%c) then pairs(%near)
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
