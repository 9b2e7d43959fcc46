//===- CudaBench.cpp - Timing kernels and steps on a GPU -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/CudaBench.h"

#include "bundle/program/Printable.h"
#include "runtime/bench/Asked.h"
#include "runtime/bench/CudaSubjects.h"
#include "runtime/engine/DTypeChoice.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>

using namespace heddle;
using namespace heddle::bench;
using namespace heddle::rt::cuda;

/// Fills in times relative to dense attention, or to the dense step, of the
/// same size.
static void relate(std::vector<CudaRow> &rows) {
  auto isBase = [](const CudaRow &row) {
    return row.kind == "dense" || (row.kind == "step" && row.name == "dense");
  };
  auto alike = [](const CudaRow &a, const CudaRow &b) {
    return a.dtype == b.dtype && a.headDim == b.headDim &&
           a.length == b.length && (a.kind == "step") == (b.kind == "step");
  };
  for (CudaRow &row : rows) {
    if (row.kind == "run")
      continue;
    const CudaRow *base = nullptr;
    for (const CudaRow &other : rows)
      if (isBase(other) && alike(other, row) &&
          (!base || other.warm.median < base->warm.median))
        base = &other;
    if (base)
      row.relative = row.warm.median / base->warm.median;
  }
}

rt::DType CudaRequest::modelType() const {
  return dtypes.empty() ? rt::DType::BF16 : *rt::dtypeNamed(dtypes.front());
}

Result<std::vector<CudaRow>>
heddle::bench::runCudaBench(const CudaRequest &request, std::string &device) {
  auto context = Context::open(request.ordinal);
  if (!context)
    return context.takeError();
  device = (*context)->device().describe();
  Result<Stream> stream = Stream::create(**context);
  if (!stream)
    return stream.takeError();
  rt::ModelConfig config;
  const rt::DType dtype = request.modelType();
  std::optional<DeviceWeights> weights;
  if (!request.model.empty()) {
    if (Status s = rt::ModelConfig::load(request.model).moveTo(config); !s)
      return s.takeError();
    if (Status s =
            DeviceWeights::random(**context, config, dtype, 1).moveTo(weights);
        !s)
      return s.takeError();
  }
  std::vector<CudaRow> rows;
  for (const std::string &path : request.bundles) {
    Result<bundle::Bundle> read = bundle::Bundle::read(path);
    if (!read)
      return read.takeError();
    auto module = Module::load(**context, *read);
    if (!module)
      return module.takeError().withContext(printablePath(path));
    if (!weights)
      if (Status s = checkAsked((*read).manifest(), (*module)->choice().target,
                                request.dtypes, request.headDims);
          !s)
        return s.takeError().withContext(printablePath(path));
    std::string name = path.substr(path.rfind('/') + 1);
    CudaSubject subject{name.substr(0, name.rfind('.')), &*read, context->get(),
                        module->get(), &*stream};
    Status status =
        weights ? timeSteps(subject, config, *weights, dtype, request, rows)
        : request.rows > 0 ? timeFewRows(subject, request, rows)
                           : timeKernels(subject, request, rows);
    if (!status)
      return status.takeError();
  }
  if (rows.empty() && !request.kernel.empty())
    return Error("no kernel's name starts with '" + request.kernel + "'");
  if (rows.empty() && request.rows > 0)
    return Error("no kernel attends to all keys for any number of rows; give "
                 "bundles of schedules with `attend dense` and steps of "
                 "some rows, as examples/fast-dllm-dual.mlir");
  relate(rows);
  return rows;
}

std::string heddle::bench::toTable(const std::vector<CudaRow> &rows) {
  std::string table;
  char text[256];
  size_t width = 20;
  for (const CudaRow &row : rows)
    width = std::max(width, row.bundle.size() + 1 + row.name.size());
  std::snprintf(text, sizeof(text),
                "%-*s%9s%12s%19s%12s%9s%9s%9s%11s%10s%8s%8s\n", int(width), "",
                "n", "median ms", "least - most", "cold ms", "TFLOP/s", "GB/s",
                "/ dense", "attention", "products", "rows", "head");
  table += text;
  for (const CudaRow &row : rows) {
    std::string name = row.bundle + " " + row.name;
    std::snprintf(text, sizeof(text), "%-*s%9lld%12.3f%10.3f -%7.3f",
                  int(width), name.c_str(), static_cast<long long>(row.length),
                  row.warm.median, row.warm.least, row.warm.most);
    table += text;
    auto cell = [&](const char *format, int columns, double value) {
      if (value > 0)
        std::snprintf(text, sizeof(text), format, columns, value);
      else
        std::snprintf(text, sizeof(text), "%*s", columns, "-");
      table += text;
    };
    cell("%*.3f", 12, row.cold.median);
    cell("%*.1f", 9, row.operations / row.warm.median * 1e-9);
    cell("%*.0f", 9, row.bytes / row.warm.median * 1e-6);
    cell("%*.3f", 9, row.relative);
    cell("%*.2f", 11, row.attention);
    cell("%*.2f", 10, row.products);
    cell("%*.2f", 8, row.rows);
    cell("%*.2f", 8, row.head);
    table += "\n";
  }
  return table;
}

std::string heddle::bench::toJson(const std::vector<CudaRow> &rows,
                                  const std::string &device) {
  nlohmann::ordered_json result;
  result["device"] = device;
  result["benchmarks"] = nlohmann::ordered_json::array();
  auto times = [](const Times &t) {
    return nlohmann::ordered_json{
        {"median_ms", t.median}, {"least_ms", t.least}, {"most_ms", t.most}};
  };
  for (const CudaRow &row : rows) {
    nlohmann::ordered_json entry{
        {"bundle", row.bundle},   {"name", row.name},
        {"kind", row.kind},       {"dtype", row.dtype},
        {"headDim", row.headDim}, {"length", row.length},
        {"warm", times(row.warm)}};
    if (row.cold.median > 0)
      entry["cold"] = times(row.cold);
    if (row.operations > 0)
      entry["tflops"] = row.operations / row.warm.median * 1e-9;
    if (row.bytes > 0)
      entry["gbytes_per_s"] = row.bytes / row.warm.median * 1e-6;
    if (row.relative > 0)
      entry["relative"] = row.relative;
    if (row.kind == "step") {
      entry["attention_ms"] = row.attention;
      entry["products_ms"] = row.products;
      entry["rows_ms"] = row.rows;
      entry["head_ms"] = row.head;
    }
    result["benchmarks"].push_back(std::move(entry));
  }
  return result.dump(2) + "\n";
}
