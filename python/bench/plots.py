#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws all plots and pictures of docs/images anew, and measures what they show.

  python3 python/bench/plots.py                              all, from docs/images/results: half a minute
  python3 python/bench/plots.py table-dyllm --measure        runs the schedules first, some minutes
  python3 python/bench/plots.py quality                      writes the tables of docs/Quality.md from the same rows
  python3 python/bench/plots.py records                      the tables of recorded runs in docs/Quality.md

What is drawn: the tables of heddle-eval, PNG and SVG, from rows that --measure wrote into docs/images/results; the page
of a recorded run; the pages of heddlec --explain=html. Each plot says model, dtype, date, machine and seed. Runs the
installed package; plots need matplotlib, pages Chromium. Look at what is drawn before you commit it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The first example of multi_query at 1,024 tokens, seed 2026.
NEEDLES = ROOT / "examples" / "needles.txt"
QUALITY = ROOT / "docs" / "Quality.md"
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
#: What has rows in docs/images/results: the plots, and tables of docs/Quality.md alone.
ROWS = {
    **PLOTS,
    "answers-long": Plot("answers", **{**LONG, "examples": 128}),
    "caches-long": Plot("caches", **{**LONG, "models": LONG["models"][:1]}),
    **{f"{name}-dream-long": Plot(name, **{**LONG, "models": LONG["models"][1:]})
       for name in ("sparsed", "dyllm", "window", "composed")},
}
#: Of a row in docs/images/results. What a row of a plot does not need may be missing.
ABOUT = ("schedule", "settings", "task", "length", "seed", "options", "model", "dtype", "machine", "date", "count", "right")
WORK = ("steps", "tokens", "rows", "pairs", "dense_pairs", "operations", "seconds")


