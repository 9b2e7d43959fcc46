// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-plan --split-input-file --verify-diagnostics

heddle.plan @N15 {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  %left = heddle.positions undecoded(first = 1)
  %p = heddle.attended(share = 1/10) of %block
  %rows = heddle.union %left, %p
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %rows
  heddle.kernel @dense attention dense writes_lse
  heddle.rule default {
    // expected-error@+1 {{has no kernel that adds up the attention that positions drew, by which a set goes (attended)}}
    heddle.phase otherwise {
      heddle.attend_with @dense
    }
  }
}

// -----

heddle.plan @N15 {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  %left = heddle.positions undecoded(first = 1)
  %rows = heddle.union %left, %block
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %rows
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @added select(group = all) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{adds up the attention that positions drew, by which no set goes (attended)}}
    heddle.phase otherwise {
      heddle.attend_with @dense rollout @added
    }
  }
}

// -----

heddle.plan @N15 {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  %left = heddle.positions undecoded(first = 1)
  %p = heddle.attended(share = 1/10) of %block
  %rows = heddle.union %left, %p
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %rows
  heddle.kernel @dense attention dense
  heddle.kernel @added select(group = all) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{adds up attention by log-sum-exps, which kernel "dense" does not write}}
    heddle.phase otherwise {
      heddle.attend_with @dense rollout @added
    }
  }
}

// -----

heddle.plan @N15 {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  %left = heddle.positions undecoded(first = 1)
  %p = heddle.attended(share = 1/10) of %block
  %rows = heddle.union %left, %p
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %rows
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @added select(group = 32) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{needs to add up attention a select kernel of group all by mean_probability, by the scores of its own attention, which kernel "added" is not}}
    heddle.phase otherwise {
      heddle.attend_with @dense rollout @added
    }
  }
}

// -----

heddle.plan @N15 {
  %start = heddle.cadence first(1) in block
  %block = heddle.positions block
  %left = heddle.positions undecoded(first = 1)
  %p = heddle.attended(share = 1/10) of %block
  %rows = heddle.union %left, %p
  heddle.reuse kv
  heddle.recompute all on %start
  heddle.recompute %rows
  heddle.kernel @near attention [window(8)] writes_lse
  heddle.kernel @added select(group = all) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{with kernel "near" must be dense where a set goes by the attention}}
    heddle.phase otherwise {
      heddle.attend_with @near rollout @added
    }
  }
}
