# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading a record: a safetensors file, whose metadata says of what run it is."""

import json
import math
import os
import struct

from .. import files
from ..errors import HeddleError

FORMAT = "heddle-run record 1"
DTYPES = {"I32": "<i4", "F32": "<f4", "U8": "u1"}
TENSORS = ("commits", "confidences", "seconds", "visible", "queries", "exact", "counts", "drift.at", "drift",
           "maps.steps", "maps.recall", "shares", "maps.rows", "maps.mass", "maps.kept")


class Record:
    """What heddle-run --record wrote: `run`, a dict, and tensors by name (docs/HowTo/Trace.md). Raises HeddleError for
    a file that is none."""

    def __init__(self, path):
        self.path = os.fspath(path)
        try:
            data = files.read(path)
        except OSError as error:
            raise HeddleError(f"{path}: {error.strerror}") from None
        try:
            size = struct.unpack("<Q", data[:8])[0]
            header = json.loads(data[8:8 + size].decode("utf-8"))
            about = header.pop("__metadata__")
            if about["format"] != FORMAT:
                raise ValueError(f"its format is '{about['format']}', expected '{FORMAT}'")
            self.run = json.loads(about["run"])
            self.data, self.header = data[8 + size:], header
            for name in TENSORS:
                entry = header[name]
                begin, end = entry["data_offsets"]
                width = int(DTYPES[entry["dtype"]][-1])
                if not 0 <= begin <= end <= len(self.data) or math.prod(entry["shape"]) * width != end - begin:
                    raise ValueError(f"tensor '{name}' does not lie in the file")
        except (ValueError, KeyError, TypeError, struct.error) as error:
            raise HeddleError(f"{path}: expected a file that heddle-run --record wrote: {error}") from None

    def __getitem__(self, name):
        """A tensor as a NumPy array."""
        import numpy as np
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        return np.frombuffer(self.data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])

    def mass(self):
        """Attention's mass, float32 [maps, layers, heads, cells, cells]: the share of a row's softmax that lies in a cell
        of keys, the mean of a cell's rows; to 5%, 0 below 1e-5."""
        import numpy as np
        codes = self["maps.mass"]
        return np.where(codes > 0, np.float32(10) ** (codes.astype(np.float32) / 51 - 5), np.float32(0))
