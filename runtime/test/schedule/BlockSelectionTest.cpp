//===- BlockSelectionTest.cpp - Lists of blocks, of all rows, in lists
//-----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selections of blocks, executed with the definitions of the kernels, against a
// statement of each isolation in terms of one list of the keys of every block.
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ProgramChecks.h"
#include "runtime/reference/ReferenceExecutor.h"
#include "runtime/test/schedule/HandBundle.h"
#include "runtime/test/schedule/Tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

using namespace heddle;
using namespace heddle::rt;
using bundle::KeepRule;
using bundle::Selection;
using bundle::Term;

namespace {

constexpr int64_t size = 4; ///< keys of a block, rows of a group
using Isolation = Selection::Isolation;
using Matrix = std::vector<std::vector<double>>; ///< [row][key]

/// Dense attention and a refresh in step 1, then only the blocks.
bundle::Manifest blocksManifest(const Selection &selection) {
  bundle::Manifest manifest;
  manifest.selections = {selection};
  manifest.kernels.resize(3);
  manifest.kernels[0].name = "dense_lse";
  manifest.kernels[0].writesLse = true;
  manifest.kernels[1].name = "blocks";
  manifest.kernels[1].terms = {{Term::Kind::Blocks, 0, 0}};
  manifest.kernels[2].name = "select";
  manifest.kernels[2].kind = bundle::Kernel::Kind::Select;
  manifest.kernels[2].group = size;
  manifest.kernels[2].blocks = true;
  manifest.kernels[2].perKvHead = selection.perKvHead;
  bundle::Phase refreshing, otherwise;
  refreshing.when = {bundle::When::Kind::On, selection.cadence};
  refreshing.attention = 0;
  refreshing.refreshes = {{0, 2, bundle::scoringsOf(selection, 0)}};
  otherwise.attention = 1;
  manifest.rules.emplace_back().phases = {refreshing, otherwise};
  return manifest;
}

Selection blocksOf(bundle::Ratio keep, KeepRule rule, Isolation isolation) {
  Selection selection;
  selection.name = "tiles";
  selection.kind = Selection::Kind::Blocks;
  selection.keep = keep;
  selection.rule = rule;
  selection.group = size;
  selection.isolation = isolation;
  selection.cadence.kind = bundle::Cadence::Kind::First;
  selection.cadence.count = 1;
  return selection;
}

/// The dot products of all queries and keys of a head.
Matrix logits(const AttentionTensors &tensors, int64_t head, int64_t n) {
  const auto *q = static_cast<const float *>(tensors.query);
  const auto *k = static_cast<const float *>(tensors.key);
  int64_t kvHead = head * tensors.kvHeads / tensors.queryHeads;
  Matrix result(n, std::vector<double>(n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t e = 0; e < tensors.headDim; ++e)
        result[i][j] +=
            double(q[i * tensors.queryStride + head * tensors.headDim + e]) *
            k[j * tensors.keyStride + kvHead * tensors.headDim + e];
  return result;
}

/// Softmax of scale * Q K^T over the keys from `first` on.
Matrix probabilities(const AttentionTensors &tensors, int64_t head, int64_t n,
                     double scale, int64_t first) {
  Matrix result = logits(tensors, head, n);
  for (std::vector<double> &row : result) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j)
      sum += row[j] = j < first ? 0 : std::exp(row[j] * scale);
    for (double &each : row)
      each /= sum;
  }
  return result;
}

/// The keys of each block; with `split`, blocks start anew there.
std::vector<std::vector<int64_t>> blocksOf(int64_t n, int64_t split) {
  std::vector<std::vector<int64_t>> blocks;
  for (int64_t j = 0; j < n; ++j) {
    if (j == split || (j - (j >= split ? split : 0)) % size == 0)
      blocks.emplace_back();
    blocks.back().push_back(j);
  }
  return blocks;
}

double meanOver(const Matrix &p, const std::vector<int64_t> &rows,
                const std::vector<int64_t> &keys) {
  double sum = 0;
  for (int64_t i : rows)
    for (int64_t j : keys)
      sum += p[i][j];
  return sum / static_cast<double>(rows.size() * keys.size());
}

/// The best `keep` blocks of [begin, end).
std::set<int64_t> best(const std::vector<double> &scores, int64_t begin,
                       int64_t end, int64_t keep) {
  std::vector<int64_t> order(end - begin);
  std::iota(order.begin(), order.end(), begin);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  order.resize(keep);
  return {order.begin(), order.end()};
}

