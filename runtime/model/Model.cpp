//===- Model.cpp - What all forward passes have in common -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/Model.h"

#include "runtime/base/Machine.h"

#include <algorithm>

namespace heddle::rt {

Status Model::checkMemory(int64_t bytes, const std::string &what,
                          const std::string &advice) const {
  return rt::checkMemory(bytes, what, advice);
}

Status checkForward(const ModelConfig &config, const PackedBatch &batch,
                    std::span<const int32_t> tokens,
                    const LogitRequest &logits) {
  if (batch.offsets.size() < 2 || batch.offsets.front() != 0)
    return Error("a packed batch needs offsets that start at 0 and at least "
                 "one sequence");
  if (static_cast<int64_t>(tokens.size()) != batch.rows() ||
      static_cast<int64_t>(batch.positions.size()) != batch.rows())
    return Error("the batch has " + std::to_string(batch.rows()) +
                 " rows but " + std::to_string(tokens.size()) + " tokens and " +
                 std::to_string(batch.positions.size()) + " positions");
  for (int32_t position : batch.positions)
    if (position < 0 || position >= config.maxSequenceLength)
      return Error("a row stands at position " + std::to_string(position) +
                   " of its sequence, expected 0 to " +
                   std::to_string(config.maxSequenceLength - 1) +
                   " (the model's max_sequence_length)");
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= config.vocabSize)
      return Error("row " + std::to_string(i) + ": token id " +
                   std::to_string(tokens[i]) +
                   " is not in the vocabulary, 0 "
                   "to " +
                   std::to_string(config.vocabSize - 1));
  if (logits.unit < 1 ||
      static_cast<int64_t>(logits.rows.size()) % logits.unit != 0)
    return Error("logits of " + std::to_string(logits.rows.size()) +
                 " rows were asked for in units of " +
                 std::to_string(logits.unit));
  for (int64_t row : logits.rows)
    if (row < 0 || row >= batch.rows())
      return Error("logits of row " + std::to_string(row) +
                   " were asked for, the batch has " +
                   std::to_string(batch.rows()) + " rows");
  return Status::success();
}

AttentionTensors packedTensors(const ModelConfig &config, DType dtype,
                               const void *qkv, void *output) {
  const auto *first = static_cast<const std::byte *>(qkv);
  const int64_t attention = config.attentionWidth();
  return {.query = first,
          .key = first + attention * byteSize(dtype),
          .value = first + (attention + config.kvWidth()) * byteSize(dtype),
          .output = output,
          .queryStride = config.qkvWidth(),
          .keyStride = config.qkvWidth(),
          .valueStride = config.qkvWidth(),
          .outputStride = attention,
          .queryHeads = config.queryHeads,
          .kvHeads = config.kvHeads,
          .headDim = config.headDim,
          .dtype = dtype};
}

Status executeAttention(
    LayerExecutor &executor, int64_t layer, const PackedBatch &batch,
    const AttentionTensors &tensors,
    const std::function<Status(int firstPart, int endPart, const RowSet &rows)>
        &project) {
  RowSet values;
  if (Status s = executor.values(layer).moveTo(values); !s)
    return s;
  LayerExecutor::Exact exact;
  auto choose = [&] {
    return executor.queriesAndKeys(layer, batch, tensors).moveTo(exact);
  };
  const bool byValues = executor.choosesByValues(layer);
  if (!byValues)
    if (Status s = choose(); !s)
      return s;
  auto same = [](const RowSet &a, const RowSet &b) {
    return a.all == b.all && std::ranges::equal(a.rows, b.rows);
  };
  if (!byValues && same(values, exact.keys) &&
      same(exact.queries, exact.keys)) {
    if (Status s = project(0, 3, values); !s)
      return s;
  } else {
    if (Status s = project(2, 3, values); !s)
      return s;
    if (byValues)
      if (Status s = choose(); !s)
        return s;
    if (Status s = project(0, 1, exact.queries); !s)
      return s;
    if (Status s = project(1, 2, exact.keys); !s)
      return s;
  }
  return executor.attend(layer, batch, tensors);
}

} // namespace heddle::rt
