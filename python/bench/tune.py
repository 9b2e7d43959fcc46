#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the warpgroup tilings that are fastest on a GPU, for heddlec --tuning: of dense attention, of
attention over a window and sinks, and over a list of keys or blocks for each group of rows, and of
the selection of keys for groups of rows (--sets).

Two steps, since machines with GPUs often have no compiler. `compile` makes a bundle of each tiling
that fits a block and that ptxas finds nothing slow in, and one of the portable form:

  python3 python/bench/tune.py compile --heddlec build/dev/bin/heddlec candidates

`measure` has heddle-bench --tune time them on this machine's GPU, form by form, and add the fastest
of each to the table:

  python3 python/bench/tune.py measure --heddle-bench build/release/bin/heddle-bench \\
      --lengths 16384,4096,65536 -o table.json candidates
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# Registers of a thread, (producer, consumer), by the numbers of consumers and of blocks: all of a
# multiprocessor's.
REGISTERS = {(2, 1): (40, 232), (3, 1): (32, 160), (1, 1): (40, 240), (1, 2): (40, 208)}
# The same where keys are scored: a consumer has a group of rows, and fewer registers to hold.
SCORE_REGISTERS = {4: (24, 112), 2: (40, 232)}
LIST_BYTES = 9216  # of a block that makes lists of the scores
SHARED_BYTES = 232448  # of a block of compute capability 9.0, if it is alone; 1,024 more are reserved
# Who brings tiles of consecutive keys: the producer's threads, or one of them by tensor maps, for
# one block or, of all keys, for a cluster of two.
COPIES = {"threads": {}, "tma": dict(copies="tma"), "tma2": dict(copies="tma", cluster=2)}
COPIES_OVER = {"all": list(COPIES), "blocks": ["threads", "tma"], "list": ["threads"],
               "shared": ["threads"], "range": ["threads", "tma"], "scores": ["threads", "tma"]}
PORTABLE = "portable"
BUILT_IN = pathlib.Path(__file__).parents[2] / "lib/Dialect/Shed/Transforms/sm_90a.json"
SCHEDULE = "heddle.schedule @dense {\n  attend dense\n}\n"
# Of so many keys around each row, and the first 64.
RANGE_SCHEDULE = """heddle.schedule @kept {{
  %near = window({size})
  %first = sinks(64)
  %kept = union %near, %first
  attend pairs(%kept)
}}
"""
# Of what is kept for each group of rows.
SPARSE_SCHEDULE = """heddle.schedule @kept {{
  %refresh = cadence uniform(window = 0.3, count = 16)
  %kept = select {what} by mean_probability on %refresh
  attend pairs(%kept)
}}
"""


def schedule_of(over, keep):
    """The text of a schedule. `over`: "all", "range/4096" (a window and sinks), "list/128",
    "shared/64" (lists that query heads share), "blocks/64" or "scores/128": what, by groups of rows."""
    if over == "all":
        return SCHEDULE
    kind, rows = over.split("/")
    if kind == "range":
        return RANGE_SCHEDULE.format(size=rows)
    what = {"list": f"columns(keep = {keep}, group = {rows})",
            "shared": f"columns(keep = {keep}, group = {rows}, per_kv_head)",
            "scores": f"columns(keep = {keep}, group = {rows})",
            "blocks": f"blocks(keep = {keep}, size = {rows})"}[kind]
    return SPARSE_SCHEDULE.format(what=what)


