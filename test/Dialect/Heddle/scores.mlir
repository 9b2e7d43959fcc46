// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file | heddle-opt --split-input-file | FileCheck %s
// RUN: heddle-opt %s --split-input-file --heddle-plan-steps --heddle-verify-plan | FileCheck %s --check-prefix=PLAN

// What the last arguments are not needed for is not written.
// CHECK-LABEL: heddle.schedule @cap
// CHECK: attend dense in layers(0 to 1)
// CHECK: attend pairs(%cols) scores(%logit) {
// CHECK: yield %{{.*}}

// Selections are scored by the function of the attention that refreshes them;
// layers without it have kernels of their own, and each kernel is there once.
// PLAN-LABEL: heddle.plan @cap
// PLAN: heddle.kernel @attention_dense_lse_scores attention dense writes_lse scores(%logit) {
// PLAN: math.tanh
// PLAN: heddle.kernel @select_32_scores select(group = 32) by mean_probability scores(%logit) {
// PLAN: heddle.kernel @attention_cols_scores attention [columns(@cols, group = 32)] scores(%logit) {
// PLAN: heddle.kernel @attention_dense_lse attention dense writes_lse{{$}}
// PLAN: heddle.attend_with @attention_dense_lse_scores
// PLAN: heddle.refresh @cols with @select_32_scores
// PLAN: heddle.attend_with @attention_cols_scores
heddle.schedule @cap {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %refresh
  attend dense in layers(0 to 1)
  attend pairs(%cols) scores(%logit, %query) {
    %cap = arith.constant 30.0 : f32
    %share = arith.divf %logit, %cap : f32
    %bound = math.tanh %share : f32
    %capped = arith.mulf %bound, %cap : f32
    yield %capped
  }
}

// -----

// Two functions, two kernels; a function that leaves logits as they are is none.
// PLAN-LABEL: heddle.plan @two
// PLAN: heddle.kernel @attention_dense attention dense{{$}}
// PLAN: heddle.kernel @attention_dense_scores attention dense scores(%logit, %query, %key) {
// PLAN: heddle.kernel @attention_dense_scores_1 attention dense scores(%logit, %query, %key, %head) {
// PLAN-NOT: heddle.kernel
heddle.schedule @two {
  attend dense in layers(0) scores(%l, %q, %k) {
    %ahead = arith.cmpi sgt, %k, %q : i32
    %none = arith.constant 0xFF800000 : f32
    %masked = arith.select %ahead, %none, %l : f32
    yield %masked
  }
  attend dense in layers(1) scores(%l, %q, %k, %h) {
    %d = arith.subi %k, %h : i32
    %f = arith.sitofp %d : i32 to f32
    %s = arith.addf %l, %f : f32
    yield %s
  }
  attend dense in layers(2) scores(%l, %q, %k) {
    %ahead = arith.cmpi sgt, %k, %q : i32
    %none = arith.constant 0xFF800000 : f32
    %masked = arith.select %ahead, %none, %l : f32
    yield %masked
  }
  attend dense scores(%logit) { yield %logit }
}
