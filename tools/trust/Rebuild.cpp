//===- Rebuild.cpp - A bundle's schedule, compiled anew -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/trust/Rebuild.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heddle::trust {

namespace {

using Arguments = std::vector<std::string>;

/// The compiler's path; empty if there is none.
std::string findCompiler() {
  namespace fs = std::filesystem;
  auto runs = [](const fs::path &path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) &&
           ::access(path.c_str(), X_OK) == 0;
  };
  std::error_code failed;
  fs::path self = fs::read_symlink("/proc/self/exe", failed);
  if (!failed && runs(self.parent_path() / "heddlec"))
    return self.parent_path() / "heddlec";
  const char *path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    // An empty entry means the current folder, where others' files lie.
    if (!folder.empty() && runs(fs::path(folder) / "heddlec"))
      return fs::path(folder) / "heddlec";
  return "";
}

/// A file without a name.
struct Scratch {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file{std::tmpfile(),
                                                        std::fclose};

  bool write(std::string_view bytes) {
    return file &&
           std::fwrite(bytes.data(), 1, bytes.size(), file.get()) ==
               bytes.size() &&
           std::fflush(file.get()) == 0 && ::lseek(number(), 0, SEEK_SET) == 0;
  }
  int number() const { return ::fileno(file.get()); }
  std::string contents() {
    std::string bytes;
    char block[4096];
    std::rewind(file.get());
    while (size_t got = std::fread(block, 1, sizeof(block), file.get()))
      bytes.append(block, got);
    return bytes;
  }
};

/// What a child that is about to become `program` does. Only calls that are
/// safe after a fork of a program with threads.
[[noreturn]] void becomeChild(char *const *arguments, int in, int out,
                              int errors, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == parent && ::dup2(in, 0) == 0 && ::dup2(out, 1) == 1 &&
      ::dup2(errors, 2) == 2)
    ::execv(arguments[0], arguments);
  ::_exit(127);
}

/// Waits for the child; ends it when we are asked to end.
Result<int> waitFor(pid_t child, const std::function<bool()> &interrupted) {
  bool ended = false;
  for (int status = 0;;) {
    pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done < 0 && errno != EINTR)
      return Error(std::string("waiting for heddlec failed: ") +
                   std::strerror(errno));
    if (done == child) {
      if (ended)
        return Error("interrupted");
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    if (!ended && interrupted && interrupted()) {
      ::kill(child, SIGTERM); // it ends its linker and removes its files
      ended = true;
    }
    timespec pause{0, 5'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

/// The compiler's standard output for this text on its standard input.
Result<std::string> compile(const std::string &compiler, Arguments arguments,
                            std::string_view text,
                            const std::function<bool()> &interrupted) {
  Scratch in, out, errors;
  if (!in.write(text) || !out.write("") || !errors.write(""))
    return Error(std::string("no temporary file could be made: ") +
                 std::strerror(errno));
  std::vector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t self = ::getpid();
  pid_t child = ::fork();
  if (child < 0)
    return Error(compiler + ": cannot be started: " + std::strerror(errno));
  if (child == 0)
    becomeChild(pointers.data(), in.number(), out.number(), errors.number(),
                self);
  Result<int> status = waitFor(child, interrupted);
  if (!status)
    return status.takeError();
  if (*status != 0) {
    std::string said = errors.contents();
    while (said.ends_with('\n'))
      said.pop_back();
    return Error(
        "the schedule in the bundle could not be compiled by " + compiler +
        (said.empty() ? std::string(", which says nothing") : ":\n" + said));
  }
  return out.contents();
}

std::string joined(const std::set<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ",") + word;
  return text;
}

/// What makes the same bundle again. `host` names the host's CPU.
Arguments argumentsFor(const std::string &compiler,
                       const bundle::Manifest &manifest,
                       const std::string &host) {
  std::string targets;
  for (const bundle::Target &target : manifest.targets)
    targets += (targets.empty() ? "" : ",") +
               (target.kind == bundle::Target::Kind::Host
                    ? (host.empty() ? target.cpu : host)
                    : "cuda:" + target.cpu);
  std::set<std::string> types, headDims;
  for (const bundle::Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants) {
      types.insert(variant.dtype);
      headDims.insert(std::to_string(variant.headDim));
    }
  return {compiler,
          "-",
          "-o",
          "-",
          "--schedule=" + manifest.schedule,
          "--target=" + targets,
          "--dtype=" + joined(types),
          "--head-dim=" + joined(headDims)};
}

/// The forms that a bundle has kernels in.
std::set<std::string> formsOf(const bundle::Manifest &manifest) {
  std::set<std::string> forms;
  for (const bundle::Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants)
      forms.insert(variant.dtype + " with head dim " +
                   std::to_string(variant.headDim) + " for " +
                   bundle::toString(
                       manifest.targets[static_cast<size_t>(variant.target)]));
  return forms;
}

} // namespace

Result<std::string> rebuild(const bundle::Bundle &old,
                            const std::function<bool()> &interrupted) {
  std::string_view schedule = old.section(bundle::scheduleSection);
  if (schedule.empty())
    return Error("the bundle holds no schedule that could be compiled anew");
  std::string compiler = findCompiler();
  if (compiler.empty())
    return Error("compiling anew needs heddlec, which is neither beside this "
                 "program nor on PATH");
  // A bundle for the machine that it was made on has less than its CPU's name
  // says where a hypervisor hides features; then 'host' gives the same.
  std::string bytes;
  for (const char *host : {"", "host"}) {
    Result<std::string> made =
        compile(compiler, argumentsFor(compiler, old.manifest(), host),
                schedule, interrupted);
    if (!made)
      return made.takeError();
    Result<bundle::Bundle> parsed =
        bundle::Bundle::parse(*made, "what heddlec made");
    if (!parsed)
      return parsed.takeError();
    std::set<std::string> forms = formsOf(parsed->manifest());
    bool same = parsed->manifest().targets == old.manifest().targets;
    if (bytes.empty() || same) {
      if (*host == '\0' || same)
        for (const std::string &form : formsOf(old.manifest()))
          if (!forms.contains(form))
            return Error("this heddlec makes no kernels in " + form +
                         ", which the bundle has");
      bytes = std::move(*made);
    }
    if (same || bundle::hostTarget(old.manifest()) < 0)
      break;
  }
  return bytes;
}

} // namespace heddle::trust
