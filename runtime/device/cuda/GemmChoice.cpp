//===- GemmChoice.cpp - Which algorithm computes a product ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/GemmPlan.h"
#include "runtime/device/cuda/Upload.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>

namespace heddle::rt::cuda {

using namespace lt;

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What one measurement finds so much slower than another is slower.
constexpr double far = 1.3;

/// What is compared of results: bringing it to the host takes longer than many
/// products.
constexpr int64_t manyBytes = int64_t(4) << 20, fewBytes = int64_t(512) << 10;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

bool same(const cublasLtMatmulAlgo_t &a, const cublasLtMatmulAlgo_t &b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

} // namespace

//===----------------------------------------------------------------------===//
// Measurements
//===----------------------------------------------------------------------===//

Status Gemm::fillOperands(const Stream &stream, const GemmShape &shape,
                          const GemmOperands &operands) const {
  // Power, and with it the clock, depends on the values: zeros would flatter.
  int64_t xStride = shape.xStride ? shape.xStride : shape.inputs;
  if (Status status = fillRandom(stream, operands.x, shape.dtype,
                                 (shape.rows - 1) * xStride + shape.inputs,
                                 /*scale=*/1, /*seed=*/1);
      !status)
    return status;
  int64_t yStride = shape.yStride ? shape.yStride : shape.outputs;
  return stream.fillBytes(operands.y, 0,
                          ((shape.rows - 1) * yStride + shape.outputs) *
                              byteSize(shape.dtype));
}

Result<double> Gemm::time(const Stream &stream, const Plan &plan,
                          const Algorithm &algorithm,
                          const GemmOperands &operands, const Event &begin,
                          const Event &end, int launches) const {
  if (Status status = stream.record(begin); !status)
    return status.takeError();
  for (int i = 0; i < launches; ++i)
    if (Status status = run(stream, plan, algorithm, operands); !status)
      return status.takeError();
  if (Status status = stream.record(end); !status)
    return status.takeError();
  if (Status status = end.synchronize(); !status)
    return status.takeError();
  Result<double> elapsed = Event::elapsed(begin, end);
  if (!elapsed)
    return elapsed.takeError();
  return *elapsed / launches;
}

/// Medians of at most `rounds` measurements of each algorithm, whose code is
/// loaded; in turns, as the device's clock moves by more than algorithms
/// differ. Of one measurement at least when `seconds` are over.
Result<std::vector<double>>
Gemm::timeInTurns(const Stream &stream, const Plan &plan,
                  std::span<const Algorithm> algorithms,
                  const GemmOperands &operands, int rounds,
                  double seconds) const {
  Clock::time_point start = Clock::now();
  Result<Event> begin = Event::create(*owner, /*timed=*/true);
  if (!begin)
    return begin.takeError();
  Result<Event> end = Event::create(*owner, /*timed=*/true);
  if (!end)
    return end.takeError();
  std::vector<std::vector<double>> times(algorithms.size());
  std::vector<int> launches(algorithms.size(), 1);
  std::vector<size_t> turns(algorithms.size());
  std::iota(turns.begin(), turns.end(), 0);
  std::mt19937 random(1);
  for (int round = -1; round < rounds; ++round) {
    if (round > 0 && secondsSince(start) > seconds)
      break;
    // Each profits from a neighbour that needs little power, so that in a fixed
    // order one would seem faster by up to a tenth.
    std::shuffle(turns.begin(), turns.end(), random);
    for (size_t i : turns) {
      // The estimate of a long product is a measurement.
      if (round == 0 && !times[i].empty())
        continue;
      Result<double> once = time(stream, plan, algorithms[i], operands, *begin,
                                 *end, launches[i]);
      if (!once)
        return once.takeError();
      // Short ones are timed in batches, or the host's time to launch would be
      // measured.
      constexpr double windowMilliseconds = 0.2;
      if (round < 0)
        launches[i] = static_cast<int>(
            std::clamp(windowMilliseconds / std::max(*once, 1e-4), 1.0, 50.0));
      if (round >= 0 || launches[i] == 1)
        times[i].push_back(*once);
    }
  }
  std::vector<double> medians;
  for (std::vector<double> &each : times) {
    // The later half, when the clock has settled.
    each.erase(each.begin(),
               each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2));
    medians.push_back(median(std::move(each)));
  }
  return medians;
}

