//===- ManifestScores.h - Functions of logits as JSON -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_MANIFESTSCORES_H
#define HEDDLE_BUNDLE_FORMAT_MANIFESTSCORES_H

#include "bundle/program/Scores.h"

#include "nlohmann/json_fwd.hpp"

namespace heddle::bundle::detail {

/// [[operation, predicate or type, operands...], ...], see
/// bundle/program/Scores.h.
nlohmann::ordered_json toJson(const Scores &scores);

/// The same read, strictly; why it can't be, or "".
std::string readScores(const nlohmann::ordered_json &json, Scores &scores);

} // namespace heddle::bundle::detail

#endif // HEDDLE_BUNDLE_FORMAT_MANIFESTSCORES_H
