# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Methods that recompute some rows and take K and V of the others from a cache:
Fast-dLLM, dKV-Cache and Window-Diffusion.

They differ in `plan` alone: the rows of a step, the same in all layers, and the
positions visible as keys. K is kept after RoPE; methods that keep it before
compute the same numbers, since a position never changes.
"""

from fractions import Fraction

import torch

from .dyllm import cosine
from .models import attention, merge
from .run import Method


class Cached(Method):
    def begin(self, run):
        m = run.pieces
        empty = lambda: torch.zeros(m.kv_heads, run.n, m.dim)
        self.keys = [empty() for _ in range(m.layers)]
        self.values = [empty() for _ in range(m.layers)]
        self.kept = set()

    def plan(self, run):
        """(rows, visible) of this step, ascending."""
        raise NotImplementedError

    def forward(self, run, record):
        m, (rows, visible) = run.pieces, self.plan(run)
        self.kept |= set(rows)
        if not set(visible) <= self.kept:
            raise ValueError(f"step {run.step} sees keys that no step has computed")
        record.visible = visible
        x = m.embed(run.read(rows))
        for layer in range(m.layers):
            h = m.attention_norm(layer, x)
            self.keys[layer][:, rows] = m.rotate(m.key(layer, h), rows)
            self.values[layer][:, rows] = m.value(layer, h)
            q = m.rotate(m.query(layer, h), rows)
            context = attention(q, self.keys[layer][:, visible], self.values[layer][:, visible])
            x = x + m.output(layer, context)
            x = x + m.ffn(layer, x)
            record.layer(rows, rows, rows, m.heads * len(rows) * len(visible),
                         margin=self.attended(run, layer, q, rows))
        return rows, x

    def attended(self, run, layer, q, rows):
        """Told what the rows attend with; how close a choice was."""


def everything(run):
    return list(range(run.n))


class FastDllm(Cached):
    """Fast-dLLM: all rows at a block's first pass; then the block alone (`dual`)
    or the block and what follows it (prefix). In a shifted model the row before
    the block is recomputed too, since it predicts the block's first position.

    first_alone, as in the code for Dream: a block's first pass commits the
    block's first position alone, whose row is then not needed any more.
    """

    def __init__(self, dual=False, first_alone=False):
        self.dual, self.first_alone = dual, first_alone

    def reach(self, run):
        return {run.block_start} if self.first_alone and run.inner == 0 else None

    def plan(self, run):
        if run.inner == 0:
            return everything(run), everything(run)
        rows = range(run.block_start, run.block_end if self.dual else run.n)
        return list(rows) if self.first_alone else run.predicting(rows), everything(run)


class ToBlock(Cached):
    """All rows up to the block's end; what stands behind it is not there."""

    def plan(self, run):
        rows = list(range(run.block_end))
        return rows, rows


