//===- Machine.h - How fast machines compute, as data -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A roofline: a part takes the longer of its operations over a rate and its
// bytes over a bandwidth, and what starting it costs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_MACHINE_H
#define HEDDLE_TOOLS_EXPLAIN_MACHINE_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"
#include "tools/explain/Cost.h"

#include <array>
#include <string>
#include <string_view>

namespace heddle::explain {

/// Rates of one machine, in operations, bytes and seconds: the measured figures
/// of docs/Performance.md, of an H100 the H200's with its own memory's rate.
struct Machine {
  const char *name;   ///< as --machine takes it
  const char *label;  ///< for people
  const char *target; ///< whose crossovers its lists have
  double products;    ///< operations a second of large products
  double memory;      ///< bytes a second of weights and rows
  /// Attention: operations a second of kept pairs.
  struct Attention {
    double dense;
    double band; ///< windows and sinks
    /// Blocks of 32, 64 and 128, lists for 32, 64 and 128 rows. Those of
    /// `whole` that have none come of the measured crossovers.
    std::array<double, 3> blocks, columns;
    /// What a block of rows does beside its keys, and at their edges, takes as
    /// long as so many keys.
    double edge;
  };
  Attention whole;  ///< of at most one list, for all rows of a sequence
  Attention others; ///< all other kernels
  struct {
    std::array<double, 3> blocks, columns;
    /// By mean logits.
    double blockLogits, columnLogits;
  } scoring;          ///< 2 d operations a pair
  double processors;  ///< what makes one list at a time: multiprocessors, cores
  double tileSeconds; ///< a tile of keys of up to 64 rows, one after the other
  double launch;      ///< a kernel's start and end
  double wait; ///< a layer's, where the host chooses rows by its findings
};

/// Kernels of a layer: products, attention and what stands between them.
inline constexpr int64_t launchesPerLayer = 12;

/// The machine of that name; an error names all.
Result<Machine> machineNamed(std::string_view name);

/// That of a bundle's targets: a GPU if it has code for one.
const Machine &machineOf(const bundle::Manifest &manifest);

/// The share of a sequence's keys below which attention over one list of keys
/// (or of blocks, of `group` keys) for each `group` rows takes less time than
/// dense attention, where all rows are computed: 0 to 1, for any number of keys
/// (below some 1,000 both wait for their launches).
double fasterBelow(const Machine &machine, bool blocks, int64_t group);

/// Seconds of each part of a layer; the sum also holds what stands between
/// them.
struct Seconds {
  std::array<double, partCount> parts{};
  double between = 0;

  double sum() const;
  Seconds &operator+=(const Seconds &other);
};
Seconds operator*(const Seconds &seconds, double times);

/// Of one layer at one step.
Seconds secondsOfLayer(const Machine &machine, const ModelShape &shape,
                       const LayerStep &step);

/// Of the LM head and the sampler.
Seconds secondsOfHead(const Machine &machine, const ModelShape &shape,
                      int64_t logitRows);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_MACHINE_H
