//===- PairSets.cpp - What each set of pairs is on tiles ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only place of the compiler that tells sets apart. bundle/program/
// PairSets.h says what they mean; conformance holds both together.
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/IR/Shed.h"

#include "bundle/program/Manifest.h"

#include "llvm/ADT/APInt.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace mlir::shed;

using ::heddle::bundle::Term;
using EmitError = function_ref<InFlightDiagnostic()>;

#include "heddle/Dialect/Shed/IR/ShedAttrInterfaces.cpp.inc"

std::optional<KeyEntries> mlir::shed::entriesOf(Attribute set) {
  auto keys = dyn_cast<KeySet>(set);
  return keys ? keys.getEntries() : std::nullopt;
}

/// The set of a term, whatever it is within.
static KeySet ownSetOf(MLIRContext *context, const Term &term, int64_t list,
                       int64_t group) {
  switch (term.kind) {
  case Term::Kind::Columns:
    return ListAttr::get(context, list, group);
  case Term::Kind::Blocks:
    return BlocksAttr::get(context, list, group);
  case Term::Kind::Window:
    return WindowAttr::get(context, term.size, term.dilation);
  case Term::Kind::Sinks:
    return SinksAttr::get(context, ::heddle::bundle::isShareOfSinks(term)
                                       ? ShapedType::kDynamic
                                       : term.size);
  case Term::Kind::RandomBlocks:
    return RandomBlocksAttr::get(context, term.oneIn, term.size, term.seed);
  case Term::Kind::Others:
    return OthersAttr::get(context);
  }
  llvm_unreachable("unknown set of pairs");
}

KeySet mlir::shed::keySetOf(MLIRContext *context, const Term &term,
                            int64_t list, int64_t group) {
  KeySet own = ownSetOf(context, term, list, group);
  if (own.getEntries() || term.within.empty())
    return own;
  SmallVector<KeySet> sets = {own};
  for (const Term &each : term.within)
    sets.push_back(ownSetOf(context, each, 0, 0));
  return BothAttr::get(context, sets);
}

KeySet mlir::shed::boundSetOf(MLIRContext *context, const Term &term) {
  if (term.within.empty())
    return {};
  KeySet bound = keySetOf(context, boundOf(term), 0, 0);
  return bound.isUniform() ? BothAttr::get(context, bound) : bound;
}

Value PairArithmetic::integer(int64_t value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr number = b.getIntegerAttr(element, value);
  if (auto vector = dyn_cast<VectorType>(type))
    number = DenseElementsAttr::get(vector, Attribute(number));
  return arith::ConstantOp::create(b, number);
}

