//===- Reference.h - The forward pass in fp64, and plain attention --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_MODEL_REFERENCE_H
#define HEDDLE_RUNTIME_TEST_MODEL_REFERENCE_H

#include "TinyModel.h"

#include "runtime/model/Attention.h"

#include <span>
#include <vector>

namespace heddle::rt::test {

/// Dense attention with fp64 sums, one row at a time.
class NaiveAttention : public LayerExecutor {
public:
  Status attend(int64_t layer, const PackedBatch &batch,
                const AttentionTensors &tensors) override;
  std::vector<int64_t> layersSeen;
};

/// Logits [tokens x vocab] of one sequence in fp64, straight from the formulas
/// of the models (docs/Runtime.md); shares no code with the fast path. Angles
/// of the rotation are rounded to fp32, as the released code rounds them.
std::vector<double> referenceLogits(const TinyModel &model,
                                    std::span<const int32_t> tokens);

} // namespace heddle::rt::test

#endif // HEDDLE_RUNTIME_TEST_MODEL_REFERENCE_H
