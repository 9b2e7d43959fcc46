//===- Options.cpp - The command line of heddlec --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "Messages.h"
#include "Usage.h"
#include "bundle/format/Bundle.h"
#include "bundle/format/Crossovers.h"
#include "bundle/format/File.h"
#include "bundle/format/Tilings.h"
#include "bundle/program/ManifestNames.h"
#include "bundle/program/Printable.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Target/Backend.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

using namespace mlir;
using namespace mlir::heddle;
namespace cl = llvm::cl;

namespace {

using ::heddle::explain::RequestOption;
using ::heddle::explain::RequestOptions;
using ::heddle::explain::requestOptions;

using ::heddle::bundle::Encoding;
/// Of --index-encoding: none of these, but what takes the fewest bytes.
constexpr auto autoEncoding = static_cast<Encoding>(-1);

constexpr StringLiteral elementTypes[] = {"f32", "bf16", "f16"};

/// The place of an element type among all, the number of them if it is unknown.
size_t rankOfType(StringRef type) {
  return std::distance(std::begin(elementTypes),
                       llvm::find(elementTypes, type));
}

/// LLVM's parser takes "" for 0, 0x2 for 2 and what is too large for infinite.
struct NumberParser : cl::parser<double> {
  using parser::parser;
  bool parse(cl::Option &option, StringRef name, StringRef text,
             double &value) {
    if (text.empty())
      return option.error("needs a value");
    if (text.contains_insensitive('x'))
      return option.error("'" + text + "' is no number");
    if (cl::parser<double>::parse(option, name, text, value))
      return true;
    return std::isinf(value) && !text.contains_insensitive("inf") &&
           option.error(text + " is too large");
  }
};

/// LLVM's parser takes 010 for 8 and 0x10 for 16; numbers of Heddle's programs
/// are decimal. Its parsers of `long` are final, so T has as many bits.
template <typename T> struct IntegerParser : cl::parser<T> {
  using cl::parser<T>::parser;
  bool parse(cl::Option &option, StringRef, StringRef text, T &value) {
    if (!text.getAsInteger(10, value))
      return false;
    StringRef digits = text;
    digits.consume_front("-");
    if (digits.empty() || !llvm::all_of(digits, llvm::isDigit))
      return option.error("'" + text + "' is no whole number");
    using Limits = std::numeric_limits<T>;
    return option.error(text + " is out of range, expected " +
                        llvm::Twine(Limits::min()) + " to " +
                        llvm::Twine(Limits::max()));
  }
};

template <typename T>
using ParserOf = std::conditional_t<
    std::is_same_v<T, double>, NumberParser,
    std::conditional_t<
        std::is_same_v<T, int64_t>, IntegerParser<long long>,
        std::conditional_t<std::is_same_v<T, uint64_t>,
                           IntegerParser<unsigned long long>, cl::parser<T>>>>;

/// Made when main asks for it, so that a program that only links this file
/// pays nothing and sees none of these.
struct Flags {
  cl::OptionCategory category{"heddlec options"};
  cl::OptionCategory explanations{"heddlec options of the run to --explain"};

