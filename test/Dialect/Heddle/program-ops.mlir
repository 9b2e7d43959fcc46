// REQUIRES: heddle-opt
// RUN: heddle-opt %s | FileCheck %s
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s

// Rows, keys, reuse and commit come back as they were written.

// CHECK-LABEL: heddle.schedule @forms
heddle.schedule @forms {
  // CHECK: cadence every(4, from = 5)
  %late = cadence every(4, from = 5)
  // CHECK: cadence every(8)
  %often = cadence every(8, from = 1)
  // CHECK: cadence first(1) in block
  %start = cadence first(1) in block
  // CHECK: cadence uniform(window = 0.3, count = 4) in block
  %some = cadence uniform(window = 0.3, count = 4) in block
  // CHECK: %[[ALL:.*]] = positions all
  %all = positions all
  // CHECK: positions prompt
  %prompt = positions prompt
  // CHECK: %[[RESPONSE:.*]] = positions response
  %response = positions response
  // CHECK: positions block
  %block = positions block
  // CHECK: positions before(block)
  %before = positions before(block)
  // CHECK: positions from(block)
  %from = positions from(block)
  // CHECK: %[[DECODED:.*]] = positions decoded
  %decoded = positions decoded
  // CHECK: positions undecoded{{$}}
  %masked = positions undecoded
  // CHECK: %[[FEW:.*]] = positions undecoded(first = 16)
  %few = positions undecoded(first = 16)
  // CHECK: positions committed(last = 2)
  %recent = positions committed(last = 2)
  // CHECK: positions committed(since = %{{.*}})
  %since = positions committed(
    since = %often)
  // CHECK: %[[SEEN:.*]] = union %[[DECODED]], %[[FEW]]
  %seen = union %decoded, %few
  // CHECK: intersect %[[SEEN]], %[[RESPONSE]]
  %both = intersect %seen, %response
  // CHECK: %[[REST:.*]] = except %[[RESPONSE]], %[[SEEN]]
  %rest = except %response, %seen
  // CHECK: last(2) of %[[REST]]
  %end = last(2) of %rest
  // CHECK: confident(2) of %[[RESPONSE]]
  %sure = confident(2) of %response
  // CHECK: confident(32, near = 10) of %[[RESPONSE]]
  %lifted = confident(32, near = 10) of %response
  // CHECK: attended(share = 0.1) of %[[RESPONSE]]
  %drawing = attended(share = 10 percent) of %response
  // CHECK: %[[WINDOW:.*]] = fix %[[SEEN]] on %
  %window = fix %seen on %often
  // CHECK: visible %[[WINDOW]]
  visible %window
  // CHECK: reuse kv, context(propagating), ffn
  reuse kv, context(propagating), ffn
  // CHECK: recompute all on %{{[a-z0-9_]+$}}
  recompute all on %often
  // CHECK: recompute all on %{{[a-z0-9_]+}} and %{{[a-z0-9_]+$}}
  recompute all on %start and %late
  // CHECK: recompute salient_ffn(below = 0.9) in all on %
  recompute salient_ffn(below = 0.9) in all on %some
  // CHECK: recompute salient(below = 1.5) in all on %
  recompute salient(below = 3/2) in all on %some
  // CHECK: recompute %[[FEW]]{{$}}
  recompute %few
  // CHECK: commit quota within(%[[FEW]]) stop(eos)
  commit quota within(%few) stop(eos)
  attend dense
}

// CHECK-LABEL: heddle.schedule @unseen
heddle.schedule @unseen {
  %phase = cadence every(4)
  %next = positions undecoded(first = 8)
  %few = positions undecoded(first = 4)
  %window = fix %next on %phase
  visible %window
  reuse kv
  recompute all on %phase
  // CHECK: recompute %{{[a-z0-9_]+}} alone unseen on %{{[a-z0-9_]+$}}
  recompute %next alone unseen on %phase
  // CHECK: recompute %{{[a-z0-9_]+}} unseen{{$}}
  recompute %few
    unseen
  attend dense
}

// CHECK-LABEL: heddle.schedule @parts
heddle.schedule @parts {
  %start = cadence first(1) in block
  %block = positions block
  // CHECK: reuse kv, attention(outside = %{{[a-z0-9_]+}}, on = %{{[a-z0-9_]+}}), ffn{{$}}
  reuse ffn, attention(on = %start, outside = %block), kv
  recompute all on %start
  recompute %block
  attend dense
}

