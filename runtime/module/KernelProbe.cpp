//===- KernelProbe.cpp - Is a kernel what its manifest says? --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/module/KernelProbe.h"

#include "bundle/program/PairSets.h"
#include "runtime/tensor/DType.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace heddle;
using namespace heddle::rt;
using bundle::Kernel;
using bundle::KernelVariant;
using bundle::Term;

namespace {

/// Keys that a probe's index lists name; a list of blocks names one.
constexpr int64_t keep = 3;

/// Every sum here is of numbers that bf16 holds exactly; this covers rounding
/// the result to bf16.
constexpr float tolerance = 0.05f;

/// What no kernel writes: NaN in fp32 and bf16, -1 in int32.
constexpr std::byte untouched{0xff};

/// Scratch memory as the manifest gives it, and behind it memory in which
/// writes do no harm. In its first part they are noticed.
class Scratch {
public:
  explicit Scratch(int64_t bytes) : declared((bytes + 63) / 64 * 64) {
    void *mapped = mmap(nullptr, static_cast<size_t>(declared + margin),
                        PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
      return;
    memory = static_cast<std::byte *>(mapped);
    std::fill_n(memory + declared, watched, untouched);
  }
  ~Scratch() {
    if (memory)
      munmap(memory, static_cast<size_t>(declared + margin));
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  std::byte *data() { return memory; }

  /// The bytes that the kernel needs beyond the manifest's, or 0.
  int64_t overrun() const {
    const std::byte *first = memory + declared;
    // Equal to itself moved by a byte: all bytes are the first one.
    if (*first == untouched && std::memcmp(first, first + 1, watched - 1) == 0)
      return 0;
    // What is not watched was zero.
    int64_t last = margin;
    while (last > 0 &&
           first[last - 1] == (last > watched ? std::byte{} : untouched))
      --last;
    return last;
  }

private:
  /// More than a task of any generated kernel needs.
  static constexpr int64_t margin = int64_t(1) << 20;
  /// To fill and compare all of it would be most of a probe's time.
  static constexpr int64_t watched = int64_t(1) << 16;
  int64_t declared;
  std::byte *memory = nullptr;
};

/// Rows of head_dim elements of a variant's type.
class Rows {
public:
  Rows(const KernelVariant &variant, int64_t rows)
      : width(variant.headDim), wide(variant.dtype == "f32"),
        bytes(static_cast<size_t>(rows * width * (wide ? 4 : 2)), untouched) {}

  void *data() { return bytes.data(); }

  void set(int64_t row, int64_t channel, float value) {
    size_t at = static_cast<size_t>(row * width + channel);
    if (wide) {
      std::memcpy(&bytes[at * 4], &value, 4);
    } else {
      uint16_t half = toBF16(value);
      std::memcpy(&bytes[at * 2], &half, 2);
    }
  }

  float get(int64_t row, int64_t channel) const {
    size_t at = static_cast<size_t>(row * width + channel);
    float value = 0;
    uint16_t half = 0;
    if (wide)
      std::memcpy(&value, &bytes[at * 4], 4);
    else
      std::memcpy(&half, &bytes[at * 2], 2);
    return wide ? value : fromBF16(half);
  }

  bool finite(int64_t row) const {
    for (int64_t channel = 0; channel < width; ++channel)
      if (!std::isfinite(get(row, channel)))
        return false;
    return true;
  }

  bool isUntouched(int64_t row) const {
    auto first = bytes.begin() + row * width * (wide ? 4 : 2);
    return std::all_of(first, first + width * (wide ? 4 : 2),
                       [](std::byte byte) { return byte == untouched; });
  }

private:
  int64_t width;
  bool wide;
  std::vector<std::byte> bytes;
};

/// V at a key: whole numbers from -8 to 8 without a pattern in the keys.
float valueAt(int64_t key, int64_t channel) {
  auto mixed = static_cast<uint32_t>(key * 131 + channel + 1) * 2654435761u;
  return static_cast<float>(static_cast<int>((mixed >> 16) % 17) - 8);
}

/// The keys that a group's list names: one in each third, for n of at least 3.
int64_t listedKey(int64_t group, int64_t which, int64_t n) {
  int64_t third = n / keep;
  return which * third + group * 7 % third;
}

/// The block that the list of a group of rows names.
int64_t listedBlock(int64_t group, int64_t size, int64_t n) {
  return (group + 1) % bundle::blockCount(n, size, 0);
}

Error says(const std::string &what, const std::string &said) {
  return Error(what + ", the manifest says " + said);
}

Status checkScratch(const Scratch &scratch, const KernelVariant &variant,
                    int64_t n) {
  if (int64_t overrun = scratch.overrun())
    return says("it writes " + std::to_string(overrun) +
                    " bytes behind its scratch memory",
                std::to_string(variant.scratchBytes) + " bytes and " +
                    std::to_string(variant.scratchBytesPerKey) +
                    " a key, for " + std::to_string(n) + " keys");
  return Status::success();
}

/// One attention problem: Q is zero, so that every pair of a row weighs the
/// same.
class AttentionProbe {
public:
  AttentionProbe(const Kernel &kernel, const KernelVariant &variant,
                 const std::vector<int64_t> &groups)
      : kernel(kernel), variant(variant), n(keysFor(kernel, variant, groups)),
        query(variant, n), key(variant, n), value(variant, n),
        output(variant, n), lse(static_cast<size_t>(n), NAN),
        places(static_cast<size_t>(n)),
        scratch(variant.scratchBytes + variant.scratchBytesPerKey * n) {
    for (int64_t row = 0; row < n; ++row)
      for (int64_t channel = 0; channel < variant.headDim; ++channel) {
        query.set(row, channel, 0);
        key.set(row, channel, valueAt(channel, row));
        value.set(row, channel, valueAt(row, channel));
      }
    args.query = query.data();
    args.key = key.data();
    args.value = value.data();
    args.output = output.data();
    args.lse = lse.data();
    args.n = n;
    args.queryStride = args.keyStride = args.valueStride = args.outputStride =
        variant.headDim;
    args.kvGroup = 1;
    args.scale = 1;
    args.heads = 1;
    args.rows = n;
    std::iota(places.begin(), places.end(), 0);
    args.place = args.position = places.data();
    // Half of the keys, which no kernel can have been told before: code that
    // holds a number where the manifest has a share attends to others. Code
    // that reads it where the manifest has a number finds no sinks.
    if (std::any_of(kernel.terms.begin(), kernel.terms.end(),
                    bundle::isShareOfSinks))
      args.sinks = std::max(n / 2, largestNumberOfSinks(kernel));
    for (int64_t row = 0; row < n; row += variant.queryRows)
      firstRows.push_back(static_cast<int32_t>(row));
    firstRows.push_back(static_cast<int32_t>(n));
    args.firstRow = firstRows.data();
    // Code that reads lists which the manifest does not name finds some too:
    // as many as the smallest groups have.
    for (int64_t list = 0; list < abi::maxIndexLists; ++list) {
      int64_t rows = list < static_cast<int64_t>(groups.size())
                         ? groups[static_cast<size_t>(list)]
                         : bundle::minGroup;
      int64_t count = (n - 1) / bundle::minGroup + 1;
      std::vector<int32_t> &keys = lists[list];
      for (int64_t group = 0; group < count; ++group)
        for (int64_t which = 0; which < keep; ++which)
          keys.push_back(static_cast<int32_t>(listedKey(group, which, n)));
      args.lists[list] =
          bundle::int32Lists(keys.data(), (n - 1) / rows + 1, keep);
    }
    size_t list = 0;
    for (const Term &term : kernel.terms) {
      if (term.selection < 0)
        continue;
      int64_t rows = groups[list], count = (n - 1) / rows + 1;
      if (term.kind == Term::Kind::Blocks) {
        for (int64_t group = 0; group < count; ++group)
          lists[list][group] =
              static_cast<int32_t>(listedBlock(group, rows, n));
        args.lists[list] = bundle::int32Lists(lists[list].data(), count, 1);
      }
      ++list;
    }
    attends = bundle::pairsOf(kernel.terms, 0, args.lists, groups, nullptr,
                              args.sinks);
  }

  Status run(abi::AttentionKernel code) {
    if (!scratch.data())
      return Error("there is no memory to try it in");
    for (int64_t tile = 0; tile * variant.queryRows < n; ++tile) {
      code(&args, 0, tile, scratch.data());
      if (Status status = checkTask(tile); !status)
        return status;
    }
    return Status::success();
  }

private:
  /// More than the rows of a task and, if there are any, than the largest
  /// block.
  static int64_t keysFor(const Kernel &kernel, const KernelVariant &variant,
                         const std::vector<int64_t> &groups) {
    int64_t n = std::max(variant.queryRows + 1, keep);
    size_t list = 0;
    for (const Term &term : kernel.terms) {
      if (term.kind == Term::Kind::Blocks)
        n = std::max(n, groups[list] + 1);
      list += term.selection >= 0;
    }
    return n;
  }

  static int64_t largestNumberOfSinks(const Kernel &kernel) {
    int64_t most = 1;
    for (const Term &term : kernel.terms)
      if (term.kind == Term::Kind::Sinks)
        most = std::max(most, term.size);
    return most;
  }

  Status checkTask(int64_t tile) {
    if (Status status = checkScratch(scratch, variant, n); !status)
      return status;
    int64_t first = tile * variant.queryRows;
    int64_t end = std::min(first + variant.queryRows, n);
    for (int64_t row = 0; row < n; ++row) {
      bool own = row < end;
      // What scores make of a product of zero may be no number: 1 / logit.
      const bool number = !own || output.finite(row) || hasLogits(row);
      if (own ? (number ? !output.finite(row) : output.isUntouched(row))
              : !output.isUntouched(row))
        return says("task " + std::to_string(tile) +
                        (own ? " leaves out row " : " writes row ") +
                        std::to_string(row),
                    "tasks of " + std::to_string(variant.queryRows) + " rows");
      if (number && std::isnan(lse[static_cast<size_t>(row)]) !=
                        !(own && kernel.writesLse))
        return says("task " + std::to_string(tile) +
                        (own && kernel.writesLse ? " leaves out" : " writes") +
                        " the log-sum-exp of row " + std::to_string(row),
                    kernel.writesLse ? "it writes those of its rows"
                                     : "it writes none");
    }
    for (int64_t row : {first, (first + end) / 2, end - 1})
      if (Status status = checkRow(row); !status)
        return status;
    return Status::success();
  }

  /// Products are zero; what the kernel makes of them is in base e.
  double logitAt(int64_t row, int64_t k) const {
    return bundle::evaluate(kernel.scores, 0, static_cast<int32_t>(row),
                            static_cast<int32_t>(k), 0);
  }

  /// Whether a softmax over the row's logits is one: neither is plus infinity
  /// nor not a number.
  bool hasLogits(int64_t row) const {
    for (int64_t k = 0; k < n; ++k)
      if (attends(row, k) && !(logitAt(row, k) < INFINITY))
        return false;
    return true;
  }

  Status checkRow(int64_t row) {
    if (!hasLogits(row))
      return Status::success();
    auto logit = [&](int64_t k) { return logitAt(row, k); };
    double top = -INFINITY;
    for (int64_t k = 0; k < n; ++k)
      if (attends(row, k))
        top = std::max(top, logit(k));
    std::vector<double> sum(static_cast<size_t>(variant.headDim));
    double weights = 0;
    int64_t count = 0;
    for (int64_t k = 0; k < n && std::isfinite(top); ++k) {
      if (!attends(row, k))
        continue;
      ++count;
      const double weight = std::exp(logit(k) - top);
      weights += weight;
      for (int64_t channel = 0; channel < variant.headDim; ++channel)
        sum[static_cast<size_t>(channel)] += weight * valueAt(k, channel);
    }
    auto wrong = [](double found, double expected) {
      return found != expected && !(std::abs(found - expected) <= tolerance);
    };
    // A row of which all is masked has output zero.
    const double share = weights > 0 ? 1 / weights : 0;
    bool same = !kernel.writesLse ||
                !wrong(lse[static_cast<size_t>(row)],
                       top * std::numbers::log2e + std::log2(weights));
    for (int64_t channel = 0; channel < variant.headDim; ++channel)
      same &= !wrong(output.get(row, channel),
                     sum[static_cast<size_t>(channel)] * share);
    if (!same)
      return says("row " + std::to_string(row) + " of " + std::to_string(n) +
                      " attends to other keys",
                  "the " + std::to_string(count) + " of its terms");
    return Status::success();
  }

  const Kernel &kernel;
  const KernelVariant &variant;
  int64_t n;
  Rows query, key, value, output;
  std::vector<float> lse;
  std::vector<int32_t> places, firstRows;
  std::vector<int32_t> lists[abi::maxIndexLists];
  Scratch scratch;
  abi::AttentionArgs args{};
  bundle::PairPredicate attends;
};

} // namespace

Status heddle::rt::probeAttention(const Kernel &kernel,
                                  const KernelVariant &variant,
                                  const std::vector<int64_t> &groups,
                                  abi::AttentionKernel code) {
  return AttentionProbe(kernel, variant, groups).run(code);
}

Status heddle::rt::probeSelect(const Kernel &kernel,
                               const KernelVariant &variant,
                               abi::SelectKernel code) {
  // One whole group and a row. Q is zero, so a row's probability is 2^-lse for
  // every key (a logit is 0); the last row's is far larger and shows its group.
  // By mean logits each row's Q is 1 in a channel of its own: a logit is what
  // the key has there.
  // A group of all rows is given one, and the row is not of those that it has.
  const bool ofAll = kernel.group == bundle::groupOfAll;
  const int64_t group = ofAll ? bundle::minGroup : kernel.group;
  int64_t n = group + 1;
  constexpr float large = 1024;
  const bool logits = !readsLse(kernel.scorer);
  Rows query(variant, n), key(variant, n);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t channel = 0; channel < variant.headDim; ++channel) {
      query.set(row, channel, logits && channel == row % variant.headDim);
      key.set(row, channel, valueAt(channel, row));
    }
  // What the kernel makes of products of zero; the best key of a row weighs 1.
  auto logit = [&](int64_t row, int64_t k) {
    return bundle::evaluate(kernel.scores, 0, static_cast<int32_t>(row),
                            static_cast<int32_t>(k), 0);
  };
  std::vector<float> lse(static_cast<size_t>(n), 0);
  bool numbers = true; // scores may make none of a product of zero: 1 / logit
  for (int64_t row = 0; row < n; ++row) {
    double top = -INFINITY;
    for (int64_t k = 0; k < n; ++k) {
      top = std::max(top, logit(row, k));
      numbers &= logit(row, k) < INFINITY;
    }
    lse[static_cast<size_t>(row)] =
        static_cast<float>(top * std::numbers::log2e);
  }
  lse.back() -= std::log2(large);
  auto scoreOf = [&](int64_t tile, int64_t k) {
    double sum = 0;
    const int64_t first = tile * group;
    const int64_t end = std::min(first + group, n);
    for (int64_t row = first; row < end; ++row)
      if (logits)
        sum += valueAt(row % variant.headDim, k);
      else if (float own = lse[static_cast<size_t>(row)]; std::isfinite(own))
        sum += std::exp2(logit(row, k) * std::numbers::log2e - own);
    return sum / static_cast<double>(end - first);
  };
  // What keys are chosen within: lists of every other one, of another other one
  // in each group; or the first block.
  const int64_t outerGroups = 2;
  auto isInside = [&](int64_t tile, int64_t k) {
    return kernel.withinGroup == 0 ||
           (kernel.withinBlocks
                ? k < kernel.withinGroup
                : k < group &&
                      k % 2 != tile * kernel.group / kernel.withinGroup % 2);
  };
  std::vector<int32_t> outer;
  for (int64_t each = 0; each < outerGroups; ++each)
    for (int64_t k = 0; k < (kernel.withinBlocks ? 1 : group); ++k)
      if (kernel.withinBlocks || k % 2 != each % 2)
        outer.push_back(static_cast<int32_t>(k));
  // Of keys, or of blocks of as many as a group has rows.
  auto scoresOf = [&](int64_t tile) {
    std::vector<double> keys(static_cast<size_t>(n)), blocks(2);
    for (int64_t k = 0; k < n; ++k) {
      keys[static_cast<size_t>(k)] = scoreOf(tile, k);
      blocks[k < group ? 0 : 1] +=
          keys[static_cast<size_t>(k)] /
          static_cast<double>(k < group ? group : n - group);
    }
    std::vector<double> own = kernel.blocks ? blocks : keys;
    if (logits)
      for (double least = *std::ranges::min_element(own); double &score : own)
        score -= least;
    if (kernel.blocks)
      return own;
    std::vector<double> by(own.size());
    for (int64_t k = 0; k < n; ++k)
      if (isInside(tile, k))
        by[static_cast<size_t>(k)] = std::max<double>(
            std::numeric_limits<float>::denorm_min(),
            *std::max_element(
                own.begin() + std::max<int64_t>(0, k - kernel.pooled / 2),
                own.begin() + std::min(n, k + kernel.pooled / 2 + 1)));
    return by;
  };
  std::vector<int32_t> positions(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<float> scores(static_cast<size_t>(2 * n), NAN);
  // Of the two blocks one is kept, of all keys three.
  int64_t kept = kernel.blocks ? 1 : keep;
  int64_t scored = kernel.blocks ? 2 : n;
  std::vector<int32_t> indices(static_cast<size_t>(2 * kept), -1);
  Scratch scratch(variant.scratchBytes + variant.scratchBytesPerKey * n);
  if (!scratch.data())
    return Error("there is no memory to try it in");

  abi::SelectArgs args{};
  args.query = query.data();
  args.key = key.data();
  args.lse = lse.data();
  args.scores = scores.data();
  args.n = n;
  args.queryStride = args.keyStride = variant.headDim;
  args.kvGroup = 1;
  args.scale = 1;
  args.heads = 1;
  args.position = positions.data();
  args.list = bundle::int32Lists(indices.data(), 2, kept);
  args.rowEnd = group;
  args.within = bundle::int32Lists(outer.data(), outerGroups,
                                   std::ssize(outer) / outerGroups);
  const int64_t tasks = ofAll ? 1 : 2;
  std::vector<std::vector<double>> wanted; // of each task
  std::vector<std::vector<int32_t>> best;
  for (int64_t tile = 0; numbers && tile < tasks; ++tile) {
    const std::vector<double> &by = wanted.emplace_back(scoresOf(tile));
    std::vector<int32_t> &list = best.emplace_back(by.size());
    std::iota(list.begin(), list.end(), 0);
    std::ranges::stable_sort(list, std::greater(),
                             [&](int32_t entry) { return by[entry]; });
    list.resize(static_cast<size_t>(kept));
    std::ranges::sort(list);
  }
  for (int64_t tile = 0; tile < tasks; ++tile) {
    code(&args, 0, tile, scratch.data());
    if (Status status = checkScratch(scratch, variant, n); !status)
      return status;
    for (int64_t at = 0; at < 2 * kept; ++at) {
      const int64_t list = at / kept;
      const bool own = list <= tile;
      const int32_t found = indices[static_cast<size_t>(at)];
      // Of those that score alike the first are kept.
      bool right =
          own ? numbers && found == best[list][at % kept] : found == -1;
      // Where functions go by positions, or a score is no number, any may be
      // the largest in f32; of two blocks under a function, either that scores
      // within the tolerance.
      if (own && !right && found >= 0 && found < scored &&
          (at % kept == 0 || found > indices[static_cast<size_t>(at - 1)])) {
        right = !numbers || kernel.scores.usesPositions();
        if (!right && kernel.blocks && !kernel.scores.empty())
          right = wanted[list][found] >=
                  wanted[list][best[list].front()] * (1 - tolerance);
      }
      if (!right)
        return Error("task " + std::to_string(tile) +
                     " selects other keys than those of the largest scores, or "
                     "writes another task's list");
    }
    if (!numbers)
      continue; // scores are no numbers either
    for (int64_t at = 0; at < 2 * n; ++at) {
      float score = scores[static_cast<size_t>(at)];
      bool own = at / n <= tile && at % n < scored;
      if (own && at / n < tile)
        continue;
      const double expected =
          own ? wanted[static_cast<size_t>(tile)][static_cast<size_t>(at % n)]
              : 0;
      if (own ? !(std::abs(score - expected) <=
                  tolerance * std::max(expected, 1e-6))
              : !std::isnan(score))
        return says("task " + std::to_string(tile) +
                        " scores rows of other groups",
                    "groups of " + std::to_string(group) + " rows");
    }
  }
  return Status::success();
}
