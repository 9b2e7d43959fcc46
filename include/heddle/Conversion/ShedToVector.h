//===- ShedToVector.h - Patterns from tiles to vectors ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Vectors run along query rows. A panel (`panel` rows) keeps Q transposed, so
// logits form as [keys x panel] by broadcasting elements of row-major K rows,
// wherever those lie: contiguous or gathered, neither K nor V is transposed.
// The softmax is then elementwise across keys, and the context grows as
// [channels x panel] by broadcasting elements of V. With matrix tiles the
// weights of a panel are transposed instead, and the context grows as [panel x
// channels]: V is the right operand. Tiles live in scratch:
//
//   queries       [panels][steps][panel]: fp32, or dwords of bf16 pairs
//   positions     [panels][panel] of the rows in the sequence, i32
//   maximum, sum  [panels][panel]
//   context       [panels][channels][panel]; tiles: [panels][panel][channels]
//   logits        [keys][panel] of one panel; fp32 weights take their place
//   weights       [keys / 2][panel] pairs of bf16;
//                 tiles: [keys / 32][panel][32]
//   keys, values  packed rows of a tile; matrix tiles have two buffers
//   list, mass    [n]
//
// Each type of `shed` becomes the values of one of the structures below. Those
// that are constants are known where code is written, which depends on them.
// What a region is about (rows, head, panel) is its `Scope`: operations that
// load have no operand for it, they mean the loop around.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_SHEDTOVECTOR_H
#define HEDDLE_CONVERSION_SHEDTOVECTOR_H

#include "heddle/Conversion/VectorBuilder.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

#include "mlir/Transforms/DialectConversion.h"

#include <map>

namespace mlir::heddle::vectors {

//===----------------------------------------------------------------------===//
// What types become
//===----------------------------------------------------------------------===//

/// The keys of a pass: list[j], or first + j where the list is a null pointer.
struct KeySource {
  Value count, first, list;

  bool isList() const;
};

/// `!shed.keys`: a tile of a pass's keys.
struct Keys {
  KeySource source;
  Value begin;  ///< index of its first key in the source
  Value count;  ///< keys in it, at least 1
  Value padded; ///< count rounded up to what the products work on
  Value packedKeys, packedValues; ///< matrix tiles: where its rows are packed

  auto fields() {
    return std::tie(source.count, source.first, source.list, begin, count,
                    padded, packedKeys, packedValues);
  }
};

/// `!shed.tile<keys, channels, T>`: rows of K or V.
struct KeyTile {
  Value base, stride;         ///< of the rows, in bytes; interleaved if packed
  Value memory, memoryStride; ///< of the head's rows of all keys
  Keys keys;

  auto fields() {
    return std::tuple_cat(std::tie(base, stride, memory, memoryStride),
                          keys.fields());
  }
  /// Whether rows are found through the source, where they lie.
  bool gathers() const { return keys.source.isList() && base == memory; }
};

/// `!shed.tile<queries, channels, T>`: all panels of the rows at hand, by their
/// offsets in scratch.
struct QueryTile {
  Value queries, positions;

  auto fields() { return std::tie(queries, positions); }
};

/// `!shed.tile<queries, keys, f32>`: logits of the panel at hand.
struct LogitTile {
  Value base;
  Value positions;     ///< of all panels' rows, if anybody asks: in scratch
  Value count, padded; ///< of the keys
  Value scale;         ///< what they are to be multiplied with for base 2
  Value infinite;      ///< i1 constant: whether all of a row may be -inf

  auto fields() {
    return std::tie(base, positions, count, padded, scale, infinite);
  }
  /// Whether `scale` is not known to be 1.
  bool isScaled() const;
};

/// `!shed.softmax`: of all panels, offsets in scratch.
struct Softmax {
  Value maximum, sum, context;

