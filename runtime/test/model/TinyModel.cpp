//===- TinyModel.cpp - Random model folders for tests ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModel.h"

#include "runtime/tensor/Convert.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

namespace heddle::rt::test {

TemporaryFolder::TemporaryFolder()
    : path([] {
        static std::atomic<int> count = 0;
        return testing::TempDir() + "heddle-model-" + std::to_string(getpid()) +
               "-" + std::to_string(count++);
      }()) {
  std::filesystem::create_directories(path);
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path); }

std::string TemporaryFolder::write(const std::string &name,
                                   const std::string &bytes) const {
  std::string full = path + "/" + name;
  std::ofstream(full, std::ios::binary) << bytes;
  return full;
}

std::string safetensorsBytes(const std::string &header,
                             const std::string &data) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i)
    bytes[i] = static_cast<char>(uint64_t(header.size()) >> (8 * i));
  return bytes + header + data;
}

std::string TinyModel::fileName(const std::string &name) const {
  if (config["model_type"] != "Dream")
    return name;
  std::string dream = name;
  for (auto [from, to] : {std::pair("model.transformer.ff_out.", "lm_head."),
                          std::pair("transformer.wte.", "embed_tokens."),
                          std::pair("transformer.ln_f.", "norm."),
                          std::pair("transformer.blocks.", "layers."),
                          std::pair("attn_norm.", "input_layernorm."),
                          std::pair("ff_norm.", "post_attention_layernorm."),
                          std::pair("q_proj.", "self_attn.q_proj."),
                          std::pair("k_proj.", "self_attn.k_proj."),
                          std::pair("v_proj.", "self_attn.v_proj."),
                          std::pair("attn_out.", "self_attn.o_proj."),
                          std::pair("ff_proj.", "mlp.gate_proj."),
                          std::pair("up_proj.", "mlp.up_proj."),
                          std::pair("ff_out.", "mlp.down_proj.")})
    if (size_t at = dream.find(from); at != std::string::npos)
      dream.replace(at, std::string(from).size(), to);
  return dream;
}

std::string TinyModel::file(const std::vector<std::string> &names) const {
  nlohmann::json header = nlohmann::json::object();
  header["__metadata__"]["format"] = "pt";
  std::string data;
  for (const std::string &name : names) {
    const TinyTensor &tensor = tensors.at(name);
    size_t begin = data.size(), n = tensor.values.size();
    data.resize(begin + n * byteSize(stored));
    for (size_t i = 0; i < n; ++i) {
      uint16_t half = toBF16(tensor.values[i]);
      std::memcpy(&data[begin + i * byteSize(stored)],
                  stored == DType::F32
                      ? static_cast<const void *>(&tensor.values[i])
                      : &half,
                  byteSize(stored));
    }
    header[fileName(name)] = {{"dtype", stored == DType::F32 ? "F32" : "BF16"},
                              {"shape", tensor.shape},
                              {"data_offsets", {begin, data.size()}}};
  }
  // Odd lengths make tensors start anywhere.
  return safetensorsBytes(header.dump() + " ", data);
}

void TinyModel::write(const TemporaryFolder &folder) const {
  std::vector<std::string> names;
  for (const auto &[name, tensor] : tensors)
    names.push_back(name);
  folder.write("config.json", config.dump(2));
  folder.write("model.safetensors", file(names));
}

void TinyModel::writeSharded(const TemporaryFolder &folder, int shards) const {
  std::vector<std::vector<std::string>> names(shards);
  nlohmann::json index;
  int next = 0;
  for (const auto &[name, tensor] : tensors) {
    names[next % shards].push_back(name);
    index["weight_map"][fileName(name)] =
        "model-" + std::to_string(next++ % shards) + ".safetensors";
  }
  folder.write("config.json", config.dump(2));
  folder.write("model.safetensors.index.json", index.dump(2));
  for (int i = 0; i < shards; ++i)
    folder.write("model-" + std::to_string(i) + ".safetensors", file(names[i]));
}

