//===- TestBundle.cpp - Bundles for the fake GPU --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/engine/TestBundle.h"

#include "bundle/abi/Abi.h"
#include "bundle/abi/RowAbi.h"
#include "bundle/program/KernelNeeds.h"
#include "bundle/program/ProgramChecks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace heddle::rt::cuda::test {

using bundle::Kernel;
using bundle::LaunchForm;
using bundle::Manifest;
using bundle::Term;

Manifest gpuManifest(const BundleShape &shape) {
  Manifest manifest;
  manifest.producer = "test";
  manifest.schedule = "test";
  manifest.abi = abi::abiVersion;
  manifest.targets = {{bundle::Target::Kind::Cuda,
                       "nvptx64-nvidia-cuda",
                       shape.gpu,
                       {"ptx80"},
                       shape.encodings}};
  struct Columns {
    bundle::Ratio keep;
    int64_t group;
  };
  for (Columns columns :
       {Columns{{1, 2}, 16}, Columns{{1, 3}, 16}, Columns{{1, 2}, 32}}) {
    bundle::Selection selection;
    selection.name = "columns" + std::to_string(manifest.selections.size());
    selection.keep = columns.keep;
    selection.group = columns.group;
    selection.cadence.kind = bundle::Cadence::Kind::Every;
    selection.cadence.period = 4;
    manifest.selections.push_back(selection);
  }

  auto add = [&](const std::string &name, Kernel::Kind kind) -> Kernel & {
    Kernel &kernel = manifest.kernels.emplace_back();
    kernel.name = name;
    kernel.kind = kind;
    return kernel;
  };
  auto columns = [](int64_t selection) {
    return Term{Term::Kind::Columns, 0, selection};
  };
  add("dense", Kernel::Kind::Attention);
  add("dense_lse", Kernel::Kind::Attention).writesLse = true;
  add("columns", Kernel::Kind::Attention).terms = {columns(0)};
  add("two_columns", Kernel::Kind::Attention).terms = {columns(0), columns(1)};
  add("union", Kernel::Kind::Attention).terms = {
      columns(2), {Term::Kind::Window, 6, -1}, {Term::Kind::Sinks, 2, -1}};
  add("share", Kernel::Kind::Attention).terms = {
      {Term::Kind::Window, 6, -1}, {Term::Kind::Sinks, 0, -1, {1, 10}}};
  add("share_union", Kernel::Kind::Attention).terms = {
      columns(2),
      {Term::Kind::Window, 6, -1},
      {Term::Kind::Sinks, 2, -1},
      {Term::Kind::Sinks, 0, -1, {1, 4}}};
  for (int64_t group : {16, 32})
    add("select_" + std::to_string(group), Kernel::Kind::Select).group = group;
  for (Kernel &kernel : manifest.kernels)
    for (const std::string &dtype : shape.dtypes)
      for (int64_t headDim : shape.headDims)
        for (bundle::Encoding encoding : encodingsOf(kernel, shape.encodings)) {
          bundle::KernelVariant variant;
          variant.dtype = dtype;
          variant.headDim = headDim;
          bool select = kernel.kind == Kernel::Kind::Select;
          variant.queryRows = select ? kernel.group : 16;
          variant.scratchBytesPerKey = select ? 4 : 0;
          variant.encoding = encoding;
          variant.threads = 128;
          // Some of the kernels have tiles brought by tensor maps, in clusters.
          if ((select || !kernel.hasLists()) && dtype != "f32") {
            variant.mapRows = 32;
            variant.cluster = !select && kernel.terms.empty() ? 2 : 1;
          }
          variant.symbol =
              expectedSymbol(kernel, variant, manifest.targets.front());
          kernel.variants.push_back(variant);
          // Some of them have forms of their own for long sequences, where
          // heads share keys or not, and for all rows.
          if (kernel.name == "dense") {
            variant.leastKeys = shape.leastKeys;
            const int64_t maps = std::exchange(variant.mapRows, 0);
            for (LaunchForm form : {LaunchForm::Long, LaunchForm::Packed}) {
              variant.form = form;
              variant.symbol =
                  expectedSymbol(kernel, variant, manifest.targets.front());
              kernel.variants.push_back(variant);
            }
            variant.leastKeys = 0;
            variant.mapRows = maps;
          }
          if (kernel.name != "dense" && kernel.name != "columns" &&
              kernel.name != "union")
            continue;
          variant.form = LaunchForm::All;
          variant.persistent = true;
          variant.queryRows = kernel.hasLists() ? 16 : 32;
          variant.mapRows = 0;
          variant.cluster = 1;
          variant.symbol =
              expectedSymbol(kernel, variant, manifest.targets.front());
          kernel.variants.push_back(variant);
        }
  for (bundle::RowOp op : bundle::allRowOps) {
    bundle::RowKernel &kernel = manifest.rowKernels.emplace_back();
    kernel.op = op;
    for (const std::string &dtype : shape.dtypes)
      kernel.variants.push_back({0, rowSymbol(op, dtype), dtype, 128, 0});
  }
  bundle::Rule rule;
  rule.phases.emplace_back().attention = 0;
  manifest.rules = {rule};
  return manifest;
}

