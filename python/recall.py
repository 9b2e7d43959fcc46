#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recall of attention mass: the share of a row's probability on the keys that a pattern
keeps, by the share of keys that is kept, over all layers, heads and rows.

  python3 python/recall.py --model models/heddle-4m --tasks recall --examples 4
  python3 python/recall.py --model models/heddle-4m --tasks recall --json r.jsonl --plot r.svg

Patterns: the oracle, the best keys of each row; columns, the best of a group's mean; blocks,
the best tiles by mean; window, the nearest keys; and columns and blocks a while later: chosen when
the whole answer is masked, measured when half of it is there. Probabilities are those of
the plain statement of the model in heddle_reference. Needs PyTorch; --plot matplotlib.
"""

import argparse
import contextlib
import json
import os
import platform
import random
import sys
import time
from fractions import Fraction

sys.dont_write_bytecode = True


def plot_file(text):
    from heddle.programs import plot_path
    return plot_path(text)


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(n) for n in text.split(",")]
    p.add_argument("--model", required=True)
    p.add_argument("--tasks", default="recall", help="as heddle-eval has them (default: recall)")
    p.add_argument("--length", type=int, default=512, help="of long tasks (default: 512)")
    p.add_argument("--examples", type=int, default=4, help="a task (default: 4)")
    p.add_argument("--seed", type=int, default=2026)
    p.add_argument("--groups", type=numbers, default=[32, 128], help="rows of columns' groups")
    p.add_argument("--blocks", type=numbers, default=[32, 128], help="rows and keys of a block")
    p.add_argument("--json", metavar="FILE", help="write the figures here as well, a line each")
    p.add_argument("--plot", type=plot_file, metavar="FILE", help="draw them, .png or .svg")
    return p.parse_args()


if __name__ == "__main__":  # before PyTorch is loaded: --help needs none
    ARGS = options()

import torch  # noqa: E402

import recall_report as report  # noqa: E402
from heddle.evaluation.tasks import find  # noqa: E402
from heddle_reference import weights  # noqa: E402
from heddle_reference.model import make, probabilities  # noqa: E402
from heddle_reference.schedule import keep_count  # noqa: E402
from heddle_reference.tokenizer import Tokenizer  # noqa: E402

FRACTIONS = ("1/20", "1/10", "1/5", "3/10", "1/2", "7/10")


def pooled(p, rows):
    """Sums over groups of `rows` queries: p [heads, n, n] -> [heads, groups, n]."""
    return torch.stack([part.sum(1) for part in p.split(rows, 1)], 1)


def chosen(means, kind, size, keep):
    """The keys that columns or blocks keep for each group of rows, at least one key (tile): bool as means, [heads, groups, n]."""
    n = means.shape[-1]
    if kind == "columns":
        return torch.zeros_like(means, dtype=torch.bool).scatter(-1, means.topk(keep_count(keep, n), -1).indices, True)
    tiles = -(-n // size)  # sums over each of `size` keys, the last may be smaller
    sums = torch.nn.functional.pad(means, (0, tiles * size - n)).view(*means.shape[:2], tiles, size).sum(-1)
    best = sums.topk(keep_count(keep, tiles), -1).indices
    return torch.zeros_like(sums, dtype=torch.bool).scatter(-1, best, True).repeat_interleave(size, -1)[..., :n]


def recalled(first, later, kind, size, fractions):
    """[(share of mass, share of keys)] by fraction, in the mean over rows and heads: of `later`, on what columns and blocks
    chose by `first`. Both are [heads, n, n]."""
    heads, n, _ = later.shape
    fractions = [Fraction(keep) for keep in fractions]
    if kind == "oracle":
        ranked, counts = later.sort(-1, descending=True).values, [keep_count(keep, n) for keep in fractions]
        return [(ranked[..., :count].sum(-1).mean().item(), count / n) for count in counts]
    if kind == "window":
        i, mean = torch.arange(n), later.mean(0)
        near = [(i[:, None] - i).abs() <= keep_count(keep, n) // 2 for keep in fractions]
        return [((mean * allowed).sum(-1).mean().item(), allowed.float().mean().item()) for allowed in near]
    rows = torch.tensor([min(size, n - i) for i in range(0, n, size)])[:, None]  # the last group may be smaller
    means, sums = pooled(first, size) / rows, pooled(later, size)
    kept = [chosen(means, kind, size, keep) for keep in fractions]
    return [((sums * keys).sum().item() / (heads * n), (keys * rows).sum().item() / (heads * n * n)) for keys in kept]


def maps(model, tokens):
    """The probabilities [heads, n, n] of every layer."""
    seen = []

    def attend(layer, q, k, v):
        repeat = q.shape[0] // k.shape[0]
        p = probabilities(q, k.repeat_interleave(repeat, 0))
        seen.append(p)
        return p @ v.repeat_interleave(repeat, 0)
    model.forward(tokens, attend)
    return seen


def patterns(groups, sizes):
    return [("oracle", 0), *(("columns", g) for g in groups), *(("blocks", s) for s in sizes),
            ("window", 0)]


@torch.no_grad()
def measure(model, pairs, mask_token, kinds, fractions, gen):
    """[{"pattern", "size", "later", "keep", "mass", "keys"}]: means over `pairs` of (prompt ids,
    answer ids), each with `gen` response places."""
    sums, rng = {}, random.Random(1)
    for prompt, answer in pairs:
        places = range(len(prompt), len(prompt) + len(answer))
        start = prompt + [mask_token] * gen
        there = list(start)
        for place in rng.sample(places, len(answer) // 2):
            there[place] = answer[place - len(prompt)]
        for first, later in zip(maps(model, start), maps(model, there)):
            for kind, size in kinds:
                measured = [(False, first), *([(True, later)] if kind in ("columns", "blocks") else [])]
                for is_later, p in measured:
                    for keep, found in zip(fractions, recalled(first, p, kind, size, fractions)):
                        sums.setdefault((kind, size, is_later, keep), []).append(found)
    rows = []
    for (kind, size, later, keep), values in sums.items():
        mass, keys = (sum(v) / len(values) for v in zip(*values))
        rows.append({"pattern": kind, "size": size, "later": later, "keep": keep, "mass": mass, "keys": keys})
    return rows


def machine():
    """The CPU's name."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.machine()


def main(args):
    model, tokenizer = make(*weights.load(args.model)), Tokenizer(args.model)
    pairs = [(tokenizer.encode(e.prompt), tokenizer.encode(e.answer))
             for task in find(args.tasks.split(","))
             for e in task.draw(args.examples, args.seed, args.length)]
    rows = measure(model, pairs, model.config["mask_token_id"],
                   patterns(args.groups, args.blocks), FRACTIONS,
                   max(32, *(len(answer) for _, answer in pairs)))
    about = {"model": os.path.basename(os.path.abspath(args.model)), "tasks": args.tasks,
             "tokens": sum(len(x) for x, _ in pairs) / len(pairs), "dtype": "f32", "seed": args.seed,
             "machine": machine(), "date": time.strftime("%Y-%m-%d")}
    rows = [{**about, **row, "mass": round(row["mass"], 5), "keys": round(row["keys"], 5)} for row in rows]
    print(f"Percent of attention mass on the keys kept: {report.about(rows[0])}.\n\n{report.markdown(rows)}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    if args.plot:
        report.plot(rows, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main(ARGS))
