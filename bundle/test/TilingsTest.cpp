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
  auto rules = tilingsFromJson(tableOf(
      ruleWith(R"("head_dim": 128)") + "," +
      ruleWith(R"("head_dim": 64, "over": "range", "copies": "tma",)"
               R"("query_stages": 2, "positions": true, "masked": true,)"
               R"("check_sums": true)")));
  ASSERT_TRUE(rules) << rules.error().text();
  ASSERT_EQ(rules->size(), 2u);
  EXPECT_EQ((*rules)[0].over, "all");
  EXPECT_EQ((*rules)[0].headDim, 128);
  EXPECT_EQ((*rules)[0].consumerRegisters, 160);
  EXPECT_FALSE((*rules)[0].tma);
  EXPECT_EQ((*rules)[1].over, "range");
  EXPECT_EQ((*rules)[1].queryStages, 2);
  EXPECT_TRUE((*rules)[1].tma && (*rules)[1].positions && (*rules)[1].masked);
  EXPECT_FALSE((*rules)[0].masked || (*rules)[0].checkSums);
  EXPECT_TRUE((*rules)[1].checkSums);
  EXPECT_EQ(refusal(tableOf("")), "");
}

TEST(Tilings, WithoutAnElementAreForBoth) {
  std::string both = ruleWith(R"("head_dim": 128, "check_sums": true)");
  both.erase(both.find(R"("element": "bf16", )"), 19);
  auto rules =
      tilingsFromJson(tableOf(both + ",\n" + ruleWith(R"("head_dim": 64)")));
  ASSERT_TRUE(rules) << rules.error().text();
  ASSERT_EQ(rules->size(), 3u);
  EXPECT_EQ((*rules)[0].element, "bf16");
  EXPECT_EQ((*rules)[1].element, "f16");
  EXPECT_EQ((*rules)[1].line, 1);
  EXPECT_EQ((*rules)[1].headDim, 128);
  EXPECT_EQ((*rules)[2].element, "bf16");
  EXPECT_EQ((*rules)[2].line, 2);
  // Behind one for bf16 that takes all of its kernels f16's are left.
  std::string maxima = ruleWith(R"("head_dim": 128)");
  EXPECT_EQ(refusal(tableOf(maxima + "," + both)), "");
  maxima.erase(maxima.find(R"("element": "bf16", )"), 19);
  EXPECT_NE(refusal(tableOf(maxima + "," + both)).find("it has no kernel"),
            std::string::npos);
  std::string other = ruleWith(R"("head_dim": 128)");
  other.replace(other.find("bf16"), 4, "f32");
  EXPECT_EQ(refusal(tableOf(other)),
            "a table of tilings: wgmma[0].element: \"f32\" is unknown, "
            "expected bf16 or f16");
}

TEST(Tilings, KnowWhereTheyStand) {
  const std::string entry = ruleWith(R"("head_dim": 128)");
  auto rules = tilingsFromJson("{\"wgmma\": [" + entry + ",\n  " + entry +
                               ",\n\n" + entry + "]}\n");
  ASSERT_TRUE(rules) << rules.error().text();
  const std::pair<int64_t, int64_t> places[] = {{1, 12}, {2, 3}, {4, 1}};
  ASSERT_EQ(rules->size(), std::size(places));
  for (size_t i = 0; i < rules->size(); ++i)
    EXPECT_EQ(std::pair((*rules)[i].line, (*rules)[i].column), places[i]);
}

