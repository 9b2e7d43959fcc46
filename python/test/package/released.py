# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The structure of the released LLaDA and Dream classes, as far as attention in them is
patched: names and shapes of modules, methods and weights, and who calls whom; restated,
not copied. Source: modeling_llada.py (GSAI-ML/LLaDA-8B-Instruct), modeling_dream.py
(Dream-org/Dream-v0-Instruct-7B). And the two generating loops at temperature 0: LLaDA's generate.py, Dream's
generation_utils.py."""

import json
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F


class Output(NamedTuple):
    logits: torch.Tensor


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def angles(positions, dim, theta):
    inverse = 1.0 / theta ** (torch.arange(0, dim, 2, device=positions.device).float() / dim)
    angle = positions[..., None].float() * inverse
    return torch.cat((angle, angle), -1)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


#===------------------------------------------------------------------------===#
# LLaDA
#===------------------------------------------------------------------------===#


class LLaDALlamaBlock(nn.Module):
    def __init__(self, layer_id, c):
        super().__init__()
        self.layer_id, self.config = layer_id, c
        width, head = c.d_model, c.d_model // c.n_heads
        kv = c.n_kv_heads * head
        self.flash_attn_func = None
        self.attn_norm, self.ff_norm = RMSNorm(width, c.rms_norm_eps), RMSNorm(width, c.rms_norm_eps)
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj, self.v_proj = nn.Linear(width, kv, bias=False), nn.Linear(width, kv, bias=False)
        self.attn_out = nn.Linear(width, width, bias=False)
        self.ff_proj = nn.Linear(width, c.mlp_hidden_size, bias=False)
        self.up_proj = nn.Linear(width, c.mlp_hidden_size, bias=False)
        self.ff_out = nn.Linear(c.mlp_hidden_size, width, bias=False)

    def _scaled_dot_product_attention(self, q, k, v, attn_mask=None, dropout_p=0.0,
                                      is_causal=False):
        shared = q.size(1) // k.size(1)
        if shared > 1:
            k, v = (x.repeat_interleave(shared, dim=1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, dropout_p=dropout_p,
                                              is_causal=False)

    def attention(self, q, k, v, attention_bias=None):
        batch, length, _ = q.size()
        head = self.config.d_model // self.config.n_heads
        q, k, v = (x.view(batch, length, -1, head).transpose(1, 2) for x in (q, k, v))
        angle = angles(torch.arange(length, device=q.device), head, self.config.rope_theta)
        q, k = ((x.float() * angle.cos() + rotate_half(x.float()) * angle.sin()).type_as(x)
                for x in (q, k))
        att = self._scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0,
                                                 is_causal=False)
        return self.attn_out(att.transpose(1, 2).contiguous().view(batch, length, -1)), None

    def forward(self, x, attention_bias=None):
        h = self.attn_norm(x)
        att, _ = self.attention(self.q_proj(h), self.k_proj(h), self.v_proj(h), attention_bias)
        x = x + att
        h = self.ff_norm(x)
        return x + self.ff_out(F.silu(self.ff_proj(h)) * self.up_proj(h))


class LLaDAModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(c.embedding_size, c.d_model),
            "blocks": nn.ModuleList([LLaDALlamaBlock(i, c) for i in range(c.n_layers)]),
            "ln_f": RMSNorm(c.d_model, c.rms_norm_eps),
            "ff_out": nn.Linear(c.d_model, c.embedding_size, bias=False)})

    def forward(self, input_ids):
        x = self.transformer["wte"](input_ids)
        for block in self.transformer["blocks"]:
            x = block(x)
        return self.transformer["ff_out"](self.transformer["ln_f"](x))


class LLaDAModelLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, LLaDAModel(config)

    def forward(self, input_ids):
        return Output(logits=self.model(input_ids))


@torch.no_grad()
def generate(model, prompt, *, steps, gen_length, block_length, mask_id):
    """prompt [batch, tokens] -> [batch, tokens + gen_length]."""
    x = torch.full((len(prompt), prompt.shape[1] + gen_length), mask_id, device=prompt.device)
    x[:, :prompt.shape[1]] = prompt
    blocks = gen_length // block_length
    for block in range(blocks):
        end = prompt.shape[1] + (block + 1) * block_length
        masked = (x[:, end - block_length:end] == mask_id).sum(1)
        each = steps // blocks
        for step in range(each):
            logits = model(x).logits.float()
            confidence, chosen = torch.softmax(logits, -1).max(-1)
            open_ones = x == mask_id
            confidence = torch.where(open_ones, confidence, -torch.inf)
            confidence[:, end:] = -torch.inf
            for row in range(len(x)):
                count = int(masked[row]) // each + (step < int(masked[row]) % each)
                best = torch.topk(confidence[row], count).indices
                x[row, best] = chosen[row, best]
    return x


#===------------------------------------------------------------------------===#
# Dream
#===------------------------------------------------------------------------===#


class DreamRotaryEmbedding(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dim, self.theta = c.hidden_size // c.num_attention_heads, c.rope_theta

    def forward(self, x, position_ids):
        angle = angles(position_ids, self.dim, self.theta)
        return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


class DreamSdpaAttention(nn.Module):
    def __init__(self, c, layer_idx):
        super().__init__()
        self.layer_idx, self.num_heads = layer_idx, c.num_attention_heads
        self.num_key_value_heads = c.num_key_value_heads
        self.head_dim = c.hidden_size // c.num_attention_heads
        self.attention_dropout, self.is_causal = 0.0, False
        kv = self.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(c.hidden_size, c.hidden_size)
        self.k_proj, self.v_proj = nn.Linear(c.hidden_size, kv), nn.Linear(c.hidden_size, kv)
        self.o_proj = nn.Linear(c.hidden_size, c.hidden_size, bias=False)
        self.rotary_emb = DreamRotaryEmbedding(c)

    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_value=None,
                output_attentions=False, use_cache=False, cache_position=None,
                position_embeddings=None):
        batch, length, width = hidden_states.size()
        q, k, v = (p(hidden_states).view(batch, length, -1, self.head_dim).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        cos, sin = (x.unsqueeze(1) for x in position_embeddings)
        q, k = (x * cos + rotate_half(x) * sin for x in (q, k))
        k, v = (x.repeat_interleave(self.num_heads // self.num_key_value_heads, 1) for x in (k, v))
        mask = attention_mask if isinstance(attention_mask, torch.Tensor) else None
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=False)
        return (self.o_proj(out.transpose(1, 2).contiguous().view(batch, length, width)), None,
                past_key_value)


class DreamMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DreamDecoderLayer(nn.Module):
    def __init__(self, c, layer_idx):
        super().__init__()
        self.self_attn, self.mlp = DreamSdpaAttention(c, layer_idx), DreamMLP(c)
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, x, attention_mask, position_embeddings):
        x = x + self.self_attn(hidden_states=self.input_layernorm(x),
                               attention_mask=attention_mask,
                               position_embeddings=position_embeddings)[0]
        return x + self.mlp(self.post_attention_layernorm(x))


class DreamBaseModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList([DreamDecoderLayer(c, i) for i in range(c.num_hidden_layers)])
        self.norm, self.rotary_emb = RMSNorm(c.hidden_size, c.rms_norm_eps), DreamRotaryEmbedding(c)

    def forward(self, input_ids, attention_mask=None):
        x = self.embed_tokens(input_ids)
        positions = torch.arange(x.shape[1], device=x.device)[None]
        embeddings = self.rotary_emb(x, positions)
        for layer in self.layers:
            x = layer(x, attention_mask, embeddings)
        return self.norm(x)


class DreamModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.model = config, DreamBaseModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids, attention_mask="full"):
        return Output(logits=self.lm_head(self.model(input_ids, attention_mask)))


@torch.no_grad()
def generate_by_timesteps(model, prompt, *, steps, gen_length, mask_id, alg="maskgit_plus", eps=1e-3):
    """prompt [batch, tokens] -> [batch, tokens + gen_length]. Of the released rules `alg` those that draw nothing:
    `origin`, the default there, draws which positions become tokens, and Heddle's runtime draws by Philox.
    Confidences are float64, as the runtime's are: in the logits' own type many sure ones are equal."""
    x = torch.full((len(prompt), prompt.shape[1] + gen_length), mask_id, device=prompt.device)
    x[:, :prompt.shape[1]] = prompt
    times = torch.linspace(1, eps, steps + 1)
    for step in range(steps):
        logits = model(x).logits
        logits = torch.cat((logits[:, :1], logits[:, :-1]), 1).double()  # row i predicts token i
        open_ones = x == mask_id
        p = torch.softmax(logits, -1)
        best, chosen = p.topk(2)
        confidence = {"maskgit_plus": best[..., 0], "topk_margin": best[..., 0] - best[..., 1],
                      "entropy": (p * torch.log(p + 1e-10)).sum(-1)}[alg].masked_fill(~open_ones, -torch.inf)
        # All rows have as many masks.
        count = int(open_ones.sum()) // len(x)
        if step < steps - 1:
            count = int(count * (1 - times[step + 1] / times[step]))
        where = torch.topk(confidence, count).indices
        x.scatter_(1, where, chosen[..., 0].gather(1, where))
    return x


def load(folder, dtype=torch.float32):
    """The model of a folder, by its config.json and its safetensors."""
    import sys
    from pathlib import Path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    try:
        from heddle_reference import weights
    finally:
        sys.path.pop(0)
    config = SimpleNamespace(**json.loads((Path(folder) / "config.json").read_text()))
    model = (DreamModel if config.model_type == "Dream" else LLaDAModelLM)(config)
    model.load_state_dict(weights.load(folder)[1])
    return model.to(dtype).eval()


def of_class(model, forward, prompt, *, steps, gen_length, mask_id):
    """Generates by the loop of the model's class, in one block, with `forward` in place of the model."""
    options = {"steps": steps, "gen_length": gen_length, "mask_id": mask_id}
    if isinstance(model, DreamModel):
        return generate_by_timesteps(forward, prompt, **options)
    return generate(forward, prompt, block_length=gen_length, **options)


def decided(model):
    """Random weights, of the last seed, by which attention tells tokens apart and the best logit is mostly well above the
    next: PyTorch's own initial weights add next to nothing to a token's embedding."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding):
            module.weight.data.normal_()
        elif isinstance(module, nn.Linear):
            gain = 1.3 if name.endswith(("q_proj", "k_proj")) else 1
            module.weight.data.normal_(0, gain / module.in_features ** 0.5)
    return model.eval()
