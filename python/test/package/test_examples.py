# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python that docs and docstrings show runs and prints what they say."""

import dataclasses
import doctest
import importlib.util
import inspect
import os
import pkgutil
import re
import tempfile
import unittest
import warnings

import heddle
from common import ROOT

PAGES = ["README.md", "docs/HowTo/Python.md", "docs/HowTo/Attention.md",
         "docs/HowTo/Evaluate.md", "docs/HowTo/Tune.md",
         "docs/Tutorials/FirstRun.md", "docs/Tutorials/YourSchedule.md",
         "docs/Tutorials/HonestBenchmarks.md"]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF


#: What modules of the package import that is not there everywhere.
EXTRAS = ("torch", "transformers", "lm_eval", "ray", "fastapi", "pydantic", "pyarrow", "starlette", "matplotlib", "tqdm")


def docstrings():
    """{name: docstring} of the package's modules, heddle's own apart, of the functions and classes that each defines
    and says in no name to be private, and of these classes' methods. Modules that miss one of EXTRAS are left out."""
    found = {}

    def take(name, thing):
        text = getattr(thing, "__doc__", None)
        if text:
            found[name] = text
    for info in pkgutil.walk_packages(heddle.__path__, "heddle."):
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is imported
                module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in EXTRAS:
                raise
            continue
        take(info.name, module)
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != info.name:
                continue
            take(f"{info.name}.{name}", thing)
            if inspect.isclass(thing):
                for member, value in vars(thing).items():
                    if not member.startswith("_"):
                        value = getattr(value, "__func__", value)
                        if inspect.isfunction(value) or isinstance(value, property):
                            take(f"{info.name}.{name}.{member}", value)
    return found


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
                    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
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
        for name in heddle.__all__:
            with self.subTest(name):
                self.assertTrue((getattr(heddle, name).__doc__ or "").strip(), "no docstring")
        count = 0
        for name, text in docstrings().items():
            with self.subTest(name):
                count += self.run_examples(name, [(0, text)])
        self.assertGreater(count, 6)

    def test_docstrings_of_methods_and_submodules_are_found(self):
        found = docstrings()
        for name in ("heddle.kernels.attention", "heddle.kernels.Plan.select", "heddle.model.Model.stream", "heddle.transformers",
                     "heddle.transformers.Patch.step", "heddle.evaluation.lm_eval.HeddleLM", "heddle.tracing.record.Record"):
            if name.split(".")[1] != "evaluation" or importlib.util.find_spec("lm_eval"):
                self.assertIn(name, found)
        self.assertNotIn("heddle", found)


#: Papers whose docstrings name a place in them, and what else results come from.
READ = ("PulseCol", "SparseD", "DyLLM", "Window-Diffusion", "Vaswani et al., 2017")
NAMED = ("StreamingLLM", "dLLM-Cache", "LLaDA", "Dream", "Wilson, 1927")
PLACE = r"(equations?|algorithm|section|table) \d"
UNITS = r"tokens?|steps?|positions?|rows?|keys|queries|blocks?|layers?|threads|bytes|seconds|examples|sequences|0 to 1|from 0" \
    r"|share|probability|cosine|number"


class DocstringTest(unittest.TestCase):
    def setUp(self):
        self.functions = {name: getattr(heddle, name) for name in heddle.__all__ if inspect.isfunction(getattr(heddle, name))}
        self.classes = {name: getattr(heddle, name) for name in heddle.__all__ if inspect.isclass(getattr(heddle, name))}
        self.functions.update(compile=heddle.compile, random=heddle.random)  # not of `import *`
        for name, made in self.classes.items():
            for member, value in vars(made).items():
                value = getattr(value, "__func__", getattr(value, "fget", value))
                if not member.startswith("_") and inspect.isfunction(value):
                    self.functions[f"{name}.{member}"] = value
        self.assertGreater(len(self.functions), 60)

    def test_each_argument_is_named(self):
        for name, function in self.functions.items():
            with self.subTest(name):
                text = inspect.getdoc(function) or ""
                self.assertTrue(text, "no docstring")
                for argument, about in inspect.signature(function).parameters.items():
                    if argument not in ("self", "cls") and about.kind != about.VAR_KEYWORD:
                        self.assertRegex(text, rf"\b{argument}\b")
                        self.assertRegex(text, r"Error|\b[Ee]rrors\b", "which errors it raises is not said")

    def test_classes_say_what_they_are(self):
        for name, made in self.classes.items():
            with self.subTest(name):
                self.assertGreater(len(inspect.getdoc(made)), 20)
        for name in heddle.__all__:  # a dataclass without a docstring has its fields
            self.assertNotRegex(getattr(heddle, name).__doc__, r"^\w+\(\w+: ", name)

    def test_arrays_have_shapes_and_dtypes(self):
        arrays, count = {"q", "k", "v", "ids", "prompts"}, 0
        for name, function in self.functions.items():
            about = inspect.signature(function)
            if arrays & set(about.parameters) or "ndarray" in str(about.return_annotation):
                text, count = inspect.getdoc(function), count + 1
                if re.search(r"\bgenerate\(\), whose arguments", text):
                    continue
                with self.subTest(name):
                    self.assertRegex(text, r"\[(\w+, )*[a-z_]+\]", "no shape")
                    self.assertRegex(text, r"\b(f32|bf16|int32|integer dtype|dtypes?)\b", "no dtype")
        self.assertGreaterEqual(count, 7)

    def test_fields_of_results_say_what_they_are(self):
        for made in (heddle.Step, heddle.Generation):
            text = inspect.getsource(made)
            for field in dataclasses.fields(made):
                with self.subTest(f"{made.__name__}.{field.name}"):
                    said = re.search(rf"(?:^    #: (.*)\n(?:    #: .*\n)*)?^    {field.name}: \S+(?:  #: (.*))?$", text, re.M)
                    self.assertTrue(said[1] or said[2], "no #: comment")
                    if field.type == "np.ndarray" or field.type == "list" and field.name != "texts":
                        self.assertRegex(" ".join(filter(None, said.groups())) + made.__doc__, r"\[\w.* ?\w*\]", "no shape")
                    if field.type == "np.ndarray":
                        self.assertRegex(said[1] or said[2], r"\b(u?int\d+|float64)\b", "no dtype")

    def test_numbers_have_units(self):
        for name, function in self.functions.items():
            for argument, about in inspect.signature(function).parameters.items():
                if re.search(r"\b(int|float|Ratio)\b", str(about.annotation)):
                    with self.subTest(f"{name}({argument})"):
                        self.assertRegex(inspect.getdoc(function), rf"\b({UNITS})\b")

    def test_sources(self):
        for name, function in self.functions.items():
            text, made_here = " ".join(inspect.getdoc(function).split()), function.__module__ == "heddle.schedule"
            sources = re.findall(r"\b[Ss]ources?: ((?:[^.]|\.(?! |$))*)", text)
            with self.subTest(name):
                if made_here and "." not in name or function in (heddle.attention, heddle.evaluate, heddle.Model.generate):
                    self.assertTrue(sources, "no source")
                for source in sources:
                    pages = re.findall(r"docs/[\w/]+\.md", source)
                    for page in pages:
                        self.assertTrue((ROOT / page).is_file(), page)
                    papers = [paper for paper in READ + NAMED if paper in source]
                    self.assertTrue(pages or papers or "say them" in source, source)
                    if set(papers) & set(READ):
                        self.assertRegex(source, PLACE)


if __name__ == "__main__":
    unittest.main()
