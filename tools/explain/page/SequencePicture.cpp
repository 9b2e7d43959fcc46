//===- SequencePicture.cpp - Positions over steps, in few cells -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/page/SequencePicture.h"

#include <algorithm>

using namespace heddle::explain;

SequencePicture::SequencePicture(const SimulationRequest &request,
                                 int64_t mostBins)
    : binSize((request.length + mostBins - 1) / mostBins),
      bins((request.length + binSize - 1) / binSize),
      committedAt(static_cast<size_t>(request.length)), prompt(request.prompt) {
}

std::string SequencePicture::rolesOf(const SimulatedStep &step) const {
  // Ascending by what is done for a position.
  constexpr char letters[] = {'a', 'c', 'p', 'r'};
  std::vector<uint8_t> role(static_cast<size_t>(bins), 0);
  // Positions ascend: bins are entered one after the other.
  auto raise = [&](std::span<const int32_t> positions, auto roleOf) {
    size_t bin = 0;
    int64_t end = binSize;
    for (int32_t position : positions) {
      for (; position >= end; end += binSize)
        ++bin;
      role[bin] = std::max<uint8_t>(role[bin], roleOf(position));
    }
  };
  raise(step.visible, [](int32_t) { return 1; });
  // What the run decides about is not recomputed for sure.
  size_t next = 0;
  raise(step.active, [&](int32_t position) {
    while (next < step.among.size() && step.among[next] < position)
      ++next;
    return next < step.among.size() && step.among[next] == position ? 2 : 3;
  });
  std::string text;
  for (size_t i = 0; i < role.size();) {
    size_t end = i;
    while (end < role.size() && role[end] == role[i])
      ++end;
    text += letters[role[i]] + std::to_string(end - i);
    i = end;
  }
  return text;
}

void SequencePicture::add(const SimulatedStep &step) {
  ++steps;
  auto [entry, isNew] =
      known.try_emplace(rolesOf(step), static_cast<int64_t>(roles.size()));
  if (isNew)
    roles.push_back(entry->first);
  rolesOfSteps.add(entry->second);
  for (int32_t position : step.commits)
    committedAt[static_cast<size_t>(position)] = static_cast<int32_t>(steps);
  for (int32_t position : step.revoked)
    committedAt[static_cast<size_t>(position)] = 0;
  visible.add(std::ssize(step.visible));
  recomputed.add(std::ssize(step.active) - std::ssize(step.among));
  partly.add(std::ssize(step.among));
  cached.add(std::ranges::count_if(step.visible, [&](int32_t position) {
    return !std::ranges::binary_search(step.active, position);
  }));
  masked.add(std::count_if(step.masked.begin(), step.masked.end(),
                           [](uint8_t mask) { return mask != 0; }));
  committed.add(std::ssize(step.commits));
  logitRows.add(step.logitRows);
}

void SequencePicture::finish() {
  std::vector<int64_t> when;
  for (int64_t bin = 0; bin < bins; ++bin) {
    when.clear();
    int64_t end = std::min(std::ssize(committedAt), (bin + 1) * binSize);
    for (int64_t i = bin * binSize; i < end; ++i) {
      int64_t step = committedAt[static_cast<size_t>(i)];
      when.push_back(i < prompt ? 0 : step ? step : steps + 1);
    }
    std::sort(when.begin(), when.end());
    auto at = [&](size_t quarter) {
      return when[(when.size() - 1) * quarter / 4];
    };
    decoded.push_back({at(0), at(1), at(2), at(3), at(4)});
  }
}
