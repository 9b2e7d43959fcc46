#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the warpgroup tilings that are fastest on a GPU, for heddlec --tuning: of dense attention, of
attention over a window and sinks, and over a list of keys or blocks for each group of rows, and of
the selection of keys for groups of rows (--sets).

Two steps, since machines with GPUs often have no compiler. `compile` makes a bundle of each tiling
that fits a block and that ptxas finds nothing slow in, and one of the portable form:

  python3 python/bench/tune.py compile --heddlec build/dev/bin/heddlec candidates

`measure` times them on this machine's GPU, in turns with cuDNN through PyTorch, prints rates and
ratios, and writes the table. All bundles once at the first length; then the fastest few and the
portable one, in rounds, forwards and backwards, at all lengths. Everything runs long enough back to
back that the card's power limit holds for all. A tiling enters the table if it is faster than the
portable form at every length.

  python3 python/bench/tune.py measure --heddle-bench build/release/bin/heddle-bench \\
      --lengths 16384,4096,65536 -o table.json candidates
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
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
               "range": ["threads", "tma"]}
PORTABLE = "portable"
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
    "blocks/64" or "scores/128": what, by groups of rows."""
    if over == "all":
        return SCHEDULE
    kind, rows = over.split("/")
    if kind == "range":
        return RANGE_SCHEDULE.format(size=rows)
    what = {"list": f"columns(keep = {keep}, group = {rows})",
            "scores": f"columns(keep = {keep}, group = {rows})",
            "blocks": f"blocks(keep = {keep}, size = {rows})"}[kind]
    return SPARSE_SCHEDULE.format(what=what)


def tilings(dtype, head_dim, over="all", copies=COPIES):
    """Entries of a table: those whose tiles and barriers fit a block, whose rows divide the groups
    and whose tiles divide the blocks."""
    kind, _, group = over.partition("/")
    if kind == "scores":
        yield from score_tilings(dtype, head_dim, int(group))
        return
    for (consumers, blocks), keys, stages, parts in itertools.product(
            REGISTERS, (64, 80, 96, 112, 128, 160, 176, 192), (2, 3, 4), (1, 2, 4)):
        rows = 64 * consumers + 2 * stages * keys
        room = (SHARED_BYTES + 1024) // blocks - 1024
        if keys % (16 * parts) or rows * head_dim * 2 + 16 * stages * 2 + 1024 > room:
            continue
        if consumers == 1 if kind in ("all", "range") else int(group) % (64 * consumers):
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
                       **({} if kind == "all" else {"over": kind}),
                       **({} if blocks == 1 else {"blocks": blocks}), **COPIES[choice])


def score_tilings(dtype, head_dim, group):
    """The same of kernels that select keys for groups of so many rows."""
    for (consumers, (producer, consumer)), keys, stages in itertools.product(
            SCORE_REGISTERS.items(), (64, 128), (2, 3, 4)):
        rows = group * consumers + stages * keys
        if rows * head_dim * 2 + 16 * stages + LIST_BYTES + 1024 <= SHARED_BYTES:
            yield dict(element=dtype, over="scores", head_dim=head_dim, consumers=consumers,
                       keys=keys, stages=stages, parts=1, producer_registers=producer,
                       consumer_registers=consumer)


def name_of(tiling):
    return "{consumers}x{keys}_s{stages}_p{parts}".format(**tiling) + (
        "_b{blocks}".format(**tiling) if "blocks" in tiling else "") + (
        "_tma" if "copies" in tiling else "") + str(tiling.get("cluster", ""))


def folder_of(args, dtype, head_dim, over):
    return pathlib.Path(args.folder) / "_".join(
        [dtype, f"d{head_dim}", *([] if over == "all" else over.split("/"))])


def compile_one(heddlec, folder, name, dtype, head_dim, table):
    """Whether `folder` now has the bundle `name`; its table stands beside it."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"wgmma": table}))
    done = subprocess.run(
        [heddlec, str(folder / "schedule.mlir"), "--target=cuda:sm_90a", f"--dtype={dtype}",
         f"--head-dim={head_dim}", f"--tuning={path}", "--ptxas=strict", "--no-cache", "-o",
         str(folder / f"{name}.hdl")], capture_output=True, text=True)
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
        if not compile_one(args.heddlec, folder, PORTABLE, dtype, head_dim, []):
            sys.exit(f"error: {args.heddlec} cannot compile the portable form; is ptxas there?")
        with ThreadPoolExecutor(args.jobs) as pool:
            made = pool.map(lambda tiling: compile_one(args.heddlec, folder, name_of(tiling), dtype,
                                                       head_dim, [tiling]),
                            tilings(dtype, head_dim, over, args.copies.split(",")))
        print(f"{folder}: {sum(made)} tilings and the portable form")


def forms(args):
    return list(itertools.product(args.dtypes.split(","), map(int, args.head_dims.split(",")),
                                  args.sets.split(",")))


