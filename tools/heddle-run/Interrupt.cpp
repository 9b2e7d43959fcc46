//===- Interrupt.cpp - Ctrl-C ends a run in order -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interrupt.h"

#include "Terminal.h"

#include <csignal>

#include <unistd.h>

namespace heddle::run {

namespace {

volatile std::sig_atomic_t flag = 0;

// Only what is safe in a signal handler.
void onSignal(int signal) {
  if (flag) {
    restoreTerminal();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  flag = 1;
}

} // namespace

void installInterruptHandler() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read of standard input is to end with EINTR.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return flag != 0; }

} // namespace heddle::run
