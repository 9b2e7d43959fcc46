//===- ManifestRefusalsTest.cpp - What a manifest may not say -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/Abi.h"
#include "bundle/test/Refusal.h"

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

/// Walks the whole document, so that a field added later is covered too.
void refusesEveryMissingAndUnknownField(const Manifest &manifest) {
  ASSERT_TRUE(manifestFromJson(toJson(manifest)));
  Json whole = Json::parse(toJson(manifest));
  int objects = 0;
  std::function<void(Json::json_pointer)> visit = [&](Json::json_pointer at) {
    const Json &here = whole[at];
    if (here.is_array())
      for (size_t i = 0; i < here.size(); ++i)
        visit(at / i);
    if (!here.is_object())
      return;
    ++objects;
    Json extra = whole;
    extra[at]["surprise"] = 1;
    EXPECT_FALSE(manifestFromJson(extra.dump())) << at.to_string();
    for (const auto &item : here.items()) {
      Json less = whole;
      less[at].erase(item.key());
      EXPECT_FALSE(manifestFromJson(less.dump()))
          << at.to_string() << "/" << item.key();
      Json wrong = whole;
      wrong[at][item.key()] = nullptr;
      EXPECT_FALSE(manifestFromJson(wrong.dump()))
          << at.to_string() << "/" << item.key();
      visit(at / item.key());
    }
  };
  visit(Json::json_pointer());
  EXPECT_GT(objects, 25);
}

/// Said where it is so: bundles without the field stay as they were.
TEST(Manifest, PersistentKernels) {
  Manifest manifest = testCudaManifest();
  EXPECT_EQ(toJson(manifest).find("persistent"), std::string::npos);
  manifest.kernels[0].variants[2].persistent = true;
  auto read = manifestFromJson(toJson(manifest));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->kernels[0].variants[2].persistent);
  EXPECT_FALSE(read->kernels[0].variants[1].persistent);
}

/// So do sets of positions without a name.
TEST(Manifest, NamesOfPositions) {
  Manifest manifest = testRowsManifest();
  EXPECT_EQ(toJson(manifest).find("\"name\": \"active\""), std::string::npos);
  manifest.positions[4].name = "active";
  auto read = manifestFromJson(toJson(manifest));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->positions, manifest.positions);
}

TEST(Manifest, RefusesEveryMissingAndUnknownField) {
  refusesEveryMissingAndUnknownField(testCudaManifest());
  refusesEveryMissingAndUnknownField(testRowsManifest());
  Manifest drifting = testManifest();
  const Cadence cadence = drift(-1, /*attention=*/true);
  drifting.selections[0].cadence = cadence;
  for (Phase &phase : drifting.rules[0].phases)
    if (phase.when.kind != When::Kind::Otherwise)
      phase.when.cadence = cadence;
  setMeasures(drifting);
  refusesEveryMissingAndUnknownField(drifting);
}

