# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The decoding loops of released implementations, restated in plain PyTorch over eager.EagerModel.

Each loop says which rows a step computes and what it keeps; `generate` commits, as LLaDA does: a
block's masks spread over its steps, the surest first, temperature 0. One sequence, LLaDA's family:
the row of a position predicts it. What a loop computes is what the released code computes, the
parts that go unused as well: the LM head and the softmax run over every row of the pass.

Sources: the released code of LLaDA (generate.py), Fast-dLLM (llada/generate.py and its model),
dLLM-Cache (cache/Cache.py, hooks for LLaDA) and DyLLM (engine and attention layer).
"""

import time
from typing import NamedTuple

import torch


class Step(NamedTuple):
    """A step's figures: seconds in all and of the LM head and the draws; rows, summed over the
    layers, that went through Q, K, V and the FFN; [(position, token)] where committed."""
    kind: str
    seconds: float
    head_seconds: float
    query_rows: int
    key_rows: int
    value_rows: int
    ffn_rows: int
    committed: list


class Loop:
    """A loop's state during a run. tokens: [n], int64; step: from 1; inner: the pass within the
    block, from 0; block_start and block_end bound the block; recent: int64 positions that the last
    step committed."""

    precision = None  # of the confidence's softmax; None: the logits' dtype

    def begin(self, model, tokens, prompt):
        """Before the first step; caches are allocated here."""
        self.model, self.tokens, self.prompt, self.n = model, tokens, prompt, len(tokens)
        self.cos, self.sin = model.tables(self.n)
        self.step, self.recent = 0, tokens.new_zeros(0)

    def caches(self, *shape):
        """A zero tensor a layer."""
        return [torch.zeros(*shape, device=self.model.device, dtype=self.model.dtype)
                for _ in range(self.model.layers)]

    def rotate(self, x, rows):
        """RoPE of x at the positions `rows`, a slice or int64 tensor."""
        return self.model.rotate(x, self.cos[rows], self.sin[rows])

    def count(self, queries, keys_values, ffn, values=None):
        """Adds a layer's rows."""
        more = (queries, keys_values, keys_values if values is None else values, ffn)
        self.counts = [a + b for a, b in zip(self.counts, more)]

    def kind(self):
        """A name for steps that cost alike; needs step and inner alone."""
        return "all rows"

    def forward(self):
        """The layers of a step: (first position, hidden states [1, rows, hidden] from it on)."""
        raise NotImplementedError


class Dense(Loop):
    """LLaDA's generate: all rows at every step."""

    def forward(self):
        for _ in range(self.model.layers):
            self.count(self.n, self.n, self.n)
        return 0, self.model.step(self.model.embed(self.tokens), self.cos, self.sin)


class FastDllm(Loop):
    """A block's first pass computes all rows. The others compute the block and all behind it, over
    K and V kept of what stands before (prefix cache), or, if dual, the block alone, over K and V of
    all positions. K is kept before RoPE, so every pass rotates all keys. Softmax in float64."""

    precision = torch.float64

    def __init__(self, dual=False):
        self.dual = dual

    def kind(self):
        return "all rows" if self.inner == 0 else "block" if self.dual else "block and suffix"

    def begin(self, model, tokens, prompt):
        super().begin(model, tokens, prompt)
        self.keys, self.values = [None] * model.layers, [None] * model.layers

    def forward(self):
        m, whole = self.model, self.inner == 0
        first = 0 if whole else self.block_start
        last = self.block_end if self.dual and not whole else self.n
        x = m.embed(self.tokens[first:last])
        for layer in range(m.layers):
            q, k, v = m.qkv(layer, m.attention_norm(layer, x))
            k, v = self.join(layer, k, v, slice(first, last))
            context = m.attend(self.rotate(q, slice(first, last)), self.rotate(k, slice(self.n)), v)
            x = x + m.output(layer, context)
            x = x + m.ffn(layer, x)
            self.count(last - first, last - first, last - first)
        return first, x

    def join(self, layer, k, v, rows):
        """K and V of all positions, [1, kv_heads, n, head_dim], from new ones at `rows`."""
        if self.inner == 0:
            end = self.n if self.dual else self.block_start
            self.keys[layer], self.values[layer] = k[:, :, :end], v[:, :, :end]
        elif self.dual:
            self.keys[layer][:, :, rows], self.values[layer][:, :, rows] = k, v
            return self.keys[layer], self.values[layer]
        else:
            return (torch.cat((self.keys[layer], k), 2), torch.cat((self.values[layer], v), 2))
        return k, v