/// Also of entries that no kernel asks for.
TEST(Tilings, NumbersAreInTheirRanges) {
  const std::string good =
      R"({"element": "f16", "head_dim": 256, "consumers": 1, "keys": 48, )"
      R"("stages": 2, "parts": 3, "producer_registers": 24, )"
      R"("consumer_registers": 240, "copies": "tma", "blocks": 1, )"
      R"("cluster": 1, "key_shares": 4, "least_keys": 1, "query_stages": 0})";
  ASSERT_EQ(refusal(tableOf(good)), "");
  struct {
    const char *field, *value, *says;
  } cases[] = {
      {"consumers", "5", "a wgmma_tiling has 1 to 4 consumers, not 5"},
      {"consumers", "0", "a wgmma_tiling has 1 to 4 consumers, not 0"},
      {"keys", "40", "keys is a multiple of 16 up to 256, not 40"},
      {"keys", "-16", "keys is a multiple of 16 up to 256, not -16"},
      {"keys", "272", "keys is a multiple of 16 up to 256, not 272"},
      {"stages", "9", "stages is from 2 to 8, not 9"},
      {"parts", "2", "parts = 2 does not cut 48 keys into multiples of 16"},
      {"parts", "0", "parts = 0 does not cut 48 keys into multiples of 16"},
      {"parts", "9223372036854775807",
       "parts = 9223372036854775807 does not cut 48 keys into multiples of 16"},
      {"producer_registers", "16",
       "a thread has a multiple of 8 registers from 24 to 240, not 16"},
      {"consumer_registers", "241",
       "a thread has a multiple of 8 registers from 24 to 240, not 241"},
      {"blocks", "5", "blocks is from 1 to 4, not 5"},
      {"cluster", "3", "cluster is 1, or 2 with tma, not 3"},
      {"cluster", "2",
       "blocks that share tiles (cluster = 2) have the same keys, not "
       "key_shares = 4"},
      {"key_shares", "3", "key_shares is 1, 2, 4, 8 or 16, not 3"},
      {"key_shares", "32", "key_shares is 1, 2, 4, 8 or 16, not 32"},
      {"key_shares", "1",
       "least_keys is 0, or up to 2147483648 with key_shares of more than 1, "
       "not 1"},
      {"least_keys", "-5",
       "least_keys is 0, or up to 2147483648 with key_shares of more than 1, "
       "not -5"},
      {"query_stages", "2",
       "query_stages is from 0 to 4, and 0 with key_shares, not 2"},
  };
  for (const auto &[field, value, says] : cases) {
    const std::string name = "\"" + std::string(field) + "\": ";
    const size_t at = good.find(name) + name.size();
    std::string bad = good;
    bad.replace(at, bad.find_first_of(",}", at) - at, value);
    EXPECT_EQ(refusal(tableOf(good + "," + bad)),
              "a table of tilings: wgmma[1]: " + std::string(says));
  }
}

TEST(Tilings, NothingStandsBehindTheirEnd) {
  EXPECT_EQ(refusal(tableOf("") + std::string("\0}", 2)),
            "a table of tilings is an object with a list 'wgmma' of objects: "
            "byte " +
                std::to_string(tableOf("").size()) +
                " is 0, which no JSON has");
}

TEST(Tilings, SumsAreCheckedWhereWeightsAre) {
  EXPECT_EQ(refusal(tableOf(ruleWith(R"("head_dim": 64, "check_sums": true)"))),
            "");
  EXPECT_EQ(refusal(tableOf(ruleWith(
                R"("head_dim": 64, "over": "scores", "check_sums": true)"))),
            "a table of tilings: wgmma[0]: check_sums is false with over "
            "\"scores\": kernels that select have no sums of weights; leave "
            "it out");
}

