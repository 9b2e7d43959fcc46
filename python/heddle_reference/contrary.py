# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model that contradicts what it has said: a trained one whose layers stand in reverse order."""

import json
import os
import re
import shutil
import struct


def write(folder, out):
    """Writes the model of a folder so to another one, which it returns. It has one file of weights,
    whose layers are called `blocks.N` or `layers.N`."""
    os.makedirs(out, exist_ok=True)
    for name in os.listdir(folder):
        if not name.endswith(".safetensors"):
            shutil.copy(os.path.join(folder, name), out)
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        data = f.read()
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    layer = re.compile(r"(\.(?:blocks|layers)\.)(\d+)(?=\.)")
    last = max(int(found[2]) for found in map(layer.search, header) if found)
    text = json.dumps({layer.sub(lambda found: found[1] + str(last - int(found[2])), name): each
                       for name, each in header.items()}).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(out, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data[8 + size:])
    return out
