#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs heddle-run and heddle_reference on the same prompts and compares them
step by step: positions and tokens committed must be identical, confidences
within 1e-4 relative, and so must the pairs computed and the lists refreshed.

  python3 python/parity.py --heddlec build/dev/bin/heddlec \\
      --heddle-run build/dev/bin/heddle-run --model models/heddle-4m

f32, temperature 0; Dream's sampler, whose draws the reference states as well,
also above. Ends with "N passed, M failed" (sequences); exit code 1
if any failed. Needs PyTorch 1.13 or later and NumPy.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddlec", required=True)
    parser.add_argument("--heddle-run", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=0, help="of heddle-run (default: all)")
    parser.add_argument("--quick", action="store_true", help="a quarter of the cases")
    parser.add_argument("--only", help="cases whose name holds this text")
    return parser.parse_args()


if __name__ == "__main__":  # before PyTorch is loaded: --help needs none
    ARGS = options()

import schedules  # noqa: E402
from heddle.evaluation import short_tasks as tasks  # noqa: E402
from heddle_reference import sampler, timesteps, weights  # noqa: E402
from heddle_reference.model import Dream, make  # noqa: E402
from heddle_reference.tokenizer import Tokenizer  # noqa: E402

RELATIVE = 1e-4
# Confidences that are differences may be as near to 0 as they like: below these,
# errors are relative to these. (An entropy has its own 1e-10 to be held against.)
SMALL = {"topk_margin": 0.1, "entropy": 1e-8}

# gen length, steps, block length: one token a step and several, quotas with a
# remainder (16 / 5, 8 / 3), more steps than tokens, a single token.
SHAPES = [(16, 16, 16), (16, 8, 8), (32, 32, 8), (32, 16, 32), (32, 12, 8),
          (24, 8, 12), (16, 5, 16), (20, 10, 4), (4, 8, 2), (1, 1, 1)]

# Dream, gen length and steps: as many steps as tokens, fewer, one, more.
TIMES = [(16, 16), (24, 7), (32, 12), (16, 1), (6, 20), (1, 1)]

# Dream's options beside the rule, each with a rule that they act on.
TIMESTEP_OPTIONS = [
    {"alg": "entropy", "top_p": 0.9}, {"alg": "topk_margin", "top_k": 3},
    {"alg": "maskgit_plus", "top_p": 0.5, "top_k": 20, "eps": 0.1},
    {"alg": "maskgit_plus", "alg_temp": 0.1, "seed": 3},
    {"alg": "entropy", "temperature": 0.7, "seed": 5},
    {"alg": "topk_margin", "temperature": 1.2, "top_p": 0.95, "top_k": 50, "seed": 2 ** 40 + 1},
    {"alg": "entropy", "temperature": 0.2, "top_p": 0.95, "alg_temp": 0.5, "seed": 7},
    {"alg": "origin", "temperature": 1.0, "seed": 11}]


def prompts_of(count, rng, tokenizer, chat=tasks.chat):
    """`count` prompts as ids: every task, plain and chat, 1 to ~400 tokens."""
    out = []
    for i in range(count):
        kind = (*tasks.TASKS, "long", "chat", "ids")[i % 8]
        if kind == "long":
            text = tasks.recall_of_length(rng, rng.randint(100, 380)).prompt
        elif kind == "chat":
            text = chat(tasks.GENERATORS[rng.choice(tasks.TASKS[:4])](rng).prompt)
        elif kind == "ids":  # senseless on purpose, and as short as they get
            out.append([rng.randrange(560) for _ in range(rng.choice((1, 2, 31, 33)))])
            continue
        elif kind == "recall":
            text = tasks.recall(rng, rng.randint(2, 6)).prompt
        else:
            text = tasks.GENERATORS[kind](rng).prompt
        out.append(tokenizer.encode(text))
    return out


class Case:
    def __init__(self, schedule, prompts, options, **extra):
        """extra: what the name says besides schedule and lengths."""
        self.schedule, self.prompts, self.options = schedule, prompts, options
        words = [schedule, f"gen {options.gen_length} steps {options.steps}"]
        words += [f"block {options.block_length}"] if self.in_blocks else []
        self.name = " ".join(words + [f"{k}={v}" for k, v in extra.items() if k != "eot"])

    @property
    def in_blocks(self):
        return isinstance(self.options, sampler.Options)


def block_case(schedule, prompts, gen_length, steps, block_length, **extra):
    return Case(schedule, prompts, sampler.Options(gen_length, steps, block_length, **extra), **extra)


