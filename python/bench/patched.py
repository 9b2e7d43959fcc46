#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a step of LLaDA- and Dream-shaped models of PyTorch, as they are and patched, in one run.

  python3 python/bench/patched.py compile FOLDER    where heddlec is: writes bundles
  python3 python/bench/patched.py run FOLDER        where a GPU, PyTorch 2.5 and the package are

The structure of the released classes (python/test/package/released.py restates it), random weights
in bf16, batch 1, without the LM head. Attention is scaled_dot_product_attention as PyTorch chooses
it; FlexAttention, compiled, over random blocks of 128 x 128; and Heddle's by heddle.patch: dense,
and columns for groups of 128 as many as Flex has blocks, in steps that choose them and in steps
that read them. Milliseconds, medians of 5, from 16,384 tokens on of 3, from 65,536 on of 2 without
a pass to warm up. The default lengths take less than 4 minutes on an H100.

--device=cpu --shape=tiny runs all of it on the host in f32, with FlexAttention as PyTorch
interprets it: to see that it works.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
BLOCK, KEPT = 128, 5  # a fifth of the blocks, or of the columns
LLADA = {"d_model": 4096, "n_heads": 32, "n_kv_heads": 32, "mlp_hidden_size": 12288, "n_layers": 32,
         "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "embedding_size": 126464}
DREAM = {"hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
         "num_hidden_layers": 28, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "vocab_size": 152064}
#: Heads of 128, too.
TINY = {"llada": {**LLADA, "d_model": 256, "n_heads": 2, "n_kv_heads": 2, "mlp_hidden_size": 512, "n_layers": 2,
                  "embedding_size": 1024},
        "dream": {**DREAM, "hidden_size": 256, "num_attention_heads": 2, "num_key_value_heads": 1,
                  "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 1024}}
FULL = {"llada": LLADA, "dream": DREAM}
NAMES = {"llada": "LLaDA-8B's", "dream": "Dream-7B's"}
COLUMNS = ("sdpa", "flex", "dense", "choosing", "columns")


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("compile", "run"))
    parser.add_argument("folder", type=Path, help="of the bundles")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpu", default="sm_90a", help="that compile is for (default sm_90a)")
    parser.add_argument("--shape", choices=("full", "tiny"), default="full")
    parser.add_argument("--models", default="llada,dream")
    parser.add_argument("--lengths", default="4096,16384,65536", help=f"multiples of {BLOCK}")
    parser.add_argument("--no-flex", action="store_true", help="leave FlexAttention out")
    parser.add_argument("--json", type=Path, help="also writes the rows there")
    args = parser.parse_args()
    args.models = [name for name in args.models.split(",") if name]
    if not args.models or not set(args.models) <= set(FULL):
        parser.error(f"--models: expected some of {', '.join(FULL)}, found {','.join(args.models) or 'none'}")
    args.lengths = [int(n) if n.isdigit() else 0 for n in args.lengths.split(",")]
    if not all(n > 0 and n % BLOCK == 0 for n in args.lengths):
        parser.error(f"--lengths: expected multiples of {BLOCK} with commas between")
    return args


def compile_all(args):
    """Writes FOLDER/dense.hdl and columns.hdl."""
    import heddle
    args.folder.mkdir(parents=True, exist_ok=True)
    where = {"dtype": "f32"} if args.device == "cpu" else {"dtype": "bf16", "target": f"cuda:{args.gpu}"}
    columns = heddle.attend(heddle.columns(f"1/{KEPT}", group=BLOCK), refresh=heddle.first(1))
    for name, schedule in (("dense", heddle.attend()), ("columns", columns)):
        heddle.compile(heddle.schedule(name, schedule), head_dim=128, crossovers="none", **where).save(
            args.folder / f"{name}.hdl")


class Bench:
    """One model's steps at any length."""

    def __init__(self, args, name):
        import heddle
        import released
        import torch
        self.torch, self.args, self.patch = torch, args, heddle.patch
        config = SimpleNamespace(**(TINY if args.shape == "tiny" else FULL)[name])
        self.heads = getattr(config, "n_heads", None) or config.num_attention_heads
        self.vocabulary = getattr(config, "embedding_size", None) or config.vocab_size
        before = torch.get_default_dtype()
        torch.manual_seed(7)
        torch.set_default_dtype(torch.float32 if args.device == "cpu" else torch.bfloat16)
        with torch.device(args.device):
            if name == "llada":
                self.model = released.LLaDAModel(config).eval()
                self.model.transformer["ff_out"] = torch.nn.Identity()
            else:
                self.model = released.DreamBaseModel(config).eval()
        torch.set_default_dtype(before)
        self.bundles = {each: heddle.Bundle.read(args.folder / f"{each}.hdl") for each in ("dense", "columns")}

    def timed(self, ids):
        """Milliseconds of a step, and what it gives."""
        if self.args.device == "cuda":
            self.torch.cuda.synchronize()
        begin = time.perf_counter()
        made = self.model(ids)
        if self.args.device == "cuda":
            self.torch.cuda.synchronize()
        return 1000 * (time.perf_counter() - begin), made

    def steps(self, ids, times, warm):
        """The median of `times` passes, and what the last gives."""
        if warm:
            self.timed(ids)
        taken = [self.timed(ids) for _ in range(times)]
        return statistics.median(ms for ms, _ in taken), taken[-1][1]

    def flex(self, n):
        """scaled_dot_product_attention's arguments through FlexAttention over random blocks, the same in all layers."""
        torch, where = self.torch, self.args.device
        from torch.nn.attention.flex_attention import BlockMask, flex_attention
        torch._dynamo.reset()  # it compiles for a few shapes, and interprets others
        call = flex_attention if where == "cpu" else torch.compile(flex_attention, dynamic=False)
        blocks = n // BLOCK
        kept = max(1, blocks // KEPT)
        indices = torch.rand(1, self.heads, blocks, blocks, device=where).argsort(-1).to(torch.int32)
        indices[..., :kept] = indices[..., :kept].sort(-1).values
        counts = torch.full((1, self.heads, blocks), kept, device=where, dtype=torch.int32)
        # Whole blocks are kept, so none is masked element by element.
        block_mask = BlockMask.from_kv_blocks(torch.zeros_like(counts), indices, counts, indices, BLOCK_SIZE=BLOCK)

        def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False):
            return call(q, k, v, block_mask=block_mask)
        return mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", attention)

    def row(self, n):
        """{column: milliseconds} at a length."""
        torch = self.torch
        times = 5 if n < 16384 else 3 if n < 65536 else 2
        warm = n < 65536
        ids = torch.randint(0, self.vocabulary, (1, n), device=self.args.device)
        row = {}
        row["sdpa"], expected = self.steps(ids, times, warm)
        with self.patch(self.model, self.bundles["dense"], steps=1):
            self.timed(ids[:, :BLOCK])  # loads the kernels
            row["dense"], made = self.steps(ids, times, warm)
        row["differs"] = self.differs(made, expected)
        if row["differs"] > 0.2:
            sys.exit(f"error: patched, dense, differs from SDPA by {row['differs']:.1%} at {n} tokens")
        del made, expected
        with self.patch(self.model, self.bundles["columns"], steps=1 + times) as patched:
            chosen, read = [], []
            self.timed(ids[:, :BLOCK])
            for _ in range(2 + warm):
                patched.restart()
                chosen.append(self.timed(ids)[0])
                if len(read) < (1 + warm) * times:
                    read += [self.timed(ids)[0] for _ in range(times)]
            row["choosing"] = statistics.median(chosen[warm:])
            row["columns"] = statistics.median(read[-times:])
        if not self.args.no_flex:
            with self.flex(n):
                row["flex"] = self.steps(ids, times, True)[0]  # compiled first
        return row

    def differs(self, made, expected):
        """The root of the mean square, relative."""
        made, expected = made.float(), expected.float()
        assert made.isfinite().all()
        return ((made - expected).square().mean() / expected.square().mean()).sqrt().item()


def run(args):
    import torch
    sys.path.insert(0, str(ROOT / "python" / "test" / "package"))
    torch.set_grad_enabled(False)
    began, rows = time.monotonic(), []
    machine = torch.cuda.get_device_name() if args.device == "cuda" else "the host"
    print(f"{machine}, PyTorch {torch.__version__}")
    for name in args.models:
        bench = Bench(args, name)
        print(f"\n{NAMES[name]} shape{', tiny' if args.shape == 'tiny' else ''}; a step in milliseconds\n\n"
              f"| n | SDPA | Flex, 1/{KEPT} of the blocks | patched, dense | patched, choosing columns | "
              f"patched, 1/{KEPT} of the columns | over SDPA | over Flex |\n|{'---|' * 8}", flush=True)
        for n in args.lengths:
            row = bench.row(n)
            rows.append({"model": name, "tokens": n, "machine": machine, **row})
            gains = [f"{row[rival] / row['columns']:.2f}" if rival in row else "-" for rival in ("sdpa", "flex")]
            shown = [f"{row[each]:,.1f}" if each in row else "-" for each in COLUMNS]
            print(f"| {n:,} | " + " | ".join(shown + gains) + " |", flush=True)
        print(f"\npatched, dense, differs from SDPA by at most {max(r['differs'] for r in rows if r['model'] == name):.2%}")
        del bench
        if args.device == "cuda":
            torch.cuda.empty_cache()
    if args.json:
        args.json.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    ARGS = options()
    (compile_all if ARGS.what == "compile" else run)(ARGS)
