//===- ScoreRegion.cpp - Functions of logits, as regions ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Support/ScoreRegion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;
using bundle::Scores;

static constexpr StringLiteral argumentNames[] = {"logit", "query", "key",
                                                  "head"};

SmallVector<Type> mlir::heddle::scoreArgumentTypes(MLIRContext *context) {
  Type i32 = IntegerType::get(context, 32);
  return {Float32Type::get(context), i32, i32, i32};
}

ParseResult mlir::heddle::parseScoreRegion(OpAsmParser &parser,
                                           Region &region) {
  SmallVector<OpAsmParser::Argument> arguments;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren))
    return failure();
  SmallVector<Type> types = scoreArgumentTypes(parser.getContext());
  if (arguments.empty() || arguments.size() > types.size())
    return parser.emitError(loc, "scores are of (%logit), (%logit, %query), "
                                 "(%logit, %query, %key) or (%logit, %query, "
                                 "%key, %head), found ")
           << arguments.size() << " arguments";
  for (auto [argument, type] : llvm::zip(arguments, types))
    argument.type = type;
  loc = parser.getCurrentLocation();
  if (parser.parseRegion(region, arguments))
    return failure();
  if (region.empty() || region.front().empty())
    return parser.emitError(loc, "expected operations that end in a yield");
  for (Type type : ArrayRef(types).drop_front(arguments.size()))
    region.front().addArgument(type, parser.getEncodedSourceLoc(loc));
  return success();
}

void mlir::heddle::printScoreRegion(OpAsmPrinter &printer, Region &region) {
  ArrayRef<BlockArgument> arguments = region.getArguments();
  while (arguments.size() > 1 && arguments.back().use_empty())
    arguments = arguments.drop_back();
  printer << '(';
  llvm::interleaveComma(arguments, printer,
                        [&](Value value) { printer << value; });
  printer << ") ";
  printer.printRegion(region, /*printEntryBlockArgs=*/false);
}

void mlir::heddle::nameScoreArguments(Region &region,
                                      OpAsmSetValueNameFn setName) {
  if (region.empty())
    return;
  for (auto [argument, name] :
       llvm::zip(region.front().getArguments(), argumentNames))
    setName(argument, name);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
class ScoreReader {
public:
  FailureOr<Scores> read(Region &region);

private:
  LogicalResult readOp(Operation &op);
  LogicalResult readConstant(arith::ConstantOp op, Scores::Node &node);
  LogicalResult readOperand(Operation &op, unsigned i, char letter,
                            Scores::Node &node);

  Scores scores;
  DenseMap<Value, int32_t> numbers;
};
} // namespace

static std::optional<Scores::Type> scoreType(Type type) {
  if (type.isF32())
    return Scores::Type::F32;
  if (type.isInteger(32))
    return Scores::Type::I32;
  if (type.isInteger(1))
    return Scores::Type::I1;
  return std::nullopt;
}

FailureOr<Scores> ScoreReader::read(Region &region) {
  Operation *owner = region.getParentOp();
  if (region.empty())
    return scores;
  Block &block = region.front();
  if (!region.hasOneBlock() ||
      TypeRange(block.getArgumentTypes()) !=
          TypeRange(scoreArgumentTypes(owner->getContext())))
    return owner->emitOpError()
           << "has scores of (" << block.getArgumentTypes()
           << "); expected one block of (f32, i32, i32, i32): the logit, the "
              "positions of query and key, and the head";
  for (auto [i, argument] : llvm::enumerate(block.getArguments()))
    numbers[argument] = static_cast<int32_t>(i);
  for (Operation &op : block.without_terminator())
    if (failed(readOp(op)))
      return failure();
  Operation &yield = block.back();
  if (yield.getNumOperands() != 1 || !yield.getOperand(0).getType().isF32())
    return yield.emitOpError() << "ends scores and yields one f32";
  // The result is the last node: what it does not need is left out, and an
  // input is passed through.
  int32_t result = numbers.lookup(yield.getOperand(0));
  if (result < Scores::inputs) {
    scores = {};
    return scores;
  }
  if (result - Scores::inputs + 1 < static_cast<int32_t>(scores.nodes.size()))
    scores.nodes.resize(static_cast<size_t>(result - Scores::inputs + 1));
  if (std::string problem = bundle::problemOf(scores); !problem.empty())
    return owner->emitOpError() << "has scores that can't be kept: " << problem;
  return scores;
}