TEST(Manifest, NamesThePathOfWhatIsWrong) {
  EXPECT_REFUSED(json["schedule"] = "\x1b[2J",
                 "schedule: \"\\u001b[2J\" has control characters");
  EXPECT_REFUSED(json["targets"][0]["cpu"] = "a\nb",
                 "targets[0].cpu: \"a\\nb\" has control characters");
  EXPECT_REFUSED(json["producer"] = "\u009b2J", "has control characters");
  EXPECT_REFUSED(json["schedule"] = "a\u202eb", "has control characters");
  EXPECT_TRUE(isPlainText("a\u2010b \u00e9")) << "a hyphen and a letter";
  EXPECT_REFUSED(json["abi"] = 99, "ABI version 99, this build calls version " +
                                       std::to_string(heddle::abi::abiVersion));
  EXPECT_REFUSED(json["selections"][0]["keep"] = "2/10",
                 "selections[0].keep: \"2/10\" is no fraction");
  EXPECT_REFUSED(json["selections"][0]["keep"] = "6/5", "no fraction");
  EXPECT_REFUSED(json["selections"][0]["keep"] = "0/1", "no fraction");
  EXPECT_REFUSED(json["selections"][0]["keep"] = "1/-5", "no fraction");
  EXPECT_REFUSED(json["selections"][0]["keep"] = "1/5 ", "no fraction");
  EXPECT_REFUSED(json["selections"][0]["keep"] = 0.2,
                 "selections[0].keep: expected a string, found number");
  EXPECT_REFUSED(json["selections"][0]["group"] = 0,
                 "selections[0].group: 0 is out of range");
  EXPECT_REFUSED(json["selections"][0]["group"] = 9223372036854775808u,
                 "selections[0].group: 9223372036854775808 is out of range");
  EXPECT_REFUSED(json["selections"][0]["group"] = 8, "expected 16 to 1024");
  EXPECT_REFUSED(json["selections"][0]["group"] = 2048, "expected 16 to 1024");
  EXPECT_REFUSED(json["selections"][0]["group"] = 48,
                 "selections[0].group: 48 is no power of two (P2)");
  EXPECT_REFUSED(json["kernels"][3]["group"] = 33,
                 "kernels[3].group: 33 is no power of two (P2)");
  EXPECT_REFUSED(json["selections"][0]["group"] = 32.0,
                 "expected an integer, found number");
  EXPECT_REFUSED(json["selections"][0]["rounding"] = "up",
                 "selections[0].rounding: \"up\" is unknown, expected one of "
                 "floor, ceil, round");
  EXPECT_REFUSED(json["selections"][0]["scorer"] = "guess",
                 "selections[0].scorer: \"guess\" is unknown");
  EXPECT_REFUSED(json["selections"][0]["cadence"]["kind"] = "often",
                 "selections[0].cadence.kind: \"often\" is unknown");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["symbol"] = "a b",
                 "kernels[0].variants[0].symbol");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["dtype"] = "f8",
                 "kernels[0].variants[0].dtype: \"f8\" is unknown");
  EXPECT_REFUSED(json["kernels"][0]["variants"] = Json::array(),
                 "kernels[0].variants: the kernel has no compiled form");
  EXPECT_REFUSED(json["kernels"][1]["variants"][0]["head_dim"] = 128;
                 json["kernels"][1]["variants"][0]["symbol"] =
                     "columns_f32_d128",
                 "kernels[0].variants: the kernel has no form for targets[0], "
                 "f32 and head dim 128, which another kernel has");
  EXPECT_REFUSED(json["kernels"][1]["variants"][0]["symbol"] =
                     json["kernels"][0]["variants"][0]["symbol"],
                 "kernels[1].variants[0].symbol: \"dense_lse_f32_d64\" is "
                 "another kernel's code, expected \"columns_f32_d64\"");
  EXPECT_REFUSED(json["kernels"][1]["name"] = "dense_lse",
                 "kernels[1].name: a second kernel");
  EXPECT_REFUSED(json["kernels"][1]["terms"][0]["selection"] = 1,
                 "kernels[1].terms[0].selection: index 1 is out of range: "
                 "there is 1 selection");
  EXPECT_REFUSED(json["kernels"][2]["terms"][0]["size"] = -1,
                 "kernels[2].terms[0].size: -1 is out of range");
  EXPECT_REFUSED(json["kernels"][2]["terms"][0]["within"] =
                     Json::array({sinksOf("1/10")}),
                 "kernels[2].terms[0].within: a fraction of sinks is within no "
                 "set");
  EXPECT_REFUSED(json["kernels"][2]["terms"][1] = sinksOf("1/10");
                 json["kernels"][2]["terms"][1]["within"] =
                     Json::array({fourSinks()}),
                 "kernels[2].terms[1].within: a fraction of sinks");
  EXPECT_REFUSED(json["kernels"][2]["terms"][0]["within"] =
                     Json::array({json["kernels"][1]["terms"][0]}),
                 "kernels[2].terms[0].within: a term is within sets that go by "
                 "positions, not columns");
  EXPECT_REFUSED(json["kernels"][2]["terms"][0]["within"] =
                     Json::array({fourSinks()});
                 json["kernels"][2]["terms"][0]["within"][0]["within"] =
                     Json::array({fourSinks()}),
                 "sinks, which a term is within, is within another set");
  EXPECT_REFUSED(json["kernels"][2]["terms"][1] = sinksOf("2/10"),
                 "kernels[2].terms[1].share: \"2/10\" is no fraction above 0");
  EXPECT_REFUSED(json["kernels"][2]["terms"][1] = sinksOf("0/1"),
                 "no fraction");
  EXPECT_REFUSED(json["kernels"][2]["terms"][1] = sinksOf("11/10"),
                 "no fraction");
  EXPECT_REFUSED(json["kernels"][2]["terms"][1] = sinksOf(0.1),
                 "expected a string");
  EXPECT_REFUSED(json["kernels"][2]["terms"][1]["share"] = "1/10",
                 "the field \"size\" is not known");
  EXPECT_REFUSED(json["kernels"][2]["terms"][1].erase("size"),
                 "the field \"size\" is missing");
  EXPECT_REFUSED(json["kernels"][2]["terms"][0]["share"] = "1/10",
                 "the field \"share\" is not known");
  // Where it would have a place.
  EXPECT_REFUSED(json["kernels"][0]["revoke_below"] = "1/10",
                 "kernels[0]: the field \"revoke_below\" is not known here: it "
                 "belongs to dated_commits[], commit, of the kinds that have "
                 "it");
  EXPECT_REFUSED(json["drafts"] = 3,
                 "manifest: the field \"drafts\" is not known here: it belongs "
                 "to commit, of the kinds");
  EXPECT_REFUSED(json["kernels"][0]["producer"] = "me",
                 "it belongs to the manifest, of the kinds");
  EXPECT_REFUSED(json["commit"]["first"] = 3, "it belongs to rules[].layers, ");
  EXPECT_REFUSED(json["commit"]["magic"] = 3,
                 "the field \"magic\" is not known to this build");
  EXPECT_REFUSED(
      for (int i = 0; i < 4; ++i) json["kernels"][1]["terms"].push_back(
          Json(json["kernels"][1]["terms"][0])),
      "more than 4 index lists, found 5");
}

