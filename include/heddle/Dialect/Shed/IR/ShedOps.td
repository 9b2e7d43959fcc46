//===- ShedOps.td - Operations on tiles ----------------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_SHEDOPS_TD
#define HEDDLE_DIALECT_SHED_IR_SHEDOPS_TD

include "heddle/Dialect/Shed/IR/KeySets.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Shed_SpanAttr : Shed_Attr<"Span", "span"> {
  let summary = "the keys from the first block of the second span on (`SelectArgs::boundary`)";
}
def Shed_ScannedKeysAttr : AnyAttrOf<[Shed_KeySet, Shed_SpanAttr],
    "all, window, sinks, list, blocks or span">;

class Shed_Op<string mnemonic, list<Trait> traits = []>
    : Op<Shed_Dialect, mnemonic, traits>;

def Shed_KernelOp : Shed_Op<"kernel", [
    IsolatedFromAbove, NoRegionArguments, NoTerminator, SingleBlock, Symbol]> {
  let summary = "one task of a kernel, on tiles";
  let description = [{
    `element` is the type of Q, K, V and the output: f32, bf16 or f16. Sums are f32.
    An `attention` kernel ends in `shed.store`, a `select` kernel (with `group`,
    the rows that share a list) in `shed.top_k`. The argument blocks are those of
    `bundle/abi/Abi.h`. With `shared_lists` query heads share the index lists that
    the kernel reads or writes (`IndexList::headsPerList`); the tasks of such a
    select kernel are lists, not heads. With `per_layer` besides all heads do, also
    those that share no keys. `encoding` says how the index lists that the kernel reads or
    writes are laid out (`bundle/abi/IndexLayout.h`): int32 when absent. `some_rows`:
    there are steps in which it computes some of the rows, often few.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Shed_KernelKind:$kind,
                       TypeAttrOf<AnyTypeOf<[F32, BF16, F16]>>:$element,
                       I64Attr:$head_dim, UnitAttr:$writes_lse,
                       UnitAttr:$some_rows,
                       OptionalAttr<I64Attr>:$group, UnitAttr:$shared_lists,
                       UnitAttr:$per_layer,
                       OptionalAttr<Shed_Encoding>:$encoding,
                       OptionalAttr<Shed_AnyTilingAttr>:$tiling);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name custom<KernelKind>($kind) `element` `(` $element `)` `head_dim` `(` $head_dim `)`
    (`writes_lse` $writes_lse^)? (`some_rows` $some_rows^)?
    (`group` `(` $group^ `)`)? (`shared_lists` $shared_lists^)?
    (`per_layer` $per_layer^)? (`encoding` `(` custom<Encoding>($encoding)^ `)`)?
    (`tiling` `(` $tiling^ `)`)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The greatest number of rows that a task can have: all groups of the
    /// kernel are multiples of it (0: any number).
    int64_t getRowsInStep();
    /// The tiling if there is one and it is a `Tiling`, else null.
    template <typename Tiling>
    Tiling getTilingAs() {
      return ::llvm::dyn_cast_or_null<Tiling>(getTilingAttr());
    }
    /// Whether the kernel writes an index list or reads one.
    bool hasLists();
    /// Whether pairs are told apart by where their rows stand in the sequence:
    /// by masks, or by scores.
    bool comparesRows();
    /// Whether scores ask where keys or rows stand.
    bool scoresPositions();
  }];
}

