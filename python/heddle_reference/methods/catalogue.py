# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The methods by name, each as its paper defines it or (".code") as released,
with parameters fit for the small trained models, and the schedule that is meant
to be the same (python/methods_check.py compiles it).

Windows, blocks and periods are smaller than published so that they matter in
prompts of some hundred tokens and responses of 32.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Callable, Optional

from . import cached, chunked, commit, composed, dllm_cache, drift, dyllm, evicted, layered, pairs
from .run import generate

LLADA, DREAM = ("llada",), ("dream",)
BOTH = LLADA + DREAM
# A shape is (gen length, steps, block length); in the last the whole response
# is one block.
BLOCKS = ((32, 32, 8), (32, 16, 16))
WHOLE = ((32, 32, 32), (32, 16, 32))


@dataclass(frozen=True)
class Method:
    """make(steps, block_length or None, family): (method, rule)."""
    name: str
    make: Callable
    schedule: str
    families: tuple = BOTH
    shapes: tuple = BLOCKS + WHOLE[1:]
    stop: Optional[str] = None
    blocks: bool = False  # whether it decodes in blocks by itself
    drafts: int = 0  # steps that are drafted ahead and verified
    alone: Callable = lambda steps: ()  # of these steps, those that are not: a selection's

    def shapes_of(self, family):
        """Those that the family's own sampler has: Dream's knows no blocks."""
        if family == "llada" or self.blocks:
            return self.shapes
        return tuple(shape for shape in self.shapes if shape in WHOLE)

    def confidence_of(self, family):
        """Dream's entropy; the largest probability where LLaDA or a threshold
        asks for it."""
        rule = self.make(32, None, family)[1]
        if rule.confidence:
            return rule.confidence
        return "entropy" if family == "dream" and not (rule.until_full or rule.by_probability) \
            else "probability"

    def run(self, pieces, prompt, gen, steps, block, sequence=0):
        """(tokens, records) of one prompt."""
        family = "dream" if pieces.shifted else "llada"
        method, rule = self.make(steps, block if block < gen else None, family)
        return generate(pieces, prompt, gen, method, rule, self.confidence_of(family), self.stop,
                        sequence, self.drafts, self.alone(steps))


def own_rule(steps, block, family):
    """The model's: quotas in blocks, or Dream's timesteps over the whole."""
    if family == "dream" and block is None:
        return commit.Timesteps(steps)
    return commit.Quotas(steps, block)


def with_own_rule(make):
    """A method that leaves the commits to the model."""
    return lambda steps, block, family: (make(), own_rule(steps, block, family))


def selecting(selection, cadence, refreshing="dense", layers=None):
    return with_own_rule(lambda: pairs.Selecting(selection(), cadence, refreshing, layers))


def schedule(name, *lines):
    return f"heddle.schedule @{name} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


REFRESH = "%refresh = cadence uniform(window = 3/10, count = 4)"
SKIP = "%once = cadence at(1/5)"
COLUMNS = "%cols = select columns(keep = 1/5, group = 32) by mean_probability on %refresh"
BLOCKS32 = "%tiles = select blocks(keep = 1/2, size = 32) by mean_probability "


def columns(name, cadence, words, *attend, **options):
    return Method(name, selecting(lambda: pairs.Columns("1/5", 32, **options), cadence),
                  schedule(name.replace("-", "_"), f"%refresh = cadence {words}",
                           (COLUMNS.replace("32)", "32, per_kv_head)") if options else COLUMNS), *attend))


ALWAYS = ("attend pairs(%cols)",)
LATER = ("attend dense until(%refresh) then pairs(%cols)",)