TEST(Manifest, RefusesKernelsThatCannotBeCalled) {
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["query_rows"] = 0,
                 "kernels[0].variants[0].query_rows: 0 is out of range, "
                 "expected 1 to 1024");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["query_rows"] = 1025,
                 "query_rows: 1025 is out of range");
  EXPECT_REFUSED(json["kernels"][1]["variants"][0]["query_rows"] = 64,
                 "kernels[1].variants[0].query_rows: tasks of 64 rows do not "
                 "fit into groups of 32");
  EXPECT_REFUSED(json["kernels"][3]["variants"][0]["query_rows"] = 24,
                 "tasks of 24 rows do not fit into groups of 32");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["scratch_bytes"] = -1,
                 "kernels[0].variants[0].scratch_bytes: -1 is out of range");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["scratch_bytes"] =
                     (int64_t(1) << 30) + 1,
                 "scratch_bytes: 1073741825 is out of range");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["scratch_bytes_per_key"] =
                     1 << 21,
                 "scratch_bytes_per_key: 2097152 is out of range");
  EXPECT_REFUSED(
      std::swap(json["kernels"][0]["variants"][0]["symbol"],
                json["kernels"][3]["variants"][0]["symbol"]),
      "kernels[0].variants[0].symbol: \"select_f32_d64\" is another kernel's "
      "code, expected \"dense_lse_f32_d64\"");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["head_dim"] = 128,
                 "expected \"dense_lse_f32_d128\"");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["dtype"] = "bf16",
                 "expected \"dense_lse_bf16_d64\"");
  // With its name a kernel would take the code, and so the arguments, of one
  // of the other kind.
  EXPECT_REFUSED(
      std::swap(json["kernels"][0]["name"], json["kernels"][3]["name"]);
      std::swap(json["kernels"][0]["variants"], json["kernels"][3]["variants"]),
      "kernels[0].name: \"select\" is no name for this kind");
}

TEST(Manifest, RefusesTargetsThatCannotBe) {
  EXPECT_REFUSED(json["targets"] = Json::array();
                 for (Json &kernel : json["kernels"]) kernel["variants"] =
                     Json::array(),
                 "targets: there is no target, so nothing runs the schedule");
  EXPECT_REFUSED(json["targets"].push_back(json["targets"][0]),
                 "targets[1]: a second host target");
  EXPECT_REFUSED(json["targets"][0]["kind"] = "tpu",
                 "targets[0].kind: \"tpu\" is unknown, expected one of host, "
                 "cuda");
  EXPECT_REFUSED(json["targets"][0]["encodings"] = Json::array(),
                 "targets[0].encodings: kernels need one encoding");
  EXPECT_REFUSED(json["targets"][0]["encodings"] = {"uint16"},
                 "host kernels have int32 lists and no others");
  EXPECT_REFUSED(json["targets"][0]["encodings"] = {"int8"},
                 "targets[0].encodings[0]: \"int8\" is unknown, expected one "
                 "of int32, uint16, bitmap");
  EXPECT_CUDA_REFUSED(json["targets"][1]["encodings"].push_back("int32"),
                      "targets[1].encodings[2]: named twice");
  EXPECT_CUDA_REFUSED(json["targets"].push_back(json["targets"][1]),
                      "targets[2]: a second target sm_90a");
  EXPECT_CUDA_REFUSED(json["targets"].push_back(json["targets"][1]);
                      json["targets"][2]["cpu"] = "sm_80",
                      "targets[2]: no kernel has a form for this target");
  EXPECT_CUDA_REFUSED(json["targets"][1]["triple"] = "nvptx",
                      "targets[1].triple: \"nvptx\" is no triple of a cuda");
  for (const char *cpu : {"", "sm_", "sm_9", "sm_9000", "sm_90b", "sm_90aa",
                          "compute_90", "sm_a90", "../../x"})
    EXPECT_TRUE(
        says(cudaRefusal([&](Json &json) { json["targets"][1]["cpu"] = cpu; }),
             "targets[1].cpu"))
        << cpu;
  for (const Json &features :
       {Json::array(), Json{"ptx"}, Json{"sm_90"}, Json{"ptx80", "ptx81"}})
    EXPECT_TRUE(says(cudaRefusal([&](Json &json) {
                       json["targets"][1]["features"] = features;
                     }),
                     "targets[1].features: expected the PTX version"))
        << features;
}

