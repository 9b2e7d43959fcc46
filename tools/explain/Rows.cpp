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

void heddle::explain::explainRows(Explanation &explanation) {
  const Manifest &manifest = explanation.manifest;
  const SimulationRequest &run = explanation.request.run;
  const ModelShape &shape = explanation.request.shape;
  const RunCost &cost = explanation.cost;
  explanation.visible = {cost.visible.first, cost.visible.second};
  for (size_t i = 0; i < manifest.passes.size(); ++i) {
    const Pass &pass = manifest.passes[i];
    PassExplanation &here = explanation.passes.emplace_back();
    here.what = passText(manifest, pass);
    if (auto [least, most] = cost.rowsOfPass[i]; most > 0)
      here.rows = {least, most};
    here.depends = pass.comparesContexts();
  }
  const std::vector<std::vector<size_t>> passes =
      passesOfSteps(manifest, run.steps, run.blockSteps());
  for (size_t i = 0; i < passes.size(); ++i)
    for (size_t pass : passes[i])
      explanation.passes[pass].steps.push_back(static_cast<int64_t>(i) + 1);

  const int64_t head = shape.headDim * shape.elementBytes;
  const int64_t hidden = shape.hidden * shape.elementBytes;
  int64_t widest = 0, all = 0;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const Reuse &reuse = reuseOf(manifest, layer, shape.layers);
    int64_t row = 0;
    if (reuse.kv)
      row += 2 * shape.kvHeads * head;
    if (reuse.attention == Reuse::Attention::Output)
      row += hidden;
    else if (reuse.attention != Reuse::Attention::None)
      row += shape.heads * head;
    if (reuse.attention == Reuse::Attention::Outside)
      row += shape.heads * static_cast<int64_t>(sizeof(float)); // log-sum-exps
    if (reuse.ffn)
      row += hidden;
    widest = std::max(widest, row);
    all += row;
  }
  // Passes that compute all keep nothing that is read.
  if (manifest.passes.empty())
    return;
  explanation.cacheBytesPerLayer = widest * explanation.visible.most;
  explanation.cacheBytes =
      static_cast<double>(all) * static_cast<double>(explanation.visible.most);
}
