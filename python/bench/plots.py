#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws all plots and pictures of docs/images anew, and measures what they show.

  python3 python/bench/plots.py                              all, from docs/images/results: half a minute
  python3 python/bench/plots.py table-dyllm --measure        runs the schedules first, some minutes
  python3 python/bench/plots.py quality                      writes the tables of docs/Quality.md from the same rows
  python3 python/bench/plots.py records                      records two runs and writes their tables there

What is drawn: the tables of heddle-eval and of recall.py, PNG and SVG, from rows that --measure wrote into
docs/images/results; the page of a recorded run; the pages of heddlec --explain=html. Each plot says model, dtype, date,
machine and seed. The table of searches is that of the heads of docs/images/results/search-*.mlir, which heddle-tune wrote.
Runs the installed package; plots need matplotlib, recall to be measured PyTorch, pages Chromium. Look at what is drawn
before you commit it.
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
sys.path += [str(EXPLAIN), str(ROOT / "python")]


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


@dataclass(frozen=True)
class Recall:
    """Of recall.py: what it measures."""
    models: tuple = ("heddle-4m",)
    tasks: tuple = ("recall",)
    length: int = 512
    examples: int = 3
    blocks: str = "32"


LONG = dict(models=("heddle-long-9m", "heddle-dream-long-9m"), tasks=("needles",), length=4096, examples=32, device="cuda")
LONG_LLADA, LONG_DREAM = ({**LONG, "models": (model,)} for model in LONG["models"])

PLOTS = {
    **{f"table-{name}": Plot(name) for name in ("pulsecol", "pulsecol-ablations", "sparsed", "dyllm", "window", "composed")},
    "table-long-pulsecol": Plot("pulsecol", **LONG),
    **{f"table-long-{name}": Plot(table, **LONG_LLADA)
       for name, table in (("ablations", "pulsecol-ablations"), ("sparsed", "sparsed"), ("dyllm", "dyllm"), ("window", "window"),
                           ("composed", "composed"))},
    "table-long-speed": Plot("parallel", over="speed", **LONG),
    "answers-long": Plot("answers", **{**LONG, "examples": 128}),
    "caches-long": Plot("caches", **LONG_LLADA),
    **{f"lengths-{length}": Plot("lengths", **{**LONG, "length": length, "examples": 16}) for length in (8192, 16384)},
    **{f"{name}-dream-long": Plot(name, **LONG_DREAM) for name in ("sparsed", "dyllm", "window", "composed")},
    "drift": Plot("drift", examples=32),
    "drift-long": Plot("drift", **{**LONG, "examples": 16}),
    "dyllm-limit": Plot("dyllm-limit", models=LONG["models"][:1], tasks=("multi_value",), length=1024, examples=6),
    "recall": Recall(),
    "recall-long": Recall(LONG["models"], ("multi_key",), 2048, 2, "32,128"),
}
#: Of a search's head, what docs/Quality.md says.
SEARCH = {
    "found": r"^// Found by heddle-tune, (?P<date>[\d-]+), (?P<machine>.+?)(?: \(.*\))?: (?P<found>.+)\.$",
    "tasks": r"^// tasks +.+; (?P<examples>\d+) examples a task, ",
    "right": r"^// right +(?P<right>\d+ of \d+), ",
    "others": r"^// others +(?P<others>[\d.]+)% .*; dense (?P<dense>[\d.]+)% ",
    "cost": r"^// cost +.* (?P<cost>[\d.]+%) of dense's ",
}
#: Of a row in docs/images/results. What a row of a plot does not need may be missing.
ABOUT = ("schedule", "settings", "task", "length", "seed", "options", "model", "dtype", "machine", "date", "count", "right")
WORK = ("steps", "tokens", "rows", "pairs", "dense_pairs", "operations", "seconds")


def evaluated(name, plot, args):
    """The rows of heddle-eval's table."""
    import heddle
    from heddle.evaluation import tables
    say = lambda record, done, total: print(f"\r{name}: {done} of {total}", end="" if done < total else "\n", file=sys.stderr)
    rows = []
    for model in plot.models:
        # One file a model: schedules that several tables have run once.
        rows += heddle.evaluate(ROOT / "models" / model, plot.tasks, schedules=tables.TABLES[plot.table](plot.length),
                                examples=plot.examples, length=plot.length, device=plot.device,
                                out=args.raw / f"{model}-{plot.examples}.jsonl", on_batch=say)
    return [{key: round(row[key], 3) if key == "seconds" else row[key] for key in ABOUT + WORK} for row in rows]


