# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the models of this repository are made with: architecture, shape, tasks
and the lengths that they are trained on. The key is the folder's name under
models/.

A recipe's `rows(rng, total)` draws one training example of at most `total`
tokens as (prompt, answer) texts, or as an example of long_tasks."""

import os
import sys
from dataclasses import dataclass
from typing import Callable

import families
from heddle.evaluation import long_tasks
from heddle.evaluation import short_tasks as tasks


@dataclass(frozen=True)
class Recipe:
    family: type
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    theta: float
    positions: int       # max_sequence_length of the configuration
    tasks: object        # TASKS and test_set(task, count, seed)
    rows: Callable
    # (share of the training time until which it holds, {total length: weight of
    # a batch}), in order.
    stages: tuple
    # Prompts a task -> (name, {task: examples}, gen length, steps, block length).
    judged: Callable
    tokens: int = 16384  # of a batch


def short_row(rng, total):
    """One example whose prompt leaves 12 to ~90 positions of `total`."""
    if total >= 128 or rng.random() < 0.3:
        return tasks.recall_of_length(rng, rng.randint(max(24, total - 96), max(28, total - 12)))
    return tasks.GENERATORS[rng.choices(("add", "sort", "reverse", "copy"), (4, 2, 3, 3))[0]](rng)


def long_row(rng, total):
    return long_tasks.training_example(rng, total - rng.randint(4, 24))


def judge_short(shifted):
    def sets(count):
        test_set = {t: tasks.test_set(t, count, seed=7) for t in tasks.TASKS}
        blocks = (32, 32) if shifted else (8, 32)
        return [("", test_set, 32, 32, blocks[0]), ("", test_set, 32, 16, blocks[1])]
    return sets


def judge_long(steps):
    return lambda count: [
        (f"length {length}", {t: long_tasks.test_set(t, max(32, count * 512 // length), 7, length)
                              for t in long_tasks.TASKS}, 64, steps, 64)
        for length in (4096, 1024, 512)]


SHORT = ((1, {32: 1, 48: 3, 64: 3, 80: 2, 96: 2, 128: 2, 160: 1, 224: 1, 288: 1,
              352: 1, 432: 1.5, 480: 1}),)
LONG = ((0.2, {128: 2, 192: 2, 256: 2, 384: 1, 512: 1}),
        (0.4, {192: 1, 256: 1, 512: 2, 1024: 2}),
        (0.6, {256: 1, 512: 1, 1024: 2, 2048: 3}),
        (0.88, {256: 1, 512: 1, 1024: 2, 2048: 3, 4096: 5}),
        (1, {512: 1, 1024: 1, 2048: 2, 4096: 4, 8192: 3, 16384: 1}))

RECIPES = {
    "heddle-4m": Recipe(families.LLaDA, 6, 256, 4, 4, 512, 1e4, 1024, tasks, short_row, SHORT,
                        judge_short(False)),
    "heddle-dream-5m": Recipe(families.Dream, 4, 448, 7, 1, 448, 1e4, 1024, tasks, short_row, SHORT,
                              judge_short(True)),
    "heddle-long-9m": Recipe(families.LLaDA, 6, 384, 6, 6, 768, 5e5, 16384, long_tasks, long_row,
                             LONG, judge_long(32), tokens=65536),
    "heddle-dream-long-9m": Recipe(families.Dream, 6, 384, 6, 3, 896, 5e5, 16384, long_tasks,
                                   long_row, LONG, judge_long(64), tokens=65536),
}


def find(name, folder):
    """The recipe `name`, or that of the folder's name; ends with a sentence if
    there is none."""
    name = name or os.path.basename(os.path.abspath(folder))
    if name not in RECIPES:
        sys.exit(f"there is no recipe '{name}'; give --recipe one of {', '.join(RECIPES)}")
    return RECIPES[name]
