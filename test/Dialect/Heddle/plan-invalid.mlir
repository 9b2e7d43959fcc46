// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-plan --split-input-file --verify-diagnostics

heddle.plan @N1 {
  // expected-error@+1 {{does not belong in a heddle.plan}}
  %c = arith.constant 1 : i32
  heddle.rule default {}
}

// -----

// expected-error@+1 {{needs a default rule}}
heddle.plan @N2 {
}

// -----

heddle.plan @N2 {
  // expected-note@+1 {{the rule is here}}
  heddle.rule default {}
  // expected-error@+1 {{is a second default rule}}
  heddle.rule default {}
}

// -----

heddle.plan @N2 {
  heddle.rule default {}
  // expected-note@+1 {{the rule is here}}
  heddle.rule layers(0 to 4) {}
  // expected-error@+1 {{names layers that another rule has}}
  heddle.rule layers(2) {}
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{a group must be a power of two from 16 to 1024 rows, or all, found 48}}
  heddle.kernel @k select(group = 48) by mean_probability
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{unknown scorer 'chance': one of mean_probability, mean_logit}}
  heddle.kernel @k select(group = 64) by chance
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{a kernel is attention or select}}
  heddle.kernel @k gemm
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{a term is within sets that go by positions, not columns}}
  heddle.kernel @k attention [window(8) within columns(@cols, group = 32)]
}

// -----

heddle.plan @N3 {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on every(1)
  heddle.selection @b columns(keep = 0.2, group = 32) by mean_probability on every(2)
  // expected-error@+1 {{reads "a" and "b" within different sets, and of what one has kept of a row the other can't know}}
  heddle.kernel @k attention [columns(@a, group = 32) within window(8), columns(@a, group = 32) within sinks(2), columns(@b, group = 32) within window(8)]
  heddle.rule default {}
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{a fraction of sinks is within no set, and none is within it}}
  heddle.kernel @k attention [sinks(0.1) within window(8)]
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{a term is columns(...), blocks(...), window(...)}}
  heddle.kernel @k attention [diagonal(3)]
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{the size of sinks must be at least 1, found 0}}
  heddle.kernel @k attention [sinks(0)]
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{must be more than 0 and at most 1, found 2/1}}
  heddle.kernel @k attention [sinks(200 percent)]
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{the size of window must be at least 1, found 0}}
  heddle.kernel @k attention [window(0)]
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{select needs its arguments in parentheses; write select(group = ...)}}
  "heddle.kernel"() <{sym_name = "k", form = #heddle.kernel_form<select>}> ({}) : () -> ()
  heddle.rule default {}
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{expected '>'}}
  "heddle.kernel"() <{sym_name = "k", form = #heddle.kernel_form<attention(group = 64)>}> ({}) : () -> ()
  heddle.rule default {}
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{selects, which has no terms and writes no log-sum-exp, found window(64)}}
  "heddle.kernel"() <{sym_name = "k", form = #heddle.kernel_form<select(group = 64) by mean_probability>, terms = [#heddle.term<window(64)>]}> ({}) : () -> ()
  heddle.rule default {}
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{has a list for each key/value head and one for the layer; drop per_kv_head or per_layer}}
  heddle.kernel @k select(group = 64, per_kv_head, per_layer) by mean_probability
  heddle.rule default {}
}

// -----

heddle.plan @N4 {
  // expected-error@+1 {{names @nothing, which is no heddle.selection of the plan}}
  heddle.kernel @k attention [columns(@nothing, group = 64)]
  heddle.rule default {}
}

// -----

heddle.plan @N4 {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 128) by mean_probability on every(1)
  // expected-error@+1 {{reads @s in groups of 64, it is made in groups of 128}}
  heddle.kernel @k attention [columns(@s, group = 64)]
  heddle.rule default {}
}

// -----

