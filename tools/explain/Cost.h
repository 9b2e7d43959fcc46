//===- Cost.h - What a step costs, by part of the model ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that knows how rows and pairs become floating-point operations
// and bytes. Who counts a run and who explains one before it is made both ask
// here. A multiplication and its addition are two operations; norms, rotations,
// softmax and activations are not counted.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_COST_H
#define HEDDLE_TOOLS_EXPLAIN_COST_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace heddle::explain {

/// The shape of a transformer with SwiGLU; the defaults are LLaDA-8B's.
/// Source: LLaDA-8B-Instruct, config.json.
struct ModelShape {
  int64_t layers = 32;
  int64_t hidden = 4096;
  int64_t heads = 32;   ///< query heads
  int64_t kvHeads = 32; ///< key/value heads
  int64_t headDim = 128;
  int64_t ffnWidth = 12288;
  int64_t vocabulary = 126464;
  int64_t elementBytes = 2;

  int64_t attentionWidth() const { return heads * headDim; }
  int64_t kvWidth() const { return kvHeads * headDim; }
};

/// What a step, or a run, computes: rows summed over layers, pairs (query, key)
/// over layers and heads.
struct Work {
  int64_t queryRows = 0; ///< rows whose Q is computed
  int64_t keyRows = 0;
  int64_t valueRows = 0;
  int64_t pairs = 0;         ///< of attention
  int64_t scorePairs = 0;    ///< visited again to score selections
  int64_t lsePairs = 0;      ///< computed by attention once more, for the
                             ///< log-sum-exps that selections are scored by, or
                             ///< the weights that drift is measured by
  int64_t projectedRows = 0; ///< through attention's output projection
  int64_t ffnRows = 0;
  int64_t logitRows = 0; ///< through the LM head

  Work &operator+=(const Work &other);
  bool operator==(const Work &) const = default;
};

/// Each number of a Work once, and its key in JSON.
inline constexpr std::array workMembers = {
    std::pair("query_rows", &Work::queryRows),
    std::pair("key_rows", &Work::keyRows),
    std::pair("value_rows", &Work::valueRows),
    std::pair("pairs", &Work::pairs),
    std::pair("score_pairs", &Work::scorePairs),
    std::pair("lse_pairs", &Work::lsePairs),
    std::pair("projected_rows", &Work::projectedRows),
    std::pair("ffn_rows", &Work::ffnRows),
    std::pair("logit_rows", &Work::logitRows)};

Work operator*(const Work &work, int64_t times);

/// The parts of a model, in the order of a layer.
enum class Part { Qkv, Attention, Scoring, Output, Ffn, Head };
inline constexpr std::array allParts = {Part::Qkv,     Part::Attention,
                                        Part::Scoring, Part::Output,
                                        Part::Ffn,     Part::Head};
inline constexpr std::size_t partCount = allParts.size();

/// Bytes that parts of a model move.
using PartBytes = std::array<double, partCount>;

/// Of all parts.
double sumOf(const PartBytes &bytes);

/// What a layer, a step or a run computes, and the bytes that it moves.
struct Cost {
  Work work;
  PartBytes bytes{};

  Cost &operator+=(const Cost &other);
};

Cost operator*(const Cost &cost, int64_t times);

/// "QKV", "attention", "scoring", "attention output", "FFN", "LM head".
const char *nameOf(Part part);
/// The same as keys of JSON: "qkv", "attention", "scoring", "output", "ffn",
/// "lm_head".
const char *keyOf(Part part);

/// Whether the part is counted in pairs, not in rows.
inline bool isOfPairs(Part part) {
  return part == Part::Attention || part == Part::Scoring;
}

/// The rows or pairs of a part. Rows of Q, K and V are a third of a row each.
double amountOf(const Work &work, Part part);

/// Floating-point operations; exact below 2^53. With hidden width h, query and
/// key/value width q and v, head dim d, FFN width f, vocabulary w:
///   QKV 2 h (q Q + v K + v V rows), attention 4 d a pair, scoring 2 d a pair
///   visited and 4 d a pair of attention once more, output 2 q h, FFN 6 h f, LM
///   head 2 h w a row.
double operationsOf(const ModelShape &shape, const Work &work, Part part);
double operationsOf(const ModelShape &shape, const Work &work);

/// One layer at one step, or several whose numbers are added up.
struct LayerStep {
  Work work;
  int64_t layers = 1;
  int64_t rows = 0;     ///< that carry a hidden state through the layer
  int64_t visible = 0;  ///< keys of a query row if all pairs were kept
  int64_t scored = 0;   ///< keys that selections are scored over
  int64_t attended = 0; ///< query rows of attention
  int64_t merged = 0;   ///< of these, those of which a part is kept or read
  /// What keeps pairs, and for how many rows a list of keys is.
  enum class Pattern { Dense, Band, Columns, Blocks };
  Pattern pattern = Pattern::Dense;
  bool whole = false;     ///< of at most one list, and all rows of the sequence
  int64_t group = 0;      ///< Columns, Blocks
  int64_t scoreGroup = 0; ///< of the selections that are refreshed
  int64_t logitPairs = 0; ///< of work.scorePairs, those by mean logits
  int64_t scoreTasks = 0; ///< their lists, each made by one block or thread
  bool scoresBlocks = false;
  bool compares = false; ///< rows are chosen by what the layer finds
};

/// Bytes that a part moves at least: weights of each layer that computes rows
/// of it, and each row that it reads or writes, once. The LM head is of
/// `logitRows` alone.
double bytesOf(const ModelShape &shape, const LayerStep &step, Part part);

/// Of all parts.
Cost costOf(const ModelShape &shape, const LayerStep &step);

/// Bytes of what stands between the products: norms, residual sums,
/// rotations, activations.
double elementwiseBytesOf(const ModelShape &shape, const LayerStep &step);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_COST_H
