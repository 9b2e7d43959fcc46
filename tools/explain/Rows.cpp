//===- Rows.cpp - Which rows a schedule computes, keeps and sees ---===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain.h"
#include "bundle/program/ManifestNames.h"
#include "bundle/program/Program.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;

std::string heddle::explain::passText(const Manifest &manifest,
                                      const Pass &pass) {
  std::string rows = toString(manifest, pass.rows) +
                     (pass.alone ? " alone" : "") +
                     (pass.unseen ? " unseen" : "");
  if (!pass.layers.empty())
    rows += " in " + toString(pass.layers);
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
           ", among = " + toString(manifest, pass.among) +
           (pass.confidence.num > 0
                ? ", confidence = " + detail::toString(pass.confidence)
                : "") +
           ") in " + rows;
  }
  return rows;
}

std::string heddle::explain::refreshedText(const Manifest &manifest,
                                           const Reuse &reuse) {
  if (reuse.refreshed < 0)
    return "";
  const std::string rows = toString(manifest, reuse.refreshed);
  return reuse.keep == Ratio{1, 1}
             ? rows
             : "least_similar(keep = " + detail::toString(reuse.keep) +
                   ") in " + rows;
}

std::array<KeptPart, 5> heddle::explain::keptOfRow(const ModelShape &shape,
                                                   const Reuse &reuse) {
  using Attention = Reuse::Attention;
  const int64_t head = shape.headDim * shape.elementBytes;
  const int64_t hidden = shape.hidden * shape.elementBytes;
  const int64_t logSumExp = sizeof(float);
  return {
      {{"keys and values", reuse.kv ? 2 * shape.kvHeads * head : 0},
       {"attention outputs", reuse.attention == Attention::Output ? hidden : 0},
       {"attention contexts", reuse.keepsContext() ? shape.heads * head : 0},
       {"attention over keys outside", reuse.attention == Attention::Outside
                                           ? shape.heads * (head + logSumExp)
                                           : 0},
       {"FFN outputs", reuse.ffn ? hidden : 0}}};
}

void heddle::explain::explainRows(Explanation &explanation) {
  const Manifest &manifest = explanation.manifest;
  const SimulationRequest &run = explanation.request.run;
  const ModelShape &shape = explanation.request.shape;
  const RunCost &cost = explanation.cost;
  for (size_t i = 0; i < manifest.passes.size(); ++i) {
    const Pass &pass = manifest.passes[i];
    PassExplanation &here = explanation.passes.emplace_back();
    here.what = passText(manifest, pass);
    if (cost.rowsOfPass[i].most > 0)
      here.rows = cost.rowsOfPass[i];
    here.depends = pass.comparesContexts();
  }
  const std::vector<std::vector<size_t>> passes =
      passesOfSteps(manifest, run.steps, run.blockSteps());
  for (size_t i = 0; i < passes.size(); ++i)
    for (size_t pass : passes[i])
      explanation.passes[pass].steps.push_back(static_cast<int64_t>(i) + 1);

  int64_t widest = 0, all = 0;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    int64_t row = 0;
    for (const KeptPart &part :
         keptOfRow(shape, reuseOf(manifest, layer, shape.layers)))
      row += part.bytes;
    widest = std::max(widest, row);
    all += row;
  }
  // Passes that compute all keep nothing that is read.
  if (manifest.passes.empty())
    return;
  explanation.cacheBytesPerLayer = widest * cost.visible.most;
  explanation.cacheBytes =
      static_cast<double>(all) * static_cast<double>(cost.visible.most);
}
