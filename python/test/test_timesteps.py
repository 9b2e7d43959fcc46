# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of Dream's forward pass and sampler as heddle_reference states them."""

import math
import os
import sys
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from heddle_reference import model as reference, philox, timesteps, weights  # noqa: E402
from heddle_reference.schedule import Schedule  # noqa: E402
from heddle_reference.tokenizer import Tokenizer  # noqa: E402

FOLDER = os.path.join(HERE, "..", "..", "models", "heddle-dream-5m")


def tiny_dream(seed=0, layers=2, heads=4, kv_heads=2, dim=8, vocab=50, bias=0.3):
    g = torch.Generator().manual_seed(seed)
    width, hidden = heads * dim, 24
    make = lambda *shape: torch.randn(*shape, generator=g) * 0.3
    w = {"model.embed_tokens.weight": make(vocab, width), "model.norm.weight": 1 + make(width),
         "lm_head.weight": make(vocab, width)}
    for i in range(layers):
        at = f"model.layers.{i}."
        for name, rows in (("q", width), ("k", kv_heads * dim), ("v", kv_heads * dim)):
            w[at + f"self_attn.{name}_proj.weight"] = make(rows, width)
            w[at + f"self_attn.{name}_proj.bias"] = make(rows) * bias / 0.3
        for name, shape in {"self_attn.o_proj": [width, width], "mlp.gate_proj": [hidden, width],
                            "mlp.up_proj": [hidden, width], "mlp.down_proj": [width, hidden],
                            "input_layernorm": [width],
                            "post_attention_layernorm": [width]}.items():
            w[at + name + ".weight"] = make(*shape)
    config = {"model_type": "Dream", "num_attention_heads": heads, "num_key_value_heads": kv_heads,
              "num_hidden_layers": layers, "vocab_size": vocab, "rms_norm_eps": 1e-6,
              "rope_theta": 1e4, "mask_token_id": vocab - 1, "eos_token_id": vocab - 2}
    return reference.make(config, w)


def logits_of(model, tokens):
    schedule = Schedule("dense", 1, model.layers)
    schedule.begin_step(1, "conditional")
    return model.forward(tokens, schedule.attend)


class ForwardTest(unittest.TestCase):
    def test_without_biases_it_is_llada_by_other_names(self):
        dream = tiny_dream(bias=0.0)
        names = {"q_proj": "self_attn.q_proj", "k_proj": "self_attn.k_proj",
                 "v_proj": "self_attn.v_proj", "attn_out": "self_attn.o_proj",
                 "attn_norm": "input_layernorm", "ff_norm": "post_attention_layernorm",
                 "ff_proj": "mlp.gate_proj", "up_proj": "mlp.up_proj", "ff_out": "mlp.down_proj"}
        w = {"model.transformer.wte.weight": dream.weights["model.embed_tokens.weight"],
             "model.transformer.ln_f.weight": dream.weights["model.norm.weight"],
             "model.transformer.ff_out.weight": dream.weights["lm_head.weight"]}
        for i in range(2):
            for name, other in names.items():
                w[f"model.transformer.blocks.{i}.{name}.weight"] = \
                    dream.weights[f"model.layers.{i}.{other}.weight"]
        llada = reference.make({"n_heads": 4, "n_kv_heads": 2, "n_layers": 2, "vocab_size": 50,
                                "rms_norm_eps": 1e-6, "rope_theta": 1e4}, w)
        tokens = [1, 7, 30, 2, 2, 49]
        torch.testing.assert_close(logits_of(dream, tokens), logits_of(llada, tokens))

    def test_a_bias_moves_its_projection(self):
        """A bias of v alone adds the same to every row's context."""
        model = tiny_dream(layers=1, bias=0.0)
        tokens = [3, 1, 4, 1, 5]
        seen = []

        def attend(layer, q, k, v):
            seen.append((q, k, v))
            return torch.zeros_like(q)

        model.forward(tokens, attend)
        model.weights["model.layers.0.self_attn.v_proj.bias"] += 2
        model.weights["model.layers.0.self_attn.q_proj.bias"] += 1
        model.forward(tokens, attend)
        torch.testing.assert_close(seen[1][2], seen[0][2] + 2)
        torch.testing.assert_close(seen[1][1], seen[0][1])
        # Row 0 is not rotated.
        torch.testing.assert_close(seen[1][0][:, 0], seen[0][0][:, 0] + 1)


