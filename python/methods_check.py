#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds heddle-run to the plain statements of the published methods, step by
step: tokens, rows, visible keys, selected columns and blocks, counters.

  python3 python/methods_check.py check --model models/heddle-4m \\
      --heddlec build/dev/bin/heddlec --heddle-run build/dev/bin/heddle-run
  python3 python/methods_check.py compare expected.jsonl found.jsonl
  python3 python/methods_check.py trace --model models/heddle-4m --out DIR
  python3 python/methods_check.py schedules --out DIR

check compiles each method's schedule (of the catalogue, or NAME.mlir in
--schedules, or takes NAME.hdl of --bundles), runs heddle-run with --trace on
prompts of different lengths in one batch, and compares with the reference; the
first difference of each sequence is printed. trace writes the reference's
traces, which check --expected then reads instead of computing them again.
Temperature 0, f32. Needs PyTorch 1.13 or later and NumPy.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from heddle.evaluation import short_tasks as tasks
from heddle_reference import contrary
from heddle_reference.methods import catalogue, models, trace
from heddle_reference.tokenizer import Tokenizer


# Prompts of senseless ids: single tokens, whole blocks and their neighbours.
SENSELESS = (1, 32, 64, 2, 33, 127)


def texts(rng, chat):
    """Prompts of the tasks, short and long, without end; chat is a template."""
    while True:
        yield from (tasks.add(rng).prompt, tasks.sort(rng, 8).prompt, tasks.recall(rng, 5, 4).prompt,
                    tasks.reverse(rng, 12).prompt, chat(tasks.copy(rng, 6).prompt),
                    tasks.recall_of_length(rng, 100).prompt, chat(tasks.recall(rng, 7, 3).prompt),
                    tasks.recall_of_length(rng, 170).prompt, tasks.copy(rng, 4).prompt,
                    tasks.recall_of_length(rng, 260).prompt)


def prompts_of(folder, count):
    """`count` prompts as ids, all of different lengths as long as there are such."""
    rng, tokenizer = random.Random(2026), Tokenizer(folder)
    prompts = [[rng.randrange(256) for _ in range(n)] for n in SENSELESS]
    chat = tasks.chatml if "<|im_start|>" in tokenizer.special else tasks.chat
    tried = 0
    for text in texts(rng, chat):
        if len(prompts) >= count:
            return prompts[:count]
        ids = tokenizer.encode(text)
        tried += 1
        if tried > 2000 or len(ids) not in map(len, prompts):
            prompts.append(ids)


def cases_of(args, family):
    """(method, shape) of what was asked for."""
    for method in catalogue.ALL:
        if family in method.families and (not args.only or args.only in method.name):
            shapes = method.shapes_of(family)
            for shape in shapes[:1] if args.quick else shapes:
                yield method, shape


def title(method, shape):
    return f"{method.name} gen {shape[0]} steps {shape[1]} block {shape[2]}"


def file_of(method, shape):
    return f"{method.name}." + "-".join(map(str, shape)) + ".jsonl"


def reference(method, shape, pieces, prompts):
    """The records of all prompts, one after the other."""
    return [record for sequence, prompt in enumerate(prompts)
            for record in method.run(pieces, prompt, *shape, sequence=sequence)[1]]


def keyed(records):
    return {(r["sequence"], r["step"]): r for r in records}


def bundle_of(args, method, folder):
    """The path of the method's bundle, compiled if need be."""
    if args.bundles:
        return os.path.join(args.bundles, method.name + ".hdl")
    bundle, source = (os.path.join(folder, method.name + end) for end in (".hdl", ".mlir"))
    if os.path.exists(bundle):
        return bundle
    if args.schedules:
        source = os.path.join(args.schedules, method.name + ".mlir")
    else:
        with open(source, "w", encoding="utf-8") as out:
            out.write(method.schedule)
    done = subprocess.run([args.heddlec, source, "--crossovers=none", "-o", bundle], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"heddlec exited with {done.returncode}: {done.stderr.strip()}")
    return bundle


ALG = {"entropy": "entropy", "probability": "maskgit_plus"}


