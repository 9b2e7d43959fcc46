//===- Model.cpp - A transformer on a device, layer by layer --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Model.h"

#include "runtime/base/Machine.h"
#include "runtime/base/Parallel.h"
#include "runtime/engine/cuda/Address.h"
#include "runtime/engine/cuda/Drain.h"
#include "runtime/engine/cuda/Head.h"
#include "runtime/engine/cuda/Trunk.h"
#include "runtime/model/Rope.h"
#include "runtime/tensor/Convert.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace heddle::rt::cuda {

CudaModel::CudaModel(const Context &context, const Stream &stream,
                     const DeviceWeights &weights, const RowKernels &rows,
                     RowUploads &uploads, ModelConfig config, DType dtype,
                     const CudaModelOptions &options)
    : context(&context), stream(&stream), weights(&weights), kernels(&rows),
      uploads(&uploads), info(std::move(config)), type(dtype),
      options(options) {}

/// A pass that failed may have left copies from and to pinned memory.
CudaModel::~CudaModel() {
  if (heldBytes() > 0)
    (void)stream->synchronize();
}

std::string CudaModel::description() const {
  return context->device().describe();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Logits of a wave, at most: whole units of plannedRows().
int64_t CudaModel::mostLogitRows() const {
  const int64_t rowBytes = bytesOf(headProduct(info, type, 1).yStride);
  const int64_t rows = options.logitBytes / rowBytes;
  const int64_t unit = rows >= 1024 ? 1024 : 128;
  return std::max(rows / unit, int64_t(1)) * unit;
}

CudaModel::Capacity CudaModel::capacityFor(int64_t rows, int64_t logitRows,
                                           int64_t unit,
                                           int64_t positionCount) const {
  Capacity result;
  result.rows = plannedRows(rows);
  result.logitRows =
      logitRows == 0
          ? 0
          : std::max(std::min(plannedRows(logitRows), mostLogitRows()),
                     plannedRows(unit));
  // They grow block by block in some schedules.
  result.positions = std::min<int64_t>(
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(positionCount))),
      info.maxSequenceLength);
  return result;
}

std::pair<ArenaPlan, CudaModel::Slots>
CudaModel::plan(const Capacity &of) const {
  ArenaPlan plan;
  Slots to;
  const int64_t rows = of.rows, hidden = info.hidden;
  auto add = [&](const char *name, int64_t width, int first, int last) {
    return plan.add(name, bytesOf(rows * width), first, last);
  };
  to.x = plan.add("residual stream", bytesOf(rows * hidden));
  to.delta = plan.add("residual update", bytesOf(rows * hidden));
  to.normed = add("normed rows", hidden, moment::norm, moment::qkv);
  to.qkvIn = add("rows of the heads", hidden, moment::qkv, moment::qkv);
  to.qkvOut =
      add("heads of some rows", info.qkvWidth(), moment::qkv, moment::qkv);
  // An executor may look at both from the first part to the last question.
  to.qkv = add("queries, keys and values", info.qkvWidth(), moment::qkv,
               moment::output);
  to.attended = add("attention output", info.attentionWidth(), moment::qkv,
                    moment::output);
  to.outputIn = add("rows of the attention output", info.attentionWidth(),
                    moment::output, moment::output);
  to.outputOut = add("projected rows", hidden, moment::output, moment::output);
  to.mlpNormed =
      add("normed rows of the MLP", hidden, moment::mlpNorm, moment::gateUp);
  to.mlpIn = add("rows of the MLP", hidden, moment::gateUp, moment::gateUp);
  to.gateUp = add("gate and up projection", 2 * info.mlpHidden, moment::gateUp,
                  moment::activation);
  to.activated =
      add("MLP activation", info.mlpHidden, moment::activation, moment::down);
  to.downOut =
      add("rows of the MLP's output", hidden, moment::down, moment::down);
  to.headIn = plan.add("rows of the LM head", bytesOf(of.logitRows * hidden),
                       moment::head, moment::head);
  to.logits = plan.add(
      "logits", bytesOf(of.logitRows * headProduct(info, type, 1).yStride),
      moment::head, moment::head);
  const int64_t table = of.positions * (info.headDim / 2) * int64_t(4);
  to.cos = plan.add("rotation tables", table);
  to.sin = plan.add("rotation tables", table);
  return {std::move(plan), to};
}

