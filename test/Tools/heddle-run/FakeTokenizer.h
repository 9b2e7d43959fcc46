//===- FakeTokenizer.h - A tokenizer of single letters ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_TOOLS_HEDDLE_RUN_FAKETOKENIZER_H
#define HEDDLE_TEST_TOOLS_HEDDLE_RUN_FAKETOKENIZER_H

#include "runtime/text/Tokenizer.h"

namespace heddle::run::test {

/// Ids 0..25 are the letters, 26 a blank, 27 a line break, 28 a wide character;
/// 30 and above are special and written <30>.
class FakeTokenizer : public rt::Tokenizer {
public:
  Result<std::vector<int32_t>> encode(std::string_view) const override {
    return Error("not used");
  }
  std::string decode(std::span<const int32_t> ids,
                     bool skipSpecial) const override {
    std::string text;
    for (int32_t id : ids) {
      if (isSpecial(id))
        text += skipSpecial ? "" : "<" + std::to_string(id) + ">";
      else if (id == 28)
        text += "\u4e2d";
      else
        text += id == 26 ? ' ' : id == 27 ? '\n' : static_cast<char>('a' + id);
    }
    return text;
  }
  int64_t vocabSize() const override { return 40; }
  int32_t tokenId(std::string_view) const override { return -1; }
  bool isSpecial(int32_t id) const override { return id >= 30; }
};

} // namespace heddle::run::test

#endif // HEDDLE_TEST_TOOLS_HEDDLE_RUN_FAKETOKENIZER_H
