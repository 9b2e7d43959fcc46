//===- Binding.h - What all bindings share ----------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PYTHON_EXTENSION_BINDING_H
#define HEDDLE_PYTHON_EXTENSION_BINDING_H

#include "bundle/Result.h"
#include "embed/Options.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>

namespace heddle::python {

/// An Error on its way to Python, where it is heddle.HeddleError.
struct Raised {
  std::string text;
};

/// Calls that compute without the GIL. The interpreter must not end under them:
/// it would end their threads where C++ cannot be left.
class Calls {
public:
  /// One call, from before the GIL is released until it is held again.
  class One {
  public:
    One() {
      ++all().count;
      if (!all().ending)
        return;
      done();
      throw Raised{"the interpreter is ending"};
    }
    ~One() { done(); }
    One(const One &) = delete;
    One &operator=(const One &) = delete;

  private:
    /// Whoever waits has said so before looking at the count, so that one of
    /// both sees the other.
    static void done() {
      --all().count;
      if (!all().ending)
        return;
      std::lock_guard<std::mutex> lock(all().mutex);
      all().changed.notify_all();
    }
  };

  /// Whether calls are to end soon.
  static bool areEnding() { return all().ending; }

  /// Has all calls end after their step, and waits for them.
  static void end() {
    nanobind::gil_scoped_release released;
    all().ending = true;
    std::unique_lock<std::mutex> lock(all().mutex);
    all().changed.wait(lock, [] { return all().count == 0; });
  }

private:
  static Calls &all() {
    static Calls calls;
    return calls;
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int64_t> count = 0;
  std::atomic<bool> ending = false;
};

/// Python's pending exception, kept while C++ unwinds to where it may fly.
class Pending {
public:
  /// Calls what may raise; true when it did not. Holds the GIL meanwhile.
  template <typename Function> bool call(Function function) {
    if (Calls::areEnding())
      return false;
    nanobind::gil_scoped_acquire held;
    try {
      if (PyErr_CheckSignals() != 0)
        throw nanobind::python_error();
      return function();
    } catch (nanobind::python_error &error) {
      kept.emplace(std::move(error));
      return false;
    }
  }
  /// What waits and computes without the GIL asks whether to end.
  bool interrupts() {
    return !call([] { return true; });
  }
  void raise() {
    if (kept)
      throw nanobind::python_error(std::move(*kept));
  }

private:
  std::optional<nanobind::python_error> kept;
};

template <typename T> T orRaise(Result<T> result) {
  if (!result)
    throw Raised{embed::withoutDashes(result.error().text())};
  return std::move(*result);
}

inline void orRaise(Status status) {
  if (!status)
    throw Raised{embed::withoutDashes(status.error().text())};
}

/// AttentionModule.cpp
void bindAttention(nanobind::module_ &m);

/// TensorCalls.cpp
void bindTensorCalls(nanobind::module_ &m);

} // namespace heddle::python

#endif // HEDDLE_PYTHON_EXTENSION_BINDING_H
