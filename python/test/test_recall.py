# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""recall.py: what patterns keep, against loops over a small case."""

import os
import sys
import unittest
from fractions import Fraction

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import recall


class RecallTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.p = torch.softmax(3 * torch.randn(2, 22, 22), -1)

    def test_patterns_by_loops(self):
        n, keep, size = 22, Fraction(3, 10), 5
        count = 6
        columns = recall.mask(self.p, "columns", size, keep)
        blocks = recall.mask(self.p, "blocks", size, keep)
        oracle = recall.mask(self.p, "oracle", 0, keep)
        for head in range(2):
            for i in range(n):
                group = range(i // size * size, min(n, i // size * size + size))
                mean = [sum(self.p[head, r, j].item() for r in group) for j in range(n)]
                best = lambda values, many: set(sorted(range(len(values)), key=lambda j: -values[j])[:many])
                kept = lambda m: {j for j in range(n) if m[head, i, j]}
                self.assertEqual(kept(columns), best(mean, count))
                self.assertEqual(kept(oracle), best(self.p[head, i].tolist(), count))
                tiles = [sum(mean[j:j + size]) for j in range(0, n, size)]
                self.assertEqual(kept(blocks), {j for t in best(tiles, 1)
                                                for j in range(t * size, min(n, t * size + size))})

    def test_the_order_of_patterns(self):
        for keep in map(Fraction, recall.FRACTIONS):
            mass = {kind: recall.recalled(self.p, recall.mask(self.p, kind, size, keep))[0]
                    for kind, size in recall.patterns([5], [5])}
            self.assertGreaterEqual(mass["oracle"], mass["columns"])
            self.assertGreater(mass["columns"], mass["window"])
        for kind, size in recall.patterns([5], [5]):
            whole = recall.recalled(self.p, recall.mask(self.p, kind, size, Fraction(1)))
            if kind != "window":
                self.assertAlmostEqual(whole[0], 1, places=5)
                self.assertEqual(whole[1], 1)


if __name__ == "__main__":
    unittest.main()
