// REQUIRES: heddle-opt
// RUN: heddle-opt %s --canonicalize | FileCheck %s

// Flat, selections first, one window, one sinks.
// CHECK-LABEL: heddle.schedule @flatten
heddle.schedule @flatten {
  %c = heddle.cadence every(4)
  %b = heddle.select columns(keep = 0.1, group = 32) by mean_probability on %c
  %a = heddle.select columns(keep = 0.2, group = 64) by mean_probability on %c
  %w = heddle.window(64)
  %s = heddle.sinks(4)
  %wa = heddle.union %w, %a
  %sb = heddle.union %s, %b, %w
  %pairs = heddle.union %wa, %sb, %a
  // CHECK: %[[PAIRS:.+]] = heddle.union %a, %b, %window, %sinks{{$}}
  // CHECK-NEXT: heddle.attend pairs(%[[PAIRS]])
  heddle.attend pairs(%pairs)
}

// The larger of two windows and of two sinks holds the other.
// CHECK-LABEL: heddle.schedule @absorb
heddle.schedule @absorb {
  %w1 = heddle.window(64)
  %w2 = heddle.window(128)
  %s1 = heddle.sinks(4)
  %s2 = heddle.sinks(2)
  %pairs = heddle.union %s2, %w1, %s1, %w2
  // CHECK-NEXT: %[[W:.+]] = heddle.window(128)
  // CHECK-NEXT: %[[S:.+]] = heddle.sinks(4)
  // CHECK-NEXT: %[[PAIRS:.+]] = heddle.union %[[W]], %[[S]]{{$}}
  // CHECK-NEXT: heddle.attend pairs(%[[PAIRS]])
  heddle.attend pairs(%pairs)
}

// Selections that are written alike are one, whatever their names; another
// rounding makes another selection.
// CHECK-LABEL: heddle.schedule @alike
heddle.schedule @alike {
  %c = heddle.cadence every(4)
  %d = heddle.cadence every(4)
  %x = heddle.select columns(keep = 0.2, group = 64) by mean_probability on %c
  %y = heddle.select columns(keep = 1/5, group = 64) by mean_probability on %d
  %z = heddle.select columns(keep = 0.2, group = 64, rounding = ceil) by mean_probability on %c
  %pairs = heddle.union %x, %y, %z
  // CHECK: heddle.union %x, %z{{$}}
  heddle.attend pairs(%pairs)
}

// CHECK-LABEL: heddle.schedule @single
heddle.schedule @single {
  %w = heddle.window(64)
  %one = heddle.union %w
  %same = heddle.union %w, %one
  // CHECK-NEXT: %[[W:.+]] = heddle.window(64)
  // CHECK-NEXT: heddle.attend pairs(%[[W]])
  heddle.attend pairs(%same)
}

// CHECK-LABEL: heddle.schedule @dense {
// CHECK-NEXT:    heddle.attend dense{{$}}
// CHECK-NEXT:    heddle.attend dense in layers(0 to 1){{$}}
// CHECK-NEXT:  }
heddle.schedule @dense {
  %c = heddle.cadence at(0.2)
  %cols = heddle.select columns(keep = 0.1, group = 32) by mean_probability on %c
  %w = heddle.window(64)
  %all = heddle.dense
  %u = heddle.union %w, %all
  %v = heddle.union %cols, %u
  heddle.attend pairs(%v)
  heddle.attend dense until(%c) then pairs(%v) in layers(0 to 1)
}