TEST(Tilings, PingPong) {
  auto refusalOf = [](const std::string &more) {
    return refusal(
        tableOf(ruleWith(R"("head_dim": 64, "ping_pong": true)" + more)));
  };
  for (const char *over : {"all", "list", "blocks"})
    EXPECT_EQ(refusalOf(R"(, "over": ")" + std::string(over) + '"'), "");
  for (const char *over : {"range", "union", "scores"})
    EXPECT_EQ(
        refusalOf(R"(, "over": ")" + std::string(over) + '"'),
        "a table of tilings: wgmma[0]: ping_pong is false with over \"" +
            std::string(over) +
            "\": warpgroups that wait for each other have the same tiles, "
            "which those of all keys, a list or blocks alone have; leave "
            "it out");
  EXPECT_EQ(refusalOf(R"(, "over": "list", "shared": true)"),
            "a table of tilings: wgmma[0]: ping_pong is false with shared: "
            "warpgroups that wait for each other have the same tiles, which "
            "those of all keys, a list or blocks alone have; leave it out");
  std::string alone = ruleWith(R"("head_dim": 64, "ping_pong": true)");
  alone.replace(alone.find("\"consumers\": 3"), 14, "\"consumers\": 1");
  EXPECT_EQ(refusal(tableOf(alone)),
            "a table of tilings: wgmma[0]: ping_pong is for 2 to 4 consumers, "
            "whose products alternate; leave it out");
}

TEST(Tilings, TailsOfLists) {
  auto refusalOf = [](const std::string &more) {
    return refusal(tableOf(ruleWith("\"head_dim\": 64, " + more)));
  };
  EXPECT_EQ(refusalOf(R"("over": "list", "tail_keys": 16)"), "");
  EXPECT_EQ(refusalOf(R"("over": "list", "shared": true, "tail_keys": 112)"),
            "");
  for (const char *over : {"all", "blocks", "range", "union", "scores"})
    EXPECT_EQ(
        refusalOf("\"over\": \"" + std::string(over) + "\", \"tail_keys\": 64"),
        "a table of tilings: wgmma[0]: tail_keys is 0 with over \"" +
            std::string(over) +
            "\", not 64: lists of keys alone have a tail; leave it out");
  for (const char *keys : {"-16", "8", "24", "128", "144"})
    EXPECT_EQ(refusalOf(R"("over": "list", "tail_keys": )" + std::string(keys)),
              "a table of tilings: wgmma[0]: tail_keys is 0 or a multiple of "
              "16 below keys = 128, not " +
                  std::string(keys));
}

TEST(Tilings, OneRing) {
  auto rules = tilingsFromJson(tableOf(
      ruleWith(R"("head_dim": 64, "over": "range", "one_ring": true)")));
  ASSERT_TRUE(rules) << rules.error().text();
  EXPECT_TRUE((*rules)[0].oneRing);
  EXPECT_EQ(refusal(tableOf(ruleWith(
                R"("head_dim": 64, "over": "scores", "one_ring": true)"))),
            "a table of tilings: wgmma[0]: one_ring is false with over "
            "\"scores\": kernels that select have tiles of keys alone; leave "
            "it out");
}

TEST(Tilings, WhatNoKernelHas) {
  auto refusalOf = [](const std::string &more) {
    return refusal(tableOf(ruleWith("\"head_dim\": 128, " + more)));
  };
  EXPECT_EQ(refusalOf(R"("over": "list", "copies": "tma")"),
            "a table of tilings: wgmma[0]: copies is \"threads\" with over "
            "\"list\": tensor maps bring tiles of consecutive keys; leave it "
            "out");
  for (const char *over : {"blocks", "scores"})
    EXPECT_EQ(refusalOf("\"over\": \"" + std::string(over) +
                        "\", \"copies\": \"tma\""),
              "");
  EXPECT_NE(refusalOf(R"("over": "scores", "copies": "tma", "cluster": 2)")
                .find("cluster is 1 with over \"scores\""),
            std::string::npos);
  EXPECT_NE(refusalOf(R"("over": "scores", "query_stages": 2)")
                .find("query_stages is 0 with over \"scores\""),
            std::string::npos);
  EXPECT_NE(refusalOf(R"("over": "scores", "key_shares": 4)")
                .find("key_shares is 1 with over \"scores\""),
            std::string::npos);
}

TEST(Tilings, EntriesWithSumsStandFirst) {
  auto tableWith = [](const std::string &first, const std::string &second) {
    return tableOf(ruleWith("\"head_dim\": 128" + first) + ",\n  " +
                   ruleWith("\"head_dim\": 128" + second));
  };
  const std::string sums = R"(, "check_sums": true)",
                    list = R"(, "over": "list")",
                    tensorMaps = R"(, "over": "blocks", "copies": "tma")",
                    late =
                        "a table of tilings: wgmma[1]: with check_sums, in "
                        "line 2, column 3, it has no kernel: wgmma[0], in line "
                        "1, column 12, takes them all; put this one before it";
  EXPECT_EQ(refusal(tableWith(sums, "")), "");
  EXPECT_EQ(refusal(tableWith("", sums)), late);
  EXPECT_EQ(refusal(tableWith(list, list + sums)), late);
  EXPECT_EQ(refusal(tableWith(tensorMaps, tensorMaps + sums)), late);
  EXPECT_EQ(refusal(tableWith(R"(, "positions": true)", sums)), late);
  EXPECT_EQ(refusal(tableWith("", R"(, "masked": true)" + sums)), late);
  EXPECT_EQ(refusal(tableWith("", R"(, "positions": true)" + sums)), late);
  // Those before are not for all of these.
  for (const auto &[first, second] :
       {std::pair(list, sums),
        {R"(, "masked": true)", sums},
        {R"(, "key_shares": 4)", sums},
        {list, list + R"(, "shared": true)" + sums},
        {R"(, "over": "range", "copies": "tma", "cluster": 2)",
         R"(, "over": "range")" + sums},
        {tensorMaps, R"(, "over": "blocks")" + sums}})
    EXPECT_EQ(refusal(tableWith(first, second)), "") << first;
  std::string fewer = ruleWith("\"head_dim\": 128" + list + sums),
              other = ruleWith("\"head_dim\": 128" + list);
  fewer.replace(fewer.find("\"consumers\": 3"), 14, "\"consumers\": 1");
  EXPECT_EQ(refusal(tableOf(other + "," + fewer)), "");
}

TEST(Tilings, BlocksOfAClusterBringEqualPanels) {
  EXPECT_EQ(refusal(tableOf(
                ruleWith(R"("head_dim": 128, "copies": "tma", "cluster": 2)"))),
            "");
  EXPECT_EQ(refusal(tableOf(
                ruleWith(R"("head_dim": 64, "copies": "tma", "cluster": 2)"))),
            "a table of tilings: wgmma[0]: cluster is 1 with head_dim 64, not "
            "2: the blocks of a cluster bring equal numbers of panels of 64 "
            "channels");
}

TEST(Tilings, SaysWhichFormOfAKernel) {
  auto formOf = [](const std::string &fields) {
    auto rules =
        tilingsFromJson(tableOf(ruleWith("\"head_dim\": 128" + fields)));
    return (*rules)[0].form();
  };
  EXPECT_EQ(formOf(""), LaunchForm::All);
  EXPECT_EQ(formOf(R"(, "key_shares": 4)"), LaunchForm::Long);
  EXPECT_EQ(formOf(R"(, "key_shares": 4, "packed": true)"), LaunchForm::Packed);
}

TEST(Tilings, HeadDimsHaveProductsOfWarpgroups) {
  for (const char *dim :
       {"-128", "0", "1", "96", "320", "512", "9223372036854775807"})
    EXPECT_EQ(
        refusal(tableOf(ruleWith(R"("head_dim": 128)") + "," +
                        ruleWith(R"("head_dim": )" + std::string(dim)))),
        "a table of tilings: wgmma[1]: head_dim is a multiple of 64 up to "
        "256, not " +
            std::string(dim));
  for (auto [dim, says] :
       {std::pair("18446744073709551615",
                  "18446744073709551615 is out of range, expected "
                  "-9223372036854775808 to 9223372036854775807"),
        {"128.0", "expected an integer, found number"},
        {"true", "expected an integer, found boolean"},
        {"null", "expected an integer, found null"}})
    EXPECT_EQ(refusal(tableOf(ruleWith(R"("head_dim": )" + std::string(dim)))),
              "a table of tilings: wgmma[0].head_dim: " + std::string(says));
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
  struct {
    std::string text;
    const char *says;
  } cases[] = {
      {tableOf("1"), "wgmma[0]: expected an object, found number"},
      {tableOf(ruleWith(R"("head_dim": 64, "blocks": "two")")),
       "wgmma[0].blocks: expected an integer, found string"},
      {tableOf(ruleWith(R"("head_dim": 64, "warps": 2)")),
       "wgmma[0]: the field \"warps\" is not known to this build"},
      {tableOf(ruleWith(R"("head_dim": 64, "check_sum": true)")),
       "wgmma[0]: the field \"check_sum\" is not known to this build; did you "
       "mean \"check_sums\"?"},
      {tableOf(ruleWith(R"("head_dim": 64, "querystages": 2)")),
       "wgmma[0]: the field \"querystages\" is not known to this build; did "
       "you mean \"query_stages\"?"},
      {tableOf(ruleWith(R"("head_dim": 64, "blocks": 1, "block": 2)")),
       "wgmma[0]: the field \"block\" is not known to this build"},
      {tableOf(ruleWith(R"("head_dim": 64, "copies": "all")")),
       "wgmma[0].copies: \"all\" is unknown, expected one of threads, tma"},
      {tableOf(ruleWith(R"("head_dim": 64, "over": "some")")),
       "wgmma[0].over: \"some\" is unknown, expected one of all, list, blocks, "
       "range, union, scores"},
      {tableOf(R"({"element": "bf16"})"),
       "wgmma[0]: the field \"head_dim\" is missing"},
      {"[]", "expected an object, found array"},
      {"1", "expected an object, found number"},
      {"{}", "the field \"wgmma\" is missing"},
      {R"({"wgma": []})", "the field \"wgma\" is not known, and \"wgmma\" is "
                          "missing; did you mean that?"},
      {R"({"wgmma": {}})", "wgmma: expected a list, found object"},
      {R"({"wgmma": [], "mma": []})",
       "the field \"mma\" is not known to this build"},
  };
  for (const auto &[text, says] : cases)
    EXPECT_EQ(refusal(text), "a table of tilings: " + std::string(says));
}

/// A bundle without code for the host, which is looked at, too.
std::string badSection(const std::string &table,
                       std::string_view section = tuningSection) {
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
      Bundle::serialize(manifest, {{std::string(section), table}});
  EXPECT_TRUE(bytes) << bytes.error().text();
  Result<Bundle> bundle = Bundle::parse(*bytes, "x.hdl");
  EXPECT_TRUE(bundle) << bundle.error().text();
  Status status = checkSections(*bundle);
  return status ? "" : status.error().text();
}

TEST(Tilings, OfABundleAreLookedAt) {
  EXPECT_EQ(badSection(""), "section tuning: a table of tilings has 0 bytes, "
                            "expected 1 to 1048576");
  EXPECT_EQ(badSection(std::string(size_t(8) << 20, ' ')),
            "section tuning: a table of tilings has 8388608 bytes, expected 1 "
            "to 1048576");
  EXPECT_EQ(badSection(tableOf(ruleWith(R"("head_dim": 128)"))), "");
  EXPECT_EQ(badSection("\x01\xff"
                       "garbage")
                .substr(0, 45),
            "section tuning: a table of tilings is no JSON");
  EXPECT_EQ(badSection(R"({"dense_above": []})", crossoversSection), "");
  EXPECT_EQ(badSection("{}", crossoversSection),
            "section crossovers: a table of crossovers: the field "
            "\"dense_above\" is missing");
}

} // namespace
