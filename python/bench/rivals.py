#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the decoding loops of released implementations beside Heddle's runs, on one NVIDIA GPU.

The loops (python/bench/loops.py) are those of LLaDA, Fast-dLLM, dLLM-Cache and DyLLM, restated in
eager PyTorch: they compute what the released code computes, the LM head of every row of a pass
included. Heddle runs the example of the same method with the same lengths, blocks and steps; both
have random bf16 weights of LLaDA-8B's shape, one sequence, temperature 0. The two take turns.

First, where the compiler is (no GPU is needed), compile the schedules and write the model's shape:

  python3 python/bench/rivals.py compile --heddlec build/release/bin/heddlec --folder rivals

That is heddlec --target=cuda:sm_90a --dtype=bf16 --head-dim=128 of examples/dense.mlir,
fast-dllm-prefix.mlir, fast-dllm-dual.mlir, dllm-cache.mlir, and dyllm.mlir with the phase of the
released code and thresholds that random weights need. Then, with that folder, on the GPU's machine:

  python3 python/bench/rivals.py run --heddle-run build/release/bin/heddle-run --folder rivals
  python3 python/bench/rivals.py run --heddle-run build/release/bin/heddle-run --folder rivals \\
      --method fast-dllm-dual --method dllm-cache --prompts 4096 --rounds 3 --json rivals.json

