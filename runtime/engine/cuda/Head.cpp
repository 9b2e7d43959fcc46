//===- Head.cpp - LM head, draws and commits on a device -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Head.h"

#include "runtime/engine/cuda/Address.h"
#include "runtime/engine/cuda/Drain.h"
#include "runtime/engine/cuda/Trunk.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace heddle::rt::cuda {

namespace {

constexpr int64_t roundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// The number of candidates, and with it waves of them, is a multiple of this.
constexpr int64_t headRows = 128;

// Before the arrays of a step's results: status and number of candidates.
constexpr int64_t statusOffset = 0, countOffset = 8, resultHeader = 16;

template <typename T>
const T *hostArray(const PinnedBuffer &buffer, int64_t offset) {
  return reinterpret_cast<const T *>(buffer.data() + offset);
}

} // namespace

GemmShape headProduct(const ModelConfig &config, DType dtype, int64_t rows) {
  return {.dtype = dtype,
          .rows = rows,
          .inputs = config.hidden,
          .outputs = config.vocabSize,
          .yStride = roundUp(config.vocabSize, 8)};
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

Head::Results Head::Results::layOut(DevicePtr base, int64_t capacity) {
  Results result;
  result.base = base;
  int64_t at = resultHeader;
  auto take = [&](int64_t bytes) {
    int64_t offset = at;
    at += roundUp(bytes, 8);
    return offset;
  };
  result.confidence = take(capacity * 8);
  result.rows = take(capacity * 4);
  result.sequence = take(capacity * 4);
  result.token = take(capacity * 4);
  result.committed = take(capacity);
  result.bytes = at;
  return result;
}

Head Head::plan(const ModelConfig &config, DType dtype, const PackedRun &run,
                ArenaPlan &plan) {
  Head head;
  head.config = config;
  head.dtype = dtype;
  head.batch = run;
  const int64_t size = byteSize(dtype), sequences = run.sequences();
  head.mostCandidates = sequences * run.options.genLength;
  head.vocabStride = headProduct(config, dtype, 1).yStride;
  int64_t most = roundUp(head.mostCandidates, headRows);
  head.waveRows =
      std::clamp(logitBytes / (head.vocabStride * size) / headRows * headRows,
                 headRows, most);
  head.tokenSlot = plan.add("tokens", run.rows() * 4);
  head.resultSlot = plan.add("results", Results::layOut(0, most).bytes);
  head.rangeSlot = plan.add("ranges", 4 * sequences * 8);
  head.countSlot = plan.add("counts", 2 * sequences * 4);
  head.clockSlot = plan.add("clock", 16);
  head.clocksSlot = plan.add("clocks", run.options.steps * 16);
  head.offsetSlot = plan.add("candidate offsets", (2 * sequences + 2) * 8);
  head.gatheredSlot =
      plan.add("rows of the LM head", head.waveRows * config.hidden * size,
               moment::head, moment::head);
  head.logitSlot = plan.add("logits", head.waveRows * head.vocabStride * size,
                            moment::head, moment::head);
  head.unconditionalSlot =
      plan.add("unconditional logits",
               run.guided ? head.waveRows * head.vocabStride * size : 0,
               moment::head, moment::head);
  return head;
}

Status Head::begin(const Context &context, const Stream &stream,
                   const Arena &arena, const DeviceWeights &modelWeights,
                   const RowKernels &rowKernels, Gemm &products,
                   std::span<const std::vector<int32_t>> prompts) {
  weights = &modelWeights;
  rows = &rowKernels;
  gemm = &products;
  token = arena[tokenSlot];
  result = arena[resultSlot];
  ranges = arena[rangeSlot];
  counts = arena[countSlot];
  clock = arena[clockSlot];
  clocks = arena[clocksSlot];
  offsets = arena[offsetSlot];
  gathered = arena[gatheredSlot];
  logits = arena[logitSlot];
  unconditional = arena[unconditionalSlot];
  const int64_t sequences = batch.sequences();
  if (Status s =
          PinnedBuffer::allocate(context, std::max(arena.bytes(resultSlot),
                                                   5 * sequences * int64_t(8)))
              .moveTo(host);
      !s)
    return s;

  // Prompt and masks; without the prompt in the unconditional half.
  std::vector<int32_t> packed(batch.rows(), config.maskToken);
  for (int64_t s = 0; s < sequences; ++s)
    std::copy(prompts[s].begin(), prompts[s].end(),
              packed.begin() + batch.offsets[s]);
  std::vector<int64_t> table;
  const int64_t perBlock = batch.stepsPerBlock();
  for (int64_t step = 1; step <= batch.options.steps; ++step) {
    table.push_back(step);
    table.push_back((step - 1) % perBlock);
  }
  const std::vector<int64_t> starts(batch.offsets.begin(), batch.offsets.end());
  const Drain drain(stream);
  // The offsets' slot: [sequences + 1] candidate offsets, int32, padded to
  // 8-byte units, then [sequences + 1] packed starts.
  if (Status s =
          stream.copyToDevice(token, packed.data(), batch.rows() * int64_t(4));
      !s)
    return s;
  if (Status s = stream.copyToDevice(clocks, table.data(),
                                     static_cast<int64_t>(table.size()) * 8);
      !s)
    return s;
  if (Status s =
          stream.copyToDevice(offsets + (sequences + 1) * 8, starts.data(),
                              static_cast<int64_t>(starts.size()) * 8);
      !s)
    return s;
  if (Status s = stream.fillBytes(result, 0, resultHeader); !s)
    return s;
  if (Status s = stream.synchronize(); !s)
    return s;
  // All that the run can need: choosing in a step would hold it up.
  for (int64_t count = 1; count <= waveRows; count = productRows(count) + 1)
    if (Status s = gemm->prepare(stream,
                                 headProduct(config, dtype, productRows(count)),
                                 {gathered, weights->head, logits});
        !s)
      return s;
  return Status::success();
}

Status Head::beginBlock(const Stream &stream, int64_t block) {
  const int64_t sequences = batch.sequences();
  const int64_t length = batch.options.blockLength;
  // [first of the block, first of the response, end] of each sequence.
  auto *range = host.as<int64_t>();
  for (int64_t s = 0; s < sequences; ++s) {
    int64_t response = batch.offsets[s] + batch.promptLengths[s];
    range[s] = response + block * length;
    range[sequences + s] = response;
    range[2 * sequences + s] = range[s] + length;
  }
  if (Status s = stream.copyToDevice(ranges, range, 3 * sequences * 8); !s)
    return s;
  const DevicePtr end = ranges + 2 * sequences * 8;
  for (int64_t which = 0; which < 2; ++which)
    if (Status s =
            (*rows)(stream, sequences,
                    abi::MaskedCountArgs{
                        .tokens = at<int32_t>(token),
                        .first = at<int64_t>(ranges + which * sequences * 8),
                        .end = at<int64_t>(end),
                        .count = at<int32_t>(counts + which * sequences * 4),
                        .maskToken = config.maskToken});
        !s)
      return s;
  std::byte *back = host.data() + 3 * sequences * 8;
  if (Status s = stream.copyToHost(back, counts, 2 * sequences * 4); !s)
    return s;
  if (Status s = stream.synchronize(); !s)
    return s;
  const auto *count = reinterpret_cast<const int32_t *>(back);
  masked.assign(count, count + sequences);
  candidates =
      std::accumulate(count + sequences, count + 2 * sequences, int64_t(0));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

bool Head::anyQuota(int64_t stepInBlock) const {
  const int64_t steps = batch.stepsPerBlock();
  return std::any_of(masked.begin(), masked.end(), [&](int64_t count) {
    return count / steps > 0 || stepInBlock < count % steps;
  });
}

int64_t Head::logitRows() const {
  return drew ? capacity * (batch.guided ? 2 : 1) : 0;
}

/// Rows of the product for `count` candidates.
int64_t Head::productRows(int64_t count) const {
  return std::min(plannedRows(count), waveRows);
}

/// Logits of candidates [first, first + count), `shift` rows further on.
Status Head::project(const Stream &stream, DevicePtr hidden, DevicePtr delta,
                     int64_t first, int64_t count, int64_t shift,
                     DevicePtr to) {
  GemmShape shape = headProduct(config, dtype, productRows(count));
  GemmOperands operands{gathered, weights->head, to};
  if (Status s =
          (*rows)(stream, count,
                  abi::RmsNormArgs{
                      .x = at<void>(hidden),
                      .delta = at<void>(delta),
                      .weight = at<void>(weights->finalNorm),
                      .y = at<void>(gathered),
                      .index = at<int32_t>(results.base + results.rows) + first,
                      .shift = shift,
                      .width = config.hidden,
                      .eps = config.rmsNormEps});
      !s)
    return s;
  return gemm->multiply(stream, shape, operands);
}

Status Head::draw(const Stream &stream, int64_t first, int64_t count) {
  const SampleOptions &sampling = batch.options.sampling;
  int64_t flags = 0;
  if (sampling.remasking == Remasking::Random)
    flags |= abi::drawRandomConfidence;
  if (sampling.logitsEosInf)
    flags |= abi::drawBarEos;
  if (sampling.confidenceEosEotInf)
    flags |= abi::drawBarConfidence;
  const DevicePtr base = results.base;
  return (*rows)(
      stream, count,
      abi::DrawArgs{.logits = at<void>(logits),
                    .unconditional = at<void>(batch.guided ? unconditional : 0),
                    .vocab = config.vocabSize,
                    .rowStride = vocabStride,
                    .first = first,
                    .rows = at<int32_t>(base + results.rows),
                    .sequenceOf = at<int32_t>(base + results.sequence),
                    .sequenceStart =
                        at<int64_t>(offsets + (batch.sequences() + 1) * 8),
                    .clock = at<int64_t>(clock),
                    .temperature = sampling.temperature,
                    .cfgScale = sampling.cfgScale,
                    .seed = sampling.seed,
                    .flags = flags,
                    .eosToken = sampling.eosToken,
                    .eotToken = sampling.eotToken,
                    .token = at<int32_t>(base + results.token),
                    .confidence = at<double>(base + results.confidence),
                    .status = at<int32_t>(base + statusOffset)});
}

Status Head::run(const Stream &stream, const StepPlace &place, DevicePtr hidden,
                 DevicePtr delta) {
  capacity = candidates;
  drew = capacity > 0 && anyQuota(place.stepInBlock);
  if (!drew)
    return Status::success();
  results = Results::layOut(result, capacity);
  const DevicePtr base = results.base;
  const int64_t sequences = batch.sequences();
  if (Status s = stream.copyOnDevice(clock, clocks + (place.step - 1) * 16, 16);
      !s)
    return s;
  if (Status s = (*rows)(stream, 1,
                         abi::CandidatesArgs{
                             .tokens = at<int32_t>(token),
                             .first = at<int64_t>(ranges + sequences * 8),
                             .end = at<int64_t>(ranges + 2 * sequences * 8),
                             .rows = at<int32_t>(base + results.rows),
                             .sequenceOf = at<int32_t>(base + results.sequence),
                             .offsets = at<int32_t>(offsets),
                             .count = at<int32_t>(base + countOffset),
                             .sequences = sequences,
                             .capacity = capacity,
                             .maskToken = config.maskToken});
      !s)
    return s;
  for (int64_t first = 0; first < capacity; first += waveRows) {
    int64_t count = std::min(waveRows, capacity - first);
    if (Status s = project(stream, hidden, delta, first, count, 0, logits); !s)
      return s;
    if (batch.guided)
      if (Status s = project(stream, hidden, delta, first, count,
                             batch.conditionalRows(), unconditional);
          !s)
        return s;
    if (Status s = draw(stream, first, count); !s)
      return s;
  }
  return (*rows)(
      stream, capacity,
      abi::CommitArgs{.tokens = at<int32_t>(token),
                      .rows = at<int32_t>(base + results.rows),
                      .sequenceOf = at<int32_t>(base + results.sequence),
                      .offsets = at<int32_t>(offsets),
                      .token = at<int32_t>(base + results.token),
                      .confidence = at<double>(base + results.confidence),
                      .masked = at<int32_t>(counts),
                      .clock = at<int64_t>(clock),
                      .status = at<int32_t>(base + statusOffset),
                      .committed = at<uint8_t>(base + results.committed),
                      .steps = batch.stepsPerBlock(),
                      .shift = batch.guided ? batch.conditionalRows() : 0});
}

/// What a draw's status means; `rows` are the candidates' packed rows.
Status Head::notFinite(int64_t candidate, const int32_t *packedRows,
                       int64_t count) const {
  std::string where = "a candidate";
  if (candidate < count && packedRows[candidate] >= 0) {
    int64_t row = packedRows[candidate];
    int64_t s =
        std::upper_bound(batch.offsets.begin(), batch.offsets.end(), row) -
        batch.offsets.begin() - 1;
    where = "sequence " + std::to_string(s) + ", position " +
            std::to_string(row - batch.offsets[s]);
  }
  return rt::notFinite(where, dtype);
}

Status Head::collect(const Stream &stream, std::vector<Commit> &commits) {
  if (!drew)
    return stream.synchronize();
  if (Status s = stream.copyToHost(host.data(), results.base, results.bytes);
      !s)
    return s;
  if (Status s = stream.synchronize(); !s)
    return s;
  const auto *status = hostArray<int32_t>(host, statusOffset);
  const auto *count = hostArray<int32_t>(host, countOffset);
  const auto *packedRows = hostArray<int32_t>(host, results.rows);
  const auto *sequence = hostArray<int32_t>(host, results.sequence);
  const auto *tokens = hostArray<int32_t>(host, results.token);
  const auto *confidence = hostArray<double>(host, results.confidence);
  const auto *committed = hostArray<uint8_t>(host, results.committed);
  if (*status != 0)
    return notFinite(*status - 1, packedRows, capacity);
  int64_t left = *count;
  for (int64_t i = 0; i < std::min<int64_t>(*count, capacity); ++i) {
    if (!committed[i])
      continue;
    int64_t s = sequence[i];
    commits.push_back(
        {s, packedRows[i] - batch.offsets[s], tokens[i], confidence[i]});
    left -= tokens[i] != config.maskToken;
  }
  candidates = left;
  return Status::success();
}

Result<std::vector<std::vector<int32_t>>> Head::finish(const Stream &stream) {
  std::vector<int32_t> packed(batch.conditionalRows());
  int32_t status = 0;
  const Drain drain(stream);
  if (Status s =
          stream.copyToHost(packed.data(), token, batch.conditionalRows() * 4);
      !s)
    return s.takeError();
  if (Status s = stream.copyToHost(&status, result + statusOffset, 4); !s)
    return s.takeError();
  if (Status s = stream.synchronize(); !s)
    return s.takeError();
  if (status != 0)
    return notFinite(0, nullptr, 0).takeError();
  std::vector<std::vector<int32_t>> sequences;
  for (int64_t s = 0; s < batch.sequences(); ++s)
    sequences.emplace_back(packed.begin() + batch.offsets[s],
                           packed.begin() + batch.offsets[s + 1]);
  return sequences;
}

} // namespace heddle::rt::cuda
