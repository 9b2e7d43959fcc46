//===- Calls.cpp - The C API: attention on the caller's tensors -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Support.h"

using namespace heddle;
using namespace heddle::embed;
using namespace heddle::embed::c;

namespace {

// Bounds with which no product of them overflows.
constexpr int64_t mostPositions = int64_t(1) << 20;
constexpr int64_t mostHeads = int64_t(1) << 14;
constexpr int64_t mostHeadDim = int64_t(1) << 12;
constexpr int64_t mostStride = int64_t(1) << 38;

void inRange(const char *name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    invalid(std::string(name) + ": " + std::to_string(value) + "; expected " +
            std::to_string(least) + " to " + std::to_string(most));
}

/// The strides of a tensor; `bytes` becomes its size, first to last element.
CallShape::Strides strides(const char *name, const CallShape &shape,
                           int64_t heads, int64_t sequence, int64_t row,
                           int64_t &bytes) {
  const int64_t width = heads * shape.headDim;
  CallShape::Strides made;
  made.row = row ? row : width;
  inRange((std::string(name) + "_row_stride").c_str(), made.row, width,
          mostStride / mostPositions);
  made.sequence = sequence ? sequence : shape.length * made.row;
  const int64_t one = (shape.length - 1) * made.row + width;
  inRange((std::string(name) + "_sequence_stride").c_str(), made.sequence,
          shape.sequences > 1 ? one : 0, mostStride);
  bytes =
      ((shape.sequences - 1) * made.sequence + one) * rt::byteSize(shape.dtype);
  return made;
}

/// Refuses memory of the caller that is not there, too small or askew.
void memory(const char *name, const void *at, size_t there, int64_t needed,
            int64_t alignment) {
  if (needed == 0)
    return;
  given(at, name);
  if (there < static_cast<size_t>(needed))
    invalid(std::string(name) + " has " + std::to_string(there) +
            " bytes; the call takes " + std::to_string(needed));
  if (reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(alignment))
    invalid(std::string(name) + " begins at no multiple of " +
            std::to_string(alignment) + " bytes");
}

} // namespace

heddle_status heddle_attention_create(heddle_bundle *bundle, int64_t layers,
                                      int64_t device,
                                      heddle_attention **attention) {
  return answer([&] {
    place(attention, "attention");
    std::shared_ptr<BundleObject> schedule = bundles().get(bundle);
    inRange("layers", layers, 1, mostHeads);
    inRange("device", device, -1, mostHeads);
    auto made = std::make_shared<AttentionObject>();
    made->layers = layers;
    made->attention = orFail(
        Attention::make(schedule->bundle, layers, static_cast<int>(device)));
    *attention = attentions().add(std::move(made));
  });
}

heddle_status heddle_attention_destroy(heddle_attention *attention) {
  return answer([&] {
    if (attention)
      attentions().take(attention);
  });
}

heddle_status heddle_call_create(heddle_attention *attention,
                                 const heddle_attention_shape *shape,
                                 heddle_call **call) {
  return answer([&] {
    place(call, "call");
    auto made = std::make_shared<CallObject>();
    made->owner = attentions().get(attention);
    heddle_attention_shape asked =
        read(given(shape, "shape"), "heddle_attention_shape");
    std::optional<rt::DType> dtype =
        rt::dtypeNamed(given(asked.dtype, "dtype"));
    if (!dtype)
      invalid(std::string("dtype: '") + asked.dtype +
              "' is none of f32, bf16, f16");
    inRange("sequences", asked.sequences, 1, mostPositions);
    inRange("length", asked.length, 1, mostPositions);
    inRange("prompt", asked.prompt, 0, asked.length);
    inRange("query_heads", asked.query_heads, 1, mostHeads);
    inRange("kv_heads", asked.kv_heads, 1, mostHeads);
    inRange("head_dim", asked.head_dim, 1, mostHeadDim);
    if (asked.query_heads % asked.kv_heads)
      invalid("query_heads: " + std::to_string(asked.query_heads) +
              " is no multiple of kv_heads, " + std::to_string(asked.kv_heads));
    CallShape to;
    to.sequences = asked.sequences;
    to.length = asked.length;
    to.prompt = asked.prompt;
    to.queryHeads = asked.query_heads;
    to.kvHeads = asked.kv_heads;
    to.headDim = asked.head_dim;
    to.dtype = *dtype;
    made->elementBytes = rt::byteSize(*dtype);
    to.query = strides("query", to, to.queryHeads, asked.query_sequence_stride,
                       asked.query_row_stride, made->inputBytes[0]);
    to.key = strides("key", to, to.kvHeads, asked.key_sequence_stride,
                     asked.key_row_stride, made->inputBytes[1]);
    to.value = strides("value", to, to.kvHeads, asked.value_sequence_stride,
                       asked.value_row_stride, made->inputBytes[2]);
    to.output =
        strides("output", to, to.queryHeads, asked.output_sequence_stride,
                asked.output_row_stride, made->outputBytes);
    made->call = orFail(made->owner->attention->prepare(to));
    *call = calls().add(std::move(made));
  });
}

