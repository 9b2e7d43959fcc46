//===- Messages.cpp - Standard error of heddlec ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Messages.h"

#include "bundle/program/Printable.h"

namespace {

class Messages : public llvm::raw_ostream {
public:
  Messages() : raw_ostream(/*unbuffered=*/true) {}

  raw_ostream &changeColor(Colors color, bool bold, bool background) override {
    llvm::errs().changeColor(color, bold, background);
    return *this;
  }
  raw_ostream &resetColor() override {
    llvm::errs().resetColor();
    return *this;
  }
  raw_ostream &reverseColor() override {
    llvm::errs().reverseColor();
    return *this;
  }
  bool is_displayed() const override { return llvm::errs().is_displayed(); }
  bool has_colors() const override { return llvm::errs().has_colors(); }

private:
  void write_impl(const char *text, size_t size) override {
    llvm::errs() << heddle::printableLines({text, size});
  }
  uint64_t current_pos() const override { return 0; }
};

} // namespace

llvm::raw_ostream &mlir::heddle::messages() {
  static Messages stream;
  return stream;
}
