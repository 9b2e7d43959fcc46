//===- CostJson.h - Work as JSON --------------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_COSTJSON_H
#define HEDDLE_TOOLS_EXPLAIN_COSTJSON_H

#include "tools/explain/Cost.h"

#include <nlohmann/json_fwd.hpp>

namespace heddle::explain {

/// {"operations", "query_rows", ... "logit_rows"}.
nlohmann::ordered_json workJson(const ModelShape &shape, const Work &work);

/// {"qkv": {"operations", "bytes"}, ...}.
nlohmann::ordered_json partsJson(const ModelShape &shape, const Cost &cost);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_COSTJSON_H
