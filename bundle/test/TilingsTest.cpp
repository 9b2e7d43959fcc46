//===- TilingsTest.cpp - Tables of tilings, and bundles with them ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Tilings.h"
#include "TestManifest.h"
#include "bundle/format/Sections.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::bundle;

namespace {

/// A rule with further fields, or other values of those that it has.
std::string ruleWith(const std::string &fields) {
  return R"({"element": "bf16", "consumers": 3, "keys": 128, "stages": 2, )"
         R"("parts": 2, "producer_registers": 32, "consumer_registers": 160, )" +
         fields + "}";
}

std::string tableOf(const std::string &rules) {
  return "{\"wgmma\": [" + rules + "]}";
}

std::string refusal(const std::string &text) {
  auto rules = tilingsFromJson(text);
  return rules ? "" : rules.error().text();
}

TEST(Tilings, AreRead) {
  auto rules = tilingsFromJson(
      tableOf(ruleWith(R"("head_dim": 128)") + "," +
              ruleWith(R"("head_dim": 64, "over": "range", "copies": "tma",)"
                       R"("query_stages": 2, "positions": true)")));
  ASSERT_TRUE(rules) << rules.error().text();
  ASSERT_EQ(rules->size(), 2u);
  EXPECT_EQ((*rules)[0].over, "all");
  EXPECT_EQ((*rules)[0].headDim, 128);
  EXPECT_EQ((*rules)[0].consumerRegisters, 160);
  EXPECT_FALSE((*rules)[0].tma);
  EXPECT_EQ((*rules)[1].over, "range");
  EXPECT_EQ((*rules)[1].queryStages, 2);
  EXPECT_TRUE((*rules)[1].tma && (*rules)[1].positions);
  EXPECT_EQ(refusal(tableOf("")), "");
}

TEST(Tilings, LeastKeysAreANumberOfKeys) {
  EXPECT_EQ(refusal(tableOf(ruleWith(
                R"("head_dim": 128, "key_shares": 4, "least_keys": -5)"))),
            "wgmma[0]: 'least_keys' is 0 or more, not -5");
}

TEST(Tilings, HeadDimsHaveProductsOfWarpgroups) {
  for (const char *dim : {"-128", "0", "1", "96", "576", "9223372036854775807"})
    EXPECT_EQ(refusal(tableOf(ruleWith(R"("head_dim": 128)") + "," +
                              ruleWith(R"("head_dim": )" + std::string(dim)))),
              "wgmma[1]: 'head_dim' is a multiple of 64 up to 512, not " +
                  std::string(dim));
  for (const char *dim : {"18446744073709551615", "128.0", "true", "null"})
    EXPECT_EQ(refusal(tableOf(ruleWith(R"("head_dim": )" + std::string(dim)))),
              "wgmma[0]: 'head_dim' is not there or no integer");
}

TEST(Tilings, KeysStandOnce) {
  const std::string head =
      "a table of tilings is an object with a list 'wgmma' of objects: ";
  EXPECT_EQ(refusal(R"({"wgmma": [], "wgmma": []})"),
            head + "an object has the key 'wgmma' twice");
  EXPECT_EQ(refusal(tableOf(ruleWith(R"("head_dim": 64)") + "," +
                            ruleWith(R"("head_dim": 64, "keys": 64)"))),
            head + "wgmma[1]: an object has the key 'keys' twice");
}

TEST(Tilings, OtherTextsAreRefused) {
  EXPECT_EQ(refusal("{\"wgmma\": [\n1,,]}").substr(0, 56),
            "a table of tilings is no JSON: parse error at line 2, co");
  EXPECT_EQ(refusal(tableOf("1")), "wgmma[0]: expected an object");
  EXPECT_EQ(refusal(tableOf(ruleWith(R"("head_dim": 64, "blocks": "two")"))),
            "wgmma[0]: 'blocks' is no integer");
  EXPECT_EQ(
      refusal(tableOf(ruleWith(R"("head_dim": 64, "warps": 2)"))).substr(0, 37),
      "wgmma[0]: there are fields beside 'el");
  for (const char *other :
       {"[]", "{}", "1", R"({"wgmma": {}})", R"({"wgmma": [], "mma": []})"})
    EXPECT_EQ(refusal(other), "a table of tilings is an object with a list "
                              "'wgmma' and nothing else");
}

/// A bundle without code for the host, which is looked at, too.
std::string badSection(const std::string &tuning) {
  Manifest manifest = testCudaManifest();
  manifest.targets.erase(manifest.targets.begin());
  auto keepCuda = [](std::vector<KernelVariant> &variants) {
    std::erase_if(variants, [](const auto &each) { return each.target == 0; });
    for (KernelVariant &each : variants)
      each.target = 0;
  };
  for (Kernel &kernel : manifest.kernels)
    keepCuda(kernel.variants);
  for (RowKernel &kernel : manifest.rowKernels)
    for (auto &each : kernel.variants)
      each.target = 0;
  Result<std::string> bytes =
      Bundle::serialize(manifest, {{std::string(tuningSection), tuning}});
  EXPECT_TRUE(bytes) << bytes.error().text();
  Result<Bundle> bundle = Bundle::parse(*bytes, "x.hdl");
  EXPECT_TRUE(bundle) << bundle.error().text();
  Status status = checkSections(*bundle);
  return status ? "" : status.error().text();
}

TEST(Tilings, OfABundleAreLookedAt) {
  EXPECT_EQ(badSection(""), "");
  EXPECT_EQ(badSection(tableOf(ruleWith(R"("head_dim": 128)"))), "");
  EXPECT_EQ(badSection("\x01\xff"
                       "garbage")
                .substr(0, 45),
            "section tuning: a table of tilings is no JSON");
}

} // namespace
