//===- LogitRowTest.cpp - Passes over one row against plain loops ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/sample/LogitRow.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

using namespace heddle::rt;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<float> randomRow(int64_t size, double spread, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(spread));
  std::vector<float> row(size);
  for (float &value : row)
    value = normal(engine);
  return row;
}

// Around the number of lanes, and a real vocabulary.
const int64_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 1000, 126464};

TEST(LogitRow, ArgmaxIsTheFirstLargest) {
  for (int64_t size : sizes) {
    std::vector<float> row = randomRow(size, 3, 1);
    int64_t expected = 0;
    for (int64_t j = 1; j < size; ++j)
      if (row[j] > row[expected])
        expected = j;
    EXPECT_EQ(argmax(row), expected) << size;
  }
}

TEST(LogitRow, ArgmaxTiesGoToTheLowestIndex) {
  for (int64_t first : {0, 3, 15, 16, 40})
    for (int64_t second : {41, 47, 48, 98}) {
      std::vector<float> row(99, -1.0f);
      row[first] = row[second] = 2.0f;
      EXPECT_EQ(argmax(row), first);
    }
  EXPECT_EQ(argmax(std::vector<float>{0.0f, -0.0f}), 0);
  EXPECT_EQ(argmax(std::vector<float>{-0.0f, 0.0f}), 0);
  EXPECT_EQ(argmax(std::vector<float>(50, -infinity)), 0);
}

TEST(LogitRow, SumOfExponentialsIsAccurate) {
  for (int64_t size : sizes)
    for (double spread : {0.0, 0.1, 3.0, 50.0, 1000.0}) {
      std::vector<float> row = randomRow(size, spread, 2);
      float reference = row[argmax(row)];
      long double expected = 0;
      for (float value : row)
        expected += std::exp(static_cast<long double>(value) - reference);
      EXPECT_NEAR(sumOfExponentials(row, reference) / expected, 1, 1e-14)
          << size << " " << spread;
    }
}

/// Also where one token is nearly certain and the sum is nearly 0.
TEST(LogitRow, EntropyAgreesWithLongDouble) {
  for (int64_t size : sizes)
    for (double spread : {0.0, 1.0, 8.0, 40.0, 300.0})
      for (float lead : {0.0f, 3.0f, 20.0f, 90.0f}) {
        std::vector<float> row = randomRow(size, spread, 7);
        row[size / 2] = row[argmax(row)] + lead;
        float reference = row[argmax(row)];
        long double sum = 0, expected = 0, terms = 0;
        for (float value : row)
          sum += std::exp(static_cast<long double>(value) - reference);
        for (float value : row) {
          long double p =
              std::exp(static_cast<long double>(value) - reference) / sum;
          expected += p * std::log(p + 1e-10L);
          terms += std::abs(p * std::log(p + 1e-10L));
        }
        // A lane adds up to 7,904 terms, all rounded alike if they are equal;
        // ln x near 1 has the absolute error of x.
        EXPECT_NEAR(
            negativeEntropy(row, reference, sumOfExponentials(row, reference)),
            static_cast<double>(expected),
            static_cast<double>(1e-12 * terms + (spread == 0 ? 1e-12 : 1e-14)))
            << size << " " << spread << " " << lead;
      }
  std::vector<float> row = {0, -infinity, -infinity};
  EXPECT_NEAR(negativeEntropy(row, 0, 1), std::log(1 + 1e-10), 1e-24);
}

TEST(LogitRow, ForbiddenEntriesAddNothing) {
  std::vector<float> row = randomRow(100, 3, 3);
  float reference = row[argmax(row)];
  std::vector<float> without = row;
  row.push_back(-infinity);
  EXPECT_NEAR(sumOfExponentials(row, reference),
              sumOfExponentials(without, reference), 1e-12);
}

TEST(LogitRow, FindsWhatIsNotFinite) {
  for (int64_t size : sizes) {
    std::vector<float> row = randomRow(size, 3, 4);
    row[0] = std::numeric_limits<float>::max();
    EXPECT_TRUE(allFinite(row));
    for (float bad : {infinity, -infinity, std::nanf("")})
      for (int64_t at : {int64_t(0), size / 2, size - 1}) {
        std::vector<float> broken = row;
        broken[at] = bad;
        EXPECT_FALSE(allFinite(broken)) << size << " " << at;
      }
  }
}

TEST(LogitRow, GuidanceRoundsEachOperation) {
  std::vector<float> row = randomRow(1000, 3, 5), other = randomRow(1000, 3, 6);
  std::vector<float> guided = row;
  guide(guided, other, 1.5);
  for (size_t j = 0; j < row.size(); ++j) {
    volatile float difference = row[j] - other[j];
    volatile float product = 2.5f * difference;
    EXPECT_EQ(guided[j], other[j] + product);
  }
}

} // namespace
