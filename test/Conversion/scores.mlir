// REQUIRES: heddle-opt
// RUN: heddle-opt %s --convert-heddle-to-shed="dtypes=bf16 head-dims=64" | FileCheck %s --check-prefix=SHED

// Scores stand behind the product and in front of masks, in every pass.
// SHED-LABEL: shed.kernel @near_bf16_d64
// SHED: %[[DOT:.*]] = shed.dot
// SHED: %[[SCORES:.*]] = shed.scores %[[DOT]] at %{{.*}} (%logit, %query, %key) {
// SHED: shed.yield %{{.*}} : f32
// SHED: %[[MASK:.*]] = shed.mask %[[SCORES]]
// SHED: shed.softmax_update %{{.*}}, %[[MASK]]
// SHED: shed.scores
// SHED-LABEL: shed.kernel @pick_bf16_d64
// SHED: shed.scores
// SHED: shed.column_mass
heddle.plan @plan {
  heddle.selection @cols columns(keep = 0.2, group = 32) by mean_probability on every(8)
  heddle.kernel @near attention [window(64), sinks(4)] scores(%logit, %query, %key) {
    %ahead = arith.cmpi sgt, %key, %query : i32
    %none = arith.constant 0xFF800000 : f32
    %masked = arith.select %ahead, %none, %logit : f32
    heddle.yield %masked
  }
  heddle.kernel @pick select(group = 32) by mean_probability scores(%logit) {
    %half = arith.constant 0.5 : f32
    %s = arith.mulf %logit, %half : f32
    heddle.yield %s
  }
  heddle.rule default { heddle.phase otherwise { heddle.attend_with @near } }
}
