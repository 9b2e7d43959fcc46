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

namespace heddle::rt::cuda {

using namespace lt;

namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

} // namespace

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

Result<std::vector<double>> Gemm::time(const Stream &stream, const Plan &plan,
                                       const Algorithm &algorithm,
                                       const GemmOperands &operands,
                                       int repeats) const {
  Result<Event> begin = Event::create(*owner, /*timed=*/true);
  if (!begin)
    return begin.takeError();
  Result<Event> end = Event::create(*owner, /*timed=*/true);
  if (!end)
    return end.takeError();
  auto measure = [&](int launches) -> Result<double> {
    if (Status status = stream.record(*begin); !status)
      return status.takeError();
    for (int i = 0; i < launches; ++i)
      if (Status status = run(stream, plan, algorithm, operands); !status)
        return status.takeError();
    if (Status status = stream.record(*end); !status)
      return status.takeError();
    if (Status status = end->synchronize(); !status)
      return status.takeError();
    Result<double> elapsed = Event::elapsed(*begin, *end);
    if (!elapsed)
      return elapsed.takeError();
    return *elapsed / launches;
  };
  // The first launch loads code. Short products are timed in batches, or the
  // host's time to launch would be measured; the estimate of a long one is a
  // measurement.
  if (Result<double> first = measure(1); !first)
    return first.takeError();
  Result<double> estimate = measure(1);
  if (!estimate)
    return estimate.takeError();
  constexpr double windowMilliseconds = 0.2;
  int launches = static_cast<int>(
      std::clamp(windowMilliseconds / std::max(*estimate, 1e-4), 1.0, 50.0));
  std::vector<double> times;
  if (launches == 1)
    times.push_back(*estimate);
  while (static_cast<int>(times.size()) < repeats) {
    Result<double> elapsed = measure(launches);
    if (!elapsed)
      return elapsed.takeError();
    times.push_back(*elapsed);
  }
  return times;
}

