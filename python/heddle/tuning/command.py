# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program heddle-tune."""

import argparse
import json
import sys

from .. import files, model as models, programs
from ..errors import HeddleError
from ..evaluation.command import names, run_options
from ..evaluation.records import Records, read
from ..evaluation.tasks import find
from . import report
from .cost import parse_cost
from .records import CHECKS, trials_of
from .search import DEFAULT_RUNGS, Search, front, parse_floor
from .space import AXES

EXAMPLES = """
examples:
  heddle-tune --model models/heddle-4m --tasks short --minutes 20 --floor dense-2 \\
      --out search.jsonl -o tuned.mlir
  heddle-tune --model models/heddle-long-9m --tasks needles --length 1024 --minutes 60 \\
      --cost estimate:h200 --cost-model LLaDA-8B-Instruct --out search.jsonl -o tuned.hdl
  heddle-tune --model models/heddle-4m --tasks sort --trials 30 --cost measured \\
      --axes keep,group,cadence --out search.jsonl
  heddle-tune front search.jsonl                      what no other trial beats, as a table
  heddle-tune front search.jsonl --trial 17 -o a.mlir  the schedule of a trial
  heddle-tune plot search.jsonl -o front.svg          accuracy over cost

With --out a search that was ended, by Ctrl-C or a kill, goes on where it was when the same command is
given again; a larger --minutes or --trials goes on further.
exit status: 0 done, 1 an error that the message names, 2 wrong options, 3 no schedule reached the floor,
130 Ctrl-C
"""


class Progress:
    """A line a trial or, with tqdm on a terminal, a bar of the trials or minutes, on standard error."""

    def __init__(self, quiet, trials, minutes):
        self.quiet, self.bar, self.by_trials = quiet, None, trials is not None
        if not quiet and sys.stderr.isatty():
            try:
                from tqdm import tqdm
                self.bar = tqdm(total=trials if self.by_trials else round(60 * minutes), unit="trial" if self.by_trials else "s")
            except ImportError:
                pass

    def __call__(self, trial, search):
        if self.quiet:
            return
        if trial["state"] == "refused":
            said = f"refused: {trial['why']}"
        else:
            dense = search.trials[0]["cost"]
            said = f"{100 * trial['accuracy']:.1f}% right, {100 * trial['cost'] / dense:.1f}% of dense's cost"
            said += f"; {trial['why']}" if trial["why"] else ""
        best = search.best()
        if self.bar is None:
            print(f"heddle-tune: trial {trial['number']}: {trial['about']}: {said}", file=sys.stderr, flush=True)
            return
        if best:
            self.bar.set_description(f"trial {trial['number']}, best {100 * best['cost'] / search.trials[0]['cost']:.1f}% of dense",
                                     refresh=False)
        self.bar.update((len(search.trials) if self.by_trials else min(self.bar.total, sum(t["seconds"] for t in search.trials)))
                        - self.bar.n)

    def close(self):
        if self.bar is not None:
            self.bar.close()


