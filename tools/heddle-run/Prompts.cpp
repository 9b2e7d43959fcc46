//===- Prompts.cpp - Prompts as the user gives them -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Prompts.h"

#include "bundle/format/StrictJson.h"
#include "bundle/program/Printable.h"
#include "runtime/base/File.h"
#include "runtime/text/Utf8.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>
#include <unistd.h>

namespace heddle::run {

using nlohmann::json;

namespace {

/// Far above what any model has positions for.
constexpr int64_t largestPrompt = 64 << 20;

Result<std::string> readStandardInput() {
  std::string bytes;
  char block[1 << 16];
  for (;;) {
    ssize_t count = ::read(STDIN_FILENO, block, sizeof(block));
    if (count < 0 && errno == EINTR)
      return Error("interrupted while reading the prompt");
    if (count < 0)
      return Error(std::string("could not be read: ") + std::strerror(errno));
    if (count == 0)
      return bytes;
    bytes.append(block, count);
    if (static_cast<int64_t>(bytes.size()) > largestPrompt)
      return Error("more than " + std::to_string(largestPrompt) +
                   " bytes of prompt; no model takes that many");
  }
}

void dropFinalLineBreak(std::string &text) {
  if (!text.empty() && text.back() == '\n')
    text.pop_back();
  if (!text.empty() && text.back() == '\r')
    text.pop_back();
}

Status checkUtf8(std::string_view text) {
  std::optional<size_t> at = rt::text::findInvalidUtf8(text);
  if (!at)
    return Status::success();
  char byte[8];
  std::snprintf(byte, sizeof(byte), "0x%02x",
                static_cast<unsigned char>(text[*at]));
  return Error("not UTF-8 at byte " + std::to_string(*at) + " (" + byte +
               "); prompts are UTF-8 text");
}

Prompt chatPrompt(std::vector<rt::ChatMessage> messages,
                  rt::ChatFormat format) {
  return {.text = rt::formatChat(format, messages), .ids = {}, .isText = true};
}

} // namespace

/// A text as a prompt: checked, and put into the chat template if asked.
Result<Prompt> textPrompt(std::string text, const RunOptions &options,
                          rt::ChatFormat format) {
  if (Status status = checkUtf8(text); !status)
    return status.takeError();
  if (text.empty())
    return Error("the prompt is empty; it must hold some text");
  if (!options.chat)
    return Prompt{.text = std::move(text), .ids = {}, .isText = true};
  if (Status status = checkUtf8(options.system); !status)
    return status.takeError().withContext("--system");
  std::vector<rt::ChatMessage> messages;
  if (!options.system.empty())
    messages.push_back({"system", options.system});
  messages.push_back({"user", std::move(text)});
  return chatPrompt(std::move(messages), format);
}

namespace {

Result<Prompt> idsPrompt(const json &list) {
  Prompt prompt{.text = {}, .ids = {}, .isText = false};
  if (!list.is_array())
    return Error("\"prompt_ids\" is not an array of token ids");
  for (const json &id : list) {
    if (!id.is_number_integer() || id < 0 ||
        id > std::numeric_limits<int32_t>::max())
      return Error("\"prompt_ids\" holds " + id.dump() +
                   "; token ids are whole numbers from 0");
    prompt.ids.push_back(id.get<int32_t>());
  }
  return prompt;
}

Result<Prompt> messagesPrompt(const json &list, rt::ChatFormat format) {
  if (!list.is_array() || list.empty())
    return Error("\"messages\" is not an array of messages");
  std::vector<rt::ChatMessage> messages;
  for (const json &message : list) {
    if (!message.is_object() || !message.contains("role") ||
        !message.contains("content") || !message["role"].is_string() ||
        !message["content"].is_string())
      return Error("a message is not an object with the strings \"role\" and "
                   "\"content\"");
    std::string role = message["role"];
    if (role != "system" && role != "user" && role != "assistant")
      return Error("a message has the role \"" + role +
                   "\"; expected system, user or assistant");
    messages.push_back({role, message["content"]});
  }
  return chatPrompt(std::move(messages), format);
}

Result<Prompt> jsonPrompt(std::string_view line, const RunOptions &options,
                          rt::ChatFormat format) {
  // Of two equal keys the parser below keeps one without a word.
  if (std::string problem = bundle::jsonProblem(line, /*maxDepth=*/64);
      !problem.empty())
    return Error(problem);
  json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded())
    return Error("not a JSON value; a .jsonl file holds one a line");
  if (value.is_string())
    return textPrompt(value.get<std::string>(), options, format);
  const char *keys[] = {"prompt", "prompt_ids", "messages"};
  int present = 0;
  if (value.is_object())
    for (const char *key : keys)
      present += value.contains(key);
  if (present != 1)
    return Error("expected a string, or an object with exactly one of "
                 "\"prompt\", \"prompt_ids\" and \"messages\"");
  if (value.contains("prompt_ids"))
    return idsPrompt(value["prompt_ids"]);
  if (value.contains("messages"))
    return messagesPrompt(value["messages"], format);
  if (!value["prompt"].is_string())
    return Error("\"prompt\" is not a string");
  return textPrompt(value["prompt"].get<std::string>(), options, format);
}

Result<std::vector<Prompt>> readIds(const RunOptions &options) {
  std::vector<Prompt> prompts;
  for (const std::string &list : options.prompt.ids) {
    Result<std::vector<int32_t>> ids = parseIds(list);
    if (!ids)
      return ids.takeError().withContext("--prompt-ids");
    prompts.push_back({.text = {}, .ids = std::move(*ids), .isText = false});
  }
  return prompts;
}

} // namespace

