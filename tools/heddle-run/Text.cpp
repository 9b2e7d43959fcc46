//===- Text.cpp - Generated tokens as text --------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Text.h"

#include <algorithm>

namespace heddle::run {

std::span<const int32_t> cutAtEnd(std::span<const int32_t> response,
                                  const TextRules &rules) {
  if (rules.raw)
    return response;
  auto isEnd = [&](int32_t id) {
    return id >= 0 && (id == rules.eosToken || id == rules.endOfTurn);
  };
  auto end = std::find_if(response.begin(), response.end(), isEnd);
  return response.first(end - response.begin());
}

std::string idsText(std::span<const int32_t> ids, const TextRules &rules) {
  if (rules.tokenizer)
    return rules.tokenizer->decode(ids, /*skipSpecial=*/!rules.raw);
  std::string text;
  for (int32_t id : ids)
    text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

std::string responseText(std::span<const int32_t> response,
                         const TextRules &rules) {
  std::span<const int32_t> rest = cutAtEnd(response, rules);
  std::string text;
  while (!rest.empty()) {
    bool masked = rest.front() == rules.maskToken;
    auto end = std::find_if(rest.begin(), rest.end(), [&](int32_t id) {
      return (id == rules.maskToken) != masked;
    });
    size_t count = end - rest.begin();
    // Ids are separated from what stands before them; text brings its blanks.
    if (!rules.tokenizer && !text.empty())
      text += ' ';
    if (masked)
      for (size_t i = 0; i < count; ++i)
        text += maskSign;
    else
      text += idsText(rest.first(count), rules);
    rest = rest.subspan(count);
  }
  return text;
}

} // namespace heddle::run
