//===- OptionsTest.cpp - How callers spell options ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "embed/Options.h"

#include <gtest/gtest.h>

using heddle::embed::withoutDashes;

TEST(Options, AreNamedAsCallersSpellThem) {
  EXPECT_EQ(withoutDashes("--gen-length is 0; see --device=cuda"),
            "gen_length is 0; see device=cuda");
  EXPECT_EQ(withoutDashes("a -- b, x--y, --"), "a -- b, x--y, --");
}

TEST(Options, OfCommandsStay) {
  EXPECT_EQ(withoutDashes("--dtype: compile it with `heddlec --target=host "
                          "--head-dim=64`, or give --device=cuda"),
            "dtype: compile it with `heddlec --target=host --head-dim=64`, or "
            "give device=cuda");
}
