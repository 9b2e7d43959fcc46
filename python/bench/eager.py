# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plain transformer of LLaDA's or Dream's shape in eager PyTorch.

RMSNorm, rotate-half RoPE in float32, SwiGLU, attention by scaled_dot_product_attention; grouped
heads and biases of Q, K and V where the weights have them. Source: Nie et al. 2025, Ye et al. 2025,
and their released modelling code.
"""

import torch
import torch.nn.functional as F


class EagerModel:
    """The layers and, if wanted, the embedding and the LM head. x is [batch, rows, hidden] and q, k,
    v are [batch, heads, rows, head_dim], all of the weights' dtype. Loops that keep caches take the
    pieces: qkv, rotate, attend, ffn.

    layers: a dictionary a layer with q, k, v, o, gate, up, down as [out, in], the norms
    attention_norm and ffn_norm, and q_bias, k_bias, v_bias as wanted. random_model draws them.
    """

    def __init__(self, config, layers, embedding=None, norm=None, head=None):
        """config: as runs.config_of gives it. embedding and head: [vocabulary, hidden]."""
        self.weights, self.layers = layers, len(layers)
        self.embedding, self.norm, self.head = embedding, norm, head
        self.heads = config["n_heads"]
        self.kv_heads = config.get("n_kv_heads") or self.heads
        self.head_dim = config["d_model"] // self.heads
        self.eps, self.theta = config["rms_norm_eps"], config["rope_theta"]
        self.device, self.dtype = layers[0]["q"].device, layers[0]["q"].dtype
        self.attention = attention  # of q, k, v with as many heads each; may be replaced

    def rms_norm(self, x, weight):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return weight * wide.to(x.dtype)

    def tables(self, n):
        """RoPE's cos and sin of n positions, each [n, head_dim] in float32."""
        steps = torch.arange(0, self.head_dim, 2, device=self.device, dtype=torch.float)
        angles = torch.outer(torch.arange(n, device=self.device, dtype=torch.float),
                             1.0 / self.theta ** (steps / self.head_dim))
        angles = torch.cat((angles, angles), -1)
        return angles.cos(), angles.sin()

    @staticmethod
    def rotate(x, cos, sin):
        """cos and sin are of the rows of x."""
        wide = x.float()
        first, second = wide.chunk(2, -1)
        return (wide * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)

    def project(self, layer, name, h):
        """Q, K or V ("q", "k", "v") of normed rows h, before RoPE."""
        w = self.weights[layer]
        batch, rows, _ = h.shape
        return F.linear(h, w[name], w.get(name + "_bias")).view(
            batch, rows, -1, self.head_dim).transpose(1, 2)

    def qkv(self, layer, h):
        return [self.project(layer, name, h) for name in "qkv"]

    def attend(self, q, k, v):
        """Contexts [batch, rows, heads * head_dim] of rotated q over all of rotated k."""
        if self.kv_heads != self.heads:
            k = k.repeat_interleave(self.heads // self.kv_heads, 1)
            v = v.repeat_interleave(self.heads // self.kv_heads, 1)
        return self.attention(q, k, v).transpose(1, 2).flatten(2)

    def attention_norm(self, layer, x):
        return self.rms_norm(x, self.weights[layer]["attention_norm"])

    def output(self, layer, context):
        return F.linear(context, self.weights[layer]["o"])

    def ffn(self, layer, x):
        """Norm and FFN of rows x, which the caller adds to them."""
        w = self.weights[layer]
        h = self.rms_norm(x, w["ffn_norm"])
        return F.linear(F.silu(F.linear(h, w["gate"])) * F.linear(h, w["up"]), w["down"])

    def step(self, x, cos, sin):
        """All layers of all rows, without a cache."""
        for layer in range(self.layers):
            q, k, v = self.qkv(layer, self.attention_norm(layer, x))
            context = self.attend(self.rotate(q, cos, sin), self.rotate(k, cos, sin), v)
            x = x + self.output(layer, context)
            x = x + self.ffn(layer, x)
        return x

    def embed(self, tokens):
        """[1, rows, hidden] of tokens [rows]."""
        return self.embedding[tokens][None]

    def logits(self, x):
        """[rows, vocabulary] of x [1, rows, hidden]."""
        return F.linear(self.rms_norm(x[0], self.norm), self.head)


def attention(q, k, v):
    """scaled_dot_product_attention, or what it stands for where PyTorch is too old to have it."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v)
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def random_model(config, device="cuda", dtype=torch.bfloat16, vocabulary=False, biases=False):
    """Weights from a normal distribution of deviation 0.02, norms of 1, as heddle-run
    --random-weights has them. vocabulary: with embedding and LM head."""
    hidden, mlp = config["d_model"], config["mlp_hidden_size"]
    kv = hidden // config["n_heads"] * (config.get("n_kv_heads") or config["n_heads"])
    norm = torch.ones(hidden, device=device, dtype=dtype)

    def weight(*shape):
        return torch.randn(*shape, device=device, dtype=dtype) * 0.02

    def layer():
        made = dict(q=weight(hidden, hidden), k=weight(kv, hidden), v=weight(kv, hidden),
                    o=weight(hidden, hidden), gate=weight(mlp, hidden), up=weight(mlp, hidden),
                    down=weight(hidden, mlp), attention_norm=norm, ffn_norm=norm)
        if biases:
            made.update(q_bias=weight(hidden), k_bias=weight(kv), v_bias=weight(kv))
        return made
    layers = [layer() for _ in range(config["n_layers"])]
    ends = [weight(config["vocab_size"], hidden) for _ in range(2)] if vocabulary else [None, None]
    return EagerModel(config, layers, ends[0], norm, ends[1])
