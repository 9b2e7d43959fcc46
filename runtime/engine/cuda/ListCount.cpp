//===- ListCount.cpp - Pairs that lists on a device keep -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/ListCount.h"

#include "bundle/program/PairSets.h"
#include "runtime/base/Parallel.h"
#include "runtime/engine/cuda/Drain.h"
#include "runtime/schedule/PairCount.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <vector>

namespace heddle::rt::cuda {

using bundle::Encoding;
using bundle::Term;

namespace {

constexpr int64_t pieceBytes = int64_t(16) << 20;

/// The keys of one row of lists, as the device wrote them.
class Keys {
public:
  Keys(Encoding encoding, const std::byte *row, int64_t count)
      : encoding(encoding), row(row), size(count) {}

  int64_t count() const { return size; }

  /// Keys in [begin, end).
  int64_t between(int64_t begin, int64_t end) const {
    if (begin >= end)
      return 0;
    switch (encoding) {
    case Encoding::Int32:
      return below<int32_t>(end) - below<int32_t>(begin);
    case Encoding::Uint16:
      return below<uint16_t>(end) - below<uint16_t>(begin);
    case Encoding::Bitmap:
      break;
    }
    int64_t found = 0;
    for (int64_t word = begin / 32; word <= (end - 1) / 32; ++word) {
      uint32_t bits;
      std::memcpy(&bits, row + word * 4, sizeof(bits));
      if (word == begin / 32)
        bits &= ~uint32_t(0) << (begin % 32);
      if (word == (end - 1) / 32)
        bits &= ~uint32_t(0) >> (31 - (end - 1) % 32);
      found += std::popcount(bits);
    }
    return found;
  }

private:
  template <typename T> int64_t below(int64_t key) const {
    const T *keys = reinterpret_cast<const T *>(row);
    return std::lower_bound(keys, keys + size, key) - keys;
  }