int64_t CudaModel::heldBytes() const {
  return arena.bytes() + workspace.bytes();
}

int64_t CudaModel::activationBytes(int64_t rows) const {
  Result<int64_t> bytes = plan(capacityFor(rows, rows, 1, rows)).first.layout();
  if (!bytes)
    return std::numeric_limits<int64_t>::max();
  return *bytes + Gemm::workspaceBytes;
}

Status CudaModel::checkMemory(int64_t bytes, const std::string &what,
                              const std::string &advice) const {
  return checkDeviceMemory(*context, bytes, what, advice, heldBytes());
}

Status CudaModel::reserve(int64_t rows) {
  if (rows == 0)
    return Status::success();
  return reserve(capacityFor(rows, rows, 1, rows));
}

Status CudaModel::reserve(const Capacity &needed) {
  if (!gemm) {
    ArenaPlan space;
    space.add("workspace of products", Gemm::workspaceBytes);
    if (Status s =
            Arena::allocate(*context, std::move(space)).moveTo(workspace);
        !s)
      return s;
    if (Status s =
            Gemm::create(*context, workspace[0], options.products).moveTo(gemm);
        !s)
      return s;
  }
  if (needed.rows <= capacity.rows && needed.logitRows <= capacity.logitRows &&
      needed.positions <= capacity.positions)
    return Status::success();
  const Capacity larger{std::max(needed.rows, capacity.rows),
                        std::max(needed.logitRows, capacity.logitRows),
                        std::max(needed.positions, capacity.positions)};
  // The old memory goes before the new one comes, after the work on it.
  if (Status s = stream->synchronize(); !s)
    return s;
  capacity = {};
  arena = Arena();
  auto [names, places] = plan(larger);
  if (Status s = Arena::allocate(*context, std::move(names), options.memory)
                     .moveTo(arena);
      !s)
    return s.takeError().withContext("a forward pass over " +
                                     std::to_string(larger.rows) + " rows");
  slots = places;
  capacity = larger;
  Status filled = fillTables();
  if (!filled)
    capacity = {};
  return filled;
}

Status CudaModel::fillTables() {
  RopeTable table(info.ropeTheta, info.headDim,
                  info.fullPrecisionRope ? DType::F32 : type);
  table.grow(capacity.positions);
  const int64_t bytes = capacity.positions * (info.headDim / 2) * int64_t(4);
  const Drain drain(*stream);
  if (Status s =
          stream->copyToDevice((*this)[&Slots::cos], table.cos(0), bytes);
      !s)
    return s;
  if (Status s =
          stream->copyToDevice((*this)[&Slots::sin], table.sin(0), bytes);
      !s)
    return s;
  return stream->synchronize();
}

//===----------------------------------------------------------------------===//
// Parts of a pass
//===----------------------------------------------------------------------===//

Result<CudaModel::Rows> CudaModel::rowsOf(const RowSet &set) {
  const auto count = static_cast<int64_t>(set.rows.size());
  if (set.all || count == active) // ascending, so all of them
    return Rows{.count = active};
  Rows rows{.count = count, .all = false, .rows = set.rows};
  if (Status s = uploads->put(*stream, set.rows).moveTo(rows.index); !s)
    return s.takeError();
  return rows;
}

/// x += d where `addDelta`; y = rmsNorm(x), all active rows.
Status CudaModel::norm(bool addDelta, DevicePtr weight, DevicePtr y) {
  return (*kernels)(
      *stream, active,
      abi::RmsNormArgs{.x = at<void>((*this)[&Slots::x]),
                       .delta = at<void>(addDelta ? (*this)[&Slots::delta] : 0),
                       .weight = at<void>(weight),
                       .y = at<void>(y),
                       .index = nullptr,
                       .shift = 0,
                       .width = info.hidden,
                       .eps = info.rmsNormEps});
}

