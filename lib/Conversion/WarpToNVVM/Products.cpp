//===- Products.cpp - Products of warpgroups ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `wgmma` multiplies 64 rows by up to 256 columns in steps of 16 elements of
// depth. What it reads in shared memory is told by descriptors: bits 0-13 the
// address, 16-29 and 32-45 two strides, all in units of 16 bytes, 62-63 the
// swizzle. With rows of 128 bytes, eight rows are one swizzled atom of 1,024
// bytes. A tile multiplied along its columns (transposed: K^T) has atoms along
// its rows, 1,024 bytes apart; 16 elements of depth are 32 bytes further in a
// panel. One multiplied along its rows (V) has panels one panel apart; 16 rows
// of depth are two atoms further.
// Source: PTX ISA, "Asynchronous warpgroup level matrix shared memory layout".
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::heddle;
using Values = NVVMBuilder::Values;

namespace {

/// A descriptor of what lies at the address `tile`; the second stride in bytes.
Value descriptor(ThreadBuilder &v, Value tile, int64_t panelBytes) {
  constexpr uint64_t atomBytes = 1024, swizzle128 = uint64_t(1) << 62;
  uint64_t fixed = static_cast<uint64_t>(panelBytes / 16) << 16 |
                   (atomBytes / 16) << 32 | swizzle128;
  Value address = v.quotient(v.both(tile, 0x3ffff), 16);
  return v.either(v.widenUnsigned(address),
                  v.constant(static_cast<int64_t>(fixed)));
}

/// "{%0, %1}" for operands from `first` on.
std::string registers(int64_t first, int64_t count) {
  std::string list = "{";
  for (int64_t i = first; i < first + count; ++i)
    list += (i == first ? "$" : ", $") + std::to_string(i);
  return list + "}";
}

/// Constraints: `outputs` floats that go in and out, if `tied`, else out only.
std::string sumConstraints(int64_t outputs, bool tied) {
  std::string list;
  for (int64_t i = 0; i < outputs; ++i)
    list += i ? ",=f" : "=f";
  for (int64_t i = 0; tied && i < outputs; ++i)
    list += "," + std::to_string(i);
  return list;
}

struct LowerMultiply : ThreadPattern<warp::MultiplyOp> {
  using ThreadPattern::ThreadPattern;

  // All steps are one statement, so that nothing comes between products whose
  // sums are still on their way.
  SmallVector<Values> rewrite(warp::MultiplyOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    warp::TileType right = op.getRight().getType();
    auto leftTile = dyn_cast<warp::TileType>(op.getLeft().getType());
    const int64_t columns = op.getResult().getType().getColumns();
    const int64_t sums = columns / 2;
    const bool adds = static_cast<bool>(op.getSums());
    StringRef type = right.getElement().isBF16() ? "bf16" : "f16";
    const int64_t depth =
        leftTile
            ? leftTile.getColumns()
            : cast<warp::FragmentType>(op.getLeft().getType()).getColumns();

    Values operands;
    std::string constraints = sumConstraints(sums, adds);
    if (adds)
      llvm::append_range(operands, adaptor.getSums().take_front(sums));
    int64_t at = sums * (adds ? 2 : 1); // the next operand's number
    auto take = [&](Value value, StringRef constraint) {
      operands.push_back(value);
      constraints += "," + constraint.str();
      return at++;
    };
    int64_t left = at;
    if (leftTile) {
      Value from = adaptor.getLeft().front();
      if (op.getLeftFrom())
        from = v.add(from, v.mul(adaptor.getLeftFrom().front(), 128));
      take(descriptor(v, from, 0), "l");
    } else
      for (Value value : adaptor.getLeft())
        take(value, "r");
    Value from = v.add(adaptor.getRight().front(),
                       static_cast<int64_t>(op.getFrom()) * 128);
    int64_t rightAt = take(
        descriptor(v, from, op.getTransposed() ? 0 : right.getPanelBytes()),
        "l");

    std::string text = "{\n.reg .b64 a, b;\n.reg .pred p;\n"
                       "wgmma.fence.sync.aligned;\n";
    for (int64_t step = 0; step < depth / 16; ++step) {
      // In units of 16 bytes.
      auto along = [&](warp::TileType tile) {
        return step / 4 * (tile.getPanelBytes() / 16) + step % 4 * 2;
      };
      int64_t rightStep = op.getTransposed() ? along(right) : step * 128;
      if (leftTile)
        text += llvm::formatv("add.s64 a, ${0}, {1};\n", left, along(leftTile));
      text += llvm::formatv("add.s64 b, ${0}, {1};\n", rightAt, rightStep);
      text += llvm::formatv("setp.ne.b32 p, {0}, 0;\n", adds || step ? 1 : 0);
      text += llvm::formatv(
          "wgmma.mma_async.sync.aligned.m64n{0}k16.f32.{1}.{1} {2}, {3}, b, p, "
          "1, 1, {4}{5};\n",
          columns, type, registers(0, sums),
          leftTile ? "a" : registers(left + 4 * step, 4), leftTile ? "0, " : "",
          op.getTransposed() ? "0" : "1");
    }
    text += "wgmma.commit_group.sync.aligned;\n}";
    Values result = v.assembly(text, constraints, operands,
                               SmallVector<Type>(sums, v.f32()));
    // What these products and those before them read.
    if (adds)
      llvm::append_range(result, adaptor.getSums().drop_front(sums));
    if (!leftTile)
      llvm::append_range(result, adaptor.getLeft());
    return {result};
  }
};

struct LowerWait : ThreadPattern<warp::WaitOp> {
  using ThreadPattern::ThreadPattern;

  // Sums go through the wait, so that nobody reads them before, and words that
  // products read go into it, so that nobody writes them before.
  SmallVector<Values> rewrite(warp::WaitOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    const int64_t sums = op.getResult().getType().getElements();
    ValueRange flying = adaptor.getFlying();
    std::string constraints = sumConstraints(sums, true);
    for (size_t i = sums; i < flying.size(); ++i)
      constraints += ",r";
    return {v.assembly("wgmma.wait_group.sync.aligned 0;", constraints, flying,
                       SmallVector<Type>(sums, v.f32()))};
  }
};

struct LowerResume : ThreadPattern<warp::ResumeOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::ResumeOp, Adaptor adaptor,
                              ThreadBuilder &) const override {
    Values result(adaptor.getSums());
    llvm::append_range(result, adaptor.getFlying().drop_front(result.size()));
    return {result};
  }
};

} // namespace

void mlir::heddle::populateProductPatterns(const TypeConverter &converter,
                                           Patterns &patterns) {
  patterns.add<LowerMultiply, LowerWait, LowerResume>(converter,
                                                      patterns.getContext());
}
