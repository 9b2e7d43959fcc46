// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-plan --split-input-file --verify-diagnostics -o /dev/null

// What a plan's rows, keys, reuse and commit must not say.

heddle.plan @N11 {
  // expected-error@+1 {{fixed needs a set}}
  "heddle.position_set"() <{sym_name = "p", kind = #heddle<positions_kind fixed>}> : () -> ()
}

// -----

heddle.plan @N11 {
  // expected-error@+1 {{block has no count, or one out of range: 3}}
  "heddle.position_set"() <{sym_name = "p", kind = #heddle<positions_kind block>, count = 3}> : () -> ()
}

// -----

heddle.plan @N11 {
  heddle.position_set @a block
  // expected-error@+1 {{needs two sets: whose neighbors, and among which positions}}
  "heddle.position_set"() <{sym_name = "p", kind = #heddle<positions_kind neighbors>, count = 3, of = [@a]}> : () -> ()
}

// -----

heddle.plan @N11 {
  heddle.position_set @a block
  // expected-error@+1 {{needs two sets: of which positions, and without which}}
  heddle.position_set @p except(@a, @a, @a)
}

// -----

heddle.plan @N11 {
  heddle.position_set @a block
  // expected-error@+1 {{last has no count, or one out of range: 0}}
  "heddle.position_set"() <{sym_name = "p", kind = #heddle<positions_kind last>, of = [@a]}> : () -> ()
}

// -----

heddle.plan @N11 {
  heddle.position_set @a block
  // expected-error@+1 {{is made of exactly one set}}
  "heddle.position_set"() <{sym_name = "p", kind = #heddle<positions_kind last>, count = 2, of = [@a, @a]}> : () -> ()
}

// -----

heddle.plan @N11 {
  heddle.position_set @a block
  // expected-error@+1 {{neighbors has no count, or one out of range: 0}}
  "heddle.position_set"() <{sym_name = "p", kind = #heddle<positions_kind neighbors>, of = [@a, @a]}> : () -> ()
}

// -----

heddle.plan @N13 {
  // expected-error@+1 {{is what comes next in an order that is drawn before the run}}
  heddle.position_set @n next
  heddle.pass on every(4) computes all
  heddle.pass computes @n
  heddle.reuse kv
  heddle.kernel @k attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N12 {
  // expected-error@+1 {{is made of @b, which must stand before it}}
  heddle.position_set @a union(@b)
  // expected-note@+1 {{the set is here}}
  heddle.position_set @b response
  heddle.kernel @k attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N4 {
  heddle.kernel @k attention dense
  // expected-error@+1 {{names @k, which is no heddle.position_set of the plan}}
  heddle.visible_set @k
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N7 {
  // expected-error@+1 {{is used by no op}}
  heddle.position_set @a response
  heddle.kernel @k attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N6 {
  // expected-note@+1 {{the other one is here}}
  heddle.position_set @a response
  // expected-error@+1 {{is like another one but for its name; one is enough}}
  heddle.position_set @b response
  heddle.kernel @k attention dense
  heddle.visible_set @a
  heddle.commit_rule quota within(@b)
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

// S6: only half of the rows are computed where the columns are refreshed.
heddle.plan @N13 {
  // expected-error@+1 {{is refreshed on every(8), at whose steps all visible rows must be computed}}
  heddle.selection @cols columns(keep = 0.2, group = 32) by mean_probability on every(8)
  heddle.position_set @r response
  heddle.pass on first(4) computes all
  heddle.pass computes @r
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

heddle.plan @N13 {
  heddle.position_set @r response
  // expected-error@+1 {{may run at step 1, where nothing is cached yet}}
  heddle.pass computes @r
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
  // expected-note@+1 {{the selection is here}}
  heddle.selection @tiles blocks(keep = 0.2, size = 32) by mean_probability on every(8)
  // expected-error@+1 {{reads @tiles as columns, it is of blocks}}
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
