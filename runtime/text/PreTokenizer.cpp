//===- PreTokenizer.cpp - The pre-tokenizer of a tokenizer.json -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/PreTokenizer.h"
#include "runtime/text/ByteLevel.h"
#include "runtime/text/Normalizer.h"
#include "runtime/text/TokenizerFile.h"

#include <algorithm>
#include <cassert>

using namespace heddle;
using namespace heddle::rt::text;
using nlohmann::json;

/// GPT-2's word pattern, which ByteLevel applies unless told not to.
static constexpr std::string_view gpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Result<PreTokenizer> PreTokenizer::create(const json &spec) {
  PreTokenizer result;
  if (!spec.is_null())
    if (Status status = result.add(spec, "pre_tokenizer"); !status)
      return status.takeError();
  auto last = std::find_if(result.steps.rbegin(), result.steps.rend(),
                           [](const Step &step) { return step.toChars; });
  if (last == result.steps.rend())
    return Error("pre_tokenizer: holds no ByteLevel; only byte-level models "
                 "are supported");
  // The usual case, ByteLevel at the end: its words may stay bytes.
  if (last == result.steps.rbegin())
    last->toChars = false;
  else
    result.toBytesAtEnd = true;
  return result;
}

Status PreTokenizer::add(const json &spec, const std::string &path) {
  Result<std::string> type = componentType(spec, path);
  if (!type)
    return type.takeError();
  if (*type == "Sequence") {
    auto list = spec.find("pretokenizers");
    if (list == spec.end() || !list->is_array())
      return Error(path + ".pretokenizers: expected an array");
    for (size_t i = 0; i < list->size(); ++i)
      if (Status status = add((*list)[i], path + ".pretokenizers[" +
                                              std::to_string(i) + "]");
          !status)
        return status;
    return Status::success();
  }
  if (*type == "Split")
    return addSplit(spec, path);
  if (*type == "ByteLevel")
    return addByteLevel(spec, path);
  if (*type == "Digits") {
    Result<bool> individual =
        boolMember(spec, path, "individual_digits", false);
    if (!individual)
      return individual.takeError();
    Result<Regex> digit = Regex::compile("\\p{N}");
    if (!digit)
      return digit.takeError().withContext(path);
    Step step;
    step.pattern = std::move(*digit);
    step.behavior = *individual ? Behavior::Isolated : Behavior::Contiguous;
    steps.push_back(std::move(step));
    return Status::success();
  }
  return Error(path + ".type: the pre-tokenizer " + inQuotes(*type) +
               " is not supported; expected ByteLevel, Split, Digits or "
               "Sequence");
}

Status PreTokenizer::addSplit(const json &spec, const std::string &path) {
  Step step;
  Result<std::optional<Regex>> pattern = readPattern(spec, path);
  if (!pattern)
    return pattern.takeError();
  step.pattern = std::move(*pattern);
  Result<std::string> behavior = stringMember(spec, path, "behavior");
  if (!behavior)
    return behavior.takeError();
  static constexpr std::pair<std::string_view, Behavior> behaviors[] = {
      {"Isolated", Behavior::Isolated},
      {"Removed", Behavior::Removed},
      {"MergedWithPrevious", Behavior::MergedWithPrevious},
      {"MergedWithNext", Behavior::MergedWithNext},
      {"Contiguous", Behavior::Contiguous}};
  const auto *known =
      std::find_if(std::begin(behaviors), std::end(behaviors),
                   [&](const auto &entry) { return entry.first == *behavior; });
  if (known == std::end(behaviors))
    return Error(path + ".behavior: found " + inQuotes(*behavior) +
                 "; expected Isolated, Removed, MergedWithPrevious, "
                 "MergedWithNext or Contiguous");
  step.behavior = known->second;
  Result<bool> invert = boolMember(spec, path, "invert", false);
  if (!invert)
    return invert.takeError();
  step.invert = *invert;
  steps.push_back(std::move(step));
  return Status::success();
}