Status CudaModel::copy(const Table &from, const Table &to, int64_t width,
                       int64_t rows) {
  if (rows == 0)
    return Status::success();
  return (*kernels)(*stream, rows,
                    abi::CopyArgs{.x = at<void>(from.base),
                                  .from = at<int32_t>(from.index),
                                  .xStride = from.stride,
                                  .y = at<void>(to.base),
                                  .to = at<int32_t>(to.index),
                                  .yStride = to.stride,
                                  .width = width});
}

GemmShape CudaModel::shapeOf(int64_t rows, int64_t inputs,
                             int64_t outputs) const {
  return {.dtype = type,
          .rows = plannedRows(rows),
          .inputs = inputs,
          .outputs = outputs};
}

/// Parts [firstPart, endPart) of query (0), key (1) and value (2) heads of some
/// rows, from `normed` to `qkv`; query and key heads are rotated.
Status CudaModel::projectHeads(const LayerAddresses &layer, int firstPart,
                               int endPart, const RowSet &set) {
  const bool whole = firstPart == 0 && endPart == 3;
  Result<Rows> rows = rowsOf(set);
  if (!rows)
    return rows.takeError();
  if (rows->count == 0)
    return Status::success();
  const int64_t columns[] = {0, info.attentionWidth(),
                             info.attentionWidth() + info.kvWidth(),
                             info.qkvWidth()};
  const int64_t first = columns[firstPart];
  const int64_t width = columns[endPart] - first;
  const DevicePtr qkv = (*this)[&Slots::qkv], in = (*this)[&Slots::qkvIn],
                  out = (*this)[&Slots::qkvOut];
  GemmShape shape = shapeOf(rows->count, info.hidden, width);
  shape.bias = info.qkvBias;
  shape.layerOutputs = info.qkvWidth();
  GemmOperands operands{in, layer.qkv + bytesOf(first * info.hidden), out,
                        info.qkvBias ? layer.qkvBias + bytesOf(first) : 0};
  if (Status s = gemm->prepare(*stream, shape, operands); !s)
    return s;

  DevicePtr rowPositions = positions;
  if (rows->all) {
    operands.x = (*this)[&Slots::normed];
    if (whole)
      operands.y = qkv;
  } else {
    if (Status s = copy({(*this)[&Slots::normed], rows->index, info.hidden},
                        {in, 0, info.hidden}, info.hidden, rows->count);
        !s)
      return s;
    scratch.clear();
    for (int32_t row : rows->rows)
      scratch.push_back(hostPositions[row]);
    if (Status s = uploads->put(*stream, scratch).moveTo(rowPositions); !s)
      return s;
  }
  if (Status s = gemm->multiply(*stream, shape, operands); !s)
    return s;
  const int64_t heads = (firstPart == 0 ? info.queryHeads : 0) +
                        (firstPart <= 1 && endPart >= 2 ? info.kvHeads : 0);
  if (heads > 0)
    if (Status s =
            (*kernels)(*stream, rows->count,
                       abi::RotateArgs{.x = at<void>(operands.y),
                                       .cos = at<float>((*this)[&Slots::cos]),
                                       .sin = at<float>((*this)[&Slots::sin]),
                                       .position = at<int32_t>(rowPositions),
                                       .heads = heads,
                                       .half = info.headDim / 2,
                                       .stride = width,
                                       .inElements = !info.fullPrecisionRope});
        !s)
      return s;
  if (operands.y == qkv)
    return Status::success();
  return copy({out, 0, width},
              {qkv + bytesOf(first), rows->index, info.qkvWidth()}, width,
              rows->count);
}

