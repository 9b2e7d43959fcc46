//===- CudaFewRows.cpp - Timing few query rows over many keys ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a step that computes some rows over cached keys asks of attention: keys
// and values in caches of their own, one argument block a sequence. There the
// bytes of keys and values count, each read once, not the operations.
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/CudaSubjects.h"

#include "runtime/bench/Asked.h"
#include "runtime/bench/CudaTimer.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/AttentionGrid.h"
#include "runtime/device/cuda/Upload.h"
#include "runtime/engine/DTypeChoice.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::bench;
using namespace heddle::rt::cuda;

namespace {

/// Attention of `request.rows` rows over `n` keys, in each of
/// `request.sequences` sequences.
class FewRows {
public:
  FewRows(const CudaSubject &subject, const bundle::Kernel &kernel,
          const bundle::KernelVariant &variant, const CudaRequest &request,
          int64_t n)
      : subject(subject), kernel(kernel), variant(variant), request(request),
        n(n), kvHeads(request.kvHeads ? request.kvHeads : request.heads),
        dtype(*rt::dtypeNamed(variant.dtype)),
        code((*subject.module)[variant.symbol]) {}

  Status prepare();

  Status launch(const Stream &stream) const {
    const AttentionLaunch launch = {
        bundle::tilesOf(variant, request.rows, kvGroup()), request.heads,
        kvGroup(), request.sequences, n};
    return code.launch(
        stream, gridOf(kernel, variant, launch, subject.context->device()),
        memory[arguments], DevicePtr(0), int64_t(0));
  }

  /// Queries, keys, values and outputs once.
  double bytes() const {
    return static_cast<double>(2 * (queryElements() + keyElements()) *
                               byteSize(dtype));
  }

  /// Multiplications and additions of pairs.
  double operations() const {
    return 4.0 * static_cast<double>(queryElements()) * static_cast<double>(n);
  }

  bundle::LaunchShape shape() const { return {request.rows, n, kvGroup()}; }

private:
  int64_t kvGroup() const { return request.heads / kvHeads; }
  int64_t queryElements() const {
    return request.sequences * request.rows * request.heads * variant.headDim;
  }
  int64_t keyElements() const {
    return request.sequences * n * kvHeads * variant.headDim;
  }

  const CudaSubject &subject;
  const bundle::Kernel &kernel;
  const bundle::KernelVariant &variant;
  const CudaRequest &request;
  const int64_t n, kvHeads;
  const rt::DType dtype;
  const Kernel &code;
  Arena memory;
  ArenaPlan::Slot query = 0, key = 0, value = 0, output = 0, lse = 0,
                  arguments = 0;
};

Status FewRows::prepare() {
  const int64_t size = byteSize(dtype), width = request.heads * variant.headDim,
                kvWidth = kvHeads * variant.headDim;
  ArenaPlan plan;
  query = plan.add("queries", queryElements() * size);
  key = plan.add("keys", keyElements() * size);
  value = plan.add("values", keyElements() * size);
  output = plan.add("output", queryElements() * size);
  lse = plan.add("log-sum-exp",
                 request.sequences * request.rows * request.heads * 4);
  arguments = plan.add("arguments",
                       request.sequences * int64_t(sizeof(abi::AttentionArgs)));
  if (Status s =
          Arena::allocate(*subject.context, std::move(plan)).moveTo(memory);
      !s)
    return s;
  const Stream &stream = *subject.stream;
  for (auto [slot, elements] :
       {std::pair(query, queryElements()), std::pair(key, keyElements()),
        std::pair(value, keyElements())})
    if (Status s = fillRandom(stream, memory[slot], dtype, elements, 1.0f,
                              static_cast<uint64_t>(1 + slot));
        !s)
      return s;
  auto at = [&](ArenaPlan::Slot slot, int64_t bytes) {
    return reinterpret_cast<void *>(
        static_cast<uintptr_t>(memory[slot] + bytes));
  };
  std::vector<abi::AttentionArgs> blocks;
  for (int64_t s = 0; s < request.sequences; ++s) {
    abi::AttentionArgs args{};
    args.query = at(query, s * request.rows * width * size);
    args.key = at(key, s * n * kvWidth * size);
    args.value = at(value, s * n * kvWidth * size);
    args.output = at(output, s * request.rows * width * size);
    args.lse = static_cast<float *>(
        at(lse, s * request.rows * request.heads * int64_t(sizeof(float))));
    args.n = n;
    args.queryStride = args.outputStride = width;
    args.keyStride = args.valueStride = kvWidth;
    args.kvGroup = kvGroup();
    args.scale = static_cast<float>(1 / std::sqrt(double(variant.headDim)));
    args.heads = static_cast<uint32_t>(request.heads);
    args.rows = request.rows;
    blocks.push_back(args);
  }
  if (Status s = stream.copyToDevice(
          memory[arguments], blocks.data(),
          static_cast<int64_t>(blocks.size() * sizeof(blocks[0])));
      !s)
    return s;
  return stream.synchronize();
}

} // namespace

Status heddle::bench::timeFewRows(const CudaSubject &subject,
                                  const CudaRequest &request,
                                  std::vector<CudaRow> &rows) {
  const int64_t target = subject.module->choice().target;
  // Twice L2, so that nothing of it stays.
  Result<CudaTimer> timer = CudaTimer::create(
      *subject.context, 2 * subject.context->device().l2Bytes);
  if (!timer)
    return timer.takeError();
  for (const bundle::Kernel &kernel : subject.bundle->manifest().kernels)
    for (const bundle::KernelVariant &variant : kernel.variants)
      for (int64_t n : request.lengths) {
        // Over all keys, asking for no position: rows may stand anywhere.
        if (kernel.kind == bundle::Kernel::Kind::Select ||
            !kernel.terms.empty() || kernel.comparesPositions() ||
            variant.mapRows || variant.target != target ||
            !asked(request.dtypes, variant.dtype) ||
            !asked(request.headDims, variant.headDim) ||
            !variant.symbol.starts_with(request.kernel))
          continue;
        const bundle::LaunchForms forms(
            kernel, variant, [&](const bundle::KernelVariant &each) {
              return (*subject.module)[each.symbol].holdsCluster();
            });
        FewRows one(subject, kernel, variant, request, n);
        if (forms.of(one.shape()) != variant.form) // a run takes another
          continue;
        std::fprintf(stderr, "heddle-bench: %s, %lld rows, n = %lld\n",
                     variant.symbol.c_str(),
                     static_cast<long long>(request.rows),
                     static_cast<long long>(n));
        if (Status s = one.prepare(); !s)
          return s.takeError().withContext(variant.symbol);
        CudaRow row;
        row.bundle = subject.name;
        row.name = variant.symbol;
        row.kind = "rows";
        row.dtype = variant.dtype;
        row.headDim = variant.headDim;
        row.length = n;
        row.operations = one.operations();
        row.bytes = one.bytes();
        for (bool cold : {false, true}) {
          Result<Times> times = timer->time(
              *subject.stream, request.repetitions, cold,
              [&](const Stream &stream) { return one.launch(stream); });
          if (!times)
            return times.takeError().withContext(variant.symbol);
          (cold ? row.cold : row.warm) = *times;
        }
        rows.push_back(std::move(row));
      }
  return Status::success();
}
