// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-plan --split-input-file --verify-diagnostics -o /dev/null

// What a plan's rows, keys, reuse and commit must not say.

heddle.plan @N11 {
  // expected-error@+1 {{is what comes next in an order that is drawn before the run}}
  %n = heddle.positions next
  %c = heddle.cadence every(4)
  heddle.recompute all on %c
  heddle.recompute %n
  heddle.reuse kv
  heddle.kernel @k attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

// S6: only half of the rows are computed where the columns are refreshed.
heddle.plan @N11 {
  // expected-error@+1 {{is refreshed on every(8), at whose steps all visible rows must be computed}}
  heddle.selection @cols columns(keep = 0.2, group = 32) by mean_probability on every(8)
  %r = heddle.positions response
  %c = heddle.cadence first(4)
  heddle.recompute all on %c
  heddle.recompute %r
  heddle.reuse kv
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @pick select(group = 32) by mean_probability
  heddle.kernel @k attention [columns(@cols, group = 32)]
  heddle.rule default {
    heddle.phase on every(8) {
      heddle.attend_with @dense
      heddle.refresh @cols with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N11 {
  %r = heddle.positions response
  // expected-error@+1 {{may run at step 1, where nothing is cached yet}}
  heddle.recompute %r
  heddle.reuse kv
  heddle.kernel @k attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N4 {
  heddle.selection @tiles blocks(keep = 0.2, size = 32) by mean_probability on every(8)
  // expected-error@+1 {{reads "tiles" as columns, it is of blocks}}
  heddle.kernel @k attention [columns(@tiles, group = 32)]
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N4 {
  heddle.selection @tiles blocks(keep = 0.2, size = 32) by mean_probability on every(8)
  heddle.kernel @dense attention dense writes_lse
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @pick select(group = 32) by mean_probability
  heddle.kernel @k attention [blocks(@tiles, size = 32)]
  heddle.rule default {
    heddle.phase on every(8) {
      heddle.attend_with @dense
      // expected-error@+1 {{needs a select kernel of blocks of 32 by mean_probability}}
      heddle.refresh @tiles with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

// What is kept of attention is merged by log-sum-exp.
heddle.plan @N8_parts_without_lse {
  %r = heddle.positions response
  %c = heddle.cadence every(4)
  heddle.recompute all on %c
  heddle.recompute %r
  heddle.reuse kv, attention(outside = %r, on = %c)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @k attention dense
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{must write the log-sum-exp where attention outside of a set is kept}}
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N8_parts_of_windows {
  %r = heddle.positions response
  %c = heddle.cadence every(4)
  heddle.recompute all on %c
  heddle.recompute %r
  heddle.reuse kv, attention(outside = %r, on = %c)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @k attention [window(64)] writes_lse
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{must be dense where attention outside of a set is kept}}
      heddle.attend_with @k
    }
  }
}

// -----

// U6 of a plan.
heddle.plan @N11_parts {
  %d = heddle.positions decoded
  %u = heddle.positions undecoded(first = 16)
  %s = heddle.union %d, %u
  %often = heddle.cadence every(2)
  %c = heddle.cadence every(4)
  %w = heddle.fix %s on %often
  %b = heddle.positions block
  heddle.visible %w
  heddle.recompute all on %often
  heddle.recompute %u
  // expected-error@+1 {{and the visible positions change on every(2); keep it at these steps too}}
  heddle.reuse kv, attention(outside = %b, on = %c)
  heddle.kernel @k attention dense writes_lse
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

// R19 of a plan.
heddle.plan @N11_unseen {
  %u = heddle.positions undecoded(first = 16)
  %c = heddle.cadence every(4)
  heddle.recompute all on %c
  // expected-error@+1 {{computes rows that are not visible (`unseen`), and every position is}}
  heddle.recompute %u unseen
  heddle.reuse kv
  heddle.kernel @k attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N11_unseen_in_windows {
  %u = heddle.positions undecoded(first = 16)
  %c = heddle.cadence every(4)
  %w = heddle.fix %u on %c
  heddle.visible %w
  heddle.recompute all on %c
  heddle.recompute %u unseen
  heddle.reuse kv
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @k attention [window(64)]
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{must be dense where rows that are not visible are computed}}
      heddle.attend_with @k
    }
  }
}

// -----

// No schedule has such a phase without a selection, a plan might.
heddle.plan @M10 {
  // expected-error@+1 {{verifies drafts, and a phase runs on drift(below = 0.9, within = 8), of which a step that is drafted knows nothing}}
  heddle.commit quota verify(drafts = 2)
  heddle.kernel @dense attention dense
  heddle.kernel @near attention [window(64)]
  heddle.rule default {
    heddle.phase on drift(below = 0.9, within = 8) {
      heddle.attend_with @dense
    }
    heddle.phase otherwise {
      heddle.attend_with @near
      heddle.measure drift(below = 0.9, within = 8)
    }
  }
}
