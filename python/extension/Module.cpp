//===- Module.cpp - heddle._heddle: the runtime for Python ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bindings alone: python/heddle/model.py checks types and says what things
// mean.
//
//===----------------------------------------------------------------------===//

#include "Binding.h"

#include "bundle/program/Program.h"
#include "embed/Process.h"
#include "embed/Runner.h"
#include "tools/explain/RequestOptions.h"
#include "tools/heddle-run/Totals.h"

#include <iterator>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace heddle::python {

using embed::Response;
using embed::Runner;

namespace {

/// A NumPy array [size] that owns its numbers.
template <typename T> nb::object toArray(std::vector<T> values) {
  auto *owned = new std::vector<T>(std::move(values));
  nb::capsule owner(
      owned, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
  size_t size = owned->size();
  return nb::cast(
      nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {size}, owner));
}

/// Floating-point operations of a step, as heddle-run counts them.
double operationsOf(const rt::ModelConfig &config,
                    const rt::StepRecord &record) {
  return explain::operationsOf(explain::shapeOf(config),
                               run::workOf(record.counters, record.logitRows));
}

/// What step observers get: see heddle.Step.
nb::dict stepDict(const rt::ModelConfig &config, const rt::StepRecord &record) {
  std::vector<int64_t> sequences, positions, steps;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> revoked, edited;
  std::vector<double> confidences;
  for (const rt::Commit &commit : record.commits) {
    sequences.push_back(commit.sequence);
    positions.push_back(commit.position);
    tokens.push_back(commit.token);
    revoked.push_back(commit.revoked);
    edited.push_back(commit.edited);
    confidences.push_back(commit.confidence);
    steps.push_back(commit.step > 0 ? commit.step : record.step);
  }
  nb::dict step;
  step["step"] = record.step;
  step["total_steps"] = record.totalSteps;
  step["block"] = record.block;
  step["sequences"] = toArray(std::move(sequences));
  step["positions"] = toArray(std::move(positions));
  step["tokens"] = toArray(std::move(tokens));
  step["revoked"] = toArray(std::move(revoked));
  step["edited"] = toArray(std::move(edited));
  step["confidences"] = toArray(std::move(confidences));
  step["steps"] = toArray(std::move(steps));
  step["rows"] = record.rowsComputed;
  step["pairs"] = record.counters.pairs;
  step["dense_pairs"] = record.counters.densePairs;
  step["operations"] = operationsOf(config, record);
  step["refreshes"] = record.counters.refreshes;
  step["salient_rows"] = record.counters.salientRows;
  step["similarity"] = record.counters.similarity;
  nb::list verified;
  for (const rt::Verified &each : record.verified)
    verified.append(nb::make_tuple(each.sequence, each.copies, each.steps));
  step["verified"] = verified;
  step["seconds"] = record.seconds;
  return step;
}

/// What heddle.Generation tells of each step.
struct Timeline {
  std::vector<int64_t> committed, revoked, edited, rows, refreshes;
  std::vector<double> seconds;

  void add(const rt::StepRecord &record) {
    int64_t masks = 0, others = 0;
    for (const rt::Commit &commit : record.commits) {
      masks += commit.revoked;
      others += commit.edited;
    }
    revoked.push_back(masks);
    edited.push_back(others);
    committed.push_back(std::ssize(record.commits) - masks - others);
    rows.push_back(record.rowsComputed);
    refreshes.push_back(record.counters.refreshes);
    seconds.push_back(record.seconds);
  }
  nb::dict take() {
    nb::dict result;
    result["committed"] = toArray(std::move(committed));
    result["revoked"] = toArray(std::move(revoked));
    result["edited"] = toArray(std::move(edited));
    result["rows"] = toArray(std::move(rows));
    result["refreshes"] = toArray(std::move(refreshes));
    result["seconds"] = toArray(std::move(seconds));
    return result;
  }
};

embed::OptionValue toValue(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value))
    return nb::cast<bool>(value);
  if (nb::isinstance<nb::str>(value))
    return nb::cast<std::string>(value);
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value))
    return nb::cast<std::vector<int32_t>>(value);
  int64_t integer = 0;
  uint64_t large = 0;
  if (!nb::isinstance<nb::float_>(value)) {
    if (nb::try_cast(value, integer))
      return integer;
    if (nb::try_cast(value, large))
      return large;
  }
  return nb::cast<double>(value);
}

