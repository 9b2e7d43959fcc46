# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which predictions become tokens: the models' own rules and Fast-dLLM's.

A rule says at each step which masked positions may be committed and, of those
that the method predicts, which are. Equal confidences: the lower position wins.
Temperature is 0 throughout.
"""

import torch

from .. import philox
from ..sampler import first_largest, quotas
from ..schedule import largest

# --- predictions ------------------------------------------------------------


def probability(p, tokens):
    """LLaDA's low confidence, Dream's maskgit_plus: the token's probability."""
    return p.gather(-1, tokens[:, None])[:, 0]


def margin(p, tokens):
    """Dream's topk_margin: the largest probability less the second."""
    two = p.topk(2, -1).values
    return two[:, 0] - two[:, 1]


def entropy(p, tokens):
    """Dream's entropy: sum of p ln(p + 1e-10), so that surer is larger."""
    return (p * (p + 1e-10).log()).sum(-1)


CONFIDENCES = {"probability": probability, "margin": margin, "entropy": entropy}


def predict(logits, confidence, never=None):
    """(tokens, confidences) of rows of logits: the first largest logit, except
    the token `never`, and the confidence by the softmax in float64."""
    p = torch.softmax(logits.double(), -1)
    if never is not None:
        logits[:, never] = float("-inf")
    tokens = first_largest(logits)
    return tokens.tolist(), CONFIDENCES[confidence](p, tokens).tolist()


def present(logits, tokens):
    """The probabilities of tokens that are there already, by rows of logits."""
    return probability(torch.softmax(logits.double(), -1), torch.tensor(tokens, dtype=torch.long)).tolist()


# --- rules ------------------------------------------------------------------


class Rule:
    """Steps and blocks. Semi-autoregressive if block_length is less than the
    response: blocks are decoded from left to right."""

    block_length = None
    until_full = False  # a block lasts until it has no mask; then none is drawn
    by_probability = False  # whatever the model's confidence is
    draws_masks = True  # before it is until_full
    confidence = None  # its own, whatever the model's is
    noise = None  # the seed of what stands in place of the block's masks

    def begin(self, run):
        """Raises ValueError if blocks do not divide the response."""
        self.length = self.block_length or run.gen
        if run.gen % self.length:
            raise ValueError(f"a response of {run.gen} is not a multiple of blocks of {self.length}")
        self.blocks = run.gen // self.length
        run.block, run.inner = -1, -1

    def enter_block(self, run):
        run.block, run.inner = run.block + 1, 0
        run.block_start = run.prompt + run.block * self.length
        run.block_end = run.block_start + self.length

    def left(self, run):
        """Masked positions of the block."""
        return [p for p in run.masked() if run.block_start <= p < run.block_end]

    def candidates(self, run):
        """Masked positions up to the block's end."""
        return [p for p in run.undecoded() if p < run.block_end]

    def again(self, run, may):
        """Tokens of earlier steps that this one may replace, or make masks again."""
        return []

    def edit(self, run, there, tokens, sure, commits):
        """Which of them, by what the rows draw now and how probable it is, become that."""
        return []

    def revoke(self, now, commits):
        """Which of them, by their present probabilities, if it commits so many."""
        return []


class Quotas(Rule):
    """LLaDA: `steps` in all, the same number in each block; a block's masks are
    spread over its steps, the first ones taking one more. Most confident first.
    What a step lacked positions for (a method's window was smaller), later steps
    of the block make up. Source: LLaDA's generate."""

    def __init__(self, steps, block_length=None):
        self.steps, self.block_length = steps, block_length

    def begin(self, run):
        super().begin(run)
        if self.steps % self.blocks:
            raise ValueError(f"{self.steps} steps do not divide among {self.blocks} blocks")
        self.each = self.steps // self.blocks
        run.steps = self.steps

    def next(self, run):
        """Moves to the next step; False after the last."""
        if run.block >= 0 and run.inner + 1 < self.each:
            run.inner += 1
            return True
        if run.block + 1 == self.blocks:
            return False
        self.enter_block(run)
        self.plan, self.first = quotas(len(self.left(run)), self.each), len(run.history)
        return True

    def due(self, run):
        """How many this step commits, if there are as many."""
        return sum(self.plan[:run.inner + 1]) - sum(map(len, run.history[self.first:]))

    def choose(self, run, positions, sure):
        return largest(sure, self.due(run))


