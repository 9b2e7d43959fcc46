# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of heddle_reference and tasks: python3 -m unittest discover python/test"""

import itertools
import json
import math
import os
import random
import struct
import sys
import tempfile
import unittest
from fractions import Fraction

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from heddle.evaluation import short_tasks as tasks  # noqa: E402
from heddle_reference import model as reference, sampler, schedule, weights  # noqa: E402
from heddle_reference.tokenizer import Tokenizer  # noqa: E402

FOLDER = os.path.join(HERE, "..", "..", "models", "heddle-4m")


def tiny_model(seed=0, layers=2, heads=4, kv_heads=2, dim=8, vocab=50):
    """A random model with grouped heads."""
    g = torch.Generator().manual_seed(seed)
    width, hidden = heads * dim, 24
    make = lambda *shape: torch.randn(*shape, generator=g) * 0.3
    w = {"model.transformer.wte.weight": make(vocab, width),
         "model.transformer.ln_f.weight": 1 + make(width),
         "model.transformer.ff_out.weight": make(vocab, width)}
    for i in range(layers):
        shapes = {"attn_norm": [width], "ff_norm": [width],
                  "q_proj": [width, width], "k_proj": [kv_heads * dim, width],
                  "v_proj": [kv_heads * dim, width], "attn_out": [width, width],
                  "ff_proj": [hidden, width], "up_proj": [hidden, width],
                  "ff_out": [width, hidden]}
        for name, shape in shapes.items():
            w[f"model.transformer.blocks.{i}.{name}.weight"] = make(*shape)
    config = {"n_heads": heads, "n_kv_heads": kv_heads, "n_layers": layers,
              "vocab_size": vocab, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
              "mask_token_id": vocab - 1, "eos_token_id": vocab - 2}
    return reference.Model(config, w)


