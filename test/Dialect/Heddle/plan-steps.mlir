// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-plan-steps --heddle-verify-plan | FileCheck %s
// The same from canonical form.
// RUN: heddle-opt %s --canonicalize --cse --heddle-plan-steps --heddle-verify-plan | FileCheck %s

// CHECK-LABEL: heddle.plan @dense {
// CHECK-NEXT:    heddle.kernel @attention_dense attention dense{{$}}
// CHECK-NEXT:    heddle.rule default {
// CHECK-NEXT:      heddle.phase otherwise {
// CHECK-NEXT:        heddle.attend_with @attention_dense{{$}}
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:  }
heddle.schedule @dense {
  attend dense
}

// CHECK-LABEL: heddle.plan @columns {
// CHECK-NEXT:    heddle.selection @cols columns(keep = 0.2, group = 128) by mean_probability on uniform(window = 0.3, count = 16){{$}}
// CHECK-NEXT:    heddle.kernel @attention_dense_lse attention dense writes_lse{{$}}
// CHECK-NEXT:    heddle.kernel @select_128 select(group = 128) by mean_probability{{$}}
// CHECK-NEXT:    heddle.kernel @attention_cols attention [columns(@cols, group = 128)]{{$}}
// CHECK-NEXT:    heddle.rule default {
// CHECK-NEXT:      heddle.phase on uniform(window = 0.3, count = 16) {
// CHECK-NEXT:        heddle.attend_with @attention_dense_lse
// CHECK-NEXT:        heddle.refresh @cols with @select_128
// CHECK-NEXT:      }
// CHECK-NEXT:      heddle.phase otherwise {
// CHECK-NEXT:        heddle.attend_with @attention_cols
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:  }
heddle.schedule @columns {
  %refresh = cadence uniform(window = 0.3, count = 16)
  %cols = select columns(keep = 20 percent, group = 128) by mean_probability on %refresh
  attend pairs(%cols)
}

// Dense until the selection is first made: also with the kernel that writes
// the log-sum-exp, so that there is one dense kernel.
// CHECK-LABEL: heddle.plan @until {
// CHECK:         heddle.rule default {
// CHECK-NEXT:      heddle.phase on at(0.2) {
// CHECK-NEXT:        heddle.attend_with @attention_dense_lse
// CHECK-NEXT:        heddle.refresh @cols with @select_32
// CHECK-NEXT:      }
// CHECK-NEXT:      heddle.phase before at(0.2) {
// CHECK-NEXT:        heddle.attend_with @attention_dense_lse
// CHECK-NEXT:      }
// CHECK-NEXT:      heddle.phase otherwise {
// CHECK-NEXT:        heddle.attend_with @attention_cols
heddle.schedule @until {
  %once = cadence at(0.2)
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %once
  attend dense until(%once) then pairs(%cols)
}

// Dense for longer than the selection needs.
// CHECK-LABEL: heddle.plan @until_later {
// CHECK:           heddle.phase on every(4) {
// CHECK:           heddle.phase before at(0.5) {
// CHECK-NEXT:        heddle.attend_with @attention_dense_lse
// CHECK:           heddle.phase otherwise {
heddle.schedule @until_later {
  %often = cadence every(4)
  %half = cadence at(0.5)
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %often
  attend dense until(%half) then pairs(%cols)
}

// Windows need no log-sum-exp, in any layer.
// CHECK-LABEL: heddle.plan @window_until {
// CHECK-NEXT:    heddle.kernel @attention_dense attention dense{{$}}
// CHECK-NEXT:    heddle.kernel @attention_window64_sinks4 attention [window(64), sinks(4)]{{$}}
// CHECK-NEXT:    heddle.rule default {
// CHECK-NEXT:      heddle.phase before at(step = 8) {
// CHECK-NEXT:        heddle.attend_with @attention_dense
// CHECK-NEXT:      }
// CHECK-NEXT:      heddle.phase otherwise {
// CHECK-NEXT:        heddle.attend_with @attention_window64_sinks4
heddle.schedule @window_until {
  %c = cadence at(step = 8)
  %w = window(64)
  %s = sinks(4)
  %p = union %s, %w, %s
  attend dense until(%c) then pairs(%p)
}

