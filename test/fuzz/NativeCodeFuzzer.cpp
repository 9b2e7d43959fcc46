//===- NativeCodeFuzzer.cpp - The code of a bundle for hosts --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/ElfMutator.h"

#include "bundle/format/NativeCode.h"

using namespace heddle;

void fuzz::runInput(const std::string &input) {
  Status status = bundle::checkNativeCode(input);
  if (!status)
    require(!status.takeError().text().empty(), "a refusal says why");
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  return mutatedElf(input, random);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  const size_t at = below(random, input.size() + 1);
  return input.substr(0, at) + (other.size() > at ? other.substr(at) : "");
}
