//===- Main.cpp - What libFuzzer calls ------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Target.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace heddle::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

size_t heddle::fuzz::below(Random &random, size_t bound) {
  return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
}

void heddle::fuzz::require(bool holds, std::string_view what) {
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

std::string heddle::fuzz::changeBytes(std::string bytes) {
  const size_t size = bytes.size();
  bytes.resize(size + 64);
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(bytes.data()), size,
                                bytes.size()));
  return bytes;
}

void heddle::fuzz::use(const void *value) {
  asm volatile("" : : "g"(value) : "memory");
}

/// LLVM's allocator, compiled into our code, marks memory that the same
/// allocator in LLVM's own library, which is not instrumented, then uses.
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0:quarantine_size_mb=16";
}

static std::string textOf(const uint8_t *data, size_t size) {
  return std::string(reinterpret_cast<const char *>(data), size);
}

/// Writes `text` if it fits; else lets libFuzzer change what is there.
static size_t put(const std::string &text, uint8_t *data, size_t size,
                  size_t most) {
  if (text.size() > most || text.empty())
    return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  runInput(textOf(data, size));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t most, unsigned seed) {
  Random random(seed);
  // Bytes that are no longer of the format must be refused as well.
  if (size == 0 || below(random, 10) == 0)
    return LLVMFuzzerMutate(data, size, most);
  std::string text = textOf(data, size);
  for (size_t count = 1 + below(random, 5) / 3; count > 0; --count)
    text = mutated(text, random);
  return put(text, data, size, most);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *first,
                                            size_t firstSize,
                                            const uint8_t *second,
                                            size_t secondSize, uint8_t *out,
                                            size_t most, unsigned seed) {
  Random random(seed);
  std::string text =
      crossed(textOf(first, firstSize), textOf(second, secondSize), random);
  const size_t size = std::min(text.size(), most);
  std::memcpy(out, text.data(), size);
  return size;
}
