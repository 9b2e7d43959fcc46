//===- Architecture.cpp - The tensors of an architecture ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/Architecture.h"

#include "bundle/program/Printable.h"

#include <cassert>
#include <set>
#include <string>
#include <string_view>

namespace heddle::rt {

namespace {

/// Tensor names of a family; '#' stands for the layer.
struct TensorNames {
  std::string_view architecture;
  std::string_view embedding, finalNorm, head;
  std::string_view attentionNorm, query, key, value, attentionOut;
  std::string_view mlpNorm, gate, up, down;
  std::string_view queryBias, keyBias, valueBias; ///< empty: there are none
};

constexpr TensorNames families[] = {
    // LLaDA says ff_proj for the gate, and ff_out both for the LM head and for
    // a block's down projection.
    {"llada", "model.transformer.wte.weight", "model.transformer.ln_f.weight",
     "model.transformer.ff_out.weight",
     "model.transformer.blocks.#.attn_norm.weight",
     "model.transformer.blocks.#.q_proj.weight",
     "model.transformer.blocks.#.k_proj.weight",
     "model.transformer.blocks.#.v_proj.weight",
     "model.transformer.blocks.#.attn_out.weight",
     "model.transformer.blocks.#.ff_norm.weight",
     "model.transformer.blocks.#.ff_proj.weight",
     "model.transformer.blocks.#.up_proj.weight",
     "model.transformer.blocks.#.ff_out.weight", "", "", ""},
    {"dream", "model.embed_tokens.weight", "model.norm.weight",
     "lm_head.weight", "model.layers.#.input_layernorm.weight",
     "model.layers.#.self_attn.q_proj.weight",
     "model.layers.#.self_attn.k_proj.weight",
     "model.layers.#.self_attn.v_proj.weight",
     "model.layers.#.self_attn.o_proj.weight",
     "model.layers.#.post_attention_layernorm.weight",
     "model.layers.#.mlp.gate_proj.weight", "model.layers.#.mlp.up_proj.weight",
     "model.layers.#.mlp.down_proj.weight",
     "model.layers.#.self_attn.q_proj.bias",
     "model.layers.#.self_attn.k_proj.bias",
     "model.layers.#.self_attn.v_proj.bias"},
};

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Collects names for a message: all of them up to a few, then a count.
class NameList {
public:
  void add(const std::string &text) {
    constexpr int64_t shown = 8;
    if (++count <= shown)
      names += (names.empty() ? "" : ", ") + text;
  }
  /// Appends "heading (3): a, b, c" to the message as a line of its own.
  void appendTo(std::string &message, const char *heading) const {
    if (count == 0)
      return;
    message += std::string("\n  ") + heading + " (" + std::to_string(count) +
               "): " + names + (count > 8 ? ", ..." : "");
  }

private:
  std::string names;
  int64_t count = 0;
};

/// Looks tensors up and remembers every problem.
class Binder {
public:
  explicit Binder(const Checkpoint &checkpoint) : checkpoint(checkpoint) {}

  const TensorInfo *bind(std::string_view pattern, int64_t layer,
                         const std::vector<int64_t> &shape) {
    std::string name(pattern);
    if (size_t hash = name.find('#'); hash != std::string::npos)
      name.replace(hash, 1, std::to_string(layer));
    bound.insert(name);
    auto found = checkpoint.tensors().find(name);
    if (found == checkpoint.tensors().end()) {
      missing.add(name);
      return nullptr;
    }
    const TensorInfo &info = found->second;
    if (info.shape != shape)
      wrongShape.add(name + " " + shapeText(info.shape) + " instead of " +
                     shapeText(shape));
    if (!info.dtype)
      wrongType.add(name + " " + printable(info.dtypeName));
    return &info;
  }

  Status finish() const {
    NameList extra;
    for (const auto &[name, info] : checkpoint.tensors())
      if (!bound.contains(name))
        extra.add(printable(name));
    std::string problems;
    missing.appendTo(problems, "missing");
    wrongShape.appendTo(problems, "of another shape");
    wrongType.appendTo(problems, "of a type that is not F32, BF16 or F16");
    extra.appendTo(problems, "not part of this model");
    if (problems.empty())
      return Status::success();
    return Error("the tensors do not match config.json:" + problems);
  }

private:
  const Checkpoint &checkpoint;
  std::set<std::string> bound;
  NameList missing, wrongShape, wrongType;
};

} // namespace

Result<ModelTensors> bindTensors(const ModelConfig &config,
                                 const Checkpoint &checkpoint) {
  const TensorNames *names = nullptr;
  for (const TensorNames &family : families)
    if (family.architecture == config.architecture)
      names = &family;
  if (!names)
    return Error("architecture '" + config.architecture +
                 "' has no table of tensors");

  const int64_t hidden = config.hidden, vocab = config.vocabSize;
  const int64_t queryOut = config.attentionWidth(), kvOut = config.kvWidth();
  Binder binder(checkpoint);
  ModelTensors tensors;
  tensors.embedding = binder.bind(names->embedding, 0, {vocab, hidden});
  for (int64_t i = 0; i < config.layers; ++i) {
    LayerTensors layer;
    layer.attentionNorm = binder.bind(names->attentionNorm, i, {hidden});
    layer.query = binder.bind(names->query, i, {queryOut, hidden});
    layer.key = binder.bind(names->key, i, {kvOut, hidden});
    layer.value = binder.bind(names->value, i, {kvOut, hidden});
    if (config.qkvBias) {
      layer.queryBias = binder.bind(names->queryBias, i, {queryOut});
      layer.keyBias = binder.bind(names->keyBias, i, {kvOut});
      layer.valueBias = binder.bind(names->valueBias, i, {kvOut});
    }
    layer.attentionOut =
        binder.bind(names->attentionOut, i, {hidden, queryOut});
    layer.mlpNorm = binder.bind(names->mlpNorm, i, {hidden});
    layer.gate = binder.bind(names->gate, i, {config.mlpHidden, hidden});
    layer.up = binder.bind(names->up, i, {config.mlpHidden, hidden});
    layer.down = binder.bind(names->down, i, {hidden, config.mlpHidden});
    tensors.layers.push_back(layer);
  }
  tensors.finalNorm = binder.bind(names->finalNorm, 0, {hidden});
  tensors.head = config.tiedEmbeddings
                     ? tensors.embedding
                     : binder.bind(names->head, 0, {vocab, hidden});
  if (Status status = binder.finish(); !status)
    return status.takeError();
  return tensors;
}

} // namespace heddle::rt
