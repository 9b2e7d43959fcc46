//===- Regex.cpp - tokenizer.json's regular expressions on PCRE2 ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Regex.h"
#include "runtime/text/Utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

using namespace heddle;
using namespace heddle::rt::text;

/// A match that stays within this many steps costs the budget nothing: the
/// patterns of real models need a few steps a match.
static constexpr uint32_t freeSteps = 2000;
/// Steps beyond that, for one encode() call: some for short texts, and enough
/// for every byte to be in a run that is backtracked over (`\s+(?!\S)`).
static constexpr uint64_t baseBudget = 4'000'000;
static constexpr uint64_t budgetPerByte = 64;
/// A call of the engine that nobody watches may try so many start positions,
/// and so many steps at each, that starts times steps times bytes to the end
/// stay within a tenth of a second's work: PCRE2's limit holds for one start
/// position only, and a step may run over the rest of the text. What needs more
/// steps is done again with a look at the clock before each item of the
/// pattern. Real patterns match at nearly every position and need about a tenth
/// of a microsecond a byte.
static constexpr size_t mostStarts = 1024;
static constexpr size_t startBytes = 1 << 16; ///< starts times bytes to the end
static constexpr size_t stepBytes = 1 << 27;  ///< that, times steps
static constexpr auto baseTime = std::chrono::seconds(2);
static constexpr auto timePerByte = std::chrono::microseconds(5);

using Clock = std::chrono::steady_clock;

static std::string pcre2Message(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0)
    return "PCRE2 error " + std::to_string(code);
  return reinterpret_cast<char *>(buffer);
}

struct Regex::Code {
  pcre2_code *code = nullptr;
  bool literal = false; ///< nothing to backtrack over
  std::string pattern;
  uint32_t options = 0;
  /// The same with a callout before each item, made when it is needed first.
  mutable std::once_flag watchedOnce;
  mutable pcre2_code *watched = nullptr;

  ~Code() {
    pcre2_code_free(code);
    pcre2_code_free(watched);
  }
};

struct Regex::Scratch::Impl {
  pcre2_match_data *data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context *context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack *stack =
      pcre2_jit_stack_create(32 * 1024, 16 * 1024 * 1024, nullptr);
  uint64_t budget;
  Clock::time_point deadline;

  ~Impl() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    if (stack)
      pcre2_jit_stack_free(stack);
  }
};

/// Called before each item of a watched pattern.
static int lookAtClock(pcre2_callout_block *, void *deadline) {
  return Clock::now() > *static_cast<Clock::time_point *>(deadline)
             ? PCRE2_ERROR_CALLOUT
             : 0;
}

Regex::Scratch::Scratch(size_t textBytes) : impl(std::make_unique<Impl>()) {
  impl->budget = baseBudget + budgetPerByte * textBytes;
  impl->deadline =
      Clock::now() + baseTime + timePerByte * static_cast<int64_t>(textBytes);
  if (!impl->data || !impl->context)
    throw std::bad_alloc();
  if (impl->stack)
    pcre2_jit_stack_assign(impl->context, nullptr, impl->stack);
  pcre2_set_callout(impl->context, lookAtClock, &impl->deadline);
  // For the interpreter, where the machine has no JIT: kilobytes.
  pcre2_set_heap_limit(impl->context, 64 * 1024);
}

Regex::Scratch::~Scratch() = default;

/// Null on failure, with PCRE2's code and the offset.
static pcre2_code *compileCode(std::string_view pattern, uint32_t options,
                               int &code, PCRE2_SIZE &offset) {
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)>
      context(pcre2_compile_context_create(nullptr),
              &pcre2_compile_context_free);
  if (!context)
    throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_code *compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      options | PCRE2_UTF | PCRE2_USE_OFFSET_LIMIT, &code, &offset,
      context.get());
  // Without a JIT, PCRE2 interprets the pattern.
  if (compiled)
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  return compiled;
}

Result<Regex> Regex::compileOptions(std::string_view pattern,
                                    uint32_t options) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_shared<Code>();
  compiled->code = compileCode(pattern, options, code, offset);
  if (!compiled->code)
    return Error("the regular expression does not compile: " +
                 pcre2Message(code) + " (at byte " + std::to_string(offset) +
                 " of its translation \"" + std::string(pattern) + "\")");
  compiled->literal = options & PCRE2_LITERAL;
  compiled->pattern = pattern;
  compiled->options = options;
  return Regex(std::move(compiled));
}

