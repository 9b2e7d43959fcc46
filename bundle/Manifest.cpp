//===- Manifest.cpp - The manifest written as JSON ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Manifest.h"
#include "bundle/ManifestNames.h"
#include "bundle/ManifestScores.h"

#include "nlohmann/json.hpp"

#include <algorithm>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::detail;
using nlohmann::ordered_json;

namespace {

ordered_json toJson(const Cadence &cadence) {
  ordered_json json;
  json["kind"] = nameOf(cadenceNames, cadence.kind);
  switch (cadence.kind) {
  case Cadence::Kind::Never:
    break;
  case Cadence::Kind::Every:
    json["period"] = cadence.period;
    json["from"] = cadence.from;
    break;
  case Cadence::Kind::First:
    json["count"] = cadence.count;
    break;
  case Cadence::Kind::At:
    if (cadence.step > 0)
      json["step"] = cadence.step;
    else {
      json["fraction"] = detail::toString(cadence.fraction);
      json["plus"] = cadence.from - 1;
    }
    break;
  case Cadence::Kind::Uniform:
  case Cadence::Kind::Random:
  case Cadence::Kind::Power:
    json["window"] = detail::toString(cadence.fraction);
    json["count"] = cadence.count;
    if (cadence.kind == Cadence::Kind::Random)
      json["seed"] = cadence.seed;
    break;
  }
  if (cadence.kind != Cadence::Kind::Never) {
    json["in_block"] = cadence.inBlock;
    json["after_eos"] = cadence.afterEos;
  }
  return json;
}

ordered_json toJson(const When &when) {
  ordered_json json;
  json["kind"] = nameOf(whenNames, when.kind);
  if (when.kind != When::Kind::Otherwise)
    json["cadence"] = toJson(when.cadence);
  return json;
}

ordered_json toJson(const Positions &set) {
  ordered_json json;
  json["kind"] = nameOf(positionsNames, set.kind);
  switch (set.kind) {
  case Positions::Kind::Undecoded:
    json["count"] = set.count;
    break;
  case Positions::Kind::Committed:
    if (set.count > 0)
      json["count"] = set.count;
    else
      json["cadence"] = toJson(set.cadence);
    break;
  case Positions::Kind::Union:
  case Positions::Kind::Intersect:
  case Positions::Kind::Hull:
  case Positions::Kind::Leading:
  case Positions::Kind::Predicting:
    json["of"] = set.of;
    break;
  case Positions::Kind::Fixed:
    json["of"] = set.of;
    json["cadence"] = toJson(set.cadence);
    break;
  case Positions::Kind::Neighbors:
    json["of"] = set.of;
    json["count"] = set.count;
    break;
  default:
    break;
  }
  return json;
}

ordered_json toJson(const std::vector<When> &conditions) {
  ordered_json json = ordered_json::array();
  for (const When &when : conditions)
    json.push_back(toJson(when));
  return json;
}

ordered_json toJson(const Pass &pass) {
  ordered_json json;
  json["when"] = toJson(pass.when);
  json["rows"] = pass.rows;
  json["alone"] = pass.alone;
  json["exact"]["kind"] = nameOf(exactNames, pass.exact);
  if (pass.comparesContexts()) {
    json["exact"]["below"] = detail::toString(pass.below);
  } else if (pass.exact == Pass::Exact::LeastSimilar) {
    json["exact"]["keep"] = detail::toString(pass.keep);
    json["exact"]["among"] = pass.among;
  }
  return json;
}

ordered_json toJson(const Reuse &reuse) {
  ordered_json json;
  json["kv"] = reuse.kv;
  json["attention"] = nameOf(reuseNames, reuse.attention);
  json["ffn"] = reuse.ffn;
  return json;
}

ordered_json toJson(const CommitRule &commit) {
  ordered_json json;
  json["kind"] = nameOf(commitNames, commit.kind);
  if (commit.hasRatio())
    json["ratio"] = detail::toString(commit.ratio);
  if (commit.kind == CommitRule::Kind::Factor)
    json["last_alone"] = commit.lastAlone;
  if (commit.kind == CommitRule::Kind::Best)
    json["count"] = commit.count;
  json["within"] = commit.within;
  json["stop_at_eos"] = commit.stopAtEos;
  json["narrows"] = commit.narrows;
  return json;
}

ordered_json toJson(const DatedCommit &commit) {
  ordered_json json = toJson(commit.rule);
  json["when"] = toJson(commit.when);
  return json;
}

ordered_json toJson(const Kernel &kernel) {
  ordered_json json;
  json["name"] = kernel.name;
  json["kind"] = nameOf(kernelNames, kernel.kind);
  if (kernel.kind == Kernel::Kind::Select) {
    json["group"] = kernel.group;
    json["blocks"] = kernel.blocks;
    json["per_kv_head"] = kernel.perKvHead;
  } else {
    json["writes_lse"] = kernel.writesLse;
    json["terms"] = ordered_json::array();
    for (const Term &term : kernel.terms) {
      ordered_json item;
      item["kind"] = nameOf(termNames, term.kind);
      if (readsList(term))
        item["selection"] = term.selection;
      else if (isShareOfSinks(term))
        item["share"] = detail::toString(term.share);
      else
        item["size"] = term.size;
      json["terms"].push_back(std::move(item));
    }
  }
  if (!kernel.scores.empty())
    json["scores"] = detail::toJson(kernel.scores);
  json["variants"] = ordered_json::array();
  for (const KernelVariant &variant : kernel.variants) {
    ordered_json item;
    item["symbol"] = variant.symbol;
    item["dtype"] = variant.dtype;
    item["head_dim"] = variant.headDim;
    item["query_rows"] = variant.queryRows;
    item["scratch_bytes"] = variant.scratchBytes;
    item["scratch_bytes_per_key"] = variant.scratchBytesPerKey;
    item["target"] = variant.target;
    item["encoding"] = nameOf(encodingNames, variant.encoding);
    item["threads"] = variant.threads;
    item["shared_bytes"] = variant.sharedBytes;
    item["map_rows"] = variant.mapRows;
    item["cluster"] = variant.cluster;
    json["variants"].push_back(std::move(item));
  }
  return json;
}

ordered_json toJson(const RowKernel &kernel) {
  ordered_json json;
  json["op"] = std::string(nameOf(kernel.op));
  json["variants"] = ordered_json::array();
  for (const RowVariant &variant : kernel.variants) {
    ordered_json item;
    item["target"] = variant.target;
    item["symbol"] = variant.symbol;
    item["dtype"] = variant.dtype;
    item["threads"] = variant.threads;
    item["shared_bytes"] = variant.sharedBytes;
    json["variants"].push_back(std::move(item));
  }
  return json;
}

ordered_json toJson(const Target &target) {
  ordered_json json;
  json["kind"] = nameOf(targetNames, target.kind);
  json["triple"] = target.triple;
  json["cpu"] = target.cpu;
  json["features"] = target.features;
  json["encodings"] = ordered_json::array();
  for (Encoding encoding : target.encodings)
    json["encodings"].push_back(nameOf(encoding));
  return json;
}

ordered_json toJson(const Rule &rule) {
  ordered_json json;
  if (rule.isDefault) {
    json["layers"] = "default";
  } else {
    json["layers"]["first"] = rule.firstLayer;
    json["layers"]["last"] = rule.lastLayer;
  }
  json["phases"] = ordered_json::array();
  for (const Phase &phase : rule.phases) {
    ordered_json item;
    item["when"] = toJson(phase.when);
    item["attention"] = phase.attention;
    if (phase.scoring >= 0)
      item["scoring"] = phase.scoring;
    item["refreshes"] = ordered_json::array();
    for (const Phase::Refresh &refresh : phase.refreshes) {
      ordered_json entry;
      entry["selection"] = refresh.selection;
      entry["kernel"] = refresh.kernel;
      item["refreshes"].push_back(std::move(entry));
    }
    json["phases"].push_back(std::move(item));
  }
  return json;
}

} // namespace

