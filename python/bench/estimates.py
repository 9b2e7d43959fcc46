#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares what heddle-bundle estimates of runs on one H200 with what they take.

Each schedule and the dense one run once with random bf16 weights of a model's shape. The measured
seconds of a run are those of heddle-run --steps-json, LM head, draws, commits and the choice of
products included. Below them is the median step of each kind that `heddle-bundle dump` tells apart.
The estimated ones are those of `heddle-bundle dump --explain-json` of the
same lengths; what layers find to have changed is taken from the measured run (--follow). Says by
how much the estimated ratio to the dense run is off; the exit code is 1 above --most.

  for s in dense pulsecol sparsed; do
    heddlec examples/$s.mlir --target=cuda:sm_90a --dtype=bf16 --head-dim=128 --crossovers=none -o bundles/$s.hdl
  done
  python3 python/bench/estimates.py --bin build/release/bin --model DIR --bundles bundles \\
      --length 4096
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from runs import run_steps


def call(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command[:2]))} ended with {done.returncode}: "
                 f"{done.stderr.strip()[-600:]}")
    return done.stdout


def measure(args, bundle, log, measured):
    """The seconds of a run's steps, of the first `measured` ones alone if that is not 0."""
    records = run_steps(args.bin / "heddle-run", args.model, bundle, args.length - args.gen_length,
                        args.gen_length, steps=args.steps, block=args.block_length, measured=measured,
                        log=log)
    return {record["step"]: record["seconds"] for record in records}


def explain(args, bundle, log):
    """The cost, of the run that the log is of, if there is one."""
    return json.loads(call([
        args.bin / "heddle-bundle", "dump", bundle, "--explain-json", "--model", args.model,
        "--length", args.length, "--gen-length", args.gen_length, "--steps", args.steps,
        "--block-length", args.block_length, "--machine", args.machine,
        *(["--follow", log] if log else [])]))["cost"]


def by_kind(cost, seconds):
    """Measured seconds of a step of each kind beside the estimate."""
    return [(kind["what"], len(kind["steps"]),
             statistics.median(seconds[step] for step in kind["steps"]),
             kind["seconds"] / len(kind["steps"])) for kind in cost["kinds"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path,
                        help="the folder of heddle-run and heddle-bundle")
    parser.add_argument("--model", required=True, type=pathlib.Path,
                        help="a folder with LLaDA's config.json")
    parser.add_argument("--bundles", required=True, type=pathlib.Path,
                        help="a folder of dense.hdl and others")
    parser.add_argument("--machine", default="h200", help="as heddle-bundle takes it")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--gen-length", type=int, default=128)
    parser.add_argument("--block-length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--dense-steps", type=int,
                        help="measures so many steps of the dense run and counts the others as these "
                             "(default: all)")
    parser.add_argument("--most", type=float, default=0.25, help="error of a ratio, 0.25 is 25%%")
    parser.add_argument("--json", help="writes all figures there, too")
    args = parser.parse_args()
    bundles = sorted(args.bundles.glob("*.hdl"), key=lambda path: (path.stem != "dense", path.stem))
    if not bundles or bundles[0].stem != "dense":
        parser.error(f"there is no dense.hdl in {args.bundles}; compile examples/dense.mlir")

    rows, worst = [], 0
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "steps.jsonl"
        for bundle in bundles:
            few = 0 if rows else args.dense_steps or 0
            seconds = measure(args, bundle, log, few)
            cost = explain(args, bundle, None if few else log)
            measured = sum(seconds.values()) * args.steps / len(seconds)
            kinds = [] if few else by_kind(cost, seconds)
            if not rows:
                dense = measured
                print(f"{'schedule':24} {'measured':>9} {'estimated':>9} {'ratio':>6} "
                      f"{'estimated':>9} {'off by':>7}")
            ratio, estimated = dense / measured, cost["estimate"]["times_as_fast"]
            off = estimated / ratio - 1
            worst = max(worst, abs(off))
            rows.append(dict(schedule=bundle.stem, measured=measured,
                             estimated=cost["estimate"]["seconds"], ratio=ratio,
                             estimated_ratio=estimated, kinds=kinds))
            print(f"{bundle.stem:24} {measured:8.3f}s {cost['estimate']['seconds']:8.3f}s "
                  f"{ratio:6.2f} {estimated:9.2f} {off:+7.1%}", flush=True)
            for what, count, each, guess in kinds:
                print(f"  {count:4} x {1e3 * each:8.2f} ms, estimated {1e3 * guess:8.2f} ms: {what}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{len(rows) - 1} schedules, the worst ratio is off by {worst:.1%}")
    return worst > args.most


if __name__ == "__main__":
    sys.exit(main())