/// What an algorithm makes of the operands in some rows, about `pieceBytes` of
/// each: the first, the last, which are computed apart where tiles do not
/// divide, and some between.
Result<std::vector<std::byte>>
Gemm::bitsOf(const Stream &stream, const Plan &plan, const Algorithm &algorithm,
             const GemmOperands &operands, int64_t pieceBytes) const {
  const GemmShape &shape = plan.shape;
  const int64_t size = byteSize(shape.dtype);
  const int64_t stride = (shape.yStride ? shape.yStride : shape.outputs) * size;
  const int64_t rows = std::clamp(pieceBytes / stride, int64_t(1), shape.rows);
  if (Status status = run(stream, plan, algorithm, operands); !status)
    return status.takeError();
  const int64_t pieces = std::min<int64_t>(3, (shape.rows - 1) / rows + 1);
  const int64_t pieceSize = (rows - 1) * stride + shape.outputs * size;
  std::vector<std::byte> bits(pieces * pieceSize);
  Status copied = Status::success();
  for (int64_t piece = 0; piece < pieces && copied; ++piece) {
    int64_t first =
        pieces == 1 ? 0 : (shape.rows - rows) * piece / (pieces - 1);
    copied = stream.copyToHost(bits.data() + piece * pieceSize,
                               operands.y + first * stride, pieceSize);
  }
  Status done = stream.synchronize(); // also before `bits` goes
  if (!copied)
    return copied.takeError();
  if (!done)
    return done.takeError();
  return bits;
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

/// The algorithm whose bits are the layer's: the library's first proposal
/// without split sums for many rows that takes few rows too. Of the whole layer
/// whichever part comes first.
Result<Gemm::Algorithm> Gemm::layerAlgorithm(const Plan &plan) {
  GemmShape layer = plan.shape;
  layer.rows = 0;
  if (layer.layerOutputs)
    layer.outputs = layer.layerOutputs;
  auto known = layerAlgorithms.find(layer);
  if (known != layerAlgorithms.end())
    return known->second;
  std::vector<std::unique_ptr<Plan>> probes;
  for (int64_t rows : {4096, 1, 7, 64, 1000, 32768}) {
    GemmShape probe = layer;
    probe.rows = rows;
    Result<std::unique_ptr<Plan>> made = makePlan(probe, plan.alignment);
    if (!made)
      return made.takeError();
    probes.push_back(std::move(*made));
  }
  Result<Proposals> proposals = propose(*probes.front(), options.proposals);
  if (!proposals)
    return proposals.takeError();
  auto suits = [&](const Algorithm &algorithm, const Plan &probe) {
    cublasLtMatmulHeuristicResult_t result = {};
    return blas->entryPoints().algoCheck.function(
               handle, probe.product, probe.weights, probe.x, probe.y, probe.y,
               &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= static_cast<size_t>(workspaceBytes);
  };
  for (const cublasLtMatmulHeuristicResult_t &proposal : *proposals)
    if (attribute(proposal.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1 &&
        std::all_of(probes.begin(), probes.end(), [&](const auto &probe) {
          return suits(proposal.algo, *probe);
        }))
      return layerAlgorithms.emplace(layer, proposal.algo).first->second;
  return Error("cuBLASLt has no algorithm that serves every number of rows of "
               "a product " +
               plan.shape.describe());
}

/// The first `most` proposals without split sums.
Result<Gemm::Proposals> Gemm::proposeWhole(const Plan &plan,
                                           size_t most) const {
  Result<Proposals> proposals = propose(plan, options.proposals);
  if (!proposals)
    return proposals;
  std::erase_if(*proposals, [&](const auto &proposal) {
    return attribute(proposal.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1;
  });
  proposals->resize(std::min(most, proposals->size()));
  return proposals;
}

/// The fastest of the proposals that give the bits of the layer's algorithm,
/// or that one itself. Of the first proposals alone, measured roughly, if not
/// of `all`.
Result<Gemm::Algorithm> Gemm::choose(const Stream &stream, const Plan &plan,
                                     const GemmOperands &operands, bool all) {
  Result<Algorithm> layer = layerAlgorithm(plan);
  if (!layer)
    return layer.takeError();
  const size_t most = all ? static_cast<size_t>(options.proposals) : 1;
  const int64_t compared = all ? manyBytes : fewBytes;
  Result<Proposals> proposals = proposeWhole(plan, most);
  if (!proposals)
    return proposals.takeError();
  // What it proposes for more rows can be twice as fast for a few as what it
  // proposes for these: it counts on split sums there.
  if (constexpr int64_t more = 128; plan.shape.rows < more) {
    GemmShape shape = plan.shape;
    shape.rows = more;
    Result<std::unique_ptr<Plan>> larger = makePlan(shape, plan.alignment);
    if (!larger)
      return larger.takeError();
    Result<Proposals> others = proposeWhole(**larger, most);
    if (!others)
      return others.takeError();
    proposals->insert(proposals->end(), others->begin(), others->end());
  }
  if (Status status = fillOperands(stream, plan.shape, operands); !status)
    return status.takeError();
  Result<std::vector<std::byte>> expected =
      bitsOf(stream, plan, *layer, operands, compared);
  if (!expected)
    return expected.takeError();
  std::vector<Algorithm> candidates{*layer};
  for (const cublasLtMatmulHeuristicResult_t &proposal : *proposals) {
    if (std::any_of(
            candidates.begin(), candidates.end(),
            [&](const Algorithm &known) { return same(known, proposal.algo); }))
      continue;
    // The first launch loads code. Some that are proposed are refused then.
    Status status = run(stream, plan, proposal.algo, operands);
    if (status)
      candidates.push_back(proposal.algo);
    else if (owner->broken())
      return status.takeError();
  }
  if (candidates.size() == 1)
    return *layer;
  // Once, then those that may be the fastest for as long as a hundred products
  // take: under load the clock falls, not alike for all.
  Result<std::vector<double>> rough =
      timeInTurns(stream, plan, candidates, operands, 1, 0);
  if (!rough)
    return rough.takeError();
  std::vector<double> times = std::move(*rough);
  if (all) {
    const double fastest = *std::min_element(times.begin(), times.end());
    for (size_t i = candidates.size() - 1; i > 0; --i)
      if (times[i] > far * fastest)
        candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(i));
    constexpr int rounds = 50;
    if (Status s = timeInTurns(stream, plan, candidates, operands, rounds,
                               std::min(fastest * 0.1, options.secondsPerShape))
                       .moveTo(times);
        !s)
      return s.takeError();
  }
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return times[a] < times[b]; });
  for (size_t i : order) {
    if (i == 0) // the layer's
      break;
    Result<std::vector<std::byte>> bits =
        bitsOf(stream, plan, candidates[i], operands, compared);
    if (!bits)
      return bits.takeError();
    if (*bits == *expected)
      return candidates[i];
  }
  return *layer;
}

Result<std::vector<GemmTiming>> Gemm::timeAll(const Stream &stream,
                                              const GemmShape &shape,
                                              const GemmOperands &operands,
                                              int most, int repeats) {
  if (Status status = prepare(stream, shape, operands); !status)
    return status.takeError();
  const Plan &plan = *find(shape);
  Result<Algorithm> layer = layerAlgorithm(plan);
  if (!layer)
    return layer.takeError();
  // Partial sums in fp32: adding them up in the output's type would round each.
  Result<std::unique_ptr<Plan>> split =
      makePlan(shape, plan.alignment, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  if (!split)
    return split.takeError();
  Result<Proposals> proposals = propose(**split, most);
  if (!proposals)
    return proposals.takeError();
  const Algorithm first = proposals->front().algo;
  Result<Proposals> whole = propose(plan, most);
  if (!whole)
    return whole.takeError();
  proposals->insert(proposals->end(), whole->begin(), whole->end());
  if (Status status = fillOperands(stream, shape, operands); !status)
    return status.takeError();
  Result<std::vector<std::byte>> expected =
      bitsOf(stream, plan, *layer, operands, manyBytes);
  if (!expected)
    return expected.takeError();

  std::vector<Algorithm> algorithms{plan.algorithm};
  auto add = [&](const Algorithm &algorithm) {
    if (std::none_of(algorithms.begin(), algorithms.end(),
                     [&](const Algorithm &a) { return same(a, algorithm); }))
      algorithms.push_back(algorithm);
  };
  add(*layer);
  for (const cublasLtMatmulHeuristicResult_t &proposal : *proposals)
    add(proposal.algo);
  std::vector<GemmTiming> result;
  std::vector<Algorithm> timed;
  for (const Algorithm &algorithm : algorithms) {
    Result<std::vector<std::byte>> bits =
        bitsOf(stream, plan, algorithm, operands, manyBytes);
    if (!bits && (owner->broken() || same(algorithm, plan.algorithm)))
      return bits.takeError();
    if (!bits)
      continue;
    result.push_back({.algorithm = describe(algorithm),
                      .sameBits = *bits == *expected,
                      .layers = same(algorithm, *layer),
                      .first = same(algorithm, first),
                      .chosen = same(algorithm, plan.algorithm)});
    timed.push_back(algorithm);
  }
  constexpr double seconds = 1;
  Result<std::vector<double>> rough =
      timeInTurns(stream, plan, timed, operands, 1, seconds);
  if (!rough)
    return rough.takeError();
  for (size_t i = 0; i < result.size(); ++i)
    result[i].milliseconds = (*rough)[i];
  // Again, with the clock as it is under load, all that may be the fastest and
  // those with a name.
  const double fastest = *std::min_element(rough->begin(), rough->end());
  std::vector<size_t> places;
  std::vector<Algorithm> again;
  for (size_t i = 0; i < result.size(); ++i)
    if ((*rough)[i] <= far * fastest || result[i].layers || result[i].first ||
        result[i].chosen) {
      places.push_back(i);
      again.push_back(timed[i]);
    }
  Result<std::vector<double>> medians =
      timeInTurns(stream, plan, again, operands, repeats, seconds);
  if (!medians)
    return medians.takeError();
  for (size_t i = 0; i < places.size(); ++i)
    result[places[i]].milliseconds = (*medians)[i];
  std::sort(result.begin(), result.end(),
            [](const GemmTiming &a, const GemmTiming &b) {
              return a.milliseconds < b.milliseconds;
            });
  return result;
}

} // namespace heddle::rt::cuda
