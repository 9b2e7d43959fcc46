#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times PyTorch's scaled_dot_product_attention on the CPU.

Shapes are heddle-bench's: one sequence, as many key/value heads as query heads,
no mask. GFLOP/s counts 4 * heads * n * n * head_dim operations a call.
"""

import argparse
import json
import statistics
import time

import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def measure(dtype, heads, head_dim, length, repetitions, min_seconds, layout):
    """Seconds of one call in each repetition."""
    generator = torch.Generator().manual_seed(1)
    shape = (1, length, heads, head_dim)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for _ in range(3)]
    # PyTorch wants heads before rows. Heddle's layout, rows first, is what a model's
    # projections write; "contiguous" grants PyTorch the copy for free.
    tensors = [tensor.transpose(1, 2) for tensor in tensors]
    if layout == "contiguous":
        tensors = [tensor.contiguous() for tensor in tensors]
    attend = torch.nn.functional.scaled_dot_product_attention
    times = []
    with torch.inference_mode():
        attend(*tensors)  # warm-up
        for _ in range(repetitions):
            calls, start = 0, time.perf_counter()
            while True:
                attend(*tensors)
                calls += 1
                elapsed = time.perf_counter() - start
                if elapsed >= min_seconds:
                    break
            times.append(elapsed / calls)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's choice")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--lengths", default="4096")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--min-seconds", type=float, default=0.1)
    parser.add_argument("--layout", choices=["rows", "contiguous"], default="contiguous")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    args = parser.parse_args()
    if args.threads > 0:
        torch.set_num_threads(args.threads)

    results = []
    for dtype in args.dtypes.split(","):
        if dtype not in DTYPES:
            parser.error(f"--dtypes: '{dtype}' is none of {', '.join(DTYPES)}")
        for length in map(int, args.lengths.split(",")):
            times = measure(DTYPES[dtype], args.heads, args.head_dim, length, args.repetitions,
                            args.min_seconds, args.layout)
            seconds = statistics.median(times)
            operations = 4 * args.heads * length * length * args.head_dim
            results.append({"dtype": dtype, "headDim": args.head_dim, "length": length,
                            "seconds": seconds, "gflops": operations / seconds * 1e-9})
    if args.json:
        print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(),
                          "results": results}, indent=2))
        return
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {args.heads} heads")
    for row in results:
        print(f"sdpa/{row['dtype']}/d{row['headDim']}/n{row['length']}"
              f"{row['seconds'] * 1e3:12.3f} ms{row['gflops']:10.1f} GFLOP/s")


if __name__ == "__main__":
    main()
