//===- NearestWordTest.cpp - What a word was meant to be ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/NearestWord.h"

#include "gtest/gtest.h"

#include <string>

using namespace heddle::bundle;

namespace {

TEST(NearestWord, CountsEdits) {
  EXPECT_EQ(editDistance("", ""), 0u);
  EXPECT_EQ(editDistance("", "abc"), 3u);
  EXPECT_EQ(editDistance("abc", ""), 3u);
  EXPECT_EQ(editDistance("window", "windw"), 1u);
  EXPECT_EQ(editDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(editDistance("steps", "stpes"), 1u);
  EXPECT_EQ(editDistance("keep", "ekpe"), 2u);
  EXPECT_EQ(editDistance("abc", "cab"), 2u);
}

TEST(NearestWord, IsOneOfFewEdits) {
  const std::vector<std::string> words = {"verify", "rebuild", "dump", "of"};
  EXPECT_EQ(nearestOf("verfiy", words), "verify");
  EXPECT_EQ(nearestOf("dmp", words), "dump");
  EXPECT_EQ(nearestOf("fo", words), "of");
  EXPECT_EQ(nearestOf("frob", words), "");
  // All of "of" would be replaced.
  EXPECT_EQ(nearestOf("ab", words), "");
  EXPECT_EQ(nearestOf("verify", std::vector<std::string>()), "");
  for (const auto &two : {std::vector{"never", "every"}, {"every", "never"}})
    EXPECT_EQ(nearestOf("ever", two), "every");
}

} // namespace
