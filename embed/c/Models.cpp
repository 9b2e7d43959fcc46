//===- Models.cpp - The C API: loading and running models -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support.h"

#include "runtime/base/Json.h"

#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::embed;
using namespace heddle::embed::c;

namespace {

std::string describe(const Runner &runner) {
  const rt::ModelConfig &config = runner.config();
  nlohmann::json about = {
      {"device", runner.description()},
      {"dtype", rt::name(runner.dtype())},
      {"weight_bytes", runner.weightBytes()},
      {"architecture", config.architecture},
      {"sampler",
       config.sampler == rt::SamplerFamily::Timesteps ? "timesteps" : "blocks"},
      {"layers", config.layers},
      {"hidden", config.hidden},
      {"query_heads", config.queryHeads},
      {"kv_heads", config.kvHeads},
      {"head_dim", config.headDim},
      {"vocabulary", config.vocabSize},
      {"max_sequence_length", config.maxSequenceLength},
      {"mask_token", config.maskToken},
      {"eos_token", config.eosToken}};
  return about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

OptionValue toValue(const std::string &name, const nlohmann::json &value) {
  if (value.is_boolean())
    return value.get<bool>();
  if (value.is_number_unsigned())
    return value.get<uint64_t>();
  if (value.is_number_integer())
    return value.get<int64_t>();
  if (value.is_number_float())
    return value.get<double>();
  if (value.is_string())
    return value.get<std::string>();
  std::vector<int32_t> numbers;
  for (const nlohmann::json &number : value) {
    if (!value.is_array() || !number.is_number_integer() ||
        number.get<int64_t>() != number.get<int32_t>())
      invalid("options: " + name + " is " + value.dump() +
              "; expected a truth, a number, a string or small integers");
    numbers.push_back(number.get<int32_t>());
  }
  return numbers;
}

run::RunOptions toOptions(const char *text) {
  run::RunOptions options;
  if (!text)
    return options;
  Result<nlohmann::json> parsed = rt::parseJsonObject(text);
  if (!parsed)
    invalid("options: " + parsed.error().text());
  for (const auto &[name, value] : parsed->items()) {
    Result<OptionProblem> set = setOption(options, name, toValue(name, value));
    if (!set)
      invalid(set.error().text());
    if (*set == OptionProblem::NoSuchName)
      invalid("options: there is no '" + name + "'");
    if (*set == OptionProblem::WrongType)
      invalid("options: " + name + ": " + value.dump() +
              " has the wrong type, or is out of range");
  }
  return options;
}

std::vector<run::Prompt> toPrompts(const heddle_prompt *prompts, size_t count) {
  if (count)
    given(prompts, "prompts");
  std::vector<run::Prompt> made;
  for (size_t i = 0; i < count; ++i) {
    const heddle_prompt &prompt = prompts[i];
    std::string which = "prompt " + std::to_string(i);
    if (prompt.text && (prompt.ids || prompt.count))
      invalid(which + " has both a text and ids; expected one of them");
    if (!prompt.text && prompt.count)
      given(prompt.ids, (which + ": ids").c_str());
    if (prompt.text)
      made.push_back({.text = prompt.text, .ids = {}, .isText = true});
    else
      made.push_back({.text = {},
                      .ids = {prompt.ids, prompt.ids + prompt.count},
                      .isText = false});
  }
  return made;
}

/// Makes a run known to heddle_model_cancel() for as long as it lasts.
class Cancellable {
public:
  explicit Cancellable(ModelObject &model) : model(model) {
    std::lock_guard<std::mutex> lock(model.mutex);
    model.runs.push_back(&flag);
  }
  ~Cancellable() {
    std::lock_guard<std::mutex> lock(model.mutex);
    std::erase(model.runs, &flag);
  }
  Cancellable(const Cancellable &) = delete;
  Cancellable &operator=(const Cancellable &) = delete;

  bool cancelled() const { return flag; }

private:
  ModelObject &model;
  std::atomic<bool> flag = false;
};

/// Whether the run goes on.
bool tell(const heddle_generate_options &options,
          const rt::StepRecord &record) {
  if (!options.on_step)
    return true;
  std::vector<int64_t> sequences, positions, steps;
  std::vector<int32_t> tokens;
  std::vector<double> confidences;
  for (const rt::Commit &commit : record.commits) {
    sequences.push_back(commit.sequence);
    positions.push_back(commit.position);
    tokens.push_back(commit.token);
    confidences.push_back(commit.confidence);
    steps.push_back(commit.step > 0 ? commit.step : record.step);
  }
  heddle_step step{};
  step.size = sizeof(step);
  step.step = record.step;
  step.total_steps = record.totalSteps;
  step.block = record.block;
  step.commits = record.commits.size();
  step.sequences = sequences.data();
  step.positions = positions.data();
  step.tokens = tokens.data();
  step.confidences = confidences.data();
  step.rows = record.rowsComputed;
  step.seconds = record.seconds;
  step.steps = steps.data();
  return options.on_step(&step, options.user_data) == 0;
}

} // namespace

heddle_status heddle_model_load(const char *folder,
                                const heddle_load_options *given_options,
                                heddle_model **model) {
  return answer([&] {
    place(model, "model");
    given(folder, "folder");
    heddle_load_options options = read(given_options, "heddle_load_options");
    std::optional<rt::DType> dtype;
    if (options.dtype && !(dtype = rt::dtypeNamed(options.dtype)))
      invalid(std::string("dtype: '") + options.dtype +
              "' is none of f32, bf16, f16");
    bool ended = false;
    Result<std::unique_ptr<Runner>> runner = Runner::load(
        folder, options.device ? options.device : "cpu", dtype, [&] {
          return options.interrupted &&
                 (ended = ended || options.interrupted(options.user_data));
        });
    if (!runner && ended)
      throw Failure{HEDDLE_INTERRUPTED, "the load was ended by its caller"};
    auto object = std::make_shared<ModelObject>();
    object->runner = orFail(std::move(runner));
    object->about = describe(*object->runner);
    *model = models().add(std::move(object));
  });
}

heddle_status heddle_model_describe(heddle_model *model, const char **json) {
  return answer([&] {
    place(json, "json");
    *json = models().get(model)->about.c_str();
  });
}

heddle_status heddle_model_encode(heddle_model *model, const char *text,
                                  int32_t *ids, size_t capacity,
                                  size_t *count) {
  return answer([&] {
    place(count, "count");
    if (capacity)
      given(ids, "ids");
    std::vector<int32_t> made =
        orFail(models().get(model)->runner->encode(given(text, "text")));
    std::copy_n(made.begin(), std::min(capacity, made.size()), ids);
    *count = made.size();
  });
}

heddle_status heddle_model_decode(heddle_model *model, const int32_t *ids,
                                  size_t count, char *text, size_t capacity,
                                  size_t *length) {
  return answer([&] {
    place(length, "length");
    if (capacity)
      *given(text, "text") = 0;
    if (count)
      given(ids, "ids");
    std::string made = orFail(models().get(model)->runner->decode(
        std::vector<int32_t>(ids, ids + count), /*skipSpecial=*/true));
    if (capacity) {
      size_t fits = std::min(capacity - 1, made.size());
      std::memcpy(text, made.data(), fits);
      text[fits] = 0;
    }
    *length = made.size();
  });
}

heddle_status heddle_model_cancel(heddle_model *handle) {
  return answer([&] {
    std::shared_ptr<ModelObject> model = models().get(handle);
    std::lock_guard<std::mutex> lock(model->mutex);
    for (std::atomic<bool> *flag : model->runs)
      *flag = true;
  });
}

heddle_status heddle_model_destroy(heddle_model *model) {
  return answer([&] {
    if (!model)
      return;
    // Refused for a callback of the model's own run, which needs it.
    orFail(models().get(model)->runner->close());
    models().take(model);
  });
}

heddle_status heddle_generate(heddle_model *model, heddle_bundle *bundle,
                              const heddle_prompt *prompts, size_t count,
                              const heddle_generate_options *given_options,
                              heddle_generation **generation) {
  return answer([&] {
    place(generation, "generation");
    std::shared_ptr<ModelObject> runs = models().get(model);
    std::shared_ptr<BundleObject> schedule = bundles().get(bundle);
    heddle_generate_options options =
        read(given_options, "heddle_generate_options");
    auto made = std::make_shared<GenerationObject>();
    Cancellable run(*runs);
    made->response = orFail(runs->runner->generate(
        schedule->bundle, toPrompts(prompts, count), toOptions(options.json),
        [&](const rt::StepRecord &record) {
          made->seconds += record.seconds;
          return tell(options, record) && !run.cancelled();
        }));
    *generation = generations().add(std::move(made));
  });
}

heddle_status heddle_generation_response(heddle_generation *generation,
                                         size_t index,
                                         heddle_response *response) {
  return answer([&] {
    std::shared_ptr<GenerationObject> object = generations().get(generation);
    const Response &made = object->response;
    if (index >= made.generation.sequences.size())
      invalid("index: " + std::to_string(index) + " of " +
              std::to_string(made.generation.sequences.size()) +
              " responses, which count from 0");
    const std::vector<int32_t> &tokens = made.generation.sequences[index];
    fill(response,
         {.size = 0,
          .tokens = tokens.data(),
          .count = tokens.size(),
          .prompt_count = static_cast<size_t>(made.promptLengths[index]),
          .text = made.texts[index].c_str()},
         "response");
  });
}

heddle_status heddle_generation_summary(heddle_generation *generation,
                                        heddle_summary *summary) {
  return answer([&] {
    std::shared_ptr<GenerationObject> object = generations().get(generation);
    const rt::Generation &made = object->response.generation;
    fill(summary,
         {.size = 0,
          .responses = static_cast<int64_t>(made.sequences.size()),
          .steps = made.stepsDone,
          .complete = made.complete,
          .seconds = object->seconds},
         "summary");
  });
}

heddle_status heddle_generation_destroy(heddle_generation *generation) {
  return answer([&] {
    if (generation)
      generations().take(generation);
  });
}
