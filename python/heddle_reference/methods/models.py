# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model as the pieces that methods put together.

A method decides which rows (positions) pass through which piece, so each piece
takes any subset of rows, and positions are explicit. All is float32.
`shifted` models (Dream) predict position p from the row of p - 1.
"""

import torch

from .. import weights
from ..model import Model, probabilities, rms_norm


class Pieces:
    """What every family shares; x is [rows, width], t is [heads, rows, dim].
    ordinary: the tokens of the vocabulary that config.json does not name as special."""

    def name_tokens(self, config, rows):
        """rows: of the embedding."""
        self.mask, self.eos = config["mask_token_id"], config["eos_token_id"]
        special = {self.mask, self.eos, config.get("pad_token_id")}
        self.ordinary = [token for token in range(rows) if token not in special]

    def split(self, x, heads):
        """[rows, heads * dim] as [heads, rows, dim]."""
        return x.view(len(x), heads, self.dim).transpose(0, 1)

    def rotate(self, t, positions):
        """RoPE: halves (a, b) of the dim become (a cos - b sin, b cos + a sin),
        angle = position / theta^(2 i / dim)."""
        dim = t.shape[-1]
        inverse = 1.0 / self.theta ** (torch.arange(0, dim, 2).float() / dim)
        angle = torch.outer(torch.tensor(positions).float(), inverse)
        cos, sin = angle.cos(), angle.sin()
        a, b = t[..., :dim // 2], t[..., dim // 2:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def row_of(self, position):
        """The row whose logits predict the position."""
        return max(0, position - 1) if self.shifted else position


class Llada(Pieces):
    shifted = False

    def __init__(self, model):
        """model: heddle_reference.model.Model."""
        c = model.config
        self.weights, self.eps, self.theta = model.weights, c["rms_norm_eps"], c["rope_theta"]
        self.layers, self.heads, self.kv_heads = model.layers, model.heads, model.kv_heads
        self.width = self.weights["model.transformer.wte.weight"].shape[1]
        self.dim = self.width // self.heads
        self.name_tokens(c, len(self.weights["model.transformer.wte.weight"]))
        self.head_name = "wte" if c.get("weight_tying") else "ff_out"

    def weight(self, layer, name):
        return self.weights[f"model.transformer.blocks.{layer}.{name}.weight"]

    def embed(self, ids):
        return self.weights["model.transformer.wte.weight"][torch.tensor(ids)]

    def attention_norm(self, layer, x):
        return rms_norm(x, self.weight(layer, "attn_norm"), self.eps)

    def query(self, layer, h):
        return self.split(h @ self.weight(layer, "q_proj").T, self.heads)

    def key(self, layer, h):
        return self.split(h @ self.weight(layer, "k_proj").T, self.kv_heads)

    def value(self, layer, h):
        return self.split(h @ self.weight(layer, "v_proj").T, self.kv_heads)

    def output(self, layer, context):
        """The output projection of contexts [rows, heads * dim]."""
        return context @ self.weight(layer, "attn_out").T

    def ffn(self, layer, x):
        """Norm and FFN of rows x; the caller adds it to the residual stream."""
        h = rms_norm(x, self.weight(layer, "ff_norm"), self.eps)
        gate = torch.nn.functional.silu(h @ self.weight(layer, "ff_proj").T)
        return (gate * (h @ self.weight(layer, "up_proj").T)) @ self.weight(layer, "ff_out").T

    def logits(self, x):
        """Final norm and LM head: [rows, vocab]."""
        x = rms_norm(x, self.weights["model.transformer.ln_f.weight"], self.eps)
        return x @ self.weights[f"model.transformer.{self.head_name}.weight"].T


class Dream(Pieces):
    """Qwen2's layers: Q, K and V have a bias, heads share K and V, and the row of
    position p predicts p + 1. Source: the model's published configuration and
    code; tensor names as on Hugging Face."""

    shifted = True

    def __init__(self, config, weights):
        self.config = c = config
        self.weights, self.eps, self.theta = weights, c["rms_norm_eps"], c["rope_theta"]
        self.layers, self.heads = c["num_hidden_layers"], c["num_attention_heads"]
        self.kv_heads, self.width = c["num_key_value_heads"], c["hidden_size"]
        self.dim = self.width // self.heads
        self.name_tokens(c, len(weights["model.embed_tokens.weight"]))
        self.head_name = "model.embed_tokens" if c.get("tie_word_embeddings") else "lm_head"

    def weight(self, layer, name):
        return self.weights[f"model.layers.{layer}.{name}"]

    def embed(self, ids):
        return self.weights["model.embed_tokens.weight"][torch.tensor(ids)]

    def attention_norm(self, layer, x):
        return rms_norm(x, self.weight(layer, "input_layernorm.weight"), self.eps)

    def project(self, layer, name, h, heads):
        matrix = self.weight(layer, f"self_attn.{name}_proj.weight")
        return self.split(h @ matrix.T + self.weight(layer, f"self_attn.{name}_proj.bias"), heads)

    def query(self, layer, h):
        return self.project(layer, "q", h, self.heads)

    def key(self, layer, h):
        return self.project(layer, "k", h, self.kv_heads)

    def value(self, layer, h):
        return self.project(layer, "v", h, self.kv_heads)

    def output(self, layer, context):
        return context @ self.weight(layer, "self_attn.o_proj.weight").T

    def ffn(self, layer, x):
        h = rms_norm(x, self.weight(layer, "post_attention_layernorm.weight"), self.eps)
        gate = torch.nn.functional.silu(h @ self.weight(layer, "mlp.gate_proj.weight").T)
        return ((gate * (h @ self.weight(layer, "mlp.up_proj.weight").T))
                @ self.weight(layer, "mlp.down_proj.weight").T)

    def logits(self, x):
        return (rms_norm(x, self.weights["model.norm.weight"], self.eps)
                @ self.weights[f"{self.head_name}.weight"].T)


def load(folder):
    """The pieces of a Hugging Face folder of either family."""
    config, tensors = weights.load(folder)
    if config.get("model_type") == "Dream":
        return Dream(config, tensors)
    return Llada(Model(config, tensors))


def attention(q, k, v, allowed=None):
    """Contexts [rows, heads * dim] of queries q [heads, rows, dim] over keys k
    and values v [kv_heads, keys, dim]; query head h reads kv head
    h // (heads / kv_heads). allowed: [rows, keys] or [heads, rows, keys], bool."""
    repeat = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(repeat, 0), v.repeat_interleave(repeat, 0)
    return merge(probabilities(q, k, allowed) @ v)


def merge(context):
    """[heads, rows, dim] as [rows, heads * dim]."""
    return context.transpose(0, 1).flatten(1)
