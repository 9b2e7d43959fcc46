//===- Tilings.h - Tables of measured tilings ------------------*- C++ -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table says which kernels take a `wgmma_tiling` and which one. Its text is
// JSON:
//
//   {"wgmma": [{"element": "bf16", "head_dim": 128, "consumers": 3,
//               "keys": 128, "stages": 2, "parts": 2,
//               "producer_registers": 32, "consumer_registers": 160}]}
//
// Without "element" an entry is for both, bf16 and f16.
// "over" says which keys: "all" (as without it), "list" (one list of keys),
// "blocks" (one list of blocks), "range" (a window, sinks, or both) or "union"
// (more sets, or several of which one at least is a list), or "scores": a
// kernel that selects, for groups of at most 128 rows; "blocks" how many blocks
// a multiprocessor is to hold, 1 without it; "copies" who brings tiles,
// "threads" (as without it) or "tma"; "cluster" how many blocks share what the
// latter brings, 1 without it; "positions" whether the entry is for kernels
// whose scores ask where rows or keys stand, too, false without it;
// "key_shares" how many blocks divide the keys of a query tile, 1 without it.
// With more than one it is for steps of some rows, of sequences of at least
// "least_keys" keys (1 without it), without for steps of all rows. "packed" is
// true, with the former, where tiles have the rows of all query heads of a key
// head: for models whose query heads share such, false without it; not over
// lists, which belong to a query head, nor for unions of them or scores. Of
// these forms "least_keys" falls with the square of the share of tiles that
// packing leaves (program/Forms.h). "masked" is true for kernels that ask for
// pairs by a set with gaps or by more than one range beside their keys' own,
// and for no others; without it an entry is for both, so the former stand
// first. "query_stages" is 0 (as without it), or blocks go on to further tiles
// of rows, whose queries are brought ahead to so many stages. "shared" is true
// for kernels whose query heads share lists, and for no others; these have no
// "query_stages". "check_sums" is true where a row's reference is raised by its
// sum instead of maxima of each tile: for kernels that write no log-sum-exp and
// have no functions of logits, and for no others; such entries
// stand before those for all, or the table is refused. "ping_pong" is true
// where two warpgroups or more start their products in order: over all keys, a
// list or blocks, and where heads do not share lists. "tail_keys" is 0 (as
// without it), or what is left of a list of keys behind its last whole tile is
// in tiles of so many, a multiple of 16 below "keys".
// "one_ring" is true where tiles of keys and of values take turns in one ring
// of "stages" tiles, not over "scores", false without it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_TILINGS_H
#define HEDDLE_BUNDLE_FORMAT_TILINGS_H

#include "bundle/program/Manifest.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bundle {

/// The tiling of kernels over some keys of an element type and head dim.
struct TilingRule {
  std::string element;      ///< "bf16", "f16"; in an entry "", for both
  std::string over = "all"; ///< "list", "blocks", "range", "union", "scores"
  int64_t headDim = 0;
  int64_t consumers = 0, keys = 0, stages = 0, parts = 0; ///< see wgmma_tiling
  int64_t producerRegisters = 0, consumerRegisters = 0, blocks = 1;
  bool tma = false;
  int64_t cluster = 1;
  bool positions = false;
  bool shared = false;
  int64_t keyShares = 1, leastKeys = 0, queryStages = 0;
  bool packed = false;
  bool masked = false;
  bool checkSums = false;
  bool pingPong = false;
  int64_t tailKeys = 0;
  bool oneRing = false;
  /// Where its entry begins in the text of its table, from 1; 0: nowhere.
  int64_t line = 0, column = 0;

  /// Which of a kernel's forms has this tiling.
  LaunchForm form() const {
    return packed          ? LaunchForm::Packed
           : keyShares > 1 ? LaunchForm::Long
                           : LaunchForm::All;
  }
};

/// Why no kernel has such a tiling: a number is out of its range, or does not
/// go with another. "" if nothing is wrong; whether a kernel's registers and
/// shared memory suffice is for the compiler to say.
std::string tilingProblem(const TilingRule &rule);

/// Why no kernel of such an element, head dim and keys has this tiling, whose
/// numbers are in their ranges. "" if nothing is wrong.
std::string kernelProblem(const TilingRule &rule);

/// Whether each kernel that an entry is for is `other`'s, too, but for what
/// `check_sums` asks.
bool takesAllOf(const TilingRule &other, const TilingRule &rule);

/// An error where no table has so many bytes.
Status checkTilingsSize(uint64_t bytes);

/// Reads a table; an entry for both elements is two rules. Fails with a
/// sentence that says what was found and what was expected, also of entries
/// that no kernel will ask for, and of such with `check_sums` that stand behind
/// one for all kernels, which takes theirs.
Result<std::vector<TilingRule>> tilingsFromJson(std::string_view text);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_TILINGS_H
