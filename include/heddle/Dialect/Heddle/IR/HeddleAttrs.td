//===- HeddleAttrs.td - Attributes of the heddle dialect -----*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD

include "heddle/Dialect/Heddle/IR/HeddleBase.td"

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class Heddle_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::heddle";
  let genSpecializedAttr = 0;
}

// Prints a space and its bare keyword wherever an op's format names it.
class Heddle_EnumAttr<EnumInfo info, string mnemonic>
    : EnumAttr<Heddle_Dialect, info, mnemonic> {
  let assemblyFormat = "$value";
}

def Heddle_KernelKind : Heddle_Enum<"KernelKind", "what a kernel computes", [
  I32EnumAttrCase<"Attention", 0, "attention">,
  I32EnumAttrCase<"Select", 1, "select">,
]>;
def Heddle_KernelKindAttr : Heddle_EnumAttr<Heddle_KernelKind, "kernel_kind">;

def Heddle_KeepRule
    : Heddle_Enum<"KeepRule", "how keep * n is made a whole number of keys", [
  I32EnumAttrCase<"Floor", 0, "floor">,
  I32EnumAttrCase<"Ceil", 1, "ceil">,
  I32EnumAttrCase<"Round", 2, "round">,
]>;
def Heddle_KeepRuleAttr : Heddle_EnumAttr<Heddle_KeepRule, "keep_rule">;

def Heddle_Scorer : Heddle_Enum<"Scorer", "how a key is scored for a group", [
  // Mean over the group's rows of the softmax probability over all n keys.
  I32EnumAttrCase<"MeanProbability", 0, "mean_probability">,
]>;
def Heddle_ScorerAttr : Heddle_EnumAttr<Heddle_Scorer, "scorer">;

def Heddle_CadenceKind : Heddle_Enum<"CadenceKind", "a family of step sets", [
  I32EnumAttrCase<"Never", 0, "never">,
  I32EnumAttrCase<"Every", 1, "every">,
  I32EnumAttrCase<"First", 2, "first">,
  I32EnumAttrCase<"At", 3, "at">,
  I32EnumAttrCase<"Uniform", 4, "uniform">,
  I32EnumAttrCase<"Random", 5, "random">,
  I32EnumAttrCase<"Power", 6, "power">,
]>;

def Heddle_WhenKind : Heddle_Enum<"WhenKind", "when a phase applies", [
  I32EnumAttrCase<"On", 0, "on">,
  I32EnumAttrCase<"Before", 1, "before">,
  I32EnumAttrCase<"Otherwise", 2, "otherwise">,
]>;
def Heddle_WhenKindAttr : Heddle_EnumAttr<Heddle_WhenKind, "when_kind">;

//===----------------------------------------------------------------------===//
// Ratios, cadences, layers
//===----------------------------------------------------------------------===//

class Heddle_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Heddle_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Heddle_RatioAttr : Heddle_Attr<"Ratio", "ratio"> {
  let summary = "an exact fraction in (0, 1]";
  let description = [{
    Held as two integers in lowest terms. It is written `1/5`, `0.2` or
    `20 percent`, all of which are the same attribute; a decimal is read as the
    fraction that its digits say, so `0.3` is 3/10 and no binary approximation
    of it. Printed as a decimal where that ends, else as a fraction.

    ```mlir
    #heddle.ratio<0.2>    #heddle.ratio<1/3>
    ```
  }];
  let parameters = (ins "int64_t":$num, "int64_t":$den);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Heddle_CadenceAttr : Heddle_Attr<"Cadence", "cadence"> {
  let summary = "a set of denoising steps, as a function of their total T";
  let description = [{
    | form | steps |
    |---|---|
    | `never` | none |
    | `every(n)` | 1, 1 + n, 1 + 2n, ... |
    | `first(n)` | 1, ..., n |
    | `at(r)` | the one step max(1, floor(r T)) |
    | `at(step s)` | the one step s; none when s > T |
    | `uniform(window = r, count = n)` | n steps spread evenly over the first W = max(1, floor(r T)) steps, both ends included: 1 + floor((i - 1)(W - 1) / (n - 1)) for i = 1..n; just step 1 when n = 1; duplicates count once |
    | `random(window = r, count = n, seed = s)` | min(n, W) distinct steps of 1..W drawn with the seed |
    | `power(window = r, count = n)` | 1 + floor((i / (n - 1))^2 (W - 1)) for i = 0..n-1 |

    ```mlir
    #heddle.cadence<uniform(window = 0.3, count = 16)>
    ```

    Parameters that a form has no use for are zero, and `fraction` is null.
  }];
  let parameters = (ins "::mlir::heddle::CadenceKind":$kind,
                        OptionalParameter<"::mlir::heddle::RatioAttr",
                            "window of uniform, random, power; place of at">:$fraction,
                        DefaultValuedParameter<"int64_t", "0",
                            "steps of uniform, random, power, first">:$count,
                        DefaultValuedParameter<"int64_t", "0", "of every">:$period,
                        DefaultValuedParameter<"int64_t", "0", "of at, when absolute">:$step,
                        DefaultValuedParameter<"int64_t", "0", "of random">:$seed);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// True if step 1 is in the set for every T >= 1.
    bool includesFirstStep() const;

    /// True if, for every T >= 1, the first step of this set is no later than
    /// the first step of `other` (an empty set's first step is infinitely
    /// late). False when that cannot be shown.
    bool startsNoLaterThan(CadenceAttr other) const;
  }];
}

def Heddle_LayerRangeAttr : Heddle_Attr<"LayerRange", "layers"> {
  let summary = "a range of layers, both ends included";
  let description = [{
    Layers count from 0; negative numbers count from the last layer, which is
    -1. Both ends have the same sign, since the number of layers is known only
    when a model is loaded.

    ```mlir
    #heddle.layers<0 to 1>    #heddle.layers<-2 to -1>
    ```
  }];
  let parameters = (ins "int64_t":$first, "int64_t":$last);
  let assemblyFormat = "`<` $first `to` $last `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// True if the ranges share a layer whatever the model. Ranges that count
    /// from different ends may meet in a small model: that is checked when one
    /// is loaded.
    bool overlaps(LayerRangeAttr other) const;
  }];
}

//===----------------------------------------------------------------------===//
// Terms of a kernel's pattern
//===----------------------------------------------------------------------===//

def Heddle_ColumnsTermAttr : Heddle_Attr<"ColumnsTerm", "columns"> {
  let summary = "the keys that a selection lists for the query's group";
  let description = [{
    `group` repeats the selection's group size, which shapes the kernel, so that
    the kernel can be built without looking the selection up.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$selection, "int64_t":$group);
  let assemblyFormat = "`<` $selection `,` `group` `=` $group `>`";
}

def Heddle_WindowTermAttr : Heddle_Attr<"WindowTerm", "window"> {
  let summary = "keys j with |i - j| <= size / 2 (integer division)";
  let parameters = (ins "int64_t":$size);
  let assemblyFormat = "`<` $size `>`";
}

def Heddle_SinksTermAttr : Heddle_Attr<"SinksTerm", "sinks"> {
  let summary = "keys j < size";
  let parameters = (ins "int64_t":$size);
  let assemblyFormat = "`<` $size `>`";
}

def Heddle_TermAttr : AnyAttrOf<
    [Heddle_ColumnsTermAttr, Heddle_WindowTermAttr, Heddle_SinksTermAttr],
    "columns, window or sinks">;
def Heddle_TermArrayAttr
    : TypedArrayAttrBase<Heddle_TermAttr, "terms of a union of pairs">;

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD
