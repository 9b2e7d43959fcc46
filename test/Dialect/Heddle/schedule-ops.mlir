// REQUIRES: heddle-opt
// RUN: heddle-opt %s | FileCheck %s
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --emit-bytecode | heddle-opt | FileCheck %s

// CHECK-LABEL: heddle.schedule @dense {
// CHECK-NEXT:    attend dense{{$}}
// CHECK-NEXT:  }
heddle.schedule @dense {
  attend dense
}

// CHECK-LABEL: heddle.schedule @cadences {
heddle.schedule @cadences {
  // CHECK-NEXT: %cadence = cadence never{{$}}
  %0 = cadence never
  // CHECK-NEXT: %cadence_0 = cadence every(8){{$}}
  %1 = cadence every(8)
  // CHECK-NEXT: cadence first(4){{$}}
  %2 = cadence first(4)
  // CHECK-NEXT: cadence at(0.2){{$}}
  %3 = cadence at(0.2)
  // CHECK-NEXT: cadence at(step = 12){{$}}
  %4 = cadence at(step = 12)
  // Lines end, and comments stand, anywhere.
  // CHECK-NEXT: cadence at(step = 13){{$}}
  %there = cadence at( // (0.5)
    step = 13)
  // CHECK-NEXT: cadence uniform(window = 0.3, count = 16){{$}}
  %5 = cadence uniform(window = 0.3, count = 16)
  // Arguments come in any order.
  // CHECK-NEXT: cadence random(window = 0.3, count = 16, seed = 7){{$}}
  %6 = cadence random(seed = 7, count = 16, window = 0.3)
  // CHECK-NEXT: cadence power(window = 1, count = 16){{$}}
  %7 = cadence power(window = 1, count = 16)
  attend dense
}

// CHECK-LABEL: heddle.schedule @attends {
heddle.schedule @attends {
  // CHECK-NEXT: %[[ONCE:.+]] = cadence at(0.2)
  %once = cadence at(20 percent)
  // A selection keeps its name.
  // CHECK-NEXT: %cols = select columns(keep = 0.2, group = 128) by mean_probability on %[[ONCE]]{{$}}
  %cols = select columns(keep = 1/5, group = 128, rounding = floor) by mean_probability on %once
  // CHECK-NEXT: %columns = select columns(keep = 1/3, group = 16, rounding = ceil) by mean_probability
  %2 = select columns(rounding = ceil, group = 16, keep = 1/3) by mean_probability on %once
  // CHECK-NEXT: %window = window(256)
  %near = window(256)
  // CHECK-NEXT: %sinks = sinks(4)
  %first = sinks(4)
  // CHECK-NEXT: %dense = dense{{$}}
  %all = dense
  // CHECK-NEXT: %pairs = union %cols, %window, %sinks{{$}}
  %pairs = union %cols, %near, %first
  // CHECK-NEXT: attend pairs(%window) in layers(0 to 1){{$}}
  attend pairs(%near) in layers(0 to 1)
  // CHECK-NEXT: attend dense in layers(-2 to -1){{$}}
  attend dense in layers(-2 to -1)
  // CHECK-NEXT: attend dense until(%[[ONCE]]) then pairs(%pairs){{$}}
  attend dense until(%once) then pairs(%pairs)
}

// A bare integer is a number of sinks, whatever else a ratio can be is a share.
// CHECK-LABEL: heddle.schedule @sinks
heddle.schedule @sinks {
  // CHECK-NEXT: sinks(1){{$}}
  %0 = sinks(1)
  // CHECK-NEXT: sinks(0.1){{$}}
  %1 = sinks(10 percent)
  // CHECK-NEXT: sinks(0.1){{$}}
  %2 = sinks(1/10)
  // CHECK-NEXT: sinks(0.1){{$}}
  %3 = sinks(0.1)
  // CHECK-NEXT: sinks(2/7){{$}}
  %4 = sinks(2/7)
  // CHECK-NEXT: sinks(1/1){{$}}
  %5 = sinks(1.0)
  // CHECK-NEXT: sinks(1/1){{$}}
  %6 = sinks(100 percent)
  // CHECK-NEXT: sinks(1/1){{$}}
  %7 = sinks(1/1)
  attend pairs(%7)
}

// CHECK-LABEL: heddle.schedule @at_once
// CHECK: attend pairs(%{{.+}}) at_once in layers(0 to 1){{$}}
// CHECK: attend dense until(%{{.+}}) then pairs(%{{.+}}) at_once{{$}}
heddle.schedule @at_once {
  %always = cadence every(1)
  %late = cadence at(0.2)
  %a = select columns(keep = 0.2, group = 32) by mean_probability on %always
  attend pairs(%a) at_once in layers(0 to 1)
  attend dense until(%late) then pairs(%a) at_once
}

// Where the first step does not wait, step 1 is enough.
// CHECK-LABEL: heddle.schedule @at_once_from_the_first
heddle.schedule @at_once_from_the_first {
  %always = cadence every(1)
  %often = cadence every(4)
  %a = select columns(keep = 0.2, group = 32) by mean_probability on %often
  attend dense until(%always) then pairs(%a) at_once
}

// CHECK-LABEL: heddle.schedule @layers {
heddle.schedule @layers(last = -1) {
  // CHECK: attend dense in layers(5){{$}}
  attend dense in layers(5 to 5)
  %near = window(8)
  // CHECK: attend pairs(%window) in layers(0 to 3, 28, -1){{$}}
  attend pairs(%near) in layers(0 to 3, 28, last)
  attend dense
}

