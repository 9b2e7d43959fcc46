//===- Gemm.cpp - Linear layers on the host -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/Gemm.h"

#include "runtime/base/Parallel.h"
#include "runtime/device/cpu/RowKernels.h"
#include "runtime/tensor/Convert.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <csignal>
#include <unordered_map>

#include <oneapi/dnnl/dnnl.hpp>

// Of the OpenMP runtime that oneDNN is linked to; there is no omp.h for every
// compiler that may build this file.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace heddle::rt::cpu {

namespace {

/// Keeps oneDNN on the calling thread: it asks OpenMP for the number of
/// threads, both when it plans a primitive and when it runs one. The setting
/// belongs to the calling thread and is put back for whatever else runs there.
class SingleThread {
public:
  SingleThread() : before(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThread() { omp_set_num_threads(before); }
  SingleThread(const SingleThread &) = delete;
  SingleThread &operator=(const SingleThread &) = delete;

private:
  int before;
};

/// Holds back, on the calling thread, the signals that others send. oneDNN's
/// generated code may keep an address of the heap in the stack pointer (its
/// issue 4845): the frame of a signal's handler would be written there.
class HeldSignals {
public:
  HeldSignals() {
    sigset_t held;
    sigfillset(&held);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
      sigdelset(&held, fault);
    pthread_sigmask(SIG_BLOCK, &held, &before);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  HeldSignals(const HeldSignals &) = delete;
  HeldSignals &operator=(const HeldSignals &) = delete;

private:
  sigset_t before;
};

const dnnl::engine &engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

int64_t alignUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace

/// Immutable after construction; executed by many threads at once, each with
/// its own scratch memory.
class TileProduct {
public:
  /// Throws dnnl::error when oneDNN lacks the product.
  TileProduct(dnnl::memory::data_type type, int64_t inputs, int64_t outputs,
              bool widens)
      : inputs(inputs), outputs(outputs), widens(widens) {
    using dnnl::memory;
    memory::desc x({tileRows, inputs}, type, memory::dims{inputs, 1});
    memory::desc w({inputs, outputs}, type, memory::format_tag::any);
    memory::desc y({tileRows, outputs}, memory::data_type::f32,
                   memory::dims{outputs, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    description = dnnl::matmul::primitive_desc({x, w, y}, attributes, engine());
    primitive = dnnl::matmul(description);
    // Source of the packing: [outputs x inputs], as checkpoints have it.
    plainWeights =
        memory::desc({inputs, outputs}, type, memory::dims{1, inputs});
    packing = dnnl::reorder(dnnl::reorder::primitive_desc(
        engine(), plainWeights, engine(), description.weights_desc()));
  }

  /// Elements of the packed weights, padding included.
  int64_t packedElements() const {
    return static_cast<int64_t>(description.weights_desc().get_size()) /
           (description.weights_desc().data_type() ==
                    dnnl::memory::data_type::f32
                ? 4
                : 2);
  }
  int64_t scratchBytes() const {
    return static_cast<int64_t>(description.scratchpad_desc().get_size());
  }

  int64_t inputs, outputs;
  /// Weights and x are held in BF16 and widened to fp32 for each product.
  bool widens;
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  dnnl::memory::desc plainWeights;
  dnnl::reorder packing;
};

//===----------------------------------------------------------------------===//
// Gemm
//===----------------------------------------------------------------------===//

Gemm::Gemm(DType dtype) : type(dtype) {
  assert(dtype != DType::F16 && "nothing computes in F16");
}

Gemm::~Gemm() = default;

Result<std::shared_ptr<const TileProduct>> Gemm::product(int64_t inputs,
                                                         int64_t outputs) {
  using DataType = dnnl::memory::data_type;
  std::shared_ptr<const TileProduct> &product = products[{inputs, outputs}];
  if (product)
    return product;
  SingleThread singleThread;
  if (type == DType::BF16) {
    try {
      product = std::make_shared<TileProduct>(DataType::bf16, inputs, outputs,
                                              /*widens=*/false);
      return product;
    } catch (const dnnl::error &) {
      // No BF16 products here: those of fp32 give the same up to the order of
      // additions.
    }
  }
  try {
    product = std::make_shared<TileProduct>(DataType::f32, inputs, outputs,
                                            /*widens=*/type == DType::BF16);
    return product;
  } catch (const dnnl::error &error) {
    return Error("oneDNN cannot multiply [" + std::to_string(tileRows) + " x " +
                 std::to_string(inputs) + "] by [" + std::to_string(inputs) +
                 " x " + std::to_string(outputs) +
                 "] on this machine: " + error.what());
  }
}

std::string Gemm::description() const {
  const dnnl_version_t *version = dnnl_version();
  std::string text = "oneDNN " + std::to_string(version->major) + "." +
                     std::to_string(version->minor) + "." +
                     std::to_string(version->patch);
  for (const auto &[shape, product] : products)
    if (product) {
      text += std::string(", ") + product->description.impl_info_str();
      if (product->widens)
        text += " on f32 (this CPU has no bf16 products: bf16 weights are "
                "widened, results rounded to bf16)";
      break;
    }
  return text;
}

//===----------------------------------------------------------------------===//
// GemmWorker
//===----------------------------------------------------------------------===//

struct GemmWorker::State {
  /// oneDNN's view of this worker's memory for one shape.
  struct Views {
    dnnl::memory x, y, scratch, weights;
  };

  dnnl::stream stream{engine()};
  Buffer y, scratch;
  /// When products are widened: x and weights of the tile in fp32, and whose
  /// weights those are.
  Buffer wideX, wideWeights;
  const void *widened = nullptr;
  std::unordered_map<const TileProduct *, Views> views;

  Views &view(const TileProduct &product) {
    auto found = views.find(&product);
    if (found != views.end())
      return found->second;
    const auto &description = product.description;
    Views made;
    // The place of x changes with every product; this one is never read.
    made.x = dnnl::memory(description.src_desc(), engine(),
                          product.widens ? wideX.data() : y.data());
    made.y = dnnl::memory(description.dst_desc(), engine(), y.data());
    made.scratch =
        dnnl::memory(description.scratchpad_desc(), engine(), scratch.data());
    if (product.widens)
      made.weights = dnnl::memory(description.weights_desc(), engine(),
                                  wideWeights.data());
    return views.emplace(&product, std::move(made)).first->second;
  }
};

GemmWorker::GemmWorker() : state(std::make_unique<State>()) {}
GemmWorker::~GemmWorker() = default;
GemmWorker::GemmWorker(GemmWorker &&) noexcept = default;
GemmWorker &GemmWorker::operator=(GemmWorker &&) noexcept = default;

int64_t GemmWorker::bytes(const TileProduct &product) {
  int64_t floats = tileRows * product.outputs;
  if (product.widens)
    floats += tileRows * product.inputs + product.packedElements();
  return floats * 4 + product.scratchBytes();
}

Status GemmWorker::reserve(const TileProduct &product) {
  auto grow = [&](Buffer &buffer, int64_t bytes) -> Status {
    if (buffer.size() >= bytes)
      return Status::success();
    if (Status status = Buffer::allocate(bytes).moveTo(buffer); !status)
      return status;
    // What pointed to the old memory must be made anew.
    state->views.clear();
    state->widened = nullptr;
    return Status::success();
  };
  if (Status s = grow(state->y, tileRows * product.outputs * 4); !s)
    return s;
  // One byte at least: oneDNN takes a null pointer for "no memory".
  if (Status s =
          grow(state->scratch, std::max<int64_t>(product.scratchBytes(), 1));
      !s)
    return s;
  if (!product.widens)
    return Status::success();
  if (Status s = grow(state->wideX, tileRows * product.inputs * 4); !s)
    return s;
  return grow(state->wideWeights, product.packedElements() * 4);
}

//===----------------------------------------------------------------------===//
// PackedLinear
//===----------------------------------------------------------------------===//

struct PackedLinear::Chunk {
  std::shared_ptr<const TileProduct> product;
  int64_t firstOutput = 0;
  int64_t offset = 0;   ///< in `memory`, bytes
  dnnl::memory weights; ///< view of it; none when widened
};

PackedLinear::PackedLinear() = default;
PackedLinear::~PackedLinear() = default;
PackedLinear::PackedLinear(PackedLinear &&) noexcept = default;
PackedLinear &PackedLinear::operator=(PackedLinear &&) noexcept = default;

Result<PackedLinear> PackedLinear::plan(Gemm &gemm, int64_t inputs,
                                        const std::vector<int64_t> &outputs) {
  PackedLinear layer;
  layer.type = gemm.dtype();
  layer.columns = inputs;
  int64_t first = 0;
  for (int64_t count : outputs) {
    Result<std::shared_ptr<const TileProduct>> product =
        gemm.product(inputs, count);
    if (!product)
      return product.takeError();
    layer.pieces.push_back(
        {*product, first, layer.packedBytes, dnnl::memory()});
    first += count;
    layer.packedBytes +=
        alignUp((*product)->packedElements() * byteSize(gemm.dtype()));
  }
  return layer;
}

int64_t PackedLinear::chunks() const {
  return static_cast<int64_t>(pieces.size());
}

int64_t PackedLinear::outputs(int64_t chunk) const {
  return pieces[chunk].product->outputs;
}

int64_t PackedLinear::firstOutput(int64_t chunk) const {
  return pieces[chunk].firstOutput;
}

Status PackedLinear::allocate() {
  if (Status status = Buffer::allocate(packedBytes).moveTo(memory); !status)
    return status;
  return Status::success();
}

Status PackedLinear::pack(int64_t chunk, const void *rows) {
  Chunk &piece = pieces[chunk];
  const TileProduct &product = *piece.product;
  const dnnl::memory::desc packedDesc = product.description.weights_desc();
  void *packed = memory.data() + piece.offset;
  int64_t plainElements = product.inputs * product.outputs;
  SingleThread singleThread;
  HeldSignals heldSignals;
  try {
    dnnl::stream stream(engine());
    if (!product.widens) {
      dnnl::memory source(product.plainWeights, engine(),
                          const_cast<void *>(rows));
      piece.weights = dnnl::memory(packedDesc, engine(), packed);
      product.packing.execute(stream, source, piece.weights);
      stream.wait();
      return Status::success();
    }
    // Packed in fp32, then narrowed element by element: exact, since every
    // value is a BF16 one, and multiply() widens without knowing the layout.
    Result<Buffer> plain = Buffer::allocate(plainElements * 4);
    Result<Buffer> wide = Buffer::allocate(product.packedElements() * 4);
    if (!plain || !wide)
      return plain ? wide.takeError() : plain.takeError();
    convert(DType::BF16, rows, DType::F32, plain->data(), plainElements);
    dnnl::memory source(product.plainWeights, engine(), plain->data());
    dnnl::memory target(packedDesc, engine(), wide->data());
    product.packing.execute(stream, source, target);
    stream.wait();
    convert(DType::F32, wide->data(), DType::BF16, packed,
            product.packedElements());
  } catch (const dnnl::error &error) {
    return Error(std::string("oneDNN cannot pack weights: ") + error.what());
  }
  return Status::success();
}

Status PackedLinear::reserve(GemmWorker &worker) const {
  for (const Chunk &piece : pieces)
    if (Status status = worker.reserve(*piece.product); !status)
      return status;
  return Status::success();
}

int64_t PackedLinear::workerBytes() const {
  int64_t bytes = 0;
  for (const Chunk &piece : pieces)
    bytes = std::max(bytes, GemmWorker::bytes(*piece.product));
  return bytes;
}

const float *PackedLinear::multiply(int64_t chunk, const void *x,
                                    GemmWorker &worker) const {
  const Chunk &piece = pieces[chunk];
  const TileProduct &product = *piece.product;
  GemmWorker::State &state = *worker.state;
  SingleThread singleThread;
  HeldSignals heldSignals;
  try {
    GemmWorker::State::Views &views = state.view(product);
    dnnl_memory_t weights = piece.weights.get(/*allow_empty=*/true);
    if (product.widens) {
      const RowKernels &kernels = rowKernels(DType::BF16);
      const std::byte *packed = memory.data() + piece.offset;
      if (state.widened != packed) {
        kernels.widen(packed, state.wideWeights.as<float>(),
                      product.packedElements());
        state.widened = packed;
      }
      kernels.widen(x, state.wideX.as<float>(), tileRows * product.inputs);
      weights = views.weights.get();
    } else {
      views.x.set_data_handle(const_cast<void *>(x));
    }
    // The C interface: dnnl::primitive::execute builds a hash map a call.
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, views.x.get()},
        {DNNL_ARG_WEIGHTS, weights},
        {DNNL_ARG_DST, views.y.get()},
        {DNNL_ARG_SCRATCHPAD, views.scratch.get()}};
    dnnl_status_t status =
        dnnl_primitive_execute(product.primitive.get(), state.stream.get(),
                               std::size(arguments), arguments);
    return status == dnnl_success ? state.y.as<float>() : nullptr;
  } catch (const dnnl::error &) {
    return nullptr;
  }
}

Status multiplyTiles(const PackedLinear &layer, ChunkRange chunks,
                     const void *x, int64_t rows,
                     std::vector<GemmWorker> &workers,
                     const TileEpilogue &epilogue) {
  assert(static_cast<int>(workers.size()) >= threadCount());
  int64_t tiles = tileCount(rows);
  // A task is one chunk times several tiles, so that its weights are read from
  // memory once; but every thread should get some four tasks.
  int64_t count = chunks.end - chunks.first;
  int64_t perTask =
      std::clamp<int64_t>(tiles * count / (4 * threadCount()), 1, 8);
  int64_t groups = (tiles + perTask - 1) / perTask;
  std::atomic<bool> failed = false;
  int64_t tileBytes = tileRows * layer.inputs() * byteSize(layer.dtype());
  parallelFor(count * groups, [&](int64_t task, int worker) {
    int64_t chunk = chunks.first + task / groups;
    int64_t first = task % groups * perTask;
    int64_t last = std::min(first + perTask, tiles);
    for (int64_t tile = first; tile < last; ++tile) {
      const float *y = layer.multiply(
          chunk, static_cast<const std::byte *>(x) + tile * tileBytes,
          workers[worker]);
      if (!y) {
        failed = true;
        return;
      }
      epilogue(chunk, tile * tileRows,
               std::min(tileRows, rows - tile * tileRows), y, worker);
    }
  });
  if (failed)
    return Error("oneDNN failed to multiply (is the memory exhausted?)");
  return Status::success();
}

} // namespace heddle::rt::cpu
