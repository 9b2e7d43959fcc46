//===- ModelIndexFuzzer.cpp - The index of weights in several files -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs are model.safetensors.index.json and the headers of the two files,
// a.safetensors and b.safetensors, that it may name.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Folder.h"
#include "test/fuzz/Mutators.h"
#include "test/fuzz/TensorUse.h"

using namespace heddle;

void fuzz::runInput(const std::string &input) {
  static const Folder folder;
  std::vector<std::string> parts = splitParts(input);
  parts.resize(3);
  folder.write("model.safetensors.index.json", parts[0]);
  for (int i = 1; i < 3; ++i) {
    // The data of a header: as much as the text behind its last bracket is
    // long.
    const size_t end = parts[i].rfind('}') + 1;
    const uint64_t length = end;
    std::string file(reinterpret_cast<const char *>(&length), sizeof(length));
    folder.write(i == 1 ? "a.safetensors" : "b.safetensors", file + parts[i]);
  }
  Result<rt::Checkpoint> checkpoint = rt::Checkpoint::open(folder.path());
  if (checkpoint)
    useTensors(*checkpoint);
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  std::vector<std::string> parts = splitParts(input);
  const size_t at = below(random, 2) ? 0 : below(random, parts.size());
  const size_t end = parts[at].rfind('}') + 1;
  parts[at] =
      mutatedJson(parts[at].substr(0, end), random) + parts[at].substr(end);
  return joinParts(parts);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  std::vector<std::string> parts = splitParts(input), from = splitParts(other);
  const size_t at = below(random, std::min(parts.size(), from.size()));
  if (below(random, 2))
    parts[at] = from[at];
  else
    parts[at] = crossedJson(parts[at], from[at], random);
  return joinParts(parts);
}
