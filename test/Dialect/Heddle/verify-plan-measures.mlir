// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-plan --split-input-file --verify-diagnostics

// N12: what cadences by drift go by is measured, and nothing else.

heddle.plan @by_values {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on drift(below = 0.9, within = 8)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase on drift(below = 0.9, within = 8) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    // expected-error@+1 {{measures nothing, expected drift(below = 0.9, within = 8)}}
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
}

// -----

// Its own steps find nothing.
heddle.plan @on_the_cadence {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on drift(below = 0.9, within = 8)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{measures drift(below = 0.9, within = 8), expected nothing}}
    heddle.phase on drift(below = 0.9, within = 8) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
      heddle.measure drift(below = 0.9, within = 8)
    }
    heddle.phase otherwise {
      heddle.attend_with @cols
      heddle.measure drift(below = 0.9, within = 8)
    }
  }
}

// -----

// Its weights are of the pairs that the phase keeps.
heddle.plan @another_kernel {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on drift(attention, below = 0.9, within = 8)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase on drift(attention, below = 0.9, within = 8) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    // expected-error@+1 {{measures drift(attention, below = 0.9, within = 8) with dense, expected drift(attention, below = 0.9, within = 8) with cols}}
    heddle.phase otherwise {
      heddle.attend_with @cols
      heddle.measure drift(attention, below = 0.9, within = 8) with @dense
    }
  }
}

// -----

heddle.plan @without_a_kernel {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on drift(attention, below = 0.9, within = 8)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase on drift(attention, below = 0.9, within = 8) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    // expected-error@+1 {{measures drift(attention, below = 0.9, within = 8), expected drift(attention, below = 0.9, within = 8) with cols}}
    heddle.phase otherwise {
      heddle.attend_with @cols
      heddle.measure drift(attention, below = 0.9, within = 8)
    }
  }
}

// -----

heddle.plan @a_kernel_for_values {
  %0 = heddle.cadence drift(below = 0.9, within = 8)
  %1 = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %0
  heddle.recompute %1
  heddle.kernel @dense attention dense
  heddle.rule default {
    // expected-error@+1 {{measures drift(below = 0.9, within = 8) with dense, expected drift(below = 0.9, within = 8)}}
    heddle.phase otherwise {
      heddle.attend_with @dense
      heddle.measure drift(below = 0.9, within = 8) with @dense
    }
  }
}

// -----

// Another bound, and twice the same.
heddle.plan @another_bound {
  %0 = heddle.cadence drift(below = 0.9, within = 8)
  %1 = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %0
  heddle.recompute %1
  heddle.kernel @dense attention dense
  heddle.rule default {
    // expected-error@+1 {{measures drift(below = 0.9, within = 8), drift(below = 0.8, within = 8), expected drift(below = 0.9, within = 8)}}
    heddle.phase otherwise {
      heddle.attend_with @dense
      heddle.measure drift(below = 0.9, within = 8)
      heddle.measure drift(below = 0.8, within = 8)
    }
  }
}

// -----

// The rule surely has the layer, so that the default one has not.
heddle.plan @in_other_layers {
  %0 = heddle.cadence drift(below = 0.9, within = 8, layer = -2)
  %1 = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %0
  heddle.recompute %1
  heddle.kernel @dense attention dense
  heddle.kernel @near attention [window(64)]
  heddle.rule layers(-3 to -1) {
    heddle.phase otherwise {
      heddle.attend_with @near
      heddle.measure drift(below = 0.9, within = 8, layer = -2)
    }
  }
  heddle.rule default {
    // expected-error@+1 {{measures drift(below = 0.9, within = 8, layer = -2), expected nothing}}
    heddle.phase otherwise {
      heddle.attend_with @dense
      heddle.measure drift(below = 0.9, within = 8, layer = -2)
    }
  }
}

// -----

// A model of up to ten layers has both.
heddle.plan @where_ends_may_meet {
  %0 = heddle.cadence drift(below = 0.9, within = 8, layer = -2)
  %1 = heddle.positions block
  heddle.reuse kv
  heddle.recompute all on %0
  heddle.recompute %1
  heddle.kernel @dense attention dense
  heddle.kernel @near attention [window(64)]
  heddle.rule layers(0 to 8) {
    // expected-error@+1 {{measures nothing, expected drift(below = 0.9, within = 8, layer = -2)}}
    heddle.phase otherwise {
      heddle.attend_with @near
    }
  }
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @dense
      heddle.measure drift(below = 0.9, within = 8, layer = -2)
    }
  }
}

// -----

// In any order.
heddle.plan @fine {
  %0 = heddle.cadence drift(below = 0.9, within = 8, layer = 1)
  %1 = heddle.cadence drift(below = 0.8, within = 8)
  %2 = heddle.cadence first(1)
  %3 = heddle.positions block
  heddle.reuse kv, output, ffn
  heddle.recompute all on %2
  heddle.recompute all on %0 in layers(1 to 2)
  heddle.recompute all on %1 in layers(-1)
  heddle.recompute %3
  heddle.kernel @dense attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @dense
      heddle.measure drift(below = 0.8, within = 8)
      heddle.measure drift(below = 0.9, within = 8, layer = 1)
    }
  }
}