def recalled(name, plot, args):
    """The rows of recall.py."""
    rows = []
    for model in plot.models:
        out = args.raw / f"{name}-{model}.jsonl"
        subprocess.run([sys.executable, ROOT / "python" / "recall.py", "--model", ROOT / "models" / model,
                        "--tasks", ",".join(plot.tasks), "--length", str(plot.length), "--examples", str(plot.examples),
                        "--blocks", plot.blocks, "--json", out], check=True)
        rows += [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    return rows


def measure(name, args):
    """Runs what a plot shows, and writes its rows."""
    plot = PLOTS[name]
    rows = (recalled if isinstance(plot, Recall) else evaluated)(name, plot, args)
    args.results.mkdir(parents=True, exist_ok=True)
    with open(args.results / f"{name}.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def results(name, folder):
    """The rows of a plot."""
    with open(folder / f"{name}.jsonl", encoding="utf-8") as file:
        return [{**dict.fromkeys(WORK, 0), **json.loads(line)} for line in file if line.strip()]


def draw(name, args):
    import recall_report
    from heddle.evaluation import report
    report.pyplot()  # says what is missing
    import matplotlib
    # The same rows are the same file.
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    matplotlib.rcParams["svg.hashsalt"] = "heddle"
    rows, plot = results(name, args.results), PLOTS[name]
    for end in ("png", "svg"):
        path = args.images / f"{name}.{end}"
        if isinstance(plot, Recall):
            recall_report.plot(rows, path)
        else:
            report.plot(rows, path, plot.over)
        print(path.name)


def search(name, folder):
    """What the head of a found schedule says: {"found", "date", "machine", "examples", "right", "others", "dense", "cost"}."""
    text, said = (folder / f"{name}.mlir").read_text(encoding="utf-8"), {}
    for line, pattern in SEARCH.items():
        found = re.search(pattern, text, re.M)
        if not found:
            sys.exit(f"plots.py: {folder / name}.mlir: expected the head that heddle-tune writes, found no line '{line}'")
        said.update(found.groupdict())
    return said


def searches(names, folder):
    """The table of found schedules."""
    lines = ["| search | found | examples a task | right | of examples not searched, % | dense there, % | estimate, of dense | day, machine |",
             "|---|---|---:|---:|---:|---:|---:|---|"]
    for name in names:
        said = search(name, folder)
        lines.append(f"| [{name}](images/results/{name}.mlir) | {said['found']} | {said['examples']} | {said['right']} | "
                     f"{said['others']} | {said['dense']} | {said['cost']} | {said['date']}, {said['machine']} |")
    return lines


def quality_text(text, folder):
    """A page whose tables, each below <!-- rows: NAME MODEL --> or <!-- searches: NAME ... -->, are those of the results in a
    folder."""
    import recall_report
    from heddle.evaluation import report

    def table(found):
        kind, names = found[2], found[3].split()
        if kind == "searches":
            lines = searches(names, folder)
        else:
            name, model = names
            rows = [row for row in results(name, folder) if row["model"] == model]
            if isinstance(PLOTS[name], Recall):
                lines = recall_report.markdown([row for row in rows if not row["later"]]).splitlines()
            else:
                lines = [line for line in report.markdown(rows, brief=True).splitlines() if line.startswith("|")]
        return found[1] + "".join(line + "\n" for line in lines)
    return re.sub(r"(<!-- (rows|searches): (.+?) -->\n)(?:\|.*\n)*", table, text)


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
    """Writes the rows that DyLLM's layers compute, what the patterns of dense attention at two steps have in common, and where
    its heads look, below <!-- record: TABLE --> in docs/Quality.md; prints them with what stands around the tables."""
    from heddle.tracing import tables
    text, prompt = QUALITY.read_text(encoding="utf-8"), NEEDLES.read_text(encoding="utf-8").strip()
    dyllm, dense = (recorded(args, schedule, schedule, prompt) for schedule in ("dyllm", "dense"))
    for table, record in ((tables.rows, dyllm), (tables.similarity, dense), (tables.structure, dense)):
        said = table(record)
        print(said)
        rows = "".join(line + "\n" for line in said.splitlines() if line.startswith("|"))
        text = re.sub(rf"(<!-- record: {table.__name__} -->\n)(?:\|.*\n)*", lambda found: found[1] + rows, text)
    QUALITY.write_text(text, encoding="utf-8")


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
                   help=f"{', '.join(PLOTS)}; trace, explain: pages; quality, records: tables (default: all but these two)")
    p.add_argument("--measure", action="store_true",
                   help="run what the named plots show before they are drawn; of 4,096 tokens it needs a GPU")
    p.add_argument("--results", type=Path, default=ROOT / "docs" / "images" / "results",
                   help="rows that are drawn, and found schedules (default: docs/images/results)")
    p.add_argument("--images", type=Path, default=ROOT / "docs" / "images", help="the plots (default: docs/images)")
    p.add_argument("--raw", type=Path, default=ROOT / "build" / "plots",
                   help="heddle-eval's files, of which nothing is run again, and records (default: build/plots)")
    built = [ROOT / "build" / kind / "bin" for kind in ("dev", "release")]
    p.add_argument("--bin", type=Path, default=next((folder for folder in built if folder.exists()), built[0]),
                   help="programs (default: build/dev/bin, or build/release/bin where that alone is)")
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
    try:
        import heddle
    except ImportError as error:
        sys.exit(f"plots.py: {error}; install the package: pip install .")
    args.raw.mkdir(parents=True, exist_ok=True)
    args.images.mkdir(parents=True, exist_ok=True)
    try:
        for name in names:
            if name in PLOTS:
                if args.measure:
                    measure(name, args)
                draw(name, args)
            else:
                others[name](args)
    except (heddle.HeddleError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"plots.py: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
