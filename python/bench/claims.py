#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reprints the table of measured gains in README.md, on one NVIDIA GPU, in one run.

First, where the compiler is (no GPU is needed), compile the schedules and write the shapes of the
models into a folder:

  python3 python/bench/claims.py compile --heddlec build/release/bin/heddlec --folder claims

Then, on the GPU's machine, with that folder, heddle-run and PyTorch 2:

  python3 python/bench/claims.py run --heddle-run build/release/bin/heddle-run --folder claims

With --check README.md the exit code is 1 if a ratio that is printed there for this card is not
measured again within 10% (--within 0.1).

Weights are random, of LLaDA-8B's or Dream-7B's shape, in bf16. With them no prediction is sure, so a
run commits one token a step and takes as many steps as the dense run. Heddle's seconds hold LM
head, draws and commits; those of eager PyTorch (python/bench/gpu.py) are of the layers alone. Of
runs that would take long the first steps are measured, and the others counted as the last ones.
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys
from typing import NamedTuple

from runs import compile_or_run, config_of, run_steps, seconds_of

try:
    import torch
    from torch.nn.attention import sdpa_kernel

    from eager import random_model
    from gpu import BACKENDS, milliseconds
except ImportError:  # compiling and --help need none of it
    torch = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPES = {name: ROOT / f"runtime/test/model/Inputs/{name}-config.json"
          for name in ("llada-8b", "dream-7b")}
LONGEST = 131072  # positions; released configs allow fewer


class Claim(NamedTuple):
    what: str
    model: str
    example: str        # of examples/
    replace: tuple      # (text, other text) in it
    prompt: int
    response: int
    batch: int = 1
    block: int = 0      # block length; 0: heddle-run's default
    measured: int = 0   # steps; 0: all
    period: int = 1     # of the schedule, in steps
    refreshes: int = 0  # steps of the run that cost what step 1 does; 0: the period says
    dense_steps: int = 8  # measured of the own dense run; 0: no such run
    repetitions: int = 3  # of an eager step


def salient(whole, response):
    """DyLLM's thresholds, for steps over the whole sequence and over the response."""
    return (("below = 0.99", f"below = {whole}"),
            ("(below = below) in %response", f"(below = {response}) in %response"))


CLAIMS = {
    "composed": Claim("SparseD's blocks with Fast-dLLM's dual cache", "llada-8b",
                      "blocks-dual-cache", (), 16384, 256, block=32, repetitions=2),
    "dual-cache": Claim("Fast-dLLM's dual cache", "llada-8b", "fast-dllm-dual", (), 768, 256,
                        block=32),
    "salient-llada": Claim("DyLLM, some 42 salient rows a layer", "llada-8b", "dyllm",
                           salient(0.99865, 0.99963), 1024, 256, batch=16, measured=40, period=4),
    "salient-dream": Claim("DyLLM, some 47 salient rows a layer", "dream-7b", "dyllm",
                           salient(0.9995, 0.99984), 1024, 256, batch=16, measured=40, period=4),
    "columns": Claim("PulseCol, 20% kept, groups of 128, 1,024 steps", "llada-8b", "pulsecol",
                     (("group = 32", "group = 128"),), 64512, 1024, measured=4, refreshes=16,
                     dense_steps=0, repetitions=1),
}


def compile_all(args):
    """One bundle a claim, dense.hdl, and the models' shapes."""
    compile_examples(args, {"dense": ("dense", ()),
                            **{name: claim[2:4] for name, claim in CLAIMS.items()}})


def compile_examples(args, sources):
    """Writes NAME.mlir and NAME.hdl for {NAME: (example, ((text, other text), ..))} into args.folder,
    and the models' shapes."""
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in SHAPES.items():
        config = json.loads(path.read_text())
        for field in ("max_sequence_length", "max_position_embeddings"):
            if field in config:
                config[field] = LONGEST
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for name, (example, replace) in sources.items():
        text = (ROOT / f"examples/{example}.mlir").read_text()
        for old, new in replace:
            if old not in text:
                sys.exit(f"error: examples/{example}.mlir has no '{old}' any more")
            text = text.replace(old, new)
        (folder / f"{name}.mlir").write_text(text)
        subprocess.run([args.heddlec, folder / f"{name}.mlir", f"--target={args.target}",
                        "--dtype=bf16", "--head-dim=128", "--crossovers=none", "-o", folder / f"{name}.hdl"], check=True)
        print(f"compiled {folder / name}.hdl", flush=True)


def eager_seconds(folder, batch, n, repetitions):
    """{attention: seconds of a step's layers}."""
    model, results = random_model(config_of(folder)), {}
    with torch.inference_mode():
        x = torch.randn(batch, n, model.weights[0]["q"].shape[0], device="cuda",
                        dtype=torch.bfloat16)
        cos, sin = model.tables(n)
        for name, backend in BACKENDS.items():
            with sdpa_kernel(backend):
                results[name] = milliseconds(lambda: model.step(x, cos, sin), repetitions) / 1000
    del model, x
    torch.cuda.empty_cache()
    return results


def run_seconds(args, name, claim):
    """A whole run's seconds, and the records of the steps that were measured."""
    records = run_steps(args.heddle_run, str(pathlib.Path(args.folder) / claim.model),
                        pathlib.Path(args.folder) / f"{name}.hdl", claim.prompt, claim.response,
                        claim.batch, 0, claim.block, claim.measured)
    if not claim.refreshes:
        return seconds_of(records, claim.response, claim.period), records
    rest = statistics.median(record["seconds"] for record in records[1:])
    return (claim.refreshes * records[0]["seconds"] +
            (claim.response - claim.refreshes) * rest), records