TEST(Manifest, RefusesFormsOfOtherTargets) {
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["target"] = 1,
                 "kernels[0].variants[0].target: index 1 is out of range: "
                 "there is 1 target");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["threads"] = 32,
                 "kernels[0].variants[0].threads: a host kernel has no blocks");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["shared_bytes"] = 1,
                 "a host kernel has no shared memory");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["dtype"] = "f16";
                 json["kernels"][0]["variants"][0]["symbol"] =
                     "dense_lse_f16_d64",
                 "kernels[0].variants[0].dtype: host kernels are f32 or bf16");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["encoding"] = "uint16",
                 "kernels[0].variants[0].encoding: uint16 is none that the "
                 "kernel has on its target, expected int32");
  EXPECT_REFUSED(json["kernels"][1]["variants"][0]["encoding"] = "uint16",
                 "kernels[1].variants[0].encoding: uint16 is none");
  EXPECT_REFUSED(json["kernels"][0]["variants"].push_back(
                     json["kernels"][0]["variants"][0]),
                 "kernels[0].variants: two variants for f32 and head dim 64");

  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["map_rows"] = 64,
                 "kernels[0].variants[0].map_rows: a host kernel has no tensor "
                 "maps, expected 0");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["cluster"] = 2,
                 "kernels[0].variants[0].cluster: a host kernel has no blocks");
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"][1]["map_rows"] = 257,
                      "map_rows: 257 is out of range, expected 0 to 256");
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"].push_back(
                          json["kernels"][0]["variants"][2]),
                      "two variants for bf16 and head dim 64");
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"].erase(1),
                      "the kernel has no form for targets[1], bf16");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["form"] = "all";
                 json["kernels"][0]["variants"][0]["symbol"] =
                     "dense_lse_f32_d64_all",
                 "kernels[0].variants[0].form: only attention on a GPU has "
                 "forms beside 'any', not 'all'");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["least_keys"] = 7,
                 "kernels[0].variants[0].least_keys: the form 'any' has no "
                 "least_keys");
  EXPECT_REFUSED(json["kernels"][0]["variants"][0]["form"] = "few",
                 "kernels[0].variants[0].form: ");
  EXPECT_REFUSED(
      json["kernels"][0]["variants"][0]["persistent"] = true,
      "kernels[0].variants[0].persistent: only attention on a GPU has blocks");
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"][2]["least_keys"] = 7,
                      "the form 'all' has no least_keys");
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"][3].erase("least_keys"),
                      "the form 'long' has least_keys of 1 or more, not none");
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"][3]["least_keys"] = 0,
                      "least_keys: 0 is out of range, expected 1 to ");
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"][4]["persistent"] = true,
                      "kernels[0].variants[4].form: only kernels without index "
                      "lists, whose blocks do not go on");
  EXPECT_CUDA_REFUSED(json["kernels"][1]["variants"][1]["form"] = "packed";
                      json["kernels"][1]["variants"][1]["least_keys"] = 7;
                      json["kernels"][1]["variants"][1]["symbol"] =
                          "columns_bf16_d64_u16_packed",
                      "kernels[1].variants[1].form: only kernels without index "
                      "lists");
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"].push_back(
                          json["kernels"][0]["variants"][4]),
                      "two variants for bf16 and head dim 64");
  EXPECT_CUDA_REFUSED(
      json["kernels"][0]["variants"][1]["dtype"] = "f32";
      json["kernels"][0]["variants"][1]["symbol"] = "dense_lse_f32_d64",
      "only kernels in bf16 or f16 have tensor maps, expected 0");
  EXPECT_CUDA_REFUSED(json["kernels"][3]["variants"][1]["cluster"] = 2,
                      "a kernel that selects has blocks of their own");

  for (int threads : {0, 1, 48, 1056})
    EXPECT_TRUE(says(cudaRefusal([&](Json &json) {
                       json["kernels"][0]["variants"][1]["threads"] = threads;
                     }),
                     "kernels[0].variants[1].threads"))
        << threads;
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"][1]["shared_bytes"] =
                          232449,
                      "shared_bytes: 232449 is out of range, expected 0 to "
                      "232448");
  EXPECT_CUDA_REFUSED(json["kernels"][1]["variants"][1]["symbol"] =
                          "columns_bf16_d64",
                      "expected \"columns_bf16_d64_u16\"");
  EXPECT_CUDA_REFUSED(json["kernels"][1]["variants"].erase(2),
                      "kernels[1].variants: the kernel has no form for "
                      "targets[1], bf16 and head dim 64 with int32 lists");
  EXPECT_CUDA_REFUSED(json["kernels"][0]["variants"].erase(1),
                      "kernels[0].variants: the kernel has no form for "
                      "targets[1], bf16 and head dim 64, which another");
}

