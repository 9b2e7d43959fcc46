// REQUIRES: heddlec
// Sets of positions are called at all levels as the source calls them. Those
// that are alike are one, with the first name; a name that says no more than the
// set does is none.

// RUN: heddlec %s --compile-to=schedule | FileCheck %s --check-prefix=IR
// RUN: heddlec %s --compile-to=plan | FileCheck %s --check-prefix=IR
// IR-DAG: %undecoded = {{.*}}undecoded(first = 8)
// IR-DAG: %near = {{.*}}undecoded(first = 4)
// IR-DAG: %decoded = {{.*}}decoded
// IR-NOT: %same
// IR-NOT: %both
// IR: %live = {{.*}}union %near, %decoded, %undecoded
// IR: recompute %live

// RUN: heddlec %s --compile-to=plan --explain --steps=8 --length=32 --prompt=16 --block-length=16 | FileCheck %s --check-prefix=TEXT
// TEXT: rows (prompt 16, response 16
// TEXT-NEXT: %near = undecoded(first = 4)
// TEXT-NEXT: %live = union(%near, decoded, undecoded(first = 8))
// TEXT-NEXT: computes all
// TEXT: computes %live, 26 to 32 of 32 rows

// RUN: heddlec %s --compile-to=plan --explain=json --steps=8 --length=32 --prompt=16 --block-length=16 | FileCheck %s --check-prefix=JSON
// JSON: "positions": [
// JSON-NEXT: {
// JSON-NEXT: "name": "near",
// JSON-NEXT: "is": "undecoded(first = 4)"
// JSON: "name": "live",
// JSON-NEXT: "is": "union(%near, decoded, undecoded(first = 8))"
// JSON: "computes": "%live"
heddle.schedule @named {
  %start = cadence every(4)
  %0 = positions undecoded(first = 8)
  %near = positions undecoded(first = 4)
  %same = positions undecoded(first = 4)
  %decoded = positions decoded
  %both = union %near, %same, %decoded
  %live = union %both, %0
  reuse kv
  recompute all on %start
  recompute %live
  attend dense
}
