# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The benchmarks' loops of released implementations against heddle_reference's statements of the
same methods: rows of each step and tokens, on tiny models in float32."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "bench"), str(HERE.parent), str(HERE)]

try:
    import torch
except ImportError:
    torch = None
else:
    import eager
    import loops
    from heddle_reference.methods import cached, commit, dllm_cache, dyllm, pairs, run
    from test_methods import prompt_of, tiny_dream, tiny_llada

GEN, BLOCK, PROMPT = 12, 4, 9


def eager_of(pieces):
    """The EagerModel of the reference's pieces."""
    biased = {}
    if pieces.shifted:
        names = dict(q="self_attn.q_proj", k="self_attn.k_proj", v="self_attn.v_proj",
                     o="self_attn.o_proj", gate="mlp.gate_proj", up="mlp.up_proj",
                     down="mlp.down_proj", attention_norm="input_layernorm",
                     ffn_norm="post_attention_layernorm")
        names = {name: tensor + ".weight" for name, tensor in names.items()}
        biased = {name + "_bias": f"self_attn.{name}_proj.bias" for name in "qkv"}
        ends = "model.embed_tokens", "model.norm", pieces.head_name
    else:
        names = dict(q="q_proj", k="k_proj", v="v_proj", o="attn_out", gate="ff_proj", up="up_proj",
                     down="ff_out", attention_norm="attn_norm", ffn_norm="ff_norm")
        ends = ("model.transformer.wte", "model.transformer.ln_f",
                f"model.transformer.{pieces.head_name}")
    layers = [{name: pieces.weight(layer, tensor) for name, tensor in {**names, **biased}.items()}
              for layer in range(pieces.layers)]
    config = dict(n_heads=pieces.heads, n_kv_heads=pieces.kv_heads, d_model=pieces.width,
                  rms_norm_eps=pieces.eps, rope_theta=pieces.theta)
    return eager.EagerModel(config, layers, *(pieces.weights[end + ".weight"] for end in ends))


@unittest.skipIf(torch is None, "needs PyTorch")
class Loops(unittest.TestCase):
    def both(self, loop, method, steps=GEN, block=BLOCK, seed=0):
        """The loop's records and the reference's, whose tokens must be the same."""
        pieces, prompt = tiny_llada(seed), prompt_of(seed, PROMPT)
        tokens, found = loops.generate(loop, eager_of(pieces), torch.tensor(prompt), GEN, block,
                                       steps, pieces.mask)
        expected_tokens, expected = run.generate(pieces, prompt, GEN, method,
                                                 commit.Quotas(steps, block))
        for number, (a, b) in enumerate(zip(found, expected), 1):
            self.assertEqual(sorted(a.committed), sorted((c[0], c[1]) for c in b["committed"]),
                             f"step {number}")
        self.assertEqual(tokens.tolist(), expected_tokens)
        self.assertEqual(len(found), len(expected))
        return found, expected

    def assert_rows(self, found, expected):
        """Rows of Q, K and FFN in each step, summed over layers."""
        for number, (a, b) in enumerate(zip(found, expected), 1):
            n = b["n"]
            size = lambda rows: n if rows is None else len(rows)
            for name, key in (("key_rows", "keys_values"), ("ffn_rows", "ffn"),
                              ("query_rows", "queries")):
                self.assertEqual(getattr(a, name), sum(size(e[key]) for e in b["layers"]),
                                 f"{name} of step {number}")

    def test_the_model_computes_the_reference_s_logits(self):
        for make in (tiny_llada, tiny_dream):
            pieces, ids = make(), prompt_of(1, 11)
            model, rows = eager_of(pieces), list(range(11))
            from heddle_reference.methods.models import attention
            x = pieces.embed(ids)
            for layer in range(pieces.layers):
                h = pieces.attention_norm(layer, x)
                x = x + pieces.output(layer, attention(
                    pieces.rotate(pieces.query(layer, h), rows),
                    pieces.rotate(pieces.key(layer, h), rows), pieces.value(layer, h)))
                x = x + pieces.ffn(layer, x)
            found = model.logits(model.step(model.embed(torch.tensor(ids)), *model.tables(11)))
            self.assertLess((found - pieces.logits(x)).abs().max(), 1e-4)

    def test_dense(self):
        for steps, block in ((12, 12), (6, 4), (12, 4)):
            self.assert_rows(*self.both(loops.Dense(), pairs.Dense(), steps, block))

    def test_fast_dllm(self):
        for dual in (False, True):
            for seed, (steps, block) in enumerate(((12, 4), (6, 4), (8, 6), (12, 12))):
                found, expected = self.both(loops.FastDllm(dual), cached.FastDllm(dual), steps, block,
                                            seed)
                self.assert_rows(found, expected)
                self.assertEqual({r.kind for r in found},
                                 {"all rows", "block" if dual else "block and suffix"})

    def test_dllm_cache(self):
        for seed in range(4):
            found, expected = self.both(loops.DllmCache(8, 3, 0.25),
                                        dllm_cache.DllmCache(8, 3, "1/4"), seed=seed)
            size = lambda rows, n: n if rows is None else len(rows)
            for number, (a, b) in enumerate(zip(found, expected), 1):
                # The released first layer renews the prompt as well, which nothing reads.
                extra = 0 if (number - 1) % 8 == 0 else PROMPT
                for name, key in (("query_rows", "queries"), ("ffn_rows", "ffn")):
                    self.assertEqual(getattr(a, name),
                                     sum(size(e[key], b["n"]) for e in b["layers"]) + extra)
            self.assertEqual(found[0].value_rows, 2 * (PROMPT + GEN))
            self.assertEqual(found[1].value_rows, PROMPT + 2 * GEN)
            self.assertEqual([r.kind for r in found[:4]], ["prompt and response"] +
                             2 * ["least similar"] + ["response"])
            self.assertEqual(found[8].kind, "prompt and least similar")

    def test_dllm_cache_that_renews_all_is_dense(self):
        self.both(loops.DllmCache(1, 1, 0), pairs.Dense())

    def test_dyllm(self):
        for seed in range(4):
            for tau in (0.99, 0.9, 1.5, -2.0):
                found, expected = self.both(loops.DyLLM(tau), dyllm.DyLLM(tau, whole="code"),
                                            seed=seed)
                size = lambda rows, n: n if rows is None else len(rows)
                for a, b in zip(found, expected):
                    for name, key in (("key_rows", "keys_values"), ("ffn_rows", "ffn")):
                        self.assertEqual(getattr(a, name),
                                         sum(size(e[key], b["n"]) for e in b["layers"]))
            self.assertEqual([r.kind for r in found[3:8]],
                             ["full"] + 3 * ["salient of the response"] + ["salient of all rows"])

    def test_lengths_that_do_not_divide(self):
        with self.assertRaisesRegex(ValueError, "expected multiples"):
            loops.generate(loops.Dense(), None, torch.tensor([1]), 12, 5, 12, 0)

    def test_random_models(self):
        config = dict(n_layers=2, d_model=32, n_heads=4, n_kv_heads=2, mlp_hidden_size=48,
                      rms_norm_eps=1e-5, rope_theta=1e4, vocab_size=40)
        model = eager.random_model(config, "cpu", torch.bfloat16, vocabulary=True, biases=True)
        for loop in (loops.Dense(), loops.FastDllm(), loops.FastDllm(True), loops.DllmCache(),
                     loops.DyLLM()):
            tokens, records = loops.generate(loop, model, torch.tensor([1, 2, 3]), 8, 4, 8, 39, 6)
            self.assertEqual((len(records), len(tokens)), (6, 11))


if __name__ == "__main__":
    unittest.main()
