//===- FakeCublasLt.h - What tests set in a fake cuBLASLt -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared library with cuBLASLt's entry points that multiplies in host memory,
// by the layouts it is given. It proposes these algorithms:
//   1, sums in two parts, unless no split sums are wanted
//   2, whole sums; may be slow
//   3, whole sums; proposed, and refused when it should run
//   4, sums from the last product to the first: other bits
//   5, whole sums
// For few outputs it proposes 4 first, and for many rows 6, which takes any
// number, if a test says so.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKECUBLASLT_H
#define HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKECUBLASLT_H

#include <cstdint>
#include <map>

namespace heddle::rt::cuda::test {

struct FakeCublasLt {
  int createStatus = 0; ///< of cublasLtCreate
  bool noProposals = false;
  bool slow = false; ///< algorithm 2 takes 1 ms, 6 takes 1 us, the
                     ///< others 10 us, by the driver's clock
  /// Layers of fewer outputs are best multiplied by algorithm 4.
  uint64_t fewOutputs = 0;
  /// From so many rows on algorithm 6 is proposed, first of all.
  uint64_t manyRows = ~uint64_t(0);

  std::map<int, int> products; ///< run, by algorithm
  int objects = 0;             ///< handles, layouts and the like alive
  uint32_t alignment = 0;      ///< the last that was asked for
};

} // namespace heddle::rt::cuda::test

extern "C" heddle::rt::cuda::test::FakeCublasLt *heddleFakeCublasLt();

#endif // HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKECUBLASLT_H