  cl::opt<std::string> input{cl::Positional, cl::desc("<schedule.mlir>"),
                             cl::cat(category)};
  cl::opt<std::string> output{
      "o",
      cl::desc("Write the result here, '-' for stdout. Default: the input's "
               "name with .hdl, .so or .ptx in the current folder for a bundle "
               "or code, stdout for IR"),
      cl::value_desc("file"), cl::cat(category)};
  cl::list<std::string> targets{
      "target",
      cl::desc(
          "Machines to compile for: host (default), a CPU as LLVM names it "
          "(x86-64-v3, znver4, ...), cuda for every NVIDIA GPU from sm_80 "
          "on, or one by name: cuda:sm_80, sm_86, sm_89, sm_90a, sm_100, "
          "sm_120; may be repeated"),
      cl::value_desc("host|cpu|cuda|cuda:gpu,..."), cl::CommaSeparated,
      cl::cat(category)};
  cl::list<std::string> dtypes{
      "dtype",
      cl::desc(
          "Element types of the kernels, of which each target makes those "
          "that it has (default: f32,bf16 for CPUs, bf16,f16 for GPUs); may be "
          "repeated"),
      cl::value_desc("f32,bf16,f16"), cl::CommaSeparated, cl::cat(category)};
  cl::list<int64_t, bool, ParserOf<int64_t>> headDims{
      "head-dim",
      cl::desc("Head dims of the kernels (default: 64,128); may be repeated"),
      cl::value_desc("64,128"), cl::CommaSeparated, cl::cat(category)};
  cl::opt<Encoding> encoding{
      "index-encoding",
      cl::desc("How a GPU's kernels keep the keys of a selection:"),
      cl::values(clEnumValN(autoEncoding, "auto",
                            "in the fewest bytes for the schedule (default)"),
                 clEnumValN(Encoding::Int32, "int32", "4 bytes a kept key"),
                 clEnumValN(Encoding::Uint16, "uint16",
                            "2 bytes a kept key, up to 65,536 tokens"),
                 clEnumValN(Encoding::Bitmap, "bitmap", "a bit a key")),
      cl::init(autoEncoding), cl::cat(category)};
  cl::opt<Assembler> assembler{
      "ptxas", cl::desc("NVIDIA's assembler for GPU code:"),
      cl::values(clEnumValN(Assembler::Auto, "auto",
                            "add machine code if it is found (default)"),
                 clEnumValN(Assembler::None, "none",
                            "PTX alone, which the driver compiles"),
                 clEnumValN(Assembler::Strict, "strict",
                            "it must be there and find nothing slow")),
      cl::init(Assembler::Auto), cl::cat(category)};
  cl::opt<std::string> tuning{
      "tuning",
      cl::desc("A table of tilings for GPUs with products of warpgroups "
               "(sm_90a), instead of the built-in one; {\"wgmma\": []} "
               "is the table without them"),
      cl::value_desc("file.json"), cl::cat(category)};
  cl::opt<std::string> crossovers{
      "crossovers",
      cl::desc("A table of the shares of the keys above which lists of them "
               "take longer than dense attention, which then takes their "
               "place, instead of the built-in one; 'none' keeps all lists"),
      cl::value_desc("file.json|none"), cl::cat(category)};
  cl::opt<std::string> schedule{
      "schedule", cl::desc("Which schedule, if the file has several"),
      cl::value_desc("name"), cl::cat(category)};
  cl::list<std::string> settings{
      "set",
      cl::desc("Give a parameter of the schedule another value: keep=1/2, "
               "'keep=20 percent', group=64; may be repeated"),
      cl::value_desc("name=value"), cl::cat(category)};
  cl::opt<Level> level{
      "compile-to", cl::desc("Stop at a level:"),
      cl::values(
          clEnumValN(Level::Schedule, "schedule", "the schedule, simplified"),
          clEnumValN(Level::Plan, "plan", "the step program"),
          clEnumValN(Level::Shed, "shed", "kernels on tiles"),
          clEnumValN(Level::Pipeline, "pipeline",
                     "GPUs: kernels with their copies, stages and roles of "
                     "warps"),
          clEnumValN(Level::Machine, "machine", "kernels in LLVM's terms"),
          clEnumValN(Level::Code, "code",
                     "an ELF shared object, or a GPU's PTX"),
          clEnumValN(Level::Bundle, "bundle", "the bundle (default)")),
      cl::init(Level::Bundle), cl::cat(category)};
  cl::opt<std::string> dump{
      "dump", cl::desc("Write each level into this folder as well"),
      cl::value_desc("folder"), cl::cat(category)};
  cl::opt<ExplainFormat> explain{
      "explain",
      cl::desc("Print what the schedule does at which step and what that "
               "costs beside a dense run; "
               "writes no file unless -o is given"),
      cl::values(clEnumValN(ExplainFormat::Text, "", "for people"),
                 clEnumValN(ExplainFormat::Text, "text", "for people"),
                 clEnumValN(ExplainFormat::Json, "json", "for programs"),
                 clEnumValN(ExplainFormat::Html, "html",
                            "one page with pictures, which -o names "
                            "(default: the input's name with .html)")),
      cl::ValueOptional,
      cl::init(ExplainFormat::None),
      cl::cat(category)};
  /// Of a run to explain: each option, and what takes it over.
  std::vector<std::pair<std::unique_ptr<cl::Option>,
                        std::function<void(RequestOptions &)>>>
      ofRequest;

