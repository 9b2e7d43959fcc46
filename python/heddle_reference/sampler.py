# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLaDA's sampler at fixed length: quotas by block, low-confidence remasking.
Ties, which the released code leaves open, go to the lowest index."""

import math

import torch

from .schedule import Schedule, largest


def quotas(masked, steps):
    """Tokens to commit at each step of a block: the first masked % steps steps
    take one more."""
    return [masked // steps + (s < masked % steps) for s in range(steps)]


def draw(logits, temperature, generator):
    """A token id for each row of logits [rows, vocab]: the largest logit
    (lowest index among equals), or the largest logit + temperature * Gumbel
    noise, in float64."""
    if temperature == 0:
        return first_largest(logits)
    u = torch.rand(logits.shape, dtype=torch.float64, generator=generator)
    u = u.clamp_min(math.ulp(0.0))
    return first_largest(logits.double() - temperature * (-u.log()).log())


def first_largest(values):
    """Index of the first largest entry of each row."""
    width = values.shape[-1]
    at = torch.arange(width).expand_as(values)
    best = values == values.max(-1, keepdim=True).values
    return at.masked_fill(~best, width).min(-1).values


def confidences(logits, tokens):
    """softmax(logits)[token] by row, in float64."""
    return torch.softmax(logits.double(), -1).gather(-1, tokens[:, None])[:, 0]


@torch.no_grad()
def generate(model, prompts, gen_length, steps, block_length, schedule="dense",
             temperature=0.0, remasking="low_confidence", seed=0, observe=None,
             inspect=None):
    """Completes each prompt (a list of token ids) by gen_length tokens with
    `steps` forward passes; returns the whole sequences.

    observe(record) is called after each step with what heddle-run writes for
    --steps-json. inspect(step, sequence, logits, positions) sees the logits of
    the open positions before they are drawn.
    """
    if gen_length % block_length:
        raise ValueError(f"gen length {gen_length} is not a multiple of block length {block_length}")
    blocks = gen_length // block_length
    if steps % blocks:
        raise ValueError(f"{steps} steps do not divide among {blocks} blocks")
    mask = model.config["mask_token_id"]
    generator = torch.Generator().manual_seed(seed)
    runs = [Schedule(schedule, steps) for _ in prompts]
    sequences = [list(p) + [mask] * gen_length for p in prompts]
    rows = sum(map(len, sequences))
    step = 0
    for block in range(blocks):
        # All masks up to the end of the block: a prompt may hold masks too.
        ends = [len(p) + (block + 1) * block_length for p in prompts]
        plans = [quotas(sum(t == mask for t in s[e - block_length:e]), steps // blocks)
                 for s, e in zip(sequences, ends)]
        for inner in range(steps // blocks):
            step += 1
            commits = []
            for b, tokens in enumerate(sequences):
                runs[b].begin_step(step, b)
                logits = model.forward(tokens, runs[b].attend)
                open_at = [i for i in range(ends[b]) if tokens[i] == mask]
                logits = logits[open_at]
                if inspect:
                    inspect(step, b, logits, open_at)
                drawn = draw(logits, temperature, generator)
                if remasking == "random":
                    sure = torch.rand(len(open_at), dtype=torch.float64, generator=generator)
                else:
                    sure = confidences(logits, drawn)
                sure = sure.tolist()
                for i in largest(sure, plans[b][inner]):
                    tokens[open_at[i]] = int(drawn[i])
                    commits.append({"sequence": b, "position": open_at[i],
                                    "token": int(drawn[i]), "confidence": sure[i]})
            if observe:
                observe({"step": step, "block": block, "rows": rows, "commits": commits})
    return sequences
