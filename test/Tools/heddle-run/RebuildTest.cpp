//===- RebuildTest.cpp - Bundles that are not compiled anew ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/trust/Rebuild.h"
#include "bundle/format/Sections.h"
#include "bundle/test/TestManifest.h"

#include <gtest/gtest.h>

using namespace heddle;

namespace {

/// A table without a byte was dropped, and one of 8 MB is what heddlec refuses.
TEST(Rebuild, RefusesTablesOfTilingsThatVerifyRefuses) {
  for (const std::string &table : {std::string(), std::string(8 << 20, ' ')}) {
    Result<std::string> bytes = bundle::Bundle::serialize(
        bundle::testManifest(),
        {{std::string(bundle::scheduleSection), "heddle.schedule @x {}"},
         {std::string(bundle::tuningSection), table}});
    ASSERT_TRUE(bytes) << bytes.error().text();
    Result<bundle::Bundle> bundle = bundle::Bundle::parse(*bytes, "x.hdl");
    ASSERT_TRUE(bundle) << bundle.error().text();
    const std::string says = "section tuning: a table of tilings has " +
                             std::to_string(table.size()) +
                             " bytes, expected 1 to 1048576";
    Status checked = bundle::checkTables(*bundle);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().text(), says);
    Result<std::string> rebuilt = trust::rebuild(*bundle);
    ASSERT_FALSE(rebuilt);
    EXPECT_EQ(rebuilt.error().text(), says);
  }
}

} // namespace
