//===- ScheduleText.h - A schedule's text without the compiler --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bundle keeps the text of its schedule, with the parameters as they were
// set.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_SCHEDULETEXT_H
#define HEDDLE_BUNDLE_FORMAT_SCHEDULETEXT_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bundle {

/// A parameter in the head of a schedule: `keep = 20 percent`.
struct TextParameter {
  std::string name;
  std::string value;      ///< as it is written: "20 percent"
  std::size_t nameAt = 0; ///< bytes from the text's begin
  std::size_t valueAt = 0;
};

/// What a schedule begins with: `heddle.schedule @name(keep = 20 percent)`.
struct TextHead {
  std::string name;
  std::size_t at = 0; ///< bytes from the text's begin
  std::vector<TextParameter> parameters;
  bool isWhole = false; ///< the parameters are read to their ')'
};

/// The heads of all schedules, in their order. `source` is a text that the
/// compiler has read; of any other, what looks like them.
std::vector<TextHead> headsOf(std::string_view source);

/// The parameters of the first schedule of that name, in their order.
std::vector<TextParameter> parametersOf(std::string_view source,
                                        std::string_view schedule);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_SCHEDULETEXT_H
