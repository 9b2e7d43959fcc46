# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Methods that recompute every row and restrict the pairs: dense, sliding
window, StreamingLLM, PulseCol, SparseD and the ablations of the last two."""

from fractions import Fraction

import torch

from ..model import probabilities
from ..schedule import keep_count, largest, uniform_steps
from .commit import shuffled
from .models import merge
from .run import Method

# --- cadences ---------------------------------------------------------------


def uniform(window, count):
    """PulseCol, equation 8: `count` steps over the first floor(window T)."""
    return lambda total: uniform_steps(Fraction(window), count, total)


def power(window, count):
    """PulseCol, appendix D: places (i / (count - 1))^2 of the same window."""
    def steps(total):
        last = max(1, int(Fraction(window) * total)) - 1
        return sorted({1 + int(Fraction(i, max(1, count - 1)) ** 2 * last) for i in range(count)})
    return steps


def random(window, count, seed):
    """PulseCol, appendix D: as many steps, drawn from the same window."""
    def steps(total):
        length = max(1, int(Fraction(window) * total))
        return sorted(1 + p for p in shuffled(length, seed, count))
    return steps


def at(fraction, plus=0):
    """SparseD: the step floor(fraction T), at least 1. plus: steps later."""
    return lambda total: [max(1, int(Fraction(fraction) * total)) + plus]


def released_at(fraction):
    """SparseD's code counts from 0 and compares with trunc(fraction T) + 1: the
    step trunc(fraction T) + 2, dense like those before it."""
    return lambda total: [int(Fraction(fraction) * total) + 2]


def every(period, first=1):
    return lambda total: list(range(first, total + 1, period))


def every_after(fraction):
    """SparseD without reuse: each step after floor(fraction T)."""
    return lambda total: list(range(max(1, int(Fraction(fraction) * total)) + 1, total + 1))


# --- selections -------------------------------------------------------------


class Chosen(list):
    """The indices of the `count` largest scores; gap: how far the least of them
    is from the largest of the others, relative. (Not compared; it tells
    rounding from a mistake.)"""

    def __init__(self, scores, count):
        super().__init__(largest(scores, count))
        kept = set(self)
        rest = [s for j, s in enumerate(scores) if j not in kept]
        least = min((scores[j] for j in kept), default=0)
        self.gap = (least - max(rest)) / abs(least) if rest and least else 1


class Columns:
    """PulseCol, equations 5 to 7: each group of consecutive queries keeps the
    keys of largest mean probability over all keys; the last group's mean is
    over the rows that it has. Per query head, or shared by the query heads of
    a KV head (`shared`: the mean is over their rows together). A `keep` that is an
    int is a number of keys."""

    kind = "columns"

    def __init__(self, keep, group, rounding="floor", shared=False):
        self.keep, self.group = keep if isinstance(keep, int) else Fraction(keep), group
        self.rounding, self.shared = rounding, shared

    def groups(self, n):
        return [slice(g, g + self.group) for g in range(0, n, self.group)]

    def scores(self, q, k):
        """[heads, groups, n], of as many heads of k as of q."""
        p = probabilities(q, k).double()
        return torch.stack([p[:, own].mean(1) for own in self.groups(q.shape[1])], 1)

    def select(self, run, q, k):
        """A trace entry for each head: lists[u] holds the keys of group u."""
        heads, n, _ = q.shape
        together = heads // k.shape[0]
        scores = self.scores(q, k.repeat_interleave(together, 0))
        if self.shared:
            scores = scores.view(-1, together, *scores.shape[1:]).mean(1).repeat_interleave(together, 0)
        count = min(n, self.keep) if isinstance(self.keep, int) else \
            keep_count(self.keep, n, self.rounding)
        return [{"lists": [Chosen(own, count) for own in head]} for head in scores.tolist()]

    def allowed(self, entry, n):
        """The pairs [n, n] of a head's entry."""
        out = torch.zeros(n, n, dtype=torch.bool)
        for u, keys in enumerate(entry["lists"]):
            out[u * self.group:(u + 1) * self.group, keys] = True
        return out


def pooled(x, slices):
    """Means of rows of x [heads, n, d], in double: [heads, slices, d]."""
    return torch.stack([x[:, own].double().mean(1) for own in slices], 1)


def pooled_products(q, k):
    """VSA's coarse scores, as released, before a softmax that keeps their order; of
    each row the least one is 0."""
    products = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    return products - products.min(-1, keepdim=True).values


class PooledColumns(Columns):
    """The same by the product of each key with the mean of the group's queries."""

    def scores(self, q, k):
        return pooled_products(pooled(q, self.groups(q.shape[1])), k.double())


