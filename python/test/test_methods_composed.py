# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of heddle_reference.methods.composed: one part is the published method,
parts that leave everything in change nothing."""

import unittest

import torch

from test_methods import FAMILIES, SameRun, prompt_of, tiny_dream, tiny_llada

from heddle_reference.methods import cached, commit, composed, dyllm, pairs, run, trace


def keyed(records):
    return {(0, r["step"]): r for r in records}


class ComposedTest(SameRun):
    def go(self, pieces, method, prompt=23, gen=16, steps=16):
        return run.generate(pieces, prompt_of(prompt, prompt), gen, method, commit.Quotas(steps))[1]

    def assert_same_trace(self, expected, found):
        self.assertEqual(trace.compare(keyed(expected), keyed(found)), {0: None})

    def test_one_part_is_the_published_method(self):
        columns = lambda: pairs.Columns("1/5", 16)
        for make in FAMILIES:
            pieces = make()
            for published, mine in (
                    (pairs.Dense(), composed.Composed()),
                    (pairs.pulsecol("1/5", 16, "1/2", 3),
                     composed.Composed(columns=columns(), cadence=pairs.uniform("1/2", 3))),
                    (cached.WindowDiffusion(7, 3, 4), composed.Composed(window=(7, 3, 4))),
                    (dyllm.DyLLM(0.99), composed.Composed(tau=0.99)),
                    (dyllm.DyLLM(0.9, full=2), composed.Composed(tau=0.9, full=2))):
                self.assert_same_trace(self.go(pieces, published), self.go(pieces, mine))

    def test_a_part_that_leaves_all_in_changes_nothing(self):
        for make in FAMILIES:
            pieces = make()
            all_columns = dict(columns=pairs.Columns("1", 16))
            everything = (39, 39, 1)
            for without, added in (
                    (dict(window=(7, 3, 4)), all_columns),
                    (dict(window=(7, 3, 4), tau=0.99), all_columns),
                    (dict(), dict(window=everything)),
                    (dict(), dict(window=everything, tau=0.9)),
                    (dict(columns=pairs.Columns("1/5", 16), cadence=pairs.uniform("1/2", 3)),
                     dict(tau=0.9, full=16))):
                self.assert_same_run(self.go(pieces, composed.Composed(**without)),
                                     self.go(pieces, composed.Composed(**without, **added)))

    def test_columns_in_a_window(self):
        pieces = tiny_dream()
        records = self.go(pieces, composed.Composed((7, 3, 4), pairs.Columns("1/5", 16)))
        for number, r in enumerate(records):
            seen = list(range(39)) if r["visible"] is None else r["visible"]
            rows = r["layers"][0]["queries"]
            rows = list(range(39)) if rows is None else rows
            self.assertEqual(bool(r["refreshed"]), number % 4 == 0)
            if r["refreshed"]:
                self.assertEqual(rows, seen)
                for entry in r["refreshed"]:
                    self.assertEqual(len(entry["lists"]), -(-len(seen) // 16))
                    for keys in entry["lists"]:
                        self.assertEqual(len(keys), len(seen) // 5)
                        self.assertTrue(set(keys) <= set(seen))
                self.assertEqual(r["layers"][0]["pairs"], 4 * len(seen) ** 2)
            else:
                self.assertLess(len(rows), len(seen))
                self.assertEqual(r["layers"][0]["pairs"], 4 * len(rows) * (len(seen) // 5))

    def test_saliency_corrects_over_the_columns_alone(self):
        pieces = tiny_llada()
        method = composed.Composed((7, 3, 8), pairs.Columns("1/5", 16), tau=0.99, full=1)
        records = self.go(pieces, method)
        fewer = 0
        for r in records:
            if r["refreshed"]:
                lists = {(e["layer"], e["head"]): e["lists"] for e in r["refreshed"]}
                seen = list(range(39)) if r["visible"] is None else r["visible"]
                group = {p: i // 16 for i, p in enumerate(seen)}
                continue
            for number, layer in enumerate(r["layers"]):
                changed, rows = set(layer["keys_values"]), layer["queries"]
                valued = 0
                for head in range(4):
                    for p in rows:
                        keys = lists[number, head][group[p]]
                        valued += len(keys if p in changed else set(keys) & changed)
                self.assertEqual(layer["pairs"], 4 * len(rows) * (len(seen) // 5))
                self.assertEqual(layer.get("valued", layer["pairs"]), valued)
                fewer += 0 < valued < layer["pairs"]
        self.assertGreater(fewer, 5)

    def test_correction_is_exact_for_fixed_scores(self):
        # If only V changes, old context + P dV is the new context.
        g = torch.Generator().manual_seed(1)
        q, k, v, d = (torch.randn(2, 6, 4, generator=g) for _ in range(4))
        from heddle_reference.model import probabilities
        p = probabilities(q, k)
        self.assertTrue(torch.allclose(p @ v + p @ d, p @ (v + d), atol=1e-6))

    def test_rows_by_past_confidence(self):
        go = lambda pieces, method: run.generate(pieces, prompt_of(3, 20), 12, method,
                                                 commit.Threshold(6, 0.5))[1]
        for make in FAMILIES:
            pieces = make()
            # Everything is sure, near and kept: the dual cache.
            every = composed.PastConfidence(pairs.Columns("1", 16), 0, 1, 6, 6)
            self.assert_same_run(go(pieces, every), go(pieces, cached.FastDllm(dual=True)))
            few = 0
            for r in go(pieces, composed.PastConfidence(pairs.Columns("1/5", 16), 1, 3, 1, 2)):
                first, second = r["layers"]
                rows = range(32) if first["queries"] is None else first["queries"]
                self.assertEqual(first["pairs"], 4 * len(rows) * 32)
                self.assertEqual({e["layer"] for e in r["refreshed"]},
                                 {1} if len(rows) == 32 else set())
                if len(rows) < 32:
                    few += 1
                    self.assertLessEqual(second["pairs"], 4 * len(rows) * (6 + 3))
                    self.assertGreaterEqual(second["pairs"], 4 * len(rows) * 6)
            self.assertGreater(few, 2)

    def test_by_layer(self):
        pieces = tiny_llada()
        near, cols = lambda: pairs.Window(9), lambda: pairs.pulsecol("1/5", 16, "1/2", 2)
        dense, window, columns, mixed = (self.go(pieces, m) for m in (
            pairs.Dense(), near(), cols(),
            composed.ByLayer(cols(), (0, 0, pairs.Dense()), (-1, -1, near()))))
        for d, w, r in zip(dense, window, mixed):
            self.assertEqual(r["layers"][0]["pairs"], d["layers"][0]["pairs"])
            self.assertEqual(r["layers"][1]["pairs"], w["layers"][1]["pairs"])
            self.assertEqual(r["refreshed"], [])
        mixed = self.go(pieces, composed.ByLayer(cols(), (0, 0, pairs.Dense())))
        self.assertEqual({e["layer"] for r in mixed for e in r["refreshed"]}, {1})
        self.assertEqual([r["layers"][1]["pairs"] for r in mixed],
                         [r["layers"][1]["pairs"] for r in columns])


if __name__ == "__main__":
    unittest.main()
