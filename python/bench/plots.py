#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws all plots and pictures of docs/images anew, and measures what they show.

  python3 python/bench/plots.py                              all, from docs/images/results: half a minute
  python3 python/bench/plots.py table-dyllm --measure        runs the schedules first, some minutes
  python3 python/bench/plots.py records                      the tables of recorded runs in docs/Quality.md

What is drawn: the tables of heddle-eval, PNG and SVG, from rows that --measure wrote into docs/images/results; the page
of a recorded run; the pages of heddlec --explain=html. Each plot says model, dtype, date, machine and seed. Runs the
installed package; plots need matplotlib, pages Chromium. Look at what is drawn before you commit it.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXPLAIN = ROOT / "test" / "Tools" / "explain"
sys.path.append(str(EXPLAIN))


@dataclass(frozen=True)
class Plot:
    """Of a table of heddle-eval: what is run, and what answers are drawn over."""
    table: str
    models: tuple = ("heddle-4m",)
    tasks: tuple = ("sort", "recall", "copy")
    length: int = 128
    examples: int = 8
    device: str = "cpu"
    over: str = "pairs"


LONG = dict(models=("heddle-long-9m", "heddle-dream-long-9m"), tasks=("needles",), length=4096, examples=32, device="cuda")

PLOTS = {
    **{f"table-{name}": Plot(name) for name in ("pulsecol", "pulsecol-ablations", "sparsed", "dyllm", "window", "composed")},
    "table-long-pulsecol": Plot("pulsecol", **LONG),
    **{f"table-long-{name}": Plot(table, **{**LONG, "models": LONG["models"][:1]})
       for name, table in (("ablations", "pulsecol-ablations"), ("sparsed", "sparsed"), ("dyllm", "dyllm"), ("window", "window"),
                           ("composed", "composed"))},
    "table-long-speed": Plot("parallel", over="speed", **LONG),
}
#: Of a row in docs/images/results. What a row of a plot does not need may be missing.
ABOUT = ("schedule", "settings", "task", "length", "seed", "options", "model", "dtype", "machine", "date", "count", "right")
WORK = ("steps", "tokens", "rows", "pairs", "dense_pairs", "operations", "seconds")


