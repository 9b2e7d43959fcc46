//===- SafetensorsFuzzer.cpp - Weights ------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs are whole files: the header's length, the header, the data.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Folder.h"
#include "test/fuzz/Mutators.h"
#include "test/fuzz/TensorUse.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

using namespace heddle;

namespace {

constexpr size_t prefix = sizeof(uint64_t);

std::string headerOf(const std::string &file) {
  uint64_t length = 0;
  if (file.size() < prefix)
    return "";
  std::memcpy(&length, file.data(), prefix);
  return file.substr(prefix, std::min<uint64_t>(length, file.size()));
}

/// The file with that header and as much data as its tensors ask for.
std::string fileOf(const std::string &header) {
  uint64_t most = 0;
  const auto document = nlohmann::json::parse(header, nullptr, false);
  if (document.is_object())
    for (const auto &tensor : document)
      if (tensor.is_object() && tensor.contains("data_offsets") &&
          tensor["data_offsets"].is_array())
        for (const auto &offset : tensor["data_offsets"])
          if (offset.is_number_unsigned())
            most = std::max(most, offset.get<uint64_t>());
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char *>(&length), prefix);
  file += header;
  return file.append(std::min<uint64_t>(most, 4096), '\1');
}

} // namespace

void fuzz::runInput(const std::string &input) {
  static const Folder folder;
  folder.write("model.safetensors", input);
  Result<rt::Checkpoint> checkpoint = rt::Checkpoint::open(folder.path());
  if (checkpoint)
    useTensors(*checkpoint);
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  if (input.size() < prefix || below(random, 20) == 0)
    return changeBytes(input);
  return fileOf(mutatedJson(headerOf(input), random));
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  return fileOf(crossedJson(headerOf(input), headerOf(other), random));
}
