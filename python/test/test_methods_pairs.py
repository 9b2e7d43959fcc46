# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of heddle_reference.methods.pairs: selections against loops, cadences
against tables, settings that select everything against dense."""

import math
import random
import unittest
from fractions import Fraction

import torch

from test_methods import FAMILIES, SameRun, prompt_of, tiny_dream, tiny_llada
from test_reference import tiny_model

from heddle_reference import sampler
from heddle_reference.methods import commit, models, pairs, run


def random_qk(seed, heads, kv_heads, n, dim=4):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(heads, n, dim, generator=g) * 2, torch.randn(kv_heads, n, dim, generator=g)


def weights_by_loops(q, k, scale, keys):
    """P[head][i][j] over the keys, in Python floats."""
    heads, n, dim = q.shape
    out = []
    for h in range(heads):
        mine = k[h // (heads // k.shape[0])].double().tolist()
        rows = []
        for i in range(n):
            query = q[h, i].double().tolist()
            s = {j: math.fsum(a * b for a, b in zip(query, mine[j])) / scale for j in keys}
            top = max(s.values())
            e = {j: math.exp(v - top) for j, v in s.items()}
            total = math.fsum(e.values())
            rows.append({j: v / total for j, v in e.items()})
        out.append(rows)
    return out


def logits_by_loops(q, k):
    """[heads][n][n] of q . k for as many heads of q as of k times a number."""
    return [[[math.fsum(a * b for a, b in zip(query, key)) for key in k[h // (q.shape[0] // k.shape[0])].double().tolist()]
             for query in q[h].double().tolist()] for h in range(q.shape[0])]


def top(scores, count):
    """Keys of a dict with the largest values, ties to the lowest key."""
    return sorted(sorted(scores, key=lambda j: (-scores[j], j))[:count])


class Span:
    """What a selection asks of a run."""

    def __init__(self, prompt, n):
        self.prompt, self.n = prompt, n


class ColumnsTest(unittest.TestCase):
    def test_against_loops(self):
        for seed, n, group, keep in ((0, 37, 16, "1/5"), (1, 32, 16, "1/2"), (2, 9, 16, "1/10")):
            q, k = random_qk(seed, 4, 2, n)
            p = weights_by_loops(q, k, 2.0, range(n))
            count = max(1, int(Fraction(keep) * n))
            for shared in (False, True):
                found = pairs.Columns(keep, group, shared=shared).select(Span(5, n), q, k)
                for h in range(4):
                    among = (h // 2 * 2, h // 2 * 2 + 1) if shared else (h,)
                    for u, first in enumerate(range(0, n, group)):
                        rows = range(first, min(n, first + group))
                        score = {j: math.fsum(p[a][i][j] for a in among for i in rows)
                                 for j in range(n)}
                        self.assertEqual(found[h]["lists"][u], top(score, count))

    def test_pooled_is_the_mean_of_logits(self):
        for seed, n, group, keep in ((3, 37, 16, "1/5"), (4, 9, 16, "1/3")):
            q, k = random_qk(seed, 4, 2, n)
            logits = logits_by_loops(q, k)
            for shared in (False, True):
                found = pairs.PooledColumns(keep, group, shared=shared).select(Span(5, n), q, k)
                for h in range(4):
                    among = (h // 2 * 2, h // 2 * 2 + 1) if shared else (h,)
                    for u, first in enumerate(range(0, n, group)):
                        score = {j: math.fsum(logits[a][i][j] for a in among for i in range(first, min(n, first + group)))
                                 for j in range(n)}
                        self.assertEqual(found[h]["lists"][u], top(score, max(1, int(Fraction(keep) * n))))

    def test_ties_go_to_the_lowest(self):
        q, k = torch.zeros(1, 8, 4), torch.zeros(1, 8, 4)
        entry, = pairs.Columns("1/2", 16).select(Span(2, 8), q, k)
        self.assertEqual(entry["lists"], [[0, 1, 2, 3]])

    def test_allowed(self):
        allowed = pairs.Columns("1/2", 2).allowed({"lists": [[0, 3], [1, 2]]}, 4)
        self.assertEqual(allowed.int().tolist(), [[1, 0, 0, 1]] * 2 + [[0, 1, 1, 0]] * 2)


class BlocksTest(unittest.TestCase):
    CASES = [(0, 40, 13, 8, "1/2"), (1, 37, 16, 8, "3/10"), (2, 37, 35, 8, "1/5"), (3, 20, 3, 8, "1")]

    def tiles(self, p, begin, end, size):
        """Mean probability by (query block, key block), of the entries there are;
        key blocks from `begin` to `end`."""
        cuts = lambda first, last: [range(i, min(last, i + size)) for i in range(first, last, size)]
        return [[sum(p[i][j] for i in a for j in b) / (len(a) * len(b)) for b in cuts(begin, end)]
                for a in cuts(0, len(p))]

    def test_against_loops(self):
        for seed, n, prompt, size, keep in self.CASES:
            q, k = random_qk(seed, 2, 1, n)
            p = weights_by_loops(q, k, 2.0, range(n))
            one = Span(prompt, n)
            isolating = pairs.Blocks(keep, size).select(one, q, k)
            joint = pairs.Blocks(keep, size, isolating=False).select(one, q, k)
            pick = lambda row: top(dict(enumerate(row)), max(1, int(Fraction(keep) * len(row))))
            for h in range(2):
                for entry, part, begin, end in ((isolating, "lists", 0, prompt),
                                                (isolating, "response", prompt, n),
                                                (joint, "lists", 0, n)):
                    expected = [pick(row) for row in self.tiles(p[h], begin, end, size)]
                    self.assertEqual(entry[h][part], expected)

    def test_pooled_is_the_mean_of_logits(self):
        for seed, n, prompt, size, keep in self.CASES:
            q, k = random_qk(seed, 2, 1, n)
            logits = logits_by_loops(q, k)
            one = Span(prompt, n)
            pick = lambda row: top(dict(enumerate(row)), max(1, int(Fraction(keep) * len(row))))
            for isolating, parts in ((True, (("lists", 0, prompt), ("response", prompt, n))), (False, (("lists", 0, n),))):
                found = pairs.PooledBlocks(keep, size, isolating=isolating).select(one, q, k)
                for h in range(2):
                    for part, begin, end in parts:
                        self.assertEqual(found[h][part], [pick(row) for row in self.tiles(logits[h], begin, end, size)])

    def test_blocks_start_anew_at_the_split(self):
        entry = {"lists": [[1], [0]], "response": [[0], [0]], "split": 6}
        allowed = pairs.Blocks("1/2", 4).allowed(entry, 8)
        self.assertEqual(allowed[0].nonzero().flatten().tolist(), [4, 5, 6, 7])
        self.assertEqual(allowed[7].nonzero().flatten().tolist(), [0, 1, 2, 3, 6, 7])

    def test_released_against_loops(self):
        for seed, n, prompt, size, keep in self.CASES:
            q, k = random_qk(seed, 8, 2, n)
            for scale, root in (("heads", 8 ** 0.5), ("dim", 2.0)):
                total = -(-n // size)
                first = min(-(-prompt // size), total - 1)
                whole = weights_by_loops(q, k, root, range(n))
                own = weights_by_loops(q, k, root, range(first * size, n))
                count = lambda m: min(m, int(Fraction(keep) * m) + 1)
                found = pairs.ReleasedBlocks(keep, size, scale).select(Span(prompt, n), q, k)
                for h in range(8):
                    for a in range(total):
                        rows = range(a * size, min(n, (a + 1) * size))
                        tile = lambda p, b: sum(p[h][i].get(j, 0.0) for i in rows
                                                for j in range(b * size, (b + 1) * size))
                        mine = top({b: tile(whole, b) for b in range(total)}, count(total))
                        theirs = top({b: tile(own, b) for b in range(first, total)},
                                     count(total - first))
                        self.assertEqual(found[h]["lists"][a],
                                         [b for b in mine if b < first] + theirs)


class CadenceTest(unittest.TestCase):
    def test_uniform(self):
        # PulseCol, equation 8, by hand.
        table = {(8, 16): [1, 2], (32, 8): [1, 2, 3, 4, 5, 6, 7, 9],
                 (64, 8): [1, 3, 6, 8, 11, 13, 16, 19],
                 (128, 16): [1, 3, 5, 8, 10, 13, 15, 18, 20, 23, 25, 28, 30, 33, 35, 38],
                 (256, 16): list(range(1, 77, 5)), (2, 8): [1], (50, 1): [1]}
        for (total, count), expected in table.items():
            self.assertEqual(pairs.uniform("3/10", count)(total), expected)

    def test_power_begins_densely(self):
        # T = 128: window 38; places 0, 1/9, 4/9, 1 of 37.
        self.assertEqual(pairs.power("3/10", 4)(128), [1, 5, 17, 38])
        self.assertEqual(pairs.power("3/10", 1)(128), [1])

    def test_random_draws_distinct_steps(self):
        for seed in range(30):
            steps = pairs.random("3/10", 16, seed)(128)
            self.assertEqual((len(set(steps)), steps), (16, sorted(steps)))
            self.assertTrue(1 <= steps[0] and steps[-1] <= 38)
        self.assertEqual(pairs.random("3/10", 16, 0)(20), [1, 2, 3, 4, 5, 6])

    def test_skip(self):
        # 1/5 in binary is more than 1/5; T = 5 m must give m.
        self.assertEqual([pairs.at("1/5")(t) for t in (1, 8, 32, 100, 1025)], [[1], [1], [6], [20], [205]])
        # The released code's dense steps, that of the selection included.
        self.assertEqual([pairs.released_at("1/5")(t)[0] for t in (8, 32, 64, 128, 256, 512, 1024)],
                         [3, 8, 14, 27, 53, 104, 206])
        self.assertEqual(pairs.every_after("1/5")(10), [3, 4, 5, 6, 7, 8, 9, 10])


class MethodsTest(SameRun):
    def go(self, pieces, method, prompt=21, gen=16, steps=8):
        return run.generate(pieces, prompt_of(prompt, prompt), gen, method, commit.Quotas(steps, 8))[1]

    def test_everything_kept_is_dense(self):
        every = [pairs.pulsecol("1", 16, count=2), pairs.pulsecol("1", 16, count=2, shared=True),
                 pairs.sparsed("1", 16), pairs.sparsed_released("1", 16),
                 pairs.Selecting(pairs.Blocks("1", 16, False), pairs.every(1), "sparse"),
                 pairs.Window(2 * 37), pairs.Window(0, 37), pairs.Window(0, Fraction(1)),
                 pairs.Selecting(pairs.Columns("1/5", 16), pairs.every(1)),
                 pairs.Selecting(pairs.Columns("1/5", 16), pairs.at("1", plus=1))]
        for make in FAMILIES:
            pieces = make()
            dense = self.go(pieces, pairs.Dense())
            for method in every:
                records = self.go(pieces, method)
                self.assert_same_run(records, dense)
                self.assertEqual([r["pairs"] for r in records], [r["pairs"] for r in dense])

    def test_agrees_with_the_schedules_of_the_reference(self):
        # heddle_reference.schedule was written before, for another loop.
        model = tiny_model()
        for words, method in (
                ("columns:keep=1/5,group=16,window=1/2,count=2", pairs.pulsecol("1/5", 16, "1/2", 2)),
                ("columns:keep=1/3,group=32,steps=2;5",
                 pairs.Selecting(pairs.Columns("1/3", 32), lambda total: [2, 5])),
                ("window:size=9", pairs.Window(9)), ("window:size=8+sinks:size=3", pairs.Window(8, 3)),
                ("window:size=6+sinks:share=1/4", pairs.Window(6, Fraction(1, 4)))):
            seen, prompt = [], prompt_of(21, 21)
            sampler.generate(model, [prompt], sampler.Options(16, 8, 8), words, seen.append)
            records = self.go(models.Llada(model), method)
            self.assertEqual([r["pairs"] for r in records], [r["pairs"] for r in seen])
            self.assertEqual([[c[:2] for c in r["committed"]] for r in records],
                             [sorted([c["position"], c["token"]] for c in r["commits"]) for r in seen])

    def test_pairs_are_the_formula(self):
        pieces, n = tiny_llada(), 37
        heads = pieces.heads * pieces.layers
        columns = self.go(pieces, pairs.pulsecol("1/5", 16, count=2))
        self.assertEqual([bool(r["refreshed"]) for r in columns], [True, True] + [False] * 6)
        self.assertEqual([r["pairs"] for r in columns],
                         [heads * n * n] * 2 + [heads * n * (n // 5)] * 6)
        window = sum(abs(i - j) <= 4 or j < 3 for i in range(n) for j in range(n))
        records = self.go(pieces, pairs.Window(9, Fraction(1, 10)))
        self.assertEqual([r["pairs"] for r in records], [heads * window] * 8)

    def test_sparse_attention_reads_the_latest_lists(self):
        pieces, n = tiny_dream(), 37
        method = pairs.Selecting(pairs.Blocks("1/2", 16), pairs.at("1/2"))
        records = self.go(pieces, method)
        self.assertEqual([bool(r["refreshed"]) for r in records], [s == 4 for s in range(1, 9)])
        lists = {(r["layer"], r["head"]): r for r in records[3]["refreshed"]}
        self.assertEqual(len(lists), pieces.layers * pieces.heads)
        for layer in range(pieces.layers):
            total = sum(int(method.selection.allowed(lists[layer, h], n).sum())
                        for h in range(pieces.heads))
            self.assertEqual(records[4]["layers"][layer]["pairs"], total)
            self.assertLess(total, pieces.heads * n * n)

    def test_refreshing_sparsely_attends_what_it_selected(self):
        records = self.go(tiny_llada(), pairs.Selecting(pairs.Blocks("1/2", 16),
                                                        pairs.every_after("1/2"), "sparse"))
        dense = self.go(tiny_llada(), pairs.Selecting(pairs.Blocks("1/2", 16), pairs.every_after("1/2")))
        self.assertEqual(records[3]["pairs"], dense[3]["pairs"])
        self.assertLess(records[4]["pairs"], dense[4]["pairs"])
        self.assertEqual([bool(r["refreshed"]) for r in records], [False] * 4 + [True] * 4)

    def test_sparse_attention_by_hand(self):
        # One layer, one head: the softmax runs over the listed keys alone.
        q, k = random_qk(7, 1, 1, 6)
        v = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(8))
        allowed = pairs.Columns("1/2", 4).allowed({"lists": [[0, 2, 5], [1, 3, 4]]}, 6)
        found = models.attention(q, k, v, allowed)
        for i in range(6):
            keys = [0, 2, 5] if i < 4 else [1, 3, 4]
            p = weights_by_loops(q, k, 2.0, keys)[0][i]
            expected = [sum(p[j] * float(v[0, j, d]) for j in keys) for d in range(4)]
            for a, b in zip(found[i].tolist(), expected):
                self.assertAlmostEqual(a, b, places=5)

    def test_random_sizes_hold_their_budget(self):
        rng = random.Random(5)
        for seed in range(40):
            n, size = rng.randint(2, 60), rng.choice((4, 8, 16))
            prompt = rng.randint(1, n - 1)
            keep = Fraction(rng.randint(1, 9), 10)
            q, k = random_qk(seed, 2, 1, n)
            one = Span(prompt, n)
            for entry in pairs.Columns(keep, size).select(one, q, k):
                self.assertEqual({len(keys) for keys in entry["lists"]}, {max(1, int(keep * n))})
                self.assertEqual(len(entry["lists"]), -(-n // size))
            blocks = pairs.Blocks(keep, size)
            for entry in blocks.select(one, q, k):
                allowed = blocks.allowed(entry, n)
                self.assertTrue(bool(allowed[:, :prompt].any(1).all()))
                self.assertTrue(bool(allowed[:, prompt:].any(1).all()))


if __name__ == "__main__":
    unittest.main()
