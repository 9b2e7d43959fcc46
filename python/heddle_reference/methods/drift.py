# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refreshes by what a run measures: columns, and the cache of a block.

After each step the last layer's V of the response is compared with what it was at the
step after the latest refresh; how alike they are on average decides whether the next step
refreshes.
Source: Elastic-Cache for refreshing by drift, which it tests on attention weights.
"""

from .cached import FastDllm, everything
from .dyllm import cosine
from .models import merge
from .pairs import Selecting


class Watch:
    """The steps that refresh: the first (of each block with `in_block`), those after a step
    that found less than `below`, and the one `within` steps after the latest."""

    def __init__(self, below, within, in_block=False):
        self.below, self.within, self.in_block = below, within, in_block

    def begin(self):
        self.latest, self.drifted, self.kept = 0, False, {}

    def refreshes(self, run):
        first = run.step == 1 or (self.in_block and run.inner == 0)
        self.now = first or self.drifted or run.step == self.latest + self.within
        return self.now

    def measure(self, run, rows, values):
        """values [KV heads, rows, dim]: V of these rows in the last layer."""
        found = {row: v for row, v in zip(rows, merge(values)) if row >= run.prompt}
        self.drifted = False
        if self.now:
            self.latest, self.kept = run.step, {}
        elif run.step == self.latest + 1:
            self.kept = found
            return
        alike = [float(cosine(v, self.kept[row])) for row, v in found.items() if row in self.kept]
        self.drifted = bool(alike) and sum(alike) / len(alike) < self.below


class Drifting(Selecting):
    """A selection that is refreshed by drift; such a step attends densely."""

    def __init__(self, selection, below, within):
        super().__init__(selection, lambda total: [])
        self.watch = Watch(below, within)

    def begin(self, run):
        super().begin(run)
        self.watch.begin()

    def forward(self, run, record):
        self.steps = {run.step} if self.watch.refreshes(run) else set()
        rows, x = super().forward(run, record)
        self.watch.measure(run, rows, self.values)
        return rows, x


class DriftingCache(FastDllm):
    """Fast-dLLM's dual cache, which is made anew within a block, too, when it has drifted."""

    def __init__(self, below, within):
        super().__init__(dual=True)
        self.watch = Watch(below, within, in_block=True)

    def begin(self, run):
        super().begin(run)
        self.watch.begin()

    def plan(self, run):
        if self.watch.refreshes(run):
            return everything(run), everything(run)
        return run.predicting(range(run.block_start, run.block_end)), everything(run)

    def forward(self, run, record):
        rows, x = super().forward(run, record)
        self.watch.measure(run, rows, self.values[-1][:, rows])
        return rows, x