Result<Gemm::Algorithm> Gemm::chooseFastest(const Stream &stream,
                                            const Plan &plan,
                                            const GemmOperands &operands) {
  Result<Proposals> proposals = propose(plan, options.proposals);
  if (!proposals)
    return proposals.takeError();
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  auto spent = [&] {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  struct Candidate {
    const Algorithm *algorithm;
    double milliseconds;
  };
  std::vector<Candidate> candidates;
  Error last("no algorithm was timed");
  // All once, in the library's order, as long as two thirds of the time last.
  for (const cublasLtMatmulHeuristicResult_t &proposal : *proposals) {
    if (!candidates.empty() && spent() > options.secondsPerShape * 2 / 3)
      break;
    Result<std::vector<double>> times =
        time(stream, plan, proposal.algo, operands, 1);
    if (times)
      candidates.push_back({&proposal.algo, times->front()});
    else if (owner->broken())
      return times.takeError();
    else
      last = times.takeError(); // proposed, and refused: not this one
  }
  if (candidates.empty())
    return last;
  auto faster = [](const Candidate &a, const Candidate &b) {
    return a.milliseconds < b.milliseconds;
  };
  std::sort(candidates.begin(), candidates.end(), faster);
  // The leaders again, since one measurement can err by more than they differ.
  std::erase_if(candidates, [limit = candidates.front().milliseconds *
                                     1.1](const Candidate &candidate) {
    return candidate.milliseconds > limit;
  });
  // In turns, as the device's clock moves while it warms.
  std::vector<std::vector<double>> times(candidates.size());
  for (int round = 0; round < 9; ++round) {
    if (round > 0 && spent() > options.secondsPerShape)
      break;
    for (size_t i = 0; i < candidates.size(); ++i) {
      Result<std::vector<double>> once =
          time(stream, plan, *candidates[i].algorithm, operands, 1);
      if (!once)
        return once.takeError();
      times[i].push_back(once->front());
    }
  }
  for (size_t i = 0; i < candidates.size(); ++i)
    candidates[i].milliseconds = median(std::move(times[i]));
  return *std::min_element(candidates.begin(), candidates.end(), faster)
              ->algorithm;
}

Result<Gemm::Algorithm> Gemm::chooseFixed(const Plan &plan) {
  GemmShape layer = plan.shape;
  layer.rows = 0;
  auto known = fixedAlgorithms.find(layer);
  if (known == fixedAlgorithms.end()) {
    // The library's first proposal for many rows that takes few rows too.
    std::vector<std::unique_ptr<Plan>> probes;
    for (int64_t rows : {4096, 1, 7, 64, 1000, 32768}) {
      GemmShape probe = plan.shape;
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
                 handle, probe.product, probe.weights, probe.x, probe.y,
                 probe.y, &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
             result.workspaceSize <= static_cast<size_t>(workspaceBytes);
    };
    for (const cublasLtMatmulHeuristicResult_t &proposal : *proposals) {
      if (attribute(proposal.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1)
        continue;
      if (std::all_of(probes.begin(), probes.end(), [&](const auto &probe) {
            return suits(proposal.algo, *probe);
          })) {
        known = fixedAlgorithms.emplace(layer, proposal.algo).first;
        break;
      }
    }
    if (known == fixedAlgorithms.end())
      return Error("cuBLASLt has no algorithm that serves every number of rows "
                   "of a product " +
                   plan.shape.describe());
  }
  return known->second;
}

Result<std::vector<GemmTiming>> Gemm::timeAll(const Stream &stream,
                                              const GemmShape &shape,
                                              const GemmOperands &operands,
                                              int most, int repeats) {
  if (Status status = prepare(stream, shape, operands); !status)
    return status.takeError();
  const Plan &plan = *find(shape);
  Result<Proposals> proposals = propose(plan, most);
  if (!proposals)
    return proposals.takeError();
  if (Status status = fillOperands(stream, shape, operands); !status)
    return status.takeError();
  auto same = [&](const Algorithm &algorithm) {
    return std::memcmp(&algorithm, &plan.algorithm, sizeof(algorithm)) == 0;
  };
  std::vector<Algorithm> algorithms{plan.algorithm};
  for (const cublasLtMatmulHeuristicResult_t &proposal : *proposals)
    if (!same(proposal.algo))
      algorithms.push_back(proposal.algo);
  std::vector<GemmTiming> result;
  std::vector<Algorithm> timed;
  for (const Algorithm &algorithm : algorithms) {
    Result<std::vector<double>> times =
        time(stream, plan, algorithm, operands, repeats);
    if (times) {
      result.push_back(
          {describe(algorithm), median(std::move(*times)), same(algorithm)});
      timed.push_back(algorithm);
    } else if (owner->broken() || same(algorithm))
      return times.takeError();
  }
  // The leaders and the one in use again, in turns: over the whole pass the
  // device's clock moves by more than they differ.
  std::vector<size_t> order(result.size());
  std::iota(order.begin(), order.end(), 0);
  auto faster = [&](size_t a, size_t b) {
    return result[a].milliseconds < result[b].milliseconds;
  };
  std::sort(order.begin(), order.end(), faster);
  constexpr size_t leaders = 6;
  std::vector<std::vector<double>> again(result.size());
  for (int round = 0; round < repeats; ++round)
    for (size_t place = 0; place < order.size(); ++place) {
      size_t i = order[place];
      if (place >= leaders && !result[i].chosen)
        continue;
      Result<std::vector<double>> once =
          time(stream, plan, timed[i], operands, 1);
      if (!once)
        return once.takeError();
      again[i].push_back(once->front());
    }
  for (size_t i = 0; i < result.size(); ++i)
    if (!again[i].empty())
      result[i].milliseconds = median(std::move(again[i]));
  std::sort(result.begin(), result.end(),
            [](const GemmTiming &a, const GemmTiming &b) {
              return a.milliseconds < b.milliseconds;
            });
  return result;
}

} // namespace heddle::rt::cuda
