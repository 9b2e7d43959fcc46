//===- TextUse.h - What is done with a tokenizer ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_FUZZ_TEXTUSE_H
#define HEDDLE_TEST_FUZZ_TEXTUSE_H

#include "test/fuzz/Target.h"

#include "runtime/text/Tokenizer.h"
#include "runtime/text/Utf8.h"

namespace heddle::fuzz {

/// Encodes some texts and decodes what comes out.
inline void useTokenizer(const rt::Tokenizer &tokenizer) {
  for (const char *text :
       {"", "The  loom's 12 threads.<|eot_id|> \u00C5e\u0301 |a|\n\n 99aaaaaab",
        "<s>\t\u4f60\u597d\U0001F600\r\n ' 's"}) {
    Result<std::vector<int32_t>> ids = tokenizer.encode(text);
    if (!ids)
      continue; // a pattern that takes too long is an error
    for (int32_t id : *ids)
      require(id >= 0 && id < tokenizer.vocabSize(),
              "ids are in the vocabulary");
    for (bool skip : {false, true})
      require(!rt::text::findInvalidUtf8(tokenizer.decode(*ids, skip)),
              "what is decoded is UTF-8");
  }
}

} // namespace heddle::fuzz

#endif // HEDDLE_TEST_FUZZ_TEXTUSE_H
