# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of heddle_reference.methods: models, loop, commit rules, traces."""

import json
import math
import os
import random
import sys
import tempfile
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from heddle_reference import sampler, timesteps  # noqa: E402
from heddle_reference.model import Dream  # noqa: E402
from heddle_reference.methods import cached, commit, models, pairs, run, trace  # noqa: E402
from test_reference import tiny_model  # noqa: E402


def tiny_llada(seed=0):
    return models.Llada(tiny_model(seed))


def tiny_dream(seed=0, layers=2, heads=4, kv_heads=2, dim=8, vocab=50, bias=0.3):
    """A random model of Dream's architecture."""
    g = torch.Generator().manual_seed(seed)
    width, hidden = heads * dim, 24
    make = lambda *shape: torch.randn(*shape, generator=g) * 0.3
    w = {"model.embed_tokens.weight": make(vocab, width), "model.norm.weight": 1 + make(width),
         "lm_head.weight": make(vocab, width)}
    for i in range(layers):
        shapes = {"input_layernorm": [width], "post_attention_layernorm": [width],
                  "self_attn.q_proj": [width, width], "self_attn.k_proj": [kv_heads * dim, width],
                  "self_attn.v_proj": [kv_heads * dim, width], "self_attn.o_proj": [width, width],
                  "mlp.gate_proj": [hidden, width], "mlp.up_proj": [hidden, width],
                  "mlp.down_proj": [width, hidden]}
        for name, shape in shapes.items():
            w[f"model.layers.{i}.{name}.weight"] = make(*shape)
            if name[-6:] in ("q_proj", "k_proj", "v_proj"):
                w[f"model.layers.{i}.{name}.bias"] = make(shape[0]) * bias
    config = {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": width,
              "num_key_value_heads": kv_heads, "rms_norm_eps": 1e-6, "rope_theta": 1e4, "vocab_size": vocab,
              "mask_token_id": vocab - 1, "eos_token_id": vocab - 2}
    return models.Dream(config, w)


FAMILIES = [tiny_llada, tiny_dream]


def prompt_of(seed, length):
    rng = random.Random(seed)
    return [rng.randrange(40) for _ in range(length)]


def rule_of(pieces, steps, block_length=None):
    return commit.Quotas(steps, block_length)


def tokens_and_sure(records):
    """What was committed where, and how surely, a step at a time."""
    return ([[c[:2] for c in r["committed"]] for r in records],
            [c[2] for r in records for c in r["committed"]])


class SameRun(unittest.TestCase):
    def assert_same_run(self, mine, theirs):
        """Equal tokens at every step; confidences equal but for rounding."""
        (a, x), (b, y) = tokens_and_sure(mine), tokens_and_sure(theirs)
        self.assertEqual(a, b)
        for p, q in zip(x, y):
            self.assertAlmostEqual(p, q, delta=1e-5 * max(1, abs(p)))


