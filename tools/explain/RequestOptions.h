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
#include <variant>

namespace heddle::rt {
struct ModelConfig;
} // namespace heddle::rt

namespace heddle::explain {

/// The shape of a model whose elements take two bytes.
ModelShape shapeOf(const rt::ModelConfig &config);

/// What the command line says, before defaults are filled in.
struct RequestOptions {
  std::optional<int64_t> length, prompt, genLength, steps, blockLength;
  std::optional<int64_t> layers, heads, kvHeads, headDim, ffnWidth, vocabulary;
  std::optional<std::string> model;   ///< a folder with config.json
  std::optional<std::string> machine; ///< none: that of the bundle
  std::optional<std::string> follow;  ///< a log of heddle-run --steps-json
  std::optional<double> salientShare, tokensPerStep;
  std::optional<uint64_t> seed;
  bool kernels = false; ///< as toText() takes it
};

template <typename T> using OptionMember = std::optional<T> RequestOptions::*;

/// An option of every tool that explains. The name is without dashes; --help
/// shows these under a heading of their own.
struct RequestOption {
  const char *name;
  std::variant<OptionMember<int64_t>, OptionMember<uint64_t>,
               OptionMember<double>, OptionMember<std::string>,
               bool RequestOptions::*>
      member;
  const char *help;
  const char *value = ""; ///< what a text is: "folder"
};
inline constexpr std::array requestOptions = {
    RequestOption{"steps", &RequestOptions::steps,
                  "Steps of the run (default: gen-length)"},
    RequestOption{
        "length", &RequestOptions::length,
        "Tokens, prompt included (default: 4096, or prompt and gen-length)"},
    RequestOption{"prompt", &RequestOptions::prompt,
                  "Tokens of the prompt (default: length less gen-length)"},
    RequestOption{"gen-length", &RequestOptions::genLength,
                  "Tokens to generate (default: 128, or length less prompt)"},
    RequestOption{
        "block-length", &RequestOptions::blockLength,
        "Tokens that are unmasked together (default: as heddle-run, the "
        "largest divisor of gen-length up to 32 that fits the steps)"},
    RequestOption{"layers", &RequestOptions::layers,
                  "The model's layers (default: LLaDA-8B's, 32)"},
    RequestOption{"heads", &RequestOptions::heads,
                  "Query heads a layer (default: 32)"},
    RequestOption{"kv-heads", &RequestOptions::kvHeads,
                  "Key/value heads a layer (default: as many as query heads)"},
    RequestOption{"ffn-width", &RequestOptions::ffnWidth,
                  "Width of the FFN (default: three times the hidden width)"},
    RequestOption{"vocabulary", &RequestOptions::vocabulary,
                  "Tokens that the LM head scores (default: 126464)"},
    RequestOption{"model", &RequestOptions::model,
                  "The model's shape, that of this folder's config.json",
                  "folder"},
    RequestOption{
        "machine", &RequestOptions::machine,
        "The machine, h200, h100 or cpu (default: h200 or cpu, by the targets)",
        "name"},
    RequestOption{"salient-share", &RequestOptions::salientShare,
                  "The share of the rows that layers find to have changed "
                  "(default: 1, the most)"},
    RequestOption{
        "tokens-per-step", &RequestOptions::tokensPerStep,
        "Tokens committed a step where confidence decides, less those "
        "revoked (default: gen-length over steps; 1, the fewest, "
        "where a commit revokes)"},
    RequestOption{"seed", &RequestOptions::seed,
                  "The seed of an order of commits that is drawn (default: 0)"},
    RequestOption{"follow", &RequestOptions::follow,
                  "A run that was made, by what heddle-run --steps-json wrote "
                  "into this file, with its lengths and steps",
                  "file"},
    RequestOption{"kernels", &RequestOptions::kernels,
                  "Kernels and their scratch memory, too"},
};

/// Fills in what was not given, from the model's config.json where one is
/// named. An error when a file cannot be read or check() has one; `badFile`,
/// which others leave as it is, becomes true where a file is to blame.
Result<ExplainRequest> resolveRequest(const RequestOptions &options,
                                      bool *badFile = nullptr);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_REQUESTOPTIONS_H
