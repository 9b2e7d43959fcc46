//===- ReferenceKernels.cpp - Kernels by their definitions ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reference/ReferenceKernels.h"

#include "bundle/abi/IndexLayout.h"
#include "runtime/base/Parallel.h"
#include "runtime/reference/Reference.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;
using bundle::Term;

Status ReferenceKernels::attend(size_t kernel,
                                std::span<abi::AttentionArgs> blocks) {
  const bundle::Kernel &what = manifest.kernels[kernel];
  const std::vector<int64_t> groups = manifest.groupsOf(what);
  for (const abi::AttentionArgs &args : blocks)
    parallelFor(args.heads * args.rows, [&](int64_t at, int) {
      int64_t h = at / args.rows, row = at % args.rows;
      reference::RowResult result = reference::attendRow(
          reference::headOf(args, h, headDim, dtype, what.scores), row,
          reference::pairsOf(what.terms, h, args.lists, groups, args.position,
                             args.sinks));
      for (int64_t e = 0; e < headDim; ++e)
        reference::store(args.output, row * args.outputStride + h * headDim + e,
                         dtype, result.output[e]);
      if (what.writesLse)
        args.lse[at] = static_cast<float>(result.lse);
      visited += result.pairs;
    });
  return Status::success();
}

Status ReferenceKernels::select(size_t kernel,
                                std::span<const abi::SelectArgs> blocks) {
  const bundle::Kernel &what = manifest.kernels[kernel];
  for (const abi::SelectArgs &args : blocks) {
    const abi::IndexList &list = args.list;
    int64_t lists = args.heads / list.headsPerList;
    std::vector<std::vector<double>> scoresHere(
        static_cast<size_t>(lists * list.groups));
    parallelFor(lists * list.groups, [&](int64_t at, int) {
      int64_t group = at % list.groups, row = at / list.groups;
      int64_t begin = group * what.group;
      int64_t end = std::min(begin + what.group, args.n);
      if (what.group == bundle::groupOfAll) {
        begin = args.rowBegin;
        end = args.rowEnd;
      }
      const bool padded = args.spanLse != nullptr;
      std::vector<double> scores = reference::scoresOfList(
          args, what, row, begin, end, args.lse, headDim, dtype, padded);
      std::vector<int32_t> chosen;
      if (what.blocks) {
        std::vector<double> span;
        if (args.boundary > 0 && args.spanLse) {
          span = reference::scoresOfList(args, what, row, begin, end,
                                         args.spanLse, headDim, dtype, padded);
          span.erase(span.begin(), span.begin() + args.boundary);
        }
        chosen = reference::chosenBlocks(args, std::span<const double>(scores),
                                         std::span<const double>(span));
        // What each span was chosen by.
        std::copy(span.begin(), span.end(), scores.begin() + args.boundary);
      } else {
        scores = reference::chosenWithin(
            args, what, row, group,
            reference::chosenBy(args, scores, what.pooled));
        chosen = reference::largest(std::span<const double>(scores), list.keep);
      }
      std::copy(chosen.begin(), chosen.end(),
                bundle::int32Keys(list, row, group));
      scoresHere[at] = std::move(scores);
    });
    std::vector<double> &kept = scoresOf[list.indices];
    kept.clear();
    for (const std::vector<double> &each : scoresHere)
      kept.insert(kept.end(), each.begin(), each.end());
    if (args.scores)
      std::ranges::transform(kept, args.scores, [](double score) {
        return static_cast<float>(score);
      });
  }
  return Status::success();
}

std::span<const double> ReferenceKernels::scores(const void *indices) const {
  auto found = scoresOf.find(indices);
  return found == scoresOf.end() ? std::span<const double>() : found->second;
}
