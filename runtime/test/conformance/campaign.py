#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many random cases of each family of kernels, against float64.

`compile` makes a bundle for each family, `run` has heddle-conformance check it,
in several processes with seeds of their own, until each family has had its
cases. A case is a launch: of inputs drawn for it, at random lengths and ratios
of heads, over all rows of a sequence, some of them or none, or over some keys;
on a GPU each sequence by itself and with two others. Outputs and scratch memory
are poisoned. Cases of row kernels are those of HeddleRtRowKernelTests.

A bundle holds code for the host and for GPUs, so the same folder serves every
device; where it is run, no compiler is needed.

examples:
  campaign.py compile build/campaign --heddlec=build/release/bin/heddlec
  campaign.py run build/campaign --bin=build/release/bin --device=cuda
  campaign.py run build/campaign --bin=build/release/bin --only=dense --cases=100
  campaign.py run build/campaign --bin=build/release/bin --device=cuda --sanitizer=initcheck

exit codes: 0 all conform, 1 a case failed or a family had none, 2 wrong usage
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

COLUMNS = """heddle.schedule @columns(group = 128) {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.2, group = group) by mean_probability on %refresh
  attend pairs(%cols)
}
"""
LOGITS = COLUMNS.replace("mean_probability", "mean_logit")
SHARED = COLUMNS.replace("group = group", "group = group, per_kv_head")
UNION = """heddle.schedule @union(group = 128) {
  %refresh = cadence every(8)
  %cols = select columns(keep = 0.1, group = group) by mean_probability on %refresh
  %near = window(128)
  %first = sinks(4)
  %pairs = union %cols, %near, %first
  attend pairs(%pairs)
}
"""
BLOCKS = """heddle.schedule @blocks(size = 128) {
  %once = cadence at(0.2)
  %blocks = select blocks(keep = 0.3, size = size) by mean_probability isolating(spans) on %once
  attend dense until(%once) then pairs(%blocks)
}
"""
LOGIT_BLOCKS = BLOCKS.replace("mean_probability", "mean_logit")
WINDOW = """heddle.schedule @window {
  %near = window(100)
  %first = sinks(4)
  %pairs = union %near, %first
  attend pairs(%pairs)
}
"""
DENSE = "heddle.schedule @dense {\n  attend dense\n}\n"
BLOCK = """heddle.schedule @rows {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv
  recompute all on %start
  recompute %block
  attend dense
}
"""
SALIENT = """heddle.schedule @salient {
  %start = cadence first(1)
  %response = positions response
  reuse kv, context(propagating), ffn
  recompute all on %start
  recompute salient(below = 0.99) in %response
  attend dense
}
"""
OUTSIDE = """heddle.schedule @outside {
  %start = cadence first(1) in block
  %block = positions block
  reuse kv, attention(outside = %block, on = %start)
  recompute all on %start
  recompute %block
  attend dense
}
"""
CAPPED = """heddle.schedule @capped {
  attend dense scores(%logit) {
    %cap = arith.constant 30.0 : f32
    %share = arith.divf %logit, %cap : f32
    %bound = math.tanh %share : f32
    %capped = arith.mulf %bound, %cap : f32
    yield %capped
  }
}
"""

# Bundles: a schedule and what its parameters are set to.
BUNDLES = {
    "dense": (DENSE, []),
    "rows": (BLOCK, []),
    "salient": (SALIENT, []),
    "outside": (OUTSIDE, []),
    "capped": (CAPPED, []),
    "window": (WINDOW, []),
    **{f"columns{g}": (COLUMNS, [f"group={g}"]) for g in (128, 64, 32)},
    **{f"logits{g}": (LOGITS, [f"group={g}"]) for g in (128, 16)},
    **{f"shared{g}": (SHARED, [f"group={g}"]) for g in (128, 64, 32)},
    **{f"union{g}": (UNION, [f"group={g}"]) for g in (128, 64)},
    **{f"blocks{g}": (BLOCKS, [f"size={g}"]) for g in (128, 64)},
    **{f"logit-blocks{g}": (LOGIT_BLOCKS, [f"size={g}"]) for g in (128, 64)},
}

# Families: a bundle, and what stands in the names of the kernels.
FAMILIES = {
    "dense": ("dense", "attention_"),
    "some rows": ("rows", "attention_"),
    "few rows, long": ("rows", "_long"),
    "few rows, packed": ("rows", "_packed"),
    "functions of logits": ("capped", "attention_"),
    "window and sinks": ("window", "attention_"),
    **{f"columns {g}": (f"columns{g}", "attention_cols") for g in (128, 64, 32)},
    **{f"shared columns {g}": (f"shared{g}", "attention_cols") for g in (128, 64, 32)},
    **{f"union {g}": (f"union{g}", "attention_cols") for g in (128, 64)},
    **{f"blocks {g}": (f"blocks{g}", "attention_blocks") for g in (128, 64)},
    # Scores against their definition, lists against brute force on the scores.
    **{f"scores and top-k, {what} {g}": (f"{what}{g}", "select_")
       for what, sizes in (("columns", (128, 64, 32)), ("shared", (128,)),
                           ("logits", (128, 16)), ("blocks", (128, 64)), ("logit-blocks", (128, 64))) for g in sizes},
}
ROWS = "row kernels"
# A bundle has the row kernels that its schedule needs: these have all of them.
ROW_BUNDLES = ("salient", "outside")

