# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading a record: a safetensors file, whose metadata says of what run it is."""

import json
import math
import os

from .. import files
from ..errors import HeddleError

FORMAT = "heddle-run record 2"
DTYPES = {"I32": "<i4", "F32": "<f4", "U8": "u1"}
#: Each tensor's dtype and shape: a letter stands for the same number wherever it is (docs/HowTo/Trace.md).
SHAPES = {
    "commits": ("I32", "T3"), "confidences": ("F32", "T"), "passes": ("I32", "S2"), "seconds": ("F32", "S"), "visible": ("I32", "S"),
    "queries": ("I32", "SL"), "exact": ("I32", "SL"), "counts": ("I32", "SL3"), "drift.at": ("I32", "R4"),
    "drift": ("F32", "R"), "maps.steps": ("I32", "M"), "maps.recall": ("F32", "MLH"), "shares": ("U8", "DB"),
    "maps.rows": ("U8", "MLC"), "maps.mass": ("U8", "MLHCC"), "maps.kept": ("U8", "MLHCC"),
}
TENSORS = tuple(SHAPES)
#: What of the run is used here and by the page.
RUN = {**dict.fromkeys(("schedule", "source", "producer", "model", "device", "dtype", "date"), str),
       **dict.fromkeys(("seed", "length", "prompt", "layers", "heads", "head_dim", "rows_per_cell"), int), "texts": list, "selections": list}


class Record:
    """What heddle-run --record wrote: `run`, a dict, and tensors by name (docs/HowTo/Trace.md). Raises HeddleError for
    a file that is none, OSError for one that cannot be read."""

    def __init__(self, path):
        self.path = os.fspath(path)
        data = files.read(path)
        try:
            if len(data) < 8:
                raise ValueError(f"it has {len(data)} bytes")
            size = int.from_bytes(data[:8], "little")
            header = json.loads(data[8:8 + size].decode("utf-8"))
            if not isinstance(header, dict) or not isinstance(header["__metadata__"], dict):
                raise ValueError("its header is no object with metadata")
            about = header.pop("__metadata__")
            if about["format"] != FORMAT:
                raise ValueError(f"its format is '{about['format']}', expected '{FORMAT}'")
            self.run = json.loads(about["run"])
            if not isinstance(self.run, dict):
                raise ValueError("what it says of the run is no object")
            for name, kind in RUN.items():
                if not isinstance(self.run[name], kind):
                    raise ValueError(f"the run's {name} is {self.run[name]!r:.40}")
            self.data, self.header = data[8 + size:], header
            sizes = {"L": self.run["layers"], "H": self.run["heads"], **{digit: int(digit) for digit in "234"}}
            for name in TENSORS:
                self._check_tensor(name, sizes)
            self._check_values(sizes)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            said = f"{error} is missing" if isinstance(error, KeyError) else error
            raise HeddleError(f"{path}: expected a file that heddle-run --record wrote: {said}") from None

    def _check_tensor(self, name, sizes):
        """ValueError for a tensor that is not in the file, or not of the shape that `sizes`, {letter: number}, asks
        for; letters that are new there are added."""
        entry, (dtype, letters) = self.header[name], SHAPES[name]
        begin, end = entry["data_offsets"]
        shape = entry["shape"]
        if (entry["dtype"] != dtype or len(shape) != len(letters)
                or any(type(n) is not int or n < 0 or sizes.setdefault(letter, n) != n for n, letter in zip(shape, letters))):
            raise ValueError(f"tensor '{name}' is {entry['dtype']} {shape}, expected {dtype} "
                             f"{[sizes.get(letter, letter) for letter in letters]}")
        if (type(begin) is not int or type(end) is not int or not 0 <= begin <= end <= len(self.data)
                or math.prod(shape) * int(DTYPES[dtype][-1]) != end - begin):
            raise ValueError(f"tensor '{name}' does not lie in the file")

    def _check_values(self, sizes):
        """ValueError for steps, positions, layers, heads and places that there are not."""
        place, step = (0, sizes["D"]), (1, sizes["S"] + 1)
        limits = {"visible": place, "queries": place, "exact": place, "maps.steps": step,
                  "commits": (step, (0, self.run["length"]), (-1, 1 << 31)), "passes": (step, (1, 1 << 31)),
                  "drift.at": (step, (0, sizes["L"]), (0, sizes["H"]), (0, len(self.run["selections"])))}
        for name, each in limits.items():
            values = self[name]
            columns = zip(values.T, each) if name in ("commits", "passes", "drift.at") else [(values, each)]
            for column, (first, end) in columns:
                if column.size and not first <= column.min() <= column.max() < end:
                    raise ValueError(f"tensor '{name}' has {column.min()} to {column.max()} where {first} to {end - 1} are expected")

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
