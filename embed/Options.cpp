//===- Options.cpp - A run's options by name ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include <cctype>
#include <limits>
#include <type_traits>
#include <utility>

namespace heddle::embed {

namespace {

template <typename T>
constexpr bool isNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

/// The value as a T; none where it has another type or does not fit.
template <typename T> std::optional<T> as(const OptionValue &value) {
  return std::visit(
      [](const auto &given) -> std::optional<T> {
        using Given = std::decay_t<decltype(given)>;
        if constexpr (std::is_same_v<T, Given>) {
          return given;
        } else if constexpr (!isNumber<Given> || !isNumber<T>) {
          return std::nullopt;
        } else if constexpr (std::is_same_v<T, double>) {
          return static_cast<double>(given);
        } else if constexpr (std::is_same_v<Given, double>) {
          return std::nullopt;
        } else {
          if (!std::in_range<T>(given))
            return std::nullopt;
          return static_cast<T>(given);
        }
      },
      value);
}

template <typename T, typename To>
OptionProblem put(To &to, const OptionValue &value) {
  std::optional<T> given = as<T>(value);
  if (!given)
    return OptionProblem::WrongType;
  to = std::move(*given);
  return OptionProblem::None;
}

OptionProblem putByName(run::RunOptions &options, const std::string &name,
                        const OptionValue &value) {
  rt::SampleOptions &sampling = options.sampling;
  if (name == "gen_length")
    return put<int64_t>(options.genLength, value);
  if (name == "steps")
    return put<int64_t>(options.steps, value);
  if (name == "block_length")
    return put<int64_t>(options.blockLength, value);
  if (name == "temperature")
    return put<double>(options.temperature, value);
  if (name == "seed")
    return put<uint64_t>(sampling.seed, value);
  if (name == "commit_order")
    return put<std::vector<int32_t>>(options.commitOrder, value);
  if (name == "cfg_scale")
    return put<double>(sampling.cfgScale, value);
  if (name == "logits_eos_inf")
    return put<bool>(sampling.logitsEosInf, value);
  if (name == "confidence_eos_eot_inf")
    return put<bool>(sampling.confidenceEosEotInf, value);
  if (name == "alg")
    return put<std::string>(options.alg, value);
  if (name == "alg_temp")
    return put<double>(options.algTemp, value);
  if (name == "eps")
    return put<double>(options.eps, value);
  if (name == "top_p")
    return put<double>(options.topP, value);
  if (name == "top_k")
    return put<int64_t>(options.topK, value);
  if (name == "eot_id")
    return put<int32_t>(options.eotToken, value);
  if (name == "chat")
    return put<bool>(options.chat, value);
  if (name == "system")
    return put<std::string>(options.system, value);
  if (name == "raw")
    return put<bool>(options.raw, value);
  return OptionProblem::NoSuchName;
}

} // namespace

Result<OptionProblem> setOption(run::RunOptions &options,
                                const std::string &name,
                                const OptionValue &value) {
  OptionProblem problem = OptionProblem::None;
  if (name == "remasking") {
    std::optional<std::string> kind = as<std::string>(value);
    if (!kind)
      return OptionProblem::WrongType;
    if (*kind != "low_confidence" && *kind != "random")
      return Error("remasking: '" + *kind +
                   "' is none of low_confidence, random");
    options.sampling.remasking = *kind == "random"
                                     ? rt::Remasking::Random
                                     : rt::Remasking::LowConfidence;
  } else {
    problem = putByName(options, name, value);
  }
  if (name == "cfg_scale" || name == "remasking" || name == "logits_eos_inf" ||
      name == "confidence_eos_eot_inf")
    options.blockOptions.push_back(name);
  if (name == "alg" || name == "alg_temp" || name == "eps" || name == "top_p" ||
      name == "top_k")
    options.timestepOptions.push_back(name);
  return problem;
}

std::string withoutDashes(const std::string &text) {
  std::string result;
  bool inCommand = false; // `heddlec --target=host`
  for (size_t i = 0; i < text.size(); ++i) {
    inCommand ^= text[i] == '`';
    if (inCommand || text.compare(i, 2, "--") != 0 || i + 2 >= text.size() ||
        !std::islower(static_cast<unsigned char>(text[i + 2])) ||
        (i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1])))) {
      result += text[i];
      continue;
    }
    for (i += 2;
         i < text.size() &&
         (std::islower(static_cast<unsigned char>(text[i])) || text[i] == '-');
         ++i)
      result += text[i] == '-' ? '_' : text[i];
    --i;
  }
  return result;
}

} // namespace heddle::embed
