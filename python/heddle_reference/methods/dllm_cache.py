# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""dLLM-Cache: the prompt seldom, the response often, and in between the response
rows whose V has turned away most from the cached one."""

from fractions import Fraction

import torch

from .dyllm import cosine
from .models import attention, merge
from .run import Method


class DllmCache(Method):
    """prompt_period and response_period: the steps 1, 1 + K, 1 + 2K, ... that
    refresh a span in all layers. In other steps a span reuses its attention output
    (after the projection) and FFN output, except for the response's
    floor(ratio * length) rows of lowest cosine of V, over all heads together,
    against the cached V; their K, their context and FFN are computed, and V of
    all response rows. In layer 0 all response rows are computed at every step:
    there V depends on the token alone, so rows that have not changed are equally
    similar, and rounding would choose. (The released code refreshes the prompt in
    layer 0 as well; nothing reads what that gives until the prompt is refreshed.)
    A shifted model computes the prompt's last row with the response, since it
    predicts the response's first position. frozen_before, as in the code for Dream:
    between refreshes of the prompt in layer 0 alone, in the others its outputs are
    the cached ones."""

    def __init__(self, prompt_period, response_period, ratio, frozen_before=False):
        self.prompt_period, self.response_period = prompt_period, response_period
        self.ratio, self.frozen_before = Fraction(ratio), frozen_before

    def begin(self, run):
        m = run.pieces
        zeros = lambda *shape: [torch.zeros(*shape) for _ in range(m.layers)]
        self.keys, self.values = zeros(m.kv_heads, run.n, m.dim), zeros(m.kv_heads, run.n, m.dim)
        self.outputs, self.ffns = zeros(run.n, m.width), zeros(run.n, m.width)

    def least_similar(self, run, layer, values, response):
        """Response rows to recompute; values [kv_heads, response, dim] are new."""
        same = cosine(merge(values), merge(self.values[layer][:, response])).tolist()
        order = sorted(range(len(response)), key=lambda i: (same[i], i))
        count = int(self.ratio * len(response))
        if 0 < count < len(order):
            self.margin = same[order[count]] - same[order[count - 1]]
        return sorted(response[i] for i in order[:count])

    def forward(self, run, record):
        m, n = run.pieces, run.n
        everyone, response = list(range(n)), list(range(run.prompt, n))
        before = sorted(set(run.predicting(response)) - set(response))
        prompt = list(range(run.prompt))
        x = m.embed(run.read())
        for layer in range(m.layers):
            refresh_prompt = (run.step - 1) % self.prompt_period == 0
            refresh_response = layer == 0 or (run.step - 1) % self.response_period == 0
            h = m.attention_norm(layer, x)
            frozen = self.frozen_before and layer > 0
            rows = valued = prompt if refresh_prompt else [] if frozen else before
            self.margin = None
            if refresh_response:
                rows, valued = rows + response, valued + response
            elif self.ratio:
                values = m.value(layer, h[response])
                rows = rows + self.least_similar(run, layer, values, response)
                valued = valued + response
            self.values[layer][:, valued] = m.value(layer, h[valued])
            self.keys[layer][:, rows] = m.rotate(m.key(layer, h[rows]), rows)
            context = attention(m.rotate(m.query(layer, h[rows]), rows),
                                self.keys[layer], self.values[layer])
            self.outputs[layer][rows] = m.output(layer, context)
            x = x + self.outputs[layer]
            self.ffns[layer][rows] = m.ffn(layer, x[rows])
            x = x + self.ffns[layer]
            record.layer(rows, rows, rows, m.heads * len(rows) * n, values=valued, margin=self.margin)
        return everyone, x
