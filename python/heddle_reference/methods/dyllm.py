# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DyLLM (its section 3 and appendix C): rows whose attention context turned away
from the cached one are salient; the others take cached FFN outputs and contexts
corrected by the change of V."""

import torch

from ..model import probabilities
from .models import attention, merge
from .run import Method


def cosine(a, b):
    """Of each row of a and b [rows, width], in float64; squared norms are at
    least 1e-8."""
    a, b = a.double(), b.double()
    square = lambda t: (t * t).sum(-1).clamp_min(1e-8)
    return (a * b).sum(-1) / (square(a) * square(b)).sqrt()


class DyLLM(Method):
    """full: the first steps, which compute everything (T_full, 4). tau: a row is
    salient if its cosine, over all heads together, is less. whole_period: one in so
    many sparse steps computes prompt and response, the others the response
    (with, in a shifted model, the row that predicts its first position).

    whole: "paper" (algorithm 1, steps from 0): whole if t % period == 0; "code"
    (steps from 1): whole if t % period == 0 or t <= period.
    entering: the salient rows of layer 0. "committed": what the last step
    committed; "carried": algorithm 1 to the letter, which passes the last
    layer's set on to the next step and falls back on what was committed only in
    the first sparse step. approximate: if not, the paper's ablation "Salient"
    (table 1): Q, K, V and attention of all rows of the step, only FFNs are saved.
    own_first: in a shifted model, response-only steps predict the response's
    first position from its own row, as the code does for one sequence.
    """

    def __init__(self, tau, full=4, whole_period=4, whole="paper", entering="committed",
                 approximate=True, own_first=False):
        self.tau, self.full, self.period, self.whole = tau, full, whole_period, whole
        self.entering, self.approximate, self.own_first = entering, approximate, own_first

    def begin(self, run):
        m = run.pieces
        zeros = lambda *shape: [torch.zeros(*shape) for _ in range(m.layers)]
        self.keys, self.values = zeros(m.kv_heads, run.n, m.dim), zeros(m.kv_heads, run.n, m.dim)
        self.contexts, self.ffns = zeros(run.n, m.heads * m.dim), zeros(run.n, m.width)
        self.salient = None

    def is_whole(self, run):
        if self.whole == "paper":
            return (run.step - 1) % self.period == 0
        return run.step % self.period == 0 or run.step <= self.period

    def rows(self, run):
        if run.step <= self.full or self.is_whole(run):
            return list(range(run.n))
        first = run.prompt if self.own_first else run.pieces.row_of(run.prompt)
        return list(range(first, run.n))

    def row_of(self, run, position):
        alone = self.own_first and position == run.prompt and position == self.rows(run)[0]
        return position if alone else super().row_of(run, position)

    def forward(self, run, record):
        rows = self.rows(run)
        if run.step <= self.full:
            return rows, self.full_step(run, record, rows)
        if self.salient is None or self.entering == "committed":
            self.salient = sorted({*run.history[-1], *run.edited, *run.revoked, *run.noisy()})
        return rows, self.sparse_step(run, record, rows)

    def full_step(self, run, record, rows):
        """Algorithm 2."""
        m, x = run.pieces, run.pieces.embed(run.read())
        for layer in range(m.layers):
            h = m.attention_norm(layer, x)
            q = m.rotate(m.query(layer, h), rows)
            self.keys[layer], self.values[layer] = m.rotate(m.key(layer, h), rows), m.value(layer, h)
            self.contexts[layer] = attention(q, self.keys[layer], self.values[layer])
            x = x + m.output(layer, self.contexts[layer])
            self.ffns[layer] = m.ffn(layer, x)
            x = x + self.ffns[layer]
            record.layer(rows, rows, rows, m.heads * run.n ** 2)
        return x

    def sparse_step(self, run, record, rows):
        """Algorithm 3; lines as numbered there."""
        m, salient = run.pieces, [p for p in self.salient if p in rows]
        place = {row: i for i, row in enumerate(rows)}
        x = m.embed(run.read(rows))
        for layer in range(m.layers):
            changed = salient if self.approximate else rows
            at = [place[p] for p in changed]
            h = m.attention_norm(layer, x)  # line 3
            q = m.rotate(m.query(layer, h), rows)  # line 4
            keys, values = self.keys[layer].clone(), self.values[layer].clone()
            keys[:, changed] = m.rotate(m.key(layer, h[at]), changed)  # line 5
            values[:, changed] = m.value(layer, h[at])  # line 6
            old = self.contexts[layer][rows]
            new = old + self.propagated(m, q, keys, values[:, changed], layer, changed)  # 7, 9, 10
            new[at] = attention(q[:, at], keys, values)  # lines 8, 10
            sure = cosine(new, old)
            salient = [p for p, c in zip(rows, sure.tolist()) if c < self.tau]  # line 11
            x = x + m.output(layer, new)  # line 12
            now = [place[p] for p in salient]
            self.ffns[layer][salient] = m.ffn(layer, x[now])  # line 13
            x = x + self.ffns[layer][rows]
            self.keys[layer], self.values[layer] = keys, values  # line 14
            self.contexts[layer][rows] = new
            others = len(rows) - len(changed)
            # Where nothing has changed there is nothing to add.
            asked = rows if changed else []
            record.layer(asked, changed, salient, exact=changed,
                         pairs=m.heads * len(asked) * run.n,
                         valued=m.heads * len(changed) * (run.n + others),
                         margin=(sure - self.tau).abs().min())
        self.salient = salient
        return x

    def propagated(self, m, q, keys, values, layer, changed):
        """Algorithm 4, [rows, heads * dim]: sum over the changed j of P(i, j)
        (V_new - V_old), P over all keys."""
        repeat = m.heads // m.kv_heads
        p = probabilities(q, keys.repeat_interleave(repeat, 0))[..., changed]
        delta = values - self.values[layer][:, changed]
        return merge(p @ delta.repeat_interleave(repeat, 0))
