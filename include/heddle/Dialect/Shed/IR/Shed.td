//===- Shed.td - Everything of the shed dialect --------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

include "heddle/Dialect/Shed/IR/ShedOps.td"
include "heddle/Dialect/Shed/IR/ShedRowOps.td"
include "heddle/Dialect/Shed/IR/ShedTasks.td"
