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
// PLAN-NEXT: heddle.refresh @cols
// PLAN: heddle.phase otherwise {
heddle.schedule @selected {
  %refresh = cadence drift(within = 64, below = 9/10)
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  attend pairs(%cols)
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