def tilings(dtype, head_dim, over="all", copies=COPIES, query_stages=(0,), check_sums=(0,),
            ping_pong=(0,), tail_keys=(0,), one_ring=(0,)):
    """Entries of a table: those whose tiles and barriers fit a block, whose rows divide the groups
    and whose tiles divide the blocks. Of `query_stages`, 0 is a grid with a block for each tile of
    rows, the one that lists which heads share have; of `check_sums`, 1 are sums instead of maxima;
    of `ping_pong`, 1 are products in order, which windows and shared lists have not; of `tail_keys`,
    keys of smaller tiles at the end of lists, 0 none; of `one_ring`, 1 are keys and values in one ring
    of so many stages."""
    kind, _, group = over.partition("/")
    if kind == "scores":
        yield from score_tilings(dtype, head_dim, int(group),
                                 [choice for choice in COPIES_OVER[kind] if choice in copies])
        return
    for (consumers, blocks), keys, stages, parts, queries, sums, order, tail, one in itertools.product(
            REGISTERS, (64, 80, 96, 112, 128, 144, 160, 176, 192), (2, 3, 4, 5), (1, 2, 3, 4), query_stages,
            check_sums, ping_pong, tail_keys, one_ring):
        # Two rings of two stages are one of four.
        if stages in ((2, 4) if one else (5,)):
            continue
        rows = 64 * consumers * max(queries, 1) + (1 if one else 2) * stages * keys
        room = (SHARED_BYTES + 1024) // blocks - 1024
        if keys % (16 * parts) or rows * head_dim * 2 + 16 * (stages * 2 + queries) > room:
            continue
        if kind == "shared" and queries:
            continue
        if order and (kind in ("range", "shared") or consumers == 1):
            continue
        if tail and (kind not in ("list", "shared") or not 0 < tail < keys or tail % 16):
            continue
        if kind in ("all", "range", "shared"):
            if consumers == 1:
                continue
        elif int(group) % (64 * consumers):
            continue
        if kind == "blocks" and int(group) % keys:
            continue
        producer, consumer = REGISTERS[consumers, blocks]
        for choice in COPIES_OVER[kind]:
            # Blocks of a cluster share panels of 64 channels.
            if choice not in copies or head_dim // 64 % COPIES[choice].get("cluster", 1):
                continue
            yield dict(element=dtype, head_dim=head_dim, consumers=consumers, keys=keys,
                       stages=stages, parts=parts, producer_registers=producer,
                       consumer_registers=consumer,
                       **({} if kind == "all" else dict(over="list", shared=True) if kind == "shared"
                          else {"over": kind}),
                       **({} if blocks == 1 else {"blocks": blocks}), **COPIES[choice],
                       **({"query_stages": queries} if queries else {}),
                       **({"check_sums": True} if sums else {}),
                       **({"ping_pong": True} if order else {}),
                       **({"tail_keys": tail} if tail else {}),
                       **({"one_ring": True} if one else {}))


def score_tilings(dtype, head_dim, group, copies):
    """The same of kernels that select keys for groups of so many rows."""
    for (consumers, (producer, consumer)), keys, stages, choice in itertools.product(
            SCORE_REGISTERS.items(), (64, 128), (2, 3, 4), copies):
        rows = group * consumers + stages * keys
        if rows * head_dim * 2 + 16 * stages + LIST_BYTES + 1024 <= SHARED_BYTES:
            yield dict(element=dtype, over="scores", head_dim=head_dim, consumers=consumers,
                       keys=keys, stages=stages, parts=1, producer_registers=producer,
                       consumer_registers=consumer, **COPIES[choice])


def name_of(tiling):
    return "{consumers}x{keys}_s{stages}_p{parts}".format(**tiling) + (
        "_b{blocks}".format(**tiling) if "blocks" in tiling else "") + (
        "_tma" if "copies" in tiling else "") + str(tiling.get("cluster", "")) + (
        "_q{query_stages}".format(**tiling) if "query_stages" in tiling else "") + (
        "_sums" if "check_sums" in tiling else "") + ("_pp" if "ping_pong" in tiling else "") + (
        "_t{tail_keys}".format(**tiling) if "tail_keys" in tiling else "") + (
        "_one" if "one_ring" in tiling else "")


def folder_of(args, dtype, head_dim, over):
    return pathlib.Path(args.folder) / "_".join(
        [dtype, f"d{head_dim}", *([] if over == "all" else over.split("/"))])


def compile_one(heddlec, folder, name, dtype, head_dim, table, others):
    """Whether `folder` now has the bundle `name`; its table stands beside it. `others`: entries for
    kernels of the schedule that are not timed."""
    path, whole = folder / f"{name}.json", folder / f"{name}.whole"
    path.write_text(json.dumps({"wgmma": table}))
    whole.write_text(json.dumps({"wgmma": table + others}))
    done = subprocess.run(
        [heddlec, str(folder / "schedule.mlir"), "--target=cuda:sm_90a", f"--dtype={dtype}",
         f"--head-dim={head_dim}", f"--tuning={whole}", "--crossovers=none", "--ptxas=strict", "--no-cache", "-o",
         str(folder / f"{name}.hdl")], capture_output=True, text=True)
    whole.unlink()
    if done.returncode == 0:
        return True
    path.unlink()
    print(f"  {name}: {(done.stderr.strip().splitlines() or ['failed'])[0]}", file=sys.stderr)
    return False


