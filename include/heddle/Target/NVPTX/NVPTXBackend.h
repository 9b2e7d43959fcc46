//===- NVPTXBackend.h - Code generation for NVIDIA GPUs ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_NVPTX_NVPTXBACKEND_H
#define HEDDLE_TARGET_NVPTX_NVPTXBACKEND_H

#include "heddle/Target/Backend.h"
#include "heddle/Target/NVPTX/CudaTarget.h"

namespace mlir::heddle {

/// The back end that makes PTX and, as the options say, machine code. What
/// ptxas finds slow (a stack frame, serialised instructions) is a warning at
/// the module; with Assembler::Strict any of it is an error. Remarks of
/// category "heddle-nvptx" say what each kernel takes.
/// Fails if the options' table of tilings is none.
llvm::Expected<std::unique_ptr<Backend>>
createNVPTXBackend(::heddle::CudaTarget target, const BackendOptions &options);

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_NVPTX_NVPTXBACKEND_H
