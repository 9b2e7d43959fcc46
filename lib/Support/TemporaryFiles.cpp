//===- TemporaryFiles.cpp - Files for another program's use ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Support/TemporaryFiles.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>
#include <mutex>

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace heddle;
using namespace llvm;

//===----------------------------------------------------------------------===//
// Signals
//===----------------------------------------------------------------------===//

namespace {

/// While one exists, a signal that ends this process ends the program that it
/// waits for first: left alone, that would go on and write files that nobody
/// removes. There is one at a time.
class EndedWithUs {
public:
  EndedWithUs();
  ~EndedWithUs();
  EndedWithUs(const EndedWithUs &) = delete;

  /// Says which program it is. Signals since the construction count.
  void watch(pid_t program);

private:
  static constexpr int signals[] = {SIGHUP, SIGINT, SIGTERM};
  static void end(int signal);

  static std::mutex one;
  static pthread_t waiter;           ///< the thread that waits
  static std::atomic<pid_t> running; ///< 0 until it is known
  static std::atomic<int> postponed; ///< a signal, or 0
  static struct sigaction before[std::size(signals)];
  std::lock_guard<std::mutex> lock;
};

std::mutex EndedWithUs::one;
pthread_t EndedWithUs::waiter;
std::atomic<pid_t> EndedWithUs::running;
std::atomic<int> EndedWithUs::postponed;
struct sigaction EndedWithUs::before[std::size(signals)];

} // namespace

void EndedWithUs::end(int signal) {
  // Else the waiting thread would go on, and speak of files that are gone.
  if (!pthread_equal(pthread_self(), waiter)) {
    pthread_kill(waiter, signal);
    return;
  }
  pid_t program = running;
  if (!program) {
    postponed = signal;
    return;
  }
  kill(program, SIGKILL);
  waitpid(program, nullptr, 0);
  // Then as if there had been no program: files are removed, we end.
  for (auto [number, action] : zip_equal(signals, before))
    if (number == signal)
      sigaction(number, &action, nullptr);
  raise(signal);
}

EndedWithUs::EndedWithUs() : lock(one) {
  waiter = pthread_self();
  running = postponed = 0;
  for (auto [number, action] : zip_equal(signals, before)) {
    sigaction(number, nullptr, &action);
    if (action.sa_handler == SIG_IGN)
      continue;
    struct sigaction ours = {};
    ours.sa_handler = end;
    ours.sa_flags = SA_RESTART;
    sigaction(number, &ours, nullptr);
  }
}

EndedWithUs::~EndedWithUs() {
  for (auto [number, action] : zip_equal(signals, before))
    sigaction(number, &action, nullptr);
  // There never was a program.
  if (int signal = postponed.exchange(0))
    raise(signal);
}

void EndedWithUs::watch(pid_t program) {
  running = program;
  if (int signal = postponed.exchange(0))
    raise(signal);
}

//===----------------------------------------------------------------------===//
// Files and programs
//===----------------------------------------------------------------------===//

TemporaryFiles::~TemporaryFiles() {
  for (const std::string &path : paths) {
    sys::fs::remove(path);
    sys::DontRemoveFileOnSignal(path);
  }
}

Expected<std::string> TemporaryFiles::add(StringRef suffix,
                                          StringRef contents) {
  int descriptor;
  SmallString<128> model, path;
  sys::path::system_temp_directory(/*ErasedOnReboot=*/true, model);
  sys::path::append(model, "heddle-%%%%%%%%." + suffix);
  // Nobody else's to read, or, whatever the umask, to write.
  if (std::error_code code =
          sys::fs::createUniqueFile(model, descriptor, path, sys::fs::OF_None,
                                    sys::fs::owner_read | sys::fs::owner_write))
    return createStringError(code, "cannot create a temporary file in " +
                                       sys::path::parent_path(model) + ": " +
                                       code.message() +
                                       "; set TMPDIR to a folder that can be "
                                       "written");
  sys::RemoveFileOnSignal(path); // Ctrl-C leaves nothing behind
  paths.push_back(path.str().str());
  raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << contents;
  stream.close();
  if (stream.has_error()) {
    std::error_code code = stream.error();
    stream.clear_error(); // else its destructor aborts
    return createStringError(code, "cannot write " + path.str() + ": " +
                                       code.message());
  }
  return paths.back();
}

Expected<std::string> heddle::readFile(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError(buffer.getError(),
                             "cannot read " + path + ": " +
                                 buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

Expected<ProgramResult> heddle::runProgram(StringRef program,
                                           ArrayRef<StringRef> arguments,
                                           unsigned seconds) {
  TemporaryFiles files;
  Expected<std::string> log = files.add("log");
  if (!log)
    return log.takeError();
  SmallVector<StringRef> all = {program};
  all.append(arguments.begin(), arguments.end());
  ProgramResult result;
  std::string problem;
  {
    EndedWithUs guard;
    bool failed = false;
    // Linkers put a new file in the place of ours.
    mode_t mask = umask(S_IRWXG | S_IRWXO);
    sys::ProcessInfo process =
        sys::ExecuteNoWait(program, all, std::nullopt,
                           {StringRef(""), StringRef(*log), StringRef(*log)},
                           /*MemoryLimit=*/0, &problem, &failed);
    umask(mask);
    if (!failed) {
      guard.watch(process.Pid);
      process = sys::Wait(process, seconds, &problem);
    }
    result.status = failed ? -1 : process.ReturnCode;
  }
  Expected<std::string> text = readFile(*log);
  if (!text)
    return text.takeError();
  result.log = std::move(*text) + problem;
  return result;
}
