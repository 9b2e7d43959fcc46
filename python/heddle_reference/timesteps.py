# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dream's sampler: shifted logits, times from 1 to eps, four rules. Ties, which
the released code leaves open, go to the lowest index; softmax is float64."""

from dataclasses import dataclass

import torch

from . import philox
from .sampler import first_largest
from .schedule import Schedule, largest

ALGS = ("origin", "maskgit_plus", "topk_margin", "entropy")


@dataclass
class Options:
    """Settings under the names of Dream's diffusion_generate()."""
    gen_length: int = 128
    steps: int = 128
    alg: str = "origin"
    eps: float = 1e-3
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    alg_temp: float = 0.0
    seed: int = 0

    def check(self):
        """Raises ValueError when there is no such sampler."""
        if min(self.gen_length, self.steps) < 1:
            raise ValueError("gen length and steps must be at least 1")
        if self.alg not in ALGS:
            raise ValueError(f"alg '{self.alg}': expected one of {', '.join(ALGS)}")


def shares(options):
    """The share of masked positions that each step makes tokens, in float32."""
    t = torch.linspace(1, options.eps, options.steps + 1)
    share = 1 - t[1:] / t[:-1]
    share[-1] = 1
    return share


def filtered(logits, options):
    """One row of logits: divided by the temperature, cut to the nucleus of top_p
    (a token stays if those before it hold no more than top_p), cut to top_k
    (and equals of the last)."""
    gone = float("-inf")
    if options.temperature > 0:
        logits = logits / options.temperature
    if options.top_p < 1:
        ordered, index = torch.sort(logits, descending=True, stable=True)
        p = torch.softmax(ordered.double(), -1)
        before = torch.cat((torch.zeros(1, dtype=p.dtype), p.cumsum(-1)[:-1]))
        logits = logits.clone()
        logits[index[before > options.top_p]] = gone
    if options.top_k > 0:
        least = logits.topk(min(options.top_k, len(logits))).values[-1]
        logits = logits.masked_fill(logits < least, gone)
    return logits


def predict(logits, options, step, position):
    """(token, confidence) of one row of logits [vocab]."""
    logits = filtered(logits, options).double()
    p = torch.softmax(logits, -1)
    if options.temperature > 0:
        noise = philox.gumbels(options.seed, philox.GUMBEL, step, position, len(logits))
        token = int(first_largest((logits + torch.from_numpy(noise))[None])[0])
    else:
        token = int(first_largest(logits[None])[0])
    if options.alg == "topk_margin":
        best, second = p.topk(2).values.tolist()
        return token, best - second
    if options.alg == "entropy":
        return token, float((p * (p + 1e-10).log()).sum())
    return token, float(p[token])


@torch.no_grad()
def generate(model, prompts, options, schedule="dense", observe=None, inspect=None):
    """As sampler.generate, with Dream's sampler."""
    options.check()
    mask, share = model.config["mask_token_id"], shares(options)
    sequences = [list(p) + [mask] * options.gen_length for p in prompts]
    runs = [Schedule(schedule, options.steps, model.layers) for _ in prompts]
    for step in range(1, options.steps + 1):
        record = {"step": step, "block": 0, "rows": 0, "pairs": 0, "dense_pairs": 0,
                  "refreshes": 0}
        commits = []
        for b, tokens in enumerate(sequences):
            runs[b].begin_step(step, "conditional")
            rows = model.forward(tokens, runs[b].attend)
            record["rows"] += len(tokens)
            record["pairs"] += runs[b].pairs
            record["dense_pairs"] += model.layers * model.heads * len(tokens) ** 2
            record["refreshes"] += runs[b].refreshes
            logits = torch.cat((rows[:1], rows[:-1]))  # now row i predicts token i
            may = [i for i, t in enumerate(tokens) if t == mask]
            number = lambda stream, i: philox.uniforms(options.seed, stream, step, i)[0]
            if options.alg == "origin":
                may = [i for i in may if number(philox.TRANSFER, i) < float(share[step - 1])]
                count = len(may)
            else:
                count = int(len(may) * share[step - 1])
            if count == 0:
                continue
            drawn = [predict(logits[i], options, step, i) for i in may]
            sure = [confidence for _, confidence in drawn]
            if inspect:
                inspect(step, b, may, logits[may], torch.tensor([t for t, _ in drawn]),
                        torch.tensor(sure, dtype=torch.float64))
            keys = sure
            if options.alg_temp > 0:
                keys = [c / options.alg_temp
                        + philox.gumbels(options.seed, philox.ORDER, step, i)[0]
                        for c, i in zip(sure, may)]
            for i in largest(keys, count):
                tokens[may[i]] = drawn[i][0]
                commits.append({"sequence": b, "position": may[i], "token": drawn[i][0],
                                "confidence": sure[i]})
        if observe:
            observe({**record, "commits": commits})
    return sequences
