//===- Gemm.h - Linear layers on the host -----------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// y = x W^T with oneDNN, cut up so that a row's result is bit for bit the same
// in every batch, at every place in it and with any number of threads:
//
//   - the outputs of a layer are split into chunks, once, by shape alone;
//   - rows are processed in tiles of exactly 64 (the last one is padded);
//   - (tile, chunk) is always the same single-threaded oneDNN primitive, and
//     every tile uses the same code for the same element.
//
// Worked example: 256 inputs, 768 outputs in chunks of 256, 130 rows: 3 x 3
// products [64 x 256] * [256 x 256], of whose last tile 2 rows count.
//
// The products of a tile land in the worker's own memory, and the caller's
// epilogue (residual, rotation, SwiGLU...) takes them from there while they are
// in the cache.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CPU_GEMM_H
#define HEDDLE_RUNTIME_DEVICE_CPU_GEMM_H

#include "bundle/Result.h"
#include "runtime/base/Buffer.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace heddle::rt::cpu {

/// Rows of a tile.
inline constexpr int64_t tileRows = 64;

inline int64_t tileCount(int64_t rows) {
  return (rows + tileRows - 1) / tileRows;
}

/// `rows` rounded up to whole tiles: what an input of PackedLinear must have.
inline int64_t paddedRows(int64_t rows) { return tileCount(rows) * tileRows; }

/// A good number of outputs of a chunk: weights that fit a core's L2 cache, and
/// chunks enough for many cores.
inline int64_t chunkOutputs(int64_t inputs) {
  return inputs <= 2048 ? 256 : 128;
}

/// One oneDNN primitive, [64 x inputs] * [inputs x outputs] (Gemm.cpp).
class TileProduct;

/// The primitives of one element type, one per shape.
class Gemm {
public:
  explicit Gemm(DType dtype);
  ~Gemm();

  DType dtype() const { return type; }

  /// The primitive for a shape, made at the first request (not thread-safe).
  Result<std::shared_ptr<const TileProduct>> product(int64_t inputs,
                                                     int64_t outputs);

  /// Which code runs, for people: "oneDNN 2.6.3, brg:avx512_core_amx_bf16".
  /// Says so when BF16 products are computed in fp32 because this CPU (or this
  /// oneDNN) has no BF16 ones.
  std::string description() const;

private:
  DType type;
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const TileProduct>>
      products;
};

/// Memory that one thread needs to multiply; any layer of the same Gemm can
/// use it. Not thread-safe.
class GemmWorker {
public:
  GemmWorker();
  ~GemmWorker();
  GemmWorker(GemmWorker &&) noexcept;
  GemmWorker &operator=(GemmWorker &&) noexcept;

  /// Bytes that it grows to when it serves the given shape.
  static int64_t bytes(const TileProduct &product);

  /// Makes room for the shape.
  Status reserve(const TileProduct &product);

private:
  friend class PackedLinear;
  struct State;
  std::unique_ptr<State> state;
};

/// The weights of a linear layer, [outputs x inputs], packed chunk by chunk in
/// the layout that oneDNN prefers.
class PackedLinear {
public:
  /// Chooses the layout; the weights take no memory yet. `outputs`: outputs of
  /// each chunk.
  static Result<PackedLinear> plan(Gemm &gemm, int64_t inputs,
                                   const std::vector<int64_t> &outputs);

  PackedLinear();
  ~PackedLinear();
  PackedLinear(PackedLinear &&) noexcept;
  PackedLinear &operator=(PackedLinear &&) noexcept;

  DType dtype() const { return type; }
  int64_t inputs() const { return columns; }
  int64_t chunks() const;
  int64_t outputs(int64_t chunk) const;
  /// The first output of a chunk.
  int64_t firstOutput(int64_t chunk) const;

  /// Bytes of the packed weights.
  int64_t bytes() const { return packedBytes; }

  Status allocate();

  /// Packs a chunk. `rows` [outputs(chunk) x inputs] in the Gemm's type. After
  /// allocate(); different chunks may be packed by different threads.
  Status pack(int64_t chunk, const void *rows);

  /// Makes room for every chunk's shape.
  Status reserve(GemmWorker &worker) const;
  int64_t workerBytes() const;

  /// Returns y [64 x outputs(chunk)] fp32 in the worker's memory, valid until
  /// its next use, or null when oneDNN fails. x [64 x inputs] in the Gemm's
  /// type, finite in every row.
  const float *multiply(int64_t chunk, const void *x, GemmWorker &worker) const;

private:
  struct Chunk;
  DType type = DType::F32;
  int64_t columns = 0;
  int64_t packedBytes = 0;
  std::vector<Chunk> pieces;
  Buffer memory;
};

/// Takes the products of one tile: y [rows x outputs(chunk)] fp32 for rows
/// [firstRow, firstRow + rows).
using TileEpilogue = std::function<void(
    int64_t chunk, int64_t firstRow, int64_t rows, const float *y, int worker)>;

/// Chunks [first, end) of a layer.
struct ChunkRange {
  int64_t first;
  int64_t end;
};

/// Multiplies x [paddedRows(rows) x inputs] by some chunks of the layer, in
/// parallel, and hands each (tile, chunk) to `epilogue`, from several threads
/// at once.
/// `workers` has threadCount() entries that know the layer's shapes.
/// Fails when oneDNN does; some tiles have then not been delivered.
Status multiplyTiles(const PackedLinear &layer, ChunkRange chunks,
                     const void *x, int64_t rows,
                     std::vector<GemmWorker> &workers,
                     const TileEpilogue &epilogue);

} // namespace heddle::rt::cpu

#endif // HEDDLE_RUNTIME_DEVICE_CPU_GEMM_H