class DllmCache(Loop):
    """Steps 1, 1 + prompt_interval, ... refresh the prompt's rows, steps 1, 1 + response_interval,
    ... the response's. In between a span takes attention outputs and FFN outputs from the cache,
    but for floor(ratio * response) rows of the response whose V, new at every step, is least
    similar to the cached one. The first layer refreshes all rows at every step. K is kept before
    RoPE. The LM head is computed for all rows."""

    def __init__(self, prompt_interval=100, response_interval=7, ratio=0.25):
        self.intervals, self.ratio = (prompt_interval, response_interval), ratio

    def kind(self):
        refreshed = [name for name, interval in zip(("prompt", "response"), self.intervals)
                   if (self.step - 1) % interval == 0]
        return " and ".join(refreshed + ([] if "response" in refreshed else ["least similar"]))

    def begin(self, model, tokens, prompt):
        super().begin(model, tokens, prompt)
        heads = 1, model.kv_heads, self.n, model.head_dim
        self.keys, self.values = self.caches(*heads), self.caches(*heads)
        hidden = 1, self.n, model.embedding.shape[1]
        self.outputs, self.ffns = self.caches(*hidden), self.caches(*hidden)
        self.spans = (torch.arange(prompt, device=tokens.device),
                      torch.arange(prompt, self.n, device=tokens.device))

    def forward(self):
        m, x = self.model, self.model.embed(self.tokens)
        for layer in range(m.layers):
            refresh = [layer == 0 or (self.step - 1) % interval == 0 for interval in self.intervals]
            start = 0 if refresh[0] else self.prompt
            rows, valued = self.refresh(layer, m.attention_norm(layer, x[:, start:]), start, refresh)
            x = x + self.outputs[layer]
            if len(rows):
                self.ffns[layer][:, rows] = m.ffn(layer, x[:, rows])
            x = x + self.ffns[layer]
            self.count(len(rows), len(rows), len(rows), valued)
        return 0, x

    def refresh(self, layer, h, start, refresh):
        """Refreshes K, V and attention outputs from normed rows h [1, n - start, hidden]; (the rows,
        ascending int64, how many went through V)."""
        m, (prompt, response) = self.model, self.spans
        rows, valued = [], 0
        if refresh[0]:
            self.values[layer][:, :, :self.prompt] = m.project(layer, "v", h[:, :self.prompt])
            rows.append(prompt)
            valued += len(prompt)
        if refresh[1] or self.ratio > 0:
            new = m.project(layer, "v", h[:, self.prompt - start:])
            rows.append(response if refresh[1] else self.least_similar(layer, new))
            self.values[layer][:, :, self.prompt:] = new
            valued += len(response)
        if not rows:
            return response[:0], 0
        rows = torch.cat(rows)
        h = h[:, rows - start]
        self.keys[layer][:, :, rows] = m.project(layer, "k", h)
        context = m.attend(self.rotate(m.project(layer, "q", h), rows),
                           self.rotate(self.keys[layer], slice(self.n)), self.values[layer])
        self.outputs[layer][:, rows] = m.output(layer, context)
        return rows, valued

    def least_similar(self, layer, new):
        """Positions of the response whose V, of `new` [1, kv_heads, response, head_dim], is least
        like the cached one, over all heads together."""
        new, cached = (v.transpose(1, 2).flatten(2)[0]
                       for v in (new, self.values[layer][:, :, self.prompt:]))
        same = torch.cosine_similarity(new, cached, -1)
        picked = same.topk(int(self.ratio * len(same)), largest=False).indices
        return picked.sort().values + self.prompt


