# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows that differ from layer to layer: all of a block in the first layers, fewer
in later ones."""

from fractions import Fraction

import torch

from .dyllm import cosine
from .models import attention, merge
from .run import Method


class ByLayer(Method):
    """A block's first pass computes everything. In each other one layer l computes
    the rows of layer(run, l): (positions, None), or of these the floor(ratio * n)
    whose V is least like the cached one and those of `spared` ("similar", ratio,
    spared), with a weight behind them by a weighted sum of what changed and of
    how confident the row's last prediction was, or those whose attention context
    had a cosine below tau in the layer before ("salient", tau). A shifted model
    computes the rows that predict the positions as well; where the least similar are chosen, all that predict what
    is spared or are no positions themselves.

    kept(l): "output" or "context" if a row that layer l leaves out takes what it
    had of attention and FFN there; None if it ends there, also if it was not
    chosen. Whoever comes out of the last layer predicts.
    """

    def __init__(self, layer, kept):
        self.layer, self.kept = layer, kept

    def begin(self, run):
        m = run.pieces
        zeros = lambda *shape: [torch.zeros(*shape) for _ in range(m.layers)]
        self.keys, self.values = zeros(m.kv_heads, run.n, m.dim), zeros(m.kv_heads, run.n, m.dim)
        self.contexts, self.outputs = zeros(run.n, m.heads * m.dim), zeros(run.n, m.width)
        self.ffns = zeros(run.n, m.width)

    def planned(self, run, layer):
        """(rows, those among which it chooses, how) of a layer."""
        if run.inner == 0:
            return list(range(run.n)), [], None
        positions, how = self.layer(run, layer % run.pieces.layers)
        spared = run.predicting(how[2]) if how and how[0] == "similar" else []
        return run.predicting(positions), sorted(set(positions) - set(spared)), how

    def reach(self, run):
        return {p for p in range(run.n) if run.pieces.row_of(p) in self.alive}

    def attended(self, m, layer, rows, x):
        """The context of `rows`, whose states are x, once their K and V are renewed."""
        h = m.attention_norm(layer, x)
        self.keys[layer][:, rows] = m.rotate(m.key(layer, h), rows)
        self.values[layer][:, rows] = m.value(layer, h)
        return attention(m.rotate(m.query(layer, h), rows), self.keys[layer], self.values[layer])

    def chosen(self, run, layer, rows, among, how, x):
        """The least similar of `among`, and the other rows."""
        m, ratio, weight = run.pieces, how[1], Fraction(how[3]) if len(how) > 3 else 0
        self.margin = None
        fresh = m.value(layer, m.attention_norm(layer, x[among]))
        same = cosine(merge(fresh), merge(self.values[layer][:, among])).tolist()
        if weight:
            masked, ahead = set(run.masked()), m.shifted
            sure = [run.sure.get(p + ahead, 0) if p + ahead in masked else 0 for p in among]
            same = [float((1 - weight) * Fraction(c) - weight * Fraction(s))
                    for c, s in zip(same, sure)]
        order = sorted(range(len(among)), key=lambda i: (same[i], among[i]))
        count = int(Fraction(ratio) * len(among))
        if 0 < count < len(order):
            self.margin = same[order[count]] - same[order[count - 1]]
        self.values[layer][:, among] = fresh
        return sorted({among[i] for i in order[:count]} | (set(rows) - set(among)))

    def forward(self, run, record):
        m = run.pieces
        plan = [self.planned(run, layer) for layer in range(m.layers)]
        alive = sorted(set().union(*(rows for rows, _, _ in plan)))
        x = torch.zeros(run.n, m.width)  # of every position, for plainness
        x[alive] = m.embed(run.read(alive))
        changed = sorted(set(run.history[-1]) if run.history else [])
        gone = set()  # by choice
        for layer, (rows, among, how) in enumerate(plan):
            rows, among = ([p for p in part if p not in gone] for part in (rows, among))
            if not set(rows) <= set(alive):
                raise ValueError(f"layer {layer} computes rows that have ended")
            kind, value = how[:2] if how else (None, None)
            exact, valued, self.margin = rows, rows, None
            if kind == "similar" and layer > 0:
                exact = self.chosen(run, layer, rows, among, how, x)
            if kind == "salient":
                exact = valued = [p for p in rows if p in changed]
            new = self.attended(m, layer, exact, x[exact])
            if kind != "salient" and self.kept(layer) is None:
                gone |= set(rows) - set(exact)
                alive = exact
            ffn, follow = exact, plan[layer + 1][2] if layer + 1 < m.layers else None
            tau = value if kind == "salient" else follow[1] if follow and follow[0] == "salient" else None
            if tau is not None:
                sure = cosine(new, self.contexts[layer][exact]).tolist()
                changed = [p for p, c in zip(exact, sure) if c < tau]
                self.margin = min((abs(c - tau) for c in sure), default=None)
                ffn = changed if kind == "salient" else exact
            self.contexts[layer][exact] = new
            self.outputs[layer][exact] = m.output(layer, new)
            x[alive] = x[alive] + self.outputs[layer][alive]
            self.ffns[layer][ffn] = m.ffn(layer, x[ffn])
            x[alive] = x[alive] + self.ffns[layer][alive]
            record.layer(exact, exact, ffn, m.heads * len(exact) * run.n, values=valued,
                         margin=self.margin)
        self.alive = set(alive)
        return alive, x[alive]


def live(run):
    """What of the block is masked, or was when the last pass began."""
    last = run.history[-1] if run.history else []
    return [p for p in range(run.block_start, run.block_end)
            if run.tokens[p] == run.pieces.mask or p in last]


def block(run):
    return list(range(run.block_start, run.block_end))


def early(depth, later, kept=None):
    """The block in the first `depth` layers; of it in the others what `later`
    says: None, what is masked or new; else a choice of the block."""
    def layer(run, index):
        if index < depth:
            return block(run), None
        return (block(run), later) if later else (live(run), None)
    return ByLayer(layer, lambda index: kept if index >= depth or kept == "context" else None)


def outer(kept):
    """The block in the first and the last layer, what is masked or new in between."""
    def layer(run, index):
        return (block(run) if index in (0, run.pieces.layers - 1) else live(run)), None
    return ByLayer(layer, lambda index: kept)


def skipping(layers, ratio, sure=0, *weight):
    """The block, of which in some layers those rows end whose V changed least: of
    what is neither the first masked position nor new nor among the `sure` most
    confident ones the share `ratio` goes on; by confidence, too, with a weight."""
    def layer(run, index):
        spared = [*run.masked()[:1], *(run.history[-1] if run.history else []),
                  *run.most_confident(block(run), sure)]
        return block(run), ("similar", ratio, spared, *weight) if index in layers else None
    return ByLayer(layer, lambda index: None)
