# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recall of attention mass: what of a softmax lies on the pairs that a schedule computes. One recorded
run of a prompt says it (heddle-run --record), long before answers do."""

import json
import os
import shutil
import signal
import subprocess
import tempfile

from ..errors import HeddleError
from ..tracing import Record

#: Options of Model.generate that heddle-run has, too.
LENGTHS = ("gen_length", "steps", "block_length")


def heddle_run() -> str:
    """The program's path. HeddleError if it is not on PATH."""
    program = shutil.which("heddle-run")
    if program is None:
        raise HeddleError("rung 'recall': heddle-run records the runs, and it is not on PATH; add its folder, or leave the rung out")
    return program


def recall(bundle, model, prompt_ids, options, seconds: float = 3600.0) -> float:
    """The mean over maps, layers and heads of the share of attention's mass on computed pairs, 0 to 1, of a run of one
    prompt. bundle: compiled for the model. model: a loaded heddle.Model, whose folder, device and dtype are taken.
    prompt_ids: token ids. options: of Model.generate, of which lengths and steps count.
    seconds: how long heddle-run may take. Raises HeddleError where there is no heddle-run, it fails or takes longer."""
    program = heddle_run()
    with tempfile.TemporaryDirectory(prefix="heddle-tune-") as folder:
        record, compiled = os.path.join(folder, "run.safetensors"), os.path.join(folder, "schedule.hdl")
        prompts = os.path.join(folder, "prompt.jsonl")
        bundle.save(compiled)
        with open(prompts, "w", encoding="utf-8") as file:
            file.write(json.dumps({"prompt_ids": list(map(int, prompt_ids))}) + "\n")
        flags = [f"--{name.replace('_', '-')}={options[name]}" for name in LENGTHS if options.get(name) is not None]
        try:
            done = subprocess.run(
                [program, "--model", str(model.folder), "--bundle", compiled, "--prompts-file", prompts, "--record", record,
                 "--record-cells", "8", f"--device={model.device}", f"--dtype={model.dtype}", "--quiet", *flags],
                capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise HeddleError(f"rung 'recall': heddle-run did not end within {seconds:.0f} s, and was stopped") from None
        if done.returncode in (-signal.SIGINT, 128 + signal.SIGINT):  # Ctrl-C reaches both
            raise KeyboardInterrupt
        if done.returncode:
            raise HeddleError(f"heddle-run ended with status {done.returncode}: {done.stderr.strip()}")
        maps = Record(record)["maps.recall"]
        return float(maps.mean()) if maps.size else 1.0


def hopeless(found, trials, passes) -> list:
    """The trials that speak against one of recall `found`: at least three with as much recall were surely too inaccurate,
    and none with as little was found good enough. Else []. passes: whether a trial reaches the floor."""
    known = [(r["recall"], t) for t in trials for r in t["rungs"] if r["rung"] == "recall"]
    worse = [t for r, t in known if r >= found and t["state"] == "stopped" and t.get("below_floor") and len(t["rungs"]) > 1]
    good = any(r <= found and passes(t) for r, t in known)
    return [] if good or len(worse) < 3 else worse