TinyModel makeTinyModel(const TinyShape &shape, DType stored, unsigned seed) {
  TinyModel model;
  model.stored = stored;
  int64_t headDim = shape.hidden / shape.queryHeads;
  model.config = {{"model_type", "llada"},
                  {"architectures", {"LLaDAModelLM"}},
                  {"n_layers", shape.layers},
                  {"d_model", shape.hidden},
                  {"n_heads", shape.queryHeads},
                  {"n_kv_heads", shape.kvHeads},
                  {"mlp_hidden_size", shape.mlpHidden},
                  {"vocab_size", shape.vocab},
                  {"embedding_size", shape.vocab},
                  {"max_sequence_length", shape.maxLength},
                  {"rope_theta", 10000.0},
                  {"rms_norm_eps", 1e-5},
                  {"mask_token_id", shape.vocab - 1},
                  {"eos_token_id", 0},
                  {"weight_tying", shape.tied}};
  if (shape.dream)
    model.config = {{"model_type", "Dream"},
                    {"architectures", {"DreamModel"}},
                    {"num_hidden_layers", shape.layers},
                    {"hidden_size", shape.hidden},
                    {"num_attention_heads", shape.queryHeads},
                    {"num_key_value_heads", shape.kvHeads},
                    {"intermediate_size", shape.mlpHidden},
                    {"vocab_size", shape.vocab},
                    {"max_position_embeddings", shape.maxLength},
                    {"rope_theta", 10000.0},
                    {"rms_norm_eps", 1e-6},
                    {"mask_token_id", shape.vocab - 1},
                    {"eos_token_id", 0},
                    {"tie_word_embeddings", shape.tied}};
  std::mt19937 engine(seed);
  // `spread`: standard deviation times sqrt(inputs).
  auto add = [&](const std::string &name, std::vector<int64_t> extents,
                 float mean, float spread) {
    TinyTensor tensor{std::move(extents), {}};
    int64_t n = 1;
    for (int64_t extent : tensor.shape)
      n *= extent;
    std::normal_distribution<float> normal(
        mean, spread / std::sqrt(float(tensor.shape.back())));
    for (int64_t i = 0; i < n; ++i) {
      float value = normal(engine);
      tensor.values.push_back(stored == DType::F32 ? value
                                                   : fromBF16(toBF16(value)));
    }
    model.tensors[name] = std::move(tensor);
  };
  const std::string root = "model.transformer.";
  const int64_t kv = shape.kvHeads * headDim;
  add(root + "wte.weight", {shape.vocab, shape.hidden}, 0, 8);
  for (int64_t i = 0; i < shape.layers; ++i) {
    std::string block = root + "blocks." + std::to_string(i) + ".";
    add(block + "attn_norm.weight", {shape.hidden}, 1, 1);
    add(block + "q_proj.weight", {shape.hidden, shape.hidden}, 0, 1);
    add(block + "k_proj.weight", {kv, shape.hidden}, 0, 1);
    add(block + "v_proj.weight", {kv, shape.hidden}, 0, 1);
    if (shape.dream)
      for (auto [name, width] :
           {std::pair("q_proj.bias", shape.hidden),
            std::pair("k_proj.bias", kv), std::pair("v_proj.bias", kv)})
        add(block + name, {width}, 0.25f, 8);
    add(block + "attn_out.weight", {shape.hidden, shape.hidden}, 0, 1);
    add(block + "ff_norm.weight", {shape.hidden}, 1, 1);
    add(block + "ff_proj.weight", {shape.mlpHidden, shape.hidden}, 0, 1);
    add(block + "up_proj.weight", {shape.mlpHidden, shape.hidden}, 0, 1);
    add(block + "ff_out.weight", {shape.hidden, shape.mlpHidden}, 0, 1);
  }
  add(root + "ln_f.weight", {shape.hidden}, 1, 1);
  if (!shape.tied)
    add(root + "ff_out.weight", {shape.vocab, shape.hidden}, 0, 1);
  return model;
}

} // namespace heddle::rt::test