class EvenAbove(Rule):
    """Fast-dLLM's released code for Dream without blocks: each step may commit
    masks // steps positions and what the step before left of its number; of the
    surest so many those of confidence `threshold` and more, at least the surest.
    Steps are added until no mask is left. Source: generation_utils.py,
    confidence_threshold."""

    by_probability = True

    def __init__(self, steps, threshold):
        self.steps, self.threshold = steps, threshold

    def begin(self, run):
        super().begin(run)
        if run.gen % self.steps:
            raise ValueError(f"{self.steps} steps do not divide a response of {run.gen}")
        self.each, self.over = run.gen // self.steps, 0
        run.steps = self.steps
        self.enter_block(run)

    def next(self, run):
        if not self.left(run):
            return False
        run.inner = run.step
        return True

    def choose(self, run, positions, sure):
        number = (self.each if run.step <= self.steps else 0) + self.over
        order = largest(sure, number)
        surest = max(order, key=lambda i: (sure[i], -i))
        taken = [i for i in order if sure[i] >= self.threshold or i == surest]
        self.over = number - len(taken)
        return taken


class Drafting:
    """Which steps a forward pass makes if up to `drafts` of them are drafted ahead;
    the steps `alone` have one of their own. What is drafted of a step: as many of the
    positions that it may commit as it takes, the surest by what was predicted last
    before the pass, with those tokens. As long as that is what a step commits, the
    pass makes the next one, too. Nothing is run twice here: the steps are those of a
    run without drafts, and the passes follow from what these predict and commit.
    Source: FreeDave, generation/core.py (draft_steps is `drafts` + 1)."""

    def __init__(self, drafts, alone=()):
        self.drafts, self.alone, self.steps = drafts, alone, 0
        self.passes, self.made, self.holds = 0, 0, False
        self.known, self.latest = {}, {}

    def step(self, may, tokens, sure, committed):
        """The number of the pass, from 1, that makes a step which predicts these and commits {position: token}."""
        self.steps += 1
        if not self.holds or self.made > self.drafts or {self.steps, self.steps - 1} & set(self.alone):
            self.passes, self.made, self.known = self.passes + 1, 0, dict(self.latest)
        self.made += 1
        self.holds = True  # a step that commits nothing comes out as drafted
        if committed:
            self.latest.update(zip(may, zip(tokens, sure)))
            self.holds = all(p in self.known for p in may)
            if self.holds:
                best = largest([self.known[p][1] for p in may], len(committed))
                self.holds = {may[i]: self.known[may[i]][0] for i in best} == committed
        return self.passes


class Ordered(Quotas):
    """LLaDA's random remasking with an order drawn beforehand: `order` lists the
    positions of the response (from 0). A block takes its own in that order."""

    def __init__(self, steps, block_length, order):
        super().__init__(steps, block_length)
        self.order = order

    def begin(self, run):
        super().begin(run)
        if sorted(self.order) != list(range(run.gen)):
            raise ValueError(f"the order is not one of the response's {run.gen} positions")

    def upcoming(self, run):
        """The positions that this step commits, in the order."""
        masked = set(self.candidates(run))
        queue = [run.prompt + p for p in self.order if run.prompt + p in masked]
        return queue[:self.due(run)]

    def choose(self, run, positions, sure):
        return [positions.index(p) for p in sorted(self.upcoming(run))]


class UntilDone(Rule):
    """Forward passes until a block has no mask, then the next block; the mask
    token itself is never drawn, or that would not end. With `waste`, a block has
    at least two of them: the released Fast-dLLM looks whether the block is done
    only after a pass that is not its first."""

    waste, until_full = False, True

    def begin(self, run):
        super().begin(run)
        run.steps = None

    def next(self, run):
        if run.block >= 0 and (self.left(run) or (self.waste and run.inner == 0)):
            run.inner += 1
            return True
        if run.block + 1 == self.blocks:
            return False
        self.enter_block(run)
        return True


class Threshold(UntilDone):
    """Fast-dLLM, confidence-aware parallel decoding: all of confidence
    `threshold` and more, at least the most confident one."""

    def __init__(self, block_length, threshold, waste=False):
        self.block_length, self.threshold, self.waste = block_length, threshold, waste

    def choose(self, run, positions, sure):
        count = sum(c >= self.threshold for c in sure)
        return largest(sure, max(1, count))


class Best(UntilDone):
    """The `count` most confident ones."""

    def __init__(self, block_length, count, waste=False):
        self.block_length, self.count, self.waste = block_length, count, waste

    def choose(self, run, positions, sure):
        return largest(sure, min(self.count, len(sure)))


def tokens_of_block(run):
    """The block's tokens but for what stands at and behind the EOS that ends the text."""
    last = run.first_eos() if run.stop else run.n
    return [p for p in range(run.block_start, min(run.block_end, run.text_end()))
            if run.tokens[p] != run.pieces.mask and p != last]


