//===- Config.cpp - config.json of a model --------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One reader a family: it knows that family's field names, refuses what is not
// implemented, and says the facts in which families differ. Nothing else in the
// runtime asks for a family.
//
//===----------------------------------------------------------------------===//

#include "runtime/model/Config.h"

#include "bundle/program/Printable.h"
#include "runtime/base/File.h"
#include "runtime/base/Json.h"
#include "runtime/model/ConfigFields.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

namespace heddle::rt {

using nlohmann::json;

namespace {

/// What only one value is implemented for, in LLaDA. Absent or null means
/// LLaDA-8B's config.json, which has exactly these values (the class defaults
/// of the released configuration code differ and never apply to a released
/// model).
const FixedField lladaFixedFields[] = {
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
    {"rope_full_precision", true, "rotations in less than f32"},
    {"scale_logits", false, "scaled logits"},
    {"rope_scaling", nullptr, "scaled rotations"},
    {"quantization_config", nullptr, "quantised weights"},
};

/// The same for Dream; the values are those of Dream-7B's config.json.
const FixedField dreamFixedFields[] = {
    {"hidden_act", "silu", "another activation in the MLP"},
    {"rope_scaling", nullptr, "scaled rotations"},
    {"use_mrope", false, "rotations by several positions"},
    {"use_sliding_window", false, "a sliding window of the model's own"},
    {"quantization_config", nullptr, "quantised weights"},
};

// Token ids are int32.
constexpr int64_t maxVocab = std::numeric_limits<int32_t>::max();

/// `architectures`, where given, names the family's class.
void checkClass(FieldReader &fields, const json &object, const char *name) {
  if (fields.has("architectures") &&
      object["architectures"] != json::array({name}))
    fields.fail("architectures", object["architectures"],
                json::array({name}).dump());
}

/// That heads divide; the names are those of the fields.
void checkHeads(FieldReader &fields, const ModelConfig &config,
                const char *hidden, const char *heads, const char *kvHeads) {
  auto quoted = [](const char *name) { return "'" + std::string(name) + "'"; };
  if (config.hidden % config.queryHeads != 0)
    fields.fail("field " + quoted(hidden) + ": found " +
                std::to_string(config.hidden) + ", expected a multiple of " +
                heads + ", " + std::to_string(config.queryHeads));
  if (config.queryHeads % config.kvHeads != 0)
    fields.fail("field " + quoted(heads) + ": found " +
                std::to_string(config.queryHeads) +
                ", expected a multiple of " + kvHeads + ", " +
                std::to_string(config.kvHeads));
  if (config.headDim % 2 != 0)
    fields.fail("fields " + quoted(hidden) + " and " + quoted(heads) +
                ": heads of " + std::to_string(config.headDim) +
                " elements cannot be rotated in halves, expected an even "
                "number");
}

void readLLaDASizes(FieldReader &fields, ModelConfig &config) {
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
  config.headDim = config.hidden / config.queryHeads;
  checkHeads(fields, config, "d_model", "n_heads", "n_kv_heads");

  if (fields.has("mlp_hidden_size"))
    config.mlpHidden = fields.integer("mlp_hidden_size", 1, maxExtent);
  else if (fields.has("mlp_ratio"))
    config.mlpHidden =
        fields.integer("mlp_ratio", 1, maxExtent / config.hidden) *
        config.hidden;
  else
    fields.fail("field 'mlp_hidden_size' is missing");

  int64_t vocab = fields.integer("vocab_size", 1, maxVocab);
  config.vocabSize = fields.integer("embedding_size", 1, maxVocab, vocab);
  if (config.vocabSize < vocab)
    fields.fail("field 'embedding_size': found " +
                std::to_string(config.vocabSize) +
                ", expected at least vocab_size, " + std::to_string(vocab));
  config.maxSequenceLength =
      fields.integer("max_sequence_length", 1, maxExtent);
}

/// Source: LLaDA-8B's config.json and modelling code (Nie et al. 2025).
ModelConfig readLLaDA(FieldReader &fields, const json &object) {
  ModelConfig config;
  config.architecture = "llada";
  checkClass(fields, object, "LLaDAModelLM");
  fields.requireFixed(lladaFixedFields);
  readLLaDASizes(fields, config);
  config.rmsNormEps = fields.positive("rms_norm_eps", 1e-5);
  config.tiedEmbeddings = fields.boolean("weight_tying", false);
  return config;
}

/// Source: Dream-7B's config.json and modelling code (Ye et al. 2025).
ModelConfig readDream(FieldReader &fields, const json &object) {
  ModelConfig config;
  config.architecture = "dream";
  config.qkvBias = true;
  config.fullPrecisionRope = false;
  config.shiftedLogits = true;
  config.sampler = SamplerFamily::Timesteps;
  config.chat = ChatFormat::ChatML;
  checkClass(fields, object, "DreamModel");
  fields.requireFixed(dreamFixedFields);
  config.layers = fields.integer("num_hidden_layers", 1, 100'000);
  config.hidden = fields.integer("hidden_size", 1, maxExtent);
  config.queryHeads = fields.integer("num_attention_heads", 1, maxExtent);
  config.kvHeads =
      fields.integer("num_key_value_heads", 1, maxExtent, config.queryHeads);
  config.headDim = config.hidden / config.queryHeads;
  checkHeads(fields, config, "hidden_size", "num_attention_heads",
             "num_key_value_heads");
  if (int64_t dim = fields.integer("head_dim", 1, maxExtent, config.headDim);
      dim != config.headDim)
    fields.fail("field 'head_dim': found " + std::to_string(dim) +
                ", expected hidden_size / num_attention_heads, " +
                std::to_string(config.headDim));
  config.mlpHidden = fields.integer("intermediate_size", 1, maxExtent);
  config.vocabSize = fields.integer("vocab_size", 1, maxVocab);
  config.maxSequenceLength =
      fields.integer("max_position_embeddings", 1, maxExtent);
  config.rmsNormEps = fields.positive("rms_norm_eps", 1e-6);
  config.tiedEmbeddings = fields.boolean("tie_word_embeddings", false);
  return config;
}

/// The families, by the model_type of their config.json.
struct Family {
  const char *modelType;
  ModelConfig (*read)(FieldReader &fields, const json &object);
};
constexpr Family families[] = {{"llada", readLLaDA}, {"Dream", readDream}};

Result<ModelConfig> parseConfig(const json &object) {
  auto type = object.find("model_type");
  const Family *found = nullptr;
  std::string known;
  for (const Family &family : families) {
    if (type != object.end() && *type == family.modelType)
      found = &family;
    known += (known.empty() ? "\"" : " or \"") + std::string(family.modelType) +
             "\"";
  }
  if (!found)
    return Error("field 'model_type': found " +
                 (type == object.end() ? std::string("nothing")
                                       : printable(type->dump())) +
                 ", expected " + known +
                 ", the architectures that are implemented");
  FieldReader fields(object);
  ModelConfig config = found->read(fields, object);
  config.ropeTheta = fields.positive("rope_theta");
  int64_t lastToken = config.vocabSize - 1;
  config.maskToken =
      static_cast<int32_t>(fields.integer("mask_token_id", 0, lastToken));
  config.eosToken =
      static_cast<int32_t>(fields.integer("eos_token_id", -1, lastToken, -1));
  config.padToken =
      static_cast<int32_t>(fields.integer("pad_token_id", -1, lastToken, -1));
  if (Status status = fields.takeStatus(); !status)
    return status.takeError();
  if (config.maskToken == config.eosToken)
    return Error("fields 'mask_token_id' and 'eos_token_id' are both " +
                 std::to_string(config.maskToken) +
                 "; what is masked would read as the text's end");
  return config;
}

} // namespace

std::vector<int32_t> ModelConfig::specialTokens() const {
  std::vector<int32_t> tokens;
  for (int32_t token : {maskToken, eosToken, padToken})
    if (token >= 0)
      tokens.push_back(token);
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

Result<ModelConfig> ModelConfig::load(const std::string &folder) {
  if (folder.empty())
    return Error("the name of the model's folder is empty; give a folder that "
                 "holds config.json");
  std::error_code error;
  if (std::filesystem::is_regular_file(folder, error))
    return Error(printablePath(folder) +
                 ": is a file, expected a model's folder, which holds "
                 "config.json");
  std::string path = folder + "/config.json";
  Result<std::string> text = readTextFile(path, 1 << 20);
  if (!text)
    return text.takeError();
  Result<json> object = parseJsonObject(*text);
  if (!object)
    return object.takeError().withContext(printablePath(path));
  Result<ModelConfig> config = parseConfig(*object);
  if (!config)
    return config.takeError().withContext(printablePath(path));
  return config;
}

} // namespace heddle::rt
