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
include "heddle/Dialect/PairSets.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Heddle_SetType : AnyTypeOf<[Heddle_PairsType, Heddle_PositionsType],
                               "a set of pairs or of positions">;

class Heddle_ScheduleLevelOp<string mnemonic, list<Trait> traits = []>
    : Op<Heddle_Dialect, mnemonic, !listconcat(traits, [
          HasParent<"::mlir::heddle::ScheduleOp">])>;

// An op of a schedule that its plan has as well.
class Heddle_ProgramOp<string mnemonic, list<Trait> traits = []>
    : Op<Heddle_Dialect, mnemonic, !listconcat(traits, [
          ParentOneOf<["::mlir::heddle::ScheduleOp",
                       "::mlir::heddle::PlanOp"]>])>;

// Of an op that makes a value and does nothing else.
defvar Heddle_ValueTraits = [
    Pure, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>];
defvar Heddle_NamesResult = [{
  void $cppClass::getAsmResultNames(OpAsmSetValueNameFn setName) {
    nameResult(*this, setName);
  }
}];

class Heddle_PairsOp<string mnemonic, list<Trait> traits = []>
    : Heddle_ScheduleLevelOp<mnemonic, !listconcat(Heddle_ValueTraits, traits)> {
  let extraClassDefinition = Heddle_NamesResult;
}

class Heddle_ValueOp<string mnemonic>
    : Heddle_ProgramOp<mnemonic, Heddle_ValueTraits> {
  let extraClassDefinition = Heddle_NamesResult;
}

// Ops of the dialect need no `heddle.` in the op's regions.
defvar Heddle_UnprefixedOps = [{
  static ::llvm::StringRef getDefaultDialect() { return "heddle"; }
}];

