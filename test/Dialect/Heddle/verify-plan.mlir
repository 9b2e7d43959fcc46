// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-plan --split-input-file --verify-diagnostics

heddle.plan @N6 {
  // expected-note@+1 {{the other one is here}}
  heddle.kernel @a attention [window(64)]
  // expected-error@+1 {{is like another one but for its name; one is enough}}
  heddle.kernel @b attention [window(64)]
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @a
    }
  }
  heddle.rule layers(0) {
    heddle.phase otherwise {
      heddle.attend_with @b
    }
  }
}

// -----

heddle.plan @N7 {
  heddle.kernel @a attention [window(64)]
  // expected-error@+1 {{'heddle.kernel' op is used by no phase}}
  heddle.kernel @b attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @a
    }
  }
}

// -----

heddle.plan @N7 {
  // expected-error@+1 {{'heddle.selection' op is used by no kernel}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(1)
  heddle.kernel @a attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @a
    }
  }
}

// -----

heddle.plan @N8_no_lse {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(4)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @dense attention dense
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase on every(4) {
      heddle.attend_with @dense
      // expected-error@+1 {{must follow dense attention that writes the log-sum-exp}}
      heddle.refresh @s with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
}

// -----

heddle.plan @N8_sparse {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(4)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @near attention [window(64)] writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase on every(4) {
      heddle.attend_with @near
      // expected-error@+1 {{must follow dense attention that writes the log-sum-exp}}
      heddle.refresh @s with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
}

// -----

// N9: nothing refreshes the selection.
heddle.plan @N9_never_written {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(4)
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.rule default {
    // expected-error@+1 {{reads a selection that neither its rule refreshes nor one whose layers come before}}
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
}

// -----

// N9: another phase may take step 1 away.
heddle.plan @N9_stolen {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(4)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase on first(2) {
      heddle.attend_with @dense
    }
    heddle.phase on every(4) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    // expected-error@+1 {{reads a selection that the phases before it do not refresh}}
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
}

// -----

// N9: the step of the first write may be 2 or later.
heddle.plan @N9_too_early {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on at(0.2)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase on at(0.2) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    heddle.phase before at(0.1) {
      heddle.attend_with @dense
    }
    // expected-error@+1 {{may read a selection before it is first written}}
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
}

// -----

// N9: dense until a step that is certainly not before the first write.
heddle.plan @N9_fine {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on random(window = 0.3, count = 4, seed = 1)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase on random(window = 0.3, count = 4, seed = 1) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    heddle.phase before at(3/10) {
      heddle.attend_with @dense
    }
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
}

// -----

// N9: layer 0 comes before those that write.
heddle.plan @N9_other_layers {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(4)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase on every(4) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
  heddle.rule layers(0) {
    // expected-error@+1 {{reads a selection that neither its rule refreshes nor one whose layers come before}}
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
}

// -----

heddle.plan @N10 {
  heddle.kernel @a attention [window(64)]
  // expected-error@+1 {{must end with a phase `otherwise`, so that every step has a phase}}
  heddle.rule default {
    heddle.phase on every(2) {
      heddle.attend_with @a
    }
  }
}

// -----

heddle.plan @N10 {
  heddle.kernel @a attention [window(64)]
  heddle.rule default {
    // expected-error@+1 {{takes every step, so that the phases after it never run}}
    heddle.phase otherwise {
      heddle.attend_with @a
    }
    heddle.phase otherwise {
      heddle.attend_with @a
    }
  }
}

// -----

heddle.plan @N9 {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on at(step = 1)
  heddle.kernel @d attention dense writes_lse
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{reads a selection that the phases before it do not refresh in every step of the selection's cadence}}
    heddle.phase on at(step = 5) {
      heddle.score_with @d
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
    heddle.phase otherwise {
      heddle.attend_with @d
    }
  }
}

// -----

heddle.plan @N9 {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on at(step = 5)
  heddle.kernel @d attention dense writes_lse
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.rule default {
    heddle.phase on at(step = 5) {
      heddle.attend_with @d
    }
    heddle.phase before at(step = 5) {
      heddle.attend_with @d
    }
    // expected-error@+1 {{reads a selection that the phases before it do not refresh in every step of the selection's cadence}}
    heddle.phase otherwise {
      heddle.score_with @d
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N9 {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on every(7)
  heddle.kernel @d attention dense writes_lse
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.rule default {
    heddle.phase before at(step = 5) {
      heddle.attend_with @d
    }
    // expected-error@+1 {{reads a selection that the phases before it do not refresh in every step of the selection's cadence}}
    heddle.phase otherwise {
      heddle.score_with @d
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
  }
}

// -----

// A phase that refreshes first may read from its first step on.

heddle.plan @at_once {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on every(1)
  heddle.kernel @d attention dense writes_lse
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.rule default {
    heddle.phase before at(step = 5) {
      heddle.attend_with @d
    }
    heddle.phase otherwise {
      heddle.score_with @d
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N8 {
  heddle.selection @a blocks(keep = 0.2, size = 32) by mean_probability isolating(filtered) on every(1)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @d attention dense writes_lse
  heddle.kernel @k attention [blocks(@a, size = 32)]
  heddle.kernel @s select(blocks = 32) by mean_probability
  heddle.rule default {
    heddle.phase on every(1) {
      heddle.attend_with @d
      // expected-error@+1 {{needs, to be scored by, of the phase's kernel: attention scaled_by(head_dim) of response; found none}}
      heddle.refresh @a with @s
    }
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N8 {
  heddle.selection @a blocks(keep = 0.2, size = 32) by mean_probability isolating(filtered) scaled_by(heads) on every(1)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @d attention dense writes_lse
  heddle.kernel @k attention [blocks(@a, size = 32)]
  heddle.kernel @s select(blocks = 32) by mean_probability
  heddle.rule default {
    heddle.phase on every(1) {
      heddle.attend_with @d
      heddle.score_with @d of response
      // expected-error@+1 {{attention scaled_by(heads), attention scaled_by(heads) of response; found attention scaled_by(head_dim) of response}}
      heddle.refresh @a with @s
    }
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N8 {
  heddle.selection @a blocks(keep = 0.2, size = 32) by mean_probability isolating(filtered) on every(1)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @d attention dense writes_lse
  heddle.kernel @w attention [window(64)] writes_lse
  heddle.kernel @k attention [blocks(@a, size = 32)]
  heddle.kernel @s select(blocks = 32) by mean_probability
  heddle.rule default {
    heddle.phase on every(1) {
      heddle.attend_with @d
      heddle.score_with @w of response
      // expected-error@+1 {{of response; found attention scaled_by(head_dim) of response of another kernel}}
      heddle.refresh @a with @s
    }
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N8 {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on every(1)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @w attention [window(64)]
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.rule default {
    heddle.phase otherwise {
      heddle.score_with @w
      // expected-error@+1 {{must follow dense attention that writes the log-sum-exp}}
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
  }
}

// -----

// expected-error@+1 {{expected a heddle.plan, found none}}
module {}

// -----

// expected-error@+1 {{does not belong at the plan level; a module holds heddle.plan ops}}
heddle.schedule @s {
  attend dense
}

// -----

// Layers after it read what layer 0 refreshes, and dense ones refresh too.
heddle.plan @N9_of_others {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on at(0.2)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase before at(0.2) {
      heddle.attend_with @dense
    }
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
  heddle.rule layers(0) {
    heddle.phase on at(0.2) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @dense
    }
  }
}

// -----

// N6: selections that are alike but for the layers that refresh them are two.
heddle.plan @N6_of_other_layers {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(4)
  heddle.selection @r columns(keep = 0.2, group = 64) by mean_probability on every(4)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64), columns(@r, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
  heddle.rule layers(0) {
    heddle.phase on every(4) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
      heddle.refresh @r with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @dense
    }
  }
  heddle.rule layers(4) {
    heddle.phase on every(4) {
      heddle.attend_with @dense
      heddle.refresh @r with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @dense
    }
  }
}

// -----

heddle.plan @N9_of_later_layers {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(4)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{reads a selection that neither its rule refreshes nor one whose layers come before}}
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
  heddle.rule layers(1) {
    heddle.phase on every(4) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @dense
    }
  }
}

// -----

heddle.plan @N9_before_others {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on at(0.2)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase before at(0.1) {
      heddle.attend_with @dense
    }
    // expected-error@+1 {{may read a selection before the rule that refreshes it first does; it must come after a phase that is `before` that}}
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
  // expected-note@+1 {{the rule is here}}
  heddle.rule layers(0) {
    heddle.phase on at(0.2) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @dense
    }
  }
}

// -----

// Some of its steps another phase takes.
heddle.plan @N9_seldom {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(4)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{reads a selection of a rule that does not refresh it in every step of its cadence}}
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
  // expected-note@+1 {{the rule is here}}
  heddle.rule layers(0) {
    heddle.phase on first(2) {
      heddle.attend_with @dense
    }
    heddle.phase on every(4) {
      heddle.attend_with @dense
      heddle.refresh @s with @pick
    }
    heddle.phase otherwise {
      heddle.attend_with @dense
    }
  }
}

// -----

// A rule that refreshes before it attends does from when it no longer waits.
heddle.plan @N9_of_others_at_once {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(1)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase before at(0.2) {
      heddle.attend_with @dense
    }
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
  heddle.rule layers(0) {
    heddle.phase before at(0.2) {
      heddle.attend_with @dense
    }
    heddle.phase otherwise {
      heddle.score_with @dense
      heddle.refresh @s with @pick
      heddle.attend_with @cols
    }
  }
}

// -----

heddle.plan @N9_of_others_at_once {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on every(1)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    // expected-error@+1 {{may read a selection before the rule that refreshes it first does}}
    heddle.phase otherwise {
      heddle.attend_with @cols
    }
  }
  // expected-note@+1 {{the rule is here}}
  heddle.rule layers(0) {
    heddle.phase before at(0.2) {
      heddle.attend_with @dense
    }
    heddle.phase otherwise {
      heddle.score_with @dense
      heddle.refresh @s with @pick
      heddle.attend_with @cols
    }
  }
}

// -----

// Stages that refresh before they attend: the second one reads what the first
// has refreshed.
heddle.plan @N9_stages {
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on at(0.2)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @near attention [window(8)]
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase before at(0.3) {
      heddle.score_with @dense
      heddle.refresh @s with @pick
      heddle.attend_with @near
    }
    heddle.phase otherwise {
      heddle.score_with @dense
      heddle.refresh @s with @pick
      heddle.attend_with @cols
    }
  }
}

// -----

heddle.plan @N9_stages {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on at(0.4)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @near attention [window(8)]
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase before at(0.3) {
      heddle.score_with @dense
      heddle.refresh @s with @pick
      heddle.attend_with @near
    }
    // expected-error@+1 {{reads a selection that the phases before it do not refresh in every step of the selection's cadence}}
    heddle.phase otherwise {
      heddle.score_with @dense
      heddle.refresh @s with @pick
      heddle.attend_with @cols
    }
  }
}

// -----

// The last phase, which may run before another block's first, does not refresh.
heddle.plan @N9_stages {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @s columns(keep = 0.2, group = 64) by mean_probability on at(0.3)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @near attention [window(8)]
  heddle.kernel @cols attention [columns(@s, group = 64)]
  heddle.kernel @pick select(group = 64) by mean_probability
  heddle.rule default {
    heddle.phase before at(0.3) {
      heddle.attend_with @near
    }
    // expected-error@+1 {{reads a selection that the phases before it do not refresh}}
    heddle.phase before at(0.5) in block {
      heddle.score_with @dense
      heddle.refresh @s with @pick
      heddle.attend_with @cols
    }
    heddle.phase otherwise {
      heddle.attend_with @near
    }
  }
}

// -----

heddle.plan @P20 {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @chunks blocks(keep = 4, size = 128) by mean_probability on every(8)
  heddle.selection @fine columns(keep = 0.25, group = 32) by mean_probability within @chunks on every(8)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @select select(group = 32) by mean_probability within blocks(size = 128)
  heddle.kernel @read attention [columns(@fine, group = 32)]
  heddle.rule default {
    heddle.phase on every(8) {
      heddle.attend_with @dense
      // expected-error@+1 {{chooses within a selection that its rule does not refresh}}
      heddle.refresh @fine with @select
    }
    heddle.phase otherwise {
      heddle.attend_with @read
    }
  }
}

// -----

heddle.plan @P20 {
  // expected-note@+1 {{the selection is here}}
  heddle.selection @chunks blocks(keep = 4, size = 128) by mean_probability on every(8)
  heddle.selection @fine columns(keep = 0.25, group = 32) by mean_probability within @chunks on every(8)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @select_tiles select(blocks = 128) by mean_probability
  heddle.kernel @select select(group = 32) by mean_probability within blocks(size = 128)
  heddle.kernel @read attention [columns(@fine, group = 32)]
  heddle.rule default {
    heddle.phase on every(8) {
      heddle.attend_with @dense
      // expected-error@+1 {{must come behind the refresh of the selection that it chooses within}}
      heddle.refresh @fine with @select
      heddle.refresh @chunks with @select_tiles
    }
    heddle.phase otherwise {
      heddle.attend_with @read
    }
  }
}

// -----

heddle.plan @P20 {
  heddle.selection @chunks blocks(keep = 4, size = 128) by mean_probability on every(2)
  // expected-error@+1 {{is refreshed on every(8), which may lack steps of every(2), on which the selection that it chooses within is refreshed}}
  heddle.selection @fine columns(keep = 0.25, group = 32) by mean_probability within @chunks on every(8)
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @select_tiles select(blocks = 128) by mean_probability
  heddle.kernel @select select(group = 32) by mean_probability within blocks(size = 128)
  heddle.kernel @read attention [columns(@fine, group = 32)]
  heddle.rule default {
    heddle.phase on every(2) {
      heddle.attend_with @dense
      heddle.refresh @chunks with @select_tiles
      heddle.refresh @fine with @select
    }
    heddle.phase on every(8) {
      heddle.attend_with @dense
      heddle.refresh @fine with @select
    }
    heddle.phase otherwise {
      heddle.attend_with @read
    }
  }
}

// -----

// What goes by logits needs no attention before it.

heddle.plan @by_logits {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_logit on every(1)
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.kernel @s select(group = 32) by mean_logit
  heddle.rule default {
    heddle.phase otherwise {
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N8 {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on every(1)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.kernel @s select(group = 32) by mean_probability
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{must follow dense attention that writes the log-sum-exp}}
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N5 {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_logit on every(1)
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.kernel @s select(group = 32) by mean_logit
  heddle.rule default {
    heddle.phase otherwise {
      heddle.refresh @a with @s
      // expected-error@+1 {{is the phase's second of one selection}}
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
  }
}

// -----

// Nor is it scored by any: neither by one of the phase's nor by its own.

heddle.plan @N8 {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_logit on every(1)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.kernel @s select(group = 32) by mean_logit
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{scores for refreshes of which none reads log-sum-exps}}
      heddle.score_with @dense
      heddle.refresh @a with @s
      heddle.attend_with @k
    }
  }
}

// -----

heddle.plan @N8 {
  heddle.selection @a columns(keep = 0.2, group = 32) by mean_logit on every(1)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @dense attention dense writes_lse
  heddle.kernel @s select(group = 32) by mean_logit
  heddle.kernel @k attention [columns(@a, group = 32)]
  heddle.rule default {
    heddle.phase on every(1) {
      heddle.attend_with @dense
      heddle.score_with @dense scaled_by(heads)
      // expected-error@+1 {{needs, to be scored by, of the phase's kernel: none; found attention scaled_by(heads)}}
      heddle.refresh @a with @s
    }
    heddle.phase otherwise {
      heddle.attend_with @k
    }
  }
}

