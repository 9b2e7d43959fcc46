//===- FormsTest.cpp - Which form of a kernel computes a sequence ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Forms.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace heddle::bundle;

namespace {

constexpr int64_t packedKeys = 25000, longKeys = 8192;

/// Dense attention in all forms, of tiles of 64 rows.
Kernel kernelWith(std::vector<LaunchForm> forms) {
  Kernel kernel;
  for (LaunchForm form : forms) {
    KernelVariant &variant = kernel.variants.emplace_back();
    variant.form = form;
    variant.dtype = "bf16";
    variant.headDim = 128;
    variant.cluster = form == LaunchForm::Packed ? 8
                      : form == LaunchForm::Long ? 4
                                                 : 1;
    variant.queryRows = 64 / variant.cluster;
    variant.leastKeys = form == LaunchForm::Packed ? packedKeys
                        : form == LaunchForm::Long ? longKeys
                                                   : 0;
  }
  return kernel;
}

bool always(const KernelVariant &) { return true; }

LaunchForm taken(const Kernel &kernel, const LaunchShape &shape) {
  return LaunchForms(kernel, kernel.variants.front(), always).of(shape);
}

const Kernel kernel = kernelWith({launchForms.begin(), launchForms.end()});

TEST(Forms, AllRowsHaveTheirOwn) {
  EXPECT_EQ(taken(kernel, allRows), LaunchForm::All);
  EXPECT_EQ(taken(kernel, {65536, 65536, 7}), LaunchForm::All);
  const Kernel one = kernelWith({LaunchForm::Any});
  EXPECT_EQ(taken(one, allRows), LaunchForm::Any);
  EXPECT_EQ(taken(one, {16, 65536, 7}), LaunchForm::Any);
}

TEST(Forms, MoreRowsThanKeysAndNoneTakeAny) {
  EXPECT_EQ(taken(kernel, {20000, 10000, 7}), LaunchForm::Any);
  EXPECT_EQ(taken(kernel, {0, 65536, 7}), LaunchForm::Any);
}

TEST(Forms, HeadsOfTheirOwnGoByKeysAlone) {
  for (int64_t rows : {1, 16, 64, 100, 4000}) {
    EXPECT_EQ(taken(kernel, {rows, longKeys - 1, 1}), LaunchForm::Any);
    EXPECT_EQ(taken(kernel, {rows, longKeys, 1}), LaunchForm::Long);
    EXPECT_EQ(taken(kernel, {rows, 1 << 20, 1}), LaunchForm::Long);
  }
}

/// The fewer tiles packing leaves, the fewer keys it takes.
TEST(Forms, PackedRowsGoByTheTilesThatAreLeft) {
  struct {
    int64_t group, rows;
    double left; ///< of the tiles
  } cases[] = {{7, 1, 1. / 7},   {7, 9, 1. / 7},  {7, 10, 2. / 7},
               {7, 16, 2. / 7},  {7, 32, 4. / 7}, {7, 48, 6. / 7},
               {7, 65, 8. / 14}, {4, 16, 1. / 4}, {4, 17, 2. / 4},
               {4, 32, 2. / 4},  {4, 48, 3. / 4}, {2, 32, 1. / 2},
               {8, 8, 1. / 8},   {32, 2, 1. / 32}};
  for (const auto &[group, rows, left] : cases) {
    SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(group));
    const auto from = static_cast<int64_t>(std::ceil(packedKeys * left * left));
    EXPECT_EQ(taken(kernel, {rows, from, group}), LaunchForm::Packed);
    EXPECT_EQ(taken(kernel, {rows, 1 << 20, group}), LaunchForm::Packed);
    EXPECT_EQ(taken(kernel, {rows, from - 1, group}),
              from - 1 >= longKeys ? LaunchForm::Long : LaunchForm::Any);
  }
}

/// More blocks to a tile cost what few tiles less save.
TEST(Forms, RowsThatFillTilesAreNotPacked) {
  for (auto [group, rows] : {std::pair<int64_t, int64_t>(7, 64),
                             {4, 64},
                             {7, 128},
                             {2, 33},
                             {7, 1000}})
    for (int64_t keys : {4096, 8192, 1 << 20})
      EXPECT_EQ(taken(kernel, {rows, keys, group}),
                keys < longKeys ? LaunchForm::Any : LaunchForm::Long)
          << rows << " rows of " << group << ", " << keys << " keys";
}

/// Each form is for what it is named after; what a device does not run is as if
/// it were not there.
TEST(Forms, AreThoseThatRun) {
  Kernel two = kernelWith({launchForms.begin(), launchForms.end()});
  two.variants.push_back(two.variants[1]);
  two.variants.back().dtype = "f16";
  LaunchForms forms(two, two.variants.front(), [](const KernelVariant &form) {
    return form.form != LaunchForm::Packed;
  });
  EXPECT_EQ(forms[LaunchForm::Packed], nullptr);
  EXPECT_EQ(forms[LaunchForm::Long], &two.variants[1]);
  EXPECT_EQ(forms.of({16, 4096, 7}), LaunchForm::Any);
  EXPECT_EQ(forms.of({16, 65536, 7}), LaunchForm::Long);
  forms = LaunchForms(two, two.variants.back(), always);
  EXPECT_EQ(forms[LaunchForm::Any], nullptr);
  EXPECT_EQ(forms[LaunchForm::Long], &two.variants.back());
}

TEST(Forms, TilesAreOfAllHeadsWhereRowsArePacked) {
  // Blocks of a cluster, of whose tile each has a part.
  EXPECT_EQ(tilesOf(kernel.variants[0], 65, 7), 2);
  EXPECT_EQ(tilesOf(kernel.variants[1], 16, 7), 1);
  EXPECT_EQ(tilesOf(kernel.variants[2], 16, 7), 14);
  EXPECT_EQ(tilesOf(kernel.variants[2], 0, 7), 0);
}

} // namespace
