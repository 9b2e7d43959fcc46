//===- PtxMachine.cpp - Runs PTX of warpgroups without a GPU --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

using namespace heddle::test;
using Kind = PtxOperand::Kind;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static float asFloat(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
static uint64_t asBits(float value) { return std::bit_cast<uint32_t>(value); }
static float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value)
                                                : value;
}

//===----------------------------------------------------------------------===//
// Registers and memory
//===----------------------------------------------------------------------===//

PtxMachine::PtxMachine(const PtxProgram &program, int64_t sharedBytes,
                       uint64_t seed)
    : program(program), random(seed), sharedBytes(sharedBytes),
      window((sharedStart + sharedBytes + 1023) / 1024 * 1024),
      shared(static_cast<size_t>(program.cluster * window), 0xff),
      writtenAt(shared.size() / 16 + 1, 0),
      writtenBy(shared.size() / 16 + 1, -1) {}

void PtxMachine::fail(const Warp &warp, const PtxInstruction &op,
                      const std::string &what) const {
  throw PtxError("warp " + std::to_string(warp.number) + ", `" +
                 op.text.substr(0, 90) + "`: " + what);
}

uint64_t PtxMachine::read(Warp &warp, const PtxOperand &operand, int lane,
                          bool product) const {
  if (operand.kind == Kind::Constant)
    return static_cast<uint64_t>(operand.value);
  if (operand.kind == Kind::Special) {
    if (operand.value == 0)
      return static_cast<uint64_t>(warp.number * lanes + lane);
    if (operand.value == 4)
      return static_cast<uint64_t>(sharedStart);
    const auto cluster = static_cast<uint32_t>(program.cluster);
    if (operand.value == 5)
      return grid[0];
    if (operand.value == 8)
      return grid[2];
    if (operand.value == 6)
      return grid[0] / cluster;
    if (operand.value == 7)
      return block[0] / cluster;
    return block[operand.value - 1] +
           static_cast<uint64_t>(operand.value == 1 ? warp.block : 0);
  }
  if (operand.kind != Kind::Register)
    throw PtxError("an operand that is no value");
  if (!product && warp.flying[operand.value])
    throw PtxError("sums of a product are read before the wait for it");
  return warp.values[operand.value * lanes + lane];
}

void PtxMachine::write(Warp &warp, int64_t number, int lane, uint64_t value) {
  if (warp.flying[number] || warp.held[number])
    throw PtxError("a register of a product is written before the wait for it");
  warp.values[number * lanes + lane] = value;
}

void PtxMachine::write(Warp &warp, const PtxOperand &operand, int lane,
                       uint64_t value) {
  if (operand.kind != Kind::Register)
    throw PtxError("a result that is no register");
  write(warp, operand.value, lane, value);
}

uint64_t PtxMachine::addressOf(Warp &warp, const PtxOperand &operand,
                               int lane) const {
  PtxOperand base{Kind::Register, operand.base, -1, {}};
  return read(warp, base, lane) + static_cast<uint64_t>(operand.value);
}

uint8_t *PtxMachine::globalAt(uint64_t address, int64_t bytes) const {
  for (const Range &range : ranges)
    if (address >= range.from &&
        address + static_cast<uint64_t>(bytes) <= range.end) {
      if (address % static_cast<uint64_t>(bytes))
        throw PtxError("an address that is not aligned");
      return reinterpret_cast<uint8_t *>(address);
    }
  throw PtxError("an access outside of all arrays");
}

/// An address is a block's own, or has the number of another one of its cluster
/// above bit 24, counted from 1, as `mapa` makes it here.
int64_t PtxMachine::placeOf(const Warp &warp, uint64_t address,
                            int64_t bytes) const {
  const auto other = static_cast<int64_t>(address >> 24);
  const auto local = static_cast<int64_t>(address & 0xffffff);
  if (other > program.cluster || local < sharedStart ||
      local + bytes > sharedStart + sharedBytes || local % bytes)
    throw PtxError("an access outside of shared memory, or not aligned");
  if (other && other - 1 != warp.block && ended(other - 1))
    throw PtxError("an access to a block that has ended");
  return (other ? other - 1 : warp.block) * window + local;
}

/// A write that products don't see before a fence.
void PtxMachine::touch(Warp &warp, int64_t place, int64_t bytes) {
  for (int64_t at = place / 16; at <= (place + bytes - 1) / 16; ++at) {
    writtenAt[at] = time;
    writtenBy[at] = static_cast<int32_t>(&warp - warps.data());
  }
}

