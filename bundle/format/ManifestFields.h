//===- ManifestFields.h - The fields of a manifest, stated once -*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The statements are read as bundle/program/Fields.h says.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_MANIFESTFIELDS_H
#define HEDDLE_BUNDLE_FORMAT_MANIFESTFIELDS_H

#include "bundle/program/Manifest.h"
#include "bundle/program/Program.h"

#include <algorithm>
#include <type_traits>

namespace heddle::bundle {

/// M9: of a block whose tokens change for ever, which samplers end after 16.
inline constexpr int64_t maxFurtherPasses = 1024;

namespace detail {

/// A string, and what is said of one that is not.
struct Text {
  bool (*holds)(const std::string &text);
  const char *otherwise;
};
/// An index into what has been read of a list so far, or -1 if that is allowed.
template <typename T> struct Index {
  std::vector<T> Manifest::*list;
  const char *what;
  bool orNone = false;
};
inline constexpr Index<Target> ofTargets = {&Manifest::targets, "target"};
inline constexpr Index<Selection> ofSelections = {&Manifest::selections,
                                                  "selection"};
inline constexpr Index<Kernel> ofKernels = {&Manifest::kernels, "kernel"};
inline constexpr Index<Positions> ofPositions = {&Manifest::positions,
                                                 "position set"};
inline constexpr Index<Positions> ofPositionsOrAll = {&Manifest::positions,
                                                      "position set", true};
inline constexpr Index<Positions> ofEarlier = {&Manifest::positions,
                                               "earlier position set"};

/// Kernels are named after what the user called a selection, so anything that
/// prints goes.
inline constexpr Text symbolName = {
    [](const std::string &text) {
      return !text.empty() && text.size() <= 255 &&
             std::all_of(text.begin(), text.end(),
                         [](char c) { return c > 0x20 && c < 0x7f; });
    },
    "is no symbol name (1 to 255 printable characters, no spaces)"};
inline constexpr Text elementType = {[](const std::string &text) {
                                       return text == "f32" || text == "bf16" ||
                                              text == "f16";
                                     },
                                     "is unknown, expected f32, bf16 or f16"};

/// A field that is not there where it is `otherwise`.
template <typename V, typename T, typename R = Any>
void optional(V &v, const char *name, T &value, R rule = {},
              const std::remove_const_t<T> &otherwise = {}) {
  if constexpr (requires { v.optional(name, value, rule); })
    v.optional(name, value, rule);
  else if (v.has(name, value != otherwise))
    v(name, value, rule);
}

/// A word that is not there where it says nothing.
template <typename V, typename T> void flag(V &v, const char *name, T &value) {
  if constexpr (requires { v.flag(name, value); })
    v.flag(name, value);
  else if (v.has(name, value))
    v(name, value, Flag{});
}

template <typename V> void fields(V &v, In<V, When> &x) {
  v("kind", x.kind, Kind{});
  if (x.kind != When::Kind::Otherwise)
    v("cadence", x.cadence);
}

/// The numbers of a set that is made of others.
template <typename V> void numbersOf(V &v, In<V, Positions> &x) {
  if (x.kind == Positions::Kind::Attended)
    return v("share", x.share, UpTo{});
  v("count", x.count, Lone{counted});
  if (x.kind == Positions::Kind::Confident)
    optional(v, "near", x.near, Range{1, maxNear});
}

template <typename V> void fields(V &v, In<V, Positions> &x) {
  using Set = Positions::Kind;
  v("kind", x.kind, Kind{});
  optional(v, "name", x.name, symbolName);
  switch (x.kind) {
  case Set::Union:
  case Set::Intersect:
  case Set::Hull:
  case Set::Leading:
  case Set::Predicting:
  case Set::Except:
    v("of", x.of, ofEarlier);
    break;
  case Set::Fixed:
    v("of", x.of, ofEarlier);
    v("cadence", x.cadence);
    break;
  case Set::Neighbors:
  case Set::Nearest:
  case Set::Last:
  case Set::Confident:
  case Set::Attended:
    v("of", x.of, ofEarlier);
    numbersOf(v, x);
    break;
  default:
    fieldsOfForm(v, x);
  }
}

template <typename V> void fields(V &v, In<V, Term> &x) {
  v("kind", x.kind, Kind{});
  if (readsList(x))
    v("selection", x.selection, ofSelections);
  for (const SetNumber &number : numbersOf(x.kind)) {
    if (number.orShare && v.has("share", x.share.num > 0))
      v("share", x.share, UpTo{});
    else if (number.otherwise < 0 || v.has(number.name, !number.isLeftOut(x)))
      v(number.name, x.*number.number, Range{number.least, number.most});
  }
  optional(v, "within", x.within);
}

template <typename V> void fields(V &v, In<V, Selection> &x) {
  v("name", x.name);
  v("kind", x.kind);
  if (v.has("count", x.count > 0)) {
    v("count", x.count, counted);
  } else {
    v("keep", x.keep, UpTo{});
    v("rounding", x.rule);
  }
  v("group", x.group, Group{});
  v("isolation", x.isolation);
  v("scale", x.scale);
  v("per_kv_head", x.perKvHead);
  optional(v, "per_layer", x.perLayer);
  v("scorer", x.scorer);
  optional(v, "pooled", x.pooled, Range{minPooled, maxPooled});
  // Sets come later: checkManifest() looks whether they are there.
  constexpr Range set = {0, maxPositions - 1};
  optional(v, "rows", x.rows, set, -1);
  optional(v, "always", x.always, set, -1);
  optional(v, "within", x.within, ofSelections, -1);
  v("cadence", x.cadence);
}

template <typename V> void fields(V &v, In<V, Fallback> &x) {
  v("selection", x.selection);
  v("kind", x.kind);
  v("group", x.group, Group{});
  v("keep", x.keep, UpTo{});
  v("dense_above", x.denseAbove, UpTo{});
}

template <typename V> void fields(V &v, In<V, Target> &x) {
  v("kind", x.kind);
  v("triple", x.triple);
  v("cpu", x.cpu);
  v("features", x.features);
  v("encodings", x.encodings);
}

template <typename V> void fields(V &v, In<V, KernelVariant> &x) {
  v("symbol", x.symbol, symbolName);
  v("dtype", x.dtype, elementType);
  v("head_dim", x.headDim, Range{1, 65536});
  v("query_rows", x.queryRows, Range{1, maxQueryRows});
  v("scratch_bytes", x.scratchBytes, Range{0, maxScratchBytes});
  v("scratch_bytes_per_key", x.scratchBytesPerKey, Range{0, 1 << 20});
  v("target", x.target, ofTargets);
  v("encoding", x.encoding);
  v("threads", x.threads, Range{0, maxThreads});
  v("shared_bytes", x.sharedBytes, Range{0, maxSharedBytes});
  v("map_rows", x.mapRows, Range{0, maxMapRows});
  v("cluster", x.cluster, Range{1, maxCluster});
  optional(v, "form", x.form);
  optional(v, "least_keys", x.leastKeys, Range{1, maxLeastKeys});
  optional(v, "persistent", x.persistent);
}

template <typename V> void fields(V &v, In<V, Kernel> &x) {
  v("name", x.name);
  v("kind", x.kind, Kind{});
  if (x.kind == Kernel::Kind::Select) {
    v("group", x.group, Group{});
    v("blocks", x.blocks);
    v("per_kv_head", x.perKvHead);
    optional(v, "per_layer", x.perLayer);
    optional(v, "scorer", x.scorer);
    optional(v, "pooled", x.pooled, Range{minPooled, maxPooled});
    if (v.has("within_group", x.withinGroup > 0)) {
      v("within_group", x.withinGroup, Group{});
      v("within_blocks", x.withinBlocks);
    }
  } else {
    v("writes_lse", x.writesLse);
    v("terms", x.terms);
  }
  optional(v, "scores", x.scores);
  v("variants", x.variants);
}

template <typename V> void fields(V &v, In<V, RowVariant> &x) {
  v("target", x.target, ofTargets);
  v("symbol", x.symbol, symbolName);
  v("dtype", x.dtype, elementType);
  v("threads", x.threads, Range{0, maxThreads});
  v("shared_bytes", x.sharedBytes, Range{0, maxSharedBytes});
}

template <typename V> void fields(V &v, In<V, RowKernel> &x) {
  v("op", x.op);
  v("variants", x.variants);
}

template <typename V> void fields(V &v, In<V, Phase::Scoring> &x) {
  v("kernel", x.kernel, ofKernels);
  v("scale", x.scale);
  v("of_response", x.ofResponse);
}

template <typename V> void fields(V &v, In<V, Phase::Refresh> &x) {
  v("selection", x.selection, ofSelections);
  v("kernel", x.kernel, ofKernels);
  optional(v, "scorings", x.scorings);
}

template <typename V> void fields(V &v, In<V, Phase::Measure> &x) {
  v("cadence", x.cadence);
  optional(v, "kernel", x.kernel, ofKernels, -1);
}

template <typename V> void fields(V &v, In<V, Phase> &x) {
  v("when", x.when);
  v("attention", x.attention, ofKernels);
  optional(v, "shadow", x.shadow, ofKernels, -1);
  optional(v, "rollout", x.rollout, ofKernels, -1);
  optional(v, "refreshes_first", x.refreshesFirst);
  optional(v, "scoring", x.scoring, ofKernels, -1);
  v("refreshes", x.refreshes);
  optional(v, "measures", x.measures);
}

template <typename V> void fields(V &v, In<V, Rule> &x) {
  if (!v.word("layers", "default", x.isDefault))
    v.object("layers", [&](auto &v) {
      v("first", x.firstLayer, Range{-maxCount, maxCount});
      v("last", x.lastLayer, Range{-maxCount, maxCount});
    });
  v("phases", x.phases);
}

template <typename V> void fields(V &v, In<V, LayerRange> &x) {
  v("first", x.first, Range{-maxCount, maxCount});
  v("last", x.last, Range{-maxCount, maxCount});
}

/// What says which of a pass's rows a layer computes, by the kind.
template <typename V> void comparison(V &v, In<V, Pass> &x) {
  if (x.comparesContexts()) {
    v("below", x.below, UpTo{maxBelow});
  } else if (x.exact == Pass::Exact::LeastSimilar) {
    v("keep", x.keep, UpTo{1, /*orNone=*/true});
    v("among", x.among, ofPositions);
    optional(v, "confidence", x.confidence, UpTo{});
  }
}

template <typename V> void fields(V &v, In<V, Pass> &x) {
  v("when", x.when);
  optional(v, "layers", x.layers);
  v("rows", x.rows, ofPositionsOrAll);
  v("alone", x.alone);
  optional(v, "unseen", x.unseen);
  v.object("exact", [&](auto &v) {
    v("kind", x.exact, Kind{});
    comparison(v, x);
  });
}

/// How many of the rows that refresh what is kept of attention do.
template <typename V> void refreshed(V &v, In<V, Reuse> &x) {
  v("keep", x.keep, UpTo{1, /*orNone=*/true});
}

template <typename V> void fields(V &v, In<V, Reuse> &x) {
  v("kv", x.kv);
  v("attention", x.attention, Kind{});
  v("ffn", x.ffn);
  if (x.attention == Reuse::Attention::Outside) {
    v("inside", x.inside, ofPositions);
    v("cadence", x.cadence);
    if (v.has("refreshed", x.refreshed >= 0)) {
      v("refreshed", x.refreshed, ofPositions);
      refreshed(v, x);
    }
  }
}

template <typename V> void fields(V &v, In<V, LayeredReuse> &x) {
  v("layers", x.layers);
  fields(v, x.reuse);
}

/// Which of the candidates are taken.
template <typename V> void form(V &v, In<V, CommitRule> &x) {
  v("kind", x.kind, Kind{});
  if (x.hasRatio())
    v("ratio", x.ratio, Lone{UpTo{x.isAbove() ? 1 : maxFactor}});
  if (x.isAbove())
    flag(v, "strictly", x.strictly);
  if (x.kind == CommitRule::Kind::Factor)
    v("last_alone", x.lastAlone, Flag{});
  if (x.kind == CommitRule::Kind::Best)
    v("count", x.count, Lone{counted});
}

/// The numbers of each of its clauses.
template <typename V> void limiting(V &v, In<V, CommitRule> &x) {
  v("limit_share", x.limitShare, Spelt{UpTo{}, "share"});
  optional(v, "limit_least", x.limitLeast, Spelt{counted, "least"}, 1);
  optional(v, "limit_most", x.limitMost, Spelt{counted, "most"}, maxCount);
}
template <typename V> void revoking(V &v, In<V, CommitRule> &x) {
  v("revoke_below", x.revokeBelow, Spelt{UpTo{}, "below"});
}
template <typename V> void editing(V &v, In<V, CommitRule> &x) {
  v("edit_above", x.editAbove, Spelt{UpTo{}, "above"});
  optional(v, "further_passes", x.furtherPasses,
           Spelt{Range{1, maxFurtherPasses}, "further"});
}
template <typename V> void lasting(V &v, In<V, CommitRule> &x) {
  v("least_passes", x.leastPasses, Spelt{Range{1, maxSteps}, "at_least"});
}
template <typename V> void drafting(V &v, In<V, CommitRule> &x) {
  v("drafts", x.drafts, Range{1, maxDrafts});
}

/// All but `leastPasses`, `renoises` and `drafts`, which the manifest's own
/// rule alone has.
template <typename V> void fields(V &v, In<V, CommitRule> &x) {
  form(v, x);
  v("within", x.within, ofPositionsOrAll);
  optional(v, "near", x.near, Range{1, maxNear});
  if (v.has("limit_share", x.isLimited()))
    limiting(v, x);
  if (v.has("revoke_below", x.revokes())) {
    revoking(v, x);
    optional(v, "revoke_by", x.revokeBy);
    optional(v, "revoke_fewer_than", x.revokeFewerThan);
  }
  if (v.has("edit_above", x.edits()))
    editing(v, x);
  v("stop_at_eos", x.stopAtEos);
  v("narrows", x.narrows);
}

template <typename V> void fields(V &v, In<V, DatedCommit> &x) {
  fields(v, x.rule);
  v("when", x.when);
}

template <typename V> void fields(V &v, In<V, Manifest> &x) {
  v("producer", x.producer);
  v("schedule", x.schedule);
  v("abi", x.abi, Range{0, UINT32_MAX});
  v("targets", x.targets);
  v("selections", x.selections);
  optional(v, "fallbacks", x.fallbacks);
  v("kernels", x.kernels);
  v("row_kernels", x.rowKernels);
  v("rules", x.rules);
  v("positions", x.positions);
  v("visible", x.visible, ofPositionsOrAll);
  v("all_visible", x.allVisible);
  v("passes", x.passes);
  optional(v, "layered_reuses", x.layeredReuses);
  v("reuse", x.reuse);
  v("dated_commits", x.datedCommits);
  v.object("commit", [&](auto &v) {
    fields(v, x.commit);
    lasting(v, x.commit);
    optional(v, "renoises", x.commit.renoises);
    if (v.has("drafts", x.commit.verifies()))
      drafting(v, x.commit);
  });
}

template <typename T> inline constexpr bool isList = false;
template <typename T> inline constexpr bool isList<std::vector<T>> = true;

} // namespace detail
} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_MANIFESTFIELDS_H
