//===- CudaKernels.cpp - Timing attention and selection on a GPU ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/CudaKernels.h"

#include "bundle/abi/IndexLayout.h"
#include "runtime/bench/Asked.h"
#include "runtime/bench/CudaTimer.h"
#include "runtime/cache/IndexLists.h"
#include "runtime/device/cuda/AttentionGrid.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/TileMaps.h"
#include "runtime/device/cuda/Upload.h"
#include "runtime/engine/DTypeChoice.h"
#include "runtime/schedule/PairCount.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace heddle;
using namespace heddle::bench;
using namespace heddle::rt::cuda;
using bundle::Term;

KernelSubject::KernelSubject(const CudaSubject &subject,
                             const KernelAndVariant &which, int64_t n,
                             const CudaRequest &request)
    : subject(subject), kernel(*which.first), variant(*which.second), n(n),
      heads(request.heads),
      kvHeads(request.kvHeads ? request.kvHeads : request.heads),
      dtype(*rt::dtypeNamed(variant.dtype)),
      code((*subject.module)[variant.symbol]) {}

/// Entries that a list of `selection` may have over `n` keys.
static int64_t entriesOf(const bundle::Selection &selection, int64_t n) {
  return selection.kind == bundle::Selection::Kind::Blocks
             ? bundle::blockCount(n, selection.group, 0)
             : n;
}

/// Entries that a list of `selection` has.
int64_t KernelSubject::keptOf(const bundle::Selection &selection) const {
  return selection.kept(
      selection.within < 0
          ? entriesOf(selection, n)
          : rt::keysToChoose(subject.bundle->manifest().selections, selection,
                             n, 0, 0));
}

Status KernelSubject::prepare() {
  const bundle::Manifest &manifest = subject.bundle->manifest();
  const int64_t width = heads * variant.headDim, size = byteSize(dtype);
  const int64_t kvWidth = kvHeads * variant.headDim;
  const int64_t stride = width + 2 * kvWidth;
  ArenaPlan plan;
  qkv = plan.add("qkv", n * stride * size);
  output = plan.add("output", n * width * size);
  lse = plan.add("log-sum-exp", n * heads * 4);
  arguments = plan.add("arguments", sizeof(abi::AttentionArgs));
  maps = plan.add("tensor maps", variant.mapRows ? sizeof(abi::TileMaps) : 0);
  blocks = int64_t(subject.context->device().multiprocessors) *
           code.residentBlocks();
  scratchRow = bundle::scratchRowBytes(variant, n);
  scratch = plan.add("scratch", selects() ? scratchRow * blocks : 0);
  std::vector<const bundle::Selection *> selections;
  for (const Term &term : kernel.terms)
    if (bundle::readsList(term))
      selections.push_back(&manifest.selections[term.selection]);
  const bundle::ListForm &form = kernel;
  if (selects())
    for (const bundle::Selection &selection : manifest.selections)
      if (selections.empty() && formOf(manifest, selection) == form) {
        selections.push_back(&selection);
        if (selection.within >= 0)
          selections.push_back(&manifest.selection(selection.within));
      }
  for (const bundle::Selection *selection : selections) {
    const int64_t of = entriesOf(*selection, n);
    int64_t keep = keptOf(*selection);
    lists.push_back(plan.add(
        "list",
        listRows(*selection) * ((n - 1) / selection->group + 1) *
            bundle::listRowBytes(
                bundle::listEncoding(*selection, variant.encoding), of, keep)));
  }
  if (Status s =
          Arena::allocate(*subject.context, std::move(plan)).moveTo(memory);
      !s)
    return s;
  const Stream &stream = *subject.stream;
  if (Status s = fillRandom(stream, memory[qkv], dtype, n * stride, 1.0f, 1);
      !s)
    return s;
  // About what random queries and keys give; scores only have to be sane.
  std::vector<float> sums(n * heads,
                          static_cast<float>(std::log2(double(n)) + 0.7));
  if (Status s = stream.copyToDevice(memory[lse], sums.data(), n * heads * 4);
      !s)
    return s;

  abi::AttentionArgs args{};
  args.query = address<void>(qkv);
  args.key = address<std::byte>(qkv) + width * size;
  args.value = address<std::byte>(qkv) + (width + kvWidth) * size;
  args.output = address<void>(output);
  args.lse = address<float>(lse);
  args.n = n;
  args.queryStride = args.keyStride = args.valueStride = stride;
  args.outputStride = width;
  args.kvGroup = heads / kvHeads;
  args.scale = static_cast<float>(1 / std::sqrt(double(variant.headDim)));
  args.heads = static_cast<uint32_t>(heads);
  args.rows = n;
  args.sinks = bundle::sinkBound(kernel.terms, n);
  for (size_t c = 0; c < selections.size(); ++c) {
    if (Status s = fillLists(*selections[c], c, args); !s)
      return s;
    if (selects() && c + 1 == selections.size())
      return prepareSelection(args);
  }
  if (rt::pairsDependOnLists(kernel.terms)) {
    abi::AttentionArgs onHost = args;
    std::ranges::copy(decoded, onHost.lists);
    for (int64_t head = 0; head < heads; ++head)
      pairs += rt::pairsOfRows(kernel.terms, onHost, head, groups);
  } else {
    pairs = heads * rt::fixedPairs(kernel.terms, n,
                                   decoded.empty() ? 0 : decoded[0].keep);
  }
  return upload(args);
}

