# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of heddle_reference.methods.drift: bounds that never or always hold are cadences
that are known before, and what lies between is decided by what was measured."""

import unittest
from types import SimpleNamespace

import torch

from test_methods import FAMILIES, SameRun, prompt_of, tiny_llada

from heddle_reference.methods import cached, commit, drift, pairs, run


class WatchTest(unittest.TestCase):
    def steps(self, watch, angles, blocks=None):
        """Those of len(angles) that refresh; of rows 2 and 3 the second turns, row 1 is the prompt's."""
        watch.begin()
        found = []
        for step, angle in enumerate(angles, 1):
            at = SimpleNamespace(step=step, prompt=2, inner=(step - 1) % (blocks or len(angles)))
            if watch.refreshes(at):
                found.append(step)
            angle = torch.tensor(float(angle))
            turned = torch.stack([angle.cos(), angle.sin()])
            still = torch.tensor([1.0, 0.0])
            watch.measure(at, [1, 2, 3], torch.stack([turned * 9, still, turned])[None])
        return found

    def test_by_hand(self):
        # (1 + cos) / 2: 0.92 at 0.57, 0.89 at 0.68. Compared with steps 2 and 6.
        self.assertEqual(self.steps(drift.Watch(0.9, 9), [3, 0, 0.57, 0.68, 3, 1, 1.57, 0.32, 3]),
                         [1, 5, 9])
        self.assertEqual(self.steps(drift.Watch(0.9, 3), [0] * 8), [1, 4, 7])
        self.assertEqual(self.steps(drift.Watch(0.9, 9), [0, 0, 3] * 3), [1, 4, 7])
        self.assertEqual(self.steps(drift.Watch(0.9, 9, in_block=True), [0] * 8, 3), [1, 4, 7])


class DriftTest(SameRun):
    def go(self, pieces, method, prompt=23, gen=16, steps=16):
        return run.generate(pieces, prompt_of(prompt, prompt), gen, method, commit.Quotas(steps, 8))[1]

    def test_what_never_drifts_is_known_before(self):
        columns = lambda: pairs.Columns("1/5", 16)
        for make in FAMILIES:
            pieces = make()
            for below, period in ((0, 5), (0, 1), (1, 1)):
                self.assert_same_run(self.go(pieces, drift.Drifting(columns(), below, period)),
                                     self.go(pieces, pairs.Selecting(columns(), pairs.every(period))))
        self.assert_same_run(self.go(tiny_llada(), drift.DriftingCache(0, 8)),
                             self.go(tiny_llada(), cached.FastDllm(True)))

    def test_a_higher_bound_refreshes_more(self):
        counts = []
        for below in (0, 0.5, 0.9, 1):
            records = self.go(tiny_llada(), drift.Drifting(pairs.Columns("1/5", 16), below, 16))
            counts.append(sum(bool(r["refreshed"]) for r in records))
        self.assertEqual(counts, sorted(counts))
        self.assertEqual((counts[0], counts[-1]), (1, 6))


if __name__ == "__main__":
    unittest.main()
