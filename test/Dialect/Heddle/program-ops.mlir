// REQUIRES: heddle-opt
// RUN: heddle-opt %s | FileCheck %s
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s

// Rows, keys, reuse and commit come back as they were written.

// CHECK-LABEL: heddle.schedule @forms
heddle.schedule @forms {
  // CHECK: heddle.cadence every(4, from = 5)
  %late = heddle.cadence every(4, from = 5)
  // CHECK: heddle.cadence every(8)
  %often = heddle.cadence every(8, from = 1)
  // CHECK: heddle.cadence first(1) in block
  %start = heddle.cadence first(1) in block
  // CHECK: heddle.cadence uniform(window = 0.3, count = 4) in block
  %some = heddle.cadence uniform(window = 0.3, count = 4) in block
  // CHECK: %[[ALL:.*]] = heddle.positions all
  %all = heddle.positions all
  // CHECK: heddle.positions prompt
  %prompt = heddle.positions prompt
  // CHECK: %[[RESPONSE:.*]] = heddle.positions response
  %response = heddle.positions response
  // CHECK: heddle.positions block
  %block = heddle.positions block
  // CHECK: heddle.positions before(block)
  %before = heddle.positions before(block)
  // CHECK: heddle.positions from(block)
  %from = heddle.positions from(block)
  // CHECK: %[[DECODED:.*]] = heddle.positions decoded
  %decoded = heddle.positions decoded
  // CHECK: heddle.positions undecoded{{$}}
  %masked = heddle.positions undecoded
  // CHECK: %[[FEW:.*]] = heddle.positions undecoded(first = 16)
  %few = heddle.positions undecoded(first = 16)
  // CHECK: heddle.positions committed(last = 2)
  %recent = heddle.positions committed(last = 2)
  // CHECK: heddle.positions committed(since = %{{.*}})
  %since = heddle.positions committed(since = %often)
  // CHECK: %[[SEEN:.*]] = heddle.union positions %[[DECODED]], %[[FEW]]
  %seen = heddle.union positions %decoded, %few
  // CHECK: heddle.intersect %[[SEEN]], %[[RESPONSE]]
  %both = heddle.intersect %seen, %response
  // CHECK: %[[WINDOW:.*]] = heddle.fix %[[SEEN]] on %
  %window = heddle.fix %seen on %often
  // CHECK: heddle.visible %[[WINDOW]]
  heddle.visible %window
  // CHECK: heddle.reuse kv, context(propagating), ffn
  heddle.reuse kv, context(propagating), ffn
  // CHECK: heddle.recompute all on %{{[a-z0-9_]+$}}
  heddle.recompute all on %often
  // CHECK: heddle.recompute all on %{{[a-z0-9_]+}} and %{{[a-z0-9_]+$}}
  heddle.recompute all on %start and %late
  // CHECK: heddle.recompute salient_ffn(below = 0.9) in all on %
  heddle.recompute salient_ffn(below = 0.9) in all on %some
  // CHECK: heddle.recompute salient(below = 1.5) in all on %
  heddle.recompute salient(below = 3/2) in all on %some
  // CHECK: heddle.recompute %[[FEW]]{{$}}
  heddle.recompute %few
  // CHECK: heddle.commit quota within(%[[FEW]]) stop(eos)
  heddle.commit quota within(%few) stop(eos)
  heddle.attend dense
}

// CHECK-LABEL: heddle.schedule @similar
heddle.schedule @similar {
  %first = heddle.cadence first(1)
  %response = heddle.positions response
  // CHECK: heddle.reuse kv(before_rope), output, ffn
  heddle.reuse ffn, output, kv(before_rope)
  heddle.recompute all on %first
  // CHECK: heddle.recompute least_similar(keep = 0.25, among = %{{.*}}) in %
  heddle.recompute least_similar(keep = 25 percent, among = %response) in %response
  // CHECK: heddle.commit factor(1.25)
  heddle.commit factor(1.25)
  heddle.attend dense
}