PAIRS = [
    Method("dense", with_own_rule(pairs.Dense), schedule("dense", "attend dense"),
           shapes=BLOCKS + WHOLE + ((24, 8, 12), (16, 5, 16))),
    columns("pulsecol", pairs.uniform("3/10", 4), "uniform(window = 3/10, count = 4)", *ALWAYS),
    columns("pulsecol-shared", pairs.uniform("3/10", 4), "uniform(window = 3/10, count = 4)", *ALWAYS,
            shared=True),
    columns("pulsecol-power", pairs.power("3/10", 4), "power(window = 3/10, count = 4)", *ALWAYS),
    columns("pulsecol-random", pairs.random("3/10", 4, 1), "random(window = 3/10, count = 4, seed = 1)",
            *LATER),
    Method("pulsecol-drift", with_own_rule(lambda: drift.Drifting(pairs.Columns("1/5", 32), 0.95, 8)),
           schedule("pulsecol_drift", "%refresh = cadence drift(below = 0.95, within = 8)", COLUMNS,
                    *ALWAYS)),
    columns("columns-skip", pairs.at("1/5"), "at(1/5)", *LATER),
    Method("blocks-refresh", selecting(lambda: pairs.Blocks("1/2", 32), pairs.uniform("3/10", 4)),
           schedule("blocks_refresh", REFRESH,
                    BLOCKS32 + "isolating(spans) on %refresh",
                    "attend pairs(%tiles)")),
    Method("sparsed", selecting(lambda: pairs.Blocks("1/2", 32), pairs.at("1/5")),
           schedule("sparsed", SKIP, BLOCKS32 + "isolating(spans) on %once",
                    "attend dense until(%once) then pairs(%tiles)")),
    Method("sparsed.code", with_own_rule(lambda: pairs.sparsed_released("1/2", 32, scale="heads")),
           schedule("sparsed_code", "%once = cadence at(1/5, plus = 2)",
                    "%tiles = select blocks(keep = 1/2, size = 32, rounding = floor_plus_one) by "
                    "mean_probability isolating(filtered) scaled_by(heads) on %once",
                    "attend dense until(%once) then pairs(%tiles)"), LLADA),
    Method("sparsed-dim.code", with_own_rule(lambda: pairs.sparsed_released("1/2", 32, scale="dim")),
           schedule("sparsed_code", "%once = cadence at(1/5, plus = 2)",
                    "%tiles = select blocks(keep = 1/2, size = 32, rounding = floor_plus_one) by "
                    "mean_probability isolating(filtered) on %once",
                    "attend dense until(%once) then pairs(%tiles)"), DREAM),
    Method("sparsed-no-skip", selecting(lambda: pairs.Blocks("1/2", 32), pairs.at(0)),
           schedule("sparsed_no_skip", "%once = cadence at(step = 1)",
                    BLOCKS32 + "isolating(spans) on %once", "attend pairs(%tiles)")),
    Method("sparsed-no-reuse", selecting(lambda: pairs.Blocks("1/2", 32), pairs.every_after("1/5"),
                                         "sparse"),
           schedule("sparsed_no_reuse", "%always = cadence every(1)",
                    "%skipped = cadence at(1/5, plus = 1)",
                    BLOCKS32 + "isolating(spans) on %always",
                    "attend dense until(%skipped) then pairs(%tiles) at_once")),
    Method("sparsed-no-isolation", selecting(lambda: pairs.Blocks("1/2", 32, isolating=False),
                                             pairs.at("1/5")),
           schedule("sparsed_no_isolation", SKIP, BLOCKS32 + "on %once",
                    "attend dense until(%once) then pairs(%tiles)")),
    Method("pooled-blocks", selecting(lambda: pairs.PooledBlocks("1/4", 16, isolating=False), pairs.every_after("1/5"),
                                      "sparse"),
           schedule("pooled_blocks", "%always = cadence every(1)",
                    "%skipped = cadence at(1/5, plus = 1)",
                    "%tiles = select blocks(keep = 1/4, size = 16) by mean_logit on %always",
                    "attend dense until(%skipped) then pairs(%tiles) at_once")),
    Method("pooled-spans", selecting(lambda: pairs.PooledBlocks("1/2", 32), pairs.uniform("3/10", 4)),
           schedule("pooled_spans", REFRESH,
                    "%tiles = select blocks(keep = 1/2, size = 32) by mean_logit isolating(spans) on %refresh",
                    "attend pairs(%tiles)")),
    Method("pooled-columns", selecting(lambda: pairs.PooledColumns("1/5", 32, shared=True), pairs.uniform("3/10", 4),
                                       "sparse"),
           schedule("pooled_columns", REFRESH,
                    "%cols = select columns(keep = 1/5, group = 32, per_kv_head) by mean_logit on %refresh",
                    "attend pairs(%cols) at_once")),
    Method("sliding-window", with_own_rule(lambda: pairs.Window(64)),
           schedule("sliding_window", "%near = window(64)", "attend pairs(%near)")),
    Method("streaming-llm", with_own_rule(lambda: pairs.Window(64, Fraction(1, 10))),
           schedule("streaming_llm", "%near = window(64)",
                    "%first = sinks(10 percent)",
                    "%pairs = union %near, %first", "attend pairs(%pairs)")),
    Method("streaming-llm-keys", with_own_rule(lambda: pairs.Window(64, 4)),
           schedule("streaming_llm_keys", "%near = window(64)", "%first = sinks(4)",
                    "%pairs = union %near, %first", "attend pairs(%pairs)")),
    Method("columns-in-blocks",
           with_own_rule(lambda: chunked.Refined("1/2", "1/4", 32, 16, pairs.every(8), pairs.every(4))),
           schedule("columns_in_blocks", "%seldom = cadence every(8)", "%often = cadence every(4)",
                    BLOCKS32 + "on %seldom",
                    "%fine = select columns(keep = 1/4, group = 16) by mean_probability within %tiles on %often",
                    "attend pairs(%fine)")),
]


def by_threshold(make, threshold=0.9, waste=False):
    return lambda steps, block, family: (make(), commit.Threshold(block or 32, threshold, waste))


def by_revoking(make):
    return lambda steps, block, family: (make(), commit.Revoking(commit.Best(block or 32, 4), 0.99999))


# The models are sure of what is not their first guess.
REVOKE = "commit best(4) revoke(below = 0.99999)"

def by_editing(make, rule=lambda block: commit.Best(block or 32, 8), above=0.05):
    return lambda steps, block, family: (make(), commit.Editing(rule(block), above, 3))


EDIT = "commit best(8) edit(above = 0.05, further = 3)"
BLOCK = "%start = cadence first(1) in block"
CACHED = ("reuse kv(before_rope)", "recompute all on %start", "recompute %rows",
          "attend dense")
PREFIX = ("%rows = positions from(block)", *CACHED)
DUAL = ("%rows = positions block", *CACHED)
OUTSIDE = ("%rows = positions block", "reuse kv, attention(outside = %rows, on = %start)", *CACHED[1:])


def refreshing(rows):
    return ("%rows = positions block", "%new = positions committed(last = 1)",
            f"reuse kv, attention(outside = %rows, on = %start, refresh = {rows})", *CACHED[1:])


CHANGED = refreshing("least_similar(keep = 3/8) in %rows")
EVICTED = ("%second = cadence at(step = 2) in block", "%rows = positions block",
           "%kept = select columns(keep = 1/2, group = all, per_layer) by mean_probability pooled(3) "
           "of %rows always %rows on %second",
           "reuse kv", "recompute all on %start", "recompute %rows",
           "attend dense until(%second) then pairs(%kept)")
# The block's first position comes from the full pass, and nothing else does.
FIRST_ALONE = ("%rows = positions block", *CACHED[:2], "recompute %rows alone",
               "attend dense", "%first = positions undecoded(first = 1)",
               "commit best(1) within(%first) on %start")

def in_blocks(*args):
    return replace(Method(*args), blocks=True)