heddle.plan @N4 {
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @k select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{needs an attention kernel}}
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N4 {
  heddle.selection @s columns(keep = 0.2, group = 128) by mean_probability on every(1)
  heddle.kernel @a attention dense writes_lse
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @k select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @a
      // expected-error@+1 {{needs a select kernel of group 128 by mean_probability}}
      heddle.refresh @s with @k
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @a attention dense
  heddle.rule default {
    // expected-error@+1 {{must begin with heddle.attend_with, or with what refreshes before it}}
    heddle.phase otherwise {
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @a attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @a
      // expected-error@+1 {{cannot follow a phase's heddle.attend_with; only heddle.refresh and heddle.score_with before it can}}
      heddle.attend_with @a
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.rule default {
    // expected-error@+1 {{a phase is `on` a cadence, `before` a cadence, or `otherwise`}}
    heddle.phase while every(3) {
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.rule default {
    // expected-error@+1 {{expected a cadence: one of never, every}}
    "heddle.phase"() <{when = #heddle.when<on>}> ({^bb0:}) : () -> ()
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @d attention dense writes_lse
  heddle.rule default {
    // expected-error@+1 {{refreshes first and must end with heddle.attend_with}}
    heddle.phase otherwise {
      heddle.score_with @d
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @d attention dense writes_lse
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{scores for no heddle.refresh}}
      heddle.score_with @d
      heddle.attend_with @d
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @d attention dense writes_lse
  heddle.rule default {
    heddle.phase otherwise {
      heddle.score_with @d
      // expected-error@+1 {{cannot follow a phase's heddle.score_with; only heddle.refresh and heddle.score_with before it can, and a last heddle.attend_with}}
      heddle.attend_with @d
      heddle.attend_with @d
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @d attention dense writes_lse
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @d
      // expected-error@+1 {{scores for no heddle.refresh}}
      heddle.score_with @d scaled_by(heads)
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @d attention dense writes_lse
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on drift(below = 0.9, within = 8)
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @d
      // expected-error@+1 {{measures what its phase has computed, so it must stand behind all else of the phase}}
      heddle.measure drift(below = 0.9, within = 8)
      heddle.refresh @a with @s
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @d attention dense
  heddle.rule default {
    // expected-error@+1 {{must begin with heddle.attend_with, or with what refreshes before it}}
    heddle.phase otherwise {
      heddle.measure drift(below = 0.9, within = 8)
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @d attention dense writes_lse
  heddle.rule default {
    // expected-error@+1 {{refreshes first and must end with heddle.attend_with}}
    heddle.phase otherwise {
      heddle.score_with @d
      heddle.measure drift(below = 0.9, within = 8)
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.kernel @d attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @d
      // expected-error@+1 {{measures every(8), which goes by nothing that a step finds; expected a cadence by drift}}
      heddle.measure every(8)
    }
  }
}

// -----

heddle.plan @N4 {
  heddle.kernel @d attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @d
      // expected-error@+1 {{names @e, which is no heddle.kernel of the plan}}
      heddle.measure drift(attention, below = 0.9, within = 8) with @e
    }
  }
}

// -----

heddle.plan @N4 {
  heddle.kernel @d attention dense
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{measures drift(attention, below = 0.9, within = 8) with s, expected nothing}}
    heddle.phase otherwise {
      heddle.attend_with @d
      heddle.measure drift(attention, below = 0.9, within = 8) with @s
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.selection @a blocks(keep = 0.2, size = 32) by mean_probability scaled_by(heads) on every(1)
  heddle.kernel @d attention dense writes_lse
  heddle.kernel @s select(blocks = 32) by mean_probability
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{serves all of the phase's refreshes, by attention's own scale and all keys}}
      heddle.score_with @d scaled_by(heads)
      heddle.refresh @a with @s
      heddle.attend_with @d
    }
  }
}

// -----

heddle.plan @N4 {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on every(1)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{needs an attention kernel}}
      heddle.score_with @s
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{selects for groups that are no parts of those that it chooses within, found groups of 64 within 32}}
  heddle.kernel @select select(group = 64) by mean_probability within columns(group = 32)
  heddle.rule default {}
}

// -----

heddle.plan @N3 {
  // expected-error@+1 {{a block must be a power of two from 16 to 128 keys, found 256}}
  heddle.kernel @select select(group = 64) by mean_probability within blocks(size = 256)
  heddle.rule default {}
}

// -----

heddle.plan @N4 {
  // expected-error@+1 {{chooses within @tiles, which does not stand before it}}
  heddle.selection @fine columns(keep = 0.25, group = 32) by mean_probability within @tiles on every(2)
  // expected-note@+1 {{the other selection is here}}
  heddle.selection @tiles blocks(keep = 0.3, size = 128) by mean_probability on every(2)
  heddle.rule default {}
}

// -----

heddle.plan @N4 {
  // expected-error@+1 {{names @none, which is no heddle.selection of the plan}}
  heddle.selection @fine columns(keep = 0.25, group = 32) by mean_probability within @none on every(2)
  heddle.rule default {}
}

// -----

heddle.plan @N4 {
  heddle.selection @tiles blocks(keep = 0.3, size = 128) by mean_probability on every(2)
  heddle.selection @fine columns(keep = 0.25, group = 32) by mean_probability within @tiles on every(2)
  heddle.kernel @dense attention dense writes_lse
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @select select(group = 32) by mean_probability
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @dense
      // expected-error@+1 {{needs a select kernel of group 32 by mean_probability within blocks(size = 128)}}
      heddle.refresh @fine with @select
    }
  }
}

// -----

heddle.plan @N13 {
  // expected-error@+1 {{is of a selection that keeps no more than the share above which dense attention is faster}}
  heddle.fallback "cols" columns(keep = 0.2, group = 32) by mean_probability dense_above 0.36
  heddle.rule default {}
}

// -----

heddle.plan @N13 {
  // expected-error@+1 {{is of a selection that keeps no more than the share above which dense attention is faster}}
  heddle.fallback "cols" columns(keep = 512, group = 32) by mean_probability dense_above 0.36
  heddle.rule default {}
}

// -----

heddle.plan @N13 {
  // expected-error@+1 {{expected 'dense_above'}}
  heddle.fallback "cols" columns(keep = 0.5, group = 32) by mean_probability above 0.36
}

// -----

heddle.plan @N3 {
  heddle.kernel @d attention dense
  // expected-error@+1 {{selects by mean_logit, which takes no function of logits: a sum of queries is no row and stands nowhere}}
  heddle.kernel @s select(group = 32) by mean_logit scores(%logit) {
    %twice = arith.addf %logit, %logit : f32
    heddle.yield %twice
  }
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @d
    }
  }
}

// -----

heddle.plan @N4 {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_logit on every(1)
  heddle.kernel @d attention dense writes_lse
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @d
      // expected-error@+1 {{needs a select kernel of group 32 by mean_logit}}
      heddle.refresh @a with @s
    }
  }
}
