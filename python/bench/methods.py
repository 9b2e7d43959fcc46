#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times whole runs of methods on one NVIDIA GPU beside dense runs and eager PyTorch, in one run.

Each case is a schedule, prompt and response lengths and a batch, with random bf16 weights of a
model's shape; one token a sequence and step. Heddle's seconds are the sum of what heddle-run
--steps-json reports of each step: LM head, draws and commits included, and the choice of products.
Eager PyTorch is the layers alone (gpu.py), the fastest of its attention backends, times the steps.
Of long runs the first steps are timed, and the others counted as the mean of the last ones
measured, over whole periods of the schedule.

  for s in dense fast-dllm-dual window-diffusion dyllm; do
    heddlec examples/$s.mlir --target=cuda:sm_90a --dtype=bf16 --head-dim=128 --crossovers=none -o bundles/$s.hdl
  done
  python3 python/bench/methods.py --heddle-run build/release/bin/heddle-run --model DIR \\
      --bundles bundles --case name=fast-dllm-dual,prompt=768,response=256,block=32 \\
      --case name=dyllm,prompt=1024,response=256,batch=16,measured=40,period=4

A case's bundle is NAME.hdl in the folder of bundles, dense.hdl what it is compared with.
"""

import argparse
import json
import pathlib
import statistics
import sys
from typing import NamedTuple

from runs import config_of, run_steps, seconds_of

try:
    import torch
    from torch.nn.attention import sdpa_kernel

    from eager import random_model
    from gpu import BACKENDS, milliseconds
except ImportError:  # --help needs none of it
    torch = None


class Case(NamedTuple):
    name: str
    prompt: int
    response: int
    batch: int = 1
    block: int = 0     # block length; 0: heddle-run's default
    measured: int = 0  # steps; 0: all
    period: int = 1    # of the schedule, in steps


def parse_case(text):
    """A case of "name=..,prompt=..,response=..", the others as wanted."""
    try:
        fields = dict(part.split("=") for part in text.split(","))
        case = Case(fields.pop("name"), **{key: int(value) for key, value in fields.items()})
    except (ValueError, KeyError, TypeError) as error:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no case; expected name=NAME,prompt=N,response=N and, as "
            f"wanted, {', '.join(Case._fields[3:])}, each =N") from error
    if min(case.prompt, case.response, case.batch, case.period) < 1 or min(case[4:]) < 0:
        raise argparse.ArgumentTypeError(f"'{text}' has a number that is too small")
    if case.measured and case.measured < 2 * case.period:
        raise argparse.ArgumentTypeError(f"'{text}' measures less than two periods")
    return case


def time_eager(folder, shapes):
    """Milliseconds of eager layers by (batch, length)."""
    config = config_of(folder)
    model, results = random_model(config), {}
    with torch.inference_mode():
        for batch, n in shapes:
            x = torch.randn(batch, n, config["d_model"], device="cuda", dtype=torch.bfloat16)
            cos, sin = model.tables(n)
            results[batch, n] = min(
                timed(backend, lambda: model.step(x, cos, sin)) for backend in BACKENDS.values())
    del model
    torch.cuda.empty_cache()
    return results


def timed(backend, work):
    with sdpa_kernel(backend):
        work()
        return milliseconds(work, 5)


def run_case(args, case):
    """The records of a run's steps, of the first ones alone if the case says so."""
    return run_steps(args.heddle_run, args.model, pathlib.Path(args.bundles) / f"{case.name}.hdl",
                     case.prompt, case.response, case.batch, 0, case.block, case.measured)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle-run", required=True)
    parser.add_argument("--model", required=True, help="a folder with LLaDA's or Dream's config.json")
    parser.add_argument("--bundles", required=True, help="the folder of dense.hdl and the cases'")
    parser.add_argument("--case", action="append", type=parse_case, required=True,
                        help="may be repeated")
    parser.add_argument("--dense-steps", type=int, default=16, help="measured of dense runs")
    parser.add_argument("--json", help="writes all figures there, too")
    args = parser.parse_args()
    for path in (args.heddle_run, pathlib.Path(args.model) / "config.json",
                 *(pathlib.Path(args.bundles) / f"{name}.hdl"
                   for name in ["dense", *(case.name for case in args.case)])):
        if not pathlib.Path(path).is_file():
            sys.exit(f"error: there is no file {path}")
    if not torch or not torch.cuda.is_available():
        sys.exit("error: PyTorch with a GPU is needed, and " +
                 ("it finds none here" if torch else "there is no PyTorch 2 here"))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)

    eager = time_eager(args.model, {(c.batch, c.prompt + c.response) for c in args.case})
    print(f"{'':34}{'eager':>9}{'dense':>9}{'median':>9}{'run':>9}{'/ dense':>9}{'/ eager':>9}")
    rows, dense_runs = [], {}
    for case in args.case:
        alike = case._replace(name="dense", measured=args.dense_steps, period=1)
        if alike not in dense_runs:
            records = run_case(args, alike)
            dense_runs[alike] = seconds_of(records, case.response)
        dense = dense_runs[alike]
        records = run_case(args, case)
        run = seconds_of(records, case.response, case.period)
        eager_run = eager[case.batch, case.prompt + case.response] * case.response / 1000
        median = statistics.median(record["seconds"] for record in records) * 1000
        title = f"{case.name} {case.batch} x ({case.prompt} + {case.response})"
        print(f"{title:34}{eager_run:8.2f}s{dense:8.2f}s{median:7.2f}ms{run:8.2f}s"
              f"{dense / run:9.2f}{eager_run / run:9.2f}", flush=True)
        rows.append(dict(case._asdict(), eager_s=eager_run, dense_s=dense, run_s=run,
                         steps=[{key: record[key] for key in
                                 ("step", "rows", "seconds", "value_rows", "query_rows", "ffn_rows")}
                                for record in records]))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
