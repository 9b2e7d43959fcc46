//===- Cases.cpp - The problems that kernels are given --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/conformance/Cases.h"

#include "bundle/abi/IndexLayout.h"

#include <algorithm>
#include <map>

using namespace heddle;
using namespace heddle::conformance;
using bundle::Kernel;
using bundle::Term;

std::string conformance::toString(const Choice &choice) {
  std::string text = "keep=" + std::to_string(choice.keep);
  if (choice.boundary)
    text += " boundary=" + std::to_string(choice.boundary) +
            " split=" + std::to_string(choice.split) +
            (choice.bySpan ? " by span" : "");
  if (choice.alwaysBegin < choice.alwaysEnd)
    text += " always=" + std::to_string(choice.alwaysBegin) + ".." +
            std::to_string(choice.alwaysEnd);
  if (choice.outer)
    text += " within lists of " + std::to_string(choice.outer->list.keep);
  return text;
}

std::pair<int64_t, int64_t> conformance::Choice::rowsOf(const Kernel &kernel,
                                                        int64_t which,
                                                        int64_t n) const {
  if (kernel.group == bundle::groupOfAll)
    return {rowBegin, rowEnd};
  const int64_t begin = which * kernel.group;
  return {begin, std::min(begin + kernel.group, n)};
}

void conformance::Choice::fill(abi::SelectArgs &args) const {
  args.boundary = boundary;
  args.spanKeep = spanKeep;
  args.rowBegin = rowBegin;
  args.rowEnd = rowEnd;
  args.alwaysBegin = alwaysBegin;
  args.alwaysEnd = alwaysEnd;
  if (outer)
    args.within = outer->list;
}

int64_t conformance::headsPerList(const Kernel &kernel, const Shape &shape) {
  return kernel.perLayer    ? shape.queryHeads()
         : kernel.perKvHead ? shape.ratio
                            : 1;
}

/// Random lists for a kernel to choose within, of heads that share at least as
/// much as its own.
static void drawOuter(const bundle::Kernel &kernel, const Shape &shape,
                      std::mt19937_64 &random, Choice &choice) {
  choice.from = shape.n;
  if (kernel.withinGroup == 0)
    return;
  bundle::Selection selection;
  selection.group = kernel.withinGroup;
  if (kernel.withinBlocks) {
    selection.kind = bundle::Selection::Kind::Blocks;
  } else {
    selection.perLayer = kernel.perLayer || random() % 3 == 0;
    selection.perKvHead =
        !selection.perLayer && (kernel.perKvHead || random() % 2);
  }
  // Of long sequences few, so that all lists have room.
  const int64_t most = std::min<int64_t>(shape.n, shape.n > 8192 ? 512 : 8192);
  const int64_t keep =
      1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  choice.outer = std::make_shared<RandomLists>(shape, selection, keep, random,
                                               /*whole=*/true);
  const abi::IndexList &list = choice.outer->list;
  choice.from = list.keep;
  if (kernel.withinBlocks) {
    const int64_t out =
        bundle::blockCount(shape.n, selection.group, list.split) - list.keep;
    choice.from = std::max(list.keep, shape.n - out * selection.group);
  }
}

