//===- AttentionModule.cpp - Bindings of attention as a function ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory comes as addresses: python/heddle/kernels.py has checked whose they
// are and keeps the owners alive.
//
//===----------------------------------------------------------------------===//

#include "Binding.h"

#include "embed/Attention.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace heddle::python {

using embed::Attention;
using embed::Call;
using embed::CallMemory;
using embed::CallShape;
using embed::Part;

namespace {

/// An array of another library, by DLPack: (address, shape, strides, dtype,
/// device type, device number). `array` may be a capsule.
nb::tuple view(const nb::ndarray<nb::ro> &array) {
  std::vector<int64_t> shape, strides;
  for (size_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(static_cast<int64_t>(array.shape(i)));
    strides.push_back(array.stride(i));
  }
  nb::dlpack::dtype type = array.dtype();
  const char *kind =
      type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Float) ? "float"
      : type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat)
          ? "bfloat"
          : "other";
  return nb::make_tuple(
      reinterpret_cast<uintptr_t>(array.data()), nb::tuple(nb::cast(shape)),
      nb::tuple(nb::cast(strides)), kind + std::to_string(type.bits),
      array.device_type(), array.device_id());
}

std::unique_ptr<Attention> make(const bundle::Bundle &bundle, int64_t layers,
                                int device) {
  Calls::One counted;
  Result<std::unique_ptr<Attention>> made = [&] {
    nb::gil_scoped_release released;
    return Attention::make(bundle, layers, device);
  }();
  return orRaise(std::move(made));
}

std::unique_ptr<Call> prepare(Attention &attention, const std::string &dtype,
                              int64_t sequences, int64_t length, int64_t prompt,
                              int64_t queryHeads, int64_t kvHeads,
                              int64_t headDim,
                              const std::vector<int64_t> &strides) {
  CallShape shape;
  shape.sequences = sequences;
  shape.length = length;
  shape.prompt = prompt;
  shape.queryHeads = queryHeads;
  shape.kvHeads = kvHeads;
  shape.headDim = headDim;
  shape.dtype = *rt::dtypeNamed(dtype);
  CallShape::Strides *all[] = {&shape.query, &shape.key, &shape.value,
                               &shape.output};
  for (size_t i = 0; i < 4; ++i)
    *all[i] = {.sequence = strides.at(2 * i), .row = strides.at(2 * i + 1)};
  Calls::One counted;
  Result<std::unique_ptr<Call>> made = [&] {
    nb::gil_scoped_release released;
    return attention.prepare(shape);
  }();
  return orRaise(std::move(made));
}

void run(Call &call, int part, uintptr_t query, uintptr_t key, uintptr_t value,
         uintptr_t output, uintptr_t lists, uintptr_t workspace,
         uintptr_t stream, int64_t layer, int64_t step, int64_t steps,
         int64_t blockSteps) {
  CallMemory memory;
  memory.query = reinterpret_cast<const void *>(query);
  memory.key = reinterpret_cast<const void *>(key);
  memory.value = reinterpret_cast<const void *>(value);
  memory.output = reinterpret_cast<void *>(output);
  memory.lists = reinterpret_cast<void *>(lists);
  memory.workspace = reinterpret_cast<void *>(workspace);
  memory.stream = stream;
  Calls::One counted;
  Pending pending;
  Status status = [&] {
    nb::gil_scoped_release released;
    return call.run({layer, step, steps, blockSteps}, static_cast<Part>(part),
                    memory, [&] { return pending.interrupts(); });
  }();
  pending.raise();
  orRaise(std::move(status));
}

} // namespace

void bindAttention(nb::module_ &m) {
  m.def("view", &view, "array"_a);
  nb::class_<Call>(m, "Call")
      .def("list_bytes", &Call::listBytes, "layer"_a)
      .def("list_layer", &Call::listLayer, "layer"_a)
      .def_prop_ro("workspace_bytes", &Call::workspaceBytes)
      .def("run", &run, "part"_a, "query"_a, "key"_a, "value"_a, "output"_a,
           "lists"_a, "workspace"_a, "stream"_a, "layer"_a, "step"_a, "steps"_a,
           "block_steps"_a);
  nb::class_<Attention>(m, "Attention")
      .def(nb::new_(&make), "bundle"_a, "layers"_a, "device"_a)
      .def("prepare", &prepare, nb::keep_alive<0, 1>(), "dtype"_a,
           "sequences"_a, "length"_a, "prompt"_a, "query_heads"_a, "kv_heads"_a,
           "head_dim"_a, "strides"_a)
      .def(
          "check",
          [](Attention &attention, int64_t steps, int64_t blockSteps) {
            orRaise(attention.check(steps, blockSteps));
          },
          "steps"_a, "block_steps"_a);
  m.def(
      "synchronize",
      [](int device, uintptr_t stream) {
        Calls::One counted;
        Status status = [&] {
          nb::gil_scoped_release released;
          return embed::synchronizeDevice(device, stream);
        }();
        orRaise(std::move(status));
      },
      "device"_a, "stream"_a);
}

} // namespace heddle::python