/// What its runs never launch need not be there.
TEST(Manifest, HasTheRowKernelsOfItsProgram) {
  Manifest manifest = testCudaManifest();
  std::erase_if(manifest.rowKernels, [](const RowKernel &kernel) {
    return kernel.op == RowOp::Compare || kernel.op == RowOp::Change ||
           kernel.op == RowOp::Merge;
  });
  auto read = manifestFromJson(toJson(manifest));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->rowKernels.size(), std::size(allRowOps) - 3);
  manifest.selections[0].cadence = drift();
  auto drifting = manifestFromJson(toJson(manifest));
  ASSERT_FALSE(drifting);
  EXPECT_TRUE(says(drifting.error().text(), "no kernel for compare"));
}

TEST(Manifest, RefusesIncompleteRowKernels) {
  EXPECT_CUDA_REFUSED(json["row_kernels"].erase(3),
                      "row_kernels: there is no kernel for swiglu");
  EXPECT_CUDA_REFUSED(json["row_kernels"].push_back(json["row_kernels"][0]),
                      "row_kernels[12].op: a second kernel for embed");
  EXPECT_CUDA_REFUSED(json["row_kernels"][0]["op"] = "fly",
                      "row_kernels[0].op: \"fly\" is no row operation");
  EXPECT_CUDA_REFUSED(json["row_kernels"][0]["variants"] = Json::array(),
                      "row_kernels[0].variants: the kernel has no form for "
                      "targets[1] and bf16");
  EXPECT_CUDA_REFUSED(json["row_kernels"][0]["variants"][0]["target"] = 0,
                      "row_kernels[0].variants[0].target: the host has no row "
                      "kernels");
  EXPECT_CUDA_REFUSED(json["row_kernels"][0]["variants"][0]["symbol"] =
                          "row_draw_bf16",
                      "expected \"row_embed_bf16\"");
  EXPECT_CUDA_REFUSED(json["row_kernels"][0]["variants"][0]["threads"] = 33,
                      "row_kernels[0].variants[0].threads: 33 is no number");
  EXPECT_CUDA_REFUSED(json["row_kernels"][0]["variants"].push_back(
                          json["row_kernels"][0]["variants"][0]),
                      "row_kernels[0].variants[1]: a second form for bf16");
  EXPECT_CUDA_REFUSED(json["row_kernels"][0]["variants"][0]["dtype"] = "f16";
                      json["row_kernels"][0]["variants"][0]["symbol"] =
                          "row_embed_f16",
                      "or one that its attention kernels do not have");
  // A bundle for the host alone has none.
  EXPECT_EQ(testManifest().rowKernels.size(), 0u);
  EXPECT_EQ(refusal([](Json &) {}), "");
}

