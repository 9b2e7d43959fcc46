//===- TensorUse.h - What is done with a checkpoint -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_FUZZ_TENSORUSE_H
#define HEDDLE_TEST_FUZZ_TENSORUSE_H

#include "test/fuzz/Target.h"

#include "runtime/model/Safetensors.h"

#include <algorithm>
#include <vector>

namespace heddle::fuzz {

/// Reads the ends of every tensor, and looks at them where they are mapped.
inline void useTensors(const rt::Checkpoint &checkpoint) {
  for (const auto &[name, tensor] : checkpoint.tensors()) {
    if (!tensor.dtype || tensor.elements == 0)
      continue;
    const int64_t count = std::min<int64_t>(tensor.elements, 16);
    const int64_t bytes = count * rt::byteSize(*tensor.dtype);
    std::vector<std::byte> read(static_cast<size_t>(bytes));
    for (int64_t first : {int64_t(0), tensor.elements - count}) {
      require(bool(checkpoint.read(tensor, first, count, read.data())),
              "a tensor that was accepted is in its file");
      if (const std::byte *seen = checkpoint.view(tensor, first, count))
        require(std::equal(read.begin(), read.end(), seen),
                "a mapped tensor is what is read");
    }
  }
  require(bool(checkpoint.intact()), "nobody changed the files");
}

} // namespace heddle::fuzz

#endif // HEDDLE_TEST_FUZZ_TENSORUSE_H