heddle_status heddle_call_memory(heddle_call *call, int64_t layer,
                                 size_t *list_bytes, size_t *workspace_bytes) {
  return answer([&] {
    if (list_bytes)
      *list_bytes = 0;
    if (workspace_bytes)
      *workspace_bytes = 0;
    std::shared_ptr<CallObject> object = calls().get(call);
    inRange("layer", layer, 0, object->owner->layers - 1);
    if (list_bytes)
      *list_bytes = static_cast<size_t>(object->call->listBytes(layer));
    if (workspace_bytes)
      *workspace_bytes = static_cast<size_t>(object->call->workspaceBytes());
  });
}

heddle_status heddle_call_list_layer(heddle_call *call, int64_t layer,
                                     int64_t *of) {
  return answer([&] {
    *given(of, "of") = -1;
    std::shared_ptr<CallObject> object = calls().get(call);
    inRange("layer", layer, 0, object->owner->layers - 1);
    *of = object->call->listLayer(layer);
  });
}

heddle_status heddle_call_run(heddle_call *call,
                              const heddle_attention_run *run) {
  return answer([&] {
    std::shared_ptr<CallObject> object = calls().get(call);
    heddle_attention_run asked =
        read(given(run, "run"), "heddle_attention_run");
    inRange("part", asked.part, HEDDLE_ALL, HEDDLE_ATTEND);
    inRange("layer", asked.layer, 0, object->owner->layers - 1);
    Place place;
    place.layer = asked.layer;
    place.steps = asked.steps ? asked.steps : 1;
    place.step = asked.step ? asked.step : 1;
    place.blockSteps = asked.block_steps;
    inRange("steps", place.steps, 1, mostPositions);
    inRange("step", place.step, 1, place.steps);
    inRange("block_steps", place.blockSteps, 0, place.steps);

    const auto part = static_cast<Part>(asked.part);
    const int64_t element = object->elementBytes;
    memory("query", asked.query, asked.query_bytes, object->inputBytes[0],
           element);
    memory("key", asked.key, asked.key_bytes, object->inputBytes[1], element);
    if (part != Part::Select) {
      memory("value", asked.value, asked.value_bytes, object->inputBytes[2],
             element);
      memory("output", asked.output, asked.output_bytes, object->outputBytes,
             element);
    }
    memory("lists", asked.lists, asked.list_bytes,
           object->call->listBytes(asked.layer), 64);
    memory("workspace", asked.workspace, asked.workspace_bytes,
           object->call->workspaceBytes(), 1);
    CallMemory to;
    to.query = asked.query;
    to.key = asked.key;
    // A selection alone reads no value; its kernel gets an address all the
    // same.
    to.value = part == Part::Select ? asked.key : asked.value;
    to.output = asked.output;
    to.lists = asked.lists;
    to.workspace = asked.workspace;
    to.stream = reinterpret_cast<uintptr_t>(asked.stream);
    orFail(object->call->run(place, part, to));
  });
}

heddle_status heddle_call_destroy(heddle_call *call) {
  return answer([&] {
    if (call)
      calls().take(call);
  });
}
