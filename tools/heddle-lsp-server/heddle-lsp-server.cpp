//===- heddle-lsp-server.cpp - Schedules in editors -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

#include "mlir/InitAllDialects.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  llvm::cl::AddExtraVersionPrinter([](llvm::raw_ostream &os) {
    os << "Heddle version " HEDDLE_VERSION "\n";
  });
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  registry.insert<mlir::heddle::HeddleDialect, mlir::shed::ShedDialect>();
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
