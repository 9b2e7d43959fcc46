//===- Normalizer.cpp - The normalizer of a tokenizer.json ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Normalizer.h"
#include "runtime/text/TokenizerFile.h"
#include "runtime/text/Utf8.h"

#include <utf8proc.h>

#include <algorithm>

using namespace heddle;
using namespace heddle::rt::text;
using nlohmann::json;

Result<std::optional<Regex>>
heddle::rt::text::readPattern(const json &component, const std::string &path) {
  std::string place = path + ".pattern";
  auto it = component.find("pattern");
  if (it == component.end() || !it->is_object() || it->size() != 1 ||
      !(it->contains("String") || it->contains("Regex")))
    return Error(place + ": expected {\"String\": ...} or {\"Regex\": ...}");
  bool isRegex = it->contains("Regex");
  Result<std::string> source =
      stringMember(*it, place, isRegex ? "Regex" : "String");
  if (!source)
    return source.takeError();
  if (!isRegex && source->empty())
    return std::optional<Regex>();
  Result<Regex> regex =
      isRegex ? Regex::compile(*source) : Regex::compileLiteral(*source);
  if (!regex)
    return regex.takeError().withContext(place);
  return std::optional<Regex>(std::move(*regex));
}

Result<Normalizer> Normalizer::create(const json &spec) {
  Normalizer normalizer;
  if (!spec.is_null())
    if (Status status = normalizer.add(spec, "normalizer"); !status)
      return status.takeError();
  return normalizer;
}

Status Normalizer::add(const json &spec, const std::string &path) {
  Result<std::string> type = componentType(spec, path);
  if (!type)
    return type.takeError();
  if (*type == "Sequence") {
    auto list = spec.find("normalizers");
    if (list == spec.end() || !list->is_array())
      return Error(path + ".normalizers: expected an array");
    for (size_t i = 0; i < list->size(); ++i)
      if (Status status =
              add((*list)[i], path + ".normalizers[" + std::to_string(i) + "]");
          !status)
        return status;
    return Status::success();
  }
  static constexpr std::pair<std::string_view, Kind> kinds[] = {
      {"NFC", Kind::NFC},
      {"NFD", Kind::NFD},
      {"NFKC", Kind::NFKC},
      {"NFKD", Kind::NFKD},
      {"Lowercase", Kind::Lowercase},
      {"Prepend", Kind::Prepend},
      {"Replace", Kind::Replace}};
  for (auto [name, kind] : kinds) {
    if (*type != name)
      continue;
    Step step{kind, "", std::nullopt};
    if (kind == Kind::Prepend || kind == Kind::Replace) {
      Result<std::string> content = stringMember(
          spec, path, kind == Kind::Prepend ? "prepend" : "content");
      if (!content)
        return content.takeError();
      step.content = std::move(*content);
    }
    if (kind == Kind::Replace) {
      Result<std::optional<Regex>> pattern = readPattern(spec, path);
      if (!pattern)
        return pattern.takeError();
      step.pattern = std::move(*pattern);
    }
    steps.push_back(std::move(step));
    return Status::success();
  }
  return Error(path + ".type: the normalizer " + inQuotes(*type) +
               " is not supported; expected NFC, NFD, NFKC, NFKD, Lowercase, "
               "Prepend, Replace or Sequence");
}

/// Unicode normalization. utf8proc's own loop sorts combining marks by
/// swapping neighbours, which takes quadratic time on a long run of them, so
/// the runs are sorted here: decompose, sort, compose.
Status Normalizer::normalize(std::string &text, Kind kind) {
  // No character below U+0300 (lead bytes up to 0xCB) changes under NFC, no
  // ASCII character under any form.
  unsigned char limit = kind == Kind::NFC ? 0xCC : 0x80;
  if (std::none_of(text.begin(), text.end(), [&](char c) {
        return static_cast<unsigned char>(c) >= limit;
      }))
    return Status::success();
  bool compat = kind == Kind::NFKC || kind == Kind::NFKD;
  bool compose = kind == Kind::NFC || kind == Kind::NFKC;
  auto form = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE |
                                             (compat ? UTF8PROC_COMPAT : 0));

  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = utf8Step(text, at);
    at += step.length;
    if (step.codepoint < 0x80) {
      points.push_back(step.codepoint);
      continue;
    }
    // The longest decomposition has 18 code points (U+FDFA).
    utf8proc_int32_t buffer[32];
    int boundary = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char(
        step.codepoint, buffer, std::size(buffer), form, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(std::size(buffer)))
      return Error(
          "Unicode normalization failed: " +
          std::string(utf8proc_errmsg(std::min<utf8proc_ssize_t>(count, 0))));
    points.insert(points.end(), buffer, buffer + count);
  }

  auto combiningClass = [](utf8proc_int32_t point) {
    return utf8proc_get_property(point)->combining_class;
  };
  for (auto it = points.begin(); it != points.end();) {
    if (*it < 0x300 || combiningClass(*it) == 0) {
      ++it;
      continue;
    }
    auto end = std::find_if(it, points.end(), [&](utf8proc_int32_t point) {
      return combiningClass(point) == 0;
    });
    // The index keeps equal classes in order.
    std::vector<uint64_t> keys;
    for (auto mark = it; mark != end; ++mark)
      keys.push_back(uint64_t(combiningClass(*mark)) << 56 |
                     uint64_t(mark - it) << 21 | uint64_t(*mark));
    std::sort(keys.begin(), keys.end());
    std::transform(keys.begin(), keys.end(), it, [](uint64_t key) {
      return static_cast<utf8proc_int32_t>(key & 0x1FFFFF);
    });
    it = end;
  }
  size_t length = points.size();
  if (compose) {
    auto options =
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    utf8proc_ssize_t composed =
        utf8proc_normalize_utf32(points.data(), length, options);
    if (composed < 0)
      return Error("Unicode normalization failed: " +
                   std::string(utf8proc_errmsg(composed)));
    length = composed;
  }
  text.clear();
  for (size_t i = 0; i < length; ++i)
    appendUtf8(text, points[i]);
  return Status::success();
}

static std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = utf8Step(text, at);
    at += step.length;
    if (step.codepoint == 0x130) // the one that becomes two characters
      out += "i\xCC\x87";
    else
      appendUtf8(out, utf8proc_tolower(step.codepoint));
  }
  return out;
}

Status Normalizer::apply(std::string &text, Regex::Scratch &scratch) const {
  for (const Step &step : steps) {
    if (text.empty())
      return Status::success();
    switch (step.kind) {
    case Kind::NFC:
    case Kind::NFD:
    case Kind::NFKC:
    case Kind::NFKD:
      if (Status status = normalize(text, step.kind); !status)
        return status;
      break;
    case Kind::Lowercase:
      text = lowercase(text);
      break;
    case Kind::Prepend:
      text.insert(0, step.content);
      break;
    case Kind::Replace: {
      if (!step.pattern)
        break;
      std::vector<Span> matches;
      if (Status status = step.pattern->findAll(text, scratch, matches);
          !status)
        return status;
      std::string out;
      size_t from = 0;
      for (Span match : matches) {
        out.append(text, from, match.begin - from);
        out += step.content;
        from = match.end;
      }
      text = out.append(text, from);
      break;
    }
    }
  }
  return Status::success();
}