void check(const Selection &selection, int64_t length, int64_t prompt,
           bool windowed) {
  ModelConfig config;
  config.layers = 1;
  config.queryHeads = 4;
  config.kvHeads = 2;
  config.headDim = 8;
  bundle::Manifest manifest = blocksManifest(selection);
  int64_t n = length;
  if (windowed) { // of the response, the first six positions are visible
    using Kind = bundle::Positions::Kind;
    manifest.positions.resize(3);
    manifest.positions[0].kind = Kind::Prompt;
    manifest.positions[1].kind = Kind::Undecoded;
    manifest.positions[1].count = 6;
    manifest.positions[2].kind = Kind::Union;
    manifest.positions[2].of = {0, 1};
    manifest.visible = 2;
    n = prompt + 6;
  }
  auto executor = ReferenceExecutor::create(manifest, config, DType::F32);
  ASSERT_TRUE(executor) << executor.error().text();
  test::States states({{length, prompt}});
  ASSERT_TRUE((*executor)->beginRun(states.shapes, 2, 2));
  std::mt19937 random(4);
  test::Tensors memory(config, n, 3, DType::F32, random);
  std::vector<std::byte> output;
  auto batch = (*executor)->beginStep(states.all(1, 2));
  ASSERT_TRUE(batch) << batch.error().text();
  ASSERT_EQ((*batch)->rows(), n);
  AttentionTensors tensors = memory.into(output);
  Status executed = test::executeLayer(**executor, 0, **batch, tensors);
  ASSERT_TRUE(static_cast<bool>(executed)) << executed.error().text();

  bool two = selection.isolation != Isolation::None && prompt > 0;
  bool anew = two && selection.isolation == Isolation::Spans;
  auto blocks = blocksOf(n, anew ? prompt : n);
  auto count = static_cast<int64_t>(blocks.size());
  int64_t boundary = 0; // the response's first block
  while (boundary < count && blocks[boundary].front() < prompt)
    ++boundary;
  boundary = std::min(boundary, count - 1);
  auto kept = [&](int64_t of) { return selection.kept(of); };
  double scale = 1 / std::sqrt(selection.scale == Selection::Scale::Heads
                                   ? double(config.queryHeads)
                                   : double(config.headDim));
  int64_t shared = selection.perKvHead ? 2 : 1;
  SelectionView view = (*executor)->selections(0, 0)->at(0);
  ASSERT_TRUE(view.indices);
  ASSERT_EQ(view.lists, config.queryHeads / shared);
  ASSERT_EQ(view.groups, (n + size - 1) / size);
  std::vector<std::vector<std::set<int64_t>>> keys(view.lists); // [list][group]
  for (int64_t list = 0; list < view.lists; ++list)
    for (int64_t g = 0; g < view.groups; ++g) {
      std::vector<int64_t> rows;
      for (int64_t i = g * size; i < std::min(n, (g + 1) * size); ++i)
        rows.push_back(i);
      std::vector<double> scores(count), among(count);
      for (int64_t h = list * shared; h < (list + 1) * shared; ++h) {
        Matrix all = probabilities(tensors, h, n, scale, 0);
        Matrix own = probabilities(tensors, h, n, scale,
                                   two ? blocks[boundary].front() : 0);
        for (int64_t v = 0; v < count; ++v) {
          // A block that is short counts as a whole one when filtered.
          double part = two && selection.isolation == Isolation::Filtered
                            ? double(blocks[v].size()) / double(size)
                            : 1;
          scores[v] += part * meanOver(all, rows, blocks[v]);
          among[v] += part * meanOver(own, rows, blocks[v]);
        }
      }
      std::set<int64_t> expected;
      if (!two) {
        expected = best(scores, 0, count, kept(count));
      } else if (selection.isolation == Isolation::Filtered) {
        for (int64_t v : best(scores, 0, count, kept(count)))
          if (v < boundary)
            expected.insert(v);
        expected.merge(best(among, boundary, count, kept(count - boundary)));
      } else {
        expected = best(scores, 0, boundary, kept(boundary));
        expected.merge(best(scores, boundary, count, kept(count - boundary)));
      }
      std::vector<int32_t> found(
          view.indices + (list * view.groups + g) * view.keep,
          view.indices + (list * view.groups + g + 1) * view.keep);
      std::vector<int32_t> padded(expected.begin(), expected.end());
      padded.resize(view.keep, -1);
      EXPECT_EQ(found, padded) << "list " << list << " group " << g;
      keys[list].resize(g + 1);
      for (int64_t v : expected)
        keys[list][g].insert(blocks[v].begin(), blocks[v].end());
    }

  // The next step attends to the keys of these blocks.
  batch = (*executor)->beginStep(states.all(2, 2));
  ASSERT_TRUE(batch) << batch.error().text();
  int64_t before = (*executor)->visitedPairs();
  executed = test::executeLayer(**executor, 0, **batch, tensors);
  ASSERT_TRUE(static_cast<bool>(executed)) << executed.error().text();
  EXPECT_EQ((*executor)->counters().pairs,
            (*executor)->visitedPairs() - before);
  const auto *v = static_cast<const float *>(tensors.value);
  const auto *o = static_cast<const float *>(tensors.output);
  for (int64_t h = 0; h < config.queryHeads; ++h) {
    Matrix p = probabilities(tensors, h, n, 1 / std::sqrt(8.0), 0);
    for (int64_t i = 0; i < n; ++i) {
      std::vector<double> expected(config.headDim);
      double sum = 0;
      for (int64_t j : keys[h / shared][i / size]) {
        sum += p[i][j];
        for (int64_t e = 0; e < config.headDim; ++e)
          expected[e] += p[i][j] * v[j * tensors.valueStride + h / 2 * 8 + e];
      }
      for (int64_t e = 0; e < config.headDim; ++e)
        ASSERT_NEAR(o[i * tensors.outputStride + h * 8 + e], expected[e] / sum,
                    1e-5)
            << "head " << h << " row " << i;
    }
  }
}

