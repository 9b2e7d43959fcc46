// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-plan-steps="targets=sm_90a" --heddle-verify-plan | FileCheck %s
// RUN: echo '{"dense_above": [{"target": "sm_90a", "lists": "columns", "group": 32, "percent": 60}]}' > %t.json
// RUN: heddle-opt %s --heddle-plan-steps="targets=sm_90a crossovers=%t.json" --heddle-verify-plan | FileCheck %s --check-prefix=OTHER
// RUN: heddle-opt %s --heddle-plan-steps="targets=sm_90a,sm_80" --heddle-verify-plan | FileCheck %s --check-prefix=UNKNOWN
// RUN: heddle-opt %s --heddle-plan-steps --heddle-verify-plan | FileCheck %s --check-prefix=UNKNOWN
// RUN: not heddle-opt %s --heddle-plan-steps="targets=sm_90a crossovers=%t.none" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not heddle-opt %s --heddle-plan-steps="targets=sm_90a crossovers=/dev/zero" 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not heddle-opt %s --heddle-plan-steps="crossovers=%t.json" 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: echo '{"dense_above": [{}]}' > %t.wrong.json
// RUN: not heddle-opt %s --heddle-plan-steps="targets=sm_90a crossovers=%t.wrong.json" 2>&1 | FileCheck %s --check-prefix=WRONG
// MISSING: heddle-plan-steps: {{.*}}.none: cannot open
// DEVICE: heddle-plan-steps: /dev/zero: {{.*}}
// NOWHERE: heddle-plan-steps: a table of crossovers is for machines; name them, as targets=sm_90a
// WRONG: heddle-plan-steps: {{.*}}wrong.json: a table of crossovers: dense_above[0]: the field "target" is missing

// By another table nothing keeps too much, and on another machine nobody knows.
// OTHER-NOT: heddle.fallback "cols" columns(keep = 0.5, group = 32)
// UNKNOWN-NOT: heddle.fallback

// All that a selection needs is gone with it.
// CHECK-LABEL: heddle.plan @one {
// CHECK-NEXT: heddle.fallback "cols" columns(keep = 0.5, group = 32) by mean_probability dense_above 0.36
// CHECK-NEXT: heddle.kernel @attention_dense attention dense
// CHECK-NEXT: heddle.rule default {
// CHECK-NEXT:   heddle.phase otherwise {
// CHECK-NEXT:     heddle.attend_with @attention_dense
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: }
heddle.schedule @one {
  %refresh = cadence uniform(window = 0.3, count = 16)
  %cols = select columns(keep = 0.5, group = 32) by mean_probability on %refresh
  attend pairs(%cols)
}

// As many keys for more rows gain, and so does the very share of the table.
// CHECK-LABEL: heddle.plan @more_rows {
// CHECK-NOT: heddle.fallback
// CHECK: attend_with @attention_cols
heddle.schedule @more_rows {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.71, group = 64) by mean_probability on %refresh
  attend pairs(%cols)
}

// A union has the list's keys and others.
// CHECK-LABEL: heddle.plan @with_others {
// CHECK-NEXT: heddle.fallback "tiles" blocks(keep = 0.84, size = 128) by mean_probability isolating(spans) dense_above 0.83
// CHECK-NEXT: heddle.kernel @attention_dense attention dense
// CHECK-NOT: attention_tiles
heddle.schedule @with_others {
  %once = cadence at(0.2)
  %tiles = select blocks(keep = 0.84, size = 128) by mean_probability isolating(spans) on %once
  %near = window(64)
  %both = union %tiles, %near
  attend dense until(%once) then pairs(%both)
}

// Of stages each is by itself; refreshes of the others stay, at their own steps.
// CHECK-LABEL: heddle.plan @stages {
// CHECK: heddle.fallback "many"
// CHECK: heddle.selection @few
// CHECK-NOT: attention_many
// CHECK: heddle.rule default {
// CHECK-NEXT:   heddle.phase on every(4) {
// CHECK-NEXT:     heddle.attend_with @attention_dense_lse
// CHECK-NEXT:     heddle.refresh @few with @select_32
// CHECK-NEXT:   }
// CHECK-NEXT:   heddle.phase before at(0.5) {
// CHECK-NEXT:     heddle.attend_with @attention_dense_lse
// CHECK-NEXT:   }
// CHECK-NEXT:   heddle.phase otherwise {
// CHECK-NEXT:     heddle.attend_with @attention_few
// CHECK-NEXT:   }
// CHECK-NEXT: }
heddle.schedule @stages {
  %often = cadence every(3)
  %seldom = cadence every(4)
  %half = cadence at(0.5)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %often
  %few = select columns(keep = 0.1, group = 32) by mean_probability on %seldom
  attend pairs(%many) until(%half) then pairs(%few)
}