  Flags() {
    for (const RequestOption &option : requestOptions)
      std::visit(
          [&]<typename T>(T RequestOptions::*member) {
            if constexpr (std::is_same_v<T, bool>)
              add<bool>(option, member);
            else
              add<typename T::value_type>(option, member);
          },
          option.member);
  }

  template <typename T, typename Member>
  void add(const RequestOption &option, Member RequestOptions::*member) {
    auto flag = std::make_unique<cl::opt<T, false, ParserOf<T>>>(
        StringRef(option.name), cl::desc(option.help), cl::cat(explanations));
    flag->setValueStr(option.value);
    auto take = [member, flag = flag.get()](RequestOptions &request) {
      request.*member = flag->getValue();
    };
    ofRequest.emplace_back(std::move(flag), take);
  }

  cl::opt<std::string> remarks{
      "remarks",
      cl::desc("Print the remarks whose whole category matches, such as "
               "'heddle.*'"),
      cl::value_desc("regex"), cl::cat(category)};
  cl::opt<bool> noCache{
      "no-cache",
      cl::desc("Compile everything, and keep nothing of it for next time"),
      cl::cat(category)};
  cl::opt<std::string> cacheDir{
      "cache-dir",
      cl::desc("Where compiled code is kept for next time (default: "
               "$HEDDLE_CACHE_DIR, $XDG_CACHE_HOME/heddle or "
               "~/.cache/heddle); '' for nowhere"),
      cl::value_desc("folder"), cl::cat(category)};
  cl::opt<std::string> cachePolicy{
      "cache-policy",
      cl::desc("What stays there, as for --thinlto-cache-policy of lld "
               "(default: $HEDDLE_CACHE_POLICY, else "
               "cache_size_bytes=1g:prune_after=720h)"),
      cl::value_desc("option=value:..."), cl::cat(category)};
  cl::opt<bool> cacheVerbose{
      "cache-verbose", cl::desc("Say on stderr what was taken from there"),
      cl::cat(category)};
  cl::opt<ExplainFormat> cacheStats{
      "cache-stats",
      cl::desc("Print what is kept there, and compile nothing"),
      cl::values(clEnumValN(ExplainFormat::Text, "", "for people"),
                 clEnumValN(ExplainFormat::Text, "text", "for people"),
                 clEnumValN(ExplainFormat::Json, "json", "for programs")),
      cl::ValueOptional,
      cl::init(ExplainFormat::None),
      cl::cat(category)};
  cl::opt<bool> cacheClear{
      "cache-clear", cl::desc("Remove all that is kept, and compile nothing"),
      cl::cat(category)};
  cl::opt<bool> verifyEach{"verify-each",
                           cl::desc("Verify the IR after every pass"),
                           cl::cat(category)};
};

constexpr const char *overview =
    "Compiles a sparsity schedule to a bundle for heddle-run.\n\n"
    "EXAMPLES:\n"
    "  heddlec examples/pulsecol.mlir                    writes pulsecol.hdl\n"
    "  heddlec examples/pulsecol.mlir -o /tmp/p.hdl --target=x86-64-v3\n"
    "  heddlec examples/pulsecol.mlir --target=host,cuda  for CPU and GPUs\n"
    "  heddlec examples/pulsecol.mlir --set keep=1/2 --set group=128\n"
    "  heddlec examples/pulsecol.mlir --target=cuda:sm_90a --compile-to=code\n"
    "  heddlec examples/dense.mlir --target=cuda:sm_90a --tuning=h200.json\n"
    "  heddlec examples/pulsecol.mlir --crossovers=none  lists, also where "
    "dense\n"
    "                                                    attention is faster\n"
    "  heddlec examples/elastic-cache.mlir --layers=32   for a model of so "
    "many:\n"
    "                                                    refused if it names "
    "others\n"
    "  heddlec examples/pulsecol.mlir --explain --steps=256 --length=8192\n"
    "  heddlec examples/pulsecol.mlir --explain=html -o pulsecol.html\n"
    "  heddlec examples/pulsecol.mlir --compile-to=plan\n"
    "  heddlec examples/pulsecol.mlir --dump=levels\n"
    "  heddlec --cache-stats                             what is kept for next "
    "time\n\n"
    "Compiled code is kept, and taken again while neither the schedule's "
    "kernels nor\nthe options, the machine, this program, the linker or ptxas "
    "change. --dump,\n--remarks, --verify-each and MLIR's own options always "
    "compile.\n\n"
    "A bundle holds machine code, which a run executes: pass on a bundle as "
    "you would\na program. heddle-run --rebuild compiles the schedule in it "
    "anew.\n\n"
    "EXIT CODES: 0 good, 1 the schedule or a file is bad, 2 wrong usage.\n";

void printVersion(llvm::raw_ostream &out) {
  out << producerName() << ", bundle format version "
      << ::heddle::bundle::formatVersion << "\n";
}

/// The exit code of wrong usage, as of the other tools; 1 is for wrong input.
constexpr int badUsage = 2;

int fail(const llvm::Twine &message, int exitCode) {
  llvm::WithColor::error(messages(), "heddlec") << message << "\n";
  return exitCode;
}

int usageError(const llvm::Twine &message) { return fail(message, badUsage); }

/// An option that only --explain reads and that was given without it, or "".
std::string idleOption(const Flags &flags) {
  if (flags.explain != ExplainFormat::None)
    return "";
  for (const auto &[option, take] : flags.ofRequest)
    if (option->getNumOccurrences() && option->ArgStr != "layers")
      return ("--" + option->ArgStr +
              " says what to explain; give --explain too, "
              "or leave it out")
          .str();
  return "";
}

/// Takes names and values apart; returns what is wrong with them, or "".
std::string readSettings(const Flags &flags, Options &options) {
  for (StringRef text : flags.settings) {
    auto [name, value] = text.split('=');
    name = name.trim();
    value = value.trim();
    if (name.empty() || value.empty())
      return "--set: '" + ::heddle::printable(text) +
             "', expected a parameter and its value, such as keep=1/2";
    if (llvm::is_contained(llvm::make_first_range(options.settings), name))
      return ("--set: '" + name + "' is set twice").str();
    options.settings.emplace_back(name.str(), value.str());
  }
  return "";
}

/// The output's name when the user gave none; "" for nothing to write.
std::string defaultOutput(const Flags &flags) {
  SmallString<128> name(llvm::sys::path::filename(flags.input));
  if (flags.explain == ExplainFormat::Html) {
    llvm::sys::path::replace_extension(name, ".html");
    return name.str().str();
  }
  if (flags.explain != ExplainFormat::None)
    return "";
  if (flags.level < Level::Code)
    return "-";
  bool gpu = !flags.targets.empty() &&
             StringRef(flags.targets.front()).starts_with("cuda");
  llvm::sys::path::replace_extension(name, flags.level != Level::Code ? ".hdl"
                                           : gpu                      ? ".ptx"
                                                                      : ".so");
  return name.str().str();
}

/// Whether an option asks to see a compilation rather than its result.
bool watchesPasses(const Flags &flags) {
  if (flags.dump.getNumOccurrences() || flags.remarks.getNumOccurrences() ||
      flags.verifyEach)
    return true;
  // MLIR's, which are in neither category: --mlir-print-ir-after-all and so on.
  return llvm::any_of(cl::getRegisteredOptions(), [&](const auto &entry) {
    const auto &of = entry.second->Categories;
    return entry.second->getNumOccurrences() &&
           !llvm::is_contained(of, &flags.category) &&
           !llvm::is_contained(of, &flags.explanations);
  });
}

CacheOptions readCacheOptions(const Flags &flags) {
  CacheOptions cache;
  auto choose = [](const cl::opt<std::string> &flag, const char *variable) {
    return flag.getNumOccurrences() ? std::optional(flag.getValue())
                                    : llvm::sys::Process::GetEnv(variable);
  };
  std::optional<std::string> folder =
      choose(flags.cacheDir, "HEDDLE_CACHE_DIR");
  cache.named = folder && !folder->empty();
  cache.folder = folder ? *folder : ::heddle::CodeCache::defaultFolder();
  cache.policy = choose(flags.cachePolicy, "HEDDLE_CACHE_POLICY").value_or("");
  // Without a home there is no folder either, which whoever opens it says.
  cache.used = !flags.noCache && (!folder || cache.named);
  cache.bypassed = watchesPasses(flags);
  cache.verbose = flags.cacheVerbose;
  cache.stats = flags.cacheStats;
  cache.clear = flags.cacheClear;
  return cache;
}

/// The text of a table that `read` takes; none, after an error, if it takes
/// none.
template <typename Read>
std::optional<std::string> readTable(const cl::opt<std::string> &flag,
                                     ::heddle::Status (*checkSize)(uint64_t),
                                     Read read) {
  std::string problem;
  // No device, which may have no end.
  auto text = ::heddle::bundle::readRegularFile(
      flag, 0,
      [&](std::string_view, uint64_t size) { return checkSize(size); });
  if (!text)
    problem = text.error().text();
  else if (auto table = read(*text); !table)
    problem = ::heddle::printablePath(flag) + ": " + table.error().text();
  if (problem.empty())
    return std::move(*text);
  llvm::WithColor::error(messages(), "heddlec")
      << "--" << flag.ArgStr << ": " << problem << "\n";
  return std::nullopt;
}

/// The crossovers of a text, whose targets are machines as bundles name them.
::heddle::Result<std::vector<::heddle::bundle::Crossover>>
readCrossovers(std::string_view text) {
  using ::heddle::bundle::detail::at;
  auto table = ::heddle::bundle::crossoversFromJson(text);
  for (size_t i = 0; table && i < table->size(); ++i) {
    const std::string &target = (*table)[i].target;
    auto backend = createBackend(
        (StringRef(target).starts_with("sm_") ? "cuda:" : "") + target, {});
    std::string problem;
    if (!backend)
      problem = llvm::toString(backend.takeError());
    else if (const std::string cpu = (*backend)->description().cpu;
             cpu != target)
      problem = "expected a machine's own name; write " + cpu;
    if (!problem.empty())
      return ::heddle::Error("a table of crossovers: " + at("dense_above", i) +
                             ".target: " + problem);
  }
  return table;
}

/// What is compiled where it is only explained: that needs no code, and kernels
/// only where they are shown.
void chooseLevel(const Flags &flags, Options &options) {
  if (flags.explain == ExplainFormat::Html) {
    options.compiler.level = Level::Plan;
  } else if (flags.explain != ExplainFormat::None && options.output.empty() &&
             options.dump.empty() && !options.levelGiven) {
    if (flags.explain == ExplainFormat::Text && !options.kernels)
      options.compiler.level = Level::Plan;
    else
      options.compiler.generateCode = false;
  }
}

/// False, after an error, if a table is none.
bool readTables(const Flags &flags, CompilerOptions &compiler) {
  if (flags.tuning.getNumOccurrences()) {
    auto table = readTable(flags.tuning, ::heddle::bundle::checkTilingsSize,
                           ::heddle::bundle::tilingsFromJson);
    if (!table)
      return false;
    compiler.backend.tuning = std::move(*table);
    compiler.backend.tuningFile = flags.tuning;
  }
  if (flags.crossovers == "none") {
    compiler.crossovers.clear();
  } else if (flags.crossovers.getNumOccurrences()) {
    auto table =
        readTable(flags.crossovers, ::heddle::bundle::checkCrossoversSize,
                  readCrossovers);
    if (!table)
      return false;
    compiler.crossovers = std::move(*table);
  }
  return true;
}

/// Element types and head dims: in one order whatever was typed; a repeated one
/// counts once.
void readVariants(const Flags &flags, CompilerOptions &compiler) {
  if (flags.dtypes.getNumOccurrences())
    compiler.elementTypes.assign(flags.dtypes.begin(), flags.dtypes.end());
  // The spelling of papers.
  for (std::string &type : compiler.elementTypes)
    if (type == "fp32" || type == "fp16")
      type.erase(1, 1);
  if (flags.headDims.getNumOccurrences())
    compiler.headDims.assign(flags.headDims.begin(), flags.headDims.end());
  auto sortUnique = [](auto &list, auto &&rank) {
    llvm::sort(list,
               [&](const auto &a, const auto &b) { return rank(a) < rank(b); });
    list.erase(llvm::unique(list), list.end());
  };
  sortUnique(compiler.elementTypes, rankOfType);
  sortUnique(compiler.headDims, [](int64_t dim) { return dim; });
}

RequestOptions readRequest(const Flags &flags) {
  RequestOptions request;
  for (const auto &[option, take] : flags.ofRequest)
    if (option->getNumOccurrences())
      take(request);
  return request;
}

/// Fills in the run to explain, or the layers to compile for; what is wrong
/// with them, or "". `badFile`: as resolveRequest() has it.
std::string resolve(const RequestOptions &request, Options &options,
                    bool &badFile) {
  if (options.explain == ExplainFormat::None) {
    options.compiler.layers = request.layers;
    return request.layers.value_or(1) >= 1
               ? ""
               : "--layers: " + std::to_string(*request.layers) +
                     ", expected 1 or more";
  }
  auto resolved = ::heddle::explain::resolveRequest(request, &badFile);
  if (!resolved)
    return "--explain: " + resolved.error().text();
  options.request = std::move(*resolved);
  return "";
}

/// The first thing that is wrong with the options, or "". `reads`: the files
/// that they name to be read.
std::string checkOptions(const Options &options,
                         llvm::ArrayRef<std::string> reads) {
  const CompilerOptions &compiler = options.compiler;
  bool binary = compiler.level >= Level::Code;
  const CacheOptions &cache = options.cache;
  if (cache.clear || cache.stats != ExplainFormat::None)
    return options.input.empty()
               ? ""
               : "--cache-stats and --cache-clear compile nothing; leave '" +
                     options.input + "' out";
  if (options.input.empty())
    return "no input file; give a schedule, for example "
           "examples/pulsecol.mlir, or - for stdin ('heddlec --help' says "
           "more)";
  for (const std::string &type : compiler.elementTypes)
    if (rankOfType(type) == std::size(elementTypes))
      return "--dtype: '" + type + "' is unknown, expected f32, bf16 or f16";
  for (int64_t dim : compiler.headDims)
    if (dim < shed::minHeadDim || dim > shed::maxHeadDim ||
        dim % shed::minHeadDim != 0)
      return "--head-dim: " + std::to_string(dim) +
             ", expected a multiple of " + std::to_string(shed::minHeadDim) +
             " from " + std::to_string(shed::minHeadDim) + " to " +
             std::to_string(shed::maxHeadDim) +
             " (GPUs: " + std::to_string(shed::maxMmaHeadDim) + ")";
  for (const std::string &target : compiler.targets)
    if (target.empty())
      return "--target is empty, expected host, a CPU's name or cuda";
  if (isOfTarget(compiler.level) && compiler.targets.size() > 1)
    return "--compile-to=" + stringifyLevel(compiler.level).str() +
           " writes one target's own form, and " +
           std::to_string(compiler.targets.size()) +
           " are given; give one --target, or --dump=folder for all";
  if (!options.remarks.empty()) {
    std::string why;
    if (!llvm::Regex(options.remarks).isValid(why))
      return "--remarks: '" + options.remarks +
             "' is no regular expression: " + why;
  }
  if (options.explain == ExplainFormat::Html && options.levelGiven)
    return "--explain=html writes the page and nothing else; leave "
           "--compile-to out";
  if (options.explain != ExplainFormat::None &&
      compiler.level == Level::Schedule)
    return "--explain needs at least --compile-to=plan";
  if (options.explain != ExplainFormat::None &&
      options.explain != ExplainFormat::Html && options.output == "-")
    return "--explain and -o - would both print to stdout";
  if (binary && options.input == "-" && !options.named &&
      !options.output.empty())
    return "reading stdin, so there is no name for the output; give one with "
           "-o";
  if (binary && options.output == "-" &&
      llvm::sys::Process::StandardOutIsDisplayed())
    return "will not write binary data to a terminal; give a file with -o";
  for (const std::string &read : reads)
    if (options.output != "-" && !options.output.empty() && read != "-" &&
        llvm::sys::fs::equivalent(read, options.output))
      return "the output '" + ::heddle::printablePath(options.output) +
             "' is " +
             (read == options.input ? "the input" : "a file that this reads");
  if (llvm::Error error = checkTargets(compiler))
    return llvm::toString(std::move(error));
  return "";
}

} // namespace

