//===- Toy.cpp - A small model and what its steps must be -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/schedule/Toy.h"

#include "runtime/test/schedule/HandBundle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;
using bundle::Pass;
using bundle::Reuse;

ToyModel::ToyModel(int64_t layerCount, int64_t queryHeads, int64_t kvHeads,
                   uint32_t seed) {
  config.layers = layerCount;
  config.queryHeads = queryHeads;
  config.kvHeads = kvHeads;
  config.headDim = handHeadDim;
  config.hidden = queryHeads * handHeadDim;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  auto matrix = [&](int64_t in, int64_t out) {
    std::vector<float> result(in * out);
    for (float &each : result)
      each = normal(random) / std::sqrt(static_cast<float>(in));
    return result;
  };
  int64_t h = config.hidden, kv = kvHeads * handHeadDim;
  for (int64_t l = 0; l < layerCount; ++l)
    layers.push_back({matrix(h, h), matrix(h, kv), matrix(h, kv), matrix(h, h),
                      matrix(h, h)});
}

float ToyModel::embed(int32_t token, int64_t position, int64_t e) const {
  uint64_t hash = (token * 1000003ull + position) * 1000033ull + e + 1;
  for (int i = 0; i < 3; ++i)
    hash = (hash ^ (hash >> 31)) * 0xBF58476D1CE4E5B9ull;
  return static_cast<float>(hash >> 40) / static_cast<float>(1 << 23) - 1;
}

/// y = x W, W [x.size() x out].
template <typename T>
static std::vector<T> times(const std::vector<T> &x,
                            const std::vector<float> &weights) {
  size_t out = weights.size() / x.size();
  std::vector<T> y(out);
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t o = 0; o < out; ++o)
      y[o] += x[i] * weights[i * out + o];
  return y;
}

static std::vector<int32_t> listOf(const RowSet &set, int64_t rows) {
  if (!set.all)
    return {set.rows.begin(), set.rows.end()};
  std::vector<int32_t> all(rows);
  for (int64_t i = 0; i < rows; ++i)
    all[i] = static_cast<int32_t>(i);
  return all;
}

Result<std::vector<float>>
ToyModel::forward(LayerExecutor &executor, const PackedBatch &batch,
                  const std::vector<int32_t> &tokens) const {
  const int64_t rows = batch.rows(), hidden = config.hidden;
  const int64_t kv = config.kvHeads * config.headDim;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::vector<float>> x(rows, std::vector<float>(hidden));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t e = 0; e < hidden; ++e)
      x[row][e] = embed(tokens[row], batch.positions[row], e);
  for (int64_t l = 0; l < config.layers; ++l) {
    std::vector<float> q(rows * hidden + 1, nan), k(rows * kv + 1, nan),
        v(rows * kv + 1, nan), out(rows * hidden + 1, nan);
    AttentionTensors tensors;
    tensors.query = q.data();
    tensors.key = k.data();
    tensors.value = v.data();
    tensors.output = out.data();
    tensors.queryStride = tensors.outputStride = hidden;
    tensors.keyStride = tensors.valueStride = kv;
    tensors.queryHeads = config.queryHeads;
    tensors.kvHeads = config.kvHeads;
    tensors.headDim = config.headDim;
    auto fill = [&](const RowSet &set, const std::vector<float> &weights,
                    std::vector<float> &to) {
      for (int32_t row : listOf(set, rows)) {
        std::vector<float> y = times(x[row], weights);
        std::copy(y.begin(), y.end(), to.begin() + row * y.size());
      }
    };
    Result<RowSet> values = executor.values(l);
    if (!values)
      return values.takeError();
    if (executor.choosesByValues(l))
      fill(*values, layers[l].value, v);
    auto exact = executor.queriesAndKeys(l, batch, tensors);
    if (!exact)
      return exact.takeError();
    fill(*values, layers[l].value, v);
    fill(exact->queries, layers[l].query, q);
    fill(exact->keys, layers[l].key, k);
    if (Status status = executor.attend(l, batch, tensors); !status)
      return status.takeError();
    auto add = [&](const LayerExecutor::Cached &cached, auto outputOf) {
      for (int32_t row : listOf(cached.computed, rows)) {
        std::vector<float> y = outputOf(row);
        if (!cached.cache)
          for (int64_t e = 0; e < hidden; ++e)
            x[row][e] += y[e];
        else
          std::copy(y.begin(), y.end(), static_cast<float *>(cached.row(row)));
      }
      for (size_t row = 0; cached.cache && row < x.size(); ++row)
        for (int64_t e = 0; e < hidden; ++e)
          x[row][e] += static_cast<const float *>(cached.row(row))[e];
    };
    auto projected = executor.projected(l);
    if (!projected)
      return projected.takeError();
    add(*projected, [&](int32_t row) {
      std::vector<float> context(out.begin() + row * hidden,
                                 out.begin() + (row + 1) * hidden);
      return times(context, layers[l].output);
    });
    auto ffn = executor.ffn(l);
    if (!ffn)
      return ffn.takeError();
    add(*ffn, [&](int32_t row) {
      std::vector<float> y = times(x[row], layers[l].ffn);
      for (float &each : y)
        each = std::tanh(each);
      return y;
    });
  }
  std::vector<float> result;
  for (const std::vector<float> &row : x)
    result.insert(result.end(), row.begin(), row.end());
  return result;
}

