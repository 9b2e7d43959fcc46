# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of heddle_reference.methods.evicted: what is kept, by loops over heads and
rows, and that keeping all is Fast-dLLM's dual cache."""

import unittest

import torch

from test_methods import FAMILIES, SameRun, prompt_of, tiny_dream

from heddle_reference.methods import cached, commit, evicted, run


class EvictedTest(SameRun):
    def test_all_kept_at_once_is_the_dual_cache(self):
        for make in FAMILIES:
            pieces, prompt = make(), prompt_of(7, 15)
            go = lambda method: run.generate(pieces, prompt, 12, method, commit.Quotas(12, 6))[1]
            self.assert_same_run(go(evicted.Evicted(1, delay=0)), go(cached.FastDllm(dual=True)))

    def test_pooling(self):
        self.assertEqual(evicted.pooled([1, 5, 2, 0, 0, 3], 3), [5, 5, 5, 2, 3, 3])
        self.assertEqual(evicted.pooled([1, 5, 2], 1), [1, 5, 2])
        self.assertEqual(evicted.pooled([1, 5, 2], 9), [5, 5, 5])

    def test_keys_are_chosen_once_a_block_by_its_rows(self):
        for make in FAMILIES:
            pieces = make()
            _, records = run.generate(pieces, prompt_of(5, 9), 8, evicted.Evicted("1/2"), commit.Quotas(8, 4))
            for record in records:
                whole = record["step"] in (1, 2, 5, 6)
                rows = record["layers"][0]["queries"]
                self.assertEqual(17 if rows is None else len(rows), 17 if whole else 4 + pieces.shifted)
                self.assertEqual(bool(record["refreshed"]), record["step"] in (2, 6))
                block = range(9 if record["step"] < 5 else 13, 13 if record["step"] < 5 else 17)
                for entry in record["refreshed"]:
                    (keys,) = entry["lists"]
                    self.assertEqual(len(keys), 4 + 13 // 2)
                    self.assertLessEqual(set(block), set(keys))
                # One list for all heads of a layer, of layers their own.
                lists = {(e["layer"], str(e["lists"])) for e in record["refreshed"]}
                self.assertEqual(len(lists), pieces.layers if record["refreshed"] else 0)
                kept = 17 if whole else 4 + 13 // 2
                self.assertEqual({layer["pairs"] for layer in record["layers"]},
                                 {pieces.heads * (17 if whole else 4 + pieces.shifted) * kept})

    def test_scores_by_loops(self):
        pieces = tiny_dream()
        at = run.Run(pieces, prompt_of(5, 9), 8)
        at.block_start, at.block_end = 11, 15
        g = torch.Generator().manual_seed(3)
        q = torch.randn(pieces.heads, 17, pieces.dim, generator=g)
        k = torch.randn(pieces.kv_heads, 17, pieces.dim, generator=g)
        paid = [0.0] * 17
        for head in range(pieces.heads):
            for row in range(11, 15):
                weights = [(q[head, row].double() @ k[head // 2, j].double() / pieces.dim ** 0.5).exp().item()
                           for j in range(17)]
                for j in range(17):
                    paid[j] += weights[j] / sum(weights)
        others = [*range(11), 15, 16]
        best = {j: max(paid[o] for o in others if abs(others.index(o) - others.index(j)) <= 1) for j in others}
        kept = sorted(others, key=lambda j: (-best[j], j))[:6]
        found = evicted.Evicted("1/2").choose(at, q, k)
        self.assertEqual(list(found), sorted([*kept, *range(11, 15)]))
        self.assertGreater(found.gap, 0)


if __name__ == "__main__":
    unittest.main()