/// The kernel's arguments, with tensor maps if it has such.
template <typename Args> Status KernelSubject::upload(Args args) {
  const Stream &stream = *subject.stream;
  abi::TileMaps encoded;
  if (variant.mapRows) {
    if (Status s =
            encodeTileMaps(*subject.context, variant, args).moveTo(encoded);
        !s)
      return s;
    args.tileMaps = address<abi::TileMaps>(maps);
    if (Status s = stream.copyToDevice(memory[maps], &encoded, sizeof(encoded));
        !s)
      return s;
  }
  if (Status s = stream.copyToDevice(memory[arguments], &args, sizeof(args));
      !s)
    return s;
  return stream.synchronize();
}

/// Draws the lists of the kernel's term number `c`; a kernel that selects
/// writes the first and chooses within the second.
Status KernelSubject::fillLists(const bundle::Selection &selection, size_t c,
                                abi::AttentionArgs &args) {
  const int64_t group = selection.group, rows = listRows(selection);
  const int64_t count = (n - 1) / group + 1;
  const bundle::Encoding encoding =
      bundle::listEncoding(selection, variant.encoding);
  const int64_t of = entriesOf(selection, n);
  const int64_t keep = keptOf(selection);
  const int64_t rowBytes = bundle::listRowBytes(encoding, of, keep);
  args.lists[c] = {address<void>(lists[c]), count, keep, rowBytes};
  args.lists[c].headsPerList = heads / rows;
  if (selects() && c == 0)
    return Status::success();
  std::vector<std::byte> encoded(rows * count * rowBytes);
  keys.emplace_back(rows * count * keep);
  std::mt19937 random(1);
  // Drawing in order of position: entry j is taken with the probability that
  // fills the list. Each fourth head has the same lists, of keys of its own.
  for (int64_t row = 0; row < rows * count; ++row) {
    int32_t *list = keys.back().data() + row * keep;
    int64_t taken = 0;
    if (row >= 4 * count) {
      std::copy_n(list - 4 * count * keep, keep, list);
      std::copy_n(encoded.data() + (row - 4 * count) * rowBytes, rowBytes,
                  encoded.data() + row * rowBytes);
      continue;
    }
    for (int64_t j = 0; j < of && taken < keep; ++j)
      if (static_cast<int64_t>(random() * uint64_t(of - j) >> 32) <
          keep - taken)
        list[taken++] = static_cast<int32_t>(j);
    bundle::encodeList(encoding, of,
                       std::span<const int32_t>(list, size_t(keep)),
                       encoded.data() + row * rowBytes);
  }
  decoded.push_back(bundle::int32Lists(keys.back().data(), count, keep));
  decoded.back().headsPerList = heads / rows;
  groups.push_back(group);
  const Stream &stream = *subject.stream;
  if (Status s = stream.copyToDevice(memory[lists[c]], encoded.data(),
                                     static_cast<int64_t>(encoded.size()));
      !s)
    return s;
  return stream.synchronize();
}

