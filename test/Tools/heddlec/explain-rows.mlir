// REQUIRES: heddlec
// Which rows a run computes as far as that is known before it.

// RUN: heddlec %s --schedule=window --compile-to=plan --block-length=256 --explain --steps=64 --length=512 --prompt=256 --layers=32 | FileCheck %s --check-prefix=WINDOW
// WINDOW: schedule window: 64 steps, 512 tokens
// WINDOW: of a dense run: operations about
// WINDOW: rows (prompt 256, response 256, 64 steps a block, if the run goes as planned)
// WINDOW-NEXT: %external = undecoded(first = 64)
// WINDOW-NEXT: %active = undecoded(first = 16)
// WINDOW-NEXT: %seen = union(decoded, %external)
// WINDOW-NEXT: visible: fixed(%seen) on every(32), 320 to 512
// WINDOW-NEXT: 2 steps: computes all, 320 to 512 of 512 rows
// WINDOW-NEXT: 1,33
// WINDOW-NEXT: 62 steps: computes %active, 0 to 16 of 512 rows
// WINDOW-NEXT: 2-32,34-64
// WINDOW-NEXT: kept of rows: at most 8.39 MB a layer, 268 MB in 32 layers
// WINDOW-NEXT: commits quota within %active
// WINDOW-NEXT: ends once EOS is found and no mask stands before it
heddle.schedule @window {
  %phase = cadence every(32)
  %decoded = positions decoded
  %external = positions undecoded(first = 64)
  %active = positions undecoded(first = 16)
  %seen = union %decoded, %external
  %fixed = fix %seen on %phase
  visible %fixed
  reuse kv
  recompute all on %phase
  recompute %active
  commit quota within(%active) stop(eos)
  attend dense
}

// Of 8 steps a block, the first computes all 96 rows, the others the block's 32.
// RUN: heddlec %s --schedule=dual --compile-to=plan --explain --steps=16 --length=96 --prompt=32 --block-length=32 --kv-heads=4 | FileCheck %s --check-prefix=DUAL
// DUAL: of a dense run: operations about
// DUAL: rows (prompt 32, response 64, 8 steps a block
// DUAL-NEXT: 2 steps: computes all, 96 of 96 rows
// DUAL-NEXT: 1,9
// DUAL-NEXT: 14 steps: computes block, 32 of 96 rows
// DUAL-NEXT: 2-8,10-16
// DUAL-NEXT: kept of rows: at most 197 kB a layer
// DUAL-NEXT: commits above(0.9)
// DUAL-NEXT: how many steps a block takes, the run decides
heddle.schedule @dual {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv
  recompute all on %start
  recompute %block
  commit above(0.9)
  attend dense
}

// Of the same steps the first keeps attention over the 64 keys outside of the block, and the others attend to its 32.
// RUN: heddlec %s --schedule=parts --compile-to=plan --explain --steps=16 --length=96 --prompt=32 --block-length=32 --kv-heads=4 | FileCheck %s --check-prefix=PARTS
// PARTS: attention 22.2% of the pairs
// PARTS: 2 steps: computes all; dense; keeps attention outside of block;
// PARTS-NEXT: 14 steps: computes block; dense inside of block, merged with what is kept;
// PARTS: 14 steps: computes block, 32 of 96 rows
// PARTS-NEXT: 2-8,10-16
// PARTS-NEXT: attention outside of block: kept on first(1) in block, merged at other steps
// PARTS-NEXT: kept of rows: at most 995 kB a layer, 31.9 MB in 32 layers
heddle.schedule @parts {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv, attention(outside = %block, on = %start)
  recompute all on %start
  recompute %block
  attend dense
}

