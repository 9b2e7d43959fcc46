# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tables of the papers in miniature: which schedules each compares."""

from ..schedule import all_positions, at, attend, commit, every, recompute, response, reuse, schedule, sinks as first, uniform
from ..schedule import blocks as block_pairs, columns as column_pairs, window as near

KEEP = ("1/2", "3/10", "1/5", "1/10")


# What no preset says. A table shows a function's name and its arguments, as it does those of a preset.
def window(keys, sinks=0):
    """Near keys alone, and the first ones."""
    return schedule("window", attend(near(keys) | first(sinks) if sinks else near(keys)))


def columns(above):
    """Columns that are chosen twice, and all tokens that are sure enough at once."""
    form = attend(column_pairs(keep="1/5", group=64), refresh=uniform("3/10", 2))
    return schedule("columns", form, commit("above", above))


def blocks(above):
    """Blocks that are chosen once, and all tokens that are sure enough at once."""
    once = at("1/16")
    form = attend(block_pairs(keep="3/10", isolating="spans"), refresh=once, until=once)
    return schedule("blocks", form, commit("above", above))


def _keeps(name, **more):
    return [(name, {"keep": keep, **more}) for keep in KEEP]


def _windows(length):
    """Near keys alone, of the width at which as many pairs are computed."""
    return [(window, {"keys": max(2, int(length * int(keep[0]) / int(keep[2:])))}) for keep in KEEP]


def pulsecol(length):
    """Accuracy by method and share of keys that is kept. StreamingLLM, whose share is its width's, has the 256 keys of the
    papers' short prompts, and their half of long ones (SparseD, appendix, table 4)."""
    return [("dense", {}), *_keeps("pulsecol"), *_keeps("sparsed"), *_windows(length),
            ("streaming-llm", {}), ("streaming-llm", {"size": length // 2})]


def pulsecol_ablations(length):
    """Rows of a group, refreshes, the refreshes' part of the run, kinds of cadence."""
    return [("dense", {}), *[("pulsecol", {"group": n}) for n in (16, 64, 128)],
            *[("pulsecol", {"count": n}) for n in (1, 2, 4, 8, 16)],
            *[("pulsecol", {"window": part}) for part in ("1/10", "1/2", "1")],
            ("pulsecol-power", {}), ("pulsecol-random", {}), ("columns-once", {})]


def sparsed(length):
    """Share of blocks, their size, when they are chosen, prompt and response together, at
    every step."""
    skips = [("sparsed", {"skip": skip}) for skip in ("1/20", "1/10", "3/10", "1/2")]
    return [("dense", {}), *_keeps("sparsed"), *[("sparsed", {"size": n}) for n in (16, 32, 64)],
            *skips, ("sparsed", {"keep": "1/2", "size": 32}), ("sparsed-no-isolation", {}), ("sparsed-no-reuse", {}),
            ("sparsed-released", {})]


def dyllm(length):
    """The cosine below which a row is computed anew, and what becomes of the others."""
    return [("dense", {}),
            *[("dyllm", {"below": x}) for x in ("0.8", "0.9", "0.95", "0.98", "0.99", "0.995", "0.999")],
            ("dyllm-no-propagation", {}), ("dyllm-ffn-only", {}), ("dyllm", {"from": 8})]


def window_diffusion(length):
    """The masked positions that exist, and how often the window moves."""
    wide = [("window-diffusion", {"external": n}) for n in (16, 32, 128)]
    phases = [("window-diffusion", {"phase": n}) for n in (4, 8, 16)]
    return [("dense", {}), ("window-diffusion", {}), *wide, *phases,
            ("window-diffusion-adaptive", {}), ("window-diffusion-released", {})]


def composed(length):
    """Compositions beside what they are made of."""
    return [(name, {}) for name in
            ("dense", "pulsecol", "sparsed", "dyllm", "window-diffusion", "fast-dllm-dual",
             "columns-window-sinks", "columns-in-window", "columns-saliency", "window-saliency",
             "columns-window-saliency", "blocks-dual-cache", "per-layer")]


def parallel(length):
    """All tokens that are sure enough at once: with dense attention, columns, blocks, caches."""
    sure = ("0.9", "0.95", "0.98", "0.99")
    return [("dense", {}), ("pulsecol", {}), ("pulsecol", {"count": 2}),
            *[("fast-dllm-parallel", {"threshold": x}) for x in sure],
            *[(form, {"above": x}) for form in (columns, blocks) for x in sure],
            ("fast-dllm-dual-parallel", {}), ("blocks-dual-cache", {})]


def cards(length):
    """What the cards of the short models in models/ have: columns chosen over and over or at step 1 alone, windows."""
    return [("dense", {}), ("pulsecol", {"keep": "1/2"}), ("pulsecol", {"keep": "1/5"}), ("pulsecol", {"count": 1}),
            (window, {"keys": 64}), (window, {"keys": 60, "sinks": 4})]


def response_cache(period):
    """The response at each step, and all rows at every few."""
    return schedule("response_cache", reuse("kv"), recompute(all_positions, on=every(period)), recompute(response), attend())


def caches(length):
    """How old the prompt's keys and values may be."""
    return [(response_cache, {"period": n}) for n in (1, 2, 3, 4, 8)]


def dyllm_limit(length):
    """DyLLM as its threshold nears 1, without its correction, with exact attention, and a cache as old as its."""
    return [("dense", {}), *[("dyllm", {"below": x}) for x in ("0.8", "0.9999", "0.999999", "1")],
            ("dyllm-no-propagation", {}), ("dyllm-ffn-only", {}), (response_cache, {"period": 4})]


def drift(length):
    """Refreshes by drift beside as many at fixed steps: early in the run, and all through it. Of long contexts so few keys
    are kept that refreshes matter."""
    keeps = ("1/20", "1/10") if length >= 2048 else ("1/5", "3/10")
    fixed = [{"window": part, "count": n} for part in ("3/10", "1") for n in (1, 2, 4, 8)]
    return [("dense", {}), *[(name, {"keep": keep, **more}) for keep in keeps for name, each in (
        ("pulsecol", fixed), ("pulsecol-drift", [{"below": x} for x in ("0.8", "0.9", "0.95", "0.98", "1")]))
        for more in each]]


def answers(length):
    """Dense attention and PulseCol, for many examples."""
    return [("dense", {}), ("pulsecol", {}), ("pulsecol", {"keep": "3/10"})]


def lengths(length):
    """Of each kind of pattern one, for contexts longer than a model was trained on."""
    return [("dense", {}), ("pulsecol", {}), ("pulsecol", {"count": 2}), ("sparsed", {"keep": "3/10"}),
            ("streaming-llm", {"size": length // 2})]


TABLES = {"pulsecol": pulsecol, "pulsecol-ablations": pulsecol_ablations, "sparsed": sparsed,
          "dyllm": dyllm, "dyllm-limit": dyllm_limit, "window": window_diffusion, "composed": composed,
          "parallel": parallel, "cards": cards, "caches": caches, "drift": drift, "answers": answers,
          "lengths": lengths}
#: Those that say something of tasks that have a length, and of no others.
OF_LENGTHS = ("lengths",)
