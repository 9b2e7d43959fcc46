//===- Reference.cpp - The forward pass in fp64, and plain attention ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle::rt::test {

namespace {

using Matrix = std::vector<std::vector<double>>;

double loadAt(const void *data, DType type, int64_t index) {
  if (type == DType::F32)
    return static_cast<const float *>(data)[index];
  return fromBF16(static_cast<const uint16_t *>(data)[index]);
}

void storeAt(void *data, DType type, int64_t index, double value) {
  float single = static_cast<float>(value);
  if (type == DType::F32)
    static_cast<float *>(data)[index] = single;
  else
    static_cast<uint16_t *>(data)[index] = toBF16(single);
}

std::vector<double> softmax(std::vector<double> scores) {
  double largest = *std::max_element(scores.begin(), scores.end()), sum = 0;
  for (double &score : scores)
    sum += score = std::exp(score - largest);
  for (double &score : scores)
    score /= sum;
  return scores;
}

Matrix linear(const Matrix &x, const TinyTensor &weight) {
  int64_t outputs = weight.shape[0], inputs = weight.shape[1];
  Matrix y;
  for (const std::vector<double> &row : x) {
    y.emplace_back(outputs);
    for (int64_t i = 0; i < outputs; ++i)
      for (int64_t j = 0; j < inputs; ++j)
        y.back()[i] += row[j] * weight.values[i * inputs + j];
  }
  return y;
}

/// Adds a bias to every row, if there is one.
Matrix plus(Matrix x, const TinyModel &model, const std::string &name) {
  auto bias = model.tensors.find(name);
  if (bias != model.tensors.end())
    for (std::vector<double> &row : x)
      for (size_t i = 0; i < row.size(); ++i)
        row[i] += bias->second.values[i];
  return x;
}

Matrix rmsNorm(Matrix x, const TinyTensor &weight, double eps) {
  for (std::vector<double> &row : x) {
    double squares = 0;
    for (double value : row)
      squares += value * value;
    for (size_t i = 0; i < row.size(); ++i)
      row[i] *= weight.values[i] / std::sqrt(squares / row.size() + eps);
  }
  return x;
}

/// Rotates pairs (i, i + headDim / 2) of each head by position * theta^(-2i/d).
void rotate(Matrix &x, int64_t headDim, double theta) {
  for (size_t position = 0; position < x.size(); ++position)
    for (size_t head = 0; head < x[position].size(); head += headDim)
      for (int64_t i = 0; i < headDim / 2; ++i) {
        float frequency =
            1.0f / std::pow(static_cast<float>(theta), 2.0f * i / headDim);
        double angle = static_cast<float>(position) * frequency;
        double &a = x[position][head + i];
        double &b = x[position][head + i + headDim / 2];
        double rotated = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = rotated;
      }
}

Matrix attend(const Matrix &q, const Matrix &k, const Matrix &v,
              int64_t queryHeads, int64_t kvHeads, int64_t headDim) {
  Matrix out(q.size(), std::vector<double>(queryHeads * headDim));
  for (int64_t head = 0; head < queryHeads; ++head) {
    int64_t at = head * headDim;
    int64_t kvAt = head / (queryHeads / kvHeads) * headDim;
    for (size_t i = 0; i < q.size(); ++i) {
      std::vector<double> scores(k.size());
      for (size_t j = 0; j < k.size(); ++j)
        for (int64_t d = 0; d < headDim; ++d)
          scores[j] +=
              q[i][at + d] * k[j][kvAt + d] / std::sqrt(double(headDim));
      scores = softmax(scores);
      for (size_t j = 0; j < k.size(); ++j)
        for (int64_t d = 0; d < headDim; ++d)
          out[i][at + d] += scores[j] * v[j][kvAt + d];
    }
  }
  return out;
}

void add(Matrix &x, const Matrix &y) {
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < x[i].size(); ++j)
      x[i][j] += y[i][j];
}

} // namespace

