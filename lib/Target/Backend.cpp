//===- Backend.cpp - The machines that there are --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/Backend.h"

#include "heddle/Target/Host/HostCodegen.h"
#include "heddle/Target/NVPTX/NVPTXBackend.h"

using namespace mlir;
using namespace mlir::heddle;

llvm::Expected<std::unique_ptr<Backend>>
mlir::heddle::createBackend(StringRef target, const BackendOptions &options) {
  if (target == "cuda" || target.consume_front("cuda:")) {
    // PTX for the first of them, which every later GPU's driver compiles.
    llvm::Expected<::heddle::CudaTarget> gpu =
        ::heddle::CudaTarget::get(target == "cuda" ? "sm_80" : target);
    if (!gpu)
      return gpu.takeError();
    return createNVPTXBackend(std::move(*gpu), options);
  }
  if (target.starts_with("sm_")) {
    if (llvm::Error unknown = ::heddle::CudaTarget::get(target).takeError())
      return unknown;
    return llvm::createStringError("unknown CPU '" + target +
                                   "'; for the GPU " + "give cuda:" + target);
  }
  llvm::Expected<::heddle::HostTarget> cpu = ::heddle::HostTarget::get(target);
  if (!cpu)
    return cpu.takeError();
  return createHostBackend(std::move(*cpu));
}
