//===- GenerationConfig.cpp - generation_config.json of a model -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/GenerationConfig.h"

#include "bundle/program/Printable.h"
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/model/ConfigFields.h"

namespace heddle::rt {

using nlohmann::json;

static Result<GenerationConfig> parse(const json &object) {
  FieldReader fields(object);
  GenerationConfig config;
  // Larger numbers are no sampler's; they would overflow logits.
  constexpr double most = 1e6;
  auto read = [&](const char *name, double least, double largest) {
    return fields.has(name) ? std::optional(fields.number(name, least, largest))
                            : std::nullopt;
  };
  if (fields.has("alg")) {
    if (object["alg"].is_string())
      config.alg = object["alg"].get<std::string>();
    else
      fields.fail("alg", object["alg"], "a string");
  }
  config.eps = read("eps", 0, 1);
  if (config.eps && (*config.eps == 0 || *config.eps == 1))
    fields.fail("eps", object["eps"], "a number between 0 and 1");
  config.temperature = read("temperature", 0, most);
  config.topP = read("top_p", 0, 1);
  if (fields.has("top_k"))
    config.topK = fields.integer("top_k", 1, maxExtent);
  config.algTemp = read("alg_temp", 0, most);
  if (Status status = fields.takeStatus(); !status)
    return status.takeError();
  return config;
}

Result<GenerationConfig> GenerationConfig::load(const std::string &folder) {
  const std::string path = folder + "/generation_config.json";
  if (!isThere(path))
    return GenerationConfig();
  Result<std::string> text = readTextFile(path, 1 << 20);
  if (!text)
    return text.takeError();
  Result<json> object = parseJsonObject(*text);
  if (!object)
    return object.takeError().withContext(printablePath(path));
  Result<GenerationConfig> config = parse(*object);
  if (!config)
    return config.takeError().withContext(printablePath(path));
  return config;
}

} // namespace heddle::rt
