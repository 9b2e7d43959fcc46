//===- PairSets.td - Sets of pairs by arithmetic -------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each set of pairs that no list gives: what is said of it to users, and its
// attribute on tiles. Each becomes an op of schedules (HeddleScheduleOps.td) and
// an attribute of `shed` (KeySets.td). What it is stated with and means says
// bundle/program/PairSets.h, what it is in a kernel
// lib/Dialect/Shed/IR/PairSets.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_PAIRSETS_TD
#define HEDDLE_DIALECT_PAIRSETS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

class PairSet<string aName, string aWord, dag someParameters,
              list<string> someMethods> {
  string name = aName;
  string word = aWord;
  string summary;
  string description;
  // On tiles: of the attribute, and which methods of KeySet it has of its own.
  dag parameters = someParameters;
  string format;
  list<string> methods = someMethods;
}

def WindowSet : PairSet<"Window", "window", (ins
    "int64_t":$size, DefaultValuedParameter<"int64_t", "1">:$dilation), [
    "isUniform", "isShort", "hasGaps", "getKeys", "getCommonKeys", "keeps"]> {
  let summary = "keys near the query: |i - j| <= size / 2, or every few positions";
  let description = [{
    | form | meaning |
    |---|---|
    | `window(n)` | \|i - j\| <= n / 2, in integers: `window(4)` and `window(5)` are both two keys on either side |
    | `window(n, dilation = d)` | as many keys, d positions apart: \|i - j\| <= d (n / 2), and d divides i - j |

    The division is an integer one: `window(5)` and `window(4)` are both the
    query's own key and two on either side. All rows of a tile together have
    nearly all keys of the range, whatever the dilation: a kernel computes the
    range, of which a row keeps its own.

    ```mlir
    %near = window(256)
    %far = window(256, dilation = 4)
    ```

    Source: Longformer, whose sliding window is dilated.
  }];
  let format = "`<` $size (`,` `dilation` `=` $dilation^)? `>`";
}

def SinksSet : PairSet<"Sinks", "sinks", (ins "int64_t":$size), [
    "isShort", "getKeys", "keeps"]> {
  let summary = "the first keys of the sequence: j < size, or a share of all n";
  let description = [{
    | form | meaning |
    |---|---|
    | `sinks(n)` | j < n |
    | `sinks(r)` | j < max(1, floor(r n)), n being the whole sequence's length, whatever is visible |

    A bare integer is a number of keys, any other ratio a share of the whole
    sequence (prompt and response, visible or not): j < max(1, floor(share * n)).
    A kernel on tiles is told the bound of a share when it runs
    (`AttentionArgs::sinks`): `#shed.sinks<?>`, of size `ShapedType::kDynamic`.

    ```mlir
    %first = sinks(4)
    %tenth = sinks(10 percent)
    ```
  }];
  let format = "`<` custom<NumberOrTold>($size) `>`";
}

def RandomBlocksSet : PairSet<"RandomBlocks", "random_blocks", (ins
    "int64_t":$one_in, "int64_t":$size, "int64_t":$seed), [
    "isUniform", "isSparse", "hasGaps", "keeps", "keepsSome"]> {
  let summary = "of every few blocks of keys one, drawn for each block of queries";
  let description = [{
    | form | meaning |
    |---|---|
    | `random_blocks(one_in = m, size = b, seed = s)` | of each m blocks of b positions, from position 0 on, the one numbered h mod m; for query block u and the t-th m blocks h is MurmurHash3's finalizer of s 0x9e3779b9 + u 0x85ebca77 + t 0xc2b2ae3d, in words of 32 bits |

    The same on every machine, in every step, layer and head; the seed is 0 if it
    is not given. Tiles of keys without a block that is kept are left out where
    the rows of a tile lie in one block. Beside others, as BigBird has it: with a
    window and sinks.

    ```mlir
    %some = random_blocks(one_in = 16, size = 64, seed = 1)
    ```

    Source: BigBird, whose number of random blocks for a block of queries is
    fixed; here it grows with the sequence.
  }];
  let format = "`<` struct(params) `>`";
}

def OthersSet : PairSet<"Others", "others", (ins), [
    "isUniform", "hasGaps", "keeps"]> {
  let summary = "all keys but the query's own";
  let description = [{
    | form | meaning |
    |---|---|
    | `others` | j != i |

    What a row attends to that is to know nothing of its own position. A row that
    has no other key has none: its output is zero.

    ```mlir
    %rest = others
    ```

    Source: the attention of WINO's shadow block (released code).
  }];
  let format = "";
}

defvar pairSets = [WindowSet, SinksSet, RandomBlocksSet, OthersSet];

#endif // HEDDLE_DIALECT_PAIRSETS_TD