class MostCertain(Cached):
    """After d2Cache: all rows at a block's first pass; then the `count` masked ones that were last
    predicted with the highest confidence, as what is decoded near them lifts it (deviation `near`),
    the first masked one and what the pass before committed; and of all others those that drew most
    attention in the pass before, as many as together have less than `share` of what these drew, at
    least one (0: none). By rollout: the product over layers of (P + I) / 2, the rows of what a
    layer does not compute those of I."""

    def __init__(self, count, near, share=0):
        self.count, self.near, self.share = count, near, share

    def begin(self, run):
        super().begin(run)
        self.rollout, self.margin = None, None

    def reach(self, run):
        return {p for p in range(run.n) if run.pieces.row_of(p) in self.rows}

    def plan(self, run):
        self.rows = everything(run)
        if run.inner > 0:
            sure = run.most_confident(everything(run), self.count, self.near)
            certain = {*sure, *run.masked()[:1], *run.history[-1]}
            self.rows = run.predicting(certain | self.drawing(run, certain))
        return self.rows, everything(run)

    def drawing(self, run, certain):
        self.margin = None
        others = sorted(set(everything(run)) - certain)
        if not self.share or not others:
            return set()
        drew = self.rollout.sum(0)[others]
        order = drew.sort(descending=True, stable=True).indices
        sums = drew[order].cumsum(0)
        limit = sums[-1] * self.share.numerator / self.share.denominator
        count = max(1, int((sums < limit).sum()))
        at_border = drew[order[count - 1:count + 1]]
        self.margin = min([*((sums - limit).abs() / sums[-1]),
                           *((at_border[:1] - at_border[1:]) / at_border[0] if len(at_border) > 1 else [])])
        return {others[i] for i in order[:count].tolist()}

    def attended(self, run, layer, q, rows):
        """Every position of the run is visible."""
        if not self.share:
            return None
        if layer == 0:
            self.rollout = torch.eye(run.n, dtype=torch.float64)
        k = self.keys[layer].double().repeat_interleave(len(q) // len(self.keys[layer]), 0)
        p = torch.softmax(q.double() @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1).mean(0)
        a = torch.eye(run.n, dtype=torch.float64)
        a[rows] = (a[rows] + p) / 2
        self.rollout = a @ self.rollout
        return self.margin if layer == 0 else None


class FlashBlock(FastDllm):
    """FlashBlock: of a block's rows attention over the keys outside of the block
    is that of the block's first pass, as contexts and log-sum-exps; over the keys
    inside it is computed, and the two are averaged by the weight of their keys.
    In a shifted model the row before the block reads its own block's keys, too."""

    def __init__(self):
        super().__init__(dual=True)

    def begin(self, run):
        super().begin(run)
        self.outside = {}

    def refreshed(self, run, layer, rows, values):
        """Rows of a later pass whose attention over the keys outside is computed anew; values are those
        of `rows`, which are not kept yet."""
        return []

    def part(self, run, layer, q, keys):
        """(contexts, log-sum-exps [heads, rows]) over some keys, in float64."""
        repeat = run.pieces.heads // run.pieces.kv_heads
        k = self.keys[layer][:, keys].double().repeat_interleave(repeat, 0)
        v = self.values[layer][:, keys].double().repeat_interleave(repeat, 0)
        scores = q.double() @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)

    def forward(self, run, record):
        m, (rows, visible) = run.pieces, self.plan(run)
        inside = list(range(run.block_start, run.block_end))
        outside = sorted(set(visible) - set(inside))
        record.visible = visible
        x = m.embed(run.read(rows))
        for layer in range(m.layers):
            h = m.attention_norm(layer, x)
            values, self.margin = m.value(layer, h), None
            refreshed = rows if run.inner == 0 else self.refreshed(run, layer, rows, values)
            self.keys[layer][:, rows] = m.rotate(m.key(layer, h), rows)
            self.values[layer][:, rows] = values
            q = m.rotate(m.query(layer, h), rows)
            if run.inner == 0:
                self.outside[layer] = self.part(run, layer, q, outside)
            elif refreshed:
                anew = self.part(run, layer, q[:, [rows.index(row) for row in refreshed]], outside)
                for kept, new in zip(self.outside[layer], anew):
                    kept[:, refreshed] = new
            near, near_lse = self.part(run, layer, q, inside)
            far, far_lse = (each[:, rows] for each in self.outside[layer])
            share = torch.sigmoid(near_lse - far_lse)[..., None]
            context = (share * near + (1 - share) * far).float()
            x = x + m.output(layer, context.transpose(0, 1).flatten(1))
            x = x + m.ffn(layer, x)
            pairs = len(rows) * len(inside) + len(refreshed) * len(outside)
            record.layer(rows, rows, rows, m.heads * pairs, read=visible if refreshed else inside,
                         margin=self.margin)
        return rows, x


class Losa(FlashBlock):
    """After LoSA: FlashBlock of which in each layer the rows that have changed compute attention over
    the keys outside anew and keep it. Of the block's rows these are the floor(ratio * length) whose V
    has the lowest cosine, over all heads together, against that of the pass before; in layer 0, where V
    depends on the token alone, all of them. Without a ratio, in all layers, those of which the last
    pass made tokens, and those that are noise."""

    def __init__(self, ratio=None):
        super().__init__()
        self.ratio = None if ratio is None else Fraction(ratio)

    def refreshed(self, run, layer, rows, values):
        if self.ratio is None:
            return sorted({*run.history[-1], *run.edited, *run.noisy()} & set(rows))
        block = [row for row in rows if run.block_start <= row < run.block_end]
        if layer == 0:
            return block
        same = cosine(merge(values[:, [rows.index(row) for row in block]]),
                      merge(self.values[layer][:, block])).tolist()
        order = sorted(range(len(block)), key=lambda i: (same[i], i))
        count = int(self.ratio * len(block))
        if 0 < count < len(order):
            self.margin = same[order[count]] - same[order[count - 1]]
        return sorted(block[i] for i in order[:count])


