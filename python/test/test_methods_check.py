# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the catalogue of methods and of python/methods_check.py."""

import contextlib
import functools
import io
import json
import os
import sys
import tempfile
import unittest

from test_methods import prompt_of, tiny_dream, tiny_llada

import methods_check
from heddle_reference import contrary
from heddle_reference.methods import catalogue, models, trace

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "heddle-4m")


@functools.lru_cache
def all_runs():
    """[(method, model, records, tokens)] of every entry on tiny models."""
    return list(each_run())


def each_run():
    models = {"llada": tiny_llada(11), "dream": tiny_dream(11)}
    for method in catalogue.ALL:
        for family in method.families:
            shape = method.shapes_of(family)[-1]
            tokens, records = method.run(models[family], prompt_of(1, 45), *shape)
            yield method, models[family], records, tokens


class CatalogueTest(unittest.TestCase):
    def test_names_are_unique_and_schedules_named(self):
        self.assertEqual(len(catalogue.BY_NAME), len(catalogue.ALL))
        for method in catalogue.ALL:
            self.assertRegex(method.schedule, r"^heddle.schedule @\w+ \{\n(  .*\n)+\}\n$")
            # What released code does otherwise takes some lines more.
            most = 28 if method.name.endswith(".code") else 18
            self.assertLessEqual(len(method.schedule.splitlines()), most)

    def test_shapes_and_confidences(self):
        for method in catalogue.ALL:
            for family in method.families:
                self.assertTrue(method.shapes_of(family), method.name)
        sure = lambda name, family: catalogue.BY_NAME[name].confidence_of(family)
        self.assertEqual(sure("dense", "llada"), "probability")
        self.assertEqual(sure("dense", "dream"), "entropy")
        self.assertEqual(sure("fast-dllm-dual-parallel", "dream"), "probability")
        self.assertEqual({s[2] for s in catalogue.BY_NAME["pulsecol"].shapes_of("dream")}, {32})
        self.assertIn(8, {s[2] for s in catalogue.BY_NAME["fast-dllm-dual-parallel"].shapes_of("dream")})

    def test_every_record_is_sound(self):
        for method, pieces, records, tokens in all_runs():
            with self.subTest(method.name, shifted=pieces.shifted):
                written, undecoded, made = set(), set(range(45, records[0]["n"])), {}
                for number, r in enumerate(records, 1):
                    n = r["n"]
                    every = lambda rows: list(range(n)) if rows is None else rows
                    self.assertEqual(r["step"], number)
                    self.assertEqual(len(r["layers"]), pieces.layers)
                    for layer in r["layers"]:
                        for field in ("queries", "keys_values", "ffn", "values", "exact"):
                            rows = every(layer.get(field))
                            self.assertEqual(rows, sorted(set(rows)))
                            self.assertTrue(set(rows) <= set(range(n)))
                    for e in r["refreshed"]:
                        for keys in e["lists"] + e.get("response", []):
                            self.assertEqual(keys, sorted(set(keys)))
                    written |= set(every(r["layers"][-1]["keys_values"]))
                    self.assertTrue(set(every(r["visible"])) <= written)
                    self.assertEqual(r["rows"], sum(len(every(e["queries"])) for e in r["layers"]))
                    for position, token, _ in r["committed"]:
                        self.assertTrue({pieces.row_of(position), position} & set(every(r["logits"])))
                        if position in made and token != pieces.mask:
                            self.assertIn("edit", method.name)
                            self.assertNotEqual(token, made[position])
                            made[position] = token
                            continue
                        if position in made:
                            self.assertRegex(method.name, "revoke|wino")
                            del made[position]
                            undecoded.add(position)
                            continue
                        self.assertIn(position, undecoded)
                        if token != pieces.mask:
                            undecoded.remove(position)
                            made[position] = token
                self.assertEqual({p: tokens[p] for p in made}, made)
                json.dumps(records)

    def test_work_is_skipped(self):
        """Each method computes less than dense, in rows, pairs or FFN rows."""
        dense = {}
        for method, pieces, records, _ in all_runs():
            if method.name == "dense":
                continue
            n = records[0]["n"]
            rows = len(records) * pieces.layers * n
            pairs = rows * pieces.heads * n
            less = [sum(r["rows"] for r in records) < rows, sum(r["pairs"] for r in records) < pairs,
                    sum(r["ffn_rows"] for r in records) < rows]
            if method.name in ("fast-dllm-parallel", "fast-dllm-whole-dream.code", "even-dream",
                               "sparsed.code", "sparsed-dim.code", "revoke", "revoke-shadow", "wino.code", "entropy", "edit", "edit-revoke", "edit-quota",
                               "renoise", "renoise-to-block", "renoise-quota", "renoise-edit-revoke"):
                continue  # fewer passes or other commits; no fewer blocks of three
            if method.drafts:
                continue  # the steps of the same run without
            if method.name.startswith("certainty-prior"):
                continue  # other commits over dense steps
            self.assertTrue(any(less), method.name)


