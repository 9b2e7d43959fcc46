//===- HeddleAttrs.td - Attributes of the heddle dialect -----*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD

include "heddle/Dialect/Heddle/IR/HeddleBase.td"

class Heddle_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Heddle_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

// A struct of the bundle, of which a schedule spells some fields in words.
class Heddle_StructAttr<string name, string attrMnemonic, string struct>
    : Heddle_Attr<name, attrMnemonic> {
  let parameters = (ins AttrParameter<"::heddle::bundle::" # struct, "">:$value);
  let returnType = "::heddle::bundle::" # struct;
  let convertFromStorage = "$_self.getValue()";
  let constBuilderCall =
      "::mlir::heddle::" # name # "Attr::get($_builder.getContext(), $0)";
  let assemblyFormat = "`<` custom<" # name # ">($value) `>`";
}

// The same of what an op says beside its operands, names and cadences.
class Heddle_RuleAttr<string name, string attrMnemonic, string struct,
                      string what, string example>
    : Heddle_StructAttr<name, attrMnemonic, struct> {
  let summary = what;
  let description = "As its op spells it.\n\n```mlir\n#heddle." # attrMnemonic #
                    "<" # example # ">\n```\n";
}

//===----------------------------------------------------------------------===//
// Ratios, cadences, layers
//===----------------------------------------------------------------------===//

def Heddle_RatioAttr : Heddle_Attr<"Ratio", "ratio"> {
  let summary = "an exact fraction";
  let description = [{
    A fraction is above 0 and at most 1 (P1); that of `least_similar` may be 0; a
    bound, such as the cosine of `salient`, may be more.

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
  let extraClassDeclaration = [{
    ::heddle::bundle::Ratio getValue() const { return {getNum(), getDen()}; }
  }];
}

def Heddle_CadenceAttr : Heddle_StructAttr<"Cadence", "cadence", "Cadence"> {
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
    | `geometric(n)` | 1, n, n^2, ...: ever fewer, in runs of any length; n at least 2 |
    | `drift(below = r, within = n)` | 1; each step after one whose values in the last layer have a mean cosine below r to what they were after the latest of these steps; and the n-th step after that one at the latest |
    | `drift(below = r, within = n, layer = l)` | the same of layer l, from 0 or, negative, from the end; and each step of the schedule's others that are of layers before |
    | `drift(attention, below = r, within = n)` | with `layer = l` or not: the same of what the layer's rows attend to, in place of their values |

    | clause | meaning |
    |---|---|
    | `in block` not of never | counted in each block of semi-autoregressive decoding from 1, T being the block's number of steps |
    | `or after eos` not of never | and every step after one that looked for EOS and found it |

    ```mlir
    #heddle.cadence<uniform(window = 0.3, count = 16)>
    ```

    W = max(1, floor(r T)) is the window; formulas that name a step twice mean it
    once. `first(1) in block` is the first step of every block. EOS is looked for by
    `stop(eos)` of `commit`.
  }];
}

def Heddle_SelectionRuleAttr
    : Heddle_RuleAttr<"SelectionRule", "selection_rule", "Selection",
                      "what a selection lists, and by which score",
                      "columns(keep = 0.2, group = 128) by mean_probability">;
def Heddle_CommitRuleAttr
    : Heddle_RuleAttr<"CommitRule", "commit_rule", "CommitRule",
                      "which predictions become tokens, and when the run ends",
                      "above(0.9) stop(eos)">;
def Heddle_PositionSetAttr
    : Heddle_RuleAttr<"PositionSet", "position_set", "Positions",
                      "a set of positions that is made of no others",
                      "undecoded(first = 16)">;
def Heddle_RowRuleAttr
    : Heddle_RuleAttr<"RowRule", "row_rule", "Pass",
                      "which of a step's rows a layer computes",
                      "salient(below = 0.99) in all alone">;
def Heddle_ReuseRuleAttr
    : Heddle_RuleAttr<"ReuseRule", "reuse_rule", "Reuse", "what is kept of rows",
                      "kv, context(propagating), ffn">;
def Heddle_KernelFormAttr
    : Heddle_RuleAttr<"KernelForm", "kernel_form", "Kernel",
                      "what a kernel computes, whatever its terms and scores",
                      "select(group = 32) by mean_probability">;
def Heddle_WhenAttr
    : Heddle_RuleAttr<"When", "when", "When", "when a phase applies",
                      "before at(0.2)">;

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
// Sets of pairs
//===----------------------------------------------------------------------===//

def Heddle_TermAttr : Heddle_Attr<"Term", "term"> {
  let summary = "a set of pairs, as it is stated";
  let description = [{
    bundle/program/PairSets.h says which sets there are, with what numbers they
    are stated and what they mean; nothing of the schedule's and the plan's level
    goes by their kinds. `columns` and `blocks` name a selection of the plan and
    repeat the size of its groups, which shapes the kernel, so that a kernel can
    be built without looking the selection up. A term that is `within` sets that go
    by positions has the pairs that all of them have, too.

    ```mlir
    #heddle.term<window(256)>    #heddle.term<columns(@cols, group = 128) within window(256)>
    ```
  }];
  let parameters = (ins "::heddle::bundle::Term":$set,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$selection,
                        DefaultValuedParameter<"int64_t", "0">:$group);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}
def Heddle_TermArrayAttr
    : TypedArrayAttrBase<Heddle_TermAttr, "terms of a union of pairs">;

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEATTRS_TD
