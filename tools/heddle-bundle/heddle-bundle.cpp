//===- heddle-bundle.cpp - Verifies bundles and shows what is in them -----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Process.h"
#include "bundle/format/Bundle.h"
#include "bundle/format/File.h"
#include "bundle/format/Sections.h"
#include "bundle/program/Printable.h"
#include "tools/CommandLine.h"
#include "tools/explain/RequestOptions.h"
#include "tools/explain/page/Page.h"
#include "tools/trust/Digest.h"
#include "tools/trust/Rebuild.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;

namespace {

enum ExitCode { Good = 0, BadFile = 1, BadUsage = 2 };

int report(const Error &error) {
  std::fflush(stdout);
  std::fprintf(stderr, "heddle-bundle: error: %s\n",
               printableLines(error.text()).c_str());
  return BadFile;
}

/// Ends the output; a full disk or a closed pipe is an error, not success.
int finish(int code) {
  Status status = flushStandardOutput();
  return status ? code : report(status.error());
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

/// A bundle whose sections are what they are called.
Result<trust::ReadBundle>
readVerified(const std::string &file, const std::vector<std::string> &digests) {
  Result<trust::ReadBundle> read = trust::readBundle(file, digests);
  if (!read)
    return read;
  if (Status status = checkSections(read->bundle); !status)
    return status.takeError().withContext(printablePath(file));
  return read;
}

int verify(const std::vector<std::string> &files,
           const std::vector<std::string> &digests) {
  int code = Good;
  for (const std::string &file : files) {
    Result<trust::ReadBundle> read = readVerified(file, digests);
    if (!read) {
      code = report(read.error());
      continue;
    }
    const Manifest &manifest = read->bundle.manifest();
    print(printablePath(file) + ": good, schedule " + manifest.schedule +
          " for " + toString(manifest.targets) + ", sha256 " + read->sha256 +
          "\n");
  }
  return finish(code);
}

/// Ctrl-C and the like end heddlec with this program, which need not hear them.
int rebuild(const std::string &file, const std::string &output) {
  Result<Bundle> bundle = Bundle::read(file);
  if (!bundle)
    return report(bundle.error());
  Result<std::string> bytes = trust::rebuild(*bundle);
  if (!bytes)
    return report(bytes.takeError().withContext(printablePath(file)));
  Status status = writeFileAtomically(output, *bytes);
  return status ? Good : report(status.error());
}

struct DumpOptions {
  std::string file;
  bool json = false;
  std::string section;
  std::string output;
  std::string html; ///< a path for the page, "-" for stdout, or ""
  RequestOptions request;
  bool explainJson = false;
};

std::string headText(const Bundle &bundle, const std::string &file) {
  const Manifest &manifest = bundle.manifest();
  std::string text = "file      " + printablePath(file) + ", format version " +
                     std::to_string(formatVersion) + ", ABI version " +
                     std::to_string(manifest.abi) + "\nproducer  " +
                     manifest.producer + "\n";
  for (const Target &target : manifest.targets) {
    text += "target    " + toString(target) + "\n  needs   ";
    for (const std::string &feature : target.features)
      text += " " + feature;
    text += target.features.empty() ? " nothing special\n" : "\n";
    text += "  lists   ";
    for (Encoding encoding : target.encodings)
      text += " " + std::string(nameOf(encoding));
    text += "\n";
  }
  char line[128];
  text += "\nsection                     offset       size  XXH3-64\n";
  for (const Bundle::SectionInfo &info : bundle.sections()) {
    std::snprintf(line, sizeof(line), "%-24s %9llu %10llu  %016llx\n",
                  info.name.c_str(), (unsigned long long)info.offset,
                  (unsigned long long)info.size,
                  (unsigned long long)info.checksum);
    text += line;
  }
  return text;
}

/// Writes to a file that is not the `input`, or to stdout for "-" and "".
int writeTo(const std::string &output, std::string_view contents,
            const std::string &input) {
  if (output.empty() || output == "-") {
    print(contents);
    return finish(Good);
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(input, output, ignored))
    return report(
        Error("the output '" + printablePath(output) + "' is the input"));
  Status status = writeFileAtomically(output, contents);
  return status ? Good : report(status.error());
}

int dumpSection(const DumpOptions &options) {
  Result<Bundle> bundle = Bundle::readSections(options.file);
  if (!bundle)
    return report(bundle.error());
  std::string names;
  bool found = false;
  for (const Bundle::SectionInfo &info : bundle->sections()) {
    found |= info.name == options.section;
    names += (names.empty() ? "" : ", ") + info.name;
  }
  if (!found)
    return report(Error(printablePath(options.file) +
                        ": there is no section \"" +
                        printable(options.section) + "\", there are " + names));
  return writeTo(options.output, bundle->section(options.section),
                 options.file);
}

int dump(const DumpOptions &options) {
  if (!options.section.empty())
    return dumpSection(options);
  Result<Bundle> bundle = Bundle::read(options.file);
  if (!bundle)
    return report(bundle.error());
  if (options.json) {
    print(bundle->section(manifestSection));
    return finish(Good);
  }
  Result<ExplainRequest> request = resolveRequest(options.request);
  if (!request)
    return report(request.error());
  takeFrom(*request, *bundle);
  Result<Explanation> explanation = explainRun(bundle->manifest(), *request);
  if (!explanation)
    return report(
        explanation.takeError().withContext(printablePath(options.file)));
  if (options.explainJson) {
    print(toJson(*explanation));
    return finish(Good);
  }
  if (!options.html.empty())
    return writeTo(options.html, toHtml(*explanation), options.file);
  print(headText(*bundle, options.file) + "\n" +
        toText(*explanation, options.request.kernels));
  return finish(Good);
}

} // namespace

int main(int argc, char **argv) {
  bundle::startProgram("heddle-bundle");
  CLI::App app("Verifies bundles that heddlec wrote and shows what is in "
               "them.");
  app.name("heddle-bundle");
  app.set_version_flag("--version", "heddle-bundle " HEDDLE_VERSION
                                    " (bundle format version " +
                                        std::to_string(formatVersion) + ")");
  app.footer(
      "Examples:\n"
      "  heddle-bundle verify a.hdl b.hdl\n"
      "  heddle-bundle rebuild a.hdl -o mine.hdl\n"
      "  heddle-bundle dump a.hdl --steps=256 --length=8192\n"
      "  heddle-bundle dump a.hdl --html=a.html --steps=256 --length=8192\n"
      "  heddle-bundle dump a.hdl --json\n"
      "  heddle-bundle dump a.hdl --section=schedule\n"
      "  heddle-bundle dump a.hdl --section=code.host -o a.so\n"
      "A bundle holds machine code, which 'verify' does not judge: run only "
      "bundles\nthat you would run a program from, or 'rebuild' them.\n"
      "Exit codes: 0 good, 1 a file is bad or cannot be read, 2 wrong usage.");
  app.require_subcommand(1);

  std::vector<std::string> files;
  CLI::App *verifyCommand = app.add_subcommand(
      "verify", "Check files from the first to the last byte: version, sizes, "
                "checksums, manifest, table of tilings, and that its code runs "
                "nothing when it is loaded");
  verifyCommand->add_option("FILE", files, "Bundles to check")->required();
  std::vector<std::string> digests;
  verifyCommand
      ->add_option("--require-sha256", digests,
                   "Refuse files whose SHA-256 is another; may be repeated, "
                   "for several files")
      ->check(isDigest())
      ->type_name("HEX")
      ->allow_extra_args(false);

  std::string source, rebuilt;
  CLI::App *rebuildCommand = app.add_subcommand(
      "rebuild", "Compile the schedule that a bundle holds anew, for the same "
                 "targets, types and head dims, with the heddlec beside this "
                 "program or on PATH; the code in it is not used");
  rebuildCommand->add_option("FILE", source, "The bundle")->required();
  rebuildCommand->add_option("-o,--output", rebuilt, "The new bundle")
      ->required();

  DumpOptions options;
  CLI::App *dumpCommand = app.add_subcommand(
      "dump", "Show sections, what the schedule does at which step and what "
              "that costs beside a dense run");
  dumpCommand->add_option("FILE", options.file, "The bundle")->required();
  CLI::Option *json =
      dumpCommand->add_flag("--json", options.json, "Print the manifest");
  CLI::Option *section =
      dumpCommand
          ->add_option("--section", options.section,
                       "Print the bytes of one section, such as manifest, "
                       "schedule, plan or code.host")
          ->excludes(json);
  dumpCommand
      ->add_option("-o,--output", options.output,
                   "Write the section to this file, '-' for stdout")
      ->needs(section);
  std::vector<CLI::Option *> explaining = {
      addNumber(*dumpCommand, "--head-dim", options.request.headDim,
                "Width of a head (default: 128)")};
  for (const RequestOption &option : requestOptions)
    explaining.push_back(std::visit(
        [&](auto member) {
          auto &value = options.request.*member;
          const std::string name = std::string("--") + option.name;
          using Value = std::remove_reference_t<decltype(value)>;
          if constexpr (std::is_same_v<Value, bool>)
            return dumpCommand->add_flag(name, value, option.help);
          else if constexpr (std::is_same_v<Value, std::optional<std::string>>)
            return dumpCommand->add_option(name, value, option.help);
          else
            return addNumber(*dumpCommand, name, value, option.help);
        },
        option.member));
  explaining.push_back(
      dumpCommand->add_flag("--explain-json", options.explainJson,
                            "Print what the schedule does and costs, as "
                            "heddlec --explain=json"));
  explaining.push_back(dumpCommand->add_option(
      "--html", options.html,
      "Write one page with pictures of what the schedule does to this file, "
      "'-' for stdout"));
  for (CLI::Option *option : explaining)
    option->excludes(json)->excludes(section)->group("Explanations");

  try {
    heddle::parse(app, argc, argv);
  } catch (const CLI::Success &success) { // --help, --version
    return app.exit(success) == 0 ? finish(Good) : BadUsage;
  } catch (const CLI::Error &error) {
    std::fprintf(stderr,
                 "heddle-bundle: error: %s\nTry 'heddle-bundle --help' for all "
                 "commands.\n",
                 printableLines(problemOf(app, error)).c_str());
    return BadUsage;
  }
  if (rebuildCommand->parsed())
    return rebuild(source, rebuilt);
  return verifyCommand->parsed() ? verify(files, digests) : dump(options);
}
