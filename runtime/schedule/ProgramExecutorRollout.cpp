//===- ProgramExecutorRollout.cpp - The attention that positions drew -----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each key drew in a step, over all layers (Positions::Kind::Attended): by
// rollout, the column sums of the product over layers of (P + I) / 2, where P
// is the mean of the heads' probabilities, and of I in rows that the layer does
// not compute. Source: Abnar and Zuidema 2020; d2Cache.
//
// Sums of columns need no matrix. With v = (1, ..., 1), and from the last layer
// to the first
//
//   v_j <- (v_j / 2 if the layer computes row j, else v_j)
//          + sum over heads h and computed rows i of v_i / (2 H) P_hij,
//
// and as all v are positive they go into the log-sum-exps that attention wrote:
//
//   v_i P_hij = exp2(s_hij - (lse_hi - log2 v_i)).
//
// So the sum over rows is what score collection makes of the layer's queries
// and keys (abi::SelectArgs::scores), of one group that has all computed rows.
// A layer's queries and log-sum-exps are kept until the step is through; its
// keys are in the cache.
//
// Worked example: a layer of one head computes row 1 of 2, with P = (0.25,
// 0.75), and v = (1, 1): v_0 becomes 1 + 0.25 / 2, v_1 1 / 2 + 0.75 / 2.
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/IndexLayout.h"
#include "runtime/schedule/ProgramExecutor.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

/// Of the list that a select kernel writes beside its scores, which nobody
/// reads.
static constexpr int64_t listed = 1;

/// Bytes of the lists of a sequence of `n` keys, in whole cache lines.
int64_t ProgramExecutor::rolloutListBytes(bundle::Encoding encoding,
                                          int64_t n) const {
  constexpr int64_t line = 64;
  const int64_t bytes = queryHeads * bundle::listRowBytes(encoding, n, listed);
  return (bytes + line - 1) / line * line;
}

/// The half of a guided sequence that goes by the other's attention has none
/// of its own; a shadow's keys are no positions.
bool ProgramExecutor::rollsOut(const Sequence &sequence) const {
  const SequenceShape &shape = sequence.rows.shape();
  return program.rollsOut() && sequence.rows.rows() > 0 && shape.driftsAs < 0 &&
         !shape.isShadow();
}

/// Keeps the queries of the rows that a layer computes, and which these are,
/// before attention takes their place.
Status ProgramExecutor::keepQueries(int64_t layer,
                                    const AttentionTensors &tensors) {
  Moves queries;
  for (int64_t s : computing) {
    Sequence &sequence = *sequences[s];
    std::vector<int32_t> &computed = sequence.computedPlaces[layer];
    computed.clear();
    if (!rollsOut(sequence))
      continue;
    for (int64_t i = 0; i < sequence.exact.count(sequence.rows.rows()); ++i) {
      const int64_t row = sequence.exact.all ? i : sequence.exact.rows[i];
      queries.add(batch.offsets[s] + row, starts[s] + i);
      computed.push_back(sequence.rows.activePlaces()[row]);
    }
  }
  return memory->copy({tensors.query, tensors.queryStride, queries.from},
                      {queriesOf(layer, 0), attentionWidth(), queries.to},
                      attentionWidth());
}

/// Brings floats to the host.
Status ProgramExecutor::fetchFloats(const float *from, std::vector<float> &to) {
  // As one row, of elements of the executor's type.
  const int64_t each = int64_t(sizeof(float)) / byteSize(dtype);
  const int32_t only = 0;
  return memory->fetch({from, 0, {&only, 1}}, std::ssize(to) * each, to.data());
}

