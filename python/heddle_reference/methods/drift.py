# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refreshes by what a run measures: columns, the cache of a block, and the caches of the
layers from one on.

After each step a layer's V of the response, the last one's if none is named, is compared
with what it was at the first step after the latest refresh that computed it; how alike
they are on average decides whether the next step refreshes. Or the layer's attention
weights, those of the keys whose position modulo the head dim is the same added up.
Source: Elastic-Cache for refreshing by drift, which it tests on the weights of one row.
"""

import torch

from ..model import probabilities
from .cached import FastDllm, everything
from .dyllm import DyLLM, cosine
from .models import attention, merge
from .pairs import Selecting
from .run import Method


class Watch:
    """The steps that refresh: the first (of each block with `in_block`), those after a step
    that found less than `below`, the one `within` steps after the latest, and those that
    refresh a layer before."""

    def __init__(self, below, within, in_block=False):
        self.below, self.within, self.in_block = below, within, in_block

    def begin(self):
        self.latest, self.drifted, self.kept = 0, False, {}

    def refreshes(self, run, before=False):
        first = run.step == 1 or (self.in_block and run.inner == 0)
        self.now = before or first or self.drifted or run.step == self.latest + self.within
        return self.now

    def measure(self, run, rows, values):
        """values [KV heads, rows, dim]: V of these rows in the layer."""
        self.drifted = False
        if self.now:
            self.latest, self.kept = run.step, {}
            return
        found = {row: v for row, v in zip(rows, merge(values)) if row >= run.prompt}
        alike = [float(cosine(v, self.kept[row])) for row, v in found.items() if row in self.kept]
        self.drifted = bool(alike) and sum(alike) / len(alike) < self.below
        self.kept = {**found, **self.kept}


def by_class(weights, dim):
    """[heads, rows, dim]: of weights [heads, rows, keys] the sums over the keys that stand
    at the same position modulo dim."""
    sums = weights.new_zeros(*weights.shape[:2], dim)
    return sums.index_add_(2, torch.arange(weights.shape[2]) % dim, weights)


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


class DriftingSaliency(DyLLM):
    """DyLLM's salient rows of the response, after a step that computes everything whenever a
    layer has drifted."""

    def __init__(self, tau, below, within, layer):
        super().__init__(tau)
        self.watch, self.layer = Watch(below, within), layer

    def begin(self, run):
        super().begin(run)
        self.watch.begin()

    def rows(self, run):
        return list(range(0 if self.watch.now else run.pieces.row_of(run.prompt), run.n))

    def forward(self, run, record):
        refreshes = self.watch.refreshes(run)
        self.salient = sorted(run.history[-1]) if run.history else []
        x = (self.full_step if refreshes else self.sparse_step)(run, record, self.rows(run))
        computed = record.line["layers"][self.layer]["keys_values"]
        computed = everything(run) if computed is None else computed
        self.watch.measure(run, computed, self.values[self.layer][:, computed])
        return self.rows(run), x


class SlidingWindow(Method):
    """Elastic-Cache, by drift of V or, with `weighs`, of the attention weights of the rows
    that a step computes, and a step later: each step computes the first `window`
    masked positions and what the last one committed, in all layers; K, V and outputs of
    the others are cached ones. bounds [(layer, below)], by layer: once such a layer has
    drifted, it and all behind it compute every row. In a shifted model the rows that
    predict those positions are computed, too."""

    def __init__(self, window, within, bounds, weighs=False):
        self.window, self.bounds, self.weighs = window, bounds, weighs
        self.watches = [Watch(below, within) for _, below in bounds]

    def begin(self, run):
        m = run.pieces
        zeros = lambda *shape: [torch.zeros(*shape) for _ in range(m.layers)]
        self.keys, self.values = zeros(m.kv_heads, run.n, m.dim), zeros(m.kv_heads, run.n, m.dim)
        self.outputs, self.ffns = zeros(run.n, m.width), zeros(run.n, m.width)
        for watch in self.watches:
            watch.begin()

    def reach(self, run):
        return set(run.undecoded()[:self.window])

    def starts(self, run):
        """The first layer that computes every row at this step; None: no layer does."""
        refreshed, start = False, None
        for (layer, _), watch in zip(self.bounds, self.watches):
            refreshed = watch.refreshes(run, refreshed)
            if refreshed and start is None:
                start = layer % run.pieces.layers
        return 0 if run.step == 1 else start

    def measured(self, m, layer, queries, rows):
        if not self.weighs:
            return self.values[layer][:, rows]
        keys = self.keys[layer].repeat_interleave(m.heads // m.kv_heads, 0)
        return by_class(probabilities(queries, keys), m.dim)

    def forward(self, run, record):
        m, start = run.pieces, self.starts(run)
        new = run.history[-1] if run.history else []
        some = run.predicting({*self.reach(run), *new})
        watched = {layer % m.layers: watch for (layer, _), watch in zip(self.bounds, self.watches)}
        x = m.embed(run.read())  # of every position, for plainness
        for layer in range(m.layers):
            rows = some if start is None or layer < start else everything(run)
            h = m.attention_norm(layer, x[rows])
            self.keys[layer][:, rows] = m.rotate(m.key(layer, h), rows)
            self.values[layer][:, rows] = m.value(layer, h)
            queries = m.rotate(m.query(layer, h), rows)
            context = attention(queries, self.keys[layer], self.values[layer])
            self.outputs[layer][rows] = m.output(layer, context)
            x = x + self.outputs[layer]
            self.ffns[layer][rows] = m.ffn(layer, x[rows])
            x = x + self.ffns[layer]
            if layer in watched:
                watched[layer].measure(run, rows, self.measured(m, layer, queries, rows))
            record.layer(rows, rows, rows, m.heads * len(rows) * run.n)
        out = some if start is None else everything(run)
        return out, x[out]
