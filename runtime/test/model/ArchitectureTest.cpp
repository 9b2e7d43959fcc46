//===- ArchitectureTest.cpp - The tensors that a model must have ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModel.h"

#include "runtime/model/Architecture.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

class Architecture : public testing::Test {
protected:
  TinyModel model = makeTinyModel({.layers = 2}, DType::BF16, 3);

  std::string error() {
    TemporaryFolder folder;
    model.write(folder);
    Result<ModelConfig> config = ModelConfig::load(folder.path);
    Result<Checkpoint> checkpoint = Checkpoint::open(folder.path);
    EXPECT_TRUE(config && checkpoint);
    Result<ModelTensors> tensors = bindTensors(*config, *checkpoint);
    return tensors ? "no error" : tensors.error().text();
  }
};

TEST_F(Architecture, BindsEveryTensor) { EXPECT_EQ(error(), "no error"); }

TEST_F(Architecture, ListsWhatDoesNotMatch) {
  const std::string root = "model.transformer.";
  model.tensors.erase(root + "ln_f.weight");
  model.tensors.erase(root + "blocks.1.up_proj.weight");
  model.tensors[root + "blocks.0.q_proj.bias"] = {{2}, {1, 2}};
  TinyTensor &norm = model.tensors[root + "blocks.0.ff_norm.weight"];
  norm.shape = {64, 2};
  EXPECT_EQ(error(),
            "the tensors do not match config.json:\n"
            "  missing (2): model.transformer.blocks.1.up_proj.weight, "
            "model.transformer.ln_f.weight\n"
            "  of another shape (1): model.transformer.blocks.0.ff_norm.weight "
            "[64, 2] instead of [128]\n"
            "  not part of this model (1): "
            "model.transformer.blocks.0.q_proj.bias");
}

TEST_F(Architecture, BiasesAreBoundWhereTheFamilyHasThem) {
  model = makeTinyModel({.layers = 2, .dream = true}, DType::BF16, 3);
  EXPECT_EQ(error(), "no error");
  model.tensors.erase("model.transformer.blocks.1.k_proj.bias");
  TinyTensor &bias = model.tensors["model.transformer.blocks.0.v_proj.bias"];
  bias.shape = {1, 128};
  model.tensors["model.transformer.blocks.0.attn_out.bias"] = {{1}, {1}};
  EXPECT_EQ(
      error(),
      "the tensors do not match config.json:\n"
      "  missing (1): model.layers.1.self_attn.k_proj.bias\n"
      "  of another shape (1): model.layers.0.self_attn.v_proj.bias "
      "[1, 128] instead of [128]\n"
      "  not part of this model (1): model.layers.0.self_attn.o_proj.bias");
}

TEST_F(Architecture, LongListsAreCut) {
  model.config["n_layers"] = 5;
  std::string text = error();
  EXPECT_NE(text.find("missing (27): model.transformer.blocks.2.attn_norm"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.substr(text.size() - 5), ", ...");
}

TEST_F(Architecture, ATiedModelHasNoHead) {
  model.config["weight_tying"] = true;
  EXPECT_EQ(error(), "the tensors do not match config.json:\n"
                     "  not part of this model (1): "
                     "model.transformer.ff_out.weight");
}

TEST_F(Architecture, WeightsAreFloats) {
  TemporaryFolder folder;
  folder.write(
      "model.safetensors",
      safetensorsBytes(R"({"model.transformer.ln_f.weight":{"dtype":)"
                       R"("I8","shape":[128],"data_offsets":[0,128]}})",
                       std::string(128, 'x')));
  folder.write("config.json", model.config.dump());
  Result<ModelConfig> config = ModelConfig::load(folder.path);
  Result<Checkpoint> checkpoint = Checkpoint::open(folder.path);
  ASSERT_TRUE(config && checkpoint);
  Result<ModelTensors> tensors = bindTensors(*config, *checkpoint);
  ASSERT_FALSE(tensors);
  EXPECT_NE(
      tensors.error().text().find("of a type that is not F32, BF16 or F16 (1): "
                                  "model.transformer.ln_f.weight I8"),
      std::string::npos)
      << tensors.error().text();
}

} // namespace
