// REQUIRES: heddle-opt
// RUN: heddle-opt %s --canonicalize | FileCheck %s

// Flat, selections first, one window, one sinks.
// CHECK-LABEL: heddle.schedule @flatten
heddle.schedule @flatten {
  %c = cadence every(4)
  %b = select columns(keep = 0.1, group = 32) by mean_probability on %c
  %a = select columns(keep = 0.2, group = 64) by mean_probability on %c
  %w = window(64)
  %s = sinks(4)
  %wa = union %w, %a
  %sb = union %s, %b, %w
  %pairs = union %wa, %sb, %a
  // CHECK: %[[PAIRS:.+]] = union %a, %b, %window, %sinks{{$}}
  // CHECK-NEXT: attend pairs(%[[PAIRS]])
  attend pairs(%pairs)
}

// So does the larger of two shares of sinks; whether one holds a number of
// sinks depends on the sequence, so that both stay.
// CHECK-LABEL: heddle.schedule @absorb_shares
heddle.schedule @absorb_shares {
  %s1 = sinks(1/3)
  %s2 = sinks(4)
  %s3 = sinks(33333333333333333/100000000000000000)
  %s4 = sinks(33 percent)
  %w = window(64)
  %pairs = union %s3, %s1, %s2, %s4, %w
  // CHECK-NEXT: %[[S:.+]] = sinks(1/3)
  // CHECK-NEXT: %[[N:.+]] = sinks(4)
  // CHECK-NEXT: %[[W:.+]] = window(64)
  // CHECK-NEXT: %[[PAIRS:.+]] = union %[[W]], %[[N]], %[[S]]{{$}}
  // CHECK-NEXT: attend pairs(%[[PAIRS]])
  attend pairs(%pairs)
}

// The larger of two windows and of two sinks holds the other.
// CHECK-LABEL: heddle.schedule @absorb
heddle.schedule @absorb {
  %w1 = window(64)
  %w2 = window(128)
  %s1 = sinks(4)
  %s2 = sinks(2)
  %pairs = union %s2, %w1, %s1, %w2
  // CHECK-NEXT: %[[W:.+]] = window(128)
  // CHECK-NEXT: %[[S:.+]] = sinks(4)
  // CHECK-NEXT: %[[PAIRS:.+]] = union %[[W]], %[[S]]{{$}}
  // CHECK-NEXT: attend pairs(%[[PAIRS]])
  attend pairs(%pairs)
}

// Intersections are flat, without repeats and without all pairs; in a union they
// come last.
// CHECK-LABEL: heddle.schedule @intersect
heddle.schedule @intersect {
  %w = window(64)
  %r = random_blocks(one_in = 4, size = 64)
  %d = dense
  %s = sinks(4)
  %i = intersect %w, %d
  %j = intersect %i, %r, %w
  %k = intersect %d, %d
  %u = union %j, %s
  // CHECK: %[[I:.+]] = intersect %window, %random_blocks{{$}}
  // CHECK-NEXT: %[[U:.+]] = union %sinks, %[[I]]{{$}}
  // CHECK-NEXT: attend pairs(%[[U]]) in layers(0)
  attend pairs(%u) in layers(0)
  // CHECK-NEXT: attend dense
  attend pairs(%k)
}

// Selections that are written alike are one, whatever their names; another
// rounding makes another selection.
// CHECK-LABEL: heddle.schedule @alike
heddle.schedule @alike {
  %c = cadence every(4)
  %d = cadence every(4)
  %x = select columns(keep = 0.2, group = 64) by mean_probability on %c
  %y = select columns(keep = 1/5, group = 64) by mean_probability on %d
  %z = select columns(keep = 0.2, group = 64, rounding = ceil) by mean_probability on %c
  %pairs = union %x, %y, %z
  // CHECK: union %x, %z{{$}}
  attend pairs(%pairs)
}

// CHECK-LABEL: heddle.schedule @single
heddle.schedule @single {
  %w = window(64)
  %one = union %w
  %same = union %w, %one
  // CHECK-NEXT: %[[W:.+]] = window(64)
  // CHECK-NEXT: attend pairs(%[[W]])
  attend pairs(%same)
}

// CHECK-LABEL: heddle.schedule @dense {
// CHECK-NEXT:    attend dense in layers(0 to 1){{$}}
// CHECK-NEXT:    attend dense{{$}}
// CHECK-NEXT:  }
heddle.schedule @dense {
  %c = cadence at(0.2)
  %cols = select columns(keep = 0.1, group = 32) by mean_probability on %c
  %w = window(64)
  %all = dense
  %u = union %w, %all
  %v = union %cols, %u
  attend dense until(%c) then pairs(%v) in layers(0 to 1)
  attend pairs(%v)
}

// Sharing: 2^40 paths lead to the window.
// CHECK-LABEL: heddle.schedule @shared
heddle.schedule @shared {
  %s = sinks(4)
  %w = window(64)
  // CHECK: union
  // CHECK-NOT: union
  %p0 = union %w, %s
  %p1 = union %p0, %p0
  %p2 = union %p1, %p1
  %p3 = union %p2, %p2
  %p4 = union %p3, %p3
  %p5 = union %p4, %p4
  %p6 = union %p5, %p5
  %p7 = union %p6, %p6
  %p8 = union %p7, %p7
  %p9 = union %p8, %p8
  %p10 = union %p9, %p9
  %p11 = union %p10, %p10
  %p12 = union %p11, %p11
  %p13 = union %p12, %p12
  %p14 = union %p13, %p13
  %p15 = union %p14, %p14
  %p16 = union %p15, %p15
  %p17 = union %p16, %p16
  %p18 = union %p17, %p17
  %p19 = union %p18, %p18
  %p20 = union %p19, %p19
  %p21 = union %p20, %p20
  %p22 = union %p21, %p21
  %p23 = union %p22, %p22
  %p24 = union %p23, %p23
  %p25 = union %p24, %p24
  %p26 = union %p25, %p25
  %p27 = union %p26, %p26
  %p28 = union %p27, %p27
  %p29 = union %p28, %p28
  %p30 = union %p29, %p29
  %p31 = union %p30, %p30
  %p32 = union %p31, %p31
  %p33 = union %p32, %p32
  %p34 = union %p33, %p33
  %p35 = union %p34, %p34
  %p36 = union %p35, %p35
  %p37 = union %p36, %p36
  %p38 = union %p37, %p37
  %p39 = union %p38, %p38
  %p40 = union %p39, %p39
  // CHECK: attend pairs(%{{.+}}) in layers(0)
  attend pairs(%p40) in layers(0)
  attend dense
}

// Dense sets are stages of their own; a first one is a word.
// CHECK-LABEL: heddle.schedule @stages
// CHECK: attend dense in layers(0){{$}}
// CHECK: attend dense until(%{{.+}}) then pairs(%window) in layers(1){{$}}
// CHECK: attend pairs(%window) until(%{{.+}}) then pairs(%dense){{$}}
heddle.schedule @stages {
  %c = cadence at(0.5)
  %all = dense
  %near = window(64)
  attend dense until(%c) then pairs(%all) in layers(0)
  attend pairs(%all) until(%c) then pairs(%near) in layers(1)
  attend pairs(%near) until(%c) then pairs(%all)
}