// Of those 32 rows all attend to the 64 outside, too, in the first of the layers, 8 in the second.
// RUN: heddlec %s --schedule=refreshing --compile-to=plan --explain --steps=16 --length=96 --prompt=32 --block-length=32 --heads=4 --kv-heads=4 --layers=2 | FileCheck %s --check-prefix=REFRESHING
// REFRESHING: attention 34.4% of the pairs
// REFRESHING: 14 steps: computes block; dense inside of block, merged with what is kept, refreshed for least_similar(keep = 1/4) in block;
// REFRESHING: attention outside of block: kept on first(1) in block, merged at other steps, refreshed there for least_similar(keep = 1/4) in block
heddle.schedule @refreshing {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv, attention(outside = %block, on = %start, refresh = least_similar(keep = 1/4) in %block)
  recompute all on %start
  recompute %block
  attend dense
}

// RUN: heddlec %s --schedule=ordered --compile-to=plan --explain --steps=16 --length=96 --prompt=32 --block-length=8 | FileCheck %s --check-prefix=ORDERED
// ORDERED: of a dense run: operations 52.6%
// ORDERED: %masked = undecoded
// ORDERED-NEXT: %near = neighbors(2) of next in %masked
// ORDERED-NEXT: %rows = union(next, %near)
// ORDERED-NEXT: 8 steps: computes all, 96 of 96 rows
// ORDERED-NEXT: 1,3,5,7,9,11,13,15
// ORDERED-NEXT: 8 steps: computes %rows, 4 to 5 of 96 rows
// ORDERED: commits in an order that is drawn before the run
heddle.schedule @ordered {
  %again = cadence every(2) in block
  %next = positions next
  %masked = positions undecoded
  %near = neighbors(2) of %next in %masked
  %rows = union %next, %near
  reuse kv
  recompute all on %again
  recompute %rows
  commit random_order
  attend dense
}

// RUN: heddlec %s --schedule=released --compile-to=plan --explain --steps=16 --length=96 --prompt=32 | FileCheck %s --check-prefix=RELEASED
// RELEASED: %active = undecoded(first = 6)
// RELEASED-NEXT: %seen = union(decoded, %active)
// RELEASED-NEXT: %window = fixed(%seen) on every(8, from = 2)
// RELEASED-NEXT: %rows = hull(%active)
// RELEASED-NEXT: visible on every(8): all
// RELEASED-NEXT: visible: %window, 39 to 96
// RELEASED-NEXT: 2 steps: computes all, 96 of 96 rows
// RELEASED: 14 steps: computes %rows alone unseen, 6 to 21 of 96 rows
// RELEASED: on every(8): commits best(1) within %active
// RELEASED-NEXT: commits factor(1/1, last_alone), looks for EOS
// RELEASED-NEXT: how many steps a block takes, the run decides
// RELEASED-NEXT: a block takes at least 2 steps
// RELEASED-NEXT: ends once EOS is found and no mask stands before it
// RELEASED-NEXT: what stands behind that EOS is no longer of the text
heddle.schedule @released {
  %phase = cadence every(8)
  %after = cadence every(8, from = 2)
  %active = positions undecoded(first = 6)
  %decoded = positions decoded
  %seen = union %decoded, %active
  %window = fix %seen on %after
  %rows = hull %active
  visible all on %phase then %window
  reuse kv
  recompute all on %phase
  recompute %rows alone unseen
  commit best(1) within(%active) on %phase
  commit factor(1, last_alone) passes(at_least = 2) stop(eos, narrowing)
  attend dense
}

// RUN: heddlec %s --schedule=salient --compile-to=plan --explain=json --steps=8 --length=96 --prompt=32 | FileCheck %s --check-prefix=JSON
// JSON: "cache_bytes_per_layer": 3145728
// JSON: "computes": "all"
// JSON: "depends_on_run": false
// JSON: "computes": "salient(below = 0.99) in response"
// JSON: "least": 64,
// JSON-NEXT: "most": 64
// JSON: "depends_on_run": true
heddle.schedule @salient {
  %full = cadence first(4)
  %response = positions response
  reuse kv, context(propagating), ffn
  recompute all on %full
  recompute salient(below = 0.99) in %response
  attend dense
}