class EntropyBound(UntilDone):
    """EB-Sampler: in order of rising entropy, as long as the entropies of those
    before sum to `bound` nats at most."""

    confidence = "entropy"

    def __init__(self, block_length, bound, waste=False):
        self.block_length, self.bound, self.waste = block_length, bound, waste

    def choose(self, run, positions, sure):
        order, taken = sorted(range(len(sure)), key=lambda i: (-sure[i], i)), []
        while order and -sum(sure[i] for i in taken) <= self.bound:
            taken.append(order.pop(0))
        return sorted(taken)


class Revoking(UntilDone):
    """What `rule` commits; and what the present prediction finds less probable than
    `below` in the block becomes a mask again: the least probable first, fewer
    than the step commits, so that each step leaves fewer masks. The EOS that ends
    the text stays. After WINO, whose rule differs (docs/Spec/Commit.md)."""

    def __init__(self, rule, below):
        self.block_length, self.waste, self.choose, self.below = rule.block_length, rule.waste, rule.choose, below

    def again(self, run, may):
        return tokens_of_block(run) if len(may) > 1 else []

    def revoke(self, now, commits):
        doubtful = sorted((c, i) for i, c in enumerate(now) if c < self.below)
        return [i for _, i in doubtful[:max(0, commits - 1)]]


class Wino(UntilDone):
    """WINO, as released (Feng-Hong/WINO-DLLM, LLaDA/decoding.py, decoding_wino): of the block's m masks those of a
    confidence that exceeds `threshold`, at most min(max(trunc(0.7 m), 5), 20), at least the surest one. A step that commits more
    than one makes masks again of the tokens of earlier steps that are less probable than `below`, the least probable first, fewer
    than the step before committed; of what a block's first step may revoke there is nothing."""

    def __init__(self, block_length, threshold=0.6, below=0.9, share=0.7, least=5, most=20):
        self.block_length, self.threshold, self.below = block_length, threshold, below
        self.share, self.least, self.most = share, least, most

    def enter_block(self, run):
        super().enter_block(run)
        self.accepted = [30]

    def choose(self, run, positions, sure):
        most = min(max(int(len(sure) * self.share), self.least), self.most)
        above = sum(c > self.threshold for c in sure)
        self.accepted.append(min(max(above, 1), most))
        return largest(sure, self.accepted[-1])

    def again(self, run, may):
        return tokens_of_block(run) if len(may) > 1 and self.accepted[-1] > 1 else []

    def revoke(self, now, commits):
        doubtful = sorted((c, i) for i, c in enumerate(now) if c < self.below)
        if commits < 2:
            return []
        if len(doubtful) >= self.accepted[-2]:
            doubtful = doubtful[:self.accepted[-2] - 1]
        return [i for _, i in doubtful]


class Editing(Rule):
    """What `rule` does; and a step that commits, or finds its block without masks,
    replaces the block's tokens by what their rows draw now where that has
    another token of probability `above` and more. After a step that has changed
    something and leaves the block without masks comes another, at most `further`
    of them. What is replaced is not revoked. The EOS that ends the text stays.
    After LLaDA2.1, whose samplers differ (docs/Spec/Commit.md)."""

    draws_masks = False

    def __init__(self, rule, above, further=0):
        self.rule, self.above, self.further = rule, above, further
        self.block_length, self.until_full = rule.block_length, rule.until_full
        self.by_probability, self.choose, self.revoke = rule.by_probability, rule.choose, rule.revoke
        self.confidence = rule.confidence

    def begin(self, run):
        self.rule.begin(run)
        self.passes = 0  # of the block, that found no mask

    def next(self, run):
        block = run.block
        if block >= 0 and not self.left(run) and self.passes < self.further \
                and (run.history[-1] or run.edited):
            run.inner += 1
        elif not self.rule.next(run):
            return False
        self.passes = 0 if run.block > block else self.passes
        self.passes += not self.left(run)
        return True

    def again(self, run, may):
        return tokens_of_block(run) if may or not self.left(run) else []

    def edit(self, run, there, tokens, sure, commits):
        if not commits and self.left(run):
            return []
        return [i for i, token in enumerate(tokens) if token != there[i] and sure[i] >= self.above]


def lifted(rule, deviation):
    """The rule by confidences times the share of what is near that is decoded. After d2Cache's
    certainty prior, as released (generation/vanilla.py: `sigma`)."""
    choose = rule.choose
    rule.choose = lambda run, positions, sure: choose(
        run, positions, [run.lifted(p, c, deviation) for p, c in zip(positions, sure)])
    return rule


def renoised(rule, seed=0):
    """The rule where masks of the block are noise, drawn anew at each step: what is
    committed stays. The mask token is never drawn. After Diffusers'
    BlockRefinementScheduler without a mask token (docs/Spec/Commit.md, "Renoising")."""
    rule.noise, rule.draws_masks = seed, False
    return rule


