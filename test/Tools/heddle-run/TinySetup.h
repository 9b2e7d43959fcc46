//===- TinySetup.h - A model folder and bundles to run ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_TOOLS_HEDDLE_RUN_TINYSETUP_H
#define HEDDLE_TEST_TOOLS_HEDDLE_RUN_TINYSETUP_H

#include "runtime/test/model/TinyModel.h"

#include <string>

namespace heddle::run::test {

/// A folder with a random model of 280 tokens (0 to 255 bytes, 256 end of text,
/// 257 end of turn, 279 the mask; 160 positions) and two bundles of
/// hand-written kernels, dense.hdl and window.hdl. `dream`: of Dream's
/// architecture.
class TinySetup {
public:
  explicit TinySetup(bool withTokenizer = true, bool dream = false);

  /// "-m FOLDER -b FOLDER/dense.hdl ".
  std::string dense() const { return with("dense.hdl"); }
  std::string with(const std::string &bundle) const {
    return "-m " + path() + " -b " + path() + "/" + bundle + " ";
  }
  const std::string &path() const { return folder.path; }
  std::string write(const std::string &name, const std::string &bytes) const {
    return folder.write(name, bytes);
  }

private:
  rt::test::TemporaryFolder folder;
};

} // namespace heddle::run::test

#endif // HEDDLE_TEST_TOOLS_HEDDLE_RUN_TINYSETUP_H