Result<Regex> Regex::compile(std::string_view pattern) {
  // Far beyond every published pattern; bounds the compiler's work.
  constexpr size_t longest = 64 * 1024;
  if (pattern.size() > longest)
    return Error("a regular expression of " + std::to_string(pattern.size()) +
                 " bytes; at most " + std::to_string(longest) + " are read");
  if (std::optional<size_t> bad = findInvalidUtf8(pattern))
    return Error("the regular expression is not UTF-8 at byte " +
                 std::to_string(*bad));
  Result<std::string> translated = translateOniguruma(pattern);
  if (!translated)
    return translated.takeError();
  // PCRE2 10.42 makes repeats possessive that must not be: in \P{N}*\P{L} it
  // takes the two negated properties to have no character in common.
  return compileOptions(*translated,
                        PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_POSSESS);
}

Result<Regex> Regex::compileLiteral(std::string_view literal) {
  return compileOptions(literal, PCRE2_LITERAL);
}

static Error tooSlow() {
  return Error("a regular expression of the tokenizer takes too long on this "
               "text (it rescans it from every position)");
}

Status Regex::findAll(std::string_view text, Scratch &scratch,
                      std::vector<Span> &matches) const {
  Scratch::Impl &state = *scratch.impl;
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE *ovector = pcre2_get_ovector_pointer(state.data);
  std::optional<size_t> lastEnd;
  uint32_t watchedSteps = 0; ///< of the next call; 0: nobody watches it

  for (size_t at = 0; at <= text.size();) {
    size_t rest = text.size() - at;
    size_t starts = code->literal ? rest
                                  : std::clamp<size_t>(startBytes / (rest + 1),
                                                       1, mostStarts);
    size_t lastStart = at + std::min(starts, rest);
    const pcre2_code *engine = code->code;
    auto steps = static_cast<uint32_t>(
        std::clamp<size_t>(stepBytes / (rest + 1), 1, freeSteps));
    if (watchedSteps > 0) {
      std::call_once(code->watchedOnce, [&] {
        int error = 0;
        PCRE2_SIZE offset = 0;
        code->watched = compileCode(
            code->pattern, code->options | PCRE2_AUTO_CALLOUT, error, offset);
      });
      if (!code->watched)
        return tooSlow();
      engine = code->watched;
      steps = watchedSteps;
    }
    pcre2_set_match_limit(state.context, steps);
    pcre2_set_offset_limit(state.context, lastStart);
    int found = pcre2_match(engine, subject, text.size(), at,
                            PCRE2_NO_UTF_CHECK, state.data, state.context);
    if (found == PCRE2_ERROR_CALLOUT || Clock::now() > state.deadline)
      return tooSlow();
    if (found == PCRE2_ERROR_MATCHLIMIT && watchedSteps == 0) {
      watchedSteps = freeSteps;
      continue;
    }
    if (found == PCRE2_ERROR_MATCHLIMIT && state.budget > 0) {
      watchedSteps = static_cast<uint32_t>(std::min<uint64_t>(
          {uint64_t(watchedSteps) * 16, state.budget, uint64_t(1) << 30}));
      state.budget -= watchedSteps;
      continue;
    }
    if (found == PCRE2_ERROR_NOMATCH) {
      if (lastStart == text.size())
        break;
      at = lastStart + 1;
      while (at < text.size() && (text[at] & 0xC0) == 0x80)
        ++at;
      watchedSteps = 0;
      continue;
    }
    if (found < 0)
      return Error("a regular expression of the tokenizer failed near byte " +
                   std::to_string(at) + " of a piece of " +
                   std::to_string(text.size()) +
                   " bytes: " + pcre2Message(found));
    watchedSteps = 0;
    Span match{ovector[0], ovector[1]};
    if (match.begin == match.end && lastEnd == match.end) {
      if (at == text.size())
        break;
      at += utf8Step(text, at).length;
      continue;
    }
    matches.push_back(match);
    at = match.end;
    lastEnd = at;
  }
  return Status::success();
}