  auto fields() { return std::tie(maximum, sum, context); }
};

// `!shed.lse`, of all panels, is an offset in scratch; `!shed.mass` an address.

template <typename Tile> Tile unpack(ValueRange values) {
  Tile tile;
  auto next = values.begin();
  std::apply([&](auto &...field) { ((field = *next++), ...); }, tile.fields());
  return tile;
}
template <typename Tile> SmallVector<Value> pack(Tile tile) {
  return std::apply([](auto &...field) { return SmallVector<Value>{field...}; },
                    tile.fields());
}

class ShedToVectorTypeConverter : public TypeConverter {
public:
  explicit ShedToVectorTypeConverter(MLIRContext *context);
};

//===----------------------------------------------------------------------===//
// Facts of a kernel
//===----------------------------------------------------------------------===//

/// Byte offsets of a kernel's tiles in scratch, each a multiple of 64.
struct ScratchLayout {
  int64_t queries = 0, positions = 0, maximum = 0, sum = 0, context = 0,
          lse = 0, logits = 0, weights = 0, keys = 0, values = 0, spill = 0,
          bytes = 0;
  /// Bytes of one panel's part.
  int64_t queryPanel = 0, rowPanel = 0, contextPanel = 0;
  /// Bytes for each of the n keys; offsets in them, times n.
  int64_t list = 0, pool = 0, perKey = 0;
  /// Likewise, of what each shed.mass_init begins, and of the keys of each list
  /// of blocks.
  llvm::SmallDenseMap<Operation *, int64_t> masses;
  SmallVector<std::pair<shed::KeyEntries, int64_t>> blocks;
};

/// What operations in a region are about.
struct Scope {
  /// Query rows: [row, row + rows) of the compact rows.
  Value row, rows, panels;
  /// A query head, and where its rows and those of its keys lie.
  Value head, queryBase, keyBase, valueBase;
  /// In a pass over keys: a panel of the rows, and how many of its vectors have
  /// some, one or all.
  Value panel;
  int64_t active = 0;
};

/// One kernel: what its tiling says and, once shed.kernel is rewritten, the
/// values of the function.
class VectorKernel {
public:
  explicit VectorKernel(shed::KernelOp kernel);

  const shed::TilingAttr tiling;
  const int64_t channels, panel, vectors, elementBytes;
  const shed::DotKind dot;
  const bool bf16, selects, tiles;
  /// Whether pairs are told apart by their rows' positions.
  const bool masks;
  /// Left operands of one product step are dwords of bf16 pairs.
  const bool paired;
  /// Rows of the transposed queries: channels, or pairs of channels.
  const int64_t steps;
  /// Keys that the weights are padded to.
  const int64_t keyStep;
  const bool writesLse;
  /// Rows that share a list which the kernel writes, and whether heads do.
  const int64_t group;
  const bool sharedLists;
  ScratchLayout layout;

  // Values of the function.
  Value args, task, scratch;
  /// The list that a select kernel writes, which is for so many query heads.
  Value listRow, headsPerList;
  Value n, allRows, places, positions;
  Value queryStride, keyStride, valueStride;
  /// scale * log2(e): folded into Q (fp32), or |.| applied to logits (pairs).
  Value factor;
  /// Bits that flip the sign of a pair of queries where the scale is negative.
  Value querySign;
  Value taskRow, taskEnd;
  /// Keys of lists of blocks.
  std::map<int64_t, KeySource> expanded;

  /// Operations in `block` are about this.
  void enter(Block *block, const Scope &scope) { scopes[block] = scope; }
  /// What the innermost region around an operation is about.
  Scope scopeOf(Operation *op) const;

private:
  void layOut(shed::KernelOp kernel);

  DenseMap<Block *, Scope> scopes;
};

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Writes what an operation of a kernel does, before it.
class KernelBuilder : public VectorBuilder {
public:
  KernelBuilder(Operation *op, ConversionPatternRewriter &rewriter,
                VectorKernel &kernel)
      : VectorBuilder(op->getLoc(), op->getContext(), kernel.tiling.getLanes()),
        k(kernel), rewriter(rewriter), here(kernel.scopeOf(op)) {
    b.setListener(rewriter.getListener());
    b.setInsertionPoint(op);
  }

  VectorKernel &k;
  ConversionPatternRewriter &rewriter;
  Scope here;

