//===- Target.h - What a fuzzer is made of ----------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program for each parser: one file defines the three functions below, and
// Main.cpp hands them to libFuzzer.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_FUZZ_TARGET_H
#define HEDDLE_TEST_FUZZ_TARGET_H

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace heddle::fuzz {

using Random = std::minstd_rand;

/// A number below `bound`, which is at least 1.
size_t below(Random &random, size_t bound);

/// Reads `input` as the parser's users would, and all that is done with what
/// parses. What must hold is checked with require().
void runInput(const std::string &input);

/// A change of `input` that keeps what its format is made of.
std::string mutated(const std::string &input, Random &random);

/// `input` with some part of `other`.
std::string crossed(const std::string &input, const std::string &other,
                    Random &random);

/// Ends the program, which libFuzzer reports, unless `holds`.
void require(bool holds, std::string_view what);

/// libFuzzer's own changes of bytes, which know what was compared with what.
std::string changeBytes(std::string bytes);

/// Keeps the compiler from dropping what makes a value.
void use(const void *value);

} // namespace heddle::fuzz

#endif // HEDDLE_TEST_FUZZ_TARGET_H
