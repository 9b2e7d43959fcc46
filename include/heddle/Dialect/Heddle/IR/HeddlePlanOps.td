//===- HeddlePlanOps.td - The plan level ---------------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEPLANOPS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEPLANOPS_TD

include "heddle/Dialect/Heddle/IR/HeddleAttrs.td"
include "heddle/Dialect/Heddle/IR/HeddleTypes.td"
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
    Holds `heddle.selection`s, `heddle.kernel`s and `heddle.rule`s, in any order,
    and `heddle.fallback`s.
    Exactly one rule is the default; the others name disjoint ranges of layers.

    What all layers have in common stands beside them, in the schedule's own ops:
    sets of positions, at most one `heddle.visible`, the `heddle.recompute`s and
    `heddle.commit`s in their order, and `heddle.reuse`s in theirs.

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
    HasParent<"::mlir::heddle::PlanOp">, Symbol, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a set of key columns or blocks kept per layer, sequence and head";
  let description = [{
    For each query head (with `per_kv_head`: each key/value head; with
    `per_layer`: all of them) and each group of `group` consecutive query rows of a
    sequence, the `keep * n` (or `keep`, if it is an integer) keys, or blocks of
    `group` keys, of largest score, and what is `always` listed; `within` another
    selection, which stands before it, of the keys that this one lists. Its
    contents outlive a step; `heddle.refresh` refreshes them.

    ```mlir
    heddle.selection @cols columns(keep = 0.2, group = 128) by mean_probability
        on uniform(window = 0.3, count = 16)
    heddle.selection @tiles blocks(keep = 0.3, size = 128) by mean_probability
        isolating(spans) on at(0.2)
    heddle.selection @fine columns(keep = 0.25, group = 32) by mean_probability
        within @tiles on at(0.2)
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       Heddle_SelectionRuleAttr:$rule,
                       Optional<Heddle_PositionsType>:$rows,
                       Optional<Heddle_PositionsType>:$always,
                       OptionalAttr<FlatSymbolRefAttr>:$within,
                       Heddle_CadenceAttr:$cadence);
  let assemblyFormat = [{
    $sym_name custom<SelectionRule>($rule) (`of` $rows^)? (`always` $always^)?
    (`within` $within^)? `on` custom<Cadence>($cadence) attr-dict
  }];
}

def Heddle_FallbackOp : Heddle_Op<"fallback", [
    HasParent<"::mlir::heddle::PlanOp">]> {
  let summary = "a selection in place of whose keys all are attended to";
  let description = [{
    Attention over lists of so many keys takes longer than dense attention, which
    is faster above a share of them (`heddle-plan-steps`). The plan has no such
    selection any more, unless others choose within it.

    ```mlir
    heddle.fallback "cols" columns(keep = 0.5, group = 32) by mean_probability
        dense_above 0.36
    ```
  }];
  let arguments = (ins StrAttr:$selection,
                       Heddle_SelectionRuleAttr:$rule,
                       Heddle_RatioAttr:$dense_above);
  let assemblyFormat = [{
    $selection custom<SelectionRule>($rule) `dense_above` custom<Share>($dense_above)
    attr-dict
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
    head together, with `per_layer` for all heads, with `pooled` by the best
    score of so many neighbors, and `within` lists of another selection's form by
    their keys alone. Both take `scores` as `attend` does, but for those by
    `mean_logit`.

    ```mlir
    heddle.kernel @all attention dense writes_lse
    heddle.kernel @mixed attention [columns(@cols, group = 128), window(256), sinks(4)]
    heddle.kernel @first attention [window(256), sinks(0.1)]
    heddle.kernel @tiled attention [blocks(@tiles, size = 128)]
    heddle.kernel @pick select(group = 128) by mean_probability
    heddle.kernel @pick_shared select(group = 128, per_kv_head) by mean_probability
    heddle.kernel @pick_all select(group = all, per_layer) by mean_probability pooled(3)
    heddle.kernel @pick_blocks select(blocks = 128) by mean_probability
    heddle.kernel @pick_by_logits select(blocks = 64) by mean_logit
    heddle.kernel @pick_within select(group = 32) by mean_probability within blocks(size = 128)
    heddle.kernel @near attention dense scores(%logit, %query, %key) {
      %ahead = arith.cmpi sgt, %key, %query : i32
      %none = arith.constant 0xFF800000 : f32
      %causal = arith.select %ahead, %none, %logit : f32
      heddle.yield %causal
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Heddle_KernelFormAttr:$form,
                       DefaultValuedAttr<Heddle_TermArrayAttr, "{}">:$terms);
  let regions = (region AnyRegion:$scores);
  let assemblyFormat = [{
    $sym_name custom<KernelForm>($form, $terms) `` custom<Scores>($scores) attr-dict
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    bool isSelect() {
      return getForm().kind == ::heddle::bundle::Kernel::Kind::Select;
    }
    bool isAttention() { return !isSelect(); }
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
  let assemblyFormat = [{
    (`layers` `(` custom<LayerRange>($layers)^ `)`) : (`default`)?
    attr-dict-with-keyword $bodyRegion
  }];
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
    `heddle.score_with`, refreshes and the `heddle.attend_with`; or these without
    a `heddle.score_with`, where no refresh reads a log-sum-exp. Before a
    refresh may stand the `heddle.score_with`s that are its own, and at the end
    the `heddle.measure`s. The condition is `on` a cadence (the step is one of
    its), `before` a cadence (none of its steps has come yet) or `otherwise`.

    ```mlir
    heddle.phase before at(0.2) {
      heddle.attend_with @attention_dense
    }
    ```
  }];
  let arguments = (ins Heddle_WhenAttr:$when);
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = "custom<When>($when) attr-dict-with-keyword $bodyRegion";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The phase's one attention.
    AttendWithOp getAttention();
    /// The attention that refreshes before it are scored by, if they are.
    ScoreWithOp getScoring();
    /// Whether refreshes come before the attention.
    bool refreshesFirst();
  }];
}

