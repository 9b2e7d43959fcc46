//===- Runner.cpp - An executor's kernels on a device ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Runner.h"

#include "bundle/abi/IndexLayout.h"
#include "runtime/base/Parallel.h"
#include "runtime/device/cuda/AttentionGrid.h"
#include "runtime/device/cuda/TileMaps.h"
#include "runtime/engine/cuda/Address.h"
#include "runtime/engine/cuda/Drain.h"
#include "runtime/schedule/TaskGrid.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <vector>

namespace heddle::rt::cuda {

bundle::Encoding DeviceRunner::encoding(int64_t longest) const {
  // reserve() refuses a length that no encoding of the bundle holds.
  return encodingFor(target, longest).value_or(bundle::Encoding::Int32);
}

int64_t DeviceRunner::bytes(int64_t longest) const {
  ScheduleKernels fitted = kernels;
  return fitted.fit(longest) ? fitted.scratchBytes(1) : 0;
}

Status DeviceRunner::reserve(int64_t longest) {
  scratch = Arena();
  if (longest > longestSequence)
    return Error("a sequence has " + std::to_string(longest) +
                 " visible tokens; at most " + std::to_string(longestSequence) +
                 " are possible");
  if (Status s = kernels.fit(longest); !s)
    return s;
  ArenaPlan plan;
  plan.add("scores", kernels.scratchBytes(1));
  if (Status s = Arena::allocate(context, std::move(plan)).moveTo(scratch); !s)
    return s;
  return Status::success();
}

Status DeviceRunner::read(const bundle::Selection &selection, int64_t n,
                          int64_t lists, GroupRange groups,
                          abi::IndexList &list,
                          std::unique_ptr<int32_t[]> &memory) {
  const bundle::Encoding encoding =
      bundle::listEncoding(selection, kernels.encoding());
  const int64_t rows = lists * list.groups;
  // As large as the whole list, but what is not asked for is never touched.
  auto encoded = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<size_t>(rows * list.rowBytes));
  const auto entries = static_cast<size_t>(rows * list.keep);
  memory = std::make_unique_for_overwrite<int32_t[]>(entries);
  const std::span<int32_t> decoded(memory.get(), entries);
  const int64_t copies = groups.count == list.groups ? 1 : lists;
  const int64_t bytes = lists / copies * groups.count * list.rowBytes;
  const Drain drain(stream);
  for (int64_t copy = 0; copy < copies; ++copy) {
    const int64_t at = (copy * list.groups + groups.first) * list.rowBytes;
    if (Status s = stream.copyToHost(encoded.get() + at,
                                     addressOf(list.indices) + at, bytes);
        !s)
      return s;
  }
  if (Status s = stream.synchronize(); !s)
    return s;
  std::atomic<bool> whole = true;
  parallelFor(lists * groups.count, [&](int64_t each, int) {
    const int64_t row =
        each / groups.count * list.groups + groups.first + each % groups.count;
    if (!bundle::decodeList(encoding, n, encoded.get() + row * list.rowBytes,
                            decoded.subspan(row * list.keep, list.keep)))
      whole = false;
  });
  if (!whole)
    return Error("an index list on the device is damaged");
  list.indices = memory.get();
  list.rowBytes = list.keep * static_cast<int64_t>(sizeof(int32_t));
  return Status::success();
}

/// Makes `values`, `count` of them on the host, those on the device.
Status DeviceRunner::upload(const int32_t *&values, int64_t count) {
  Result<DevicePtr> address =
      uploads.put(stream, {values, static_cast<size_t>(count)});
  if (!address)
    return address.takeError();
  values = at<const int32_t>(*address);
  return Status::success();
}

/// Gives blocks their tensor maps, if the kernel has tiles brought by such.
template <typename Args>
Status DeviceRunner::uploadMaps(const bundle::KernelVariant &variant,
                                std::span<Args> blocks) {
  if (!variant.mapRows)
    return Status::success();
  maps.clear();
  for (const Args &args : blocks) {
    Result<abi::TileMaps> own = encodeTileMaps(context, variant, args);
    if (!own)
      return own.takeError();
    maps.push_back(*own);
  }
  Result<DevicePtr> address =
      uploads.putBytes(stream, std::as_bytes(std::span(maps)));
  if (!address)
    return address.takeError();
  for (size_t b = 0; b < blocks.size(); ++b)
    blocks[b].tileMaps = at<const abi::TileMaps>(*address) + b;
  return Status::success();
}

