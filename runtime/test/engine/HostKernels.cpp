//===- HostKernels.cpp - What a bundle's kernels do, on the fake ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/engine/HostKernels.h"

#include "bundle/abi/RowAbi.h"
#include "runtime/reference/Reference.h"
#include "runtime/sample/Sampler.h"
#include "runtime/schedule/Similarity.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle::rt::cuda::test {

namespace {

using Launch = FakeDriver::Launch;

float get(const void *array, int64_t index, DType dtype) {
  return static_cast<float>(reference::load(array, index, dtype));
}
void put(void *array, int64_t index, DType dtype, float value) {
  reference::store(array, index, dtype, value);
}
float roundTo(DType dtype, float value) {
  float stored = 0;
  put(&stored, 0, dtype, value);
  return get(&stored, 0, dtype);
}

/// The parameter block as a struct: each parameter at its natural alignment.
template <typename Args> Args argsOf(const Launch &launch) {
  Args args;
  size_t at = 0;
  for (const std::vector<char> &parameter : launch.parameters) {
    at = (at + parameter.size() - 1) / parameter.size() * parameter.size();
    EXPECT_LE(at + parameter.size(), sizeof(Args));
    std::memcpy(reinterpret_cast<char *>(&args) + at, parameter.data(),
                parameter.size());
    at += parameter.size();
  }
  EXPECT_EQ(launch.parameters.size(), std::size(Args::fields));
  return args;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void embed(const abi::EmbedArgs &a, int64_t blocks, DType t) {
  for (int64_t r = 0; r < blocks; ++r)
    for (int64_t c = 0; c < a.width; ++c)
      put(a.y, r * a.width + c, t,
          get(a.table, int64_t(a.tokens[r]) * a.width + c, t));
}

void rmsNorm(const abi::RmsNormArgs &a, int64_t blocks, DType t) {
  std::vector<float> row(a.width), scratch(1);
  for (int64_t i = 0; i < blocks; ++i) {
    if (a.index && a.index[i] < 0)
      continue;
    int64_t first = (a.index ? a.index[i] + a.shift : i) * a.width;
    double squares = 0;
    for (int64_t c = 0; c < a.width; ++c) {
      row[c] = get(a.x, first + c, t);
      if (a.delta) {
        put(scratch.data(), 0, t, row[c] + get(a.delta, first + c, t));
        row[c] = get(scratch.data(), 0, t);
        if (!a.index)
          put(a.x, first + c, t, row[c]);
      }
      squares += double(row[c]) * row[c];
    }
    auto inverse = static_cast<float>(
        1 / std::sqrt(squares / double(a.width) + double(float(a.eps))));
    for (int64_t c = 0; c < a.width; ++c) {
      put(scratch.data(), 0, t, row[c] * inverse);
      put(a.y, i * a.width + c, t,
          get(scratch.data(), 0, t) * get(a.weight, c, t));
    }
  }
}

void rotate(const abi::RotateArgs &a, int64_t blocks, DType t) {
  for (int64_t r = 0; r < blocks; ++r)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t j = 0; j < a.half; ++j) {
        int64_t at = r * a.stride + h * 2 * a.half + j;
        float cosine = a.cos[a.position[r] * a.half + j];
        float sine = a.sin[a.position[r] * a.half + j];
        float x = get(a.x, at, t), y = get(a.x, at + a.half, t);
        auto product = [&](float factor, float angle) {
          return a.inElements ? roundTo(t, factor * roundTo(t, angle))
                              : factor * angle;
        };
        put(a.x, at, t, product(x, cosine) - product(y, sine));
        put(a.x, at + a.half, t, product(y, cosine) + product(x, sine));
      }
}

void swiGlu(const abi::SwiGluArgs &a, int64_t blocks, DType t) {
  float silu = 0;
  for (int64_t r = 0; r < blocks; ++r)
    for (int64_t c = 0; c < a.width; ++c) {
      float gate = get(a.x, r * 2 * a.width + c, t);
      put(&silu, 0, t, gate / (1 + std::exp(-gate)));
      put(a.y, r * a.width + c, t,
          get(&silu, 0, t) * get(a.x, r * 2 * a.width + a.width + c, t));
    }
}

/// The row that an index names for block i.
int64_t rowOf(const int32_t *index, int64_t i) { return index ? index[i] : i; }

void copy(const abi::CopyArgs &a, int64_t blocks, DType t) {
  for (int64_t i = 0; i < blocks; ++i) {
    int64_t from = rowOf(a.from, i), to = rowOf(a.to, i);
    for (int64_t c = 0; c < a.width; ++c)
      put(a.y, to * a.yStride + c, t,
          from < 0 ? 0 : get(a.x, from * a.xStride + c, t));
  }
}

void change(const abi::ChangeArgs &a, int64_t blocks, DType t) {
  for (int64_t i = 0; i < blocks; ++i) {
    int64_t from = rowOf(a.from, i), to = rowOf(a.to, i);
    EXPECT_GE(from, 0);
    for (int64_t c = 0; c < a.width; ++c) {
      float now = get(a.x, from * a.xStride + c, t);
      put(a.change, to * a.width + c, t, now - get(a.y, to * a.width + c, t));
      put(a.y, to * a.width + c, t, now);
    }
  }
}

void compare(const abi::CompareArgs &a, int64_t blocks, DType t) {
  std::vector<float> now(a.width), before(a.width);
  for (int64_t i = 0; i < blocks; ++i) {
    int64_t from = rowOf(a.from, i), at = rowOf(a.at, i), to = rowOf(a.to, i);
    EXPECT_GE(from, 0);
    for (int64_t c = 0; c < a.width; ++c) {
      before[c] = get(a.cache, at * a.width + c, t);
      now[c] = get(a.x, from * a.xStride + c, t);
      if (a.flags & abi::compareAdds)
        now[c] += before[c];
    }
    if (a.similarity)
      a.similarity[i] = cosine(now.data(), before.data(), a.width);
    for (int64_t c = 0; c < a.width; ++c) {
      if (a.flags & abi::compareStores)
        put(a.cache, at * a.width + c, t, now[c]);
      if (a.y)
        put(a.y, to * a.yStride + c, t, now[c]);
    }
  }
}

void merge(const abi::MergeArgs &a, int64_t blocks, DType t) {
  const int64_t width = a.heads * a.headDim;
  for (int64_t i = 0; i < blocks; ++i) {
    int64_t from = rowOf(a.from, i), at = rowOf(a.at, i), to = rowOf(a.to, i);
    EXPECT_GE(from, 0);
    for (int64_t h = 0; h < a.heads; ++h) {
      const double x = a.lse[a.lseAt[i] + h * a.lseStride[i]];
      const double c =
          a.keptLse ? double(a.keptLse[at * a.heads + h]) : -INFINITY;
      const double ofX = std::exp2(x), ofC = std::exp2(c), sum = ofX + ofC;
      if (a.newLse)
        a.newLse[at * a.heads + h] = static_cast<float>(std::log2(sum));
      for (int64_t e = h * a.headDim; e < (h + 1) * a.headDim; ++e) {
        const float now = get(a.x, from * a.xStride + e, t);
        double mean = now;
        if (a.keptLse)
          mean = sum > 0
                     ? ((ofX > 0 ? ofX * double(now) : 0) +
                        (ofC > 0 ? ofC * double(get(a.cache, at * width + e, t))
                                 : 0)) /
                           sum
                     : 0;
        if (a.y)
          put(a.y, to * a.yStride + e, t, static_cast<float>(mean));
        else
          put(a.cache, at * width + e, t, static_cast<float>(mean));
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// The sampler
//===----------------------------------------------------------------------===//

void maskedCount(const abi::MaskedCountArgs &a, int64_t blocks, DType) {
  for (int64_t s = 0; s < blocks; ++s)
    a.count[s] = static_cast<int32_t>(std::count(
        a.tokens + a.first[s], a.tokens + a.end[s], int32_t(a.maskToken)));
}

void candidates(const abi::CandidatesArgs &a, int64_t blocks, DType) {
  EXPECT_EQ(blocks, 1);
  int64_t found = 0;
  auto listed = [&] {
    return static_cast<int32_t>(std::min(found, a.capacity));
  };
  std::fill_n(a.rows, a.capacity, -1);
  for (int64_t s = 0; s < a.sequences; ++s) {
    a.offsets[s] = listed();
    for (int64_t row = a.first[s]; row < a.end[s]; ++row) {
      if (a.tokens[row] != a.maskToken)
        continue;
      if (found < a.capacity) {
        a.rows[found] = static_cast<int32_t>(row);
        a.sequenceOf[found] = static_cast<int32_t>(s);
      }
      ++found;
    }
  }
  a.offsets[a.sequences] = listed();
  *a.count = static_cast<int32_t>(found);
}

void draw(const abi::DrawArgs &a, int64_t blocks, DType t) {
  SampleOptions options;
  options.temperature = a.temperature;
  options.cfgScale = a.cfgScale;
  options.seed = a.seed;
  options.remasking = a.flags & abi::drawRandomConfidence
                          ? Remasking::Random
                          : Remasking::LowConfidence;
  options.logitsEosInf = a.flags & abi::drawBarEos;
  options.confidenceEosEotInf = a.flags & abi::drawBarConfidence;
  options.eosToken = a.eosToken;
  if (a.flags & abi::drawCountEos) {
    options.logitsEosInf = false;
    options.forbiddenToken = a.eosToken;
  }
  options.eotToken = a.eotToken;
  for (int64_t i = 0; i < blocks; ++i) {
    int64_t candidate = a.first + i;
    if (a.rows[candidate] < 0)
      continue;
    std::vector<float> row(a.vocab), unconditional;
    for (int64_t v = 0; v < a.vocab; ++v)
      row[v] = get(a.logits, i * a.rowStride + v, t);
    for (int64_t v = 0; a.unconditional && v < a.vocab; ++v)
      unconditional.push_back(get(a.unconditional, i * a.rowStride + v, t));
    int64_t position =
        a.rows[candidate] - a.sequenceStart[a.sequenceOf[candidate]];
    Draw drawn = drawToken(row, unconditional, options, a.clock[0], position);
    a.token[candidate] = drawn.token;
    a.confidence[candidate] = drawn.confidence;
    if (drawn.token < 0)
      *a.status = std::max(*a.status, int32_t(1 + candidate));
  }
}

void commit(const abi::CommitArgs &a, int64_t blocks, DType) {
  for (int64_t i = 0; i < blocks; ++i) {
    a.committed[i] = 0;
    if (*a.status != 0 || a.rows[i] < 0)
      continue;
    int32_t s = a.sequenceOf[i];
    int64_t quota =
        a.masked[s] / a.steps + (a.clock[1] < a.masked[s] % a.steps ? 1 : 0);
    int64_t better = 0;
    for (int64_t j = a.offsets[s]; j < a.offsets[s + 1]; ++j)
      better += a.confidence[j] > a.confidence[i] ||
                (a.confidence[j] == a.confidence[i] && j < i);
    if (better >= quota)
      continue;
    a.committed[i] = 1;
    a.tokens[a.rows[i]] = a.token[i];
    if (a.shift > 0)
      a.tokens[a.rows[i] + a.shift] = a.token[i];
  }
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// A kernel of the manifest as it was compiled.
struct Compiled {
  bundle::Kernel kernel;
  bundle::KernelVariant variant;
  std::vector<bundle::Selection> selections; ///< of its terms that have some
  DType dtype = DType::F32;
};

/// Query heads whose rows are packed, or 1.
int64_t packedHeads(const Compiled &code, const abi::AttentionArgs &args) {
  return code.variant.form == bundle::LaunchForm::Packed ? args.kvGroup : 1;
}

/// The rows of a tile, as the kernel finds them: [first, second).
std::pair<int64_t, int64_t>
rowsOfTile(const Compiled &code, const abi::AttentionArgs &args, int64_t tile) {
  const int64_t tileRows = code.variant.queryRows, start = tile * tileRows;
  if (!code.kernel.hasLists() || !args.firstRow)
    return {start,
            std::min(start + tileRows, args.rows * packedHeads(code, args))};
  if (start >= args.n)
    return {0, 0};
  const int64_t first = args.firstRow[tile], end = args.firstRow[tile + 1];
  for (int64_t row = first; row < end; ++row)
    EXPECT_EQ(args.place[row] / tileRows, tile)
        << "row " << row << " is in a tile with other lists";
  return {first, end};
}

/// A tensor map of `rows` rows that have `heads` heads each.
void checkMap(const Compiled &code, const unsigned char *encoded,
              const void *base, int64_t stride, int64_t heads, int64_t rows,
              int64_t boxRows) {
  FakeTensorMap map;
  std::memcpy(&map, encoded, sizeof(map));
  EXPECT_EQ(map.address, reinterpret_cast<uintptr_t>(base));
  EXPECT_EQ(map.strideBytes, uint64_t(stride) * 2);
  EXPECT_EQ(map.rows, uint64_t(rows));
  EXPECT_EQ(map.columns, uint64_t(heads * code.variant.headDim));
  EXPECT_EQ(map.boxRows, uint64_t(boxRows));
}

/// Whether a kernel has tensor maps; those of keys are of its arguments.
template <typename Args>
bool checkKeyMaps(const Compiled &code, const Args &args) {
  if (!code.variant.mapRows)
    return false;
  if (!args.tileMaps) {
    ADD_FAILURE() << code.variant.symbol << " is given no tensor maps";
    return false;
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(args.tileMaps) % 64, 0u);
  checkMap(code, args.tileMaps->key, args.key, args.keyStride,
           args.heads / args.kvGroup, args.n, code.variant.mapRows);
  return true;
}

/// The tensor maps of a kernel that has such are those of its arguments.
void checkMaps(const Compiled &code, const abi::AttentionArgs &args) {
  if (!checkKeyMaps(code, args))
    return;
  checkMap(code, args.tileMaps->value, args.value, args.valueStride,
           args.heads / args.kvGroup, args.n, code.variant.mapRows);
  if (code.variant.persistent)
    checkMap(code, args.tileMaps->query, args.query, args.queryStride,
             args.heads, std::max<int64_t>(args.rows, 1),
             code.variant.queryRows);
}

void attend(const Compiled &code, const Launch &launch) {
  const auto *all = launch.parameter<const abi::AttentionArgs *>(0);
  for (int64_t z = 0; z < launch.grid[2]; ++z) {
    const abi::AttentionArgs &args = all[z];
    const bool byPlace = code.kernel.hasLists() && args.firstRow;
    const int64_t packed = packedHeads(code, args);
    if (!code.variant.persistent)
      EXPECT_GE(launch.grid[0] * code.variant.queryRows,
                byPlace ? args.n : args.rows * packed);
    EXPECT_TRUE(args.rows <= args.n || code.kernel.terms.empty());
    EXPECT_TRUE(args.rows == args.n ||
                code.variant.form != bundle::LaunchForm::All)
        << args.rows << " of " << args.n << " rows by a form for all";
    EXPECT_TRUE(args.rows < args.n || !code.variant.leastKeys)
        << args.rows << " of " << args.n << " rows by a form for some";
    const bool readsPlaces =
        !code.kernel.terms.empty() || code.kernel.scores.usesPositions();
    EXPECT_TRUE(args.place || args.rows == 0 || args.rows == args.n ||
                !readsPlaces)
        << args.rows << " of " << args.n << " rows without their places";
    EXPECT_TRUE(byPlace || !args.place || !code.kernel.hasLists())
        << "rows of a kernel with lists that are not cut by place";
    EXPECT_EQ(launch.grid[1],
              code.variant.persistent ? 1 : args.heads / packed);
    EXPECT_EQ(launch.grid[0] % code.variant.cluster, 0);
    checkMaps(code, args);
    std::vector<std::vector<int32_t>> keys(code.selections.size());
    std::vector<abi::IndexList> lists;
    std::vector<int64_t> groups;
    for (size_t c = 0; c < keys.size(); ++c) {
      const abi::IndexList &list = args.lists[c];
      const int64_t rows = args.heads / list.headsPerList * list.groups;
      groups.push_back(code.selections[c].group);
      keys[c].resize(rows * list.keep);
      for (int64_t row = 0; row < rows; ++row)
        EXPECT_TRUE(bundle::decodeList(
            bundle::listEncoding(code.selections[c], code.variant.encoding),
            args.n,
            static_cast<const char *>(list.indices) + row * list.rowBytes,
            std::span(keys[c]).subspan(row * list.keep, list.keep)))
            << "a list that was never written";
      abi::IndexList &read = lists.emplace_back(list);
      read.indices = keys[c].data();
      read.rowBytes = list.keep * static_cast<int64_t>(sizeof(int32_t));
    }
    for (int64_t h = 0; h < args.heads; ++h) {
      reference::Head head = reference::headOf(args, h, code.variant.headDim,
                                               code.dtype, code.kernel.scores);
      auto keeps = reference::pairsOf(code.kernel.terms, h, lists, groups,
                                      args.position, args.sinks);
      const int64_t tiles =
          code.variant.persistent
              ? ((code.kernel.hasLists() ? args.n : args.rows) +
                 code.variant.queryRows - 1) /
                    code.variant.queryRows
              : launch.grid[0];
      for (int64_t tile = 0; tile < tiles; ++tile) {
        auto [first, end] = rowsOfTile(code, args, tile);
        for (int64_t p = first; p < end; ++p) {
          if (p % packed != h % packed)
            continue;
          const int64_t row = p / packed;
          reference::RowResult result = attendRow(head, row, keeps);
          for (int64_t e = 0; e < code.variant.headDim; ++e)
            reference::store(args.output,
                             row * args.outputStride +
                                 h * code.variant.headDim + e,
                             code.dtype, result.output[e]);
          if (code.kernel.writesLse)
            args.lse[h * args.rows + row] = static_cast<float>(result.lse);
        }
      }
    }
  }
}

void select(const Compiled &code, const Launch &launch) {
  const auto *all = launch.parameter<const abi::SelectArgs *>(0);
  auto *scratch = launch.parameter<char *>(1);
  auto rowBytes = launch.parameter<int64_t>(2);
  EXPECT_EQ(launch.grid[1], 1);
  for (int64_t z = 0; z < launch.grid[2]; ++z) {
    const abi::SelectArgs &args = all[z];
    checkKeyMaps(code, args);
    EXPECT_GE(rowBytes, code.variant.scratchBytes +
                            code.variant.scratchBytesPerKey * args.n);
    std::memset(scratch + z * launch.grid[0] * rowBytes, 0xAB,
                launch.grid[0] * rowBytes);
    const int64_t group = code.kernel.group;
    const bool blocks = code.kernel.blocks;
    EXPECT_EQ(args.list.groups, (args.n + group - 1) / group);
    for (int64_t list = 0; list < args.heads / args.list.headsPerList; ++list)
      for (int64_t g = 0; g < args.list.groups; ++g) {
        auto scoresBy = [&](const float *lse) {
          const bool ofAll = group == bundle::groupOfAll;
          std::vector<double> scores = reference::scoresOfList(
              args, code.kernel, list, ofAll ? args.rowBegin : g * group,
              ofAll ? args.rowEnd : std::min(args.n, (g + 1) * group), lse,
              code.variant.headDim, code.dtype, args.spanLse != nullptr);
          return blocks ? scores
                        : reference::chosenWithin(
                              args, code.kernel, list, g,
                              reference::chosenBy(args, scores,
                                                  code.kernel.pooled),
                              code.variant.encoding);
        };
        const std::vector<double> scores = scoresBy(args.lse);
        std::vector<double> span;
        if (args.spanLse) {
          span = scoresBy(args.spanLse);
          span.erase(span.begin(), span.begin() + args.boundary);
        }
        if (args.scores) {
          float *row = args.scores + (list * args.list.groups + g) * args.n;
          std::copy(span.begin(), span.end(),
                    std::copy(scores.begin(), scores.end(), row));
        }
        std::vector<int32_t> kept =
            blocks ? reference::chosenBlocks(args, std::span(scores),
                                             std::span<const double>(span))
                   : reference::largest(scores, args.list.keep);
        bundle::encodeList(blocks ? bundle::Encoding::Int32
                                  : code.variant.encoding,
                           std::max(args.n, args.list.keep), kept,
                           bundle::listRow(args.list, list, g));
      }
  }
}

DType dtypeNamed(const std::string &text) {
  return text == "f32" ? DType::F32 : text == "bf16" ? DType::BF16 : DType::F16;
}

} // namespace

void installKernels(const bundle::Manifest &manifest) {
  auto &kernels = fakeDriver().kernels;
  for (const bundle::RowKernel &kernel : manifest.rowKernels)
    for (const bundle::RowVariant &variant : kernel.variants) {
      DType t = dtypeNamed(variant.dtype);
      auto install =
          [&]<typename Args>(void (*code)(const Args &, int64_t, DType)) {
            kernels[variant.symbol] = [code, t](const Launch &launch) {
              code(argsOf<Args>(launch), launch.grid[0], t);
            };
          };
      switch (kernel.op) {
      case bundle::RowOp::Embed:
        install(embed);
        break;
      case bundle::RowOp::RmsNorm:
        install(rmsNorm);
        break;
      case bundle::RowOp::Rotate:
        install(rotate);
        break;
      case bundle::RowOp::SwiGlu:
        install(swiGlu);
        break;
      case bundle::RowOp::Copy:
        install(copy);
        break;
      case bundle::RowOp::Change:
        install(change);
        break;
      case bundle::RowOp::Compare:
        install(compare);
        break;
      case bundle::RowOp::Merge:
        install(merge);
        break;
      case bundle::RowOp::MaskedCount:
        install(maskedCount);
        break;
      case bundle::RowOp::Candidates:
        install(candidates);
        break;
      case bundle::RowOp::Draw:
        install(draw);
        break;
      case bundle::RowOp::Commit:
        install(commit);
        break;
      }
    }
  for (const bundle::Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants) {
      Compiled code{kernel, variant, {}, dtypeNamed(variant.dtype)};
      for (const bundle::Term &term : kernel.terms)
        if (bundle::readsList(term))
          code.selections.push_back(manifest.selections[term.selection]);
      bool isSelect = kernel.kind == bundle::Kernel::Kind::Select;
      kernels[variant.symbol] = [code, isSelect](const Launch &launch) {
        (isSelect ? select : attend)(code, launch);
      };
    }
}

} // namespace heddle::rt::cuda::test