// CHECK-LABEL: heddle.schedule @refreshing
heddle.schedule @refreshing {
  %start = cadence first(1) in block
  %block = positions block
  %new = positions committed(last = 1)
  // CHECK: reuse kv, attention(outside = %[[BLOCK:[a-z0-9_]+]], on = %{{[a-z0-9_]+}}, refresh = %{{[a-z0-9_]+}}){{$}}
  reuse kv, attention(refresh = %new, on = %start, outside = %block)
  recompute all on %start
  recompute %block
  attend dense
}

// CHECK-LABEL: heddle.schedule @refreshing_some
heddle.schedule @refreshing_some {
  %start = cadence first(1) in block
  %block = positions block
  // CHECK: reuse kv, attention(outside = %[[BLOCK:[a-z0-9_]+]], on = %{{[a-z0-9_]+}}, refresh = least_similar(keep = 0.25) in %[[BLOCK]]), ffn{{$}}
  reuse kv, attention(outside = %block, on = %start, refresh = least_similar(keep = 25 percent) in %block), ffn
  recompute all on %start
  recompute %block
  attend dense
}

// CHECK-LABEL: heddle.schedule @similar
heddle.schedule @similar {
  %first = cadence first(1)
  %often = cadence every(4)
  %response = positions response
  // CHECK: reuse kv(before_rope), output, ffn
  reuse ffn, output, kv(before_rope)
  recompute all on %first
  // CHECK: recompute least_similar(keep = 0.5, among = %{{.*}}, confidence = 0.25) in %{{.*}} on
  recompute least_similar(confidence = 1/4, keep = 1/2, among = %response) in %response on %often
  // CHECK: recompute least_similar(keep = 0.25, among = %{{.*}}) in %
  recompute least_similar(keep = 25 percent, among = %response) in %response
  // CHECK: commit factor(1.25)
  commit factor(1.25)
  attend dense
}

// CHECK-LABEL: heddle.schedule @ordered
heddle.schedule @ordered {
  %again = cadence every(4) in block
  // CHECK: %[[NEXT:.*]] = positions next
  %next = positions next
  %masked = positions undecoded
  // CHECK: %[[NEAR:.*]] = neighbors(2) of %[[NEXT]] in %
  %near = neighbors(2) of %next in %masked
  // CHECK: %[[CLOSE:.*]] = nearest(3) of %[[NEXT]] in %
  %close = nearest(3) of %next in %masked
  %rows = union %next, %near, %close
  reuse kv, output, ffn
  recompute all on %again
  // CHECK: recompute least_similar(keep = 0, among = %{{.*}}) in all on
  recompute least_similar(keep = 0 percent, among = %masked) in all on %again
  recompute %rows
  // CHECK: commit random_order{{$}}
  commit random_order
  attend dense
}

// CHECK-LABEL: heddle.schedule @released
heddle.schedule @released {
  %phase = cadence every(8)
  %start = cadence first(1) in block
  %after = cadence every(8, from = 2)
  %first = positions undecoded(first = 1)
  %active = positions undecoded(first = 6)
  %decoded = positions decoded
  // CHECK: %[[HULL:.*]] = hull %
  %hull = hull %active
  // CHECK: leading %
  %leading = leading %decoded
  // CHECK: %[[ROWS:.*]] = predicting %
  %rows = predicting %active
  %seen = union %decoded, %hull, %leading
  %window = fix %seen on %after
  // CHECK: visible all on %{{[a-z0-9_]+}} then %{{[a-z0-9_]+$}}
  visible all on %phase then %window
  reuse kv
  recompute all on %phase
  // CHECK: recompute %[[HULL]] alone on %{{[a-z0-9_]+$}}
  recompute %hull alone on %after
  // CHECK: recompute %[[ROWS]] alone{{$}}
  recompute %rows alone
  // CHECK: commit best(1) within(%{{[a-z0-9_]+}}) on %{{[a-z0-9_]+}} and %{{[a-z0-9_]+$}}
  commit best(1) within(%first) on %phase and %start
  // CHECK: commit timesteps on %{{[a-z0-9_]+$}}
  commit timesteps on %after
  // CHECK: commit even on %{{[a-z0-9_]+$}}
  commit even on %after
  // CHECK: commit even_above(0.9) on %{{[a-z0-9_]+$}}
  commit even_above(90 percent) on %after
  // CHECK: commit entropy(0.1) on %{{[a-z0-9_]+$}}
  commit entropy(0.1) on %after
  // CHECK: commit factor(1, last_alone) within(%{{[a-z0-9_]+}}) passes(at_least = 2) stop(eos, narrowing){{$}}
  commit factor(1, last_alone) within(%active) passes(at_least = 2) stop(eos, narrowing)
  attend dense
}

