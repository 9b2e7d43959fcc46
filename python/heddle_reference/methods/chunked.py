# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Selection in two levels, after Prefilling-dLLM: chunks of keys first, then keys
within the chunks that were kept."""

from fractions import Fraction

import torch

from ..model import probabilities
from ..schedule import keep_count
from .cached import Cached
from .evicted import KeptKeys
from .models import attention
from .pairs import Blocks, Chosen, Dense


class Fine:
    """Of the keys in the chunks of a group of rows each `group` of them keeps the
    share `keep` of largest mean probability over all keys, beside those from
    `always` on. All lists are as long: the share is of the keys, without those
    that are always there, that the shortest chunks of each span would have."""

    def __init__(self, keep, group):
        self.keep, self.group = Fraction(keep), group

    def sure(self, chunks, entry, always, n):
        """How many keys, without those from `always` on, a list surely may choose from."""
        split, kept = entry.get("split", n), 0
        for name, begin, end in (("lists", 0, split), ("response", split, n)):
            if name in entry:
                sizes = sorted(cut.stop - cut.start for cut in chunks.cuts(begin, end))
                kept += sum(sizes[:len(entry[name][0])])
        return kept - (n - always)

    def select(self, chunks, entries, q, k, always):
        """Each head's lists, within the chunks of its entry."""
        heads, n, _ = q.shape
        p = probabilities(q, k.repeat_interleave(heads // k.shape[0], 0)).double()
        made = []
        for head, entry in enumerate(entries):
            inside = chunks.allowed(entry, n)
            some = self.sure(chunks, entry, always, n)
            count = keep_count(self.keep, some, "floor") if some > 0 else 0
            lists = []
            for first in range(0, n, self.group):
                scores = p[head, first:first + self.group].mean(0).tolist()
                keys = [j for j in range(always) if inside[first, j]]
                best = Chosen([scores[j] for j in keys], count)
                kept = KeptKeys(sorted([*(keys[i] for i in best), *range(always, n)]))
                kept.gap = best.gap
                lists.append(kept)
            made.append(lists)
        return made

    def allowed(self, lists, n):
        """The pairs [n, n] of a head's lists."""
        out = torch.zeros(n, n, dtype=torch.bool)
        for u, keys in enumerate(lists):
            out[u * self.group:(u + 1) * self.group, keys] = True
        return out


class Chunked(Cached):
    """The first pass computes all rows over all keys and chooses chunks of the
    prompt and of the response, and of the prompt's keys in them those that are
    read from then on beside the response. Later passes compute the response; in a
    shifted model also the row before it, which predicts its first position."""

    def __init__(self, chunks, keep, size=32, group=16):
        self.chunks, self.fine = Blocks(chunks, size), Fine(keep, group)

    def plan(self, run):
        every = list(range(run.n))
        return (every if run.step == 1 else run.predicting(range(run.prompt, run.n))), every

    def forward(self, run, record):
        m, (rows, visible) = run.pieces, self.plan(run)
        record.visible = visible
        if run.step == 1:
            self.masks = {}
        x = m.embed(run.read(rows))
        for layer in range(m.layers):
            h = m.attention_norm(layer, x)
            q = m.rotate(m.query(layer, h), rows)
            self.keys[layer][:, rows] = m.rotate(m.key(layer, h), rows)
            self.values[layer][:, rows] = m.value(layer, h)
            allowed = self.masks.get(layer)
            if allowed is not None:
                allowed = allowed[:, rows]
            context = attention(q, self.keys[layer], self.values[layer], allowed)
            if run.step == 1:
                entries = self.chunks.select(run, q, self.keys[layer])
                lists = self.fine.select(self.chunks, entries, q, self.keys[layer], run.prompt)
                for head in range(m.heads):
                    record.refresh(layer, head, self.chunks.kind, **entries[head])
                    record.refresh(layer, head, "columns", lists[head])
                self.masks[layer] = torch.stack([self.fine.allowed(own, run.n) for own in lists])
            x = x + m.output(layer, context)
            x = x + m.ffn(layer, x)
            record.layer(rows, rows, rows, m.heads * len(rows) * run.n if allowed is None else int(allowed.sum()))
        return rows, x


class Refined(Dense):
    """All rows; chunks at the steps of one cadence, keys in them at those of another
    that has all of its steps. Steps of either attend densely."""

    def __init__(self, chunks, keep, size, group, seldom, often):
        self.chunks, self.fine = Blocks(chunks, size, isolating=False), Fine(keep, group)
        self.seldom, self.often = seldom, often

    def begin(self, run):
        self.entries, self.masks = {}, {}
        self.new, self.steps = set(self.seldom(run.steps)), set(self.often(run.steps))

    def mask(self, run, record, layer, q, k):
        if run.step not in self.steps:
            return self.masks.get(layer)
        if run.step in self.new:
            self.entries[layer] = self.chunks.select(run, q, k)
            for head, entry in enumerate(self.entries[layer]):
                record.refresh(layer, head, self.chunks.kind, **entry)
        lists = self.fine.select(self.chunks, self.entries[layer], q, k, run.n)
        for head, own in enumerate(lists):
            record.refresh(layer, head, "columns", own)
        self.masks[layer] = torch.stack([self.fine.allowed(own, run.n) for own in lists])
        return None
