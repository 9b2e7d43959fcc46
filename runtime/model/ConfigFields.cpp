//===- ConfigFields.cpp - Typed reads of a JSON object --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/ConfigFields.h"

#include "bundle/program/Printable.h"

#include <cmath>
#include <sstream>

namespace heddle::rt {

using nlohmann::json;

template <typename T>
T FieldReader::missing(const char *name, std::optional<T> fallback) {
  if (!fallback)
    fail(std::string("field '") + name + "' is missing");
  return fallback.value_or(1);
}

bool FieldReader::has(const char *name) const {
  auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

int64_t FieldReader::integer(const char *name, int64_t least, int64_t most,
                             std::optional<int64_t> fallback) {
  if (!has(name))
    return missing(name, fallback);
  const json &value = object[name];
  bool fits = value.is_number_unsigned()
                  ? value.get<uint64_t>() <= static_cast<uint64_t>(most) &&
                        static_cast<int64_t>(value.get<uint64_t>()) >= least
                  : value.is_number_integer() &&
                        value.get<int64_t>() >= least &&
                        value.get<int64_t>() <= most;
  if (!fits) {
    fail(name, value,
         "an integer from " + std::to_string(least) + " to " +
             std::to_string(most));
    return least;
  }
  return value.get<int64_t>();
}

double FieldReader::positive(const char *name, std::optional<double> fallback) {
  if (!has(name))
    return missing(name, fallback);
  const json &value = object[name];
  if (!value.is_number() || !(value.get<double>() > 0) ||
      !std::isfinite(value.get<double>())) {
    fail(name, value, "a number above 0");
    return 1;
  }
  return value.get<double>();
}

double FieldReader::number(const char *name, double least, double most,
                           std::optional<double> fallback) {
  if (!has(name))
    return missing(name, fallback);
  const json &value = object[name];
  if (!value.is_number() || !(value.get<double>() >= least) ||
      !(value.get<double>() <= most)) {
    std::ostringstream range;
    range << "a number from " << least << " to " << most;
    fail(name, value, range.str());
    return least;
  }
  return value.get<double>();
}

bool FieldReader::boolean(const char *name, bool fallback) {
  if (!has(name))
    return fallback;
  if (!object[name].is_boolean()) {
    fail(name, object[name], "true or false");
    return fallback;
  }
  return object[name].get<bool>();
}

void FieldReader::requireFixed(std::span<const FixedField> fields) {
  for (const FixedField &field : fields)
    if (has(field.name) && object[field.name] != field.supported)
      fail(std::string("field '") + field.name + "': found " +
           printable(object[field.name].dump()) + " (" + field.meaning +
           "), only " + field.supported.dump() + " is supported");
}

void FieldReader::fail(const std::string &text) {
  if (!problem)
    problem = Error(text);
}

void FieldReader::fail(const char *name, const json &value,
                       const std::string &expected) {
  fail(std::string("field '") + name + "': found " + printable(value.dump()) +
       ", expected " + expected);
}

Status FieldReader::takeStatus() {
  return problem ? Status(std::move(*problem)) : Status::success();
}

} // namespace heddle::rt
