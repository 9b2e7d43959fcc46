//===- PtxLaunch.cpp - All blocks of a launch, without a GPU --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxLaunch.h"

#include "PtxMachine.h"

std::string heddle::test::run(const PtxLaunch &launch) {
  try {
    const PtxProgram program(launch.ptx, launch.symbol);
    PtxMachine machine(program, launch.sharedBytes, launch.seed);
    machine.grid = launch.grid;
    for (auto [from, bytes] : launch.arrays)
      machine.allow(from, bytes);
    const auto step = static_cast<uint32_t>(program.cluster);
    for (uint32_t z = 0; z < launch.grid[2]; ++z)
      for (uint32_t y = 0; y < launch.grid[1]; ++y)
        for (uint32_t x = 0; x < launch.grid[0]; x += step)
          machine.run({x, y, z}, launch.parameters);
  } catch (const PtxError &error) {
    return error.what();
  }
  return "";
}
