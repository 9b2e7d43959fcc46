//===- HeddleScheduleOps.td - The schedule level -------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLESCHEDULEOPS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLESCHEDULEOPS_TD

include "heddle/Dialect/Heddle/IR/HeddleAttrs.td"
include "heddle/Dialect/Heddle/IR/HeddleTypes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Heddle_ScheduleLevelOp<string mnemonic, list<Trait> traits = []>
    : Op<Heddle_Dialect, mnemonic, !listconcat(traits, [
          HasParent<"::mlir::heddle::ScheduleOp">])>;

// An op that makes a value and does nothing else.
class Heddle_ValueOp<string mnemonic, list<Trait> traits = []>
    : Heddle_ScheduleLevelOp<mnemonic, !listconcat(traits, [
          Pure, DeclareOpInterfaceMethods<OpAsmOpInterface,
                                          ["getAsmResultNames"]>])>;

def Heddle_ScheduleOp : Op<Heddle_Dialect, "schedule", [
    IsolatedFromAbove, NoRegionArguments, NoTerminator, SingleBlock, Symbol]> {
  let summary = "a sparsity schedule";
  let description = [{
    What attention computes at each denoising step in each layer. The last word
    is `heddle.attend`'s; every other op in here makes a value for one.

    ```mlir
    heddle.schedule @pulsecol {
      %refresh = heddle.cadence uniform(window = 0.3, count = 16)
      %cols = heddle.select columns(keep = 0.2, group = 128) by mean_probability on %refresh
      heddle.attend pairs(%cols)
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $bodyRegion";
  let hasRegionVerifier = 1;
}

def Heddle_CadenceOp : Heddle_ValueOp<"cadence"> {
  let summary = "a set of denoising steps";
  let description = [{
    `never`, `every(n)`, `first(n)`, `at(r)`, `at(step s)`,
    `uniform(window = r, count = n)`, `random(window = r, count = n, seed = s)`
    or `power(window = r, count = n)`; the cadence attribute says which steps
    each of them is.

    ```mlir
    %refresh = heddle.cadence uniform(window = 0.3, count = 16)
    %once = heddle.cadence at(20 percent)
    ```
  }];
  let arguments = (ins Heddle_CadenceAttr:$value);
  let results = (outs Heddle_CadenceType:$result);
  let assemblyFormat = "custom<Cadence>($value) attr-dict";
}

def Heddle_SelectOp : Heddle_ValueOp<"select"> {
  let summary = "the key columns that score highest for each group of rows";
  let description = [{
    For each query head and each group of `group` consecutive query rows of a
    sequence (the last group may have fewer), the keys of largest mean softmax
    probability over the group's rows; all rows of a group share them. Of n keys
    `keep * n` are kept, rounded down unless `rounding` says `ceil` or `round`,
    and at least one; of equal scores the key of lowest index wins.

    At a step of the cadence the layer computes dense attention, whose output is
    the layer's output, and the selection is then renewed from that step's Q and
    K (after RoPE). At other steps the latest selection is read.

    ```mlir
    %cols = heddle.select columns(keep = 0.2, group = 128) by mean_probability on %refresh
    %more = heddle.select columns(keep = 1/3, group = 32, rounding = ceil) by mean_probability on %refresh
    ```

    Source: PulseCol, equations 5 to 7.
  }];
  let arguments = (ins Heddle_CadenceType:$cadence,
                       Heddle_RatioAttr:$keep,
                       I64Attr:$group,
                       DefaultValuedAttr<Heddle_KeepRuleAttr, "KeepRule::Floor">:$rounding,
                       Heddle_ScorerAttr:$scorer,
                       OptionalAttr<StrAttr>:$name);
  let results = (outs Heddle_PairsType:$result);
  // The result's name in the source becomes `name`, so that the plan, the
  // bundle and --explain speak of %cols as the schedule does.
  let assemblyFormat = [{
    `` custom<ResultName>($name)
    `columns` `` custom<Columns>($keep, $group, $rounding)
    `by` custom<Scorer>($scorer) `on` $cadence attr-dict
  }];
  let hasVerifier = 1;
}

def Heddle_DenseOp : Heddle_ValueOp<"dense"> {
  let summary = "all pairs";
  let description = [{
    ```mlir
    %all = heddle.dense
    ```
  }];
  let results = (outs Heddle_PairsType:$result);
  let assemblyFormat = "attr-dict";
}

def Heddle_WindowOp : Heddle_ValueOp<"window"> {
  let summary = "keys near the query: |i - j| <= size / 2";
  let description = [{
    The division is an integer one: `window(5)` and `window(4)` are both the
    query's own key and two on either side.

    ```mlir
    %near = heddle.window(256)
    ```
  }];
  let arguments = (ins I64Attr:$size);
  let results = (outs Heddle_PairsType:$result);
  let assemblyFormat = "`` `(` $size `)` attr-dict";
  let hasVerifier = 1;
}

def Heddle_SinksOp : Heddle_ValueOp<"sinks"> {
  let summary = "the first keys of the sequence: j < size";
  let description = [{
    ```mlir
    %first = heddle.sinks(4)
    ```
  }];
  let arguments = (ins I64Attr:$size);
  let results = (outs Heddle_PairsType:$result);
  let assemblyFormat = "`` `(` $size `)` attr-dict";
  let hasVerifier = 1;
}

def Heddle_UnionOp : Heddle_ValueOp<"union"> {
  let summary = "the pairs that are in any operand, each once";
  let description = [{
    ```mlir
    %pairs = heddle.union %cols, %near, %first
    ```

    Canonical form: flat, without repeats, selections first in the order
    written, then at most one window, then at most one sinks (of two, the larger
    holds the smaller). A union with `heddle.dense` is dense.
  }];
  let arguments = (ins Variadic<Heddle_PairsType>:$operands);
  let results = (outs Heddle_PairsType:$result);
  let assemblyFormat = "$operands attr-dict";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Heddle_AttendOp : Heddle_ScheduleLevelOp<"attend", [AttrSizedOperandSegments]> {
  let summary = "the pairs that attention computes";
  let description = [{
    One of

    ```mlir
    heddle.attend dense
    heddle.attend pairs(%cols)
    heddle.attend dense until(%once) then pairs(%cols)
    ```

    With `until`, attention is dense as long as no step of that cadence has
    come. `in layers(a to b)` makes it hold for these layers only, in place of
    the schedule's one `heddle.attend` that names no layers:

    ```mlir
    heddle.attend dense in layers(0 to 1)
    heddle.attend dense in layers(-2 to -1)
    ```
  }];
  let arguments = (ins Optional<Heddle_CadenceType>:$until,
                       Optional<Heddle_PairsType>:$pairs,
                       OptionalAttr<Heddle_LayerRangeAttr>:$layers);
  let assemblyFormat = [{
    custom<Attended>($until, $pairs) (`in` custom<Layers>($layers)^)? attr-dict
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLESCHEDULEOPS_TD
