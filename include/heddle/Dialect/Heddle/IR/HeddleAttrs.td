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
  // One more than the floor. Source: SparseD's released code.
  I32EnumAttrCase<"FloorPlusOne", 3, "floor_plus_one">,
]>;
def Heddle_KeepRuleAttr : Heddle_EnumAttr<Heddle_KeepRule, "keep_rule">;

def Heddle_Scorer : Heddle_Enum<"Scorer", "how a key is scored for a group", [
  // Mean over the group's rows of the softmax probability over all n keys.
  I32EnumAttrCase<"MeanProbability", 0, "mean_probability">,
]>;
def Heddle_ScorerAttr : Heddle_EnumAttr<Heddle_Scorer, "scorer">;

def Heddle_SelectionKind : Heddle_Enum<"SelectionKind", "what a selection lists", [
  I32EnumAttrCase<"Columns", 0, "columns">,
  I32EnumAttrCase<"Blocks", 1, "blocks">,
]>;
def Heddle_SelectionKindAttr
    : Heddle_EnumAttr<Heddle_SelectionKind, "selection_kind">;

def Heddle_Isolation
    : Heddle_Enum<"Isolation", "how prompt and response are told apart", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Spans", 1, "spans">,
  I32EnumAttrCase<"Aligned", 2, "aligned">,
  I32EnumAttrCase<"Filtered", 3, "filtered">,
]>;
def Heddle_IsolationAttr : Heddle_EnumAttr<Heddle_Isolation, "isolation">;

def Heddle_Scale : Heddle_Enum<"Scale", "what logits are divided by when scored", [
  // The root of the head dim, as in attention itself.
  I32EnumAttrCase<"HeadDim", 0, "head_dim">,
  // The root of the number of query heads. Source: SparseD's released code.
  I32EnumAttrCase<"Heads", 1, "heads">,
]>;
def Heddle_ScaleAttr : Heddle_EnumAttr<Heddle_Scale, "scale">;

def Heddle_PositionsKind : Heddle_Enum<"PositionsKind", "a form of a position set", [
  I32EnumAttrCase<"All", 0, "all">,
  I32EnumAttrCase<"Prompt", 1, "prompt">,
  I32EnumAttrCase<"Response", 2, "response">,
  I32EnumAttrCase<"Block", 3, "block">,
  I32EnumAttrCase<"BeforeBlock", 4, "before_block">,
  I32EnumAttrCase<"FromBlock", 5, "from_block">,
  I32EnumAttrCase<"Decoded", 6, "decoded">,
  I32EnumAttrCase<"Undecoded", 7, "undecoded">,
  I32EnumAttrCase<"Committed", 8, "committed">,
  I32EnumAttrCase<"Next", 9, "next">,
  // Forms that are made of other sets: ops of their own in a schedule.
  I32EnumAttrCase<"Union", 10, "union">,
  I32EnumAttrCase<"Intersect", 11, "intersect">,
  I32EnumAttrCase<"Fixed", 12, "fixed">,
  I32EnumAttrCase<"Neighbors", 13, "neighbors">,
  I32EnumAttrCase<"Hull", 14, "hull">,
  I32EnumAttrCase<"Leading", 15, "leading">,
  I32EnumAttrCase<"Predicting", 16, "predicting">,
  I32EnumAttrCase<"Except", 17, "except">,
  I32EnumAttrCase<"Last", 18, "last">,
]>;
def Heddle_PositionsKindAttr
    : Heddle_EnumAttr<Heddle_PositionsKind, "positions_kind">;

def Heddle_Exact : Heddle_Enum<"Exact", "which of a step's rows a layer computes", [
  I32EnumAttrCase<"All", 0, "all">,
  I32EnumAttrCase<"Salient", 1, "salient">,
  I32EnumAttrCase<"LeastSimilar", 2, "least_similar">,
  I32EnumAttrCase<"SalientFfn", 3, "salient_ffn">,
]>;
def Heddle_ExactAttr : Heddle_EnumAttr<Heddle_Exact, "exact">;

def Heddle_ReusedAttention
    : Heddle_Enum<"ReusedAttention", "what is kept of a row's attention", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Context", 1, "context">,
  I32EnumAttrCase<"Propagated", 2, "propagated">,
  I32EnumAttrCase<"Output", 3, "output">,
]>;
def Heddle_ReusedAttentionAttr
    : Heddle_EnumAttr<Heddle_ReusedAttention, "reused_attention">;