/// Only some kernels read positions, and those are places where all positions
/// are visible.
template <typename Args>
Status DeviceRunner::uploadPositions(const DeviceKernel &bound, Args &args) {
  if (bound.comparesPositions && args.position &&
      args.position[args.n - 1] != args.n - 1)
    return upload(args.position, args.n);
  args.position = nullptr;
  return Status::success();
}

/// Each sequence takes the form that its own rows ask for, so that they have
/// the same bits alone and in a batch.
Status DeviceRunner::attend(size_t kernel,
                            std::span<abi::AttentionArgs> given) {
  const DeviceKernel &bound = kernels[kernel];
  std::vector<const KernelForm *> done; // few
  for (const abi::AttentionArgs &each : given) {
    const KernelForm *form = &bound.of(shapeOf(each));
    if (std::ranges::find(done, form) != done.end())
      continue;
    done.push_back(form);
    launched.clear();
    std::ranges::copy_if(given, std::back_inserter(launched),
                         [&](const abi::AttentionArgs &args) {
                           return &bound.of(shapeOf(args)) == form;
                         });
    if (Status s = attendBy(bound, *form, launched); !s)
      return s;
  }
  return Status::success();
}

Status DeviceRunner::attendBy(const DeviceKernel &bound, const KernelForm &form,
                              std::span<abi::AttentionArgs> blocks) {
  const int64_t tileRows = form.variant->queryRows;
  uploads.gather();
  int64_t tiles = 1; // a grid needs one, even if no block has rows
  for (abi::AttentionArgs &args : blocks) {
    const bool whole = args.rows == args.n;
    int64_t own = bundle::tilesOf(*form.variant, args.rows, args.kvGroup);
    if (!whole && bound.kernel->hasLists()) {
      fillFirstRows(args, /*byPlace=*/true, tileRows, firstRow);
      own = static_cast<int64_t>(firstRow.size()) - 1;
      args.firstRow = firstRow.data();
      if (Status s = upload(args.firstRow, own + 1); !s)
        return s;
    } else {
      args.firstRow = nullptr;
    }
    if (whole)
      args.place = nullptr;
    else if (Status s = upload(args.place, args.rows); !s)
      return s;
    if (Status s = uploadPositions(bound, args); !s)
      return s;
    tiles = std::max(tiles, own);
  }
  if (Status s = uploadMaps(*form.variant, blocks); !s)
    return s;
  Result<DevicePtr> arguments =
      uploads.putBytes(stream, std::as_bytes(std::span(blocks)));
  if (!arguments)
    return arguments.takeError();
  if (Status s = uploads.send(stream); !s)
    return s;
  // Grids have at most 65,535 blocks in z.
  constexpr size_t most = 65535;
  for (size_t first = 0; first < blocks.size(); first += most)
    if (Status s = kernels.attend(
            stream, bound, form,
            *arguments + first * sizeof(abi::AttentionArgs),
            static_cast<int64_t>(std::min(most, blocks.size() - first)), tiles);
        !s)
      return s;
  return Status::success();
}

/// One sequence at a time: each has lists enough for all of the device, and
/// scratch memory is enough for one.
Status DeviceRunner::select(size_t kernel,
                            std::span<const abi::SelectArgs> given) {
  selected.assign(given.begin(), given.end());
  const std::span<abi::SelectArgs> blocks = selected;
  for (abi::SelectArgs &args : blocks)
    if (Status s = uploadPositions(kernels[kernel], args); !s)
      return s;
  if (Status s =
          uploadMaps(*kernels[kernel].of(bundle::allRows).variant, blocks);
      !s)
    return s;
  Result<DevicePtr> arguments = uploads.putBytes(stream, std::as_bytes(blocks));
  if (!arguments)
    return arguments.takeError();
  for (size_t b = 0; b < blocks.size(); ++b)
    if (Status s = kernels.select(stream, kernel,
                                  *arguments + b * sizeof(abi::SelectArgs), 1,
                                  scratch.bytes() ? scratch[0] : 0);
        !s)
      return s;
  return Status::success();
}

} // namespace heddle::rt::cuda
