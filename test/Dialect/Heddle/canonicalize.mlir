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

// So does the larger of two shares of sinks; whether one holds a number of
// sinks depends on the sequence, so that both stay.
// CHECK-LABEL: heddle.schedule @absorb_shares
heddle.schedule @absorb_shares {
  %s1 = heddle.sinks(1/3)
  %s2 = heddle.sinks(4)
  %s3 = heddle.sinks(33333333333333333/100000000000000000)
  %s4 = heddle.sinks(33 percent)
  %w = heddle.window(64)
  %pairs = heddle.union %s3, %s1, %s2, %s4, %w
  // CHECK-NEXT: %[[S:.+]] = heddle.sinks(1/3)
  // CHECK-NEXT: %[[N:.+]] = heddle.sinks(4)
  // CHECK-NEXT: %[[W:.+]] = heddle.window(64)
  // CHECK-NEXT: %[[PAIRS:.+]] = heddle.union %[[W]], %[[N]], %[[S]]{{$}}
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

// Sharing: 2^40 paths lead to the window.
// CHECK-LABEL: heddle.schedule @shared
heddle.schedule @shared {
  %s = heddle.sinks(4)
  %w = heddle.window(64)
  // CHECK: heddle.union
  // CHECK-NOT: heddle.union
  %p0 = heddle.union %w, %s
  %p1 = heddle.union %p0, %p0
  %p2 = heddle.union %p1, %p1
  %p3 = heddle.union %p2, %p2
  %p4 = heddle.union %p3, %p3
  %p5 = heddle.union %p4, %p4
  %p6 = heddle.union %p5, %p5
  %p7 = heddle.union %p6, %p6
  %p8 = heddle.union %p7, %p7
  %p9 = heddle.union %p8, %p8
  %p10 = heddle.union %p9, %p9
  %p11 = heddle.union %p10, %p10
  %p12 = heddle.union %p11, %p11
  %p13 = heddle.union %p12, %p12
  %p14 = heddle.union %p13, %p13
  %p15 = heddle.union %p14, %p14
  %p16 = heddle.union %p15, %p15
  %p17 = heddle.union %p16, %p16
  %p18 = heddle.union %p17, %p17
  %p19 = heddle.union %p18, %p18
  %p20 = heddle.union %p19, %p19
  %p21 = heddle.union %p20, %p20
  %p22 = heddle.union %p21, %p21
  %p23 = heddle.union %p22, %p22
  %p24 = heddle.union %p23, %p23
  %p25 = heddle.union %p24, %p24
  %p26 = heddle.union %p25, %p25
  %p27 = heddle.union %p26, %p26
  %p28 = heddle.union %p27, %p27
  %p29 = heddle.union %p28, %p28
  %p30 = heddle.union %p29, %p29
  %p31 = heddle.union %p30, %p30
  %p32 = heddle.union %p31, %p31
  %p33 = heddle.union %p32, %p32
  %p34 = heddle.union %p33, %p33
  %p35 = heddle.union %p34, %p34
  %p36 = heddle.union %p35, %p35
  %p37 = heddle.union %p36, %p36
  %p38 = heddle.union %p37, %p37
  %p39 = heddle.union %p38, %p38
  %p40 = heddle.union %p39, %p39
  // CHECK: heddle.attend pairs(%{{.+}}) in layers(0 to 0)
  heddle.attend pairs(%p40) in layers(0 to 0)
  heddle.attend dense
}