// CHECK-LABEL: heddle.schedule @ordered
heddle.schedule @ordered {
  %again = heddle.cadence every(4) in block
  // CHECK: %[[NEXT:.*]] = heddle.positions next
  %next = heddle.positions next
  %masked = heddle.positions undecoded
  // CHECK: %[[NEAR:.*]] = heddle.neighbors(2) of %[[NEXT]] in %
  %near = heddle.neighbors(2) of %next in %masked
  %rows = heddle.union positions %next, %near
  heddle.reuse kv
  heddle.recompute all on %again
  heddle.recompute %rows
  // CHECK: heddle.commit random_order{{$}}
  heddle.commit random_order
  heddle.attend dense
}

// CHECK-LABEL: heddle.schedule @released
heddle.schedule @released {
  %phase = heddle.cadence every(8)
  %start = heddle.cadence first(1) in block
  %after = heddle.cadence every(8, from = 2)
  %first = heddle.positions undecoded(first = 1)
  %active = heddle.positions undecoded(first = 6)
  %decoded = heddle.positions decoded
  // CHECK: %[[HULL:.*]] = heddle.hull %
  %hull = heddle.hull %active
  // CHECK: heddle.leading %
  %leading = heddle.leading %decoded
  // CHECK: %[[ROWS:.*]] = heddle.predicting %
  %rows = heddle.predicting %active
  %seen = heddle.union positions %decoded, %hull, %leading
  %window = heddle.fix %seen on %after
  // CHECK: heddle.visible all on %{{[a-z0-9_]+}} then %{{[a-z0-9_]+$}}
  heddle.visible all on %phase then %window
  heddle.reuse kv
  heddle.recompute all on %phase
  // CHECK: heddle.recompute %[[HULL]] alone on %{{[a-z0-9_]+$}}
  heddle.recompute %hull alone on %after
  // CHECK: heddle.recompute %[[ROWS]] alone{{$}}
  heddle.recompute %rows alone
  // CHECK: heddle.commit best(1) within(%{{[a-z0-9_]+}}) on %{{[a-z0-9_]+}} and %{{[a-z0-9_]+$}}
  heddle.commit best(1) within(%first) on %phase and %start
  // CHECK: heddle.commit timesteps on %{{[a-z0-9_]+$}}
  heddle.commit timesteps on %after
  // CHECK: heddle.commit factor(1, last_alone) within(%{{[a-z0-9_]+}}) passes(at_least = 2) stop(eos, narrowing){{$}}
  heddle.commit factor(1, last_alone) within(%active) passes(at_least = 2) stop(eos, narrowing)
  heddle.attend dense
}