FAST = [
    in_blocks("fast-dllm-prefix", lambda s, b, f: (cached.FastDllm(), commit.Quotas(s, b)),
           schedule("prefix", BLOCK, *PREFIX), LLADA),
    in_blocks("fast-dllm-dual", lambda s, b, f: (cached.FastDllm(True), commit.Quotas(s, b)),
           schedule("dual", BLOCK, *DUAL), LLADA),
    in_blocks("flashblock", lambda s, b, f: (cached.FlashBlock(), commit.Quotas(s, b)),
           schedule("flashblock", BLOCK, *OUTSIDE), LLADA),
    in_blocks("flashblock-parallel", by_threshold(cached.FlashBlock),
           schedule("flashblock_parallel", BLOCK, *OUTSIDE, "commit above(0.9)")),
    in_blocks("losa", lambda s, b, f: (cached.Losa("3/8"), commit.Quotas(s, b)),
           schedule("losa", BLOCK, *CHANGED), LLADA),
    in_blocks("losa-parallel", by_threshold(lambda: cached.Losa("3/8")),
           schedule("losa_parallel", BLOCK, *CHANGED, "commit above(0.9)")),
    in_blocks("losa-new", by_threshold(cached.Losa),
           schedule("losa_new", BLOCK, *refreshing("%new"), "commit above(0.9)")),
    in_blocks("sparse-dllm", lambda s, b, f: (evicted.Evicted("1/2"), commit.Quotas(s, b)),
           schedule("sparse_dllm", BLOCK, *EVICTED), LLADA),
    in_blocks("sparse-dllm-parallel", by_threshold(lambda: evicted.Evicted("1/2")),
           schedule("sparse_dllm_parallel", BLOCK, *EVICTED, "commit above(0.9)")),
    in_blocks("sparse-dllm.code", by_threshold(lambda: evicted.Evicted("1/2", logits=True)),
           schedule("sparse_dllm_code", BLOCK, *(line.replace("mean_probability", "mean_logit") for line in EVICTED),
                    "commit above(0.9)")),
    Method("prefilling-dllm", with_own_rule(lambda: chunked.Chunked("1/2", "1/2")),
           schedule("prefilling_dllm", "%start = cadence first(1)", "%response = positions response",
                    BLOCKS32 + "isolating(spans) on %start",
                    "%tokens = select columns(keep = 1/2, group = 16) by mean_probability always %response "
                    "within %tiles on %start",
                    "reuse kv", "recompute all on %start", "recompute %response", "attend pairs(%tokens)")),
    in_blocks("dual-cache-drift", lambda s, b, f: (drift.DriftingCache(0.9, 6), commit.Quotas(s, b)),
           schedule("dual_cache_drift", "%start = cadence drift(below = 0.9, within = 6) in block", *DUAL),
           LLADA),
    in_blocks("fast-dllm-parallel", by_threshold(pairs.Dense),
           schedule("parallel", "attend dense", "commit above(0.9)")),
    in_blocks("fast-dllm-prefix-parallel", by_threshold(cached.FastDllm),
           schedule("prefix_parallel", BLOCK, *PREFIX, "commit above(0.9)")),
    in_blocks("fast-dllm-dual-parallel", by_threshold(lambda: cached.FastDllm(True)),
           schedule("dual_parallel", BLOCK, *DUAL, "commit above(0.9)")),
    in_blocks("fast-dllm-dual-parallel.code", by_threshold(lambda: cached.FastDllm(True), waste=True),
           schedule("dual_parallel_code", BLOCK, *DUAL, "commit above(0.9) passes(at_least = 2)"),
           LLADA),
    in_blocks("fast-dllm-dual-parallel-dream.code",
           by_threshold(lambda: cached.FastDllm(True, first_alone=True), waste=True),
           schedule("dual_parallel_code", BLOCK, *FIRST_ALONE,
                    "commit above(0.9) passes(at_least = 2)"), DREAM),
    in_blocks("fast-dllm-dual-dream.code",
           lambda s, b, f: (cached.FastDllm(True, first_alone=True), commit.BlockTimesteps(s, b)),
           schedule("dual_code", BLOCK, *FIRST_ALONE, "commit timesteps"), DREAM, BLOCKS),
    in_blocks("even-dream", lambda s, b, f: (pairs.Dense(), commit.Quotas(s, b)),
           schedule("even", "attend dense", "commit even"), DREAM),
    Method("fast-dllm-whole-dream.code",
           lambda s, b, f: (pairs.Dense(), commit.EvenAbove(s, 0.9)),
           schedule("whole_code", "attend dense", "commit even_above(0.9)"), shapes=WHOLE),
    in_blocks("fast-dllm-factor", lambda s, b, f: (cached.FastDllm(True), commit.Factor(b or 32)),
           schedule("factor", BLOCK, *DUAL, "commit factor(1)")),
    in_blocks("fast-dllm-factor.code",
           lambda s, b, f: (cached.FastDllm(True), commit.Factor(b or 32, released=True)),
           schedule("factor_code", BLOCK, *DUAL, "commit factor(1, last_alone)")),
    in_blocks("revoke", by_revoking(pairs.Dense), schedule("revoke", "attend dense", REVOKE)),
    in_blocks("revoke-dual", by_revoking(lambda: cached.FastDllm(True)),
           schedule("revoke_dual", BLOCK, *DUAL, REVOKE)),
    in_blocks("revoke-shadow", by_revoking(pairs.Shadowed),
           schedule("revoke_shadow", "attend dense", "commit best(4) revoke(below = 0.99999, by = shadow)")),
    in_blocks("wino.code", lambda s, b, f: (pairs.Shadowed(), commit.Wino(b or 32, below=0.99999)),
           schedule("wino_code", "attend dense",
                    "commit above(0.6, strictly) at_most(share = 0.7, least = 5, most = 20) "
                    "revoke(below = 0.99999, by = shadow, fewer_than = step_before)")),
    in_blocks("entropy", lambda s, b, f: (pairs.Dense(), commit.EntropyBound(b or 32, 0.1)),
           schedule("entropy", "attend dense", "commit entropy(0.1)")),
    in_blocks("entropy-dual", lambda s, b, f: (cached.FastDllm(True), commit.EntropyBound(b or 32, 2)),
           schedule("entropy_dual", BLOCK, *DUAL, "commit entropy(2)")),
    in_blocks("edit", by_editing(pairs.Dense), schedule("edit", "attend dense", EDIT)),
    in_blocks("edit-dual", by_editing(lambda: cached.FastDllm(True)),
           schedule("edit_dual", BLOCK, *DUAL, EDIT)),
    in_blocks("edit-losa-new", by_editing(cached.Losa),
           schedule("edit_losa_new", BLOCK, *refreshing("%new"), EDIT)),
    in_blocks("edit-revoke", by_editing(
        pairs.Dense, lambda block: commit.Revoking(commit.Best(block or 32, 4), 0.99999), 0.3),
           schedule("edit_revoke", "attend dense",
                    "commit best(4) revoke(below = 0.99999) edit(above = 0.3, further = 3)")),
    Method("edit-quota", lambda steps, block, family:
           (pairs.Dense(), commit.Editing(own_rule(steps, block, family), 0.05, 2)),
           schedule("edit_quota", "attend dense", "commit quota edit(above = 0.05, further = 2)"),
           shapes=((32, 8, 16), (32, 16, 32))),
]


