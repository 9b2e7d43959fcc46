//===- TestFiles.h - tokenizer.json files for the tests ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_TEXT_TESTFILES_H
#define HEDDLE_RUNTIME_TEST_TEXT_TESTFILES_H

#include "runtime/text/Tokenizer.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <string>

namespace heddle::rt::test {

/// The text of goldens/<name>/<file>.
std::string readGolden(const std::string &name, const std::string &file);

/// goldens/gpt2/tokenizer.json as a document to change.
nlohmann::json gpt2File();

/// Loads a tokenizer from the text of a tokenizer.json.
Result<std::unique_ptr<Tokenizer>> loadText(const std::string &json);

/// The error of loadText, or "" if it succeeds.
std::string loadError(const std::string &json);

} // namespace heddle::rt::test

#endif // HEDDLE_RUNTIME_TEST_TEXT_TESTFILES_H