// CHECK-LABEL: heddle.schedule @selections
heddle.schedule @selections {
  %once = heddle.cadence first(1)
  // CHECK: heddle.select blocks(keep = 0.3, size = 128) by mean_probability isolating(spans) on
  %spans = heddle.select blocks(keep = 0.3, size = 128) by mean_probability isolating(spans) on %once
  // CHECK: heddle.select blocks(keep = 0.5, size = 32, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on
  %released = heddle.select blocks(keep = 0.5, size = 32, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on %once
  // CHECK: heddle.select blocks(keep = 0.5, size = 32) by mean_probability isolating(aligned) on
  %aligned = heddle.select blocks(keep = 0.5, size = 32) by mean_probability isolating(aligned) on %once
  // CHECK: heddle.select columns(keep = 0.5, group = 32, per_kv_head) by mean_probability on
  %shared = heddle.select columns(keep = 0.5, group = 32, per_kv_head) by mean_probability scaled_by(head_dim) on %once
  // CHECK: heddle.commit above(0.9)
  heddle.commit above(0.9)
  %pairs = heddle.union %spans, %released, %aligned, %shared
  heddle.attend pairs(%pairs)
}

// CHECK-LABEL: heddle.plan @plan
heddle.plan @plan {
  // CHECK: heddle.selection @tiles blocks(keep = 0.3, size = 32) by mean_probability isolating(spans) on every(8)
  heddle.selection @tiles blocks(keep = 0.3, size = 32) by mean_probability isolating(spans) on every(8)
  // CHECK: heddle.selection @cols columns(keep = 0.3, group = 32, per_kv_head) by mean_probability on every(8)
  heddle.selection @cols columns(keep = 0.3, group = 32, per_kv_head) by mean_probability on every(8)
  // CHECK: heddle.position_set @response response
  heddle.position_set @response response
  // CHECK: heddle.position_set @some undecoded(first = 16)
  heddle.position_set @some undecoded(first = 16)
  // CHECK: heddle.position_set @last committed(last = 1)
  heddle.position_set @last committed(last = 1)
  // CHECK: heddle.position_set @since committed(since every(8))
  heddle.position_set @since committed(since every(8))
  // CHECK: heddle.position_set @rows union(@some, @last, @since)
  heddle.position_set @rows union(@some, @last, @since)
  // CHECK: heddle.position_set @both intersect(@rows, @response)
  heddle.position_set @both intersect(@rows, @response)
  // CHECK: heddle.position_set @seen fixed(@response) on every(8)
  heddle.position_set @seen fixed(@response) on every(8)
  // CHECK: heddle.position_set @next next
  heddle.position_set @next next
  // CHECK: heddle.position_set @near neighbors(3) of @next in @response
  heddle.position_set @near neighbors(3) of @next in @response
  // CHECK: heddle.position_set @span hull(@near)
  heddle.position_set @span hull(@near)
  // CHECK: heddle.position_set @front leading(@near)
  heddle.position_set @front leading(@near)
  // CHECK: heddle.position_set @before predicting(@near)
  heddle.position_set @before predicting(@near)
  // CHECK: heddle.visible_set all on every(8) then @seen
  heddle.visible_set all on every(8) then @seen
  // CHECK: heddle.pass on every(5) computes @before alone
  heddle.pass on every(5) computes @before alone
  // CHECK: heddle.commit_rule best(2) within(@both) on every(8) and first(1) in block
  heddle.commit_rule best(2) within(@both) on every(8) and first(1) in block
  // CHECK: heddle.pass on every(8) computes all
  heddle.pass on every(8) computes all
  // CHECK: heddle.pass on first(1) in block and every(3) computes @both
  heddle.pass on first(1) in block and every(3) computes @both
  // CHECK: heddle.pass on every(2) computes least_similar(keep = 0.5, among = @response) in all
  heddle.pass on every(2) computes least_similar(keep = 0.5, among = @response) in all
  // CHECK: heddle.pass on at(step 3) computes salient_ffn(below = 0.5) in all
  heddle.pass on at(step 3) computes salient_ffn(below = 0.5) in all
  // CHECK: heddle.pass computes salient(below = 0.99) in @rows
  heddle.pass computes salient(below = 0.99) in @rows
  // CHECK: heddle.reuse kv, context, ffn
  heddle.reuse kv, context, ffn
  // CHECK: heddle.commit_rule quota on every(8) in block or after eos stop(eos)
  heddle.commit_rule quota on every(8) in block or after eos stop(eos)
  // CHECK: heddle.commit_rule above(0.5) within(@some) stop(eos)
  heddle.commit_rule above(0.5) within(@some) stop(eos)
  // CHECK: heddle.kernel @mixed attention [columns(@cols, group = 32), blocks(@tiles, size = 32)]
  heddle.kernel @mixed attention [columns(@cols, group = 32), blocks(@tiles, size = 32)]
  heddle.kernel @dense attention dense writes_lse
  // CHECK: heddle.kernel @select_blocks select(blocks = 32) by mean_probability
  heddle.kernel @select_blocks select(blocks = 32) by mean_probability
  // CHECK: heddle.kernel @select_shared select(group = 32, per_kv_head) by mean_probability
  heddle.kernel @select_shared select(group = 32, per_kv_head) by mean_probability
  heddle.rule default {
    heddle.phase on every(8) {
      heddle.attend_with @dense
      heddle.refresh @tiles with @select_blocks
      heddle.refresh @cols with @select_shared
    }
    heddle.phase otherwise {
      heddle.attend_with @mixed
    }
  }
}

// CHECK-LABEL: heddle.plan @ordered_plan
heddle.plan @ordered_plan {
  // CHECK: heddle.commit_rule random_order{{$}}
  heddle.commit_rule random_order
  heddle.kernel @dense attention dense
  heddle.rule default {
    heddle.phase otherwise {
      heddle.attend_with @dense
    }
  }
}
