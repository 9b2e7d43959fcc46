#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times Heddle and PyTorch on one NVIDIA GPU in the same run and prints ratios.

Attention: PyTorch's scaled_dot_product_attention through FlashAttention-2 and through cuDNN, and
FlexAttention over random 128 x 128 blocks, beside the kernels of the given bundles. Steps: an
eager transformer of the model's shape (RMSNorm, rotate-half RoPE, SwiGLU; random bf16 weights, no
biases, no LM head) with either attention, beside the steps that heddle-bench times. Times are
medians between CUDA events.

Steps of a Dream shape are driven by the host rather than captured, so heddle-bench cannot time them in parts:
they come from heddle-run --steps-json, LM head, draws and commits included.

  python3 python/bench/gpu.py --heddle-bench build/release/bin/heddle-bench \\
      --bundle dense.hdl --bundle pulsecol.hdl --model DIR
  python3 python/bench/gpu.py --heddle-run build/release/bin/heddle-run --skip-attention \\
      --bundle dense.hdl --bundle pulsecol.hdl --model DREAM_DIR
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from runs import config_of, run_steps, seconds_by_kind


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle-bench", help="for attention, and steps of a LLaDA shape")
    parser.add_argument("--heddle-run", help="for steps of a Dream shape")
    parser.add_argument("--bundle", action="append", required=True, help="may be repeated")
    parser.add_argument("--model", help="a folder with a LLaDA or Dream config.json: times steps too")
    parser.add_argument("--lengths", default="4096,16384")
    parser.add_argument("--step-lengths", default="4096,16384")
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--repetitions", type=int, default=11)
    parser.add_argument("--flex-density", type=float, default=0.2,
                        help="share of blocks that FlexAttention keeps; 0: leave it out")
    parser.add_argument("--whole-run-length", type=int, default=0,
                        help="also times a run of 128 steps at this length")
    parser.add_argument("--measured-steps", type=int, default=8,
                        help="steps measured of a run of a Dream shape (default 8)")
    parser.add_argument("--skip-attention", action="store_true")
    args = parser.parse_args()
    args.shifted = shifted = args.model and config_of(args.model).get("shifted")
    if not args.heddle_bench and not (args.skip_attention and shifted):
        parser.error("attention and steps of a LLaDA shape need --heddle-bench")
    if shifted and not args.heddle_run:
        parser.error("steps of a Dream shape need --heddle-run")
    if shifted and args.whole_run_length:
        parser.error("whole runs of a Dream shape: see python/bench/methods.py")
    return args


if __name__ == "__main__":  # before PyTorch is loaded: --help needs none
    ARGS = options()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from eager import random_model  # noqa: E402

BACKENDS = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}


def milliseconds(work, repetitions):
    """The median time of `work` on the device."""
    work()
    times = []
    for _ in range(repetitions):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def time_attention(lengths, heads, head_dim, repetitions, density):
    """{(rival, length): (milliseconds, TFLOP/s of kept pairs)}, bf16, batch 1."""
    results = {}
    for n in lengths:
        tensors = [torch.randn(1, heads, n, head_dim, device="cuda", dtype=torch.bfloat16)
                   for _ in range(3)]
        operations = 4 * heads * n * n * head_dim
        for name, backend in BACKENDS.items():
            with sdpa_kernel(backend):
                ms = milliseconds(lambda: F.scaled_dot_product_attention(*tensors), repetitions)
            results[name, n] = ms, operations / ms * 1e-9
        if density:
            ms, kept = time_flex(tensors, n, density, repetitions)
            results["FlexAttention blocks", n] = ms, operations * kept / ms * 1e-9
        del tensors
        torch.cuda.empty_cache()
    return results


