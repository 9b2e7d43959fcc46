//===- Problem.cpp - Random inputs of a kernel ----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/conformance/Problem.h"

#include "runtime/reference/Reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace heddle;
using namespace heddle::conformance;

std::string conformance::toString(Values values) {
  switch (values) {
  case Values::Normal:
    return "normal";
  case Values::Peaked:
    return "peaked";
  case Values::Rising:
    return "rising";
  case Values::Shifted:
    return "shifted";
  case Values::EqualKeys:
    return "equal-keys";
  case Values::Twins:
    return "twins";
  }
  return "?";
}

std::string conformance::toString(const Shape &shape) {
  return "n=" + std::to_string(shape.n) +
         " heads=" + std::to_string(shape.queryHeads()) + "/" +
         std::to_string(shape.kvHeads) +
         " padding=" + std::to_string(shape.padding) +
         " values=" + toString(shape.values);
}

/// Bytes of n rows, the last one without padding.
static int64_t tensorBytes(const Shape &shape, int64_t heads, int64_t extra) {
  int64_t width = heads * shape.headDim;
  return ((shape.n - 1) * (width + extra) + width) * byteSize(shape.dtype);
}

namespace {

/// Writes rows of one tensor, leaving what lies between them.
class Writer {
public:
  Writer(GuardedBuffer &buffer, const Shape &shape, int64_t stride)
      : buffer(buffer), shape(shape), stride(stride) {}
  void put(int64_t row, int64_t head, int64_t element, double value) {
    rt::reference::store(buffer.data(),
                         row * stride + head * shape.headDim + element,
                         shape.dtype, value);
  }

private:
  GuardedBuffer &buffer;
  const Shape &shape;
  int64_t stride;
};

} // namespace

Problem::Problem(const Shape &shape, std::mt19937_64 &random)
    : shape(shape),
      query(tensorBytes(shape, shape.queryHeads(), shape.padding)),
      key(tensorBytes(shape, shape.kvHeads, 2 * shape.padding)),
      value(tensorBytes(shape, shape.kvHeads, shape.padding)),
      output(tensorBytes(shape, shape.queryHeads(), 3 * shape.padding)),
      lse(shape.queryHeads() * shape.n * static_cast<int64_t>(sizeof(float))),
      place(shape.n * static_cast<int64_t>(sizeof(int32_t))),
      position(place.size()) {
  args.query = query.data();
  args.key = key.data();
  args.value = value.data();
  args.output = output.data();
  args.lse = lse.as<float>();
  args.n = shape.n;
  args.queryStride = shape.queryHeads() * shape.headDim + shape.padding;
  args.keyStride = shape.kvHeads * shape.headDim + 2 * shape.padding;
  args.valueStride = shape.kvHeads * shape.headDim + shape.padding;
  args.outputStride = shape.queryHeads() * shape.headDim + 3 * shape.padding;
  args.kvGroup = shape.ratio;
  takeAllRows();
  std::iota(position.as<int32_t>(), position.as<int32_t>() + shape.n, 0);
  args.place = place.as<int32_t>();
  args.position = position.as<int32_t>();
  double root = std::sqrt(static_cast<double>(shape.headDim));
  args.scale = static_cast<float>(1 / root);

  std::normal_distribution<double> normal;
  Writer queries(query, shape, args.queryStride);
  Writer keys(key, shape, args.keyStride);
  Writer values(value, shape, args.valueStride);
  // With queries of mean 1, a key of mean m adds m * sqrt(headDim) to a logit.
  double queryMean = 0, queryScale = 1;
  if (shape.values == Values::Peaked)
    queryScale = 4;
  if (shape.values == Values::Rising || shape.values == Values::Shifted)
    queryMean = 1, queryScale = 0.1;
  for (int64_t row = 0; row < shape.n; ++row)
    for (int64_t h = 0; h < shape.queryHeads(); ++h)
      for (int64_t e = 0; e < shape.headDim; ++e)
        queries.put(row, h, e, queryMean + queryScale * normal(random));

  int64_t distinct = shape.n;
  if (shape.values == Values::EqualKeys)
    distinct = 1;
  if (shape.values == Values::Twins)
    distinct = (shape.n + 1) / 2;
  for (int64_t row = 0; row < shape.n; ++row) {
    double keyMean = 0;
    if (shape.values == Values::Rising)
      keyMean =
          12.0 * static_cast<double>(row) / static_cast<double>(shape.n) / root;
    if (shape.values == Values::Shifted)
      keyMean = 200 / root;
    for (int64_t h = 0; h < shape.kvHeads; ++h)
      for (int64_t e = 0; e < shape.headDim; ++e) {
        double fresh = keyMean + normal(random);
        int64_t source = row % distinct;
        if (source != row)
          fresh = rt::reference::load(
              key.data(), source * args.keyStride + h * shape.headDim + e,
              shape.dtype);
        keys.put(row, h, e, fresh);
        values.put(row, h, e, normal(random));
      }
  }
  query.protect(true);
  key.protect(true);
  value.protect(true);
}

static int64_t below(std::mt19937_64 &random, int64_t bound) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
}

void Problem::takeAllRows() {
  args.key = key.data();
  args.value = value.data();
  args.n = args.rows = shape.n;
  std::iota(place.as<int32_t>(), place.as<int32_t>() + shape.n, 0);
}

