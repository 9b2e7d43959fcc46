//===- Says.h - Whether a message says something ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_TEST_SAYS_H
#define HEDDLE_BUNDLE_TEST_SAYS_H

#include <gtest/gtest.h>

#include <string>

namespace heddle::bundle::test {

inline testing::AssertionResult says(const std::string &text,
                                     const std::string &part) {
  if (text.find(part) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "expected \"" << part << "\" in \"" << text << '"';
}

} // namespace heddle::bundle::test

#endif // HEDDLE_BUNDLE_TEST_SAYS_H
