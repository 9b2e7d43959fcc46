#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds heddle-run on a GPU to heddle-run on the host, on the same prompts.

  heddlec examples/dense.mlir --target=host,cuda --dtype=f32,bf16,f16 -o dense.hdl
  python3 python/device_check.py --heddle-run build/release/bin/heddle-run \\
      --model models/heddle-4m --bundle dense.hdl

In f32 every step must commit the same tokens, with confidences within 1e-3.
Where it does not, the candidates must be tied, so that rounding decides: their
confidences within 1e-4 of each other and, since those of a sure model all are
nearly 1, also what they lack to 1 within 1e-2 (all relative). A tie is reported
and its sequence no longer compared.
In bf16 and f16 the answers must be right as often as the host's in f32, but
for a share of the prompts (--may-lose).

The host's runs can be made elsewhere: --write-host there, --host here. Exit
code 0 if all holds, 1 if not. Only the standard library is needed.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from heddle.evaluation import short_tasks as tasks

TIE, TIE_REST, EQUAL = 1e-4, 1e-2, 1e-3
COUNTS = ("step", "block", "rows", "logit_rows", "dense_pairs", "score_pairs", "refreshes")


class Failed(Exception):
    """A sentence for people."""


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines if line.strip()]


def examples_of(args):
    """(prompts, answers), texts."""
    if args.count:
        drawn = [e for task in tasks.TASKS for e in tasks.test_set(task, args.count)]
        return [e.prompt for e in drawn], [e.answer for e in drawn]
    prompts, answers = read_lines(args.prompts), read_lines(args.answers)
    if len(prompts) != len(answers) or not prompts:
        raise Failed(f"{args.prompts} has {len(prompts)} lines and {args.answers} {len(answers)}; "
                     "expected an answer for every prompt")
    return prompts, answers


def settings_of(args, prompts):
    """All that two runs must share to be compared."""
    with open(os.path.join(args.model, "model.safetensors"), "rb") as file:
        weights = hashlib.sha256(file.read()).hexdigest()
    return {"weights": weights, "prompts": prompts, "gen_length": args.gen_length,
            "steps": args.steps, "block_length": args.block_length, "cfg_scale": args.cfg_scale,
            "temperature": args.temperature, "seed": args.seed}


def run(args, prompts, bundle, device, dtype, folder):
    """One batch: {"records", "sequences", "prompt_lengths", "texts", "seconds"}."""
    texts, steps = (os.path.join(folder, name) for name in ("prompts.jsonl", "steps.jsonl"))
    with open(texts, "w", encoding="utf-8") as out:
        for prompt in prompts:
            out.write(json.dumps({"prompt": prompt}) + "\n")
    command = [args.heddle_run, "--model", args.model, "--bundle", bundle, "--prompts-file", texts,
               f"--device={device}", f"--dtype={dtype}", f"--gen-length={args.gen_length}",
               f"--steps={args.steps}", f"--block-length={args.block_length}",
               f"--temperature={args.temperature}", f"--seed={args.seed}",
               f"--threads={args.threads}",
               "--steps-json", steps, "--json", "--quiet"]
    if args.cfg_scale:  # not every model has guidance
        command.append(f"--cfg-scale={args.cfg_scale}")
    begin = time.time()
    done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
    seconds = time.time() - begin
    if done.returncode:
        raise Failed(f"heddle-run exited with {done.returncode}: {done.stderr.strip()}")
    records = [json.loads(line) for line in read_lines(steps)]
    if not records or not records[-1].get("complete"):
        raise Failed("heddle-run did not end with a complete record")
    results = json.loads(done.stdout)["results"]
    return {"records": records[:-1], "sequences": records[-1]["sequences"],
            "prompt_lengths": [len(r["prompt_ids"]) for r in results],
            "texts": [r["text"] for r in results], "seconds": seconds}


def commits_of(record, sequence):
    """{position: (token, confidence)}; JSON has null for what is no number."""
    return {c["position"]: (c["token"], float("nan" if c["confidence"] is None
                                              else c["confidence"]))
            for c in record["commits"] if c["sequence"] == sequence}


def gap(a, b):
    """Relative; infinite where one is no number."""
    if a != a or b != b:
        return float("inf")
    return abs(a - b) / max(abs(a), abs(b), 1e-300)


def rest_gap(a, b):
    """gap() of 1 - a and 1 - b; f64 holds no more of them than the floor."""
    if gap(a, b) == float("inf"):
        return float("inf")
    return abs(a - b) / max(1 - a, 1 - b, 1e-13)


