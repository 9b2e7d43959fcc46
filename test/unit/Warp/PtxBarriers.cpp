//===- PtxBarriers.cpp - Where warps meet ---------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Named barriers of a block, those of clusters, and what all warps of a
// warpgroup have to do alike.
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"

using namespace heddle::test;

/// Whether all threads that have not ended have arrived; then the next phase
/// begins.
bool PtxMachine::clusterHasMet() {
  for (const Warp &warp : warps)
    for (int lane = 0; lane < lanes; ++lane)
      if (!warp.done[lane] && warp.atCluster[lane] <= clusterPhase)
        return false;
  ++clusterPhase;
  return true;
}

/// barrier.cluster: whether the threads may go on.
bool PtxMachine::meetCluster(Warp &warp, const PtxInstruction &op,
                             uint32_t mask) {
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    if (!op.has("arrive")) {
      if (clusterPhase < warp.atCluster[lane] && !clusterHasMet())
        return false;
      continue;
    }
    if (++warp.atCluster[lane] != clusterPhase + 1)
      throw PtxError("a second arrival at the cluster's barrier");
  }
  return true;
}

/// bar.sync, bar.arrive and bar.red: whether the warp may go on.
bool PtxMachine::meetBlock(Warp &warp, const PtxInstruction &op) {
  const bool arrives = op.has("arrive"), votes = op.has("red");
  if (votes && !op.has("or"))
    throw PtxError("a vote that is not known");
  const size_t first = votes ? 1 : 0;
  const auto id = static_cast<size_t>(read(warp, op.operands[first], 0));
  NamedBarrier &barrier = named[warp.block][id];
  if (warp.waitsFor == -1) {
    if (!arrives)
      warp.waitsFor = static_cast<int64_t>(id);
    for (int lane = 0; votes && lane < lanes; ++lane)
      barrier.vote |= (read(warp, op.operands[3], lane) & 1) != 0;
    const int64_t count = op.operands.size() > first + 1
                              ? op.operands[first + 1].value
                              : program.threads;
    if ((barrier.arrived += lanes) == count) {
      barrier.result = barrier.vote;
      barrier.vote = false;
      barrier.arrived = 0;
      for (Warp &each : warps)
        if (each.waitsFor == static_cast<int64_t>(id) &&
            each.block == warp.block)
          each.waitsFor = -2; // may go on
    }
  }
  if (arrives)
    return true;
  if (warp.waitsFor != -2)
    return false;
  warp.waitsFor = -1;
  for (int lane = 0; votes && lane < lanes; ++lane)
    write(warp, op.operands[0], lane, barrier.result);
  return true;
}

/// All warps of a warpgroup execute the same instructions of the group.
/// Source: PTX ISA 9.0, wgmma, the qualifier .aligned.
void PtxMachine::keepStep(Warp &warp, const PtxInstruction &op) {
  std::vector<const PtxInstruction *> &steps =
      stepsOf[{warp.block, warp.number / 4}];
  const auto own = static_cast<size_t>(warp.steps++);
  if (own == steps.size())
    steps.push_back(&op);
  else if (steps[own] != &op)
    throw PtxError("another warp of the warpgroup executes another one");
}