def timestep_case(schedule, prompts, gen_length, steps, **extra):
    return Case(schedule, prompts, timesteps.Options(gen_length, steps, **extra), **extra)


def dream_cases(tokenizer):
    rng = random.Random(2026)
    few = lambda: prompts_of(8, rng, tokenizer, tasks.chatml)[1::2]
    cases = [timestep_case("dense", few(), *shape, alg=alg)
             for shape in TIMES for alg in timesteps.ALGS]
    cases += [timestep_case("dense", few(), 16, 9, **options) for options in TIMESTEP_OPTIONS]
    cases += [timestep_case(name, few(), 24, 10, alg="entropy") for name in schedules.PARITY]
    return cases


def make_cases(tokenizer, model, quick):
    if isinstance(model, Dream):
        cases = dream_cases(tokenizer)
        return cases[::4] if quick else cases
    rng = random.Random(2026)
    eot = tokenizer.special["<|eot_id|>"]
    cases = [block_case("dense", prompts_of(8, rng, tokenizer), *shape) for shape in SHAPES]
    few = lambda: prompts_of(8, rng, tokenizer)[1:7:2] + prompts_of(6, rng, tokenizer)[5:]
    for options in ({"cfg_scale": 1.5}, {"logits_eos_inf": True},
                    {"confidence_eos_eot_inf": True, "eot": eot}):
        cases.append(block_case("dense", few(), 16, 8, 8, **options))
    for name in schedules.PARITY:
        for shape in ((16, 16, 8), (24, 8, 24)):
            cases.append(block_case(name, few(), *shape))
    return cases[::4] if quick else cases


class Trace:
    """The reference's run of a case, with what diagnostics need."""

    def __init__(self, model, case):
        self.records, self.seen = [], {}
        generate = sampler.generate if case.in_blocks else timesteps.generate
        generate(model, case.prompts, case.options,
                 schedules.BY_NAME[case.schedule].reference, self.records.append, self.inspect)

    def inspect(self, step, sequence, positions, logits, tokens, confidences):
        two = logits.topk(2, -1).values
        self.seen[step, sequence] = dict(zip(positions, zip(
            tokens.tolist(), confidences.tolist(), (two[:, 0] - two[:, 1]).tolist())))


def run_heddle(args, case, bundle):
    """The records of heddle-run --steps-json on the case's batch."""
    o = case.options
    command = [args.heddle_run, "--model", args.model, "--bundle", bundle,
               f"--gen-length={o.gen_length}", f"--steps={o.steps}", "--dtype=f32",
               f"--temperature={o.temperature}", f"--seed={o.seed}",
               "--steps-json", "-", "--quiet", f"--threads={args.threads}"]
    if case.in_blocks:
        command.append(f"--block-length={o.block_length}")
        if o.cfg_scale:
            command.append(f"--cfg-scale={o.cfg_scale}")
        command += ["--logits-eos-inf"] * o.logits_eos_inf
        command += ["--confidence-eos-eot-inf"] * o.confidence_eos_eot_inf
    else:
        command += [f"--alg={o.alg}", f"--eps={o.eps}", f"--top-p={o.top_p}",
                    f"--top-k={o.top_k}", f"--alg-temp={o.alg_temp}"]
    for prompt in case.prompts:
        command.append("--prompt-ids=" + ",".join(map(str, prompt)))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"heddle-run exited with {done.returncode}: {done.stderr.strip()}")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    if not records or not records[-1].get("done") or not records[-1].get("complete"):
        raise RuntimeError("heddle-run did not end with a complete record")
    return records[:-1], records[-1]["sequences"]


def by_sequence(record, sequence):
    return {c["position"]: (c["token"], c["confidence"])
            for c in record["commits"] if c["sequence"] == sequence}


def near_tie(trace, step, sequence, ours, theirs):
    """Why a step may differ: how close the choices were in the reference."""
    seen, notes = trace.seen[step, sequence], []
    for position in sorted(set(ours) & set(theirs)):
        if ours[position][0] != theirs[position][0] and position in seen:
            notes.append(f"position {position}: its two largest logits differ by "
                         f"{seen[position][2]:.3g}")
    only_ours, only_theirs = set(theirs) ^ (set(ours) & set(theirs)), set(ours) - set(theirs)
    for a in sorted(only_theirs):
        for b in sorted(only_ours):
            if a in seen and b in seen:
                notes.append(f"confidence at {a} minus at {b}: {seen[a][1] - seen[b][1]:.3g}"
                             f" (1 - confidence: {1 - seen[a][1]:.3g}, {1 - seen[b][1]:.3g})")
    return "; ".join(notes[:4]) or "no near tie"


