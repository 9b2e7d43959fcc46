//===- ExportManifest.cpp - A plan as the bundle's manifest ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/Bundle/ExportManifest.h"

#include "bundle/abi/Abi.h"
#include "bundle/program/KernelNeeds.h"
#include "heddle/Dialect/Heddle/IR/Program.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

bundle::Manifest
mlir::heddle::exportManifest(PlanOp plan, StringRef producer,
                             std::vector<bundle::Target> targets) {
  bundle::Manifest manifest = Program::of(plan)->manifest;
  manifest.producer = producer.str();
  manifest.schedule = plan.getSymName().str();
  manifest.abi = ::heddle::abi::abiVersion;
  manifest.targets = std::move(targets);
  for (FallbackOp op : plan.getBody()->getOps<FallbackOp>()) {
    const bundle::Selection rule = op.getRule();
    manifest.fallbacks.push_back({op.getSelection().str(), rule.kind,
                                  rule.group, rule.keep,
                                  op.getDenseAboveAttr().getValue()});
  }
  return manifest;
}

namespace {

/// A target's functions, by symbol.
using Records = llvm::StringMap<const KernelRecord *>;

LogicalResult notCompiled(Location loc, StringRef kernel, StringRef symbol) {
  return emitError(loc) << "kernel " << kernel
                        << " was not compiled: there is no function @"
                        << symbol;
}

LogicalResult addVariants(bundle::Kernel &kernel, const KernelForms &forms,
                          const bundle::Target &target, size_t index,
                          const Records &records, Location loc) {
  const std::vector<bundle::Encoding> encodings =
      bundle::encodingsOf(kernel, target.encodings);
  for (const std::string &type : forms.elementTypes)
    for (int64_t headDim : forms.headDims)
      for (bundle::Encoding encoding : encodings)
        for (bundle::LaunchForm form : bundle::launchForms) {
          auto here = [&](bundle::KernelVariant variant) {
            variant.target = static_cast<int64_t>(index);
            variant.dtype = type;
            variant.headDim = headDim;
            variant.encoding = encoding;
            variant.form = form;
            return variant;
          };
          const std::string symbol =
              bundle::expectedSymbol(kernel, here({}), target);
          if (const KernelRecord *record = records.lookup(symbol)) {
            kernel.variants.push_back(here(*record));
          } else if (form == bundle::LaunchForm::Any) {
            return notCompiled(loc, kernel.name, symbol);
          }
        }
  return success();
}

LogicalResult addVariants(bundle::RowKernel &kernel, const KernelForms &forms,
                          size_t index, const Records &records, Location loc) {
  for (const std::string &type : forms.elementTypes) {
    std::string symbol = bundle::rowSymbol(kernel.op, type);
    const KernelRecord *record = records.lookup(symbol);
    if (!record)
      return notCompiled(loc, nameOf(kernel.op), symbol);
    kernel.variants.push_back({static_cast<int64_t>(index), symbol, type,
                               record->threads, record->sharedBytes});
  }
  return success();
}

} // namespace

LogicalResult mlir::heddle::exportVariants(ArrayRef<KernelRecord> compiled,
                                           const KernelForms &forms,
                                           size_t target,
                                           bundle::Manifest &manifest,
                                           Location loc) {
  const bundle::Target &machine = manifest.targets[target];
  Records records;
  for (const KernelRecord &record : compiled)
    records[record.symbol] = &record;
  for (bundle::Kernel &kernel : manifest.kernels)
    if (failed(addVariants(kernel, forms, machine, target, records, loc)))
      return failure();
  if (machine.kind == bundle::Target::Kind::Host)
    return success();
  if (manifest.rowKernels.empty())
    for (bundle::RowOp op : bundle::rowOpsOf(manifest))
      manifest.rowKernels.emplace_back().op = op;
  for (bundle::RowKernel &kernel : manifest.rowKernels)
    if (failed(addVariants(kernel, forms, target, records, loc)))
      return failure();
  return success();
}
