//===- IndexLists.h - The index lists of a run ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One block of memory holds, in the order [layer][sequence][selection], an
// abi::IndexList for every selection that the layer keeps. Each list starts on
// a 64-byte boundary; inside it are queryHeads x groups rows as
// bundle/abi/IndexLayout.h lays them out, all lists of a run in one encoding.
//
// Worked example: 2 query heads; selection A keeps 1/2 of the keys for groups
// of 4 rows, selection B one key for groups of 8 rows; layer 0 keeps A and B,
// layer 1 keeps only A; sequences of 8 and 5 tokens; Int32.
//
//   layer  sequence  selection  groups  keep  bytes             offset
//     0       0          A         2      4   2*2*4*4 = 64         0
//     0       0          B         1      1   2*1*1*4 =  8        64
//     0       1          A         2      2   2*2*2*4 = 32       128
//     0       1          B         1      1   2*1*1*4 =  8       192
//     1       0          A         2      4   64                 256
//     1       1          A         2      2   32                 320
//   total: 384 bytes, the last list padded to a cache line like the others
//
// In layer 0, the list of sequence 1, head 1, second group (row 4 alone) in A
// starts at byte 128 + ((1 * 2 + 1) * 2) * 4 = 152. As Uint16 or Bitmap each of
// these short lists takes 16 bytes, A 64 or, like B, no more than that when
// padded: 384 bytes again.
//
// Lists count places (visible positions). When the visible positions of a
// sequence change, its lists take another shape in the same memory, which is
// enough for the most places that the sequence can have.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CACHE_INDEXLISTS_H
#define HEDDLE_RUNTIME_CACHE_INDEXLISTS_H

#include "bundle/abi/Abi.h"
#include "bundle/abi/IndexLayout.h"
#include "bundle/program/Manifest.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt {

/// The blocks that a selection of blocks chooses from.
///
/// Worked example: blocks of 32, n = 100 places of which 40 are prompt, one
/// half kept. Spans: blocks {0..31} {32..39} {40..71} {72..99}, boundary 2, one
/// of each two kept. Aligned: {0..31} {32..63} {64..95} {96..99}, boundary 2.
struct BlockSpans {
  int64_t blocks = 0;   ///< of all keys
  int64_t keep = 0;     ///< entries of a list
  int64_t split = 0;    ///< abi::IndexList::split
  int64_t boundary = 0; ///< abi::SelectArgs::boundary
  int64_t spanKeep = 0; ///< abi::SelectArgs::spanKeep
};

/// For `n` places of which the first `promptPlaces` are prompt. Prompt and
/// response can be told apart only where both have a block: else boundary is 0.
/// A block that holds the first response place counts as prompt unless it is
/// the last one. Source: SparseD, released code.
BlockSpans blockSpans(const bundle::Selection &selection, int64_t n,
                      int64_t promptPlaces);

/// How many keys a selection of columns surely chooses from: of `n` places of
/// which the first `promptPlaces` are prompt all, or, within another one of
/// `all`, those that each list of this one has. Of columns they are all that it
/// lists, `always` of them always; of blocks those that are left where the
/// blocks that it does not list are whole.
///
/// Worked example: blocks of 32, n = 100, two of four kept: lists of blocks 0
/// and 1 have 64 keys, those with block 3 36, so 100 - 2 * 32 = 36.
int64_t keysToChoose(std::span<const bundle::Selection> all,
                     const bundle::Selection &selection, int64_t n,
                     int64_t promptPlaces, int64_t always);

/// What the lists of a run depend on.
struct IndexListShape {
  std::vector<bundle::Selection> selections;
  /// [layer][selection]: the layer whose list is read, as bundle::listSources()
  /// has them. A layer that reads its own keeps it.
  std::vector<std::vector<int64_t>> sources;
  std::vector<int64_t> lengths; ///< most places of each sequence, at least 1
  int64_t queryHeads = 0;
  /// Of lists of keys. Holds the longest sequence, see bundle::encodingFor.
  bundle::Encoding encoding = bundle::Encoding::Int32;
  int64_t kvHeads = 0; ///< of selections that are shared by key/value head
  /// [sequences], or empty: whose lists a sequence reads. One that reads those
  /// of another has none; one that is read reads its own.
  std::vector<int64_t> owners = {};

  int64_t ownerOf(int64_t sequence) const {
    return owners.empty() ? sequence : owners[static_cast<size_t>(sequence)];
  }
  bool keeps(size_t layer, size_t selection) const {
    return sources[layer][selection] == static_cast<int64_t>(layer);
  }
};

/// Where the index lists lie and which of them have been written.
class IndexLists {
public:
  IndexLists() = default;

  /// Bytes of the lists' memory, padding included. INT64_MAX when the true
  /// number is larger.
  static int64_t bytesFor(const IndexListShape &shape);

  /// Lists in bytesFor() bytes at `memory`, none of them filled, of sequences
  /// that are wholly visible and have no prompt. The memory may be a device's:
  /// only addresses are computed.
  static IndexLists at(const IndexListShape &shape, void *memory);

  /// Gives the lists of a sequence the shape for `n` places, in [1, its
  /// length], the first `promptPlaces` of them prompt. None is filled then.
  void see(int64_t sequence, int64_t n, int64_t promptPlaces);

  /// Before a refresh of a layer's own columns, of `n` places: how many keys
  /// these lists have from now on.
  void keep(int64_t layer, int64_t sequence, int64_t selection, int64_t n,
            int64_t keep);

  /// The list that a layer reads (IndexListShape::sources). `indices` is null
  /// when there is none.
  const abi::IndexList &list(int64_t layer, int64_t sequence,
                             int64_t selection) const {
    return lists[slot(layer, sequence, selection)];
  }

  /// Whether the list that a layer reads has been written.
  bool filled(int64_t layer, int64_t sequence, int64_t selection) const {
    return written[slot(layer, sequence, selection)] != 0;
  }
  void markFilled(int64_t layer, int64_t sequence, int64_t selection) {
    written[slot(layer, sequence, selection)] = 1;
  }

private:
  size_t slot(int64_t layer, int64_t sequence, int64_t selection) const {
    const int64_t source = std::max<int64_t>(
        shape.sources[static_cast<size_t>(layer)]
                     [static_cast<size_t>(selection)],
        0); // a layer without one has none of the first layer's either
    return place(source, shape.ownerOf(sequence), selection);
  }
  size_t place(int64_t layer, int64_t sequence, int64_t selection) const {
    return static_cast<size_t>((layer * sequences + sequence) * selections +
                               selection);
  }

  int64_t sequences = 0;
  int64_t selections = 0;
  IndexListShape shape;
  std::vector<abi::IndexList> lists;
  std::vector<uint8_t> written;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CACHE_INDEXLISTS_H