std::string_view heddle::bundle::nameOf(Encoding encoding) {
  return detail::nameOf(encodingNames, encoding);
}

std::optional<Encoding> heddle::bundle::encodingFor(const Target &target,
                                                    int64_t n) {
  for (Encoding encoding : target.encodings)
    if (holds(encoding, n))
      return encoding;
  return std::nullopt;
}

std::string heddle::bundle::toString(const Target &target) {
  return target.kind == Target::Kind::Host ? target.triple + ", " + target.cpu
                                           : target.cpu;
}

std::string heddle::bundle::toString(const std::vector<Target> &targets) {
  std::string text;
  for (const Target &target : targets)
    text += (text.empty() ? "" : "; ") + toString(target);
  return text;
}

int64_t heddle::bundle::hostTarget(const Manifest &manifest) {
  for (size_t i = 0; i < manifest.targets.size(); ++i)
    if (manifest.targets[i].kind == Target::Kind::Host)
      return static_cast<int64_t>(i);
  return -1;
}

bool Kernel::hasLists() const {
  return kind == Kind::Select ||
         std::any_of(terms.begin(), terms.end(), readsList);
}

bool Kernel::comparesPositions() const {
  return scores.usesPositions() ||
         std::any_of(terms.begin(), terms.end(),
                     [](const Term &term) { return !readsList(term); });
}

