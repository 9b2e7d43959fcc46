//===- Runner.h - A model that stays loaded ---------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What heddle-run does in one process after the other, for a process that keeps
// its model.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMBED_RUNNER_H
#define HEDDLE_EMBED_RUNNER_H

#include "Process.h"

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"
#include "runtime/denoise/Denoise.h"
#include "runtime/engine/Device.h"
#include "runtime/text/Tokenizer.h"
#include "tools/heddle-run/Options.h"
#include "tools/heddle-run/Prompts.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace heddle::embed {

struct Response {
  rt::Generation generation;
  std::vector<int64_t> promptLengths; ///< [sequences]
  std::vector<std::string> texts; ///< [sequences], as heddle-run prints them
  rt::GenerateOptions lengths;    ///< with what was left open filled in
};

/// A loaded model on a device. Thread-safe: runs of one model come one after
/// the other; steps of models on the host take turns, since each uses all
/// cores.
class Runner {
public:
  /// `dtype`: none for the one of the weights, or the nearest that the device
  /// computes in. `interrupted` is polled while the weights are read.
  static Result<std::unique_ptr<Runner>>
  load(const std::string &folder, const std::string &device,
       std::optional<rt::DType> dtype, std::function<bool()> interrupted);

  /// Runs the prompts, each a text or ids. Of `options` what concerns prompts
  /// (chat, system), lengths and sampling counts. Refused: a closed model, a
  /// forked process, a call from this run's own observer. `interrupted` is
  /// polled while runs of other threads are waited for.
  Result<Response> generate(const bundle::Bundle &bundle,
                            std::vector<run::Prompt> prompts,
                            run::RunOptions options,
                            const rt::StepObserver &observer,
                            const Interrupted &interrupted = {});

  Result<std::vector<int32_t>> encode(const std::string &text) const;
  Result<std::string> decode(const std::vector<int32_t> &ids,
                             bool skipSpecial) const;

  /// Frees the model; waits for a run of another thread to end, and polls
  /// `interrupted` meanwhile.
  Status close(const Interrupted &interrupted = {});
  bool closed() const { return isClosed; }

  const rt::ModelConfig &config() const { return shape; }
  /// The token that ends a message, -1: the tokenizer has none.
  int32_t endOfTurnToken() const { return endOfTurn; }
  rt::DType dtype() const { return type; }
  const std::string &description() const { return about; }
  int64_t weightBytes() const { return bytes; }

private:
  Runner() = default;
  Status enter();
  Result<rt::GenerateOptions>
  resolve(const run::RunOptions &options,
          const std::vector<std::vector<int32_t>> &prompts) const;

  std::string folder;
  std::string about;
  bool onHost = true;
  rt::DType type = rt::DType::F32;
  rt::ModelConfig shape;
  int64_t bytes = 0;
  std::unique_ptr<rt::Tokenizer> tokenizer; ///< null: the folder has none
  int32_t endOfTurn = -1;
  std::unique_ptr<rt::Device> device;
  std::timed_mutex running;
  std::atomic<std::thread::id> runner; ///< the thread that holds `running`
  std::atomic<bool> isClosed = false;
};

} // namespace heddle::embed

#endif // HEDDLE_EMBED_RUNNER_H