LogicalResult ScoreReader::readConstant(arith::ConstantOp op,
                                        Scores::Node &node) {
  if (auto real = dyn_cast<FloatAttr>(op.getValue())) {
    node.real = real.getValue().convertToFloat();
    if (real.getValue().isNaN())
      return op.emitOpError() << "is not a number, which no logit can be";
  } else {
    APInt value = cast<IntegerAttr>(op.getValue()).getValue();
    node.integer = static_cast<int32_t>(
        value.getBitWidth() == 1 ? value.getZExtValue()
                                 : static_cast<uint64_t>(value.getSExtValue()));
  }
  return success();
}

LogicalResult ScoreReader::readOperand(Operation &op, unsigned i, char letter,
                                       Scores::Node &node) {
  Value value = op.getOperand(i);
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  if (i == 1 && constant && isa<arith::DivFOp>(op))
    if (auto real = dyn_cast<FloatAttr>(constant.getValue());
        real && real.getValue().isZero())
      return op.emitOpError() << "divides by zero, which gives no logit; write "
                                 "another constant, such as `arith.constant "
                                 "30.0 : f32`";
  auto known = numbers.find(value);
  if (known == numbers.end())
    return op.emitOpError()
           << "has an operand " << i << " from outside of the scores";
  node.of[i] = known->second;
  if (letter != '+' && letter != 's')
    return success();
  auto number = constant ? dyn_cast<IntegerAttr>(constant.getValue()) : nullptr;
  if (letter == '+' && (!number || number.getInt() < 1))
    return op.emitOpError() << "divides positions by what is no positive "
                               "constant; write one, such as `arith.constant "
                               "64 : i32`";
  if (letter == 's' && (!number || number.getInt() < 0 || number.getInt() > 31))
    return op.emitOpError()
           << "shifts by what is no constant from 0 to 31; write one";
  return success();
}

LogicalResult ScoreReader::readOp(Operation &op) {
  std::optional<Scores::Op> kind =
      bundle::scoreOp(op.getName().getStringRef().str());
  if (!kind) {
    InFlightDiagnostic error = op.emitOpError()
                               << "has no place in scores, which are made of";
    for (size_t i = 0; i <= static_cast<size_t>(Scores::Op::Tanh); ++i) {
      auto each = static_cast<Scores::Op>(i);
      error << (i ? ", " : " ") << bundle::dialectOf(each) << '.'
            << bundle::nameOf(each);
    }
    return error;
  }
  Scores::Node node;
  node.op = *kind;
  for (Type type : op.getOperandTypes())
    if (!scoreType(type))
      return op.emitOpError()
             << "reads " << type << "; scores compute in f32, i32 and i1";
  if (op.getNumResults() != 1 || !scoreType(op.getResult(0).getType()))
    return op.emitOpError() << "gives " << op.getResultTypes()
                            << "; scores compute in f32, i32 and i1";
  node.type = *scoreType(op.getResult(0).getType());
  StringRef signature(bundle::signatureOf(*kind).data(),
                      bundle::signatureOf(*kind).size());
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    node.predicate = static_cast<int32_t>(compare.getPredicate());
  else if (auto compare = dyn_cast<arith::CmpIOp>(op))
    node.predicate = static_cast<int32_t>(compare.getPredicate());
  else if (auto constant = dyn_cast<arith::ConstantOp>(op);
           constant && failed(readConstant(constant, node)))
    return failure();
  signature = signature.drop_front();
  signature.consume_front("p");
  signature.consume_front("c");
  for (auto [i, letter] : llvm::enumerate(signature)) {
    if (failed(readOperand(op, i, letter, node)))
      return failure();
    // What the dialect lets pass on other types than ours.
    Type type = op.getOperand(i).getType();
    if ((letter == 'i' || letter == '+' || letter == 's') &&
        !type.isInteger(32))
      return op.emitOpError() << "reads " << type << "; expected i32";
    if (letter == 'b' && !type.isInteger(1))
      return op.emitOpError() << "reads " << type << "; expected i1";
  }
  if (scores.nodes.size() == Scores::maxNodes)
    return op.emitOpError() << "is one operation too many; scores have at most "
                            << Scores::maxNodes;
  numbers[op.getResult(0)] =
      Scores::inputs + static_cast<int32_t>(scores.nodes.size());
  scores.nodes.push_back(node);
  return success();
}

FailureOr<Scores> mlir::heddle::readScores(Region &region) {
  return ScoreReader().read(region);
}

Scores mlir::heddle::scoresOf(Region &region) {
  FailureOr<Scores> scores = readScores(region);
  assert(succeeded(scores) && "an op's verifier reads its scores");
  return *scores;
}