int64_t kernelNamed(const Manifest &manifest, const std::string &name) {
  for (size_t k = 0; k < manifest.kernels.size(); ++k)
    if (manifest.kernels[k].name == name)
      return static_cast<int64_t>(k);
  std::fprintf(stderr, "no kernel '%s'\n", name.c_str());
  std::abort();
}

void setRule(Manifest &manifest, const std::string &attention,
             const std::vector<int64_t> &selections) {
  bundle::Phase refreshing, usual;
  refreshing.when.kind = bundle::When::Kind::On;
  refreshing.when.cadence = manifest.selections[selections.front()].cadence;
  refreshing.attention = kernelNamed(manifest, "dense_lse");
  for (int64_t selection : selections)
    refreshing.refreshes.push_back(
        {selection,
         kernelNamed(manifest,
                     "select_" +
                         std::to_string(manifest.selections[selection].group)),
         bundle::scoringsOf(manifest.selections[selection],
                            refreshing.attention)});
  usual.attention = kernelNamed(manifest, attention);
  manifest.rules.front().phases = {refreshing, usual};
}

void chooseBlocks(Manifest &manifest) {
  manifest.selections.front().kind = bundle::Selection::Kind::Blocks;
  for (Kernel &kernel : manifest.kernels) {
    for (Term &term : kernel.terms)
      if (term.selection == 0)
        term.kind = Term::Kind::Blocks;
    if (kernel.name == "select_16")
      kernel.blocks = true;
    const std::vector<bundle::Encoding> encodings =
        encodingsOf(kernel, manifest.targets.front().encodings);
    std::erase_if(kernel.variants, [&](const bundle::KernelVariant &variant) {
      return std::find(encodings.begin(), encodings.end(), variant.encoding) ==
             encodings.end();
    });
  }
}

bundle::Phase phaseBefore(int64_t step, const Manifest &manifest,
                          const std::string &kernel) {
  bundle::Phase phase;
  phase.when.kind = bundle::When::Kind::Before;
  phase.when.cadence.kind = bundle::Cadence::Kind::At;
  phase.when.cadence.step = step;
  phase.attention = kernelNamed(manifest, kernel);
  return phase;
}

/// ".visible .entry name(...) { ret; }" with parameters of these bytes.
static std::string entry(const std::string &symbol,
                         const std::vector<int> &bytes) {
  std::string text = ".visible .entry " + symbol + "(";
  for (size_t i = 0; i < bytes.size(); ++i)
    text += (i ? ", .param .b" : ".param .b") + std::to_string(8 * bytes[i]) +
            " p" + std::to_string(i);
  return text + ")\n{\n  ret;\n}\n";
}

bundle::Bundle gpuBundle(const Manifest &manifest) {
  const bundle::Target &target = manifest.targets.front();
  std::string ptx =
      ".version 8.0\n.target " + target.cpu + "\n.address_size 64\n";
  for (const Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants)
      ptx += entry(variant.symbol, {8, 8, 8});
  for (const bundle::RowKernel &kernel : manifest.rowKernels)
    for (const bundle::RowVariant &variant : kernel.variants) {
      std::vector<int> bytes;
      for (abi::RowField field : abi::fieldsOf(kernel.op))
        bytes.push_back(field == abi::RowField::Int32 ? 4 : 8);
      ptx += entry(variant.symbol, bytes);
    }
  Result<std::string> bytes = bundle::Bundle::serialize(
      manifest, {{codeSection(target, bundle::CodeForm::Ptx), ptx}});
  Result<bundle::Bundle> result =
      bytes ? bundle::Bundle::parse(*bytes, "test")
            : Result<bundle::Bundle>(bytes.takeError());
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    std::abort();
  }
  return std::move(*result);
}

} // namespace heddle::rt::cuda::test