/// One list for all rows: of columns that the rows of a set pay most to, the
/// best of neighbors for each, beside those of another set. -1: no such set.
struct Evicting {
  int rows = -1, always = -1; ///< bundle::Positions::Kind
  int64_t pooled = 0;
  bool perLayer = false, perKvHead = false, byLogits = false;
};

void checkColumns(const Evicting &what, int64_t length, int64_t prompt,
                  bool windowed) {
  using Kind = bundle::Positions::Kind;
  SCOPED_TRACE("rows " + std::to_string(what.rows) + " always " +
               std::to_string(what.always) + " pooled " +
               std::to_string(what.pooled) + " prompt " +
               std::to_string(prompt));
  ModelConfig config;
  config.layers = 1;
  config.queryHeads = 4;
  config.kvHeads = 2;
  config.headDim = 8;
  Selection selection = blocksOf({1, 2}, KeepRule::Floor, Isolation::None);
  selection.kind = Selection::Kind::Columns;
  selection.group = bundle::groupOfAll;
  selection.pooled = what.pooled;
  selection.perLayer = what.perLayer;
  selection.perKvHead = what.perKvHead;
  bundle::Manifest manifest = blocksManifest(selection);
  manifest.kernels[1].terms = {{Term::Kind::Columns, 0, 0}};
  bundle::Kernel &select = manifest.kernels[2];
  select.group = bundle::groupOfAll;
  select.blocks = false;
  select.pooled = what.pooled;
  select.perLayer = what.perLayer;
  if (what.byLogits)
    manifest.selections[0].scorer = select.scorer =
        Selection::Scorer::MeanLogit;
  auto set = [&](Kind kind) {
    manifest.positions.emplace_back().kind = kind;
    return std::ssize(manifest.positions) - 1;
  };
  int64_t n = length;
  if (windowed) { // of the response, the first six positions are visible
    set(Kind::Prompt);
    set(Kind::Undecoded);
    manifest.positions[1].count = 6;
    manifest.visible = set(Kind::Union);
    manifest.positions[2].of = {0, 1};
    n = prompt + 6;
  }
  auto placesOf = [&](int kind) -> std::pair<int64_t, int64_t> {
    return Kind(kind) == Kind::Prompt     ? std::pair(int64_t(0), prompt)
           : Kind(kind) == Kind::Response ? std::pair(prompt, n)
                                          : std::pair(int64_t(0), n);
  };
  auto [firstRow, endRow] = placesOf(int(Kind::All));
  int64_t begin = 0, end = 0;
  if (what.rows >= 0) {
    manifest.selections[0].rows = set(Kind(what.rows));
    if (auto [from, to] = placesOf(what.rows); from < to)
      std::tie(firstRow, endRow) = std::pair(from, to);
  }
  if (what.always >= 0) {
    manifest.selections[0].always = set(Kind(what.always));
    std::tie(begin, end) = placesOf(what.always);
  }
  auto executor = ReferenceExecutor::create(manifest, config, DType::F32);
  ASSERT_TRUE(executor) << executor.error().text();
  test::States states({{length, prompt}});
  ASSERT_TRUE((*executor)->beginRun(states.shapes, 2, 2));
  std::mt19937 random(5);
  test::Tensors memory(config, n, 3, DType::F32, random);
  std::vector<std::byte> output;
  auto batch = (*executor)->beginStep(states.all(1, 2));
  ASSERT_TRUE(batch) << batch.error().text();
  AttentionTensors tensors = memory.into(output);
  Status executed = test::executeLayer(**executor, 0, **batch, tensors);
  ASSERT_TRUE(static_cast<bool>(executed)) << executed.error().text();

  SelectionView view = (*executor)->selections(0, 0)->at(0);
  ASSERT_TRUE(view.indices);
  const int64_t shared = what.perLayer ? 4 : what.perKvHead ? 2 : 1;
  ASSERT_EQ(view.lists, config.queryHeads / shared);
  ASSERT_EQ(view.groups, 1);
  std::vector<int64_t> others;
  for (int64_t j = 0; j < n; ++j)
    if (j < begin || j >= end)
      others.push_back(j);
  const auto count = std::ssize(others);
  ASSERT_EQ(view.keep,
            n - count + (count ? std::max<int64_t>(1, count / 2) : 0));
  std::vector<int64_t> rows;
  for (int64_t i = firstRow; i < endRow; ++i)
    rows.push_back(i);
  std::vector<std::set<int64_t>> keys;
  for (int64_t list = 0; list < view.lists; ++list) {
    std::vector<double> paid(count), scores(count);
    for (int64_t h = list * shared; h < (list + 1) * shared; ++h) {
      const Matrix p =
          what.byLogits ? logits(tensors, h, n)
                        : probabilities(tensors, h, n, 1 / std::sqrt(8.0), 0);
      for (int64_t c = 0; c < count; ++c)
        paid[c] += meanOver(p, rows, {others[c]});
    }
    if (what.byLogits) // scores are taken to be positive below
      for (double &each : paid)
        each += 1000;
    for (int64_t c = 0; c < count; ++c)
      for (int64_t d = 0; d < count; ++d)
        if (c == d || 2 * std::abs(c - d) < what.pooled)
          scores[c] = std::max(scores[c], paid[d]);
    std::set<int64_t> expected;
    for (int64_t c : best(scores, 0, count, view.keep - (n - count)))
      expected.insert(others[c]);
    for (int64_t j = begin; j < end; ++j)
      expected.insert(j);
    EXPECT_EQ(std::set<int64_t>(view.indices + list * view.keep,
                                view.indices + (list + 1) * view.keep),
              expected)
        << "list " << list;
    keys.push_back(expected);
  }
  EXPECT_EQ((*executor)->counters().scorePairs,
            config.queryHeads * (what.byLogits ? 1 : std::ssize(rows)) * n);

  // Every row attends to its list, of the set that scored or not.
  batch = (*executor)->beginStep(states.all(2, 2));
  ASSERT_TRUE(batch) << batch.error().text();
  executed = test::executeLayer(**executor, 0, **batch, tensors);
  ASSERT_TRUE(static_cast<bool>(executed)) << executed.error().text();
  EXPECT_EQ((*executor)->counters().pairs, config.queryHeads * n * view.keep);
  const auto *v = static_cast<const float *>(tensors.value);
  const auto *o = static_cast<const float *>(tensors.output);
  for (int64_t h = 0; h < config.queryHeads; ++h) {
    const Matrix p = probabilities(tensors, h, n, 1 / std::sqrt(8.0), 0);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t e = 0; e < config.headDim; ++e) {
        double sum = 0, all = 0;
        for (int64_t j : keys[h / shared]) {
          all += p[i][j];
          sum += p[i][j] * v[j * tensors.valueStride + h / 2 * 8 + e];
        }
        ASSERT_NEAR(o[i * tensors.outputStride + h * 8 + e], sum / all, 1e-5);
      }
  }
}

