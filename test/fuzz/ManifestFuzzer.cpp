//===- ManifestFuzzer.cpp - A bundle's manifest ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/ManifestUse.h"
#include "test/fuzz/Mutators.h"

using namespace heddle;

void fuzz::runInput(const std::string &input) {
  Result<bundle::Manifest> manifest = bundle::manifestFromJson(input);
  if (manifest)
    useManifest(*manifest);
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  return mutatedJson(input, random);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  return crossedJson(input, other, random);
}
