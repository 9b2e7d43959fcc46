//===- Options.cpp - The command line of heddle-run -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"
#include "LogFiles.h"
#include "Report.h"

#include "runtime/engine/DTypeChoice.h"
#include "runtime/engine/Device.h"
#include "tools/explain/RunLengths.h"

#include "bundle/abi/Abi.h"
#include "bundle/format/Bundle.h"
#include "bundle/format/File.h"
#include "bundle/program/Printable.h"
#include "tools/CommandLine.h"
#include "tools/trust/Digest.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string_view>

#include <unistd.h>

namespace heddle::run {

namespace {

const char description[] =
    "Generates text with a diffusion language model under a compiled schedule.";

const char examples[] = R"(Examples:
  heddle-run --model DIR --bundle pulsecol.hdl "Add 4821 and 977."
  heddle-run -m DIR -b dense.hdl --chat --visual "Sort 52 17 90 33."
  echo "Sort 52 17 90 33." | heddle-run -m DIR -b dense.hdl --json
  heddle-run -m DIR -b pulsecol.hdl --compare-dense dense.hdl "Add 1 and 2."
  heddle-run -m DIR -b dense.hdl --prompt-ids 1,2,3 --steps-json -
  heddle-run -m DIR -b gpu.hdl --device=cuda "Add 1 and 2."
  heddle-run -m DIR -b dense.hdl --info

A bundle holds machine code: run only bundles that you would run a program
from, or give --rebuild.
Exit codes: 0 success; 1 bad model, bundle or prompt, or too little memory;
2 bad command line; 130 interrupted (what was generated is printed, marked).)";

std::string versionText() {
  return "heddle-run " HEDDLE_VERSION " (bundle format " +
         std::to_string(bundle::formatVersion) + ", kernel ABI " +
         std::to_string(abi::abiVersion) + ")";
}

/// What the parser fills in before sources and devices are settled.
struct Parsed {
  RunOptions options;
  std::string prompt, promptFile, promptsFile;
  std::string dtype, remasking = "low_confidence";
  std::vector<std::string> promptIds;
};

/// Wraps descriptions at 80 columns and leaves out what the library says of its
/// checks.
class HelpFormatter : public CLI::Formatter {
public:
  std::string make_option_opts(const CLI::Option *option) const override {
    return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  }
  std::string make_option_name(const CLI::Option *option,
                               bool isPositional) const override {
    if (isPositional)
      return option->get_name(true, false);
    std::string name = option->get_name(false, true);
    return name.substr(0, name.find('{')); // "--no-progress{false}"
  }
  std::string make_option_desc(const CLI::Option *option) const override {
    std::istringstream words(option->get_description());
    std::string text, word;
    size_t used = 0, room = 79 - column_width_;
    while (words >> word) {
      if (used > 0 && used + 1 + word.size() > room) {
        text += '\n';
        used = 0;
      } else if (used > 0) {
        text += ' ';
        ++used;
      }
      text += word;
      used += word.size();
    }
    return text;
  }
};

CLI::Validator isOneOf(std::vector<std::string> names) {
  auto check = [names = std::move(names)](std::string &text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end())
      return "";
    std::string all;
    for (const std::string &name : names)
      all += (all.empty() ? "" : ", ") + name;
    return "'" + text + "' is none of " + all;
  };
  return CLI::Validator(check, "");
}

/// `type`: what --help calls the number.
template <typename T>
CLI::Option *addNumber(CLI::App &app, const char *name, T &value,
                       const char *type, const char *help) {
  return heddle::addNumber(app, name, value, help)->type_name(type);
}

void addPromptOptions(CLI::App &app, Parsed &parsed) {
  app.option_defaults()->group(
      "Prompt (one of the first four, or standard input)");
  app.add_option("PROMPT", parsed.prompt, "The text to continue");
  app.add_option("--prompt-file", parsed.promptFile,
                 "A file that is one prompt (one final line break is dropped; "
                 "'-' is standard input)")
      ->type_name("FILE");
  app.add_option(
         "--prompts-file", parsed.promptsFile,
         "Several prompts as one batch: a line each, or, if the name "
         "ends in .jsonl, a JSON value a line (blank lines are none): a "
         "string or an object with \"prompt\", \"prompt_ids\" or \"messages\"")
      ->type_name("FILE");
  app.add_option("--prompt-ids", parsed.promptIds,
                 "Token ids instead of text, as 1,2,3; may be repeated for a "
                 "batch. Needs no tokenizer")
      ->type_name("IDS")
      ->allow_extra_args(false);
  app.add_flag("--chat", parsed.options.chat,
               "The prompt is a user's message: put it into the chat template");
  app.add_option("--system", parsed.options.system,
                 "With --chat: the system message")
      ->type_name("TEXT")
      ->needs("--chat");
}