/// Of each head the sum of exp(logit) V over some keys, and behind those of all
/// heads the sums of exp(logit).
ToyTruth::Row ToyTruth::sums(const Row &query, const Set &visible,
                             const std::map<int32_t, Row> &keys,
                             const std::map<int32_t, Row> &values) const {
  const ModelConfig &config = model.config;
  Row result(query.size() + config.queryHeads);
  for (int64_t h = 0; h < config.queryHeads; ++h) {
    int64_t kvHead = h * config.kvHeads / config.queryHeads;
    for (int32_t j : visible) {
      double dot = 0;
      for (int64_t e = 0; e < config.headDim; ++e)
        dot += query[h * config.headDim + e] *
               keys.at(j)[kvHead * config.headDim + e];
      const double weight = std::exp(dot / std::sqrt(double(config.headDim)));
      result[query.size() + h] += weight;
      if (auto value = values.find(j); value != values.end())
        for (int64_t e = 0; e < config.headDim; ++e)
          result[h * config.headDim + e] +=
              weight * value->second[kvHead * config.headDim + e];
    }
  }
  return result;
}

ToyTruth::Row ToyTruth::meanOf(const Row &sums) const {
  const ModelConfig &config = model.config;
  const int64_t width = config.queryHeads * config.headDim;
  Row context(sums.begin(), sums.begin() + width);
  for (int64_t e = 0; e < width; ++e)
    context[e] /= sums[width + e / config.headDim];
  return context;
}

ToyTruth::Row ToyTruth::attend(const Row &query, const Set &visible,
                               const std::map<int32_t, Row> &keys,
                               const std::map<int32_t, Row> &values) const {
  return meanOf(sums(query, visible, keys, values));
}

static double cosineOf(const ToyTruth::Row &a, const ToyTruth::Row &b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t e = 0; e < a.size(); ++e)
    ab += a[e] * b[e], aa += a[e] * a[e], bb += b[e] * b[e];
  return ab / std::sqrt(std::max(aa, 1e-8) * std::max(bb, 1e-8));
}

