//===- Clauses.h - What ops of schedules say, stated once -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The form of an op and its clauses, in the order in which they are printed.
// What reads and writes them (Forms.h) goes by it. The numbers of each,
// with their names and ranges, are those of the manifest, which states them
// (bundle/format/ManifestFields.h).
//
//   v.clause("revoke", is, state)  `revoke(...)`, with what `state` says of v
//   v.clause("alone", is)          a word
//   v.says(x.kind, one)            what the clause says by itself
//   v.flag("propagating", x.kind, one)  the same of one of its words
//   v.operand("of")                `of %set`
//   v.value("among")               an argument that is a value
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_IR_CLAUSES_H
#define HEDDLE_LIB_DIALECT_HEDDLE_IR_CLAUSES_H

#include "Forms.h"

namespace mlir::heddle {

template <typename V, typename T>
using Heard = ::heddle::bundle::detail::In<V, T>;

/// `columns(keep = 0.2, group = 128)`
template <typename V>
void formOf(V &v, Heard<V, ::heddle::bundle::Selection> &x) {
  v("kind", x.kind, ::heddle::bundle::detail::Kind{});
  const bool blocks = x.kind == SelectionKind::Blocks;
  v.share("keep", "the number that is kept", x.count, x.keep);
  v.group(blocks ? "size" : "group", x.group, blocks);
  v.word("rounding", x.rule,
         "rounding is floor, ceil, round or floor_plus_one");
  if (!blocks) {
    v.flag("per_kv_head", x.perKvHead);
    v.flag("per_layer", x.perLayer);
  }
}

/// What follows behind its scorer. Which of it columns or blocks alone can is
/// checkForm()'s to say.
template <typename V>
void clausesOf(V &v, Heard<V, ::heddle::bundle::Selection> &x) {
  v.clause("isolating", x.isolation != Isolation::None, [&x](auto &v) {
    v.loneWord(x.isolation, /*first=*/1,
               "spans are isolated as spans, aligned or filtered");
  });
  v.clause("scaled_by", x.scale != Scale::HeadDim, [&x](auto &v) {
    v.loneWord(x.scale, /*first=*/0, "scores are scaled by head_dim or heads");
  });
  v.clause("pooled", x.pooled > 0, [&x](auto &v) { v.pooled(x.pooled); });
  v.operand("of");
  v.operand("always");
  v.operand("within");
  v.operand("on", /*required=*/true);
  v.operand("in");
}

template <typename V>
void clausesOf(V &v, Heard<V, ::heddle::bundle::Pass> &x) {
  v.clause("alone", x.alone);
  v.clause("unseen", x.unseen);
  v.operand("on");
  v.operand("in");
}

template <typename V>
void clausesOf(V &v, Heard<V, ::heddle::bundle::CommitRule> &x) {
  namespace detail = ::heddle::bundle::detail;
  if (v.takes("within"))
    v.clause("within", true, [](auto &v) { v.loneValue("within"); });
  v.operand("on");
  v.clause("near", x.lifts(), [&x](auto &v) {
    v("deviation", x.near,
      detail::Lone{detail::Range{1, ::heddle::bundle::maxNear}});
  });
  v.clause("at_most", x.isLimited(), [&x](auto &v) { detail::limiting(v, x); });
  v.clause("revoke", x.revokes(), [&x](auto &v) {
    detail::revoking(v, x);
    v.word("by", x.revokeBy, "tokens are revoked by row or shadow");
    v.word("fewer_than", x.revokeFewerThan,
           "fewer tokens are revoked than the step or step_before commits");
  });
  v.clause("edit", x.edits(), [&x](auto &v) { detail::editing(v, x); });
  v.clause("renoise", x.renoises);
  v.clause("passes", x.leastPasses != 1,
           [&x](auto &v) { detail::lasting(v, x); });
  v.clause("verify", x.verifies(), [&x](auto &v) { detail::drafting(v, x); });
  v.clause("stop", x.stopAtEos, [&x](auto &v) {
    v.needed("eos", x.stopAtEos);
    v.flag("narrowing", x.narrows);
  });
}

/// `beforeRope`: whether keys are kept before RoPE, where that can be said.
template <typename V>
void clausesOf(V &v, Heard<V, ::heddle::bundle::Reuse> &x,
               Heard<V, bool> *beforeRope) {
  v.clause("kv", x.kv, [beforeRope](auto &v) {
    if (beforeRope)
      v.flag("before_rope", *beforeRope);
  });
  v.clause("context", x.keepsContext(), [&x](auto &v) {
    v.says(x.attention, ReusedAttention::Context);
    v.flag("propagating", x.attention, ReusedAttention::Propagated);
  });
  v.clause("output", x.attention == ReusedAttention::Output,
           [&x](auto &v) { v.says(x.attention, ReusedAttention::Output); });
  v.clause("attention", x.attention == ReusedAttention::Outside, [&x](auto &v) {
    v.says(x.attention, ReusedAttention::Outside);
    v.value("outside");
    v.value("on");
    v.value("refresh", /*required=*/false);
  });
  v.clause("ffn", x.ffn);
}

/// `(group = 128, per_kv_head)` of a kernel that selects.
template <typename V> void formOf(V &v, Heard<V, ::heddle::bundle::Kernel> &x) {
  // Which of the two is written says whether it is of blocks.
  v.says(x.blocks, v.has("blocks", x.blocks));
  v.group(x.blocks ? "blocks" : "group", x.group, x.blocks);
  if (!x.blocks) {
    v.flag("per_kv_head", x.perKvHead);
    v.flag("per_layer", x.perLayer);
  }
}

template <typename V>
void clausesOf(V &v, Heard<V, ::heddle::bundle::Kernel> &x) {
  if (x.blocks)
    return;
  v.clause("pooled", x.pooled > 0, [&x](auto &v) { v.pooled(x.pooled); });
  v.operand("within");
}

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_IR_CLAUSES_H