bool PtxMachine::ended(int64_t number) const {
  return std::all_of(warps.begin(), warps.end(), [&](const Warp &warp) {
    return warp.block != number ||
           std::all_of(warp.done.begin(), warp.done.end(),
                       [](bool done) { return done; });
  });
}

//===----------------------------------------------------------------------===//
// Barriers and copies
//===----------------------------------------------------------------------===//

PtxMachine::Barrier &PtxMachine::barrierAt(int64_t place) {
  auto found = barriers.find(place);
  if (found == barriers.end())
    throw PtxError("an arrival at what is no barrier");
  if (ended(place / window))
    throw PtxError("a signal to a block that has ended");
  return found->second;
}

void PtxMachine::complete(Barrier &barrier) {
  if (barrier.pending || barrier.bytes)
    return;
  barrier.pending = barrier.count;
  ++barrier.phase;
}

void PtxMachine::arrive(int64_t place) {
  Barrier &barrier = barrierAt(place);
  if (--barrier.pending < 0)
    throw PtxError("an arrival more than a barrier expects");
  complete(barrier);
}

/// Lets the copies of a landing take place.
void PtxMachine::land(size_t which) {
  Landing landing = std::move(landings[which]);
  landings.erase(landings.begin() + static_cast<int64_t>(which));
  ++time;
  for (const Copy &copy : landing.copies) {
    std::memcpy(shared.data() + copy.to, copy.bytes.data(), copy.size);
    if (!landing.fetched)
      writtenAt[copy.to / 16] = time;
  }
  if (landing.fetched) {
    Barrier &barrier = barrierAt(landing.barriers.front());
    barrier.bytes -= landing.fetched;
    complete(barrier);
    return;
  }
  for (int64_t barrier : landing.barriers)
    arrive(barrier);
}