def Heddle_AttendWithOp : Heddle_Op<"attend_with", [
    HasParent<"::mlir::heddle::PhaseOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs an attention kernel; its output is the layer's";
  let description = [{
    Where commits revoke tokens by shadows another kernel, `shadow`, is run for the
    rows of these, over the keys of their sequence and their own.

    Where a set goes by the attention that positions drew (`attended`), `rollout`
    is run behind the step's last layer, from the last layer to the first: of
    the layer's queries and keys and the attention's log-sum-exps, each less the
    logarithm of what its row has drawn in the layers behind.

    ```mlir
    heddle.attend_with @attention_cols
    heddle.attend_with @attention_dense shadow @attention_others
    heddle.attend_with @attention_dense_lse rollout @select_all
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
                       OptionalAttr<FlatSymbolRefAttr>:$shadow,
                       OptionalAttr<FlatSymbolRefAttr>:$rollout);
  let assemblyFormat = [{
    $kernel (`shadow` $shadow^)? (`rollout` $rollout^)? attr-dict
  }];
}

def Heddle_ScoreWithOp : Heddle_Op<"score_with", [
    HasParent<"::mlir::heddle::PhaseOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs an attention kernel for its log-sum-exp alone";
  let description = [{
    A phase's first op: in steps that refresh a selection of the phase, before
    its attention, which then reads what has just been chosen. All refreshes
    read its log-sum-exp.

    Before a refresh: in the steps of this refresh, which reads this log-sum-exp
    instead. `scaled_by(heads)` divides logits by the root of the number of
    query heads; `of response` leaves out the keys of the prompt's blocks, and
    all of the launch where there are none.

    ```mlir
    heddle.score_with @attention_dense_lse
    heddle.score_with @attention_dense_lse scaled_by(heads) of response
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, UnitAttr:$scaled_by_heads,
                       UnitAttr:$of_response);
  let assemblyFormat = [{
    $kernel (`scaled_by` `(` `heads` `)` $scaled_by_heads^)?
    (`of` `response` $of_response^)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// Whether it serves the one refresh that comes next, and no others.
    bool isOfRefresh() { return (*this)->getPrevNode(); }
    /// As a bundle has it, in which its kernel is number `kernel`.
    ::heddle::bundle::Phase::Scoring asData(int64_t kernel);
  }];
}

def Heddle_RefreshOp : Heddle_Op<"refresh", [
    HasParent<"::mlir::heddle::PhaseOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "refreshes a selection from the step's Q, K and log-sum-exp";
  let description = [{
    Kernels by `mean_logit` read no log-sum-exp.
    Runs after what stands before it, in the steps of the selection's cadence
    (a phase that serves several selections runs in other steps too).

    ```mlir
    heddle.refresh @cols with @select_128
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$selection, FlatSymbolRefAttr:$kernel);
  let assemblyFormat = "$selection `with` $kernel attr-dict";
  let extraClassDeclaration = [{
    /// What stands before it to score it by.
    ::llvm::SmallVector<ScoreWithOp, 2> getScorings();
  }];
}

def Heddle_MeasureOp : Heddle_Op<"measure", [
    HasParent<"::mlir::heddle::PhaseOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "measures how far a run has gone since a cadence's latest step";
  let description = [{
    In the layer of a cadence by drift, in the steps that are not its own, after
    the phase's attention: compares of the response's rows that the layer
    computes their values with those of the first step behind the cadence's
    latest one that had them, or makes them what later steps are compared with.
    Of a cadence by `attention` it compares what the rows attend to, for which
    the kernel runs once more, over values that say of each key its class.

    ```mlir
    heddle.measure drift(below = 0.9, within = 64)
    heddle.measure drift(attention, below = 0.9, within = 64, layer = -24) with @attention_dense
    ```
  }];
  let arguments = (ins Heddle_CadenceAttr:$cadence,
                       OptionalAttr<FlatSymbolRefAttr>:$kernel);
  let assemblyFormat = "custom<Cadence>($cadence) (`with` $kernel^)? attr-dict";
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEPLANOPS_TD
