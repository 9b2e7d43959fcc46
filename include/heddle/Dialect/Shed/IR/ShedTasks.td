//===- ShedTasks.td - Pipelined kernels of shed --------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `shed-pipeline-copies` leaves of a kernel: a function whose loops, copies
// and waits are explicit, and in it a task with the ops on tiles.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_SHEDTASKS_TD
#define HEDDLE_DIALECT_SHED_IR_SHEDTASKS_TD

include "heddle/Dialect/Shed/IR/ShedOps.td"
include "mlir/Dialect/LLVMIR/LLVMTypes.td"

def Shed_SharedLayoutAttr : Shed_Attr<"SharedLayout", "shared_layout"> {
  let summary = "where a block's shared memory has what";
  let description = [{
    Offsets in bytes from the start of the block's dynamic shared memory; 0 for
    what a kernel does not have. They follow from the facts of a task (element,
    head dim, tiling, encoding) and the ops in it, and lowering refuses others. Of all kernels:
    * `queries`: rows of queries, or of their means;
    * `keys`: the stages of keys, of a select kernel each warp's tile;
    * `bytes`: of all.

    Of attention:
    * `values`: the stages of values;
    * `weights`: f32 weights of a tile, (rows, keys), of kernels in f32;
    * `source`: the ring of keys that a list names, or of its blocks' keys;
    * `filter`: a bit for each key of a tile that is left out;
    * `positions`: i32 positions of the rows, which masks compare.

    Of a select kernel, f32 each:
    * `lse`: minus the log-sum-exp of each row;
    * `inverses`: 1 / rows of each group.

    Worked example: 64 rows, tiles of 32 keys and head dim 64 in bf16, two stages:
    8 KiB of queries, then twice 2 * 4 KiB:
    `#shed.shared_layout<queries = 0, keys = 8192, bytes = 24576, values = 16384>`.
  }];
  let parameters = (ins
      "int64_t":$queries, "int64_t":$keys, "int64_t":$bytes,
      DefaultValuedParameter<"int64_t", "0">:$values,
      DefaultValuedParameter<"int64_t", "0">:$weights,
      DefaultValuedParameter<"int64_t", "0">:$source,
      DefaultValuedParameter<"int64_t", "0">:$filter,
      DefaultValuedParameter<"int64_t", "0">:$positions,
      DefaultValuedParameter<"int64_t", "0">:$lse,
      DefaultValuedParameter<"int64_t", "0">:$inverses);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

class Shed_TaskOp<string mnemonic, list<Trait> traits = []>
    : Shed_Op<mnemonic, traits # [NoRegionArguments, NoTerminator, SingleBlock]> {
  // What a kernel says, too.
  dag facts = (ins TypeAttrOf<AnyTypeOf<[F32, BF16, F16]>>:$element,
                   I64Attr:$head_dim,
                   OptionalAttr<Shed_Encoding>:$encoding,
                   Shed_MmaTilingAttr:$tiling, Shed_SharedLayoutAttr:$layout);
  let regions = (region SizedRegion<1>:$body);
  let hasRegionVerifier = 1;
}

def Shed_AttentionTaskOp : Shed_TaskOp<"attention_task"> {
  let summary = "attention of a block's rows, with copies and loops explicit";
  let description = [{
    Stands in the function of an attention kernel, once for each way that rows may
    go (`share_keys`, which the tiling of one way has). The region runs once. It holds
    upstream loops and copies of tiles, and between them the ops on tiles of the
    kernel, which ends in `shed.store`. `element` to `tiling` are the kernel's;
    `encoding` stands only where the ring has keys of a list. The rest is what these ops need
    of the function, of each thread its own; places in shared memory are in bytes:
    * `args`: the task's `AttentionArgs` (`bundle/abi/Abi.h`);
    * `n`: keys of the sequence; `head`: the query head;
    * `rows`: the block's rows [first, end) of queries;
    * `factor`: |scale| * log2(e), by which products are logits of base 2;
    * `shared`: the address of dynamic shared memory;
    * `warp`: number of the warp, the first row of the tile that it holds, and the
      bytes of the rows before it;
    * `lane`: number of the lane, the column of a 16 x 8 square that it begins at,
      2 * (lane % 4), and where its row of a 16 x 16 square lies when matrices 1
      and 2 are the next rows, or the next channels;
    * `split`, where warps share keys: how many warps hold all rows, this warp's
      first part of a tile, and how many warps hold the same rows.

    Loops carry `!shed.softmax`. A tile of queries is cast from its first row in
    the block's tile (i32) and, with `keep_queries`, a warp's fragments of it, four
    words for each 16 x 16 square; tiles of keys are `shed.keys_at`.
  }];
  let arguments = !con(facts, (ins
      UnitAttr:$writes_lse, LLVM_PointerInAddressSpace<1>:$args, I32:$n, I32:$head,
      I32:$first_row, I32:$end_row, F32:$factor, I32:$shared, I32:$warp,
      I32:$warp_row, I32:$warp_bytes, I32:$lane, I32:$column, I32:$rows_first,
      I32:$channels_first, Variadic<I32>:$split));
  let extraClassDeclaration = [{
    /// Whether ops ask where rows stand, which the layout then has.
    bool comparesRows();
  }];
  let assemblyFormat = [{
    `element` `(` $element `)` `head_dim` `(` $head_dim `)`
    (`writes_lse` $writes_lse^)? (`encoding` `(` custom<Encoding>($encoding)^ `)`)?
    `tiling` `(` $tiling `)` `layout` `(` $layout `)`
    `args` `(` $args `:` qualified(type($args)) `)` `n` `(` $n `)` `head` `(` $head `)`
    `rows` `(` $first_row `to` $end_row `)` `factor` `(` $factor `)`
    `shared` `(` $shared `)`
    `warp` `(` $warp `,` $warp_row `,` $warp_bytes `)`
    `lane` `(` $lane `,` $column `,` $rows_first `,` $channels_first `)`
    (`split` `(` $split^ `)`)? attr-dict-with-keyword $body
  }];
}

