//===- Machine.cpp - How fast machines compute, as data -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/Machine.h"

#include <algorithm>
#include <numeric>

using namespace heddle;
using namespace heddle::explain;

namespace {

constexpr Machine machines[] = {
    {.name = "h200",
     .label = "one NVIDIA H200, bf16",
     .products = 720e12,
     .memory = 3.5e12,
     .whole = {690e12, {350e12, 490e12, 590e12}, {250e12, 460e12, 550e12}},
     .others = {410e12, {350e12, 350e12, 350e12}, {250e12, 300e12, 350e12}},
     .band = 340e12,
     .scoring = {215e12, 230e12, 275e12},
     .keySeconds = 12.3e-9,
     .launch = 1.6e-6,
     .wait = 60e-6},
    // Two cores with AVX-512 and bf16 dot products, without AMX.
    {.name = "cpu",
     .label = "two cores of an AMD EPYC (Zen 5), bf16",
     .products = 850e9,
     .memory = 25e9,
     .whole = {700e9, {650e9, 650e9, 650e9}, {680e9, 690e9, 700e9}},
     .others = {700e9, {650e9, 650e9, 650e9}, {680e9, 690e9, 700e9}},
     .band = 600e9,
     .scoring = {500e9, 550e9, 600e9},
     .keySeconds = 0,
     .launch = 5e-6,
     .wait = 0},
};

double wide(int64_t value) { return static_cast<double>(value); }

/// Of lists for 32 rows and less, 64, 128 and more.
double rateOf(const std::array<double, 3> &rates, int64_t group) {
  return rates[group >= 128 ? 2 : group >= 64 ? 1 : 0];
}

double attentionRate(const Machine &machine, const LayerStep &step) {
  const Machine::Attention &rates = step.whole ? machine.whole : machine.others;
  switch (step.pattern) {
  case LayerStep::Pattern::Dense:
    return rates.dense;
  case LayerStep::Pattern::Band:
    return machine.band;
  case LayerStep::Pattern::Columns:
    return rateOf(rates.columns, step.group);
  case LayerStep::Pattern::Blocks:
    return rateOf(rates.blocks, step.group);
  }
  return rates.dense;
}

} // namespace

Result<Machine> heddle::explain::machineNamed(std::string_view name) {
  std::string all;
  for (const Machine &machine : machines) {
    if (machine.name == name)
      return machine;
    all += (all.empty() ? "" : " or ") + std::string(machine.name);
  }
  return Error("there are no figures of the machine '" + std::string(name) +
               "', expected " + all);
}

const Machine &heddle::explain::machineOf(const bundle::Manifest &manifest) {
  bool gpu = std::any_of(manifest.targets.begin(), manifest.targets.end(),
                         [](const bundle::Target &target) {
                           return target.kind == bundle::Target::Kind::Cuda;
                         });
  return machines[gpu ? 0 : 1];
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
    // Tiles of up to 128 rows wait for their keys, one after the other.
    double keys = wide(step.work.pairs) / heads / wide(step.attended);
    double tile = std::clamp(wide(step.attended) / 64, 1.0, 2.0);
    of(Part::Attention) =
        std::max({operationsOf(shape, step.work, Part::Attention) /
                      attentionRate(machine, step),
                  bytesOf(shape, step, Part::Attention) / machine.memory,
                  keys * tile * machine.keySeconds});
  }
  if (step.work.scorePairs + step.work.lsePairs > 0)
    of(Part::Scoring) = 2 * wide(shape.headDim) * wide(step.work.scorePairs) /
                            rateOf(machine.scoring, step.scoreGroup) +
                        4 * wide(shape.headDim) * wide(step.work.lsePairs) /
                            machine.others.dense;
  seconds.between = elementwiseBytesOf(shape, step) / machine.memory +
                    launchesPerLayer * machine.launch +
                    (step.compares ? machine.wait : 0);
  return seconds;
}

Seconds heddle::explain::secondsOfHead(const Machine &machine,
                                       const ModelShape &shape,
                                       int64_t logitRows) {
  Seconds seconds;
  LayerStep step;
  step.work.logitRows = logitRows;
  seconds.parts[static_cast<size_t>(Part::Head)] =
      std::max(operationsOf(shape, step.work, Part::Head) / machine.products,
               bytesOf(shape, step, Part::Head) / machine.memory);
  seconds.between = launchesPerLayer * machine.launch;
  return seconds;
}