Result<std::vector<int32_t>> parseIds(std::string_view list) {
  std::vector<int32_t> ids;
  size_t at = 0;
  while (at <= list.size()) {
    size_t end = std::min(list.find(',', at), list.size());
    std::string_view item = list.substr(at, end - at);
    while (!item.empty() && item.front() == ' ')
      item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ')
      item.remove_suffix(1);
    int32_t id = -1;
    auto [stop, code] =
        std::from_chars(item.data(), item.data() + item.size(), id);
    if (code != std::errc() || stop != item.data() + item.size() || id < 0)
      return Error("'" + std::string(item) + "' (item " +
                   std::to_string(ids.size() + 1) +
                   ") is not a token id; expected whole numbers from 0, as in "
                   "1,2,3");
    ids.push_back(id);
    at = end + 1;
  }
  return ids;
}

Result<std::vector<Prompt>> parsePromptLines(std::string_view bytes,
                                             const std::string &name,
                                             const RunOptions &options,
                                             rt::ChatFormat format) {
  bool isJson = name.size() > 6 && name.ends_with(".jsonl");
  std::vector<Prompt> prompts;
  int64_t number = 0;
  while (!bytes.empty()) {
    ++number;
    size_t end = std::min(bytes.find('\n'), bytes.size());
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    // What JSON takes for space is no value.
    if (isJson && line.find_first_not_of(" \t\r") == line.npos)
      continue;
    Result<Prompt> prompt =
        isJson ? jsonPrompt(line, options, format)
               : textPrompt(std::string(line), options, format);
    if (!prompt)
      return prompt.takeError().withContext(printablePath(name) + ":" +
                                            std::to_string(number));
    prompts.push_back(std::move(*prompt));
  }
  if (prompts.empty())
    return Error(printablePath(name) +
                 ": no prompt in it; expected one a line");
  return prompts;
}

Result<std::vector<Prompt>> readPrompts(const RunOptions &options,
                                        rt::ChatFormat format) {
  const PromptSource &source = options.prompt;
  std::string text, name;
  switch (source.kind) {
  case PromptSource::Kind::Ids:
    return readIds(options);
  case PromptSource::Kind::Argument:
    text = source.value;
    name = "PROMPT";
    break;
  case PromptSource::Kind::File:
  case PromptSource::Kind::Lines: {
    Result<std::string> read = rt::readTextFile(source.value, largestPrompt);
    if (!read)
      return read.takeError();
    if (source.kind == PromptSource::Kind::Lines)
      return parsePromptLines(*read, source.value, options, format);
    text = std::move(*read);
    name = source.value;
    break;
  }
  case PromptSource::Kind::StandardInput: {
    name = "standard input";
    Result<std::string> read = readStandardInput();
    if (!read)
      return read.takeError().withContext(name);
    text = std::move(*read);
    break;
  }
  }
  if (source.kind != PromptSource::Kind::Argument)
    dropFinalLineBreak(text);
  Result<Prompt> prompt = textPrompt(std::move(text), options, format);
  if (!prompt)
    return prompt.takeError().withContext(printablePath(name));
  return std::vector<Prompt>{std::move(*prompt)};
}

Result<std::vector<int32_t>> readCommitOrder(const std::string &path) {
  Result<std::string> text = rt::readTextFile(path, largestPrompt);
  if (!text)
    return text.takeError();
  constexpr std::string_view gaps = " \t\r\n,";
  std::vector<int32_t> order;
  const std::string_view all = *text;
  for (size_t at = all.find_first_not_of(gaps); at != all.npos;) {
    const size_t end = std::min(all.find_first_of(gaps, at), all.size());
    const std::string_view word = all.substr(at, end - at);
    int32_t position = 0;
    auto [stop, code] =
        std::from_chars(word.data(), word.data() + word.size(), position);
    if (code != std::errc() || stop != word.data() + word.size()) {
      const auto line = 1 + std::count(all.begin(), all.begin() + at, '\n');
      std::string shown(word.substr(0, 32));
      std::replace_if(
          shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; },
          '?');
      return Error(path + ":" + std::to_string(line) + ": '" + shown +
                   "' is not a position; expected whole numbers from 0");
    }
    order.push_back(position);
    at = all.find_first_not_of(gaps, end);
  }
  if (order.empty())
    return Error(path + " has no position; expected each of the response's");
  return order;
}

Result<std::vector<std::vector<int32_t>>>
encodePrompts(const std::vector<Prompt> &prompts,
              const rt::Tokenizer *tokenizer) {
  std::vector<std::vector<int32_t>> all;
  for (const Prompt &prompt : prompts) {
    if (!prompt.isText) {
      all.push_back(prompt.ids);
      continue;
    }
    if (!tokenizer)
      return Error(
          "the model's folder has no tokenizer (tokenizer.json, or vocab.json "
          "and merges.txt), so text cannot become token ids; give "
          "--prompt-ids");
    Result<std::vector<int32_t>> ids = tokenizer->encode(prompt.text);
    if (!ids)
      return ids.takeError().withContext("the prompt");
    all.push_back(std::move(*ids));
  }
  return all;
}

} // namespace heddle::run
