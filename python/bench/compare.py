#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times dense attention of Heddle and of PyTorch in turns and prints the ratios.

Each round runs heddle-bench and then sdpa.py once with the same shapes, types and
threads; medians over the rounds are compared, so that a machine whose speed changes
during the run changes both.

  heddlec examples/dense.mlir -o dense.hdl
  python3 python/bench/compare.py --heddle-bench build/release/bin/heddle-bench --bundle dense.hdl --lengths 1024
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def run_heddle(args, folder):
    """GFLOP/s of each dense kernel by (dtype, head dim, length), and of the peaks."""
    output = pathlib.Path(folder) / "heddle.json"
    command = [args.heddle_bench, f"--lengths={args.lengths}", f"--dtype={args.dtypes}",
               f"--head-dim={args.head_dim}", f"--heads={args.heads}",
               f"--threads={args.threads}", "--repetitions=1", f"--json={output}"]
    command += [f"--bundle={bundle}" for bundle in args.bundle]
    if args.filter:
        command.append(f"--benchmark_filter=^peak/|{args.filter}")
    done = subprocess.run(command, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"error: heddle-bench failed with status {done.returncode}")
    rates, peaks = {}, {}
    report = json.loads(output.read_text())
    for row in report["benchmarks"]:
        if row["kind"] == "peak":
            match = re.fullmatch(r"peak/(\w+)/threads:(\d+)", row["name"])
            if int(match[2]) == report["threads"]:
                peaks[match[1]] = row["gflops"]
        elif row.get("dense"):
            key = row["dtype"], row["headDim"], row["length"]
            # A kernel that writes no log-sum-exp does what PyTorch's does.
            if key not in rates or not row["writesLse"]:
                rates[key] = row["gflops"]
    return rates, peaks, report["threads"]


def run_torch(args, threads):
    """GFLOP/s by (dtype, head dim, length)."""
    command = [args.python, HERE / "sdpa.py", "--json", f"--threads={threads}",
               f"--dtypes={args.dtypes}", f"--heads={args.heads}",
               f"--head-dim={args.head_dim}", f"--lengths={args.lengths}", "--repetitions=1",
               f"--layout={args.layout}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: sdpa.py failed:\n{done.stderr}")
    return {(row["dtype"], row["headDim"], row["length"]): row["gflops"]
            for row in json.loads(done.stdout)["results"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle-bench", required=True)
    parser.add_argument("--bundle", action="append", required=True,
                        help="a bundle with a dense kernel; may be repeated")
    parser.add_argument("--python", default=sys.executable, help="the one that has PyTorch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: one a core")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--lengths", default="4096")
    parser.add_argument("--filter", default="", help="only these of heddle-bench's benchmarks")
    parser.add_argument("--layout", choices=["rows", "contiguous"], default="contiguous",
                        help="what PyTorch is given: rows first, as models compute them, or "
                             "heads first (its best case)")
    args = parser.parse_args()

    heddle, torch, peaks, threads = {}, {}, {}, args.threads
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            rates, tops, threads = run_heddle(args, folder)
            for key, rate in rates.items():
                heddle.setdefault(key, []).append(rate)
            for name, rate in tops.items():
                peaks.setdefault(name, []).append(rate)
            for key, rate in run_torch(args, threads).items():
                torch.setdefault(key, []).append(rate)
    if not heddle:
        sys.exit("error: no dense kernel of these types, head dim and lengths is in the bundles")

    print(f"{threads} threads, {args.heads} heads, medians of {args.rounds} rounds, GFLOP/s")
    for name, rates in peaks.items():
        print(f"peak {name}: {statistics.median(rates):.1f}")
    print(f"{'':20}{'Heddle':>10}{'PyTorch':>10}{'ratio':>8}")
    for key in sorted(heddle):
        ours, theirs = statistics.median(heddle[key]), statistics.median(torch[key])
        name = f"{key[0]} d={key[1]} n={key[2]}"
        print(f"{name:20}{ours:10.1f}{theirs:10.1f}{ours / theirs:8.2f}")


if __name__ == "__main__":
    main()
