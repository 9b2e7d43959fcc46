//===- CudaCase.cpp - Problems in the memory of a GPU --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/conformance/CudaCase.h"

#include <algorithm>
#include <numeric>

using namespace heddle;
using namespace heddle::conformance;
using rt::cuda::Arena;
using rt::cuda::ArenaPlan;

std::vector<int64_t> conformance::sample(int64_t bound, int64_t count,
                                         std::mt19937_64 &random) {
  std::vector<int64_t> picked;
  if (count >= bound) {
    picked.resize(bound);
    std::iota(picked.begin(), picked.end(), 0);
    return picked;
  }
  picked = {0, bound - 1};
  while (static_cast<int64_t>(picked.size()) < std::max<int64_t>(count, 2))
    picked.push_back(static_cast<int64_t>(random() % uint64_t(bound)));
  std::sort(picked.begin(), picked.end());
  picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
  return picked;
}

int64_t conformance::wideStride(int64_t rows, rt::DType dtype) {
  constexpr int64_t more = (int64_t(4) << 30) + (int64_t(64) << 20);
  const int64_t elements = more / byteSize(dtype) / (rows - 1);
  return (elements + 7) / 8 * 8;
}

CudaCase::CudaCase(const CudaUnderTest &gpu,
                   const bundle::KernelVariant &variant,
                   std::vector<std::shared_ptr<Inputs>> sequences,
                   int64_t apart, Finding &finding)
    : gpu(gpu), variant(variant), inputs(std::move(sequences)), apart(apart),
      finding(finding) {
  for (const std::shared_ptr<Inputs> &each : inputs) {
    name += (name.empty() ? "" : " with ") + each->name;
    const Problem &p = each->problem;
    const int64_t query = p.shape.queryHeads(), keys = p.shape.kvHeads;
    slots.push_back({plan.add("query", bytesOf(p, query, p.args.queryStride)),
                     plan.add("key", bytesOf(p, keys, p.args.keyStride)),
                     plan.add("value", bytesOf(p, keys, p.args.valueStride)),
                     plan.add("output", bytesOf(p, query, p.args.outputStride)),
                     plan.add("lse", p.lse.size())});
  }
  maps = plan.add("tensor maps",
                  variant.mapRows ? sizeof(abi::TileMaps) * inputs.size() : 0);
  if (apart)
    name += ", rows " + std::to_string(apart) + " apart";
}

bool CudaCase::good(const Status &status) {
  if (!status)
    finding.fail(name + ": " + status.error().text());
  return finding.ok();
}

bool CudaCase::allocate() {
  Result<Arena> made =
      Arena::allocate(gpu.context, plan,
                      {.poison = gpu.poison, .separate = true, .reserve = 0});
  if (!made) {
    finding.fail(name + ": " + made.error().text());
    return false;
  }
  memory = std::move(*made);
  return true;
}

bool CudaCase::upload(ArenaPlan::Slot slot, const void *from, int64_t bytes) {
  return good(gpu.stream.copyToDevice(memory[slot], from, bytes)) &&
         good(gpu.stream.synchronize());
}

bool CudaCase::download(ArenaPlan::Slot slot, void *to, int64_t bytes) {
  return good(gpu.stream.copyToHost(to, memory[slot], bytes)) &&
         good(gpu.stream.synchronize());
}

/// Of n rows, the last one without what follows it.
int64_t CudaCase::bytesOf(const Problem &problem, int64_t heads,
                          int64_t onHost) const {
  const Shape &shape = problem.shape;
  return ((shape.n - 1) * strideOf(onHost) + heads * shape.headDim) *
         byteSize(shape.dtype);
}

bool CudaCase::move(ArenaPlan::Slot slot, const Problem &problem,
                    GuardedBuffer &buffer, int64_t heads, int64_t onHost,
                    bool up) {
  const Shape &shape = problem.shape;
  const int64_t size = byteSize(shape.dtype);
  auto copy = [&](int64_t device, int64_t host, int64_t bytes) {
    return good(up ? gpu.stream.copyToDevice(memory[slot] + device,
                                             buffer.data() + host, bytes)
                   : gpu.stream.copyToHost(buffer.data() + host,
                                           memory[slot] + device, bytes));
  };
  const bool whole = up || gpu.poison;
  if (!apart && whole)
    return copy(0, 0, buffer.size()) && good(gpu.stream.synchronize());
  for (int64_t row = 0; row < (whole ? shape.n : problem.args.rows); ++row)
    if (!copy(row * strideOf(onHost) * size, row * onHost * size,
              heads * shape.headDim * size))
      return false;
  return good(gpu.stream.synchronize());
}

bool CudaCase::uploadInputs() {
  for (size_t s = 0; s < inputs.size(); ++s) {
    Problem &p = problem(s);
    const int64_t queries = p.shape.queryHeads(), keys = p.shape.kvHeads;
    if (!move(slots[s].query, p, p.query, queries, p.args.queryStride, true) ||
        !move(slots[s].key, p, p.key, keys, p.args.keyStride, true) ||
        !move(slots[s].value, p, p.value, keys, p.args.valueStride, true))
      return false;
  }
  return true;
}

bool CudaCase::downloadOutput(size_t sequence, bool hasLse) {
  Problem &p = problem(sequence);
  p.poisonOutputs();
  const int64_t sums = hasLse ? heads() * p.args.rows * 4 : 0;
  return move(slots[sequence].output, p, p.output, p.shape.queryHeads(),
              p.args.outputStride, false) &&
         download(slots[sequence].lse, p.lse.data(),
                  gpu.poison ? p.lse.size() : sums);
}

abi::AttentionArgs CudaCase::argumentsOf(size_t sequence) const {
  abi::AttentionArgs args = problem(sequence).args;
  args.query = address<void>(slots[sequence].query);
  // Keys may begin behind the first one.
  Problem &p = problem(sequence);
  const int64_t bytes = byteSize(p.shape.dtype);
  const int64_t first =
      (static_cast<const std::byte *>(args.key) - p.key.data()) /
      (args.keyStride * bytes);
  args.key = address<std::byte>(slots[sequence].key) +
             first * strideOf(args.keyStride) * bytes;
  args.value = address<std::byte>(slots[sequence].value) +
               first * strideOf(args.valueStride) * bytes;
  args.output = address<void>(slots[sequence].output);
  args.lse = address<float>(slots[sequence].lse);
  args.queryStride = strideOf(args.queryStride);
  args.keyStride = strideOf(args.keyStride);
  args.valueStride = strideOf(args.valueStride);
  args.outputStride = strideOf(args.outputStride);
  args.heads = static_cast<uint32_t>(heads());
  // All rows and positions, unless the case says otherwise.
  args.place = args.position = args.firstRow = nullptr;
  return args;
}

int64_t CudaCase::longest() const {
  int64_t most = 0;
  for (size_t s = 0; s < inputs.size(); ++s)
    most = std::max(most, problem(s).shape.n);
  return most;
}

void Batches::add(const std::shared_ptr<Inputs> &inputs) {
  check({inputs});
  constexpr size_t together = 3;
  constexpr int64_t longest = 2048;
  if (inputs->problem.shape.n > longest)
    return;
  if (!waiting.empty() && waiting.front()->problem.shape.queryHeads() !=
                              inputs->problem.shape.queryHeads())
    waiting.clear();
  waiting.push_back(inputs);
  if (waiting.size() == together) {
    check(waiting);
    // The last begins the next three, of which it is neither first nor alone.
    waiting.erase(waiting.begin(), waiting.end() - 1);
  }
}
