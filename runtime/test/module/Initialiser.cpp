//===- Initialiser.cpp - Code that runs when it is loaded -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled several ways, see CMakeLists.txt. Each leaves a trace in the
// environment if a dynamic loader is let near it.
//
//===----------------------------------------------------------------------===//

#include <cstdlib>

#if defined(AS_IFUNC)

static void chosen() {}
extern "C" void (*choose())() {
  setenv("HEDDLE_TEST_CODE_RAN", "ifunc", 1);
  return chosen;
}
extern "C" void kernel() __attribute__((ifunc("choose")));

#elif defined(AS_FINALISER)

__attribute__((destructor)) static void leave() {
  setenv("HEDDLE_TEST_CODE_RAN", "finaliser", 1);
}

#else

__attribute__((constructor)) static void enter() {
  setenv("HEDDLE_TEST_CODE_RAN", "initialiser", 1);
}

#endif
