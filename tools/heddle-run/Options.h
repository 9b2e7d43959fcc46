//===- Options.h - The command line of heddle-run ---------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_OPTIONS_H
#define HEDDLE_TOOLS_HEDDLE_RUN_OPTIONS_H

#include "bundle/Result.h"
#include "runtime/denoise/Denoise.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heddle::run {

/// Exit codes; 0 is success.
inline constexpr int exitFailure = 1; ///< bad model, bundle, prompt; no memory
inline constexpr int exitUsage = 2;   ///< the command line makes no sense
inline constexpr int exitInterrupted = 130;

/// Where prompts come from. Exactly one source is used.
struct PromptSource {
  enum class Kind { Argument, File, Lines, Ids, StandardInput };
  Kind kind = Kind::StandardInput;
  std::string value;            ///< the prompt, or a file's path ("-": stdin)
  std::vector<std::string> ids; ///< "1,2,3", one a sequence
};

struct RunOptions {
  std::string model;
  std::string bundle;
  std::vector<std::string> digests; ///< SHA-256 that bundles must have; any
  bool rebuild = false;             ///< compile the bundles' schedules anew
  std::string compareDense;         ///< empty: no comparison

  PromptSource prompt;
  bool chat = false;
  std::string system;

  std::optional<int64_t> genLength, steps, blockLength;
  std::string commitOrderFile;      ///< read to the following; empty: none
  std::vector<int32_t> commitOrder; ///< in place of the file's, if not empty
  rt::SampleOptions sampling;       ///< but for what follows; see Sampling.h
  std::optional<double> temperature, eps, topP, algTemp;
  std::optional<int64_t> topK;
  std::optional<std::string> alg;
  /// Options given that only models of one family have.
  std::vector<std::string> blockOptions, timestepOptions;
  std::optional<int32_t> eotToken; ///< when the tokenizer does not say

  std::string device = "cpu";     ///< as rt::DeviceOptions::name
  std::optional<rt::DType> dtype; ///< none: chosen, see DTypeChoice.h
  bool randomWeights = false;
  int threads = 0; ///< 0: one per core

  bool json = false;
  std::string stepsJson;   ///< a path, "-" for standard output, or empty
  std::string trace;       ///< likewise
  std::string record;      ///< a path, or empty
  int64_t recordCells = 0; ///< of a map's side; 0: as many as fit
  int64_t recordEvery = 0; ///< steps from map to map; 0: some 16 maps
  bool visual = false;
  bool quiet = false;
  bool progress = true;
  bool raw = false;
  bool info = false;
};

/// The options, or the exit code of a program that ends here (after --help,
/// --version or a message on standard error).
std::variant<RunOptions, int> parseCommandLine(int argc, char **argv);

/// Fills in the lengths that were not given, for a model with `room` positions
/// behind its longest prompt, as explain::resolveLengths() says, and the order
/// of commits. `lengths.sampling` has been settled.
void resolveLengths(const RunOptions &options, int64_t room,
                    rt::GenerateOptions &lengths);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_OPTIONS_H
