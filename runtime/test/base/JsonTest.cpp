//===- JsonTest.cpp - Located errors of the JSON reader -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Json.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace heddle::rt;

namespace {

std::string errorOf(const std::string &text) {
  auto result = parseJsonObject(text);
  return result ? "no error" : result.error().text();
}

TEST(Json, ParsesObjects) {
  auto result = parseJsonObject(R"({"a": [1, {"a": 2}], "b": {"a": null}}  )");
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ((*result)["a"][1]["a"], 2);
  EXPECT_TRUE((*result)["b"]["a"].is_null());
}

TEST(Json, RefusesAKeyTwice) {
  EXPECT_EQ(errorOf(R"({"a": 1, "a": 2})"), "an object has the key 'a' twice");
  EXPECT_EQ(errorOf(R"({"x": {"b": 1, "c": {}, "b": 2}})"),
            "x: an object has the key 'b' twice");
  EXPECT_EQ(errorOf(R"({"x": [1, [], {"y": [{"b": 1, "b": 2}]}]})"),
            "x[2].y[0]: an object has the key 'b' twice");
}

TEST(Json, LocatesSyntaxErrors) {
  EXPECT_EQ(errorOf("{\n \"a\": 1,,\n}").substr(0, 39),
            "not valid JSON at line 2, column 9: syn");
  EXPECT_NE(errorOf("").find("not valid JSON at line 1, column 1"),
            std::string::npos);
  EXPECT_NE(errorOf("{\"a\": \"\xff\"}").find("not valid JSON at line 1"),
            std::string::npos);
}

TEST(Json, RefusesOtherValuesAndDeepNesting) {
  EXPECT_EQ(errorOf("[1]"), "expected a JSON object ({...}), found array");
  std::string deep =
      "{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_EQ(errorOf(deep), "values are nested deeper than 64");
}

// As many tensors, or messages, as no file has are still read at once: a parser
// that goes over all of them for each takes minutes.
TEST(Json, ReadsLongTextsInProportion) {
  std::string tensors = "{\"a\": {}", messages = "{\"messages\": [{}";
  for (int i = 0; i < 60'000; ++i) {
    tensors += ", \"" + std::to_string(i) + "\": {\"shape\": [1]}";
    messages += ", {\"role\": \"user\"}";
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(errorOf(tensors + "}"), "no error");
  EXPECT_EQ(errorOf(messages + "]}"), "no error");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

} // namespace
