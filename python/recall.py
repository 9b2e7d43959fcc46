#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recall of attention mass: the share of a row's probability on the keys that a pattern
keeps, by the share of keys that is kept, over all layers, heads and rows.

  python3 python/recall.py --model models/heddle-4m --tasks recall --examples 4
  python3 python/recall.py --model models/heddle-4m --tasks recall --json r.json --plot r.svg

Patterns: the oracle, the best keys of each row; columns, the best of a group's mean; blocks,
the best tiles by mean; window, the nearest keys; and columns and blocks a while later: chosen when
the whole answer is masked, measured when half of it is there. Probabilities are those of
the plain statement of the model in heddle_reference. Needs PyTorch; --plot matplotlib.
"""

import argparse
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
    p.add_argument("--json", metavar="FILE", help="write the figures here as well")
    p.add_argument("--plot", type=plot_file, metavar="FILE", help="draw them, .png or .svg")
    return p.parse_args()


if __name__ == "__main__":  # before PyTorch is loaded: --help needs none
    ARGS = options()

import torch  # noqa: E402

from heddle.evaluation.report import pyplot, save  # noqa: E402
from heddle.evaluation.tasks import find  # noqa: E402
from heddle_reference import weights  # noqa: E402
from heddle_reference.model import make, probabilities  # noqa: E402
from heddle_reference.schedule import keep_count  # noqa: E402
from heddle_reference.tokenizer import Tokenizer  # noqa: E402

FRACTIONS = ("1/20", "1/10", "1/5", "3/10", "1/2", "7/10")


def pooled(p, rows):
    """Means over groups of `rows` queries: p [heads, n, n] -> [heads, groups, n]."""
    n = p.shape[1]
    return torch.stack([p[:, i:i + rows].mean(1) for i in range(0, n, rows)], 1)


def mask(p, kind, size, keep):
    """The keys that a pattern keeps of p: bool [heads, n, n]. At least one key (tile) a row."""
    heads, n, _ = p.shape
    allowed = torch.zeros(heads, n, n, dtype=torch.bool)
    count = keep_count(keep, n)
    if kind == "oracle":
        return allowed.scatter(-1, p.topk(count, -1).indices, True)
    if kind == "window":
        i = torch.arange(n)
        return ((i[:, None] - i[None, :]).abs() <= count // 2).expand(heads, n, n)
    means = pooled(p, size)
    if kind == "blocks":  # tiles of `size` keys: sums over each, the last may be smaller
        tiles = -(-n // size)
        sums = torch.nn.functional.pad(means, (0, tiles * size - n)).view(heads, -1, tiles, size).sum(-1)
        best = sums.topk(keep_count(keep, tiles), -1).indices
        chosen = torch.zeros(heads, sums.shape[1], tiles, dtype=torch.bool).scatter(-1, best, True)
        keys = chosen.repeat_interleave(size, -1)[..., :n]
    else:
        best = means.topk(count, -1).indices
        keys = torch.zeros(heads, means.shape[1], n, dtype=torch.bool).scatter(-1, best, True)
    return keys.repeat_interleave(size, 1)[:, :n]


def recalled(p, allowed):
    """(share of mass, share of keys) that `allowed` keeps of p, in the mean over rows and heads."""
    return (p * allowed).sum(-1).mean().item(), allowed.float().mean().item()


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
                for keep in fractions:
                    fixed = mask(first, kind, size, Fraction(keep))
                    measured = [(False, first)]
                    if kind in ("columns", "blocks"):
                        measured.append((True, later))
                    for is_later, p in measured:
                        sums.setdefault((kind, size, is_later, keep), []).append(recalled(p, fixed))
    rows = []
    for (kind, size, later, keep), values in sums.items():
        mass, keys = (sum(v) / len(values) for v in zip(*values))
        rows.append({"pattern": kind, "size": size, "later": later, "keep": keep, "mass": mass, "keys": keys})
    return rows


def name(row):
    return row["pattern"] + (f" of {row['size']}" if row["size"] else "") + (", later" if row["later"] else "")


def markdown(rows):
    lines = {}
    for row in rows:
        lines.setdefault(name(row), {})[row["keep"]] = row["mass"]
    keeps = list(dict.fromkeys(row["keep"] for row in rows))
    text = ["| kept | " + " | ".join(f"{100 * float(Fraction(k)):g}%" for k in keeps) + " |",
            "|---|" + "---:|" * len(keeps)]
    text += [f"| {label} | " + " | ".join(f"{100 * of[k]:.1f}" for k in keeps) + " |"
             for label, of in lines.items()]
    return "\n".join(text)


def plot(rows, path, title):
    figure, axes = pyplot().subplots(figsize=(7, 4.5), layout="constrained")
    lines = {}
    for row in rows:
        lines.setdefault(name(row), []).append((100 * row["keys"], 100 * row["mass"]))
    for label, points in lines.items():
        axes.plot(*zip(*points), marker="o", markersize=3, label=label,
                  linestyle="--" if label.endswith("later") else "-")
    axes.set(xlabel="keys kept, %", ylabel="attention mass kept, %", ylim=(0, 102), title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    save(figure, path)


def main(args):
    model, tokenizer = make(*weights.load(args.model)), Tokenizer(args.model)
    pairs = [(tokenizer.encode(e.prompt), tokenizer.encode(e.answer))
             for task in find(args.tasks.split(","))
             for e in task.draw(args.examples, args.seed, args.length)]
    rows = measure(model, pairs, model.config["mask_token_id"],
                   patterns(args.groups, args.blocks), FRACTIONS,
                   max(32, *(len(answer) for _, answer in pairs)))
    about = (f"{os.path.basename(os.path.abspath(args.model))}, {args.tasks}, "
             f"{sum(len(x) for x, _ in pairs) / len(pairs):.0f} tokens in the mean, seed {args.seed}, "
             f"{time.strftime('%Y-%m-%d')}, {platform.machine()}")
    print(f"Percent of attention mass on the keys kept: {about}.\n\n{markdown(rows)}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"about": about, "rows": rows}, out, indent=2)
            out.write("\n")
    if args.plot:
        plot(rows, args.plot, about)
    return 0


if __name__ == "__main__":
    sys.exit(main(ARGS))
