//===- FieldPlaces.h - Where a manifest has a field -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_FIELDPLACES_H
#define HEDDLE_BUNDLE_FORMAT_FIELDPLACES_H

#include <string>
#include <string_view>
#include <vector>

namespace heddle::bundle::detail {

/// The objects that may have a field of that name, by their paths, such as
/// "passes[].exact"; "the manifest" is the whole.
std::vector<std::string> placesOfField(std::string_view name);

} // namespace heddle::bundle::detail

#endif // HEDDLE_BUNDLE_FORMAT_FIELDPLACES_H