Status KernelSubject::prepareSelection(const abi::AttentionArgs &args) {
  abi::SelectArgs select = abi::selectArgsOf(args);
  select.list = args.lists[0];
  if (kernel.withinGroup > 0)
    select.within = args.lists[1];
  bundle::Selection scored;
  scored.group = kernel.group;
  scored.scorer = kernel.scorer;
  pairs = heads * n * scored.scoringRows(n);
  return upload(select);
}

Status KernelSubject::launch(const Stream &stream) const {
  if (selects())
    return code.launch(stream, Grid{.x = blocks}, memory[arguments],
                       memory[scratch], scratchRow);
  return code.launch(stream,
                     gridOf(kernel, variant,
                            {.tiles = bundle::tilesOf(variant, n, 1),
                             .queryHeads = heads,
                             .longest = n},
                            subject.context->device()),
                     memory[arguments], DevicePtr(0), int64_t(0));
}

std::vector<KernelAndVariant>
heddle::bench::kernelsAsked(const CudaSubject &subject,
                            const CudaRequest &request) {
  std::vector<KernelAndVariant> found;
  const int64_t target = subject.module->choice().target;
  for (const bundle::Kernel &kernel : subject.bundle->manifest().kernels)
    for (const bundle::KernelVariant &variant : kernel.variants) {
      if (variant.target != target)
        continue;
      const bundle::LaunchForms forms(
          kernel, variant, [&](const bundle::KernelVariant &each) {
            return (*subject.module)[each.symbol].holdsCluster();
          });
      // What a run of all rows takes.
      if (forms.of(bundle::allRows) == variant.form &&
          asked(request.dtypes, variant.dtype) &&
          asked(request.headDims, variant.headDim) &&
          variant.symbol.starts_with(request.kernel))
        found.emplace_back(&kernel, &variant);
    }
  return found;
}

bool heddle::bench::takesLength(const KernelAndVariant &which, int64_t n) {
  return !which.first->hasLists() || bundle::holds(which.second->encoding, n);
}

Status heddle::bench::timeKernels(const CudaSubject &subject,
                                  const CudaRequest &request,
                                  std::vector<CudaRow> &rows) {
  // Twice L2, so that nothing of it stays.
  Result<CudaTimer> timer = CudaTimer::create(
      *subject.context, 2 * subject.context->device().l2Bytes);
  if (!timer)
    return timer.takeError();
  for (const KernelAndVariant &which : kernelsAsked(subject, request))
    for (int64_t n : request.lengths) {
      if (!takesLength(which, n))
        continue;
      const auto &[kernel, variant] = which;
      std::fprintf(stderr, "heddle-bench: %s, n = %lld\n",
                   variant->symbol.c_str(), static_cast<long long>(n));
      KernelSubject one(subject, which, n, request);
      if (Status s = one.prepare(); !s)
        return s.takeError().withContext(variant->symbol);
      CudaRow row;
      row.bundle = subject.name;
      row.name = variant->symbol;
      row.kind = kernel->kind == bundle::Kernel::Kind::Select ? "select"
                 : kernel->terms.empty()                      ? "dense"
                                                              : "attention";
      row.dtype = variant->dtype;
      row.headDim = variant->headDim;
      row.length = n;
      row.operations = one.operations();
      for (bool cold : {false, true}) {
        Result<Times> times = timer->time(
            *subject.stream, request.repetitions, cold,
            [&](const Stream &stream) { return one.launch(stream); });
        if (!times)
          return times.takeError().withContext(variant->symbol);
        (cold ? row.cold : row.warm) = *times;
      }
      rows.push_back(std::move(row));
    }
  return Status::success();
}