class Factor(UntilDone):
    """Fast-dLLM, factor-based: with confidences c_1 >= c_2 >= ..., the largest n
    such that (n + 1)(1 - c_n) < factor, at least 1. `released`: the first n
    with c_n < 1 - factor / (n + 1) ends the prefix, and if that n is the last
    one, all are committed all the same."""

    def __init__(self, block_length, factor=1.0, released=False, waste=False):
        self.block_length, self.factor = block_length, factor
        self.released, self.waste = released, waste

    def count(self, sure):
        order = sorted(sure, reverse=True)
        if not self.released:
            return max([1] + [n for n, c in enumerate(order, 1) if (n + 1) * (1 - c) < self.factor])
        for n, c in enumerate(order[1:], 2):
            if c < 1 - self.factor / (n + 1):
                return n if n == len(order) else n - 1
        return len(order)

    def choose(self, run, positions, sure):
        return largest(sure, self.count(sure))


class Timesteps(Rule):
    """Dream: no blocks; step i of T goes from time t_i to t_(i+1) of T + 1 times
    from 1 down to eps, and of m masks commits trunc(m (1 - t_(i+1) / t_i)),
    the last step all; in float32. Early steps may commit nothing."""

    def __init__(self, steps, eps=1e-3):
        self.steps, self.eps = steps, eps

    def begin(self, run):
        super().begin(run)
        run.steps = self.steps
        self.times = torch.linspace(1, self.eps, self.steps + 1)

    def next(self, run):
        if run.step >= self.steps:
            return False
        if run.step == 0:
            self.enter_block(run)
        else:
            run.inner += 1
        return True

    def count(self, run):
        masked = torch.tensor(float(len(run.masked())))
        t, s = self.times[run.step - 1], self.times[run.step]
        return int(masked if run.step == self.steps else masked * (1 - s / t))

    def choose(self, run, positions, sure):
        return largest(sure, self.count(run))


class BlockTimesteps(Rule):
    """Dream in blocks, as Fast-dLLM's code has it: a block's first pass commits
    one token (cached.FastDllm, first_alone); pass i, from 1, does what step i of
    Timesteps does with the block's masks and passes, the last one all of them."""

    def __init__(self, steps, block_length, eps=1e-3):
        self.steps, self.block_length, self.eps = steps, block_length, eps

    def begin(self, run):
        super().begin(run)
        if self.steps % self.blocks:
            raise ValueError(f"{self.steps} steps do not divide among {self.blocks} blocks")
        run.steps, self.each = self.steps, self.steps // self.blocks
        self.times = torch.linspace(1, self.eps, self.each + 1)

    def next(self, run):
        if run.step == self.steps:
            return False
        if run.step % self.each == 0:
            self.enter_block(run)
        else:
            run.inner += 1
        return True

    def choose(self, run, positions, sure):
        if run.inner == 0:
            return largest(sure, 1)
        t, s = self.times[run.inner], self.times[run.inner + 1]
        last = run.inner == self.each - 1
        return largest(sure, len(sure) if last else int(len(sure) * (1 - s / t)))


class WindowTimesteps(Timesteps):
    """Timesteps for cached.WindowDiffusionDream: one token at a refresh, and at
    every step if it stops early; the run ends when no mask is left."""

    def __init__(self, steps, method, eps=1e-3):
        super().__init__(steps, eps)
        self.method = method

    def next(self, run):
        if run.step:
            self.method.settle(run)
            if not self.method.masked(run):
                return False
        return super().next(run)

    def count(self, run):
        return 1 if self.method.refreshing or self.method.early_stop else super().count(run)


# --- draws ------------------------------------------------------------------


def splitmix64(seed):
    """The generator's outputs, 64 bits each (docs/Bundle.md)."""
    state, wrap = seed, (1 << 64) - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & wrap
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & wrap
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & wrap
        yield z ^ (z >> 31)


def shuffled(count, seed, first=None):
    """The first `first` (all) places of 0..count-1, shuffled as docs/Bundle.md
    says of random cadences: place i is swapped with place i + draw(count - i),
    where draw(m) takes the next output below the largest multiple of m."""
    outputs, places = splitmix64(seed), list(range(count))
    for i in range(count if first is None else min(first, count)):
        m = count - i
        x = next(x for x in outputs if x < (1 << 64) // m * m)
        places[i], places[i + x % m] = places[i + x % m], places[i]
    return places if first is None else places[:first]


def random_order(length, seed):
    """An order for Ordered, as heddle-run draws it (docs/Spec/Commit.md): each
    position of the response, from 0, has a number; the least comes first."""
    return sorted(range(length),
                  key=lambda p: philox.uniforms(seed, philox.COMMITS, 0, p)[0])
