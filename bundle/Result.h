//===- Result.h - A value or a located error message ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one error type of bundle/ and runtime/. An Error carries a sentence that
// says what was found, what was expected and what to do; callers prepend
// context ("model.safetensors: ...") with `withContext`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_RESULT_H
#define HEDDLE_BUNDLE_RESULT_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace heddle {

/// Why an operation failed, in one or more plain sentences.
class Error {
public:
  explicit Error(std::string message) : message(std::move(message)) {}

  const std::string &text() const { return message; }

  /// The same error with "context: " in front.
  Error withContext(const std::string &context) && {
    return Error(context + ": " + message);
  }

private:
  std::string message;
};

/// Success, or an Error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::move(error)) {}

  static Status success() { return Status(); }

  /// True on success.
  explicit operator bool() const { return !failure; }
  const Error &error() const { return *failure; }
  Error takeError() { return std::move(*failure); }

private:
  std::optional<Error> failure;
};

/// Either a T or an Error. Check with `if (!result)` before `*result`.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() {
    assert(*this && "dereferenced an error");
    return std::get<0>(state);
  }
  const T &operator*() const {
    assert(*this && "dereferenced an error");
    return std::get<0>(state);
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

  const Error &error() const { return std::get<1>(state); }
  Error takeError() { return std::move(std::get<1>(state)); }

  /// Gives the value to `target`, which an error leaves as it is.
  template <typename Target> Status moveTo(Target &target) && {
    if (!*this)
      return takeError();
    target = std::move(**this);
    return Status::success();
  }

private:
  std::variant<T, Error> state;
};

} // namespace heddle

#endif // HEDDLE_BUNDLE_RESULT_H
