# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python/bench/plots.py: that it draws every picture of the docs, from the rows beside them."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from common import ROOT
from heddle.evaluation import report, tasks
from heddle.tuning.command import _parser

sys.path.append(str(ROOT / "python" / "bench"))
import plots  # noqa: E402
import recall_report  # noqa: E402

IMAGES = ROOT / "docs" / "images"
COMMAND = "python3 python/bench/plots.py"


def searches():
    """The searches of docs/Quality.md."""
    return re.search(r"^<!-- searches: (.+) -->$", plots.QUALITY.read_text(encoding="utf-8"), re.M)[1].split()


def said(path):
    """The texts of a plot, which matplotlib repeats as comments."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))


class PlotsTest(unittest.TestCase):
    def test_every_picture_of_the_docs_is_drawn_by_it(self):
        self.assertEqual({p.name for p in IMAGES.iterdir() if p.is_file()}, plots.images())
        self.assertEqual({p.name for p in (IMAGES / "results").iterdir()},
                         {*(f"{name}.jsonl" for name in plots.PLOTS), *(f"{name}.mlir" for name in searches())})

    def test_every_page_with_a_plot_says_the_command(self):
        pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        texts = {page: page.read_text(encoding="utf-8") for page in pages}
        shown = {page: set(re.findall(r"images/([\w-]+)\.(?:svg|png)", text)) for page, text in texts.items()}
        self.assertEqual(set(plots.PLOTS) - set().union(*shown.values()), set())
        bad = [str(page) for page, names in shown.items() if names & set(plots.PLOTS) and COMMAND not in texts[page]]
        self.assertEqual(bad, [])

    def test_plots_say_model_date_machine_and_seed_of_their_rows(self):
        for name in plots.PLOTS:
            texts = said(IMAGES / f"{name}.svg")
            for row in plots.results(name, IMAGES / "results"):
                with self.subTest(name, row=row):
                    self.assertTrue(row["date"] and row["machine"])
                    if isinstance(plots.PLOTS[name], plots.Recall):
                        title = f"{row['model']}, {row['tasks']}, {row['tokens']:.0f} tokens in the mean"
                        lines = {f"{row['dtype']}, seed {row['seed']}, {row['date']}, {row['machine']}", recall_report.name(row)}
                    else:
                        title = f"{row['model']}, {row['dtype']}, seed {row['seed']}, "
                        lines = {row["machine"]}
                        # A point of its own, or one of a line.
                        label = report.label(row)
                        self.assertTrue({label, label.rpartition(" ")[0]} & set(texts), texts)
                    self.assertTrue(any(text.startswith(title) and (text == title or row["date"] in text) for text in texts), texts)
                    self.assertLessEqual(lines, set(texts))

    def test_tables_of_the_page_are_the_rows(self):
        text = plots.QUALITY.read_text(encoding="utf-8")
        found = re.findall(r"^<!-- rows: (\S+) (\S+) -->$", text, re.M)
        # Of the short prompts the page has the plots alone.
        short = {name for name in plots.PLOTS if name.startswith("table-") and not name.startswith("table-long-")}
        expected = {(name, model) for name, plot in plots.PLOTS.items() if name not in short for model in plot.models}
        self.assertEqual((set(found), len(found)), (expected, len(expected)))
        self.assertEqual(plots.quality_text(text, IMAGES / "results"), text)
        # A figure that no row has is found.
        wrong = re.sub(r"(?m)^\| dense \| 100 ", "| dense | 99 ", text, count=1)
        self.assertNotEqual(wrong, text)
        self.assertEqual(plots.quality_text(wrong, IMAGES / "results"), text)

        wrong = text.replace("| 10.7% | 2026", "| 10.8% | 2026")
        self.assertNotEqual(wrong, text)
        self.assertEqual(plots.quality_text(wrong, IMAGES / "results"), text)

    def test_searches_are_those_of_their_commands(self):
        text = plots.QUALITY.read_text(encoding="utf-8").replace("\\\n", " ")
        for name in searches():
            said = plots.search(name, IMAGES / "results")
            (command,) = re.findall(rf"^\$ (heddle-tune .* --out {name}\.jsonl -o {name}\.mlir)$", text, re.M)
            args = _parser().parse_args(shlex.split(command)[1:])
            head = (IMAGES / "results" / f"{name}.mlir").read_text(encoding="utf-8")
            with self.subTest(name):
                self.assertIn(f"// model      {Path(args.model).name}, bf16, ", head)
                self.assertIn(f"// tasks      {', '.join(args.tasks)}; {said['examples']} examples a task, seed {args.seed}, length {args.length[0]}\n", head)
                self.assertEqual(str(args.examples), said["examples"])
                self.assertIn(f": {args.cost} of {args.cost_model}\n// floor      {args.floor}\n", head)
                self.assertIn(f"// evidence   {args.out}\n", head)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "search-all.mlir").write_text(head.replace("// cost", "// costs"))
            with self.assertRaisesRegex(SystemExit, "found no line 'cost'"):
                plots.search("search-all", Path(folder))

    def test_the_prompt_of_the_records(self):
        (task,) = tasks.find(["multi_query"])
        self.assertEqual(plots.NEEDLES.read_text(encoding="utf-8"), task.draw(1, 2026, 1024)[0].prompt + "\n")

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "needs matplotlib")
    def test_drawn_again_they_are_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            run = lambda *options: subprocess.run([sys.executable, plots.__file__, f"--raw={folder}", f"--images={folder}", *options],
                                                  capture_output=True, text=True)
            done = run(*plots.PLOTS)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout.split(), [f"{name}.{end}" for name in plots.PLOTS for end in ("png", "svg")])
            for name in plots.PLOTS:
                self.assertGreater((folder / f"{name}.png").stat().st_size, 10000)
                self.assertEqual(said(folder / f"{name}.svg"), said(IMAGES / f"{name}.svg"), name)
            # A result that changes changes the plot.
            rows = plots.results("table-long-speed", IMAGES / "results")
            rows[0]["date"] = "2031-01-01"
            (folder / "table-long-speed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            self.assertEqual(run("table-long-speed", f"--results={folder}").returncode, 0)
            self.assertNotEqual(said(folder / "table-long-speed.svg"), said(IMAGES / "table-long-speed.svg"))

    def test_what_is_missing_is_a_sentence(self):
        run = lambda *options, **more: subprocess.run([sys.executable, *options], capture_output=True, text=True,
                                                      env={**os.environ, **more})
        with tempfile.TemporaryDirectory() as folder:
            places = [f"--raw={folder}", f"--images={folder}"]
            without = "import sys; sys.argv = sys.argv[1:]; sys.modules[{0!r}] = None; sys.path.insert(0, {1!r}); " \
                "import plots; plots.main()"
            for missing, said in (("matplotlib", "plots are drawn by matplotlib: pip install 'heddle[eval]'"),
                                  ("heddle", "install the package: pip install .")):
                done = run("-c", without.format(missing, str(Path(plots.__file__).parent)), "plots.py", "table-dyllm", *places)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                self.assertIn(said, done.stderr)
            done = run(plots.__file__, "records", "--bin=/nonexistent", *places)
            self.assertEqual((done.returncode, done.stderr), (1, "plots.py: /nonexistent/heddle-run: no such program; build it, "
                                                                "or say with --bin where it is\n"))

    def test_wrong_names(self):
        for options, message in ((["tabel"], "'tabel': expected table-pulsecol, "), (["--measure"], "name the tables")):
            done = subprocess.run([sys.executable, plots.__file__, *options], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