TEST(Manifest, RefusesRulesThatCannotBeExecuted) {
  EXPECT_REFUSED(json["rules"] = Json::array(), "rules: needs a default rule");
  EXPECT_REFUSED(json["rules"][0]["phases"] = Json::array(),
                 "rules[0].phases: must end with a phase `otherwise`");
  EXPECT_REFUSED(json["rules"][0]["phases"].erase(2),
                 "rules[0].phases: must end with a phase `otherwise`");
  EXPECT_REFUSED(
      json["rules"][0]["phases"].push_back(Json(json["rules"][0]["phases"][2])),
      "rules[0].phases[2]: takes every step");
  EXPECT_REFUSED(json["rules"][1]["layers"] = "default",
                 "rules[1].layers: is a second default rule (rules[0])");
  EXPECT_REFUSED(json["rules"][1]["layers"]["first"] = 3;
                 json["rules"][1]["layers"]["last"] = 2,
                 "rules[1].layers: names a first layer that comes after");
  EXPECT_REFUSED(json["rules"].push_back(Json(json["rules"][1])),
                 "rules[2].layers: names layers that another rule has "
                 "(rules[1])");
  EXPECT_REFUSED(json["rules"][0]["phases"][0]["attention"] = 99,
                 "rules[0].phases[0].attention: index 99 is out of range: "
                 "there are 4 kernels");
  EXPECT_REFUSED(json["rules"][0]["phases"][0]["attention"] = 3,
                 "rules[0].phases[0].attention: needs an attention kernel, "
                 "found a select kernel of group 32 by mean_probability "
                 "(kernel \"select\")");
  EXPECT_REFUSED(json["rules"][0]["phases"][0]["attention"] = 1,
                 "rules[0].phases[0].refreshes[0]: must follow dense attention "
                 "that writes the log-sum-exp, found attention over ");
  EXPECT_REFUSED(
      json["kernels"][0]["writes_lse"] = false,
      "rules[0].phases[0].refreshes[0]: must follow dense attention that "
      "writes the log-sum-exp, found dense attention that writes no "
      "log-sum-exp (kernel \"dense_lse\")");
  EXPECT_REFUSED(json["rules"][0]["phases"][0]["refreshes_first"] = true,
                 "rules[0].phases[0].refreshes[0]: must follow dense attention "
                 "that writes the log-sum-exp, found none before it");
  EXPECT_REFUSED(json["rules"][0]["phases"][1]["refreshes_first"] = true,
                 "rules[0].phases[1]: refreshes before it attends, and "
                 "nothing");
  EXPECT_REFUSED(json["rules"][0]["phases"][0]["refreshes"][0]["kernel"] = 0,
                 "rules[0].phases[0].refreshes[0].kernel: needs a select "
                 "kernel of group 32 by mean_probability, found dense "
                 "attention (kernel \"dense_lse\")");
  EXPECT_REFUSED(json["kernels"][3]["group"] = 64,
                 "needs a select kernel of group 32 by mean_probability, found "
                 "a select kernel of group 64 by mean_probability (kernel ");
  EXPECT_REFUSED(json["rules"].erase(0), "rules: needs a default rule");
  EXPECT_REFUSED(
      json["rules"][0]["phases"][0]["refreshes"][0]["scorings"] = Json::array(
          {{{"kernel", 0}, {"scale", "heads"}, {"of_response", false}}}),
      "rules[0].phases[0].refreshes[0]: needs, to be scored by, of the "
      "phase's kernel: none; found attention scaled_by(heads)");
  EXPECT_REFUSED(json["rules"][0]["phases"][0]["scoring"] = 3,
                 "rules[0].phases[0].scoring: needs an attention kernel, "
                 "found a select kernel of group 32 by mean_probability "
                 "(kernel \"select\")");
  EXPECT_REFUSED(json["rules"][0]["phases"][0]["scoring"] = -1,
                 "rules[0].phases[0].scoring");
  EXPECT_REFUSED(json["rules"][0]["phases"][1]["scoring"] = 0,
                 "rules[0].phases[1].scoring: scores for refreshes before the "
                 "attention, and they come behind it (kernel \"dense_lse\")");
  EXPECT_REFUSED(json["rules"][0]["phases"][0]["scoring"] = 0;
                 json["rules"][0]["phases"][0]["refreshes_first"] = true;
                 json["selections"][0]["scorer"] = "mean_logit";
                 json["kernels"][3]["scorer"] = "mean_logit",
                 "rules[0].phases[0].scoring: scores for refreshes of which "
                 "none reads log-sum-exps (kernel \"dense_lse\")");
  EXPECT_REFUSED(json["rules"][0]["phases"][0]["scoring"] = 1;
                 json["rules"][0]["phases"][0]["refreshes_first"] = true,
                 "rules[0].phases[0].refreshes[0]: must follow dense "
                 "attention");
  EXPECT_REFUSED(
      json["rules"][0]["phases"][0]["refreshes"].push_back(
          Json(json["rules"][0]["phases"][0]["refreshes"][0])),
      "rules[0].phases[0].refreshes[1].selection: is the phase's second of "
      "one selection");
  EXPECT_REFUSED(
      json["rules"][0]["phases"][0]["refreshes"] = Json::array(),
      "rules[0].phases[2].attention: reads a selection that neither its rule "
      "refreshes nor one whose layers come before (selection "
      "\"cols\")");
}