std::string heddle::bundle::variantSymbol(std::string_view kernel,
                                          std::string_view dtype,
                                          int64_t headDim, Encoding encoding) {
  const char *suffix = encoding == Encoding::Int32    ? "_i32"
                       : encoding == Encoding::Uint16 ? "_u16"
                                                      : "_bitmap";
  return variantSymbol(kernel, dtype, headDim) + suffix;
}

std::string heddle::bundle::expectedSymbol(const Kernel &kernel,
                                           const KernelVariant &variant,
                                           const Target &target) {
  if (target.kind == Target::Kind::Cuda && kernel.hasLists())
    return variantSymbol(kernel.name, variant.dtype, variant.headDim,
                         variant.encoding);
  return variantSymbol(kernel.name, variant.dtype, variant.headDim);
}

std::string heddle::bundle::toJson(const Manifest &manifest) {
  ordered_json json;
  json["producer"] = manifest.producer;
  json["schedule"] = manifest.schedule;
  json["abi"] = manifest.abi;
  json["targets"] = ordered_json::array();
  for (const Target &target : manifest.targets)
    json["targets"].push_back(::toJson(target));
  json["selections"] = ordered_json::array();
  for (const Selection &selection : manifest.selections) {
    ordered_json item;
    item["name"] = selection.name;
    item["kind"] = nameOf(selectionNames, selection.kind);
    item["keep"] = detail::toString(selection.keep);
    item["rounding"] = nameOf(keepRuleNames, selection.rule);
    item["group"] = selection.group;
    item["isolation"] = nameOf(isolationNames, selection.isolation);
    item["scale"] = nameOf(scaleNames, selection.scale);
    item["per_kv_head"] = selection.perKvHead;
    item["scorer"] = selection.scorer;
    item["cadence"] = ::toJson(selection.cadence);
    json["selections"].push_back(std::move(item));
  }
  json["kernels"] = ordered_json::array();
  for (const Kernel &kernel : manifest.kernels)
    json["kernels"].push_back(::toJson(kernel));
  json["row_kernels"] = ordered_json::array();
  for (const RowKernel &kernel : manifest.rowKernels)
    json["row_kernels"].push_back(::toJson(kernel));
  json["rules"] = ordered_json::array();
  for (const Rule &rule : manifest.rules)
    json["rules"].push_back(::toJson(rule));
  json["positions"] = ordered_json::array();
  for (const Positions &set : manifest.positions)
    json["positions"].push_back(::toJson(set));
  json["visible"] = manifest.visible;
  json["all_visible"] = ::toJson(manifest.allVisible);
  json["passes"] = ordered_json::array();
  for (const Pass &pass : manifest.passes)
    json["passes"].push_back(::toJson(pass));
  json["reuse"] = ::toJson(manifest.reuse);
  json["dated_commits"] = ordered_json::array();
  for (const DatedCommit &commit : manifest.datedCommits)
    json["dated_commits"].push_back(::toJson(commit));
  json["commit"] = ::toJson(manifest.commit);
  json["commit"]["least_passes"] = manifest.commit.leastPasses;
  // Names that are not UTF-8 must not throw here; they lose the bad bytes.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}
