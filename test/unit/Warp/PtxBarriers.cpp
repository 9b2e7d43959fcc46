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
  const uint64_t id = read(warp, op.operands[first], 0);
  for (int lane = 0; lane < lanes; ++lane)
    if (read(warp, op.operands[first], lane) != id || id > 15)
      throw PtxError("a barrier that is not one of 16, or not of all lanes");
  NamedBarrier &barrier = named[warp.block][id];
  if (warp.waitsFor == -1) {
    if (barrier.arrived && barrier.votes != votes)
      throw PtxError("a vote at a barrier at which others do not vote");
    barrier.votes = votes;
    if (!arrives)
      warp.waitsFor = static_cast<int64_t>(id);
    for (int lane = 0; votes && lane < lanes; ++lane)
      barrier.vote |= (read(warp, op.operands[3], lane) & 1) != 0;
    const int64_t count = op.operands.size() > first + 1
                              ? op.operands[first + 1].value
                              : program.threads;
    if ((barrier.arrived += lanes) > count)
      throw PtxError("more arrivals than a barrier expects");
    if (barrier.arrived == count) {
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

/// Whether some warp has executed fewer instructions of its warpgroup than
/// another one.
bool PtxMachine::haveParted() {
  for (const Warp &warp : warps)
    if (static_cast<size_t>(warp.steps) !=
        stepsOf[{warp.block, warp.number / 4}].size())
      return true;
  return false;
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