class ModelsTest(SameRun):
    def test_dense_run_equals_the_sampler(self):
        model = tiny_model()
        for length, gen, steps, block in ((5, 12, 6, 4), (1, 8, 8, 8), (9, 6, 4, 3)):
            prompt = prompt_of(length, length)
            tokens, records = run.generate(models.Llada(model), prompt, gen, pairs.Dense(),
                                           commit.Quotas(steps, block))
            seen = []
            expected = sampler.generate(model, [prompt], sampler.Options(gen, steps, block),
                                        observe=seen.append)
            self.assertEqual(tokens, expected[0])
            self.assertEqual([r["pairs"] for r in records], [r["pairs"] for r in seen])
            self.assertEqual([r["rows"] for r in records], [2 * r["rows"] for r in seen])

    def test_dream_without_bias_is_llada_with_other_names(self):
        dream = tiny_dream(3, bias=0.0)
        names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ff_norm",
                 "self_attn.q_proj": "q_proj", "self_attn.k_proj": "k_proj",
                 "self_attn.v_proj": "v_proj", "self_attn.o_proj": "attn_out",
                 "mlp.gate_proj": "ff_proj", "mlp.up_proj": "up_proj", "mlp.down_proj": "ff_out"}
        llada = tiny_llada()
        llada.eps = dream.eps
        w = llada.weights
        w["model.transformer.wte.weight"] = dream.weights["model.embed_tokens.weight"]
        w["model.transformer.ln_f.weight"] = dream.weights["model.norm.weight"]
        w["model.transformer.ff_out.weight"] = dream.weights["lm_head.weight"]
        for layer in range(dream.layers):
            for theirs, ours in names.items():
                w[f"model.transformer.blocks.{layer}.{ours}.weight"] = dream.weights[
                    f"model.layers.{layer}.{theirs}.weight"]
        finals = []
        for pieces in (llada, dream):
            one = run.Run(pieces, prompt_of(1, 6), 5)
            record = trace.Record(pieces, 0, 1, one.n)
            finals.append(pieces.logits(pairs.Dense().forward(one, record)[1]))
        self.assertTrue(torch.equal(*finals))

    def test_dream_run_equals_its_sampler(self):
        pieces = tiny_dream(5)
        model = Dream(pieces.config, pieces.weights)
        rules = {"maskgit_plus": "probability", "topk_margin": "margin", "entropy": "entropy"}
        for (alg, confidence), gen, steps in zip(rules.items(), (12, 9, 8), (5, 9, 3)):
            for words, method in (("dense", pairs.Dense()),
                                  ("columns:keep=1/3,group=16,steps=2", pairs.Selecting(
                                      pairs.Columns("1/3", 16), lambda total: [2]))):
                prompt, seen = prompt_of(gen, 18), []
                tokens, records = run.generate(pieces, prompt, gen, method,
                                               commit.Timesteps(steps), confidence)
                expected = timesteps.generate(model, [prompt], timesteps.Options(gen, steps, alg),
                                              words, seen.append)
                self.assertEqual(tokens, expected[0])
                self.assertEqual([r["pairs"] for r in records], [r["pairs"] for r in seen])
                for mine, theirs in zip(records, seen):
                    sure = {c["position"]: c["confidence"] for c in theirs["commits"]}
                    self.assertEqual([c[0] for c in mine["committed"]], sorted(sure))
                    for position, _, found in mine["committed"]:
                        self.assertAlmostEqual(found, sure[position], places=6)

    def test_dream_bias_and_shift(self):
        dream, plain = tiny_dream(3), tiny_dream(3, bias=0.0)
        zero = torch.zeros(4, dream.width)
        self.assertEqual(float(plain.query(0, zero).abs().max()), 0.0)
        bias = dream.weights["model.layers.1.self_attn.k_proj.bias"]
        self.assertTrue(torch.equal(dream.key(1, zero)[1, 2], bias[dream.dim:]))
        self.assertEqual([dream.row_of(p) for p in (0, 1, 7)], [0, 0, 6])
        _, records = run.generate(dream, prompt_of(0, 4), 3, pairs.Dense(), commit.Quotas(3))
        self.assertEqual(records[0]["logits"], [3, 4, 5])

    def test_rotation_by_position(self):
        pieces = tiny_llada()
        t = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0))
        whole = pieces.rotate(t, range(6))
        self.assertTrue(torch.allclose(whole[:, [1, 4]], pieces.rotate(t[:, [1, 4]], [1, 4])))


