# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One prompt's denoising run: the loop that every method and rule share."""

import math
import sys

import torch

from .. import philox
from .commit import Drafting, predict, present
from .trace import Record


class Run:
    """A sequence while it is denoised.

    step: the forward pass, from 1. block, inner: the block of the response and
    the pass within the block, from 0; block_start and block_end bound it.
    history: the positions committed by each pass so far. edited, revoked: those
    to which the last pass gave other tokens, and of which it made masks again.
    sure: of each position that is masked the confidence of its last prediction,
    if there was one. noise: the seed of what is read in place of the block's
    masks; None: masks.
    """

    def __init__(self, pieces, prompt, gen_length, stop=None):
        if not prompt or gen_length < 1:
            raise ValueError("a run needs a prompt and a response of at least one token")
        if stop not in (None, "end", "narrow"):
            raise ValueError(f"stop '{stop}': expected end or narrow")
        self.pieces, self.stop = pieces, stop
        self.tokens = list(prompt) + [pieces.mask] * gen_length
        self.prompt, self.gen, self.n = len(prompt), gen_length, len(prompt) + gen_length
        self.step, self.history, self.revoked, self.edited, self.sure = 0, [], [], [], {}
        self.noise = None

    def masked(self):
        return [p for p, t in enumerate(self.tokens) if t == self.pieces.mask]

    def noisy(self):
        """Positions of which a step reads another token than the one before did, though none was made."""
        return [] if self.noise is None else [p for p in self.masked() if self.block_start <= p < self.block_end]

    def read(self, positions=None):
        """The tokens that the step reads, of all positions or these."""
        tokens, ordinary = list(self.tokens), self.pieces.ordinary
        for p in self.noisy():
            tokens[p] = ordinary[int(philox.uniforms(self.noise, philox.NOISE, self.step, p)[0] * len(ordinary))]
        return tokens if positions is None else [tokens[p] for p in positions]

    def first_eos(self):
        """Where the response's first EOS stands; n if there is none."""
        return next((p for p in range(self.prompt, self.n)
                     if self.tokens[p] == self.pieces.eos), self.n)

    def text_end(self):
        """Where the text ends: with stop "narrow" behind the first EOS."""
        return min(self.n, self.first_eos() + 1) if self.stop == "narrow" else self.n

    def undecoded(self):
        """Masked positions that still count."""
        return [p for p in self.masked() if p < self.text_end()]

    def decoded_near(self, position, deviation):
        """The share of the weights around the position, a Gaussian's, that decoded positions
        have. Before the sequence all is decoded; behind the text what its last position is."""
        end = self.text_end()

        def decoded(p):
            return p < 0 or self.tokens[min(p, end - 1)] != self.pieces.mask
        some = every = 0
        for p in range(position - 7 * deviation, position + 7 * deviation + 1):
            weight = round(2 ** 30 * math.exp(-(p - position) ** 2 / (2 * deviation ** 2)))
            every += weight
            some += weight if decoded(p) else 0
        return some / every

    def lifted(self, position, confidence, deviation):
        """A prediction's confidence as what is decoded near its position lifts it."""
        share = self.decoded_near(position, deviation)
        if confidence >= 0:
            return confidence * share
        return confidence / share if share else -sys.float_info.max

    def most_confident(self, positions, count, near=None):
        """Of these the `count` masked ones whose last prediction was the surest; without one
        they come last, equals from left to right. near: as a deviation, what is decoded near
        a position counts."""
        def sure(p):
            found = self.sure.get(p, float("-inf"))
            return found if near is None or p not in self.sure else self.lifted(p, found, near)
        order = sorted(set(positions) & set(self.undecoded()), key=lambda p: (-sure(p), p))
        return sorted(order[:count])

    def ended(self):
        """Whether EOS is committed and no mask stands before it."""
        end = self.first_eos()
        return self.stop is not None and end < self.n and min(self.masked(), default=end) >= end

    def predicting(self, positions):
        """The positions and, in a shifted model, the row before each of them."""
        return sorted(set(positions) | {self.pieces.row_of(p) for p in positions})


class Method:
    """Which rows a step computes, over which keys and pairs."""

    def begin(self, run):
        """Before the first step: drops what earlier runs left."""

    def reach(self, run):
        """Positions that this step may commit; None: as the rule says."""
        return None

    def row_of(self, run, position):
        """The row whose logits predict the position at this step."""
        return run.pieces.row_of(position)

    def row_again(self, run, position):
        """The row by which the token at the position may become a mask again; of a row that is
        none of the sequence `run.n` more than where it stands."""
        return self.row_of(run, position)

    def forward(self, run, record):
        """Runs the layers; (rows, their final states [rows, width])."""
        raise NotImplementedError


@torch.no_grad()
def generate(pieces, prompt, gen_length, method, rule, confidence="probability", stop=None,
             sequence=0, drafts=0, alone=()):
    """(tokens, records) of one prompt. stop "end": the run ends once EOS is
    committed and no mask stands before it; "narrow": besides, positions behind
    EOS are ignored, decoded ones as well. drafts: records have the forward "pass"
    that makes a step if so many are drafted ahead, but for the steps `alone`."""
    run, records, drafting = Run(pieces, prompt, gen_length, stop), [], Drafting(drafts, alone)
    run.noise = rule.noise
    rule.begin(run)
    method.begin(run)
    while not run.ended() and rule.next(run):
        run.step += 1
        record = Record(pieces, sequence, run.step, run.n)
        rows, x = method.forward(run, record)
        place, reach = {row: i for i, row in enumerate(rows)}, method.reach(run)
        may = [p for p in rule.candidates(run) if reach is None or p in reach]
        again = [p for p in rule.again(run, may) if (reach is None or p in reach)
                 and method.row_again(run, p) in place]
        read = [method.row_of(run, p) for p in may] + [method.row_again(run, p) for p in again]
        committed, edited, revoked, tokens, sure = [], [], [], [], []
        if read:
            never = pieces.mask if rule.until_full or not rule.draws_masks else None
            logits = pieces.logits(x[[place[r] for r in read]])
            there = [run.tokens[p] for p in again]
            now = present(logits[len(may):], there)
            others = predict(logits[len(may):], "probability", never)
            tokens, sure = predict(logits[:len(may)], confidence, never)
            for i in rule.choose(run, may, sure) if may else []:
                committed.append([may[i], tokens[i], sure[i]])
            if committed:  # else it is a step without a quota, which predicts nothing
                run.sure.update(zip(may, sure))
            kept = set(range(len(again)))
            for i in rule.edit(run, there, *others, len(committed)):
                edited.append([again[i], others[0][i], others[1][i]])
                kept.remove(i)
            kept = sorted(kept)
            for i in rule.revoke([now[i] for i in kept], len(committed)):
                revoked.append([again[kept[i]], pieces.mask, now[kept[i]]])
                run.sure.pop(again[kept[i]])
        for position, token, _ in committed + edited + revoked:
            run.tokens[position] = token
        run.history.append([c[0] for c in committed])
        run.edited, run.revoked = ([c[0] for c in each] for each in (edited, revoked))
        records.append(record.done({row % run.n for row in read}, committed + edited + revoked))
        if drafts:
            records[-1]["pass"] = drafting.step(may, tokens, sure, {c[0]: c[1] for c in committed})
    return run.tokens, records