def host():
    """The CPU's name, which the runtime's own description of a host lacks."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "CPU")
    return f"{name}, {os.cpu_count()} threads"


def measure(name, args):
    """Runs the schedules of a plot, and writes its rows."""
    import heddle
    from heddle.evaluation import tables
    plot = PLOTS[name]
    say = lambda record, done, total: print(f"\r{name}: {done} of {total}", end="" if done < total else "\n", file=sys.stderr)
    rows = []
    for model in plot.models:
        # One file a model: schedules that several tables have run once.
        rows += heddle.evaluate(ROOT / "models" / model, plot.tasks, schedules=tables.TABLES[plot.table](plot.length),
                                examples=plot.examples, length=plot.length, device=plot.device,
                                out=args.raw / f"{model}.jsonl", on_batch=say)
    args.results.mkdir(parents=True, exist_ok=True)
    with open(args.results / f"{name}.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            if plot.device == "cpu":
                row["machine"] = f"{host()}, {row['machine']}"
            file.write(json.dumps({key: round(row[key], 3) if key == "seconds" else row[key] for key in ABOUT + WORK}) + "\n")


def results(name, folder):
    """The rows of a plot."""
    with open(folder / f"{name}.jsonl", encoding="utf-8") as file:
        return [{**dict.fromkeys(WORK, 0), **json.loads(line)} for line in file]


def draw(name, args):
    import matplotlib
    from heddle.evaluation import report
    # The same rows are the same file.
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    matplotlib.rcParams["svg.hashsalt"] = "heddle"
    for end in ("png", "svg"):
        report.plot(results(name, args.results), args.images / f"{name}.{end}", PLOTS[name].over)
        print(f"{name}.{end}")


def recorded(args, model, schedule, name, prompt, **options):
    """The record of a run of heddle-run on the host."""
    import heddle
    from heddle.tracing import Record
    bundle, record = (args.raw / f"{name}.{end}" for end in ("hdl", "safetensors"))
    heddle.compile(heddle.preset(schedule), head_dim=64).save(bundle)
    subprocess.run([args.bin / "heddle-run", "-q", "-m", ROOT / "models" / model, "-b", bundle, "--temperature=0",
                    *(f"--{option.replace('_', '-')}={value}" for option, value in options.items()), "--record", record, prompt],
                   check=True, stdout=subprocess.DEVNULL)
    return Record(record)


def records(args):
    """Prints, of heddle-long-9m on one prompt of 1,024 tokens: the rows that DyLLM's layers compute, and what the patterns
    of dense attention at two steps have in common."""
    from heddle.evaluation import tasks
    from heddle.tracing import tables
    (task, *_), seed, length = tasks.find(["multi_query"]), 2026, 1024
    (example,) = task.draw(1, seed, length)
    for schedule, table in (("dyllm", tables.rows), ("dense", tables.similarity)):
        record = recorded(args, "heddle-long-9m", schedule, schedule, example.prompt, **task.blocks)
        # A record of a host doesn't name it.
        said = table(record).replace("on this machine", f"on {host()}")
        print(f"The first example of {task.name} at {length} tokens, seed {seed}. {said}")


def trace(args):
    """The page of a recorded run, light and dark."""
    from browser import Browser
    from heddle.tracing import html
    record = recorded(args, "heddle-4m", "columns-window-saliency", "composed", "Sort 52 17 90 33.", gen_length=64, steps=64)
    made = args.raw / "composed.html"
    made.write_text(html(record), encoding="utf-8")
    with Browser() as browser:
        for dark in (False, True):
            browser.open(f"file://{made.resolve()}#step=33&layer=1&head=1", 1280, 1150, dark)
            browser.run("new Promise(done => { const look = () => document.documentElement.dataset.ready ? "
                        "setTimeout(done, 200) : setTimeout(look, 20); look(); })")
            name = f"trace-composed{'-dark' if dark else ''}.png"
            (args.images / name).write_bytes(browser.screenshot())
            print(name)


def explain(args):
    """The pages of heddlec --explain=html, by their own program, which compares them too."""
    subprocess.run([sys.executable, EXPLAIN / "pictures.py", "--heddlec", args.bin / "heddlec"], check=True)


def images():
    """The files of docs/images that this program draws."""
    import pictures
    return {*(f"{name}.{end}" for name in PLOTS for end in ("png", "svg")), "trace-composed.png", "trace-composed-dark.png",
            *pictures.PICTURES}


def main():
    others = {"trace": trace, "explain": explain, "records": records}
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME",
                   help=f"{', '.join(PLOTS)}; trace, explain: pages; records (default: all but records)")
    p.add_argument("--measure", action="store_true",
                   help="run the named tables' schedules before they are drawn; those of table-long-* need a GPU")
    p.add_argument("--results", type=Path, default=ROOT / "docs" / "images" / "results",
                   help="rows that are drawn (default: docs/images/results)")
    p.add_argument("--images", type=Path, default=ROOT / "docs" / "images", help="the plots (default: docs/images)")
    p.add_argument("--raw", type=Path, default=ROOT / "build" / "plots",
                   help="heddle-eval's files, of which nothing is run again, and records (default: build/plots)")
    p.add_argument("--bin", type=Path, default=ROOT / "build" / "dev" / "bin", help="programs (default: build/dev/bin)")
    args = p.parse_args()
    for name in args.names:
        if name not in PLOTS and name not in others:
            p.error(f"'{name}': expected {', '.join((*PLOTS, *others))}")
    if args.measure and not args.names:
        p.error("--measure: name the tables that are to be run")
    names = args.names or [*PLOTS, "trace", "explain"]
    if {"trace", "explain"} & set(names):
        from browser import find
        if not find():
            sys.exit("plots.py: no Chromium on this machine; install Debian's package chromium-headless-shell")
    args.raw.mkdir(parents=True, exist_ok=True)
    args.images.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name in PLOTS:
            if args.measure:
                measure(name, args)
            draw(name, args)
        else:
            others[name](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
