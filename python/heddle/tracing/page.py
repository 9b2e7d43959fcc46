# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A record as one HTML page that needs nothing beside it. It shares its drawing with heddlec --explain=html."""

import base64
import html as escape
import json
import re
import zlib
from pathlib import Path

from ..errors import HeddleError
from .record import TENSORS, Record

HERE = Path(__file__).resolve().parent


def _shared():
    """web/shared of an installed package, tools/explain/page/web of a checkout."""
    for folder in (HERE / "web" / "shared", HERE.parents[2] / "tools" / "explain" / "page" / "web"):
        if (folder / "picture.js").is_file():
            return folder
    raise FileNotFoundError(f"{HERE / 'web' / 'shared'}: the package's pages are missing; install it again")


def chosen(record: Record, layers=None, heads=None) -> tuple:
    """(run, {name: array}) of some of the layers and heads, in whose order the page then numbers them."""
    import numpy as np
    tensors = {name: record[name] for name in TENSORS}
    run = dict(record.run)
    for what, some, axis in (("layers", layers, 1), ("heads", heads, 2)):
        if some is None:
            continue
        for one in some:
            if not 0 <= one < run[what]:
                raise HeddleError(f"--{what}: {one}: the record has 0 to {run[what] - 1}")
        for name in (("queries", "exact", "counts", "maps.rows") if axis == 1 else ()) + ("maps.recall", "maps.mass", "maps.kept"):
            tensors[name] = np.take(tensors[name], some, axis)
        at = tensors["drift.at"]
        kept = np.isin(at[:, axis], some)
        at = at[kept].copy()
        at[:, axis] = [list(some).index(one) for one in at[:, axis]]
        tensors["drift.at"], tensors["drift"] = at, tensors["drift"][kept]
        run[what] = len(some)
    return run, tensors


def html(record: Record, layers=None, heads=None) -> str:
    """The page. layers, heads: those to show, by default all."""
    run, tensors = chosen(record, layers, heads)
    if not len(tensors["seconds"]) or not len(tensors["maps.steps"]):
        raise HeddleError(f"{record.path}: the run ended before its first step; there is nothing to show")
    packed, places = bytearray(), {}
    dtypes = {"i": "I32", "f": "F32", "u": "U8"}
    for name, values in tensors.items():
        begin = len(packed)
        packed += values.tobytes()
        places[name] = {"dtype": dtypes[values.dtype.kind], "shape": list(values.shape),
                        "data_offsets": [begin, len(packed)]}
    web, shared = HERE / "web", _shared()
    script = "".join((folder / f"{name}.js").read_text(encoding="utf-8") for folder, name in (
        (shared, "format"), (web, "record"), (shared, "picture"), (web, "maps"), (web, "lanes"), (web, "main")))
    style = (shared / "page.css").read_text(encoding="utf-8") + (web / "trace.css").read_text(encoding="utf-8")
    made = {"style": style, "script": "'use strict';\n(() => {\n" + script + "})();\n",
            "title": escape.escape(run["schedule"]),
            "data": json.dumps({"run": run, "tensors": places}).replace("<", "\\u003c"),
            "tensors": base64.b64encode(zlib.compress(bytes(packed), 6)).decode()}
    page = (web / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: made[found[1]], page)