// A share of sinks beside a number of them: the runtime takes the larger.
// CHECK-LABEL: heddle.plan @shares {
// CHECK-NEXT:    heddle.kernel @attention_window64_sinks4_sinks1of10 attention [window(64), sinks(4), sinks(0.1)]{{$}}
// CHECK-NEXT:    heddle.kernel @attention_sinks1of1 attention [sinks(1/1)]{{$}}
heddle.schedule @shares {
  %w = window(64)
  %s = sinks(10 percent)
  %t = sinks(4)
  %p = union %s, %w, %t
  %all = sinks(1/1)
  attend pairs(%all) in layers(0)
  attend pairs(%p)
}

// Two selections of one group size share a select kernel; one that is not of
// the step's cadence is skipped at run time.
// CHECK-LABEL: heddle.plan @two_cadences {
// CHECK-NEXT:    heddle.selection @a columns(keep = 0.1, group = 64)
// CHECK-NEXT:    heddle.selection @b columns(keep = 0.2, group = 64)
// CHECK-NEXT:    heddle.selection @c columns(keep = 0.1, group = 32)
// CHECK-NEXT:    heddle.kernel @attention_dense_lse
// CHECK-NEXT:    heddle.kernel @select_64 select(group = 64)
// CHECK-NEXT:    heddle.kernel @select_32 select(group = 32)
// CHECK-NEXT:    heddle.kernel @attention_a_b_c attention [columns(@a, group = 64), columns(@b, group = 64), columns(@c, group = 32)]{{$}}
// CHECK-NEXT:    heddle.rule default {
// CHECK-NEXT:      heddle.phase on every(4) {
// CHECK-NEXT:        heddle.attend_with @attention_dense_lse
// CHECK-NEXT:        heddle.refresh @a with @select_64
// CHECK-NEXT:        heddle.refresh @b with @select_64
// CHECK-NEXT:        heddle.refresh @c with @select_32
// CHECK-NEXT:      }
// CHECK-NEXT:      heddle.phase on every(6) {
// CHECK-NEXT:        heddle.attend_with @attention_dense_lse
// CHECK-NEXT:        heddle.refresh @b with @select_64
// CHECK-NEXT:      }
// CHECK-NEXT:      heddle.phase otherwise {
heddle.schedule @two_cadences {
  %4 = cadence every(4)
  %6 = cadence every(6)
  %a = select columns(keep = 0.1, group = 64) by mean_probability on %4
  %b = select columns(keep = 0.2, group = 64) by mean_probability on %6
  %c = select columns(keep = 0.1, group = 32) by mean_probability on %4
  %p = union %a, %b, %c
  attend pairs(%p)
}

// Layers: the default rule comes first, and what is alike is one across rules.
// CHECK-LABEL: heddle.plan @layers {
// CHECK-NEXT:    heddle.selection @x columns(keep = 0.125, group = 128)
// CHECK-NEXT:    heddle.kernel @attention_dense_lse
// CHECK-NEXT:    heddle.kernel @select_128
// CHECK-NEXT:    heddle.kernel @attention_x attention [columns(@x, group = 128)]{{$}}
// CHECK-NEXT:    heddle.kernel @attention_x_window256 attention [columns(@x, group = 128), window(256)]{{$}}
// CHECK-NEXT:    heddle.rule default {
// CHECK:         heddle.rule layers(0 to 1) {
// CHECK-NEXT:      heddle.phase otherwise {
// CHECK-NEXT:        heddle.attend_with @attention_dense_lse
// CHECK:         heddle.rule layers(-1) {
// CHECK-NEXT:      heddle.phase on every(8) {
// CHECK-NEXT:        heddle.attend_with @attention_dense_lse
// CHECK-NEXT:        heddle.refresh @x with @select_128
// CHECK:           heddle.phase otherwise {
// CHECK-NEXT:        heddle.attend_with @attention_x_window256
heddle.schedule @layers {
  %c = cadence every(8)
  %x = select columns(keep = 1/8, group = 128) by mean_probability on %c
  %y = select columns(keep = 12.5 percent, group = 128) by mean_probability on %c
  %w = window(256)
  %p = union %w, %y
  attend dense in layers(0 to 1)
  attend pairs(%p) in layers(-1)
  attend pairs(%x)
}

