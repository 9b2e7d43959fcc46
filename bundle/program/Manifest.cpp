//===- Manifest.cpp - What a bundle says about itself ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Manifest.h"
#include "bundle/program/ManifestNames.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::detail;

std::string_view heddle::bundle::nameOf(Encoding encoding) {
  return namesOf(encoding)[static_cast<size_t>(encoding)];
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

ListForm heddle::bundle::formOf(const Selection &selection,
                                const Selection *outer) {
  return {selection.group,
          selection.kind == Selection::Kind::Blocks,
          selection.perKvHead,
          selection.perLayer,
          selection.pooled,
          selection.scorer,
          outer ? outer->group : 0,
          outer && outer->kind == Selection::Kind::Blocks};
}

ListForm heddle::bundle::formOf(const Manifest &manifest,
                                const Selection &selection) {
  return formOf(selection, selection.within < 0
                               ? nullptr
                               : &manifest.selection(selection.within));
}

std::vector<int64_t> Kernel::selections() const {
  std::vector<int64_t> read;
  for (const Term &term : terms)
    if (readsList(term))
      read.push_back(term.selection);
  return read;
}

std::vector<int64_t> Manifest::groupsOf(const Kernel &kernel) const {
  std::vector<int64_t> groups;
  for (int64_t selection : kernel.selections())
    groups.push_back(selections[static_cast<size_t>(selection)].group);
  return groups;
}

bool Kernel::hasLists() const {
  return kind == Kind::Select || std::ranges::any_of(terms, readsList);
}

bool Kernel::comparesPositions() const {
  return scores.usesPositions() ||
         std::ranges::any_of(terms, [](const Term &term) {
           return !readsList(term) || !term.within.empty();
         });
}

std::string heddle::bundle::variantSymbol(std::string_view kernel,
                                          std::string_view dtype,
                                          int64_t headDim, Encoding encoding) {
  const char *suffix = encoding == Encoding::Int32    ? "_i32"
                       : encoding == Encoding::Uint16 ? "_u16"
                                                      : "_bitmap";
  return variantSymbol(kernel, dtype, headDim) + suffix;
}

std::string heddle::bundle::formSymbol(std::string_view symbol,
                                       LaunchForm form) {
  return std::string(symbol) +
         (form == LaunchForm::Any ? "" : "_" + detail::nameOf(form));
}

std::string heddle::bundle::expectedSymbol(const Kernel &kernel,
                                           const KernelVariant &variant,
                                           const Target &target) {
  const std::string symbol =
      target.kind == Target::Kind::Cuda && kernel.hasLists()
          ? variantSymbol(kernel.name, variant.dtype, variant.headDim,
                          variant.encoding)
          : variantSymbol(kernel.name, variant.dtype, variant.headDim);
  return formSymbol(symbol, variant.form);
}
