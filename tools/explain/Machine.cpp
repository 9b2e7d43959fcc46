//===- Machine.cpp - How fast machines compute, as data -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/Machine.h"

#include "bundle/format/Crossovers.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace heddle;
using namespace heddle::explain;

namespace {

constexpr Machine h200 = {.name = "h200",
                          .label = "one NVIDIA H200, bf16",
                          .target = "sm_90a",
                          .products = 720e12,
                          .memory = 3.5e12,
                          .whole = {.dense = 720e12,
                                    .band = 640e12,
                                    .blocks = {370e12, 540e12},
                                    .columns = {},
                                    .edge = 320},
                          .others = {.dense = 425e12,
                                     .band = 350e12,
                                     .blocks = {370e12, 370e12, 370e12},
                                     .columns = {260e12, 310e12, 370e12},
                                     .edge = 150},
                          .scoring = {.blocks = {353e12, 454e12, 523e12},
                                      .columns = {476e12, 509e12, 568e12},
                                      .blockLogits = 215e12,
                                      .columnLogits = 13.4e12},
                          .processors = 132,
                          .tileSeconds = 0.79e-6,
                          .launch = 1.6e-6,
                          .wait = 60e-6};

/// The same multiprocessors, a memory of 0.7 of the rate (3.35 of 4.8 TB/s).
constexpr Machine h100 = [] {
  Machine machine = h200;
  machine.name = "h100";
  machine.label = "one NVIDIA H100, bf16";
  machine.memory *= 0.7;
  return machine;
}();

constexpr Machine::Attention cpuAttention = {.dense = 700e9,
                                             .band = 600e9,
                                             .blocks = {650e9, 650e9, 650e9},
                                             .columns = {680e9, 690e9, 700e9},
                                             .edge = 0};

/// Two cores with AVX-512 and bf16 dot products, without AMX.
constexpr Machine cpu = {.name = "cpu",
                         .label = "two cores of an AMD EPYC (Zen 5), bf16",
                         .target = "znver5",
                         .products = 850e9,
                         .memory = 25e9,
                         .whole = cpuAttention,
                         .others = cpuAttention,
                         .scoring = {.blocks = {500e9, 550e9, 600e9},
                                     .columns = {500e9, 550e9, 600e9},
                                     .blockLogits = 35e9,
                                     .columnLogits = 35e9},
                         .processors = 2,
                         .tileSeconds = 0,
                         .launch = 5e-6,
                         .wait = 0};

/// At a crossover a list takes the time of all keys.
Machine withLists(Machine machine) {
  using Kind = bundle::Selection::Kind;
  for (auto [kind, rates] : {std::pair(Kind::Blocks, &machine.whole.blocks),
                             std::pair(Kind::Columns, &machine.whole.columns)})
    for (size_t i = 0; i < rates->size(); ++i) {
      const bundle::Crossover *entry = bundle::findCrossover(
          bundle::measuredCrossovers(), machine.target, kind, 32 << i);
      assert((entry == nullptr) == ((*rates)[i] > 0) &&
             "each rate is stated once");
      if (entry)
        (*rates)[i] =
            machine.whole.dense * static_cast<double>(entry->percent) / 100;
    }
  return machine;
}

const std::array<Machine, 3> &allMachines() {
  static const std::array all = {withLists(h200), withLists(h100),
                                 withLists(cpu)};
  return all;
}

constexpr int64_t tileKeys = 64;
/// KernelVariant::leastKeys of the built-in table of tilings, whose forms for
/// long sequences divide the keys among `keyShares` blocks. What is planned and
/// not compiled has no variants to ask.
constexpr double longKeys = 8192;
constexpr double keyShares = 4;

double wide(int64_t value) { return static_cast<double>(value); }

/// Of lists for 32 rows and less, 64, 128 and more.
double rateOf(const std::array<double, 3> &rates, int64_t group) {
  return rates[group >= 128 ? 2 : group >= 64 ? 1 : 0];
}

double attentionRate(const Machine &machine, const LayerStep &step,
                     double keys) {
  const Machine::Attention &rates = step.whole ? machine.whole : machine.others;
  double rate = rates.dense;
  switch (step.pattern) {
  case LayerStep::Pattern::Dense:
    break;
  case LayerStep::Pattern::Band:
    rate = rates.band;
    break;
  case LayerStep::Pattern::Columns:
    rate = rateOf(rates.columns, step.group);
    break;
  case LayerStep::Pattern::Blocks:
    rate = rateOf(rates.blocks, step.group);
    break;
  }
  return rate * keys / (keys + rates.edge);
}

} // namespace