/// d = x W^T in the rows of `output`, through the cache if there is one; x
/// [rows.count x inputs], compact; `out` takes the product of some rows. Rows
/// that are neither computed nor kept add nothing, as on the host.
Status CudaModel::takeProducts(const GemmShape &shape, DevicePtr x,
                               DevicePtr weight, DevicePtr out,
                               const Rows &rows,
                               const LayerExecutor::Cached &output) {
  const DevicePtr delta = (*this)[&Slots::delta];
  const int64_t hidden = info.hidden;
  if (rows.count > 0)
    if (Status s =
            gemm->multiply(*stream, shape, {x, weight, rows.all ? delta : out});
        !s)
      return s;
  if (!output.cache) {
    if (rows.all)
      return Status::success();
    if (Status s = stream->fillBytes(delta, 0, bytesOf(active * hidden)); !s)
      return s;
    return copy({out, 0, hidden}, {delta, rows.index, hidden}, hidden,
                rows.count);
  }
  const DevicePtr cache = addressOf(output.cache);
  const int64_t stride = output.rowBytes / byteSize(type);
  assert(static_cast<int64_t>(output.index.size()) == active);
  Result<DevicePtr> kept = uploads->put(*stream, output.index);
  if (!kept)
    return kept.takeError();
  if (rows.all)
    return copy({delta, 0, hidden}, {cache, *kept, stride}, hidden, active);
  scratch.clear();
  for (int32_t row : rows.rows)
    scratch.push_back(output.index[row]);
  Result<DevicePtr> computed = uploads->put(*stream, scratch);
  if (!computed)
    return computed.takeError();
  if (Status s = copy({out, 0, hidden}, {cache, *computed, stride}, hidden,
                      rows.count);
      !s)
    return s;
  return copy({cache, *kept, stride}, {delta, 0, hidden}, hidden, active);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

// Products of new shapes are tried out on memory that nothing is in at that
// moment (plan()): before the rows of a product are brought together.

Status CudaModel::runAttention(int64_t index, const PackedBatch &batch,
                               LayerExecutor &executor) {
  const LayerAddresses &layer = weights->layers[index];
  const AttentionTensors tensors =
      packedTensors(info, type, at<void>((*this)[&Slots::qkv]),
                    at<void>((*this)[&Slots::attended]));
  if (Status s = norm(hasDelta, layer.attentionNorm, (*this)[&Slots::normed]);
      !s)
    return s;
  if (Status s = executeAttention(
          executor, index, batch, tensors,
          [&](int firstPart, int endPart, const RowSet &rows) {
            return projectHeads(layer, firstPart, endPart, rows);
          });
      !s)
    return s;
  auto output = executor.projected(index);
  if (!output)
    return output.takeError();
  Result<Rows> rows = rowsOf(output->computed);
  if (!rows)
    return rows.takeError();
  const GemmShape shape =
      shapeOf(rows->count, info.attentionWidth(), info.hidden);
  const DevicePtr in = (*this)[&Slots::outputIn],
                  out = (*this)[&Slots::outputOut];
  DevicePtr x = (*this)[&Slots::attended];
  if (rows->count > 0)
    if (Status s = gemm->prepare(*stream, shape, {in, layer.attentionOut, out});
        !s)
      return s;
  if (!rows->all) {
    const int64_t width = info.attentionWidth();
    if (Status s =
            copy({x, rows->index, width}, {in, 0, width}, width, rows->count);
        !s)
      return s;
    x = in;
  }
  return takeProducts(shape, x, layer.attentionOut, out, *rows, *output);
}

Status CudaModel::runFfn(const LayerAddresses &layer,
                         const LayerExecutor::Cached &output) {
  Result<Rows> rows = rowsOf(output.computed);
  if (!rows)
    return rows.takeError();
  const DevicePtr in = (*this)[&Slots::mlpIn], gateUp = (*this)[&Slots::gateUp],
                  activated = (*this)[&Slots::activated],
                  out = (*this)[&Slots::downOut];
  const GemmShape up = shapeOf(rows->count, info.hidden, 2 * info.mlpHidden);
  const GemmShape down = shapeOf(rows->count, info.mlpHidden, info.hidden);
  if (rows->count > 0) {
    if (Status s = gemm->prepare(*stream, up, {in, layer.gateUp, gateUp}); !s)
      return s;
    if (Status s = gemm->prepare(*stream, down, {activated, layer.down, out});
        !s)
      return s;
  }
  DevicePtr x = (*this)[&Slots::mlpNormed];
  if (Status s = norm(true, layer.mlpNorm, x); !s)
    return s;
  if (!rows->all) {
    if (Status s = copy({x, rows->index, info.hidden}, {in, 0, info.hidden},
                        info.hidden, rows->count);
        !s)
      return s;
    x = in;
  }
  if (rows->count > 0) {
    if (Status s = gemm->multiply(*stream, up, {x, layer.gateUp, gateUp}); !s)
      return s;
    if (Status s = (*kernels)(*stream, rows->count,
                              abi::SwiGluArgs{.x = at<void>(gateUp),
                                              .y = at<void>(activated),
                                              .width = info.mlpHidden});
        !s)
      return s;
  }
  return takeProducts(down, activated, layer.down, out, *rows, output);
}

/// Hands on the best token of each row of a wave, which the kernel of draws
/// finds: without noise it looks at no position, sequence or clock.
Status CudaModel::bringBest(const LogitRequest &logits, int64_t first,
                            int64_t rows) {
  // The product has been made, so its input's place is free for the results: a
  // status, then [rows] probabilities, then [rows] tokens.
  constexpr int64_t header = 16;
  const int64_t tokens = header + rows * int64_t(sizeof(double));
  const int64_t bytes = tokens + rows * int64_t(sizeof(int32_t));
  const DevicePtr results = (*this)[&Slots::headIn];
  assert(bytes <= arena.bytes(slots.headIn));
  CopyLane &piece = pieces.front();
  if (Status s = piece.reserve(*context, bytes); !s)
    return s;
  scratch.assign(static_cast<size_t>(std::max<int64_t>(rows, 4)), 0);
  Result<DevicePtr> zeros = uploads->put(*stream, scratch);
  if (!zeros)
    return zeros.takeError();
  if (Status s = stream->fillBytes(results, 0, header); !s)
    return s;
  if (Status s = (*kernels)(
          *stream, rows,
          abi::DrawArgs{.logits = at<void>((*this)[&Slots::logits]),
                        .unconditional = nullptr,
                        .vocab = info.vocabSize,
                        .rowStride = headProduct(info, type, 1).yStride,
                        .first = 0,
                        .rows = at<int32_t>(*zeros),
                        .sequenceOf = at<int32_t>(*zeros),
                        .sequenceStart = at<int64_t>(*zeros),
                        .clock = at<int64_t>(*zeros),
                        .temperature = 0,
                        .cfgScale = 0,
                        .seed = 0,
                        .flags = logits.barred < 0
                                     ? 0
                                     : abi::drawBarEos | abi::drawCountEos,
                        .eosToken = logits.barred,
                        .eotToken = -1,
                        .token = at<int32_t>(results + tokens),
                        .confidence = at<double>(results + header),
                        .status = at<int32_t>(results)});
      !s)
    return s;
  if (Status s = stream->copyToHost(piece.buffer.data(), results, bytes); !s)
    return s;
  if (Status s = stream->synchronize(); !s)
    return s;
  std::vector<Best> found(static_cast<size_t>(rows));
  const auto *probability =
      reinterpret_cast<const double *>(piece.buffer.data() + header);
  const auto *token =
      reinterpret_cast<const int32_t *>(piece.buffer.data() + tokens);
  for (int64_t row = 0; row < rows; ++row)
    found[row] = {token[row], probability[row]};
  logits.best(first, rows, found.data());
  return Status::success();
}

/// Brings logits [rows x yStride] of a wave, the request's from `first` on, to
/// the host and hands them out.
Status CudaModel::bringLogits(const LogitRequest &logits, int64_t first,
                              int64_t rows) {
  const int64_t unit = logits.unit, vocab = info.vocabSize;
  const int64_t rowBytes = bytesOf(headProduct(info, type, 1).yStride);
  const int64_t pieceRows =
      std::clamp(options.pieceBytes / rowBytes / unit * unit, unit, rows);
  for (CopyLane &piece : pieces)
    if (Status s = piece.reserve(*context, pieceRows * rowBytes); !s)
      return s;
  if (static_cast<int64_t>(widened.size()) < threadCount() * unit * vocab)
    widened.resize(threadCount() * unit * vocab);

  const int64_t count = (rows + pieceRows - 1) / pieceRows;
  for (int64_t next = 0; next <= count; ++next) {
    if (next < count) {
      CopyLane &piece = pieces[next % 2];
      const int64_t row = next * pieceRows;
      if (Status s = stream->copyToHost(
              piece.buffer.data(), (*this)[&Slots::logits] + row * rowBytes,
              std::min(pieceRows, rows - row) * rowBytes);
          !s)
        return s;
      if (Status s = stream->record(piece.copied); !s)
        return s;
    }
    if (next == 0)
      continue;
    CopyLane &piece = pieces[(next - 1) % 2];
    if (Status s = piece.copied.synchronize(); !s)
      return s;
    const int64_t row = (next - 1) * pieceRows;
    parallelFor(
        std::min(pieceRows, rows - row) / unit, [&](int64_t task, int worker) {
          float *wide = widened.data() + worker * unit * vocab;
          for (int64_t i = 0; i < unit; ++i)
            convert(type, piece.buffer.data() + (task * unit + i) * rowBytes,
                    DType::F32, wide + i * vocab, vocab);
          logits.consume(first + row + task * unit, unit, wide);
        });
  }
  return Status::success();
}

Status CudaModel::runLogits(const LogitRequest &logits) {
  const auto total = static_cast<int64_t>(logits.rows.size());
  const int64_t waveRows = capacity.logitRows / logits.unit * logits.unit;
  scratch.assign(logits.rows.begin(), logits.rows.end());
  Result<DevicePtr> index = uploads->put(*stream, scratch);
  if (!index)
    return index.takeError();
  for (int64_t first = 0; first < total; first += waveRows) {
    const int64_t rows = std::min(waveRows, total - first);
    const GemmShape shape = headProduct(info, type, plannedRows(rows));
    const GemmOperands operands{(*this)[&Slots::headIn], weights->head,
                                (*this)[&Slots::logits]};
    if (Status s = gemm->prepare(*stream, shape, operands); !s)
      return s;
    if (Status s = (*kernels)(
            *stream, rows,
            abi::RmsNormArgs{
                .x = at<void>((*this)[&Slots::x]),
                .delta = at<void>(hasDelta ? (*this)[&Slots::delta] : 0),
                .weight = at<void>(weights->finalNorm),
                .y = at<void>(operands.x),
                .index = at<int32_t>(*index) + first,
                .shift = 0,
                .width = info.hidden,
                .eps = info.rmsNormEps});
        !s)
      return s;
    if (Status s = gemm->multiply(*stream, shape, operands); !s)
      return s;
    if (Status s = logits.best ? bringBest(logits, first, rows)
                               : bringLogits(logits, first, rows);
        !s)
      return s;
  }
  return Status::success();
}

Status CudaModel::forward(const PackedBatch &batch,
                          std::span<const int32_t> tokens,
                          LayerExecutor &executor, const LogitRequest &logits) {
  if (Status s = checkForward(info, batch, tokens, logits); !s)
    return s;
  if (!weights->embedding)
    return Error("a forward pass was asked for before the model was loaded");
  active = batch.rows();
  if (active == 0)
    return Status::success();
  hostPositions = batch.positions;
  if (Status s = uploads->reset(*stream); !s)
    return s;
  if (Status s = reserve(capacityFor(
          active, static_cast<int64_t>(logits.rows.size()), logits.unit,
          *std::max_element(hostPositions.begin(), hostPositions.end()) + 1));
      !s)
    return s;
  if (Status s = uploads->put(*stream, hostPositions).moveTo(positions); !s)
    return s;
  Result<DevicePtr> ids = uploads->put(*stream, tokens);
  if (!ids)
    return ids.takeError();
  if (Status s =
          (*kernels)(*stream, active,
                     abi::EmbedArgs{.tokens = at<int32_t>(*ids),
                                    .table = at<void>(weights->embedding),
                                    .y = at<void>((*this)[&Slots::x]),
                                    .width = info.hidden});
      !s)
    return s;
  hasDelta = false;
  for (int64_t i = 0; i < info.layers; ++i) {
    auto run = [&]() -> Status {
      if (Status s = runAttention(i, batch, executor); !s)
        return s;
      auto output = executor.ffn(i);
      if (!output)
        return output.takeError();
      return runFfn(weights->layers[i], *output);
    };
    if (Status s = run(); !s)
      return s.takeError().withContext("layer " + std::to_string(i));
    hasDelta = true;
  }
  if (logits.rows.empty())
    return Status::success();
  return runLogits(logits);
}

} // namespace heddle::rt::cuda
