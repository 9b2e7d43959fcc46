# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Timed runs of heddle-run with random bf16 weights of a model's shape on a GPU."""

import argparse
import json
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile


def config_of(folder):
    """A LLaDA or Dream config.json as a dictionary with LLaDA's names of the sizes."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    if "d_model" in config:
        return config
    return dict(n_layers=config["num_hidden_layers"], d_model=config["hidden_size"],
                n_heads=config["num_attention_heads"], n_kv_heads=config["num_key_value_heads"],
                mlp_hidden_size=config["intermediate_size"], rms_norm_eps=config["rms_norm_eps"],
                rope_theta=config["rope_theta"], vocab_size=config["vocab_size"],
                shifted=True)


def run_steps(heddle_run, model, bundle, prompt, response, batch=1, steps=0, block=0, measured=0, log=None):
    """The records of a run's steps (heddle-run --steps-json), of the first `measured` ones alone
    if that is not 0. Prompts are drawn, and passed by file: they may be longer than a command
    line. `steps` and `block` 0: a token a step; heddle-run's default. `log`: a path for what
    heddle-run --steps-json wrote."""
    numbers = random.Random(prompt)
    tokens = config_of(model)["vocab_size"] * 3 // 4  # below the special ones
    with tempfile.TemporaryDirectory() as folder:
        prompts = pathlib.Path(folder) / "prompts.jsonl"
        prompts.write_text("".join(
            json.dumps({"prompt_ids": [numbers.randrange(tokens) for _ in range(prompt)]}) + "\n"
            for _ in range(batch)))
        command = [heddle_run, "--model", model, "--random-weights", "--device=cuda",
                   "--dtype=bf16", "--bundle", str(bundle), "--gen-length", str(response),
                   "--steps", str(steps or response), "--prompts-file", str(prompts),
                   "--steps-json", "-"]
        if block:
            command += ["--block-length", str(block)]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        records, lines = [], []
        for line in run.stdout:
            lines.append(line)
            record = json.loads(line)
            if "seconds" in record:
                records.append(record)
            if len(records) == measured:
                run.send_signal(signal.SIGINT)
                break
        errors = run.communicate()[1]
    if run.returncode != 0 and len(records) != measured:
        sys.exit(f"error: {bundle}: heddle-run failed with status {run.returncode}: {errors}")
    if log:
        pathlib.Path(log).write_text("".join(lines))
    return records


def seconds_of(records, steps, period=1):
    """A whole run's: what was measured, and the last whole periods' mean for the others."""
    times = [record["seconds"] for record in records]
    if len(times) >= steps:
        return sum(times)
    last = times[-(len(times) // 2 // period * period):]
    return sum(times) + (steps - len(times)) * statistics.mean(last)


def seconds_by_kind(records):
    """{(share of the pairs that attention computes, whether selections are refreshed): median
    seconds of such a step}. A kind's first step, which chooses products, counts if it is alone."""
    kinds = {}
    for record in records:
        share = round(record["pairs"] / record["dense_pairs"], 2)
        kinds.setdefault((share, record["refreshes"] > 0), []).append(record["seconds"])
    return {kind: statistics.median(times[1:] or times) for kind, times in kinds.items()}


def compile_or_run(doc, compile_all, run_all):
    """(parser, the parser of "run", for more options): a command in two parts, since where the GPU is there may be
    no compiler. Parsed arguments have `do`, the function to call with them."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="compile|run")
    compiling = commands.add_parser("compile", help="compiles what is run; needs no GPU")
    compiling.add_argument("--heddlec", required=True)
    compiling.add_argument("--target", default="cuda:sm_90a", help="(default: %(default)s)")
    compiling.set_defaults(do=compile_all)
    running = commands.add_parser("run", help="measures and prints")
    running.add_argument("--heddle-run", required=True)
    running.add_argument("--json", help="writes all figures there, too")
    running.set_defaults(do=run_all)
    for each in (compiling, running):
        each.add_argument("--folder", required=True, help="of the bundles and the models' shapes")
    return parser, running