// At once, a step refreshes before it attends, and not at all while it is dense.
// CHECK-LABEL: heddle.plan @at_once
// CHECK: heddle.rule default
// CHECK-NEXT: heddle.phase before at(0.2, plus = 1) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.score_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @a with @select_32
// CHECK-NEXT:   heddle.refresh @b with @select_64
// CHECK-NEXT:   heddle.attend_with @attention_a_b
// CHECK-NEXT: }
heddle.schedule @at_once {
  %always = cadence every(1)
  %skipped = cadence at(0.2, plus = 1)
  %a = select columns(keep = 0.2, group = 32) by mean_probability on %always
  %b = select columns(keep = 0.2, group = 64) by mean_probability on %always
  %u = union %a, %b
  attend dense until(%skipped) then pairs(%u) at_once
}

// A rule for each range of layers, with the same kernel.
// CHECK-LABEL: heddle.plan @ranges
// CHECK: heddle.rule default {
// CHECK: heddle.rule layers(0 to 1) {
// CHECK: attend_with @[[NEAR:attention_.+]]
// CHECK: heddle.rule layers(-1) {
// CHECK: attend_with @[[NEAR]]
heddle.schedule @ranges {
  %near = window(8)
  attend pairs(%near) in layers(0 to 1, -1)
  attend dense
}

// Layers that refresh a selection have rules of their own, cut out of those of
// their attends, and alone are dense at its steps. What the selection does not
// name reads it at all steps. Layer 2 refreshes what it does not read.
// CHECK-LABEL: heddle.plan @shared
// CHECK: heddle.rule default {
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_s
// CHECK: heddle.rule layers(0 to 1) {
// CHECK-NEXT: heddle.phase on every(4) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @s with @select_32
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_s
// CHECK: heddle.rule layers(6) {
// CHECK-NEXT: heddle.phase on every(4)
// CHECK: heddle.rule layers(-1) {
// CHECK-NEXT: heddle.phase on every(4)
// CHECK: heddle.rule layers(2) {
// CHECK-NEXT: heddle.phase on every(4) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @s with @select_32
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_window8
// CHECK: heddle.rule layers(3 to 4) {
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_window8
// CHECK-NEXT: }
// CHECK-NEXT: }
// CHECK-NEXT: heddle.rule layers(5) {
// CHECK-NEXT: heddle.phase on every(4) {
// CHECK: heddle.rule layers(-2) {
// CHECK-NEXT: heddle.phase on every(4) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @s with @select_32
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
heddle.schedule @shared {
  %c = cadence every(4)
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(0, 1 to 2, 5 to 6, -2 to -1)
  %near = window(8)
  attend pairs(%near) in layers(2 to 5)
  attend dense in layers(-2)
  attend pairs(%s)
}

// Selections that differ in their layers are two; where one is chosen, the other
// is read.
// CHECK-LABEL: heddle.plan @two_of_one_kind
// CHECK: heddle.selection @a columns(keep = 0.2, group = 32) by mean_probability on every(4)
// CHECK: heddle.selection @b columns(keep = 0.2, group = 32) by mean_probability on every(4)
// CHECK: heddle.rule default {
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_a_b
// CHECK: heddle.rule layers(0) {
// CHECK:   heddle.refresh @a with @select_32
// CHECK-NEXT:   heddle.refresh @b with @select_32
// CHECK-NEXT: }
// CHECK: heddle.rule layers(4) {
// CHECK-NEXT: heddle.phase on every(4) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @b with @select_32
// CHECK-NEXT: }
heddle.schedule @two_of_one_kind {
  %c = cadence every(4)
  %a = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(0)
  %b = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(0, 4)
  %u = union %a, %b
  attend pairs(%u)
}