def measure(args, name, claim):
    """[{claim, rival, rival's seconds, seconds, ratio}] of one claim."""
    folder = str(pathlib.Path(args.folder) / claim.model)
    eager = eager_seconds(folder, claim.batch, claim.prompt + claim.response, claim.repetitions)
    rivals = {f"eager PyTorch, {attention}": seconds * claim.response
              for attention, seconds in eager.items()}
    if claim.dense_steps:
        rivals["Heddle's dense run"] = run_seconds(
            args, "dense", claim._replace(measured=claim.dense_steps, period=1, refreshes=0))[0]
    seconds, records = run_seconds(args, name, claim)
    rows = statistics.mean(record["value_rows"] for record in records)
    print(f"{name}: {claim.what}; {claim.model}, {claim.batch} x ({claim.prompt} + "
          f"{claim.response}) tokens; {len(records)} of {claim.response} steps measured, median "
          f"{statistics.median(r['seconds'] for r in records) * 1000:.2f} ms, V of "
          f"{rows / config_of(folder)['n_layers'] / claim.batch:.0f} rows a layer and sequence")
    results = [dict(claim=name, rival=rival, rival_s=rival_s, heddle_s=seconds,
                    ratio=rival_s / seconds) for rival, rival_s in rivals.items()]
    for each in results:
        print(f"  {each['rival']:32}{each['rival_s']:10.2f} s   Heddle{each['heddle_s']:10.2f} s"
              f"   ratio{each['ratio']:7.2f}", flush=True)
    return results


def printed(text, card):
    """{claim: {rival: ratio}} of the columns of a page's table that `card`'s name holds: those under "H100: .." for "NVIDIA
    H100 80GB HBM3". "eager PyTorch" is the faster of its attentions. KeyError, with what cards there are, for another one."""
    lines = re.findall(r"^\|.*\| (?:claim|`[\w-]+`) \|$", text, re.MULTILINE)
    head, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    columns = {cell: at for at, cell in enumerate(head) if re.match(r"\w+: over ", cell)}
    mine = [at for cell, at in columns.items() if cell.split(":")[0] in card.split()]
    if not mine:
        raise KeyError(", ".join(dict.fromkeys(cell.split(":")[0] for cell in columns)))
    table = {}
    for cells in rows:
        name = cells[-1].strip("`")
        if name in CLAIMS:
            eager, dense = (re.findall(r"(?:([\w-]+): )?(\d+(?:\.\d+)?)", cells[at]) for at in mine)
            table[name] = {f"eager PyTorch, {rival}" if rival else "eager PyTorch": float(ratio) for rival, ratio in eager}
            table[name].update({"Heddle's dense run": float(ratio) for _, ratio in dense})
    return table


def missed(results, table, within):
    """Sentences about the printed ratios that were not measured again."""
    said = []
    for name in dict.fromkeys(row["claim"] for row in results):
        ratios = {row["rival"]: row["ratio"] for row in results if row["claim"] == name}
        ratios["eager PyTorch"] = min(ratio for rival, ratio in ratios.items() if rival.startswith("eager"))
        if not table.get(name):
            said.append(f"{name}: the page has no line of it")
        for rival, ratio in table.get(name, {}).items():
            found = ratios.get(rival)
            if found is None or abs(found / ratio - 1) > within:
                said.append(f"{name} over {rival}: {ratio:g} is printed, " +
                            (f"{found:.2f} was measured" if found else "nothing was measured"))
    return said


def run_all(args):
    names = args.claim or list(CLAIMS)
    for path in (pathlib.Path(args.heddle_run),
                 *(pathlib.Path(args.folder) / f"{name}.hdl" for name in ["dense", *names])):
        if not path.is_file():
            sys.exit(f"error: there is no file {path}; see --help")
    if not torch or not torch.cuda.is_available():
        sys.exit("error: PyTorch with a GPU is needed, and " +
                 ("it finds none here" if torch else "there is no PyTorch 2 here"))
    card = torch.cuda.get_device_name()
    try:
        table = printed(pathlib.Path(args.check).read_text(), card) if args.check else {}
    except KeyError as cards:
        sys.exit(f"error: {args.check} has figures of {cards.args[0]}; this is one {card}, so run without --check")
    print(f"{card}, PyTorch {torch.__version__}", flush=True)
    results = [row for name in names for row in measure(args, name, CLAIMS[name])]
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + "\n")
    if not args.check:
        return 0
    wrong = missed(results, table, args.within)
    print("\n".join(wrong) or f"{args.check}: all of it within {args.within:.0%}", flush=True)
    return 1 if wrong else 0


def main():
    parser, running = compile_or_run(__doc__, compile_all, run_all)
    running.add_argument("--claim", action="append", choices=list(CLAIMS),
                         help="may be repeated; all by default")
    running.add_argument("--check", metavar="README.md", help="exit with 1 where this page's table says otherwise")
    running.add_argument("--within", type=float, default=0.1, metavar="SHARE",
                         help="what is no difference, 0.1 is 10%% (default: 0.1)")
    args = parser.parse_args()
    return args.do(args)


if __name__ == "__main__":
    sys.exit(main())
