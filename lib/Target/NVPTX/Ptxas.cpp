//===- Ptxas.cpp - NVIDIA's assembler -------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/NVPTX/Ptxas.h"

#include "heddle/Support/TemporaryFiles.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

using namespace heddle;
using namespace llvm;

std::optional<std::string> heddle::findPtxas() {
  auto in = [](StringRef toolkit) -> std::optional<std::string> {
    SmallString<128> path(toolkit);
    sys::path::append(path, "bin", "ptxas");
    return sys::fs::can_execute(path) ? std::optional(path.str().str())
                                      : std::nullopt;
  };
  for (StringRef variable : {"CUDA_HOME", "CUDA_PATH"})
    if (auto toolkit = sys::Process::GetEnv(variable))
      if (auto path = in(*toolkit))
        return path;
  if (auto path = sys::findProgramByName("ptxas"))
    return *path;
  return in("/usr/local/cuda");
}

Assembled heddle::parsePtxasLog(StringRef log) {
  Assembled result;
  Regex entry("Compiling entry function '([^']+)'");
  Regex properties("^ *([0-9]+) bytes stack frame, ([0-9]+) bytes spill "
                   "stores, ([0-9]+) bytes spill loads");
  Regex registers("Used ([0-9]+) registers");
  Regex complaint("^ptxas (warning|.*\\(C[0-9]+\\))");
  auto number = [](StringRef digits) {
    int64_t value = 0;
    digits.getAsInteger(10, value);
    return value;
  };
  SmallVector<StringRef> match;
  for (StringRef line : split(log, '\n')) {
    if (entry.match(line, &match))
      result.kernels.emplace_back().symbol = match[1].str();
    else if (complaint.match(line))
      result.complaints.push_back(line.split(':').second.trim().str());
    else if (result.kernels.empty())
      continue;
    else if (properties.match(line, &match)) {
      PtxasKernel &kernel = result.kernels.back();
      kernel.stackBytes = std::max(kernel.stackBytes, number(match[1]));
      kernel.spillBytes =
          std::max({kernel.spillBytes, number(match[2]), number(match[3])});
    } else if (registers.match(line, &match)) {
      result.kernels.back().registers = number(match[1]);
    }
  }
  return result;
}

Expected<std::optional<Assembled>> heddle::assemble(StringRef ptxas,
                                                    StringRef chip,
                                                    StringRef ptx,
                                                    std::string &why) {
  TemporaryFiles files;
  Expected<std::string> input = files.add("ptx", ptx);
  if (!input)
    return input.takeError();
  Expected<std::string> output = files.add("cubin");
  if (!output)
    return output.takeError();
  std::string architecture = ("-arch=" + chip).str();
  SmallVector<StringRef> arguments = {"-v", architecture, *input, "-o", *output,
                                      // on all cores, last: see below
                                      "--split-compile", "0"};
  Expected<ProgramResult> run = runProgram(ptxas, arguments, /*seconds=*/1800);
  // Toolkits before 12.1 do not know it.
  if (run && run->status != 0 &&
      StringRef(run->log).contains("Unknown option 'split-compile'")) {
    arguments.pop_back_n(2);
    run = runProgram(ptxas, arguments, /*seconds=*/1800);
  }
  if (!run)
    return run.takeError();
  StringRef log = StringRef(run->log).trim();
  if (run->status != 0) {
    Regex tooOld("fatal *: (Unsupported \\.version .*|Value '[^']*' is not "
                 "defined for option 'gpu-name')");
    SmallVector<StringRef> match;
    if (tooOld.match(log, &match)) {
      why = match[1].split('\n').first.str();
      return std::nullopt;
    }
    return createStringError(ptxas + " refuses the PTX for " + chip + ": " +
                             (log.empty()
                                  ? "exit status " + std::to_string(run->status)
                                  : log.str()));
  }
  Assembled result = parsePtxasLog(log);
  Expected<std::string> cubin = readFile(*output);
  if (!cubin)
    return cubin.takeError();
  if (!StringRef(*cubin).starts_with("\x7f"
                                     "ELF"))
    return createStringError(ptxas + " ended well for " + chip + " but wrote " +
                             std::to_string(cubin->size()) +
                             " bytes that are no ELF file; is it NVIDIA's "
                             "ptxas?");
  result.cubin = std::move(*cubin);
  return result;
}
