# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of heddle_reference.methods.chunked: what is kept, by loops over heads and
rows, and that keeping all is a prompt that is cached once."""

import unittest

import torch

from test_methods import FAMILIES, SameRun, prompt_of, tiny_dream

from heddle_reference.methods import cached, chunked, commit, pairs, run


class Once(cached.Cached):
    """All rows in the first step, then the response."""

    def plan(self, run):
        every = list(range(run.n))
        return (every if run.step == 1 else run.predicting(range(run.prompt, run.n))), every


class ChunkedTest(SameRun):
    def test_all_kept_is_a_prompt_cached_once(self):
        for make in FAMILIES:
            pieces, prompt = make(), prompt_of(7, 15)
            go = lambda method: run.generate(pieces, prompt, 12, method, commit.Quotas(12, 6))[1]
            self.assert_same_run(go(chunked.Chunked(1, 1, size=4, group=2)), go(Once()))

    def test_all_kept_of_all_rows_is_dense(self):
        pieces, prompt = tiny_dream(), prompt_of(6, 9)
        go = lambda method: run.generate(pieces, prompt, 8, method, commit.Quotas(8, 8))[1]
        whole = chunked.Refined(1, 1, 4, 2, pairs.every(4), pairs.every(2))
        self.assert_same_run(go(whole), go(pairs.Dense()))

    def test_keys_are_chosen_in_the_first_step_within_chunks(self):
        for make in FAMILIES:
            pieces = make()
            _, records = run.generate(pieces, prompt_of(5, 10), 6, chunked.Chunked("1/2", "1/2", 4, 2),
                                      commit.Quotas(6, 6))
            first, later = records[0], records[1:]
            # Of the prompt's chunks {0..3} {4..7} {8, 9} one is kept, of the response's {10..13} {14, 15} too.
            tiles = {(e["layer"], e["head"]): e for e in first["refreshed"] if e["kind"] == "blocks"}
            fine = {(e["layer"], e["head"]): e["lists"] for e in first["refreshed"] if e["kind"] == "columns"}
            self.assertEqual(set(tiles), set(fine))
            for at, lists in fine.items():
                self.assertEqual(len(lists), 8)
                for u, keys in enumerate(lists):
                    self.assertLessEqual(set(range(10, 16)), set(keys))
                    chunk = tiles[at]["lists"][u // 2]
                    self.assertEqual(len(chunk), 1)
                    inside = set(range(4 * chunk[0], min(10, 4 * chunk[0] + 4)))
                    self.assertLessEqual(set(keys) - set(range(10, 16)), inside)
                    # The shortest chunks have 2 + 2 keys, fewer than are always there: none is sure.
                    self.assertEqual(len(keys), 6)
            for record in later:
                self.assertFalse(record["refreshed"])
                self.assertEqual(len(record["layers"][0]["queries"]), 6 + pieces.shifted)
                self.assertEqual({layer["pairs"] for layer in record["layers"]},
                                 {pieces.heads * (6 + pieces.shifted) * 6})

    def test_lists_by_loops(self):
        g = torch.Generator().manual_seed(3)
        heads, n, dim, always = 4, 22, 8, 19
        q, k = (torch.randn(h, n, dim, generator=g) for h in (heads, heads // 2))
        chunks, fine = pairs.Blocks("1/2", 4, isolating=False), chunked.Fine("1/3", 2)
        at = run.Run(tiny_dream(), prompt_of(5, 19), 3)
        entries = chunks.select(at, q, k)
        made = fine.select(chunks, entries, q, k, always)
        # Three of six chunks, the last of them of two keys: 10 keys of which 3 are always there.
        self.assertEqual(fine.sure(chunks, entries[0], always, n), 7)
        for head in range(heads):
            weights = [[(q[head, i].double() @ k[head // 2, j].double() / dim ** 0.5).exp().item() for j in range(n)]
                       for i in range(n)]
            for u in range(n // 2):
                paid = [sum(weights[i][j] / sum(weights[i]) for i in (2 * u, 2 * u + 1)) for j in range(n)]
                inside = [j for j in range(always) if j // 4 in entries[head]["lists"][u // 2]]
                best = sorted(inside, key=lambda j: (-paid[j], j))[:2]
                self.assertEqual(list(made[head][u]), sorted([*best, *range(always, n)]))


if __name__ == "__main__":
    unittest.main()
