//===- StrictJson.h - What a JSON text may not hold -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_STRICTJSON_H
#define HEDDLE_BUNDLE_FORMAT_STRICTJSON_H

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace heddle::bundle {

/// What a JSON text holds that its parser would take: a key that an object has
/// twice (parsers disagree on which one counts), values nested deeper than
/// `maxDepth`, an object of more than `maxKeys` keys, keys with the path
/// of the object. Empty if there is nothing of the kind up to the first error
/// of syntax, which is the parser's to say.
///
/// Takes time in proportion to the text. (Not the parser's callback: with one,
/// nlohmann::json looks through all of an array, or object, after each object
/// in it.)
std::string jsonProblem(std::string_view text, size_t maxDepth,
                        size_t maxKeys = std::numeric_limits<size_t>::max());

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_STRICTJSON_H
