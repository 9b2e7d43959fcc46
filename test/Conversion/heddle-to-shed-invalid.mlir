// REQUIRES: heddle-opt
// Kernels that heddle-verify-plan refuses have no code, also where it did not run.
// RUN: heddle-opt %s --split-input-file --convert-heddle-to-shed --verify-diagnostics

heddle.plan @different_bounds {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on every(1)
  heddle.selection @b columns(keep = 0.2, group = 32) by mean_probability on every(2)
  // expected-error@+1 {{reads "a" and "b" within different sets, and of what one has kept of a row the other can't know}}
  heddle.kernel @k attention [columns(@a, group = 32) within window(8), columns(@b, group = 32) within sinks(2)]
  heddle.rule default { heddle.phase otherwise { heddle.attend_with @k } }
}

// -----

heddle.plan @other_kind {
  heddle.selection @tiles blocks(keep = 0.2, size = 32) by mean_probability on every(1)
  // expected-error@+1 {{reads "tiles" as columns, it is of blocks}}
  heddle.kernel @k attention [columns(@tiles, group = 32)]
  heddle.rule default { heddle.phase otherwise { heddle.attend_with @k } }
}

// -----

heddle.plan @select_with_terms {
  heddle.kernel @dense attention [] writes_lse
  // expected-error@+1 {{selects, which has no terms and writes no log-sum-exp, found window(64)}}
  "heddle.kernel"() <{sym_name = "pick", form = #heddle.kernel_form<select(group = 64) by mean_probability>, terms = [#heddle.term<window(64)>]}> ({}) : () -> ()
  heddle.rule default { heddle.phase otherwise { heddle.attend_with @dense } }
}

// -----

heddle.plan @two_sharings {
  heddle.kernel @dense attention [] writes_lse
  // expected-error@+1 {{has a list for each key/value head and one for the layer; drop per_kv_head or per_layer}}
  heddle.kernel @pick select(group = 32, per_kv_head, per_layer) by mean_probability
  heddle.rule default { heddle.phase otherwise { heddle.attend_with @dense } }
}

// -----

heddle.plan @within_smaller_groups {
  heddle.kernel @dense attention [] writes_lse
  // expected-error@+1 {{selects for groups that are no parts of those that it chooses within, found groups of 64 within 32}}
  heddle.kernel @pick select(group = 64) by mean_probability within columns(group = 32)
  heddle.rule default { heddle.phase otherwise { heddle.attend_with @dense } }
}

// -----

// The scores of a sum of queries would be left out without a word.
heddle.plan @scores_of_logits {
  heddle.kernel @dense attention [] writes_lse
  // expected-error@+1 {{selects by mean_logit, which takes no function of logits}}
  heddle.kernel @pick select(group = 32) by mean_logit scores(%logit) {
    %half = arith.constant 0.5 : f32
    %s = arith.mulf %logit, %half : f32
    heddle.yield %s
  }
  heddle.rule default { heddle.phase otherwise { heddle.attend_with @dense } }
}
