# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of heddle_reference.methods.cached: which rows each step computes, and
that settings which recompute everything are dense."""

import unittest

import torch

from test_methods import FAMILIES, SameRun, prompt_of, tiny_dream, tiny_llada

from heddle_reference.methods import cached, commit, layered, models, pairs, run, trace


def rows_of(record):
    """The rows of a step, which must be those of every layer, axis and count."""
    layers = record["layers"]
    rows = layers[0]["queries"]
    for layer in layers:
        assert layer["queries"] == layer["keys_values"] == layer["ffn"] == rows
    return list(range(record["n"])) if rows is None else rows


def committed(record):
    return [c[0] for c in record["committed"]]


class ByLayerTest(SameRun):
    """Layers that compute the same are the cache of a block."""

    def test_a_block_in_every_layer_is_the_dual_cache(self):
        for make in FAMILIES:
            pieces, prompt = make(), prompt_of(7, 15)
            go = lambda method: run.generate(pieces, prompt, 12, method, commit.Quotas(6, 6))[1]
            dual = go(cached.FastDllm(dual=True))
            for method in (layered.early(99, None), layered.early(1, ("similar", 1, ()), "output"),
                           layered.skipping((1,), 1),
                           layered.early(1, ("salient", 2), "context")):
                self.assert_same_run(go(method), dual)

    def test_rows_end_where_nothing_is_kept_of_them(self):
        pieces, prompt = tiny_llada(), prompt_of(7, 15)
        go = lambda method: run.generate(pieces, prompt, 8, method, commit.Quotas(8, 8))[1]
        for record in go(layered.early(1, None))[2:]:
            first, last = record["layers"][0]["queries"], record["layers"][-1]["queries"]
            self.assertLess(len(str(last)), len(str(first)))
            self.assertNotEqual(first, last)
        with self.assertRaisesRegex(ValueError, "layer 1 computes rows that have ended"):
            go(layered.ByLayer(lambda run, layer: (layered.block(run) if layer else layered.live(run), None),
                               lambda layer: None))


class ConfidentTest(SameRun):
    """Rows by the confidence of their last prediction."""

    def test_the_surest_of_a_set(self):
        one = run.Run(tiny_llada(), prompt_of(1, 3), 8)
        one.sure = {4: 0.5, 6: 0.75, 7: 0.5, 9: -2.0}
        self.assertEqual(one.most_confident(range(11), 1), [6])
        self.assertEqual(one.most_confident(range(11), 2), [4, 6])
        self.assertEqual(one.most_confident(range(11), 5), [3, 4, 6, 7, 9])
        self.assertEqual(one.most_confident([0, 5, 7, 8], 2), [5, 7])
        one.tokens[6] = 1
        self.assertEqual(one.most_confident(range(11), 1), [4])

    def test_what_is_decoded_near_lifts_a_confidence(self):
        one = run.Run(tiny_llada(), prompt_of(1, 3), 8)
        w = [1073741824, 651257337, 145315154, 11928194, 360200, 4001, 16]
        every = 2 * sum(w) - w[0]
        self.assertEqual(one.decoded_near(3, 1), sum(w[1:]) / every)  # the prompt, and before it
        self.assertEqual(one.decoded_near(6, 1), sum(w[4:]) / every)
        self.assertEqual(one.decoded_near(10, 1), 0)
        one.tokens[8] = 1
        self.assertEqual(one.decoded_near(10, 1), w[2] / every)
        one.tokens[10] = 1  # and behind the end
        self.assertEqual(one.decoded_near(9, 1), (w[1] + sum(w[1:])) / every)
        one.sure = {3: 0.3, 4: 0.9, 5: 0.9, 6: 1.0, 7: 0.5, 9: 0.4}
        self.assertEqual(one.most_confident(range(11), 2), [4, 6])
        self.assertEqual(one.most_confident(range(11), 2, 1), [7, 9])
        self.assertEqual(one.most_confident(range(11), 9, 1), [3, 4, 5, 6, 7, 9])
        one.sure = {5: -1.0, 7: -3.0, 9: -2.0}  # an entropy counts for more where little is known
        self.assertEqual(one.most_confident(range(11), 1), [5])
        self.assertEqual(one.most_confident(range(11), 1, 1), [9])

    def test_a_row_that_is_not_computed_keeps_its_prediction(self):
        for make in FAMILIES:
            pieces, seen = make(), []

            class Watched(cached.FastDllm):
                def plan(self, run):
                    seen.append(dict(run.sure))
                    rows, visible = super().plan(run)
                    masked = run.masked()
                    wanted = set(masked[:1] + masked[2::2] if run.inner else range(run.n))
                    self.asked = wanted & set(masked)
                    return run.predicting(wanted & set(rows)), visible

                def reach(self, run):
                    return self.asked

            records = run.generate(pieces, prompt_of(7, 15), 12, Watched(dual=True),
                                   commit.Quotas(12, 12))[1]
            older = 0
            for before, after, record in zip(seen, seen[1:], records):
                done = dict((c[0], c[2]) for c in record["committed"])
                self.assertEqual({p: after[p] for p in done}, done)
                older += sum(before[p] == after[p] for p in before if p not in done)
            self.assertGreater(older, 5)
            self.assertEqual(seen[0], {})

    def test_the_surest_rows_of_a_block_go_on(self):
        for sure in (0, 2, 12):
            records = run.generate(tiny_llada(), prompt_of(7, 15), 12, layered.skipping((1,), 0, sure),
                                   commit.Quotas(6, 12))[1]
            masked, gone = set(range(15, 27)), 0
            for r in records:
                on = r["layers"][1]["queries"]
                on = set(range(27)) if on is None else set(on)
                self.assertGreaterEqual(len(masked & on), min(len(masked), 1 + max(0, sure - 1)))
                gone += len(masked - on)
                masked -= {c[0] for c in r["committed"]}
            self.assertEqual(gone > 0, sure < 12)

    def test_a_weight_says_how_much_confidence_counts(self):
        for make in FAMILIES:
            pieces = make()

            class Watched(layered.ByLayer):
                def chosen(self, run, layer, rows, among, how, x):
                    ahead, masked = int(run.pieces.shifted), set(run.masked())
                    sure = {p: run.sure.get(p + ahead, 0) if p + ahead in masked else 0 for p in among}
                    seen.append((sorted(among, key=lambda p: (-sure[p], p)), set(among)))
                    return super().chosen(run, layer, rows, among, how, x)

            def go(*weight):
                seen.clear()
                plan = layered.skipping((1,), "1/2", 0, *weight)
                return run.generate(pieces, prompt_of(7, 15), 12, Watched(plan.layer, plan.kept),
                                    commit.Quotas(12, 12))[1][1:]
            seen = []
            for record, (order, among) in zip(go("1"), seen):
                on = record["layers"][1]["queries"]
                self.assertEqual(among & set(on), set(order[:len(order) // 2]))
            self.assert_same_run(go("1/1000000000"), go())
            rows = lambda records: [r["layers"][1]["queries"] for r in records]
            self.assertNotEqual(rows(go("1/2")), rows(go()))


class DegenerateTest(SameRun):
    def test_everything_recomputed_is_dense(self):
        for make in FAMILIES:
            pieces = make()
            for gen, steps, block in ((12, 12, 12), (12, 6, 4), (12, 3, 4)):
                prompt = prompt_of(gen + steps, 15)
                go = lambda method, rule=None: run.generate(
                    pieces, prompt, gen, method, rule or commit.Quotas(steps, block))[1]
                dense, n = go(pairs.Dense()), 15 + gen
                methods = [cached.DkvDecode(1), cached.DkvDecode(99, warm=99),
                           cached.WindowDiffusion(n, n, 1)]
                if block == gen // steps:
                    methods += [cached.FastDllm(), cached.FastDllm(dual=True), cached.FlashBlock(), cached.Losa("1/2")]
                for method in methods:
                    records = go(method)
                    self.assert_same_run(records, dense)
                    self.assertEqual({r["kv_read"] for r in records}, {0})
                order = commit.random_order(gen, 5)
                rules = [commit.Ordered(steps, block, order) for _ in range(2)]
                self.assert_same_run(go(cached.DkvGreedy(rules[0], 1, 0), rules[0]),
                                     go(pairs.Dense(), rules[1]))

    def test_threshold_zero_and_one(self):
        pieces, prompt = tiny_llada(), prompt_of(3, 9)
        one = lambda method, rule: run.generate(pieces, prompt, 8, method, rule)[1]
        self.assert_same_run(one(pairs.Dense(), commit.Threshold(4, 2.0)),
                             one(pairs.Dense(), commit.Quotas(8, 4)))
        self.assert_same_run(one(cached.FastDllm(), commit.Threshold(4, 0.0)),
                             one(pairs.Dense(), commit.Quotas(2, 4)))

    def test_parts_of_a_pass_are_one_softmax(self):
        # A block's second pass by loops over heads, rows and keys, in float64.
        for make in FAMILIES:
            pieces, prompt = make(), prompt_of(7, 9)
            method = cached.FlashBlock()
            first = run.Run(pieces, prompt, 8)
            first.step, first.inner, first.block, first.block_start, first.block_end = 1, 0, 0, 9, 13
            method.begin(first)
            with torch.no_grad():
                method.forward(first, trace.Record(pieces, 0, 1, 17))
                keys, values = method.keys[0].clone().double(), method.values[0].clone().double()
                x = pieces.embed(first.tokens)
                before = pieces.rotate(pieces.query(0, pieces.attention_norm(0, x)), list(range(17))).double()
                first.tokens[10], first.step, first.inner = 3, 2, 1
                rows, _ = method.forward(first, trace.Record(pieces, 0, 2, 17))
                x = pieces.embed([first.tokens[p] for p in rows])
                now = pieces.rotate(pieces.query(0, pieces.attention_norm(0, x)), rows).double()
                new_keys, new_values = method.keys[0].double(), method.values[0].double()
                inside, outside = range(9, 13), [*range(9), *range(13, 17)]
                near, near_lse = method.part(first, 0, now.float(), list(inside))
                far, far_lse = method.outside[0]
                for head in range(pieces.heads):
                    kv = head // (pieces.heads // pieces.kv_heads)
                    for i, row in enumerate(rows):
                        total, mean = 0.0, torch.zeros(pieces.dim, dtype=torch.float64)
                        for k, v, q, part in ((keys, values, before[head, row], outside),
                                              (new_keys, new_values, now[head, i], inside)):
                            for j in part:
                                weight = (q @ k[kv, j] / pieces.dim ** 0.5).exp()
                                total, mean = total + weight, mean + weight * v[kv, j]
                        share = torch.sigmoid(near_lse[head, i] - far_lse[head, row])
                        merged = share * near[head, i] + (1 - share) * far[head, row]
                        self.assertLess((merged - mean / total).abs().max(), 1e-6)

    def test_a_blocks_later_passes_read_the_block_alone(self):
        for make in FAMILIES:
            pieces = make()
            _, records = run.generate(pieces, prompt_of(5, 9), 8, cached.FlashBlock(), commit.Quotas(8, 4))
            for record in records:
                rows = rows_of(record)
                whole = record["step"] in (1, 5)
                keys = 17 if whole else 4
                self.assertEqual(len(rows), 17 if whole else 4 + pieces.shifted)
                self.assertEqual({layer["pairs"] for layer in record["layers"]}, {pieces.heads * len(rows) * keys})
                self.assertEqual(record["kv_read"], 0)
                self.assertIsNone(record["visible"])

    def test_rows_that_refresh_attend_to_all_keys(self):
        pieces, prompt = tiny_llada(), prompt_of(5, 9)
        go = lambda method: run.generate(pieces, prompt, 8, method, commit.Quotas(8, 4))[1]
        # All do: the dual cache, but for the order of sums. None does: the block's first pass counts.
        self.assert_same_run(go(cached.Losa(1)), go(cached.FastDllm(dual=True)))
        for make in FAMILIES:
            pieces = make()
            for method, first, later in ((cached.Losa("1/2"), 4, 2), (cached.Losa(0), 4, 0),
                                         (cached.Losa(), 1, 1)):
                for record in go(method):
                    rows = 17 if record["step"] in (1, 5) else 4 + pieces.shifted
                    for number, layer in enumerate(record["layers"]):
                        refreshed = rows if rows == 17 else later if number else first
                        self.assertEqual(layer["pairs"], pieces.heads * (rows * 4 + refreshed * 13))

    def test_what_is_refreshed_is_kept(self):
        # Rows of which nothing changes keep what the last pass that refreshed them left.
        pieces, prompt = tiny_llada(), prompt_of(5, 9)
        method, one = cached.Losa(), run.Run(pieces, prompt, 8)
        one.step, one.inner, one.block, one.block_start, one.block_end = 1, 0, 0, 9, 13
        method.begin(one)
        with torch.no_grad():
            method.forward(one, trace.Record(pieces, 0, 1, 17))
            before = [each.clone() for each in method.outside[0]]
            one.tokens[10], one.step, one.inner, one.history = 3, 2, 1, [[10]]
            method.forward(one, trace.Record(pieces, 0, 2, 17))
            x = pieces.embed(one.tokens)
            q = pieces.rotate(pieces.query(0, pieces.attention_norm(0, x)), list(range(17)))
            anew = method.part(one, 0, q, [*range(9), *range(13, 17)])
        for kept, old, new in zip(method.outside[0], before, anew):
            others = [row for row in range(17) if row != 10]
            self.assertTrue(torch.equal(kept[:, others], old[:, others]))
            self.assertLess((kept[:, 10] - new[:, 10]).abs().max(), 1e-6)
            self.assertGreater((kept[:, 10] - old[:, 10]).abs().max(), 1e-3)

    def test_cached_rows_are_those_of_the_step_that_wrote_them(self):
        # Prefill by hand: the prompt's K and V are those of a dense first pass.
        pieces, prompt = tiny_llada(), prompt_of(4, 9)
        method = cached.DkvPrefill()
        _, records = run.generate(pieces, prompt, 4, method, commit.Quotas(4))
        first = run.Run(pieces, prompt, 4)
        rows, x = list(range(13)), pieces.embed(first.tokens)
        for layer in range(pieces.layers):
            h = pieces.attention_norm(layer, x)
            k, v = pieces.rotate(pieces.key(layer, h), rows), pieces.value(layer, h)
            self.assertTrue(torch.equal(method.keys[layer][:, :9], k[:, :9]))
            self.assertTrue(torch.equal(method.values[layer][:, :9], v[:, :9]))
            context = models.attention(pieces.rotate(pieces.query(layer, h), rows), k, v)
            x = x + pieces.output(layer, context)
            x = x + pieces.ffn(layer, x)
        self.assertEqual([rows_of(r) for r in records], [rows] + [rows[9:]] * 3)


class FastDllmTest(unittest.TestCase):
    def test_rows(self):
        for make, shift in zip(FAMILIES, (0, 1)):
            for dual in (False, True):
                _, records = run.generate(make(), prompt_of(1, 7), 8, cached.FastDllm(dual),
                                          commit.Quotas(6, 4))
                for number, r in enumerate(records):
                    block, inner = divmod(number, 3)
                    start, end = 7 + 4 * block, 7 + 4 * (block + 1) if dual else 15
                    expected = list(range(15)) if inner == 0 else list(range(start - shift, end))
                    self.assertEqual(rows_of(r), expected)
                    self.assertIsNone(r["visible"])
                    self.assertEqual(r["pairs"], 2 * 4 * 15 * len(expected))
                    self.assertEqual(r["kv_written"], 2 * 2 * 2 * 8 * 4 * len(expected))
                    self.assertEqual(r["kv_read"], 2 * 2 * 2 * 8 * 4 * (15 - len(expected)))
                    for p in committed(r):
                        self.assertTrue(7 + 4 * block <= p < 7 + 4 * (block + 1))


class DkvTest(unittest.TestCase):
    def test_committed_tokens_are_computed_once_more(self):
        for make, shift, warm in zip(FAMILIES, (0, 1), (2, 1)):
            _, records = run.generate(make(), prompt_of(1, 7), 12, cached.DkvDecode(5, warm),
                                      commit.Quotas(12, 12))
            masked = [set(range(7, 19))]
            for r in records:
                masked.append(masked[-1] - set(committed(r)))
            for inner, r in enumerate(records):
                if inner < warm or inner % 5 == 0:
                    self.assertEqual(rows_of(r), list(range(19)))
                else:
                    needed = masked[inner - 1] | {p - shift for p in masked[inner - 1]}
                    self.assertEqual(rows_of(r), sorted(needed))
                    self.assertTrue(set(committed(records[inner - 1])) <= set(rows_of(r)))

    def test_caches_of_a_block_are_dropped(self):
        _, records = run.generate(tiny_llada(), prompt_of(1, 7), 12, cached.DkvDecode(99),
                                  commit.Quotas(12, 4))
        self.assertEqual([len(rows_of(r)) == 19 for r in records], [True, True, False, False] * 3)

    def test_unshifted_flag_of_the_released_code(self):
        _, records = run.generate(tiny_dream(), prompt_of(1, 7), 6,
                                  cached.DkvDecode(99, 1, shift="un"), commit.Quotas(6))
        masked = set(range(7, 13))
        for r, before in zip(records[1:], [None, *records[:-1]]):
            masked -= set(committed(before)) if before else set()
            # The second pass goes by the flags of the start, which have the last row.
            last = [] if before else [12]
            self.assertEqual(rows_of(r), sorted(p - 1 for p in masked) + last)

    def test_right_flag_of_the_released_code(self):
        _, records = run.generate(tiny_dream(), prompt_of(1, 7), 6,
                                  cached.DkvDecode(99, 1, shift="un_right"),
                                  commit.Ordered(6, None, [1, 5, 0, 3, 2, 4]))
        masked, alone = set(range(7, 13)), 0
        for r, before in zip(records[1:], [None, *records[:-1]]):
            masked -= set(committed(before)) if before else set()
            rows = {p for p in range(12) if {p, p + 1} & masked}
            self.assertEqual(rows_of(r), sorted(rows | {12} if 11 in rows else rows))
            alone += 11 in masked and 12 not in masked
        self.assertGreater(alone, 0)

    def test_unshifted_flag_after_a_refresh(self):
        for prompt_once in (False, True):
            _, records = run.generate(tiny_dream(), prompt_of(1, 7), 6,
                                      cached.DkvDecode(2, 1, "un", prompt_once), commit.Quotas(6))
            first = 6 if prompt_once else 0
            self.assertEqual(rows_of(records[1]), list(range(6, 13)))
            self.assertEqual(rows_of(records[2]), list(range(first, 13)))
            for r in records[3::2]:
                self.assertNotIn(12, rows_of(r))

    def test_prompt_once(self):
        _, records = run.generate(tiny_dream(), prompt_of(1, 7), 6,
                                  cached.DkvDecode(2, 1, prompt_once=True), commit.Quotas(6))
        self.assertEqual([min(rows_of(r)) >= 6 for r in records], [False] + [True] * 5)
        self.assertEqual(rows_of(records[2]), list(range(6, 13)))

    def test_greedy_rows(self):
        order = [5, 0, 3, 1, 4, 2]
        rule = commit.Ordered(6, 6, order)
        _, records = run.generate(tiny_llada(), [1] * 4, 6, cached.DkvGreedy(rule, 4, 3), rule)
        # Masked in pass 1: 4 to 8; it commits 4, whose neighbours are 5, 6, 7.
        self.assertEqual(rows_of(records[1]), [4, 5, 6, 7, 9])
        # Pass 2: 7, with 6, 8, 5 in turn; 4 once more.
        self.assertEqual(rows_of(records[2]), [4, 5, 6, 7, 8])
        self.assertEqual(rows_of(records[4]), list(range(10)))
        self.assertEqual(rows_of(records[5]), [6, 8])

    def test_released_greedy_rows(self):
        # Pass 1 commits 4 and 6; pass 2 7 and 8 of the masked 5 and 7 to 11.
        order = [0, 2, 3, 4, 7, 6, 5, 1]
        # Pass 3: 11 and then 10, which are all that is masked but for 5 and 9.
        for released, *expected in ((False, [4, 5, 6, 7, 8, 9], [7, 8, 9, 10, 11]),
                                    (True, list(range(4, 12)), [5, 7, 8, 9, 10, 11])):
            rule = commit.Ordered(4, 8, order)
            _, records = run.generate(tiny_llada(), [1] * 4, 8,
                                      cached.DkvGreedy(rule, 4, 2, released), rule)
            self.assertEqual([rows_of(r) for r in records[1:3]], expected)


class WindowDiffusionTest(unittest.TestCase):
    def test_windows(self):
        for make in FAMILIES:
            pieces = make()
            _, records = run.generate(pieces, prompt_of(1, 7), 20, cached.WindowDiffusion(6, 3, 4),
                                      commit.Quotas(20))
            masked, recent, decoded = list(range(7, 27)), [], list(range(7))
            for number, r in enumerate(records):
                if number % 4 == 0:
                    window, recent = masked[:6], []
                    visible = sorted(decoded + window)
                    expected = visible
                active = [p for p in masked if p in window][:3]
                if number % 4:
                    before = [pieces.row_of(p) for p in active + recent]
                    expected = sorted({*active, *recent, *before})
                self.assertEqual(rows_of(r), expected)
                self.assertEqual(r["visible"], None if len(visible) == 27 else visible)
                self.assertEqual(r["logits"], sorted(pieces.row_of(p) for p in active))
                self.assertTrue(committed(r) and set(committed(r)) <= set(active))
                recent, decoded = recent + committed(r), decoded + committed(r)
                masked = [p for p in masked if p not in decoded]

    def test_stop_narrows_the_window(self):
        pieces = tiny_llada()
        one = run.Run(pieces, prompt_of(1, 4), 12, "narrow")
        rule, method = commit.Quotas(12), cached.WindowDiffusion(6, 4, 3)
        rule.begin(one)
        method.begin(one)
        one.tokens[6] = pieces.eos
        one.step = 1
        rows, visible = method.plan(one)
        self.assertEqual(rows, [0, 1, 2, 3, 4, 5, 6])
        self.assertEqual(method.reach(one), {4, 5})
        self.assertEqual(visible, rows)

    def test_released_llada(self):
        _, records = run.generate(tiny_llada(), prompt_of(1, 7), 20,
                                  cached.WindowDiffusionLlada(4, 3, 4), commit.Quotas(20))
        masked, recent, beyond = list(range(7, 27)), [], []
        for number, r in enumerate(records):
            if number % 4 == 0:
                self.assertEqual((rows_of(r), r["visible"]), (list(range(27)), None))
                self.assertEqual(r["logits"], masked)
            else:
                if number % 4 == 1:
                    seen = [p for p in range(27) if p not in masked[4:]]
                beyond += [p for p in committed(r) if p not in seen]
                self.assertEqual(rows_of(r), sorted(masked[:3] + recent))
                self.assertEqual(r["visible"], None if len(seen) == 27 else seen)
                self.assertEqual(r["logits"], masked[:3])
            recent = committed(r) if number % 4 < 2 else recent + committed(r)
            masked = [p for p in masked if p not in committed(r)]
        self.assertGreater(len(beyond), 0)  # rows that are no keys become tokens

    def test_rows_that_are_no_keys(self):
        """What such a row's K and V are changes no row, its own included."""
        pieces = tiny_llada()

        def states(other):
            method, one = cached.WindowDiffusionLlada(2, 3, 4), run.Run(pieces, prompt_of(1, 4), 8)
            method.begin(one)
            one.step = 1
            method.forward(one, trace.Record(pieces, 0, 1, one.n))
            one.tokens[4], one.history = 1, [[4]]
            one.step = 2
            key, value = pieces.key, pieces.value
            if other:  # rows are 4 (just committed), 5, 6 and 7, of which 7 is no key
                of_last = torch.tensor([0, 0, 0, 1.])[:, None]
                pieces.key = lambda layer, h: key(layer, h) + of_last
                pieces.value = lambda layer, h: value(layer, h) + of_last
            rows, x = method.forward(one, trace.Record(pieces, 0, 2, one.n))
            pieces.key, pieces.value = key, value
            self.assertEqual((rows, method.visible), ([4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6]))
            return x
        self.assertTrue(torch.equal(states(False), states(True)))

    def test_released_dream(self):
        pieces = tiny_dream()
        method = cached.WindowDiffusionDream(6, 3, 4)
        _, records = run.generate(pieces, prompt_of(3, 7), 20, method,
                                  commit.WindowTimesteps(20, method), "entropy")
        masked, beyond = list(range(7, 27)), 0
        for number, r in enumerate(records):
            if number % 4 == 0:
                start, prefix = masked[0], 27 - len(masked) + min(5, len(masked))
                self.assertEqual(rows_of(r), list(range(prefix)))
                self.assertEqual(committed(r), [start])
            else:
                # Once fewer masks are left than the inner window holds, to the end.
                end = masked[2] + 1 if len(masked) >= 3 else 27
                beyond += end > masked[:3][-1] + 1
                self.assertEqual(rows_of(r), list(range(start, end)))
                seen = sorted({*range(prefix), *rows_of(r)})
                self.assertEqual(r["visible"], None if len(seen) == 27 else seen)
            masked = [p for p in masked if p not in committed(r)]
        self.assertEqual(masked, [])
        self.assertGreater(beyond, 0)

    def test_released_dream_stops_early(self):
        pieces = tiny_dream()
        method = cached.WindowDiffusionDream(6, 3, 4, early_stop=True)
        rule = commit.WindowTimesteps(20, method)
        one = run.Run(pieces, prompt_of(1, 7), 20)
        rule.begin(one)
        method.begin(one)
        for step in (1, 2):
            self.assertTrue(rule.next(one))
            one.step = step
            method.plan(one)
            one.tokens[7 if step == 1 else 9] = pieces.eos if step == 2 else 1
        self.assertTrue(rule.next(one))
        one.step = 3
        rows, _ = method.plan(one)
        self.assertEqual((method.end, method.refreshing, method.reach(one)), (10, True, {8}))
        self.assertEqual(rows, list(range(10)))
        one.tokens[8] = 1
        self.assertFalse(rule.next(one))


if __name__ == "__main__":
    unittest.main()