Status PreTokenizer::addByteLevel(const json &spec, const std::string &path) {
  Step step;
  Result<bool> prefix = boolMember(spec, path, "add_prefix_space", true);
  if (!prefix)
    return prefix.takeError();
  Result<bool> useRegex = boolMember(spec, path, "use_regex", true);
  if (!useRegex)
    return useRegex.takeError();
  step.prefixSpace = *prefix;
  step.splits = *useRegex;
  step.toChars = true;
  if (*useRegex) {
    Result<Regex> regex = Regex::compile(gpt2Pattern);
    if (!regex)
      return regex.takeError().withContext(path);
    step.pattern = std::move(*regex);
  }
  steps.push_back(std::move(step));
  return Status::success();
}

/// Appends the words that a step makes of one word. Source of the behaviours:
/// the SplitDelimiterBehavior of Hugging Face tokenizers.
Status PreTokenizer::split(const Step &step, std::string_view word,
                           Regex::Scratch &scratch,
                           std::vector<std::string_view> &words) {
  std::vector<Span> matches;
  if (step.pattern)
    if (Status status = step.pattern->findAll(word, scratch, matches); !status)
      return status;

  // The whole word as alternating pieces, matched or not.
  struct Piece {
    Span span;
    bool matched;
  };
  std::vector<Piece> pieces;
  size_t from = 0;
  for (Span match : matches) {
    if (from != match.begin)
      pieces.push_back({{from, match.begin}, step.invert});
    pieces.push_back({match, !step.invert});
    from = match.end;
  }
  if (from != word.size())
    pieces.push_back({{from, word.size()}, step.invert});

  if (step.behavior == Behavior::MergedWithNext)
    std::reverse(pieces.begin(), pieces.end());
  size_t first = words.size();
  std::vector<Span> merged;
  bool previous = false;
  for (const Piece &piece : pieces) {
    bool join = false;
    switch (step.behavior) {
    case Behavior::Isolated:
      break;
    case Behavior::Removed:
      if (piece.matched)
        continue;
      break;
    case Behavior::Contiguous:
      join = piece.matched == previous;
      break;
    case Behavior::MergedWithPrevious:
    case Behavior::MergedWithNext:
      join = piece.matched && !previous;
      break;
    }
    previous = piece.matched;
    if (join && !merged.empty()) {
      Span &last = merged.back();
      last = {std::min(last.begin, piece.span.begin),
              std::max(last.end, piece.span.end)};
    } else {
      merged.push_back(piece.span);
    }
  }
  for (Span span : merged)
    if (span.begin != span.end)
      words.push_back(word.substr(span.begin, span.end - span.begin));
  if (step.behavior == Behavior::MergedWithNext)
    std::reverse(words.begin() + first, words.end());
  return Status::success();
}

Status PreTokenizer::apply(std::string_view text, Regex::Scratch &scratch,
                           Words &words) const {
  words.views.assign(1, text);
  words.owned.clear();
  auto own = [&](std::string word) -> std::string_view {
    return words.owned.emplace_back(std::move(word));
  };
  std::vector<std::string_view> next;
  for (const Step &step : steps) {
    if (step.prefixSpace)
      for (std::string_view &word : words.views)
        if (!word.starts_with(' '))
          word = own(std::string(1, ' ').append(word));
    if (step.splits) {
      next.clear();
      for (std::string_view word : words.views)
        if (Status status = split(step, word, scratch, next); !status)
          return status;
      words.views.swap(next);
    }
    if (step.toChars)
      for (std::string_view &word : words.views)
        word = own(bytesToChars(word));
  }
  if (toBytesAtEnd)
    for (std::string_view &word : words.views) {
      // The steps after the last ByteLevel only cut between characters, so
      // every character still stands for a byte.
      std::optional<std::string> bytes = charsToBytes(word);
      assert(bytes && "a step changed the characters");
      word = own(std::move(*bytes));
    }
  return Status::success();
}
