//===- ExportManifest.cpp - A plan as the bundle's manifest ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/Bundle/ExportManifest.h"

#include "bundle/Abi.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

/// Indices that symbols get in the manifest.
struct Indices {
  llvm::StringMap<int64_t> selections, kernels;
};

bundle::Ratio exportRatio(RatioAttr ratio) {
  return ratio ? bundle::Ratio{ratio.getNum(), ratio.getDen()}
               : bundle::Ratio{};
}

bundle::KeepRule exportRule(KeepRule rule) {
  switch (rule) {
  case KeepRule::Floor:
    return bundle::KeepRule::Floor;
  case KeepRule::Ceil:
    return bundle::KeepRule::Ceil;
  case KeepRule::Round:
    return bundle::KeepRule::Round;
  }
  llvm_unreachable("unknown rounding");
}

bundle::Cadence::Kind exportKind(CadenceKind kind) {
  using Kind = bundle::Cadence::Kind;
  switch (kind) {
  case CadenceKind::Never:
    return Kind::Never;
  case CadenceKind::Every:
    return Kind::Every;
  case CadenceKind::First:
    return Kind::First;
  case CadenceKind::At:
    return Kind::At;
  case CadenceKind::Uniform:
    return Kind::Uniform;
  case CadenceKind::Random:
    return Kind::Random;
  case CadenceKind::Power:
    return Kind::Power;
  }
  llvm_unreachable("unknown cadence");
}

bundle::Cadence exportCadence(CadenceAttr cadence) {
  bundle::Cadence result;
  result.kind = exportKind(cadence.getKind());
  result.fraction = exportRatio(cadence.getFraction());
  result.count = cadence.getCount();
  result.period = cadence.getPeriod();
  result.step = cadence.getStep();
  result.seed = cadence.getSeed();
  return result;
}

bundle::Term exportTerm(Attribute term, const Indices &indices) {
  using Kind = bundle::Term::Kind;
  return llvm::TypeSwitch<Attribute, bundle::Term>(term)
      .Case([&](ColumnsTermAttr columns) {
        return bundle::Term{
            Kind::Columns, 0,
            indices.selections.lookup(columns.getSelection().getValue())};
      })
      .Case([](WindowTermAttr window) {
        return bundle::Term{Kind::Window, window.getSize(), -1};
      })
      .Case([](SinksTermAttr sinks) {
        return bundle::Term{Kind::Sinks, sinks.getSize(), -1};
      })
      .Default([](Attribute) -> bundle::Term {
        llvm_unreachable("the plan's verifier lets no other term pass");
      });
}

bundle::Selection exportSelection(SelectionOp op) {
  bundle::Selection result;
  result.name = op.getSymName().str();
  result.keep = exportRatio(op.getKeep());
  result.rule = exportRule(op.getRounding());
  result.group = static_cast<int64_t>(op.getGroup());
  result.scorer = stringifyScorer(op.getScorer()).str();
  result.cadence = exportCadence(op.getCadence());
  return result;
}

bundle::Kernel exportKernel(KernelOp op, const Indices &indices) {
  bundle::Kernel result;
  result.name = op.getSymName().str();
  if (op.isSelect()) {
    result.kind = bundle::Kernel::Kind::Select;
    result.group = static_cast<int64_t>(op.getGroup().value_or(0));
    return result;
  }
  result.kind = bundle::Kernel::Kind::Attention;
  result.writesLse = op.getWritesLse();
  for (Attribute term : op.getTerms())
    result.terms.push_back(exportTerm(term, indices));
  return result;
}

bundle::Phase exportPhase(PhaseOp op, const Indices &indices) {
  bundle::Phase result;
  switch (op.getWhen()) {
  case WhenKind::On:
    result.when.kind = bundle::When::Kind::On;
    break;
  case WhenKind::Before:
    result.when.kind = bundle::When::Kind::Before;
    break;
  case WhenKind::Otherwise:
    result.when.kind = bundle::When::Kind::Otherwise;
    break;
  }
  if (CadenceAttr cadence = op.getCadenceAttr())
    result.when.cadence = exportCadence(cadence);
  result.attention = indices.kernels.lookup(op.getAttention().getKernel());
  for (RefreshOp refresh : op.getBody()->getOps<RefreshOp>())
    result.refreshes.push_back(
        {indices.selections.lookup(refresh.getSelection()),
         indices.kernels.lookup(refresh.getKernel())});
  return result;
}

} // namespace

bundle::Manifest mlir::heddle::exportManifest(PlanOp plan) {
  bundle::Manifest manifest;
  manifest.schedule = plan.getSymName().str();
  manifest.abi = ::heddle::abi::abiVersion;

  // Ops may stand in any order, so symbols get their indices first.
  Indices indices;
  for (SelectionOp op : plan.getBody()->getOps<SelectionOp>())
    indices.selections.try_emplace(op.getSymName(), indices.selections.size());
  for (KernelOp op : plan.getBody()->getOps<KernelOp>())
    indices.kernels.try_emplace(op.getSymName(), indices.kernels.size());

  for (SelectionOp op : plan.getBody()->getOps<SelectionOp>())
    manifest.selections.push_back(exportSelection(op));
  for (KernelOp op : plan.getBody()->getOps<KernelOp>())
    manifest.kernels.push_back(exportKernel(op, indices));
  for (RuleOp op : plan.getBody()->getOps<RuleOp>()) {
    bundle::Rule rule;
    rule.isDefault = op.isDefault();
    if (LayerRangeAttr layers = op.getLayersAttr()) {
      rule.firstLayer = layers.getFirst();
      rule.lastLayer = layers.getLast();
    }
    for (PhaseOp phase : op.getBody()->getOps<PhaseOp>())
      rule.phases.push_back(exportPhase(phase, indices));
    manifest.rules.push_back(std::move(rule));
  }
  return manifest;
}

LogicalResult mlir::heddle::exportVariants(ArrayRef<HostKernel> compiled,
                                           ArrayRef<std::string> types,
                                           ArrayRef<int64_t> headDims,
                                           bundle::Manifest &manifest,
                                           Location loc) {
  llvm::StringMap<const HostKernel *> bySymbol;
  for (const HostKernel &kernel : compiled)
    bySymbol[kernel.symbol] = &kernel;
  for (bundle::Kernel &kernel : manifest.kernels)
    for (const std::string &type : types)
      for (int64_t headDim : headDims) {
        std::string symbol = variantSymbol(kernel.name, type, headDim);
        const HostKernel *code = bySymbol.lookup(symbol);
        if (!code)
          return emitError(loc)
                 << "kernel " << kernel.name << " was not compiled for " << type
                 << " and head dim " << headDim << ": there is no function @"
                 << symbol;
        kernel.variants.push_back({symbol, type, headDim, code->queryRows,
                                   code->scratchBytes,
                                   code->scratchBytesPerKey});
      }
  return success();
}