def scalar_forward(model, tokens):
    """The same forward pass with Python floats and loops alone."""
    w = {k: v.double().tolist() for k, v in model.weights.items()}
    heads, kv = model.heads, model.kv_heads
    dot = lambda a, b: math.fsum(x * y for x, y in zip(a, b))
    apply = lambda m, x: [dot(row, x) for row in m]

    def norm(x, g):
        r = math.sqrt(dot(x, x) / len(x) + model.config["rms_norm_eps"])
        return [a / r * b for a, b in zip(x, g)]

    def turn(x, position):
        half = len(x) // 2
        out = [0.0] * len(x)
        for i in range(half):
            t = position * model.config["rope_theta"] ** (-2 * i / len(x))
            out[i] = x[i] * math.cos(t) - x[i + half] * math.sin(t)
            out[i + half] = x[i + half] * math.cos(t) + x[i] * math.sin(t)
        return out

    xs = [w["model.transformer.wte.weight"][t] for t in tokens]
    for layer in range(model.layers):
        p = lambda name: w[f"model.transformer.blocks.{layer}.{name}.weight"]
        cut = lambda x, h, n: x[h * len(x) // n:(h + 1) * len(x) // n]
        normed = [norm(x, p("attn_norm")) for x in xs]
        q, k, v = ([apply(p(name), x) for x in normed] for name in ("q_proj", "k_proj", "v_proj"))
        out = []
        for i in range(len(xs)):
            row = []
            for h in range(heads):
                g = h * kv // heads
                qi = turn(cut(q[i], h, heads), i)
                scores = [dot(qi, turn(cut(k[j], g, kv), j)) / math.sqrt(len(qi))
                          for j in range(len(xs))]
                e = [math.exp(s - max(scores)) for s in scores]
                row += [dot(e, column) / sum(e)
                        for column in zip(*(cut(v[j], g, kv) for j in range(len(xs))))]
            out.append(row)
        xs = [[a + b for a, b in zip(x, apply(p("attn_out"), o))] for x, o in zip(xs, out)]
        for i, x in enumerate(xs):
            h = norm(x, p("ff_norm"))
            gate = [a / (1 + math.exp(-a)) for a in apply(p("ff_proj"), h)]
            up = apply(p("up_proj"), h)
            xs[i] = [a + b for a, b in zip(x, apply(p("ff_out"), [a * b for a, b in zip(gate, up)]))]
    return [apply(w["model.transformer.ff_out.weight"],
                  norm(x, w["model.transformer.ln_f.weight"])) for x in xs]


class ForwardTest(unittest.TestCase):
    def test_equals_scalar_loops(self):
        model = tiny_model()
        run = schedule.Schedule("dense", 1, 2)
        run.begin_step(1, 0)
        tokens = [3, 49, 7, 7, 11]
        ours = model.forward(tokens, run.attend).double()
        expected = torch.tensor(scalar_forward(model, tokens), dtype=torch.float64)
        self.assertLess(float((ours - expected).abs().max() / expected.abs().max()), 1e-5)

    def test_rope_depends_on_distance_alone(self):
        x = torch.randn(1, 9, 8, generator=torch.Generator().manual_seed(1))
        same = x[:, :1].expand(1, 9, 8)
        turned = reference.rope(same, 1e4)[0]
        products = turned @ turned.T
        for d in range(8):
            line = torch.diagonal(products, d)
            self.assertTrue(torch.allclose(line, line[:1].expand_as(line), atol=1e-4))


class SamplerTest(unittest.TestCase):
    def test_quotas(self):
        self.assertEqual(sampler.quotas(32, 5), [7, 7, 6, 6, 6])
        self.assertEqual(sampler.quotas(8, 8), [1] * 8)
        self.assertEqual(sampler.quotas(2, 4), [1, 1, 0, 0])
        for masked, steps in itertools.product(range(20), range(1, 12)):
            self.assertEqual(sum(sampler.quotas(masked, steps)), masked)

    def test_ties_go_to_the_lowest_index(self):
        self.assertEqual(sampler.first_largest(torch.tensor([[1., 3, 3], [2, 2, 2]])).tolist(), [1, 0])
        self.assertEqual(schedule.largest([0.5, 0.9, 0.5, 0.9, 0.5], 3), [0, 1, 3])

    def test_gumbel_noise_samples_the_tempered_softmax(self):
        # At temperature 1, argmax(l + G) is distributed as softmax(l).
        logits = torch.tensor([1.0, 0.0, 2.0, -1.0])
        generator = torch.Generator().manual_seed(4)
        count = 40000
        drawn = sampler.draw(logits.expand(count, 4), 1.0, generator)
        expected = torch.softmax(logits.double(), 0)
        for token, p in enumerate(expected.tolist()):
            share = float((drawn == token).double().mean())
            self.assertLess(abs(share - p), 5 * math.sqrt(p * (1 - p) / count))

    def test_small_temperature_is_nearly_greedy(self):
        logits = torch.tensor([1.0, 0.0, 2.0]).expand(500, 3)
        drawn = sampler.draw(logits, 1e-3, torch.Generator().manual_seed(1))
        self.assertEqual(set(drawn.tolist()), {2})

    def test_eos_options(self):
        logits = torch.tensor([[0.0, 5.0, 1.0, 4.0]])
        predict = lambda **kw: [t.item() for t in sampler.predict(
            logits, sampler.Options(**kw), eos=1, generator=None)]
        self.assertEqual(predict()[0], 1)
        token, sure = predict(logits_eos_inf=True)
        e = math.exp
        self.assertEqual(token, 3)
        self.assertAlmostEqual(sure, e(4) / (1 + e(1) + e(4)), places=6)
        self.assertEqual(predict(confidence_eos_eot_inf=True, eot=3), [1, 0.0])

    def test_every_step_commits_its_quota_inside_its_block(self):
        model = tiny_model()
        records = []
        prompts = [[1, 2, 3], [4]]
        options = sampler.Options(gen_length=12, steps=6, block_length=4)
        done = sampler.generate(model, prompts, options, "dense", records.append)
        self.assertEqual([len(s) for s in done], [15, 13])
        self.assertEqual(len(records), 6)
        for record in records:
            for b, prompt in enumerate(prompts):
                at = [c["position"] for c in record["commits"] if c["sequence"] == b]
                self.assertEqual(len(at), 2)
                low = len(prompt) + record["block"] * 4
                self.assertTrue(all(low <= i < low + 4 for i in at))
            self.assertEqual(record["rows"], 28)
            self.assertEqual(record["pairs"], record["dense_pairs"])

    def test_batch_equals_single_runs(self):
        model, prompts = tiny_model(), [[1, 2, 3], [4], [9, 8, 7, 6, 5]]
        options = sampler.Options(gen_length=8, steps=4, block_length=8)
        text = "columns:keep=1/2,group=4,steps=1"
        together = sampler.generate(model, prompts, options, text)
        apart = [sampler.generate(model, [p], options, text)[0] for p in prompts]
        self.assertEqual(together, apart)

    def test_lengths_that_do_not_divide(self):
        for bad in ({"gen_length": 10, "block_length": 4, "steps": 10},
                    {"gen_length": 8, "block_length": 4, "steps": 3},
                    {"gen_length": 0, "block_length": 4, "steps": 3}):
            with self.assertRaises(ValueError):
                sampler.Options(**bad).check()


class ScheduleTest(unittest.TestCase):
    # Equation 8 with a window of 0.3 of the steps.
    STEPS = {
        (8, 16): [1, 2], (8, 8): [1, 2],
        (32, 16): list(range(1, 10)), (32, 8): [1, 2, 3, 4, 5, 6, 7, 9],
        (64, 16): [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 19],
        (64, 8): [1, 3, 6, 8, 11, 13, 16, 19],
        (128, 16): [1, 3, 5, 8, 10, 13, 15, 18, 20, 23, 25, 28, 30, 33, 35, 38],
        (128, 8): [1, 6, 11, 16, 22, 27, 32, 38],
        (256, 16): list(range(1, 77, 5)),
        (256, 8): [1, 11, 22, 33, 43, 54, 65, 76],
    }

    def test_refresh_steps(self):
        for (total, count), steps in self.STEPS.items():
            self.assertEqual(schedule.uniform_steps(Fraction(3, 10), count, total), steps)
        self.assertEqual(schedule.uniform_steps(Fraction(3, 10), 1, 64), [1])
        self.assertEqual(schedule.uniform_steps(Fraction(3, 10), 16, 1), [1])

    def test_keep_count_is_exact(self):
        for n in range(1, 500):
            self.assertEqual(schedule.keep_count(Fraction(1, 5), n), max(1, n // 5))
            self.assertEqual(schedule.keep_count(Fraction(1), n), n)
        self.assertEqual([schedule.keep_count(Fraction(1, 2), 5, r)
                          for r in ("floor", "ceil", "round")], [2, 3, 3])

    def test_columns_equal_brute_force(self):
        rng = random.Random(5)
        g = torch.Generator().manual_seed(5)
        for n, group in ((1, 4), (7, 4), (8, 4), (13, 5), (33, 32)):
            p = torch.softmax(torch.randn(3, n, n, generator=g) * 2, -1)
            for count in {1, n, rng.randint(1, n)}:
                allowed = schedule.select_columns(p, group, count)
                for head, first in itertools.product(range(3), range(0, n, group)):
                    rows = p[head, first:first + group].double().tolist()
                    score = [math.fsum(r[j] for r in rows) for j in range(n)]
                    best = max(itertools.islice(itertools.combinations(range(n), count), 4000),
                               key=lambda c: math.fsum(score[j] for j in c))
                    chosen = allowed[head, first].nonzero()[:, 0].tolist()
                    self.assertEqual(len(chosen), count)
                    self.assertGreaterEqual(math.fsum(score[j] for j in chosen) + 1e-12,
                                            math.fsum(score[j] for j in best))
                    for row in allowed[head, first:first + group]:
                        self.assertEqual(row.nonzero()[:, 0].tolist(), chosen)

    def test_equal_scores_keep_the_lowest_columns(self):
        p = torch.full((1, 6, 6), 1 / 6)
        allowed = schedule.select_columns(p, 4, 2)
        self.assertEqual(allowed[0].int().tolist(), [[1, 1, 0, 0, 0, 0]] * 6)

    def test_window_sinks_and_union(self):
        q = k = torch.zeros(1, 9, 4)
        run = schedule.Schedule("window:size=5+sinks:size=2", 1, 1)
        run.begin_step(1, 0)
        allowed = run.mask(0, q, k)
        for i, j in itertools.product(range(9), range(9)):
            self.assertEqual(bool(allowed[i, j]), abs(i - j) <= 2 or j < 2)

    def test_shares_of_sinks(self):
        for n, sinks in ((1, 1), (9, 1), (19, 1), (20, 2), (64, 6)):
            q = k = torch.zeros(1, n, 4)
            run = schedule.Schedule("sinks:share=1/10", 1, 1)
            run.begin_step(1, 0)
            self.assertEqual(run.mask(0, q, k).nonzero().tolist(),
                             [[i, j] for i in range(n) for j in range(sinks)])
        with self.assertRaises(ValueError):
            schedule.Schedule("sinks:size=4,share=1/10", 1, 1)

    def test_layers(self):
        q = k = torch.zeros(1, 9, 4)
        run = schedule.Schedule("window:size=2|dense@0..1|sinks:size=1@-1..-1", 1, 4)
        run.begin_step(1, 0)
        self.assertIsNone(run.mask(0, q, k))
        self.assertIsNone(run.mask(1, q, k))
        self.assertEqual(int(run.mask(2, q, k).sum()), 3 * 9 - 2)
        self.assertEqual(int(run.mask(3, q, k).sum()), 9)

    def test_refresh_step_is_dense_then_columns_hold(self):
        model = tiny_model(layers=1, kv_heads=1)
        records = []
        options = sampler.Options(gen_length=8, steps=4, block_length=8)
        sampler.generate(model, [[1, 2, 3]], options, "columns:keep=1/5,group=4,steps=1;3",
                         records.append)
        dense = 4 * 11 * 11
        self.assertEqual([r["pairs"] for r in records], [dense, 4 * 11 * 2] * 2)
        self.assertEqual([r["refreshes"] for r in records], [1, 0, 1, 0])

    def test_unknown_words(self):
        for text in ("strided:size=3", "window:size=3,colour=red", "dense@0..0"):
            with self.assertRaises(ValueError):
                schedule.Schedule(text, 4, 2)


class FileTest(unittest.TestCase):
    def test_safetensors_types(self):
        values = [1.0, -2.5, 0.15625]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.safetensors")
            bf16 = b"".join(struct.pack("<f", v)[2:] for v in values)
            body = struct.pack("<3f", *values) + bf16 + struct.pack("<3e", *values)
            header = json.dumps({
                "a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
                "b": {"dtype": "BF16", "shape": [3, 1], "data_offsets": [12, 18]},
                "c": {"dtype": "F16", "shape": [3], "data_offsets": [18, 24]}}).encode()
            with open(path, "wb") as f:
                f.write(struct.pack("<Q", len(header)) + header + body)
            read = weights.read_safetensors(path)
        for name in "abc":
            self.assertEqual(read[name].flatten().tolist(), values)
        self.assertEqual(list(read["b"].shape), [3, 1])

    def test_tokenizer_round_trip(self):
        tokenizer = Tokenizer(FOLDER)
        rng = random.Random(3)
        for task in tasks.TASKS:
            text = tasks.chat(tasks.GENERATORS[task](rng).prompt)
            self.assertEqual(tokenizer.decode(tokenizer.encode(text), False), text)
        hard = "Zoë's 12½ €_x\r\n\n  tabs\t—ok "
        self.assertEqual(tokenizer.decode(tokenizer.encode(hard)), hard)
        self.assertEqual(len(tokenizer.encode("4821")), 4)
        self.assertEqual(len(tokenizer.encode(" wool")), 1)


class TaskTest(unittest.TestCase):
    def test_answers(self):
        for task in tasks.TASKS:
            for e in tasks.test_set(task, 40):
                words = e.prompt.rstrip(".?").split()
                if task == "add":
                    expected = str(int(words[1]) + int(words[3]))
                elif task == "sort":
                    expected = " ".join(sorted(words[1:], key=int))
                elif task == "copy":
                    expected = " ".join(words[1:])
                elif task == "reverse":
                    expected = " ".join(words[:0:-1])
                else:
                    notes, question = e.prompt[7:].rstrip("?").split(" What is ")
                    known = dict(line.strip().split(" is ") for line in notes.split(";")
                                 if " is " in line)
                    expected = ", ".join(known[n] for n in question.split(", "))
                self.assertEqual(e.answer, expected)

    def test_sets_are_fixed(self):
        self.assertEqual(tasks.test_set("add", 5), tasks.test_set("add", 9)[:5])

    def test_the_model_answers(self):
        tokenizer, model = Tokenizer(FOLDER), reference.Model(*weights.load(FOLDER))
        options = sampler.Options(gen_length=8, steps=4, block_length=8)
        prompts = ["Add 4821 and 977.", "Reverse: stone fox wool.",
                   tasks.chat("Notes: fox is 417; owl is 902; What is owl?")]
        ids = [tokenizer.encode(p) for p in prompts]
        done = sampler.generate(model, ids, options)
        answers = [tokenizer.decode(s[len(p):]) for s, p in zip(done, ids)]
        self.assertEqual(answers, ["5798", "wool fox stone", "902"])


if __name__ == "__main__":
    unittest.main()