/// N9: every read comes after a write, in every run.
TEST(Manifest, RefusesReadsBeforeTheFirstWrite) {
  // Step 1 may be none of the cadence's.
  Manifest manifest = testManifest();
  const Cadence drawn = windowed(Cadence::Kind::Random, {3, 10}, 4, 7);
  manifest.selections[0].cadence = drawn;
  std::vector<Phase> &phases = manifest.rules[0].phases;
  phases[0].when.cadence = phases[1].when.cadence = drawn;
  auto refused = [&](const std::function<void(Manifest &)> &change,
                     const std::string &wanted) {
    const std::string found = refusalAfter(manifest, change);
    EXPECT_TRUE(says(found, wanted)) << "found: " << found;
  };
  ASSERT_EQ(refusal(manifest, [](Json &) {}), "");
  refused(
      [](Manifest &m) {
        m.rules[0].phases.erase(m.rules[0].phases.begin() + 1);
      },
      "rules[0].phases[1].attention: may read a selection before it is first "
      "written; it "
      "must come after a phase that is `before` the selection's cadence "
      "(selection \"cols\")");
  // Another phase may take the cadence's steps.
  refused(
      [](Manifest &m) {
        m.rules[0].phases.insert(m.rules[0].phases.begin(),
                                 {{When::Kind::On, first(2)}, 0, -1, -1, {}});
      },
      "rules[0].phases[3].attention: reads a selection that the phases before "
      "it do not "
      "refresh in every step of the selection's cadence (selection \"cols\")");
  refused([](Manifest &m) { m.rules[0].phases[0].when.cadence = first(2); },
          "rules[0].phases[2].attention: reads a selection that the phases "
          "before it do "
          "not refresh");
  // And so of other layers, which come before.
  Rule writer = manifest.rules[0];
  writer.isDefault = false;
  writer.firstLayer = 0;
  writer.lastLayer = 1;
  phases.erase(phases.begin());
  manifest.rules[1] = writer;
  ASSERT_EQ(refusal(manifest, [](Json &) {}), "");
  refused(
      [](Manifest &m) { m.rules[0].phases.erase(m.rules[0].phases.begin()); },
      "rules[0].phases[0].attention: may read a selection before the rule that "
      "refreshes "
      "it first does; it must come after a phase that is `before` that "
      "(selection \"cols\") (rules[1])");
  refused(
      [](Manifest &m) {
        std::vector<Phase> &others = m.rules[1].phases;
        others[0].when.cadence = first(2);
        others[1].when = {};
        others.pop_back();
      },
      "rules[0].phases[1].attention: reads a selection of a rule that does not "
      "refresh "
      "it in every step of its cadence (selection \"cols\") (rules[1])");
}

/// The default rule refreshes nothing and reads what another's layers choose.
TEST(Manifest, ReadsOfLayersBeforeAreTaken) {
  auto read = [](int64_t first, int64_t last) {
    Json json = Json::parse(toJson(testManifest()));
    Json rule = json["rules"][0];
    rule["layers"] = {{"first", first}, {"last", last}};
    json["rules"][0]["phases"].erase(0);
    json["rules"] = {json["rules"][0], rule};
    Result<Manifest> manifest = manifestFromJson(json.dump());
    return manifest ? "" : manifest.error().text();
  };
  EXPECT_EQ(read(0, 1), "");
  // Layer 0 is the default rule's, which begins before.
  for (auto [first, last] : {std::pair(1, 2), std::pair(-2, -1)})
    EXPECT_TRUE(says(read(first, last), "nor one whose layers come before"));
}

TEST(Manifest, WritesNamesThatAreNotUtf8) {
  Manifest manifest = testManifest();
  manifest.schedule = "bad \xff name";
  EXPECT_TRUE(manifestFromJson(toJson(manifest)));
}

#define EXPECT_ROWS_REFUSED(change, text)                                      \
  EXPECT_TRUE(                                                                 \
      says(refusal(testRowsManifest(), [](Json &json) { change; }), text))

