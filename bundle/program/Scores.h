//===- Scores.h - What becomes of logits before the softmax -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A schedule may state a function of (logit, query, key, head) that takes the
// place of the logit: a soft cap, a bias by distance, a mask (minus infinity).
// A bundle keeps it as the list of its operations, so that whoever holds a
// bundle can check its code against the function without a compiler.
//
// Worked example: `30 * tanh(logit / 30)` is
//   [["constant", "f32", 30.0], ["divf", 0, 4], ["tanh", 5], ["mulf", 4, 6]]
// Values 0 to 3 are the logit and the positions of query and key and the query
// head; value 4 + i is what node i gives. The last node is the result.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_SCORES_H
#define HEDDLE_BUNDLE_PROGRAM_SCORES_H

#include "bundle/Result.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bundle {

/// The operations: HEDDLE_SCORE_OP(Kind, dialect, name, signature). In a
/// signature the result stands first; f is f32, i is i32, b is i1, and x is
/// any one of them, p is the predicate of a comparison, c a constant.
/// Positive constants alone may divide (`+`), constants below 32 alone may
/// shift (`s`): anything else would be undefined for some positions.
#define HEDDLE_SCORE_OPS(HEDDLE_SCORE_OP)                                      \
  HEDDLE_SCORE_OP(Constant, "arith", "constant", "xc")                         \
  HEDDLE_SCORE_OP(AddF, "arith", "addf", "fff")                                \
  HEDDLE_SCORE_OP(SubF, "arith", "subf", "fff")                                \
  HEDDLE_SCORE_OP(MulF, "arith", "mulf", "fff")                                \
  HEDDLE_SCORE_OP(DivF, "arith", "divf", "fff")                                \
  HEDDLE_SCORE_OP(NegF, "arith", "negf", "ff")                                 \
  HEDDLE_SCORE_OP(MaxF, "arith", "maximumf", "fff")                            \
  HEDDLE_SCORE_OP(MinF, "arith", "minimumf", "fff")                            \
  HEDDLE_SCORE_OP(MaxNumF, "arith", "maxnumf", "fff")                          \
  HEDDLE_SCORE_OP(MinNumF, "arith", "minnumf", "fff")                          \
  HEDDLE_SCORE_OP(CmpF, "arith", "cmpf", "bpff")                               \
  HEDDLE_SCORE_OP(CmpI, "arith", "cmpi", "bpii")                               \
  HEDDLE_SCORE_OP(Select, "arith", "select", "xbxx")                           \
  HEDDLE_SCORE_OP(AddI, "arith", "addi", "iii")                                \
  HEDDLE_SCORE_OP(SubI, "arith", "subi", "iii")                                \
  HEDDLE_SCORE_OP(MulI, "arith", "muli", "iii")                                \
  HEDDLE_SCORE_OP(DivI, "arith", "divsi", "ii+")                               \
  HEDDLE_SCORE_OP(RemI, "arith", "remsi", "ii+")                               \
  HEDDLE_SCORE_OP(ShL, "arith", "shli", "iis")                                 \
  HEDDLE_SCORE_OP(ShR, "arith", "shrsi", "iis")                                \
  HEDDLE_SCORE_OP(And, "arith", "andi", "xxx")                                 \
  HEDDLE_SCORE_OP(Or, "arith", "ori", "xxx")                                   \
  HEDDLE_SCORE_OP(XOr, "arith", "xori", "xxx")                                 \
  HEDDLE_SCORE_OP(MaxI, "arith", "maxsi", "iii")                               \
  HEDDLE_SCORE_OP(MinI, "arith", "minsi", "iii")                               \
  HEDDLE_SCORE_OP(ToFloat, "arith", "sitofp", "fi")                            \
  HEDDLE_SCORE_OP(Extend, "arith", "extui", "ib")                              \
  HEDDLE_SCORE_OP(AbsF, "math", "absf", "ff")                                  \
  HEDDLE_SCORE_OP(AbsI, "math", "absi", "ii")                                  \
  HEDDLE_SCORE_OP(Fma, "math", "fma", "ffff")                                  \
  HEDDLE_SCORE_OP(Exp, "math", "exp", "ff")                                    \
  HEDDLE_SCORE_OP(Exp2, "math", "exp2", "ff")                                  \
  HEDDLE_SCORE_OP(Log, "math", "log", "ff")                                    \
  HEDDLE_SCORE_OP(Log2, "math", "log2", "ff")                                  \
  HEDDLE_SCORE_OP(Sqrt, "math", "sqrt", "ff")                                  \
  HEDDLE_SCORE_OP(Tanh, "math", "tanh", "ff")

/// A function of one pair's scaled logit (natural: scale * Q . K), the
/// positions of its query and its key in the sequence and its query head.
struct Scores {
  enum class Op {
#define HEDDLE_SCORE_OP(kind, dialect, name, signature) kind,
    HEDDLE_SCORE_OPS(HEDDLE_SCORE_OP)
#undef HEDDLE_SCORE_OP
  };
  enum class Type : uint8_t { F32, I32, I1 };
  /// Comparisons, numbered as MLIR's `arith` has them.
  using Predicate = int32_t;

  struct Node {
    Op op = Op::Constant;
    Type type = Type::F32;                    ///< of the result
    Predicate predicate = 0;                  ///< CmpF, CmpI
    int32_t integer = 0;                      ///< Constant of I32 and I1
    float real = 0;                           ///< Constant of F32; no NaN
    std::array<int32_t, 3> of = {-1, -1, -1}; ///< values, lower than own
    bool operator==(const Node &) const = default;
  };
  /// Values 0 to 3.
  enum Input : int32_t { Logit, Query, Key, Head };
  static constexpr int32_t inputs = 4;
  static constexpr size_t maxNodes = 256;

  std::vector<Node> nodes; ///< none: logits stay as they are

  bool empty() const { return nodes.empty(); }
  /// Whether the result depends on an input.
  bool uses(Input input) const;
  bool usesPositions() const { return uses(Query) || uses(Key); }
  /// The type of a value; I32 if there is no such node.
  Type typeOf(int32_t value) const;
  /// Whether some node is `op`.
  bool has(Op op) const;
  bool operator==(const Scores &) const = default;
};

/// What a type is called: "f32".
std::string_view nameOf(Scores::Type type);
/// Name and signature of an operation, see HEDDLE_SCORE_OPS; its full name is
/// "arith.addf".
std::string_view nameOf(Scores::Op op);
std::string_view signatureOf(Scores::Op op);
std::string_view dialectOf(Scores::Op op);
/// None where there is no operation of this full name ("arith.addf").
std::optional<Scores::Op> scoreOp(std::string_view fullName);
/// "olt", "sle", ...: the predicates of CmpF and of CmpI.
std::string_view predicateName(Scores::Op op, Scores::Predicate predicate);
std::optional<Scores::Predicate> predicateOf(Scores::Op op,
                                             std::string_view name);

/// Why the nodes make no function, or "": operands of other types than the
/// signatures say, of later nodes, a result that is no f32.
std::string problemOf(const Scores &scores);

/// The function in float64, positions in 32-bit integers that wrap: what
/// every kernel computes in fp32. `scores` has no problemOf().
double evaluate(const Scores &scores, double logit, int32_t query, int32_t key,
                int32_t head);

/// "mulf(30, tanh(divf(logit, 30)))", or how many operations there are if that
/// is long.
std::string toString(const Scores &scores);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_SCORES_H