/// The numbers of a set have the ranges that bundle::SetNumber says.
static LogicalResult checkNumbers(EmitError emitError, const Term &term) {
  for (const auto &number : numbersOf(term.kind))
    if (int64_t value = term.*number.number;
        value < number.least || value > number.most)
      return emitError() << "the " << number.name << " of "
                         << StringRef(
                                ::heddle::bundle::setNames()[size_t(term.kind)])
                         << " is from " << number.least << " to " << number.most
                         << ", not " << value;
  return success();
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// How far keys are at most: some dilations. No sequence is as long as a window
/// of 2^30 keys.
static int64_t reachOf(WindowAttr window) {
  const int64_t most = (int64_t(1) << 29) / window.getDilation();
  return std::min(window.getSize() / 2, most) * window.getDilation();
}

LogicalResult WindowAttr::verify(EmitError emitError, int64_t size,
                                 int64_t dilation) {
  return checkNumbers(
      emitError,
      {.kind = Term::Kind::Window, .size = size, .dilation = dilation});
}

std::optional<Term> WindowAttr::getTerm() const {
  return Term{
      .kind = Term::Kind::Window, .size = getSize(), .dilation = getDilation()};
}

bool WindowAttr::isUniform() const { return false; }
bool WindowAttr::isShort() const { return true; }
bool WindowAttr::hasGaps() const { return getDilation() > 1; }

PositionRange WindowAttr::getKeys(PairArithmetic &a, Value first,
                                  Value last) const {
  const int64_t reach = reachOf(*this);
  return {a.add(first, -reach), a.add(last, reach + 1)};
}

PositionRange WindowAttr::getCommonKeys(PairArithmetic &a, Value first,
                                        Value last) const {
  return getKeys(a, last, first);
}

/// |i - j| <= r is one unsigned comparison: i + r - j <= 2r. With gaps of
/// d = 2^t u, u odd, it is one of (i + r - j) / d: times the inverse of u in
/// words of 32 bits and rotated by t bits, multiples of d are divided by it,
/// and every other number becomes one above them.
Value WindowAttr::keeps(PairArithmetic &a, Value query, Value key) const {
  const auto dilation = static_cast<uint32_t>(getDilation());
  const int64_t reach = reachOf(*this);
  const int twos = llvm::countr_zero(dilation);
  const auto inverse = static_cast<int32_t>(
      APInt(32, dilation >> twos).multiplicativeInverse().getZExtValue());
  Value end = a.add(query, reach);
  // Each factor for itself, since rows and keys have few numbers.
  if (inverse != 1) {
    end = a.mul(end, inverse);
    key = a.mul(key, inverse);
  }
  Value steps = a.sub(end, key);
  if (twos > 0)
    steps = a.either(
        a.quotient(steps, int64_t(1) << twos),
        a.mul(steps, static_cast<int32_t>(uint32_t(1) << (32 - twos))));
  return a.compare(PairArithmetic::Predicate::ule, steps, 2 * reach / dilation);
}

//===----------------------------------------------------------------------===//
// Sinks
//===----------------------------------------------------------------------===//

LogicalResult SinksAttr::verify(EmitError emitError, int64_t size) {
  return success(ShapedType::isDynamic(size) ||
                 succeeded(checkNumbers(
                     emitError, {.kind = Term::Kind::Sinks, .size = size})));
}

std::optional<Term> SinksAttr::getTerm() const {
  if (ShapedType::isDynamic(getSize()))
    return std::nullopt;
  return Term{.kind = Term::Kind::Sinks, .size = getSize()};
}

bool SinksAttr::isShort() const { return !ShapedType::isDynamic(getSize()); }

PositionRange SinksAttr::getKeys(PairArithmetic &a, Value, Value) const {
  if (ShapedType::isDynamic(getSize()))
    return {Value(), a.told()};
  return {Value(), a.integer(std::min<int64_t>(
                       getSize(), std::numeric_limits<int32_t>::max()))};
}

Value SinksAttr::keeps(PairArithmetic &a, Value, Value key) const {
  return a.compare(PairArithmetic::Predicate::slt, key, getKeys(a, {}, {}).end);
}

//===----------------------------------------------------------------------===//
// Random blocks
//===----------------------------------------------------------------------===//

LogicalResult RandomBlocksAttr::verify(EmitError emitError, int64_t oneIn,
                                       int64_t size, int64_t seed) {
  return checkNumbers(emitError, {.kind = Term::Kind::RandomBlocks,
                                  .size = size,
                                  .oneIn = oneIn,
                                  .seed = seed});
}

std::optional<Term> RandomBlocksAttr::getTerm() const {
  return Term{.kind = Term::Kind::RandomBlocks,
              .size = getSize(),
              .oneIn = getOneIn(),
              .seed = getSeed()};
}

bool RandomBlocksAttr::isUniform() const { return false; }
bool RandomBlocksAttr::isSparse() const { return true; }
bool RandomBlocksAttr::hasGaps() const { return true; }

/// Whether a block of keys is the one of its strip that is drawn, for a block
/// of queries: bundle::RandomBlocksSet::drawn, in words of 32 bits.
static Value isDrawn(RandomBlocksAttr set, PairArithmetic &a, Value queries,
                     Value keys) {
  auto word = [](uint32_t number) { return static_cast<int32_t>(number); };
  Value strip = a.quotient(keys, set.getOneIn());
  Value x =
      a.add(a.mul(queries, word(0x85ebca77u)), a.mul(strip, word(0xc2b2ae3du)));
  x = a.add(x, word(static_cast<uint32_t>(set.getSeed()) * 0x9e3779b9u));
  x = a.mul(a.mix(x, 16), word(0x85ebca6bu));
  x = a.mul(a.mix(x, 13), word(0xc2b2ae35u));
  return a.compare(PairArithmetic::Predicate::eq,
                   a.remainder(a.mix(x, 16), set.getOneIn()),
                   a.remainder(keys, set.getOneIn()));
}

Value RandomBlocksAttr::keeps(PairArithmetic &a, Value query, Value key) const {
  return isDrawn(*this, a, a.quotient(query, getSize()),
                 a.quotient(key, getSize()));
}

/// Rows of one block and keys of at most two ask for each of these; there is no
/// saying for more.
Value RandomBlocksAttr::keepsSome(PairArithmetic &a, PositionRange rows,
                                  PositionRange keys) const {
  using Predicate = PairArithmetic::Predicate;
  Value queries = a.quotient(rows.begin, getSize());
  Value first = a.quotient(keys.begin, getSize());
  Value last = a.quotient(a.add(keys.end, -1), getSize());
  Value many = a.either(a.compare(Predicate::ne, queries,
                                  a.quotient(a.add(rows.end, -1), getSize())),
                        a.compare(Predicate::ugt, a.sub(last, first), 1));
  return a.either(many, a.either(isDrawn(*this, a, queries, first),
                                 isDrawn(*this, a, queries, last)));
}

//===----------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------===//

std::optional<Term> OthersAttr::getTerm() const {
  return Term{.kind = Term::Kind::Others};
}

bool OthersAttr::isUniform() const { return false; }
bool OthersAttr::hasGaps() const { return true; }

Value OthersAttr::keeps(PairArithmetic &a, Value query, Value key) const {
  return a.compare(PairArithmetic::Predicate::ne, query, key);
}

//===----------------------------------------------------------------------===//
// Intersections
//===----------------------------------------------------------------------===//

LogicalResult BothAttr::verify(EmitError emitError, ArrayRef<KeySet> sets) {
  if (sets.empty())
    return emitError() << "an intersection is of at least one set";
  for (KeySet set : sets)
    if (!set.getTerm() || isa<BothAttr>(set))
      return emitError() << "an intersection is of windows, sinks whose number "
                            "is known and the like, not of "
                         << set;
  return success();
}

bool BothAttr::isUniform() const { return false; }
bool BothAttr::isShort() const {
  return llvm::any_of(getSets(), [](KeySet set) { return set.isShort(); });
}
bool BothAttr::isSparse() const {
  return llvm::any_of(getSets(), [](KeySet set) { return set.isSparse(); });
}
bool BothAttr::hasGaps() const {
  return llvm::any_of(getSets(), [](KeySet set) { return set.hasGaps(); });
}

std::optional<Term> BothAttr::getTerm() const {
  Term term = *getSets().front().getTerm();
  for (KeySet set : getSets().drop_front())
    term.within.push_back(*set.getTerm());
  return term;
}

/// A range without keys ends where it begins, so that none has fewer than none.
PositionRange BothAttr::getKeys(PairArithmetic &a, Value first,
                                Value last) const {
  PositionRange both;
  for (KeySet set : getSets()) {
    PositionRange keys = set.getKeys(a, first, last);
    if (keys.begin)
      both.begin = both.begin ? a.greatest(both.begin, keys.begin) : keys.begin;
    if (keys.end)
      both.end = both.end ? a.least(both.end, keys.end) : keys.end;
  }
  if (both.begin && both.end)
    both.end = a.greatest(both.begin, both.end);
  return both;
}

PositionRange BothAttr::getCommonKeys(PairArithmetic &a, Value first,
                                      Value last) const {
  PositionRange both;
  for (KeySet set : getSets()) {
    PositionRange keys = set.getCommonKeys(a, first, last);
    if (keys.begin)
      both.begin = both.begin ? a.greatest(both.begin, keys.begin) : keys.begin;
    if (keys.end)
      both.end = both.end ? a.least(both.end, keys.end) : keys.end;
  }
  return both;
}

Value BothAttr::keeps(PairArithmetic &a, Value query, Value key) const {
  Value kept;
  for (KeySet set : getSets()) {
    Value one = set.keeps(a, query, key);
    kept = kept ? a.both(kept, one) : one;
  }
  return kept;
}

Value BothAttr::keepsSome(PairArithmetic &a, PositionRange rows,
                          PositionRange keys) const {
  Value some;
  for (KeySet set : getSets())
    if (Value one = set.keepsSome(a, rows, keys))
      some = some ? a.both(some, one) : one;
  return some;
}

//===----------------------------------------------------------------------===//
// Index lists
//===----------------------------------------------------------------------===//

LogicalResult ListAttr::verify(EmitError emitError, int64_t index,
                               int64_t group) {
  if (index < 0)
    return emitError() << "a list's index is at least 0, not " << index;
  if (group < 1)
    return emitError() << "a list's group has at least 1 row, not " << group;
  return success();
}

std::optional<KeyEntries> ListAttr::getEntries() const {
  return KeyEntries{getIndex(), getGroup(), 0};
}

LogicalResult BlocksAttr::verify(EmitError emitError, int64_t index,
                                 int64_t size) {
  if (index < 0)
    return emitError() << "a list's index is at least 0, not " << index;
  // As many rows share a list, and no group has more.
  if (size < 1 || size > ::heddle::bundle::maxGroup)
    return emitError() << "a block has 1 to " << ::heddle::bundle::maxGroup
                       << " keys, not " << size;
  return success();
}

std::optional<KeyEntries> BlocksAttr::getEntries() const {
  return KeyEntries{getIndex(), getSize(), getSize()};
}