def compile_all(args):
    for dtype, head_dim, over in forms(args):
        folder = folder_of(args, dtype, head_dim, over)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedule.mlir").write_text(schedule_of(over, args.keep))
        # What selects for lists has the compiler's own tilings.
        others = [] if over.startswith("scores/") else [
            each for each in json.loads(BUILT_IN.read_text())["wgmma"] if each.get("over") == "scores"]
        if not compile_one(args.heddlec, folder, PORTABLE, dtype, head_dim, [], others):
            sys.exit(f"error: {args.heddlec} cannot compile the portable form; is ptxas there?")
        with ThreadPoolExecutor(args.jobs) as pool:
            made = pool.map(lambda tiling: compile_one(args.heddlec, folder, name_of(tiling), dtype,
                                                       head_dim, [tiling], others),
                            tilings(dtype, head_dim, over, args.copies.split(","),
                                    [int(n) for n in args.query_stages.split(",")],
                                    [int(n) for n in args.check_sums.split(",")],
                                    [int(n) for n in args.ping_pong.split(",")],
                                    [int(n) for n in args.tail_keys.split(",")],
                                    [int(n) for n in args.one_ring.split(",")]))
        print(f"{folder}: {sum(made)} tilings and the portable form")


def forms(args):
    return list(itertools.product(args.dtypes.split(","), map(int, args.head_dims.split(",")),
                                  args.sets.split(",")))


def measure_form(args, folder, dtype, head_dim, over):
    """Has heddle-bench add the best tiling of a folder of bundles to the table."""
    bundles = sorted(folder.glob("*.hdl"))
    # Of a bundle with lists, one of the dense kernel, the other one and that which selects.
    kernel = {"all": "attention_dense", "range": "attention_window",
              "scores": "select_"}.get(over.partition("/")[0], "attention_kept")
    done = subprocess.run(
        [args.heddle_bench, "--device=cuda", f"--tune={args.output}", f"--lengths={args.lengths}",
         f"--dtype={dtype}", f"--head-dim={head_dim}", f"--heads={args.heads}", f"--kernel={kernel}",
         *([f"--kv-heads={args.kv_heads}"] if args.kv_heads else []), f"--rounds={args.rounds}",
         f"--finalists={args.finalists}", f"--seconds={args.seconds}",
         *(f"--bundle={bundle}" for bundle in bundles)])
    if done.returncode:
        sys.exit(f"error: {args.heddle_bench} failed with status {done.returncode}; were the bundles in {folder} "
                 "made with 'tune.py compile'?")


def measure_all(args):
    # What is added last stands first in the table.
    for dtype, head_dim, over in reversed(list(forms(args))):
        folder = folder_of(args, dtype, head_dim, over)
        print(f"{folder.name}:", flush=True)
        measure_form(args, folder, dtype, head_dim, over)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run, about in (("compile", compile_all, "makes the bundles"),
                             ("measure", measure_all, "times them and writes the table")):
        command = commands.add_parser(name, help=about)
        command.set_defaults(run=run)
        command.add_argument("folder", help="of the bundles")
        command.add_argument("--dtypes", default="bf16,f16")
        command.add_argument("--head-dims", default="64,128")
        command.add_argument("--sets", default="all", help="of keys: all, range/KEYS (a window and sinks), "
                             "list/ROWS and blocks/ROWS, those of more rows first, shared/ROWS (lists that query "
                             "heads share), scores/ROWS (default: all)")
        if name == "compile":
            command.add_argument("--heddlec", required=True)
            command.add_argument("--jobs", type=int, default=2)
            command.add_argument("--copies", default=",".join(COPIES),
                                 help="who brings tiles: %(default)s")
            command.add_argument("--query-stages", default="0,2",
                                 help="of queries that are brought ahead by blocks that go on to further "
                                 "rows; 0: a block for each tile of rows (default: %(default)s)")
            command.add_argument("--check-sums", default="0,1", choices=("0", "1", "0,1"),
                                 help="1: sums are checked instead of maxima taken (default: %(default)s)")
            command.add_argument("--ping-pong", default="0", choices=("0", "1", "0,1"),
                                 help="1: two warpgroups or more start products in order (default: %(default)s)")
            command.add_argument("--tail-keys", default="0,32,48,64,96",
                                 help="keys of the tiles that have what is left of a list behind its last whole "
                                 "one; 0: none (default: %(default)s)")
            command.add_argument("--one-ring", default="0", choices=("0", "1", "0,1"),
                                 help="1: keys and values have their tiles in one ring, in turns (default: %(default)s)")
            command.add_argument("--keep", type=float, default=0.1, help="of the keys, in lists")
            continue
        command.add_argument("--heddle-bench", required=True)
        command.add_argument("--lengths", default="16384,4096,65536")
        command.add_argument("--heads", type=int, default=32)
        command.add_argument("--kv-heads", type=int, help="(default: as many)")
        command.add_argument("--rounds", type=int, default=3)
        command.add_argument("--finalists", type=int, default=4)
        command.add_argument("--seconds", type=float, default=0.6, help="of each measurement")
        command.add_argument("-o", "--output", default="table.json", help="the table, which is added to")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