/// Has `args` score all keys of a sequence by what its rows in a layer drew in
/// the layers behind, `drawn` [n].
Status ProgramExecutor::weighRows(int64_t layer, int64_t s,
                                  std::span<const double> drawn,
                                  abi::SelectArgs &args) {
  const std::vector<int32_t> &computed = sequences[s]->computedPlaces[layer];
  const int64_t rows = std::ssize(computed);
  const auto n = std::ssize(drawn);
  std::vector<float> written(static_cast<size_t>(queryHeads * rows));
  if (Status status = fetchFloats(lseOf(layer, starts[s]), written); !status)
    return status;
  std::vector<float> weighed(static_cast<size_t>(queryHeads * n));
  for (int64_t i = 0; i < rows; ++i) {
    const auto weight = static_cast<float>(std::log2(drawn[computed[i]]));
    for (int64_t head = 0; head < queryHeads; ++head)
      weighed[head * n + i] = written[head * rows + i] - weight;
  }
  const int64_t at = starts[s] * queryHeads;
  auto *lse = reinterpret_cast<float *>(rolloutLse.get()) + at;
  if (Status status = memory->put(lse, weighed.data(),
                                  std::ssize(weighed) * int64_t(sizeof(float)));
      !status)
    return status;
  args = {};
  args.query = queriesOf(layer, starts[s]);
  args.key = keyStore.row(layer, s, 0);
  args.lse = lse;
  args.scores = reinterpret_cast<float *>(rolloutScores.get()) + at;
  args.n = n;
  args.queryStride = attentionWidth();
  args.keyStride = kvWidth();
  args.kvGroup = queryHeads / kvHeads;
  args.scale = scaleOf(bundle::Selection::Scale::HeadDim);
  args.heads = static_cast<uint32_t>(queryHeads);
  args.position = sequences[s]->rows.positions().data();
  args.rowEnd = rows;
  std::byte *own = rolloutLists.get();
  for (int64_t earlier = 0; earlier < s; ++earlier)
    own += rolloutListBytes(encodedBy, starts[earlier + 1] - starts[earlier]);
  args.list = {own, 1, listed, bundle::listRowBytes(encodedBy, n, listed)};
  counted.scorePairs += queryHeads * rows * n;
  counted.scoredKeys += n;
  return Status::success();
}

/// Brings `drawn` through a layer.
Status ProgramExecutor::rollBack(int64_t layer, int64_t s,
                                 const abi::SelectArgs &args,
                                 std::vector<double> &drawn) {
  const std::vector<int32_t> &computed = sequences[s]->computedPlaces[layer];
  std::vector<float> means(static_cast<size_t>(queryHeads * args.n));
  if (Status status = fetchFloats(args.scores, means); !status)
    return status;
  for (int32_t place : computed)
    drawn[place] /= 2;
  const double share = static_cast<double>(computed.size()) /
                       (2 * static_cast<double>(queryHeads));
  for (int64_t j = 0; j < args.n; ++j) {
    double sum = 0;
    for (int64_t head = 0; head < queryHeads; ++head)
      sum += static_cast<double>(means[head * args.n + j]);
    drawn[j] += share * sum;
  }
  return Status::success();
}

/// Adds up what each position drew in this step, which has been through all
/// attention.
Status ProgramExecutor::rollOut() {
  struct Choice {
    size_t kernel;
    std::vector<abi::SelectArgs> blocks;
    std::vector<int64_t> of; ///< sequences
  };
  std::vector<std::vector<double>> drawn(sequences.size());
  for (int64_t s : computing)
    if (rollsOut(*sequences[s]))
      drawn[s].assign(static_cast<size_t>(sequences[s]->rows.n()), 1);
  for (int64_t layer = layers; layer-- > 0;) {
    std::vector<Choice> choices; // one for each kernel
    for (int64_t s : computing) {
      if (drawn[s].empty() || sequences[s]->computedPlaces[layer].empty())
        continue;
      const auto kernel =
          static_cast<size_t>(phaseOf(layer, *sequences[s]).rollout);
      auto choice = std::ranges::find(choices, kernel, &Choice::kernel);
      if (choice == choices.end())
        choice = choices.insert(choice, Choice{kernel, {}, {}});
      abi::SelectArgs &args = choice->blocks.emplace_back();
      choice->of.push_back(s);
      if (Status status = weighRows(layer, s, drawn[s], args); !status)
        return status;
    }
    for (const Choice &choice : choices) {
      if (Status status = runner->select(choice.kernel, choice.blocks); !status)
        return status;
      for (size_t b = 0; b < choice.of.size(); ++b)
        if (Status status = rollBack(layer, choice.of[b], choice.blocks[b],
                                     drawn[choice.of[b]]);
            !status)
          return status;
    }
  }
  for (int64_t s : computing) {
    if (drawn[s].empty())
      continue;
    Sequence &sequence = *sequences[s];
    sequence.drew.assign(static_cast<size_t>(sequence.rows.shape().length), 0);
    for (size_t place = 0; place < drawn[s].size(); ++place)
      sequence.drew[sequence.rows.positions()[place]] = drawn[s][place];
  }
  return Status::success();
}

/// What a sequence's positions drew in the last step that computed rows.
std::span<const double> ProgramExecutor::attention(int64_t sequence) const {
  const Sequence &own = *sequences[sequence];
  const int64_t as = own.rows.shape().driftsAs;
  return as < 0 ? own.drew : sequences[as]->drew;
}
