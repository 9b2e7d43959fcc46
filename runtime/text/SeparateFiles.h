//===- SeparateFiles.h - vocab.json and merges.txt --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What folders hold that no tokenizer.json was written for: vocab.json (token:
// id), merges.txt (a line each, "#version..." first), tokenizer_config.json
// and, in older ones, added_tokens.json and special_tokens_map.json. How text
// is normalised and split stands in none of them: it belongs to the class that
// tokenizer_config.json names, of which Qwen2's is known here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_SEPARATEFILES_H
#define HEDDLE_RUNTIME_TEXT_SEPARATEFILES_H

#include "runtime/text/TokenizerFile.h"

#include <string>

namespace heddle::rt::text {

/// The separate files as the tokenizer.json that would say the same. Errors
/// name the file and the place in it.
Result<TokenizerFile> readSeparateFiles(const std::string &folder);

} // namespace heddle::rt::text

#endif // HEDDLE_RUNTIME_TEXT_SEPARATEFILES_H