Status NaiveAttention::attend(int64_t layer, const PackedBatch &batch,
                              const AttentionTensors &t) {
  layersSeen.push_back(layer);
  auto gather = [&](const void *data, int64_t stride, int64_t heads,
                    int64_t sequence) {
    Matrix rows;
    for (int64_t row = batch.offsets[sequence];
         row < batch.offsets[sequence + 1]; ++row) {
      rows.emplace_back();
      for (int64_t i = 0; i < heads * t.headDim; ++i)
        rows.back().push_back(loadAt(data, t.dtype, row * stride + i));
    }
    return rows;
  };
  for (int64_t s = 0; s < batch.sequences(); ++s) {
    Matrix out = test::attend(gather(t.query, t.queryStride, t.queryHeads, s),
                              gather(t.key, t.keyStride, t.kvHeads, s),
                              gather(t.value, t.valueStride, t.kvHeads, s),
                              t.queryHeads, t.kvHeads, t.headDim);
    for (size_t i = 0; i < out.size(); ++i)
      for (size_t j = 0; j < out[i].size(); ++j)
        storeAt(t.output, t.dtype,
                (batch.offsets[s] + int64_t(i)) * t.outputStride + int64_t(j),
                out[i][j]);
  }
  return Status::success();
}

std::vector<double> referenceLogits(const TinyModel &model,
                                    std::span<const int32_t> tokens) {
  const nlohmann::json &c = model.config;
  const std::string root = "model.transformer.";
  const bool dream = c["model_type"] == "Dream";
  auto size = [&](const char *llada, const char *other) {
    return c[dream ? other : llada].get<int64_t>();
  };
  int64_t hidden = size("d_model", "hidden_size");
  int64_t heads = size("n_heads", "num_attention_heads");
  int64_t kvHeads = size("n_kv_heads", "num_key_value_heads");
  int64_t layers = size("n_layers", "num_hidden_layers");
  int64_t headDim = hidden / heads;
  double eps = c["rms_norm_eps"], theta = c["rope_theta"];
  const TinyTensor &embedding = model.tensors.at(root + "wte.weight");

  Matrix x;
  for (int32_t token : tokens)
    x.emplace_back(embedding.values.begin() + token * hidden,
                   embedding.values.begin() + (token + 1) * hidden);
  for (int64_t layer = 0; layer < layers; ++layer) {
    auto weight = [&](const char *name) -> const TinyTensor & {
      return model.tensors.at(root + "blocks." + std::to_string(layer) + "." +
                              name + ".weight");
    };
    Matrix h = rmsNorm(x, weight("attn_norm"), eps);
    auto project = [&](const char *name) {
      return plus(linear(h, weight(name)), model,
                  root + "blocks." + std::to_string(layer) + "." + name +
                      ".bias");
    };
    Matrix q = project("q_proj"), k = project("k_proj");
    rotate(q, headDim, theta);
    rotate(k, headDim, theta);
    add(x, linear(attend(q, k, project("v_proj"), heads, kvHeads, headDim),
                  weight("attn_out")));
    h = rmsNorm(x, weight("ff_norm"), eps);
    Matrix gate = linear(h, weight("ff_proj"));
    Matrix up = linear(h, weight("up_proj"));
    for (size_t i = 0; i < gate.size(); ++i)
      for (size_t j = 0; j < gate[i].size(); ++j)
        gate[i][j] *= up[i][j] / (1 + std::exp(-gate[i][j]));
    add(x, linear(gate, weight("ff_out")));
  }
  Matrix logits =
      linear(rmsNorm(x, model.tensors.at(root + "ln_f.weight"), eps),
             c[dream ? "tie_word_embeddings" : "weight_tying"].get<bool>()
                 ? embedding
                 : model.tensors.at(root + "ff_out.weight"));
  std::vector<double> flat;
  for (const std::vector<double> &row : logits)
    flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

} // namespace heddle::rt::test
