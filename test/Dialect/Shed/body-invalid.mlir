// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What is worked on in place has one use, and a block has one of each: a body
// means what its operands say on every target, or is refused.

shed.kernel @lse attention element(bf16) head_dim(64) {
  // expected-error@+1 {{'shed.load_lse' op does not belong in an attention kernel}}
  %l = shed.load_lse
  %s = shed.softmax_init : !shed.softmax
  shed.store %s
}

// -----

// Operations are there, and take something else than the lowering would.
shed.kernel @keys_are_values attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    // expected-error@+1 {{'shed.dot' op takes keys that do not come from shed.load_keys}}
    %l = shed.dot %q, %v : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

shed.kernel @values_are_keys attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    // expected-error@+1 {{'shed.softmax_update' op takes values that do not come from shed.load_values}}
    %n = shed.softmax_update %c, %l, %k : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

shed.kernel @no_update attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    // expected-error@+1 {{'shed.dot' op makes or carries a tile of logits that nobody takes}}
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    shed.yield %c : !shed.softmax
  }
  shed.store %r
}

// -----

shed.kernel @unmasked attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    // expected-note@+1 {{it is taken here}}
    %m = shed.mask %l, %keys within #shed.window<8>
    // expected-error@+1 {{'shed.softmax_update' op takes a tile of logits that is taken before and changed in its place; take what was made of it}}
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

shed.kernel @two_dots attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    // expected-note@+1 {{the first one is here}}
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    // expected-error@+1 {{'shed.dot' op is there twice; an attention kernel's shed.for_keys has one}}
    %o = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

shed.kernel @forgotten_pass attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  // expected-note@+1 {{it is taken here}}
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  // expected-error@+1 {{'shed.for_keys' op takes a softmax that is taken before and changed in its place; take what was made of it}}
  %t = shed.for_keys over #shed.sinks<4> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %t
}

// -----

shed.kernel @other_softmax attention element(bf16) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  // expected-note@+1 {{the first one is here}}
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %n = shed.softmax_update %c, %l, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  // expected-error@+1 {{'shed.softmax_init' op is there twice; an attention kernel has one}}
  %t = shed.softmax_init : !shed.softmax
  shed.store %t
}

// -----

shed.kernel @masked select element(bf16) head_dim(64) group(64) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    // expected-error@+1 {{'shed.for_keys' op passes over #shed.window<8>; select kernels score all keys, and skip none}}
    %s = shed.for_keys over #shed.window<8> init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r
}

// -----

shed.kernel @no_mass select element(bf16) head_dim(64) group(64) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    // expected-error@+1 {{'shed.for_keys' op scores no key; it needs a shed.column_mass}}
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      shed.yield %c : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r
}

// -----

shed.kernel @first_mass select element(bf16) head_dim(64) group(64) {
  %m = shed.mass_init : !shed.mass
  // expected-note@+1 {{it is taken here}}
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  // expected-error@+1 {{'shed.top_k' op takes a mass that is taken before and changed in its place; take what was made of it}}
  shed.top_k %m
}

// -----

shed.kernel @span_mass select element(bf16) head_dim(64) group(64) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  // expected-note@+2 {{it is taken here}}
  // expected-error@+1 {{'shed.top_k' op takes a mass that is taken before and changed in its place; take what was made of it}}
  shed.top_k %r span %r blocks
}

// -----

// Which keys a window's pass visits for a row depends on how rows are cut.
shed.kernel @unmasked_window attention element(f32) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, f32>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.window<8> init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    %m = shed.mask %l, %keys within #shed.window<10>
    // expected-error@+1 {{'shed.softmax_update' op counts every key that some row of the tile has: in a pass over #shed.window<8> logits are masked within it, or within a part of it}}
    %n = shed.softmax_update %c, %m, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

shed.kernel @late_scores attention element(f32) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, f32>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    %m = shed.mask %l, %keys within #shed.window<10>
    // expected-error@+1 {{'shed.scores' op takes logits that are not shed.dot's; scores come before masks, once}}
    %f = shed.scores %m at %keys (%logit) {
      %x = arith.negf %logit : f32
      shed.yield %x : f32
    }
    %n = shed.softmax_update %c, %f, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

shed.kernel @captured attention element(f32) head_dim(64) {
  %q = shed.load_queries : !shed.tile<queries, channels, f32>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
    %v = shed.load_values %keys : !shed.tile<keys, channels, f32>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
    // expected-error@+1 {{'shed.softmax_update' op takes a softmax from outside of its region, which every turn would take anew; carry it}}
    %n = shed.softmax_update %s, %l, %v : !shed.tile<keys, channels, f32>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}

// -----

shed.kernel @no_span select element(f32) head_dim(64) group(64) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, f32>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, f32>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, f32>, !shed.tile<keys, channels, f32>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  // expected-error@+1 {{'shed.top_k' op chooses blocks and has no mass for the second span, by which arguments may ask to choose: add `span`}}
  shed.top_k %r blocks
}

// -----

shed.kernel @pools_even select element(bf16) head_dim(64) group(32) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  // expected-error@+1 {{'shed.top_k' op pools 4 scores; expected an odd number from 3 to 127}}
  shed.top_k %r pooled(4)
}

// -----

// expected-error@+1 {{has lists of a whole layer, which its heads share: add `shared_lists`}}
shed.kernel @own_of_layer select element(bf16) head_dim(64) group(32) per_layer {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  shed.top_k %r
}

// -----

shed.kernel @within_fewer_rows select element(bf16) head_dim(64) group(32) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  // expected-error@+1 {{'shed.top_k' op chooses within list 0 of groups of 16 rows; expected list 0 and a multiple of the kernel's 32 rows}}
  shed.top_k %r within #shed.list<0, group = 16>
}

// -----

shed.kernel @within_another_list select element(bf16) head_dim(64) group(32) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  // expected-error@+1 {{'shed.top_k' op chooses within list 1 of groups of 32 rows; expected list 0}}
  shed.top_k %r within #shed.list<1, group = 32>
}

// -----

shed.kernel @within_no_list select element(bf16) head_dim(64) group(32) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  // expected-error@+1 {{attribute 'within' failed to satisfy constraint: a set that goes by lists}}
  shed.top_k %r within #shed.window<8>
}

// -----

shed.kernel @logits_of_a_span select element(bf16) head_dim(64) group(32) {
  %m = shed.mass_init : !shed.mass
  %r = shed.logit_mass %m
  %n = shed.mass_init : !shed.mass
  %s = shed.for_queries span init(%n) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse span
    %t = shed.for_keys over #shed.span init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %p = shed.column_mass %c, %x, %l, %keys
      shed.yield %p : !shed.mass
    }
    shed.yield %t : !shed.mass
  }
  // expected-error@+1 {{chooses by mean logits, of which the second span has none of its own: drop `span`}}
  shed.top_k %r span %s blocks
}

// -----

shed.kernel @logits_of_what_is_there select element(bf16) head_dim(64) group(32) {
  %m = shed.mass_init : !shed.mass
  %r = shed.for_queries init(%m) : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, bf16>
    %l = shed.load_lse
    %s = shed.for_keys over #shed.all init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
  // expected-error@+1 {{begins with a mass that is not zero; it takes one of its own from shed.mass_init}}
  %t = shed.logit_mass %r
  shed.top_k %t
}
