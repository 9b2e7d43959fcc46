//===- TinyModel.h - Random model folders for tests -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_MODEL_TINYMODEL_H
#define HEDDLE_RUNTIME_TEST_MODEL_TINYMODEL_H

#include "runtime/model/Config.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace heddle::rt::test {

/// A new folder that is removed with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  /// Writes a file, returns its path.
  std::string write(const std::string &name, const std::string &bytes) const;
  const std::string path;
};

/// The bytes of a safetensors file with this header text and data.
std::string safetensorsBytes(const std::string &header,
                             const std::string &data);

struct TinyTensor {
  std::vector<int64_t> shape;
  std::vector<float> values; ///< exact in `stored`
};

/// A LLaDA or a Dream of random weights. Tensors have LLaDA's names here; a
/// Dream's biases are "...q_proj.bias" and so on.
struct TinyModel {
  nlohmann::json config; ///< config.json
  DType stored = DType::F32;
  std::map<std::string, TinyTensor> tensors;

  /// Writes config.json and model.safetensors.
  void write(const TemporaryFolder &folder) const;
  /// Writes config.json, an index and `shards` files.
  void writeSharded(const TemporaryFolder &folder, int shards) const;
  /// The name that a tensor has in files.
  std::string fileName(const std::string &name) const;
  /// The bytes of one safetensors file with the named tensors.
  std::string file(const std::vector<std::string> &names) const;
};

struct TinyShape {
  int64_t layers = 2, hidden = 128, queryHeads = 2, kvHeads = 2;
  int64_t mlpHidden = 200, vocab = 301, maxLength = 300;
  bool tied = false;
  bool dream = false; ///< Dream's config.json, names and biases
};

TinyModel makeTinyModel(const TinyShape &shape, DType stored, unsigned seed);

} // namespace heddle::rt::test

#endif // HEDDLE_RUNTIME_TEST_MODEL_TINYMODEL_H
