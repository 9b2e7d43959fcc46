# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a trial costs: seconds of a sequence, estimated for a machine or measured on this one."""

import re

from .. import compiler
from ..errors import HeddleError


def parse_cost(text) -> tuple:
    """("estimate", "h200") or ("measured", None)."""
    if text == "measured":
        return "measured", None
    found = re.fullmatch(r"estimate:([\w.-]+)", text)
    if not found:
        raise HeddleError(f"--cost: '{text}': expected 'measured' or 'estimate:MACHINE', such as estimate:h200")
    return "estimate", found[1]


class Estimate:
    """Seconds of a sequence by heddlec --explain's roofline, for the lengths of the tasks and the model's
    shape, or that of another model's config.json."""

    def __init__(self, machine, shape):
        self.machine, self.shape = machine, shape

    def __call__(self, schedule, runs, found=None) -> float:
        """runs: [(prompt's tokens, options of generate, weight)]. found: what a run of it found, summed as
        runner.run_batch has it; None before any run."""
        seconds = 0.0
        for prompt, options, weight in runs:
            more = {}
            if found and found["salient_of"]:
                more["salient_share"] = min(1.0, found["salient_rows"] / found["salient_of"])
            if found and found["tokens"]:
                more["tokens_per_step"] = max(1.0, found["tokens"] / found["sequence_steps"])
            told = compiler.explain(schedule, format="json", prompt=prompt, machine=self.machine, model=self.shape,
                                    length=prompt + options["gen_length"], steps=options.get("steps"),
                                    block_length=options.get("block_length"), **more)
            seconds += weight * told["cost"]["estimate"]["seconds"]
        return seconds / sum(weight for *_, weight in runs)