// What others choose within is refreshed for them.
// CHECK-LABEL: heddle.plan @outer {
// CHECK: heddle.fallback "some"
// CHECK-DAG: heddle.selection @some
// CHECK-DAG: heddle.selection @fine {{.*}} within @some
// CHECK: heddle.phase on every(8) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK-NEXT:   heddle.refresh @some with @select_64
// CHECK-NEXT:   heddle.refresh @fine with @select_32_within_columns64
// CHECK: heddle.phase before at(0.5) {
// CHECK-NEXT:   heddle.attend_with @attention_dense_lse
// CHECK: heddle.phase otherwise {
// CHECK-NEXT:   heddle.attend_with @attention_fine
heddle.schedule @outer {
  %refresh = cadence every(8)
  %half = cadence at(0.5)
  %some = select columns(keep = 0.8, group = 64) by mean_probability on %refresh
  %fine = select columns(keep = 0.9, group = 32) by mean_probability within %some on %refresh
  attend pairs(%some) until(%half) then pairs(%fine)
}

// Layers that were told apart by their refreshes do what all do.
// CHECK-LABEL: heddle.plan @layers {
// CHECK: heddle.fallback "cols"
// CHECK: heddle.rule default {
// CHECK-NOT: heddle.rule
// CHECK: heddle.plan @first
heddle.schedule @layers {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.5, group = 32) by mean_probability on %refresh in layers(0, 8)
  attend pairs(%cols)
}

// With at_once as without.
// CHECK: heddle.fallback "cols"
// CHECK-NEXT: heddle.kernel @attention_dense attention dense
// CHECK-NEXT: heddle.rule default {
// CHECK-NEXT:   heddle.phase otherwise {
// CHECK-NEXT:     heddle.attend_with @attention_dense
// CHECK-NEXT:   }
// CHECK-NEXT: }
heddle.schedule @first {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.5, group = 32) by mean_probability on %refresh
  attend pairs(%cols) at_once
}

// At once, dense attention would refresh nothing for the stages after it.
// CHECK-LABEL: heddle.plan @staged {
// CHECK-NOT: heddle.fallback
// CHECK: attend_with @attention_many
heddle.schedule @staged {
  %refresh = cadence every(8)
  %half = cadence at(0.5)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %refresh
  %few = select columns(keep = 0.1, group = 32) by mean_logit on %refresh
  attend pairs(%many) until(%half) then pairs(%few) at_once
}

// Behind a stage that chooses nothing it may be.
// CHECK-LABEL: heddle.plan @last {
// CHECK-NEXT: heddle.fallback "cols"
// CHECK-NEXT: heddle.kernel @attention_window64
// CHECK-NEXT: heddle.kernel @attention_dense attention dense{{$}}
// CHECK-NEXT: heddle.rule default {
// CHECK-NEXT:   heddle.phase before at(0.5) {
// CHECK-NEXT:     heddle.attend_with @attention_window64
// CHECK-NEXT:   }
// CHECK-NEXT:   heddle.phase otherwise {
// CHECK-NEXT:     heddle.attend_with @attention_dense
// CHECK-NEXT:   }
heddle.schedule @last {
  %refresh = cadence every(8)
  %half = cadence at(0.5)
  %near = window(64)
  %cols = select columns(keep = 0.5, group = 32) by mean_probability on %refresh
  attend pairs(%near) until(%half) then pairs(%cols) at_once
}

// One by logits falls back as well.
// CHECK-LABEL: heddle.plan @by_logits {
// CHECK-NEXT: heddle.fallback "cols" columns(keep = 0.5, group = 32) by mean_logit dense_above 0.36
// CHECK-NEXT: heddle.kernel @attention_dense attention dense{{$}}
// CHECK-NEXT: heddle.rule default {
// CHECK-NEXT:   heddle.phase otherwise {
// CHECK-NEXT:     heddle.attend_with @attention_dense
heddle.schedule @by_logits {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.5, group = 32) by mean_logit on %refresh
  attend pairs(%cols) at_once
}

// What is not known in every run, or was not measured, stays.
// CHECK-LABEL: heddle.plan @number {
// CHECK-NOT: heddle.fallback
heddle.schedule @number {
  %refresh = cadence every(8)
  %cols = select columns(keep = 4096, group = 32) by mean_probability on %refresh
  attend pairs(%cols)
}

// CHECK-LABEL: heddle.plan @filtered {
// CHECK-NOT: heddle.fallback
heddle.schedule @filtered {
  %once = cadence at(0.2)
  %tiles = select blocks(keep = 0.9, size = 32) by mean_probability isolating(filtered) on %once
  attend dense until(%once) then pairs(%tiles)
}

// CHECK-LABEL: heddle.plan @within_a_window {
// CHECK-NOT: heddle.fallback
heddle.schedule @within_a_window {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.5, group = 32) by mean_probability on %refresh
  %near = window(64)
  %both = intersect %cols, %near
  attend pairs(%both)
}

// Not in some layers either, where it is within a window in others.
// CHECK-LABEL: heddle.plan @within_a_window_of_few_layers {
// CHECK-NOT: heddle.fallback
heddle.schedule @within_a_window_of_few_layers {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.5, group = 32) by mean_probability on %refresh
  %near = window(64)
  %both = intersect %cols, %near
  attend pairs(%both) in layers(0)
  attend pairs(%cols)
}