def drafted(name, drafts, make, *lines, rule="quota", stop=None, blocks=False, alone=lambda steps: ()):
    return replace(Method(name, make, schedule(name.replace("-", "_"), *lines,
                                               f"commit {rule} verify(drafts = {drafts})" + (" stop(eos)" if stop else ""))),
                   drafts=drafts, stop=stop, blocks=blocks, alone=alone)


VERIFIED = [
    drafted("verify", 3, with_own_rule(pairs.Dense), "attend dense"),
    drafted("verify-window", 5, with_own_rule(lambda: pairs.Window(64)), "%near = window(64)", "attend pairs(%near)"),
    drafted("verify-columns", 3, selecting(lambda: pairs.Columns("1/5", 32), pairs.uniform("3/10", 4)), REFRESH, COLUMNS,
            *ALWAYS, alone=pairs.uniform("3/10", 4)),
    drafted("verify-two", 2, lambda s, b, f: (pairs.Dense(), commit.Best(b or 32, 2)), "attend dense", rule="best(2)",
            blocks=True),
    drafted("verify-until-eos", 4, with_own_rule(pairs.Dense), "attend dense", stop="end"),
]


def greedy(released):
    def make(steps, block, family):
        rule = commit.Ordered(steps, block, commit.random_order(32, 0))
        return cached.DkvGreedy(rule, 4, 2, released), rule
    return make


def greedy_schedule(name, near):
    return schedule(name, "%again = cadence every(4) in block",
                    "%next = positions next", "%masked = positions undecoded",
                    f"%near = {near}(2) of %next in %masked",
                    "%new = positions committed(last = 1)",
                    "%rows = union %next, %near, %new",
                    "reuse kv(before_rope)", "recompute all on %again",
                    "recompute %rows", "attend dense", "commit random_order")


# The second pass also computes the last row, which predicts nothing.
UN = ("%second = cadence at(step = 2)", "%response = positions response",
      "%before = predicting %rows")
UN_ROWS = ("recompute %response on %second", "recompute %before alone")
# The last row, if the one before it is one of the rows.
WITH_LAST = ("%all = positions all", "%two = last(2) of %all", "%last = last(1) of %all",
             "%but_one = except %two, %last", "%flag = intersect %rows, %but_one",
             "%behind = neighbors(1) of %flag in %last", "%live = union %rows, %behind")
UNCOMMITTED = ("%masked = positions undecoded", "%new = positions committed(last = 1)",
               "%rows = union %masked, %new", "reuse kv(before_rope)")


def spans(name, some):
    """dLLM-Cache with periods 8 and 3; `some`: the response's rows in between."""
    return schedule(name, "%prompt = cadence every(8)", "%often = cadence every(3)",
                    "%response = positions response",
                    "reuse kv(before_rope), output, ffn",
                    "recompute all on %prompt and %often",
                    f"recompute {some} in all on %prompt",
                    "recompute %response on %often",
                    f"recompute {some} in %response", "attend dense")


SOME = "least_similar(keep = 1/4, among = %response)"

