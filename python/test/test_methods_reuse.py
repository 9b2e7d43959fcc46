# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of DyLLM and dLLM-Cache in heddle_reference.methods."""

import math
import unittest

import torch

from test_methods import FAMILIES, SameRun, prompt_of, tiny_dream, tiny_llada

from heddle_reference.methods import commit, dllm_cache, dyllm, models, pairs, run, trace


def listed(rows, n):
    return list(range(n)) if rows is None else rows


class DyLLMTest(SameRun):
    def go(self, pieces, method, steps=12):
        return run.generate(pieces, prompt_of(3, 9), 12, method, commit.Quotas(steps))[1]

    def test_full_steps_are_dense(self):
        for make in FAMILIES:
            pieces = make()
            self.assert_same_run(self.go(pieces, dyllm.DyLLM(0.99, full=12)),
                                 self.go(pieces, pairs.Dense()))

    def test_all_salient_and_exact_is_dense(self):
        for make in FAMILIES:
            pieces = make()
            records = self.go(pieces, dyllm.DyLLM(1.5, whole_period=1, approximate=False))
            self.assert_same_run(records, self.go(pieces, pairs.Dense()))
            self.assertEqual({r["ffn_rows"] for r in records}, {2 * 21})

    def test_all_salient_but_in_layer_0(self):
        # Even with tau above 1, layer 0 computes K, V and exact attention of what
        # was committed alone, so the rest of its contexts is approximate.
        pieces = tiny_llada()
        records = self.go(pieces, dyllm.DyLLM(1.5, whole_period=1))
        for before, r in zip(records[3:], records[4:]):
            first, second = r["layers"]
            self.assertEqual(first["keys_values"], [c[0] for c in before["committed"]])
            self.assertEqual(first["exact"], first["keys_values"])
            self.assertIsNone(first["ffn"])
            self.assertIsNone(second["keys_values"])
            self.assertNotIn("exact", second)
        dense = self.go(pieces, pairs.Dense())
        self.assertNotEqual([r["committed"] for r in records[4:]],
                            [r["committed"] for r in dense[4:]])

    def test_nothing_salient(self):
        records = self.go(tiny_llada(), dyllm.DyLLM(-2.0))
        for before, r in zip(records[3:], records[4:]):
            self.assertEqual([e["keys_values"] for e in r["layers"]],
                             [[c[0] for c in before["committed"]
                               if c[0] in listed(r["layers"][0]["queries"], 21)], []])
            self.assertEqual(r["ffn_rows"], 0)
            self.assertEqual(r["layers"][1]["pairs"], 0)

    def test_whole_steps(self):
        def whole(**options):
            records = self.go(tiny_llada(), dyllm.DyLLM(0.9, **options))
            return [r["step"] for r in records if r["layers"][0]["queries"] is None]
        self.assertEqual(whole(), [1, 2, 3, 4, 5, 9])
        self.assertEqual(whole(whole="code"), [1, 2, 3, 4, 8, 12])
        self.assertEqual(whole(full=2), [1, 2, 5, 9])
        self.assertEqual(whole(full=2, whole="code"), [1, 2, 3, 4, 8, 12])

    def test_response_rows(self):
        for make, own, first in ((tiny_llada, False, 9), (tiny_dream, False, 8), (tiny_dream, True, 9)):
            method = dyllm.DyLLM(0.9, own_first=own)
            records = self.go(make(), method)
            self.assertEqual(records[-1]["layers"][0]["queries"], list(range(first, 21)))
            one = run.Run(make(), prompt_of(3, 9), 12)
            for one.step in range(1, 13):
                shift = one.pieces.shifted and not (own and one.step in (6, 7, 8, 10, 11, 12))
                self.assertEqual(method.row_of(one, 9), 9 - shift)
                self.assertEqual(method.row_of(one, 10), 10 - one.pieces.shifted)

    def test_salient_rows_pass_from_layer_to_layer(self):
        records = self.go(tiny_dream(), dyllm.DyLLM(0.99))
        some = 0
        for r in records[4:]:
            first, second = r["layers"]
            self.assertEqual(first["ffn"], second["keys_values"])
            rows = len(listed(first["queries"], 21))
            for e in r["layers"]:
                changed = len(listed(e["keys_values"], 21))
                self.assertEqual(e["pairs"], 4 * rows * 21)
                self.assertEqual(e.get("valued", e["pairs"]), 4 * changed * (21 + rows - changed))
                some += 0 < changed < rows
        self.assertGreater(some, 4)

    def test_carried_sets(self):
        records = self.go(tiny_llada(), dyllm.DyLLM(0.99, entering="carried"))
        for before, r in zip(records[4:], records[5:]):
            rows = listed(r["layers"][0]["queries"], 21)
            last = listed(before["layers"][-1]["ffn"], 21)
            self.assertEqual(listed(r["layers"][0]["keys_values"], 21), [p for p in last if p in rows])

    def test_propagated_change_by_loops(self):
        pieces, g = tiny_llada(), torch.Generator().manual_seed(4)
        method = dyllm.DyLLM(0.9)
        method.begin(run.Run(pieces, [1] * 4, 3))
        make = lambda *shape: torch.randn(*shape, generator=g)
        q, keys = make(4, 5, 8), make(2, 7, 8)
        method.values[1], new, changed = make(2, 7, 8), make(2, 2, 8), [2, 6]
        found = method.propagated(pieces, q, keys, new, 1, changed).view(5, 4, 8)
        for h in range(4):
            for i in range(5):
                s = [sum(float(a * b) for a, b in zip(q[h, i], keys[h // 2, j])) / 8 ** 0.5
                     for j in range(7)]
                total = sum(math.exp(x) for x in s)
                for d in range(8):
                    expected = sum(math.exp(s[j]) / total
                                   * float(new[h // 2, c, d] - method.values[1][h // 2, j, d])
                                   for c, j in enumerate(changed))
                    self.assertAlmostEqual(float(found[i, h, d]), expected, places=4)

    def test_cosine(self):
        a = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])
        b = torch.tensor([[6.0, 8.0], [1.0, 1.0], [-2.0, 0.0]])
        self.assertEqual(dyllm.cosine(a, b).tolist(), [1.0, 0.0, -1.0])


class DllmCacheTest(SameRun):
    def go(self, pieces, method, steps=12):
        return run.generate(pieces, prompt_of(5, 9), 12, method, commit.Quotas(steps, 6))[1]

    def test_refreshed_at_every_step_is_dense(self):
        for make in FAMILIES:
            pieces = make()
            dense = self.go(pieces, pairs.Dense())
            self.assert_same_run(self.go(pieces, dllm_cache.DllmCache(1, 1, 0)), dense)
            # All of the response by its own rule, instead of by its period.
            records = self.go(pieces, dllm_cache.DllmCache(1, 99, 1))
            self.assert_same_run(records, dense)
            self.assertEqual({r["rows"] for r in records}, {2 * 21})

    def test_rows(self):
        records = self.go(tiny_llada(), dllm_cache.DllmCache(5, 3, "1/3"))
        for t, r in enumerate(records):
            self.assertEqual(listed(r["layers"][0]["queries"], 21),
                             list(range(0 if t % 5 == 0 else 9, 21)))
            rows = listed(r["layers"][1]["queries"], 21)
            prompt, response = [p for p in rows if p < 9], [p for p in rows if p >= 9]
            self.assertEqual(len(prompt), 9 if t % 5 == 0 else 0)
            self.assertEqual(len(response), 12 if t % 3 == 0 else 4)
            values = listed(r["layers"][1].get("values", r["layers"][1]["keys_values"]), 21)
            self.assertEqual(values, prompt + list(range(9, 21)))
            self.assertEqual(r["layers"][1]["ffn"], r["layers"][1]["queries"])
            self.assertEqual(r["layers"][1]["pairs"], 4 * 21 * len(rows))

    def test_without_ratio_layers_rest(self):
        records = self.go(tiny_llada(), dllm_cache.DllmCache(5, 3, 0))
        for layer, rows in ((0, [21, 12, 12, 12, 12, 21, 12]), (1, [21, 0, 0, 12, 0, 9, 12])):
            self.assertEqual([len(listed(r["layers"][layer]["queries"], 21)) for r in records[:7]],
                             rows)

    def test_least_similar(self):
        pieces = tiny_llada()
        method, one = dllm_cache.DllmCache(9, 9, "1/2"), run.Run(pieces, [1] * 3, 4)
        method.begin(one)
        base = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(1))
        method.values[0][:, 3:] = base
        turned = base.clone()
        turned[:, 1] *= 7  # a longer V has not turned
        turned[0, 2] *= -1
        turned[:, 3] *= -1
        self.assertEqual(method.least_similar(one, 0, turned, [3, 4, 5, 6]), [5, 6])
        # Equal cosines: the lowest rows (zero rows all have cosine 0).
        method.values[0].zero_()
        self.assertEqual(method.least_similar(one, 0, turned, [3, 4, 5, 6]), [3, 4])

    def test_reused_outputs_by_hand(self):
        # Layer 1 of a step that refreshes nothing adds the cached outputs.
        pieces = tiny_llada()
        method, one = dllm_cache.DllmCache(9, 9, 0), run.Run(pieces, prompt_of(5, 9), 4)
        rule = commit.Quotas(4)
        rule.begin(one)
        method.begin(one)
        for step in (1, 2):
            rule.next(one)
            one.step = step
            if step == 2:
                one.tokens[10] = 3
                first, kept = (method.outputs[l] + method.ffns[l] for l in (0, 1))
            _, x = method.forward(one, trace.Record(pieces, 0, step, one.n))
        rows, y = list(range(13)), pieces.embed(one.tokens)
        h = pieces.attention_norm(0, y)
        context = models.attention(pieces.rotate(pieces.query(0, h), rows),
                                   pieces.rotate(pieces.key(0, h), rows), pieces.value(0, h))
        z = y + pieces.output(0, context)
        z = z + pieces.ffn(0, z)
        # The prompt adds what it kept in layer 0 too.
        y = torch.cat([(y + first)[:9], z[9:]])
        self.assertTrue(torch.allclose(x, y + kept, atol=1e-5))


if __name__ == "__main__":
    unittest.main()
