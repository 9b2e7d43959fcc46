//===- Page.cpp - An explanation as one HTML page -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/page/Page.h"

#include <string_view>

using namespace heddle;

namespace heddle::explain {
/// web/ as one text, made by web/embed.cmake.
extern const std::string_view pageTemplate;
} // namespace heddle::explain

/// Text for the inside of an element.
static std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text)
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  return result;
}

/// JSON for the inside of a script: no tag can end it.
static std::string scriptSafe(std::string_view json) {
  std::string result;
  for (char c : json)
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  return result;
}

std::string explain::toHtml(const Explanation &explanation) {
  std::string page(pageTemplate);
  auto put = [&](std::string_view mark, const std::string &text) {
    if (size_t at = page.find(mark); at != std::string::npos)
      page.replace(at, mark.size(), text);
  };
  put("{{title}}", escaped(explanation.manifest.schedule));
  put("{{data}}", scriptSafe(pageData(explanation)));
  return page;
}
