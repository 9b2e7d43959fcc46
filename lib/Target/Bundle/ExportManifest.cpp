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

bundle::Manifest mlir::heddle::exportManifest(PlanOp plan) {
  bundle::Manifest manifest = Program::of(plan)->manifest;
  manifest.schedule = plan.getSymName().str();
  manifest.abi = ::heddle::abi::abiVersion;
  for (FallbackOp op : plan.getBody()->getOps<FallbackOp>()) {
    const bundle::Selection rule = op.getRule();
    manifest.fallbacks.push_back({op.getSelection().str(), rule.kind,
                                  rule.group, rule.keep,
                                  op.getDenseAboveAttr().getValue()});
  }
  return manifest;
}

namespace {

/// The records of a target's functions, by symbol.
class Records {
public:
  Records(ArrayRef<KernelRecord> compiled, Location loc) : loc(loc) {
    for (const KernelRecord &record : compiled)
      bySymbol[record.symbol] = &record;
  }

  /// Null when there is none.
  const KernelRecord *findIfAny(StringRef symbol) const {
    return bySymbol.lookup(symbol);
  }

  /// Null, after an error, when there is none.
  const KernelRecord *find(StringRef kernel, StringRef symbol) const {
    const KernelRecord *record = bySymbol.lookup(symbol);
    if (!record)
      emitError(loc) << "kernel " << kernel
                     << " was not compiled: there is no function @" << symbol;
    return record;
  }

private:
  llvm::StringMap<const KernelRecord *> bySymbol;
  Location loc;
};

LogicalResult addVariants(bundle::Kernel &kernel, const KernelForms &forms,
                          const bundle::Target &target, size_t index,
                          const Records &records) {
  const std::vector<bundle::Encoding> encodings =
      bundle::encodingsOf(kernel, target.encodings);
  for (const std::string &type : forms.elementTypes)
    for (int64_t headDim : forms.headDims)
      for (bundle::Encoding encoding : encodings) {
        bundle::KernelVariant variant;
        variant.target = static_cast<int64_t>(index);
        variant.dtype = type;
        variant.headDim = headDim;
        variant.encoding = encoding;
        for (bundle::LaunchForm form : bundle::launchForms) {
          variant.form = form;
          variant.symbol = bundle::expectedSymbol(kernel, variant, target);
          const KernelRecord *record =
              form == bundle::LaunchForm::Any
                  ? records.find(kernel.name, variant.symbol)
                  : records.findIfAny(variant.symbol);
          if (!record && form == bundle::LaunchForm::Any)
            return failure();
          if (!record)
            continue;
          variant.queryRows = record->queryRows;
          variant.scratchBytes = record->scratchBytes;
          variant.scratchBytesPerKey = record->scratchBytesPerKey;
          variant.threads = record->threads;
          variant.sharedBytes = record->sharedBytes;
          variant.mapRows = record->mapRows;
          variant.cluster = record->cluster;
          variant.leastKeys = record->leastKeys;
          variant.persistent = record->persistent != 0;
          kernel.variants.push_back(variant);
        }
      }
  return success();
}

LogicalResult addVariants(bundle::RowKernel &kernel, const KernelForms &forms,
                          size_t index, const Records &records) {
  for (const std::string &type : forms.elementTypes) {
    std::string symbol = bundle::rowSymbol(kernel.op, type);
    const KernelRecord *record = records.find(nameOf(kernel.op), symbol);
    if (!record)
      return failure();
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
  Records records(compiled, loc);
  for (bundle::Kernel &kernel : manifest.kernels)
    if (failed(addVariants(kernel, forms, machine, target, records)))
      return failure();
  if (machine.kind == bundle::Target::Kind::Host)
    return success();
  if (manifest.rowKernels.empty())
    for (bundle::RowOp op : bundle::rowOpsOf(manifest))
      manifest.rowKernels.emplace_back().op = op;
  for (bundle::RowKernel &kernel : manifest.rowKernels)
    if (failed(addVariants(kernel, forms, target, records)))
      return failure();
  return success();
}