def run_heddle(args, method, shape, family, bundle, prompts, folder):
    """The records that heddle-run --trace writes for the batch."""
    path = os.path.join(folder, "found.jsonl")
    gen, steps, block = shape
    command = [args.heddle_run, "--model", args.model, "--bundle", bundle, f"--gen-length={gen}",
               f"--steps={steps}", "--temperature=0", "--dtype=f32", "--trace", path, "--quiet"]
    if family == "llada" or method.blocks:
        command.append(f"--block-length={block}")
    if family == "dream":
        command += [f"--alg={ALG[method.confidence_of(family)]}", "--top-p=1", "--top-k=0"]
    command += args.flag
    command += ["--prompt-ids=" + ",".join(map(str, p)) for p in prompts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
    if done.returncode:
        raise RuntimeError(f"heddle-run exited with {done.returncode}: {done.stderr.strip()}")
    return trace.read(path)


def tell(head, differences, lengths=None):
    """Prints a comparison; how many sequences are identical."""
    ties = sum(d is not None and isinstance(d[1], trace.Tie) for d in differences.values())
    good = sum(d is None for d in differences.values()) + ties
    print(f"{head}: {good} of {len(differences)} identical"
          + (f", {ties} up to a tie" if ties else ""), flush=True)
    for sequence, found in differences.items():
        if found:
            size = f" (prompt of {lengths[sequence]})" if lengths else ""
            print(f"    sequence {sequence}{size}, step {found[0]}: {found[1]}", flush=True)
    return good


def compare(args):
    differences = trace.compare(trace.read(args.expected), trace.read(args.found))
    if not differences:
        sys.exit(f"methods_check: {args.expected} and {args.found} hold no steps")
    return 0 if tell("compared", differences) == len(differences) else 1


def write_schedules(args):
    os.makedirs(args.out, exist_ok=True)
    for method in catalogue.ALL:
        with open(os.path.join(args.out, method.name + ".mlir"), "w", encoding="utf-8") as out:
            out.write(method.schedule)
    return 0


def write_traces(args):
    os.makedirs(args.out, exist_ok=True)
    pieces, prompts = models.load(args.model), prompts_of(args.model, args.prompts)
    for method, shape in cases_of(args, "dream" if pieces.shifted else "llada"):
        begin = time.time()
        records = reference(method, shape, pieces, prompts)
        with open(os.path.join(args.out, file_of(method, shape)), "w", encoding="utf-8") as out:
            print(json.dumps({"method": method.name, "shape": shape, "prompts": prompts}), file=out)
            for record in records:
                print(json.dumps(record, separators=(",", ":")), file=out)
        print(f"{title(method, shape)}: {len(records)} steps of {len(prompts)} prompts, "
              f"{time.time() - begin:.1f} s", flush=True)
    return 0


def check(args):
    if args.contrary:
        with tempfile.TemporaryDirectory() as folder:
            args.model, args.contrary = contrary.write(args.model, folder), False
            return check(args)
    pieces, prompts = models.load(args.model), prompts_of(args.model, args.prompts)
    lengths = [len(p) for p in prompts]
    family = "dream" if pieces.shifted else "llada"
    cases = list(cases_of(args, family))
    if not cases:
        sys.exit(f"methods_check: no method of this model has '{args.only}' in its name")
    passed = 0
    print(f"{len(prompts)} prompts of {min(lengths)} to {max(lengths)} tokens", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (method, shape) in enumerate(cases, 1):
            head = f"[{number}/{len(cases)}] {title(method, shape)}"
            try:
                found = run_heddle(args, method, shape, family, bundle_of(args, method, folder),
                                   prompts, folder)
                path = args.expected and os.path.join(args.expected, file_of(method, shape))
                expected = (trace.read(path) if path and os.path.exists(path)
                            else keyed(reference(method, shape, pieces, prompts)))
                passed += tell(head, trace.compare(expected, found), lengths)
            except (OSError, RuntimeError, ValueError, subprocess.TimeoutExpired) as problem:
                print(f"{head}: {problem}", flush=True)
    total = len(cases) * len(prompts)
    print(f"{passed} passed, {total - passed} failed")
    return 0 if passed == total else 1


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("compare", help="two traces")
    one.add_argument("expected")
    one.add_argument("found")
    one = commands.add_parser("schedules", help="write the catalogue's schedules")
    one.add_argument("--out", required=True)
    for name, words in (("trace", "write the reference's traces"), ("check", "heddle-run's against it")):
        one = commands.add_parser(name, help=words)
        one.add_argument("--model", required=True, help="Hugging Face folder, LLaDA's or Dream's")
        one.add_argument("--only", help="methods whose name holds this text")
        one.add_argument("--quick", action="store_true", help="one shape of each method")
        one.add_argument("--prompts", type=int, default=16)
        if name == "trace":
            one.add_argument("--out", required=True)
            continue
        one.add_argument("--heddle-run", required=True)
        one.add_argument("--heddlec")
        one.add_argument("--schedules", help="folder of NAME.mlir, instead of the catalogue's")
        one.add_argument("--bundles", help="folder of NAME.hdl, compiled before")
        one.add_argument("--expected", help="folder that 'trace' wrote")
        one.add_argument("--flag", action="append", default=[], help="for heddle-run; may be repeated")
        one.add_argument("--contrary", action="store_true",
                         help="with the model's layers in reverse order: it contradicts what it has said")
        one.add_argument("--timeout", type=float, default=600, help="seconds for one heddle-run")
    args = parser.parse_args(arguments)
    if args.command == "check" and not (args.bundles or args.heddlec):
        parser.error("check needs --heddlec or --bundles")
    return {"compare": compare, "schedules": write_schedules, "trace": write_traces,
            "check": check}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
