//===- Options.h - A run's options by name ----------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// heddle-run's options for callers that name them: "gen_length", not
// "--gen-length".
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMBED_OPTIONS_H
#define HEDDLE_EMBED_OPTIONS_H

#include "bundle/Result.h"
#include "runtime/engine/DTypeChoice.h"
#include "tools/heddle-run/Options.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heddle::embed {

using OptionValue = std::variant<bool, int64_t, uint64_t, double, std::string,
                                 std::vector<int32_t>>;

/// What a caller may have got wrong.
enum class OptionProblem { None, NoSuchName, WrongType };

/// Sets an option of a run. An integer may stand for a double. The Error is of
/// a value of the right type that makes no sense.
Result<OptionProblem> setOption(run::RunOptions &options,
                                const std::string &name,
                                const OptionValue &value);

/// "--gen-length" in an error's text as callers spell it: "gen_length".
std::string withoutDashes(const std::string &text);

} // namespace heddle::embed

#endif // HEDDLE_EMBED_OPTIONS_H
