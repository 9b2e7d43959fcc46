//===- KeptArguments.h - Arguments that a GPU has already -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Calls of a program's loop come with the same tensors again and again, as
// allocators hand out the same memory: 16 argument blocks of late stay in the
// device's memory, and a call whose arguments are among them need not put them
// there. Each stream has its own, since only the order within a stream says
// when they may be overwritten. And several launches that come again and again
// on the same arguments become a graph, which is one call of the driver.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMBED_KEPTARGUMENTS_H
#define HEDDLE_EMBED_KEPTARGUMENTS_H

#include "bundle/Result.h"
#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/DriverApi.h"
#include "runtime/device/cuda/Graph.h"
#include "runtime/device/cuda/Stream.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace heddle::embed {

/// Not thread-safe. The context must outlive it.
class KeptArguments {
public:
  /// `bytes`: of a call's arguments, at most.
  KeptArguments(const rt::cuda::Context &context, int64_t bytes)
      : context(context), bytes(bytes) {}
  ~KeptArguments();
  KeptArguments(const KeptArguments &) = delete;
  KeptArguments &operator=(const KeptArguments &) = delete;

  /// The number by which the driver tells a stream from all others that ever
  /// were; none where nothing can be kept: a CUDA graph records the stream, the
  /// driver gives no such numbers (before 12.0), arguments are long, or streams
  /// before it have all the memory: it stays with them, as none says when its
  /// last work is done.
  std::optional<uint64_t> streamNumber(rt::cuda::api::CUstream stream) const;

  /// A place in the device's memory.
  struct Place {
    rt::cuda::api::CUdeviceptr address = 0;
    std::vector<std::byte> content; ///< what the last call there put
    bool has(const std::vector<std::byte> &arguments) const;
    uint64_t lastUse = 0;
    std::vector<std::byte> work;          ///< the launches of late on them
    std::optional<rt::cuda::Graph> graph; ///< of these
  };

  /// Where these arguments are, or, if it has no content, may be put.
  Result<Place *> find(uint64_t stream,
                       const std::vector<std::byte> &arguments);

  /// A graph of what `record` puts into a stream, all of which `work` tells
  /// apart from other work on the place's arguments; null until it has come
  /// twice, and where the driver records none.
  const rt::cuda::Graph *graphOf(Place &place, std::vector<std::byte> work,
                                 const rt::cuda::Graph::Recorder &record);

private:
  static constexpr size_t places = 16;           ///< of a stream
  static constexpr int64_t mostBytes = 65536;    ///< of a place
  static constexpr int64_t mostTotal = 32 << 20; ///< of all streams

  /// Of a stream.
  struct Memory {
    rt::cuda::api::CUdeviceptr block = 0;
    std::array<Place, places> all;
  };
  void forget(Place &place);

  const rt::cuda::Context &context;
  const int64_t bytes;
  std::map<uint64_t, Memory> streams;
  uint64_t uses = 0;
  std::optional<rt::cuda::Stream>
      recorder; ///< for captures, nothing runs there
  bool records = true;
};

} // namespace heddle::embed

#endif // HEDDLE_EMBED_KEPTARGUMENTS_H
