# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLaDA's sampler: blocks, quotas, Gumbel noise, low-confidence remasking, CFG
and the EOS options. Ties, which the released code leaves open, go to the
lowest index."""

import math
from dataclasses import dataclass

import torch

from .schedule import Schedule, largest


@dataclass
class Options:
    """Settings under the names that LLaDA's generate() gives them."""
    gen_length: int = 128
    steps: int = 128
    block_length: int = 128
    temperature: float = 0.0
    cfg_scale: float = 0.0
    remasking: str = "low_confidence"
    logits_eos_inf: bool = False
    confidence_eos_eot_inf: bool = False
    eot: int = -1  # the token <|eot_id|>
    seed: int = 0

    def check(self):
        """Raises ValueError when the lengths do not divide."""
        if min(self.gen_length, self.steps, self.block_length) < 1:
            raise ValueError("gen length, steps and block length must be at least 1")
        if self.gen_length % self.block_length:
            raise ValueError(f"gen length {self.gen_length} is not a multiple of "
                             f"block length {self.block_length}")
        blocks = self.gen_length // self.block_length
        if self.steps % blocks:
            raise ValueError(f"{self.steps} steps do not divide among {blocks} blocks")
        if self.remasking not in ("low_confidence", "random"):
            raise ValueError(f"remasking '{self.remasking}': expected low_confidence or random")


def quotas(masked, steps):
    """Tokens to commit at each step of a block: the first masked % steps steps
    take one more."""
    return [masked // steps + (s < masked % steps) for s in range(steps)]


def first_largest(values):
    """Index of the first largest entry of each row."""
    width = values.shape[-1]
    at = torch.arange(width).expand_as(values)
    best = values == values.max(-1, keepdim=True).values
    return at.masked_fill(~best, width).min(-1).values


def draw(logits, temperature, generator):
    """A token id for each row of logits [rows, vocab]: the largest logit
    (lowest index among equals), or the largest logit + temperature * Gumbel
    noise, in float64."""
    if temperature == 0:
        return first_largest(logits)
    u = torch.rand(logits.shape, dtype=torch.float64, generator=generator)
    u = u.clamp_min(math.ulp(0.0))
    return first_largest(logits.double() - temperature * (-u.log()).log())


def predict(logits, options, eos, generator):
    """(token, confidence) of each row of logits [rows, vocab]."""
    logits = logits.clone()
    if options.logits_eos_inf:
        logits[:, eos] = float("-inf")
    drawn = draw(logits, options.temperature, generator)
    if options.remasking == "random":
        return drawn, torch.rand(len(logits), dtype=torch.float64, generator=generator)
    if options.confidence_eos_eot_inf:
        # The released code forbids EOS in the noisy logits: at temperature 0
        # these are the logits, otherwise the confidence never reads them.
        if options.eot >= 0:
            logits[:, options.eot] = float("-inf")
        if options.temperature == 0:
            logits[:, eos] = float("-inf")
    p = torch.softmax(logits.double(), -1)
    return drawn, p.gather(-1, drawn[:, None])[:, 0]


@torch.no_grad()
def generate(model, prompts, options, schedule="dense", observe=None, inspect=None):
    """Completes each prompt (a list of token ids) by gen_length tokens with
    `steps` forward passes; returns the whole sequences.

    observe(record) is called after each step with what heddle-run writes for
    --steps-json. inspect(step, sequence, positions, logits, tokens,
    confidences) sees the predictions at the positions that a step may commit.
    """
    options.check()
    mask, eos = model.config["mask_token_id"], model.config["eos_token_id"]
    generator = torch.Generator().manual_seed(options.seed)
    blocks = options.gen_length // options.block_length
    guided = options.cfg_scale > 0
    sequences = [list(p) + [mask] * options.gen_length for p in prompts]
    runs = [Schedule(schedule, options.steps, model.layers) for _ in prompts]
    step = 0
    for block in range(blocks):
        # The upper bound of what may be committed; no lower one, as released.
        ends = [len(p) + (block + 1) * options.block_length for p in prompts]
        plans = [quotas(sum(t == mask for t in s[end - options.block_length:end]),
                        options.steps // blocks) for s, end in zip(sequences, ends)]
        for inner in range(options.steps // blocks):
            step += 1
            record = {"step": step, "block": block, "rows": 0, "pairs": 0,
                      "dense_pairs": 0, "refreshes": 0}
            commits = []
            for b, tokens in enumerate(sequences):
                def forward(row, ids):
                    runs[b].begin_step(step, row)
                    logits = model.forward(ids, runs[b].attend)
                    record["rows"] += len(ids)
                    record["pairs"] += runs[b].pairs
                    record["dense_pairs"] += model.layers * model.heads * len(ids) ** 2
                    record["refreshes"] += runs[b].refreshes
                    return logits

                may = [i for i in range(ends[b]) if tokens[i] == mask]
                logits = forward("conditional", tokens)[may]
                if guided:
                    hidden = [mask] * len(prompts[b]) + tokens[len(prompts[b]):]
                    free = forward("unconditional", hidden)[may]
                    logits = free + (options.cfg_scale + 1) * (logits - free)
                drawn, sure = predict(logits, options, eos, generator)
                if inspect:
                    inspect(step, b, may, logits, drawn, sure)
                for i in largest(sure.tolist(), plans[b][inner]):
                    tokens[may[i]] = int(drawn[i])
                    commits.append({"sequence": b, "position": may[i],
                                    "token": int(drawn[i]), "confidence": float(sure[i])})
            if observe:
                observe({**record, "commits": commits})
    return sequences
