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

    def __call__(self, schedule, runs, found=None, found_in=None) -> float:
        """runs: [(prompt's tokens, options of generate, weight)]. found: what a run of it found, summed as
        runner.run_batch has it; None before any run. found_in: (a model's folder, the runs) that found it."""
        told = list(self._told(schedule, self.shape, runs, found))
        drifted = 1.0
        if found and found_in and any("drift" in one["cost"] for one, _ in told):
            drifted = self._drifted(schedule, *found_in, found)
        seconds = 0.0
        for one, weight in told:
            few, most = _operations(one)
            seconds += weight * one["cost"]["estimate"]["seconds"] * (1 + drifted * (most / few - 1))
        return seconds / sum(weight for *_, weight in runs)

    def _drifted(self, schedule, shape, runs, found) -> float:
        """Where between the fewest refreshes (0) and the most (1) that a schedule by drift may have the runs were, by
        their operations."""
        told = [(*_operations(one), weight) for one, weight in self._told(schedule, shape, runs, found)]
        few, most = (sum(each[i] * each[2] for each in told) for i in (0, 1))
        return min(1.0, max(0.0, (found["operations"] - few) / (most - few))) if most > few else 0.0

    def _told(self, schedule, shape, runs, found):
        """heddlec's explanation of each run, and the run's weight."""
        for prompt, options, weight in runs:
            more = {}
            if found and found["salient_of"]:
                more["salient_share"] = min(1.0, found["salient_rows"] / found["salient_of"])
            if found and found["tokens"]:
                more["tokens_per_step"] = max(1.0, found["tokens"] / found["sequence_steps"])
            yield compiler.explain(schedule, format="json", prompt=prompt, machine=self.machine, model=shape,
                                   length=prompt + options["gen_length"], steps=options.get("steps"),
                                   block_length=options.get("block_length"), **more), weight


def _operations(told):
    """(fewest, most) of an explained run: one number but for schedules by drift."""
    cost = told["cost"]
    few = cost["work"]["operations"]
    return few, max(few, cost.get("drift", {}).get("most_operations", 0))
