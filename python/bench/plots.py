#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the plots of docs/images: of every table of heddle-eval and of a search, as PNG and SVG, and the page of a
recorded run. Look at them before you commit them.

  python3 python/bench/plots.py                          all, some ten minutes on two cores
  python3 python/bench/plots.py --only tables --results build/plots

Runs the installed package. What --results has is not run again, so a second call draws alone. Needs matplotlib, for a
search Optuna, for the page Chromium.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test" / "Tools" / "explain"))

KINDS = ("tables", "search", "page")
TASKS = ["sort", "recall", "copy"]


def both(draw, name, images):
    """draw(path) as PNG and SVG."""
    for end in ("png", "svg"):
        draw(images / f"{name}.{end}")
        print(f"{name}.{end}")


def tables(args):
    import heddle
    from heddle.evaluation import report, tables as compared
    for name, table in compared.TABLES.items():
        # One file: schedules that several tables have run once.
        rows = heddle.evaluate(args.model, TASKS, schedules=table(args.length), examples=args.examples,
                               out=args.results / "tables.jsonl", on_batch=args.say)
        both(lambda path: report.plot(rows, path), f"table-{name}", args.images)


def search(args):
    from heddle.tuning import front, report, tune
    found = tune(args.model, TASKS, out=args.results / "search.jsonl", trials=args.trials, examples=2 * args.examples,
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
    p.add_argument("--length", type=int, default=128, help="that windows of tables are made for (default: 128)")
    p.add_argument("--trials", type=int, default=60, help="of the search (default: 60)")
    p.add_argument("--results", type=Path, default=ROOT / "build" / "plots", help="JSON lines (default: build/plots)")
    p.add_argument("--images", type=Path, default=ROOT / "docs" / "images", help="the plots (default: docs/images)")
    p.add_argument("--bin", type=Path, default=ROOT / "build" / "dev" / "bin", help="heddle-run (default: build/dev/bin)")
    args = p.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    args.images.mkdir(parents=True, exist_ok=True)
    args.say = lambda record, done, total: print(f"\r{done} of {total}", end="" if done < total else "\n", file=sys.stderr)
    for name, make in zip(KINDS, (tables, search, page)):
        if args.only in (None, name):
            make(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