def _parser():
    p = argparse.ArgumentParser(
        prog="heddle-tune", description="Searches for the cheapest schedule whose answers stay right.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    run_options(p)
    p.add_argument("--minutes", type=float, help="of trials in all, those that --out has included (default: 10, unless --trials is given)")
    p.add_argument("--trials", type=int, help="in all, those that --out has included")
    p.add_argument("--floor", default="dense-2", metavar="PERCENT|dense-POINTS",
                   help="of right answers that a schedule must have (default: dense-2, two points below dense attention)")
    p.add_argument("--cost", default="estimate:h200", metavar="measured|estimate:MACHINE",
                   help="what is to be small: the seconds of a sequence, measured here, or heddlec --explain's estimate for "
                        "h200, h100 or cpu (default: estimate:h200)")
    p.add_argument("--cost-model", metavar="FOLDER", help="the estimate is for this model's shape; its config.json is enough "
                                                          "(default: --model)")
    p.add_argument("--axes", type=names, default=list(AXES), metavar="NAME,...",
                   help=f"what is searched: {', '.join(AXES)} (default: all)")
    p.add_argument("--parts", type=int, default=3, metavar="N", help="parts of consecutive layers with a keep ratio each (default: 3)")
    p.add_argument("--rungs", type=names, default=list(DEFAULT_RUNGS), metavar="NAME,...",
                   help="what a trial passes: recall (the attention mass on computed pairs, of one recorded run a task), short (an "
                        "eighth of the examples at a quarter of the length and half the steps), part (a quarter of the examples), full (default: short,part,full)")
    p.add_argument("--no-confirm", action="store_true", help="do not run the schedule on other examples at the end")
    p.add_argument("-o", "--output", metavar="FILE", help="the schedule: .mlir, with its evidence as comments, or .hdl, compiled")
    return p


def _check_output(p, output):
    if output and not output.endswith((".mlir", ".hdl")):
        p.error(f"-o: '{output}' ends in neither .mlir, the text, nor .hdl, the compiled bundle")
    if output:
        files.check_writable(output)  # now, not after the search


def _run(argv):
    p = _parser()
    args = p.parse_args(argv)
    _check_output(p, args.output)
    if args.trials is not None and args.trials < 1 or args.minutes is not None and not args.minutes > 0:
        p.error("--minutes, --trials: expected more than 0")
    if len(args.length) > 1:
        p.error("--length: a search has one")
    minutes = args.minutes if args.minutes is not None or args.trials is not None else 10.0
    tasks = args.tasks or ["short"]
    find(tasks)  # what is wrong is said before a model is loaded
    parse_floor(args.floor)
    parse_cost(args.cost)
    options = {n: getattr(args, n) for n in ("gen_length", "steps", "block_length", "alg", "temperature", "chat")
               if getattr(args, n) is not None}
    file = Records(args.out, CHECKS) if args.out else None
    progress = Progress(args.quiet, args.trials, minutes)
    try:
        with models.load(args.model, device=args.device, dtype=args.dtype) as model:
            search = Search(model, tasks, file, floor=args.floor, cost=args.cost, cost_model=args.cost_model,
                            examples=args.examples, length=args.length[0], batch=args.batch, seed=args.seed,
                            parts=args.parts, axes=tuple(args.axes), rungs=tuple(args.rungs), options=options,
                            on_trial=progress)
            best = search.run(args.trials, None if minutes is None else 60 * minutes)
            progress.close()
            kept = front(search.trials)
            print(json.dumps({"front": kept, "best": best["number"] if best else None, "trials": len(search.trials)}, indent=2)
                  if args.json else report.markdown(search.trials, kept), end="" if not args.json else "\n", flush=True)
            if best is None:
                print(f"heddle-tune: no schedule reached the floor, {args.floor}; the most accurate is the table's last. Give "
                      "more time or a lower floor", file=sys.stderr)
                return 3
            confirmed = None
            if not args.no_confirm:
                confirmed = {"trial": search.confirm(best), "dense": search.confirm(search.trials[0])}
                if confirmed["trial"] is None:
                    confirmed = None
                    print("heddle-tune: no confirmation: the search has used all examples of its files; give it fewer --examples "
                          "for some to be left", file=sys.stderr)
            text = report.spec(best, search.records, search.trials, confirmed, args.out)
            if args.output:
                report.write(text, args.output, model)
            elif not args.json:
                print("\n" + text, end="")
    finally:
        progress.close()
        if file:
            file.close()
    return 0


def _read(path):
    records = read(path, CHECKS)
    first = next((r for r in records if r.get("kind") == "search"), None)
    if first is None:
        raise HeddleError(f"{path}: there is no search in it; expected what heddle-tune --out wrote")
    return records, first, trials_of(records, path)


def _front(argv):
    p = argparse.ArgumentParser(prog="heddle-tune front", description="Prints the trials that none other beats in cost and accuracy.",
                                epilog="example: heddle-tune front search.jsonl --trial 17 -o a.mlir")
    p.add_argument("file", metavar="FILE", help="that --out wrote")
    p.add_argument("--json", action="store_true", help="print the trials as JSON")
    p.add_argument("--trial", type=int, metavar="N", help="print or write the schedule of this trial instead")
    p.add_argument("-o", "--output", metavar="FILE", help="of --trial: .mlir, or .hdl compiled for every model")
    args = p.parse_args(argv)
    _check_output(p, args.output)
    if args.trial is None and args.output:
        p.error("-o: say which schedule with --trial")
    if args.trial is not None and args.json:
        p.error("--json: a schedule is text; leave --trial or --json out")
    records, _, trials = _read(args.file)
    if args.trial is None:
        kept = front(trials)
        print(json.dumps(kept, indent=2) + "\n" if args.json else report.markdown(trials, kept), end="", flush=True)
        return 0
    if not 0 <= args.trial < len(trials) or trials[args.trial]["state"] == "refused":
        raise HeddleError(f"--trial: {args.trial} is no trial that ran; there are 0 to {len(trials) - 1}")
    text = report.spec(trials[args.trial], records, trials, None, args.file)
    if args.output:
        report.write(text, args.output)
    else:
        print(text, end="", flush=True)
    return 0


def _plot(argv):
    p = argparse.ArgumentParser(prog="heddle-tune plot", description="Draws right answers over cost.",
                                epilog="example: heddle-tune plot search.jsonl -o front.svg")
    p.add_argument("file", metavar="FILE", help="that --out wrote")
    p.add_argument("-o", "--output", type=programs.plot_path, required=True, metavar="FILE", help="ends in .png, .svg or .pdf")
    args = p.parse_args(argv)
    _, first, trials = _read(args.file)
    report.plot(trials, front(trials), first["settings"], args.output)
    return 0


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    commands = {"front": _front, "plot": _plot}
    does = (lambda: commands[argv[0]](argv[1:])) if argv and argv[0] in commands else (lambda: _run(argv))
    return programs.run("heddle-tune", does, programs.RESUMES, "--json" in argv)


if __name__ == "__main__":
    sys.exit(main())
