//===- Support.cpp - Handles, structs and errors of the C API -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include "embed/Process.h"

namespace heddle::embed::c {

void invalid(std::string text) {
  throw Failure{HEDDLE_INVALID_ARGUMENT, std::move(text)};
}

std::string &lastError() {
  thread_local std::string text;
  return text;
}

std::string &lastWarnings() {
  thread_local std::string text;
  return text;
}

heddle_status failed(heddle_status status, const char *text) noexcept {
  try {
    lastError() = text;
  } catch (...) { // no memory for the sentence
    lastError().clear();
  }
  return status;
}

// Never destroyed: other threads may still run when the process ends.
template <typename T> static T &forever(const char *kind) {
  return *new T(kind);
}
Table<heddle_bundle, BundleObject> &bundles() {
  static auto &all = forever<Table<heddle_bundle, BundleObject>>("bundle");
  return all;
}
Table<heddle_model, ModelObject> &models() {
  static auto &all = forever<Table<heddle_model, ModelObject>>("model");
  return all;
}
Table<heddle_generation, GenerationObject> &generations() {
  static auto &all =
      forever<Table<heddle_generation, GenerationObject>>("generation");
  return all;
}
Table<heddle_attention, AttentionObject> &attentions() {
  static auto &all =
      forever<Table<heddle_attention, AttentionObject>>("attention");
  return all;
}
Table<heddle_call, CallObject> &calls() {
  static auto &all = forever<Table<heddle_call, CallObject>>("call");
  return all;
}

} // namespace heddle::embed::c

using namespace heddle::embed;
using namespace heddle::embed::c;

const char *heddle_version(void) { return HEDDLE_VERSION; }

uint32_t heddle_api_version(void) { return HEDDLE_C_API; }

const char *heddle_last_error(void) { return lastError().c_str(); }

const char *heddle_last_warnings(void) { return lastWarnings().c_str(); }

heddle_status heddle_set_threads(int32_t threads) {
  return answer([&] {
    if (threads < 0)
      invalid("threads: " + std::to_string(threads) +
              " is negative; give 0 for one a core");
    orFail(setThreads(threads));
  });
}