def Shed_SelectTaskOp : Shed_TaskOp<"select_task", [AttrSizedOperandSegments]> {
  let hasVerifier = 1;
  let summary = "lists of some groups, with copies and loops explicit";
  let description = [{
    Stands in the function of a select kernel, in the loop over the tasks of a
    block. The region holds upstream loops and copies, and between them the ops on
    tiles of the kernel, which ends in `shed.top_k`. `element` to `tiling` and `group`
    are the kernel's. The rest is what these ops need of the
    function, of each thread its own:
    * `args`: the task's `SelectArgs` (`bundle/abi/Abi.h`); `scratch`: the block's
      rows of scores, in global memory;
    * `n`: keys of the sequence;
    * `rows`: where the rows that have groups end; and where they begin, with one
      group of some of the rows (`bundle::groupOfAll`);
    * `heads`, where heads share lists and are scored by `shed.logit_mass`: how many
      share one;
    * `key_stride`: bytes from a key to the next, i64;
    * `factor`: scale * log2(e);
    * `shared`: the address of dynamic shared memory;
    * `thread`, `lane`, `warp`: numbers; and the address of the warp's tile of keys;
    * `chunks`: bytes from a row to this lane's 16 of it, in even and in odd steps
      of 64;
    * `task`: the row of lists, and the first of the groups.

    What is a tile of the kernel is cast from what a thread has of it: queries from
    their first row in shared memory, its place and the head; keys from the number
    of the warp's tile and its words; a log-sum-exp from the row; a mass from what
    the thread has yet to add to scores (f32, two for each 16 keys) and the row of
    scratch where these begin (i32), and back.
  }];
  let arguments = !con(facts, (ins
      I64Attr:$group, LLVM_PointerInAddressSpace<1>:$args,
      LLVM_PointerInAddressSpace<1>:$scratch, I32:$n, Optional<I32>:$first_row, I32:$end_row,
      Optional<I32>:$heads, I64:$key_stride, F32:$factor, I32:$shared, I32:$thread,
      I32:$lane, I32:$warp, I32:$warp_keys, I32:$even_chunk, I32:$odd_chunk,
      I32:$list, I32:$first_group));
  let assemblyFormat = [{
    `element` `(` $element `)` `head_dim` `(` $head_dim `)` `group` `(` $group `)`
    (`encoding` `(` custom<Encoding>($encoding)^ `)`)?
    `tiling` `(` $tiling `)` `layout` `(` $layout `)`
    `args` `(` $args `:` qualified(type($args)) `)` `scratch` `(` $scratch `:` qualified(type($scratch)) `)`
    `n` `(` $n `)` `rows` `(` $end_row (`from` $first_row^)? `)` (`heads` `(` $heads^ `)`)?
    `key_stride` `(` $key_stride `)` `factor` `(` $factor `)`
    `shared` `(` $shared `)` `thread` `(` $thread `)` `lane` `(` $lane `)`
    `warp` `(` $warp `,` $warp_keys `)` `chunks` `(` $even_chunk `,` $odd_chunk `)`
    `task` `(` $list `,` $first_group `)` attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    bool getSharedLists() { return static_cast<bool>(getHeads()); }
  }];
}

def Shed_KeysAtOp : Shed_Op<"keys_at", [Pure, AttrSizedOperandSegments]> {
  let summary = "the keys of a tile that copies have brought";
  let description = [{
    The keys of a pass over `count` keys from rank `rank` on: a tile, or the warp's
    part of one. `stage` has the bytes from the first stage of keys, or of values,
    to this one. What is known of them when code is written:
    * `from`: they are consecutive, and rank 0 stands at `first` in the sequence.
      Without, they are of a list, which the ring of the layout has by rank;
    * `marks`: the filter says which ranks of tile `tile` (from 0) have no key;
    * `blocks`: they are of a list of blocks, whose gaps the filter marks;
    * `partial`: there may be ranks from `count` on, which have no key. A filter
      marks these, too.

    ```mlir
    %keys = shed.keys_at rank %r of %n from %zero stage %s partial
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>

    %listed = shed.keys_at rank %r of %n stage %s marks %t
    ```
  }];
  let arguments = (ins I32:$rank, I32:$count, Optional<I32>:$first, I32:$stage,
                       Optional<I32>:$tile, UnitAttr:$blocks, UnitAttr:$partial);
  let results = (outs Shed_Keys:$result);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isListed() { return !getFirst(); }
    bool isMarked() { return static_cast<bool>(getTile()); }
  }];
  let assemblyFormat = [{
    `rank` $rank `of` $count (`from` $first^)? `stage` $stage (`marks` $tile^)?
    (`blocks` $blocks^)? (`partial` $partial^)? attr-dict
  }];
}

#endif // HEDDLE_DIALECT_SHED_IR_SHEDTASKS_TD