def heddle_rates(args, bundles, dtype, length):
    """{bundle's name: TFLOP/s}, each back to back for about `args.seconds`."""
    # What 500 TFLOP/s would take; heddle-bench takes 1,000 at most.
    milliseconds = 4 * args.heads * length ** 2 * args.head_dim / 500e9
    repetitions = min(1000, max(5, round(1000 * args.seconds / milliseconds)))
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "rates.json"
        done = subprocess.run(
            [args.heddle_bench, "--device=cuda", f"--lengths={length}", f"--dtype={dtype}",
             f"--heads={args.heads}", f"--repetitions={repetitions}", f"--json={output}",
             # Of a bundle with lists, one of the dense kernel, the other one and that which selects.
             "--kernel=" + {"all": "attention_dense", "range": "attention_window",
                            "scores": "select_"}.get(args.over.partition("/")[0], "attention_kept"),
             *(f"--bundle={bundle}" for bundle in bundles)], stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"error: {args.heddle_bench} failed with status {done.returncode}")
        rates = {}
        for row in json.loads(output.read_text())["benchmarks"]:
            rates.setdefault(row["bundle"], row["tflops"])  # of two forms of lists the first
        return rates


def cudnn_rate(args, dtype, length):
    """TFLOP/s of PyTorch's attention through cuDNN: the median of the second half."""
    import torch
    from gpu import BACKENDS, sdpa_kernel
    kind = torch.bfloat16 if dtype == "bf16" else torch.float16
    tensors = [torch.randn(1, args.heads, length, args.head_dim, device="cuda", dtype=kind)
               for _ in range(3)]
    times, total = [], 0.0
    with sdpa_kernel(BACKENDS["cuDNN"]):
        torch.nn.functional.scaled_dot_product_attention(*tensors)  # the first call builds a plan
        torch.cuda.synchronize()
        while total < 1000 * args.seconds:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            torch.nn.functional.scaled_dot_product_attention(*tensors)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
            total += times[-1]
    del tensors
    torch.cuda.empty_cache()
    return 4 * args.heads * length ** 2 * args.head_dim / statistics.median(
        times[len(times) // 2:]) * 1e-9


def best_of(rates):
    """The name of the fastest tiling, by the geometric mean over lengths, of those faster than the
    portable form at each; None if there is none. `rates`: {name: {length: TFLOP/s}}."""
    portable = rates[PORTABLE]
    good = {name: statistics.geometric_mean(own.values()) for name, own in rates.items()
            if name != PORTABLE and all(own[n] > portable[n] for n in portable)}
    return max(good, key=good.get) if good else None


def measure_form(args, folder, dtype, lengths):
    """The best tiling of a folder of bundles, or None; prints what was measured."""
    bundles = {path.stem: path for path in sorted(folder.glob("*.hdl"))}
    if PORTABLE not in bundles:
        sys.exit(f"error: {folder} has no {PORTABLE}.hdl; make it with 'tune.py compile'")
    first = heddle_rates(args, bundles.values(), dtype, lengths[0])
    names = sorted((name for name in first if name != PORTABLE), key=first.get, reverse=True)
    for name in names:
        print(f"{folder.name:10} {name:18}{lengths[0]:8}{first[name]:8.0f}")
    chosen = names[:args.finalists] + [PORTABLE]
    rates = {name: {n: [] for n in lengths} for name in chosen}
    rival = {n: [] for n in lengths}
    for n, turn in itertools.product(lengths, range(args.rounds)):
        order = chosen if turn % 2 == 0 else chosen[::-1]
        rival[n].append(cudnn_rate(args, dtype, n))
        for name, rate in heddle_rates(args, [bundles[each] for each in order], dtype, n).items():
            rates[name][n].append(rate)
    print(f"\n{folder.name}, {args.rounds} rounds: TFLOP/s, of cuDNN in the same round (median)")
    for name, n in itertools.product(chosen, lengths):
        ratio = statistics.median(map(lambda own, other: own / other, rates[name][n], rival[n]))
        print(f"{name:18}{n:8}{statistics.median(rates[name][n]):8.0f}{ratio:8.3f}"
              f"   {min(rates[name][n]):.0f} to {max(rates[name][n]):.0f}")
    best = best_of({name: {n: statistics.median(each) for n, each in own.items()}
                    for name, own in rates.items()})
    return json.loads((folder / f"{best}.json").read_text())["wgmma"][0] if best else None


def measure_all(args):
    lengths, table = [int(n) for n in args.lengths.split(",")], []
    for dtype, head_dim, over in forms(args):
        folder = folder_of(args, dtype, head_dim, over)
        args.head_dim, args.over = head_dim, over
        tiling = measure_form(args, folder, dtype, lengths)
        print(f"{folder.name}: {name_of(tiling) if tiling else 'stays portable'}\n")
        table += [tiling] if tiling else []
    pathlib.Path(args.output).write_text(json.dumps({"wgmma": table}, indent=1) + "\n")
    print(f"{args.output}: for heddlec --tuning")


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
                             "list/ROWS and blocks/ROWS, those of more rows first, scores/ROWS (default: all)")
        if name == "compile":
            command.add_argument("--heddlec", required=True)
            command.add_argument("--jobs", type=int, default=2)
            command.add_argument("--copies", default=",".join(COPIES),
                                 help="who brings tiles: %(default)s")
            command.add_argument("--keep", type=float, default=0.1, help="of the keys, in lists")
            continue
        command.add_argument("--heddle-bench", required=True)
        command.add_argument("--lengths", default="16384,4096,65536")
        command.add_argument("--heads", type=int, default=32)
        command.add_argument("--rounds", type=int, default=3)
        command.add_argument("--finalists", type=int, default=4)
        command.add_argument("--seconds", type=float, default=0.6, help="of each measurement")
        command.add_argument("-o", "--output", default="table.json")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
