#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the tables and plots of docs/Quality.md and docs/HowTo: of every table of heddle-eval (Markdown, PNG, SVG), of a
search, of recorded runs (rows by layer, similarity over steps), and the page of one. Look at them before you commit them.

  python3 python/bench/plots.py                          all of heddle-4m, some ten minutes on two cores
  python3 python/bench/plots.py --only tables --results build/plots
  python3 python/bench/plots.py --only tables --model models/heddle-long-9m --tasks needles --length 4096 \\
      --examples 32 --device cuda --prefix long-
  python3 python/bench/plots.py --only records --model models/heddle-long-9m --tasks multi_query --length 1024

Runs the installed package. What --results has is not run again, so a second call draws alone. Each table and plot says its
date, machine and seed. Plots need matplotlib, a search Optuna, the page Chromium.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test" / "Tools" / "explain"))

KINDS = ("tables", "search", "records", "page")
#: What the plot of a table has on its other axis, if not the share of pairs.
OVER = {"parallel": "speed"}


def both(draw, name, images):
    """draw(path) as PNG and SVG."""
    for end in ("png", "svg"):
        draw(images / f"{name}.{end}")
        print(f"{name}.{end}")


def write(text, path):
    path.write_text(text, encoding="utf-8")
    print(path)


def tables(args):
    import heddle
    from heddle.evaluation import report, tables as compared
    for name, table in compared.TABLES.items():
        # One file: schedules that several tables have run once.
        rows = heddle.evaluate(args.model, args.tasks, schedules=table(args.length), examples=args.examples,
                               length=args.length, device="cpu" if args.device == "host" else args.device,
                               out=args.results / f"{args.prefix}tables.jsonl", on_batch=args.say)
        write(report.markdown(rows), args.results / f"{args.prefix}{name}.md")
        both(lambda path: report.plot(rows, path, OVER.get(name, "pairs")), f"table-{args.prefix}{name}", args.images)


def records(args):
    """Of the first example: the rows that DyLLM's layers compute, and what dense attention's patterns at two steps have
    in common."""
    import heddle
    from heddle.evaluation import tasks
    from heddle.tracing import Record, tables as told
    (task, *_), device = tasks.find(args.tasks), "cpu" if args.device == "host" else args.device
    (example,) = task.draw(1, 2026, args.length)
    with heddle.load(args.model, device=device) as model:
        options = task.timesteps if model.config["sampler"] == "timesteps" else task.blocks
        for name, text in (("dyllm", told.rows), ("dense", told.similarity)):
            bundle, record = (args.results / f"{args.prefix}{name}.{end}" for end in ("hdl", "safetensors"))
            heddle.compile(heddle.preset(name), model=model).save(bundle)
            subprocess.run([args.bin / "heddle-run", "-q", "-m", args.model, "-b", bundle, f"--device={device}", "--temperature=0",
                            *(f"--{option.replace('_', '-')}={value}" for option, value in options.items()),
                            "--record", record, example.prompt], check=True, stdout=subprocess.DEVNULL)
            # A record of the host doesn't name it.
            said = text(Record(record)).replace("on this machine", f"on {model.machine}")
            write(f"The first example of {task.name}, seed 2026. {said}", args.results / f"{args.prefix}{text.__name__}.md")


def search(args):
    from heddle.tuning import front, report, tune
    found = tune(args.model, args.tasks, out=args.results / "search.jsonl", trials=args.trials, examples=2 * args.examples,
                 cost="estimate:h200")
    both(lambda path: report.plot(found.trials, front(found.trials), found.settings, path), "search", args.images)


def page(args):
    from browser import Browser, find
    from heddle.tracing import Record, html
    import heddle
    if not find():
        sys.exit("plots.py: no Chromium on this machine; install Debian's package chromium-headless-shell")
    bundle, record, made = (args.results / f"composed.{end}" for end in ("hdl", "safetensors", "html"))
    heddle.compile(heddle.preset("columns-window-saliency"), head_dim=64).save(bundle)
    subprocess.run([args.bin / "heddle-run", "-q", "-m", args.model, "-b", bundle, "--gen-length=64", "--steps=64", "--record",
                    record, "Sort 52 17 90 33."], check=True, stdout=subprocess.DEVNULL)
    made.write_text(html(Record(record)), encoding="utf-8")
    with Browser() as browser:
        for dark in (False, True):
            browser.open(f"file://{made.resolve()}#step=33&layer=1&head=1", 1280, 1150, dark)
            browser.run("new Promise(done => { const look = () => document.documentElement.dataset.ready ? "
                        "setTimeout(done, 200) : setTimeout(look, 20); look(); })")
            name = f"trace-composed{'-dark' if dark else ''}.png"
            (args.images / name).write_bytes(browser.screenshot())
            print(name)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", type=Path, default=ROOT / "models" / "heddle-4m")
    p.add_argument("--only", choices=KINDS)
    p.add_argument("--examples", type=int, default=16, help="a task and schedule (default: 16)")
    p.add_argument("--tasks", type=lambda text: text.split(","), default=["sort", "recall", "copy"], metavar="NAME,...",
                   help="as heddle-eval has them (default: sort,recall,copy)")
    p.add_argument("--length", type=int, default=128,
                   help="of long tasks, and that windows of tables are made for (default: 128)")
    p.add_argument("--device", default="host", help="of tables and records: host, cuda or cuda:N (default: host)")
    p.add_argument("--prefix", default="", help="of the files' names (default: none)")
    p.add_argument("--trials", type=int, default=60, help="of the search (default: 60)")
    p.add_argument("--results", type=Path, default=ROOT / "build" / "plots", help="JSON lines (default: build/plots)")
    p.add_argument("--images", type=Path, default=ROOT / "docs" / "images", help="the plots (default: docs/images)")
    p.add_argument("--bin", type=Path, default=ROOT / "build" / "dev" / "bin", help="heddle-run (default: build/dev/bin)")
    args = p.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    args.images.mkdir(parents=True, exist_ok=True)
    args.say = lambda record, done, total: print(f"\r{done} of {total}", end="" if done < total else "\n", file=sys.stderr)
    for name, make in zip(KINDS, (tables, search, records, page)):
        if args.only in (None, name):
            make(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
