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
    import rivals
    from heddle_reference.methods import cached, commit, dllm_cache, dyllm, pairs, run
    from test_methods import prompt_of, tiny_dream, tiny_llada

GEN, BLOCK, PROMPT = 12, 4, 9

# A heddle-run whose steps take 2 s, and 1 s from step 3 on.
FAKE_RUN = """#!/usr/bin/env python3
import json, sys
options = dict(zip(sys.argv[1:-1], sys.argv[2:]))
assert options["--block-length"] == "4" and options["--gen-length"] == "8"
for step in range(1, int(options["--steps"]) + 1):
    print(json.dumps({"step": step, "seconds": 2 if step < 3 else 1, "query_rows": 26,
                      "value_rows": 26, "ffn_rows": 13}), flush=True)
"""


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
                # The released first layer refreshes the prompt as well, which nothing reads.
                extra = 0 if (number - 1) % 8 == 0 else PROMPT
                for name, key in (("query_rows", "queries"), ("ffn_rows", "ffn")):
                    self.assertEqual(getattr(a, name),
                                     sum(size(e[key], b["n"]) for e in b["layers"]) + extra)
            self.assertEqual(found[0].value_rows, 2 * (PROMPT + GEN))
            self.assertEqual(found[1].value_rows, PROMPT + 2 * GEN)
            self.assertEqual([r.kind for r in found[:4]], ["prompt and response"] +
                             2 * ["least similar"] + ["response"])
            self.assertEqual(found[8].kind, "prompt and least similar")

    def test_dllm_cache_that_refreshes_all_is_dense(self):
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

    def test_kinds_are_known_before_the_run(self):
        for loop in (loops.FastDllm(), loops.DllmCache(8, 3, 0.25), loops.DyLLM(0.99)):
            found, _ = self.records(loop)
            self.assertEqual([r.kind for r in found], loops.kinds(loop, GEN // BLOCK, GEN))

    def records(self, loop):
        pieces = tiny_llada()
        tokens, found = loops.generate(loop, eager_of(pieces), torch.tensor(prompt_of(0, PROMPT)), GEN,
                                       BLOCK, GEN, pieces.mask)
        return found, tokens


@unittest.skipIf(torch is None, "needs PyTorch")
class Rivals(unittest.TestCase):
    def test_steps_that_were_not_measured_count_as_their_kind(self):
        self.assertEqual(rivals.whole([9, 1, 2, 3], ["a", "b", "b", "b", "a", "b"]), 15 + 9 + 2.5)
        with self.assertRaisesRegex(ValueError, "no step of the kind 'b'"):
            rivals.whole([9], ["a", "b"])
        self.assertEqual(rivals.enough(["a", "b", "b", "c", "b"], 2), 4)
        self.assertEqual(rivals.enough(["a", "b", "b", "c", "b"], 0), 0)

    def test_both_are_measured_alike(self):
        config = dict(n_layers=2, d_model=32, n_heads=4, n_kv_heads=4, mlp_hidden_size=48,
                      rms_norm_eps=1e-5, rope_theta=1e4, vocab_size=40)
        model = eager.random_model(config, "cpu", torch.float32, vocabulary=True)
        with tempfile.TemporaryDirectory() as folder:
            tool = Path(folder) / "heddle-run"
            tool.write_text(FAKE_RUN)
            tool.chmod(0o755)
            (Path(folder) / rivals.MODEL).mkdir()
            (Path(folder) / rivals.MODEL / "config.json").write_text(json.dumps(config))
            args = mock.Mock(heddle_run=str(tool), folder=folder, response=8, block=4, rounds=2)
            results = {name: rivals.measure(args, name, model, 5, 39) for name in rivals.RIVALS}
        dual = results["fast-dllm-dual"]
        self.assertEqual(dual["heddle_s"], 10)
        self.assertEqual(dual["rival_rows"], dict.fromkeys(("query", "value", "ffn"),
                                                           (2 * 13 + 6 * 4) / 8))
        self.assertEqual(dual["heddle_rows"], dict(query=13, value=13, ffn=6.5))
        self.assertIn("| 5 + 8 | 8 of 8 |", rivals.row_of(dual))
        self.assertIn("(differ) |", rivals.row_of(dual))
        self.assertIn("| 6 of 8 |", rivals.row_of(results["dense"]))
        self.assertEqual(results["dense"]["rival_rows"]["ffn"], 13)
        self.assertEqual(rivals.HEAD.splitlines()[0].count("|"), rivals.row_of(dual).count("|"))

    def test_schedules_hold_what_is_replaced(self):
        for name, rival in rivals.RIVALS.items():
            with self.subTest(name):
                text = (HERE.parents[1] / f"examples/{rival.example}.mlir").read_text()
                for old, _ in rival.replace:
                    self.assertIn(old, text)

    def test_errors(self):
        for arguments, words in (
                (["run", "--heddle-run", "none", "--folder", "none"], "there is no file none"),
                (["run", "--heddle-run", __file__, "--folder", ".", "--prompts", "0"], "such as 4096"),
                (["run", "--heddle-run", __file__, "--folder", ".", "--block", "1,2"], "one number")):
            with mock.patch("sys.argv", ["rivals.py", *arguments]), \
                    contextlib.redirect_stderr(io.StringIO()) as said, \
                    self.assertRaises(SystemExit) as end:
                rivals.main()
            self.assertIn(words, said.getvalue() + str(end.exception))


if __name__ == "__main__":
    unittest.main()
