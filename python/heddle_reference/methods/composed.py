# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compositions that nobody has published: columns inside a moving window, with
saliency, any of the three; and a pattern for each range of layers.

One statement of all, so that each part alone must be the published method, which
the tests check against pairs.py, cached.py and dyllm.py.
"""

import torch

from ..model import probabilities
from .cached import FastDllm, everything, neighbours
from .dyllm import cosine
from .models import merge
from .pairs import Dense
from .run import Method


class Composed(Method):
    """window (external, internal, phase): Window-Diffusion's. columns: a
    pairs.Columns over the visible positions in their order (groups are of so
    many visible rows), refreshed at the cadence's steps, or without one when a
    phase begins. tau: DyLLM's, with `full` first steps; without a window one
    step in `period` computes the prompt, else the rows are the window's.

    A step that begins a phase, refreshes columns, or is among the first ones with
    saliency computes all that is visible. One that refreshes columns attends
    densely. The others compute, of their rows, what is salient, and correct the
    rest by the change of V over the pairs that those rows have.
    """

    def __init__(self, window=None, columns=None, cadence=None, tau=None, full=4, period=4):
        self.window, self.columns, self.cadence = window, columns, cadence
        self.tau, self.full, self.period = tau, full, period

    def begin(self, run):
        m = run.pieces
        zeros = lambda *shape: [torch.zeros(*shape) for _ in range(m.layers)]
        self.keys, self.values = zeros(m.kv_heads, run.n, m.dim), zeros(m.kv_heads, run.n, m.dim)
        self.contexts, self.ffns = zeros(run.n, m.heads * m.dim), zeros(run.n, m.width)
        self.steps = set(self.cadence(run.steps)) if self.cadence else set()
        self.visible, self.masks = list(range(run.n)), {}

    def active(self, run):
        """The internal window."""
        return [p for p in run.undecoded() if p in self.outer][:self.window[1]]

    def reach(self, run):
        return set(self.active(run)) if self.window else None

    def plan(self, run):
        """(rows, whether they are all that is visible, whether columns are refreshed)."""
        begins = self.window and (run.step - 1) % self.window[2] == 0
        if begins:
            masked = set(run.masked())
            self.outer = set(run.undecoded()[:self.window[0]])
            self.visible = [p for p in range(run.n) if p in self.outer or p not in masked]
            self.since = len(run.history)
        refreshes = bool(self.columns) and (run.step in self.steps or (begins and not self.cadence))
        if begins or refreshes or (self.tau is not None and run.step <= self.full):
            return self.visible, True, refreshes
        if self.window:
            recent = {p for committed in run.history[self.since:] for p in committed}
            return run.predicting({*self.active(run), *recent}), False, refreshes
        if self.tau is None or (run.step - 1) % self.period == 0:
            return self.visible, self.tau is None, refreshes
        return list(range(run.pieces.row_of(run.prompt), run.n)), False, refreshes

    def forward(self, run, record):
        m, (rows, whole, refreshes) = run.pieces, self.plan(run)
        record.visible, visible = self.visible, self.visible
        exact = whole or self.tau is None
        changed = rows if exact else [p for p in run.history[-1] if p in rows]
        place = {row: i for i, row in enumerate(rows)}
        among = {p: i for i, p in enumerate(visible)}
        x = m.embed(run.read(rows))
        for layer in range(m.layers):
            at = [place[p] for p in changed]
            h = m.attention_norm(layer, x)
            q = m.rotate(m.query(layer, h), rows)
            before = self.values[layer][:, visible]
            self.keys[layer][:, changed] = m.rotate(m.key(layer, h[at]), changed)
            self.values[layer][:, changed] = m.value(layer, h[at])
            k, v = self.keys[layer][:, visible], self.values[layer][:, visible]
            allowed = self.pairs(run, record, layer, q, k, refreshes)[:, [among[p] for p in rows]]
            repeat = m.heads // m.kv_heads
            p = probabilities(q, k.repeat_interleave(repeat, 0), allowed)
            old = self.contexts[layer][rows]
            new = old + merge(p @ (v - before).repeat_interleave(repeat, 0))
            new[at] = merge(p[:, at] @ v.repeat_interleave(repeat, 0))
            sure = cosine(new, old)
            fed = rows if exact else [r for r, c in zip(rows, sure.tolist()) if c < self.tau]
            self.contexts[layer][rows] = new
            x = x + m.output(layer, new)
            self.ffns[layer][fed] = m.ffn(layer, x[[place[p] for p in fed]])
            x = x + self.ffns[layer][rows]
            rest = [i for i in range(len(rows)) if rows[i] not in changed]
            valued = allowed[:, at].sum() + allowed[:, rest][..., [among[p] for p in changed]].sum()
            # Where nothing has changed there is nothing to add.
            record.layer(rows if changed else [], changed, fed, exact=changed,
                         pairs=allowed.sum() if changed else 0, valued=int(valued),
                         margin=None if exact else (sure - self.tau).abs().min())
            changed = fed
        return rows, x

    def pairs(self, run, record, layer, q, k, refreshes):
        """Pairs of this step among the visible positions: [heads, visible,
        visible]. Refreshes the columns, which are listed by position."""
        size, heads = len(self.visible), run.pieces.heads
        every = torch.ones(heads, size, size, dtype=torch.bool)
        if refreshes:
            entries = self.columns.select(run, q, k)
            for head, entry in enumerate(entries):
                record.refresh(layer, head, "columns",
                             [[self.visible[j] for j in keys] for keys in entry["lists"]])
            self.masks[layer] = torch.stack([self.columns.allowed(e, size) for e in entries])
            return every
        return self.masks.get(layer, every)


class BlockColumns(FastDllm):
    """Fast-dLLM's dual cache, whose blocks attend to columns: those that the block's
    first pass, which is dense, gives the highest scores. Source of the choice: MAGE."""

    def __init__(self, columns):
        super().__init__(dual=True)
        self.columns = columns

    def mask(self, run, record, layer, q, k):
        """The pairs of a layer in this pass, [heads, n, n]; None: all."""
        if run.inner > 0:
            return self.masks[layer]
        entries = self.columns.select(run, q, k)
        for head, entry in enumerate(entries):
            record.refresh(layer, head, "columns", **entry)
        self.masks[layer] = torch.stack([self.columns.allowed(e, run.n) for e in entries])
        return None

    def forward(self, run, record):
        m, (rows, _) = run.pieces, self.plan(run)
        record.visible = list(range(run.n))
        if run.inner == 0:
            self.masks = {}
        x = m.embed(run.read(rows))
        for layer in range(m.layers):
            h = m.attention_norm(layer, x)
            q = m.rotate(m.query(layer, h), rows)
            self.keys[layer][:, rows] = m.rotate(m.key(layer, h), rows)
            self.values[layer][:, rows] = m.value(layer, h)
            k, v = self.keys[layer], self.values[layer].repeat_interleave(m.heads // m.kv_heads, 0)
            mask = self.mask(run, record, layer, q, k)
            allowed = (torch.ones(m.heads, len(rows), run.n, dtype=torch.bool) if mask is None
                       else mask[:, rows])
            p = probabilities(q, k.repeat_interleave(m.heads // m.kv_heads, 0), allowed)
            x = x + m.output(layer, merge(p @ v))
            x = x + m.ffn(layer, x)
            record.layer(rows, rows, rows, int(allowed.sum()))
        return rows, x


class PastConfidence(BlockColumns):
    """After Focus-dLLM: a block's later passes compute the `count` positions of the block
    that were last predicted with the highest confidence, for each of them the `window`
    ones of the block next to it, the first masked one and what the pass before committed.
    The layers up to `chooser` are dense; that one chooses, in the block's first pass, the
    columns that it and the later ones read, and `sinks` first keys with them."""

    def __init__(self, columns, chooser, sinks, count, window):
        super().__init__(columns)
        self.chooser, self.sinks, self.count, self.window = chooser, sinks, count, window

    def reach(self, run):
        return {p for p in range(run.n) if run.pieces.row_of(p) in self.rows}

    def plan(self, run):
        self.rows = self.chosen(run)
        return self.rows, everything(run)

    def chosen(self, run):
        if run.inner == 0:
            return everything(run)
        block = list(range(run.block_start, run.block_end))
        sure = run.most_confident(block, self.count)
        near = {p for each in sure for p in neighbours(each, block, self.window)}
        return run.predicting({*sure, *near, *run.masked()[:1], *run.history[-1]})

    def mask(self, run, record, layer, q, k):
        if layer < self.chooser:
            return None
        if run.inner > 0 or layer > self.chooser:
            return self.masks[self.chooser]
        super().mask(run, record, layer, q, k)
        self.masks[layer] |= torch.arange(run.n) < self.sinks
        return None


class ByLayer(Dense):
    """A method of pairs for each range of layers: parts are (first, last, method),
    both ends included and negative ones counted from the last layer, -1; the
    other layers have `rest`."""

    def __init__(self, rest, *parts):
        self.rest, self.parts = rest, parts

    def begin(self, run):
        m = run.pieces
        self.rest.begin(run)
        self.by_layer = [self.rest] * m.layers
        for first, last, method in self.parts:
            method.begin(run)
            for layer in range(first % m.layers, last % m.layers + 1):
                self.by_layer[layer] = method

    def mask(self, run, record, layer, q, k):
        return self.by_layer[layer].mask(run, record, layer, q, k)