CACHES = [
    Method("dkv-decode", with_own_rule(lambda: cached.DkvDecode(8)),
           schedule("dkv_decode", "%begin = cadence first(2) in block",
                    "%again = cadence every(8) in block", *UNCOMMITTED,
                    "recompute all on %begin", "recompute all on %again",
                    "recompute %rows", "attend dense"), LLADA),
    Method("dkv-decode-dream", with_own_rule(lambda: cached.DkvDecode(4, warm=1)),
           schedule("dkv_decode", "%whole = cadence every(4)", *UNCOMMITTED,
                    "recompute all on %whole", "recompute %rows",
                    "attend dense"), DREAM, WHOLE),
    Method("dkv-decode-dream.code", with_own_rule(lambda: cached.DkvDecode(4, warm=1, shift="un")),
           schedule("dkv_decode_code", "%whole = cadence every(4)", *UNCOMMITTED,
                    *UN, "recompute all on %whole", *UN_ROWS, "attend dense"), DREAM, WHOLE),
    Method("dkv-decode-right-dream.code",
           with_own_rule(lambda: cached.DkvDecode(4, warm=1, shift="un_right")),
           schedule("dkv_decode_right_code", "%whole = cadence every(4)", *UNCOMMITTED, *WITH_LAST,
                    "recompute all on %whole", "recompute %live", "attend dense"), DREAM, WHOLE),
    Method("dkv-prefill", with_own_rule(cached.DkvPrefill),
           schedule("dkv_prefill", "%once = cadence first(1)",
                    "%rows = positions response", "reuse kv(before_rope)",
                    "recompute all on %once", "recompute %rows",
                    "attend dense")),
    Method("dkv-prefill-decode", with_own_rule(lambda: cached.DkvDecode(4, warm=1, prompt_once=True)),
           schedule("dkv_prefill_decode", "%once = cadence first(1)",
                    "%each = cadence every(4)", "%response = positions response",
                    *UNCOMMITTED, "recompute all on %once",
                    "recompute %response on %each", "recompute %rows",
                    "attend dense"), DREAM, WHOLE),
    Method("dkv-prefill-decode.code",
           with_own_rule(lambda: cached.DkvDecode(4, warm=1, shift="un", prompt_once=True)),
           schedule("dkv_prefill_decode_code", "%once = cadence first(1)",
                    "%each = cadence every(4)", *UNCOMMITTED, *UN, "recompute all on %once",
                    "recompute %response on %each", *UN_ROWS, "attend dense"), DREAM, WHOLE),
    Method("dkv-greedy", greedy(False), greedy_schedule("dkv_greedy", "neighbors"), LLADA),
    Method("dkv-greedy.code", greedy(True), greedy_schedule("dkv_greedy_code", "nearest"), LLADA),
    Method("dllm-cache", with_own_rule(lambda: dllm_cache.DllmCache(8, 3, "1/4")),
           spans("dllm_cache", "least_similar(keep = 1/4, among = %response)")),
    Method("dllm-cache-dream.code",
           with_own_rule(lambda: dllm_cache.DllmCache(8, 3, "1/4", frozen_before=True)),
           schedule("dllm_cache_dream_code", "%prompt = cadence every(8)", "%often = cadence every(3)",
                    "%response = positions response", "reuse kv(before_rope), output, ffn",
                    "recompute all on %prompt and %often", f"recompute {SOME} in all on %prompt",
                    "recompute %response on %often in layers(0)",
                    "recompute %response alone on %often",
                    f"recompute {SOME} in %response in layers(0)",
                    f"recompute {SOME} in %response alone", "attend dense"), DREAM),
    Method("dllm-cache-no-ratio", with_own_rule(lambda: dllm_cache.DllmCache(8, 3, "1/1000")),
           spans("dllm_cache_no_ratio", "least_similar(keep = 1/1000, among = %response)")),
    Method("dllm-cache-no-ratio.code", with_own_rule(lambda: dllm_cache.DllmCache(8, 3, 0)),
           spans("dllm_cache_no_ratio_code", "least_similar(keep = 0 percent, among = %response)")),
]


def dyllm_schedule(name, tau, whole, exact="salient", context="context(propagating)", alone="",
                   commits=()):
    return schedule(name, "%full = cadence first(4)", f"%whole = cadence every(4, {whole})",
                    "%response = positions response",
                    f"reuse kv, {context}, ffn", "recompute all on %full",
                    f"recompute {exact}(below = {tau}) in all on %whole",
                    f"recompute {exact}(below = {tau}) in %response{alone}",
                    "attend dense", *commits)


def dyllm_of(tau, **options):
    return with_own_rule(lambda: dyllm.DyLLM(tau, **options))


DYLLM = [
    Method("dyllm", dyllm_of(0.99), dyllm_schedule("dyllm", 0.99, "from = 5")),
    Method("dyllm-tight", dyllm_of(0.9), dyllm_schedule("dyllm_tight", 0.9, "from = 5")),
    in_blocks("dyllm-revoke", by_revoking(lambda: dyllm.DyLLM(0.99)),
           dyllm_schedule("dyllm_revoke", 0.99, "from = 5", commits=(REVOKE,))),
    in_blocks("dyllm-edit", by_editing(lambda: dyllm.DyLLM(0.99)),
           dyllm_schedule("dyllm_edit", 0.99, "from = 5", commits=(EDIT,))),
    Method("dyllm-drift", with_own_rule(lambda: drift.DriftingSaliency(0.99, 0.97, 9, 1)),
           schedule("dyllm_drift", "%start = cadence drift(below = 0.97, within = 9, layer = 1)",
                    "%response = positions response", "reuse kv, context(propagating), ffn",
                    "recompute all on %start", "recompute salient(below = 0.99) in %response",
                    "attend dense")),
    Method("dyllm.code", dyllm_of(0.99, whole="code"), dyllm_schedule("dyllm_code", 0.99, "from = 8"), LLADA),
    Method("dyllm-dream.code", dyllm_of(0.99, whole="code", own_first=True),
           dyllm_schedule("dyllm_code", 0.99, "from = 8", alone=" alone"), DREAM),
    Method("dyllm-ffn-only", dyllm_of(0.99, approximate=False),
           dyllm_schedule("dyllm_ffn_only", 0.99, "from = 5", "salient_ffn", "context")),
]


def by_noise(make, rule):
    return lambda steps, block, family: (make(), commit.renoised(rule(block or 32)))


def own_by_noise(make):
    return lambda steps, block, family: (make(), commit.renoised(own_rule(steps, block, family)))


