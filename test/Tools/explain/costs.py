#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is explained of a run's cost before it is made is what heddle-run counts.

usage: costs.py HEDDLEC HEDDLE_BUNDLE HEDDLE_RUN EXAMPLES MODEL FOLDER

Compiles schedules of different axes, runs each with the model and compares rows, pairs,
operations and bytes of `heddle-bundle dump --explain-json` with those of `heddle-run --json`: equal where
the explanation says "exact", no more than it says where it says "at_most". Then explains the run
once more with what it found fed back (--follow, the log of --steps-json: which tokens each step
committed and how many rows each layer found to have changed): equal, but for unions of lists and
windows, which keep "at_most". So it does of runs with classifier-free guidance.
"""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from heddle_reference import contrary  # noqa: E402

HEDDLEC, HEDDLE_BUNDLE, HEDDLE_RUN, EXAMPLES, MODEL, FOLDER = map(pathlib.Path, sys.argv[1:])
LENGTHS = ["--gen-length", "64", "--steps", "32", "--block-length", "16"]
PROMPT = 64
FIELDS = ["query_rows", "key_rows", "value_rows", "pairs", "score_pairs", "lse_pairs",
          "projected_rows", "ffn_rows", "logit_rows", "operations"]

# Schedule -> what its explanation must say, before and after the run.
SCHEDULES = {
    "dense": ("exact", "exact"),
    "pulsecol": ("exact", "exact"),
    "pulsecol-shared": ("exact", "exact"),
    "sparsed --set=keep=1/2 --set=size=32": ("exact", "exact"),
    "sparsed-no-reuse": ("at_most", "at_most"),
    "streaming-llm": ("exact", "exact"),
    "pulsecol-drift --set=within=9": ("about", "exact"),
    "dual-cache-drift --set=within=5": ("about", "exact"),
    "elastic-cache --set=within=7 --set=early=-5 --set=late=-3 --set=window=6": ("about", "exact"),
    "per-layer": ("exact", "exact"),
    "fast-dllm-prefix": ("exact", "exact"),
    "fast-dllm-dual": ("exact", "exact"),
    "flashblock": ("exact", "exact"),
    "losa": ("exact", "exact"),
    "sparse-dllm": ("exact", "exact"),
    "prefilling-dllm --set=chunks=1": ("exact", "exact"),
    "dkv-cache-decode": ("exact", "exact"),
    "dllm-cache": ("exact", "exact"),
    "window-diffusion": ("exact", "exact"),
    "columns-in-window": ("exact", "exact"),
    "dkv-cache-greedy": ("exact", "exact"),
    "focus-dllm --set=dense=0 --set=chooser=1 --set=likely=3 --set=near=2": ("about", "at_most"),
    "d2-cache --set=count=4 --set=near=3": ("about", "exact"),
    "dyllm": ("at_most", "exact"),
    "fast-dllm-dual-parallel": ("at_most", "exact"),
    "renoise": ("at_most", "exact"),
    "columns-window-sinks": ("at_most", "at_most"),
}

# The same of schedules that are no example: runs that take more steps than planned.
TEXTS = {
    "columns-in-blocks": ("%seldom = cadence every(8)  %often = cadence every(4)  %t = select blocks(keep = 1, size = 32) by "
                          "mean_probability isolating(spans) on %seldom  %s = select columns(keep = 0.3, group = 16) by "
                          "mean_probability within %t on %often  attend pairs(%s)", "exact", "exact"),
    "pooled": ("%c = cadence every(1)  %t = select blocks(keep = 1/4, size = 16) by mean_logit on %c  "
               "attend pairs(%t) at_once", "exact", "exact"),
    "pooled-within": ("%c = cadence every(3)  %t = select blocks(keep = 1/2, size = 32) by mean_logit isolating(spans) on %c  "
                      "%s = select columns(keep = 1/2, group = 16) by mean_logit within %t on %c  attend pairs(%s)",
                      "exact", "exact"),
    "both-scorers": ("%some = cadence every(4)  %each = cadence every(1)  "
                     "%t = select blocks(keep = 1/2, size = 32) by mean_probability isolating(spans) on %some  "
                     "%s = select columns(keep = 1/2, group = 16) by mean_logit within %t on %each  attend pairs(%s) at_once",
                     "exact", "exact"),
    "shares-above": ("%s = sinks(3)  commit even_above(0.7)  attend pairs(%s)", "at_most", "exact"),
    "waits": ("%phase = cadence every(6)  %next = positions undecoded(first = 3)  %known = positions decoded  "
              "%all = union %known, %next  %window = fix %all on %phase  visible %window  attend dense", "exact", "exact"),
    "gaps": ("%w = window(9, dilation = 3)  %r = random_blocks(one_in = 3, size = 5, seed = 2)  %s = sinks(0.02)  "
             "%p = union %w, %r, %s  attend pairs(%w) in layers(0)  attend pairs(%p)", "exact", "exact"),
    "others": ("%w = window(20)  %o = others  %b = intersect %w, %o  attend pairs(%o) in layers(0)  attend pairs(%b)", "exact", "exact"),
    "gaps-of-some": ("%start = cadence every(5)  %block = positions block  %known = positions decoded  "
                     "%near = nearest(3) of %block in %known  %rows = union %block, %near  %w = window(40, dilation = 7)  "
                     "reuse kv  recompute all on %start  recompute %rows  attend pairs(%w)", "exact", "exact"),
    "gaps-in-window": ("%phase = cadence every(6)  %next = positions undecoded(first = 9)  %some = positions undecoded(first = 3)  "
                       "%known = positions decoded  %all = union %known, %next  %window = fix %all on %phase  visible %window  "
                       "%w = window(30, dilation = 4)  %r = random_blocks(one_in = 2, size = 3)  %p = union %w, %r  "
                       "commit quota within(%some)  attend pairs(%p)", "exact", "exact"),
    "both": ("%w = window(30, dilation = 3)  %r = random_blocks(one_in = 2, size = 5)  %s = sinks(70)  %n = window(9)  "
             "%u = union %n, %r  %i = intersect %w, %r  %j = intersect %u, %s  %p = union %i, %n  "
             "attend pairs(%p) in layers(0)  attend pairs(%j)", "exact", "exact"),
    "lists-in-others": ("%c = cadence every(8)  %a = select columns(keep = 0.5, group = 16) by mean_probability on %c  "
                        "%b = select blocks(keep = 0.5, size = 32) by mean_probability on %c  %w = window(40)  %s = sinks(9)  "
                        "%u = union %w, %s  %i = intersect %a, %u  %j = intersect %b, %w  %t = union %j, %s  "
                        "attend pairs(%i) in layers(0)  attend pairs(%t)", "at_most", "at_most"),
    "always": ("%first = cadence first(1)  %p = positions prompt  "
               "%c = select columns(keep = 1/4, group = all) by mean_probability of %p always %p on %first  "
               "attend dense until(%first) then pairs(%c)", "exact", "exact"),
    "refreshed-rows": ("%start = cadence first(1) in block  %block = positions block  %new = positions committed(last = 1)  "
                       "reuse kv, attention(outside = %block, on = %start, refresh = %new)  recompute all on %start  "
                       "recompute %block  attend dense", "exact", "exact"),
    "unseen": ("%phase = cadence every(8)  %after = cadence every(8, from = 2)  %known = positions decoded  "
               "%next = positions undecoded(first = 3)  %active = positions undecoded(first = 5)  %all = union %known, %next  "
               "%window = fix %all on %after  visible all on %phase then %window  reuse kv  recompute all on %phase  "
               "recompute %active unseen  commit quota on %phase  commit quota within(%active)  attend dense",
               "exact", "exact"),
    "layers": ("%start = cadence first(1) in block  %block = positions block  %masked = positions undecoded  "
               "%new = positions committed(last = 1)  %both = union %masked, %new  %live = intersect %block, %both  "
               "%w = window(40)  reuse kv, output, ffn in layers(3)  reuse kv  recompute all on %start  "
               "recompute %block in layers(0 to 1)  recompute %live  attend dense in layers(1)  attend pairs(%w)",
               "about", "exact"),
    "layers-outer": ("%start = cadence first(1) in block  %block = positions block  %some = positions undecoded  "
                     "%few = intersect %block, %some  reuse kv, context(propagating), ffn  recompute all on %start  "
                     "recompute %block in layers(0, -1)  recompute %few  attend dense", "exact", "exact"),
    "layers-ending": ("%start = cadence first(1) in block  %block = positions block  %left = positions undecoded(first = 1)  "
                      "%others = except %block, %left  reuse kv  recompute all on %start  "
                      "recompute least_similar(keep = 1/2, among = %others) in %block in layers(1, 3)  "
                      "recompute %block  attend dense", "about", "exact"),
    "layers-salient": ("%start = cadence first(1) in block  %block = positions block  reuse kv in layers(0)  "
                       "reuse kv, context, ffn  recompute all on %start  recompute %block in layers(0 to 1)  "
                       "recompute salient(below = 0.99) in %block  attend dense", "at_most", "exact"),
    "renoised": ("commit best(3) renoise  attend dense", "at_most", "exact"),
    "renoised-cached": ("%start = cadence first(1) in block  %masked = positions undecoded  %new = positions committed(last = 1)  "
                        "%rows = union %masked, %new  reuse kv  recompute all on %start  recompute %rows  "
                        "commit entropy(2) renoise  attend dense", "at_most", "exact"),
    "renoised-salient": ("%start = cadence first(1) in block  %rows = positions from(block)  reuse kv, context, ffn  "
                         "recompute all on %start  recompute salient(below = 0.99) in %rows  "
                         "commit best(4) renoise  attend dense", "at_most", "exact"),
    "renoised-verified": ("commit quota renoise verify(drafts = 3)  attend dense", "about", "exact"),
    "drift-of-attention": ("%refresh = cadence drift(attention, below = 0.9, within = 7, layer = 2)  "
                           "%cols = select columns(keep = 1/5, group = 16) by mean_probability on %refresh  "
                           "attend pairs(%cols)", "about", "exact"),
    "salient-drift-of-attention": ("%start = cadence drift(attention, below = 0.9, within = 7, layer = 1)  %rows = positions response  "
                                   "reuse kv, context(propagating), ffn  recompute all on %start  "
                                   "recompute salient(below = 0.99) in %rows  attend dense", "about", "exact"),
    "confident": ("%start = cadence first(1) in block  %block = positions block  %left = positions undecoded(first = 1)  "
                  "%sure = confident(3) of %block  %near = neighbors(1) of %sure in %block  %rows = union %left, %sure, %near  "
                  "reuse kv  recompute all on %start  recompute %rows  attend dense", "about", "exact"),
    "near": ("%start = cadence first(1) in block  %masked = positions undecoded  %left = positions undecoded(first = 1)  "
             "%sure = confident(3, near = 4) of %masked  %new = positions committed(last = 1)  %rows = union %left, %sure, %new  "
             "reuse kv  recompute all on %start  recompute %rows  attend dense", "about", "exact"),
    "attended": ("%start = cadence first(1) in block  %left = positions undecoded(first = 1)  %all = positions all  "
                 "%others = except %all, %left  %drawing = attended(share = 1/10) of %others  %rows = union %left, %drawing  "
                 "reuse kv  recompute all on %start  recompute %rows  attend dense", "about", "exact"),
    "attended-salient": ("%start = cadence first(1) in block  %left = positions undecoded(first = 1)  %all = positions all  "
                         "%new = positions committed(last = 1)  %drawing = attended(share = 1/2) of %all  "
                         "%rows = union %left, %new, %drawing  reuse kv, context, ffn  "
                         "recompute all on %start  recompute salient(below = 0.99) in %rows  attend dense", "about", "exact"),
    "weighted": ("%start = cadence first(1) in block  %block = positions block  %left = positions undecoded(first = 1)  "
                 "%others = except %block, %left  reuse kv  recompute all on %start  "
                 "recompute least_similar(keep = 1/2, among = %others, confidence = 1/2) in %block in layers(1)  "
                 "recompute %block  attend dense", "about", "exact"),
    "verified": ("commit quota verify(drafts = 3)  attend dense", "about", "exact"),
    "verified-columns": ("%c = cadence uniform(window = 3/10, count = 4)  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c  "
                         "commit quota verify(drafts = 3)  attend pairs(%s)", "about", "exact"),
    "verified-window": ("%w = window(40)  commit best(2) verify(drafts = 2)  attend pairs(%w)", "about", "exact"),
    "passes": ("commit above(0.8) passes(at_least = 40)  attend dense", "at_most", "exact"),
    "revoked": ("%next = positions undecoded(first = 4)  %new = positions committed(last = 9)  %some = union %next, %new  "
                "commit above(0.5) within(%some) revoke(below = 1/1)  attend dense", "at_most", "exact"),
    "revoked-salient": ("%start = cadence first(1) in block  %rows = positions from(block)  reuse kv, context, ffn  "
                        "recompute all on %start  recompute salient(below = 0.99) in %rows  "
                        "commit best(4) revoke(below = 1/1)  attend dense", "at_most", "exact"),
    "revoked-shadow": ("commit best(4) revoke(below = 1/1, by = shadow)  attend dense", "at_most", "exact"),
    "revoked-shadow-late": ("commit above(1/100, strictly) at_most(share = 0.4, least = 2, most = 5) "
                            "revoke(below = 1/1, by = shadow, fewer_than = step_before)  attend dense", "at_most", "exact"),
    "edited-planned": ("commit quota edit(above = 1/1000)  attend dense", "exact", "exact"),
    "edited": ("commit best(6) edit(above = 1/1000, further = 5)  attend dense", "at_most", "exact"),
    "edited-cached": ("%start = cadence first(1)  %masked = positions undecoded  %new = positions committed(last = 1)  "
                      "%rows = union %masked, %new  reuse kv  recompute all on %start  recompute %rows  "
                      "commit best(6) edit(above = 1/1000, further = 5)  attend dense", "about", "exact"),
    "edited-revoked-salient": ("%start = cadence first(1) in block  %rows = positions from(block)  reuse kv, context, ffn  "
                               "recompute all on %start  recompute salient(below = 0.99) in %rows  "
                               "commit best(6) revoke(below = 1/1) edit(above = 1/1000, further = 5)  attend dense",
                               "at_most", "exact"),
}


# Of these a run with classifier-free guidance is followed, which computes each row twice. Its log has the rows that
# layers found to have changed of both sequences together; where none changed in one, it has nothing to correct.
GUIDED = {
    "confident": "exact", "attended": "exact", "attended-salient": "about", "verified": "exact", "revoked-shadow": "exact", "dense": "exact", "pulsecol": "exact", "window-diffusion": "exact", "dllm-cache": "exact", "dyllm": "at_most",
    "drift-of-attention": "exact", "elastic-cache": "exact", "columns-in-window": "exact", "streaming-llm": "exact", "dual-cache-drift": "exact", "losa": "exact"}


def call(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def explain(bundle, *options):
    return json.loads(call(
        HEDDLE_BUNDLE, "dump", bundle, "--explain-json", "--model", MODEL, "--prompt", PROMPT,
        *LENGTHS, *options))["cost"]


def compare(name, what, cost, counted, expected):
    problems = []
    if cost["certainty"] != expected:
        problems.append(f"says {cost['certainty']}, expected {expected}")
    for field in FIELDS:
        said, real = cost["work"][field], counted[field]
        if expected == "exact" and said != real or expected == "at_most" and real > said:
            problems.append(f"{field}: explained {said}, counted {real}")
    return [f"{name} {what}: {problem}" for problem in problems]


def compare_bytes(name, said, counted):
    """Explanations are of two bytes an element, these runs of four. A run counts a part's weights in all
    layers of a step, also where some layers find no rows to compute; an explanation that follows it does not."""
    problems = []
    for part in said:
        explained, ran = 2 * said[part]["bytes"], counted[part]["bytes"]
        if ran < explained if "salient" in name or name == "dyllm" else ran != explained:
            problems.append(f"{name}: bytes of {part}: explained {explained}, counted {ran}")
    return problems


def check(schedule, before, after, text=None):
    name, *settings = schedule.split()
    bundle, log, source = FOLDER / f"{name}.hdl", FOLDER / f"{name}.jsonl", EXAMPLES / f"{name}.mlir"
    if text:
        source = FOLDER / f"{name}.mlir"
        source.write_text("heddle.schedule @x {\n  " + text.replace("  ", "\n  ") + "\n}\n")
    call(HEDDLEC, source, *settings, "-o", bundle, "--dtype=f32", "--head-dim=64")
    ids = ",".join(str(3 + (7 * i) % 500) for i in range(PROMPT))
    model = CONTRARY if "edited" in name else MODEL
    run = json.loads(call(HEDDLE_RUN, "-m", model, "-b", bundle, "--prompt-ids", ids, *LENGTHS,
                          "--json", "--steps-json", log, "--quiet"))
    counted = run["cost"]["work"]
    revoked = log.read_text().count('"revoked":true')
    most = explain(bundle, "--tokens-per-step", 1)  # the fewest, so the most work
    problems = compare(name, "beforehand", most, counted, before)
    if ("revoked" in name) != (revoked > 0):
        problems.append(f"{name}: {revoked} tokens are revoked")
    edited = log.read_text().count('"edited":true')
    if ("edited" in name) != (edited > 0):
        problems.append(f"{name}: {edited} tokens are edited")
    followed = explain(bundle, "--follow", log)
    problems += compare(name, "afterwards", followed, counted, after)
    for field in ("dense_steps", "dense_work"):
        if most[field] != run["cost"][field]:
            problems.append(f"{name}: {field}: explained {most[field]}, counted {run['cost'][field]}")
    if name in GUIDED:
        problems += check_guided(name, bundle, ids)
    problems += compare_bytes(name, most["dense_parts"], run["cost"]["dense_parts"])
    if after == "exact":
        problems += compare_bytes(name, followed["parts"], run["cost"]["parts"])
    share = counted["operations"] / most["dense_work"]["operations"]
    print(f"{name}: {before}, then {after}; {share:.1%} of a dense run's operations"
          + ("" if not problems else ", WRONG"))
    return problems


def check_guided(name, bundle, ids):
    log = FOLDER / f"{name}-guided.jsonl"
    run = json.loads(call(HEDDLE_RUN, "-m", MODEL, "-b", bundle, "--prompt-ids", ids, *LENGTHS,
                          "--cfg-scale", "1.5", "--json", "--steps-json", log, "--quiet"))["cost"]
    followed = explain(bundle, "--follow", log)
    problems = compare(name, "guided", followed, run["work"], GUIDED[name])
    if followed["sequences"] != 2 or followed["dense_work"] != run["dense_work"]:
        problems.append(f"{name}: the dense run of a guided one has not two sequences")
    if GUIDED[name] == "exact":
        problems += compare_bytes(name, followed["parts"], run["parts"])
    return problems + compare_bytes(name, followed["dense_parts"], run["dense_parts"])


FOLDER.mkdir(parents=True, exist_ok=True)
CONTRARY = contrary.write(MODEL, FOLDER / "contrary")  # a trained model edits nothing
wrong = [problem for name, (before, after) in SCHEDULES.items()
         for problem in check(name, before, after)]
wrong += [problem for name, (text, before, after) in TEXTS.items()
          for problem in check(name, before, after, text)]
print("\n".join(wrong) or f"{len(SCHEDULES) + len(TEXTS)} schedules agree")
sys.exit(bool(wrong))
