//===- Support.h - Handles, structs and errors of the C API -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMBED_C_SUPPORT_H
#define HEDDLE_EMBED_C_SUPPORT_H

#include "heddle/heddle.h"

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"
#include "embed/Attention.h"
#include "embed/Options.h"
#include "embed/Runner.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace heddle::embed::c {

/// A failure on its way to the caller.
struct Failure {
  heddle_status status;
  std::string text;
};

[[noreturn]] void invalid(std::string text);

template <typename T> T orFail(Result<T> result) {
  if (!result)
    throw Failure{HEDDLE_FAILED, withoutDashes(result.error().text())};
  return std::move(*result);
}
inline void orFail(Status status) {
  if (!status)
    throw Failure{HEDDLE_FAILED, withoutDashes(status.error().text())};
}

/// heddle_last_error() of this thread.
std::string &lastError();
/// heddle_last_warnings() of this thread.
std::string &lastWarnings();
heddle_status failed(heddle_status status, const char *text) noexcept;

/// The body of a function of the API: whatever goes wrong is a status.
template <typename Body> heddle_status answer(Body body) noexcept {
  try {
    lastError().clear();
    body();
    lastError().clear(); // of calls that a callback made
    return HEDDLE_OK;
  } catch (const Failure &failure) {
    return failed(failure.status, failure.text.c_str());
  } catch (const std::bad_alloc &) {
    return failed(HEDDLE_OUT_OF_MEMORY, "there is not enough memory");
  } catch (const std::exception &error) {
    return failed(HEDDLE_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(HEDDLE_INTERNAL_ERROR, "an exception of no known type");
  }
}

struct BundleObject {
  bundle::Bundle bundle;
  std::string bytes;
  std::string about;
};
struct ModelObject {
  std::unique_ptr<Runner> runner;
  std::string about;
  std::mutex mutex;
  /// Flags of the runs under way; guarded by `mutex`.
  std::vector<std::atomic<bool> *> runs;
};
struct GenerationObject {
  Response response;
  double seconds = 0;
};
struct AttentionObject {
  std::unique_ptr<Attention> attention;
  int64_t layers = 0;
};
struct CallObject {
  std::shared_ptr<AttentionObject> owner; ///< outlives `call`
  std::unique_ptr<Call> call;
  int64_t inputBytes[3] = {}; ///< of query, key and value, first to last
  int64_t outputBytes = 0;
  int64_t elementBytes = 0;
};

/// The objects behind the handles of one kind. A handle is a number that is
/// never used twice, so one that was destroyed is known as such.
template <typename Handle, typename Object> class Table {
public:
  explicit Table(const char *kind) : kind(kind) {}

  Handle *add(std::shared_ptr<Object> object) {
    std::lock_guard<std::mutex> lock(mutex);
    uintptr_t number = next();
    objects.emplace(number, std::move(object));
    return reinterpret_cast<Handle *>(number);
  }
  std::shared_ptr<Object> get(const Handle *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    return find(handle)->second;
  }
  std::shared_ptr<Object> take(const Handle *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = find(handle);
    std::shared_ptr<Object> object = std::move(found->second);
    objects.erase(found);
    return object;
  }

private:
  static uintptr_t next() {
    static std::atomic<uintptr_t> number = 0x48;
    return number += 8;
  }
  auto find(const Handle *handle) {
    if (!handle)
      invalid(std::string(kind) + ": expected a handle, found NULL");
    auto found = objects.find(reinterpret_cast<uintptr_t>(handle));
    if (found == objects.end())
      invalid(std::string(kind) + ": no such handle is there; it was "
                                  "destroyed, is of another kind, or never "
                                  "was one");
    return found;
  }

  const char *kind;
  std::mutex mutex;
  std::map<uintptr_t, std::shared_ptr<Object>> objects;
};

Table<heddle_bundle, BundleObject> &bundles();
Table<heddle_model, ModelObject> &models();
Table<heddle_generation, GenerationObject> &generations();
Table<heddle_attention, AttentionObject> &attentions();
Table<heddle_call, CallObject> &calls();

/// `what`, or a failure that names it.
template <typename T> T *given(T *pointer, const char *what) {
  if (!pointer)
    invalid(std::string(what) + ": expected a pointer, found NULL");
  return pointer;
}

/// Where a result goes; NULL until there is one.
template <typename T> T *place(T *to, const char *what) {
  *given(to, what) = T();
  return to;
}

/// A caller's struct as this library knows it: what its size leaves out is 0.
/// All fields have 8 bytes, so that none is cut in two.
template <typename T> T read(const T *from, const char *what) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  T made{};
  if (!from)
    return made;
  size_t size = from->size;
  if (size < sizeof(size_t) || size % 8 != 0 || size > sizeof(T))
    invalid(std::string(what) + ": its size says " + std::to_string(size) +
            " bytes; this library knows " + std::to_string(sizeof(T)) +
            (size > sizeof(T) ? ": the caller was compiled against a later "
                                "heddle.h (see heddle_api_version), or "
                              : ": ") +
            "set size to sizeof of the struct");
  std::memcpy(&made, from, size);
  return made;
}

/// Fills the fields of a caller's struct that its size has room for.
template <typename T> void fill(T *to, T values, const char *what) {
  size_t size = read(given(to, what), what).size;
  values.size = size;
  std::memcpy(to, &values, size);
}

} // namespace heddle::embed::c

#endif // HEDDLE_EMBED_C_SUPPORT_H
