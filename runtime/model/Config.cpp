//===- Config.cpp - config.json of a model --------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/Config.h"

#include "runtime/base/File.h"
#include "runtime/base/Json.h"

#include <cmath>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

namespace heddle::rt {

using nlohmann::json;

namespace {

/// A field that changes what the model computes and for which one value is
/// implemented. Absent or null means LLaDA-8B's config.json, which has exactly
/// these values (the class defaults of the released configuration code differ
/// and never apply to a released model).
struct FixedField {
  const char *name;
  json supported;
  const char *meaning; ///< what another value would ask for
};

const FixedField fixedFields[] = {
    {"activation_type", "silu", "another activation in the MLP"},
    {"alibi", false, "ALiBi position biases"},
    {"attention_layer_norm", false, "norms of queries and keys"},
    {"bias_for_layer_norm", false, "biases of norms"},
    {"block_group_size", 1,
     "grouped blocks, whose tensors are named otherwise"},
    {"block_type", "llama", "another block"},
    {"include_bias", false, "biases of linear layers"},
    {"include_qkv_bias", false, "biases of query, key and value"},
    {"input_emb_norm", false, "scaled embeddings"},
    {"layer_norm_type", "rms", "another norm"},
    {"layer_norm_with_affine", true, "norms without weights"},
    {"rope", true, "learned positions"},
    {"rope_full_precision", true, "rotations in less than fp32"},
    {"scale_logits", false, "scaled logits"},
    {"rope_scaling", nullptr, "scaled rotations"},
    {"quantization_config", nullptr, "quantised weights"},
};

/// Largest value of any size field; keeps products far from overflow.
constexpr int64_t maxExtent = int64_t(1) << 31;

/// Reads typed fields; the first error sticks and later reads are harmless.
class FieldReader {
public:
  explicit FieldReader(const json &object) : object(object) {}

  bool has(const char *name) const {
    auto found = object.find(name);
    return found != object.end() && !found->is_null();
  }

  /// An integer in [least, most]; `fallback` when absent or null, an error if
  /// there is none.
  int64_t integer(const char *name, int64_t least, int64_t most,
                  std::optional<int64_t> fallback = std::nullopt) {
    if (!has(name))
      return missing(name, fallback);
    const json &value = object[name];
    bool fits = value.is_number_unsigned()
                    ? value.get<uint64_t>() <= static_cast<uint64_t>(most) &&
                          static_cast<int64_t>(value.get<uint64_t>()) >= least
                    : value.is_number_integer() &&
                          value.get<int64_t>() >= least &&
                          value.get<int64_t>() <= most;
    if (!fits) {
      fail(name, value,
           "an integer from " + std::to_string(least) + " to " +
               std::to_string(most));
      return least;
    }
    return value.get<int64_t>();
  }

  /// A finite number above zero.
  double positive(const char *name,
                  std::optional<double> fallback = std::nullopt) {
    if (!has(name))
      return missing(name, fallback);
    const json &value = object[name];
    if (!value.is_number() || !(value.get<double>() > 0) ||
        !std::isfinite(value.get<double>())) {
      fail(name, value, "a number above 0");
      return 1;
    }
    return value.get<double>();
  }

  bool boolean(const char *name, bool fallback) {
    if (!has(name))
      return fallback;
    if (!object[name].is_boolean()) {
      fail(name, object[name], "true or false");
      return fallback;
    }
    return object[name].get<bool>();
  }

  void fail(const std::string &text) {
    if (!problem)
      problem = Error(text);
  }

  void fail(const char *name, const json &value, const std::string &expected) {
    fail(std::string("field '") + name + "': found " + value.dump() +
         ", expected " + expected);
  }

  Status takeStatus() {
    return problem ? Status(std::move(*problem)) : Status::success();
  }

private:
  template <typename T> T missing(const char *name, std::optional<T> fallback) {
    if (!fallback)
      fail(std::string("field '") + name + "' is missing");
    return fallback.value_or(1);
  }

