# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program heddle-eval."""

import argparse
import json
import sys

from .. import programs
from ..errors import HeddleError
from .records import read
from .report import OVER, below, label, markdown, plot
from .runner import MOST, evaluate
from .statistics import summarize
from .sweep import parse_settings, sweep
from .tables import OF_LENGTHS, TABLES
from .tasks import GENERATED, GROUPS, LONG, find

EXAMPLES = """
examples:
  heddle-eval --model models/heddle-4m --tasks short --schedule dense,pulsecol \\
      --set 'keep=10,20,50 percent' --examples 32 --out results.jsonl
  heddle-eval --model models/heddle-4m --tasks recall --schedule mine.mlir --device cuda
  heddle-eval table results.jsonl            the results as a Markdown table
  heddle-eval plot results.jsonl -o a.svg    accuracy over the share of pairs
  heddle-eval tables pulsecol --model models/heddle-4m --out pulsecol.jsonl
  heddle-eval --model models/heddle-4m --schedule dense,pulsecol --require dense=0.95,pulsecol=0.9

With --out a run that was ended, by Ctrl-C or a kill, goes on where it was when the same
command is given again; more --examples, tasks or schedules run what is new alone.
exit status: 0 done, 1 an error that the message names or fewer right answers than --require
asks for, 2 wrong options, 130 Ctrl-C
"""


class Progress:
    """Lines or, with tqdm on a terminal, a bar of the examples, on standard error."""

    def __init__(self, quiet):
        self.quiet, self.bar, self.done = quiet, None, 0

    def __call__(self, record, done, total):
        if self.quiet:
            return
        right = sum(r["right"] for r in record["results"])
        about = f"{label(record)}: {record['task']} {right} of {len(record['results'])}"
        if self.bar is None and sys.stderr.isatty():
            try:
                from tqdm import tqdm
                self.bar = tqdm(total=total, unit="example")
            except ImportError:
                pass
        if self.bar is not None:
            self.bar.set_description(about, refresh=False)
            self.bar.update(done - self.done)
        else:
            print(f"heddle-eval: {done} of {total} examples, {about}", file=sys.stderr, flush=True)
        self.done = done

    def close(self):
        if self.bar is not None:
            self.bar.close()


def names(text):
    found = [name for name in text.split(",") if name]
    if not found:
        raise argparse.ArgumentTypeError("expected names with commas between")
    return found


def _numbers(text):
    try:
        return [int(n) for n in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}': expected whole numbers with commas between") from None


def run_options(p):
    """What heddle-eval and heddle-tune both take."""
    p.add_argument("--model", required=True, metavar="FOLDER", help="as it was downloaded, or under models/")
    p.add_argument("--tasks", type=names, metavar="NAME,...",
                   help=f"{', '.join(GENERATED)}; groups: {', '.join(GROUPS)}; files of JSON lines with "
                        "\"prompt\" and \"answer\" (default: short)")
    p.add_argument("--length", type=_numbers, default=[1024], metavar="N,...",
                   help="tokens of the long tasks' prompts and answers (default: 1024)")
    p.add_argument("--examples", type=int, default=64, metavar="N", help="a task (default: 64)")
    p.add_argument("--batch", type=int, default=16, metavar="N", help="examples at once (default: 16)")
    p.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    p.add_argument("--dtype", type=programs.dtype, help="f32, bf16, f16 (default: that of the weights)")
    p.add_argument("--seed", type=int, default=2026, help="of the examples (default: 2026)")
    p.add_argument("--out", metavar="FILE", help="JSON lines, appended; what is there is not run again")
    p.add_argument("--json", action="store_true", help="print the rows, or what went wrong, as JSON in place of the table")
    p.add_argument("--quiet", action="store_true", help="no progress")
    for name, kind in (("gen-length", int), ("steps", int), ("block-length", int), ("alg", str),
                       ("temperature", float)):
        p.add_argument("--" + name, type=kind, help="of generation (default: the task's)")
    p.add_argument("--chat", action="store_true", default=None, help="put prompts into the chat template")


def _shares(text):
    """{"dense": 0.9} of "dense=0.9"."""
    found = {}
    for item in text.split(","):
        name, _, share = item.partition("=")
        try:
            found[name] = float(share)
            if not name or not 0 <= found[name] <= 1:
                raise ValueError
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{item}': expected SCHEDULE=SHARE with a share of 0 to 1, such as "
                                             "dense=0.9") from None
    return found


def _own_options(p):
    """What heddle-eval alone takes, for a run or a table."""
    p.add_argument("--skip", type=int, default=0, metavar="N",
                   help="pass over the first N examples of a task: others than those of a run of N (default: 0)")
    p.add_argument("--require", type=_shares, default={}, metavar="SCHEDULE=SHARE,...",
                   help="end with status 1 if less than this share of a schedule's answers is right, over all tasks, "
                        "with any of its settings")


