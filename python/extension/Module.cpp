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

#include "Attention.h"
#include "Runner.h"

#include <cctype>
#include <condition_variable>
#include <tuple>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace heddle::python {

namespace {

/// An Error on its way to Python, where it is heddle.HeddleError.
struct Raised {
  std::string text;
};

/// Calls that compute without the GIL. The interpreter must not end under them:
/// it would end their threads where C++ cannot be left.
class Calls {
public:
  /// One call, from before the GIL is released until it is held again.
  class One {
  public:
    One() {
      std::lock_guard<std::mutex> lock(all().mutex);
      if (all().ending)
        throw Raised{"the interpreter is ending"};
      ++all().count;
    }
    ~One() {
      std::lock_guard<std::mutex> lock(all().mutex);
      --all().count;
      all().changed.notify_all();
    }
    One(const One &) = delete;
    One &operator=(const One &) = delete;
  };

  /// Whether calls are to end soon.
  static bool areEnding() { return all().ending; }

  /// Has all calls end after their step, and waits for them.
  static void end() {
    nb::gil_scoped_release released;
    std::unique_lock<std::mutex> lock(all().mutex);
    all().ending = true;
    all().changed.wait(lock, [] { return all().count == 0; });
  }

private:
  static Calls &all() {
    static Calls calls;
    return calls;
  }

  std::mutex mutex;
  std::condition_variable changed;
  int64_t count = 0;
  std::atomic<bool> ending = false;
};

/// "--gen-length" as Python spells it: "gen_length".
std::string inPython(const std::string &text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "--") != 0 || i + 2 >= text.size() ||
        !std::islower(static_cast<unsigned char>(text[i + 2])) ||
        (i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1])))) {
      result += text[i];
      continue;
    }
    for (i += 2;
         i < text.size() &&
         (std::islower(static_cast<unsigned char>(text[i])) || text[i] == '-');
         ++i)
      result += text[i] == '-' ? '_' : text[i];
    --i;
  }
  return result;
}

template <typename T> T orRaise(Result<T> result) {
  if (!result)
    throw Raised{inPython(result.error().text())};
  return std::move(*result);
}

void orRaise(Status status) {
  if (!status)
    throw Raised{inPython(status.error().text())};
}

/// A NumPy array [size] that owns its numbers.
template <typename T> nb::object toArray(std::vector<T> values) {
  auto *owned = new std::vector<T>(std::move(values));
  nb::capsule owner(
      owned, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
  size_t size = owned->size();
  return nb::cast(
      nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {size}, owner));
}

const std::pair<const char *, rt::DType> dtypes[] = {{"f32", rt::DType::F32},
                                                     {"bf16", rt::DType::BF16},
                                                     {"f16", rt::DType::F16}};

std::optional<rt::DType> dtypeNamed(const std::optional<std::string> &name) {
  if (!name)
    return std::nullopt;
  for (auto [known, dtype] : dtypes)
    if (*name == known)
      return dtype;
  throw Raised{"dtype: '" + *name + "' is none of f32, bf16, f16"};
}

std::string nameOf(rt::DType dtype) {
  for (auto [name, known] : dtypes)
    if (dtype == known)
      return name;
  return "?";
}

/// Python's pending exception, kept while C++ unwinds to where it may fly.
class Pending {
public:
  /// Calls what may raise; true when it did not. Holds the GIL meanwhile.
  template <typename Function> bool call(Function function) {
    if (Calls::areEnding())
      return false;
    nb::gil_scoped_acquire held;
    try {
      if (PyErr_CheckSignals() != 0)
        throw nb::python_error();
      return function();
    } catch (nb::python_error &error) {
      kept.emplace(std::move(error));
      return false;
    }
  }
  bool there() const { return kept.has_value(); }
  void raise() {
    if (kept)
      throw nb::python_error(std::move(*kept));
  }

private:
  std::optional<nb::python_error> kept;
};

/// What step observers get: see heddle.Step.
nb::dict stepDict(const rt::StepRecord &record) {
  std::vector<int64_t> sequences, positions;
  std::vector<int32_t> tokens;
  std::vector<double> confidences;
  for (const rt::Commit &commit : record.commits) {
    sequences.push_back(commit.sequence);
    positions.push_back(commit.position);
    tokens.push_back(commit.token);
    confidences.push_back(commit.confidence);
  }
  nb::dict step;
  step["step"] = record.step;
  step["total_steps"] = record.totalSteps;
  step["block"] = record.block;
  step["sequences"] = toArray(std::move(sequences));
  step["positions"] = toArray(std::move(positions));
  step["tokens"] = toArray(std::move(tokens));
  step["confidences"] = toArray(std::move(confidences));
  step["rows"] = record.rowsComputed;
  step["pairs"] = record.counters.pairs;
  step["dense_pairs"] = record.counters.densePairs;
  step["seconds"] = record.seconds;
  return step;
}

