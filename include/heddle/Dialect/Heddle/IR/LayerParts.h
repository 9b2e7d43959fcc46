//===- LayerParts.h - What the layers of a schedule do ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_LAYERPARTS_H
#define HEDDLE_DIALECT_HEDDLE_IR_LAYERPARTS_H

#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"

namespace mlir::heddle {

/// Layers that have one attend and refresh the same selections: what a plan has
/// a rule for.
struct LayerPart {
  AttendOp attend;
  LayerRangeAttr layers; ///< null: those that no other part has
  /// Those that the attend reads come first. All that it reads and that name no
  /// layers of their own are among them.
  SmallVector<SelectOp> refreshed;
};

/// The parts of a schedule whose attends name disjoint layers: those of the
/// last attend, which names none, come first, and the one without a range
/// before all.
SmallVector<LayerPart> layerParts(ScheduleOp schedule);

/// As bundle::firstLayers() takes them. Null: those that no other names.
inline ::heddle::bundle::LayerSpan spanOf(LayerRangeAttr layers) {
  return layers ? ::heddle::bundle::LayerSpan{false, layers.getFirst(),
                                              layers.getLast()}
                : ::heddle::bundle::LayerSpan();
}

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_LAYERPARTS_H
