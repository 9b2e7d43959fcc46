// REQUIRES: heddle-opt
// RUN: heddle-opt %s | FileCheck %s
// RUN: heddle-opt %s | heddle-opt | FileCheck %s

// Clauses are read in any order and printed in one.

// CHECK-LABEL: heddle.schedule @cadences
heddle.schedule @cadences {
  // CHECK: cadence every(4) in block or after eos{{$}}
  %c = cadence every(4) or after eos in block
  // CHECK: cadence first(2) or after eos{{$}}
  %d = cadence first(2) or after eos
  // CHECK: cadence at(0.2) in block{{$}}
  %e = cadence at(0.2) in block
  attend dense
}

// CHECK-LABEL: heddle.schedule @selections
heddle.schedule @selections {
  %c = cadence first(1) in block
  %block = positions block
  // CHECK: select blocks(keep = 0.5, size = 128, rounding = ceil) by mean_probability isolating(aligned) scaled_by(heads) on %[[C:[a-z0-9_]+]] in layers(0, 4){{$}}
  %tiles = select blocks(rounding = ceil, size = 128, keep = 0.5) by mean_probability
      in layers(0, 4) on %c scaled_by(heads) isolating(aligned)
  // CHECK: select columns(keep = 0.5, group = 128) by mean_probability pooled(3) always %[[B:[a-z0-9_]+]] within %{{[a-z0-9_]+}} on %[[C]] in layers(0, 4){{$}}
  %some = select columns(group = 128, keep = 0.5) by mean_probability
      on %c within %tiles in layers(0, 4) always %block pooled(3)
  // CHECK: select columns(keep = 8, group = all, per_layer) by mean_probability of %[[B]] always %[[B]] on %[[C]]{{$}}
  %few = select columns(per_layer, keep = 8, group = all) by mean_probability
      always %block on %c of %block
  %all = union %some, %few
  reuse kv
  recompute all on %c
  recompute %block
  // CHECK: attend pairs(%{{[a-z0-9_]+}}) at_once in layers(4 to 5, -1) scores(%[[L:.+]]) {
  // CHECK-NEXT: yield %[[L]]{{$}}
  attend pairs(%all) in layers(4 to 5, -1) scores(%logit) { yield %logit } at_once
  // CHECK: attend dense in layers(0 to 3){{$}}
  attend dense in layers(0 to 3)
  attend dense
}

// CHECK-LABEL: heddle.schedule @rows
heddle.schedule @rows {
  %c = cadence every(4)
  %d = cadence first(1) in block
  %next = positions undecoded(first = 8)
  %block = positions block
  %window = fix %block on %c
  visible %window
  reuse kv, output, ffn
  recompute all on %c
  // CHECK: recompute %{{[a-z0-9_]+}} alone unseen on %{{[a-z0-9_]+}} and %{{[a-z0-9_]+$}}
  recompute %next on %c and %d unseen alone
  // CHECK: recompute least_similar(keep = 0.5, among = %{{[a-z0-9_]+}}, confidence = 0.25) in %{{[a-z0-9_]+}} alone on %{{[a-z0-9_]+$}}
  recompute least_similar(confidence = 1/4, among = %block, keep = 1/2) in %block on %d alone
  recompute %block
  attend dense
}

// CHECK-LABEL: heddle.schedule @layers
heddle.schedule @layers {
  %c = cadence first(1) in block
  %block = positions block
  // CHECK: reuse kv(before_rope), context(propagating), ffn in layers(0){{$}}
  reuse ffn, context(propagating), kv(before_rope) in layers(0)
  reuse kv
  recompute all on %c
  // CHECK: recompute %{{[a-z0-9_]+}} alone on %{{[a-z0-9_]+}} in layers(0 to 3, -1){{$}}
  recompute %block in layers(0 to 3, -1) on %c alone
  recompute %block alone
  attend dense
}

// CHECK-LABEL: heddle.schedule @tokens
heddle.schedule @tokens {
  %c = cadence every(2)
  %d = cadence first(1) in block
  %next = positions undecoded(first = 8)
  // CHECK: commit above(0.6) within(%{{[a-z0-9_]+}}) on %{{[a-z0-9_]+}} and %{{[a-z0-9_]+}} revoke(below = 0.9) edit(above = 0.5, further = 16) stop(eos, narrowing){{$}}
  commit above(0.6) stop(narrowing, eos) edit(further = 16, above = 0.5) on %c and %d
      revoke(below = 0.9) within(%next)
  commit quota
  attend dense
}

// CHECK-LABEL: heddle.schedule @drafts
heddle.schedule @drafts {
  // CHECK: commit quota passes(at_least = 2) verify(drafts = 3) stop(eos){{$}}
  // CHECK-NOT: commit
  commit quota stop(eos) verify(drafts = 3) passes(at_least = 2)
  attend dense
}

// CHECK-LABEL: heddle.schedule @noise
heddle.schedule @noise {
  // CHECK: commit entropy(0.1) revoke(below = 0.2) edit(above = 0.9) renoise passes(at_least = 2) stop(eos){{$}}
  commit entropy(0.1) stop(eos) renoise passes(at_least = 2) edit(above = 0.9)
      revoke(below = 0.2)
  attend dense
}

// CHECK-LABEL: heddle.schedule @shadows
heddle.schedule @shadows {
  // CHECK: commit above(0.6, strictly) at_most(share = 0.7, least = 5, most = 20) revoke(below = 0.9, by = shadow, fewer_than = step_before) stop(eos){{$}}
  commit above(0.6, strictly) stop(eos) revoke(fewer_than = step_before, by = shadow, below = 0.9)
      at_most(most = 20, least = 5, share = 0.7)
  attend dense
}

// CHECK-LABEL: heddle.schedule @lifted
heddle.schedule @lifted {
  %c = cadence every(2)
  // CHECK: commit best(2) on %{{[a-z0-9_]+}} near(1){{$}}
  commit best(2) near(1) on %c
  // CHECK: commit above(0.9) near(10) at_most(share = 0.5){{$}}
  commit above(0.9) at_most(share = 1/2) near(10)
  attend dense
}

// CHECK-LABEL: heddle.schedule @limits
heddle.schedule @limits {
  %c = cadence every(2)
  // CHECK: commit even_above(0.5, strictly) on %{{[a-z0-9_]+}} revoke(below = 0.5){{$}}
  commit even_above(0.5, strictly) revoke(fewer_than = step, below = 0.5, by = row) on %c
  // CHECK: commit best(4) at_most(share = 0.25){{$}}
  commit best(4) at_most(share = 1/4, least = 1)
  // CHECK: others{{$}}
  %rest = others
  attend pairs(%rest)
}
