//===- LogFiles.cpp - Which files the logs of a run are -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LogFiles.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace heddle::run {

namespace {

namespace fs = std::filesystem;

/// The file that a name or a descriptor leads to.
class File {
public:
  explicit File(int descriptor)
      : exists(::fstat(descriptor, &status) == 0), path() {}
  explicit File(const std::string &name)
      : exists(::stat(name.c_str(), &status) == 0), path(placeOf(name)) {}

  bool isRegular() const { return exists && S_ISREG(status.st_mode); }
  bool operator==(const File &other) const {
    if (exists && other.exists)
      return status.st_dev == other.status.st_dev &&
             status.st_ino == other.status.st_ino;
    return !exists && !other.exists && !path.empty() && path == other.path;
  }

private:
  /// Where a file of this name would be made.
  static fs::path placeOf(fs::path path) {
    std::error_code none;
    // A link to a file that is not there yet: the link's target is made.
    constexpr int mostLinks = 40; // as Linux
    for (int i = 0; i < mostLinks && fs::is_symlink(path, none); ++i)
      path = path.parent_path() / fs::read_symlink(path, none);
    // A relative name of which nothing exists stays as it is without this.
    const fs::path whole = fs::absolute(path, none);
    fs::path canonical = fs::weakly_canonical(whole, none);
    return none ? whole : canonical;
  }

  struct stat status{};
  bool exists;
  fs::path path; ///< of those that do not exist
};

/// The files that the run reads.
std::vector<File> inputsOf(const RunOptions &options) {
  std::vector<File> inputs;
  for (const std::string &name :
       {options.bundle, options.compareDense, options.commitOrderFile})
    if (!name.empty())
      inputs.emplace_back(name);
  using Kind = PromptSource::Kind;
  if (options.prompt.kind == Kind::StandardInput)
    inputs.emplace_back(STDIN_FILENO);
  else if (options.prompt.kind == Kind::File ||
           options.prompt.kind == Kind::Lines)
    inputs.emplace_back(options.prompt.value);
  std::error_code ignored;
  for (const fs::directory_entry &entry :
       fs::directory_iterator(options.model, ignored))
    inputs.emplace_back(entry.path().string());
  // Nothing is lost of a pipe, a terminal or /dev/null.
  std::erase_if(inputs, [](const File &file) { return !file.isRegular(); });
  return inputs;
}

} // namespace

Status checkLogFiles(const RunOptions &options) {
  struct Log {
    const char *flag;
    const std::string *name;
    File file;
  };
  std::vector<Log> logs;
  for (auto [flag, name] : {std::pair("--trace", &options.trace),
                            std::pair("--steps-json", &options.stepsJson),
                            std::pair("--record", &options.record)})
    if (!name->empty())
      logs.push_back(
          {flag, name, *name == "-" ? File(STDOUT_FILENO) : File(*name)});
  for (size_t i = 0; i < logs.size(); ++i)
    for (size_t before = 0; before < i; ++before)
      if (logs[before].file == logs[i].file)
        return Error(
            std::string(logs[before].flag) + " and " + logs[i].flag +
            " would both write to " +
            (*logs[i].name == "-" ? "standard output" : *logs[i].name) +
            "; give each its own file");
  // The answer, or its JSON, goes there as well, over the log's first lines. A
  // name such as /dev/fd/3 says what is meant.
  const File output(STDOUT_FILENO);
  for (const Log &log : logs)
    if (*log.name != "-" && !log.name->starts_with("/dev/") &&
        output.isRegular() && log.file == output)
      return Error(std::string(log.flag) +
                   " and standard output would both write to " + *log.name +
                   "; give each its own file");
  // An input would be lost, and weights that are mapped into memory vanish.
  const std::vector<File> inputs = inputsOf(options);
  for (const Log &log : logs)
    for (const File &input : inputs)
      if (log.file == input)
        return Error(std::string(log.flag) + ": " +
                     (*log.name == "-" ? "standard output" : *log.name) +
                     " is a file that this run reads; give another name");
  return Status::success();
}

} // namespace heddle::run