// CHECK-LABEL: heddle.plan @shared {
// CHECK-NOT: heddle.fallback
heddle.schedule @shared {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.9, group = 32, per_kv_head) by mean_probability on %refresh
  attend pairs(%cols)
}

// CHECK-LABEL: heddle.plan @scored {
// CHECK-NOT: heddle.fallback
heddle.schedule @scored {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.9, group = 32) by mean_probability on %refresh
  attend pairs(%cols) scores(%logit) {
    %twice = arith.addf %logit, %logit : f32
    yield %twice
  }
}

// CHECK-LABEL: heddle.plan @some_rows {
// CHECK-NOT: heddle.fallback
heddle.schedule @some_rows {
  %refresh = cadence every(8)
  %start = cadence first(1) in block
  %block = positions block
  %cols = select columns(keep = 0.9, group = 32) by mean_probability on %refresh
  reuse kv
  recompute all on %start
  recompute %block
  attend pairs(%cols)
}

// CHECK-LABEL: heddle.plan @small_groups {
// CHECK-NOT: heddle.fallback
heddle.schedule @small_groups {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.9, group = 16) by mean_probability on %refresh
  attend pairs(%cols)
}

// Signals follow what is left: none where no step is a cadence's by drift any
// more, else by the attention that there is.
// CHECK-LABEL: heddle.plan @by_drift {
// CHECK-NEXT: heddle.fallback "cols"
// CHECK-NEXT: heddle.kernel @attention_dense attention dense
// CHECK-NEXT: heddle.rule default {
// CHECK-NEXT:   heddle.phase otherwise {
// CHECK-NEXT:     heddle.attend_with @attention_dense
// CHECK-NEXT:   }
heddle.schedule @by_drift {
  %far = cadence drift(below = 0.9, within = 64)
  %cols = select columns(keep = 0.5, group = 32) by mean_probability on %far
  attend pairs(%cols)
}

// CHECK-LABEL: heddle.plan @by_drift_of_others {
// CHECK-NEXT: heddle.fallback "many"
// CHECK-NOT: attention_many
// CHECK: heddle.phase before at(0.5) {
// CHECK-NEXT: heddle.attend_with @attention_dense_lse
// CHECK-NEXT: heddle.measure drift(attention, below = 0.9, within = 64) with @attention_dense_lse
// CHECK: heddle.attend_with @attention_few
// CHECK-NEXT: heddle.measure drift(attention, below = 0.9, within = 64) with @attention_few
heddle.schedule @by_drift_of_others {
  %half = cadence at(0.5)
  %often = cadence every(4)
  %far = cadence drift(attention, below = 0.9, within = 64)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %often
  %few = select columns(keep = 0.1, group = 64) by mean_probability on %far
  attend pairs(%many) until(%half) then pairs(%few)
}

// What stays for the stages before it falls back where these read no lists any more.
// CHECK-LABEL: heddle.plan @behind_one_that_falls {
// CHECK-NEXT: heddle.fallback "many"
// CHECK-NEXT: heddle.fallback "more"
// CHECK-NEXT: heddle.kernel @attention_dense attention dense
// CHECK-NOT: heddle.kernel
// CHECK: heddle.rule default {
heddle.schedule @behind_one_that_falls {
  %often = cadence every(4)
  %half = cadence at(0.5)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %often
  %more = select columns(keep = 0.4, group = 32) by mean_probability on %often
  %both = union %many, %more
  attend pairs(%many) until(%half) then pairs(%both) at_once in layers(0)
  attend pairs(%more)
}

// What is attended to beside a selection that falls back is read no more.
// CHECK-LABEL: heddle.plan @beside {
// CHECK-NEXT: heddle.fallback "many"
// CHECK-NEXT: heddle.kernel @attention_dense attention dense
// CHECK-NEXT: heddle.rule default {
// CHECK-NEXT:   heddle.phase otherwise {
// CHECK-NEXT:     heddle.attend_with @attention_dense
// CHECK-NEXT:   }
heddle.schedule @beside {
  %often = cadence every(4)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %often
  %few = select columns(keep = 0.1, group = 64) by mean_probability on %often
  %both = union %many, %few
  attend pairs(%both)
}

// Other layers attend to it still, and refresh it for themselves.
// CHECK-LABEL: heddle.plan @beside_in_some_layers {
// CHECK: heddle.rule default {
// CHECK-NEXT:   heddle.phase otherwise {
// CHECK-NEXT:     heddle.attend_with @attention_dense_lse
// CHECK-NEXT:   }
// CHECK: heddle.rule layers(0) {
// CHECK: heddle.refresh @few
heddle.schedule @beside_in_some_layers {
  %often = cadence every(8)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %often
  %few = select columns(keep = 0.1, group = 32) by mean_probability on %often
  %both = union %many, %few
  attend pairs(%few) at_once in layers(0)
  attend pairs(%both) at_once
}