def measure(name, args):
    """Runs the schedules of a plot, and writes its rows."""
    import heddle
    from heddle.evaluation import tables
    plot = ROWS[name]
    say = lambda record, done, total: print(f"\r{name}: {done} of {total}", end="" if done < total else "\n", file=sys.stderr)
    rows = []
    for model in plot.models:
        # One file a model: schedules that several tables have run once.
        rows += heddle.evaluate(ROOT / "models" / model, plot.tasks, schedules=tables.TABLES[plot.table](plot.length),
                                examples=plot.examples, length=plot.length, device=plot.device,
                                out=args.raw / f"{model}-{plot.examples}.jsonl", on_batch=say)
    args.results.mkdir(parents=True, exist_ok=True)
    with open(args.results / f"{name}.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({key: round(row[key], 3) if key == "seconds" else row[key] for key in ABOUT + WORK}) + "\n")


def results(name, folder):
    """The rows of a plot."""
    with open(folder / f"{name}.jsonl", encoding="utf-8") as file:
        return [{**dict.fromkeys(WORK, 0), **json.loads(line)} for line in file if line.strip()]


def draw(name, args):
    from heddle.evaluation import report
    report.pyplot()  # says what is missing
    import matplotlib
    # The same rows are the same file.
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    matplotlib.rcParams["svg.hashsalt"] = "heddle"
    for end in ("png", "svg"):
        report.plot(results(name, args.results), args.images / f"{name}.{end}", PLOTS[name].over)
        print(f"{name}.{end}")


def quality_text(text, folder):
    """A page whose tables, each below <!-- rows: NAME MODEL -->, are those of the rows in a folder."""
    from heddle.evaluation import report

    def table(found):
        rows = [row for row in results(found[2], folder) if row["model"] == found[3]]
        return found[1] + "".join(line + "\n" for line in report.markdown(rows, brief=True).splitlines() if line.startswith("|"))
    return re.sub(r"(<!-- rows: (\S+) (\S+) -->\n)(?:\|.*\n)*", table, text)


def quality(args):
    """Writes the tables of docs/Quality.md."""
    text = QUALITY.read_text(encoding="utf-8")
    QUALITY.write_text(quality_text(text, args.results), encoding="utf-8")
    print(QUALITY.relative_to(ROOT))


def program(args, name):
    """The path of one of Heddle's programs."""
    path = args.bin / name
    if not path.exists():
        sys.exit(f"plots.py: {path}: no such program; build it, or say with --bin where it is")
    return path


def recorded(args, schedule, name, prompt):
    """The record of a run of heddle-long-9m by heddle-run on the host."""
    import heddle
    from heddle.tracing import Record
    run = program(args, "heddle-run")
    bundle, record = (args.raw / f"{name}.{end}" for end in ("hdl", "safetensors"))
    heddle.compile(heddle.preset(schedule), head_dim=64).save(bundle)
    subprocess.run([run, "-q", "-m", ROOT / "models" / "heddle-long-9m", "-b", bundle, "--temperature=0",
                    "--gen-length=64", "--steps=32", "--block-length=64", "--record", record, prompt],
                   check=True, stdout=subprocess.DEVNULL)
    return Record(record)


def records(args):
    """Prints the rows that DyLLM's layers compute, and what the patterns of dense attention at two steps have in common."""
    from heddle.tracing import tables
    for schedule, table in (("dyllm", tables.rows), ("dense", tables.similarity)):
        print(table(recorded(args, schedule, schedule, NEEDLES.read_text(encoding="utf-8").strip())))


def trace(args):
    """The page of a recorded run, light and dark."""
    from browser import Browser
    from heddle.tracing import html
    record = recorded(args, "columns-window-sinks", "composed", NEEDLES.read_text(encoding="utf-8").strip())
    made = args.raw / "composed.html"
    made.write_text(html(record), encoding="utf-8")
    with Browser() as browser:
        for dark in (False, True):
            height = 600
            for _ in range(2):  # the second time as high as the page
                browser.open(f"file://{made.resolve()}#step=17&layer=2&head=1", 1280, height, dark)
                browser.run("new Promise(done => { const look = () => document.documentElement.dataset.ready ? "
                            "setTimeout(done, 200) : setTimeout(look, 20); look(); })")
                height = browser.run("document.documentElement.scrollHeight")
            name = f"trace-composed{'-dark' if dark else ''}.png"
            (args.images / name).write_bytes(browser.screenshot())
            print(name)


def explain(args):
    """The pages of heddlec --explain=html, by their own program, which compares them too."""
    subprocess.run([sys.executable, EXPLAIN / "pictures.py", "--heddlec", program(args, "heddlec")], check=True)


def images():
    """The files of docs/images that this program draws."""
    import pictures
    return {*(f"{name}.{end}" for name in PLOTS for end in ("png", "svg")), "trace-composed.png", "trace-composed-dark.png",
            *pictures.PICTURES}


def main():
    others = {"trace": trace, "explain": explain, "quality": quality, "records": records}
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME",
                   help=f"{', '.join(PLOTS)}; trace, explain: pages; quality, records: tables (default: all but these two); "
                        f"with --measure, rows of the tables of docs/Quality.md: {', '.join(name for name in ROWS if name not in PLOTS)}")
    p.add_argument("--measure", action="store_true",
                   help="run the named tables' schedules before they are drawn; those of table-long-* need a GPU")
    p.add_argument("--results", type=Path, default=ROOT / "docs" / "images" / "results",
                   help="rows that are drawn (default: docs/images/results)")
    p.add_argument("--images", type=Path, default=ROOT / "docs" / "images", help="the plots (default: docs/images)")
    p.add_argument("--raw", type=Path, default=ROOT / "build" / "plots",
                   help="heddle-eval's files, of which nothing is run again, and records (default: build/plots)")
    built = [ROOT / "build" / kind / "bin" for kind in ("dev", "release")]
    p.add_argument("--bin", type=Path, default=next((folder for folder in built if folder.exists()), built[0]),
                   help="programs (default: build/dev/bin, or build/release/bin where that alone is)")
    args = p.parse_args()
    for name in args.names:
        if name not in ROWS and name not in others:
            p.error(f"'{name}': expected {', '.join((*ROWS, *others))}")
    if args.measure and not args.names:
        p.error("--measure: name the tables that are to be run")
    names = args.names or [*PLOTS, "trace", "explain"]
    if {"trace", "explain"} & set(names):
        from browser import find
        if not find():
            sys.exit("plots.py: no Chromium on this machine; install Debian's package chromium-headless-shell")
    try:
        import heddle
    except ImportError as error:
        sys.exit(f"plots.py: {error}; install the package: pip install .")
    args.raw.mkdir(parents=True, exist_ok=True)
    args.images.mkdir(parents=True, exist_ok=True)
    try:
        for name in names:
            if name in ROWS:
                if args.measure:
                    measure(name, args)
                if name in PLOTS:
                    draw(name, args)
            else:
                others[name](args)
    except (heddle.HeddleError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"plots.py: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
