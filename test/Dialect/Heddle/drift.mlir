// REQUIRES: heddle-opt
// A cadence by drift is spelled and planned as any other.
// RUN: heddle-opt %s | FileCheck %s
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --heddle-verify-schedule --heddle-plan-steps --heddle-verify-plan | FileCheck %s --check-prefix=PLAN

// CHECK-LABEL: heddle.schedule @selected
// CHECK-NEXT: cadence drift(below = 0.9, within = 64){{$}}
// PLAN-LABEL: heddle.plan @selected
// PLAN-NEXT: heddle.selection @cols columns(keep = 0.2, group = 32) by mean_probability on drift(below = 0.9, within = 64)
// PLAN: heddle.phase on drift(below = 0.9, within = 64) {
// PLAN-NEXT: heddle.attend_with @attention_dense_lse
// PLAN-NEXT: heddle.refresh @cols with @select_32
// PLAN-NEXT: }
// PLAN-NEXT: heddle.phase otherwise {
// PLAN-NEXT: heddle.attend_with @attention_cols
// PLAN-NEXT: heddle.measure drift(below = 0.9, within = 64){{$}}
// PLAN-NEXT: }
heddle.schedule @selected {
  %refresh = cadence drift(within = 64, below = 9/10)
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  attend pairs(%cols)
}

// By what rows attend to: a row's weights are of the pairs that its phase keeps,
// whose kernel runs once more.
// CHECK-LABEL: heddle.schedule @weighed
// CHECK-NEXT: cadence drift(attention, below = 0.9, within = 64, layer = 1){{$}}
// PLAN-LABEL: heddle.plan @weighed
// PLAN: heddle.phase on drift(attention, below = 0.9, within = 64, layer = 1) {
// PLAN-NOT: heddle.measure
// PLAN: heddle.phase otherwise {
// PLAN-NEXT: heddle.attend_with @attention_cols
// PLAN-NEXT: heddle.measure drift(attention, below = 0.9, within = 64, layer = 1) with @attention_cols{{$}}
heddle.schedule @weighed {
  %refresh = cadence drift(below = 0.9, layer = 1, within = 64, attention)
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  attend pairs(%cols)
}

// From the layer on that has drifted. The last layer's is -1, whoever writes it.
// CHECK-LABEL: heddle.schedule @deeper
// CHECK-NEXT: cadence first(1)
// CHECK-NEXT: cadence drift(below = 0.9, within = 64, layer = -4){{$}}
// CHECK-NEXT: cadence drift(below = 0.95, within = 64, layer = -2){{$}}
// CHECK-NEXT: cadence drift(below = 0.5, within = 64){{$}}
// PLAN-LABEL: heddle.plan @deeper
// PLAN: recompute all on %{{.*}} in layers(-4 to -1)
// PLAN: recompute all on %{{.*}} in layers(-2, -1)
// PLAN: heddle.attend_with @attention_dense
// PLAN-NEXT: heddle.measure drift(below = 0.9, within = 64, layer = -4){{$}}
// PLAN-NEXT: heddle.measure drift(below = 0.95, within = 64, layer = -2){{$}}
// PLAN-NEXT: heddle.measure drift(below = 0.5, within = 64){{$}}
heddle.schedule @deeper {
  %first = cadence first(1)
  %early = cadence drift(below = 0.9, layer = -4, within = 64)
  %late = cadence drift(below = 0.95, within = 64, layer = -2)
  %last = cadence drift(below = 1/2, within = 64, layer = -1)
  %window = positions undecoded(first = 8)
  reuse kv, output, ffn
  recompute all on %first
  recompute all on %early in layers(-4 to -1)
  recompute all on %late in layers(-2, -1)
  recompute all on %last in layers(-1)
  recompute %window
  attend dense
}

// A step of layer 1's is one of layer 2's: all rows are computed when attention
// is kept (U5).
// PLAN-LABEL: heddle.plan @nested
// PLAN: attention(outside = %{{.*}}, on = %
heddle.schedule @nested {
  %early = cadence drift(below = 0.9, within = 8, layer = 1)
  %late = cadence drift(below = 0.8, within = 8, layer = 2)
  %block = positions block
  reuse kv, attention(outside = %block, on = %early)
  recompute all on %late
  recompute %block
  attend dense
}

// It includes step 1, and has all of its own steps: R1, S3, S6 and K3 hold.
// CHECK-LABEL: heddle.schedule @cached
// CHECK-NEXT: cadence drift(below = 1, within = 8) in block or after eos{{$}}
// PLAN-LABEL: heddle.plan @cached
// PLAN: recompute all on %
heddle.schedule @cached {
  %start = cadence drift(below = 1/1, within = 8) in block or after eos
  %block = positions block
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %start
  reuse kv
  recompute all on %start
  recompute %block
  commit quota stop(eos)
  attend pairs(%cols)
}

// Only where the layer may be: the last ones are not among layers 0 to 2 but in
// a model of three, layer 1 is, and no other rule has it. With at_once phases
// refresh before they attend, and measure behind it.
// PLAN-LABEL: heddle.plan @parted
// PLAN: heddle.rule default {
// PLAN: heddle.phase otherwise {
// PLAN-NEXT: heddle.score_with @attention_dense_lse
// PLAN-NEXT: heddle.refresh @cols
// PLAN-NEXT: heddle.attend_with @attention_cols
// PLAN-NEXT: heddle.measure drift(attention, below = 0.9, within = 64) with @attention_cols
// PLAN-NEXT: }
// PLAN: heddle.rule layers(0 to 2) {
// PLAN-NEXT: heddle.phase otherwise {
// PLAN-NEXT: heddle.attend_with @attention_window64
// PLAN-NEXT: heddle.measure drift(attention, below = 0.8, within = 64, layer = 1) with @attention_window64
// PLAN-NEXT: heddle.measure drift(attention, below = 0.9, within = 64) with @attention_window64
// PLAN-NEXT: }
heddle.schedule @parted {
  %early = cadence drift(attention, below = 0.8, within = 64, layer = 1)
  %late = cadence drift(attention, below = 0.9, within = 64)
  %block = positions block
  %near = window(64)
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %late
  reuse kv, output, ffn
  recompute all on %late
  recompute all on %early in layers(1 to 2)
  recompute %block
  attend pairs(%near) in layers(0 to 2)
  attend pairs(%cols) at_once
}

// What no step reads by is not measured.
// PLAN-LABEL: heddle.plan @unused
// PLAN-NOT: heddle.measure
heddle.schedule @unused {
  %refresh = cadence drift(below = 0.9, within = 64)
  %near = window(64)
  attend pairs(%near)
}
