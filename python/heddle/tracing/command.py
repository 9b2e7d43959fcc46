# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program heddle-trace."""

import argparse
import json
import os
import sys

from .. import files, programs
from ..errors import HeddleError
from . import tables
from .page import html
from .record import TENSORS, Record

EXAMPLES = """
examples:
  heddle-run -m models/heddle-4m -b pulsecol.hdl --record run.safetensors "Sort 52 17 90 33."
  heddle-trace view run.safetensors -o run.html
  heddle-trace view run.safetensors -o run.html --layers 0,15,31 --heads 0-7
  heddle-trace info run.safetensors --json
  heddle-trace rows run.safetensors         rows that each layer computes
  heddle-trace similarity run.safetensors   what the patterns of two steps have in common
  heddle-trace structure run.safetensors    sinks, locality and columns of each layer's heads

exit status: 0 done, 1 an error that the message names, 2 wrong options, 130 Ctrl-C
"""


def _numbers(text):
    """[0, 15, 31] of "0,15,31", [0, 1, 2] of "0-2"."""
    found = []
    try:
        for word in text.split(","):
            first, _, last = word.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            if not 0 < len(numbers) <= 65536:  # more than any model's layers or heads
                raise ValueError
            found.extend(numbers)
    except (ValueError, OverflowError):
        found = []
    if not found or len(set(found)) != len(found):
        raise argparse.ArgumentTypeError(f"'{text}': expected different numbers and ranges, such as 0,15,31 or 0-7")
    return found


def _view(args):
    if os.path.exists(args.output) and os.path.samefile(args.file, args.output):
        raise HeddleError(f"the output '{args.output}' is the input")
    files.write(args.output, html(Record(args.file), args.layers, args.heads).encode())


def _info(args):
    record = Record(args.file)
    run = {k: v for k, v in record.run.items() if k not in ("texts", "source")}
    tensors = {name: record.header[name]["shape"] for name in TENSORS}
    recall = record["maps.recall"]
    means = [round(float(r.mean()), 4) for r in recall]
    steps = record["maps.steps"].tolist()
    drift = record["drift"]
    known = drift[drift >= 0]
    about = {"run": run, "steps": len(record["seconds"]), "passes": len(set(record["passes"][:, 0].tolist())),
             "tokens": len(record["confidences"]),
             "map_steps": steps, "recall": means, "drift": round(float(1 - known.mean()), 4) if len(known) else None}
    if args.json:
        print(json.dumps({**about, "tensors": tensors}, indent=2))
        return
    passes = f" in {about['passes']} passes" if about["passes"] != about["steps"] else ""
    print(f"{run['schedule']}, {run['model']}, {run['dtype']} on {run['device']}, {run['date']}: {about['steps']} steps{passes} "
          f"over {run['length']} tokens (prompt {run['prompt']}), {about['tokens']} committed")
    print(f"{run['layers']} layers, {run['heads']} heads; maps of {tensors['maps.mass'][4]} cells a side")
    for step, mean in zip(steps, means):
        print(f"step {step}: the pairs computed hold {100 * mean:.1f}% of attention's mass, the mean of all heads")
    if about["drift"] is not None:
        print(f"{100 * about['drift']:.1f}% of a list's entries are new at a refresh, in the mean")


def main(argv=None):
    p = argparse.ArgumentParser(prog="heddle-trace", description="Shows what heddle-run --record wrote.",
                                epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True, metavar="view|info|rows|similarity|structure")
    view = commands.add_parser("view", help="write a page to look at, which needs nothing beside it",
                               epilog="example: heddle-trace view run.safetensors -o run.html")
    view.add_argument("file", metavar="FILE", help="that heddle-run --record wrote")
    view.add_argument("-o", "--output", required=True, metavar="PAGE.html", help="the page")
    view.add_argument("--layers", type=_numbers, metavar="N,N-N", help="these alone (default: all)")
    view.add_argument("--heads", type=_numbers, metavar="N,N-N", help="these alone (default: all)")
    info = commands.add_parser("info", help="print the numbers", epilog="example: heddle-trace info run.safetensors --json")
    info.add_argument("file", metavar="FILE", help="that heddle-run --record wrote")
    info.add_argument("--json", action="store_true", help="as one JSON object")
    rows = commands.add_parser("rows", help="print the rows that each layer computes, as a Markdown table",
                               epilog="example: heddle-trace rows run.safetensors")
    rows.add_argument("file", metavar="FILE", help="that heddle-run --record wrote")
    alike = commands.add_parser("similarity", help="print what the patterns of two steps have in common, as a Markdown table",
                                epilog="example: heddle-trace similarity run.safetensors --keep 0.1")
    alike.add_argument("file", metavar="FILE", help="that heddle-run --record wrote, best of dense attention")
    alike.add_argument("--keep", type=float, default=0.3, metavar="FRACTION", help="of the cells of keys, between 0 and 1 (default: 0.3)")
    where = commands.add_parser("structure", help="print which heads have sinks, look near and have columns, as a Markdown table",
                                epilog="example: heddle-trace structure run.safetensors")
    where.add_argument("file", metavar="FILE", help="that heddle-run --record wrote, best of dense attention")
    args = p.parse_args(argv)
    does = {"view": _view, "info": _info, "rows": lambda args: print(tables.rows(Record(args.file)), end="", flush=True),
            "similarity": lambda args: print(tables.similarity(Record(args.file), args.keep), end="", flush=True),
            "structure": lambda args: print(tables.structure(Record(args.file)), end="", flush=True)}
    return programs.run("heddle-trace", lambda: does[args.command](args), as_json="json" in args and args.json)


if __name__ == "__main__":
    sys.exit(main())