def time_flex(tensors, n, density, repetitions):
    """Milliseconds, and the share of pairs kept, with random blocks of 128 x 128 a head."""
    from torch.nn.attention.flex_attention import BlockMask, flex_attention
    heads, blocks = tensors[0].shape[1], -(-n // 128)
    count = max(1, round(density * blocks))
    indices = torch.rand(1, heads, blocks, blocks, device="cuda").argsort(-1).to(torch.int32)
    indices[..., :count] = indices[..., :count].sort(-1).values
    counts = torch.full((1, heads, blocks), count, device="cuda", dtype=torch.int32)
    # Whole blocks are kept, so none is masked element by element.
    mask = BlockMask.from_kv_blocks(torch.zeros_like(counts), indices, counts, indices,
                                    BLOCK_SIZE=128)
    compiled = torch.compile(flex_attention)
    return (milliseconds(lambda: compiled(*tensors, block_mask=mask), repetitions),
            count / blocks)


def time_steps(folder, lengths, repetitions):
    """{(rival, length): milliseconds of a step without the LM head}."""
    config = config_of(folder)
    model, results = random_model(config), {}
    with torch.inference_mode():
        for n in lengths:
            x = torch.randn(1, n, config["d_model"], device="cuda", dtype=torch.bfloat16)
            cos, sin = model.tables(n)
            for name, backend in BACKENDS.items():
                with sdpa_kernel(backend):
                    results[name, n] = milliseconds(lambda: model.step(x, cos, sin), repetitions)
    return results


def run_heddle(args, lengths, extra):
    """heddle-bench's rows."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "heddle.json"
        command = [args.heddle_bench, "--device=cuda", f"--lengths={','.join(map(str, lengths))}",
                   f"--repetitions={args.repetitions}", "--dtype=bf16", f"--json={output}", *extra]
        command += [f"--bundle={bundle}" for bundle in args.bundle]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"error: heddle-bench failed with status {done.returncode}")
        return json.loads(output.read_text())["benchmarks"]


def measured_steps(args, lengths):
    """Rows like heddle-bench's, one a kind of step, of heddle-run."""
    rows = []
    for bundle in args.bundle:
        for n in lengths:
            records = run_steps(args.heddle_run, args.model, bundle, n - 128, 128, steps=128,
                                measured=args.measured_steps)
            for (share, refreshes), seconds in sorted(seconds_by_kind(records).items()):
                name = f"{share:.0%} of the pairs" + (", refreshing" if refreshes else "")
                rows.append(dict(bundle=pathlib.Path(bundle).stem, name=name, length=n, kind="step",
                                 warm=dict(median_ms=seconds * 1000)))
    return rows


def print_attention(args, rows, rivals):
    print(f"\nattention, bf16, {args.heads} heads, head dim {args.head_dim}: TFLOP/s of kept pairs")
    print(f"{'':52}{'n':>8}{'ms':>10}{'TFLOP/s':>9}{'/ FA2':>8}{'/ cuDNN':>9}")
    entries = [(f"{row['bundle']} {row['name']}", row["length"], row["warm"]["median_ms"],
                row.get("tflops", 0)) for row in rows]
    entries += [(f"PyTorch {name}", n, ms, rate) for (name, n), (ms, rate) in rivals.items()]
    for name, n, ms, rate in sorted(entries, key=lambda entry: (entry[1], entry[0])):
        against = "".join(f"{rate / rivals[rival, n][1]:{width}.2f}" if (rival, n) in rivals else ""
                          for rival, width in (("FlashAttention-2", 8), ("cuDNN", 9)))
        print(f"{name:52}{n:8}{ms:10.3f}{rate:9.1f}{against}")


def print_steps(rows, rivals):
    print("\nlayers of a step: ms; speed-up over eager PyTorch of the same run; parts by themselves; "
          "LM head and sampler, which come after the layers")
    print(f"{'':52}{'n':>8}{'ms':>10}{'/ FA2':>8}{'/ cuDNN':>9}{'attention':>11}{'products':>10}"
          f"{'rows':>8}{'head':>8}")
    for (name, n), ms in rivals.items():
        print(f"{'PyTorch eager, ' + name:52}{n:8}{ms:10.2f}")
    for row in rows:
        ms, n = row["warm"]["median_ms"], row["length"]
        against = ""
        if row["kind"] == "step":
            against = "".join(f"{rivals[rival, n] / ms:{width}.2f}"
                              for rival, width in (("FlashAttention-2", 8), ("cuDNN", 9)))
        if "attention_ms" in row:
            against += (f"{row['attention_ms']:11.2f}{row['products_ms']:10.2f}"
                        f"{row['rows_ms']:8.2f}{row['head_ms']:8.2f}")
        print(f"{row['bundle'] + ' ' + row['name']:52.52}{n:8}{ms:10.2f}{against}")


def main(args):
    if not torch.cuda.is_available():
        sys.exit("error: PyTorch finds no GPU here")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")

    if not args.skip_attention:
        lengths = [int(n) for n in args.lengths.split(",")]
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()
        rivals = time_attention(lengths, args.heads, args.head_dim, args.repetitions,
                                args.flex_density)
        torch.cuda.empty_cache()
        print_attention(args, run_heddle(args, lengths, [f"--heads={args.heads}",
                                                         f"--head-dim={args.head_dim}"]), rivals)
    if args.model:
        lengths = [int(n) for n in args.step_lengths.split(",")]
        rivals = time_steps(args.model, lengths, max(3, args.repetitions // 3))
        torch.cuda.empty_cache()
        rows = (measured_steps(args, lengths) if args.shifted else
                run_heddle(args, lengths, [f"--model={args.model}"]))
        if args.whole_run_length:
            rows += [row for row in run_heddle(args, [args.whole_run_length],
                                               [f"--model={args.model}", "--whole-runs"])
                     if row["kind"] == "run"]
        print_steps(rows, rivals)


if __name__ == "__main__":
    main(ARGS)
