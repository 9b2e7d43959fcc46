//===- CudaProducts.h - Timing a model's products on a GPU ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_CUDAPRODUCTS_H
#define HEDDLE_RUNTIME_BENCH_CUDAPRODUCTS_H

#include "runtime/bench/CudaBench.h"

#include <string>
#include <vector>

namespace heddle::bench {

/// One linear layer at one number of rows. Milliseconds.
struct ProductRow {
  std::string name;
  int64_t rows = 0, outputs = 0, inputs = 0;
  double chosen = 0;     ///< the algorithm that runs use
  double layers = 0;     ///< the algorithm whose bits are the layer's
  double first = 0;      ///< cuBLASLt's first proposal; 0 when it did not run
  double best = 0;       ///< the fastest that cuBLASLt proposes
  double bestAlike = 0;  ///< the fastest of those with the layer's bits
  int64_t proposals = 0; ///< that run
  int64_t alike = 0;     ///< of these, with the layer's bits
  double prepare = 0;    ///< to choose, on the host's clock
  bool independent = false; ///< equal rows of x gave equal rows of y, here and
                            ///< at all numbers of rows before
  std::string chosenName, bestName; ///< the algorithms
};

/// Times every algorithm that cuBLASLt proposes for the linear layers of
/// request.model at request.lengths rows, and compares their bits. The LM head
/// only for as many rows as its logits are made at once.
Result<std::vector<ProductRow>> runProductBench(const CudaRequest &request,
                                                std::string &device);

std::string toTable(const std::vector<ProductRow> &rows);
std::string toJson(const std::vector<ProductRow> &rows,
                   const std::string &device);

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_CUDAPRODUCTS_H
