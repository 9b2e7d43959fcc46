# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""recall.py: what patterns keep, against loops over a small case."""

import os
import sys
import unittest

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import recall


class RecallTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.p = torch.softmax(3 * torch.randn(2, 22, 22), -1)

    def test_patterns_by_loops(self):
        n, keep, size, count = 22, "3/10", 5, 6
        later = torch.softmax(torch.randn(2, n, n), -1)
        best = lambda values, many: set(sorted(range(len(values)), key=lambda j: -values[j])[:many])
        kept = {"columns": {}, "blocks": {}, "oracle": {}, "window": {}}
        for head in range(2):
            for i in range(n):
                group = range(i // size * size, min(n, i // size * size + size))
                mean = [sum(self.p[head, r, j].item() for r in group) for j in range(n)]
                tiles = [sum(mean[j:j + size]) for j in range(0, n, size)]
                kept["columns"][head, i] = best(mean, count)
                kept["blocks"][head, i] = {j for t in best(tiles, 1) for j in range(t * size, min(n, t * size + size))}
                kept["oracle"][head, i] = best(later[head, i].tolist(), count)
                kept["window"][head, i] = {j for j in range(n) if abs(i - j) <= count // 2}
        for kind, rows in kept.items():
            ((mass, keys),) = recall.recalled(self.p, later, kind, size, [keep])
            self.assertAlmostEqual(mass, sum(later[head, i, j].item() for (head, i), of in rows.items() for j in of) / len(rows), 5, kind)
            self.assertAlmostEqual(keys, sum(map(len, rows.values())) / len(rows) / n, 6, kind)

    def test_the_order_of_patterns(self):
        found = {kind: recall.recalled(self.p, self.p, kind, size, [*recall.FRACTIONS, "1"]) for kind, size in recall.patterns([5], [5])}
        for oracle, columns, window in zip(*(found[kind][:-1] for kind in ("oracle", "columns", "window"))):
            self.assertGreaterEqual(oracle[0], columns[0])
            self.assertGreater(columns[0], window[0])
        for kind in ("oracle", "columns", "blocks"):
            self.assertAlmostEqual(found[kind][-1][0], 1, places=5)
            self.assertEqual(found[kind][-1][1], 1)


if __name__ == "__main__":
    unittest.main()