// With one token a step none is revoked; of the block's rows those through the
// LM head are the masked ones and, while two are masked, all.
// RUN: heddlec %s --schedule=revoking --compile-to=plan --explain --steps=8 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=REVOKING
// REVOKING: of a dense run: operations at most
// REVOKING: LM head {{ *}}26 rows
// REVOKING: commits above(3/5), revokes tokens below 0.9
// REVOKING-NEXT: how many steps a block takes, the run decides
heddle.schedule @revoking {
  commit above(3/5) revoke(below = 9/10)
  attend dense
}

// Two tokens a step are planned; how many of them are revoked, the run decides,
// but never all: it takes eight steps at most, or as many as are said to stay need.
// RUN: heddlec %s --schedule=again --compile-to=plan --explain --steps=4 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=AGAIN
// RUN: heddlec %s --schedule=again --compile-to=plan --explain --tokens-per-step=2 --steps=4 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=TWO
// TWO: of a dense run: operations about
// TWO-NOT: the run takes
// AGAIN: of a dense run: operations at most
// AGAIN: the run takes at most 8 steps; what is said of rows and layers is of the 4 planned
// AGAIN: commits quota, revokes tokens below 0.9
// AGAIN-NEXT: how many steps a block takes, the run decides
heddle.schedule @again {
  commit quota revoke(below = 0.9)
  attend dense
}

// With one token a step each of two blocks takes four, and three further passes; of the
// block's four rows all go through the LM head.
// RUN: heddlec %s --schedule=editing --compile-to=plan --explain --tokens-per-step=1 --steps=8 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=EDITING
// EDITING: of a dense run: operations at most
// EDITING: the run takes at most 14 steps
// EDITING: LM head {{ *}}56 rows
// EDITING: commits above(0.7), edits tokens above 0.5, in at most 3 further passes
// EDITING-NEXT: how many steps a block takes, the run decides
heddle.schedule @editing {
  commit above(0.7) edit(above = 0.5, further = 3)
  attend dense
}

// What is edited changes no number of steps, but the rows that are looked at.
// RUN: heddlec %s --schedule=planned --compile-to=plan --explain --steps=4 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=PLANNED
// PLANNED: of a dense run: operations 1
// PLANNED-NOT: the run takes
// PLANNED: LM head {{ *}}16 rows
// PLANNED: commits quota, edits tokens above 0.9
// PLANNED-NOT: the run decides
heddle.schedule @planned {
  commit quota edit(above = 0.9)
  attend dense
}

// Each step once; how many copies of the sequence hold, the run decides.
// RUN: heddlec %s --schedule=drafted --compile-to=plan --explain --steps=8 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=DRAFTED
// RUN: heddlec %s --schedule=drafted --compile-to=plan --explain=json --steps=8 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=MOST
// DRAFTED: schedule drafted: 8 steps, 16 tokens
// DRAFTED: of a dense run: operations about 100.0%
// DRAFTED: verifies up to 3 drafts in a forward pass: how many hold, the run decides; counted is each step once, in a pass of its own, and where none holds operations are at most 400.0% of a dense run's{{$}}
// DRAFTED: drafts up to 3 steps ahead and verifies them in its forward pass
// MOST: "certainty": "about"
// MOST: "drafts": {
// MOST-NEXT: "most": 3,
// MOST-NEXT: "most_operations":
heddle.schedule @drafted {
  commit quota verify(drafts = 3)
  attend dense
}

// More steps than tokens: which steps are counted where, and the warning of a run.
// RUN: heddlec %s --schedule=waiting --compile-to=plan --explain --steps=8 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=WAITING
// WAITING: schedule waiting: 8 steps, 16 tokens
// WAITING: the run takes at most 20 steps; what is said of rows and layers is of the 8 planned{{$}}
// WAITING-NEXT: warning: a block takes at least 10 steps, but it has 4 tokens: later steps find nothing to commit{{$}}
// WAITING: 20 steps: dense;
// WAITING: layers
// WAITING-NEXT: 8 steps: dense
heddle.schedule @waiting {
  commit above(0.9) passes(at_least = 10)
  attend dense
}