LINE = re.compile(r"^  (ok  |FAIL)  (.*): +(\d+) cases, worst error \S+, at most (\S+)% of",
                  re.MULTILINE)
NONE = "no kernel for this device has"


def compile_bundles(args):
    args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        wanted = {bundle for family, (bundle, _) in FAMILIES.items() if args.only in family}
        wanted.update(ROW_BUNDLES if args.only in ROWS else ())
        for name, (schedule, settings) in BUNDLES.items():
            if name not in wanted:
                continue
            source = Path(scratch) / f"{name}.mlir"
            source.write_text(schedule)
            subprocess.run(
                [args.heddlec, source, f"--target={args.target}", f"--dtype={args.dtype}",
                 f"--head-dim={args.head_dim}", "--crossovers=none", *[f"--set={each}" for each in settings],
                 "-o", args.folder / f"{name}.hdl"], check=True)
            print(f"{args.folder / name}.hdl")


class Run:
    """The processes of a campaign."""

    def __init__(self, args):
        self.args = args
        self.cores = sorted(os.sched_getaffinity(0))
        self.pool = concurrent.futures.ThreadPoolExecutor(args.jobs)
        self.started = itertools.count()

    def process(self, command, env):
        """Runs it on its share of the cores: its definitions are computed by all
        that it may use."""
        share = max(1, len(self.cores) // self.args.jobs)
        first = next(self.started) * share % len(self.cores)
        own = self.cores[first:first + share]
        begin = time.monotonic()
        child = subprocess.Popen(["taskset", "-c", ",".join(map(str, own)), *command],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env={**os.environ, **env}, start_new_session=True)
        try:
            text, _ = child.communicate(timeout=self.args.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # a sanitizer has a child, too
            text, _ = child.communicate()
            text += f"\nended after {self.args.timeout:g} s\n"
        return child.returncode, text, time.monotonic() - begin

    def sanitizer(self):
        args = self.args
        return [args.sanitizer_program, f"--tool={args.sanitizer}",
                "--error-exitcode=3"] if args.sanitizer else []

    def conformance(self, family, number):
        """One round of a family: cases of each kernel, failures, the largest error
        as a share of what is allowed, seconds and what was printed of failures."""
        args = self.args
        bundle, kernel = FAMILIES[family]
        command = [*self.sanitizer(), args.bin / "heddle-conformance", args.folder / f"{bundle}.hdl",
                   f"--device={args.device}", f"--kernel={kernel}", "--not-wide"]
        if args.sanitizer:
            # Each kernel once or twice: a checker takes a hundred times as long.
            command += ["--lengths=65", "--ratios=2", f"--seed={args.seed}"]
            command += ["--not-poisoned"] if args.sanitizer == "initcheck" else []
        else:
            command += [f"--longest={args.longest}", f"--seed={args.seed + number}"]
        code, text, seconds = self.process(command, {})
        found = LINE.findall(text)
        failed = sum(how == "FAIL" for how, *_ in found)
        if code and not failed:
            failed = 0 if NONE in text else 1
        return {"cases": {name: int(cases) for _, name, cases, _ in found}, "failures": failed,
                "share": max((float(share) for *_, share in found), default=0) / 100,
                "seconds": seconds, "output": text if failed else ""}

    def rows(self, family, number):
        """All tests of row kernels, of each once or twice."""
        done = [self.rows_of(bundle, number) for bundle in ROW_BUNDLES]
        cases = {}
        for each in done:
            for name, count in each["cases"].items():
                cases[name] = cases.get(name, 0) + count
        # What a bundle has no kernel for is skipped; together they have all.
        missing = [test for test in ("Change", "Compare", "Merge") if not any(f".{test}/" in name for name in cases)]
        return {"cases": cases, "failures": sum(each["failures"] for each in done) + len(missing), "share": 0,
                "seconds": sum(each["seconds"] for each in done),
                "output": "".join(each["output"] for each in done) + "".join(f"{test}: no case\n" for test in missing)}

    def rows_of(self, bundle, number):
        """Those of the row kernels that the bundle has."""
        args = self.args
        machine = "Fake" if args.device == "cpu" else "Real"
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            env = {"HEDDLE_SEED": str(args.seed + number),
                   "HEDDLE_CUDA_BUNDLE": str(args.folder / f"{bundle}.hdl")}
            if args.sanitizer:
                env.pop("HEDDLE_SEED")
            types = "_bf16" if args.sanitizer else ""
            code, text, seconds = self.process(
                [*self.sanitizer(), args.bin / "HeddleRtRowKernelTests",
                 f"--gtest_filter=*{machine}{types}*", f"--gtest_output=json:{report.name}"], env)
            try:
                suites = json.load(report)["testsuites"]
            except ValueError:
                suites = []
        cases = {f"{suite['name']}.{test['name']}": int(test["cases"]) for suite in suites
                 for test in suite["testsuite"] if int(test.get("cases", 0))}
        return {"cases": cases, "failures": int(code != 0), "seconds": seconds,
                "output": text if code else ""}

    def family(self, name):
        """Rounds until there were enough cases: first two, then as many as these
        have left."""
        one = self.rows if name == ROWS else self.conformance
        begin = time.monotonic()
        total = {"family": name, "cases": 0, "failures": 0, "share": 0, "busy_seconds": 0,
                 "processes": 0, "kernels": {}, "output": ""}
        wave = 1 if self.args.sanitizer else 2
        while wave > 0:
            numbers = range(total["processes"], total["processes"] + wave)
            for done in self.pool.map(lambda number: one(name, number), numbers):
                total["cases"] += sum(done["cases"].values())
                for kernel, cases in done["cases"].items():
                    total["kernels"][kernel] = total["kernels"].get(kernel, 0) + cases
                total["failures"] += done["failures"]
                total["share"] = max(total["share"], done["share"])
                total["busy_seconds"] += done["seconds"]
                total["processes"] += 1
                total["output"] = total["output"] or done["output"]
            left = self.args.cases - total["cases"]
            stop = self.args.sanitizer or total["failures"] or not total["cases"]
            wave = 0 if stop else -(-left * total["processes"] // total["cases"])
        total["seconds"] = time.monotonic() - begin
        return total


def run(args):
    # Memory of row kernels is poisoned, which initcheck takes for written.
    known = [*FAMILIES, *([] if args.sanitizer == "initcheck" else [ROWS])]
    names = [name for name in known if args.only in name]
    if not names:
        print(f"error: no family has '{args.only}' in its name: {', '.join(known)}",
              file=sys.stderr)
        return 2
    campaign = Run(args)
    rows, bad = [], 0
    begin = time.monotonic()
    print(f"{'family':32} {'kernels':>7} {'cases':>7} {'failures':>8} {'of allowed':>10} "
          f"{'seconds':>8}")
    with concurrent.futures.ThreadPoolExecutor(args.together) as families:
        for total in families.map(campaign.family, names):
            output = total.pop("output")
            if not total["cases"] and not total["failures"]:
                print(f"{total['family']:32} no such kernel on this device")
                continue
            rows.append(total)
            bad += total["failures"] > 0
            print(f"{total['family']:32} {len(total['kernels']):7} {total['cases']:7} "
                  f"{total['failures']:8} {total['share']:10.0%} {total['seconds']:8.1f}", flush=True)
            if output:
                print(output[-4000:])
    if args.json:
        args.json.write_text(json.dumps(
            {"device": args.device, "longest": args.longest, "seed": args.seed, "jobs": args.jobs,
             **({"sanitizer": args.sanitizer} if args.sanitizer else {}),
             "seconds": time.monotonic() - begin, "families": rows}, indent=1) + "\n")
    if not rows:
        print("error: nothing was checked", file=sys.stderr)
    return int(bad > 0 or not rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    make = commands.add_parser("compile", help="a bundle for each family, into a folder")
    make.add_argument("folder", type=Path)
    make.add_argument("--heddlec", type=Path, required=True)
    make.add_argument("--target", default="host,cuda:sm_80,cuda:sm_90a")
    make.add_argument("--dtype", default="bf16")
    make.add_argument("--head-dim", default="128")
    make.add_argument("--only", default="", help="families with this in their names")
    make.set_defaults(run=compile_bundles)
    check = commands.add_parser("run", help="checks them on this machine")
    check.add_argument("folder", type=Path)
    check.add_argument("--bin", type=Path, required=True,
                       help="where heddle-conformance and HeddleRtRowKernelTests are")
    check.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    check.add_argument("--cases", type=int, default=1000, help="of each family")
    check.add_argument("--longest", type=int, default=400, help="the most that lengths are")
    check.add_argument("--seed", type=int, default=1, help="of the first process")
    check.add_argument("--jobs", type=int, default=min(8, len(os.sched_getaffinity(0))),
                       help="processes at once")
    check.add_argument("--together", type=int, help="families at once")
    check.add_argument("--only", default="", help="families with this in their names")
    check.add_argument("--json", type=Path, help="where figures are written")
    check.add_argument("--timeout", type=float, default=600, help="seconds of a process")
    check.add_argument("--sanitizer", choices=["memcheck", "racecheck", "initcheck", "synccheck"],
                       help="each kernel a few times under compute-sanitizer")
    check.add_argument("--sanitizer-program", default="compute-sanitizer")
    check.set_defaults(run=run)
    args = parser.parse_args()
    if args.run is run and not args.together:
        # Each begins with two processes, or one.
        args.together = args.jobs if args.sanitizer else max(1, args.jobs // 2)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
