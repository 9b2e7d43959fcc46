# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The forward passes of LLaDA and Dream in float32: RMSNorm, rotate-half RoPE,
bidirectional attention, SwiGLU. In LLaDA the row of position i predicts token
i, in Dream token i + 1."""

import torch


def rms_norm(x, weight, eps):
    """x [rows, width] / root mean square of each row, times weight [width]."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rope(x, theta):
    """Rotates x [heads, rows, dim] by position: halves (a, b) of the dim become
    (a cos - b sin, b cos + a sin), angle = row / theta^(2 i / dim)."""
    _, rows, dim = x.shape
    inverse = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
    angle = torch.outer(torch.arange(rows).float(), inverse)
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :dim // 2], x[..., dim // 2:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def probabilities(q, k, allowed=None):
    """softmax(q k^T / sqrt(dim)) [heads, n, n] over the keys that allowed
    [n, n] or [heads, n, n] (bool; None: all) lets a query see. k has as many
    heads as q. What is below the smallest normal number is 0 (docs/Spec/Behaviours.md):
    among such scores the lowest index is chosen."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    p = torch.softmax(scores, -1)
    return p.masked_fill(p < torch.finfo(p.dtype).tiny, 0)


class Model:
    def __init__(self, config, weights):
        self.config, self.weights = config, weights
        self.heads = config["n_heads"]
        self.kv_heads = config.get("n_kv_heads") or self.heads
        self.layers = config["n_layers"]
        self.vocab = config.get("embedding_size") or config["vocab_size"]

    def forward(self, tokens, attend):
        """Logits [n, vocab] of one sequence of token ids.

        attend(layer, q, k, v) -> [heads, n, dim] is the schedule's attention;
        q is [heads, n, dim], k and v [kv_heads, n, dim], rotated.
        """
        c, w = self.config, self.weights
        eps, theta = c["rms_norm_eps"], c["rope_theta"]
        n = len(tokens)
        x = w["model.transformer.wte.weight"][torch.tensor(tokens)]
        for layer in range(self.layers):
            get = lambda name: w[f"model.transformer.blocks.{layer}.{name}.weight"]
            split = lambda t, heads: t.view(n, heads, -1).transpose(0, 1)
            h = rms_norm(x, get("attn_norm"), eps)
            q = rope(split(h @ get("q_proj").T, self.heads), theta)
            k = rope(split(h @ get("k_proj").T, self.kv_heads), theta)
            v = split(h @ get("v_proj").T, self.kv_heads)
            out = attend(layer, q, k, v).transpose(0, 1).reshape(n, -1)
            x = x + out @ get("attn_out").T
            h = rms_norm(x, get("ff_norm"), eps)
            gate = torch.nn.functional.silu(h @ get("ff_proj").T)
            x = x + (gate * (h @ get("up_proj").T)) @ get("ff_out").T
        x = rms_norm(x, w["model.transformer.ln_f.weight"], eps)
        head = "wte" if c.get("weight_tying") else "ff_out"
        return x @ w[f"model.transformer.{head}.weight"].T


class Dream:
    """As Model, of Dream's names: query, key and value have a bias, and query
    heads share key heads."""

    def __init__(self, config, weights):
        self.config, self.weights = config, weights
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.layers, self.vocab = config["num_hidden_layers"], config["vocab_size"]

    def forward(self, tokens, attend):
        """Logits [n, vocab] of the rows themselves; attend as in Model."""
        c, w = self.config, self.weights
        eps, theta, n = c["rms_norm_eps"], c["rope_theta"], len(tokens)
        linear = lambda x, name: x @ w[name + ".weight"].T + w.get(name + ".bias", 0)
        split = lambda t, heads: t.view(n, heads, -1).transpose(0, 1)
        x = w["model.embed_tokens.weight"][torch.tensor(tokens)]
        for layer in range(self.layers):
            at = f"model.layers.{layer}."
            h = rms_norm(x, w[at + "input_layernorm.weight"], eps)
            q = rope(split(linear(h, at + "self_attn.q_proj"), self.heads), theta)
            k = rope(split(linear(h, at + "self_attn.k_proj"), self.kv_heads), theta)
            v = split(linear(h, at + "self_attn.v_proj"), self.kv_heads)
            out = attend(layer, q, k, v).transpose(0, 1).reshape(n, -1)
            x = x + linear(out, at + "self_attn.o_proj")
            h = rms_norm(x, w[at + "post_attention_layernorm.weight"], eps)
            gate = torch.nn.functional.silu(linear(h, at + "mlp.gate_proj"))
            x = x + linear(gate * linear(h, at + "mlp.up_proj"), at + "mlp.down_proj")
        x = rms_norm(x, w["model.norm.weight"], eps)
        tied = c.get("tie_word_embeddings")
        return x @ w["model.embed_tokens.weight" if tied else "lm_head.weight"].T


def make(config, weights):
    """The model of a folder's config.json, by its model_type."""
    return (Dream if config.get("model_type") == "Dream" else Model)(config, weights)
