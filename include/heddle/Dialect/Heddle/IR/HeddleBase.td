//===- HeddleBase.td - The heddle dialect --------------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEBASE_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEBASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Heddle_Dialect : Dialect {
  let name = "heddle";
  let cppNamespace = "::mlir::heddle";
  let summary = "Sparsity schedules for diffusion language models";
  let description = [{
    A *schedule* says, in a few lines, what each denoising step computes: which
    (query, key) pairs, which rows over which keys, what it takes from earlier
    steps, and which predictions become tokens:

    ```mlir
    heddle.schedule @columns {
      %refresh = cadence uniform(window = 0.3, count = 16)
      %cols = select columns(keep = 0.2, group = 128) by mean_probability on %refresh
      attend pairs(%cols)
    }
    ```

    A *plan* is what a schedule means to a machine: the selections that are kept
    between steps, the distinct kernels needed, and for each range of layers the
    phases that partition the steps. `heddle-plan-steps` turns the one into the
    other.

    Both levels count denoising steps from 1 over the whole run, T is their
    total, and every ratio is an exact fraction.
  }];
  // Of which scores are made.
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEBASE_TD
