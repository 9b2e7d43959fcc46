//===- ManifestNames.h - Enumerators as the manifest spells them ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_MANIFESTNAMES_H
#define HEDDLE_BUNDLE_MANIFESTNAMES_H

#include "bundle/Manifest.h"

#include <cstddef>
#include <string>

namespace heddle::bundle::detail {

template <typename E> struct Named {
  const char *name;
  E value;
};

inline constexpr Named<Cadence::Kind> cadenceNames[] = {
    {"never", Cadence::Kind::Never},     {"every", Cadence::Kind::Every},
    {"first", Cadence::Kind::First},     {"at", Cadence::Kind::At},
    {"uniform", Cadence::Kind::Uniform}, {"random", Cadence::Kind::Random},
    {"power", Cadence::Kind::Power},
};
inline constexpr Named<KeepRule> keepRuleNames[] = {
    {"floor", KeepRule::Floor},
    {"ceil", KeepRule::Ceil},
    {"round", KeepRule::Round},
    {"floor_plus_one", KeepRule::FloorPlusOne},
};
inline constexpr Named<Positions::Kind> positionsNames[] = {
    {"all", Positions::Kind::All},
    {"prompt", Positions::Kind::Prompt},
    {"response", Positions::Kind::Response},
    {"block", Positions::Kind::Block},
    {"before_block", Positions::Kind::BeforeBlock},
    {"from_block", Positions::Kind::FromBlock},
    {"decoded", Positions::Kind::Decoded},
    {"undecoded", Positions::Kind::Undecoded},
    {"committed", Positions::Kind::Committed},
    {"next", Positions::Kind::Next},
    {"union", Positions::Kind::Union},
    {"intersect", Positions::Kind::Intersect},
    {"fixed", Positions::Kind::Fixed},
    {"neighbors", Positions::Kind::Neighbors},
    {"hull", Positions::Kind::Hull},
    {"leading", Positions::Kind::Leading},
    {"predicting", Positions::Kind::Predicting},
};
inline constexpr Named<Selection::Kind> selectionNames[] = {
    {"columns", Selection::Kind::Columns},
    {"blocks", Selection::Kind::Blocks},
};
inline constexpr Named<Selection::Isolation> isolationNames[] = {
    {"none", Selection::Isolation::None},
    {"spans", Selection::Isolation::Spans},
    {"aligned", Selection::Isolation::Aligned},
    {"filtered", Selection::Isolation::Filtered},
};
inline constexpr Named<Selection::Scale> scaleNames[] = {
    {"head_dim", Selection::Scale::HeadDim},
    {"heads", Selection::Scale::Heads},
};
inline constexpr Named<Pass::Exact> exactNames[] = {
    {"all", Pass::Exact::All},
    {"salient", Pass::Exact::Salient},
    {"least_similar", Pass::Exact::LeastSimilar},
    {"salient_ffn", Pass::Exact::SalientFfn},
};
inline constexpr Named<Reuse::Attention> reuseNames[] = {
    {"none", Reuse::Attention::None},
    {"context", Reuse::Attention::Context},
    {"propagated", Reuse::Attention::Propagated},
    {"output", Reuse::Attention::Output},
};
inline constexpr Named<CommitRule::Kind> commitNames[] = {
    {"quota", CommitRule::Kind::Quota},
    {"above", CommitRule::Kind::Above},
    {"factor", CommitRule::Kind::Factor},
    {"random_order", CommitRule::Kind::RandomOrder},
    {"best", CommitRule::Kind::Best},
    {"timesteps", CommitRule::Kind::Timesteps},
};
inline constexpr Named<Encoding> encodingNames[] = {
    {"int32", Encoding::Int32},
    {"uint16", Encoding::Uint16},
    {"bitmap", Encoding::Bitmap},
};
inline constexpr Named<Target::Kind> targetNames[] = {
    {"host", Target::Kind::Host},
    {"cuda", Target::Kind::Cuda},
};
inline constexpr Named<Term::Kind> termNames[] = {
    {"columns", Term::Kind::Columns},
    {"blocks", Term::Kind::Blocks},
    {"window", Term::Kind::Window},
    {"sinks", Term::Kind::Sinks},
};
inline constexpr Named<Kernel::Kind> kernelNames[] = {
    {"attention", Kernel::Kind::Attention},
    {"select", Kernel::Kind::Select},
};
inline constexpr Named<When::Kind> whenNames[] = {
    {"on", When::Kind::On},
    {"before", When::Kind::Before},
    {"otherwise", When::Kind::Otherwise},
};

template <typename E, size_t N>
const char *nameOf(const Named<E> (&names)[N], E value) {
  for (const Named<E> &entry : names)
    if (entry.value == value)
      return entry.name;
  return "?";
}

inline std::string toString(Ratio ratio) {
  return std::to_string(ratio.num) + "/" + std::to_string(ratio.den);
}

/// `text` cut to a length and to characters that are safe in a message.
std::string printable(const std::string &text);

/// What must hold between the fields of a manifest whose indices are all in
/// range. Messages start with the JSON path.
Status checkManifest(const Manifest &manifest);

} // namespace heddle::bundle::detail

#endif // HEDDLE_BUNDLE_MANIFESTNAMES_H