void Problem::takeSomeKeys(std::mt19937_64 &random) {
  takeAllRows();
  const int64_t counts[] = {1, shape.n, 1 + below(random, shape.n),
                            1 + below(random, std::min<int64_t>(shape.n, 40))};
  args.n = counts[below(random, std::size(counts))];
  const int64_t first = below(random, shape.n - args.n + 1);
  const int64_t bytes = byteSize(shape.dtype);
  args.key = key.data() + first * args.keyStride * bytes;
  args.value = value.data() + first * args.valueStride * bytes;
}

void Problem::sampleRows(std::mt19937_64 &random) {
  int64_t counts[] = {0, 1, shape.n - 1, shape.n, below(random, shape.n + 1)};
  args.rows = counts[below(random, std::size(counts))];
  std::vector<int32_t> all(static_cast<size_t>(shape.n));
  std::iota(all.begin(), all.end(), 0);
  std::sample(all.begin(), all.end(), place.as<int32_t>(), args.rows, random);
}

void Problem::thinOut(std::mt19937_64 &random) {
  sampleRows(random);
  auto next = static_cast<int32_t>(below(random, 3));
  for (int64_t key = 0; key < shape.n; ++key) {
    position.as<int32_t>()[key] = next;
    next += static_cast<int32_t>(below(random, 2) ? 1 : 1 + below(random, 6));
  }
}

void Problem::setSinks(const bundle::Kernel &kernel) {
  const int64_t last = position.as<int32_t>()[shape.n - 1];
  const int64_t behind = last - (shape.n - 1); // as many as were left out
  args.sinks = bundle::sinkBound(kernel.terms, last + 1 + behind);
}

RandomLists::Form RandomLists::formOf(const Shape &shape,
                                      const bundle::Selection &selection,
                                      int64_t keep, std::mt19937_64 &random) {
  int64_t share = selection.headsPerList(shape.queryHeads(), shape.kvHeads);
  Form form{shape.queryHeads() / share, (shape.n - 1) / selection.group + 1,
            keep, shape.n};
  form.headsPerList = share;
  if (selection.kind == bundle::Selection::Kind::Blocks) {
    form.lacking = true;
    if (random() % 2)
      form.split =
          static_cast<int64_t>(random() % static_cast<uint64_t>(shape.n));
    form.entries = bundle::blockCount(shape.n, selection.group, form.split);
    form.keep = std::max<int64_t>(1, keep * form.entries / shape.n);
  }
  return form;
}

RandomLists::RandomLists(const Shape &shape, const bundle::Selection &selection,
                         int64_t keep, std::mt19937_64 &random, bool whole)
    : RandomLists(
          [&] {
            Form form = formOf(shape, selection, keep, random);
            form.lacking &= !whole;
            return form;
          }(),
          random) {}

RandomLists::RandomLists(const Form &form, std::mt19937_64 &random)
    : memory(form.rows * form.groups * form.keep *
             static_cast<int64_t>(sizeof(int32_t))) {
  list = bundle::int32Lists(memory.as<int32_t>(), form.groups, form.keep);
  list.split = form.split;
  list.headsPerList = form.headsPerList;
  std::vector<int32_t> keys(static_cast<size_t>(form.entries));
  std::iota(keys.begin(), keys.end(), 0);
  int32_t *next = memory.as<int32_t>();
  for (int64_t at = 0; at < form.rows * form.groups; ++at) {
    std::shuffle(keys.begin(), keys.end(), random);
    next = std::copy_n(keys.begin(), form.keep, next);
    std::sort(next - form.keep, next);
    if (form.lacking && form.keep > 1 && below(random, 4) == 0)
      std::fill(next - 1 - below(random, form.keep - 1), next, -1);
  }
  memory.protect(true);
}

std::unique_ptr<GuardedBuffer>
conformance::scratchFor(const bundle::KernelVariant &variant, int64_t n) {
  constexpr int64_t alignment = 64; // the ABI's
  return std::make_unique<GuardedBuffer>(
      variant.scratchBytes + variant.scratchBytesPerKey * n, alignment);
}

void Finding::measure(double error, double allowed, const std::string &what) {
  if (!(error <= worst)) // a NaN is the worst
    worst = error;
  if (!(error / allowed <= share))
    share = error / allowed;
  if (!(error <= allowed)) {
    char text[64];
    std::snprintf(text, sizeof(text), "error %.3g, allowed %.3g", error,
                  allowed);
    fail(what + ": " + text);
  }
}

double conformance::allowedError(rt::DType dtype, double lse) {
  constexpr double ordinary = 16;
  double base = dtype == rt::DType::F32 ? 1e-5 : 1e-2;
  return base * std::max(1.0, std::abs(lse) / ordinary);
}

double conformance::cudaLogitError(const bundle::Kernel &kernel,
                                   rt::DType dtype) {
  return dtype != rt::DType::F32 && kernel.scores.has(bundle::Scores::Op::Tanh)
             ? 0x1p-10
             : 0;
}

bool conformance::parseDType(const std::string &name, rt::DType &dtype) {
  for (rt::DType candidate : {rt::DType::F32, rt::DType::BF16, rt::DType::F16})
    if (name == rt::name(candidate)) {
      dtype = candidate;
      return true;
    }
  return false;
}