TEST(Manifest, RefusesRowsThatPointNowhere) {
  EXPECT_ROWS_REFUSED(json["visible"] = 10,
                      "visible: index 10 is out of range");
  EXPECT_ROWS_REFUSED(json["visible"] = -2, "visible: -2 is out of range");
  EXPECT_ROWS_REFUSED(json["positions"][2]["of"][1] = 2,
                      "positions[2].of[1]: index 2 is out of range: there are "
                      "2 earlier position sets");
  EXPECT_ROWS_REFUSED(json["positions"][1]["count"] = -1, "is out of range");
  EXPECT_ROWS_REFUSED(json["positions"][1]["name"] = "two words",
                      "positions[1].name: \"two words\" is no symbol name");
  EXPECT_ROWS_REFUSED(json["positions"][1]["name"] = "",
                      "positions[1].name: \"\" is no symbol name");
  EXPECT_ROWS_REFUSED(json["positions"][6]["count"] = 0, "is out of range");
  EXPECT_ROWS_REFUSED(json["positions"].push_back(Json{
                          {"kind", "neighbors"}, {"of", {0, 1}}, {"count", 0}}),
                      "positions[10].count: 0 is out of range");
  EXPECT_ROWS_REFUSED(json["passes"][2]["rows"] = 99,
                      "passes[2].rows: index 99 is out of range");
  EXPECT_ROWS_REFUSED(json["passes"][1]["exact"]["among"] = -1,
                      "passes[1].exact.among: -1 is out of range");
  EXPECT_ROWS_REFUSED(
      json["passes"][1]["exact"]["confidence"] = "3/2",
      "passes[1].exact.confidence: \"3/2\" is no fraction above "
      "0 and up to 1");
  EXPECT_ROWS_REFUSED(json["passes"][2]["exact"]["confidence"] = "1/2",
                      "passes[2].exact");
  EXPECT_ROWS_REFUSED(json["passes"][2]["exact"]["below"] = "5/2",
                      "no fraction above 0 and up to 2");
  EXPECT_ROWS_REFUSED(json["commit"]["ratio"] = "1025/1",
                      "no fraction above 0 and up to 1024");
  EXPECT_ROWS_REFUSED(json["commit"]["kind"] = "above";
                      json["commit"].erase("last_alone"),
                      "no fraction above 0 and up to 1 ");
  EXPECT_ROWS_REFUSED(json["commit"]["within"] = 10, "commit.within: index 10");
  EXPECT_ROWS_REFUSED(for (int i = 0; i < 300; ++i) json["positions"].push_back(
                          Json{{"kind", "all"}}),
                      "positions: more than 256 sets of positions");
  EXPECT_ROWS_REFUSED(for (int i = 0; i < 300; ++i) json["passes"].insert(
                          json["passes"].begin(), json["passes"][0]),
                      "passes: more than 256 passes");
}

TEST(Manifest, RefusesListsReadAsWhatTheyAreNot) {
  EXPECT_ROWS_REFUSED(
      json["kernels"][1]["terms"][0]["selection"] = 1,
      "kernels[1]: reads \"blocks\" as columns, it is of blocks");
  EXPECT_ROWS_REFUSED(
      json["kernels"][3]["blocks"] = false,
      "rules[0].phases[0].refreshes[1].kernel: needs a select kernel "
      "of blocks of 32 by mean_probability, found a select "
      "kernel of group 32 by mean_probability");
  EXPECT_ROWS_REFUSED(json["kernels"][2]["per_kv_head"] = true,
                      "needs a select kernel of group 32 by mean_probability, "
                      "found a select kernel of group 32 per key/value head by "
                      "mean_probability");
}

TEST(Manifest, RefusesProgramsAtTheirFields) {
  EXPECT_ROWS_REFUSED(json["positions"][2]["of"] = Json::array(),
                      "positions[2]: needs at least one set");
  EXPECT_ROWS_REFUSED(json["positions"].push_back(Json{
                          {"kind", "neighbors"}, {"of", {0}}, {"count", 1}}),
                      "positions[10]: needs two sets");
  EXPECT_ROWS_REFUSED(json["positions"].push_back(Json{{"kind", "next"}}),
                      "positions[10]: is what comes next in an order");
  EXPECT_ROWS_REFUSED(json["positions"].push_back(Json{{"kind", "next"}});
                      json["commit"] = (Json{{"kind", "random_order"},
                                             {"within", 10},
                                             {"stop_at_eos", false},
                                             {"narrows", false},
                                             {"least_passes", 1}}),
                      "commit: goes by a drawn order");
  EXPECT_ROWS_REFUSED(json["visible"] = 2, "visible: depends on what is");
  EXPECT_ROWS_REFUSED(json["passes"].erase(0), "passes[1]: may run at step 1");
  EXPECT_ROWS_REFUSED(json["reuse"]["kv"] = false,
                      "reuse: keeps parts of rows");
  EXPECT_ROWS_REFUSED(json["commit"]["within"] = 0, "commit: commits within");
  EXPECT_ROWS_REFUSED(
      json["selections"][0]["scale"] = "heads";
      json["rules"][0]["phases"][0]["refreshes"][0]["scorings"] = Json::array(
          {{{"kernel", 0}, {"scale", "heads"}, {"of_response", false}}}),
      "selections[0]: is scaled by the heads");
}

} // namespace