def tie_gaps(host, device):
    """How far apart the candidates are that two commits of a step disagree on,
    those that one side has alone by falling confidence and those that got
    another token: (gap, rest_gap). Infinite if the two have not equally many."""
    only_host = sorted((host[p][1] for p in set(host) - set(device)), reverse=True)
    only_device = sorted((device[p][1] for p in set(device) - set(host)), reverse=True)
    if len(only_host) != len(only_device):
        return float("inf"), float("inf")
    pairs = list(zip(only_host, only_device))
    pairs += [(host[p][1], device[p][1]) for p in set(host) & set(device)
              if host[p][0] != device[p][0]]
    return max(gap(*pair) for pair in pairs), max(rest_gap(*pair) for pair in pairs)


def compare(host, device, tie=TIE, tie_rest=TIE_REST):
    """Step by step. {"steps": equal, "of": in all, "ties", "worst": largest
    relative difference of a confidence, "errors"}; steps count sequences."""
    count = len(host["sequences"])
    result = {"steps": 0, "of": len(host["records"]) * count, "ties": [], "worst": 0.0,
              "errors": []}
    errors = result["errors"]
    if len(host["records"]) != len(device["records"]) or len(device["sequences"]) != count:
        errors.append(f"{len(device['records'])} steps of {len(device['sequences'])} sequences, "
                      f"the host has {len(host['records'])} of {count}")
        return result
    live = set(range(count))
    for mine, theirs in zip(host["records"], device["records"]):
        step = mine["step"]
        for key in COUNTS:
            if mine[key] != theirs[key]:
                errors.append(f"step {step}: {key} is {theirs[key]}, on the host {mine[key]}")
        # Lists of near ties may differ, and unions of them in their size.
        if abs(mine["pairs"] - theirs["pairs"]) > 1e-3 * mine["pairs"]:
            errors.append(f"step {step}: pairs is {theirs['pairs']}, on the host {mine['pairs']}")
        for b in sorted(live):
            ours, others = commits_of(mine, b), commits_of(theirs, b)
            if {p: c[0] for p, c in ours.items()} == {p: c[0] for p, c in others.items()}:
                result["steps"] += 1
                result["worst"] = max([result["worst"]]
                                      + [gap(ours[p][1], others[p][1]) for p in ours])
                continue
            live.remove(b)
            apart, rest = tie_gaps(ours, others)
            where = f"step {step}, sequence {b}: candidates {apart:.1e} (of 1 - confidence: " \
                    f"{rest:.1e}) apart"
            if apart <= tie and rest <= tie_rest:
                result["ties"].append(where)
            else:
                errors.append(f"{where}, no tie; host {ours}, device {others}")
    for b in sorted(live):
        if host["sequences"][b] != device["sequences"][b]:
            errors.append(f"sequence {b}: other tokens at the end")
    if result["worst"] > EQUAL:
        errors.append(f"confidences of equal tokens differ by {result['worst']:.1e}")
    if any(host["prompt_lengths"][b] != device["prompt_lengths"][b] for b in range(count)):
        errors.append("the prompts have other lengths")
    return result


def right(texts, answers):
    return sum(text == answer for text, answer in zip(texts, answers))


def named(paths):
    """{schedule: path}; NAME=FILE, or FILE alone, whose stem is the name."""
    result = {}
    for text in paths or []:
        name, _, path = text.rpartition("=")
        result[name or os.path.splitext(os.path.basename(path))[0]] = path
    return result


def host_runs(args, settings, bundles, folder):
    if args.host:
        with open(args.host, encoding="utf-8") as file:
            made = json.load(file)
        other = [key for key in settings if made["settings"].get(key) != settings[key]]
        if other:
            raise Failed(f"{args.host} was made with another " + ", ".join(other))
        missing = [name for name in bundles if name not in made["runs"]]
        if missing:
            raise Failed(f"{args.host} has no run of " + ", ".join(missing))
        return made["runs"]
    own = named(args.host_bundle)
    runs = {}
    for name, bundle in bundles.items():
        runs[name] = run(args, settings["prompts"], own.get(name, bundle), "cpu", "f32", folder)
        print(f"{name}: host, {runs[name]['seconds']:.1f} s", file=sys.stderr, flush=True)
    return runs