// CHECK-LABEL: heddle.schedule @revoking
heddle.schedule @revoking {
  %start = cadence first(1)
  %block = positions block
  // CHECK: commit best(2) within(%{{[a-z0-9_]+}}) on %{{[a-z0-9_]+}} revoke(below = 1/3){{$}}
  commit best(2) within(%block) on %start revoke(below = 1/3)
  // CHECK: commit above(0.6) revoke(below = 0.9) passes(at_least = 2){{$}}
  commit above(60 percent) passes(at_least = 2) revoke(below = 90 percent)
  attend dense
}

// CHECK-LABEL: heddle.schedule @editing
heddle.schedule @editing {
  %start = cadence first(1)
  // CHECK: commit best(2) on %{{[a-z0-9_]+}} edit(above = 1/3){{$}}
  commit best(2) on %start edit(above = 1/3)
  // CHECK: commit quota on %{{[a-z0-9_]+}} edit(above = 0.9, further = 1){{$}}
  commit quota on %start edit(further = 1, above = 0.9)
  // CHECK: commit above(0.7) revoke(below = 0.1) edit(above = 0.5, further = 16) passes(at_least = 2) stop(eos){{$}}
  commit above(0.7) edit(above = 50 percent, further = 16) stop(eos) passes(at_least = 2) revoke(below = 0.1)
  attend dense
}

// CHECK-LABEL: heddle.schedule @in_order
heddle.schedule @in_order {
  // CHECK: commit random_order edit(above = 0.9){{$}}
  commit random_order edit(above = 0.9)
  attend dense
}

// CHECK-LABEL: heddle.schedule @verifying
heddle.schedule @verifying(ahead = 5) {
  %start = cadence first(1) in block
  // CHECK: commit best(2) on %{{[a-z0-9_]+}} stop(eos){{$}}
  commit best(2) on %start stop(eos)
  // CHECK: commit even passes(at_least = 2) verify(drafts = 5) stop(eos){{$}}
  commit even stop(eos) verify(drafts = ahead) passes(at_least = 2)
  attend dense
}

// What is kept of masked positions is made anew.
// CHECK-LABEL: heddle.schedule @renoising
heddle.schedule @renoising {
  %start = cadence first(1) in block
  %rows = positions block
  %masked = positions undecoded
  %made = positions committed(last = 1)
  %changed = union %masked, %made
  reuse kv, attention(outside = %rows, on = %start, refresh = %changed)
  recompute all on %start
  recompute %rows
  commit best(1) on %start
  // CHECK: commit above(0.95) renoise{{$}}
  commit above(0.95) renoise
  attend dense
}

// CHECK-LABEL: heddle.schedule @salient_noise
heddle.schedule @salient_noise {
  %full = cadence first(4)
  %response = positions response
  reuse kv, context(propagating), ffn
  recompute all on %full
  recompute salient(below = 0.99) in %response
  // CHECK: commit quota renoise{{$}}
  commit quota renoise
  attend dense
}

// CHECK-LABEL: heddle.schedule @selections
heddle.schedule @selections {
  %once = cadence first(1)
  // CHECK: select blocks(keep = 0.3, size = 128) by mean_probability isolating(spans) on
  %spans = select blocks(keep = 0.3, size = 128) by mean_probability isolating(spans) on %once
  // CHECK: select blocks(keep = 0.5, size = 32, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on
  %released = select blocks(keep = 0.5, size = 32, rounding = floor_plus_one) by mean_probability isolating(filtered) scaled_by(heads) on %once
  // CHECK: select blocks(keep = 0.5, size = 32) by mean_probability isolating(aligned) on
  %aligned = select blocks(keep = 0.5, size = 32) by mean_probability isolating(aligned) on %once
  // CHECK: select columns(keep = 0.5, group = 32, per_kv_head) by mean_probability on
  %shared = select columns(keep = 0.5, group = 32, per_kv_head) by mean_probability scaled_by(head_dim) on %once
  // CHECK: commit above(0.9)
  commit above(0.9)
  %pairs = union %spans, %released, %aligned, %shared
  attend pairs(%pairs)
}