  Encoding encoding;
  const std::byte *row;
  int64_t size;
};

/// Rows [begin, end) of heads whose lists are counted together: some of one
/// head's, or all of several heads'.
struct Piece {
  int64_t firstHead = 0, lastHead = 0; ///< both are of it
  int64_t begin = 0, end = 0;
};

} // namespace

Result<int64_t> ListCounter::count(const Stream &stream,
                                   std::span<const Term> terms,
                                   Encoding encoding, int64_t n, int64_t heads,
                                   std::span<const abi::IndexList> lists,
                                   std::span<const int64_t> groups) {
  const size_t columns = lists.size();
  // A piece has all lists of its rows; of the largest group one, or as many as
  // there is room for.
  int64_t widest = *std::max_element(groups.begin(), groups.end());
  auto bytesFor = [&](int64_t rows) {
    int64_t bytes = 0;
    for (size_t c = 0; c < columns; ++c)
      bytes += (rows / groups[c] + 2) * lists[c].rowBytes;
    return bytes;
  };
  int64_t rows = widest;
  while (rows < n && bytesFor(2 * rows) <= pieceBytes)
    rows *= 2;
  // Two pieces at least, so that one arrives while the other is counted.
  int64_t headsOf = 1;
  if (rows >= n)
    headsOf = std::clamp<int64_t>(pieceBytes / bytesFor(n), 1,
                                  std::max<int64_t>(heads / 2, 1));
  const int64_t bytes = headsOf * bytesFor(std::min(rows, n));
  for (CopyLane &lane : lanes)
    if (Status s = lane.reserve(stream.context(), std::max(bytes, pieceBytes));
        !s)
      return s.takeError();

  std::vector<Piece> pieces;
  for (int64_t head = 0; head < heads; head += headsOf)
    for (int64_t begin = 0; begin < n; begin += rows)
      pieces.push_back({head, std::min(head + headsOf, heads) - 1, begin,
                        std::min(begin + rows, n)});
  /// Lists of the c-th term that a piece has of each of its heads.
  auto listsOf = [&](const Piece &piece, size_t c) {
    return (piece.end - 1) / groups[c] + 1 - piece.begin / groups[c];
  };

  auto fetch = [&](size_t index) -> Status {
    const Piece &piece = pieces[index];
    CopyLane &lane = lanes[index % 2];
    std::byte *to = lane.buffer.data();
    for (size_t c = 0; c < columns; ++c) {
      // Of all heads the lists are one after another.
      const int64_t bytes = (piece.lastHead + 1 - piece.firstHead) *
                            listsOf(piece, c) * lists[c].rowBytes;
      void *from =
          bundle::listRow(lists[c], piece.firstHead, piece.begin / groups[c]);
      if (Status s =
              stream.copyToHost(to, reinterpret_cast<uintptr_t>(from), bytes);
          !s)
        return s;
      to += bytes;
    }
    return stream.record(lane.copied);
  };

  const int64_t sinks = bundle::sinkBound(terms, n);
  // One list, whose rows keep all of it, is looked at as the device wrote it.
  const bool alone =
      columns == 1 && std::ranges::none_of(terms, [](const Term &term) {
        return bundle::readsList(term) && !term.within.empty();
      });
  std::atomic<int64_t> damaged = -1;
  /// Pairs of rows [begin, end) of a head of a piece, which share their lists.
  auto countRun = [&](const Piece &piece, const std::byte *from, int64_t head,
                      int64_t begin, int64_t end) {
    int64_t pairs = 0;
    auto rowOf = [&](size_t c) {
      const int64_t each = listsOf(piece, c);
      const int64_t at = (head - piece.firstHead) * each + begin / groups[c] -
                         piece.begin / groups[c];
      const std::byte *row = from + at * lists[c].rowBytes;
      from += (piece.lastHead + 1 - piece.firstHead) * each * lists[c].rowBytes;
      return row;
    };
    if (alone) {
      const Keys keys(encoding, rowOf(0), lists[0].keep);
      if (encoding == Encoding::Bitmap && keys.between(0, n) != keys.count())
        damaged = head;
      for (int64_t i = begin; i < end; ++i) {
        pairs += keys.count();
        bundle::forRuns(terms, i, sinks, n, [&](int64_t first, int64_t last) {
          pairs += last - first - keys.between(first, last);
        });
      }
      return pairs;
    }
    SharedLists shared(terms);
    std::vector<int32_t> keys;
    for (size_t c = 0; c < columns; ++c) {
      keys.resize(static_cast<size_t>(lists[c].keep));
      if (!bundle::decodeList(encoding, n, rowOf(c), keys))
        damaged = head;
      for (int32_t key : keys)
        shared.add(c, key, int64_t(key) + 1);
    }
    shared.close();
    for (int64_t i = begin; i < end; ++i)
      pairs += shared.count([&](std::span<const Term> each, auto use) {
        bundle::forRuns(each, i, sinks, n, use);
      });
    return pairs;
  };

  const Drain drain(stream);
  std::atomic<int64_t> total = 0;
  std::vector<int64_t> starts;
  if (Status s = fetch(0); !s)
    return s.takeError();
  for (size_t index = 0; index < pieces.size(); ++index) {
    const Piece &piece = pieces[index];
    CopyLane &lane = lanes[index % 2];
    if (index + 1 < pieces.size())
      if (Status s = fetch(index + 1); !s)
        return s.takeError();
    if (Status s = lane.copied.synchronize(); !s)
      return s.takeError();
    starts.clear();
    for (int64_t row = piece.begin; row < piece.end;) {
      starts.push_back(row);
      int64_t next = piece.end;
      for (int64_t group : groups)
        next = std::min(next, (row / group + 1) * group);
      row = next;
    }
    starts.push_back(piece.end);
    const auto runs = static_cast<int64_t>(starts.size()) - 1;
    parallelFor((piece.lastHead + 1 - piece.firstHead) * runs,
                [&](int64_t each, int) {
                  const int64_t i = each % runs;
                  total += countRun(piece, lane.buffer.data(),
                                    piece.firstHead + each / runs, starts[i],
                                    starts[i + 1]);
                });
    if (int64_t head = damaged; head >= 0)
      return Error("an index list of head " + std::to_string(head) +
                   " on the device is damaged");
  }
  return total.load();
}

} // namespace heddle::rt::cuda
