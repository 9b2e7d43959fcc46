#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints one table: exact-match accuracy of the model on every task, by schedule.

  python3 python/accuracy.py --heddlec build/release/bin/heddlec \\
      --heddle-run build/release/bin/heddle-run --model models/heddle-4m
  python3 python/accuracy.py --backend=reference --model models/heddle-4m --quick

An answer counts when the text before the end-of-text (or end-of-turn) token is the expected one,
letter for letter. Test sets are fixed (tasks.test_set), temperature is 0. The
reference backend computes the same in PyTorch and needs neither program.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import schedules
from heddle.evaluation import short_tasks as tasks


class HeddleRun:
    def __init__(self, args, folder):
        self.args, self.folder, self.bundles = args, folder, {}

    def answers(self, schedule, examples):
        """(texts, pairs computed, pairs of dense attention) of one batch."""
        a = self.args
        if schedule not in self.bundles:
            self.bundles[schedule] = schedules.compile_bundle(a.heddlec, schedule, self.folder)
        path = os.path.join(self.folder, "prompts.jsonl")
        with open(path, "w", encoding="utf-8") as out:
            for example in examples:
                out.write(json.dumps({"prompt": example.prompt}) + "\n")
        done = subprocess.run(
            [a.heddle_run, "--model", a.model, "--bundle", self.bundles[schedule],
             "--prompts-file", path, f"--gen-length={a.gen_length}", f"--steps={a.steps}",
             f"--alg={a.alg}" if a.alg else f"--block-length={a.block_length}",
             "--temperature=0", f"--dtype={a.dtype}", f"--threads={a.threads}", "--json", "--quiet"],
            capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"accuracy.py: heddle-run exited with {done.returncode}: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        counters = report["counters"]
        return ([r["text"] for r in report["results"]], counters["pairs"], counters["dense_pairs"])


class Reference:
    def __init__(self, args):
        from heddle_reference import sampler, timesteps, weights
        from heddle_reference.model import make
        from heddle_reference.tokenizer import Tokenizer
        self.model = make(*weights.load(args.model))
        if args.alg:
            self.generate = timesteps.generate
            self.options = timesteps.Options(args.gen_length, args.steps, args.alg)
        else:
            self.generate = sampler.generate
            self.options = sampler.Options(args.gen_length, args.steps, args.block_length)
        self.tokenizer = Tokenizer(args.model)

    def answers(self, schedule, examples):
        prompts = [self.tokenizer.encode(e.prompt) for e in examples]
        records = []
        done = self.generate(self.model, prompts, self.options,
                             schedules.BY_NAME[schedule].reference, records.append)
        eos = self.model.config["eos_token_id"]
        turns = [self.tokenizer.special.get(name, eos) for name in ("<|eot_id|>", "<|im_end|>")]
        ends = (eos, *turns)
        texts = []
        for prompt, tokens in zip(prompts, done):
            response = tokens[len(prompt):]
            length = next((i for i, t in enumerate(response) if t in ends), len(response))
            texts.append(self.tokenizer.decode(response[:length]))
        return (texts, sum(r["pairs"] for r in records), sum(r["dense_pairs"] for r in records))


def measure(backend, names, count, which=tasks.TASKS):
    """One row a schedule: accuracy by task, share of pairs computed."""
    rows = []
    for name in names:
        row = {"schedule": name, "title": schedules.BY_NAME[name].title, "tasks": {}, "share": {}}
        pairs = dense = 0
        for task in which:
            examples = tasks.test_set(task, count)
            begin = time.time()
            texts, computed, full = backend.answers(name, examples)
            right = sum(t == e.answer for t, e in zip(texts, examples))
            row["tasks"][task] = right / count
            row["share"][task] = computed / full
            pairs, dense = pairs + computed, dense + full
            print(f"{name} {task}: {right} of {count} right, {time.time() - begin:.0f} s",
                  file=sys.stderr, flush=True)
        row["mean"] = sum(row["tasks"].values()) / len(which)
        row["pairs_share"] = pairs / dense
        rows.append(row)
    return rows


def markdown(rows):
    which = list(rows[0]["tasks"])
    lines = ["| schedule | " + " | ".join(which) + " | mean | attention computed |",
             "|---|" + "---:|" * (len(which) + 2)]
    for row in rows:
        cells = [f"{100 * row['tasks'][t]:.1f}" for t in which]
        cells += [f"{100 * row['mean']:.1f}", f"{100 * row['pairs_share']:.0f}%"]
        lines.append(f"| {row['title']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", choices=("heddle-run", "reference"), default="heddle-run")
    parser.add_argument("--heddlec", default="build/release/bin/heddlec")
    parser.add_argument("--heddle-run", default="build/release/bin/heddle-run")
    parser.add_argument("--schedules", default=",".join(schedules.ACCURACY))
    parser.add_argument("--tasks", default=",".join(tasks.TASKS))
    parser.add_argument("--count", type=int, default=50, help="test prompts a task")
    parser.add_argument("--quick", action="store_true", help="4 test prompts a task")
    parser.add_argument("--gen-length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--block-length", type=int, default=8, help="LLaDA")
    parser.add_argument("--alg", default="entropy", help="Dream")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--json", metavar="FILE", help="write the figures here as well")
    parser.add_argument("--require", metavar="SCHEDULE=SHARE,...",
                        help="exit with 1 if one is right less often than this in the mean")
    args = parser.parse_args()
    with open(os.path.join(args.model, "config.json"), encoding="utf-8") as file:
        if json.load(file)["model_type"] != "Dream":
            args.alg = None
    names = args.schedules.split(",")
    for name in names:
        if name not in schedules.BY_NAME:
            parser.error(f"no schedule is named '{name}'; there are "
                         + ", ".join(schedules.BY_NAME))
    which = args.tasks.split(",")
    for task in which:
        if task not in tasks.TASKS:
            parser.error(f"no task is named '{task}'; there are {', '.join(tasks.TASKS)}")
    required = {}
    for item in args.require.split(",") if args.require else []:
        name, _, share = item.partition("=")
        try:
            required[name] = float(share)
        except ValueError:
            parser.error(f"--require: '{item}': expected SCHEDULE=SHARE, such as dense=0.9")
        if name not in names:
            parser.error(f"--require: '{name}' is none of --schedules")
    count = 4 if args.quick else args.count
    if count < 1:
        parser.error("--count must be at least 1")
    with tempfile.TemporaryDirectory() as folder:
        backend = Reference(args) if args.backend == "reference" else HeddleRun(args, folder)
        rows = measure(backend, names, count, which)
    print(markdown(rows))
    print(f"\nPercent of {count} prompts a task answered exactly; gen length {args.gen_length}, "
          f"{args.steps} steps, "
          + (f"alg {args.alg}" if args.alg else f"block length {args.block_length}")
          + ", temperature 0, "
          f"{args.dtype if args.backend == 'heddle-run' else 'fp32'}, {args.backend}.")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"count": count, "gen_length": args.gen_length, "steps": args.steps,
                       "block_length": None if args.alg else args.block_length,
                       "alg": args.alg, "backend": args.backend,
                       "rows": rows}, out, indent=2)
            out.write("\n")
    missed = [row for row in rows if row["mean"] < required.get(row["schedule"], 0)]
    for row in missed:
        print(f"{row['schedule']} is right in {row['mean']:.3f} of the prompts, required "
              f"{required[row['schedule']]}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