def _parser():
    p = argparse.ArgumentParser(
        prog="heddle-eval", description="Runs tasks under sparsity schedules: right answers, tokens a second, work.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    run_options(p)
    p.add_argument("--schedule", type=names, default=["dense"], metavar="NAME|FILE,...",
                   help="presets (the files of examples/) or files of MLIR (default: dense)")
    _own_options(p)
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE,...", dest="settings",
                   help="a parameter of the schedules, swept: 'keep=10,20,50 percent', group=32,64")
    return p


def _shown(args, rows):
    print(json.dumps(rows, indent=2) if args.json else markdown(rows), flush=True)


def _run(args, schedules, settings):
    """Runs, prints the rows, and returns the exit status."""
    known = {name for name, _, _ in sweep(schedules, settings)}
    for name in args.require:
        if name not in known:
            raise HeddleError(f"--require: no schedule '{name}' runs; there are {', '.join(sorted(known))}")
    rows = _evaluate(args, schedules, settings)
    _shown(args, rows)
    missed = below(rows, args.require)
    for sentence in missed:
        print(f"heddle-eval: {sentence}", file=sys.stderr)
    return 1 if missed else 0


def _evaluate(args, schedules, settings):
    progress = Progress(args.quiet)
    options = {n: getattr(args, n) for n in
               ("gen_length", "steps", "block_length", "alg", "temperature", "chat")}
    try:
        return evaluate(args.model, args.tasks or ["short"], schedules=schedules, settings=settings,
                        examples=args.examples, skip=args.skip, length=args.length, batch=args.batch,
                        seed=args.seed, out=args.out, dtype=args.dtype,
                        device=args.device,
                        on_batch=progress, **options)
    finally:
        progress.close()


def _tasks(argv):
    args = _parser().parse_args(argv)
    return _run(args, args.schedule, parse_settings(args.settings))


def _table(argv):
    p = argparse.ArgumentParser(prog="heddle-eval table", description="Prints results as a Markdown table.",
                                epilog="example: heddle-eval table results.jsonl")
    p.add_argument("files", nargs="+", metavar="FILE", help="that --out wrote")
    p.add_argument("--json", action="store_true", help="print the rows as JSON")
    args = p.parse_args(argv)
    _shown(args, summarize([r for file in args.files for r in read(file)]))


def _plot(argv):
    p = argparse.ArgumentParser(prog="heddle-eval plot",
                                description="Draws right answers over the share of pairs or the speed.",
                                epilog="example: heddle-eval plot results.jsonl -o front.svg --over speed")
    p.add_argument("files", nargs="+", metavar="FILE", help="that --out wrote")
    p.add_argument("-o", "--output", type=programs.plot_path, required=True, metavar="FILE", help="ends in .png, .svg or .pdf")
    p.add_argument("--over", choices=OVER, default="pairs", help="pairs: %% of dense; speed: tokens a second (default: pairs)")
    args = p.parse_args(argv)
    plot(summarize([r for file in args.files for r in read(file)]), args.output, args.over)


def _tables(argv):
    p = argparse.ArgumentParser(
        prog="heddle-eval tables", description="Runs the schedules that a paper's table compares.",
        epilog="tables:\n" + "".join(f"  {n:20} {' '.join(f.__doc__.split())}\n" for n, f in TABLES.items())
               + "\nexample: heddle-eval tables dyllm --model models/heddle-4m --examples 32 --out dyllm.jsonl",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("name", choices=TABLES)
    run_options(p)
    _own_options(p)
    args = p.parse_args(argv)
    if len(args.length) > 1:
        p.error("--length: a table has one")
    # Schedules have parts of it, which are run in turn.
    if not 16 <= args.length[0] <= MOST:
        p.error(f"--length: expected 16 to {MOST} tokens, found {args.length[0]}")
    short = [task.name for task in find(args.tasks or ["short"]) if not task.long]
    if args.name in OF_LENGTHS and short:
        p.error(f"--tasks: table '{args.name}' is of tasks that have a length, and {', '.join(short)} "
                f"{'have' if len(short) > 1 else 'has'} none; give some of {', '.join(LONG)}, or needles, and --length")
    return _run(args, TABLES[args.name](args.length[0]), {})


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    commands = {"table": _table, "plot": _plot, "tables": _tables}
    does = (lambda: commands[argv[0]](argv[1:])) if argv and argv[0] in commands else (lambda: _tasks(argv))
    return programs.run("heddle-eval", does, programs.RESUMES, "--json" in argv)


if __name__ == "__main__":
    sys.exit(main())