/// cp.async.bulk.tensor: a box of a matrix to the same place of each block that
/// is named, in rows of 128 bytes whose 16-byte chunks are swizzled.
void PtxMachine::fetch(Warp &warp, const PtxInstruction &op, int lane) {
  const PtxOperand &from = op.operands[1];
  const uint64_t address = addressOf(warp, from, lane);
  PtxTensorMap map;
  std::memcpy(&map, globalAt(address, 16), 16);
  std::memcpy(&map, reinterpret_cast<const void *>(address), sizeof(map));
  if (map.mark != PtxTensorMap::known || address % 64)
    throw PtxError("what is no tensor map");
  const std::vector<uint64_t> &known = acquired[{&warp, lane}];
  if (std::find(known.begin(), known.end(), address) == known.end())
    throw PtxError("a tensor map that this thread has not acquired");
  if (map.boxColumns != 64 || !op.has("2d"))
    throw PtxError("a box that is not 128 bytes wide");
  auto coordinate = [&](size_t i) {
    return int64_t(static_cast<int32_t>(
        read(warp, {Kind::Register, from.list[i], -1, {}}, lane)));
  };
  const int64_t column = coordinate(0), row = coordinate(1);
  const uint64_t blocks = op.has("multicast::cluster")
                              ? read(warp, op.operands[3], lane)
                              : uint64_t(1) << warp.block;
  if (!blocks || blocks >> program.cluster)
    throw PtxError("a box for no block of the cluster");
  const uint64_t to = addressOf(warp, op.operands[0], lane) & 0xffffff,
                 signal = addressOf(warp, op.operands[2], lane) & 0xffffff;
  for (int64_t each = 0; each < program.cluster; ++each) {
    if (!(blocks >> each & 1))
      continue;
    const uint64_t there = static_cast<uint64_t>(each + 1) << 24;
    Landing landing;
    landing.fetched = map.boxRows * 128;
    landing.barriers = {placeOf(warp, there | signal, 8)};
    for (int64_t chunk = 0; chunk < map.boxRows * 8; ++chunk) {
      const uint64_t plain = to + static_cast<uint64_t>(chunk) * 16;
      Copy copy;
      copy.to = placeOf(warp, there | (plain ^ (plain >> 7 & 7) << 4), 16);
      for (int64_t i = 0; i < 8; ++i) {
        const int64_t r = row + chunk / 8, c = column + chunk % 8 * 8 + i;
        if (r >= 0 && r < map.rows && c >= 0 && c < map.columns)
          std::memcpy(&copy.bytes[i * 2],
                      globalAt(map.address + r * map.stride + c * 2, 2), 2);
      }
      std::memset(shared.data() + copy.to, 0xff, 16);
      writtenAt[copy.to / 16] = 0;
      landing.copies.push_back(copy);
    }
    landings.push_back(std::move(landing));
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Element (row, depth) of an operand that a descriptor tells of; `along`: its
/// rows are contiguous rather than its depth.
float PtxMachine::element(Warp &warp, bool bf16, uint64_t descriptor,
                          int64_t row, int64_t depth, bool along) {
  if (descriptor >> 62 != 1)
    throw PtxError("a descriptor without the 128-byte swizzle");
  const int64_t start = static_cast<int64_t>(descriptor & 0x3fff) * 16;
  const int64_t panels = static_cast<int64_t>(descriptor >> 16 & 0x3fff) * 16;
  const int64_t atoms = static_cast<int64_t>(descriptor >> 32 & 0x3fff) * 16;
  int64_t address = along ? start + row / 64 * panels + depth / 8 * atoms +
                                depth % 8 * 128 + row % 64 * 2
                          : start + row / 8 * atoms + row % 8 * 128 + depth * 2;
  address ^= (address >> 7 & 7) << 4;
  const int64_t place = placeOf(warp, static_cast<uint64_t>(address), 2);
  const int64_t chunk = place / 16;
  const uint8_t *from = shared.data() + place;
  const int32_t writer = writtenBy[chunk];
  if (writtenAt[chunk] > warp.fenced &&
      (writer < 0 || writtenAt[chunk] > warps[writer].fenced))
    throw PtxError("a product reads what was written without a proxy fence");
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return fromHalf(bf16, bits);
}

void PtxMachine::startProduct(Warp &warp, const PtxInstruction &op) {
  // As many columns as the registers hold.
  const auto columns = op.operands[0].list.size() * 2;
  if (columns % 8 || columns > 256 ||
      !op.has("m64n" + std::to_string(columns) + "k16"))
    fail(warp, op, "a shape that is not known");
  const bool inRegisters = op.operands[1].kind == Kind::List;
  Product product;
  product.instruction = &op;
  product.left = inRegisters ? 0 : read(warp, op.operands[1], 0);
  product.right = read(warp, op.operands[2], 0);
  product.adds = read(warp, op.operands[3], 0) & 1;
  for (int lane = 1; lane < lanes; ++lane)
    if (read(warp, op.operands[2], lane) != product.right)
      fail(warp, op, "lanes have different descriptors");
  for (int64_t number : op.operands[0].list)
    warp.flying[number] = 1;
  if (inRegisters)
    for (int64_t number : op.operands[1].list)
      warp.held[number] = 1;
  warp.open.push_back(product);
}

void PtxMachine::multiply(Warp &warp, const Product &product) {
  const PtxInstruction &op = *product.instruction;
  const bool bf16 = op.has("bf16"),
             inRegisters = op.operands[1].kind == Kind::List;
  const std::vector<int64_t> &sums = op.operands[0].list;
  const auto columns = static_cast<int64_t>(sums.size()) * 2;
  // Of the right operand: whether it lies along its columns.
  const bool along = op.operands.back().value != 0;
  std::vector<float> right(static_cast<size_t>(columns) * 16);
  for (int64_t n = 0; n < columns; ++n)
    for (int64_t k = 0; k < 16; ++k)
      right[n * 16 + k] = element(warp, bf16, product.right, n, k, along);
  float left[16][16];
  const int64_t firstRow = warp.number % 4 * 16;
  for (int64_t row = 0; row < 16; ++row)
    for (int64_t k = 0; k < 16; ++k) {
      if (!inRegisters) {
        left[row][k] =
            element(warp, bf16, product.left, firstRow + row, k, false);
        continue;
      }
      const int64_t which = row / 8 + k / 8 * 2, lane = row % 8 * 4 + k % 8 / 2;
      uint64_t word = warp.values[op.operands[1].list[which] * lanes + lane];
      left[row][k] = fromHalf(bf16, static_cast<uint16_t>(word >> k % 2 * 16));
    }
  for (int64_t row = 0; row < 16; ++row)
    for (int64_t n = 0; n < columns; ++n) {
      const int64_t which = n / 8 * 4 + row / 8 * 2 + n % 2;
      const int64_t lane = row % 8 * 4 + n % 8 / 2;
      uint64_t &at = warp.values[sums[which] * lanes + lane];
      float sum = product.adds ? asFloat(at) : 0.0f;
      for (int64_t k = 0; k < 16; ++k)
        sum += left[row][k] * right[n * 16 + k];
      at = asBits(sum);
    }
}

void PtxMachine::finishProducts(Warp &warp) {
  for (const Product &product : warp.committed)
    multiply(warp, product);
  warp.committed.clear();
}

//===----------------------------------------------------------------------===//
// Instructions of a thread
//===----------------------------------------------------------------------===//

void PtxMachine::compute(Warp &warp, const PtxInstruction &op, int lane) {
  auto in = [&](size_t i) { return read(warp, op.operands[i], lane); };
  auto f = [&](size_t i) { return asFloat(in(i)); };
  auto s32 = [&](size_t i) { return static_cast<int32_t>(in(i)); };
  auto out = [&](uint64_t value) { write(warp, op.operands[0], lane, value); };
  auto real = [&](float value) { out(asBits(value)); };
  const bool wide = op.has("b64") || op.has("s64") || op.has("u64");
  const bool isFloat = op.has("f32"), isPredicate = op.has("pred");
  auto word = [&](uint64_t value) {
    out(wide ? value : isPredicate ? value & 1 : value & 0xffffffff);
  };
  const std::string &name = op.word;
  const bool keepsNaN = op.has("NaN") && (std::isnan(f(1)) || std::isnan(f(2)));
  if (name == "mov" && op.operands[0].kind == Kind::List) {
    const int bits = wide ? 32 : 16;
    for (size_t half = 0; half < 2; ++half)
      write(warp, op.operands[0].list[half], lane,
            in(1) >> bits * half & ((uint64_t(1) << bits) - 1));
  } else if (name == "mov")
    word(in(1));
  else if (name == "add")
    isFloat ? real(f(1) + f(2)) : word(in(1) + in(2));
  else if (name == "sub")
    isFloat ? real(f(1) - f(2)) : word(in(1) - in(2));
  else if (name == "mul" && isFloat)
    real(f(1) * f(2));
  else if (name == "mul" && op.has("wide") && op.has("u16"))
    out((in(1) & 0xffff) * (in(2) & 0xffff));
  else if (name == "mul" && op.has("wide"))
    out(op.has("u32") ? (in(1) & 0xffffffff) * (in(2) & 0xffffffff)
                      : static_cast<uint64_t>(int64_t(s32(1)) * s32(2)));
  else if (name == "mul" && op.has("hi") && op.has("u32"))
    out((in(1) & 0xffffffff) * (in(2) & 0xffffffff) >> 32);
  else if (name == "mul" && op.has("lo"))
    word(in(1) * in(2));
  else if (name == "mad" && op.has("lo"))
    word(in(1) * in(2) + in(3));
  else if (name == "fma")
    real(std::fma(f(1), f(2), f(3)));
  else if (name == "neg")
    isFloat ? real(-f(1)) : word(0 - in(1));
  else if (name == "abs")
    real(std::fabs(f(1)));
  else if (name == "max")
    keepsNaN  ? real(std::nanf(""))
    : isFloat ? real(std::fmax(f(1), f(2)))
              : out(static_cast<uint32_t>(std::max(s32(1), s32(2))));
  else if (name == "min" && isFloat)
    real(keepsNaN ? std::nanf("") : std::fmin(f(1), f(2)));
  else if (name == "min")
    out(static_cast<uint32_t>(std::min(s32(1), s32(2))));
  else if (name == "ex2")
    real(flushed(std::exp2(flushed(f(1)))));
  else if (name == "lg2")
    real(std::log2(flushed(f(1))));
  else if (name == "tanh")
    real(std::tanh(f(1)));
  else if (name == "sqrt")
    real(std::sqrt(f(1)));
  else if (name == "rcp")
    real(1.0f / f(1));
  else if (name == "div")
    isFloat ? real(f(1) / f(2))
            : out(static_cast<uint32_t>(in(1)) / static_cast<uint32_t>(in(2)));
  else if (name == "rem")
    out(static_cast<uint32_t>(in(1)) % static_cast<uint32_t>(in(2)));
  else if (name == "and")
    word(in(1) & in(2));
  else if (name == "or")
    word(in(1) | in(2));
  else if (name == "xor")
    word(in(1) ^ in(2));
  else if (name == "not")
    word(~in(1));
  else if (name == "popc")
    out(static_cast<uint64_t>(std::popcount(static_cast<uint32_t>(in(1)))));
  else if (name == "shl")
    word(in(1) << in(2));
  else if (name == "shr" && op.has("u32"))
    out((in(1) & 0xffffffff) >> in(2));
  else if (name == "shr" && op.has("u64"))
    out(in(1) >> in(2));
  else if (name == "shf" && op.has("l") && op.has("wrap"))
    // The upper word of two, shifted left.
    word(((in(2) << 32 | (in(1) & 0xffffffff)) << (in(3) & 31)) >> 32);
  else if (name == "bfe" && op.has("u32"))
    out((in(1) & 0xffffffff) >> in(2) & ((uint64_t(1) << in(3)) - 1));
  else if (name == "mapa") {
    if (in(2) >= static_cast<uint64_t>(program.cluster))
      throw PtxError("a block that is not in the cluster");
    out((in(1) & 0xffffff) | (in(2) + 1) << 24);
  } else if (name == "selp")
    word(in(3) & 1 ? in(1) : in(2));
  else if (name == "cvt" && (op.has("bf16x2") || op.has("f16x2")))
    out(static_cast<uint64_t>(toHalf(op.has("bf16x2"), f(1))) << 16 |
        toHalf(op.has("bf16x2"), f(2)));
  else if (name == "cvt" && op.parts[0] == "f32" && op.parts[1] == "f16")
    real(fromHalf(/*bf16=*/false, static_cast<uint16_t>(in(1))));
  else if (name == "cvt" && op.has("f32") && op.has("s32"))
    real(static_cast<float>(s32(1)));
  else if (name == "cvt" && ((op.parts[0] == "u32" && op.parts[1] == "u16") ||
                             (op.parts[0] == "u16" && op.parts[1] == "u32")))
    out(in(1) & 0xffff);
  else if (name == "cvt" && op.parts[0] == "u64" && op.parts[1] == "u32")
    out(in(1) & 0xffffffff);
  else if (name == "cvt" && op.parts[0] == "s64" && op.parts[1] == "s32")
    out(static_cast<uint64_t>(int64_t(s32(1))));
  else if (name == "cvt" && op.parts[0] == "u32" && op.parts[1] == "u64")
    out(in(1) & 0xffffffff);
  else if (name == "setp") {
    const std::string &how = op.parts[0];
    auto compare = [&](auto x, auto y) {
      return how == "lt"   ? x < y
             : how == "le" ? x <= y
             : how == "gt" ? x > y
             : how == "ge" ? x >= y
             : how == "eq" ? x == y
             : how == "ne" ? x != y
             // Of floats, true for NaNs, too.
             : how == "geu" ? !(x < y)
                            : throw PtxError("a comparison: " + how);
    };
    if (isFloat)
      out(compare(f(1), f(2)));
    else if (op.has("s32"))
      out(compare(s32(1), s32(2)));
    else if (op.has("s64"))
      out(compare(static_cast<int64_t>(in(1)), static_cast<int64_t>(in(2))));
    else if (wide)
      out(compare(in(1), in(2)));
    else
      out(compare(in(1) & 0xffffffff, in(2) & 0xffffffff));
  } else {
    throw PtxError("an instruction that is not known");
  }
}

/// Loads, stores and copies. False if the instruction is none.
bool PtxMachine::executeMemory(Warp &warp, const PtxInstruction &op,
                               uint32_t mask) {
  const int64_t size = op.has("b64") || op.has("u64")   ? 8
                       : op.has("b16") || op.has("u16") ? 2
                       : op.has("b8") || op.has("u8")   ? 1
                                                        : 4;
  auto eachLane = [&](auto body) {
    for (int lane = 0; lane < lanes; ++lane)
      if (mask >> lane & 1)
        body(lane);
  };
  if (op.word == "ld" && op.has("param")) {
    eachLane([&](int lane) {
      write(warp, op.operands[0], lane, parameters[op.operands[1].list[0]]);
    });
    return true;
  }
  if (op.word == "ld" || op.word == "st") {
    const bool loads = op.word == "ld",
               isShared = op.has("shared") || op.has("shared::cluster");
    const PtxOperand &value = op.operands[loads ? 0 : 1];
    const PtxOperand &place = op.operands[loads ? 1 : 0];
    std::vector<int64_t> all =
        value.kind == Kind::List ? value.list : std::vector{value.value};
    const auto bytes = static_cast<int64_t>(all.size()) * size;
    eachLane([&](int lane) {
      uint64_t address = addressOf(warp, place, lane);
      const int64_t inShared = isShared ? placeOf(warp, address, bytes) : 0;
      uint8_t *at =
          isShared ? shared.data() + inShared : globalAt(address, bytes);
      for (size_t i = 0; i < all.size(); ++i) {
        uint64_t bits = 0;
        if (loads) {
          std::memcpy(&bits, at + i * size, size);
          write(warp, all[i], lane, bits);
          continue;
        }
        bits = value.kind == Kind::List
                   ? read(warp, {Kind::Register, all[i], -1, {}}, lane)
                   : read(warp, value, lane);
        std::memcpy(at + i * size, &bits, size);
      }
      if (!loads && isShared)
        touch(warp, inShared, bytes);
    });
    return true;
  }
  if (op.word == "prefetch")
    return true;
  if (op.word == "atom") {
    if (!op.has("shared") || !op.has("add") || op.has("f32"))
      return false;
    eachLane([&](int lane) {
      const int64_t place =
          placeOf(warp, addressOf(warp, op.operands[1], lane), 4);
      uint32_t old;
      std::memcpy(&old, shared.data() + place, 4);
      const auto sum =
          old + static_cast<uint32_t>(read(warp, op.operands[2], lane));
      std::memcpy(shared.data() + place, &sum, 4);
      touch(warp, place, 4);
      write(warp, op.operands[0], lane, old);
    });
    return true;
  }
  if (op.word != "cp")
    return false;
  if (op.has("commit_group")) {
    warp.groups.push_back(std::exchange(warp.copies, {}));
    return true;
  }
  if (op.has("wait_group")) {
    // Not before they have to: all groups but the last ones.
    for (; std::ssize(warp.groups) > op.operands[0].value;
         warp.groups.erase(warp.groups.begin())) {
      landings.emplace_back().copies = std::move(warp.groups.front());
      land(landings.size() - 1);
    }
    return true;
  }
  if (op.has("bulk")) {
    eachLane([&](int lane) { fetch(warp, op, lane); });
    return true;
  }
  if (op.has("mbarrier")) {
    Landing landing;
    landing.copies = std::exchange(warp.copies, {});
    if (mask != 0xffffffff)
      throw PtxError("some lanes of a warp arrive with their copies");
    eachLane([&](int lane) {
      landing.barriers.push_back(
          placeOf(warp, addressOf(warp, op.operands[0], lane), 8));
    });
    landings.push_back(std::move(landing));
    return true;
  }
  eachLane([&](int lane) {
    Copy copy;
    copy.size = op.operands[2].value;
    copy.to = placeOf(warp, addressOf(warp, op.operands[0], lane), copy.size);
    const uint64_t bytes = op.operands.size() > 3
                               ? read(warp, op.operands[3], lane)
                               : static_cast<uint64_t>(copy.size);
    if (bytes)
      std::memcpy(copy.bytes.data(),
                  globalAt(addressOf(warp, op.operands[1], lane), copy.size),
                  bytes);
    std::memset(shared.data() + copy.to, 0xff, copy.size);
    touch(warp, copy.to, copy.size);
    warp.copies.push_back(copy);
  });
  return true;
}

/// Whether the barrier's phase is not done yet.
bool PtxMachine::waitsForBarrier(Warp &warp, const PtxInstruction &op,
                                 uint32_t mask) {
  bool done = true;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    auto found =
        barriers.find(placeOf(warp, addressOf(warp, op.operands[1], lane), 8));
    if (found == barriers.end())
      throw PtxError("a wait for what is no barrier");
    done &= static_cast<uint64_t>(found->second.phase & 1) !=
            read(warp, op.operands[2], lane);
  }
  if (done)
    for (int lane = 0; lane < lanes; ++lane)
      if (mask >> lane & 1)
        write(warp, op.operands[0], lane, 1);
  return !done;
}

static bool isOfWarp(const PtxInstruction &op) {
  return op.word == "wgmma" || op.word == "mma" || op.word == "ldmatrix" ||
         op.word == "shfl" || op.word == "vote";
}

/// Instructions of a whole warp, which need all lanes.
bool PtxMachine::executeWarp(Warp &warp, const PtxInstruction &op,
                             uint32_t mask) {
  if (mask != 0xffffffff)
    throw PtxError("some lanes of a warp only");
  if (op.word == "wgmma")
    keepStep(warp, op);
  if (op.word == "shfl") {
    std::array<uint64_t, lanes> values;
    for (int lane = 0; lane < lanes; ++lane) {
      int64_t which = static_cast<int64_t>(read(warp, op.operands[2], lane));
      int from =
          static_cast<int>(op.has("bfly") ? lane ^ which
                           : op.has("up") ? std::max<int64_t>(lane - which, 0)
                                          : which);
      if (op.has("up") && lane < which)
        from = lane;
      values[lane] = read(warp, op.operands[1], from);
    }
    for (int lane = 0; lane < lanes; ++lane)
      write(warp, op.operands[0], lane, values[lane]);
  } else if (op.word == "vote") {
    uint64_t any = 0;
    for (int lane = 0; lane < lanes; ++lane)
      any |= (read(warp, op.operands[1], lane) & 1)
             << (op.has("ballot") ? lane : 0);
    for (int lane = 0; lane < lanes; ++lane)
      write(warp, op.operands[0], lane, any);
  } else if (op.word == "ldmatrix") {
    loadMatrices(warp, op);
  } else if (op.word == "mma") {
    multiplyAtOnce(warp, op);
  } else if (op.has("mma_async")) {
    startProduct(warp, op);
  } else if (op.has("commit_group")) {
    warp.committed.insert(warp.committed.end(), warp.open.begin(),
                          warp.open.end());
    warp.open.clear();
    if (chance(30))
      finishProducts(warp);
  } else if (op.has("wait_group")) {
    if (op.operands[0].value != 0 || !warp.open.empty())
      throw PtxError("a wait that does not cover everything");
    finishProducts(warp);
    std::fill(warp.flying.begin(), warp.flying.end(), 0);
    std::fill(warp.held.begin(), warp.held.end(), 0);
  }
  return true;
}

/// Executes `op` for the lanes of `mask`. False if it waits.
bool PtxMachine::execute(Warp &warp, const PtxInstruction &op, uint32_t mask) {
  ++time;
  if (op.word == "mbarrier" && op.has("try_wait"))
    return !waitsForBarrier(warp, op, mask);
  if (op.word == "mbarrier") {
    for (int lane = 0; lane < lanes; ++lane) {
      if (!(mask >> lane & 1))
        continue;
      const int64_t place =
          placeOf(warp, addressOf(warp, op.operands[0], lane), 8);
      if (place / window != warp.block && !op.has("shared::cluster"))
        throw PtxError("another block's barrier");
      if (op.has("init")) {
        auto count = static_cast<int64_t>(read(warp, op.operands[1], lane));
        if (!barriers.try_emplace(place, Barrier{count, count, 0, 0}).second)
          throw PtxError("a barrier is made twice");
        continue;
      }
      if (op.has("expect_tx"))
        barrierAt(place).bytes +=
            static_cast<int64_t>(read(warp, op.operands[1], lane));
      arrive(place);
    }
    return true;
  }
  if (op.word == "setmaxnreg" || op.word == "griddepcontrol" ||
      (op.word == "bar" && op.has("warp")))
    return true;
  if (op.word == "barrier" && op.has("cluster"))
    return meetCluster(warp, op, mask);
  if (op.word == "bar" || op.word == "barrier")
    return meetBlock(warp, op);
  if (op.word == "fence") {
    if (op.has("async"))
      warp.fenced = time;
    for (int lane = 0; op.has("tensormap::generic") && lane < lanes; ++lane)
      if (mask >> lane & 1)
        acquired[{&warp, lane}].push_back(
            addressOf(warp, op.operands[0], lane));
    return true;
  }
  if (isOfWarp(op))
    return executeWarp(warp, op, mask);
  if (executeMemory(warp, op, mask))
    return true;
  for (int lane = 0; lane < lanes; ++lane)
    if (mask >> lane & 1)
      compute(warp, op, lane);
  return true;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// One instruction of a warp, for lanes that stand at the same place: those
/// furthest behind, unless it takes the others or they wait. False if the warp
/// waits.
bool PtxMachine::step(Warp &warp) {
  std::set<int64_t> places;
  uint32_t live = 0;
  for (int lane = 0; lane < lanes; ++lane)
    if (!warp.done[lane])
      live |= uint32_t(1) << lane;
  auto maskAt = [&](int64_t pc) {
    uint32_t mask = 0;
    for (int lane = 0; lane < lanes; ++lane)
      if ((live >> lane & 1) && warp.pc[lane] == pc)
        mask |= uint32_t(1) << lane;
    return mask;
  };
  auto isShared = [&](int64_t pc) {
    const PtxInstruction &op = program.instructions[pc];
    return isOfWarp(op) || op.word == "bar" || op.word == "barrier" ||
           op.has("noinc") ||
           (op.word == "cp" &&
            (op.has("wait_group") || op.has("commit_group")));
  };
  for (int lane = 0; lane < lanes; ++lane) {
    const int64_t pc = warp.pc[lane];
    if ((live >> lane & 1) && (!isShared(pc) || maskAt(pc) == live))
      places.insert(pc);
  }
  if (places.empty())
    throw PtxError("lanes of warp " + std::to_string(warp.number) +
                   " have parted before an instruction of the whole warp");
  return std::any_of(places.begin(), places.end(),
                     [&](int64_t at) { return stepAt(warp, at, maskAt(at)); });
}

/// The same for these lanes, which stand at instruction `at`.
bool PtxMachine::stepAt(Warp &warp, int64_t at, uint32_t mask) {
  const PtxInstruction &op = program.instructions[at];
  uint32_t runs = mask;
  try {
    if (op.guard >= 0)
      for (int lane = 0; lane < lanes; ++lane)
        if ((mask >> lane & 1) &&
            ((read(warp, {Kind::Register, op.guard, -1, {}}, lane) & 1) != 0) ==
                op.negated)
          runs &= ~(uint32_t(1) << lane);
    if (op.word != "bra" && op.word != "ret" && runs &&
        !execute(warp, op, runs))
      return false;
  } catch (const PtxError &error) {
    fail(warp, op, error.what());
  }
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    const bool taken = runs >> lane & 1;
    if (op.word == "ret" && taken)
      warp.done[lane] = true;
    warp.pc[lane] = op.word == "bra" && taken ? op.target : at + 1;
  }
  return true;
}

void PtxMachine::run(const std::array<uint32_t, 3> &where,
                     const std::vector<uint64_t> &values) {
  block = where;
  parameters = values;
  barriers.clear();
  landings.clear();
  named.assign(static_cast<size_t>(program.cluster), {});
  stepsOf.clear();
  clusterPhase = 0;
  acquired.clear();
  time = 1;
  std::fill(shared.begin(), shared.end(), 0xff);
  std::fill(writtenAt.begin(), writtenAt.end(), 0);
  const int64_t ofBlock = program.threads / lanes;
  warps.assign(static_cast<size_t>(program.cluster * ofBlock), Warp());
  for (size_t i = 0; i < warps.size(); ++i) {
    Warp &warp = warps[i];
    warp.number = static_cast<int64_t>(i) % ofBlock;
    warp.block = static_cast<int64_t>(i) / ofBlock;
    // What was never written is a NaN of any type.
    warp.values.assign(static_cast<size_t>(program.registers) * lanes,
                       0x7fffffff7fffffff);
    for (auto [number, value] : program.constants)
      std::fill_n(warp.values.begin() + number * lanes, lanes,
                  static_cast<uint64_t>(value));
    warp.flying.assign(static_cast<size_t>(program.registers), 0);
    warp.held.assign(static_cast<size_t>(program.registers), 0);
  }
  std::vector<size_t> ready(warps.size());
  for (size_t i = 0; i < ready.size(); ++i)
    ready[i] = i;
  // One that falls behind all others, or none.
  const size_t slow = random() % (2 * warps.size());
  auto isDone = [](const Warp &warp) {
    return std::all_of(warp.done.begin(), warp.done.end(),
                       [](bool done) { return done; });
  };
  while (!std::all_of(warps.begin(), warps.end(), isDone)) {
    // Copies land in any order, sometimes late.
    while (!landings.empty() && chance(30))
      land(random() % landings.size());
    bool moved = false;
    std::shuffle(ready.begin(), ready.end(), random);
    for (size_t i : ready) {
      Warp &warp = warps[i];
      if (i == slow && chance(95))
        continue;
      const int64_t most = 1 + static_cast<int64_t>(random() % 200);
      for (int64_t n = 0; n < most && !isDone(warp) && step(warp); ++n)
        moved = true;
      if (moved && chance(50))
        break;
    }
    if (!moved && slow < warps.size())
      for (int64_t n = 0; n < 20 && !isDone(warps[slow]) && step(warps[slow]);
           ++n)
        moved = true;
    if (moved)
      continue;
    if (landings.empty())
      throw PtxError("no warp can go on: " + [&] {
        std::string list;
        for (const Warp &warp : warps)
          if (!isDone(warp))
            list += "\n  warp " + std::to_string(warp.number) + ": " +
                    program.instructions[warp.pc[0]].text.substr(0, 90);
        return list;
      }());
    land(random() % landings.size());
  }
  if (!landings.empty())
    throw PtxError("copies are on their way to a block that has ended");
  if (haveParted())
    throw PtxError("a warp has executed fewer instructions of its warpgroup "
                   "than another one");
}