void addGenerationOptions(CLI::App &app, Parsed &parsed) {
  app.option_defaults()->group("Generation");
  RunOptions &options = parsed.options;
  addNumber(app, "--gen-length", options.genLength, "N",
            "Tokens to generate (default: 128, or what the model has room "
            "for)");
  addNumber(app, "--steps", options.steps, "N",
            "Denoising steps in all; blocks share them equally (default: "
            "gen-length, one token a step)");
  addNumber(app, "--temperature", options.temperature, "T",
            "0 takes the likeliest token; more adds noise (default: 0; "
            "Dream: what generation_config.json says)");
  addNumber(app, "--seed", options.sampling.seed, "N",
            "Of the noise; same seed, same tokens (default: 0)");
  app.add_option("--commit-order", options.commitOrderFile,
                 "The order in which a schedule with `commit random_order` "
                 "commits, in place of one drawn by --seed: a text file of the "
                 "response's positions, from 0, each once")
      ->type_name("FILE");
  addNumber(app, "--eot-id", options.eotToken, "ID",
            "The end-of-turn token, if the tokenizer lacks that of the chat "
            "template; -1 for none");
}

/// LLaDA's sampler.
void addBlockOptions(CLI::App &app, Parsed &parsed) {
  app.option_defaults()->group("Models sampled in blocks (LLaDA)");
  RunOptions &options = parsed.options;
  rt::SampleOptions &sampling = options.sampling;
  addNumber(app, "--block-length", options.blockLength, "N",
            "Tokens that are unmasked together before the next ones "
            "(default: the largest divisor of gen-length up to 32 that "
            "fits the steps)");
  addNumber(app, "--cfg-scale", sampling.cfgScale, "S",
            "Classifier-free guidance; above 0 every prompt runs a second "
            "time, masked (default: 0)");
  app.add_option("--remasking", parsed.remasking,
                 "Which predictions stay: low_confidence keeps the surest, "
                 "random any (default: low_confidence)")
      ->check(isOneOf({"low_confidence", "random"}))
      ->type_name("RULE");
  app.add_flag("--logits-eos-inf", sampling.logitsEosInf,
               "Never draw the end-of-sequence token");
  app.add_flag("--confidence-eos-eot-inf", sampling.confidenceEosEotInf,
               "Commit end-of-sequence and end-of-turn last (as the released "
               "code does it: above temperature 0, end-of-turn only)");
}

/// Dream's sampler.
void addTimestepOptions(CLI::App &app, Parsed &parsed) {
  app.option_defaults()->group(
      "Models sampled by timesteps (Dream); defaults: generation_config.json");
  RunOptions &options = parsed.options;
  app.add_option("--alg", options.alg,
                 "Which predictions become tokens: origin any, maskgit_plus "
                 "the likeliest, topk_margin those with the largest gap to the "
                 "next likely, entropy those of least entropy (else: origin)")
      ->type_name("RULE");
  addNumber(app, "--alg-temp", options.algTemp, "T",
            "0 takes the most confident positions; more draws them "
            "(else: 0)");
  addNumber(app, "--eps", options.eps, "E",
            "The last step's time; the first one's is 1 (else: 0.001)");
  addNumber(app, "--top-p", options.topP, "P",
            "Draw from the likeliest tokens of this probability in all "
            "(else: 1, all tokens)");
  addNumber(app, "--top-k", options.topK, "K",
            "Draw from this many likeliest tokens (else: 0, all tokens)");
}

