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
  ordered_json json{{"operations", operationsOf(shape, work)}};
  for (const auto &[name, member] : workMembers)
    json[name] = work.*member;
  return json;
}

ordered_json heddle::explain::partsJson(const ModelShape &shape,
                                        const Cost &cost) {
  ordered_json json;
  for (Part part : allParts)
    json[keyOf(part)] = {{"operations", operationsOf(shape, cost.work, part)},
                         {"bytes", cost.bytes[static_cast<size_t>(part)]}};
  return json;
}
