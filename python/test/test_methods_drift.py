# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of heddle_reference.methods.drift: bounds that never or always hold are cadences
that are known before, and what lies between is decided by what was measured."""

import unittest
from types import SimpleNamespace

import torch

from test_methods import FAMILIES, SameRun, prompt_of, tiny_llada

from heddle_reference.methods import cached, commit, drift, dyllm, pairs, run


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


    def test_rows_that_come_later_are_compared_from_then_on(self):
        watch = drift.Watch(0.9, 9)
        watch.begin()
        still, turned = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
        found = []
        for step, rows in enumerate([{}, {3: still}, {4: still}, {4: still, 5: still}, {5: turned},
                                     {5: turned}, {5: turned}, {6: still}], 1):
            at = SimpleNamespace(step=step, prompt=2, inner=step - 1)
            if watch.refreshes(at):
                found.append(step)
            watch.measure(at, list(rows), torch.stack([*rows.values(), still])[None, :len(rows)])
        self.assertEqual(found, [1, 6])

    def test_layers_behind_are_refreshed_with_those_before(self):
        early, late = watches = [drift.Watch(0.9, 9), drift.Watch(0.9, 9)]
        found = {early: [], late: []}
        for watch in watches:
            watch.begin()
        for step in range(1, 12):
            at, before = SimpleNamespace(step=step, prompt=0, inner=step - 1), False
            for watch in watches:
                before = watch.refreshes(at, before)
                found[watch] += [step] * before
            # Early turns at step 4, late at step 7 as it did right after its last reference.
            for watch, turn in ((early, step >= 4), (late, step >= 7)):
                watch.measure(at, [0], torch.tensor([[[1.0 - turn, 0.0 + turn]]]))
        self.assertEqual((found[early], found[late]), ([1, 5], [1, 5, 8]))


class ByClassTest(unittest.TestCase):
    def test_by_hand(self):
        weights = torch.tensor([[[0.1, 0.2, 0.3, 0.0, 0.4], [1, 0, 0, 0, 0]], [[0, 0, 0, 0, 1], [0.2] * 5]])
        expected = [[[0.5, 0.2, 0.3, 0], [1, 0, 0, 0]], [[1, 0, 0, 0], [0.4, 0.2, 0.2, 0.2]]]
        torch.testing.assert_close(drift.by_class(weights, 4), torch.tensor(expected))
        self.assertTrue(torch.equal(drift.by_class(weights, 8)[..., :5], weights))


class Window(cached.Cached):
    """SlidingWindow's rows, of which nothing else is ever computed again."""

    def reach(self, run):
        return set(run.undecoded()[:5])

    def plan(self, run):
        rows = {*self.reach(run), *(run.history[-1] if run.history else [])}
        return run.predicting(rows) if run.step > 1 else cached.everything(run), cached.everything(run)


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

    def test_a_window_that_never_drifts_is_known_before(self):
        for make in FAMILIES:
            for weighs in (False, True):
                pieces = make()
                never = drift.SlidingWindow(5, 99, ((1, 0), (-1, 0)), weighs)
                self.assert_same_run(self.go(pieces, never), self.go(pieces, Window()))
                always = drift.SlidingWindow(99, 1, ((0, 0),), weighs)
                self.assert_same_run(self.go(pieces, always), self.go(pieces, pairs.Dense()))

    def test_salient_rows_that_never_drift_are_known_before(self):
        for make in FAMILIES:
            pieces = make()
            never = self.go(pieces, drift.DriftingSaliency(0.99, 0, 99, 1))
            self.assert_same_run(never, self.go(pieces, dyllm.DyLLM(0.99, full=1, whole_period=99)))
            always = self.go(pieces, drift.DriftingSaliency(0.99, 0, 1, 1))
            self.assert_same_run(always, self.go(pieces, pairs.Dense()))

    def test_a_refresh_begins_at_the_layer_that_drifted(self):
        for make in FAMILIES:
            pieces = make()
            for weighs in (False, True):
                records = self.go(pieces, drift.SlidingWindow(5, 99, ((1, 0), (-1, 1)), weighs))
                kinds = [[entry["queries"] is None for entry in r["layers"]] for r in records]
                last = [False] * (pieces.layers - 1) + [True]
                self.assertEqual(kinds[0], [True] * pieces.layers)
                self.assertEqual([kind for kind in kinds[1:] if any(kind)], [last] * 5)

    def test_a_higher_bound_refreshes_more(self):
        counts = []
        for below in (0, 0.5, 0.9, 1):
            records = self.go(tiny_llada(), drift.Drifting(pairs.Columns("1/5", 16), below, 16))
            counts.append(sum(bool(r["refreshed"]) for r in records))
        self.assertEqual(counts, sorted(counts))
        self.assertEqual((counts[0], counts[-1]), (1, 6))


if __name__ == "__main__":
    unittest.main()
