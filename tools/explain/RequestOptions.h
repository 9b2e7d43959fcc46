//===- RequestOptions.h - The run to explain, as users name it --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_REQUESTOPTIONS_H
#define HEDDLE_TOOLS_EXPLAIN_REQUESTOPTIONS_H

#include "bundle/Result.h"
#include "tools/explain/Explain.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace heddle::explain {

/// What the command line says, before defaults are filled in.
struct RequestOptions {
  std::optional<int64_t> length, prompt, genLength, steps, blockLength;
  std::optional<int64_t> layers, heads, kvHeads, headDim, ffnWidth, vocabulary;
  std::string model;   ///< a folder with config.json
  std::string machine; ///< "": that of the bundle
  std::string follow;  ///< a log of heddle-run --steps-json
  double salientShare = 1, tokensPerStep = 0;
  uint64_t seed = 0;
};

/// The options that are whole numbers, for every tool's command line. The name
/// is without dashes.
struct NumberOption {
  const char *name;
  std::optional<int64_t> RequestOptions::*member;
  const char *help;
};
inline constexpr std::array numberOptions = {
    NumberOption{"steps", &RequestOptions::steps,
                 "For explanations: steps of the run (default: gen-length)"},
    NumberOption{"length", &RequestOptions::length,
                 "For explanations: tokens, prompt included (default: 4096, or "
                 "prompt and gen-length)"},
    NumberOption{"prompt", &RequestOptions::prompt,
                 "For explanations: tokens of the prompt (default: length less "
                 "gen-length)"},
    NumberOption{"gen-length", &RequestOptions::genLength,
                 "For explanations: tokens to generate (default: 128, or "
                 "length less prompt)"},
    NumberOption{"block-length", &RequestOptions::blockLength,
                 "For explanations: tokens that are unmasked together "
                 "(default: as heddle-run, the largest divisor of gen-length "
                 "up to 32 that fits the steps)"},
    NumberOption{"layers", &RequestOptions::layers,
                 "For explanations: the model's layers (default: LLaDA-8B's, "
                 "32)"},
    NumberOption{"heads", &RequestOptions::heads,
                 "For explanations: query heads a layer (default: 32)"},
    NumberOption{"kv-heads", &RequestOptions::kvHeads,
                 "For explanations: key/value heads a layer (default: as "
                 "many as query heads)"},
    NumberOption{"ffn-width", &RequestOptions::ffnWidth,
                 "For explanations: width of the FFN (default: three times "
                 "the hidden width)"},
    NumberOption{"vocabulary", &RequestOptions::vocabulary,
                 "For explanations: tokens that the LM head scores (default: "
                 "126464)"},
};

/// Fills in what was not given, from the model's config.json where one is
/// named. An error when a file cannot be read or check() has one.
Result<ExplainRequest> resolveRequest(const RequestOptions &options);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_REQUESTOPTIONS_H
