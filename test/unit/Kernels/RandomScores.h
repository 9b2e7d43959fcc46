//===- RandomScores.h - Functions of logits at random -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_RANDOMSCORES_H
#define HEDDLE_TEST_UNIT_KERNELS_RANDOMSCORES_H

#include "bundle/program/Scores.h"

#include <random>
#include <string>

namespace heddle::test {

/// Some ten operations of all kinds, ended so that the result is finite and
/// small: a bounded part of it is added to the logit, some pairs are masked.
/// What rounding could turn over (comparisons of floats) is left out.
bundle::Scores randomScores(std::mt19937 &random);

/// `scores(...) {...}` as a schedule has it.
std::string regionOf(const bundle::Scores &scores);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_RANDOMSCORES_H