RENOISED = [
    in_blocks("renoise", by_noise(pairs.Dense, lambda block: commit.Best(block, 4)),
           schedule("renoise", "attend dense", "commit best(4) renoise")),
    in_blocks("renoise-to-block", by_noise(cached.ToBlock, lambda block: commit.Threshold(block, 0.9)),
           schedule("renoise_to_block", BLOCK, "%before = positions before(block)", "%block = positions block",
                    "%both = union %before, %block", "%seen = fix %both on %start", "visible %seen", "attend dense",
                    "commit above(0.9) renoise")),
    Method("renoise-quota", own_by_noise(pairs.Dense), schedule("renoise_quota", "attend dense", "commit quota renoise"),
           shapes=((32, 16, 8), (32, 16, 32))),
    Method("renoise-columns", own_by_noise(lambda: pairs.Selecting(pairs.Columns("1/5", 32), pairs.uniform("3/10", 4))),
           schedule("renoise_columns", REFRESH, COLUMNS, *ALWAYS, "commit quota renoise"), shapes=((32, 16, 16), (32, 16, 32))),
    in_blocks("renoise-dual", by_noise(lambda: cached.FastDllm(True), lambda block: commit.EntropyBound(block, 0.1)),
           schedule("renoise_dual", BLOCK, *DUAL, "commit entropy(0.1) renoise")),
    in_blocks("renoise-dkv", by_noise(lambda: cached.DkvDecode(4, warm=1), lambda block: commit.Best(block, 3)),
           schedule("renoise_dkv", "%whole = cadence every(4) in block", *UNCOMMITTED,
                    "recompute all on %whole", "recompute %rows", "attend dense", "commit best(3) renoise")),
    in_blocks("renoise-losa", by_noise(cached.Losa, lambda block: commit.Best(block, 3)),
           schedule("renoise_losa", BLOCK, "%masked = positions undecoded", "%made = positions committed(last = 1)",
                    "%changed = union %masked, %made", "%rows = positions block",
                    "reuse kv, attention(outside = %rows, on = %start, refresh = %changed)", *CACHED[1:],
                    "commit best(3) renoise")),
    in_blocks("renoise-edit-revoke", by_noise(
        pairs.Dense, lambda block: commit.Editing(commit.Revoking(commit.Best(block, 4), 0.1), 0.3, 3)),
           schedule("renoise_edit_revoke", "attend dense",
                    "commit best(4) revoke(below = 0.1) edit(above = 0.3, further = 3) renoise")),
    in_blocks("dyllm-renoise", by_noise(lambda: dyllm.DyLLM(0.99), lambda block: commit.Best(block, 2)),
           dyllm_schedule("dyllm_renoise", 0.99, "from = 5", commits=("commit best(2) renoise",))),
    drafted("renoise-verify", 3, own_by_noise(pairs.Dense), "attend dense", rule="quota renoise"),
]


def moving(external, internal, phase, *lines):
    """A schedule with a moving window; %rows: what its steps compute."""
    return (f"%phase = cadence every({phase})", "%decoded = positions decoded",
            f"%external = positions undecoded(first = {external})",
            f"%active = positions undecoded(first = {internal})",
            "%recent = positions committed(since = %phase)",
            "%seen = union %decoded, %external",
            "%window = fix %seen on %phase",
            "%rows = union %active, %recent", "visible %window",
            "recompute all on %phase", *lines)


def window_diffusion(external, internal, phase, stop=""):
    return schedule("window_diffusion", *moving(
        external, internal, phase, "reuse kv", "recompute %rows", "attend dense",
        f"commit quota within(%active){stop}"))


# The text's last position, unless there is a sixth mask: then it is that one's neighbour.
OPEN_END = ("%five = positions undecoded(first = 5)", "%sixth = except %active, %five",
            "%masked = positions undecoded", "%text = union %decoded, %masked",
            "%last = last(1) of %text",
            "%near = neighbors(1) of %sixth in %last", "%open = except %last, %near")
DREAM_STRETCH = [
    "%decoded = positions decoded", "%external = positions undecoded(first = 19)",
    "%active = positions undecoded(first = 6)",
    "%first = positions undecoded(first = 1)",
    "%kept = union %decoded, %external",
    "%front = leading %kept", "%prefix = fix %front on %phase",
    "%begin = fix %first on %phase", *OPEN_END, "%ends = union %begin, %active, %open",
    "%rows = hull %ends", "%seen = union %prefix, %rows",
    "visible %seen", "reuse kv", "recompute all on %phase",
    "recompute %rows alone", "attend dense",
]


def released_dream(early_stop=False):
    def make(steps, block, family):
        method = cached.WindowDiffusionDream(20, 6, 8, early_stop)
        return method, commit.WindowTimesteps(steps, method)
    return make


WINDOWS = [
    Method("window-diffusion", with_own_rule(lambda: cached.WindowDiffusion(20, 6, 8)),
           window_diffusion(20, 6, 8), shapes=WHOLE),
    Method("window-diffusion-adaptive", with_own_rule(lambda: cached.WindowDiffusion(20, 6, 8)),
           window_diffusion(20, 6, 8, " stop(eos, narrowing)"), shapes=WHOLE, stop="narrow"),
    Method("window-diffusion-stop", with_own_rule(lambda: cached.WindowDiffusion(20, 6, 8)),
           window_diffusion(20, 6, 8, " stop(eos)"), shapes=WHOLE, stop="end"),
    Method("window-diffusion-no-cache", with_own_rule(lambda: cached.WindowDiffusion(16, 16, 1)),
           window_diffusion(16, 16, 1), shapes=WHOLE),
    # The internal window goes on behind the external one, in each phase.
    Method("window-diffusion.code", with_own_rule(lambda: cached.WindowDiffusionLlada(8, 6, 8)),
           schedule("window_diffusion_code", "%phase = cadence every(8)",
                    "%after = cadence every(8, from = 2)",
                    "%decoded = positions decoded",
                    "%external = positions undecoded(first = 8)",
                    "%active = positions undecoded(first = 6)",
                    "%last = positions committed(last = 1)",
                    "%recent = positions committed(since = %after)",
                    "%seen = union %decoded, %external",
                    "%window = fix %seen on %after",
                    "%first = union %active, %last",
                    "%rows = union %active, %recent",
                    "visible all on %phase then %window", "reuse kv",
                    "recompute all on %phase", "recompute %first on %after",
                    "recompute %rows unseen", "attend dense",
                    "commit quota on %phase", "commit quota within(%active)"),
           LLADA, WHOLE),
    Method("window-diffusion-dream.code", released_dream(),
           schedule("window_diffusion_code", "%phase = cadence every(8)",
                    *DREAM_STRETCH, "commit best(1) within(%first) on %phase",
                    "commit quota within(%rows)"),
           DREAM, WHOLE),
    Method("window-diffusion-adaptive-dream.code", released_dream(True),
           schedule("window_diffusion_code", "%phase = cadence every(8) or after eos",
                    *DREAM_STRETCH, "commit best(1) within(%first) on %phase",
                    "commit best(1) within(%rows) stop(eos, narrowing)"),
           DREAM, WHOLE[:1]),  # one token a step
]


