# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the package's tests share. They run against the installed package, with the
programs of a build: those in HEDDLE_BIN, by default in build/dev/bin, or build/release/bin where that alone is."""

import functools
import importlib.util
import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILT = [ROOT / "build" / kind / "bin" for kind in ("dev", "release")]
BIN = Path(os.environ.get("HEDDLE_BIN") or next((folder for folder in BUILT if folder.exists()), BUILT[0]))
LLADA = ROOT / "models" / "heddle-4m"
DREAM = ROOT / "models" / "heddle-dream-5m"
PROMPTS = ["Sort 52 17 90 33.", "Add 4821 and 977."]


@functools.lru_cache(maxsize=None)
def contrary():
    """The folder of a model that contradicts what it has said."""
    spec = importlib.util.spec_from_file_location("contrary", ROOT / "python" / "heddle_reference" / "contrary.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    contrary.folder = tempfile.TemporaryDirectory()
    return module.write(LLADA, contrary.folder.name)


def heddle_run(model, bundle, prompts, *options):
    """(steps, sequences, texts) of heddle-run on text prompts."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        bundle.save(folder / "b.hdl")
        (folder / "p.txt").write_text("\n".join(prompts) + "\n")
        done = subprocess.run(
            [BIN / "heddle-run", "-q", "-m", model, "-b", folder / "b.hdl", "--prompts-file",
             folder / "p.txt", "--steps-json", folder / "steps", "--json", *options],
            check=True, capture_output=True, text=True)
        lines = [json.loads(line) for line in (folder / "steps").read_text().splitlines()]
    texts = [sequence["text"] for sequence in json.loads(done.stdout)["results"]]
    return lines[:-1], lines[-1]["sequences"], texts