/// Columns that are chosen among the keys of another selection.
struct Within {
  bool blocks = false;
  Isolation isolation = Isolation::None;
  int64_t outerGroup = size, group = size;
  int outerShare = 1, share = 1; ///< query heads of a list, of 4
  int64_t count = 0;             ///< keys that are kept; 0: a half
  int64_t pooled = 0;
  bool always = false, outerAlways = false; ///< the response is listed
};

Selection columnsOf(int64_t group, int share) {
  Selection selection = blocksOf({1, 2}, KeepRule::Floor, Isolation::None);
  selection.kind = Selection::Kind::Columns;
  selection.group = group;
  selection.perKvHead = share == 2;
  selection.perLayer = share == 4;
  return selection;
}

void checkWithin(const Within &what, int64_t length, int64_t prompt,
                 bool windowed) {
  SCOPED_TRACE("blocks " + std::to_string(what.blocks) + " groups " +
               std::to_string(what.group) + " in " +
               std::to_string(what.outerGroup) + " heads " +
               std::to_string(what.share) + " in " +
               std::to_string(what.outerShare) + " prompt " +
               std::to_string(prompt) + " of " + std::to_string(length));
  ModelConfig config;
  config.layers = 1;
  config.queryHeads = 4;
  config.kvHeads = 2;
  config.headDim = 8;
  Selection outer = what.blocks
                        ? blocksOf({1, 2}, KeepRule::Ceil, what.isolation)
                        : columnsOf(what.outerGroup, what.outerShare);
  outer.name = "outer";
  Selection inner = columnsOf(what.group, what.share);
  inner.count = what.count;
  inner.pooled = what.pooled;
  inner.within = 0;
  inner.cadence.count = 2; // steps 1 and 2: once more within the same lists
  bundle::Manifest manifest = blocksManifest(outer);
  manifest.selections.push_back(inner);
  manifest.kernels[1].terms = {{Term::Kind::Columns, 0, 1}};
  auto selectOf = [](const Selection &selection) {
    bundle::Kernel kernel;
    kernel.kind = bundle::Kernel::Kind::Select;
    kernel.group = selection.group;
    kernel.blocks = selection.kind == Selection::Kind::Blocks;
    kernel.perKvHead = selection.perKvHead;
    kernel.perLayer = selection.perLayer;
    kernel.pooled = selection.pooled;
    return kernel;
  };
  manifest.kernels[2] = selectOf(outer);
  manifest.kernels[2].name = "select";
  manifest.kernels.push_back(selectOf(inner));
  manifest.kernels[3].name = "select_within";
  manifest.kernels[3].withinGroup = outer.group;
  manifest.kernels[3].withinBlocks = what.blocks;
  std::vector<bundle::Phase> &phases = manifest.rules[0].phases;
  phases[0].when.cadence = inner.cadence;
  phases[0].refreshes.push_back({1, 3, {}});
  auto set = [&](bundle::Positions::Kind kind) {
    manifest.positions.emplace_back().kind = kind;
    return std::ssize(manifest.positions) - 1;
  };
  using Kind = bundle::Positions::Kind;
  int64_t n = length;
  if (windowed) { // of the response, the first six positions are visible
    set(Kind::Prompt);
    manifest.positions[set(Kind::Undecoded)].count = 6;
    manifest.visible = set(Kind::Union);
    manifest.positions[2].of = {0, 1};
    n = prompt + 6;
  }
  if (what.always)
    manifest.selections[1].always = set(Kind::Response);
  if (what.outerAlways)
    manifest.selections[0].always = set(Kind::Response);
  auto executor = ReferenceExecutor::create(manifest, config, DType::F32);
  ASSERT_TRUE(executor) << executor.error().text();
  test::States states({{length, prompt}});
  ASSERT_TRUE((*executor)->beginRun(states.shapes, 3, 3));
  std::mt19937 random(6);
  std::vector<std::byte> output;

  std::vector<std::vector<std::set<int64_t>>> from, kept; // [list][group]
  for (int64_t step : {1, 2}) {
    test::Tensors memory(config, n, 3, DType::F32, random);
    auto batch = (*executor)->beginStep(states.all(step, 3));
    ASSERT_TRUE(batch) << batch.error().text();
    AttentionTensors tensors = memory.into(output);
    Status executed = test::executeLayer(**executor, 0, **batch, tensors);
    ASSERT_TRUE(static_cast<bool>(executed)) << executed.error().text();
    SelectionView lists = (*executor)->selections(0, 0)->at(0);
    // What there is to choose from stays as step 1 has found it.
    const bool anew = what.blocks && what.isolation == Isolation::Spans &&
                      prompt > 0 && prompt < n;
    const auto blocks = blocksOf(n, anew ? prompt : n);
    std::vector<std::vector<std::set<int64_t>>> found(lists.lists);
    for (int64_t list = 0; list < lists.lists; ++list)
      for (int64_t g = 0; g < lists.groups; ++g) {
        found[list].emplace_back();
        for (int64_t e = 0; e < lists.keep; ++e) {
          const int32_t entry =
              lists.indices[(list * lists.groups + g) * lists.keep + e];
          if (what.blocks)
            found[list][g].insert(blocks[entry].begin(), blocks[entry].end());
          else
            found[list][g].insert(entry);
        }
      }
    if (step == 2) {
      EXPECT_EQ(found, from);
    }
    from = found;
    // As many as the list with the shortest blocks has.
    int64_t sure = what.blocks ? n : lists.keep;
    if (what.blocks)
      sure -= (std::ssize(blocks) - lists.keep) * size;

    SelectionView view = (*executor)->selections(0, 0)->at(1);
    ASSERT_TRUE(view.indices);
    const int64_t begin = what.always ? prompt : n, always = n - begin;
    const int64_t rest = sure - always;
    ASSERT_EQ(view.keep,
              always + (rest <= 0        ? 0
                        : what.count > 0 ? std::min(what.count, rest)
                                         : std::max<int64_t>(1, rest / 2)));
    ASSERT_EQ(view.lists, 4 / what.share);
    kept.assign(view.lists, {});
    for (int64_t list = 0; list < view.lists; ++list)
      for (int64_t g = 0; g < view.groups; ++g) {
        std::vector<int64_t> rows;
        for (int64_t i = g * what.group; i < std::min(n, (g + 1) * what.group);
             ++i)
          rows.push_back(i);
        std::vector<double> paid(n);
        for (int64_t h = list * what.share; h < (list + 1) * what.share; ++h) {
          const Matrix p = probabilities(tensors, h, n, 1 / std::sqrt(8.0), 0);
          for (int64_t j = 0; j < n; ++j)
            paid[j] += meanOver(p, rows, {j});
        }
        // Neighbors are those outside of what is always listed.
        std::vector<double> scores(n, -1);
        const std::set<int64_t> &inside =
            from[list * what.share / (4 / lists.lists)]
                [g * what.group / what.outerGroup];
        for (int64_t j = 0; j < begin; ++j)
          for (int64_t k = 0; k < begin; ++k)
            if (inside.count(j) &&
                2 * std::abs(j - k) <= std::max<int64_t>(0, what.pooled - 1))
              scores[j] = std::max(scores[j], paid[k]);
        std::set<int64_t> expected = best(scores, 0, n, view.keep - always);
        for (int64_t j : expected)
          EXPECT_TRUE(inside.count(j)) << "key " << j;
        for (int64_t j = begin; j < n; ++j)
          expected.insert(j);
        const int32_t *own =
            view.indices + (list * view.groups + g) * view.keep;
        EXPECT_EQ(std::set<int64_t>(own, own + view.keep), expected)
            << "step " << step << " list " << list << " group " << g;
        kept[list].push_back(expected);
      }
  }

  // Step 3 attends to these keys and counts them.
  test::Tensors memory(config, n, 3, DType::F32, random);
  auto batch = (*executor)->beginStep(states.all(3, 3));
  ASSERT_TRUE(batch) << batch.error().text();
  AttentionTensors tensors = memory.into(output);
  const int64_t before = (*executor)->counters().pairs,
                visited = (*executor)->visitedPairs();
  Status executed = test::executeLayer(**executor, 0, **batch, tensors);
  ASSERT_TRUE(static_cast<bool>(executed)) << executed.error().text();
  EXPECT_EQ((*executor)->counters().pairs - before,
            (*executor)->visitedPairs() - visited);
  const auto *v = static_cast<const float *>(tensors.value);
  const auto *o = static_cast<const float *>(tensors.output);
  for (int64_t h = 0; h < config.queryHeads; ++h) {
    const Matrix p = probabilities(tensors, h, n, 1 / std::sqrt(8.0), 0);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t e = 0; e < config.headDim; ++e) {
        double sum = 0, all = 0;
        for (int64_t j : kept[h / what.share][i / what.group]) {
          all += p[i][j];
          sum += p[i][j] * v[j * tensors.valueStride + h / 2 * 8 + e];
        }
        ASSERT_NEAR(o[i * tensors.outputStride + h * 8 + e], sum / all, 1e-5);
      }
  }
}

} // namespace

