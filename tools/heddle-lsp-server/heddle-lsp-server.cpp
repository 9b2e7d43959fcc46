//===- heddle-lsp-server.cpp - Schedules in editors -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Server.h"

#include "bundle/Process.h"
#include "heddle/Support/StandardOutput.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/LSP/Logging.h"
#include "llvm/Support/LSP/Protocol.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using llvm::lsp::JSONTransport;
using llvm::lsp::Logger;
namespace cl = llvm::cl;

static cl::OptionCategory category("heddle-lsp-server options");
static cl::opt<Logger::Level> logLevel(
    "log", cl::desc("What is written to stderr:"), cl::cat(category),
    cl::values(clEnumValN(Logger::Level::Error, "error", "errors alone"),
               clEnumValN(Logger::Level::Info, "info",
                          "and each message's name"),
               clEnumValN(Logger::Level::Debug, "verbose", "all")),
    cl::init(Logger::Level::Error));
static cl::opt<bool> litTest(
    "lit-test",
    cl::desc("Read messages that lines of '// -----' part, and write them "
             "indented, for tests; a file's scheme may be test:"),
    cl::cat(category));

int main(int argc, char **argv) {
  ::heddle::bundle::startProgram("heddle-lsp-server");
  ::heddle::checkStandardOutputAtExit("heddle-lsp-server");
  // --help is about this tool; libLLVM's own options are on --help-hidden.
  for (auto &entry : cl::getRegisteredOptions())
    if (entry.first != "help" && entry.first != "version" &&
        !llvm::is_contained(entry.second->Categories, &category))
      entry.second->setHiddenFlag(cl::Hidden);
  cl::AddExtraVersionPrinter([](llvm::raw_ostream &os) {
    os << "Heddle version " HEDDLE_VERSION "\n";
  });
  cl::ParseCommandLineOptions(
      argc, argv,
      "Schedules in editors, by the language server protocol on stdin and "
      "stdout\n\nAn editor starts it: see docs/HowTo/Editors.md. Exit code 0 "
      "after the protocol's\nshutdown and exit, else 1.\n\nExample: "
      "heddle-lsp-server --log=info 2> server.log\n");
  Logger::setLogLevel(logLevel);
  if (litTest)
    llvm::lsp::URIForFile::registerSupportedScheme("test");
  llvm::sys::ChangeStdinToBinary();
  JSONTransport transport(stdin, llvm::outs(),
                          litTest ? llvm::lsp::JSONStreamStyle::Delimited
                                  : llvm::lsp::JSONStreamStyle::Standard,
                          /*PrettyOutput=*/litTest);
  return heddle::editor::serve(transport);
}