// CHECK-LABEL: heddle.schedule @layers_that_refresh
heddle.schedule @layers_that_refresh(second = 8) {
  %c = cadence first(1) in block
  // CHECK: %cols = select columns(keep = 0.2, group = 128) by mean_probability on %{{.+}} in layers(0, 8 to 9, -1){{$}}
  %cols = select columns(keep = 0.2, group = 128) by mean_probability on %c in layers(0, second to 9, -1)
  attend pairs(%cols)
}

// An integer is a number of keys or blocks, any other number a share of them.
// CHECK-LABEL: heddle.schedule @numbers_kept
heddle.schedule @numbers_kept(keep = 512) {
  %c = cadence every(4)
  // CHECK: select columns(keep = 512, group = 32) by
  %a = select columns(keep = keep, group = 32) by mean_probability on %c
  // CHECK-NEXT: select columns(keep = 1, group = 64, per_kv_head) by
  %b = select columns(keep = 1, group = 64, per_kv_head) by mean_probability on %c
  // CHECK-NEXT: select columns(keep = 1/1, group = 32) by
  %d = select columns(keep = 1.0, group = 32, rounding = floor) by mean_probability on %c
  // CHECK-NEXT: select blocks(keep = 8, size = 64) by mean_probability isolating(spans) on
  %e = select blocks(keep = 8, size = 64) by mean_probability isolating(spans) on %c
  %u = union %a, %b, %d, %e
  attend pairs(%u)
}

// One list for all rows, of all heads, by some rows, beside some keys.
// CHECK-LABEL: heddle.schedule @kept_by_a_block
heddle.schedule @kept_by_a_block(pool = 3) {
  %c = cadence at(step = 2) in block
  %block = positions block
  %prompt = positions prompt
  // CHECK: select columns(keep = 0.5, group = all, per_layer) by mean_probability pooled(3) of %block always %block on %{{.+}} in layers(0, 4){{$}}
  %a = select columns(keep = 0.5, group = all, per_layer) by mean_probability pooled(pool) of %block always %block on %c in layers(0, 4)
  // CHECK-NEXT: select columns(keep = 40, group = all) by mean_probability of %{{.*}}prompt on
  %b = select columns(keep = 40, group = all) by mean_probability of %prompt on %c
  // CHECK-NEXT: select columns(keep = 0.5, group = 32, per_kv_head) by mean_probability pooled(127) always %{{.*}}prompt on
  %d = select columns(keep = 0.5, group = 32, per_kv_head) by mean_probability pooled(127) always %prompt on %c
  %u = union %a, %b, %d
  %start = cadence first(1) in block
  reuse kv
  recompute all on %start
  recompute %block
  attend dense until(%c) then pairs(%u)
}

// Columns within columns and within blocks.
// CHECK-LABEL: heddle.schedule @within
heddle.schedule @within {
  %seldom = cadence every(8)
  %often = cadence every(2)
  %block = positions block
  // CHECK: %[[CHUNKS:.+]] = select columns(keep = 0.5, group = all, per_layer)
  %chunks = select columns(keep = 0.5, group = all, per_layer) by mean_probability of %block on %seldom
  // CHECK-NEXT: select columns(keep = 64, group = 32) by mean_probability pooled(3) always %{{.*}}block within %[[CHUNKS]] on %{{.+$}}
  %a = select columns(keep = 64, group = 32) by mean_probability pooled(3) always %block within %chunks on %often
  // CHECK-NEXT: %[[TILES:.+]] = select blocks(keep = 0.5, size = 128) by mean_probability isolating(spans) on %{{.+}} in layers(0, 4)
  %tiles = select blocks(keep = 0.5, size = 128) by mean_probability isolating(spans) on %often in layers(0, 4)
  // CHECK-NEXT: select columns(keep = 0.25, group = 128) by mean_probability within %[[TILES]] on %{{.+}} in layers(0, 4){{$}}
  %b = select columns(keep = 0.25, group = 128) by mean_probability within %tiles on %often in layers(0, 4)
  %u = union %a, %b
  attend pairs(%u)
}

// Stages.
// CHECK-LABEL: heddle.schedule @stages
heddle.schedule @stages {
  %c = cadence every(4)
  %early = cadence at(0.2)
  %half = cadence at(0.5)
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %c
  %few = select columns(keep = 0.1, group = 32) by mean_probability on %c
  %near = window(64)
  // CHECK: attend pairs(%window) until(%[[A:.+]]) then pairs(%few) in layers(0){{$}}
  attend pairs(%near) until(%early) then pairs(%few) in layers(0)
  // CHECK: attend dense until(%[[A]]) then pairs(%many) until(%[[B:.+]]) then pairs(%few){{$}}
  attend dense until(%early) then pairs(%many)
      until(%half) then pairs(%few)
}

// By logits.
// CHECK-LABEL: heddle.schedule @by_logits
heddle.schedule @by_logits {
  %c = cadence every(1)
  %block = positions block
  // CHECK: select blocks(keep = 0.25, size = 64) by mean_logit isolating(spans) on
  %a = select blocks(keep = 1/4, size = 64) by mean_logit isolating(spans) on %c
  // CHECK-NEXT: select columns(keep = 0.5, group = all, per_layer) by mean_logit pooled(3) of %block always %block on
  %b = select columns(keep = 0.5, group = all, per_layer) by mean_logit pooled(3) of %block always %block on %c
  %u = union %a, %b
  attend pairs(%u) at_once
}
