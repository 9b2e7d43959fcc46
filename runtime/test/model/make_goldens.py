# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes Inputs/torch-goldens.json: logits and rotation tables as PyTorch computes them.

Run with any PyTorch (python3-torch of Debian will do) from this folder. The weights come from a formula that
GoldenTest.cpp repeats, so that only results are stored. The rounding points are those of LLaDA's or Dream's
released modelling code run in the given dtype, with attention summed in f32.
"""

import json

import torch

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP, VOCAB, LAYERS = 256, 4, 2, 64, 192, 40, 2
THETA, EPS = 500000.0, 1e-5
TOKENS = [(7 * i * i + 3 * i + 1) % VOCAB for i in range(70)]
ROWS = [0, 1, 33, 69]


def weight(index, scale, shape, offset=0.0):
    """Entry i of tensor `index`: a multiple of 1/128 in [-1, 1), times scale, plus offset."""
    n = 1
    for extent in shape:
        n *= extent
    state = (torch.arange(n, dtype=torch.int64) + index * 1000003) * 2654435761 % 2**32
    state = (state ^ (state >> 15)) * 2246822519 % 2**32
    values = ((state >> 13) % 256 - 128).to(torch.float32) / 128 * scale + offset
    return values.reshape(shape)


def rope_tables(positions, dim, theta):
    inverse = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float) / dim))
    angles = positions.to(torch.float)[:, None] * inverse[None, :]
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """x [heads, n, dim]: in f32, cast back."""
    t = x.float()
    half = t.shape[-1] // 2
    swapped = torch.cat((-t[..., half:], t[..., :half]), dim=-1)
    full_cos, full_sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
    return (t * full_cos + swapped * full_sin).to(x.dtype)


def rotate_in_dtype(x, cos, sin):
    """x [heads, n, dim]: as Dream does, the tables and every operation in x's type."""
    half = x.shape[-1] // 2
    swapped = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    full_cos, full_sin = (torch.cat((t, t), -1).to(x.dtype) for t in (cos, sin))
    return x * full_cos + swapped * full_sin


def rms_norm(x, w):
    t = x.float()
    t = t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + EPS)
    return w * t.to(x.dtype)


def linear(x, w, bias=0.0):
    """Sums in f32, as GPUs do; PyTorch's own bf16 products on CPUs may sum in bf16."""
    return (x.float() @ w.float().T + bias).to(x.dtype)


def silu(x):
    """In f32, as on GPUs and in PyTorch 2; PyTorch 1.13 rounds every step to bf16 on CPUs."""
    t = x.float()
    return (t / (1 + torch.exp(-t))).to(x.dtype)


def forward(dtype, dream=False):
    count = iter(range(1000))

    def make(scale, *shape, offset=0.0):
        return weight(next(count), scale, shape, offset).to(dtype)

    def project(x, outputs):
        w = make(0.125, outputs, HIDDEN)
        return linear(x, w, make(2.0, outputs).float() if dream else 0.0)

    turn = rotate_in_dtype if dream else rotate
    x = make(2.0, VOCAB, HIDDEN)[torch.tensor(TOKENS)]
    cos, sin = rope_tables(torch.arange(len(TOKENS)), HEAD_DIM, THETA)
    for _ in range(LAYERS):
        n = rms_norm(x, make(0.5, HIDDEN, offset=1.0))
        split = lambda t, heads: t.view(-1, heads, HEAD_DIM).transpose(0, 1)
        q = turn(split(project(n, HIDDEN), HEADS), cos, sin)
        k = turn(split(project(n, KV_HEADS * HEAD_DIM), KV_HEADS), cos, sin)
        v = split(project(n, KV_HEADS * HEAD_DIM), KV_HEADS)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 0) for t in (k, v))
        scores = q.float() @ k.float().transpose(1, 2) / HEAD_DIM**0.5
        attended = (scores.softmax(-1) @ v.float()).to(dtype)
        x = x + linear(attended.transpose(0, 1).reshape(-1, HIDDEN), make(0.125, HIDDEN, HIDDEN))
        h = rms_norm(x, make(0.5, HIDDEN, offset=1.0))
        gate = linear(h, make(0.125, MLP, HIDDEN))
        up = linear(h, make(0.125, MLP, HIDDEN))
        x = x + linear(silu(gate) * up, make(0.125, HIDDEN, MLP))
    x = rms_norm(x, make(0.5, HIDDEN, offset=1.0))
    return linear(x, make(0.125, VOCAB, HIDDEN))[ROWS].float().tolist()


def main():
    torch.set_num_threads(1)  # sums in one order
    positions = [0, 1, 2, 100, 1023, 4095]
    cos, sin = rope_tables(torch.tensor(positions), 128, THETA)
    goldens = {
        "torch": torch.__version__,
        "tokens": TOKENS,
        "rows": ROWS,
        "f32": forward(torch.float32),
        "bf16": forward(torch.bfloat16),
        "dream": {"f32": forward(torch.float32, True), "bf16": forward(torch.bfloat16, True)},
        "rope": {"theta": THETA, "headDim": 128, "positions": positions, "cos": cos.tolist(), "sin": sin.tolist()},
    }
    with open("Inputs/torch-goldens.json", "w") as out:
        json.dump(goldens, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
