# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python that docs and docstrings show runs and prints what they say."""

import doctest
import inspect
import os
import re
import tempfile
import unittest

import heddle
from common import ROOT

PAGES = ["README.md", "docs/HowTo/Python.md", "docs/HowTo/Attention.md",
         "docs/HowTo/Evaluate.md", "docs/HowTo/Tune.md",
         "docs/Tutorials/FirstRun.md", "docs/Tutorials/YourSchedule.md",
         "docs/Tutorials/HonestBenchmarks.md"]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF


class ExamplesTest(unittest.TestCase):
    def run_examples(self, name, texts):
        """Runs texts one after the other in one namespace; returns how many examples."""
        said, count, names = [], 0, {"__name__": "__main__"}
        here = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            for entry in ("models", "examples"):
                os.symlink(ROOT / entry, os.path.join(folder, entry))
            os.chdir(folder)
            try:
                for line, text in texts:
                    test = doctest.DocTestParser().get_doctest(text, names, name, name, line)
                    names = test.globs
                    runner = doctest.DocTestRunner(optionflags=FLAGS)
                    runner.run(test, out=said.append, clear_globs=False)
                    count += len(test.examples)
            finally:
                os.chdir(here)
        self.assertFalse(said, "".join(said))
        return count

    def test_pages(self):
        for page in PAGES:
            with self.subTest(page):
                text = (ROOT / page).read_text(encoding="utf-8")
                blocks = [(text[:found.start()].count("\n") + 1, found[1])
                          for found in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]
                self.assertGreater(self.run_examples(page, blocks), 3)
                for _, block in blocks:
                    self.assertIn(">>> ", block, "an example that is not run")

    def test_docstrings(self):
        self.assertGreater(self.run_examples("heddle", [(0, heddle.__doc__)]), 3)
        count = 0
        for name in heddle.__all__:
            text = getattr(heddle, name).__doc__
            with self.subTest(name):
                self.assertTrue(text and text.strip(), "no docstring")
                count += self.run_examples(name, [(0, text)])
        self.assertGreater(count, 6)


class DocstringTest(unittest.TestCase):
    def test_each_argument_is_named(self):
        functions = {name: getattr(heddle, name) for name in heddle.__all__ if inspect.isfunction(getattr(heddle, name))}
        for name in heddle.__all__:
            if inspect.isclass(made := getattr(heddle, name)):
                for member, value in vars(made).items():
                    value = getattr(value, "__func__", getattr(value, "fget", value))
                    if not member.startswith("_") and inspect.isfunction(value):
                        functions[f"{name}.{member}"] = value
        self.assertGreater(len(functions), 50)
        for name, function in functions.items():
            with self.subTest(name):
                text = inspect.getdoc(function) or ""
                self.assertTrue(text, "no docstring")
                for argument, about in inspect.signature(function).parameters.items():
                    if argument not in ("self", "cls") and about.kind != about.VAR_KEYWORD:
                        self.assertRegex(text, rf"\b{argument}\b")
                        self.assertRegex(text, r"Error|\b[Ee]rrors\b", "which errors it raises is not said")


if __name__ == "__main__":
    unittest.main()