IN_PHASE = "%cols = select columns(keep = 1/5, group = 16) by mean_probability on %phase"
PROPAGATING = "reuse kv, context(propagating), ffn"
SALIENT = "recompute salient(below = 0.99) in %rows"
WITHIN = "commit quota within(%active)"

COMPOSED = [
    Method("columns-in-window",
           with_own_rule(lambda: composed.Composed((20, 6, 8), pairs.Columns("1/5", 16))),
           schedule("columns_in_window", *moving(
               20, 6, 8, IN_PHASE, "reuse kv", "recompute %rows",
               "attend pairs(%cols)", WITHIN)), shapes=WHOLE),
    Method("columns-saliency",
           with_own_rule(lambda: composed.Composed(columns=pairs.Columns("1/5", 32), tau=0.99,
                                                   cadence=pairs.uniform("3/10", 4))),
           schedule("columns_saliency", REFRESH, COLUMNS, "%full = cadence first(4)",
                    "%whole = cadence every(4, from = 5)",
                    "%response = positions response", PROPAGATING,
                    "recompute all on %full",
                    "recompute salient(below = 0.99) in all on %whole",
                    "recompute salient(below = 0.99) in %response",
                    "attend pairs(%cols)")),
    Method("window-saliency", with_own_rule(lambda: composed.Composed((20, 6, 8), tau=0.99, full=1)),
           schedule("window_saliency", *moving(
               20, 6, 8, PROPAGATING, SALIENT, "attend dense", WITHIN)), shapes=WHOLE),
    Method("columns-window-saliency",
           with_own_rule(lambda: composed.Composed((20, 6, 8), pairs.Columns("1/5", 16),
                                                   tau=0.99, full=1)),
           schedule("columns_window_saliency", *moving(
               20, 6, 8, IN_PHASE, PROPAGATING, SALIENT, "attend pairs(%cols)", WITHIN)),
           shapes=WHOLE),
    in_blocks("focus-dllm",
              by_threshold(lambda: composed.PastConfidence(pairs.Columns("1/5", 16), 1, 3, 2, 2)),
              schedule("focus_dllm", BLOCK, "%block = positions block",
                       "%sure = confident(2) of %block", "%near = neighbors(2) of %sure in %block",
                       "%left = positions undecoded(first = 1)", "%new = positions committed(last = 1)",
                       "%rows = union %sure, %near, %left, %new",
                       "%cols = select columns(keep = 1/5, group = 16) by mean_probability on %start "
                       "in layers(1)", "%first = sinks(3)", "%pairs = union %cols, %first",
                       "reuse kv", "recompute all on %start", "recompute %rows",
                       "attend dense in layers(0)", "attend pairs(%pairs)", "commit above(0.9)")),
    in_blocks("d2-cache", by_threshold(lambda: cached.MostCertain(3, 2)),
              schedule("d2_cache", BLOCK, "%masked = positions undecoded",
                       "%sure = confident(3, near = 2) of %masked",
                       "%left = positions undecoded(first = 1)", "%new = positions committed(last = 1)",
                       "%rows = union %sure, %left, %new", "reuse kv", "recompute all on %start",
                       "recompute %rows", "attend dense", "commit above(0.9)")),
    in_blocks("d2-cache-attended", lambda s, b, f: (cached.MostCertain(3, 2, Fraction(1, 10)),
                                                    commit.lifted(commit.Threshold(b or 32, 0.5), 2)),
              schedule("d2_cache_attended", BLOCK, "%masked = positions undecoded",
                       "%sure = confident(3, near = 2) of %masked",
                       "%left = positions undecoded(first = 1)", "%new = positions committed(last = 1)",
                       "%certain = union %sure, %left, %new", "%all = positions all",
                       "%others = except %all, %certain",
                       "%drawing = attended(share = 1/10) of %others",
                       "%rows = union %certain, %drawing", "reuse kv", "recompute all on %start",
                       "recompute %rows", "attend dense", "commit above(0.5) near(2)")),
    Method("certainty-prior", lambda s, b, f: (pairs.Dense(), commit.lifted(own_rule(s, b, f), 2)),
           schedule("certainty_prior", "attend dense", "commit quota near(2)")),
    in_blocks("certainty-prior-above", lambda s, b, f: (pairs.Dense(), commit.lifted(commit.Threshold(b or 32, 0.5), 3)),
              schedule("certainty_prior_above", "attend dense", "commit above(0.5) near(3)")),
    in_blocks("certainty-prior-best", lambda s, b, f: (pairs.Dense(), commit.lifted(commit.Best(b or 32, 2), 10)),
              schedule("certainty_prior_best", "attend dense", "commit best(2) near(10)")),
    in_blocks("mage", lambda s, b, f: (composed.BlockColumns(pairs.Columns(24, 16)),
                                       commit.Quotas(s, b)),
              schedule("mage", BLOCK, "%block = positions block",
                       "%cols = select columns(keep = 24, group = 16) by mean_probability on %start",
                       "reuse kv", "recompute all on %start", "recompute %block",
                       "attend pairs(%cols)"), LLADA),
    Method("columns-fewer-later",
           with_own_rule(lambda: pairs.Stages(
               pairs.Selecting(pairs.Columns("1/2", 32), pairs.uniform("1/2", 3)), pairs.at("1/3"),
               pairs.Selecting(pairs.Columns(9, 32), pairs.uniform("1/2", 2)))),
           schedule("columns_fewer_later", "%three = cadence uniform(window = 1/2, count = 3)",
                    "%two = cadence uniform(window = 1/2, count = 2)", "%third = cadence at(1/3)",
                    "%more = select columns(keep = 1/2, group = 32) by mean_probability on %three",
                    "%less = select columns(keep = 9, group = 32) by mean_probability on %two",
                    "attend pairs(%more) until(%third) then pairs(%less)")),
    Method("columns-across-layers",
           selecting(lambda: pairs.Columns("1/5", 32), pairs.uniform("3/10", 4), layers=(0, 2)),
           schedule("columns_across_layers", REFRESH, COLUMNS + " in layers(0, 2)",
                    "attend pairs(%cols)")),
    Method("blocks-across-layers",
           selecting(lambda: pairs.Blocks("1/2", 32), pairs.every_after("1/5"), "sparse", (0, 1, 3)),
           schedule("blocks_across_layers", "%always = cadence every(1)",
                    "%skipped = cadence at(1/5, plus = 1)",
                    BLOCKS32 + "isolating(spans) on %always in layers(0 to 1, 3)",
                    "attend dense until(%skipped) then pairs(%tiles) at_once")),
    Method("by-layer",
           with_own_rule(lambda: composed.ByLayer(
               pairs.pulsecol("1/5", 32, "3/10", 4), (0, 0, pairs.Dense()), (-1, -1, pairs.Window(64)))),
           schedule("by_layer", REFRESH, COLUMNS, "%near = window(64)",
                    "attend dense in layers(0)", "attend pairs(%near) in layers(-1)",
                    "attend pairs(%cols)")),
]

