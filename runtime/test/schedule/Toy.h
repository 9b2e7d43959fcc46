//===- Toy.h - A small model and what its steps must be ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ToyModel executes a LayerExecutor the way a model does, in fp32, with NaN
// wherever the executor did not ask for a row. ToyTruth states the same steps
// with loops over positions in float64 and a map for every cache: no places, no
// batches. Both compute, per layer, x += attention(x) Wo and x += tanh(x Wf).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_SCHEDULE_TOY_H
#define HEDDLE_RUNTIME_TEST_SCHEDULE_TOY_H

#include "bundle/program/Manifest.h"
#include "runtime/model/Attention.h"
#include "runtime/model/Config.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace heddle::test {

class ToyModel {
public:
  ToyModel(int64_t layers, int64_t queryHeads, int64_t kvHeads, uint32_t seed);

  struct Layer {
    std::vector<float> query, key, value, output, ffn; ///< [in x out]
  };

  /// The hidden states [rows x hidden] of a batch after all layers.
  Result<std::vector<float>> forward(rt::LayerExecutor &executor,
                                     const rt::PackedBatch &batch,
                                     const std::vector<int32_t> &tokens) const;

  /// Element `e` of the embedding of a token at a position.
  float embed(int32_t token, int64_t position, int64_t e) const;

  rt::ModelConfig config;
  std::vector<Layer> layers;
};

/// One sequence under a schedule of dense attention.
class ToyTruth {
public:
  ToyTruth(const ToyModel &model, bundle::Reuse reuse)
      : ToyTruth(model, std::vector(model.layers.size(), reuse)) {}
  /// `reuses` [layers].
  ToyTruth(const ToyModel &model, std::vector<bundle::Reuse> reuses)
      : model(model), reuses(std::move(reuses)), caches(model.layers.size()) {}

  using Row = std::vector<double>;
  using Set = std::set<int32_t>;

  struct Step {
    Set visible;
    Set active;
    bundle::Pass::Exact exact = bundle::Pass::Exact::All;
    Set committed; ///< Salient: at the step before
    double below = 0;
    Set among; ///< LeastSimilar
    double keep = 0;
    double weight = 0;              ///< of `sure`, beside what changed
    std::map<int32_t, double> sure; ///< 0 of others
    Set inside;                     ///< Reuse::Attention::Outside: of `visible`
    bool fresh = false;             ///< attention over the others is kept
    Set refreshable;                ///< else: rows that may keep it anew
    /// [layers]: what a layer computes, of whose rows not all may be active; if
    /// empty, all layers compute what is said above.
    struct Layer {
      Set rows;
      bundle::Pass::Exact exact = bundle::Pass::Exact::All;
      double below = 0;
      double keep = 0;
    };
    std::vector<Layer> layers;
  };

  /// The hidden states of the positions that come out of the last layer. Also
  /// fills in `rows`.
  std::map<int32_t, Row> execute(const Step &step,
                                 const std::vector<int32_t> &tokens);

  /// What the last step computed in each layer.
  struct Rows {
    Set exact, salient;
    Set refreshed; ///< attended to the keys outside
  };
  std::vector<Rows> rows;

private:
  struct Cache {
    std::map<int32_t, Row> key, value, context, output, ffn;
    std::map<int32_t, Row> outside; ///< sums over the keys outside
  };
  Row sums(const Row &query, const Set &visible,
           const std::map<int32_t, Row> &keys,
           const std::map<int32_t, Row> &values) const;
  Row meanOf(const Row &sums) const;
  Row attend(const Row &query, const Set &visible,
             const std::map<int32_t, Row> &keys,
             const std::map<int32_t, Row> &values) const;

  const ToyModel &model;
  std::vector<bundle::Reuse> reuses;
  std::vector<Cache> caches;
};

} // namespace heddle::test

#endif // HEDDLE_RUNTIME_TEST_SCHEDULE_TOY_H
