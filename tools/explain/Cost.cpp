//===- Cost.cpp - What a step costs, by part of the model -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/Cost.h"

#include <algorithm>
#include <numeric>

using namespace heddle::explain;

namespace {

double wide(int64_t value) { return static_cast<double>(value); }

} // namespace

Work &Work::operator+=(const Work &other) {
  for (const auto &[name, member] : workMembers)
    this->*member += other.*member;
  return *this;
}

Work heddle::explain::operator*(const Work &work, int64_t times) {
  Work result = work;
  for (const auto &[name, member] : workMembers)
    result.*member *= times;
  return result;
}

Cost &Cost::operator+=(const Cost &other) {
  work += other.work;
  for (std::size_t part = 0; part < partCount; ++part)
    bytes[part] += other.bytes[part];
  return *this;
}

Cost heddle::explain::operator*(const Cost &cost, int64_t times) {
  Cost result = cost;
  result.work = cost.work * times;
  for (double &part : result.bytes)
    part *= wide(times);
  return result;
}

double heddle::explain::sumOf(const PartBytes &bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

const char *heddle::explain::nameOf(Part part) {
  constexpr std::array names = {
      "QKV", "attention", "scoring", "attention output", "FFN", "LM head"};
  return names[static_cast<std::size_t>(part)];
}

const char *heddle::explain::keyOf(Part part) {
  constexpr std::array keys = {"qkv",    "attention", "scoring",
                               "output", "ffn",       "lm_head"};
  return keys[static_cast<std::size_t>(part)];
}

double heddle::explain::amountOf(const Work &work, Part part) {
  switch (part) {
  case Part::Qkv:
    return wide(work.queryRows + work.keyRows + work.valueRows) / 3;
  case Part::Attention:
    return wide(work.pairs);
  case Part::Scoring:
    return wide(work.scorePairs + work.lsePairs);
  case Part::Output:
    return wide(work.projectedRows);
  case Part::Ffn:
    return wide(work.ffnRows);
  case Part::Head:
    return wide(work.logitRows);
  }
  return 0;
}

double heddle::explain::operationsOf(const ModelShape &shape, const Work &work,
                                     Part part) {
  const double hidden = wide(shape.hidden), dim = wide(shape.headDim);
  switch (part) {
  case Part::Qkv:
    return 2 * hidden *
           (wide(shape.attentionWidth()) * wide(work.queryRows) +
            wide(shape.kvWidth()) * wide(work.keyRows + work.valueRows));
  case Part::Attention:
    return 4 * dim * wide(work.pairs);
  case Part::Scoring:
    return 2 * dim * wide(work.scorePairs) + 4 * dim * wide(work.lsePairs);
  case Part::Output:
    return 2 * hidden * wide(shape.attentionWidth()) * wide(work.projectedRows);
  case Part::Ffn:
    return 6 * hidden * wide(shape.ffnWidth) * wide(work.ffnRows);
  case Part::Head:
    return 2 * hidden * wide(shape.vocabulary) * wide(work.logitRows);
  }
  return 0;
}

double heddle::explain::operationsOf(const ModelShape &shape,
                                     const Work &work) {
  double sum = 0;
  for (Part part : allParts)
    sum += operationsOf(shape, work, part);
  return sum;
}

double heddle::explain::bytesOf(const ModelShape &shape, const LayerStep &step,
                                Part part) {
  const Work &work = step.work;
  const double hidden = wide(shape.hidden),
               query = wide(shape.attentionWidth()), kv = wide(shape.kvWidth()),
               ffn = wide(shape.ffnWidth);
  // Products of `rows` rows in all, with weights of `layers` layers at most.
  auto product = [](int64_t rows, double in, double out, int64_t layers) {
    return wide(std::min(rows, layers)) * in * out + wide(rows) * (in + out);
  };
  double elements = 0;
  switch (part) {
  case Part::Qkv:
    elements = product(work.queryRows, hidden, query, step.layers) +
               product(work.keyRows, hidden, kv, step.layers) +
               product(work.valueRows, hidden, kv, step.layers);
    break;
  case Part::Attention:
    if (work.pairs > 0)
      elements = 2 * (wide(step.attended) * query + wide(step.visible) * kv);
    elements += wide(step.merged) * query;
    break;
  case Part::Scoring:
    elements = wide(step.scored) * (query + kv);
    break;
  case Part::Output:
    elements = product(work.projectedRows, query, hidden, step.layers);
    break;
  case Part::Ffn:
    elements = product(work.ffnRows, hidden, 2 * ffn, step.layers) +
               product(work.ffnRows, ffn, hidden, step.layers);
    break;
  case Part::Head:
    elements = product(work.logitRows, hidden, wide(shape.vocabulary), 1);
    break;
  }
  return elements * wide(shape.elementBytes);
}

Cost heddle::explain::costOf(const ModelShape &shape, const LayerStep &step) {
  Cost cost{.work = step.work};
  for (Part part : allParts)
    cost.bytes[static_cast<std::size_t>(part)] = bytesOf(shape, step, part);
  return cost;
}

double heddle::explain::elementwiseBytesOf(const ModelShape &shape,
                                           const LayerStep &step) {
  // Two norms with a residual sum each (x and an update in, x and the norm
  // out), rotations in place, SwiGLU of two in, one out.
  double elements =
      8 * wide(step.rows) * wide(shape.hidden) +
      2 * (wide(step.work.queryRows) * wide(shape.attentionWidth()) +
           wide(step.work.keyRows) * wide(shape.kvWidth())) +
      3 * wide(step.work.ffnRows) * wide(shape.ffnWidth);
  return elements * wide(shape.elementBytes);
}