TEST(ColumnSelection, KeepsASetBesideTheBestOfTheOthers) {
  using Kind = bundle::Positions::Kind;
  constexpr int prompt = int(Kind::Prompt), response = int(Kind::Response),
                all = int(Kind::All), none = -1;
  for (const Evicting &what :
       {Evicting{none, none, 0, false, false},
        Evicting{response, response, 3, true, false},
        Evicting{prompt, none, 0, true, false},
        Evicting{none, prompt, 5, false, true},
        Evicting{response, prompt, 1, false, false},
        Evicting{prompt, all, 3, true, false},
        Evicting{-1, -1, 0, false, false, true},
        Evicting{response, prompt, 3, true, false, true},
        Evicting{prompt, response, 0, false, true, true}})
    for (int64_t length : {9, 0, 21}) { // a prompt that need not be there
      checkColumns(what, 22, length, false);
      checkColumns(what, 40, length, true);
    }
}

TEST(ColumnSelection, ChoosesWithinAnotherSelection) {
  constexpr int64_t all = bundle::groupOfAll;
  for (const Within &what :
       {Within{}, Within{.outerGroup = 16, .count = 3},
        Within{.outerGroup = all, .group = 8, .outerShare = 4, .share = 2},
        Within{.outerGroup = all,
               .group = all,
               .outerShare = 4,
               .share = 4,
               .pooled = 3,
               .always = true,
               .outerAlways = true},
        Within{.outerGroup = 8, .outerShare = 2, .count = 100, .pooled = 5},
        Within{.outerGroup = 8, .always = true},
        Within{.outerGroup = 8, .outerAlways = true}, Within{.blocks = true},
        Within{.blocks = true, .isolation = Isolation::Spans, .count = 5},
        Within{
            .blocks = true, .isolation = Isolation::Aligned, .always = true}})
    for (int64_t prompt : {9, 0, 21}) {
      checkWithin(what, 22, prompt, false);
      checkWithin(what, 24, prompt, false);
      checkWithin(what, 40, prompt, true);
    }
}

