//===- DTypeChoice.h - The type that a run computes in ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_DTYPECHOICE_H
#define HEDDLE_RUNTIME_ENGINE_DTYPECHOICE_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt {

/// "f32", "bf16" or "f16"; none for another name.
std::optional<DType> dtypeNamed(std::string_view text);

/// The type that most of a model folder's weights are stored in, by bytes; none
/// if no tensor has one that models run in. Reads the files' headers only.
Result<std::optional<DType>> storedDType(const std::string &folder);

/// The types in which a bundle has every kernel for models of this head dim, on
/// each of its targets of the kind. In the order F32, BF16, F16.
std::vector<DType> offeredDTypes(const bundle::Manifest &manifest,
                                 bundle::Target::Kind kind, int64_t headDim);

/// The one of `offered` that is nearest to `weights`: the same; else F32, which
/// holds every value of the others exactly; else BF16, which has F32's range at
/// 8 bits of precision; F16 last, whose 11 bits end at 65,504. `weights` if
/// nothing is offered (what refuses the bundle then names its forms).
DType nearestDType(DType weights, const std::vector<DType> &offered);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_ENGINE_DTYPECHOICE_H