class Blocks:
    """SparseD, equations 5 and 6: tiles of `size` queries by `size` keys, the
    share `keep` of those of largest mean probability for each block of queries.

    isolating: the share is taken of the prompt's key blocks and, apart, of the
    response's, which start anew at the response's first key.
    """

    kind = "blocks"

    def __init__(self, keep, size, isolating=True, rounding="floor"):
        self.keep, self.size = Fraction(keep), size
        self.isolating, self.rounding = isolating, rounding

    def cuts(self, begin, end):
        return [slice(i, min(end, i + self.size)) for i in range(begin, end, self.size)]

    def scores(self, p, begin, end):
        """Mean probability [heads, query blocks, key blocks] of the tiles of p
        [heads, n, n] with keys begin..end-1; tiles at the ends are averaged over
        the entries that they have."""
        return torch.stack([torch.stack([p[:, a, b].double().mean((1, 2))
                                         for b in self.cuts(begin, end)], -1)
                            for a in self.cuts(0, p.shape[-1])], 1).tolist()

    def best(self, scores):
        """The blocks with the largest scores."""
        return Chosen(scores, keep_count(self.keep, len(scores), self.rounding))

    def select(self, run, q, k):
        heads, n, _ = q.shape
        p = probabilities(q, k.repeat_interleave(heads // k.shape[0], 0))
        pick = lambda begin, end: [[self.best(row) for row in head]
                                   for head in self.scores(p, begin, end)]
        if not self.isolating:
            return [{"lists": lists} for lists in pick(0, n)]
        return [{"lists": prompt, "response": response, "split": run.prompt}
                for prompt, response in zip(pick(0, run.prompt), pick(run.prompt, n))]

    def allowed(self, entry, n):
        out = torch.zeros(n, n, dtype=torch.bool)
        split, size = entry.get("split", n), self.size
        for u, blocks in enumerate(entry["lists"]):
            rows = slice(u * size, (u + 1) * size)
            for b in blocks:
                out[rows, b * size:min(split, (b + 1) * size)] = True
            for b in entry.get("response", [[]] * (u + 1))[u]:
                out[rows, split + b * size:split + (b + 1) * size] = True
        return out


class PooledBlocks(Blocks):
    """The same tiles by the product of the mean of a tile's queries with that of its keys."""

    def select(self, run, q, k):
        heads, n, _ = q.shape
        split = run.prompt if self.isolating else n
        first, second = self.cuts(0, split), self.cuts(split, n)
        keys = pooled(k, first + second).repeat_interleave(heads // k.shape[0], 0)
        rows = pooled_products(pooled(q, self.cuts(0, n)), keys).tolist()
        pick = lambda part: [[self.best(row[part]) for row in head] for head in rows]
        if not self.isolating:
            return [{"lists": lists} for lists in pick(slice(None))]
        return [{"lists": prompt, "response": response, "split": split}
                for prompt, response in zip(pick(slice(len(first))), pick(slice(len(first), None)))]


class ReleasedBlocks(Blocks):
    """SparseD's code (docs/Spec/Behaviours.md, rows 1 and 3 to 5). The response's
    blocks begin with the first one that has no prompt key (the last block if
    there is none). The prompt's part: the best of all blocks, less those of the
    response. The response's part: the softmax over the response's keys alone.
    Each part keeps floor(keep N) + 1. A tile's score is its sum divided by
    size^2, also at the ends. `scale`: scores are divided by the square root of
    the number of heads, as in the LLaDA code, or of the head dim."""

    def __init__(self, keep, size, scale="heads"):
        super().__init__(keep, size)
        self.scale = scale

    def scores(self, p):
        """Zero-padded means of p [heads, n, keys]."""
        heads, n, keys = p.shape
        fill = lambda length: -length % self.size
        p = torch.nn.functional.pad(p.double(), (0, fill(keys), 0, fill(n)))
        tiles = p.view(heads, p.shape[1] // self.size, self.size, -1, self.size)
        return tiles.mean((2, 4))

    def count(self, blocks):
        return min(blocks, max(1, int(self.keep * blocks) + 1))

    def select(self, run, q, k):
        heads, n, dim = q.shape
        k = k.repeat_interleave(heads // k.shape[0], 0)
        if self.scale == "heads":
            q = q * (dim / heads) ** 0.5
        total = -(-n // self.size)
        first = min(-(-run.prompt // self.size), total - 1)
        whole = self.scores(probabilities(q, k)).tolist()
        own = self.scores(probabilities(q, k[:, first * self.size:])).tolist()
        entries = []
        for head in range(heads):
            lists = []
            for row, tail in zip(whole[head], own[head]):
                prompt = [b for b in largest(row, self.count(total)) if b < first]
                response = [first + b for b in largest(tail, self.count(total - first))]
                lists.append(prompt + response)
            entries.append({"lists": lists})
        return entries


# --- methods ----------------------------------------------------------------


class Dense(Method):
    """All rows over all pairs; the base of what restricts pairs."""

    def mask(self, run, record, layer, q, k):
        """Allowed pairs [n, n] or [heads, n, n] of a layer; None: all."""
        return None

    def forward(self, run, record):
        m, rows = run.pieces, list(range(run.n))
        x = m.embed(run.read())
        for layer in range(m.layers):
            h = m.attention_norm(layer, x)
            q, k = m.rotate(m.query(layer, h), rows), m.rotate(m.key(layer, h), rows)
            self.values = m.value(layer, h)  # in the end the last layer's
            v = self.values.repeat_interleave(m.heads // m.kv_heads, 0)
            allowed = self.mask(run, record, layer, q, k)
            p = probabilities(q, k.repeat_interleave(m.heads // m.kv_heads, 0), allowed)
            x = x + m.output(layer, merge(p @ v))
            x = x + m.ffn(layer, x)
            pairs = (m.heads * run.n ** 2 if allowed is None
                     else int(allowed.expand(m.heads, run.n, run.n).sum()))
            record.layer(rows, rows, rows, pairs)
        return rows, x


class Shadowed(Dense):
    """WINO, as released: behind the sequence stands a second view of the block, masks in the rows
    that predict its positions. They see the sequence, each but for the position that it predicts,
    and each other; nothing else sees them. Tokens are looked at in these rows, which are
    no positions: records are of the sequence alone. Source: Feng-Hong/WINO-DLLM, decoding.py."""

    def row_again(self, run, position):
        return run.n + run.pieces.row_of(position)

    def forward(self, run, record):
        m, n, block = run.pieces, run.n, range(run.block_start, run.block_end)
        own, view = list(range(n)), [run.pieces.row_of(p) for p in block]
        sees = torch.zeros(n + len(view), n + len(view), dtype=torch.bool)
        sees[:, :n] = sees[n:, n:] = True
        sees[range(n, n + len(view)), block] = False
        x = m.embed(run.tokens + [m.mask] * len(view))
        for layer in range(m.layers):
            h = m.attention_norm(layer, x)
            q, k = m.rotate(m.query(layer, h), own + view), m.rotate(m.key(layer, h), own + view)
            k, v = (t.repeat_interleave(m.heads // m.kv_heads, 0) for t in (k, m.value(layer, h)))
            x = x + m.output(layer, merge(probabilities(q, k, sees) @ v))
            x = x + m.ffn(layer, x)
            record.layer(own, own, own, m.heads * n ** 2)
        return own + [n + row for row in view], x


class Window(Dense):
    """Sliding window: |i - j| <= size / 2, in integers. With `sinks`, StreamingLLM:
    the first keys besides, as a number or as a share of all keys (the papers'
    baselines: 10%, rounded down)."""

    def __init__(self, size, sinks=0):
        self.size, self.sinks = size, sinks

    def mask(self, run, record, layer, q, k):
        i, j = torch.arange(run.n)[:, None], torch.arange(run.n)[None, :]
        sinks = self.sinks
        if isinstance(sinks, Fraction):
            sinks = max(1, int(sinks * run.n))
        return ((i - j).abs() <= self.size // 2) | (j < sinks).expand(run.n, run.n)


class Selecting(Dense):
    """A selection refreshed at a cadence's steps and read in between; dense before
    its first step. A step that refreshes attends densely, or, with `refreshing`
    "sparse", over what it has just selected. `layers`: those that refresh it; the
    others read what the nearest one before has, and are never dense for its sake."""

    def __init__(self, selection, cadence, refreshing="dense", layers=None):
        self.selection, self.cadence, self.refreshing = selection, cadence, refreshing
        self.layers = layers

    def begin(self, run):
        if run.steps is None:
            raise ValueError("a selection's cadence needs a rule with a number of steps")
        self.steps, self.masks = set(self.cadence(run.steps)), {}

    def mask(self, run, record, layer, q, k):
        if self.layers is not None and layer not in self.layers:
            return self.masks.get(max(source for source in self.layers if source < layer))
        if run.step in self.steps:
            entries = self.selection.select(run, q, k)
            for head, entry in enumerate(entries):
                record.refresh(layer, head, self.selection.kind, **entry)
            self.masks[layer] = torch.stack([self.selection.allowed(e, run.n) for e in entries])
            return None if self.refreshing == "dense" else self.masks[layer]
        return self.masks.get(layer)


class Stages(Dense):
    """A Selecting until the first of some steps, then another. Steps that refresh one of
    both attend densely."""

    def __init__(self, first, until, then):
        self.first, self.until, self.then = first, until, then

    def begin(self, run):
        self.first.begin(run)
        self.then.begin(run)
        self.end = min(self.until(run.steps), default=run.steps + 1)

    def mask(self, run, record, layer, q, k):
        masks = [method.mask(run, record, layer, q, k) for method in (self.first, self.then)]
        if run.step in self.first.steps | self.then.steps:
            return None
        return masks[run.step >= self.end]


def pulsecol(keep="1/5", group=32, window="3/10", count=16, shared=False):
    """PulseCol: columns on its equation 8."""
    return Selecting(Columns(keep, group, shared=shared), uniform(window, count))


def sparsed(keep="3/10", size=128, skip="1/5"):
    """SparseD, algorithm 1: dense up to the step floor(skip T), at which the
    blocks are selected that all later steps read."""
    return Selecting(Blocks(keep, size), at(skip))


def sparsed_released(keep="3/10", size=128, skip="1/5", scale="heads"):
    return Selecting(ReleasedBlocks(keep, size, scale), released_at(skip))
