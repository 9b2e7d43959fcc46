//===- heddle-lsp-server.cpp - Schedules in editors -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Process.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Warp/IR/Warp.h"

#include "mlir/InitAllDialects.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <pthread.h>

namespace {

struct Run {
  int argc;
  char **argv;
  mlir::DialectRegistry &registry;
  bool failed = false;

  static void *entry(void *argument) {
    Run &run = *static_cast<Run *>(argument);
    run.failed =
        mlir::failed(mlir::MlirLspServerMain(run.argc, run.argv, run.registry));
    return nullptr;
  }
};

/// MLIR's parser recurses into brackets, and what an editor sends while
/// somebody types may be anything. heddlec and heddle-opt look at the nesting
/// before they parse; MLIR's server offers no place for that. So it runs on a
/// stack that millions of brackets fit, of which only what is used takes
/// memory.
constexpr size_t stackBytes = size_t(4) << 30;

/// Runs the server on such a stack, or, where there is no address space for
/// one, on this thread's.
bool runServer(Run &run) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_t thread;
  bool started = pthread_attr_setstacksize(&attributes, stackBytes) == 0 &&
                 pthread_create(&thread, &attributes, Run::entry, &run) == 0;
  pthread_attr_destroy(&attributes);
  if (started)
    pthread_join(thread, nullptr);
  else
    Run::entry(&run);
  return !run.failed;
}

} // namespace

int main(int argc, char **argv) {
  ::heddle::bundle::startProgram("heddle-lsp-server");
  // --help is about this tool; libLLVM's own options are on --help-hidden.
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (entry.first != "help" && entry.first != "version")
      entry.second->setHiddenFlag(llvm::cl::Hidden);
  llvm::cl::AddExtraVersionPrinter([](llvm::raw_ostream &os) {
    os << "Heddle version " HEDDLE_VERSION "\n";
  });
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  registry.insert<mlir::heddle::HeddleDialect, mlir::shed::ShedDialect,
                  mlir::warp::WarpDialect>();
  Run run{argc, argv, registry};
  return runServer(run) ? 0 : 1;
}
