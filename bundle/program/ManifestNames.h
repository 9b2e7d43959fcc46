//===- ManifestNames.h - Enumerators as the manifest spells them ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_MANIFESTNAMES_H
#define HEDDLE_BUNDLE_PROGRAM_MANIFESTNAMES_H

#include "bundle/program/Manifest.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace heddle::bundle {

using detail::Name;
constexpr auto namesOf(KeepRule) {
  return std::to_array<Name>({"floor", "ceil", "round", "floor_plus_one"});
}
constexpr auto namesOf(Selection::Kind) {
  return std::to_array<Name>({"columns", "blocks"});
}
constexpr auto namesOf(Selection::Isolation) {
  return std::to_array<Name>({"none", "spans", "aligned", "filtered"});
}
constexpr auto namesOf(Selection::Scale) {
  return std::to_array<Name>({"head_dim", "heads"});
}
constexpr auto namesOf(Selection::Scorer) {
  return std::to_array<Name>({"mean_probability", "mean_logit"});
}
constexpr auto namesOf(Pass::Exact) {
  return std::to_array<Name>(
      {"all", "salient", "least_similar", "salient_ffn"});
}
constexpr auto namesOf(Reuse::Attention) {
  return std::to_array<Name>(
      {"none", "context", "propagated", "output", "outside"});
}
constexpr auto namesOf(CommitRule::Kind) {
  return std::to_array<Name>({"quota", "above", "factor", "random_order",
                              "best", "timesteps", "even", "even_above",
                              "entropy"});
}
constexpr auto namesOf(CommitRule::RevokeBy) {
  return std::to_array<Name>({"row", "shadow"});
}
constexpr auto namesOf(CommitRule::RevokeFewerThan) {
  return std::to_array<Name>({"step", "step_before"});
}
constexpr auto namesOf(Encoding) {
  return std::to_array<Name>({"int32", "uint16", "bitmap"});
}
constexpr auto namesOf(LaunchForm) {
  return std::to_array<Name>({"any", "long", "packed", "all"});
}
constexpr auto namesOf(Target::Kind) {
  return std::to_array<Name>({"host", "cuda"});
}
constexpr auto namesOf(Term::Kind) { return setNames(); }
constexpr auto namesOf(Kernel::Kind) {
  return std::to_array<Name>({"attention", "select"});
}
constexpr auto namesOf(When::Kind) {
  return std::to_array<Name>({"on", "before", "otherwise"});
}

namespace detail {

/// The path of an element.
inline std::string at(const std::string &list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

inline std::string toString(Ratio ratio) {
  return std::to_string(ratio.num) + "/" + std::to_string(ratio.den);
}

/// As schedules have a share where a count may stand: never a bare integer.
inline std::string spellShare(Ratio share) {
  return share.den == 1 ? toString(share) : spell(share);
}

/// What must hold between the fields of a manifest whose indices are all in
/// range. Messages start with the JSON path.
Status checkManifest(const Manifest &manifest);

} // namespace detail
} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_MANIFESTNAMES_H