void addOutputOptions(CLI::App &app, Parsed &parsed) {
  app.option_defaults()->group("Output");
  RunOptions &options = parsed.options;
  app.add_flag("--json", options.json,
               "One JSON object on standard output: ids, text, timings, "
               "counters, \"complete\"");
  app.add_option("--steps-json", options.stepsJson,
                 "A JSON object a line for each step: the block of each "
                 "sequence, rows computed, tokens committed, confidences; at "
                 "the end the run's lengths and tokens; '-' is standard "
                 "output, in place of the text")
      ->type_name("FILE");
  app.add_option("--trace", options.trace,
                 "A JSON object a line for each step of each sequence: the "
                 "rows of every layer, visible positions, selected keys and "
                 "blocks (on the host; large)")
      ->type_name("FILE");
  app.add_option("--record", options.record,
                 "The run of the first prompt as one file to look at: "
                 "attention maps, selections, rows, commits; 'heddle-trace "
                 "view FILE' draws it")
      ->type_name("FILE");
  addNumber(app, "--record-cells", options.recordCells, "N",
            "Cells of a recorded map's side (else: 64, or 32 where a step has "
            "more than 256 heads)")
      ->check(CLI::Range(int64_t(8), int64_t(256)));
  addNumber(app, "--record-every", options.recordEvery, "N",
            "Steps from one recorded map to the next (else: as many as make 16 "
            "maps)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 30));
  app.add_flag("--visual", options.visual,
               "Watch the sequence being unmasked (on a terminal)");
  app.add_flag("--raw", options.raw,
               "Print special tokens and what follows the end of the text");
  app.add_option("--compare-dense", options.compareDense,
                 "A dense bundle to run as well; says how many tokens differ")
      ->type_name("BUNDLE");
  app.add_flag("--info", options.info,
               "Say what the model and the bundle are and, with "
               "--device=cuda, which GPUs there are, and end");
  app.add_flag("-q,--quiet", options.quiet,
               "Nothing on standard error but errors");
  app.add_flag("!--no-progress", options.progress, "No progress bar");
}

void addMachineOptions(CLI::App &app, Parsed &parsed) {
  app.option_defaults()->group("Machine");
  RunOptions &options = parsed.options;
  app.add_option("--dtype", parsed.dtype,
                 "Type to compute in: f32, bf16 or, on a GPU, f16 (default: "
                 "that of the weights if the bundle has it, else the nearest "
                 "that it has)")
      ->check(isOneOf({"f32", "bf16", "f16"}))
      ->transform([](std::string text) { // the spelling of papers
        return text == "fp32" || text == "fp16" ? "f" + text.substr(2) : text;
      })
      ->type_name("TYPE");
  addNumber(app, "--threads", options.threads, "N",
            "Threads to use (default: 0, one per core)")
      ->check(CLI::Range(0, 4096));
  app.add_option("--device", options.device,
                 "Where to run: cpu, cuda or cuda:N, the N-th GPU (default: "
                 "cpu)")
      ->type_name("NAME");
  app.add_flag("--random-weights", options.randomWeights,
               "Run a model of random weights with the shape of DIR's "
               "config.json, on a GPU: for timing");
}

/// The one source of prompts, or a sentence that says why there is none.
Result<PromptSource> choosePromptSource(const CLI::App &app,
                                        const Parsed &parsed) {
  using Kind = PromptSource::Kind;
  PromptSource source;
  std::string given;
  auto take = [&](const char *name, Kind kind, const std::string &value) {
    if (app.count(name) == 0)
      return;
    given += given.empty() ? name : std::string(" and ") + name;
    source.kind = kind;
    source.value = value;
  };
  take("PROMPT", Kind::Argument, parsed.prompt);
  take("--prompt-file", Kind::File, parsed.promptFile);
  take("--prompts-file", Kind::Lines, parsed.promptsFile);
  take("--prompt-ids", Kind::Ids, "");
  if (given.find(" and ") != std::string::npos)
    return Error(given + " are given; prompts come from one of them");
  if (given.empty() && isatty(STDIN_FILENO))
    return Error("no prompt: give a text, --prompt-file, --prompts-file or "
                 "--prompt-ids, or pipe a text to standard input");
  if (source.kind == Kind::File && source.value == "-")
    source.kind = Kind::StandardInput;
  source.ids = parsed.promptIds;
  return source;
}

std::string shortNumber(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

Status settle(const CLI::App &app, Parsed &parsed) {
  RunOptions &options = parsed.options;
  if (Status status = rt::checkDeviceName(options.device); !status)
    return status.takeError().withContext("--device");
  options.dtype = rt::dtypeNamed(parsed.dtype);
  if (options.device == "cpu" && options.dtype == rt::DType::F16)
    return Error("--dtype=f16 needs a GPU: the host's kernels compute in f32 "
                 "or bf16");
  if (options.device == "cpu" && options.randomWeights)
    return Error("--random-weights are made on GPUs only; give --device=cuda "
                 "too");
  options.sampling.remasking = parsed.remasking == "random"
                                   ? rt::Remasking::Random
                                   : rt::Remasking::LowConfidence;
  for (const char *name : {"--cfg-scale", "--remasking", "--logits-eos-inf",
                           "--confidence-eos-eot-inf"})
    if (app.count(name))
      options.blockOptions.push_back(name);
  for (const char *name :
       {"--alg", "--alg-temp", "--eps", "--top-p", "--top-k"})
    if (app.count(name))
      options.timestepOptions.push_back(name);
  // Guidance multiplies differences of logits by it; far below what fp32 holds,
  // all but two tokens of a row have lost their differences.
  constexpr double mostGuidance = 1e4;
  if (options.sampling.cfgScale > mostGuidance)
    return Error("--cfg-scale: " + shortNumber(options.sampling.cfgScale) +
                 " makes the logits overflow, whose differences it multiplies; "
                 "expected 0 to " +
                 shortNumber(mostGuidance));
  if (options.info) {
    if (options.model.empty() && options.bundle.empty() &&
        options.device == "cpu")
      return Error("--info needs --model, --bundle or --device=cuda");
    return Status::success();
  }
  if (options.model.empty())
    return Error("no model: give --model with a folder that holds config.json "
                 "and safetensors");
  if (options.bundle.empty())
    return Error("no schedule: give --bundle with a file that heddlec made, as "
                 "by 'heddlec examples/dense.mlir -o dense.hdl'");
  for (auto [flag, path] : {std::pair("--steps-json", &options.stepsJson),
                            std::pair("--trace", &options.trace)}) {
    if (app.count(flag) && path->empty())
      return Error(std::string(flag) + " is empty, expected a file or '-'");
    if (*path == "-" && (options.json || options.visual))
      return Error(std::string(flag) + " - writes to standard output, where " +
                   (options.json ? "--json writes" : "--visual draws") +
                   "; give it a file");
  }
  if (options.record.empty()) {
    if (app.count("--record"))
      return Error("--record is empty, expected a file");
    for (const char *name : {"--record-cells", "--record-every"})
      if (app.count(name))
        return Error(std::string(name) + " is of --record; give that too");
  }
  if (options.record == "-")
    return Error("--record writes a binary file; give it a name");
  if (!options.trace.empty() && options.device != "cpu")
    return Error("--trace shows runs on the host only; use --device=cpu");
  if (options.eotToken && *options.eotToken < -1)
    return Error("--eot-id: " + std::to_string(*options.eotToken) +
                 " is no token id; expected one, or -1 for none");
  if (options.json && options.visual)
    return Error("--visual draws on standard output, where --json writes; "
                 "leave one out");
  if (options.chat && app.count("--prompt-ids"))
    return Error("--chat puts text into the chat template; --prompt-ids are "
                 "taken as they are: leave one out");
  Result<PromptSource> source = choosePromptSource(app, parsed);
  if (!source)
    return source.takeError();
  options.prompt = std::move(*source);
  return checkLogFiles(options);
}

} // namespace

std::variant<RunOptions, int> parseCommandLine(int argc, char **argv) {
  Parsed parsed;
  CLI::App app(description, "heddle-run");
  app.footer(examples);
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(28);
  app.formatter(formatter);
  app.set_version_flag("--version", versionText());
  app.add_option("-m,--model", parsed.options.model,
                 "Folder of a model: config.json, safetensors, tokenizer.json")
      ->type_name("DIR");
  app.add_option("-b,--bundle", parsed.options.bundle,
                 "Schedule compiled by heddlec")
      ->type_name("FILE");
  app.add_option("--require-sha256", parsed.options.digests,
                 "Refuse a bundle whose file has another SHA-256 "
                 "('heddle-bundle verify' prints it); may be repeated, for "
                 "several bundles")
      ->check(isDigest())
      ->type_name("HEX")
      ->allow_extra_args(false);
  app.add_flag("--rebuild", parsed.options.rebuild,
               "Compile the schedule in the bundle anew, with the heddlec "
               "beside this program or on PATH, and do not use the code in it");
  addPromptOptions(app, parsed);
  addGenerationOptions(app, parsed);
  addBlockOptions(app, parsed);
  addTimestepOptions(app, parsed);
  addOutputOptions(app, parsed);
  addMachineOptions(app, parsed);

  auto refuse = [&](const std::string &message) {
    if (std::find(argv + 1, argv + argc, std::string_view("--json")) !=
        argv + argc)
      std::fputs(jsonFailure(message).c_str(), stdout);
    std::fprintf(
        stderr,
        "heddle-run: error: %s\nTry 'heddle-run --help' for all options.\n",
        printableLines(message).c_str());
    return exitUsage;
  };
  try {
    heddle::parse(app, argc, argv);
  } catch (const CLI::Success &success) { // --help, --version
    int code = app.exit(success);
    Status status = bundle::flushStandardOutput();
    if (status)
      return code;
    std::fprintf(stderr, "heddle-run: error: %s\n",
                 status.error().text().c_str());
    return exitFailure;
  } catch (const CLI::Error &error) {
    return refuse(problemOf(app, error));
  }
  if (Status status = settle(app, parsed); !status)
    return refuse(status.error().text());
  return std::move(parsed.options);
}

void resolveLengths(const RunOptions &options, int64_t room,
                    rt::GenerateOptions &lengths) {
  explain::RunLengths resolved = explain::resolveLengths(
      options.genLength, options.steps, options.blockLength, room,
      lengths.sampling.timesteps.has_value());
  lengths.genLength = resolved.genLength;
  lengths.steps = resolved.steps;
  lengths.blockLength = resolved.blockLength;
  lengths.commitOrder = options.commitOrder;
}

} // namespace heddle::run
