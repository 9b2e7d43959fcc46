// REQUIRES: heddle-opt
// RUN: heddle-opt %s | FileCheck %s
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --emit-bytecode | heddle-opt | FileCheck %s

// CHECK-LABEL: heddle.plan @all {
heddle.plan @all {
  // CHECK-NEXT: heddle.selection @cols columns(keep = 0.2, group = 128) by mean_probability on uniform(window = 0.3, count = 16){{$}}
  heddle.selection @cols columns(keep = 1/5, group = 128, rounding = floor) by mean_probability on uniform(window = 3/10, count = 16)
  // CHECK-NEXT: heddle.selection @more columns(keep = 1/3, group = 32, rounding = round) by mean_probability on at(step = 3){{$}}
  heddle.selection @more columns(keep = 1/3, group = 32, rounding = round) by mean_probability on at(step = 3)
  // CHECK-NEXT: heddle.fallback "tiles" blocks(keep = 0.8, size = 64) by mean_probability isolating(spans) dense_above 0.75{{$}}
  heddle.fallback "tiles" blocks(keep = 4/5, size = 64) by mean_probability isolating(spans) dense_above 75 percent
  // CHECK-NEXT: heddle.kernel @d attention dense{{$}}
  heddle.kernel @d attention
  // CHECK-NEXT: heddle.kernel @dl attention dense writes_lse{{$}}
  heddle.kernel @dl attention [] writes_lse
  // CHECK-NEXT: heddle.kernel @u attention [columns(@cols, group = 128), columns(@more, group = 32), window(256), sinks(4)]{{$}}
  heddle.kernel @u attention [columns(@cols, group = 128), columns(@more, group = 32), window(256), sinks(4)]
  // CHECK-NEXT: heddle.kernel @share attention [window(256), sinks(4), sinks(0.1), sinks(1/1)]{{$}}
  heddle.kernel @share attention [window(256), sinks(4), sinks(10 percent), sinks(1.0)]
  // CHECK-NEXT: heddle.kernel @s128 select(group = 128) by mean_probability{{$}}
  heddle.kernel @s128 select(group = 128) by mean_probability
  // CHECK-NEXT: heddle.kernel @s32 select(group = 32) by mean_probability {note = "kept"}{{$}}
  heddle.kernel @s32 select(group = 32) by mean_probability {note = "kept"}
  // CHECK-NEXT: heddle.rule default {
  heddle.rule default {
    // CHECK-NEXT: heddle.phase on uniform(window = 0.3, count = 16) {
    heddle.phase on uniform(window = 0.3, count = 16) {
      // CHECK-NEXT: heddle.attend_with @dl{{$}}
      heddle.attend_with @dl
      // CHECK-NEXT: heddle.refresh @cols with @s128{{$}}
      heddle.refresh @cols with @s128
      heddle.refresh @more with @s32
    }
    // CHECK: heddle.phase before at(step = 3) {
    heddle.phase before at(step = 3) {
      heddle.attend_with @d
    }
    // CHECK: heddle.phase otherwise {
    heddle.phase otherwise {
      heddle.attend_with @u
      // CHECK: heddle.measure drift(below = 0.9, within = 8) in block{{$}}
      heddle.measure drift(within = 8, below = 90 percent, layer = -1) in block
      // CHECK-NEXT: heddle.measure drift(attention, below = 0.9, within = 8, layer = 2) with @u{{$}}
      heddle.measure drift(attention, below = 9/10, within = 8, layer = 2) with @u
    }
  }
  // CHECK: heddle.rule layers(0 to 1) {
  heddle.rule layers(0 to 1) {
    heddle.phase otherwise {
      heddle.attend_with @d
    }
  }
  // CHECK: heddle.rule layers(-2 to -1) {
  heddle.rule layers(-2 to -1) {
    heddle.phase otherwise {
      heddle.attend_with @d
    }
  }
}
