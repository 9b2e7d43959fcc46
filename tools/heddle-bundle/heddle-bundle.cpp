//===- heddle-bundle.cpp - Verifies bundles and shows what is in them -----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Bundle.h"
#include "bundle/File.h"
#include "bundle/NativeCode.h"
#include "bundle/Process.h"
#include "tools/explain/Explain.h"
#include "tools/explain/page/Page.h"

#include "CLI/CLI.hpp"

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;

namespace {

enum ExitCode { Good = 0, BadFile = 1, BadUsage = 2 };

int report(const Error &error) {
  std::fflush(stdout);
  std::fprintf(stderr, "heddle-bundle: error: %s\n", error.text().c_str());
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

/// A bundle whose code for the host, if it has some, runs nothing when it is
/// loaded.
Result<Bundle> readVerified(const std::string &file) {
  Result<Bundle> bundle = Bundle::read(file);
  if (!bundle)
    return bundle;
  int64_t host = hostTarget(bundle->manifest());
  if (host < 0)
    return bundle;
  const Target &target = bundle->manifest().targets[static_cast<size_t>(host)];
  std::string section = codeSection(target, CodeForm::Native);
  if (Status status = checkNativeCode(bundle->section(section)); !status)
    return status.takeError().withContext(file + ": section " + section);
  return bundle;
}

int verify(const std::vector<std::string> &files) {
  int code = Good;
  for (const std::string &file : files) {
    Result<Bundle> bundle = readVerified(file);
    if (!bundle) {
      code = report(bundle.error());
      continue;
    }
    const Manifest &manifest = bundle->manifest();
    print(file + ": good, schedule " + manifest.schedule + " for " +
          toString(manifest.targets) + "\n");
  }
  return finish(code);
}

struct DumpOptions {
  std::string file;
  bool json = false;
  std::string section;
  std::string output;
  std::string html; ///< a path for the page, "-" for stdout, or ""
  ExplainRequest request;
};

std::string headText(const Bundle &bundle, const std::string &file) {
  const Manifest &manifest = bundle.manifest();
  std::string text = "file      " + file + ", format version " +
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
    return report(Error("the output '" + output + "' is the input"));
  Status status = writeFileAtomically(output, contents);
  return status ? Good : report(status.error());
}

int dumpSection(const Bundle &bundle, const DumpOptions &options) {
  const std::vector<Bundle::SectionInfo> &table = bundle.sections();
  std::string names;
  bool found = false;
  for (const Bundle::SectionInfo &info : table) {
    found |= info.name == options.section;
    names += (names.empty() ? "" : ", ") + info.name;
  }
  if (!found)
    return report(Error(options.file + ": there is no section \"" +
                        options.section + "\", there are " + names));
  std::string_view contents = bundle.section(options.section);
  return writeTo(options.output, contents, options.file);
}

int dump(const DumpOptions &options) {
  Result<Bundle> bundle = Bundle::read(options.file);
  if (!bundle)
    return report(bundle.error());
  if (!options.section.empty())
    return dumpSection(*bundle, options);
  if (Status status = check(options.request); !status)
    return report(status.error());
  if (options.json) {
    print(bundle->section(manifestSection));
    return finish(Good);
  }
  Result<Explanation> explanation =
      explainRun(bundle->manifest(), options.request);
  if (!explanation)
    return report(explanation.takeError().withContext(options.file));
  if (!options.html.empty())
    return writeTo(
        options.html,
        toHtml(*explanation, std::string(bundle->section(scheduleSection))),
        options.file);
  print(headText(*bundle, options.file) + "\n" + toText(*explanation));
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
      "  heddle-bundle dump a.hdl --steps=256 --length=8192\n"
      "  heddle-bundle dump a.hdl --html=a.html --steps=256 --length=8192\n"
      "  heddle-bundle dump a.hdl --json\n"
      "  heddle-bundle dump a.hdl --section=schedule\n"
      "  heddle-bundle dump a.hdl --section=code.host -o a.so\n"
      "Exit codes: 0 good, 1 a file is bad or cannot be read, 2 wrong usage.");
  app.require_subcommand(1);

  std::vector<std::string> files;
  CLI::App *verifyCommand = app.add_subcommand(
      "verify", "Check files from the first to the last byte: version, sizes, "
                "checksums, manifest, and that its code runs nothing when it "
                "is loaded");
  verifyCommand->add_option("FILE", files, "Bundles to check")->required();

  DumpOptions options;
  CLI::App *dumpCommand = app.add_subcommand(
      "dump", "Show sections, timeline of steps, pairs, memory and kernels");
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
  dumpCommand
      ->add_option("--html", options.html,
                   "Write one page with pictures of what the schedule does to "
                   "this file, '-' for stdout")
      ->excludes(json)
      ->excludes(section);
  auto number = [&](const char *name, int64_t &value, const char *what) {
    dumpCommand->add_option(name, value, what)->capture_default_str();
  };
  number("--steps", options.request.steps, "Explain for this many steps");
  number("--length", options.request.length, "... tokens, prompt included");
  number("--layers", options.request.layers, "... layers");
  number("--heads", options.request.heads, "... query heads a layer");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? finish(Good) : BadUsage;
  }
  return verifyCommand->parsed() ? verify(files) : dump(options);
}