def Heddle_CommitKind : Heddle_Enum<"CommitKind", "which predictions become tokens", [
  I32EnumAttrCase<"Quota", 0, "quota">,
  I32EnumAttrCase<"Above", 1, "above">,
  I32EnumAttrCase<"Factor", 2, "factor">,
  I32EnumAttrCase<"RandomOrder", 3, "random_order">,
  I32EnumAttrCase<"Best", 4, "best">,
  I32EnumAttrCase<"Timesteps", 5, "timesteps">,
  I32EnumAttrCase<"Even", 6, "even">,
  I32EnumAttrCase<"EvenAbove", 7, "even_above">,
]>;
def Heddle_CommitKindAttr : Heddle_EnumAttr<Heddle_CommitKind, "commit_kind">;

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
  let summary = "an exact fraction above 0";
  let description = [{
    A fraction is at most 1 (P1); a bound, such as the cosine of `salient`, may be
    more.

    | form | value |
    |---|---|
    | `n percent` | n hundredths |

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
    | `every(n, from = s)` | s, s + n, s + 2n, ... |
    | `first(n)` | 1 to min(n, T) |
    | `at(r)` | the one step max(1, floor(r T)) |
    | `at(r, plus = k)` | the one step floor(r T) + k, k at least 1 |
    | `at(step = s)` | the one step s; none if s > T |
    | `uniform(window = r, count = n)` | 1 + floor((i - 1) (W - 1) / (n - 1)) for i = 1..n; step 1 alone if n = 1 |
    | `random(window = r, count = n, seed = s)` | min(n, W) distinct steps of 1..W, drawn with the seed |
    | `power(window = r, count = n)` | 1 + floor((i / (n - 1))^2 (W - 1)) for i = 0..n - 1; step 1 alone if n = 1 |

    | clause | meaning |
    |---|---|
    | `in block` | after any form but `never`: counted in each block of semi-autoregressive decoding from 1, T being the block's number of steps |
    | `or after eos` | last: and every step after one that looked for EOS and found it |

    ```mlir
    #heddle.cadence<uniform(window = 0.3, count = 16)>
    ```

    W = max(1, floor(r T)) is the window; formulas that name a step twice mean it
    once. `first(1) in block` is the first step of every block. EOS is looked for by
    `stop(eos)` of `commit`.

    Parameters that a form has no use for are zero, and `fraction` is null.
  }];
  let parameters = (ins "::mlir::heddle::CadenceKind":$kind,
                        OptionalParameter<"::mlir::heddle::RatioAttr",
                            "window of uniform, random, power; place of at">:$fraction,
                        DefaultValuedParameter<"int64_t", "0",
                            "steps of uniform, random, power, first">:$count,
                        DefaultValuedParameter<"int64_t", "0", "of every">:$period,
                        DefaultValuedParameter<"int64_t", "0", "of at, when absolute">:$step,
                        DefaultValuedParameter<"int64_t", "0", "of random">:$seed,
                        DefaultValuedParameter<"int64_t", "1", "first step of every; 1 + plus of at">:$from,
                        DefaultValuedParameter<"bool", "false", "counted in each block">:$in_block,
                        DefaultValuedParameter<"bool", "false", "and every step after EOS">:$after_eos);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// True if step 1 is in the set for every T >= 1.
    bool includesFirstStep() const;

    /// True if, for every T >= 1, the first step of this set is no later than
    /// the first step of `other` (an empty set's first step is infinitely
    /// late). False when that cannot be shown.
    /// Of cadences in blocks, for every block.
    bool startsNoLaterThan(CadenceAttr other) const;

    /// True if, for every T >= 1, all steps of `other` are steps of this set.
    /// False when that cannot be shown.
    bool includesAllOf(CadenceAttr other) const;
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

def Heddle_LayerRangeArrayAttr
    : TypedArrayAttrBase<Heddle_LayerRangeAttr, "ranges of layers">;

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

def Heddle_BlocksTermAttr : Heddle_Attr<"BlocksTerm", "blocks"> {
  let summary = "the keys of the blocks that a selection lists for the query's group";
  let description = [{
    `size` repeats the selection's block size, which is also that of its groups
    of query rows.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$selection, "int64_t":$size);
  let assemblyFormat = "`<` $selection `,` `size` `=` $size `>`";
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

def Heddle_SinksShareTermAttr : Heddle_Attr<"SinksShareTerm", "sinks_share"> {
  let summary = "keys j < max(1, floor(share * n)), n of the whole sequence";
  let description = [{
    Written `sinks(0.1)` in a kernel's terms. The runtime tells the kernel the
    bound (`abi::AttentionArgs::sinks`).
  }];
  let parameters = (ins "::mlir::heddle::RatioAttr":$share);
  let assemblyFormat = "`<` $share `>`";
}

def Heddle_TermAttr : AnyAttrOf<
    [Heddle_ColumnsTermAttr, Heddle_BlocksTermAttr, Heddle_WindowTermAttr,
     Heddle_SinksTermAttr, Heddle_SinksShareTermAttr],
    "columns, blocks, window or sinks">;
def Heddle_SymbolArrayAttr
    : TypedArrayAttrBase<FlatSymbolRefAttr, "symbols of the plan">;
def Heddle_CadenceArrayAttr
    : TypedArrayAttrBase<Heddle_CadenceAttr, "cadences">;
def Heddle_TermArrayAttr
    : TypedArrayAttrBase<Heddle_TermAttr, "terms of a union of pairs">;

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD
