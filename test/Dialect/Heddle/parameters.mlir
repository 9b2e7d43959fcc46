// REQUIRES: heddle-opt
// RUN: heddle-opt %s | FileCheck %s
// RUN: heddle-opt %s | heddle-opt | FileCheck %s

// Wherever a number may stand a parameter may, and is read as the number. What
// is printed has numbers alone.

// CHECK-LABEL: heddle.schedule @everywhere {
heddle.schedule @everywhere(keep = 20 percent, group = 128, window = 0.3,
                            count = 16, two = 2, last = -2, whole = 1,
                            none = 0, nothing = 0 percent) {
  // CHECK-NEXT: cadence uniform(window = 0.3, count = 16)
  %0 = cadence uniform(window = window, count = count)
  // CHECK-NEXT: cadence random(window = 0.3, count = 16, seed = 2)
  %1 = cadence random(window = window, count = count, seed = two)
  // CHECK-NEXT: cadence every(2, from = 16)
  %2 = cadence every(two, from = count)
  // CHECK-NEXT: cadence first(2) in block
  %3 = cadence first(two) in block
  // CHECK-NEXT: cadence at(0.2, plus = 2)
  %4 = cadence at(keep, plus = two)
  // CHECK-NEXT: cadence at(step = 16)
  %5 = cadence at(step = count)
  // CHECK-NEXT: cadence at(1)
  %6 = cadence at(whole)
  // CHECK-NEXT: select columns(keep = 0.2, group = 128)
  %cols = select columns(keep = keep, group = group) by mean_probability on %0
  // CHECK-NEXT: select blocks(keep = 1, size = 128)
  %tiles = select blocks(keep = whole, size = group) by mean_probability on %0
  // CHECK-NEXT: window(128)
  %near = window(group)
  // An integer is a number of keys, a ratio a share of them.
  // CHECK-NEXT: sinks(2)
  %first = sinks(two)
  // CHECK-NEXT: sinks(0.2)
  %share = sinks(keep)
  // CHECK-NEXT: positions undecoded(first = 16)
  %active = positions undecoded(first = count)
  // CHECK-NEXT: positions committed(last = 2)
  %recent = positions committed(last = two)
  // CHECK-NEXT: neighbors(2) of
  %close = neighbors(two) of %active in %recent
  // CHECK-NEXT: nearest(2) of
  %nearest = nearest(two) of %active in %recent
  // CHECK-NEXT: confident(2) of
  %sure = confident(two) of %active
  // CHECK-NEXT: confident(2, near = 2) of
  %lifted = confident(two, near = two) of %active
  // CHECK: recompute all on
  recompute all on %3
  // CHECK: recompute least_similar(keep = 0, among = %{{.+}}) in all on
  recompute least_similar(keep = none, among = %active) in all on %2
  // CHECK: recompute least_similar(keep = 0, among = %{{.+}}) in all on
  recompute least_similar(keep = nothing, among = %active) in all on %1
  // CHECK: recompute least_similar(keep = 0.2, among = %{{.+}}, confidence = 0.2) in all
  recompute least_similar(keep = keep, among = %active, confidence = keep) in all
  reuse kv, context, ffn
  // CHECK: commit best(2)
  commit best(two) on %3
  // CHECK: commit factor(1, last_alone) {{.*}}on
  commit factor(whole, last_alone) on %2
  // CHECK: commit above(0.2) revoke(below = 0.2) edit(above = 0.2, further = 16) passes(at_least = 16)
  commit above(keep) revoke(below = keep) edit(above = keep, further = count) passes(at_least = count)
  // CHECK: attend dense in layers(-2)
  attend dense in layers(last to last)
  attend dense
}

// CHECK-LABEL: heddle.schedule @salient {
heddle.schedule @salient(below = 0.99) {
  %start = cadence first(1)
  reuse kv, context, ffn
  recompute all on %start
  // CHECK: recompute salient(below = 0.99) in all
  recompute salient(below = below) in all
  attend dense
}

// A name means what its own schedule says, and is no number elsewhere; where a
// form has a word of its own it is that word.
// CHECK-LABEL: heddle.schedule @own {
heddle.schedule @own(keep = 4, block = 3, dense = 5) {
  // CHECK-NEXT: window(4)
  %near = window(keep)
  // CHECK-NEXT: sinks(3)
  %first = sinks(block)
  // CHECK-NEXT: sinks(5)
  %more = sinks(dense)
  %rest = positions from(block)
  %pairs = union %near, %first, %more
  // CHECK: attend dense
  attend dense
}

// CHECK-LABEL: heddle.schedule @none {
heddle.schedule @none() {
  attend dense
}