  /// From here on, operations in the block at hand are about `here`.
  void enter() { k.enter(b.getInsertionBlock(), here); }
  /// A field of the argument block, or of a structure at an offset in it.
  template <typename Args, typename T>
  Value field(T Args::*member, size_t offset = 0) {
    static const Args args{};
    offset += reinterpret_cast<const char *>(&(args.*member)) -
              reinterpret_cast<const char *>(&args);
    Type type = std::is_pointer_v<T>       ? ptr()
                : std::is_same_v<T, float> ? f32()
                                           : i64();
    return load(type, at(k.args, static_cast<int64_t>(offset)), sizeof(T));
  }
  Value inScratch(int64_t offset) { return at(k.scratch, offset); }
  Value inScratch(Value offset) { return at(k.scratch, offset); }
  /// What the n keys have, `offset` bytes a key behind the tiles.
  Value ofAllKeys(int64_t offset) {
    return at(inScratch(k.layout.bytes), mul(k.n, offset));
  }
  /// A panel's part, by default that of the panel at hand, of what is at an
  /// offset in scratch.
  Value ofPanel(Value offset, int64_t bytes, Value panel = {}) {
    return inScratch(add(mul(panel ? panel : here.panel, bytes), offset));
  }
  /// The logits of the j-th key.
  Value logitsRow(Value logits, Value j) {
    return at(logits, mul(j, k.panel * 4));
  }
  void forPanels(function_ref<void(Value)> body);
  /// The place of a key among the visible positions.
  Value placeOf(const KeySource &source, Value j);
  Value placeOf(const Keys &keys, Value j) {
    return placeOf(keys.source, add(keys.begin, j));
  }
  /// The place of a row of queries among the visible positions.
  Value placeOfRow(Value row);
  /// Where in the sequence a visible position stands.
  Value positionAt(Value place);
  /// The vectors of positions that the rows of the panel at hand have.
  Values positionsOfRows(const LogitTile &logits);
};

/// Writes what `op` does; `in` has the values of its operands, by their names.
template <typename Op> struct Lowering : KernelBuilder {
  using Adaptor = typename OpConversionPattern<Op>::OneToNOpAdaptor;

  Lowering(Op op, Adaptor in, ConversionPatternRewriter &rewriter,
           VectorKernel &kernel)
      : KernelBuilder(op, rewriter, kernel), op(op), in(in) {}

  Op op;
  Adaptor in;
};

/// The values of each result.
using Results = SmallVector<SmallVector<Value>>;

/// The patterns of a kernel, and what they need.
struct VectorPatterns {
  const TypeConverter &converter;
  RewritePatternSet &patterns;
  VectorKernel &kernel;

  /// A pattern for `Op`, which `write` writes.
  template <typename Op>
  void add(Results (*write)(Lowering<Op> &), PatternBenefit benefit = 1) const {
    struct Pattern : OpConversionPattern<Op> {
      Pattern(const VectorPatterns &to, decltype(write) write,
              PatternBenefit benefit)
          : OpConversionPattern<Op>(to.converter, to.patterns.getContext(),
                                    benefit),
            kernel(to.kernel), write(write) {}

      LogicalResult
      matchAndRewrite(Op op, typename Lowering<Op>::Adaptor in,
                      ConversionPatternRewriter &rewriter) const override {
        Lowering<Op> v(op, in, rewriter, kernel);
        Results results = write(v);
        SmallVector<ValueRange> ranges(results.begin(), results.end());
        rewriter.replaceOpWithMultiple(op, ranges);
        return success();
      }

      VectorKernel &kernel;
      decltype(write) write;
    };
    patterns.add<Pattern>(*this, write, benefit);
  }
};

} // namespace mlir::heddle::vectors

namespace mlir::heddle {

/// Adds patterns for all operations of a kernel. Others of more benefit may
/// take their place.
void populateShedToVectorPatterns(const TypeConverter &converter,
                                  RewritePatternSet &patterns,
                                  vectors::VectorKernel &kernel);

/// Makes a function of a kernel by these patterns and those that `more` adds.
/// The dialects of convert-shed-to-vector are to be loaded.
LogicalResult lowerShedToVector(
    shed::KernelOp kernel,
    function_ref<void(const vectors::VectorPatterns &)> more = {});

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_SHEDTOVECTOR_H
