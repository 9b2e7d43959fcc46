//===- Passes.td - Passes on shed kernels --------------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_TRANSFORMS_PASSES_TD
#define HEDDLE_DIALECT_SHED_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ShedChooseTiles : Pass<"shed-choose-tiles"> {
  let summary = "Give every kernel without a tiling one that suits the machine";
  let description = [{
    Asks the facts of a `TargetInfo` (here: the options) and writes the `tiling`
    attribute. Kernels that have a tiling keep it.
  }];
  let options = [
    Option<"vectorBytes", "vector-bytes", "int64_t", "32",
           "bytes of a vector register: 32 or 64">,
    Option<"vectorRegisters", "vector-registers", "int64_t", "32",
           "number of vector registers">,
    Option<"bf16Dot", "bf16-dot", "bool", "false",
           "there are dot products of bf16 pairs">,
    Option<"bf16Tiles", "bf16-tiles", "bool", "false",
           "there are bf16 matrix tiles">,
    Option<"fetchesLate", "fetches-late", "bool", "false",
           "scattered rows arrive late unless code fetches them ahead">,
  ];
  let dependentDialects = ["::mlir::shed::ShedDialect"];
}

def ShedVerifyKernels : Pass<"shed-verify-kernels"> {
  let summary = "Check what holds after the tile level";
  let description = [{
    Every kernel has a tiling, so that all tile shapes are static; the rows of a
    task divide every group; register blocks fit the vector registers that the
    option names; blocks divide head_dim.
  }];
  let options = [
    Option<"vectorRegisters", "vector-registers", "int64_t", "32",
           "number of vector registers">,
  ];
}

def ShedChooseMmaTiles : Pass<"shed-choose-mma-tiles"> {
  let summary = "Give every kernel without one a tiling that suits the GPU";
  let description = [{
    Asks the facts of a `CudaTargetInfo` (here: the options, by default those of
    compute capability 8.0) and writes an `mma_tiling`. Kernels that have one
    keep it. Fails for a kernel of which not even the smallest tile fits.
  }];
  let options = [
    Option<"sharedOfBlock", "shared-of-block", "int64_t", "166912",
           "bytes of shared memory that a block may have">,
    Option<"sharedOfProcessor", "shared-of-processor", "int64_t", "167936",
           "bytes of shared memory of a multiprocessor">,
    Option<"registersOfProcessor", "registers-of-processor", "int64_t", "65536",
           "registers of a multiprocessor">,
    Option<"registersOfThread", "registers-of-thread", "int64_t", "255",
           "the most registers of a thread">,
  ];
  let dependentDialects = ["::mlir::shed::ShedDialect"];
}

def ShedChooseWgmmaTiles : Pass<"shed-choose-wgmma-tiles"> {
  let summary = "Give kernels the warpgroup tilings of a table";
  let description = [{
    Writes a `wgmma_tiling` on each kernel without a tiling, of whose element type,
    head dim and set of keys (or that it scores keys) the table has an entry that
    divides its groups: the first one counts. Others are left to
    `shed-choose-mma-tiles`. A kernel with `some_rows` is left to it, too, and
    gets other forms beside it: `NAME_all` without `some_rows`, for launches
    that compute all rows, and, by entries with `key_shares`, `NAME_long` for
    sequences of many keys and `NAME_packed` where query heads share key heads
    (`bundle/program/Forms.h`).
  }];
  let options = [
    Option<"table", "table", "std::string", "",
           "a file with the table (`Transforms/Tuning.h`)">,
  ];
  let dependentDialects = ["::mlir::shed::ShedDialect"];
}

def ShedVerifyMmaKernels : Pass<"shed-verify-mma-kernels"> {
  let summary = "Check what holds after the tile level, on a GPU";
  let description = [{
    Every kernel has an `mma_tiling`; the rows of a block divide every group;
    tiles fit the shared memory of a block and the registers of a thread.
  }];
  let options = [
    Option<"sharedOfBlock", "shared-of-block", "int64_t", "166912",
           "bytes of shared memory that a block may have">,
    Option<"registersOfThread", "registers-of-thread", "int64_t", "255",
           "the most registers of a thread">,
  ];
}

def ShedAddRowKernels : Pass<"shed-add-row-kernels", "::mlir::ModuleOp"> {
  let summary = "Add the row kernels of a model and its sampler";
  let description = [{
    Adds one `shed.row_kernel` for each of some operations of `bundle/abi/RowOps.h`
    and each dtype, named row_OPERATION_DTYPE, at the end of the module. Those that
    the module has already are left as they are. `bundle/program/KernelNeeds.h` says
    which ones a program needs on a machine whose loop stays on it.
  }];
  let options = [
    ListOption<"dtypes", "dtypes", "std::string",
               "element types: f32, bf16, f16 (default: f32)">,
    ListOption<"operations", "operations", "std::string",
               "as bundle/abi/RowOps.h names them (default: all)">,
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::shed::ShedDialect"];
}

#endif // HEDDLE_DIALECT_SHED_TRANSFORMS_PASSES_TD