# Of the block what is masked, and what the last pass committed.
LIVE = ("%block = positions block", "%masked = positions undecoded",
        "%new = positions committed(last = 1)", "%both = union %masked, %new",
        "%live = intersect %block, %both")


def by_layer(name, make, *statements, rule=by_threshold, commits="above(0.9)"):
    return in_blocks(name, rule(make),
                     schedule(name.replace("-", "_"), BLOCK, *LIVE, "recompute all on %start",
                              *statements, "attend dense", f"commit {commits}"))


def two_by_two(make):
    return lambda steps, block, family: (make(), commit.Best(block or 32, 2))


def elastic(name, early, late, weighs=False):
    """A window of masks; all rows from layer -3, or in the last one, once it has drifted."""
    of = "attention, " if weighs else ""
    bounds = ((-3, float(early)), (-1, float(late)))
    return Method(
        name, with_own_rule(lambda: drift.SlidingWindow(8, 9, bounds, weighs)),
        schedule(name.replace("-", "_"), "%first = cadence first(1)",
                 f"%early = cadence drift({of}below = {early}, within = 9, layer = -3)",
                 f"%late = cadence drift({of}below = {late}, within = 9)",
                 "%window = positions undecoded(first = 8)", "%new = positions committed(last = 1)",
                 "%rows = union %window, %new", "reuse kv, output, ffn", "recompute all on %first",
                 "recompute all on %early in layers(-3 to -1)", "recompute all on %late in layers(-1)",
                 "recompute %rows", "commit quota within(%window)", "attend dense"))


LAYERED = [
    by_layer("early-layers", lambda: layered.early(2, None), "reuse kv",
             "recompute %block in layers(0 to 1)", "recompute %live"),
    by_layer("early-layers-similar", lambda: layered.early(1, ("similar", "1/2", ()), "output"),
             "reuse kv in layers(0)", "reuse kv, output, ffn", "recompute %block in layers(0)",
             "recompute least_similar(keep = 1/2, among = %block) in %block"),
    by_layer("early-layers-salient", lambda: layered.early(2, ("salient", 0.99), "context"),
             "reuse kv, context, ffn", "recompute %block in layers(0 to 1)",
             "recompute salient(below = 0.99) in %block"),
    by_layer("early-layers-ending", lambda: layered.skipping((1, 2), "1/2"), "reuse kv",
             "%first = positions undecoded(first = 1)", "%kept = union %first, %new",
             "%others = except %block, %kept",
             "recompute least_similar(keep = 1/2, among = %others) in %block in layers(1 to 2)",
             "recompute %block"),
    elastic("elastic-cache", "0.97", "0.98", weighs=True),
    elastic("elastic-cache-values", "0.95", "0.99"),
    by_layer("early-layers-confident", lambda: layered.skipping((1, 2), "1/4", 2), "reuse kv",
             "%first = positions undecoded(first = 1)", "%sure = confident(2) of %block",
             "%kept = union %first, %new, %sure", "%others = except %block, %kept",
             "recompute least_similar(keep = 1/4, among = %others) in %block in layers(1 to 2)",
             "recompute %block", rule=two_by_two, commits="best(2)"),
    by_layer("early-layers-weighted", lambda: layered.skipping((1, 2), "1/4", 0, "1/2"), "reuse kv",
             "%first = positions undecoded(first = 1)", "%kept = union %first, %new",
             "%others = except %block, %kept",
             "recompute least_similar(keep = 1/4, among = %others, confidence = 1/2) in %block "
             "in layers(1 to 2)", "recompute %block", rule=two_by_two, commits="best(2)"),
    by_layer("outer-layers", lambda: layered.outer("output"), "reuse kv, output, ffn",
             "recompute %block in layers(0, -1)", "recompute %live"),
]

ALL = PAIRS + FAST + VERIFIED + CACHES + DYLLM + RENOISED + WINDOWS + COMPOSED + LAYERED
BY_NAME = {method.name: method for method in ALL}
