//===- CostJson.cpp - Work as JSON ----------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/CostJson.h"

#include <nlohmann/json.hpp>

using namespace heddle::explain;
using nlohmann::ordered_json;

ordered_json heddle::explain::workJson(const ModelShape &shape,
                                       const Work &work) {
  return {{"operations", operationsOf(shape, work)},
          {"query_rows", work.queryRows},
          {"key_rows", work.keyRows},
          {"value_rows", work.valueRows},
          {"pairs", work.pairs},
          {"score_pairs", work.scorePairs},
          {"lse_pairs", work.lsePairs},
          {"projected_rows", work.projectedRows},
          {"ffn_rows", work.ffnRows},
          {"logit_rows", work.logitRows}};
}

ordered_json heddle::explain::partsJson(const ModelShape &shape,
                                        const Cost &cost) {
  ordered_json json;
  for (Part part : allParts)
    json[keyOf(part)] = {{"operations", operationsOf(shape, cost.work, part)},
                         {"bytes", cost.bytes[static_cast<size_t>(part)]}};
  return json;
}
