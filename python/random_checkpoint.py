#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a checkpoint of random weights with the shape of any LLaDA config.json.

The folder has what Hugging Face's libraries save: config.json, shards
model-00001-of-0000N.safetensors of bounded size and model.safetensors.index.json. Weights are
normal with deviation 0.02, norms are 1. A block of a million values is drawn once and repeated, so
the disk's speed, not the generator's, is the limit. For timing how a model is loaded, without a
download:

  python3 python/random_checkpoint.py --config models/heddle-4m/config.json --out /tmp/random
  heddle-run --model /tmp/random --bundle gpu.hdl --device=cuda --dtype=bf16 --prompt-ids 1,2,3
"""

import argparse
import array
import json
import math
import pathlib
import random
import shutil
import struct
import sys

# An odd length, so that rows of a matrix do not repeat each other.
BLOCK = (1 << 20) - 3


def encode(values, dtype):
    """Floats as bytes of a safetensors type; bf16 rounded to nearest even."""
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    wide = struct.pack(f"<{len(values)}f", *values)
    if dtype == "F32":
        return wide
    bits = array.array("I", wide)
    return array.array("H", [(b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits]).tobytes()


def tensors_of(config):
    """(name, shape) of every tensor, in the order in which the released code saves them."""
    hidden, heads = config["d_model"], config["n_heads"]
    keys = hidden // heads * (config.get("n_kv_heads") or heads)
    mlp = config["mlp_hidden_size"]
    vocab = config.get("embedding_size") or config["vocab_size"]
    root = "model.transformer."
    yield root + "wte.weight", (vocab, hidden)
    for layer in range(config["n_layers"]):
        block = f"{root}blocks.{layer}."
        yield block + "attn_norm.weight", (hidden,)
        yield block + "q_proj.weight", (hidden, hidden)
        yield block + "k_proj.weight", (keys, hidden)
        yield block + "v_proj.weight", (keys, hidden)
        yield block + "attn_out.weight", (hidden, hidden)
        yield block + "ff_norm.weight", (hidden,)
        yield block + "ff_proj.weight", (mlp, hidden)
        yield block + "up_proj.weight", (mlp, hidden)
        yield block + "ff_out.weight", (hidden, mlp)
    yield root + "ln_f.weight", (hidden,)
    if not config.get("weight_tying"):
        yield root + "ff_out.weight", (vocab, hidden)


def split(tensors, element, limit):
    """Lists of (name, shape, bytes) for each shard, at most `limit` bytes where a tensor allows."""
    shards, size = [[]], 0
    for name, shape in tensors:
        count = element * math.prod(shape)
        if shards[-1] and size + count > limit:
            shards.append([])
            size = 0
        shards[-1].append((name, shape, count))
        size += count
    return shards


def write_shard(path, tensors, dtype, block, ones):
    """One safetensors file: length of the header, header, the tensors' bytes."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, count in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape, count in tensors:
            source = ones if len(shape) == 1 else block
            while count > 0:
                piece = source[:count]
                file.write(piece)
                count -= len(piece)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="a LLaDA config.json")
    parser.add_argument("--out", required=True, help="the folder to write; made if it is not there")
    parser.add_argument("--dtype", choices=["F32", "BF16", "F16"], default="BF16")
    parser.add_argument("--shard-gb", type=float, default=5, help="of a shard, at most (5)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    try:
        config = json.loads(pathlib.Path(args.config).read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"error: {args.config}: {error}")
    missing = [key for key in ("d_model", "n_heads", "n_layers", "mlp_hidden_size", "vocab_size")
               if key not in config]
    if missing:
        sys.exit(f"error: {args.config} has no {', '.join(missing)}; expected a LLaDA config.json")
    if args.shard_gb <= 0:
        sys.exit("error: --shard-gb is not positive")
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    if any(out.glob("*.safetensors")):
        sys.exit(f"error: {out} holds a checkpoint already")
    element = 4 if args.dtype == "F32" else 2
    shards = split(tensors_of(config), element, int(args.shard_gb * 1e9))
    total = sum(count for shard in shards for _, _, count in shard)
    free = shutil.disk_usage(out).free
    if total > free:
        sys.exit(f"error: the checkpoint takes {total / 1e9:.1f} GB, {out} has {free / 1e9:.1f} GB")
    draw = random.Random(args.seed)
    block = memoryview(encode([draw.gauss(0, 0.02) for _ in range(BLOCK)], args.dtype))
    ones = memoryview(encode([1.0] * config["d_model"], args.dtype))
    index = {"metadata": {"total_size": total}, "weight_map": {}}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        print(f"{name}: {sum(count for _, _, count in shard) / 1e9:.2f} GB", file=sys.stderr)
        write_shard(out / name, shard, args.dtype, block, ones)
        index["weight_map"].update({tensor: name for tensor, _, _ in shard})
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