  const json &object;
  std::optional<Error> problem;
};

/// Is this a LLaDA? Told from model_type, and architectures where given.
Status checkArchitecture(const json &object) {
  auto type = object.find("model_type");
  if (type == object.end() || *type != "llada")
    return Error(
        "field 'model_type': found " +
        (type == object.end() ? std::string("nothing") : type->dump()) +
        ", expected \"llada\", the one architecture that is "
        "implemented");
  auto classes = object.find("architectures");
  if (classes != object.end() && !classes->is_null() &&
      *classes != json::array({"LLaDAModelLM"}))
    return Error("field 'architectures': found " + classes->dump() +
                 ", expected [\"LLaDAModelLM\"]");
  return Status::success();
}

void readSizes(FieldReader &fields, ModelConfig &config) {
  config.layers = fields.integer("n_layers", 1, 100'000);
  config.hidden = fields.integer("d_model", 1, maxExtent);
  config.queryHeads = fields.integer("n_heads", 1, maxExtent);
  // multi_query_attention is the older way to ask for one shared head.
  bool multiQuery = fields.boolean("multi_query_attention", false);
  config.kvHeads = fields.integer("n_kv_heads", 1, maxExtent,
                                  multiQuery ? 1 : config.queryHeads);
  if (multiQuery && config.kvHeads != 1)
    fields.fail("fields 'multi_query_attention' and 'n_kv_heads' contradict "
                "each other: true asks for 1 head, found " +
                std::to_string(config.kvHeads));
  if (config.hidden % config.queryHeads != 0)
    fields.fail("field 'd_model': found " + std::to_string(config.hidden) +
                ", expected a multiple of n_heads, " +
                std::to_string(config.queryHeads));
  if (config.queryHeads % config.kvHeads != 0)
    fields.fail("field 'n_heads': found " + std::to_string(config.queryHeads) +
                ", expected a multiple of n_kv_heads, " +
                std::to_string(config.kvHeads));
  config.headDim = config.hidden / config.queryHeads;
  if (config.headDim % 2 != 0)
    fields.fail("fields 'd_model' and 'n_heads': heads of " +
                std::to_string(config.headDim) +
                " elements cannot be rotated in halves, expected an even "
                "number");

  if (fields.has("mlp_hidden_size"))
    config.mlpHidden = fields.integer("mlp_hidden_size", 1, maxExtent);
  else if (fields.has("mlp_ratio"))
    config.mlpHidden =
        fields.integer("mlp_ratio", 1, maxExtent / config.hidden) *
        config.hidden;
  else
    fields.fail("field 'mlp_hidden_size' is missing");

  // Token ids are int32.
  constexpr int64_t maxVocab = std::numeric_limits<int32_t>::max();
  int64_t vocab = fields.integer("vocab_size", 1, maxVocab);
  config.vocabSize = fields.integer("embedding_size", 1, maxVocab, vocab);
  if (config.vocabSize < vocab)
    fields.fail("field 'embedding_size': found " +
                std::to_string(config.vocabSize) +
                ", expected at least vocab_size, " + std::to_string(vocab));
  config.maxSequenceLength =
      fields.integer("max_sequence_length", 1, maxExtent);
}

Result<ModelConfig> parseConfig(const json &object) {
  if (Status status = checkArchitecture(object); !status)
    return status.takeError();
  ModelConfig config;
  config.architecture = "llada";
  FieldReader fields(object);
  for (const FixedField &field : fixedFields)
    if (fields.has(field.name) && object[field.name] != field.supported)
      fields.fail(std::string("field '") + field.name + "': found " +
                  object[field.name].dump() + " (" + field.meaning +
                  "), only " + field.supported.dump() + " is supported");
  readSizes(fields, config);
  config.ropeTheta = fields.positive("rope_theta");
  config.rmsNormEps = fields.positive("rms_norm_eps", 1e-5);
  config.tiedEmbeddings = fields.boolean("weight_tying", false);
  int64_t lastToken = config.vocabSize - 1;
  config.maskToken =
      static_cast<int32_t>(fields.integer("mask_token_id", 0, lastToken));
  config.eosToken =
      static_cast<int32_t>(fields.integer("eos_token_id", -1, lastToken, -1));
  config.padToken =
      static_cast<int32_t>(fields.integer("pad_token_id", -1, lastToken, -1));
  if (Status status = fields.takeStatus(); !status)
    return status.takeError();
  return config;
}

} // namespace

Result<ModelConfig> ModelConfig::load(const std::string &folder) {
  std::string path = folder + "/config.json";
  Result<std::string> text = readTextFile(path, 1 << 20);
  if (!text)
    return text.takeError();
  Result<json> object = parseJsonObject(*text);
  if (!object)
    return object.takeError().withContext(path);
  Result<ModelConfig> config = parseConfig(*object);
  if (!config)
    return config.takeError().withContext(path);
  return config;
}

} // namespace heddle::rt