/// The keyword arguments of a run as heddle-run's options.
run::RunOptions toOptions(const nb::dict &given) {
  run::RunOptions options;
  for (auto [key, value] : given) {
    std::string name = nb::cast<std::string>(key);
    embed::OptionProblem problem = embed::OptionProblem::WrongType;
    try {
      problem = orRaise(embed::setOption(options, name, toValue(value)));
    } catch (const nb::cast_error &) {
    }
    if (problem == embed::OptionProblem::NoSuchName)
      throw nb::type_error(("no option '" + name + "'").c_str());
    if (problem == embed::OptionProblem::WrongType) {
      std::string text = nb::cast<std::string>(nb::repr(value));
      throw nb::type_error((name + ": " + text +
                            " has the wrong type, or is "
                            "out of range")
                               .c_str());
    }
  }
  return options;
}

using PromptArgument = std::variant<std::string, std::vector<int32_t>>;

nb::dict generate(Runner &runner, const bundle::Bundle &bundle,
                  const std::vector<PromptArgument> &arguments,
                  const nb::dict &given, nb::object onStep) {
  run::RunOptions options = toOptions(given);
  std::vector<run::Prompt> prompts;
  for (const PromptArgument &argument : arguments)
    if (const auto *text = std::get_if<std::string>(&argument))
      prompts.push_back({.text = *text, .ids = {}, .isText = true});
    else
      prompts.push_back({.text = {},
                         .ids = std::get<std::vector<int32_t>>(argument),
                         .isText = false});
  Calls::One counted;
  Pending pending;
  bool watched = !onStep.is_none();
  double seconds = 0;
  Timeline timeline;
  Result<Response> made = [&] {
    nb::gil_scoped_release released;
    return runner.generate(
        bundle, std::move(prompts), std::move(options),
        [&](const rt::StepRecord &record) {
          seconds += record.seconds;
          timeline.add(record);
          return pending.call([&] {
            if (!watched)
              return true;
            nb::object answer = onStep(stepDict(runner.config(), record));
            return !answer.is(nb::handle(Py_False));
          });
        },
        [&] { return pending.interrupts(); });
  }();
  pending.raise();
  Response response = orRaise(std::move(made));
  nb::list sequences, texts;
  for (std::vector<int32_t> &sequence : response.generation.sequences)
    sequences.append(toArray(std::move(sequence)));
  for (const std::string &text : response.texts)
    texts.append(nb::str(text.data(), text.size()));
  nb::dict result;
  result["sequences"] = sequences;
  result["prompt_lengths"] = response.promptLengths;
  result["texts"] = texts;
  result["steps"] = response.generation.stepsDone;
  result["complete"] = response.generation.complete;
  result["seconds"] = seconds;
  result["timeline"] = timeline.take();
  return result;
}

std::unique_ptr<Runner> load(const std::string &folder,
                             const std::string &device,
                             const std::optional<std::string> &dtype) {
  Calls::One counted;
  Pending pending;
  std::optional<rt::DType> type;
  if (dtype && !(type = rt::dtypeNamed(*dtype)))
    throw Raised{"dtype: '" + *dtype + "' is none of f32, bf16, f16"};
  auto loaded = [&] {
    nb::gil_scoped_release released;
    return Runner::load(folder, device, type,
                        [&] { return pending.interrupts(); });
  }();
  pending.raise();
  return orRaise(std::move(loaded));
}

} // namespace

