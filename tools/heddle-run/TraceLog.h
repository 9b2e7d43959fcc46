//===- TraceLog.h - What every step computed --------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_TRACELOG_H
#define HEDDLE_TOOLS_HEDDLE_RUN_TRACELOG_H

#include "LineFile.h"
#include "bundle/program/Manifest.h"
#include "runtime/denoise/Denoise.h"
#include "runtime/model/Config.h"

#include <vector>

namespace heddle::run {

/// Writes --trace. One JSON line a step of a sequence, as
/// python/heddle_reference/methods/trace.py describes: the rows of each layer,
/// the visible positions, the lists of each selection that was refreshed, what
/// was committed, and totals.
class TraceLog {
public:
  /// `selections` of the bundle; `promptLengths` of the sequences.
  TraceLog(LineFile file, std::vector<bundle::Selection> selections,
           std::vector<int64_t> promptLengths, const rt::ModelConfig &config)
      : file(std::move(file)), selections(std::move(selections)),
        promptLengths(std::move(promptLengths)), queryHeads(config.queryHeads),
        kvHeads(config.kvHeads), kvBytes(4 * config.kvHeads * config.headDim) {}

  void step(const rt::StepRecord &record);

  /// Fails if anything could not be written.
  Status finish() { return file.finish(); }

private:
  LineFile file;
  std::vector<bundle::Selection> selections;
  std::vector<int64_t> promptLengths;
  int64_t queryHeads;
  int64_t kvHeads;
  int64_t kvBytes; ///< of K or V of a row in fp32
};

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_TRACELOG_H
