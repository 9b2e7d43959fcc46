//===- Report.cpp - What the figures mean ---------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/Report.h"

#include "runtime/bench/CudaBench.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

using namespace heddle::bench;

void Collector::ReportRuns(const std::vector<Run> &runs) {
  for (const Run &run : runs) {
    if (run.error_occurred) {
      std::fprintf(stderr, "error: %s: %s\n", run.benchmark_name().c_str(),
                   run.error_message.c_str());
      anyError = true;
    } else if (run.run_type == Run::RT_Iteration && run.iterations > 0) {
      seconds[run.run_name.function_name].push_back(
          run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }
}

void Collector::medians(std::vector<Row> &rows) const {
  for (Row &row : rows) {
    auto found = seconds.find(row.benchmark);
    if (found != seconds.end())
      row.seconds = timesOf(found->second).median;
  }
}

static double gflops(const Row &row) {
  return row.operations / row.seconds * 1e-9;
}

/// Whether a kernel of that element type can be bound by that loop's
/// instruction: bf16 kernels may also widen and use fp32 multiply-adds.
static bool comparable(const Row &row, const Row &peak) {
  return peak.kind == Row::Kind::Peak && !peak.loop.empty() &&
         peak.seconds > 0 && (peak.loop == "fma_f32" || row.dtype == "bf16");
}

/// Time relative to dense attention without log-sum-exp (or with it if there is
/// no other), or 0.
static double relativeToDense(const Row &row, const std::vector<Row> &rows) {
  const Row *base = nullptr;
  for (const Row &dense : rows)
    if (dense.dense && dense.dtype == row.dtype &&
        dense.headDim == row.headDim && dense.length == row.length &&
        dense.seconds > 0 && (!base || (base->writesLse && !dense.writesLse)))
      base = &dense;
  return base ? row.seconds / base->seconds : 0;
}

std::string heddle::bench::toTable(const std::vector<Row> &rows) {
  size_t width = 0;
  for (const Row &row : rows)
    width = std::max(width, row.benchmark.size());
  auto padded = [&](std::string text) {
    text.resize(width, ' ');
    return text;
  };
  char text[96];
  std::string table = padded("") + "   median ms   GFLOP/s   / dense";
  for (const Row &peak : rows) {
    if (peak.kind != Row::Kind::Peak || peak.loop.empty())
      continue;
    std::snprintf(text, sizeof(text), "%12s", ("/ " + peak.loop).c_str());
    table += text;
  }
  table += "\n";
  for (const Row &row : rows) {
    if (row.seconds <= 0)
      continue;
    std::snprintf(text, sizeof(text), "%12.3f%10.1f", row.seconds * 1e3,
                  gflops(row));
    table += padded(row.benchmark) + text;
    if (row.kind != Row::Kind::Peak) {
      double relative = relativeToDense(row, rows);
      std::snprintf(text, sizeof(text), "%10.3f", relative);
      table += relative > 0 ? text : "         -";
      for (const Row &peak : rows) {
        if (peak.kind != Row::Kind::Peak || peak.loop.empty())
          continue;
        std::snprintf(text, sizeof(text), "%11.1f%%",
                      gflops(row) / gflops(peak) * 100);
        table += comparable(row, peak) ? text : "           -";
      }
    }
    table += "\n";
  }
  return table;
}

std::string heddle::bench::toJson(const std::vector<Row> &rows, int threads) {
  nlohmann::ordered_json result;
  result["threads"] = threads;
  result["benchmarks"] = nlohmann::ordered_json::array();
  for (const Row &row : rows) {
    if (row.seconds <= 0)
      continue;
    nlohmann::ordered_json entry;
    entry["name"] = row.benchmark;
    entry["kind"] = row.kind == Row::Kind::Peak        ? "peak"
                    : row.kind == Row::Kind::Attention ? "attention"
                                                       : "select";
    entry["seconds"] = row.seconds;
    entry["gflops"] = gflops(row);
    if (row.kind != Row::Kind::Peak) {
      entry["dtype"] = row.dtype;
      entry["headDim"] = row.headDim;
      entry["length"] = row.length;
      entry["dense"] = row.dense;
      entry["writesLse"] = row.writesLse;
      for (const Row &peak : rows)
        if (comparable(row, peak))
          entry["shareOf"][peak.loop] = gflops(row) / gflops(peak);
      if (double relative = relativeToDense(row, rows); relative > 0)
        entry["relativeToDense"] = relative;
    }
    result["benchmarks"].push_back(std::move(entry));
  }
  return result.dump(2) + "\n";
}
