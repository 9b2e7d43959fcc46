//===- ChatFormat.h - Chat templates ----------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_CHATFORMAT_H
#define HEDDLE_RUNTIME_TEXT_CHATFORMAT_H

#include <span>
#include <string>
#include <string_view>

namespace heddle::rt {

/// The chat templates of the model families, which their released
/// tokenizer_config.json hold as Jinja programs.
enum class ChatFormat {
  /// Headers between <|start_header_id|> and <|end_header_id|>, contents
  /// stripped of white space, <|eot_id|> behind each.
  LLaDA,
  /// <|im_start|>role, a line break, the content, <|im_end|>; a conversation
  /// that does not begin with a system message gets "You are a helpful
  /// assistant." as one.
  ChatML,
};

struct ChatMessage {
  std::string role; ///< "system", "user" or "assistant"
  std::string content;
};

/// The messages as text, ready for Tokenizer::encode(), up to and with the
/// header of the assistant's answer (and, for LLaDA, with the text of the
/// beginning-of-sequence token in front).
std::string formatChat(ChatFormat format,
                       std::span<const ChatMessage> messages);

/// The token that ends a message: "<|eot_id|>" or "<|im_end|>".
std::string_view endOfTurnToken(ChatFormat format);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_TEXT_CHATFORMAT_H
