# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads a Hugging Face model folder: config.json and safetensors."""

import json
import os
import struct

import numpy as np
import torch


def read_safetensors(path):
    """{name: float32 tensor} of one file (8 bytes of header length, a JSON
    header, the data); F32, F16 and BF16."""
    with open(path, "rb") as f:
        data = f.read()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    body, tensors = data[8 + size:], {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        first, last = info["data_offsets"]
        raw = body[first:last]
        if info["dtype"] == "BF16":  # the upper half of a float32
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[info["dtype"]])
        values = values.astype(np.float32).reshape(info["shape"])
        tensors[name] = torch.from_numpy(values)
    return tensors


def load(folder):
    """(config, {name: float32 tensor}) of a folder with one file of weights or
    an index and its shards."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    index = os.path.join(folder, "model.safetensors.index.json")
    names = ["model.safetensors"]
    if os.path.exists(index):
        with open(index, encoding="utf-8") as f:
            names = sorted(set(json.load(f)["weight_map"].values()))
    weights = {}
    for name in names:
        weights.update(read_safetensors(os.path.join(folder, name)))
    return config, weights
