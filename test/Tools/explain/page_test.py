#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `heddlec --explain=html` in headless Chromium.

usage: page_test.py HEDDLEC [unittest options]

What the page says is held against `--explain=json`; the schedules are the
examples. HEDDLE_AXE may name axe-core's axe.min.js.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import accessibility
import pictures
from browser import Browser, find

HEDDLEC = None
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SMALL = ("--steps=64", "--length=448", "--prompt=192", "--layers=12")


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.folder.cleanup()

    def explain(self, example, *options, form="html"):
        """The page's path, or the explanation as JSON."""
        command = [HEDDLEC, EXAMPLES / f"{example}.mlir", *options]
        if form == "json":
            return json.loads(subprocess.run(
                [*command, "--compile-to=plan", "--explain=json"], check=True,
                capture_output=True).stdout)
        page = Path(self.folder.name) / f"{example}.html"
        subprocess.run([*command, "--explain=html", "-o", page], check=True)
        return page

    def at(self, step, layer):
        """Goes to a step and a layer by the page's own fields; what it says."""
        return self.browser.run(
            f"""(() => {{
              for (const [id, value] of [['step', {step}], ['layer', {layer}]]) {{
                const field = document.getElementById(id);
                field.value = value;
                field.dispatchEvent(new Event('change'));
              }}
              return document.getElementById('what').textContent;
            }})()""")

    def facts(self):
        return self.browser.run("Object.fromEntries([...document.querySelectorAll('#facts dt')]"
                                ".map(dt => [dt.textContent, dt.nextSibling.textContent]))")

    def test_says_what_the_explanation_says(self):
        draw = random.Random(7)
        for example in ("dense", "pulsecol", "sparsed", "per-layer", "window-diffusion",
                        "fast-dllm-dual", "dyllm", "dllm-cache", "columns-window-saliency",
                        "sparsed-no-reuse"):
            json_form = self.explain(example, *SMALL, form="json")
            self.browser.open(str(self.explain(example, *SMALL)))
            for _ in range(8):
                step, layer = draw.randint(1, 64), draw.randint(0, 11)
                with self.subTest(example=example, step=step, layer=layer):
                    said = self.at(step, layer)
                    self.assertEqual(self.facts()["Tokens are committed by"], "; ".join(
                        f"on {c['on']}: {c['is']}" if c["on"] else c["is"] for c in json_form["commits"]))
                    phase = next(phase for rule in json_form["rules"] if layer in rule["layers"]
                                 for phase in rule["phases"] if step in phase["steps"])
                    self.assertIn(f"attention is {phase['pattern']}", said)
                    refreshed = [one["selection"] for one in phase["refreshes"] if step in one["steps"]]
                    self.assertEqual(re.findall(r"(\S+) is refreshed", said), refreshed)
                    for one in json_form.get("passes", []):
                        self.assertEqual(f"Recomputed: {one['computes']}." in said,
                                         step in one["steps"])
            self.assertEqual(self.browser.problems(), [], example)

    def test_says_what_is_measured(self):
        for example, options, again in (("pulsecol-drift", (), False), ("elastic-cache", ("--set=early=-4", "--set=late=-2"), True)):
            rule, = self.explain(example, *SMALL, *options, form="json")["rules"]
            self.browser.open(str(self.explain(example, *SMALL, *options)))
            found = 0
            for phase in rule["phases"]:
                for layer in range(12):
                    said = self.at(phase["steps"][0], layer)
                    wanted = [one for one in phase.get("measures", []) if one["layer"] == layer]
                    self.assertEqual(said.count("is measured"), len(wanted), said)
                    for one in wanted:
                        self.assertIn(f"{one['cadence']} is measured", said)
                        self.assertEqual("attention runs once more" in said, again)
                        self.assertEqual("kernel" in one, again)
                    found += len(wanted)
            self.assertEqual(found, 2 if again else 1)

    def test_layers_read_what_others_chose(self):
        options = ("--steps=64", "--length=448", "--prompt=192", "--layers=32")
        example = "columns-across-layers"
        json_form = self.explain(example, *options, form="json")
        readers = json_form["selections"][0]["read_in"]
        self.assertEqual(len(readers), 28)
        refreshes = sorted({step for rule in json_form["rules"] for phase in rule["phases"]
                            for one in phase["refreshes"] for step in one["steps"]})
        self.browser.open(str(self.explain(example, *options)))
        for step in (1, refreshes[1], refreshes[1] + 1, 64):
            for layer in (0, 1, 7, 8, 15, 24, 31):
                with self.subTest(step=step, layer=layer):
                    said = self.at(step, layer)
                    # Where a layer chooses it is dense; one that reads has the choice at once.
                    chosen = [at for at in refreshes if at <= step][-1]
                    reads = re.findall(r"It reads what cols chose at step (\d+)( in layer \d+)?\.", said)
                    if layer in readers:
                        self.assertEqual(reads, [(str(chosen), f" in layer {layer // 8 * 8}")])
                    elif step in refreshes:
                        self.assertEqual(reads, [])
                    else:
                        self.assertEqual(reads, [(str(chosen), "")])
        # The same choice is the same picture, another layer's another.
        self.browser.run("for (const d of document.querySelectorAll('details')) d.open = true")
        drawn = {}
        for layer in (8, 9, 17):
            self.at(64, layer)
            drawn[layer] = self.browser.run(
                "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => "
                "done(document.getElementById('pattern').toDataURL()))))")
        self.assertEqual(drawn[8], drawn[9])
        self.assertNotEqual(drawn[8], drawn[17])
        tables = self.browser.run(
            "Object.fromEntries([...document.querySelectorAll('table')].map(table => ["
            "table.caption.textContent, [...table.querySelectorAll('td')].map(td => td.textContent)]))")
        self.assertIn(f"chosen at step {chosen} in layer 16", tables["What a query reads"][0])
        self.assertEqual(tables["Selections"][4:6],
                         ["0 to 24 every 8", "1\u20137, 9\u201315, 17\u201323, 25\u201331"])
        self.assertEqual(self.browser.problems(), [])

    def test_the_run_is_the_one_that_is_asked_for(self):
        """Dream's predictions and times, rules of confidence, a seed, caches of another width."""
        dream = EXAMPLES.parent / "models" / "heddle-dream-5m"
        other = EXAMPLES.parent / "models" / "heddle-4m"
        for example, *options in (
                ("dense", f"--model={dream}", "--prompt=40", "--gen-length=64", "--steps=24"),
                ("fast-dllm-dual-parallel", f"--model={other}", "--prompt=40", "--gen-length=64", "--steps=32", "--tokens-per-step=3", "--seed=5"),
                ("dllm-cache", f"--model={other}", "--head-dim=128", "--prompt=40", "--gen-length=64", "--steps=64")):
            with self.subTest(example=example):
                cost = self.explain(example, *options, form="json")["cost"]
                self.browser.open(str(self.explain(example, *options)))
                series = self.browser.run("JSON.parse(document.getElementById('data').textContent).simulation.logit_rows")
                rows = sum(value * steps for value, steps in series)
                self.assertEqual(rows, cost["work"]["logit_rows"])
                bound, speed = {"exact": ("", ""), "at_most": ("at most ", "at least "), "about": ("about ", "about ")}[
                    cost["certainty"]]
                self.assertEqual(self.browser.run("document.querySelector('#ratio b').textContent"),
                                 f"{speed}{cost['estimate']['times_as_fast']:.2f} times as fast")
                self.assertRegex(self.browser.run("document.querySelector('#cost td:last-child').textContent"), rf"^{bound}\d")

    def test_rows_are_those_of_the_schedule(self):
        """A block's first step computes all, the others the block (prompt 64,
        blocks of 32 with 16 steps each)."""
        self.browser.open(str(self.explain(
            "fast-dllm-dual", "--steps=64", "--length=192", "--prompt=64", "--block-length=32")))
        for step, rows, masked in ((1, 192, 128), (2, 32, 126), (17, 192, 96), (64, 32, 2)):
            self.at(step, 0)
            facts = self.facts()
            self.assertEqual(facts["Rows recomputed"], str(rows), step)
            self.assertEqual(facts["Read from the cache"], str(192 - rows), step)
            self.assertEqual(facts["Masked before the step"], str(masked), step)
            self.assertEqual(facts["Become tokens"], "2", step)

    def test_keyboard(self):
        self.browser.open(str(self.explain("pulsecol", *SMALL)))
        self.browser.run("document.getElementById('timeline').focus()")
        place = "[document.getElementById('step').value, document.getElementById('layer').value].map(Number)"
        refreshes = self.explain("pulsecol", *SMALL, form="json")["rules"][0]["phases"][0]["refreshes"][0]["steps"]
        for key, step, layer in (("ArrowRight", 2, 0), ("ArrowDown", 2, 1), ("ArrowLeft", 1, 1),
                                 ("ArrowLeft", 1, 1), ("End", 64, 1), ("PageUp", 58, 1),
                                 ("ArrowUp", 58, 0), ("Home", 1, 0)):
            self.browser.key(key)
            self.assertEqual(self.browser.run(place), [step, layer], key)
        self.browser.key("End")
        self.browser.key("p")  # back to where the last refresh ended
        self.assertEqual(self.browser.run(place)[0], refreshes[-1])
        slider = self.browser.run(
            "['role', 'aria-valuenow', 'aria-valuemax', 'aria-valuetext'].map(name => "
            "document.getElementById('timeline').getAttribute(name))")
        self.assertEqual(slider[:3], ["slider", str(refreshes[-1]), "64"])
        self.assertIn("cols is refreshed", slider[3])

    def test_accessible(self):
        for example, dark, width in (("pulsecol", False, 1280), ("pulsecol", True, 390),
                                     ("columns-window-saliency", True, 1280),
                                     ("columns-window-saliency", False, 390),
                                     ("dense", False, 320)):
            with self.subTest(example=example, dark=dark, width=width):
                self.browser.open(str(self.explain(example, *SMALL)), width, 800, dark)
                self.browser.run("for (const d of document.querySelectorAll('details')) d.open = true")
                self.browser.run("new Promise(done => setTimeout(done, 100))")
                found, order = accessibility.check(self.browser)
                self.assertEqual(found, [])
                for control in ("theme", "timeline", "step", "layer", "previous", "next", "part"):
                    self.assertIn(control, order)
                # 1.4.10: nothing scrolls sideways.
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)

    def test_the_checks_can_fail(self):
        self.browser.open(str(self.explain("dense", *SMALL)))
        self.browser.run("""document.getElementById('run').style.color = 'rgb(200, 200, 200)';
          document.getElementById('next').removeAttribute('aria-label');
          document.getElementById('next').removeAttribute('title');
          document.getElementById('next').textContent = '';
          document.getElementById('step').style.outline = 'none';
          document.getElementById('pattern').removeAttribute('aria-label')""")
        found = "\n".join(accessibility.check(self.browser)[0])
        for rule in ("1.4.3", "4.1.2", "2.4.7", "1.1.1"):
            self.assertIn(rule, found)

    def test_themes(self):
        page = str(self.explain("dense", *SMALL))
        paper = "getComputedStyle(document.body).backgroundColor"
        self.browser.open(page, dark=False)
        light = self.browser.run(paper)
        self.browser.open(page, dark=True)
        dark = self.browser.run(paper)
        self.assertNotEqual(light, dark)
        self.browser.run("document.getElementById('theme').click()")
        self.assertEqual(self.browser.run(paper), light)
        self.browser.run("document.getElementById('theme').click()")
        self.assertEqual(self.browser.run(paper), dark)

    def test_large_runs(self):
        """Below 2 MB and alive at 1,024 steps, 32 layers and 65,536 tokens."""
        for example in ("pulsecol", "dkv-cache-decode", "columns-window-saliency"):
            with self.subTest(example):
                page = self.explain(example, "--steps=1024", "--length=65536", "--layers=32")
                self.assertLess(page.stat().st_size, 2_000_000)
                seconds = self.browser.open(str(page))
                own = self.browser.own_seconds()
                print(f"{example}: {page.stat().st_size / 1000:.0f} kB, open in {seconds:.2f} s, of which {own:.2f} s its own",
                      file=sys.stderr)
                self.assertLess(own, 2)  # some 0.1 s
                self.assertIn("Step 1,024 of 1,024, layer 31", self.at(1024, 31))
                self.assertEqual(self.browser.problems(), [])

    def test_what_is_not_simulated_says_why(self):
        page = self.explain("pulsecol", "--steps=16384", "--length=131072")
        self.browser.open(str(page))
        self.assertIn("takes too long", self.browser.run(
            "document.getElementById('sequence-note').textContent"))
        self.assertIn("attention is columns(cols)", self.at(16384, 3))
        self.assertEqual(self.browser.problems(), [])

    def test_pictures_of_the_docs(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in pictures.PICTURES:
                with self.subTest(name):
                    png = pictures.draw(self.browser, HEDDLEC, folder, name)
                    was = (pictures.IMAGES / name).read_bytes()
                    self.assertEqual(pictures.compare(self.browser, was, png), [],
                                     "draw them anew with test/Tools/explain/pictures.py")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    HEDDLEC = Path(sys.argv.pop(1)).resolve()
    if not find():
        sys.exit("page_test.py: no Chromium on this machine; install Debian's package chromium-headless-shell")
    unittest.main()