// Pairs are at most so many, as the last block is shorter; the steps are so many.
// RUN: heddlec %s --schedule=counted --compile-to=plan --explain --crossovers=none --steps=8 --length=40 --prompt=32 --block-length=4 | FileCheck %s --check-prefix=COUNTED
// COUNTED: of a dense run: operations at most
// COUNTED: the run takes 20 steps; what is said of rows and layers is of the 8 planned
heddle.schedule @counted {
  %every = cadence every(1)
  %blocks = select blocks(keep = 1/2, size = 16) by mean_probability on %every
  commit quota passes(at_least = 10)
  attend pairs(%blocks) at_once
}

// Blocks of a span round apart: 1 of 2 and 1 of 3.
// RUN: heddlec %s --schedule=tiles --compile-to=plan --explain --steps=8 --block-length=60 --length=100 --prompt=40 --layers=1 --heads=2 | FileCheck %s --check-prefix=TILES
// TILES: selection tiles: keeps 0.5 of the blocks of 32 keys (2 of 4) for each 32 rows
// TILES: index lists (int32): 64 B a layer
heddle.schedule @tiles {
  %once = cadence first(1)
  %tiles = select blocks(keep = 0.5, size = 32) by mean_probability isolating(spans) on %once
  attend pairs(%tiles)
}

// RUN: not heddlec %s --schedule=tiles --compile-to=plan --explain --length=10 --prompt=10 2>&1 | FileCheck %s --check-prefix=PROMPT
// PROMPT: heddlec: error: --explain: the prompt has 10 tokens, expected 0 to one less than the length, 10

// The block of 32 in two of eight layers, in the others what is masked of it; of
// the rest of the block the last layers keep what attention and FFN gave.
// RUN: heddlec %s --schedule=layers --compile-to=plan --explain --steps=16 --length=96 --prompt=32 --block-length=32 --layers=8 --heads=2 --head-dim=64 --kv-heads=2 | FileCheck %s --check-prefix=LAYERS
// LAYERS: rows (prompt 32, response 64, 8 steps a block
// LAYERS-NEXT: %masked = undecoded
// LAYERS-NEXT: %live = intersect(block, %masked)
// LAYERS-NEXT: 2 steps: computes all, 96 of 96 rows
// LAYERS-NEXT: 1,9
// LAYERS-NEXT: 14 steps: computes block in layers(0 to 1), 32 of 96 rows
// LAYERS-NEXT: 2-8,10-16
// LAYERS-NEXT: 14 steps: computes %live, 4 to 28 of 96 rows
// LAYERS-NEXT: 2-8,10-16
// LAYERS-NEXT: kept of rows: at most 98.3 kB a layer, 492 kB in 8 layers
heddle.schedule @layers {
  %start = cadence first(1) in block
  %block = positions block
  %masked = positions undecoded
  %live = intersect %block, %masked
  reuse kv, output, ffn in layers(-2 to -1)
  reuse kv
  recompute all on %start
  recompute %block in layers(0 to 1)
  recompute %live
  attend dense
}

// Further passes are counted as without noise, which takes no step more and no row less.
// RUN: heddlec %s --schedule=noise --compile-to=plan --explain --steps=8 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=NOISE
// RUN: heddlec %s --schedule=planned_noise --compile-to=plan --explain --steps=8 --length=16 --prompt=8 --block-length=4 | FileCheck %s --check-prefix=PLANNED-NOISE
// NOISE: of a dense run: operations at most 151.0%
// NOISE: commits above(0.9), edits tokens above 0.5, in at most 2 further passes, noise in place of the block's masks{{$}}
heddle.schedule @noise {
  commit above(0.9) edit(above = 0.5, further = 2) renoise
  attend dense
}
// PLANNED-NOISE: schedule planned_noise: 8 steps, 16 tokens
// PLANNED-NOISE: of a dense run: operations 100.0%
// PLANNED-NOISE: commits quota, noise in place of the block's masks{{$}}
heddle.schedule @planned_noise {
  commit quota renoise
  attend dense
}
