//===- OptionsTest.cpp - Lengths that were not given ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::run;

namespace {

rt::GenerateOptions resolve(const RunOptions &options, int64_t room) {
  rt::GenerateOptions lengths;
  resolveLengths(options, room, lengths);
  return lengths;
}

TEST(ResolveLengths, Defaults) {
  rt::GenerateOptions lengths = resolve({}, 4000);
  EXPECT_EQ(lengths.genLength, 128);
  EXPECT_EQ(lengths.steps, 128);
  EXPECT_EQ(lengths.blockLength, 32);
}

TEST(ResolveLengths, AShortModelGetsWhatItHasRoomFor) {
  EXPECT_EQ(resolve({}, 50).genLength, 50);
  EXPECT_EQ(resolve({}, 50).blockLength, 25);
  EXPECT_EQ(resolve({}, 0).genLength, 1);
  EXPECT_EQ(resolve({}, -7).genLength, 1);
}

TEST(ResolveLengths, BlocksFitTheSteps) {
  RunOptions options;
  options.genLength = 128;
  options.steps = 2; // 4 blocks of 32 would need a multiple of 4
  EXPECT_EQ(resolve(options, 999).blockLength, 64);
  options.steps = 1;
  EXPECT_EQ(resolve(options, 999).blockLength, 128);
  options.steps = 6;
  EXPECT_EQ(resolve(options, 999).blockLength, 64);
  options.genLength = 37; // prime
  options.steps = 37;
  EXPECT_EQ(resolve(options, 999).blockLength, 1);
}

TEST(ResolveLengths, WhatWasGivenStays) {
  RunOptions options;
  options.genLength = 64;
  options.steps = 16;
  options.blockLength = 8;
  rt::GenerateOptions lengths = resolve(options, 10);
  EXPECT_EQ(lengths.genLength, 64);
  EXPECT_EQ(lengths.steps, 16);
  EXPECT_EQ(lengths.blockLength, 8);
  options.genLength = -3; // refused later
  options.blockLength.reset();
  EXPECT_EQ(resolve(options, 10).genLength, -3);
}

TEST(ResolveLengths, DefaultsAlwaysDivide) {
  for (int64_t gen = 1; gen <= 200; ++gen)
    for (int64_t steps = 1; steps <= 70; ++steps) {
      RunOptions options;
      options.genLength = gen;
      options.steps = steps;
      EXPECT_TRUE(rt::checkOptions(resolve(options, 999)))
          << gen << " " << steps;
    }
}

} // namespace
