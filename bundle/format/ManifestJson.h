//===- ManifestJson.h - The manifest as JSON --------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_MANIFESTJSON_H
#define HEDDLE_BUNDLE_FORMAT_MANIFESTJSON_H

#include "bundle/program/Manifest.h"

namespace heddle::bundle {

/// Pretty JSON, stable key order.
std::string toJson(const Manifest &manifest);

/// Parses and validates: unknown or missing fields, numbers and indices out of
/// range, a rule without a final Otherwise, two defaults, symbols that are not
/// expectedSymbol(), missing variants and an unknown enumerator are errors that
/// name the JSON path.
Result<Manifest> manifestFromJson(const std::string &json);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_MANIFESTJSON_H
