//===- RunRecord.h - A run to look at ---------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_RUNRECORD_H
#define HEDDLE_TOOLS_HEDDLE_RUN_RUNRECORD_H

#include "bundle/program/Manifest.h"
#include "runtime/denoise/Denoise.h"
#include "runtime/model/Config.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace heddle::run {

/// Writes --record: what a run did with its first sequence, in one safetensors
/// file whose size does not follow the sequence's length (docs/HowTo/Trace.md
/// describes it; heddle-trace draws it). A step is one of the sequence, also
/// where a forward pass makes several: its rows are those of the copy that made
/// it.
class RunRecord {
public:
  struct About {
    std::string schedule, source; ///< name and MLIR text
    std::string model, device, dtype, date;
    int64_t promptLength = 0;
    std::vector<bundle::Selection> selections;
    rt::GenerateOptions lengths;
    /// The text of one token.
    std::function<std::string(int32_t token)> text;
  };
  RunRecord(About about, const rt::ModelConfig &config)
      : about(std::move(about)), config(config) {}

  void step(const rt::StepRecord &record);

  /// Writes the file, whole or not at all.
  Status finish(const std::string &path, const rt::Generation &generation);

private:
  int32_t shareOf(const std::vector<int32_t> &positions, int64_t length);
  void addStep(const rt::SequenceTrace &trace);
  void addMaps(const rt::StepRecord &record, int64_t step);
  void addDrift(const rt::SequenceTrace &trace);

  About about;
  const rt::ModelConfig &config;
  int64_t length = 0;
  /// Shares of bins of the sequence, each content once.
  std::map<std::vector<uint8_t>, int32_t> shareNumber;
  std::vector<uint8_t> shares;         ///< [different x bins]
  std::vector<int32_t> visible;        ///< [steps]: of shares
  std::vector<int32_t> queries, exact; ///< [steps x layers]: of shares
  std::vector<int32_t> counts;         ///< [steps x layers x 3]: rows whose Q,
                                       ///< attention and FFN are computed
  std::vector<int32_t> passes;  ///< [steps x 2]: the forward pass that made it,
                                ///< from 1, and the copies that were in it
  std::vector<float> seconds;   ///< [steps]: in equal parts, those of its pass
  std::vector<int32_t> commits; ///< [commits x 3]: step, position, token;
                                ///< -1: a mask again
  std::vector<float> confidences;  ///< [commits]
  std::vector<int32_t> mapSteps;   ///< [maps]
  std::vector<uint8_t> mapRows;    ///< [maps x layers x cells]
  std::vector<uint8_t> mass, kept; ///< [maps x layers x heads x cells^2]
  std::vector<float> recall;       ///< [maps x layers x heads]
  int64_t cells = 0;
  /// The lists before, by layer, head and selection.
  std::map<std::vector<int64_t>, std::vector<std::vector<int32_t>>> before;
  std::vector<int32_t>
      driftAt;              ///< [refreshes x 4]: step, layer, head, selection
  std::vector<float> drift; ///< [refreshes]: share of the entries that were
                            ///< there before; -1 where there were no lists
};

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_RUNRECORD_H