/// The keyword arguments of a run as heddle-run's options.
run::RunOptions toOptions(const nb::dict &given) {
  run::RunOptions options;
  rt::SampleOptions &sampling = options.sampling;
  for (auto [key, value] : given) {
    std::string name = nb::cast<std::string>(key);
    try {
      if (name == "gen_length")
        options.genLength = nb::cast<int64_t>(value);
      else if (name == "steps")
        options.steps = nb::cast<int64_t>(value);
      else if (name == "block_length")
        options.blockLength = nb::cast<int64_t>(value);
      else if (name == "temperature")
        options.temperature = nb::cast<double>(value);
      else if (name == "seed")
        sampling.seed = nb::cast<uint64_t>(value);
      else if (name == "cfg_scale")
        sampling.cfgScale = nb::cast<double>(value);
      else if (name == "remasking") {
        std::string kind = nb::cast<std::string>(value);
        if (kind != "low_confidence" && kind != "random")
          throw Raised{"remasking: '" + kind +
                       "' is none of low_confidence, random"};
        sampling.remasking = kind == "random" ? rt::Remasking::Random
                                              : rt::Remasking::LowConfidence;
      } else if (name == "logits_eos_inf")
        sampling.logitsEosInf = nb::cast<bool>(value);
      else if (name == "confidence_eos_eot_inf")
        sampling.confidenceEosEotInf = nb::cast<bool>(value);
      else if (name == "alg")
        options.alg = nb::cast<std::string>(value);
      else if (name == "alg_temp")
        options.algTemp = nb::cast<double>(value);
      else if (name == "eps")
        options.eps = nb::cast<double>(value);
      else if (name == "top_p")
        options.topP = nb::cast<double>(value);
      else if (name == "top_k")
        options.topK = nb::cast<int64_t>(value);
      else if (name == "eot_id")
        options.eotToken = nb::cast<int32_t>(value);
      else if (name == "chat")
        options.chat = nb::cast<bool>(value);
      else if (name == "system")
        options.system = nb::cast<std::string>(value);
      else if (name == "raw")
        options.raw = nb::cast<bool>(value);
      else
        throw nb::type_error(("no option '" + name + "'").c_str());
    } catch (const nb::cast_error &) {
      std::string text = nb::cast<std::string>(nb::repr(value));
      throw nb::type_error((name + ": " + text +
                            " has the wrong type, or is "
                            "out of range")
                               .c_str());
    }
    if (name == "cfg_scale" || name == "remasking" ||
        name == "logits_eos_inf" || name == "confidence_eos_eot_inf")
      options.blockOptions.push_back(name);
    if (name == "alg" || name == "alg_temp" || name == "eps" ||
        name == "top_p" || name == "top_k")
      options.timestepOptions.push_back(name);
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
  Result<Response> made = [&] {
    nb::gil_scoped_release released;
    return runner.generate(bundle, std::move(prompts), std::move(options),
                           [&](const rt::StepRecord &record) {
                             seconds += record.seconds;
                             return pending.call([&] {
                               if (!watched)
                                 return true;
                               nb::object answer = onStep(stepDict(record));
                               return !answer.is(nb::handle(Py_False));
                             });
                           });
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
  return result;
}

std::unique_ptr<Runner> load(const std::string &folder,
                             const std::string &device,
                             const std::optional<std::string> &dtype) {
  Calls::One counted;
  Pending pending;
  std::optional<rt::DType> type = dtypeNamed(dtype);
  auto loaded = [&] {
    nb::gil_scoped_release released;
    return Runner::load(folder, device, type,
                        [&] { return !pending.call([] { return true; }); });
  }();
  pending.raise();
  return orRaise(std::move(loaded));
}

using Tensor = nb::ndarray<nb::ro>;

/// A tensor [batch, length, heads, head_dim] or without batch, as the runtime
/// takes it: `data` of its first row, elements from one row to the next.
std::pair<const void *, int64_t> rowsOf(const Tensor &tensor,
                                        const std::string &name, int64_t heads,
                                        const AttentionShape &shape) {
  if (tensor.device_type() != nb::device::cpu::value)
    throw Raised{name +
                 " is not in the host's memory; attention of GPU tensors "
                 "is not there yet"};
  nb::dlpack::dtype type = tensor.dtype();
  const bool isBF16 = shape.dtype == rt::DType::BF16;
  const auto code =
      isBF16 ? nb::dlpack::dtype_code::Bfloat : nb::dlpack::dtype_code::Float;
  if (type.code != static_cast<uint8_t>(code) || type.lanes != 1 ||
      type.bits != 8 * rt::byteSize(shape.dtype))
    throw Raised{name + " is not of dtype " + nameOf(shape.dtype)};
  const size_t rank = tensor.ndim(), at = rank - 3;
  const bool fits = (rank == 3 || rank == 4) &&
                    (rank == 3 ? 1 : static_cast<int64_t>(tensor.shape(0))) ==
                        shape.sequences &&
                    static_cast<int64_t>(tensor.shape(at)) == shape.length &&
                    static_cast<int64_t>(tensor.shape(at + 1)) == heads &&
                    static_cast<int64_t>(tensor.shape(at + 2)) == shape.headDim;
  if (!fits)
    throw Raised{name + " has not the run's shape"};
  int64_t width = heads * shape.headDim;
  int64_t stride = shape.length > 1 ? tensor.stride(at) : width;
  // Of one sequence, of one row: the batch's stride is the row's.
  if (rank == 4 && shape.length == 1 && shape.sequences > 1)
    stride = tensor.stride(0);
  const bool contiguous =
      (shape.headDim == 1 || tensor.stride(at + 2) == 1) &&
      (heads == 1 || tensor.stride(at + 1) == shape.headDim) &&
      stride >= width &&
      (rank == 3 || shape.sequences == 1 ||
       tensor.stride(0) == shape.length * stride);
  if (!contiguous)
    throw Raised{name +
                 ": strides do not fit; head_dim and heads of a row must "
                 "be contiguous ([.., length, heads, head_dim]), and the "
                 "sequences of a batch follow each other: make it "
                 "contiguous"};
  return {tensor.data(), stride};
}

void attend(Attention &attention, const Tensor &query, const Tensor &key,
            const Tensor &value, const nb::ndarray<> &output, int64_t layer,
            bool once) {
  Calls::One counted;
  const AttentionShape &shape = attention.shape();
  rt::AttentionTensors tensors;
  tensors.queryHeads = shape.queryHeads;
  tensors.kvHeads = shape.kvHeads;
  tensors.headDim = shape.headDim;
  tensors.dtype = shape.dtype;
  std::tie(tensors.query, tensors.queryStride) =
      rowsOf(query, "q", shape.queryHeads, shape);
  std::tie(tensors.key, tensors.keyStride) =
      rowsOf(key, "k", shape.kvHeads, shape);
  std::tie(tensors.value, tensors.valueStride) =
      rowsOf(value, "v", shape.kvHeads, shape);
  tensors.outputStride =
      rowsOf(Tensor(output), "the output", shape.queryHeads, shape).second;
  tensors.output = output.data();
  Status status = [&] {
    nb::gil_scoped_release released;
    return attention.attend(layer, tensors, once);
  }();
  orRaise(std::move(status));
}

std::unique_ptr<Attention> makeAttention(const bundle::Bundle &bundle,
                                         int64_t sequences, int64_t length,
                                         int64_t prompt, int64_t queryHeads,
                                         int64_t kvHeads, int64_t headDim,
                                         int64_t layers, int64_t steps,
                                         const std::string &dtype) {
  AttentionShape shape{.sequences = sequences,
                       .length = length,
                       .prompt = prompt,
                       .queryHeads = queryHeads,
                       .kvHeads = kvHeads,
                       .headDim = headDim,
                       .layers = layers,
                       .steps = steps,
                       .dtype = *dtypeNamed(dtype)};
  return orRaise(Attention::make(bundle, shape));
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
      .def("close",
           [](Runner &runner) {
             Calls::One counted;
             Status status = [&] {
               nb::gil_scoped_release released;
               return runner.close();
             }();
             orRaise(std::move(status));
           })
      .def_prop_ro("closed", &Runner::closed)
      .def_prop_ro("dtype",
                   [](const Runner &runner) { return nameOf(runner.dtype()); })
      .def_prop_ro("description", &Runner::description)
      .def_prop_ro("weight_bytes", &Runner::weightBytes)
      .def_prop_ro("config", [](const Runner &runner) {
        const rt::ModelConfig &config = runner.config();
        nb::dict fields;
        fields["architecture"] = config.architecture;
        fields["layers"] = config.layers;
        fields["hidden"] = config.hidden;
        fields["query_heads"] = config.queryHeads;
        fields["kv_heads"] = config.kvHeads;
        fields["head_dim"] = config.headDim;
        fields["vocabulary"] = config.vocabSize;
        fields["max_sequence_length"] = config.maxSequenceLength;
        fields["mask_token"] = config.maskToken;
        fields["eos_token"] = config.eosToken;
        return fields;
      });

  nb::class_<Attention>(m, "Attention")
      .def(nb::new_(&makeAttention))
      .def("attend", &attend)
      .def("restart",
           [](Attention &attention) { orRaise(attention.restart()); })
      .def_prop_ro("step", &Attention::step);

  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function(&Calls::end));

  m.def("load", &load, "folder"_a, "device"_a, "dtype"_a.none());
  m.def("set_threads", [](int threads) { orRaise(setThreads(threads)); });
}

} // namespace heddle::python
