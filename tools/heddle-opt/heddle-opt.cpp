//===- heddle-opt.cpp - Runs passes on Heddle's levels of IR --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  llvm::cl::AddExtraVersionPrinter([](llvm::raw_ostream &os) {
    os << "Heddle version " HEDDLE_VERSION "\n";
  });

  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<mlir::heddle::HeddleDialect, mlir::shed::ShedDialect>();

  mlir::registerAllPasses();
  mlir::heddle::registerHeddlePasses();
  mlir::heddle::registerHeddleConversionPasses();
  mlir::shed::registerShedPasses();

  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Heddle's pass driver\n", registry));
}