def is_tie(trace, step, sequence, ours, theirs, least):
    """Whether the positions that only one side commits have equal confidences in the
    reference, as far as confidences are compared, and the others equal tokens."""
    seen = trace.seen[step, sequence]
    apart = set(ours) ^ set(theirs)
    if any(ours[p][0] != theirs[p][0] for p in set(ours) & set(theirs)):
        return False
    if len(ours) != len(theirs) or not apart or not all(p in seen for p in apart):
        return False
    sure = [seen[p][1] for p in apart]
    return max(sure) - min(sure) <= RELATIVE * max(least, min(map(abs, sure)))


def compare(case, trace, records, sequences):
    """(sequences that pass, messages, largest relative confidence error). Where
    confidences are tied a sequence is no longer compared: what follows differs."""
    failed, tied, messages, worst = set(), set(), [], 0.0
    fail = lambda b, text: (b in failed or messages.append(f"sequence {b}: {text}"), failed.add(b))
    everyone = range(len(case.prompts))
    if len(records) != len(trace.records):
        return 0, [f"{len(records)} steps, expected {len(trace.records)}"], worst
    for mine, theirs in zip(trace.records, records):
        step = mine["step"]
        for key in ("step", "block", "rows", "pairs", "dense_pairs", "refreshes"):
            if not failed and theirs.get(key) != mine[key]:
                for b in everyone:
                    fail(b, f"step {step}: {key} is {theirs.get(key)}, expected {mine[key]}")
        for b in everyone:
            if b in failed or b in tied:
                continue
            expected, found = by_sequence(mine, b), by_sequence(theirs, b)
            tokens = lambda c: {p: t for p, (t, _) in c.items()}
            least = SMALL.get(getattr(case.options, "alg", None), 1e-30)
            if (tokens(expected) != tokens(found)
                    and is_tie(trace, step, b, expected, found, least)):
                tied.add(b)
                messages.append(f"sequence {b}: step {step}: a tie, "
                                + near_tie(trace, step, b, expected, found))
                continue
            if tokens(expected) != tokens(found):
                fail(b, f"step {step}: committed {tokens(found)}, expected {tokens(expected)}; "
                     + near_tie(trace, step, b, expected, found))
                continue
            for position, (_, sure) in expected.items():
                error = abs(found[position][1] - sure)
                error /= max(abs(sure), least) if sure else 1.0
                worst = max(worst, error)
                if error > RELATIVE:
                    fail(b, f"step {step}: confidence at {position} is {found[position][1]!r}, "
                         f"expected {sure!r} (relative error {error:.3g})")
    for b in everyone:
        told = list(sequences[b][:len(case.prompts[b])])
        if told != case.prompts[b]:
            fail(b, "its prompt came back changed")
    return len(case.prompts) - len(failed), messages, worst


def main(args):
    tokenizer = Tokenizer(args.model)
    model = make(*weights.load(args.model))
    cases = [c for c in make_cases(tokenizer, model, args.quick) if not args.only or args.only in c.name]
    if not cases:
        sys.exit(f"parity.py: no case has '{args.only}' in its name")

    passed = failed = 0
    worst, begin = 0.0, time.time()
    with tempfile.TemporaryDirectory() as folder:
        bundles = {}
        for number, case in enumerate(cases, 1):
            lengths = [len(p) for p in case.prompts]
            head = f"[{number}/{len(cases)}] {case.name}, prompts {min(lengths)}..{max(lengths)}"
            try:
                if case.schedule not in bundles:
                    bundles[case.schedule] = schedules.compile_bundle(
                        args.heddlec, case.schedule, folder)
                found = run_heddle(args, case, bundles[case.schedule])
                good, messages, error = compare(case, Trace(model, case), *found)
            except (RuntimeError, ValueError, subprocess.TimeoutExpired) as problem:
                good, messages, error = 0, [str(problem)], 0.0
            passed += good
            failed += len(case.prompts) - good
            worst = max(worst, error)
            print(f"{head}: {good} of {len(lengths)} identical, confidences within {error:.1e}",
                  flush=True)
            for message in messages:
                print("    " + message, flush=True)
    print(f"largest relative error of a confidence: {worst:.2e} (limit {RELATIVE:g}); "
          f"{time.time() - begin:.0f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(ARGS))
