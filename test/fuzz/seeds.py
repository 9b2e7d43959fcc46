#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""First inputs of the fuzzers, from the examples, the tests and the models.

usage: seeds.py BIN_DIR OUT_DIR     BIN_DIR: where heddlec is

Writes OUT_DIR/<fuzzer>/<name>; ./campaign reduces them to those that reach
something that no other does.
"""

import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BETWEEN = "\n=====\n"


def schedules():
    for path in sorted((ROOT / "examples").glob("*.mlir")):
        # Comments reach nothing.
        text = re.sub(r"^//.*\n", "", path.read_text(), flags=re.M).lstrip()
        yield path.stem, text
    for path in sorted((ROOT / "test/Dialect/Heddle").glob("*.mlir")):
        for number, piece in enumerate(path.read_text().split("// -----")):
            piece = re.sub(r"^\s*//.*\n", "", piece, flags=re.M).strip()
            if "heddle.schedule" in piece:
                yield f"{path.stem}-{number}", piece + "\n"


def bundles(bin_dir):
    """Of examples whose axes differ: the bytes for an x86-64 CPU, and for GPUs."""
    host = ["--target=x86-64-v3", "--dtype=f32", "--head-dim=64"]
    gpu = ["--target=cuda:sm_80", "--dtype=bf16", "--head-dim=64", "--ptxas=none"]
    for name in ("dense", "pulsecol", "sparsed", "dyllm", "window-diffusion",
                 "dllm-cache", "fast-dllm-dual-parallel", "streaming-llm"):
        for kind, options in (("host", host), ("gpu", gpu)):
            source = ROOT / f"examples/{name}.mlir"
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "b.hdl"
                subprocess.run([bin_dir / "heddlec", source, "-o", out, *options],
                               check=True, capture_output=True)
                yield f"{name}-{kind}", out.read_bytes()


def sections(bundle):
    count = struct.unpack_from("<I", bundle, 12)[0]
    for i in range(count):
        name, offset, size, _ = struct.unpack_from("<24sQQQ", bundle, 32 + 48 * i)
        yield name.rstrip(b"\0").decode(), bundle[offset:offset + size]


def safetensors(tensors, metadata=None):
    """tensors: (name, dtype, shape, bytes)"""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, size in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return header, at


def model_files():
    files = {
        "one": safetensors([("a", "BF16", [2, 3], 12)]),
        "types": safetensors([("x", "F32", [4], 16), ("y", "F16", [2, 2], 8),
                              ("z", "I64", [1], 8), ("e", "BF16", [0, 4], 0)],
                             {"format": "pt"}),
        "scalar": safetensors([("s", "F8_E4M3", [], 1), ("b", "BOOL", [3], 3)]),
    }
    for name, (header, size) in files.items():
        text = json.dumps(header).encode()
        yield "safetensors", name, struct.pack("<Q", len(text)) + text + b"\1" * size
    (first, size_a), (second, size_b) = files["one"], files["types"]
    weights = {"a": "a.safetensors", "x": "b.safetensors", "y": "b.safetensors",
               "z": "b.safetensors", "e": "b.safetensors"}
    for name, index in (
            ("two", {"metadata": {"total_size": 44}, "weight_map": weights}),
            ("lacks", {"weight_map": {"a": "b.safetensors"}}),
            ("outside", {"weight_map": {"a": "../a.safetensors"}})):
        yield "model-index", name, BETWEEN.join(
            [json.dumps(index), json.dumps(first) + "\1" * size_a,
             json.dumps(second) + "\1" * size_b]).encode()


def texts():
    for path in [*ROOT.glob("models/*/*config.json"),
                 *(ROOT / "runtime/test/model/Inputs").glob("*config.json")]:
        if "tokenizer" not in path.name:
            yield "config", f"{path.parent.name}-{path.name}", path.read_bytes()
    patterns = set()
    for path in sorted((ROOT / "runtime/test/text/goldens").glob("*/tokenizer.json")):
        document = json.loads(path.read_text())
        if path.parent.name in ("flags", "llama3", "prefix_space", "split_behaviors"):
            yield "tokenizer", path.parent.name, json.dumps(
                document, ensure_ascii=False, separators=(",", ":")).encode()
        patterns.update(re.findall(r'"Regex":\s*("(?:[^"\\]|\\.)*")', path.read_text()))
    folder = ROOT / "runtime/test/text/goldens/separate_files"
    dream = ROOT / "models/heddle-dream-5m"
    for name, place in (("golden", folder), ("dream", dream)):
        parts = [(place / f).read_text() for f in
                 ("vocab.json", "merges.txt", "tokenizer_config.json",
                  "added_tokens.json") if (place / f).is_file()]
        yield "vocab-merges", name, BETWEEN.join(parts).encode()
    text = "The  loom's 12 threads.\n\n a\u0301 \u4f60\u597d"
    for number, pattern in enumerate(sorted(patterns)):
        yield "regex", f"golden-{number}", (json.loads(pattern) + BETWEEN + text).encode()
    source = (ROOT / "runtime/test/text/RegexTest.cpp").read_text()
    for number, pattern in enumerate(re.findall(r'R"\((.*?)\)"', source)):
        yield "regex", f"test-{number}", (pattern + BETWEEN + text).encode()
    for name, prompts in {
            "text": "Sort 52 17 90 33.\nWhat is 2+2?\r\n",
            "ids": "1,2, 3,2147483647",
            "strings": '"Sort 3 1 2."\n{"prompt": "a\\u00e9"}\n',
            "list": '{"prompt_ids": [1, 2, 3]}\n',
            "messages": json.dumps({"messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello"}]})}.items():
        yield "prompts", name, prompts.encode()
    for name, messages in {
            "one": ["user\n What?  \n"],
            "three": ["system\nBe brief.", "user\n\u2003Hi\u0085",
                      "assistant\n<|eot_id|>\x1c"]}.items():
        yield "chat", name, BETWEEN.join(messages).encode()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    bin_dir, out = Path(sys.argv[1]), Path(sys.argv[2])

    def write(fuzzer, name, contents):
        (out / fuzzer).mkdir(parents=True, exist_ok=True)
        (out / fuzzer / name).write_bytes(contents)

    for name, text in schedules():
        write("spec", name, text.encode())
    for fuzzer, name, contents in [*model_files(), *texts()]:
        write(fuzzer, name, contents)
    for name, bundle in bundles(bin_dir):
        parts = dict(sections(bundle))
        write("manifest", name, parts["manifest"])
        if len(parts.get("code.host", "")) in range(1, 13_000):
            write("native-code", name, parts["code.host"])
        if len(bundle) <= 13_000:  # more is more code, not more format
            write("bundle", name, bundle)


if __name__ == "__main__":
    main()