def Heddle_ScheduleOp : Op<Heddle_Dialect, "schedule", [
    IsolatedFromAbove, NoRegionArguments, NoTerminator, SingleBlock, Symbol,
    OpAsmOpInterface]> {
  let summary = "a sparsity schedule";
  let description = [{
    What each denoising step computes: which pairs attention has in each layer
    (`attend`), which positions exist (`visible`), which of them a
    step computes (`recompute`) and what the others contribute
    (`reuse`), and which predictions become tokens (`commit`).
    Every other op in here makes a value for one of these. Inside a schedule ops
    have no `heddle.` in front.

    ```mlir
    heddle.schedule @pulsecol {
      %refresh = cadence uniform(window = 0.3, count = 16)
      %cols = select columns(keep = 0.2, group = 128) by mean_probability on %refresh
      attend pairs(%cols)
    }
    ```

    A schedule may declare parameters, each with the number that it is when
    nothing else is set (`heddlec --set keep=1/2`), and name them wherever one
    of its ops has a number. They are read as these numbers; the op has none.

    ```mlir
    heddle.schedule @pulsecol(keep = 20 percent, group = 128) {
      %refresh = cadence uniform(window = 0.3, count = 16)
      %cols = select columns(keep = keep, group = group) by mean_probability on %refresh
      attend pairs(%cols)
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$bodyRegion);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = Heddle_UnprefixedOps;
}

def Heddle_CadenceOp : Heddle_ValueOp<"cadence"> {
  let summary = "a set of denoising steps";
  let description = [{
    `never`, `every(n)`, `every(n, from = s)`, `first(n)`, `at(r)`,
    `at(r, plus = k)`, `at(step = s)`, `uniform(window = r, count = n)`,
    `random(window = r, count = n, seed = s)`, `power(window = r, count = n)`,
    `geometric(n)` or `drift(below = r, within = n)`, which takes `layer = l` and
    `attention`, too, of the run or, followed by `in block`, of each block that is
    decoded; the cadence attribute says which steps each of them is. `or after
    eos` adds all steps once EOS was found.

    ```mlir
    %refresh = cadence uniform(window = 0.3, count = 16)
    %once = cadence at(20 percent)
    %start = cadence first(1) in block
    %phase = cadence every(32) or after eos
    ```
  }];
  let arguments = (ins Heddle_CadenceAttr:$value);
  let results = (outs Heddle_CadenceType:$result);
  let assemblyFormat = "custom<Cadence>($value) `` custom<NoAttributes>(attr-dict)";
}

def Heddle_SelectOp
    : Heddle_PairsOp<"select", [AttrSizedOperandSegments]> {
  let summary = "the key columns or blocks that score highest for each group of rows";
  let description = [{
    `columns`: for each query head and each group of `group` consecutive query
    rows of a sequence (the last group may have fewer), the keys of largest mean
    softmax probability over the group's rows; all rows of a group share them. Of
    n keys `keep * n` are kept, rounded down unless `rounding` says `ceil`,
    `round` or `floor_plus_one`, and at least one; of equal scores the key of
    lowest index wins. With `per_kv_head` all query heads of a key/value head
    share a list, by the mean of their scores, with `per_layer` those of a layer.
    A `keep` that is an integer is a number of keys, of blocks one of blocks; it
    is not rounded. `group = all` is one group of all rows; `of %set` then has
    the mean over the rows of the set alone. `always %set` lists the keys of the
    set, too, and chooses from the others; with `pooled(w)` each of these scores
    as much as the best of its w neighbors among them. The sets are those before
    the refreshing step. `within %pairs`, another selection, chooses from the keys
    alone that it lists for the same rows and heads, and `keep` is of these.

    `blocks`: the same for blocks of `size` consecutive keys, each scored by the
    mean of its keys, and groups of `size` rows. `isolating` tells prompt and
    response apart: `spans` takes the best fraction of each (blocks start anew at
    the response), `aligned` the same of blocks that do not start anew (one that
    holds the boundary counts as prompt), `filtered` those in the prompt of the
    best fraction of all and the best fraction of the response's by the probability
    among response keys alone. `scaled_by(heads)` divides logits by the root of
    the number of query heads when it scores.

    `by mean_logit` takes the mean of logits in place of probabilities: the product
    of the mean of the group's queries and a key, or the mean of a block's keys. It
    needs no dense attention: with `at_once` of `attend` a step has none unless it
    refreshes a selection by probabilities. Without `at_once` steps of the cadence
    are dense all the same.

    | form | meaning |
    |---|---|
    | `columns(keep = r, group = n)` | key columns for each group of n query rows |
    | `columns(keep = r, group = all)` | the same key columns for all query rows |
    | `blocks(keep = r, size = n)` | blocks of n keys for each group of n query rows |

    | argument | meaning |
    |---|---|
    | `keep = r` | the fraction of the keys that is kept, of what a group may read |
    | `keep = n` | so many keys or blocks, or all if there are no more; of isolated spans so many of each |
    | `rounding = floor` | a fraction of the keys is rounded down, to one at least |
    | `rounding = ceil` | rounded up |
    | `rounding = round` | rounded to the nearest |
    | `rounding = floor_plus_one` | one more than the whole part |
    | `per_kv_head` of columns | one list for all query heads of a key/value head |
    | `per_layer` of columns | one list for all query heads |

    | then | meaning |
    |---|---|
    | `by mean_probability` | a key's score is its mean softmax probability over the group's rows |
    | `by mean_logit` | a key's score is its mean logit over the group's rows, as pooled queries and keys have it, less that of the least one |

    | clause | meaning |
    |---|---|
    | `isolating(spans)` of blocks | the best fraction of the prompt's keys and of the response's, whose blocks start anew |
    | `isolating(aligned)` of blocks | the same of blocks that do not start anew |
    | `isolating(filtered)` of blocks | of the best fraction of all those in the prompt, and the best fraction of the response's by themselves |
    | `scaled_by(head_dim)` | logits are divided by the root of the head dim, as in attention |
    | `scaled_by(heads)` of blocks | logits are divided by the root of the number of query heads |
    | `pooled(w)` of columns | a key's score is the largest of w neighbors', an odd number: its own and those of (w - 1) / 2 keys before it and behind it, of the keys that are chosen from |
    | `of %set` of columns | with `group = all`: the mean is over the rows of the set, a range of positions; where none is visible, over all |
    | `always %set` of columns | the visible keys of the set, a range of positions, are listed whatever they score; `keep` is of the others |
    | `within %pairs` of columns | chosen from the keys that another selection, of columns or blocks, lists; `keep` is of these |

    | then | meaning |
    |---|---|
    | `on %cadence` | the steps at which it is refreshed |

    | clause | meaning |
    |---|---|
    | `in layers(0, 8 to 9, -1)` | the layers that refresh it; the others that read it read the list of the nearest one before |

    At a step of the cadence all visible rows are computed and the layer computes
    dense attention, whose output is the layer's output (but for `at_once` of
    `attend`); the selection is then refreshed from that step's Q and K (after
    RoPE). At other steps the latest
    selection is read.

    Each layer that reads the selection refreshes its own lists. With `in
    layers(...)` these layers refresh it, whatever they attend to; every other
    layer that reads it reads, in each step, what the nearest of them before it
    chose last, and is dense at no step for the selection's sake.

    ```mlir
    %cols = select columns(keep = 0.2, group = 128) by mean_probability on %refresh
    %more = select columns(keep = 1/3, group = 32, rounding = ceil) by mean_probability on %refresh
    %tiles = select blocks(keep = 0.3, size = 128) by mean_probability isolating(spans) on %once
    %some = select columns(keep = 512, group = 32) by mean_probability on %refresh
    %few = select columns(keep = 0.2, group = 128) by mean_probability on %refresh in layers(0, 8, 16)
    %kept = select columns(keep = 0.5, group = all, per_layer) by mean_probability pooled(3) of %block always %block on %second
    %fine = select columns(keep = 0.25, group = 32) by mean_probability within %tiles on %once
    %near = select blocks(keep = 1/4, size = 64) by mean_logit on %refresh
    ```

    Source: PulseCol, equations 5 to 7; SparseD, equations 5 and 6, and for
    `aligned`, `filtered`, `scaled_by` and `floor_plus_one` its released code;
    for `per_layer`, `pooled`, `of` and `always` Sparse-dLLM, its released code;
    for `mean_logit` the released code of Sparse-dLLM and, by its order, of VSA.
  }];
  let arguments = (ins Heddle_CadenceType:$cadence,
                       Heddle_SelectionRuleAttr:$rule,
                       Optional<Heddle_PositionsType>:$rows,
                       Optional<Heddle_PositionsType>:$always,
                       Optional<Heddle_PairsType>:$within,
                       OptionalAttr<Heddle_LayerRangeArrayAttr>:$layers,
                       OptionalAttr<StrAttr>:$name);
  let results = (outs Heddle_PairsType:$result);
  // The result's name in the source becomes `name`, so that the plan, the
  // bundle and --explain speak of %cols as the schedule does.
  let assemblyFormat = [{
    `` custom<ResultName>($name)
    custom<SelectionRule>($rule, $rows, $always, $within, $cadence, $layers)
    `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The selection that it chooses within; null if there is none.
    SelectOp getOuter() {
      return getWithin() ? getWithin().getDefiningOp<SelectOp>() : SelectOp();
    }
  }];
}

