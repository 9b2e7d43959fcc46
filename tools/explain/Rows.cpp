//===- Rows.cpp - Which rows a schedule computes, keeps and sees ---===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain.h"
#include "bundle/ManifestNames.h"
#include "bundle/Program.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;
using Kind = Positions::Kind;

std::vector<RowCount>
heddle::explain::countPositions(const Manifest &manifest,
                                const ExplainRequest &request) {
  int64_t n = request.length, prompt = request.prompt, response = n - prompt;
  int64_t block =
      request.blockLength ? std::min(request.blockLength, response) : response;
  std::vector<RowCount> counts;
  for (const Positions &set : manifest.positions) {
    auto of = [&](size_t i) { return counts[static_cast<size_t>(set.of[i])]; };
    RowCount count;
    switch (set.kind) {
    case Kind::All:
      count = {n, n};
      break;
    case Kind::Prompt:
      count = {prompt, prompt};
      break;
    case Kind::Response:
      count = {response, response};
      break;
    case Kind::Block: // the last one may be shorter
      count = {response % block ? response % block : block, block};
      break;
    case Kind::BeforeBlock:
      count = {prompt, n - 1};
      break;
    case Kind::FromBlock:
      count = {1, response};
      break;
    case Kind::Decoded:
      count = {prompt, n - 1};
      break;
    case Kind::Undecoded:
      count = {1, set.count ? std::min(set.count, response) : response};
      break;
    case Kind::Committed:
      count = {0, response};
      break;
    case Kind::Next:
      count = {0, block};
      break;
    case Kind::Union:
      for (size_t i = 0; i < set.of.size(); ++i)
        count = {std::max(count.least, of(i).least),
                 std::min(n, count.most + of(i).most)};
      break;
    case Kind::Intersect:
      count = {set.of.size() == 1 ? of(0).least : 0, n};
      for (size_t i = 0; i < set.of.size(); ++i)
        count.most = std::min(count.most, of(i).most);
      break;
    case Kind::Fixed:
    case Kind::Leading:
      count = of(0);
      break;
    case Kind::Predicting: // two may be predicted by one
      count = {std::min<int64_t>(of(0).least, 1), of(0).most};
      break;
    case Kind::Hull:
      count = {of(0).least, n};
      break;
    case Kind::Neighbors: // of few, or of what the others are nearest to
      count = {0, std::min(of(1).most, std::min(set.count, n) * of(0).most)};
      break;
    }
    counts.push_back(count);
  }
  return counts;
}

static std::string exactText(const Manifest &manifest, const Pass &pass) {
  std::string rows =
      toString(manifest, pass.rows) + (pass.alone ? " alone" : "");
  switch (pass.exact) {
  case Pass::Exact::All:
    return rows;
  case Pass::Exact::Salient:
    return "salient(below = " + detail::toString(pass.below) + ") in " + rows;
  case Pass::Exact::SalientFfn:
    return "salient_ffn(below = " + detail::toString(pass.below) + ") in " +
           rows;
  case Pass::Exact::LeastSimilar:
    return "least_similar(keep = " + detail::toString(pass.keep) +
           ", among = " + toString(manifest, pass.among) + ") in " + rows;
  }
  return rows;
}

void heddle::explain::explainRows(Explanation &explanation) {
  const Manifest &manifest = explanation.manifest;
  const ExplainRequest &request = explanation.request;
  std::vector<RowCount> counts = countPositions(manifest, request);
  auto countOf = [&](int64_t index) {
    return index < 0 ? RowCount{request.length, request.length}
                     : counts[static_cast<size_t>(index)];
  };
  explanation.visible = countOf(manifest.visible);
  if (manifest.showsAll())
    explanation.visible.most = request.length;
  for (const Pass &pass : manifest.passes) {
    PassExplanation &here = explanation.passes.emplace_back();
    here.what = exactText(manifest, pass);
    RowCount rows = countOf(pass.rows);
    here.rows = {manifest.visible < 0 || pass.rows < 0
                     ? std::min(rows.least, explanation.visible.least)
                     : 0,
                 std::min(rows.most, explanation.visible.most)};
    here.depends = pass.exact != Pass::Exact::All;
  }
  std::vector<size_t> passes =
      passesOfSteps(manifest, request.steps, request.blockSteps());
  for (size_t i = 0; i < passes.size(); ++i)
    explanation.passes[passes[i]].steps.push_back(static_cast<int64_t>(i) + 1);

  int64_t head = request.headDim * request.elementBytes;
  const Reuse &reuse = manifest.reuse;
  int64_t row = 0;
  if (reuse.kv)
    row += 2 * request.kvHeads * head;
  if (reuse.attention != Reuse::Attention::None)
    row += request.heads * head;
  if (reuse.ffn)
    row += request.heads * head;
  // Passes that compute all keep nothing that is read.
  explanation.cacheBytesPerLayer =
      manifest.passes.empty() ? 0 : row * explanation.visible.most;
}
