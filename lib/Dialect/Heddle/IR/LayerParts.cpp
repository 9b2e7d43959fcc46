//===- LayerParts.cpp - What the layers of a schedule do ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/LayerParts.h"

#include "heddle/Dialect/Heddle/IR/PairSet.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <set>

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// Layers next to each other that the same selections name. Layers that count
/// from the end are negative and lie apart from the others.
struct Segment {
  int64_t first, last;
  SmallVector<size_t> named; ///< indices into the selections
};

class Divider {
public:
  explicit Divider(ScheduleOp schedule) : schedule(schedule) {}

  SmallVector<LayerPart> divide();

private:
  void findSelections();
  void findSegments();
  void addPart(size_t attend, LayerRangeAttr layers, ArrayRef<size_t> named);
  /// Calls `visit` with the parts of `first` to `last` that one segment, or
  /// none, has.
  void forParts(
      int64_t first, int64_t last,
      llvm::function_ref<void(int64_t, int64_t, ArrayRef<size_t>)> visit) const;

  ScheduleOp schedule;
  SmallVector<AttendOp> attends; ///< the one that names no layers first
  SmallVector<SmallVector<SelectOp>> reads; ///< of these
  /// That name layers and are read by an attend.
  SmallVector<SelectOp> scoped;
  std::vector<Segment> segments; ///< disjoint, ascending
  SmallVector<LayerPart> parts;
};

} // namespace

void Divider::findSelections() {
  for (bool isDefault : {true, false})
    for (auto attend : schedule.getOps<AttendOp>())
      if (!attend.getLayersAttr() == isDefault)
        attends.push_back(attend);
  for (AttendOp attend : attends) {
    for (SelectOp select : reads.emplace_back(selectionsOf(attend)))
      if (select.getLayersAttr() && !isAmong(select, scoped))
        scoped.push_back(select);
  }
}

void Divider::findSegments() {
  // Where selections begin to name layers, and where they no longer do.
  std::map<int64_t, std::pair<SmallVector<size_t>, SmallVector<size_t>>> events;
  for (auto [index, select] : llvm::enumerate(scoped))
    for (auto range : select.getLayersAttr().getAsRange<LayerRangeAttr>()) {
      events[range.getFirst()].first.push_back(index);
      events[range.getLast() + 1].second.push_back(index);
    }
  std::multiset<size_t> named;
  int64_t begin = 0;
  auto close = [&](int64_t end) {
    if (named.empty())
      return;
    SmallVector<size_t> here(named.begin(), named.end());
    // Layer 0 follows the last one, -1, in number alone.
    if (begin != 0 && !segments.empty() && segments.back().last + 1 == begin &&
        segments.back().named == here)
      segments.back().last = end - 1;
    else
      segments.push_back({begin, end - 1, std::move(here)});
  };
  for (const auto &[layer, change] : events) {
    if (layer != begin)
      close(layer);
    begin = layer;
    for (size_t index : change.second)
      named.erase(named.find(index));
    named.insert(change.first.begin(), change.first.end());
  }
}

void Divider::forParts(
    int64_t first, int64_t last,
    llvm::function_ref<void(int64_t, int64_t, ArrayRef<size_t>)> visit) const {
  auto segment = llvm::partition_point(
      segments, [&](const Segment &each) { return each.last < first; });
  for (; first <= last; ++segment) {
    const bool isLast = segment == segments.end() || segment->first > last;
    const int64_t until = isLast ? last + 1 : std::max(first, segment->first);
    if (first < until)
      visit(first, until - 1, {});
    if (isLast)
      return;
    const int64_t end = std::min(last, segment->last);
    visit(until, end, segment->named);
    first = end + 1;
  }
}

void Divider::addPart(size_t attend, LayerRangeAttr layers,
                      ArrayRef<size_t> named) {
  LayerPart &part = parts.emplace_back();
  part.attend = attends[attend];
  part.layers = layers;
  auto isNamed = [&](SelectOp select) {
    return llvm::any_of(named, [&](size_t index) {
      return sameSelection(scoped[index], select);
    });
  };
  for (SelectOp select : reads[attend])
    if (!select.getLayersAttr() || isNamed(select))
      part.refreshed.push_back(select);
  for (size_t index : named)
    if (!isAmong(scoped[index], part.refreshed))
      part.refreshed.push_back(scoped[index]);
}

SmallVector<LayerPart> Divider::divide() {
  findSelections();
  findSegments();
  MLIRContext *context = schedule.getContext();
  auto range = [&](int64_t first, int64_t last) {
    return LayerRangeAttr::get(context, first, last);
  };
  // What no other attend names of the layers that selections do.
  std::map<int64_t, int64_t> taken; // layers of attends: the last of each range
  for (AttendOp attend : attends)
    if (attend.getLayersAttr())
      for (auto each : attend.getLayersAttr().getAsRange<LayerRangeAttr>())
        taken.emplace(each.getLast(), each.getFirst());
  for (auto [index, attend] : llvm::enumerate(attends)) {
    if (!attend.getLayersAttr()) {
      addPart(index, {}, {});
      for (bool fromEnd : {false, true})
        for (const Segment &segment : segments) {
          if ((segment.first < 0) != fromEnd)
            continue;
          int64_t first = segment.first;
          for (auto next = taken.lower_bound(first);
               next != taken.end() && next->second <= segment.last; ++next) {
            if (first < next->second)
              addPart(index, range(first, next->second - 1), segment.named);
            first = next->first + 1;
          }
          if (first <= segment.last)
            addPart(index, range(first, segment.last), segment.named);
        }
      continue;
    }
    for (auto each : attend.getLayersAttr().getAsRange<LayerRangeAttr>())
      forParts(each.getFirst(), each.getLast(),
               [&, index = index](int64_t first, int64_t last,
                                  ArrayRef<size_t> named) {
                 addPart(index, range(first, last), named);
               });
  }
  return std::move(parts);
}

SmallVector<LayerPart> mlir::heddle::layerParts(ScheduleOp schedule) {
  return Divider(schedule).divide();
}