std::map<int32_t, ToyTruth::Row>
ToyTruth::execute(const Step &step, const std::vector<int32_t> &tokens) {
  std::map<int32_t, Row> x;
  for (int32_t i : step.active)
    for (int64_t e = 0; e < model.config.hidden; ++e)
      x[i].push_back(model.embed(tokens[i], i, e));
  rows.assign(model.layers.size(), {});
  using Exact = Pass::Exact;
  auto partOf = [&](size_t l) {
    return step.layers.empty()
               ? Step::Layer{step.active, step.exact, step.below, step.keep}
               : step.layers[l];
  };
  auto comparesIn = [](const Step::Layer &part) {
    return part.exact == Exact::Salient || part.exact == Exact::SalientFfn;
  };
  auto both = [](const Set &a, const Set &b) {
    Set result;
    for (int32_t i : a)
      if (b.count(i))
        result.insert(i);
    return result;
  };
  Set alive = step.active, salient = step.committed;
  for (size_t l = 0; l < model.layers.size(); ++l) {
    const ToyModel::Layer &layer = model.layers[l];
    const Reuse &reuse = reuses[l];
    Step::Layer part = partOf(l);
    part.rows = both(part.rows, alive);
    const bool keepsContext = reuse.attention == Reuse::Attention::Context ||
                              reuse.attention == Reuse::Attention::Propagated;
    // Contexts are compared for the layer's own sake or for the next one's.
    bool compares = comparesIn(part);
    double below = part.below;
    if (!compares && keepsContext && l + 1 < model.layers.size() &&
        partOf(l + 1).exact == Exact::Salient) {
      compares = true;
      below = partOf(l + 1).below;
    }
    Cache &cache = caches[l];
    Set exact = part.rows;
    if (part.exact == Exact::Salient)
      exact = both(salient, part.rows);
    // In layer 0 V depends on the token alone.
    if (part.exact == Exact::LeastSimilar && l > 0) {
      std::vector<std::pair<double, int32_t>> similar;
      for (int32_t i : part.rows)
        if (step.among.count(i)) {
          const double changed =
              1 - cosineOf(times(x[i], layer.value), cache.value.at(i));
          auto sure = step.sure.find(i);
          similar.push_back(
              {(step.weight - 1) * changed -
                   step.weight * (sure == step.sure.end() ? 0 : sure->second),
               i});
          exact.erase(i);
        }
      std::sort(similar.begin(), similar.end());
      similar.resize(static_cast<size_t>(part.keep * similar.size()));
      for (auto &[rank, i] : similar)
        exact.insert(i);
    }
    Set refreshed = step.fresh ? alive : both(step.refreshable, alive);
    if (!step.fresh && l > 0) {
      std::vector<std::pair<double, int32_t>> similar;
      for (int32_t i : refreshed)
        similar.push_back(
            {cosineOf(times(x[i], layer.value), cache.value.at(i)), i});
      std::sort(similar.begin(), similar.end());
      similar.resize(similar.size() * static_cast<size_t>(reuse.keep.num) /
                     static_cast<size_t>(reuse.keep.den));
      refreshed.clear();
      for (auto &[cosine, i] : similar)
        refreshed.insert(i);
    }
    std::map<int32_t, Row> change;
    for (int32_t i : part.rows) {
      bool valued = exact.count(i) > 0 ||
                    (part.exact == Exact::LeastSimilar && part.keep > 0);
      Row value = times(x[i], layer.value);
      if (exact.count(i)) {
        Row before = cache.value[i];
        before.resize(value.size());
        for (size_t e = 0; e < value.size(); ++e)
          change[i].push_back(value[e] - before[e]);
        cache.key[i] = times(x[i], layer.key);
      }
      if (valued)
        cache.value[i] = value;
    }
    salient.clear();
    std::map<int32_t, Row> context;
    for (int32_t i : alive) {
      Row query = times(x[i], layer.query);
      if (reuse.attention == Reuse::Attention::Outside) {
        if (refreshed.count(i)) {
          Set outside;
          for (int32_t j : step.visible)
            if (!step.inside.count(j))
              outside.insert(j);
          cache.outside[i] = sums(query, outside, cache.key, cache.value);
        }
        Row both = sums(query, step.inside, cache.key, cache.value);
        for (size_t e = 0; e < both.size(); ++e)
          both[e] += cache.outside.at(i)[e];
        context[i] = meanOf(both);
      } else if (exact.count(i)) {
        context[i] = attend(query, step.visible, cache.key, cache.value);
      } else {
        context[i] = cache.context[i];
        if (reuse.attention == Reuse::Attention::Propagated) {
          Row more = attend(query, step.visible, cache.key, change);
          for (size_t e = 0; e < more.size(); ++e)
            context[i][e] += more[e];
        }
      }
      if (compares && cosineOf(context[i], cache.context[i]) < below)
        salient.insert(i);
      cache.context[i] = context[i];
    }
    // What a layer leaves out ends there, if it does not keep what it was.
    if (!step.layers.empty() &&
        (reuse.attention == Reuse::Attention::None || !reuse.ffn))
      alive = part.exact == Exact::LeastSimilar ? exact : part.rows;
    Set computesFfn = comparesIn(part) ? salient : exact;
    for (int32_t i : alive) {
      if (exact.count(i) || reuse.attention != Reuse::Attention::Output)
        cache.output[i] = times(context[i], layer.output);
      for (size_t e = 0; e < x[i].size(); ++e)
        x[i][e] += cache.output[i][e];
      if (computesFfn.count(i) || !reuse.ffn) {
        cache.ffn[i] = times(x[i], layer.ffn);
        for (double &each : cache.ffn[i])
          each = std::tanh(each);
      }
      for (size_t e = 0; e < x[i].size(); ++e)
        x[i][e] += cache.ffn[i][e];
    }
    rows[l] = {exact, salient, refreshed};
  }
  std::map<int32_t, Row> result;
  for (int32_t i : alive)
    result[i] = x[i];
  return result;
}
