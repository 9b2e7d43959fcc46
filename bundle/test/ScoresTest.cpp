//===- ScoresTest.cpp - Functions of logits -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Scores.h"
#include "bundle/format/ManifestScores.h"

#include "nlohmann/json.hpp"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle::bundle;
using nlohmann::ordered_json;

namespace {

Scores read(const std::string &text) {
  Scores scores;
  EXPECT_EQ(detail::readScores(ordered_json::parse(text), scores), "");
  return scores;
}

std::string refused(const std::string &text) {
  Scores scores;
  return detail::readScores(ordered_json::parse(text), scores);
}

TEST(Scores, EvaluatesTheWorkedExample) {
  Scores cap = read(R"([["constant", "f32", 30.0], ["divf", 0, 4],
                        ["tanh", 5], ["mulf", 4, 6]])");
  for (double logit : {-100.0, -1.0, 0.0, 2.5, 40.0})
    EXPECT_DOUBLE_EQ(evaluate(cap, logit, 1, 2, 3), 30 * std::tanh(logit / 30));
  EXPECT_EQ(toString(cap), "mulf(30, tanh(divf(logit, 30)))");
  EXPECT_TRUE(cap.uses(Scores::Logit));
  EXPECT_FALSE(cap.usesPositions());
}

TEST(Scores, MasksByPositions) {
  Scores causal = read(R"([["cmpi", "sgt", 2, 1], ["constant", "f32", "-inf"],
                           ["select", 4, 5, 0]])");
  EXPECT_EQ(evaluate(causal, 1.5, 7, 7, 0), 1.5);
  EXPECT_EQ(evaluate(causal, 1.5, 7, 8, 0), -INFINITY);
  EXPECT_TRUE(causal.usesPositions());
  EXPECT_FALSE(causal.uses(Scores::Head));
}

TEST(Scores, WrapsIntegers) {
  // (key << 31) * 3 - 1, as a number.
  Scores scores = read(R"([["constant", "i32", 31], ["shli", 2, 4],
                           ["constant", "i32", 3], ["muli", 5, 6],
                           ["constant", "i32", 1], ["subi", 7, 8],
                           ["sitofp", 9]])");
  EXPECT_EQ(evaluate(scores, 0, 0, 1, 0), 2147483647.0);
  EXPECT_EQ(evaluate(scores, 0, 0, 2, 0), -1.0);
}

TEST(Scores, IsWrittenAsRead) {
  const char *text = R"([["constant","f32",0.1],["constant","f32","-inf"],)"
                     R"(["constant","i1",1],["cmpf","olt",0,4],)"
                     R"(["andi",6,7],["select",8,5,0]])";
  Scores scores = read(text);
  Scores again = read(detail::toJson(scores).dump());
  EXPECT_EQ(scores, again);
  EXPECT_EQ(scores.nodes[0].real, 0.1f);
}

TEST(Scores, RefusesWhatIsNoFunction) {
  EXPECT_NE(refused("[]"), "");
  EXPECT_NE(refused(R"([["sin", 0]])"), "");
  EXPECT_NE(refused(R"([["addf", 0]])"), "");
  EXPECT_NE(refused(R"([["addf", 0, 0, 0]])"), "");
  EXPECT_NE(refused(R"([["cmpf", "more", 0, 0]])"), "");
  EXPECT_NE(refused(R"([["constant", "f32", "nan"]])"), "");
  EXPECT_NE(refused(R"([["constant", "i32", 2147483648]])"), "");
  EXPECT_EQ(refused(R"([["addf", 0, 4]])"),
            "operation 0 (addf) reads value 4, which does not stand before it");
  EXPECT_EQ(refused(R"([["addf", 0, 1]])"),
            "operation 0 (addf) reads a value of type i32 as operand 1");
  EXPECT_EQ(refused(R"([["addi", 1, 2]])"), "the last operation gives no f32");
  EXPECT_EQ(refused(R"([["divsi", 1, 2], ["sitofp", 4]])"),
            "operation 0 (divsi) divides by what is no positive constant");
  EXPECT_EQ(refused(R"([["andi", 0, 0]])"), "operation 0 (andi) gives no f32");
}

} // namespace