// CHECK-LABEL: heddle.plan @plan
heddle.plan @plan {
  // CHECK: heddle.selection @tiles blocks(keep = 0.3, size = 32) by mean_probability isolating(spans) on every(8)
  heddle.selection @tiles blocks(keep = 0.3, size = 32) by mean_probability isolating(spans) on every(8)
  // CHECK: heddle.selection @cols columns(keep = 0.3, group = 32, per_kv_head) by mean_probability on every(8)
  heddle.selection @cols columns(keep = 0.3, group = 32, per_kv_head) by mean_probability on every(8)
  // CHECK: %[[OFTEN:.*]] = heddle.cadence every(8)
  %often = heddle.cadence every(8)
  // CHECK: %[[FEW:.*]] = heddle.positions undecoded(first = 16)
  %few = heddle.positions undecoded(first = 16)
  // CHECK: %[[SINCE:.*]] = heddle.positions committed(since = %[[OFTEN]])
  %since = heddle.positions committed(since = %often)
  // CHECK: %[[ROWS:.*]] = heddle.union %[[FEW]], %[[SINCE]]
  %rows = heddle.union %few, %since
  // CHECK: %[[SEEN:.*]] = heddle.fix %[[ROWS]] on %[[OFTEN]]
  %seen = heddle.fix %rows on %often
  // CHECK: heddle.visible all on %[[OFTEN]] then %[[SEEN]]
  heddle.visible all on %often then %seen
  // CHECK: heddle.recompute all on %[[OFTEN]]
  heddle.recompute all on %often
  // CHECK: heddle.recompute salient(below = 0.99) in %[[ROWS]]
  heddle.recompute salient(below = 0.99) in %rows
  // CHECK: heddle.reuse kv, context, ffn
  heddle.reuse kv, context, ffn
  // CHECK: heddle.commit best(2) within(%[[FEW]]) on %[[OFTEN]]
  heddle.commit best(2) within(%few) on %often
  // CHECK: heddle.commit above(0.5) stop(eos)
  heddle.commit above(0.5) stop(eos)
  // CHECK: heddle.kernel @mixed attention [columns(@cols, group = 32), blocks(@tiles, size = 32)]
  heddle.kernel @mixed attention [columns(@cols, group = 32), blocks(@tiles, size = 32)]
  heddle.kernel @dense attention dense writes_lse
  // CHECK: heddle.kernel @select_blocks select(blocks = 32) by mean_probability
  heddle.kernel @select_blocks select(blocks = 32) by mean_probability
  // CHECK: heddle.kernel @select_shared select(group = 32, per_kv_head) by mean_probability
  heddle.kernel @select_shared select(group = 32, per_kv_head) by mean_probability
  // CHECK: heddle.kernel @select_all select(group = all, per_layer) by mean_probability pooled(3)
  heddle.kernel @select_all select(group = all, per_layer) by mean_probability pooled(3)
  // CHECK: heddle.kernel @select_fine select(group = 32) by mean_probability pooled(3) within columns(group = all)
  heddle.kernel @select_fine select(group = 32) by mean_probability pooled(3) within columns(group = all)
  // CHECK: heddle.kernel @select_tiled select(group = 32) by mean_probability within blocks(size = 64)
  heddle.kernel @select_tiled select(group = 32) by mean_probability within blocks(size = 64)
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

// Layers of their own.

// CHECK-LABEL: heddle.schedule @by_layer
heddle.schedule @by_layer(early = 3) {
  %start = cadence first(1) in block
  %block = positions block
  %masked = positions undecoded
  // CHECK: %[[LIVE:.*]] = intersect
  %live = intersect %block, %masked
  // CHECK: reuse kv in layers(0 to 3)
  reuse kv in layers(0 to early)
  // CHECK: reuse kv, context, ffn in layers(-1)
  reuse kv, context, ffn in layers(-1)
  // CHECK: reuse kv, output, ffn{{$}}
  reuse kv, output, ffn
  recompute all on %start
  // CHECK: recompute least_similar(keep = 0.5, among = %{{.*}}) in %{{[a-z0-9_]+}} alone on %{{[a-z0-9_]+}} in layers(4, 6 to 7)
  recompute least_similar(keep = 1/2, among = %block) in %block alone on %start in layers(4, 6 to 7)
  // CHECK: recompute %{{[a-z0-9_]+}} alone in layers(0 to 3)
  recompute %block alone in layers(0 to early)
  // CHECK: recompute %[[LIVE]] alone{{$}}
  recompute %live alone
  attend dense
}
