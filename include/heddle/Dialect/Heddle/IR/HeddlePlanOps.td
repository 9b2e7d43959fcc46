//===- HeddlePlanOps.td - The plan level ---------------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Mirrors bundle/program/Manifest.h one to one.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEPLANOPS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEPLANOPS_TD

include "heddle/Dialect/Heddle/IR/HeddleAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Heddle_Op<string mnemonic, list<Trait> traits = []>
    : Op<Heddle_Dialect, mnemonic, traits>;

def Heddle_PlanOp : Heddle_Op<"plan", [
    IsolatedFromAbove, NoRegionArguments, NoTerminator, SingleBlock, Symbol,
    SymbolTable]> {
  let summary = "a step program and the kernels that it runs";
  let description = [{
    Holds `heddle.selection`s, `heddle.kernel`s and `heddle.rule`s, in any order.
    Exactly one rule is the default; the others name disjoint ranges of layers.

    What all layers have in common stands beside them: `heddle.position_set`s,
    at most one `heddle.visible_set`, the `heddle.pass`es and the
    `heddle.commit_rule`s in their order, and at most one `heddle.reuse`.

    ```mlir
    heddle.plan @pulsecol {
      heddle.selection @cols columns(keep = 0.2, group = 128) by mean_probability
          on uniform(window = 0.3, count = 16)
      heddle.kernel @attention_dense_lse attention dense writes_lse
      heddle.kernel @select_128 select(group = 128) by mean_probability
      heddle.kernel @attention_cols attention [columns(@cols, group = 128)]
      heddle.rule default {
        heddle.phase on uniform(window = 0.3, count = 16) {
          heddle.attend_with @attention_dense_lse
          heddle.refresh @cols with @select_128
        }
        heddle.phase otherwise {
          heddle.attend_with @attention_cols
        }
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $bodyRegion";
  let hasRegionVerifier = 1;
}

def Heddle_SelectionOp : Heddle_Op<"selection", [
    HasParent<"::mlir::heddle::PlanOp">, Symbol]> {
  let summary = "a set of key columns or blocks kept per layer, sequence and head";
  let description = [{
    For each query head (with `per_kv_head`: each key/value head) and each group
    of `group` consecutive query rows of a sequence, the `keep * n` keys, or
    blocks of `group` keys, of largest score. Its contents outlive a step;
    `heddle.refresh` refreshes them.

    ```mlir
    heddle.selection @cols columns(keep = 0.2, group = 128) by mean_probability
        on uniform(window = 0.3, count = 16)
    heddle.selection @tiles blocks(keep = 0.3, size = 128) by mean_probability
        isolating(spans) on at(0.2)
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       DefaultValuedAttr<Heddle_SelectionKindAttr, "SelectionKind::Columns">:$kind,
                       Heddle_RatioAttr:$keep,
                       DefaultValuedAttr<Heddle_KeepRuleAttr, "KeepRule::Floor">:$rounding,
                       I64Attr:$group,
                       UnitAttr:$per_kv_head,
                       Heddle_ScorerAttr:$scorer,
                       DefaultValuedAttr<Heddle_IsolationAttr, "Isolation::None">:$isolation,
                       DefaultValuedAttr<Heddle_ScaleAttr, "Scale::HeadDim">:$scale,
                       Heddle_CadenceAttr:$cadence);
  let assemblyFormat = [{
    $sym_name custom<Selected>($kind, $keep, $group, $rounding, $per_kv_head)
    `by` custom<Scored>($scorer, $isolation, $scale)
    `on` custom<Cadence>($cadence) attr-dict
  }];
  let hasVerifier = 1;
}

def Heddle_KernelOp : Heddle_Op<"kernel", [
    HasParent<"::mlir::heddle::PlanOp">, IsolatedFromAbove, Symbol,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a kernel that the plan needs";
  let description = [{
    An `attention` kernel computes attention over the union of its terms, each
    pair once; no terms mean all pairs. With `writes_lse` it also writes the
    log-sum-exp of each row. A `select` kernel scores every key for each group
    of rows and keeps the best; with `blocks` the best blocks of as many keys as
    the group has rows, with `per_kv_head` for all query heads of a key/value
    head together. Both take `scores` as `attend` does.

    ```mlir
    heddle.kernel @all attention dense writes_lse
    heddle.kernel @mixed attention [columns(@cols, group = 128), window(256), sinks(4)]
    heddle.kernel @first attention [window(256), sinks(0.1)]
    heddle.kernel @tiled attention [blocks(@tiles, size = 128)]
    heddle.kernel @pick select(group = 128) by mean_probability
    heddle.kernel @pick_shared select(group = 128, per_kv_head) by mean_probability
    heddle.kernel @pick_blocks select(blocks = 128) by mean_probability
    heddle.kernel @near attention dense scores(%logit, %query, %key) {
      %ahead = arith.cmpi sgt, %key, %query : i32
      %none = arith.constant 0xFF800000 : f32
      %causal = arith.select %ahead, %none, %logit : f32
      heddle.yield %causal
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       Heddle_KernelKindAttr:$kind,
                       DefaultValuedAttr<Heddle_TermArrayAttr, "{}">:$terms,
                       UnitAttr:$writes_lse,
                       OptionalAttr<I64Attr>:$group,
                       UnitAttr:$blocks,
                       UnitAttr:$per_kv_head,
                       OptionalAttr<Heddle_ScorerAttr>:$scorer);
  let regions = (region AnyRegion:$scores);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    bool isAttention() { return getKind() == KernelKind::Attention; }
    bool isSelect() { return getKind() == KernelKind::Select; }
    /// An attention kernel over all pairs.
    bool isDense() { return isAttention() && getTerms().empty(); }
  }];
}

def Heddle_YieldOp : Heddle_Op<"yield", [
    Pure, Terminator,
    ParentOneOf<["::mlir::heddle::AttendOp", "::mlir::heddle::KernelOp"]>]> {
  let summary = "the logit that the softmax gets";
  let arguments = (ins F32:$logit);
  let assemblyFormat = "$logit attr-dict";
}

def Heddle_RuleOp : Heddle_Op<"rule", [
    HasParent<"::mlir::heddle::PlanOp">, NoRegionArguments, NoTerminator,
    SingleBlock]> {
  let summary = "the phases of a range of layers";
  let description = [{
    The first phase whose condition holds at a step is the one that runs. The
    last phase is `otherwise`, so the phases partition the steps. A rule without
    `layers` is the default: it takes every layer that no other rule names.

    ```mlir
    heddle.rule default {...}
    heddle.rule layers(-2 to -1) {...}
    ```
  }];
  let arguments = (ins OptionalAttr<Heddle_LayerRangeAttr>:$layers);
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = "custom<RuleLayers>($layers) attr-dict-with-keyword $bodyRegion";
  let extraClassDeclaration = [{
    bool isDefault() { return !getLayersAttr(); }
  }];
}

def Heddle_PhaseOp : Heddle_Op<"phase", [
    HasParent<"::mlir::heddle::RuleOp">, NoRegionArguments, NoTerminator,
    SingleBlock]> {
  let summary = "what a layer does in some of the steps";
  let description = [{
    One `heddle.attend_with`, then any number of `heddle.refresh`; or a
    `heddle.score_with`, refreshes and the `heddle.attend_with`. The condition
    is `on` a cadence (the step is one of its), `before` a cadence (none of its
    steps has come yet) or `otherwise`.

    ```mlir
    heddle.phase before at(0.2) {
      heddle.attend_with @attention_dense
    }
    ```
  }];
  let arguments = (ins Heddle_WhenKindAttr:$when,
                       OptionalAttr<Heddle_CadenceAttr>:$cadence);
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = "custom<When>($when, $cadence) attr-dict-with-keyword $bodyRegion";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The phase's one attention.
    AttendWithOp getAttention();
    /// The attention that refreshes before it are scored by, if they are.
    ScoreWithOp getScoring();
  }];
}

def Heddle_AttendWithOp : Heddle_Op<"attend_with", [
    HasParent<"::mlir::heddle::PhaseOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs an attention kernel; its output is the layer's";
  let description = [{
    ```mlir
    heddle.attend_with @attention_cols
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel);
  let assemblyFormat = "$kernel attr-dict";
}

def Heddle_ScoreWithOp : Heddle_Op<"score_with", [
    HasParent<"::mlir::heddle::PhaseOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs an attention kernel for its log-sum-exp alone";
  let description = [{
    In steps that refresh a selection of the phase, before its attention, which
    then reads what has just been chosen.

    ```mlir
    heddle.score_with @attention_dense_lse
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel);
  let assemblyFormat = "$kernel attr-dict";
}

def Heddle_RefreshOp : Heddle_Op<"refresh", [
    HasParent<"::mlir::heddle::PhaseOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "refreshes a selection from the step's Q, K and log-sum-exp";
  let description = [{
    Runs after what stands before it, in the steps of the selection's cadence
    (a phase that serves several selections runs in other steps too).

    ```mlir
    heddle.refresh @cols with @select_128
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$selection, FlatSymbolRefAttr:$kernel);
  let assemblyFormat = "$selection `with` $kernel attr-dict";
}

//===----------------------------------------------------------------------===//
// Rows, keys, reuse, commit
//===----------------------------------------------------------------------===//

def Heddle_PositionSetOp : Heddle_Op<"position_set", [
    HasParent<"::mlir::heddle::PlanOp">, Symbol,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a set of positions of a sequence";
  let description = [{
    The forms of `positions`, and those of `union`,
    `intersect`, `except`, `fix`, `neighbors`, `last`,
    `hull`, `leading` and `predicting` over sets that stand before.

    ```mlir
    heddle.position_set @decoded decoded
    heddle.position_set @near undecoded(first = 64)
    heddle.position_set @seen union(@decoded, @near)
    heddle.position_set @window fixed(@seen) on every(32)
    heddle.position_set @recent committed(since every(32))
    heddle.position_set @close neighbors(2) of @near in @seen
    heddle.position_set @span hull(@close)
    heddle.position_set @end last(1) of @span
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       Heddle_PositionsKindAttr:$kind,
                       DefaultValuedAttr<I64Attr, "0">:$count,
                       DefaultValuedAttr<Heddle_SymbolArrayAttr, "{}">:$of,
                       OptionalAttr<Heddle_CadenceAttr>:$cadence);
  let assemblyFormat = [{
    $sym_name custom<PositionSet>($kind, $count, $of, $cadence) attr-dict
  }];
  let hasVerifier = 1;
}

def Heddle_VisibleSetOp : Heddle_Op<"visible_set", [
    HasParent<"::mlir::heddle::PlanOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the positions that exist as rows and keys";
  let description = [{
    ```mlir
    heddle.visible_set @window
    heddle.visible_set all on every(32) then @window
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$set,
                       OptionalAttr<Heddle_CadenceAttr>:$all_on);
  let assemblyFormat = [{
    (`all` `on` custom<Cadence>($all_on)^ `then`)? $set attr-dict
  }];
}

def Heddle_PassOp : Heddle_Op<"pass", [
    HasParent<"::mlir::heddle::PlanOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "which rows some of the steps compute";
  let description = [{
    The first pass of the plan all of whose cadences have the step is the one
    that runs; the last pass has none. A plan without passes computes all visible
    rows at every step.

    ```mlir
    heddle.pass on every(32) computes all
    heddle.pass on every(7) and every(100) computes @response
    heddle.pass computes @block alone
    heddle.pass computes salient(below = 0.99) in all
    heddle.pass computes least_similar(keep = 0.25, among = @response) in @response
    ```
  }];
  let arguments = (ins DefaultValuedAttr<Heddle_CadenceArrayAttr, "{}">:$on,
                       OptionalAttr<FlatSymbolRefAttr>:$rows,
                       DefaultValuedAttr<Heddle_ExactAttr, "Exact::All">:$exact,
                       OptionalAttr<Heddle_RatioAttr>:$ratio,
                       OptionalAttr<FlatSymbolRefAttr>:$among, UnitAttr:$alone);
  let assemblyFormat =
      "`` custom<Pass>($on, $rows, $exact, $ratio, $among, $alone) attr-dict";
  let hasVerifier = 1;
}

def Heddle_CommitRuleOp : Heddle_Op<"commit_rule", [
    HasParent<"::mlir::heddle::PlanOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "which predictions become tokens";
  let description = [{
    The first of the plan's rules all of whose cadences have the step is the one
    that counts; the last has none.

    ```mlir
    heddle.commit_rule above(0.9)
    heddle.commit_rule best(1) within(@first) on first(1) in block
    heddle.commit_rule quota within(@active) stop(eos)
    ```
  }];
  let arguments = (ins Heddle_CommitKindAttr:$kind,
                       OptionalAttr<Heddle_RatioAttr>:$ratio,
                       OptionalAttr<I64Attr>:$count, UnitAttr:$last_alone,
                       OptionalAttr<FlatSymbolRefAttr>:$within,
                       DefaultValuedAttr<Heddle_CadenceArrayAttr, "{}">:$on,
                       OptionalAttr<I64Attr>:$passes, UnitAttr:$stop_at_eos,
                       UnitAttr:$narrows);
  let assemblyFormat = [{
    custom<CommitKind>($kind, $ratio, $count, $last_alone)
    (`within` `(` $within^ `)`)? `` custom<OnCadences>($on)
    `` custom<RunEnd>($passes, $stop_at_eos, $narrows) attr-dict
  }];
  let hasVerifier = 1;
}

def Heddle_ReuseOp : Heddle_Op<"reuse", [
    ParentOneOf<["::mlir::heddle::ScheduleOp", "::mlir::heddle::PlanOp"]>]> {
  let summary = "what is kept of rows for steps that do not compute them";
  let description = [{
    | part | kept per layer and row | read by |
    |---|---|---|
    | `kv` | K (after RoPE) and V | attention of other rows |
    | `context` | attention's output, before its projection | the rest of the layer, for active rows that are not recomputed |
    | `context(propagating)` | the same; such a row adds the sum over recomputed j of P(i, j) (V_new(j) - V_cached(j)), P with its denominator over all of the row's pairs | the same |
    | `output` | attention's output after its projection | the same |
    | `ffn` | the FFN's output | the residual stream of active rows whose FFN is not computed |
    | `kv(before_rope)` | the same as `kv`: a position never moves, so its rotation never changes | the same |

    One of `context` and `output` at most.

    ```mlir
    heddle.reuse kv, context(propagating), ffn
    ```
  }];
  let arguments = (ins UnitAttr:$kv,
                       DefaultValuedAttr<Heddle_ReusedAttentionAttr, "ReusedAttention::None">:$attention,
                       UnitAttr:$ffn,
                       UnitAttr:$before_rope);
  let assemblyFormat =
      "custom<Reused>($kv, $attention, $ffn, $before_rope) `` custom<NoAttributes>(attr-dict)";
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEPLANOPS_TD
