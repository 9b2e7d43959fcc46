//===- Ptxas.h - NVIDIA's assembler -----------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_NVPTX_PTXAS_H
#define HEDDLE_TARGET_NVPTX_PTXAS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace heddle {

/// What ptxas says of one kernel (`-v`).
struct PtxasKernel {
  std::string symbol;
  int64_t registers = 0;  ///< of a thread
  int64_t stackBytes = 0; ///< of a thread's stack frame, spills included
  int64_t spillBytes = 0; ///< stored or loaded because registers ran out
};

/// What ptxas made of a PTX module.
struct Assembled {
  std::string cubin;
  llvm::SmallVector<PtxasKernel> kernels; ///< in the order of its log
  /// Its warnings and the notes with a number, such as C7510: code that was
  /// made slower than it was written.
  llvm::SmallVector<std::string> complaints;
};

/// The path of ptxas: in the folder bin of $CUDA_HOME or $CUDA_PATH, on PATH,
/// or where the CUDA toolkit installs itself.
std::optional<std::string> findPtxas();

/// Runs `ptxas` on a module for `chip` ("sm_90a"). None when this ptxas is too
/// old for the chip or the PTX version; `why` then is its sentence. Fails when
/// it refuses the PTX, or accepts it and writes no ELF file.
llvm::Expected<std::optional<Assembled>> assemble(llvm::StringRef ptxas,
                                                  llvm::StringRef chip,
                                                  llvm::StringRef ptx,
                                                  std::string &why);

/// Reads a log of `ptxas -v`: kernels and complaints, no cubin.
Assembled parsePtxasLog(llvm::StringRef log);

} // namespace heddle

#endif // HEDDLE_TARGET_NVPTX_PTXAS_H
