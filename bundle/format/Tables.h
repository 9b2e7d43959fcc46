//===- Tables.h - Tables that users give to the compiler --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_TABLES_H
#define HEDDLE_BUNDLE_FORMAT_TABLES_H

#include "bundle/Result.h"
#include "bundle/format/FieldReader.h"
#include "bundle/format/StrictJson.h"

namespace heddle::bundle::detail {

/// Reads a table in JSON, an object with one list of objects: `what` names it
/// in messages, `list` is its field. Errors of syntax say line and column.
template <typename Entry>
Result<std::vector<Entry>> readTable(std::string_view text, const char *what,
                                     const char *list) {
  constexpr size_t maxDepth = 3; // the table, its list, an entry
  if (std::string problem = jsonProblem(text, maxDepth); !problem.empty())
    return Error(std::string(what) + " is an object with a list '" + list +
                 "' of objects: " + problem);
  ordered_json json;
  try {
    json = ordered_json::parse(text);
  } catch (const ordered_json::exception &error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
    std::string_view reason = error.what();
    reason.remove_prefix(std::min(reason.find("parse error"), reason.size()));
    return Error(std::string(what) + " is no JSON: " + printableLines(reason));
  }
  std::vector<Entry> table;
  const Manifest none;
  FieldReader in(none, what, "", " to this build");
  in.object(json, "", [&](auto &v) { v(list, table); });
  if (in.failed())
    return in.takeError();
  return table;
}

/// An error about an entry.
inline Error entryError(const char *what, const char *list, size_t entry,
                        const std::string &problem) {
  return Error(std::string(what) + ": " + at(list, entry) + ": " + problem);
}

} // namespace heddle::bundle::detail

#endif // HEDDLE_BUNDLE_FORMAT_TABLES_H