class CommitTest(unittest.TestCase):
    def test_timesteps_counts(self):
        # Of Dream's rule in float32, computed beforehand.
        table = {(64, 64): [0] + [1] * 62 + [2], (256, 64): [3] + [4] * 62 + [5],
                 (32, 8): [3] + [4] * 6 + [5], (8, 8): [0] + [1] * 6 + [2],
                 (512, 256): [1] + [2] * 254 + [3], (30, 8): [3] * 3 + [4] * 4 + [5],
                 (40, 25): [1] * 11 + [2] * 13 + [3]}
        for (gen, steps), expected in table.items():
            rule, left, counts = commit.Timesteps(steps), gen, []
            one = run.Run(tiny_dream(), [1], gen)
            rule.begin(one)
            while rule.next(one):
                one.step += 1
                counts.append(rule.count(one))
                for p in one.masked()[:counts[-1]]:
                    one.tokens[p] = 0
            self.assertEqual(counts, expected, (gen, steps))

    def test_factor_is_the_largest_prefix(self):
        rng = random.Random(1)
        for _ in range(300):
            sure = [rng.random() ** rng.choice((0.02, 0.2, 1)) for _ in range(rng.randint(1, 9))]
            order = sorted(sure, reverse=True)
            fits = [n for n in range(1, len(order) + 1) if (n + 1) * (1 - order[n - 1]) < 1]
            rule = commit.Factor(8, 1.0)
            self.assertEqual(rule.count(sure), max(fits, default=1))
            released = commit.Factor(8, 1.0, released=True).count(sure)
            if released != rule.count(sure):  # it fails at the last one alone
                self.assertEqual(released, len(sure))
                self.assertEqual(rule.count(sure), len(sure) - 1)

    def test_confidences(self):
        logits = torch.tensor([[0.0, 2.0, 2.0, 1.0]]).double().log()
        sure = lambda kind, never=None: commit.predict(logits.clone(), kind, never)
        for never, expected in ((None, 1), (1, 2)):
            (token,), (p,) = sure("probability", never)
            self.assertEqual(token, expected)
            self.assertAlmostEqual(p, 0.4, places=12)
        (token,), (margin,) = sure("margin")
        self.assertEqual((token, margin), (1, 0.0))
        self.assertAlmostEqual(sure("entropy")[1][0], 0.8 * math.log(0.4) + 0.2 * math.log(0.2), places=8)

    def test_threshold_takes_at_least_the_surest(self):
        rule = commit.Threshold(4, 0.9)
        self.assertEqual(rule.choose(None, [5, 6, 7], [0.1, 0.3, 0.3]), [1])
        self.assertEqual(rule.choose(None, [5, 6, 7], [0.9, 0.3, 0.95]), [0, 2])

    def test_entropies_sum_to_a_bound(self):
        rule, sure = commit.EntropyBound(4, 0.5), [-0.3, -0.1, -0.2, -0.9, -0.1]
        # 0.1, 0.1, 0.2 and 0.3 in this order: 0.4 stands before the fourth, 0.7 before the fifth.
        self.assertEqual(rule.choose(None, [5, 6, 7, 8, 9], sure), [0, 1, 2, 4])
        rule.bound = 0.05
        self.assertEqual(rule.choose(None, [5, 6, 7, 8, 9], sure), [1])
        self.assertEqual(rule.choose(None, [5], [-3.0]), [0])

    def test_revoking_takes_the_least_probable_and_fewer_than_are_committed(self):
        rule = commit.Revoking(commit.Threshold(4, 0.6), 0.9)
        now = [0.95, 0.2, 0.9, 0.5, 0.2]
        self.assertEqual([rule.revoke(now, n) for n in (0, 1, 2, 3, 9)], [[], [], [1], [1, 4], [1, 4, 3]])

    def test_wino_commits_a_share_and_revokes_fewer_than_before(self):
        rule, state = commit.Wino(16), run.Run(tiny_llada(), [1, 2], 32)
        rule.begin(state)
        rule.next(state)
        now = [0.95, 0.2, 0.9, 0.5, 0.2]
        self.assertEqual(rule.choose(state, list(range(9)), [0.6] * 9), [0])  # does not exceed it
        self.assertEqual(rule.revoke(now, 1), [])
        self.assertEqual(rule.choose(state, list(range(9)), [0.61] * 9), [0, 1, 2, 3, 4, 5])
        self.assertEqual(rule.revoke(now, 6), [])  # the step before took one
        self.assertEqual(rule.choose(state, [5, 6, 7], [0.1, 0.7, 0.8]), [1, 2])
        self.assertEqual(rule.revoke(now, 2), [1, 4, 3])
        self.assertEqual(rule.choose(state, [5, 6], [0.7, 0.8]), [0, 1])
        self.assertEqual(rule.revoke(now, 2), [1])
        self.assertEqual(len(rule.choose(state, list(range(50)), [0.7] * 50)), 20)

    def test_a_shadow_has_not_seen_the_token(self):
        for family in FAMILIES:
            pieces = family()
            pieces.layers = 1  # behind the first layer all have seen all
            state = run.Run(pieces, prompt_of(3, 5), 8)
            rule, method = commit.Wino(8), pairs.Shadowed()
            rule.begin(state)
            rule.next(state)
            state.tokens[5:13] = [3, pieces.mask, 4, 5, 6, pieces.mask, 7, 8]
            states = lambda: dict(zip(*method.forward(state, trace.Record(pieces, 0, 1, state.n))))
            before = states()
            self.assertEqual(sorted(before), list(range(13)) + [13 + pieces.row_of(p) for p in range(5, 13)])
            state.tokens[8] = 9
            after = states()
            changed = {row for row in before if not torch.equal(before[row], after[row])}
            self.assertNotIn(method.row_again(state, 8), changed)
            self.assertEqual(len(changed), len(before) - 1)
            # Nothing of the sequence sees it.
            plain = pairs.Dense().forward(state, trace.Record(pieces, 0, 1, state.n))[1]
            self.assertTrue(torch.allclose(torch.stack([after[row] for row in range(13)]), plain, atol=1e-5))

    def test_shadows_revoke_what_own_rows_do_not(self):
        for family in FAMILIES:
            made = [run.generate(family(), prompt_of(3, 5), 24, method(), commit.Wino(12, 0.03, 0.9))[1]
                    for method in (pairs.Shadowed, pairs.Dense)]
            revoked = [[c[0] for r in records for c in r["committed"] if c[1] == family().mask] for records in made]
            self.assertGreater(len(revoked[0]), 3)
            self.assertNotEqual(*revoked)
            for records in made:
                self.assertLessEqual(len(records), 24)

    def test_revoked_tokens_are_masks_of_the_block_again(self):
        for family in FAMILIES:
            revoked = 0
            for method in (pairs.Dense, lambda: cached.FastDllm(dual=True)):
                pieces = family()
                tokens, records = run.generate(pieces, prompt_of(3, 5), 24, method(),
                                               commit.Revoking(commit.Threshold(12, 0.2), 1.0))
                self.assertNotIn(pieces.mask, tokens)
                there = {}
                for record in records:
                    made = [c for c in record["committed"] if c[1] != pieces.mask]
                    gone = [c for c in record["committed"] if c[1] == pieces.mask]
                    self.assertLess(len(gone), max(1, len(made)))
                    for position, _, _ in gone:
                        block = (position - 5) // 12
                        self.assertTrue(any((p - 5) // 12 == block for p, _, _ in made))
                        del there[position]
                    for position, token, _ in made:
                        self.assertNotIn(position, there)
                        there[position] = token
                    revoked += len(gone)
                self.assertEqual([there[p] for p in range(5, 29)], tokens[5:])
                self.assertLessEqual(len(records), 24)
            self.assertGreater(revoked, 3)

    def test_the_eos_that_ends_the_text_stays(self):
        pieces = tiny_llada()
        rule = commit.Revoking(commit.Best(8, 3), 1.0)
        state = run.Run(pieces, [1, 2], 8, stop="narrow")
        rule.begin(state)
        rule.next(state)
        state.tokens[4:8] = [5, pieces.eos, 6, pieces.mask]
        self.assertEqual(rule.again(state, [2, 3]), [4])
        self.assertEqual(rule.again(state, [2]), [])
        state.stop = None
        self.assertEqual(rule.again(state, [2, 3]), [4, 5, 6])

    def test_steps_that_come_out_as_drafted_share_a_pass(self):
        drafting = commit.Drafting(2)
        one = ([3, 4, 5, 6], [30, 40, 50, 60], [0.9, 0.8, 0.7, 0.1])
        self.assertEqual(drafting.step(*one, {3: 30}), 1)  # nothing was predicted before
        again = ([4, 5, 6], [40, 51, 60], [0.1, 0.2, 0.3])
        self.assertEqual(drafting.step(*again, {4: 40}), 2)
        self.assertEqual(drafting.step([5, 6], [51, 60], [0.5, 0.4], {5: 51}), 2)  # drafted was the token 50
        self.assertEqual(drafting.step([6], [60], [0.9], {6: 60}), 3)
        drafting = commit.Drafting(2)
        self.assertEqual(drafting.step(*one, {}), 1)  # no quota: nothing is predicted either
        self.assertEqual(drafting.step(*one, {3: 30}), 1)
        self.assertEqual(drafting.step(*again, {4: 40}), 2)
        self.assertEqual(drafting.step([5, 6], [50, 60], [0.5, 0.4], {5: 50}), 2)
        self.assertEqual(drafting.step([6], [60], [0.9], {6: 60}), 2)
        self.assertEqual(drafting.step([9], [90], [0.9], {9: 90}), 3)  # a pass has two drafts
        drafting = commit.Drafting(4, alone={2})
        self.assertEqual([drafting.step(*one, {}) for _ in range(5)], [1, 2, 3, 3, 3])

    def test_drafts_leave_a_run_as_it_is(self):
        for family in FAMILIES:
            runs = []
            for drafts in (0, 1, 4):
                rule = commit.Quotas(12, 6)
                tokens, records = run.generate(family(), prompt_of(3, 5), 12, pairs.Dense(), rule, drafts=drafts)
                passes = [r.pop("pass") for r in records if drafts]
                self.assertEqual(sorted(passes), passes)
                if drafts:
                    self.assertTrue(all(passes.count(p) <= 1 + drafts for p in passes))
                runs.append((tokens, records))
            self.assertEqual(runs[0], runs[1])
            self.assertEqual(runs[0], runs[2])

    def test_editing_replaces_what_is_drawn_otherwise(self):
        for family in FAMILIES:
            edited = later = 0
            for method, rule, further in (
                    (pairs.Dense, lambda: commit.Threshold(12, 0.2), 0),
                    (lambda: cached.FastDllm(dual=True), lambda: commit.Best(12, 5), 3),
                    (pairs.Dense, lambda: commit.Quotas(8, 12), 2),
                    (pairs.Dense, lambda: commit.Revoking(commit.Threshold(12, 0.2), 1.0), 2)):
                pieces = family()
                tokens, records = run.generate(pieces, prompt_of(3, 5), 24, method(),
                                               commit.Editing(rule(), 0.0, further))
                self.assertNotIn(pieces.mask, tokens)
                there = {}
                for record in records:
                    fresh = [c for c in record["committed"] if c[0] not in there]
                    for position, token, _ in record["committed"]:
                        self.assertNotEqual(there.get(position), token)
                        edited += position in there and token != pieces.mask
                        there[position] = token
                        if token == pieces.mask:
                            del there[position]
                    later += not fresh
                self.assertEqual([there[p] for p in range(5, 29)], tokens[5:])
                self.assertLessEqual(len(records), 24 + 2 * further)
            self.assertGreater(edited, 20)
            self.assertGreater(later, 3)

    def test_further_passes_end(self):
        for further, changes, steps in ((0, 9, 1), (3, 1, 3), (3, 9, 4)):
            pieces, rule = tiny_llada(), commit.Editing(commit.Best(4, 4), 0.5, further)
            state = run.Run(pieces, [1, 2], 4)
            rule.begin(state)
            taken = 0
            while rule.next(state):
                taken += 1
                state.tokens[2:] = [5, 6, 7, 8]
                state.history.append([2, 3, 4, 5] if taken == 1 else [])
                state.edited = [2] if 1 < taken <= 1 + changes else []
            self.assertEqual(taken, steps)

    def test_edits_are_of_steps_that_commit(self):
        pieces, rule = tiny_llada(), commit.Editing(commit.Best(4, 4), 0.5, 2)
        state = run.Run(pieces, [1, 2], 4)
        rule.begin(state)
        rule.next(state)
        state.tokens[2:4] = [5, 6]
        self.assertEqual(rule.again(state, [4, 5]), [2, 3])
        self.assertEqual(rule.again(state, []), [])
        self.assertEqual(rule.edit(state, [5, 6], [5, 7], [0.9, 0.9], 1), [1])
        self.assertEqual(rule.edit(state, [5, 6], [8, 7], [0.4, 0.9], 1), [1])
        self.assertEqual(rule.edit(state, [5, 6], [8, 7], [0.5, 0.9], 0), [])
        state.tokens[4:] = [7, 8]
        self.assertEqual(rule.again(state, []), [2, 3, 4, 5])
        self.assertEqual(rule.edit(state, [5, 6, 7, 8], [8, 6, 7, 8], [0.5] * 4, 0), [0])

    def test_masks_of_the_block_are_read_as_noise(self):
        for family in FAMILIES:
            pieces = family()
            special = {pieces.mask, pieces.eos}
            self.assertFalse(special & set(pieces.ordinary))
            seen, reads = [], []

            class Watched(pairs.Dense):
                def forward(self, run, record):
                    seen.append((list(run.tokens), run.read(), run.block_start, run.block_end))
                    return super().forward(run, record)

            for seed in (None, 0, 7):
                rule = commit.Best(6, 2)
                rule = rule if seed is None else commit.renoised(rule, seed)
                tokens, records = run.generate(pieces, prompt_of(3, 5), 12, Watched(), rule)
                self.assertNotIn(pieces.mask, tokens)
                self.assertEqual(len(records), 6)
                for known, read, start, end in seen:
                    for p, (token, there) in enumerate(zip(known, read)):
                        if token == pieces.mask and start <= p < end and seed is not None:
                            self.assertIn(there, pieces.ordinary)
                        else:
                            self.assertEqual(token, there)
                reads.append([read for _, read, _, _ in seen])
                if seed is not None:  # of the block's last mask, step by step
                    left = [i for i, token in enumerate(seen[2][0]) if token == pieces.mask and i < 11]
                    self.assertGreater(len({read[left[0]] for read in reads[-1][:3]}), 1)
                seen.clear()
            self.assertEqual(len({str(each) for each in reads}), 3)
            run.generate(pieces, prompt_of(3, 5), 12, Watched(), commit.renoised(commit.Best(6, 2), 7))
            self.assertEqual([read for _, read, _, _ in seen], reads[-1])

    def test_until_done_and_waste(self):
        pieces = tiny_llada()
        for waste in (False, True):
            tokens, records = run.generate(pieces, [1, 2, 3], 8, cached.FastDllm(dual=True),
                                           commit.Threshold(4, 0.0, waste))
            self.assertNotIn(pieces.mask, tokens)
            self.assertEqual([len(r["committed"]) for r in records],
                             [4, 0, 4, 0] if waste else [4, 4])
            self.assertEqual([r["layers"][0]["queries"] for r in records if not r["committed"]],
                             [[3, 4, 5, 6], [7, 8, 9, 10]] if waste else [])

    def test_block_timesteps(self):
        pieces = tiny_dream()
        _, records = run.generate(pieces, [1, 2], 16, cached.FastDllm(True, first_alone=True),
                                  commit.BlockTimesteps(16, 8))
        self.assertEqual([len(r["committed"]) for r in records], [1, 0, 1, 1, 1, 1, 1, 2] * 2)
        tokens, _ = run.generate(pieces, [1, 2], 16, cached.FastDllm(True, first_alone=True),
                                 commit.BlockTimesteps(2, 8))
        self.assertEqual([p for p in range(2, 18) if tokens[p] != pieces.mask], [2, 10])

    def test_ordered_commits_in_order(self):
        order = commit.random_order(12, 7)
        self.assertEqual(sorted(order), list(range(12)))
        self.assertNotEqual(order, commit.random_order(12, 8))
        self.assertEqual([p for p in commit.random_order(16, 7) if p < 12], order)
        _, records = run.generate(tiny_llada(), [1, 2], 12, pairs.Dense(),
                                  commit.Ordered(12, 4, order))
        self.assertEqual([r["committed"][0][0] - 2 for r in records],
                         sorted(order, key=lambda p: p // 4))

    def test_stops(self):
        pieces = tiny_llada()
        one = run.Run(pieces, [1, 2], 6, "narrow")
        one.tokens[5] = pieces.eos
        self.assertEqual(one.undecoded(), [2, 3, 4])
        self.assertFalse(one.ended())
        one.tokens[2:5] = [1, 1, 1]
        self.assertTrue(one.ended())
        one.stop = "end"
        self.assertTrue(one.ended())
        self.assertEqual(one.undecoded(), [6, 7])
        one.stop = None
        self.assertFalse(one.ended())

    def test_bad_settings_are_refused(self):
        pieces = tiny_llada()
        for rule in (commit.Quotas(5, 4), commit.Quotas(4, 3), commit.BlockTimesteps(3, 4)):
            with self.assertRaises(ValueError):
                run.generate(pieces, [1], 8, pairs.Dense(), rule)
        with self.assertRaises(ValueError):
            run.generate(pieces, [], 8, pairs.Dense(), commit.Quotas(8))
        with self.assertRaises(ValueError):
            run.generate(pieces, [1], 8, pairs.Dense(), commit.Quotas(8), stop="never")
        with self.assertRaises(ValueError):
            run.generate(pieces, [1], 8, pairs.pulsecol(), commit.Threshold(8, 0.9))


    def test_what_a_window_lacked_is_made_up(self):
        class Narrow(pairs.Dense):
            def reach(self, run):
                return {3, 4} if run.step < 3 else None
        _, records = run.generate(tiny_llada(), [1, 2, 3], 8, Narrow(), commit.Quotas(4))
        self.assertEqual([len(r["committed"]) for r in records], [2, 0, 4, 2])

    def test_mask_is_not_drawn_where_a_block_must_fill(self):
        pieces = tiny_llada()
        for layer in range(pieces.layers):  # so that the embedding decides alone
            for name in ("attn_out", "ff_out"):
                pieces.weight(layer, name).zero_()
        head = pieces.weights["model.transformer.ff_out.weight"]
        head[pieces.mask] = pieces.weights["model.transformer.wte.weight"][pieces.mask] * 100
        tokens, _ = run.generate(pieces, [1], 4, pairs.Dense(), commit.Quotas(4))
        self.assertEqual(tokens[1:], [pieces.mask] * 4)
        tokens, records = run.generate(pieces, [1], 4, pairs.Dense(), commit.Threshold(2, 0.9))
        self.assertNotIn(pieces.mask, tokens)


class TraceTest(unittest.TestCase):
    def setUp(self):
        _, self.records = run.generate(tiny_llada(), prompt_of(2, 20), 8,
                                       pairs.pulsecol("1/2", 16, count=2), commit.Quotas(4))

    def changed(self, change):
        copy = json.loads(json.dumps(self.records))
        change(copy)
        keyed = lambda records: {(0, r["step"]): r for r in records}
        return trace.compare(keyed(self.records), keyed(copy))[0]

    def test_equal_after_a_round_trip(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.jsonl")
            with open(path, "w", encoding="utf-8") as out:
                print(json.dumps({"comment": "settings"}), file=out)
                for record in self.records:
                    print(json.dumps(record), "\n", file=out)  # blank lines are none
            self.assertEqual(trace.compare(trace.read(path), trace.read(path)), {0: None})
            with open(path, "a", encoding="utf-8") as out:
                print("{", file=out)
            with self.assertRaisesRegex(ValueError, "t.jsonl:10: not JSON"):
                trace.read(path)
        self.assertIsNone(self.changed(lambda r: None))

    def test_all_positions_may_be_spelled_out(self):
        self.assertIsNone(self.changed(lambda r: r[1].update(visible=list(range(28)))))

    def test_every_difference_is_found(self):
        layer = lambda r: r[1]["layers"][1]
        cases = [
            (lambda r: r.pop(), "one side ends before it"),
            (lambda r: layer(r).update(queries=[0, 2]), "layer 1: queries"),
            (lambda r: layer(r).update(values=[3]), "layer 1: values"),
            (lambda r: layer(r).update(exact=[3]), "layer 1: exact"),
            (lambda r: layer(r).update(ffn=[]), "layer 1: ffn"),
            (lambda r: layer(r).update(pairs=1), "layer 1: 1 pairs"),
            (lambda r: r[1]["layers"].pop(), "1 layers, expected 2"),
            (lambda r: r[2].update(visible=[1]), "visible"),
            (lambda r: r[0]["refreshed"].pop(), "layer 1, head 3: columns refreshed by one side"),
            (lambda r: r[0]["refreshed"][2]["lists"][1].__setitem__(0, 99), "head 2, columns, lists, list 1"),
            (lambda r: r[3].update(logits=[1, 2]), "logits"),
            (lambda r: r[3]["committed"].pop(), "committed positions"),
            (lambda r: r[3]["committed"][0].__setitem__(1, 7), "token 7"),
            (lambda r: r[3]["committed"][0].__setitem__(2, 2.0), "confidence 2.0"),
            (lambda r: r[3].update(kv_read=5), "kv_read: 5"),
            (lambda r: r[3].update(rows=5), "rows: 5"),
        ]
        for change, words in cases:
            step, message = self.changed(change)
            self.assertIn(words, message)
            self.assertGreaterEqual(step, 1)

    def test_lists_of_equal_scores_are_a_tie(self):
        self.assertEqual(pairs.Chosen([0.5, 0.1, 0.25, 0.2], 2), [0, 2])
        self.assertAlmostEqual(pairs.Chosen([0.5, 0.1, 0.25, 0.2], 2).gap, 0.2)
        self.assertEqual(pairs.Chosen([0.5, 0.1], 2).gap, 1)
        record = trace.Record(tiny_llada(), 0, 1, 6)
        near = pairs.Chosen([0.5, 0.25, 0.25 * (1 + 1e-7), 0.1], 2)
        record.refresh(0, 0, "columns", [pairs.Chosen([0.5, 0.1, 0.2], 1), near])
        entry, = record.line["refreshed"]
        self.assertEqual((entry["lists"], entry["near"]), ([[0], [0, 2]], {"lists": [1]}))
        change = lambda u, keys: [dict(entry, lists=[keys if i == u else old for i, old
                                                     in enumerate(entry["lists"])])]
        differ = lambda u, keys: trace.refreshed_differ([entry], change(u, keys))
        self.assertIsNone(differ(1, [0, 2]))
        self.assertIsInstance(differ(1, [0, 1]), trace.Tie)
        self.assertNotIsInstance(differ(1, [0]), trace.Tie)
        self.assertNotIsInstance(differ(0, [1]), trace.Tie)
        self.assertIn("list 0", differ(0, [1]))


if __name__ == "__main__":
    unittest.main()