// At once: layers that refresh nothing have nothing to score.
// CHECK-LABEL: heddle.plan @shared_at_once
// CHECK: heddle.rule default {
// CHECK-NEXT: heddle.phase before at(0.2) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_s
// CHECK-NEXT: }
// CHECK: heddle.rule layers(0) {
// CHECK-NEXT: heddle.phase before at(0.2) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.score_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @s with @select_32
// CHECK-NEXT:   heddle.attend_with @attention_s
heddle.schedule @shared_at_once {
  %c = cadence every(1)
  %late = cadence at(0.2)
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(0)
  attend dense until(%late) then pairs(%s) at_once
}

// Stages: pairs until a cadence, then others.
// CHECK-LABEL: heddle.plan @stages
// CHECK: heddle.rule default {
// CHECK-NEXT: heddle.phase on every(4) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @many with @select_32
// CHECK-NEXT:   heddle.refresh @few with @select_32
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase before at(0.2) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase before at(0.5) {
// CHECK-NEXT:   heddle.attend_with @attention_many
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_few
heddle.schedule @stages {
  %c = cadence every(4)
  %early = cadence at(0.2)
  %half = cadence at(0.5)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %c
  %few = select columns(keep = 0.1, group = 32) by mean_probability on %c
  attend dense until(%early) then pairs(%many) until(%half) then pairs(%few)
}

// At once, each stage that is not the first dense one refreshes before it
// attends.
// CHECK-LABEL: heddle.plan @stages_at_once
// CHECK: heddle.rule default {
// CHECK-NEXT: heddle.phase before at(0.5) {
// CHECK-NEXT:   heddle.score_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @many with @select_32
// CHECK-NEXT:   heddle.refresh @few with @select_32
// CHECK-NEXT:   heddle.attend_with @attention_many
// CHECK-NEXT: }
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.score_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @many with @select_32
// CHECK-NEXT:   heddle.refresh @few with @select_32
// CHECK-NEXT:   heddle.attend_with @attention_few
heddle.schedule @stages_at_once {
  %c = cadence every(4)
  %half = cadence at(0.5)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %c
  %few = select columns(keep = 0.1, group = 32) by mean_probability on %c
  attend pairs(%many) until(%half) then pairs(%few) at_once
}

// A stage that never comes reads and refreshes nothing.
// CHECK-LABEL: heddle.plan @no_stage
// CHECK-NOT: @many
// CHECK: heddle.rule default {
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_window8
heddle.schedule @no_stage {
  %c = cadence every(4)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %c
  %near = window(8)
  attend pairs(%many) until(%c) then pairs(%near)
}

// Symbols have an end: two kernels of many sets are told apart by a number.
// CHECK-LABEL: heddle.plan @many
// CHECK: heddle.kernel @[[FIRST:attention_window8_[a-z0-9_]{142}]] attention [
// CHECK: heddle.kernel @[[FIRST]]_1 attention [
heddle.schedule @many {
  %near = window(8)
  %r0 = random_blocks(one_in = 2, size = 64, seed = 100)
  %r1 = random_blocks(one_in = 3, size = 64, seed = 101)
  %r2 = random_blocks(one_in = 4, size = 64, seed = 102)
  %r3 = random_blocks(one_in = 5, size = 64, seed = 103)
  %r4 = random_blocks(one_in = 6, size = 64, seed = 104)
  %four = union %near, %r0, %r1, %r2, %r3
  %five = union %four, %r4
  attend pairs(%four) in layers(0)
  attend pairs(%five)
}

// Logits need no dense attention before, and none of a step: also not for its
// log-sum-exp, where a step chooses what it attends over.
// CHECK-LABEL: heddle.plan @by_logits {
// CHECK-NEXT: heddle.selection @s blocks(keep = 0.25, size = 64) by mean_logit on every(1)
// CHECK-NEXT: heddle.kernel @attention_s attention [blocks(@s, size = 64)]{{$}}
// CHECK-NEXT: heddle.kernel @select_blocks_64_by_mean_logit select(blocks = 64) by mean_logit{{$}}
// CHECK-NEXT: heddle.rule default {
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.refresh @s with @select_blocks_64_by_mean_logit
// CHECK-NEXT:   heddle.attend_with @attention_s
// CHECK-NEXT: }
heddle.schedule @by_logits {
  %c = cadence every(1)
  %s = select blocks(keep = 1/4, size = 64) by mean_logit on %c
  attend pairs(%s) at_once
}

// Without at_once such a step is dense as ever.
// CHECK-LABEL: heddle.plan @by_logits_after {
// CHECK: heddle.kernel @attention_dense attention dense{{$}}
// CHECK: heddle.phase on every(4) {
// CHECK-NEXT:   heddle.attend_with @attention_dense
// CHECK-NEXT:   heddle.refresh @s with @select_32_by_mean_logit
heddle.schedule @by_logits_after {
  %c = cadence every(4)
  %s = select columns(keep = 1/4, group = 32) by mean_logit on %c
  attend pairs(%s)
}

// Beside probabilities, which need it; functions of logits are theirs alone.
// CHECK-LABEL: heddle.plan @by_both {
// CHECK: heddle.kernel @select_32_scores select(group = 32) by mean_probability scores(
// CHECK: heddle.kernel @select_32_by_mean_logit select(group = 32) by mean_logit{{$}}
// CHECK: heddle.phase otherwise {
// CHECK-NEXT:   heddle.score_with @attention_dense_lse_scores
// CHECK-NEXT:   heddle.refresh @a with @select_32_scores
// CHECK-NEXT:   heddle.refresh @b with @select_32_by_mean_logit
// CHECK-NEXT:   heddle.attend_with @attention_a_b_scores
heddle.schedule @by_both {
  %c = cadence every(1)
  %a = select columns(keep = 1/4, group = 32) by mean_probability on %c
  %b = select columns(keep = 1/4, group = 32) by mean_logit on %c
  %u = union %a, %b
  attend pairs(%u) at_once scores(%logit) {
    %twice = arith.addf %logit, %logit : f32
    heddle.yield %twice
  }
}

// A shadow's rows have attention of their own, by the same scores, in each
// phase; what no step commits by makes none.
// CHECK-LABEL: heddle.plan @shadows {
// CHECK: heddle.commit best(2) on %{{[a-z0-9_]+}} revoke(below = 0.5, by = shadow)
// CHECK: heddle.kernel @attention_dense attention dense{{$}}
// CHECK: heddle.kernel @attention_others attention [others]{{$}}
// CHECK: heddle.kernel @attention_dense_scores attention dense scores(
// CHECK: heddle.kernel @attention_others_scores attention [others] scores(
// CHECK: heddle.rule default {
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_dense shadow @attention_others
// CHECK: heddle.rule layers(0) {
// CHECK-NEXT: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_dense_scores shadow @attention_others_scores
heddle.schedule @shadows {
  %c = cadence every(2)
  commit best(2) on %c revoke(below = 0.5, by = shadow)
  commit quota
  attend dense in layers(0) scores(%logit) {
    %twice = arith.addf %logit, %logit : f32
    heddle.yield %twice
  }
  attend dense
}

// CHECK-LABEL: heddle.plan @no_shadows {
// CHECK: heddle.attend_with @attention_dense{{$}}
heddle.schedule @no_shadows {
  %c = cadence never
  commit best(2) on %c revoke(below = 0.5, by = shadow)
  commit quota
  attend dense
}

// CHECK-LABEL: heddle.plan @others {
// CHECK: heddle.kernel @attention_window8_within_others attention [window(8) within others]
// CHECK: heddle.kernel @attention_window8_others attention [window(8), others]
heddle.schedule @others {
  %rest = others
  %near = window(8)
  %all = union %rest, %near
  %both = intersect %near, %rest
  attend pairs(%all) in layers(0)
  attend pairs(%both)
}
