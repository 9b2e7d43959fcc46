#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: record_steps.py RECORD TRACE

A record's steps and their passes are those of the trace. Needs no package.
"""
import json
import struct
import sys
from pathlib import Path

data = Path(sys.argv[1]).read_bytes()
size = struct.unpack("<Q", data[:8])[0]
header, body = json.loads(data[8:8 + size]), data[8 + size:]
lines = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]


def numbers(name):
    begin, end = header[name]["data_offsets"]
    return struct.unpack(f"<{(end - begin) // 4}i", body[begin:end])


assert header["__metadata__"]["format"] == "heddle-run record 2"
assert header["counts"]["shape"][0] == len(lines)
passes, copies = numbers("passes")[::2], numbers("passes")[1::2]
assert list(passes) == [line["pass"] for line in lines]
assert all(1 <= passes.count(one) <= copies[passes.index(one)] <= 4 for one in passes)
commits = numbers("commits")
assert list(commits) == [number for line in lines for position, token, _ in line["committed"]
                         for number in (line["step"], position, token)]
rows = lambda said, n: n if said is None else len(said)
assert list(numbers("counts")) == [number for line in lines for layer in line["layers"] for number in (
    rows(layer["queries"], line["n"]), rows(layer.get("exact", layer["queries"]), line["n"]), rows(layer["ffn"], line["n"]))]
print(f"{len(lines)} steps in {passes[-1]} passes")
