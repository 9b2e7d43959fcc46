# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What notebooks and editors see: pages, bars, types."""

import ast
import html
import re
import sys
import types
import unittest
import xml.etree.ElementTree as ElementTree
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

    def drawn(self, made):
        """(bars by kind, titles, text) of a page, which is well-formed."""
        page = ElementTree.fromstring(f"<div>{made._repr_html_()}</div>")
        bars = [bar.get("class") for bar in page.iter("rect")]
        for bar in page.iter("rect"):
            self.assertTrue(0 <= float(bar.get("y")) <= float(bar.get("y")) + float(bar.get("height")) <= 64.01)
        return ({kind: bars.count(kind) for kind in set(bars)}, [title.text for title in page.iter("title")],
                "".join(page.itertext()))

    def test_results_are_timelines(self):
        model = heddle.load(LLADA)
        bundle = heddle.compile(attend(columns(0.5), refresh=uniform(0.5, 3)), model=model)
        seen = []
        made = model.generate(["Add 1 and 2."] * 2, bundle, on_step=seen.append, gen_length=16, steps=8, block_length=16)
        self.assertEqual(made.timeline["committed"].tolist(), [len(step.tokens) for step in seen])
        self.assertEqual(made.timeline["rows"].tolist(), [step.rows for step in seen])
        self.assertEqual(made.timeline["seconds"].tolist(), [step.seconds for step in seen])
        self.assertEqual(made.timeline["refreshes"].tolist(), [step.refreshes for step in seen])
        layers = model.config["layers"]
        self.assertEqual(sorted(made.timeline["refreshes"].tolist()), [0] * 5 + [2 * layers] * 3)
        bars, titles, text = self.drawn(made)
        self.assertEqual(bars, {"committed": 8, "refreshed": 3})
        self.assertEqual(titles[0], f"step 1: 4 committed, {2 * layers} lists refreshed")
        self.assertIn("32 tokens in 8 steps", text)
        self.assertIn("lists refreshed in 3 of them", text)
        self.assertEqual(repr(made).count("\n"), 0)
        self.assertLess(len(repr(made)), 200)
        stopped = model.generate("Add 1 and 2.", bundle, on_step=lambda step: step.step < 3, gen_length=16, steps=8,
                                 block_length=16)
        bars, titles, text = self.drawn(stopped)
        self.assertEqual((bars["committed"], len(titles)), (3, 3))
        self.assertIn("not complete", text)

    def test_timelines_of_long_runs(self):
        import dataclasses
        import numpy as np
        made = heddle.Generation(sequences=[], responses=[], texts=["<b> & " + "x" * 500, "ok"] + ["y"] * 9, steps=1000, complete=True, seconds=1.5,
                                 timeline={"committed": np.full(1000, 3), "revoked": np.tile([0, 1], 500),
                                           "edited": np.r_[5, np.zeros(999, int)],
                                           "refreshes": np.r_[7, np.zeros(999, int)], "rows": np.ones(1000, int),
                                           "seconds": np.ones(1000)})
        bars, titles, text = self.drawn(made)
        self.assertEqual(bars, {"committed": 250, "revoked": 250, "refreshed": 1})
        self.assertEqual((titles[0], titles[-1]), ("steps 1 to 4: 12 committed, 2 revoked, 5 edited, 7 lists refreshed",
                                                   "steps 997 to 1000: 12 committed, 2 revoked"))
        self.assertIn("2500 tokens in 1000 steps, 1.50 s; lists refreshed in 1 of them (marks); a bar is of 4 steps", text)
        self.assertIn("<b> & x", text)
        self.assertIn("and 3 more", text)
        nothing = {name: values[:0] for name, values in made.timeline.items()}
        self.assertEqual(self.drawn(dataclasses.replace(made, steps=0, texts=[], timeline=nothing))[:2], ({}, []))

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