def Heddle_DenseOp : Heddle_PairsOp<"dense"> {
  let summary = "all pairs";
  let description = [{
    | form | meaning |
    |---|---|
    | `dense` | all pairs |

    ```mlir
    %all = dense
    ```
  }];
  let results = (outs Heddle_PairsType:$result);
  let assemblyFormat = "`` custom<NoAttributes>(attr-dict)";
}

// The sets of pairs by arithmetic (PairSets.td).
foreach set = pairSets in
def Heddle_#set.name#Op : Heddle_PairsOp<set.word> {
  let summary = set.summary;
  let description = set.description;
  let arguments = (ins Heddle_TermAttr:$term);
  let results = (outs Heddle_PairsType:$result);
  let assemblyFormat = "`` custom<Numbers>($term, \"\\\"" # set.word # "\\\"\") `` custom<NoAttributes>(attr-dict)";
  let extraClassDefinition = Heddle_NamesResult # [{
    ::llvm::LogicalResult $cppClass::verify() {
      return checkTerm([&] { return emitOpError(); }, getTerm().getSet(),
                       "}] # set.word # [{");
    }
  }];
  let hasVerifier = 1;
}

def Heddle_UnionOp : Heddle_ValueOp<"union"> {
  let summary = "the pairs, or the positions, that are in any operand";
  let description = [{
    | form | meaning |
    |---|---|
    | `union %a, %b` | in any of them; the operands say whether it is of pairs or of positions |

    ```mlir
    %pairs = union %cols, %near, %first
    %seen = union %decoded, %window
    ```

    Canonical form: flat and without repeats. Of pairs: selections first in the
    order written, then at most one window, at most one number of sinks and at
    most one fraction of them (of two alike, the larger holds the smaller), then
    intersections; a union with `dense` is dense. Of positions: one with `all` is all.
  }];
  let arguments = (ins Variadic<Heddle_SetType>:$operands);
  let results = (outs Heddle_SetType:$result);
  let assemblyFormat = [{
    custom<SetOperands>($operands, type($operands), type($result))
    `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Heddle_IntersectOp : Heddle_ValueOp<"intersect"> {
  let summary = "the pairs, or the positions, that are in all operands";
  let description = [{
    | form | meaning |
    |---|---|
    | `intersect %a, %b` | in all of them; the operands say whether it is of pairs or of positions |

    ```mlir
    %left = intersect %block, %undecoded
    %local = intersect %cols, %near
    ```

    Of pairs: at most one of the operands reads selections (P10), and what is
    intersected is no union of intersections (P12). A kernel has the union of the
    intersections of each operand's parts: `%cols` within `%near` is a list of
    which a row keeps what the window has.

    Canonical form: flat, without repeats and without `all` or `dense`.
  }];
  let arguments = (ins Variadic<Heddle_SetType>:$operands);
  let results = (outs Heddle_SetType:$result);
  let assemblyFormat = [{
    custom<SetOperands>($operands, type($operands), type($result))
    `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Heddle_ExceptOp : Heddle_ValueOp<"except"> {
  let summary = "the positions of a set that are not in another";
  let description = [{
    | form | meaning |
    |---|---|
    | `except %a, %b` | in `%a` and not in `%b`; sets of positions |

    ```mlir
    %second = except %two, %one
    ```
  }];
  let arguments = (ins Heddle_PositionsType:$positions,
                       Heddle_PositionsType:$without);
  let results = (outs Heddle_PositionsType:$result);
  let assemblyFormat = "$positions `,` $without `` custom<NoAttributes>(attr-dict)";
}

def Heddle_PositionsOp : Heddle_ValueOp<"positions"> {
  let summary = "a set of positions of a sequence";
  let description = [{
    | form | positions |
    |---|---|
    | `all` | every position |
    | `prompt` | the prompt |
    | `response` | the response |
    | `block` | the block that is being decoded; a model that decodes without blocks has one, the response |
    | `before(block)` | what stands before the block |
    | `from(block)` | the block and what follows |
    | `decoded` | what is not masked: the prompt and what was committed |
    | `undecoded` | the masked positions |
    | `undecoded(first = k)` | the first k masked positions |
    | `committed(last = k)` | what became a token in the last k steps |
    | `committed(since = %cadence)` | what became a token in or after the latest step of the cadence |
    | `next` | what the step takes of the order that `commit random_order` draws: of the masked positions up to the block's end the first, as many as its quota |
    | `single(n)` | the one position n, from 0; negative: from the sequence's end, whose last position is -1 |

    Each is as it is before the step. `decoded`, `undecoded` and `committed` end
    with the text (`narrowing` of `commit`).

    ```mlir
    %active = positions undecoded(first = 16)
    %recent = positions committed(since = %phase)
    ```
  }];
  let arguments = (ins Heddle_PositionSetAttr:$set,
                       Optional<Heddle_CadenceType>:$since);
  let results = (outs Heddle_PositionsType:$result);
  let assemblyFormat = [{
    custom<PositionSet>($set, $since) `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
}

def Heddle_FixOp : Heddle_ValueOp<"fix"> {
  let summary = "a set as it was at the latest step of a cadence";
  let description = [{
    | form | positions |
    |---|---|
    | `fix %set on %cadence` | the set as it was before the latest step of the cadence, that step included |

    ```mlir
    %window = fix %seen on %phase
    ```
  }];
  let arguments = (ins Heddle_PositionsType:$positions,
                       Heddle_CadenceType:$cadence);
  let results = (outs Heddle_PositionsType:$result);
  let assemblyFormat = "$positions `on` $cadence `` custom<NoAttributes>(attr-dict)";
  let hasFolder = 1;
}

def Heddle_NeighborsOp : Heddle_ValueOp<"neighbors"> {
  let summary = "the positions of a set that are next to those of another";
  let description = [{
    | form | positions |
    |---|---|
    | `neighbors(n) of %set in %others` | for each position of `%set` n positions of `%others`, itself not among them: the nearest to its left, the nearest to its right, the next to its left and so on; where a side has no more, the other side's |

    Of the masked positions {2, 5, 7, 8} the two neighbors of 7 are 5 and 8, of 2
    they are 5 and 7:

    ```mlir
    %near = neighbors(2) of %next in %masked
    ```

    Source: dKV-Cache, its greedy variant's local window.
  }];
  let arguments = (ins I64Attr:$count, Heddle_PositionsType:$of,
                       Heddle_PositionsType:$among);
  let results = (outs Heddle_PositionsType:$result);
  let assemblyFormat = [{
    `` `(` custom<Count>($count) `)` `of` $of `in` $among `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
}

def Heddle_NearestOp : Heddle_ValueOp<"nearest"> {
  let summary = "the positions of a set that are nearest to those of another, none twice";
  let description = [{
    | form | positions |
    |---|---|
    | `nearest(n) of %set in %others` | for each position of `%set` in turn the n nearest of `%others`, of two as near the left one, that are neither in `%set` nor taken before. The turn is from left to right, of `positions next` as the order has them |

    Of the masked positions {2, 5, 7, 8} the two nearest of 7 and then of 5 are 8
    and 2, and none is left for 5:

    ```mlir
    %near = nearest(2) of %next in %masked
    ```

    Source: dKV-Cache's released code, its greedy variant's local window.
  }];
  let arguments = (ins I64Attr:$count, Heddle_PositionsType:$of,
                       Heddle_PositionsType:$among);
  let results = (outs Heddle_PositionsType:$result);
  let assemblyFormat = [{
    `` `(` custom<Count>($count) `)` `of` $of `in` $among `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
}

def Heddle_LastOp : Heddle_ValueOp<"last"> {
  let summary = "the last positions of a set";
  let description = [{
    | form | meaning |
    |---|---|
    | `last(n) of %set` | the last n positions of the set, or all of them if it has no more |

    Of the positions {2, 5, 7} the last two are 5 and 7.

    ```mlir
    %end = last(1) of %kept
    ```

    Source: Window-Diffusion's and dKV-Cache's released code for Dream, whose
    rows go by the end of the sequence.
  }];
  let arguments = (ins I64Attr:$count, Heddle_PositionsType:$positions);
  let results = (outs Heddle_PositionsType:$result);
  let assemblyFormat = [{
    `` `(` custom<Count>($count) `)` `of` $positions `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
}

def Heddle_ConfidentOp : Heddle_ValueOp<"confident"> {
  let summary = "the positions of a set that were last predicted with the highest confidence";
  let description = [{
    | form | positions |
    |---|---|
    | `confident(n) of %set` | of the masked positions of the set the n whose last prediction had the highest confidence, the lower one of equals; those without a prediction come last, from left to right |
    | `confident(n, near = s) of %set` | the same by confidence times the share of what stands near that is decoded: weights fall with distance as those of a Gaussian of standard deviation s |

    A step predicts what its `commit` chooses from, and its confidences are the
    rule's own. A position keeps that of the last step that predicted it.

    ```mlir
    %sure = confident(2) of %block
    %next = confident(32, near = 10) of %masked
    ```

    Source: ES-dLLM's released code, whose two most confident rows always go on;
    Focus-dLLM's past confidences; for `near` d2Cache's certainty density, its
    released code.
  }];
  let arguments = (ins I64Attr:$count, OptionalAttr<I64Attr>:$near,
                       Heddle_PositionsType:$positions);
  let results = (outs Heddle_PositionsType:$result);
  let assemblyFormat = [{
    `` custom<Confident>($count, $near) `of` $positions `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
}

def Heddle_AttendedOp : Heddle_ValueOp<"attended"> {
  let summary = "the positions of a set that drew most attention in the step before";
  let description = [{
    | form | positions |
    |---|---|
    | `attended(share = r) of %set` | of the positions of the set the first ones, by the attention that they drew in the last step that computed rows, that together drew less than the share r of the set's, at least one; of equals the lower one first; none before the first step |

    Attention is added up over all layers by rollout: what rows drew flows on to
    the keys that they attend to, half of it, by the mean of the heads'
    probabilities; of a row that a layer does not compute all of it stays.

    ```mlir
    %drawing = attended(share = 10 percent) of %decoded
    ```

    Source: d2Cache, whose steps compute what drew most attention; attention
    rollout (Abnar and Zuidema, 2020).
  }];
  let arguments = (ins Heddle_RatioAttr:$share, Heddle_PositionsType:$positions);
  let results = (outs Heddle_PositionsType:$result);
  let assemblyFormat = [{
    `` custom<Attended>($share) `of` $positions `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
}

class Heddle_SetOfSetOp<string mnemonic> : Heddle_ValueOp<mnemonic> {
  let arguments = (ins Heddle_PositionsType:$positions);
  let results = (outs Heddle_PositionsType:$result);
  let assemblyFormat = "$positions `` custom<NoAttributes>(attr-dict)";
}

def Heddle_HullOp : Heddle_SetOfSetOp<"hull"> {
  let summary = "every position from the first to the last of a set";
  let description = [{
    | form | meaning |
    |---|---|
    | `hull %set` | the bounding range: every position from the first to the last of the set |

    Of the positions {2, 5, 7} these are 2 to 7; of none there are none.

    ```mlir
    %span = hull %active
    ```
  }];
}

def Heddle_LeadingOp : Heddle_SetOfSetOp<"leading"> {
  let summary = "as many first positions of the sequence as a set has";
  let description = [{
    | form | meaning |
    |---|---|
    | `leading %set` | as many first positions of the sequence as the set has |

    Of the positions {2, 5, 7} these are 0, 1 and 2.

    ```mlir
    %prefix = leading %seen
    ```

    Source: Window-Diffusion's released code for Dream, whose refresh keeps the
    front of the sequence.
  }];
}

def Heddle_PredictingOp : Heddle_SetOfSetOp<"predicting"> {
  let summary = "the rows that predict the positions of a set";
  let description = [{
    | form | meaning |
    |---|---|
    | `predicting %set` | the rows that predict the set: these positions, or with a model that predicts position i in row i - 1 the ones before them (of position 0 its own); only for `recompute ... alone` |

    ```mlir
    %rows = predicting %masked
    recompute %rows alone
    ```

    Source: dKV-Cache's released code for Dream.
  }];
}

def Heddle_VisibleOp : Heddle_ProgramOp<"visible"> {
  let summary = "the positions that exist as rows and keys";
  let description = [{
    The other positions are neither row nor key, as if they were cut out of the
    sequence (a recompute that says `unseen` computes them as queries alone);
    those that exist keep their position numbers. A set that changes
    during the run is a `fix` on a cadence at whose steps all visible rows
    are computed, or a union of such a set and of the rows that each step
    computes. Absent: all positions. It is so in all layers; `attend ... in
    layers(...)` says which keys some of them read.

    | form | meaning |
    |---|---|
    | `%set` | these |
    | `all on %cadence then %set` | all positions are visible at the steps of that cadence, at the others those of the set |

    ```mlir
    visible %window
    visible all on %phase then %window
    ```
  }];
  let arguments = (ins Heddle_PositionsType:$positions,
                       Optional<Heddle_CadenceType>:$all_on);
  let assemblyFormat = [{
    (`all` `on` custom<Value>($all_on)^ `then`)? custom<Everywhere>($positions)
    `` custom<NoAttributes>(attr-dict)
  }];
  let hasCanonicalizeMethod = 1;
}

def Heddle_RecomputeOp : Heddle_ProgramOp<"recompute", [
    AttrSizedOperandSegments]> {
  let summary = "the rows that a step computes";
  let description = [{
    In a layer the first of a schedule's recomputes counts whose cadences all
    have the step and whose layers have the layer; the last has neither cadence
    nor layers. Without any, every step computes all visible rows.

    ```mlir
    recompute all on %start
    recompute all on %prompt and %response
    recompute %rows
    recompute %block in layers(0 to 3)
    recompute salient(below = 0.99) in %rows on %whole
    recompute salient_ffn(below = 0.99) in %rows
    recompute least_similar(keep = 0.25, among = %response) in all
    recompute least_similar(keep = 1/2, among = %others, confidence = 1/2) in %block
    recompute %block alone
    recompute %active unseen
    ```

    | form | rows |
    |---|---|
    | `all` | all visible ones |
    | `%rows` | all of these |
    | `salient(below = r) in %rows` | in layer 0 those that became tokens, other tokens or masks again in the last step; in layer l + 1 those whose attention context in layer l, all heads together, has a cosine below r against the cached one. A layer's own finding says whose FFN it computes. Cosines are f32 with squared norms of at least 1e-8. Source: DyLLM, algorithm 1 |
    | `salient_ffn(below = r) in %rows` | all active ones, but the FFN of those alone whose attention context in the layer has a cosine below r against the cached one. Source: DyLLM, table 1 |
    | `least_similar(keep = r, among = %set) in %rows` | of the active rows in `%set` the floor(r count) whose new V has the lowest cosine, all heads together, against the cached one; and all active rows outside of `%set`. V is computed and cached for all of `%set`, or with `keep = 0 percent` for none. In layer 0, where V depends on the token alone, all active rows. Where a layer keeps neither attention nor FFN the rows of `%set` that are not chosen end. Source: dLLM-Cache, ES-dLLM |
    | `least_similar(keep = r, among = %set, confidence = w) in %rows` | the same by the highest w c + (1 - w) (1 - cosine), of equals the lower position, where c is the confidence of the last prediction of what the row predicts, 0 where that is no mask or was not predicted. Source: ES-dLLM |

    | clause | meaning |
    |---|---|
    | `alone` | without the row before each position, by which a model that predicts position i in row i - 1 predicts it |
    | `unseen` | with those of the rows that are not visible: they attend to the visible keys, and no row attends to theirs, not even they themselves |
    | `on %a and %b` | at the steps that all of these cadences have |
    | `in layers(0 to 3, 28, -1)` | in these layers only, which count from 0 or, negative, from the end |

    With a model that predicts position i in row i - 1, the row before each of
    the positions is computed as well; not with `alone`: then a position of which
    that row is not computed is predicted by its own row.

    Rows that are not visible are left out; with `unseen` they are not. Attention
    then is dense and by no positions: a row that is not visible has no place
    among those that lists and sets of pairs count.
    Source: Window-Diffusion's released code for LLaDA, whose internal window
    goes on behind the external one.

    What rows that are not computed contribute is said by `reuse`. Of the rows
    that some layer of the step computes, those that a layer leaves out go on
    with what it keeps of their attention and FFN; where it does not keep both
    they end there, so that later layers compute none of them, and predict
    nothing.
  }];
  let arguments = (ins Optional<Heddle_PositionsType>:$rows,
                       Optional<Heddle_PositionsType>:$among,
                       Variadic<Heddle_CadenceType>:$on,
                       Heddle_RowRuleAttr:$rule,
                       OptionalAttr<Heddle_LayerRangeArrayAttr>:$layers);
  let assemblyFormat = [{
    custom<RowRule>($rule, $rows, $among, $on, $layers)
    `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def Heddle_ReuseOp : Heddle_ProgramOp<"reuse", [AttrSizedOperandSegments]> {
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
    | `attention(outside = %set, on = %cadence)` | attention over the visible keys outside of the set, before its projection, and its log-sum-exp, as of the latest step of the cadence; the set is as it was before that step | the row itself: at other steps it attends to the keys inside of the set, and what is kept is merged by log-sum-exp |
    | `attention(outside = %set, on = %cadence, refresh = %rows)` | the same; at other steps active rows in `%rows` attend to the keys outside, too, and keep that anew | the same |
    | `attention(outside = %set, on = %cadence, refresh = least_similar(keep = r) in %rows)` | the same; of the active rows in `%rows` those are refreshed, floor(r count) in number, whose new V has the lowest cosine, all heads together, against the cached one; in layer 0, where V depends on the token alone, all of them. Source: after LoSA | the same |

    One of `context`, `output` and `attention` at most.

    | clause | meaning |
    |---|---|
    | `in layers(0 to 3, 28, -1)` | in these layers only, which count from 0 or, negative, from the end; the last reuse names none |

    ```mlir
    heddle.reuse kv, context(propagating), ffn
    heddle.reuse kv, attention(outside = %block, on = %start)
    heddle.reuse kv, attention(outside = %block, on = %start, refresh = %changed)
    heddle.reuse kv in layers(0 to 3)
    ```
  }];
  let arguments = (ins Heddle_ReuseRuleAttr:$rule,
                       UnitAttr:$before_rope,
                       Optional<Heddle_PositionsType>:$inside,
                       Optional<Heddle_CadenceType>:$on,
                       Optional<Heddle_PositionsType>:$refreshed,
                       OptionalAttr<Heddle_LayerRangeArrayAttr>:$layers);
  let assemblyFormat = [{
    custom<ReuseRule>($rule, $before_rope, $inside, $on, $refreshed)
    (`in` custom<LayerRanges>($layers)^)? `` custom<NoAttributes>(attr-dict)
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def Heddle_CommitOp : Heddle_ProgramOp<"commit", [
    AttrSizedOperandSegments]> {
  let summary = "which predictions become tokens";
  let description = [{
    | form | tokens |
    |---|---|
    | `quota` | the model's quota of each step, highest confidence first |
    | `above(r)` | all of confidence r and more, at least the best one |
    | `above(r, strictly)` | all of a confidence that exceeds r, at least the best one |
    | `factor(r)` | the best m, the largest m with (m + 1)(1 - c_m) < r, at least one; c_m is the m-th largest confidence |
    | `factor(r, last_alone)` | the same; but where only the last candidate fails, it is taken too |
    | `random_order` | the model's quota of each step, in an order that is drawn before the run or given to it, whatever the model says |
    | `best(k)` | the k most confident ones |
    | `timesteps` | of the m masked positions of the block floor(m (1 - s / t)), all at the last planned step; t and s are the step's times on a ramp from 1 to 0.001 (Dream: to `--eps`) over the block's steps |
    | `even` | the block's masked positions in equal shares over its planned steps, the first ones one more, whatever the model says |
    | `even_above(r)` | of such a share those of confidence r and more, at least the best one; what it leaves comes to the next step's share, and the block goes on until all are taken |
    | `even_above(r, strictly)` | the same of a confidence that exceeds r |
    | `entropy(r)` | those of least entropy, as many as may be so that the entropies of all but the last sum to r nats at most, at least one |

    | clause | meaning |
    |---|---|
    | `within(%positions)` | of these positions only |
    | `on %a and %b` | at the steps that all of these cadences have |
    | `near(s)` | confidences count times the share of what stands near that is decoded, by a Gaussian of standard deviation s, in positions, as those of `confident(n, near = s)` do |
    | `at_most(share = r, least = a, most = b)` | of m candidates at most floor(r m), but a if that is less, and b if it is more; `least` is 1 and `most` is without bound where they are not given |
    | `revoke(below = r)` | of the block's tokens that earlier steps committed those whose probability is now below r become masks again, the least probable first, fewer than the step commits |
    | `revoke(below = r, by = shadow)` | the same by the probability in a second view of the block, of masks, that the step computes besides: its rows attend to the sequence, each without the position that it predicts, and to each other, and no other row attends to them |
    | `revoke(below = r, fewer_than = step_before)` | fewer than the block's step before committed, and none at a step that commits one token or none |
    | `revoke(below = r, by = shadow, fewer_than = step_before)` | both |
    | `edit(above = r)` | those of these tokens in whose place their rows now predict another one with probability r and more become that one, at the steps that commit or find no mask in their block |
    | `edit(above = r, further = n)` | the same; and after such a step that leaves its block without masks and has changed something, the block takes another pass, at most n of them |
    | `renoise` | at each step the model reads a token that is drawn anew in place of the mask token at each masked position of the block: said of the whole run by the last commit |
    | `passes(at_least = n)` | a block takes at least n steps, also when none of its positions is masked any more, unless the sequence ends: said of the whole run by the last commit |
    | `verify(drafts = n)` | up to n steps after a step are drafted from the latest predictions and verified in its forward pass, by a further copy of the sequence for each; those that come out as drafted are made, and the one behind them. The tokens are those of the same schedule without it, in fewer forward passes: said of the whole run by the last commit |
    | `stop(eos)` | after these steps the response's first EOS is looked for; once it is found, the sequence ends when no masked position stands before it, and what is still masked becomes EOS |
    | `stop(eos, narrowing)` | the same; and the text ends at the EOS that was found: positions behind it are neither `decoded`, `committed` nor `undecoded`, and none of them is committed |

    Of a schedule's commits the first whose cadences all have the step is the one
    that counts, and the last has no cadence.

    ```mlir
    commit above(0.9)
    commit above(0.6) revoke(below = 0.9)
    commit above(0.6, strictly) at_most(share = 0.7, least = 5, most = 20) revoke(below = 0.9, by = shadow, fewer_than = step_before)
    commit above(0.7) edit(above = 0.5, further = 16)
    commit above(0.95) renoise
    commit best(1) within(%first) on %start
    commit quota near(10)
    commit quota within(%active) stop(eos)
    commit quota verify(drafts = 3)
    ```

    Source: Fast-dLLM (above, factor; released code: last_alone, timesteps,
    even_above, passes), LLaDA (even), Window-Diffusion (within, stop), dKV-Cache (random_order),
    WINO (revoke; released code: strictly, at_most, by, fewer_than), FreeDave, SSD (verify), LLaDA2.1 (edit),
    EB-Sampler (entropy), DiffusionGemma's samplers (renoise), d2Cache (near).
  }];
  let arguments = (ins Heddle_CommitRuleAttr:$rule,
                       Optional<Heddle_PositionsType>:$within,
                       Variadic<Heddle_CadenceType>:$on);
  let assemblyFormat = [{
    custom<CommitRule>($rule, $within, $on)
    `` custom<NoAttributes>(attr-dict)
  }];
}

def Heddle_AttendOp : Heddle_ScheduleLevelOp<"attend", [
    AttrSizedOperandSegments, IsolatedFromAbove,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "the pairs that attention computes";
  let description = [{
    One of

    ```mlir
    attend dense
    attend pairs(%cols)
    attend dense until(%once) then pairs(%cols)
    attend pairs(%many) until(%half) then pairs(%few)
    attend dense until(%once) then pairs(%cols) at_once
    ```

    | form | meaning |
    |---|---|
    | `dense` | all pairs |
    | `pairs(%set)` | these pairs |
    | `dense until(%cadence) then pairs(%set)` | all pairs as long as no step of the cadence has come, then these |
    | `pairs(%set) until(%cadence) then pairs(%set)` | the former as long as no step of the cadence has come, then the latter; either `until` may be followed by others |

    | clause | meaning |
    |---|---|
    | `at_once` | a step that refreshes a selection attends over what it has just chosen |
    | `in layers(0 to 3, 28, -1)` | in these layers only, which count from 0 or, negative, from the end |
    | `scores(%logit, %query, %key, %head)` | what becomes of a logit before the softmax, in operations of `arith` and `math` that end in `yield` |

    With `until`, attention is dense, or over the pairs in front of it, as long as
    no step of that cadence has come. Several of them make as many stages, of which
    the first that has not ended is the step's:

    ```mlir
    attend dense until(%early) then pairs(%many) until(%half) then pairs(%few)
    ```

    A step that refreshes a selection attends densely, and what it has chosen
    is read from the next step on; with `at_once` such a step, too, attends over
    what it has just chosen. `in layers(...)` makes it hold for these layers only, and of a
    schedule's attends the first that names a layer, or names none, is the layer's:

    ```mlir
    attend dense in layers(5)
    attend dense in layers(0 to 1, -2 to -1)
    ```

    `scores(%logit, %query, %key, %head) {...}` states what becomes of each
    logit before the softmax: a function of it (f32, scaled by the root of the
    head dim), the positions of query and key in the sequence and the query
    head (i32) in operations of `arith` and `math`. Minus infinity masks a pair.
    Last arguments that are not needed may be left out. Selections that the
    attention refreshes are scored by the probabilities of the same logits.

    ```mlir
    attend pairs(%cols) scores(%logit) {
      %cap = arith.constant 30.0 : f32
      %share = arith.divf %logit, %cap : f32
      %bound = math.tanh %share : f32
      %capped = arith.mulf %bound, %cap : f32
      yield %capped
    }
    ```
  }];
  // As many cadences as sets: the first stage is dense. One fewer: it is not.
  let arguments = (ins Variadic<Heddle_CadenceType>:$until,
                       Variadic<Heddle_PairsType>:$pairs, UnitAttr:$at_once,
                       OptionalAttr<Heddle_LayerRangeArrayAttr>:$layers);
  let regions = (region AnyRegion:$scores);
  let assemblyFormat = [{
    custom<Attended>($until, $pairs, $at_once, $layers, $scores)
    `` custom<NoAttributes>(attr-dict)
  }];
  let extraClassDeclaration = Heddle_UnprefixedOps # [{
    /// What is attended to as long as no step of `until` has come; in the last
    /// stage, which has none, from then on.
    struct Stage {
      ::mlir::Value pairs; ///< null: all
      ::mlir::Value until;
    };
    ::llvm::SmallVector<Stage, 2> getStages();
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLESCHEDULEOPS_TD