def Shed_LoadQueriesOp : Shed_Op<"load_queries"> {
  let summary = "loads the task's tile of query rows";
  let description = "Rows beyond the last are copies of it and are never stored.";
  let results = (outs Shed_QueryTile:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Shed_LoadKeysOp : Shed_Op<"load_keys"> {
  let summary = "loads or gathers the key rows of a tile";
  let arguments = (ins Shed_Keys:$keys);
  let results = (outs Shed_KeyTile:$result);
  let assemblyFormat = "$keys attr-dict `:` type($result)";
}

def Shed_LoadValuesOp : Shed_Op<"load_values"> {
  let summary = "loads or gathers the value rows of a tile of keys";
  let arguments = (ins Shed_Keys:$keys);
  let results = (outs Shed_KeyTile:$result);
  let assemblyFormat = "$keys attr-dict `:` type($result)";
}

def Shed_LoadLseOp : Shed_Op<"load_lse"> {
  let summary = "loads the log-sum-exp of the tile's query rows";
  let description = [{
    Rows beyond the last have +inf: they give no probability. With `span` it is
    the log-sum-exp over the second span's keys alone (`SelectArgs::spanLse`).
  }];
  let arguments = (ins UnitAttr:$span);
  let results = (outs Shed_Lse:$result);
  let assemblyFormat = "(`span` $span^)? attr-dict";
}

def Shed_SoftmaxInitOp : Shed_Op<"softmax_init", [Pure]> {
  let summary = "a softmax over no keys yet";
  let results = (outs Shed_Softmax:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Shed_MassInitOp : Shed_Op<"mass_init", [Pure]> {
  let summary = "zero mass for every key";
  let results = (outs Shed_Mass:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Shed_ForKeysOp : Shed_Op<"for_keys", [
    SingleBlock, AllTypesMatch<["init", "result"]>]> {
  let summary = "passes over a set of keys, a tile at a time";
  let description = [{
    Visits, in ascending order and each once, the keys of the set `over` for any
    row of the query tile, but none in the sets of `skip`. The region gets the
    positions of a tile of keys and the carried value.
  }];
  let arguments = (ins Shed_ScannedKeysAttr:$over,
                       DefaultValuedAttr<Shed_UniformSetArrayAttr, "{}">:$skip,
                       Shed_Carried:$init);
  let results = (outs Shed_Carried:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `over` $over (`skip` $skip^)? `init` `(` $init `)` `:` type($init)
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Shed_ForQueriesOp : Shed_Op<"for_queries", [
    SingleBlock, AllTypesMatch<["init", "result"]>]> {
  let summary = "passes over the query rows of the task's group, a tile at a time";
  let description = [{
    Loads of queries in the region load the tile at hand. In a kernel with
    `shared_lists` it does so for each query head of the list. With `span` it
    does nothing where the arguments have no `spanLse`.
  }];
  let arguments = (ins UnitAttr:$span, Shed_Carried:$init);
  let results = (outs Shed_Carried:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat =
      "(`span` $span^)? `init` `(` $init `)` `:` type($init) attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Shed_YieldOp : Shed_Op<"yield", [
    Pure, Terminator, ParentOneOf<["ForKeysOp", "ForQueriesOp", "ScoresOp"]>]> {
  let summary = "hands the carried value to the next tile, or a logit on";
  let arguments = (ins AnyTypeOf<[Shed_Carried, F32]>:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Shed_DotOp : Shed_Op<"dot", [Pure]> {
  let summary = "scaled logits in base 2: scale * log2(e) * Q . K, in f32";
  let arguments = (ins Shed_QueryTile:$queries, Shed_KeyTile:$keys);
  let results = (outs Shed_LogitTile:$result);
  let assemblyFormat =
      "$queries `,` $keys attr-dict `:` type($queries) `,` type($keys)";
  let hasVerifier = 1;
}

def Shed_ScoresOp : Shed_Op<"scores", [
    Pure, IsolatedFromAbove,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "replaces each logit by a function of it and its pair";
  let description = [{
    The region gets a pair's logit (natural: scale * Q . K, not times log2(e)),
    the positions of its query and its key in the sequence, and the query head.
    It yields the natural logit that takes its place: minus infinity masks the
    pair. bundle/program/Scores.h has the operations that it may use. Comes before any
    `shed.mask`, since a function of minus infinity may be anything.

    ```mlir
    %c = shed.scores %l at %keys (%logit) {
      %cap = arith.constant 30.0 : f32
      %share = arith.divf %logit, %cap : f32
      %bound = math.tanh %share : f32
      %capped = arith.mulf %bound, %cap : f32
      shed.yield %capped : f32
    }
    ```

    `math.tanh` of 16-bit kernels on GPUs is within 2^-11 relative; everything
    else as fp32 computes it.
  }];
  let arguments = (ins Shed_LogitTile:$logits, Shed_Keys:$keys);
  let results = (outs Shed_LogitTile:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat =
      "$logits `at` $keys custom<Scores>($body) attr-dict-with-keyword";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Shed_MaskOp : Shed_Op<"mask", [Pure]> {
  let summary = "sets logits of pairs to -inf that are not to be counted";
  let description = [{
    Keeps the pairs of the set `within` (all when absent) that are in none of the
    sets `outside`.
  }];
  let arguments = (ins Shed_LogitTile:$logits, Shed_Keys:$keys,
                       OptionalAttr<Shed_MaskedSet>:$within,
                       DefaultValuedAttr<Shed_MaskedSetArrayAttr, "{}">:$outside);
  let results = (outs Shed_LogitTile:$result);
  let assemblyFormat =
      "$logits `,` $keys (`within` $within^)? (`outside` $outside^)? attr-dict";
  let hasVerifier = 1;
}

def Shed_SoftmaxUpdateOp : Shed_Op<"softmax_update", [Pure]> {
  let summary = "adds a tile of keys to a running softmax";
  let description = [{
    m' >= max(m, logits) up to a bounded slack, or m' >= m such that sum' stays in
    range (`check_sums` of `wgmma_tiling`), p = exp2(logits - m'),
    sum' = sum * exp2(m - m') + sum_j p_j,
    context' = context * exp2(m - m') + p . values. Rows all of whose logits are
    -inf are left as they are.
  }];
  let arguments = (ins Shed_Softmax:$state, Shed_LogitTile:$logits,
                       Shed_KeyTile:$values);
  let results = (outs Shed_Softmax:$result);
  let assemblyFormat = "$state `,` $logits `,` $values attr-dict `:` type($values)";
  let hasVerifier = 1;
}

def Shed_ColumnMassOp : Shed_Op<"column_mass", [Pure]> {
  let summary = "adds each key's probability, summed over the tile's rows";
  let description = "mass'_j = mass_j + sum_i exp2(logits_ij - lse_i).";
  let arguments = (ins Shed_Mass:$mass, Shed_LogitTile:$logits, Shed_Lse:$lse,
                       Shed_Keys:$keys);
  let results = (outs Shed_Mass:$result);
  let assemblyFormat = "$mass `,` $logits `,` $lse `,` $keys attr-dict";
}

def Shed_LogitMassOp : Shed_Op<"logit_mass"> {
  let summary = "adds each key's logit, summed over the rows of the task's group";
  let description = [{
    mass'_j = mass_j + sum_hi scale * q_hi . k_j over the rows i of the group and
    the query heads h of the list, which is scale * (sum_i q_hi) . k_j; of blocks
    the sum of this over the keys of one is scale * (sum_i q_hi) . (sum_j k_j). Sums
    are of f32, in an order that no batch changes. Masses may be negative:
    `shed.top_k` takes the least score away from all.

    ```mlir
    %none = shed.mass_init : !shed.mass
    %mass = shed.logit_mass %none
    shed.top_k %mass
    ```
  }];
  let arguments = (ins Shed_Mass:$mass);
  let results = (outs Shed_Mass:$result);
  let assemblyFormat = "$mass attr-dict";
}

def Shed_StoreOp : Shed_Op<"store", [
    ParentOneOf<["KernelOp", "AttentionTaskOp"]>]> {
  let summary = "stores context / sum, and the log-sum-exp if the kernel writes it";
  let arguments = (ins Shed_Softmax:$state);
  let assemblyFormat = "$state attr-dict";
}

def Shed_TopKOp : Shed_Op<"top_k", [
    ParentOneOf<["KernelOp", "SelectTaskOp"]>]> {
  let summary = "stores the scores and the positions of the largest ones";
  let description = [{
    score_j = mass_j / rows of the group (and heads of a shared list), by a
    `shed.logit_mass` less the least key's, or block's. Writes exactly `keep` distinct positions in ascending order; among equal scores the
    lowest positions win. With `blocks` these are numbers of blocks of as many
    keys as the group has rows, a block's score is the mean of its keys', and
    spans are chosen from as `SelectArgs` says: the second one by `span`, where
    its log-sum-exp is given (a `shed.logit_mass` has none). Keys that are always listed
    (`SelectArgs::alwaysBegin`) score infinity; with `pooled(n)` the others score
    as much as the best of n neighbors. With `within` a list these others are
    its keys alone (`SelectArgs::within`; its index is 0).
  }];
  let arguments = (ins Shed_Mass:$mass, Optional<Shed_Mass>:$span,
                       UnitAttr:$blocks, OptionalAttr<I64Attr>:$pooled,
                       OptionalAttr<Shed_ListedSet>:$within);
  let assemblyFormat = [{
    $mass (`span` $span^)? (`blocks` $blocks^)? (`pooled` `(` $pooled^ `)`)?
    (`within` $within^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether it chooses by a `shed.logit_mass`.
    bool isByLogits() { return getMass().getDefiningOp<LogitMassOp>() != nullptr; }
    /// The form of the lists that it chooses within; none: all keys.
    std::optional<KeyEntries> getEntriesWithin() {
      return getWithin() ? getWithin()->getEntries() : std::nullopt;
    }
  }];
}

#endif // HEDDLE_DIALECT_SHED_IR_SHEDOPS_TD