Result<Machine> heddle::explain::machineNamed(std::string_view name) {
  std::string all;
  for (const Machine &machine : allMachines()) {
    if (machine.name == name)
      return machine;
    all += (all.empty() ? "" : ", ") + std::string(machine.name);
  }
  return Error("there are no figures of the machine '" + std::string(name) +
               "', expected one of " + all);
}

const Machine &heddle::explain::machineOf(const bundle::Manifest &manifest) {
  bool gpu = std::any_of(manifest.targets.begin(), manifest.targets.end(),
                         [](const bundle::Target &target) {
                           return target.kind == bundle::Target::Kind::Cuda;
                         });
  return allMachines()[gpu ? 0 : 2];
}

double heddle::explain::fasterBelow(const Machine &machine, bool blocks,
                                    int64_t group) {
  const Machine::Attention &rates = machine.whole;
  return std::min(
      rateOf(blocks ? rates.blocks : rates.columns, group) / rates.dense, 1.0);
}

double Seconds::sum() const {
  return std::accumulate(parts.begin(), parts.end(), between);
}

Seconds &Seconds::operator+=(const Seconds &other) {
  for (size_t part = 0; part < parts.size(); ++part)
    parts[part] += other.parts[part];
  between += other.between;
  return *this;
}

Seconds heddle::explain::operator*(const Seconds &seconds, double times) {
  Seconds result = seconds;
  for (double &part : result.parts)
    part *= times;
  result.between *= times;
  return result;
}

Seconds heddle::explain::secondsOfLayer(const Machine &machine,
                                        const ModelShape &shape,
                                        const LayerStep &step) {
  Seconds seconds;
  auto of = [&](Part part) -> double & {
    return seconds.parts[static_cast<size_t>(part)];
  };
  for (Part part : {Part::Qkv, Part::Output, Part::Ffn})
    of(part) = std::max(operationsOf(shape, step.work, part) / machine.products,
                        bytesOf(shape, step, part) / machine.memory);
  const double heads = wide(shape.heads);
  if (step.work.pairs > 0) {
    // A block of rows waits for its tiles of keys, one after the other. Blocks
    // of a list are tiles of their own; a kernel's second form, for up to 128
    // rows, takes three times as long for each. Blocks of a form for long
    // sequences divide the keys, and then add up what they found, as long as a
    // share.
    const double keys = wide(step.work.pairs) / heads / wide(step.attended);
    const bool blocks = step.pattern == LayerStep::Pattern::Blocks;
    const bool divided =
        step.pattern == LayerStep::Pattern::Dense && keys >= longKeys;
    const double tiles =
        keys /
        wide(blocks ? std::min<int64_t>(step.group, tileKeys) : tileKeys) /
        (divided ? keyShares - 1 : 1);
    of(Part::Attention) =
        std::max({operationsOf(shape, step.work, Part::Attention) /
                      attentionRate(machine, step, keys),
                  bytesOf(shape, step, Part::Attention) / machine.memory,
                  tiles * machine.tileSeconds *
                      (step.attended > 64 && !divided ? 3 : 1)});
  }
  // Few lists leave processors idle.
  const double busy = std::min(
      1.0, wide(std::max<int64_t>(step.scoreTasks, 1)) / machine.processors);
  if (step.work.scorePairs + step.work.lsePairs > 0)
    of(Part::Scoring) =
        2 * wide(shape.headDim) *
            (wide(step.work.scorePairs - step.logitPairs) /
                 rateOf(step.scoresBlocks ? machine.scoring.blocks
                                          : machine.scoring.columns,
                        step.scoreGroup) +
             wide(step.logitPairs) / (step.scoresBlocks
                                          ? machine.scoring.blockLogits
                                          : machine.scoring.columnLogits)) /
            busy +
        4 * wide(shape.headDim) * wide(step.work.lsePairs) /
            machine.others.dense;
  seconds.between =
      elementwiseBytesOf(shape, step) / machine.memory +
      (launchesPerLayer + (step.merged > 0 ? 1 : 0)) * machine.launch +
      (step.compares ? machine.wait : 0);
  return seconds;
}

Seconds heddle::explain::secondsOfHead(const Machine &machine,
                                       const ModelShape &shape,
                                       int64_t logitRows) {
  Seconds seconds;
  const LayerStep step = {.work = {.logitRows = logitRows}};
  seconds.parts[static_cast<size_t>(Part::Head)] =
      std::max(operationsOf(shape, step.work, Part::Head) / machine.products,
               bytesOf(shape, step, Part::Head) / machine.memory);
  seconds.between = launchesPerLayer * machine.launch;
  return seconds;
}