NB_MODULE(_heddle, m) {
  // Threads that end with the interpreter still hold what they used.
  nb::set_leak_warnings(false);
  m.doc() = "The runtime of the package heddle; use heddle.load instead.";
  static PyObject *errorType =
      nb::object(nb::module_::import_("heddle.errors").attr("HeddleError"))
          .release()
          .ptr();
  nb::register_exception_translator([](const std::exception_ptr &p, void *) {
    try {
      std::rethrow_exception(p);
    } catch (const Raised &raised) {
      nb::object text = nb::steal(PyUnicode_DecodeUTF8(
          raised.text.data(), raised.text.size(), "replace"));
      PyErr_SetObject(errorType, text.ptr());
    }
  });

  m.def("without_dashes", &embed::withoutDashes, "text"_a);
  nb::class_<bundle::Bundle>(m, "Bundle")
      .def_static(
          "parse",
          [](nb::bytes bytes, const std::string &name) {
            return orRaise(bundle::Bundle::parse(
                std::string(bytes.c_str(), bytes.size()), name));
          },
          "bytes"_a, "name"_a)
      .def_prop_ro(
          "schedule",
          [](const bundle::Bundle &b) { return b.manifest().schedule; })
      .def_prop_ro(
          "producer",
          [](const bundle::Bundle &b) { return b.manifest().producer; })
      .def_prop_ro("revokes",
                   [](const bundle::Bundle &b) {
                     return anyCommit(b.manifest(),
                                      &bundle::CommitRule::revokes);
                   })
      .def_prop_ro("edits",
                   [](const bundle::Bundle &b) {
                     return anyCommit(b.manifest(), &bundle::CommitRule::edits);
                   })
      .def_prop_ro("targets",
                   [](const bundle::Bundle &b) {
                     std::vector<std::string> names;
                     for (const bundle::Target &target : b.manifest().targets)
                       names.push_back(toString(target));
                     return names;
                   })
      .def_prop_ro("source", [](const bundle::Bundle &b) {
        return std::string(b.section(bundle::scheduleSection));
      });

  nb::class_<Runner>(m, "Runner")
      .def("generate", &generate, "bundle"_a, "prompts"_a, "options"_a,
           "on_step"_a.none())
      .def("encode",
           [](const Runner &runner, const std::string &text) {
             return toArray(orRaise(runner.encode(text)));
           })
      .def("decode",
           [](const Runner &runner, const std::vector<int32_t> &ids,
              bool skipSpecial) {
             return orRaise(runner.decode(ids, skipSpecial));
           })
      .def("chat_text",
           [](const Runner &runner,
              const std::vector<std::pair<std::string, std::string>> &given) {
             std::vector<rt::ChatMessage> messages;
             for (const auto &[role, content] : given)
               messages.push_back({role, content});
             return rt::formatChat(runner.config().chat, messages);
           })
      .def("close",
           [](Runner &runner) {
             Calls::One counted;
             Pending pending;
             Status status = [&] {
               nb::gil_scoped_release released;
               return runner.close([&] { return pending.interrupts(); });
             }();
             pending.raise();
             orRaise(std::move(status));
           })
      .def_prop_ro("closed", &Runner::closed)
      .def_prop_ro("dtype",
                   [](const Runner &runner) {
                     return std::string(rt::name(runner.dtype()));
                   })
      .def_prop_ro("description", &Runner::description)
      .def_prop_ro("weight_bytes", &Runner::weightBytes)
      .def_prop_ro("config", [](const Runner &runner) {
        const rt::ModelConfig &config = runner.config();
        nb::dict fields;
        fields["architecture"] = config.architecture;
        fields["sampler"] = config.sampler == rt::SamplerFamily::Timesteps
                                ? "timesteps"
                                : "blocks";
        fields["layers"] = config.layers;
        fields["hidden"] = config.hidden;
        fields["query_heads"] = config.queryHeads;
        fields["kv_heads"] = config.kvHeads;
        fields["head_dim"] = config.headDim;
        fields["vocabulary"] = config.vocabSize;
        fields["max_sequence_length"] = config.maxSequenceLength;
        fields["mask_token"] = config.maskToken;
        fields["eos_token"] = config.eosToken;
        fields["end_of_turn_token"] = runner.endOfTurnToken();
        return fields;
      });

  bindAttention(m);
  bindTensorCalls(m);

  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function(&Calls::end));

  m.def("load", &load, "folder"_a, "device"_a, "dtype"_a.none());
  m.def("set_threads",
        [](int threads) { orRaise(embed::setThreads(threads)); });
}

} // namespace heddle::python
