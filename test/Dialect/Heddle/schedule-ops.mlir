// REQUIRES: heddle-opt
// RUN: heddle-opt %s | FileCheck %s
// RUN: heddle-opt %s | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --mlir-print-op-generic | heddle-opt | FileCheck %s
// RUN: heddle-opt %s --emit-bytecode | heddle-opt | FileCheck %s

// CHECK-LABEL: heddle.schedule @dense {
// CHECK-NEXT:    heddle.attend dense{{$}}
// CHECK-NEXT:  }
heddle.schedule @dense {
  heddle.attend dense
}

// CHECK-LABEL: heddle.schedule @cadences {
heddle.schedule @cadences {
  // CHECK-NEXT: %cadence = heddle.cadence never{{$}}
  %0 = heddle.cadence never
  // CHECK-NEXT: %cadence_0 = heddle.cadence every(8){{$}}
  %1 = heddle.cadence every(8)
  // CHECK-NEXT: heddle.cadence first(4){{$}}
  %2 = heddle.cadence first(4)
  // CHECK-NEXT: heddle.cadence at(0.2){{$}}
  %3 = heddle.cadence at(0.2)
  // CHECK-NEXT: heddle.cadence at(step 12){{$}}
  %4 = heddle.cadence at(step 12)
  // CHECK-NEXT: heddle.cadence uniform(window = 0.3, count = 16){{$}}
  %5 = heddle.cadence uniform(window = 0.3, count = 16)
  // Arguments come in any order.
  // CHECK-NEXT: heddle.cadence random(window = 0.3, count = 16, seed = 7){{$}}
  %6 = heddle.cadence random(seed = 7, count = 16, window = 0.3)
  // CHECK-NEXT: heddle.cadence power(window = 1, count = 16){{$}}
  %7 = heddle.cadence power(window = 1, count = 16)
  heddle.attend dense
}

// CHECK-LABEL: heddle.schedule @attends {
heddle.schedule @attends {
  // CHECK-NEXT: %[[ONCE:.+]] = heddle.cadence at(0.2)
  %once = heddle.cadence at(20 percent)
  // A selection keeps its name.
  // CHECK-NEXT: %cols = heddle.select columns(keep = 0.2, group = 128) by mean_probability on %[[ONCE]]{{$}}
  %cols = heddle.select columns(keep = 1/5, group = 128, rounding = floor) by mean_probability on %once
  // CHECK-NEXT: %columns = heddle.select columns(keep = 1/3, group = 16, rounding = ceil) by mean_probability
  %2 = heddle.select columns(rounding = ceil, group = 16, keep = 1/3) by mean_probability on %once
  // CHECK-NEXT: %window = heddle.window(256)
  %near = heddle.window(256)
  // CHECK-NEXT: %sinks = heddle.sinks(4)
  %first = heddle.sinks(4)
  // CHECK-NEXT: %dense = heddle.dense{{$}}
  %all = heddle.dense
  // CHECK-NEXT: %pairs = heddle.union %cols, %window, %sinks{{$}}
  %pairs = heddle.union %cols, %near, %first
  // CHECK-NEXT: heddle.attend dense until(%[[ONCE]]) then pairs(%pairs){{$}}
  heddle.attend dense until(%once) then pairs(%pairs)
  // CHECK-NEXT: heddle.attend pairs(%window) in layers(0 to 1){{$}}
  heddle.attend pairs(%near) in layers(0 to 1)
  // CHECK-NEXT: heddle.attend dense in layers(-2 to -1){{$}}
  heddle.attend dense in layers(-2 to -1)
}

// A bare integer is a number of sinks, whatever else a ratio can be is a share.
// CHECK-LABEL: heddle.schedule @sinks
heddle.schedule @sinks {
  // CHECK-NEXT: heddle.sinks(1){{$}}
  %0 = heddle.sinks(1)
  // CHECK-NEXT: heddle.sinks(0.1){{$}}
  %1 = heddle.sinks(10 percent)
  // CHECK-NEXT: heddle.sinks(0.1){{$}}
  %2 = heddle.sinks(1/10)
  // CHECK-NEXT: heddle.sinks(0.1){{$}}
  %3 = heddle.sinks(0.1)
  // CHECK-NEXT: heddle.sinks(2/7){{$}}
  %4 = heddle.sinks(2/7)
  // CHECK-NEXT: heddle.sinks(1/1){{$}}
  %5 = heddle.sinks(1.0)
  // CHECK-NEXT: heddle.sinks(1/1){{$}}
  %6 = heddle.sinks(100 percent)
  // CHECK-NEXT: heddle.sinks(1/1){{$}}
  %7 = heddle.sinks(1/1)
  heddle.attend pairs(%7)
}

// CHECK-LABEL: heddle.schedule @at_once
// CHECK: heddle.attend dense until(%{{.+}}) then pairs(%{{.+}}) at_once{{$}}
// CHECK: heddle.attend pairs(%{{.+}}) at_once in layers(0 to 1){{$}}
heddle.schedule @at_once {
  %always = heddle.cadence every(1)
  %late = heddle.cadence at(0.2)
  %a = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %always
  heddle.attend dense until(%late) then pairs(%a) at_once
  heddle.attend pairs(%a) at_once in layers(0 to 1)
}

// Where the first step does not wait, step 1 is enough.
// CHECK-LABEL: heddle.schedule @at_once_from_the_first
heddle.schedule @at_once_from_the_first {
  %always = heddle.cadence every(1)
  %often = heddle.cadence every(4)
  %a = heddle.select columns(keep = 0.2, group = 32) by mean_probability on %often
  heddle.attend dense until(%always) then pairs(%a) at_once
}
