//===- PtxMma.cpp - Products of one warp ----------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Source: PTX ISA 9.0, "Matrix multiply-accumulate operation using mma
// instruction", m16n8k16, and "ldmatrix".
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"

#include <bit>
#include <cstring>

using namespace heddle::test;
using Kind = PtxOperand::Kind;

/// ldmatrix: matrices of 8 x 8 elements of 16 bits, one for each register; the
/// lanes say where their rows are, eight after the other a matrix's.
void PtxMachine::loadMatrices(Warp &warp, const PtxInstruction &op) {
  if (!op.has("m8n8") || !op.has("b16"))
    throw PtxError("a shape that is not known");
  const std::vector<int64_t> &to = op.operands[0].list;
  const bool transposes = op.has("trans");
  std::vector<std::array<std::array<uint16_t, 8>, 8>> matrices(to.size());
  for (size_t m = 0; m < to.size(); ++m)
    for (int row = 0; row < 8; ++row) {
      const int lane = static_cast<int>(m) * 8 + row;
      const int64_t place =
          placeOf(warp, addressOf(warp, op.operands[1], lane), 16);
      std::memcpy(matrices[m][row].data(), shared.data() + place, 16);
    }
  for (size_t m = 0; m < to.size(); ++m)
    for (int lane = 0; lane < lanes; ++lane) {
      uint64_t pair = 0;
      for (int i = 0; i < 2; ++i) {
        const int row = lane / 4, column = lane % 4 * 2 + i;
        const uint16_t bits =
            transposes ? matrices[m][column][row] : matrices[m][row][column];
        pair |= static_cast<uint64_t>(bits) << 16 * i;
      }
      write(warp, to[m], lane, pair);
    }
}

/// mma.sync: sums of 16 x 8, to which products of 16 x 16 and 16 x 8 elements
/// are added.
void PtxMachine::multiplyAtOnce(Warp &warp, const PtxInstruction &op) {
  if (!op.has("m16n8k16") || op.parts.back() != "f32" || !op.has("row") ||
      !op.has("col"))
    throw PtxError("a shape that is not known");
  const bool bf16 = op.has("bf16");
  auto word = [&](size_t operand, int64_t which, int lane) {
    return read(
        warp, {Kind::Register, op.operands[operand].list[which], -1, {}}, lane);
  };
  auto element = [&](uint64_t pair, int64_t i) {
    return fromHalf(bf16, static_cast<uint16_t>(pair >> i % 2 * 16));
  };
  float left[16][16], right[16][8], sums[16][8];
  for (int lane = 0; lane < lanes; ++lane) {
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 2; ++i) {
      for (int which = 0; which < 4; ++which)
        left[group + which % 2 * 8][pair + which / 2 * 8 + i] =
            element(word(1, which, lane), i);
      for (int which = 0; which < 2; ++which) {
        right[pair + which * 8 + i][group] = element(word(2, which, lane), i);
        sums[group + which * 8][pair + i] = std::bit_cast<float>(
            static_cast<uint32_t>(word(3, which * 2 + i, lane)));
      }
    }
  }
  for (auto &row : sums) {
    const auto &own = left[&row - sums];
    for (int column = 0; column < 8; ++column)
      for (int k = 0; k < 16; ++k)
        row[column] += own[k] * right[k][column];
  }
  for (int lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < 4; ++i)
      write(warp, op.operands[0].list[i], lane,
            std::bit_cast<uint32_t>(
                sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]));
}