class DyLLM(Loop):
    """The first `full` steps compute everything. Then every fourth step looks at all rows, the
    others at the response. A layer computes K, V and exact attention of the rows that the layer
    before found salient (the first layer: of what was just committed), adds to the contexts of all
    rows looked at what the change of V gives, over exact denominators, and finds salient what turned
    to a cosine below the threshold; those rows go through the FFN.

    The released kernel skips the product with V where no key changed. Here the change is a V that
    is zero elsewhere, one call of PyTorch's attention over all keys. threshold: of steps over all
    rows and of those over the response, the same in the released code.
    """

    def __init__(self, threshold=0.99, response_threshold=None, full=4):
        self.thresholds = threshold, response_threshold or threshold
        self.full = full

    def is_whole(self):
        return self.step <= max(4, self.full) or self.step % 4 == 0

    def kind(self):
        return ("full" if self.step <= self.full else
                "salient of all rows" if self.is_whole() else "salient of the response")

    def begin(self, model, tokens, prompt):
        super().begin(model, tokens, prompt)
        heads = 1, model.kv_heads, self.n, model.head_dim
        self.keys, self.values = self.caches(*heads), self.caches(*heads)
        self.contexts = self.caches(1, self.n, model.heads * model.head_dim)
        self.ffns = self.caches(1, self.n, model.embedding.shape[1])
        self.change = torch.zeros_like(self.values[0])

    def forward(self):
        return self.full_step() if self.step <= self.full else self.sparse_step()

    def full_step(self):
        m, x, every = self.model, self.model.embed(self.tokens), slice(self.n)
        for layer in range(m.layers):
            q, k, v = m.qkv(layer, m.attention_norm(layer, x))
            self.keys[layer], self.values[layer] = self.rotate(k, every), v
            self.contexts[layer] = m.attend(self.rotate(q, every), self.keys[layer], v)
            x = x + m.output(layer, self.contexts[layer])
            self.ffns[layer] = m.ffn(layer, x)
            x = x + self.ffns[layer]
            self.count(self.n, self.n, self.n)
        return 0, x

    def sparse_step(self):
        m, whole = self.model, self.is_whole()
        first = 0 if whole else self.prompt
        rows, threshold = slice(first, self.n), self.thresholds[not whole]
        x, salient = m.embed(self.tokens[rows]), self.recent
        for layer in range(m.layers):
            h, at = m.attention_norm(layer, x), salient - first
            q = self.rotate(m.project(layer, "q", h), rows)
            old = self.contexts[layer][:, rows]
            new = old.float()
            if len(salient):
                keys, values = self.keys[layer], self.values[layer]
                fresh = m.project(layer, "v", h[:, at])
                self.change[:, :, salient] = fresh - values[:, :, salient]
                keys[:, :, salient] = self.rotate(m.project(layer, "k", h[:, at]), salient)
                values[:, :, salient] = fresh
                new = new + m.attend(q, keys, self.change).float()
                new[:, at] = m.attend(q[:, :, at], keys, values).float()
                self.change[:, :, salient] = 0
            turned = cosine(new[0], old[0].float()) < threshold
            self.contexts[layer][:, rows] = new.to(m.dtype)
            computed, at = len(salient), turned.nonzero()[:, 0]
            salient = at + first
            x = x + m.output(layer, self.contexts[layer][:, rows])
            if len(salient):
                self.ffns[layer][:, salient] = m.ffn(layer, x[:, at])
            x = x + self.ffns[layer][:, rows]
            self.count(x.shape[1], computed, len(salient))
        return first, x


def cosine(a, b):
    """Of the rows of a and b [rows, width]; squared norms are at least 1e-8."""
    squares = [(t * t).sum(-1).clamp_min(1e-8) for t in (a, b)]
    return (a * b).sum(-1) * torch.rsqrt(squares[0] * squares[1])


def quotas(masks, steps):
    """How many tokens each step of a block commits: the first ones take what is left over."""
    return [masks // steps + (step < masks % steps) for step in range(steps)]


def commit(loop, first, logits, mask, quota):
    """Commits the `quota` surest masks up to the block's end, of logits [rows, vocabulary] for
    positions from `first` on. A list of (position, token)."""
    tokens = logits.argmax(-1)
    p = torch.softmax(logits if loop.precision is None else logits.to(loop.precision), -1)
    sure = p.gather(-1, tokens[:, None])[:, 0]
    here = loop.tokens[first:first + len(tokens)]
    open_ = (here == mask) & (torch.arange(len(here), device=here.device) < loop.block_end - first)
    sure = sure.masked_fill(~open_, -float("inf"))
    chosen = sure.topk(quota).indices
    loop.recent = (chosen + first).sort().values
    loop.tokens[chosen + first] = tokens[chosen]
    return list(zip((chosen + first).tolist(), tokens[chosen].tolist()))


class Clock:
    """Seconds at which the device has done what was asked so far."""

    def __init__(self, device):
        self.device = device

    def __call__(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def kinds(loop, blocks, steps):
    """The kinds of a run's steps, in order, without running it."""
    found = []
    for number in range(steps):
        loop.step, loop.inner = number + 1, number % (steps // blocks)
        found.append(loop.kind())
    return found


def generate(loop, model, prompt, response, block, steps, mask, measured=0):
    """(tokens [n], [Step]) of a prompt, int64 [prompt], completed by `response` tokens in `steps`
    passes over blocks of `block`; after `measured` passes it ends, if that is not 0. Raises
    ValueError if lengths do not divide."""
    if response % block or steps % (response // block):
        raise ValueError(f"a response of {response} in blocks of {block} and {steps} steps: "
                         "expected multiples")
    blocks, records = response // block, []
    each = steps // blocks
    clock = Clock(model.device)
    with torch.inference_mode():
        tokens = torch.cat((prompt, prompt.new_full((response,), mask)))
        loop.begin(model, tokens, len(prompt))
        for number in range(steps if not measured else min(measured, steps)):
            loop.step, loop.inner, loop.counts = number + 1, number % each, [0] * 4
            loop.block_start = len(prompt) + number // each * block
            loop.block_end = loop.block_start + block
            if loop.inner == 0:
                plan = quotas(block, each)
            start = clock()
            first, x = loop.forward()
            middle = clock()
            committed = commit(loop, first, model.logits(x), mask, plan[loop.inner])
            end = clock()
            records.append(Step(loop.kind(), end - start, end - middle, *loop.counts, committed))
    return tokens, records