std::vector<Choice> conformance::choicesFor(const bundle::Kernel &kernel,
                                            const Shape &shape,
                                            std::mt19937_64 &random) {
  const int64_t n = shape.n;
  auto upTo = [&](int64_t most) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  if (!kernel.blocks) {
    std::vector<Choice> columns(4);
    for (Choice &each : columns) {
      drawOuter(kernel, shape, random, each);
      each.rowBegin = upTo(n) - 1;
      each.rowEnd = each.rowBegin + upTo(n - each.rowBegin);
    }
    columns[1].keep = upTo(columns[1].from);
    columns[2].keep = columns[2].from;
    Choice &beside = columns[3];
    beside.alwaysBegin = upTo(n) - 1;
    beside.alwaysEnd = beside.alwaysBegin + upTo(n - beside.alwaysBegin);
    const int64_t always = beside.alwaysEnd - beside.alwaysBegin;
    beside.keep =
        always + (always < beside.from ? upTo(beside.from - always) : 0);
    return columns;
  }
  int64_t all = bundle::blockCount(n, kernel.group, 0);
  std::vector<Choice> choices = {{.keep = upTo(all)}};
  if (n == 1)
    return choices;
  Choice spans{.split = upTo(n - 1)};
  spans.boundary = bundle::blockCount(spans.split, kernel.group, 0);
  int64_t rest =
      bundle::blockCount(n, kernel.group, spans.split) - spans.boundary;
  spans.spanKeep = upTo(spans.boundary);
  spans.keep = spans.spanKeep + upTo(rest);
  choices.push_back(spans);
  if (all == 1)
    return choices;
  Choice aligned{.boundary = upTo(all - 1)};
  aligned.spanKeep = upTo(aligned.boundary);
  aligned.keep = aligned.spanKeep + upTo(all - aligned.boundary);
  choices.push_back(aligned);
  if (!readsLse(kernel.scorer)) // nothing by the span's log-sum-exp
    return choices;
  Choice filtered = aligned;
  filtered.bySpan = true;
  filtered.spanKeep = upTo(all);
  filtered.keep = filtered.spanKeep + upTo(all - filtered.boundary);
  choices.push_back(filtered);
  return choices;
}

std::shared_ptr<Inputs>
conformance::makeInputs(const bundle::Manifest &manifest, const Kernel &kernel,
                        const bundle::KernelVariant &variant,
                        const Shape &shape, int64_t keep,
                        std::mt19937_64 &random) {
  auto inputs = std::make_shared<Inputs>(shape, random);
  const bool select = kernel.kind == Kernel::Kind::Select;
  inputs->keep = keep;
  inputs->name = kernel.name + " " + variant.dtype +
                 " d=" + std::to_string(variant.headDim) + " ";
  if (select || kernel.hasLists())
    inputs->name += std::string(nameOf(variant.encoding)) + " ";
  inputs->name += toString(shape);
  if (select || kernel.hasLists())
    inputs->name += " keep=" + std::to_string(keep);
  // Terms that read the same selection read the same lists.
  std::map<int64_t, std::shared_ptr<RandomLists>> lists;
  for (const Term &term : kernel.terms)
    if (term.selection >= 0) {
      const bundle::Selection &selection = manifest.selections[term.selection];
      inputs->groups.push_back(selection.group);
      inputs->encodings.push_back(
          bundle::listEncoding(selection, variant.encoding));
      auto &own = lists[term.selection];
      if (!own)
        own = std::make_shared<RandomLists>(shape, selection, keep, random);
      inputs->lists.push_back(own);
    }
  return inputs;
}

Finding conformance::forEachCase(const bundle::Manifest &manifest,
                                 const Kernel &kernel,
                                 const bundle::KernelVariant &variant,
                                 const Options &options, const CaseRules &rules,
                                 const Judge &judge) {
  Finding finding;
  std::mt19937_64 random(options.seed);
  const bool select = kernel.kind == Kernel::Kind::Select;
  const bool listed = select || kernel.hasLists();
  size_t turn = 0;
  for (int64_t ratio : options.ratios)
    for (int64_t n : options.lengths) {
      if (listed && !bundle::holds(variant.encoding, n))
        continue;
      if (select && (n / kernel.group + 1) * n * ratio > rules.mostScores)
        continue;
      const bool isLong = n > rules.longest;
      // Lists of long sequences are short: all of them are made here.
      const int64_t bound = isLong ? n / 8 : n;
      const int64_t some =
          1 + static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
      std::vector<int64_t> keeps = {some, 1, n};
      keeps.resize(!listed || isLong ? 1 : 3);
      for (int64_t keep : keeps) {
        Shape shape;
        shape.n = n;
        shape.kvHeads = ratio == 1 && !isLong && !select ? 2 : 1;
        shape.ratio = ratio;
        shape.headDim = variant.headDim;
        shape.padding = static_cast<int64_t>(turn % 4) * rules.paddingUnit;
        shape.values = allValues[turn++ % std::size(allValues)];
        if (!parseDType(variant.dtype, shape.dtype)) {
          finding.fail("element type " + variant.dtype + " has no reference");
          return finding;
        }
        judge(makeInputs(manifest, kernel, variant, shape, keep, random),
              finding, random);
        if (!finding.ok())
          return finding;
      }
    }
  return finding;
}
