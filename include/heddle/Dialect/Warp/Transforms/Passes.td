//===- Passes.td - Passes on the warp level ---------------*- tablegen -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_WARP_TRANSFORMS_PASSES_TD
#define HEDDLE_DIALECT_WARP_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def WarpSpecializeRoles : Pass<"warp-specialize-roles", "::mlir::ModuleOp"> {
  let summary = "Give the loads of a kernel's loop to warps of their own";
  let description = [{
    For every function with a `warp.pipeline`: each `warp.load` in a loop gets a
    ring; a producer warpgroup runs the loop once more, with nothing but copies
    in it, and the consumers read the ring instead. A stage is released right
    after the wait for the last product that reads it. A loop of turns around
    these loops is in both roles, too, and carries how many tiles there were; what
    it loads has a ring where the pipeline has `turn_stages`; warpgroups that are
    `warp.idle` in a turn wait for its tiles and release them in a loop behind
    the one that computes. Tiles and barriers
    get their places in shared memory, and the function its threads and the bytes
    of it.
  }];
  let dependentDialects = ["::mlir::warp::WarpDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::scf::SCFDialect"];
}

def WarpPingPong : Pass<"warp-ping-pong", "::mlir::ModuleOp"> {
  let summary = "Have warpgroups start products in order, where roles ask for it";
  let description = [{
    For every `warp.roles` with `ping_pong`: in loops over tiles a warpgroup waits
    for its place in the order before it starts a product, or several that it
    waits for together, and lets the next one go on as soon as the last of them is
    started.
  }];
  let dependentDialects = ["::mlir::warp::WarpDialect"];
}

def WarpVerifyPipelines : Pass<"warp-verify-pipelines", "::mlir::ModuleOp"> {
  let summary = "Check what holds once roles are divided";
  let description = [{
    Nothing lies twice in shared memory and all of it fits a block; registers of
    all roles fit; tiles are read only between the `await` and the `release` of
    their stage, and released only after the wait for every product that reads
    them; stages are published after their copies; both sides of a ring count its
    tiles alike, so that no barrier is out of phase; where warpgroups have an
    order, all of them come as often; what the warps of a warpgroup do together
    is in no branch by what one of them has found.
  }];
  let options = [
    Option<"sharedOfBlock", "shared-of-block", "int64_t", "232448",
           "bytes of shared memory that a block may have">,
  ];
}

#endif // HEDDLE_DIALECT_WARP_TRANSFORMS_PASSES_TD