def check_device(args, settings, answers, bundles, hosts, folder):
    """(rows of the table, whether all holds)."""
    rows, good = [], True
    allowed = int(args.may_lose * len(answers))
    for name, bundle in bundles.items():
        host, host_right = hosts[name], right(hosts[name]["texts"], answers)
        for dtype in args.dtypes.split(","):
            row = [name, dtype, "-", "-", "-", "-", f"{host_right}/{len(answers)}", "-"]
            try:
                device = run(args, settings["prompts"], bundle, args.device, dtype, folder)
                compared = compare(host, device, args.tie, args.tie_rest)
                device_right = right(device["texts"], answers)
                row[2:6] = [f"{compared['steps']}/{compared['of']}", str(len(compared["ties"])),
                            f"{compared['worst']:.1e}", f"{device_right}/{len(answers)}"]
                row[7] = f"{device['seconds']:.1f}"
                if dtype == "f32":
                    for tie in compared["ties"]:
                        print(f"{name} {dtype}: tie at {tie}")
                    problems = compared["errors"]
                else:
                    problems = []
                    if device_right < host_right - allowed:
                        problems.append(f"{device_right} answers are right, the host has "
                                        f"{host_right} and {allowed} may be lost")
                    row[3] = "-"
            except (Failed, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
                problems = [str(error)]
            for problem in problems[:args.show]:
                print(f"{name} {dtype}: error: {problem}")
            if len(problems) > args.show:
                print(f"{name} {dtype}: {len(problems) - args.show} more errors")
            good &= not problems
            rows.append(row + ["FAILED" if problems else "ok"])
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows, good


def table(rows):
    head = ["schedule", "dtype", "steps equal", "ties", "confidence", "right", "host", "s", ""]
    widths = [max(len(row[i]) for row in [head] + rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
             for row in [head] + rows]
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--heddle-run", default="build/release/bin/heddle-run")
    parser.add_argument("--model", default="models/heddle-4m")
    parser.add_argument("--bundle", action="append", required=True, metavar="[NAME=]FILE",
                        help="a schedule's bundle with code for the device; repeated")
    parser.add_argument("--host-bundle", action="append", metavar="[NAME=]FILE",
                        help="the same schedule for the host, if --bundle has no such code")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtypes", default="f32,bf16,f16")
    parser.add_argument("--prompts", default="examples/prompts.txt")
    parser.add_argument("--answers", default="examples/answers.txt")
    parser.add_argument("--count", type=int, default=0, metavar="N",
                        help="this many test prompts of every task, in place of --prompts")
    parser.add_argument("--gen-length", type=int, default=32)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--block-length", type=int, default=8)
    parser.add_argument("--cfg-scale", type=float, default=0)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="of the host; 0: all")
    parser.add_argument("--tie", type=float, default=TIE, help="relative; see above")
    parser.add_argument("--tie-rest", type=float, default=TIE_REST, help="the same")
    parser.add_argument("--may-lose", type=float, default=0.02, metavar="SHARE",
                        help="of the prompts, right on the host and wrong in bf16 or f16")
    parser.add_argument("--write-host", metavar="FILE", help="run the host only and write this")
    parser.add_argument("--host", metavar="FILE", help="take the host's runs from here")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a run may take")
    parser.add_argument("--show", type=int, default=5, help="errors of a run that are printed")
    args = parser.parse_args()
    for dtype in args.dtypes.split(","):
        if dtype not in ("f32", "bf16", "f16"):
            parser.error(f"--dtypes: '{dtype}' is none of f32, bf16, f16")
    if args.host and args.write_host:
        parser.error("--host reads what --write-host writes; leave one out")
    return args


def main():
    args = parse()
    bundles = named(args.bundle)
    try:
        prompts, answers = examples_of(args)
        settings = settings_of(args, prompts)
        with tempfile.TemporaryDirectory() as folder:
            hosts = host_runs(args, settings, bundles, folder)
            if args.write_host:
                with open(args.write_host, "w", encoding="utf-8") as out:
                    json.dump({"settings": settings, "runs": hosts}, out)
                for name in bundles:
                    print(f"{name}: {right(hosts[name]['texts'], answers)} of {len(answers)} "
                          "answers are right on the host")
                return 0
            rows, good = check_device(args, settings, answers, bundles, hosts, folder)
    except (Failed, OSError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"device_check.py: error: {error}", file=sys.stderr)
        return 1
    print(table(rows))
    print(f"\n{len(answers)} prompts, gen length {args.gen_length}, {args.steps} steps, block "
          f"length {args.block_length}. Steps count sequences; confidence: largest relative "
          "difference while tokens are equal; right: answers letter for letter.")
    print("all hold" if good else "some do not hold")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