def masked_before(run):
    """Positions that were masked when the last pass began."""
    return sorted({*run.masked(), *(run.history[-1] if run.history else [])})


class DkvDecode(Cached):
    """dKV-Cache: recomputes what was not yet committed one pass ago, so that a
    committed token is computed once more before it is frozen. All rows in a
    block's first `warm` passes and whenever its pass (from 0) is a multiple of
    `period`. In a shifted model, the rows that predict those positions besides.

    shift "un", as in the code for Dream: there row p is recomputed if p + 1 was
    masked one pass ago, whether or not p was. The last row has no next position:
    in the run's second pass it takes its own flag, so that it is computed, later
    that of position 0, which is no mask. shift "un_right", of the same code: row p
    if p or p + 1 was, and the last row if the one before it is. prompt_once: prompt rows that predict no response are computed in
    the first pass alone.
    """

    def __init__(self, period, warm=2, shift=None, prompt_once=False):
        self.period, self.warm, self.shift, self.prompt_once = period, warm, shift, prompt_once

    def plan(self, run):
        full = run.inner < self.warm or run.inner % self.period == 0
        if full:
            rows = everything(run)
        elif self.shift == "un":
            before = set(masked_before(run))
            beyond = run.n - 1 if run.step == 2 else 0
            follows = [*range(1, run.n), beyond]
            rows = [p for p in range(run.n) if follows[p] in before]
        elif self.shift == "un_right":
            before = set(masked_before(run))
            flags = [p in before or p + 1 in before for p in range(run.n - 1)]
            rows = [p for p, flag in enumerate([*flags, flags[-1]]) if flag]
        else:
            rows = run.predicting(masked_before(run))
        if self.prompt_once and run.step > 1:
            first = run.pieces.row_of(run.prompt)
            rows = [p for p in rows if p >= first]
        return rows, everything(run)


class DkvPrefill(Cached):
    """dKV-Cache, prefill: the prompt is computed once, and the response (with the
    row that predicts its first position) at every step."""

    def plan(self, run):
        rows = everything(run) if run.step == 1 else range(run.pieces.row_of(run.prompt), run.n)
        return list(rows), everything(run)


def neighbours(position, among, count):
    """So many of `among`, ascending, next to the position: left and right in turn."""
    left = [p for p in reversed(among) if p < position]
    right = [p for p in among if p > position]
    out = []
    while len(out) < count and (left or right):
        out += [side.pop(0) for side in (left, right) if side]
    return out[:count]


class DkvGreedy(Cached):
    """dKV-Cache, greedy: the order of commits is known (commit.Ordered), and a
    pass computes what the last one committed, what this one commits, and for
    each of these `window` masked neighbours, taken left and right in turn. All
    rows when the block's pass is a multiple of `period`. `released`: the set
    grows in the order of commits, and each position looks one further to the left
    and to the right in turn for masked ones that are not in it yet (the released
    code's find_window_tokens)."""

    def __init__(self, rule, period, window, released=False):
        self.rule, self.period, self.window, self.released = rule, period, window, released

    def grown(self, run, coming):
        masked, rows = set(run.masked()), set(coming)
        for position in coming:
            wanted = len(rows) + self.window
            for distance in range(1, run.n):
                for p in (position - distance, position + distance):
                    if p in masked and len(rows) < wanted:
                        rows.add(p)
        return rows

    def reach(self, run):
        return set(self.rule.upcoming(run))

    def plan(self, run):
        if run.inner % self.period == 0:
            return everything(run), everything(run)
        coming = self.rule.upcoming(run)
        if self.released:
            rows = self.grown(run, coming)
        else:
            rows = {p for c in coming for p in neighbours(c, run.masked(), self.window)} | set(coming)
        return run.predicting({*rows, *run.history[-1]}), everything(run)


