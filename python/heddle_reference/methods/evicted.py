# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sparse-dLLM: of a block's cache keys and values are evicted that the block's
rows hardly attend to."""

from fractions import Fraction

import torch

from ..model import probabilities
from ..schedule import keep_count
from .cached import FastDllm
from .models import attention
from .pairs import Chosen


def pooled(scores, width):
    """The largest of each score and its neighbours, `width` in all."""
    reach = width // 2
    return [max(scores[max(0, i - reach):i + reach + 1]) for i in range(len(scores))]


class Evicted(FastDllm):
    """The first two passes of a block compute all rows over all keys. The second
    one chooses, in each layer, the share `keep` of the keys outside of the block,
    by the mean of what all heads of the block's rows pay to each; a key counts as
    much as the best of its neighbours among the keys outside (`width` of them, with
    itself; the key before the block and the one behind it are neighbours). Later
    passes compute the block over these and its own keys. In a shifted model the
    row before the block, which predicts its first position, reads the same keys.
    `logits`: by the mean of logits, as released (less the least, which parts no keys)."""

    def __init__(self, keep, width=3, delay=1, logits=False):
        super().__init__(dual=True)
        self.keep, self.width, self.delay, self.logits = Fraction(keep), width, delay, logits

    def plan(self, run):
        if run.inner <= self.delay:
            return list(range(run.n)), list(range(run.n))
        return super().plan(run)

    def choose(self, run, q, k):
        """The keys, ascending, that a layer keeps."""
        block = range(run.block_start, run.block_end)
        others = [p for p in range(run.n) if p not in block]
        if not others:
            return list(block)
        repeat = run.pieces.heads // run.pieces.kv_heads
        k = k.repeat_interleave(repeat, 0)
        if self.logits:
            mean = q[:, list(block)].double().mean(1, keepdim=True)
            paid = (mean @ k.double().transpose(1, 2)).mean((0, 1)) / q.shape[-1] ** 0.5
            paid = paid - paid.min()
        else:
            paid = probabilities(q, k)[:, list(block)].double().mean((0, 1))
        scores = pooled(paid[others].tolist(), self.width)
        best = Chosen(scores, keep_count(self.keep, len(others), "floor"))
        # Equal scores are the same neighbour's, and no rounding parts them.
        least, rest = min(scores[i] for i in best), [s for i, s in enumerate(scores) if i not in set(best)]
        lower = max((s for s in rest if s < least), default=None)
        kept = KeptKeys(sorted([*block, *(others[i] for i in best)]))
        kept.gap = 1 if lower is None else (least - lower) / least
        return kept

    def forward(self, run, record):
        m, (rows, _) = run.pieces, self.plan(run)
        record.visible = list(range(run.n))
        if run.inner == 0:
            self.lists = {}
        x = m.embed(run.read(rows))
        for layer in range(m.layers):
            h = m.attention_norm(layer, x)
            q = m.rotate(m.query(layer, h), rows)
            self.keys[layer][:, rows] = m.rotate(m.key(layer, h), rows)
            self.values[layer][:, rows] = m.value(layer, h)
            read = self.lists.get(layer, record.visible)
            if run.inner == self.delay:
                self.lists[layer] = self.choose(run, q, self.keys[layer])
                for head in range(m.heads):
                    record.refresh(layer, head, "columns", [self.lists[layer]])
            context = attention(q, self.keys[layer][:, read], self.values[layer][:, read])
            x = x + m.output(layer, context)
            x = x + m.ffn(layer, x)
            record.layer(rows, rows, rows, m.heads * len(rows) * len(read))
        return rows, x


class KeptKeys(list):
    """A list of keys; gap: how far the least score that was kept is from the next
    lower one, relative (pairs.Chosen)."""
