//===- ScheduleTextTest.cpp - Parameters in a schedule's text -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/ScheduleText.h"

#include "gtest/gtest.h"

using namespace heddle::bundle;

TEST(ScheduleTextTest, ParametersAreThoseOfTheSchedule) {
  const std::string source = R"(// heddle.schedule @b(none = 1) {
heddle.schedule @a(x = 1) { attend dense }
heddle.schedule @b ( // of b
    keep = 20 percent, group=128 // rows
    , share = 1/ 3) { attend dense }
heddle.schedule @"c d"(last = -2) {}
heddle.schedule @plain { attend dense }
)";
  std::vector<TextParameter> found = parametersOf(source, "b");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].name, "keep");
  EXPECT_EQ(found[0].value, "20 percent");
  EXPECT_EQ(source.substr(found[0].nameAt, 6), "keep =");
  EXPECT_EQ(source.substr(found[0].valueAt, 10), "20 percent");
  EXPECT_EQ(found[1].value, "128");
  EXPECT_EQ(found[2].value, "1/ 3");
  ASSERT_EQ(parametersOf(source, "c d").size(), 1u);
  EXPECT_EQ(parametersOf(source, "c d")[0].value, "-2");
  EXPECT_TRUE(parametersOf(source, "plain").empty());
  EXPECT_TRUE(parametersOf(source, "absent").empty());

  const std::vector<TextHead> heads = headsOf(source);
  ASSERT_EQ(heads.size(), 4u);
  EXPECT_EQ(heads[1].name, "b");
  EXPECT_EQ(source.find("heddle.schedule @b ("), heads[1].at);
  EXPECT_EQ(heads[1].parameters.size(), 3u);
  EXPECT_EQ(heads[3].name, "plain");
  EXPECT_TRUE(heads[1].isWhole);
  EXPECT_EQ(headsOf(R"(heddle.schedule @"a\22\\\n\t\C3\A9 \"b" {})")[0].name,
            "a\"\\\n\t\xC3\xA9 \"b");
  // MLIR ends a comment at a carriage return, too.
  EXPECT_EQ(headsOf("// x\rheddle.schedule @a(x = 1) {}").size(), 1u);
  EXPECT_FALSE(headsOf("heddle.schedule @a(x = 1, y) {}")[0].isWhole);
  EXPECT_FALSE(headsOf("heddle.schedule @a(x = 1, y = ")[0].isWhole);
}

// Of what is no schedule nothing is asked, but that it ends.
TEST(ScheduleTextTest, AnyTextIsRead) {
  for (const char *text : {"", "\"", "heddle.schedule", "heddle.schedule @",
                           "heddle.schedule @a(", "heddle.schedule @a(x",
                           "heddle.schedule @a(x =", "heddle.schedule @a(x = 1",
                           "heddle.schedule @a(x = 1,", "//", "@\"\\"})
    EXPECT_TRUE(parametersOf(text, "a").size() <= 1) << text;
}
