//===- Prompts.h - Prompts as the user gives them ---------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_PROMPTS_H
#define HEDDLE_TOOLS_HEDDLE_RUN_PROMPTS_H

#include "Options.h"
#include "bundle/Result.h"
#include "runtime/text/ChatFormat.h"
#include "runtime/text/Tokenizer.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::run {

/// A prompt before tokenisation: either text (chat template applied) or ids.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
  bool isText = true;
};

/// Reads the prompts of a run; all text is UTF-8 (the error gives the offset of
/// the first byte that is not) and no prompt is empty. `format`: of messages.
Result<std::vector<Prompt>>
readPrompts(const RunOptions &options,
            rt::ChatFormat format = rt::ChatFormat::LLaDA);

/// A text as a prompt: in the chat template where `options` say so.
Result<Prompt> textPrompt(std::string text, const RunOptions &options,
                          rt::ChatFormat format);

/// The prompts of a --prompts-file; `name` is used in errors, "name:3: ...".
Result<std::vector<Prompt>>
parsePromptLines(std::string_view bytes, const std::string &name,
                 const RunOptions &options,
                 rt::ChatFormat format = rt::ChatFormat::LLaDA);

/// "1,2,3" (blanks allowed) as ids.
Result<std::vector<int32_t>> parseIds(std::string_view list);

/// The numbers of a --commit-order file, with blanks, commas or line breaks
/// between them.
Result<std::vector<int32_t>> readCommitOrder(const std::string &path);

/// The ids of every prompt. `tokenizer` may be null when none is text.
Result<std::vector<std::vector<int32_t>>>
encodePrompts(const std::vector<Prompt> &prompts,
              const rt::Tokenizer *tokenizer);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_PROMPTS_H
