# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What notebooks and editors see: pages, bars, types."""

import ast
import html
import re
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

import numpy  # noqa: F401: mock.patch.dict(sys.modules) would unload it, and it loads once

import heddle
from common import LLADA
from heddle import attend, columns, uniform


class NotebooksTest(unittest.TestCase):
    def test_schedules_and_bundles_are_pages(self):
        schedule = heddle.schedule("mine", attend(columns(0.2), refresh=uniform(0.3, 16)))
        for shown in (schedule, heddle.compile(schedule, head_dim=64, dtype="f32")):
            text = shown._repr_html_()
            page = html.unescape(re.search(r'srcdoc="([^"]*)"', text)[1])
            self.assertTrue(page.startswith("<!doctype html>"))
            self.assertIn("<title>mine: a schedule explained</title>", page)

    def test_pairs_are_pages(self):
        for pairs, said in ((heddle.window(8) | heddle.sinks(4), "window(8)"), (columns(0.2), "keep = 0.2")):
            self.assertIn(said, html.unescape(pairs._repr_html_()))

    def test_runs_and_results_say_what_they_are(self):
        run = heddle.Attention(heddle.schedule("mine", attend()), steps=3, layers=2)
        self.assertEqual(repr(run), "<heddle.Attention @mine, step 0 of 3, layer 0 of 2 next>")
        bundle = heddle.compile(attend(), head_dim=64)
        self.assertIn("@schedule, step 0", repr(heddle.Attention(bundle)))
        model = heddle.load(LLADA)
        made = model.generate(["Add 1 and 2."] * 4, heddle.compile(attend(), model=model), gen_length=8)
        self.assertRegex(repr(made), r"^<heddle.Generation ('.{0,43}', ){2}'.{0,43}' and 1 more; \d+ steps in [\d.]+ s>$")

    def test_what_has_no_page_has_its_repr(self):
        wrong = attend(columns(keep=1.5), refresh=uniform(0.3, 16))
        self.assertIsNone(wrong._repr_html_())
        self.assertIn("keep = 1.5", repr(wrong))

    def test_bars(self):
        made = []

        class Bar:
            def __init__(self, total, unit):
                self.total, self.n, self.closed, self.postfix = total, 0, False, {}
                made.append(self)

            def set_postfix(self, refresh, **values):
                self.postfix = values

            def update(self, n):
                self.n += n

            def close(self):
                self.closed = True
        model = heddle.load(LLADA)
        bundle = heddle.compile(heddle.preset("dense"), model=model)
        options = {"gen_length": 16, "steps": 8, "block_length": 16}
        tqdm = types.ModuleType("tqdm.auto")
        tqdm.tqdm = Bar
        with mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": tqdm}):
            seen = []
            model.generate("Add 1 and 2.", bundle, progress=True, on_step=seen.append, **options)
            self.assertEqual((made[0].n, made[0].total, made[0].closed), (8, 8, True))
            self.assertEqual(made[0].postfix, {"tokens": 16})
            self.assertEqual(len(seen), 8)
            model.generate("Add 1 and 2.", bundle, progress=True, on_step=lambda step: step.step < 3,
                           **options)
            self.assertEqual((made[1].n, made[1].closed), (3, True))
        with mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}):
            with self.assertRaisesRegex(ImportError, "pip install tqdm"):
                model.generate("Add 1 and 2.", bundle, progress=True, **options)

    def test_types_of_the_extension(self):
        folder = Path(heddle.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        said = {node.name: node for node in ast.parse((folder / "_heddle.pyi").read_text()).body
                if hasattr(node, "name")}
        from heddle import _heddle
        there = {name for name in vars(_heddle) if not name.startswith("_")}
        self.assertEqual(set(said), there)
        for name in ("Attention", "Bundle", "Call", "Runner"):
            methods = {node.name for node in said[name].body if hasattr(node, "name")}
            self.assertEqual({n for n in methods if not n.startswith("_")},
                             {n for n in vars(getattr(_heddle, name)) if not n.startswith("_")})


if __name__ == "__main__":
    unittest.main()