TEST(BlockSelection, EveryIsolationEqualsItsStatement) {
  for (Isolation isolation : {Isolation::None, Isolation::Spans,
                              Isolation::Aligned, Isolation::Filtered})
    for (KeepRule rule : {KeepRule::Floor, KeepRule::FloorPlusOne})
      for (bundle::Ratio keep : {bundle::Ratio{1, 2}, bundle::Ratio{3, 10}})
        for (int64_t prompt : {9, 8, 20, 0}) {
          SCOPED_TRACE("isolation " + std::to_string(int(isolation)) +
                       " rule " + std::to_string(int(rule)) + " keep " +
                       std::to_string(keep.num) + "/" +
                       std::to_string(keep.den) + " prompt " +
                       std::to_string(prompt));
          check(blocksOf(keep, rule, isolation), 22, prompt, false);
        }
}

TEST(BlockSelection, BoundariesStandAmongVisiblePositions) {
  for (Isolation isolation : {Isolation::None, Isolation::Spans,
                              Isolation::Aligned, Isolation::Filtered}) {
    SCOPED_TRACE("isolation " + std::to_string(int(isolation)));
    check(blocksOf({1, 2}, KeepRule::Floor, isolation), 40, 9, true);
  }
}

TEST(BlockSelection, ScoresOfSharedHeadsAndOtherScales) {
  for (Isolation isolation : {Isolation::None, Isolation::Filtered}) {
    Selection selection = blocksOf({1, 2}, KeepRule::Floor, isolation);
    selection.perKvHead = true;
    check(selection, 22, 9, false);
    selection.scale = Selection::Scale::Heads;
    check(selection, 22, 9, false);
    selection.perKvHead = false;
    check(selection, 22, 9, false);
  }
}