class CheckTest(unittest.TestCase):
    def test_prompts(self):
        prompts = methods_check.prompts_of(FOLDER, 20)
        self.assertEqual(prompts[:16], methods_check.prompts_of(FOLDER, 16))
        self.assertEqual(len({len(p) for p in prompts}), 20)
        self.assertEqual({len(p) for p in prompts} & {1, 32, 64}, {1, 32, 64})

    def test_prompts_of_dream(self):
        folder = os.path.join(os.path.dirname(FOLDER), "heddle-dream-5m")
        self.assertEqual(len({len(p) for p in methods_check.prompts_of(folder, 16)}), 16)
        self.assertTrue(models.load(folder).shifted)
        self.assertFalse(models.load(FOLDER).shifted)

    def test_a_model_with_its_layers_reversed_contradicts_itself(self):
        for name in ("heddle-4m", "heddle-dream-5m"):
            model = os.path.join(os.path.dirname(FOLDER), name)
            with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as again:
                pieces = models.load(contrary.write(model, folder))
                same = models.load(contrary.write(folder, again))
            prompt, edit = methods_check.prompts_of(model, 1)[0], catalogue.BY_NAME["edit"]
            made = lambda pieces: [c for record in edit.run(pieces, prompt, 32, 32, 8)[1] for c in record["committed"]]
            self.assertGreater(len(made(pieces)), 32)
            self.assertEqual(made(same), made(models.load(model)))

    def run_main(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = methods_check.main(list(arguments))
        return code, out.getvalue()

    def test_trace_then_compare(self):
        with tempfile.TemporaryDirectory() as folder:
            code, _ = self.run_main("trace", "--model", FOLDER, "--only", "fast-dllm-factor",
                                    "--prompts", "2", "--quick", "--out", folder)
            self.assertEqual(code, 0)
            name = "fast-dllm-factor.32-32-8.jsonl"
            path = os.path.join(folder, name)
            self.assertEqual(self.run_main("compare", path, path)[0], 0)
            records = trace.read(path)
            self.assertEqual({s for s, _ in records}, {0, 1})
            records[1, 2]["committed"][0][1] += 1
            other = os.path.join(folder, "other.jsonl")
            with open(other, "w", encoding="utf-8") as out:
                for record in records.values():
                    print(json.dumps(record), file=out)
            code, text = self.run_main("compare", path, other)
            self.assertEqual(code, 1)
            self.assertIn("sequence 1, step 2: position", text)
            self.assertIn("1 of 2 identical", text)

    def test_check_runs_a_program(self):
        # A stand-in for heddle-run that copies what was traced before.
        with tempfile.TemporaryDirectory() as folder:
            self.run_main("trace", "--model", FOLDER, "--only", "fast-dllm-factor", "--prompts", "2",
                          "--quick", "--out", folder)
            for body, expected, words in (
                    ("open(sys.argv[sys.argv.index('--trace') + 1], 'w').write(open(SOURCE).read())", 0,
                     "2 of 2 identical"),
                    ("sys.exit('no such device')", 1, "no such device")):
                program = os.path.join(folder, "heddle-run")
                with open(program, "w", encoding="utf-8") as out:
                    source = os.path.join(folder, "fast-dllm-factor.32-32-8.jsonl")
                    out.write(f"#!{sys.executable}\nimport sys\nSOURCE = {source!r}\n{body}\n")
                os.chmod(program, 0o755)
                code, text = self.run_main(
                    "check", "--model", FOLDER, "--heddle-run", program, "--bundles", folder,
                    "--only", "fast-dllm-factor", "--prompts", "2", "--quick", "--expected", folder)
                self.assertEqual(code, expected, text)
                self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
