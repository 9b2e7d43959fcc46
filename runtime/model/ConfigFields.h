//===- ConfigFields.h - Typed reads of a JSON object ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_CONFIGFIELDS_H
#define HEDDLE_RUNTIME_MODEL_CONFIGFIELDS_H

#include "bundle/Result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

namespace heddle::rt {

/// A field that changes what the model computes and for which one value is
/// implemented. Absent or null means that value.
struct FixedField {
  const char *name;
  nlohmann::json supported;
  const char *meaning; ///< what another value would ask for
};

/// Largest value of any size field; keeps products far from overflow.
inline constexpr int64_t maxExtent = int64_t(1) << 31;

/// Reads typed fields of an object, which must outlive it; the first error
/// sticks and later reads are harmless.
class FieldReader {
public:
  explicit FieldReader(const nlohmann::json &object) : object(object) {}

  /// Present and not null?
  bool has(const char *name) const;

  /// An integer in [least, most]; `fallback` when absent or null, an error if
  /// there is none.
  int64_t integer(const char *name, int64_t least, int64_t most,
                  std::optional<int64_t> fallback = std::nullopt);

  /// A finite number above zero.
  double positive(const char *name,
                  std::optional<double> fallback = std::nullopt);

  /// A finite number in [least, most].
  double number(const char *name, double least, double most,
                std::optional<double> fallback = std::nullopt);

  bool boolean(const char *name, bool fallback);

  /// Refuses other values than the supported ones.
  void requireFixed(std::span<const FixedField> fields);

  void fail(const std::string &text);
  void fail(const char *name, const nlohmann::json &value,
            const std::string &expected);

  Status takeStatus();

private:
  template <typename T> T missing(const char *name, std::optional<T> fallback);

  const nlohmann::json &object;
  std::optional<Error> problem;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_CONFIGFIELDS_H