class WindowDiffusion(Cached):
    """Window-Diffusion (its sections 4.2 and 4.3). A phase is `phase` steps. Its
    first, the refresh, fixes the external window, the first `external` undecoded
    positions, and computes these and all decoded ones; the others do not exist in
    this phase. Each step commits within the internal window, the first `internal`
    undecoded positions of the external one; a normal step computes these and
    what the phase has committed. In a shifted model also the rows before these."""

    def __init__(self, external, internal, phase):
        self.external, self.internal, self.phase = external, internal, phase

    def active(self, run):
        return [p for p in run.undecoded() if p in self.window][:self.internal]

    def reach(self, run):
        return set(self.active(run))

    def plan(self, run):
        if (run.step - 1) % self.phase == 0:
            masked = set(run.masked())
            self.window = set(run.undecoded()[:self.external])
            self.visible = [p for p in range(run.text_end())
                            if p in self.window or p not in masked]
            self.since = len(run.history)
            return self.visible, self.visible
        recent = {p for committed in run.history[self.since:] for p in committed
                  if p < run.text_end()}
        return run.predicting({*self.active(run), *recent}), self.visible


class WindowDiffusionLlada(Cached):
    """Window-Diffusion as released for LLaDA: the refresh computes and sees all
    positions and commits the surest of all masks. Then the phase's keys are fixed: what
    is decoded and the first `external` masks. A normal step computes the first
    `internal` masks and what the phase's normal steps have committed; the first
    normal step, what the refresh has committed. The first masks may by then stand
    behind those `external` ones: such rows attend to the phase's keys, and their own
    K and V are nobody's."""

    def __init__(self, external, internal, phase):
        self.external, self.internal, self.phase = external, internal, phase

    def place(self, run):
        return (run.step - 1) % self.phase

    def reach(self, run):
        return None if self.place(run) == 0 else set(run.masked()[:self.internal])

    def plan(self, run):
        place, masked = self.place(run), run.masked()
        if place == 0:
            return everything(run), everything(run)
        if place == 1:
            hidden = set(masked[self.external:])
            self.visible = [p for p in range(run.n) if p not in hidden]
            recent = run.history[-1]
        else:
            recent = [p for committed in run.history[1 - place:] for p in committed]
        return sorted({*masked[:self.internal], *recent}), self.visible


class WindowDiffusionDream(Cached):
    """Window-Diffusion as released for Dream (with slide_window). The refresh
    computes a prefix of as many positions as are decoded or among the first
    external - 1 masks, and commits the leftmost mask. A normal step computes all
    from that mask that have at most `internal` masks up to them, themselves
    included, over the prefix and these: to the sequence's end once no more are left.
    early_stop: one token a step; after a normal step EOS anywhere, also in the
    prompt, ends the sequence there, and every later step is a refresh."""

    def __init__(self, external, internal, phase, early_stop=False):
        if external < 2:
            raise ValueError("the released external window holds one mask less than its size")
        self.external, self.internal, self.phase = external, internal, phase
        self.early_stop = early_stop

    def begin(self, run):
        super().begin(run)
        self.end, self.refreshing = run.n, True

    def settle(self, run):
        """Ends the sequence at EOS, after a normal step."""
        if self.early_stop and not self.refreshing and run.pieces.eos in run.tokens[:self.end]:
            self.end = run.tokens.index(run.pieces.eos) + 1

    def masked(self, run):
        return [p for p in run.masked() if p < self.end]

    def reach(self, run):
        masked = self.masked(run)
        return {masked[0]} if self.refreshing else set(masked) & set(self.rows)

    def plan(self, run):
        masked = self.masked(run)
        stopped = self.end < run.n
        self.refreshing = (run.step - 1) % self.phase == 0 or stopped
        if self.refreshing:
            decoded = self.end - len(masked)
            self.start, self.prefix = masked[0], decoded + min(len(masked), self.external - 1)
            self.rows = list(range(self.prefix))
            return self.rows, self.rows
        end = masked[self.internal] if len(masked) > self.internal else run.n
        self.rows = list(range(self.start, end))
        return self.rows, sorted({*range(self.prefix), *self.rows})