It prints a Markdown table. Of runs whose steps are of few kinds the first steps are measured, of
both sides the same ones, and the others count as the median of their kind. PyTorch's attention is
FlashAttention-2 or cuDNN's, whichever is faster for all rows, the response's and a block's.
"""

import argparse
import json
import pathlib
import statistics
import sys
from typing import Callable, NamedTuple

from claims import compile_examples, salient
from runs import compile_or_run, config_of, run_steps

try:
    import torch
    import torch.nn.functional as F

    import loops
    from eager import random_model
except ImportError:  # compiling and --help need none of it
    torch = None

MODEL = "llada-8b"


class Rival(NamedTuple):
    title: str
    make: Callable      # its loop
    example: str        # of examples/
    replace: tuple      # (text, other text) in it
    prompts: tuple      # by default
    measured: int       # steps; 0: all
    note: str = ""


# Thresholds that leave some 40 salient rows a layer at 1,024 + 256 tokens.
THRESHOLDS = 0.99865, 0.99963

RIVALS = {
    "dense": Rival("LLaDA, dense", lambda: loops.Dense(), "dense", (), (4096, 16384), 6),
    "fast-dllm-prefix": Rival("Fast-dLLM, prefix cache", lambda: loops.FastDllm(),
                              "fast-dllm-prefix", (), (4096, 16384), 0),
    "fast-dllm-dual": Rival("Fast-dLLM, dual cache", lambda: loops.FastDllm(dual=True),
                            "fast-dllm-dual", (), (4096, 16384), 0),
    "dllm-cache": Rival("dLLM-Cache, 100 / 7 / 0.25", lambda: loops.DllmCache(100, 7, 0.25),
                        "dllm-cache", (), (4096, 16384), 104,
                        "the released code refreshes the prompt's rows of the first layer at every step, which "
                        "nothing reads until the prompt is refreshed; Heddle does not"),
    "dyllm": Rival("DyLLM", lambda: loops.DyLLM(*THRESHOLDS), "dyllm",
                   (*salient(*THRESHOLDS), ("from = 5", "from = 8")), (1024, 4096), 32,
                   "which rows are salient depends on the weights drawn, of one distribution; Heddle "
                   "computes Q only where a row changed; the loop has no kernel of DyLLM's, which "
                   "skips products with V"),
}


def compile_all(args):
    compile_examples(args, {name: rival[2:4] for name, rival in RIVALS.items()})


class FasterAttention:
    """scaled_dot_product_attention by the backend that was faster for so many rows of queries;
    FlashAttention-2 for numbers of rows that were not tried."""

    NAMES = "FlashAttention-2", "cuDNN"

    def __init__(self):
        self.choices, self.current = {}, None
        torch.backends.cuda.enable_math_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)

    def use(self, name):
        if name != self.current:
            torch.backends.cuda.enable_flash_sdp(name == self.NAMES[0])
            torch.backends.cuda.enable_cudnn_sdp(name == self.NAMES[1])
            self.current = name

    def __call__(self, q, k, v):
        self.use(self.choices.get(q.shape[2], self.NAMES[0]))
        return F.scaled_dot_product_attention(q, k, v)

    def choose(self, model, n, sizes):
        """Times the backends over n keys for each number of rows."""
        from gpu import milliseconds
        self.choices = {}
        k, v = (torch.randn(1, model.heads, n, model.head_dim, device=model.device,
                            dtype=model.dtype) for _ in range(2))
        for rows in sizes:
            q, times = k[:, :, :rows].contiguous(), {}
            for name in self.NAMES:
                self.use(name)
                times[name] = milliseconds(lambda: F.scaled_dot_product_attention(q, k, v), 7)
            self.choices[rows] = min(times, key=times.get)
        return self.choices


def whole(values, kinds):
    """The sum over a run's steps of `values` of the first ones; a later step counts as the median
    of those of its kind, of which the first is left out if there are others."""
    by_kind = {}
    for value, kind in zip(values, kinds):
        by_kind.setdefault(kind, []).append(value)
    missing = set(kinds[len(values):]) - set(by_kind)
    if missing:
        raise ValueError(f"no step of the kind '{missing.pop()}' was measured")
    medians = {kind: statistics.median(some[1:] or some) for kind, some in by_kind.items()}
    return sum(values) + sum(medians[kind] for kind in kinds[len(values):])


def enough(kinds, least):
    """How many first steps to measure: at least so many, and one of each kind; 0: all."""
    return max(least, *(kinds.index(kind) + 1 for kind in kinds)) if least else 0


def figures_of_loop(steps, kinds):
    """Totals of a whole run by name, of loops.Step."""
    return {name: whole([getattr(step, name) for step in steps], kinds)
            for name in ("seconds", "head_seconds", "query_rows", "value_rows", "ffn_rows")}


def figures_of_heddle(records, kinds):
    """The same, of the records of heddle-run --steps-json."""
    return {name: whole([record[name] for record in records], kinds)
            for name in ("seconds", "query_rows", "value_rows", "ffn_rows")}


def time_loop(args, model, rival, prompt, measured, mask):
    """[loops.Step] of a run, after two steps that are not counted."""
    ids = torch.randint(model.head.shape[0] * 3 // 4, (prompt,), device=model.device)
    for some in (2, measured):
        loop = rival.make()
        steps = loops.generate(loop, model, ids, args.response, args.block, args.response, mask,
                               some)[1]
        del loop
    if model.device.type == "cuda":
        torch.cuda.empty_cache()  # heddle-run needs memory, too
    return steps


def measure(args, name, model, prompt, mask):
    """A row of the table as a dictionary; seconds are medians over the rounds."""
    rival, layers = RIVALS[name], model.layers
    kinds = loops.kinds(rival.make(), args.response // args.block, args.response)
    measured = enough(kinds, rival.measured)
    rounds = []
    for _ in range(args.rounds):
        loop = figures_of_loop(time_loop(args, model, rival, prompt, measured, mask), kinds)
        heddle = figures_of_heddle(
            run_steps(args.heddle_run, str(pathlib.Path(args.folder) / MODEL),
                      pathlib.Path(args.folder) / f"{name}.hdl", prompt, args.response, 1,
                      args.response, args.block, measured), kinds)
        rounds.append((loop, heddle))
    middle = lambda side, figure: statistics.median(each[side][figure] for each in rounds)
    rows = lambda side: {axis: middle(side, axis + "_rows") / layers / args.response
                         for axis in ("query", "value", "ffn")}
    seconds, head, own = middle(0, "seconds"), middle(0, "head_seconds"), middle(1, "seconds")
    return dict(method=name, prompt=prompt, response=args.response, block=args.block,
                steps=args.response, measured=measured or args.response, rival_s=seconds,
                rival_head_s=head, heddle_s=own, ratio=seconds / own,
                ratio_without_head=(seconds - head) / own, rival_rows=rows(0), heddle_rows=rows(1))


HEAD = ("| method | tokens | steps measured | released loop, s | of it LM head, draws | Heddle, s | "
        "ratio | ratio, loop without head | rows a layer and step, loop: Q / V / FFN | Heddle |\n"
        "|---|---|---|---|---|---|---|---|---|---|")


def row_of(result):
    """A line of the table."""
    rows = [" / ".join(f"{side[axis]:.1f}" for axis in ("query", "value", "ffn"))
            for side in (result["rival_rows"], result["heddle_rows"])]
    mark = "" if rows[0] == rows[1] else " (differ)"
    return (f"| {RIVALS[result['method']].title} | {result['prompt']:,} + {result['response']} | "
            f"{result['measured']} of {result['steps']} | {result['rival_s']:.2f} | "
            f"{result['rival_head_s']:.2f} | {result['heddle_s']:.2f} | {result['ratio']:.2f} | "
            f"{result['ratio_without_head']:.2f} | {rows[0]} | {rows[1]}{mark} |")


def run_all(args):
    names = args.method or list(RIVALS)
    for path in (pathlib.Path(args.heddle_run), pathlib.Path(args.folder) / MODEL / "config.json",
                 *(pathlib.Path(args.folder) / f"{name}.hdl" for name in names)):
        if not path.is_file():
            sys.exit(f"error: there is no file {path}; see --help")
    if args.response % args.block:
        sys.exit(f"error: a response of {args.response} is not a multiple of blocks of {args.block}")
    if not torch or not torch.cuda.is_available():
        sys.exit("error: PyTorch with a GPU is needed, and " +
                 ("it finds none here" if torch else "there is no PyTorch 2 here"))
    config = config_of(pathlib.Path(args.folder) / MODEL)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; random bf16 weights of "
          f"{MODEL}'s shape, one sequence, blocks of {args.block}, one token a step, "
          f"{args.rounds} round{'s' * (args.rounds > 1)}", flush=True)
    torch.manual_seed(0)
    with torch.inference_mode():
        model = random_model(config, "cuda", torch.bfloat16, vocabulary=True)
    model.attention = FasterAttention()
    cases = [(name, prompt) for name in names for prompt in args.prompts or RIVALS[name].prompts]
    results, chosen = [], {}
    print("\n" + HEAD, flush=True)
    for name, prompt in sorted(cases, key=lambda case: case[1]):
        n = prompt + args.response
        if n not in chosen:
            chosen[n] = model.attention.choose(model, n, (n, args.response, args.block))
        results.append(measure(args, name, model, prompt, config["mask_token_id"]))
        print(row_of(results[-1]), flush=True)
    print("\nHeddle's LM head computes the masks that may be committed, the loops' all rows of a pass.")
    for name in dict.fromkeys(names):
        if RIVALS[name].note:
            print(f"{RIVALS[name].title}: {RIVALS[name].note}.")
    for n, choices in chosen.items():
        print(f"PyTorch's attention over {n:,} keys: " +
              ", ".join(f"{rows:,} rows {name}" for rows, name in choices.items()))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            dict(results=results, attention={n: choices for n, choices in chosen.items()}),
            indent=1) + "\n")


def lengths(text):
    """Positive numbers with commas between them."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = [0]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': expected lengths such as 4096,16384")
    return found


def count(text):
    """A positive number."""
    found = lengths(text)
    if len(found) > 1:
        raise argparse.ArgumentTypeError(f"'{text}': expected one number")
    return found[0]


def main():
    parser, running = compile_or_run(__doc__, compile_all, run_all)
    running.add_argument("--method", action="append", choices=list(RIVALS),
                         help="may be repeated; all by default")
    running.add_argument("--prompts", type=lengths, help="prompt lengths (default: 4096,16384; of "
                                                         "dyllm 1024,4096)")
    running.add_argument("--response", type=count, default=256, help="tokens (default: %(default)s)")
    running.add_argument("--block", type=count, default=32, help="block length (default: %(default)s)")
    running.add_argument("--rounds", type=count, default=1,
                         help="turns of both, of which medians are printed (default: %(default)s)")
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()