std::string mlir::heddle::producerName() {
  return "heddlec " HEDDLE_VERSION " (LLVM " LLVM_VERSION_STRING ")";
}

Options mlir::heddle::parseOptions(int argc, char **argv,
                                   std::optional<int> &exitCode) {
  static Flags flags;
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  cl::HideUnrelatedOptions({&flags.category, &flags.explanations});
  cl::SetVersionPrinter(printVersion);
  Options options;
  if (std::vector<std::string> problems =
          parseCommandLine(argc, argv, overview);
      !problems.empty()) {
    for (const std::string &problem : problems)
      llvm::WithColor::error(messages(), "heddlec") << problem << "\n";
    messages() << "Try 'heddlec --help' for all options.\n";
    exitCode = badUsage;
    return options;
  }

  options.input = flags.input;
  options.compiler.level = flags.level;
  options.levelGiven = flags.level.getNumOccurrences() > 0;
  options.output = flags.output.getNumOccurrences() ? flags.output.getValue()
                                                    : defaultOutput(flags);
  options.named = flags.output.getNumOccurrences() > 0;
  options.dump = flags.dump;
  options.explain = flags.explain;
  RequestOptions request = readRequest(flags);
  options.kernels = request.kernels;
  options.remarks = flags.remarks;
  chooseLevel(flags, options);
  options.cache = readCacheOptions(flags);
  if (flags.targets.getNumOccurrences())
    options.compiler.targets.assign(flags.targets.begin(), flags.targets.end());
  options.compiler.backend.assembler = flags.assembler;
  if (!readTables(flags, options.compiler)) {
    exitCode = 1;
    return options;
  }
  if (flags.encoding != autoEncoding)
    options.compiler.encoding = flags.encoding;
  options.compiler.schedule = flags.schedule;
  options.compiler.verifyEach = flags.verifyEach;
  options.compiler.configure = applyPassManagerCLOptions;
  options.compiler.producer = producerName();
  readVariants(flags, options.compiler);
  if (flags.headDims.getNumOccurrences())
    request.headDim = options.compiler.headDims.front();

  bool badFile = false;
  if (flags.output.getNumOccurrences() && flags.output.empty())
    exitCode = usageError("-o is empty, expected a file or '-'");
  else if (std::string problem = idleOption(flags); !problem.empty())
    exitCode = usageError(problem);
  else if (std::string problem = readSettings(flags, options); !problem.empty())
    exitCode = usageError(problem);
  else if (std::string problem =
               checkOptions(options, {options.input, flags.tuning,
                                      options.compiler.crossovers.empty()
                                          ? std::string()
                                          : flags.crossovers.getValue(),
                                      request.follow.value_or("")});
           !problem.empty())
    exitCode = usageError(problem);
  else if (std::string problem = resolve(request, options, badFile);
           !problem.empty())
    exitCode = fail(problem, badFile ? 1 : badUsage);
  return options;
}
