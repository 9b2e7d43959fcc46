//===- HeddlePlanOps.td - The plan level ---------------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Mirrors bundle/Manifest.h one to one.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEPLANOPS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEPLANOPS_TD

include "heddle/Dialect/Heddle/IR/HeddleAttrs.td"
include "mlir/IR/SymbolInterfaces.td"

class Heddle_Op<string mnemonic, list<Trait> traits = []>
    : Op<Heddle_Dialect, mnemonic, traits>;

def Heddle_PlanOp : Heddle_Op<"plan", [
    IsolatedFromAbove, NoRegionArguments, NoTerminator, SingleBlock, Symbol,
    SymbolTable]> {
  let summary = "a step program and the kernels that it runs";
  let description = [{
    Holds `heddle.selection`s, `heddle.kernel`s and `heddle.rule`s, in any order.
    Exactly one rule is the default; the others name disjoint ranges of layers.

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
  let summary = "a set of key columns kept per layer, sequence and query head";
  let description = [{
    For each query head and each group of `group` consecutive query rows of a
    sequence, the `keep * n` keys of largest score. Its contents outlive a step;
    `heddle.refresh` renews them.

    ```mlir
    heddle.selection @cols columns(keep = 0.2, group = 128) by mean_probability
        on uniform(window = 0.3, count = 16)
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       Heddle_RatioAttr:$keep,
                       DefaultValuedAttr<Heddle_KeepRuleAttr, "KeepRule::Floor">:$rounding,
                       I64Attr:$group,
                       Heddle_ScorerAttr:$scorer,
                       Heddle_CadenceAttr:$cadence);
  let assemblyFormat = [{
    $sym_name `columns` `` custom<Columns>($keep, $group, $rounding)
    `by` custom<Scorer>($scorer) `on` custom<Cadence>($cadence) attr-dict
  }];
  let hasVerifier = 1;
}

def Heddle_KernelOp : Heddle_Op<"kernel", [
    HasParent<"::mlir::heddle::PlanOp">, Symbol,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a kernel that the plan needs";
  let description = [{
    An `attention` kernel computes attention over the union of its terms, each
    pair once; no terms mean all pairs. With `writes_lse` it also writes the
    log-sum-exp of each row. A `select` kernel scores every key for each group
    of rows and keeps the best.

    ```mlir
    heddle.kernel @all attention dense writes_lse
    heddle.kernel @mixed attention [columns(@cols, group = 128), window(256), sinks(4)]
    heddle.kernel @pick select(group = 128) by mean_probability
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       Heddle_KernelKindAttr:$kind,
                       DefaultValuedAttr<Heddle_TermArrayAttr, "{}">:$terms,
                       UnitAttr:$writes_lse,
                       OptionalAttr<I64Attr>:$group,
                       OptionalAttr<Heddle_ScorerAttr>:$scorer);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isAttention() { return getKind() == KernelKind::Attention; }
    bool isSelect() { return getKind() == KernelKind::Select; }
    /// An attention kernel over all pairs.
    bool isDense() { return isAttention() && getTerms().empty(); }
  }];
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
    One `heddle.attend_with`, then any number of `heddle.refresh`. The condition
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

def Heddle_RefreshOp : Heddle_Op<"refresh", [
    HasParent<"::mlir::heddle::PhaseOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "renews a selection from the step's Q, K and log-sum-exp";
  let description = [{
    Runs after the phase's attention, in the steps of the selection's cadence
    (a phase that serves several selections runs in other steps too).

    ```mlir
    heddle.refresh @cols with @select_128
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$selection, FlatSymbolRefAttr:$kernel);
  let assemblyFormat = "$selection `with` $kernel attr-dict";
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEPLANOPS_TD