class SamplerTest(unittest.TestCase):
    def options(self, **kwargs):
        return timesteps.Options(8, 4, **kwargs)

    def test_shares(self):
        """Those of the documentation: 8 tokens in 8 steps are 0, 1 ... 1, 2."""
        counts, left = [], 8
        for share in timesteps.shares(timesteps.Options(8, 8)):
            counts.append(int(left * share))
            left -= counts[-1]
        self.assertEqual(counts, [0, 1, 1, 1, 1, 1, 1, 2])

    def test_filters(self):
        row = torch.log(torch.tensor([0.1, 0.4, 0.2, 0.3]))
        kept = lambda **o: torch.isfinite(timesteps.filtered(row, self.options(**o))).tolist()
        self.assertEqual(kept(top_p=0.3), [False, True, False, False])
        self.assertEqual(kept(top_p=0.5), [False, True, False, True])
        self.assertEqual(kept(top_p=0.75), [False, True, True, True])
        self.assertEqual(kept(top_k=2), [False, True, False, True])
        self.assertEqual(kept(top_p=0.5, top_k=1), [False, True, False, False])
        self.assertEqual(kept(top_k=9), [True] * 4)
        # At temperature 1/2 probabilities are squared: 16, 9, 4, 1 of 30.
        self.assertEqual(kept(top_p=0.6, temperature=0.5), [False, True, False, True])

    def test_confidences(self):
        row = torch.log(torch.tensor([0.1, 0.4, 0.2, 0.3]))
        sure = lambda alg: timesteps.predict(row, self.options(alg=alg), 1, 0)[1]
        self.assertAlmostEqual(sure("maskgit_plus"), 0.4, 6)
        self.assertAlmostEqual(sure("topk_margin"), 0.1, 6)
        self.assertAlmostEqual(sure("entropy"),
                               sum(p * math.log(p) for p in (0.1, 0.4, 0.2, 0.3)), 6)

    def test_draws_follow_the_softmax(self):
        row = torch.tensor([1.0, 0.0, 2.0])
        options = self.options(temperature=0.5, alg="maskgit_plus")
        seen = [0, 0, 0]
        for position in range(4000):
            seen[timesteps.predict(row, options, 1, position)[0]] += 1
        for count, p in zip(seen, torch.softmax(row / 0.5, -1).tolist()):
            self.assertAlmostEqual(count / 4000, p, delta=0.03)

    def test_predictions_come_from_the_row_before(self):
        model = tiny_dream()
        options = timesteps.Options(3, 1, "maskgit_plus")
        prompt = [5, 9]
        done = timesteps.generate(model, [prompt], options)[0]
        rows = logits_of(model, prompt + [model.config["mask_token_id"]] * 3)
        self.assertEqual(done[2:], rows[1:4].argmax(-1).tolist())

    def test_every_rule_fills_the_response(self):
        model = tiny_dream()
        for alg in timesteps.ALGS:
            for extra in ({}, {"temperature": 0.8, "alg_temp": 0.3, "top_p": 0.9}):
                records = []
                done = timesteps.generate(model, [[1, 2], [3]], timesteps.Options(9, 5, alg, **extra),
                                          observe=records.append)
                self.assertEqual([len(s) for s in done], [11, 10])
                self.assertEqual(sum(len(r["commits"]) for r in records), 18)

    def test_no_such_rule(self):
        with self.assertRaisesRegex(ValueError, "alg 'best'"):
            timesteps.Options(4, 4, "best").check()


class PhiloxTest(unittest.TestCase):
    def test_known_answers(self):
        """Of the generator's published test vectors, 10 rounds."""
        import numpy as np
        word = lambda value: np.array([value], dtype=np.uint64)
        zeros = philox.philox([word(0)] * 4, (0, 0))
        self.assertEqual([int(w[0]) for w in zeros],
                         [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8])
        ones = philox.philox([word(0xffffffff)] * 4, (0xffffffff,) * 2)
        self.assertEqual([int(w[0]) for w in ones],
                         [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd])

    def test_numbers_do_not_depend_on_how_many(self):
        many = philox.uniforms(2 ** 40 + 3, philox.ORDER, 7, 9, 11)
        self.assertEqual(len(set(many)), 11)
        self.assertTrue(((many > 0) & (many < 1)).all())
        self.assertEqual(list(philox.uniforms(2 ** 40 + 3, philox.ORDER, 7, 9, 4)), list(many[:4]))


class FolderTest(unittest.TestCase):
    def test_the_model_answers(self):
        tokenizer = Tokenizer(FOLDER)
        self.assertEqual(tokenizer.decode(tokenizer.encode("Sort 52 17.")), "Sort 52 17.")
        self.assertEqual(tokenizer.encode("<|im_end|>"), [tokenizer.special["<|im_end|>"]])
        model = reference.make(*weights.load(FOLDER))
        self.assertIsInstance(model, reference.Dream)
        prompt = tokenizer.encode("Sort 52 17 90.")
        done = timesteps.generate(model, [prompt], timesteps.Options(16, 16, "entropy"))[0]
        response = done[len(prompt):]
        end = response.index(model.config["eos_token_id"])
        self.assertEqual(tokenizer.decode(response[:end]), "17 52 90")


if __name__ == "__main__":
    unittest.main()
