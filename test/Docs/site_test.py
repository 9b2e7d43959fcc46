#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The site of the docs is built, whole and works from disk.

usage: site_test.py BUILD_DIR [unittest options]

Exit code 3 where Sphinx, its Markdown parser or its theme is not installed. What needs a browser
is skipped where there is none.
"""

import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "docs/site"), str(ROOT / "test/Tools/explain")]
sys.dont_write_bytecode = True
import browser  # noqa: E402
import build as builder  # noqa: E402
import cookbook  # noqa: E402

BUILD = SITE = None


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.places = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.places |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        for name in ("src", "srcset"):
            if attrs.get(name):
                self.loads.append(attrs[name])
        if tag == "link" and attrs.get("rel") not in ("index", "search", "next", "prev"):
            self.loads.append(attrs.get("href", ""))


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = {path: Page(path) for path in SITE.rglob("*.html")
                     if "_static" not in path.parts}

    def test_pages_are_there(self):
        """Each Markdown file has its page, and so has what programs write."""
        wanted = {builder.page_of(path) for path in builder.markdown_files(ROOT)}
        wanted |= {f"docs/Dialects/{name}" for name in ("Heddle", "Shed", "Warp")}
        wanted |= {f"docs/Passes/{name}" for name in ("index", "HeddlePasses", "ConversionPasses")}
        wanted |= {f"docs/Python/{name}" for name in ("index", "Schedules", "Attention", "Models")}
        wanted |= {"docs/Tools/heddlec", "docs/Tools/heddle-run", "docs/Cookbook", "search"}
        wanted.discard("index")
        there = {str(path.relative_to(SITE).with_suffix("")) for path in self.pages}
        self.assertEqual(sorted(wanted - there), [])
        self.assertIn("index", there)
        self.assertGreater(len(wanted), 100)

    def test_pages_say_what_they_are_of(self):
        def holds(page, *texts):
            found = (SITE / page).read_text(encoding="utf-8")
            for text in texts:
                self.assertIn(text, found, page)
        holds("docs/Dialects/Heddle.html", "heddle.attend", "The pairs that attention computes")
        holds("docs/Passes/HeddlePasses.html", "heddle-plan-steps")
        holds("docs/Tools/heddlec.html", "--explain", "--index-encoding")
        holds("docs/Tools/heddle-eval.html", "--tasks")
        holds("docs/Python/Tuning.html", 'id="heddle.tuning.tune"')
        holds("docs/Python/Schedules.html", 'id="heddle.columns"', 'id="heddle.dense"')
        holds("docs/Python/Attention.html", 'id="heddle.Plan.__call__"')
        cooked = self.pages[SITE / "docs/Cookbook.html"]
        for path in (ROOT / "examples").glob("*.mlir"):
            self.assertIn(path.stem, cooked.places)
        self.assertTrue(any("arxiv.org" in link for link in cooked.links))

    def test_links_lead_somewhere(self):
        bad, count = [], 0
        for path, page in self.pages.items():
            for link in page.links + page.loads:
                parts = urlsplit(link)
                if parts.scheme or parts.netloc:
                    continue
                count += 1
                there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                if not there.is_file():
                    bad.append(f"{path.relative_to(SITE)}: {link}")
                elif parts.fragment and there in self.pages and \
                        unquote(parts.fragment) not in self.pages[there].places:
                    bad.append(f"{path.relative_to(SITE)}: {link}: no such place")
        self.assertEqual(bad, [])
        self.assertGreater(count, 1000)

    def test_nothing_is_loaded_from_elsewhere(self):
        bad = [f"{path.relative_to(SITE)}: {load}" for path, page in self.pages.items()
               for load in page.loads if urlsplit(load).netloc]
        bad += [str(path.relative_to(SITE)) for path in SITE.rglob("*.css")
                if "url(http" in path.read_text(encoding="utf-8").replace('"', "").replace("'", "")]
        self.assertEqual(bad, [])

    @unittest.skipUnless(browser.find(), "no Chromium")
    def test_in_a_browser(self):
        with browser.Browser() as window:
            seen = {}
            for dark in (False, True):
                for page in ("index.html", "docs/Cookbook.html", "docs/Python/Schedules.html",
                             "docs/Dialects/Heddle.html"):
                    window.open(str(SITE / page), dark=dark)
                    self.assertEqual(window.problems(), [], page)
                    self.assertTrue(window.run("document.querySelector('h1').checkVisibility()"))
                    self.assertLessEqual(window.run("document.documentElement.scrollWidth"), 1280)
                    window.open(str(SITE / page), 390, 800, dark)  # a telephone
                    self.assertLessEqual(window.run("document.documentElement.scrollWidth"), 390)
                seen[dark] = window.run("getComputedStyle(document.body).backgroundColor")
            self.assertNotEqual(seen[False], seen[True])
            before = window.run("document.body.dataset.theme")
            window.run("document.querySelector('.theme-toggle').click()")
            self.assertNotEqual(window.run("document.body.dataset.theme"), before)
            # Search is a script's work, on an index that is a script as well.
            window.open(f"file://{SITE}/search.html?q=isolating")
            found = window.run("""new Promise(done => {
              const look = left => {
                const links = [...document.querySelectorAll('#search-results li a')];
                const summary = document.querySelector('.search-summary');
                if (summary?.textContent.includes('found') || !left) done(links.map(a => a.getAttribute('href')));
                else setTimeout(look, 100, left - 1);
              };
              look(100);
            })""")
            self.assertTrue(any("Spec/Pairs" in link for link in found), found)
            self.assertEqual(window.problems(), [])


class Builder(unittest.TestCase):
    """What the build must find wrong."""

    def site_of(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name).resolve()
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        site = builder.Site(root)
        for path in files:
            if path.endswith(".md"):
                site.read(path)
        return site

    def test_links_are_led(self):
        site = self.site_of({
            "README.md": "# A\n[a](docs/B.md#x) [b](docs) [c](lib/d.cpp) [d](https://e.f) [e](#a)\n"
                         "[f](examples/g.mlir)\n```\n[h](nowhere)\n```\n",
            "docs/README.md": "# C\n[up](../README.md)\n", "docs/B.md": "# B\n## x\n",
            "lib/d.cpp": "int d;\n", "examples/g.mlir": ""})
        self.assertEqual(site.errors, [])
        self.assertEqual(site.pages["index"],
                         "# A\n[a](docs/B.md#x) [b](docs/index.md) [c](files/lib/d.cpp.md) "
                         "[d](https://e.f) [e](#a)\n[f](docs/Cookbook.md#g)\n```\n[h](nowhere)\n"
                         "```\n")
        self.assertIn("[up](../index.md)", site.pages["docs/index"])
        site.show_files()
        self.assertIn("int d;", site.pages["files/lib/d.cpp"])

    def test_dead_links_are_found(self):
        site = self.site_of({"README.md": "# A\n\n[a](no.md) [b](../../etc/passwd)\n"})
        self.assertEqual(len(site.errors), 2)
        self.assertIn("README.md:3: there is no no.md", site.errors[0])

    def test_a_page_without_a_place_is_found(self):
        site = self.site_of({"README.md": "# A\n", "docs/README.md": "# B\n",
                             "docs/site/README.md": "# C\n", "docs/New/Page.md": "# D\n"})
        site.arrange()
        self.assertTrue(any("docs/New/Page.md: its folder has no README.md" in e
                            for e in site.errors))

    def test_sphinx_takes_no_dead_anchor(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "index.md").write_text("# A\n[a](#nowhere)\n[b](index.md#no)\n")
            done = builder.sphinx(Path(folder), Path(folder, "out"), Path(folder, "trees"),
                                  capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("nowhere", done.stderr)

    def test_head_comments(self):
        head, text = cookbook.parts(
            "// What it is.\n//\n// Source: X, section 3.\n//\n// keep    0.2,\n"
            "//         a fifth.\n\nheddle.schedule @a {\n}\n")
        made = cookbook.prose(head, {"X": "https://x.invalid"})
        self.assertIn("Source: [X](https://x.invalid), section 3.", made)
        self.assertIn("| keep | 0.2, a fifth. |", made)
        self.assertTrue(text.startswith("heddle.schedule"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BUILD = Path(sys.argv.pop(1)).resolve()
    SITE = BUILD / "docs/site-tested"
    if builder.sphinx_python() is None:
        print("skipped: Sphinx, myst-parser or furo is not installed")
        sys.exit(builder.MISSING)
    done = subprocess.run([sys.executable, ROOT / "docs/site/build.py", "--build", BUILD,
                           "--out", SITE, "--quick"], check=False)
    if done.returncode:
        sys.exit(1)
    unittest.main()
