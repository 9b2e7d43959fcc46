//===- WarpBuilder.h - Writes ops of the warp level -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every kernel for warpgroups is written with, above NVVMBuilder:
// fragments, maps of them, products.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTOWARP_WARPBUILDER_H
#define HEDDLE_LIB_CONVERSION_SHEDTOWARP_WARPBUILDER_H

#include "../ShedToNVVM/NVVMBuilder.h"

#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Warp/IR/Warp.h"

namespace mlir::heddle {

class WarpBuilder : public NVVMBuilder {
public:
  using NVVMBuilder::NVVMBuilder;

  /// Computes an element from those at its place (of as many inputs), from its
  /// row and its column.
  using MapBody =
      function_ref<Value(ValueRange elements, Value row, Value column)>;

  warp::FragmentType fragment(int64_t columns, Type element) {
    return warp::FragmentType::get(b.getContext(), columns, element);
  }
  /// Of f32.
  warp::FragmentType fragment(int64_t columns) {
    return fragment(columns, f32());
  }
  Value splat(int64_t columns, float value) {
    return warp::SplatOp::create(b, fragment(columns), real(value));
  }
  Value bit(bool value) {
    return arith::ConstantOp::create(b, b.getBoolAttr(value));
  }
  Value map(Type type, ValueRange inputs, MapBody body);
  /// So many columns from `from` on.
  Value slice(Value source, int64_t from, int64_t columns);
  /// Of f32, with as many columns.
  Value reduce(warp::Combine kind, Value source, Value init = {}) {
    return warp::ReduceOp::create(b, fragment(1), kind, source, init);
  }
  Value combine(warp::Combine kind, Value source) {
    return warp::CombineOp::create(b, kind, source);
  }

  /// Rows of one matrix: from `first` on, or those that `rows` names, of which
  /// `map` may bring consecutive ones.
  Value load(Type tile, Value base, Value first, Value stride, Value end,
             Value rows = {}, Value map = {}, Value column = {}) {
    return warp::LoadOp::create(b, tile, base, first, stride, end, rows, map,
                                column, IntegerAttr(), Value(), Value(),
                                IntegerAttr(), UnitAttr());
  }

  /// Starts left . right^T if `transposed`, else left . (the rows of `right`
  /// from `from` on), plus `sums` if given. Of a tile on the left, the rows
  /// from `leftFrom` (i32) on, or the first ones.
  Value multiply(Value left, Value right, Value sums, bool transposed,
                 int64_t from = 0, Value leftFrom = {});
  /// The sums, once all products are done.
  Value wait(Value flying);

  /// The number of this block's cluster in x, and how many there are.
  Value clusterId();
  Value clusters();

  void barrier() override { warp::MeetOp::create(b); }

  /// Writes the pipeline that `kernel` is to become into its function, which is
  /// open.
  void describePipeline(shed::WgmmaTilingAttr tiling);
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTOWARP_WARPBUILDER_H
