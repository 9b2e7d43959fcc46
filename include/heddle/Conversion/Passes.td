//===- Passes.td - Passes from one level to the next ---------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_PASSES_TD
#define HEDDLE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertHeddleToShed : Pass<"convert-heddle-to-shed", "::mlir::ModuleOp"> {
  let summary = "Write every kernel of a plan on tiles";
  let description = [{
    Adds one `shed.kernel` for each `heddle.kernel`, dtype and head dim, named
    kernel_dtype_dHEADDIM, at the end of the module. The plan stays. When
    `encodings` are given, a kernel that reads or writes index lists has a form
    for each, named after it too: select_128_bf16_d128_u16. Lists of blocks are
    int32 whatever these are.
  }];
  let options = [
    ListOption<"dtypes", "dtypes", "std::string",
               "element types: f32, bf16, f16 (default: f32)">,
    ListOption<"headDims", "head-dims", "int64_t",
               "head dims, multiples of 32 (default: 128)">,
    ListOption<"encodings", "encodings", "std::string",
               "index encodings: int32, uint16, bitmap (default: int32, and "
               "names without an encoding)">,
  ];
  let dependentDialects = ["::mlir::shed::ShedDialect"];
}

def ConvertShedToVector : Pass<"convert-shed-to-vector", "::mlir::ModuleOp"> {
  let summary = "Lower kernels on tiles to functions on vectors";
  let description = [{
    Replaces every `shed.kernel` by a function of the kernel ABI in the func,
    scf, arith, vector and llvm dialects, as its tiling says. The function has
    the attributes `heddle.query_rows`, `heddle.scratch_bytes` and
    `heddle.scratch_bytes_per_key` for the bundle's kernel record.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def ShedPipelineCopies : Pass<"shed-pipeline-copies", "::mlir::ModuleOp"> {
  let summary = "Write kernels on tiles as multi-stage pipelines of copies";
  let description = [{
    Replaces every `shed.kernel` by a function of the CUDA ABI, as its
    `mma_tiling` says. What moves is explicit: passes over keys are loops that
    bring the tiles ahead to `stages` places in shared memory by asynchronous
    copies (`cp.async`), wait for the tile at hand and meet at a barrier. Between
    them, in a `shed.attention_task` or `shed.select_task`, are the kernel's ops on
    tiles. This is the multi-stage software pipeline that the warp-specialised one
    (`warp-specialize-roles`) is the alternative to.

    The function has the attributes `heddle.query_rows`, `heddle.scratch_bytes`,
    `heddle.scratch_bytes_per_key`, `heddle.threads` and `heddle.shared_bytes`
    for the bundle's kernel record.

    ```mlir
    // Tiles 0 to stages - 2.
    nvvm.cp.async.shared.global ...
    nvvm.cp.async.commit.group
    %s = scf.for %t = ... iter_args(%c = ...) -> (..., !shed.softmax) {
      nvvm.cp.async.wait.group 0          // tile t is there (two stages),
      nvvm.barrier0                       // and nobody reads tile t - 1:
      nvvm.cp.async.shared.global ...     // tile t + stages - 1 takes its place
      nvvm.cp.async.commit.group
      %keys = shed.keys_at rank ... of ... from ... stage ...
      %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
      ...
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect"];
}

def ConvertShedToNVVM : Pass<"convert-shed-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Lower tasks on tiles to what a thread does";
  let description = [{
    Rewrites what stands in every `shed.attention_task` and `shed.select_task` in
    the llvm, nvvm, scf and arith dialects and puts it in the task's place.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect"];
}

def ConvertShedRowsToNVVM : Pass<"convert-shed-rows-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Lower row kernels to CUDA kernels";
  let description = [{
    Replaces every `shed.row_kernel` by a kernel function of `bundle/abi/RowAbi.h`
    in the llvm, nvvm, scf and arith dialects, as its tiling says. The function
    has the attributes `heddle.threads` and `heddle.shared_bytes` (dynamic shared
    memory: none) for the bundle's record.
    Kernels of attention and selection stay.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect"];
}

def ConvertShedToWarp : Pass<"convert-shed-to-warp", "::mlir::ModuleOp"> {
  let summary = "Write kernels on tiles for warpgroups";
  let description = [{
    Replaces every `shed.kernel` that has a `wgmma_tiling` by a kernel of the
    CUDA ABI on the fragments and tiles of the `warp` dialect, with one stream of
    control and the attribute `warp.pipeline`. Other kernels stay.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::warp::WarpDialect"];
}

def ConvertWarpToNVVM : Pass<"convert-warp-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Lower the warp level to threads";
  let description = [{
    Rewrites every op of the `warp` dialect, whose roles are divided, to what a
    thread does, in the llvm, nvvm, scf and arith dialects. A fragment becomes
    the scalars that a thread holds of it.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect"];
}

def HeddleVerifyMachine : Pass<"heddle-verify-machine", "::mlir::ModuleOp"> {
  let summary = "Check that a module is at the machine level";
  let description = [{
    Every op belongs to an upstream dialect that the machine's code generation
    lowers.
  }];
  let options = [
    ListOption<"dialects", "dialects", "std::string",
               "the dialects (default: the host's, which are arith, builtin, "
               "func, llvm, scf and vector)">,
  ];
}

#endif // HEDDLE_CONVERSION_PASSES_TD
