# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle-eval: what it counts, what it keeps, how it ends."""

import importlib.metadata
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import heddle
from common import DREAM, LLADA, PROMPTS, heddle_run
from heddle.evaluation import records, report, statistics, sweep, tables, tasks

FAST = {"gen_length": 16, "steps": 4, "block_length": 8}
FLAGS = ["--gen-length=16", "--steps=4", "--block-length=8"]


def command(*arguments, **kwargs):
    return subprocess.run([sys.executable, "-m", "heddle.evaluation.command", *map(str, arguments)],
                          capture_output=True, text=True, **kwargs)


class StatisticsTest(unittest.TestCase):
    def test_wilson(self):
        # Against the roots of (p - x)^2 = z^2 x (1 - x) / n.
        for right, count in ((0, 10), (3, 10), (10, 10), (81, 263)):
            low, high = statistics.wilson(right, count)
            for x in (low, high):
                p, z = right / count, statistics.Z95
                self.assertAlmostEqual((p - x) ** 2, z * z * x * (1 - x) / count)
            self.assertLessEqual(low, right / count)
            self.assertGreaterEqual(high, right / count)
        self.assertEqual(statistics.wilson(0, 10)[0], 0)
        self.assertEqual(statistics.wilson(10, 10)[1], 1)
        self.assertRaises(ValueError, statistics.wilson, 3, 2)


class RecordsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "r.jsonl"

    def test_a_torn_line_is_healed(self):
        with records.Records(self.path) as file:
            file.append({"a": 1})
        whole = self.path.read_bytes()
        for torn in (b'{"b": ', b"x" * 200000):
            self.path.write_bytes(whole + torn)
            self.assertEqual(records.read(self.path), [{"a": 1}])
            with records.Records(self.path) as file:
                self.assertEqual(file.records, [{"a": 1}])
            self.assertEqual(self.path.read_bytes(), whole)
        self.path.write_bytes(b'{"all of it')
        with records.Records(self.path) as file:
            file.append({"c": 2})
        self.assertEqual(records.read(self.path), [{"c": 2}])

    def test_a_line_that_is_no_record_is_an_error(self):
        self.path.write_text('{"a": 1}\n\nwrong\n{"b": 1}\n')
        with self.assertRaisesRegex(heddle.HeddleError, "r.jsonl:3: expected a record"):
            records.Records(self.path)

    def test_blank_lines_are_none(self):
        self.path.write_text('\n{"a": 1}\n\n \t\r\n{"b": 1}\r\n\n')
        with records.Records(self.path) as file:
            self.assertEqual(file.records, [{"a": 1}, {"b": 1}])

    def test_one_writer(self):
        with records.Records(self.path):
            self.assertRaisesRegex(heddle.HeddleError, "another program", records.Records, self.path)

    def test_lines_that_lack_what_is_counted_are_errors(self):
        heddle.evaluate(LLADA, ["sort"], examples=1, out=self.path, **FAST)
        (good,) = records.read(self.path)
        result = good["results"][0]
        wrong = [{**good, "tokens": "9"}, {**good, "results": 5}, {**good, "results": [5]}, {**good, "cell": ["x"]},
                 {**good, "results": [{**result, "right": "yes"}]}]
        wrong += [{k: v for k, v in good.items() if k != name} for name in ("cell", "machine", "seed", "pairs")]
        for line in [*map(json.dumps, wrong), "[" * 100000, "{}\r{}"]:
            self.path.write_text(line + "\n")
            with self.subTest(line[:60]), self.assertRaisesRegex(heddle.HeddleError, "r.jsonl:1: expected a record"):
                records.read(self.path)
        self.path.write_bytes(json.dumps(good).encode() + b"\r\n" + b'{"kind": "a note", "text": "' + b"x" * 10 ** 6 + b'"}\n')
        self.assertEqual(statistics.summarize(records.read(self.path))[0]["count"], 1)

    def test_what_is_no_file_is_refused(self):
        os.mkfifo(self.path)
        for path in (self.path, "/dev/null", "/dev/full"):
            self.assertRaisesRegex(heddle.HeddleError, "a device or a pipe", records.Records, path)
        for path in (self.path.parent, "/nonexistent/x", ""):
            with self.assertRaises(OSError) as raised:
                records.Records(path)
            self.assertEqual(raised.exception.filename, str(path))

    def test_a_full_disk_keeps_what_was_whole(self):
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        with records.Records(self.path) as file:
            file.append({"a": 1})
            whole = self.path.read_bytes()
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))
            try:
                for _ in range(2):
                    with self.assertRaises(OSError) as raised:
                        file.append({"b": "x" * 100})
                    self.assertEqual(raised.exception.filename, str(self.path))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            self.assertEqual(self.path.read_bytes(), whole)
            file.append({"c": 2})
        self.assertEqual(records.read(self.path), [{"a": 1}, {"c": 2}])


class SweepTest(unittest.TestCase):
    def test_settings(self):
        self.assertEqual(sweep.parse_setting("keep=10,20 percent"), ("keep", ["1/10", "1/5"]))
        self.assertEqual(sweep.parse_setting("group=32,64"), ("group", [32, 64]))
        self.assertEqual(sweep.parse_setting("below=0.99"), ("below", ["99/100"]))
        for wrong in ("keep", "keep=", "keep=a", "keep=1/0", "=3"):
            self.assertRaises(heddle.HeddleError, sweep.parse_setting, wrong)
        self.assertEqual(sweep.parse_settings(["keep=1/5,1/2", "group=32,32", "keep=20,10 percent"]),
                         {"keep": ["1/5", "1/2", "1/10"], "group": [32]})

    def test_each_schedule_has_its_own_parameters(self):
        made = sweep.sweep(["dense", "pulsecol"], {"keep": ["1/2", "1/5"], "count": [4]})
        self.assertEqual([(name, settings) for name, settings, _ in made],
                         [("dense", {}), ("pulsecol", {"keep": "1/2", "count": 4}),
                          ("pulsecol", {"keep": "1/5", "count": 4})])
        self.assertIn("keep = 1/5", str(made[2][2]))
        made = sweep.sweep(["dense", (tables.columns, {"above": "0.9"}), tables.window], {"keys": [8, 16]})
        self.assertEqual([(name, settings) for name, settings, _ in made],
                         [("dense", {}), ("columns", {"above": "0.9"}), ("window", {"keys": 8}), ("window", {"keys": 16})])
        for wrong in ((["dense"], {"keep": ["1/2"]}), (["no-such"], {})):
            self.assertRaises(heddle.HeddleError, sweep.sweep, *wrong)

    def test_tables_compile(self):
        for name, table in tables.TABLES.items():
            made = sweep.sweep(table(1024), {})
            texts = [str(schedule) for _, _, schedule in made]
            self.assertEqual(len(set(texts)), len(texts), name)
            for text in set(texts):
                heddle.canonical(text)


class EvaluateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "r.jsonl"

    def test_figures_are_those_of_heddle_run(self):
        rows = heddle.evaluate(LLADA, ["sort"], examples=3, batch=2, out=self.out, **FAST)
        examples = tasks.GENERATED["sort"].draw(3, 2026, None)
        bundle = heddle.compile(heddle.preset("dense"), model=heddle.load(LLADA))
        pairs = right = operations = 0
        for part in (examples[:2], examples[2:]):
            steps, _, texts = heddle_run(LLADA, bundle, [e.prompt for e in part], *FLAGS)
            right += sum(t == e.answer for t, e in zip(texts, part))
            pairs += sum(s["pairs"] for s in steps)
        (row,) = rows
        self.assertEqual((row["right"], row["pairs"], row["count"], row["steps"], row["tokens"]),
                         (right, pairs, 3, 4, 48))
        self.assertGreater(row["operations"], 4 * 64 * pairs)  # attention alone
        self.assertEqual(rows, statistics.summarize(records.read(self.out)))

    def test_what_is_there_is_not_run_again(self):
        run = dict(examples=4, batch=2, out=self.out, **FAST)
        seen = []
        first = heddle.evaluate(LLADA, ["sort", "add"], on_batch=lambda *a: seen.append(a[1:]), **run)
        self.assertEqual(seen, [(2, 8), (4, 8), (6, 8), (8, 8)])
        lines = self.out.read_text().splitlines(True)
        self.out.write_text("".join(lines[:3]) + lines[3][:50])  # killed in the middle of the last batch
        again = []
        second = heddle.evaluate(LLADA, ["sort", "add"], on_batch=lambda *a: again.append(a[1:]), **run)
        self.assertEqual(again, [(2, 2)])
        for a, b in zip(first, second):
            self.assertEqual({k: v for k, v in a.items() if "second" not in k},
                             {k: v for k, v in b.items() if "second" not in k})
        more = heddle.evaluate(LLADA, ["sort"], **{**run, "examples": 5})
        self.assertEqual([row["count"] for row in more], [5])
        self.assertEqual(len(self.out.read_text().splitlines()), 5)
        other = heddle.evaluate(LLADA, ["sort"], **{**run, "steps": 8})  # another cell
        self.assertEqual([row["count"] for row in other], [4])

    def test_what_is_given_twice_runs_once(self):
        seen = []
        rows = heddle.evaluate(LLADA, ["single", "single"], schedules=["dense", "dense"], length=[128, 128], examples=1,
                               on_batch=lambda *a: seen.append(a[1:]), **FAST)
        self.assertEqual((seen, [row["count"] for row in rows]), ([(1, 1)], [1]))

    def test_what_was_asked_for_counts(self):
        run = dict(batch=4, out=self.out, **FAST)
        many = heddle.evaluate(LLADA, ["recall"], examples=6, **run)
        few = heddle.evaluate(LLADA, ["recall"], examples=3, **run)
        self.assertEqual([many[0]["count"], few[0]["count"]], [6, 3])
        # The first examples of six are the three, so that nothing was run anew, and those alone are summed.
        self.assertEqual(len(self.out.read_text().splitlines()), 2)
        fresh = heddle.evaluate(LLADA, ["recall"], examples=3, batch=4, **FAST)
        self.assertEqual(few[0]["right"], fresh[0]["right"])
        self.assertAlmostEqual(few[0]["tokens"], fresh[0]["tokens"])
        rest = heddle.evaluate(LLADA, ["recall"], examples=3, skip=3, **run)
        self.assertEqual(few[0]["right"] + rest[0]["right"], many[0]["right"])
        self.assertEqual(len(self.out.read_text().splitlines()), 2)
        for wrong in ({"skip": -1}, {"examples": 0}, {"examples": 10 ** 9}, {"skip": 10 ** 9}):
            self.assertRaises(heddle.HeddleError, heddle.evaluate, LLADA, ["recall"], **{**run, **wrong})

    def test_examples_are_spread_whatever_their_number(self):
        lengths = [len(e.prompt.split()) for e in tasks.GENERATED["recall"].draw(8, 2026, None)]
        self.assertEqual(tasks.GENERATED["recall"].draw(64, 2026, None)[:8], tasks.GENERATED["recall"].draw(8, 2026, None))
        self.assertLess(3 * min(lengths), max(lengths))

    def test_a_corrected_answer_is_judged_again(self):
        made = self.out.with_suffix(".tasks.jsonl")

        def right(answer, other="5798"):
            made.write_text("".join(json.dumps(one) + "\n" for one in (
                {"prompt": "Sort 52 17 90 33.", "answer": answer}, {"prompt": "Add 4821 and 977.", "answer": other})))
            (row,) = heddle.evaluate(LLADA, str(made), out=self.out, gen_length=32, steps=16, block_length=8)
            self.assertEqual(statistics.summarize(records.read(self.out)), [row])
            return row["right"], row["count"]

        self.assertEqual(right("17 33 52"), (1, 2))
        self.assertEqual(right("17 33 52 90"), (2, 2))
        self.assertEqual(right("17 33 52"), (1, 2))
        lines = self.out.read_text()
        self.assertEqual(right("17 33 52"), (1, 2))
        self.assertEqual(self.out.read_text(), lines)
        made.write_text(made.read_text() + '{"prompt": "Add 4821 and 977.", "answer": "1"}\n')
        with self.assertRaisesRegex(heddle.HeddleError, ":3: line 2 has another answer"):
            tasks.find([str(made)])

    def test_a_seed_draws_from_a_file(self):
        made = self.out.with_suffix(".tasks.jsonl")
        made.write_text("".join(json.dumps({"prompt": f"Add {i} and 1.", "answer": str(i + 1)}) + "\n" for i in range(30)))
        (task,) = tasks.find([str(made)])
        one, other = (task.draw(10, seed, None) for seed in (1, 2))
        self.assertNotEqual(one, other)
        self.assertEqual(task.draw(20, 1, None)[:10], one)
        self.assertEqual(len({e.prompt for e in task.draw(99, 1, None)}), 30)
        with self.assertRaisesRegex(heddle.HeddleError, "passes over all examples"):
            heddle.evaluate(LLADA, str(made), skip=30)
        made.write_bytes("\ufeff".encode() + made.read_bytes().replace(b"\n", b"\r\n\r\n"))  # and blank lines
        self.assertEqual(tasks.find([str(made)])[0].draw(10, 1, None), one)

    def test_timesteps_and_files(self):
        made = self.out.with_suffix(".tasks.jsonl")
        made.write_text('{"prompt": "Sort 52 17 90 33.", "answer": "17 33 52 90"}\n')
        (row,) = heddle.evaluate(DREAM, str(made), gen_length=32, steps=32, dtype="f32")
        self.assertEqual((row["right"], row["count"]), (1, 1))
        made.write_text('{"prompt": "x"}\n')
        for wrong in ('{"prompt": "x"}', '{"prompt": "", "answer": "x"}', '{"prompt": "\\ud800", "answer": "x"}', "[" * 100000, "5"):
            made.write_text(wrong + "\n")
            with self.assertRaisesRegex(heddle.HeddleError, ":1: expected an object"):
                heddle.evaluate(DREAM, str(made))
        for size in (127, 10 ** 20):
            with self.assertRaisesRegex(heddle.HeddleError, f"length: expected 128 to .*, found {size}"):
                heddle.evaluate(LLADA, ["single"], length=size)

    def test_table(self):
        rows = heddle.evaluate(LLADA, ["sort", "single"], schedules=["dense", "pulsecol"],
                               settings={"keep": ["1/2"]}, examples=1, length=128, **FAST)
        text = report.markdown(rows)
        self.assertIn("| pulsecol, keep 1/2 | ", text)
        self.assertIn("single @128", text)
        widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
        self.assertEqual(len(widths), 1)
        heads = {line for line in report.markdown([row for row in rows if row["length"]], brief=True).splitlines() if "schedule" in line}
        self.assertEqual(heads, {"| schedule | single | all | steps | tokens/s | pairs of dense |"})
        with mock.patch.dict(sys.modules, {"matplotlib": None}):
            self.assertRaisesRegex(heddle.HeddleError, "heddle.eval", report.plot, rows, "x.svg")

    def test_results_that_differ_in_options_are_rows_of_their_own(self):
        mine = self.out.parent / "mine.mlir"
        runs = [{}, {"steps": 8}, {"dtype": "f32"}]
        mine.write_text("heddle.schedule @a {\n  attend dense\n}\n")
        for more in runs:
            heddle.evaluate(LLADA, ["sort", "copy"], schedules=["dense", str(mine)], examples=1, out=self.out, **{**FAST, **more})
        rows = statistics.summarize(records.read(self.out))
        self.assertEqual(len(rows), 4 * len(runs))
        text = report.markdown(rows)
        self.assertEqual(re.findall(r"^\| (dense.*?) \|", text, re.MULTILINE), ["dense, steps 4", "dense, steps 8", "dense"])
        self.assertEqual(re.findall(r", (bf16|f32), seed", text), ["bf16", "f32"])
        # What no table can tell apart: another schedule in a file of the same name.
        mine.write_text("heddle.schedule @a {\n  %n = window(8)\n  attend pairs(%n)\n}\n")
        heddle.evaluate(LLADA, ["sort"], schedules=[str(mine)], examples=1, out=self.out, **FAST)
        for draw in (report.markdown, report._grouped):
            with self.assertRaisesRegex(heddle.HeddleError, "two results are both 'mine, steps 4' on sort"):
                draw(statistics.summarize(records.read(self.out)))

    def test_numbers_are_short(self):
        for number, text in ((0, "0"), (7, "7"), (42.25, "42.2"), (999, "999"), (999.6, "1 k"), (36980, "37 k"), (3.4521e11, "345 G"),
                             (2.3142e14, "231 T"), (5e21, "5000 E")):
            self.assertEqual(report.short(number), text)

    def test_points_and_the_front(self):
        points = [(10, 100), (10, 100), (10.5, 100), (10, 50), (30, 100), (10, 100)]
        places = report._apart(points, 1, 2)
        self.assertEqual(places, [(10, 100), (9, 100), (11.5, 100), (10, 50), (30, 100), (8, 100)])
        self.assertEqual(list(report._best([(1, 99), (2, 100), (3, 98), (5, 98.5), (9, 90), (8, 80)])),
                         [(1, 100), (2, 100), (5, 98.5), (9, 90)])
        names = ["dense", "a, keep 1/2, count 1", "a, keep 1/2, count 2", "a, keep 1/5, count 1", "a, keep 1/2", "a, keep 1/5", "b"]
        self.assertEqual(report._lines(names), ["dense", "a, keep 1/2, count", "a, keep 1/2, count", "a, keep 1/5, count 1", "a, keep",
                                                "a, keep", "b"])

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "needs matplotlib")
    def test_plot(self):
        rows = heddle.evaluate(LLADA, ["sort"], schedules=["dense", "pulsecol"], examples=1, **FAST)
        path = self.out.with_suffix(".svg")
        drawn = []
        for over, label in (("pairs", "of dense"), ("speed", "tokens a second")):
            report.plot(rows, path, over)
            drawn.append(path.read_text())
            self.assertIn("</svg>", drawn[-1])
            self.assertIn(label, drawn[-1])
        self.assertNotEqual(*drawn)
        link = path.with_name("link.svg")
        link.symlink_to(path)
        report.plot(rows, link)
        self.assertEqual((link.is_symlink(), sorted(p.name for p in path.parent.iterdir())), (True, ["link.svg", path.name]))
        self.assertRaisesRegex(heddle.HeddleError, "pairs or speed", report.plot, rows, path, "time")


class CommandTest(unittest.TestCase):
    def test_runs_and_prints(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "r.jsonl"
            arguments = ["--model", LLADA, "--tasks=sort", "--examples=2", "--schedule=dense,pulsecol",
                         "--set", "keep=50 percent", "--out", out, *FLAGS]
            done = command(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("| pulsecol, keep 1/2 |", done.stdout)
            self.assertIn("4 of 4 examples", done.stderr)
            again = command(*arguments, "--json")
            self.assertEqual(again.stderr, "")
            self.assertEqual([r["count"] for r in json.loads(again.stdout)], [2, 2])
            self.assertEqual(command("table", out).stdout, done.stdout)

    def test_required_shares(self):
        arguments = ["--model", LLADA, "--tasks=sort,copy", "--examples=2", "--schedule=dense,pulsecol", "--quiet",
                     "--set=keep=1/20", *FLAGS]
        done = command(*arguments, "--require=dense=0.5,pulsecol=0.5")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "heddle-eval: pulsecol, keep 1/20: 0 of 4 answers are right, 0.0%; required are 50%\n")
        self.assertIn("| pulsecol, keep 1/20 |", done.stdout)
        passed = command(*arguments, "--require=dense=0.5,pulsecol=0")
        self.assertEqual((passed.returncode, passed.stderr), (0, ""))
        for code, said, wrong in ((2, "'dense': expected SCHEDULE=SHARE", "dense"), (2, "a share of 0 to 1", "dense=90"),
                                  (1, "no schedule 'sparsed' runs; there are dense, pulsecol", "dense=1,sparsed=1")):
            done = command(*arguments, "--require", wrong)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stdout, "")  # said before anything runs

    def test_help_and_errors(self):
        shown = command("--help")
        self.assertEqual(shown.returncode, 0)
        self.assertIn("examples:", shown.stdout)
        for code, said, *arguments in (
                (2, "--model", "--tasks=sort"),
                (1, "no task 'nope'; there are add", "--model", LLADA, "--tasks=nope"),
                (1, "no schedule 'nope'", "--model", LLADA, "--schedule=nope"),
                (1, "parameter 'nope'", "--model", LLADA, "--set=nope=3"),
                (1, "/nonexistent.jsonl: No such file", "table", "/nonexistent.jsonl"),
                (1, "/dev/zero: expected a regular file", "table", "/dev/zero"),
                (1, "/dev/null/x: Not a directory", "--model", LLADA, "--tasks=sort", "--out=/dev/null/x"),
                (2, "invalid choice", "tables", "nope"),
                (2, "--length: expected 16 to 1048576 tokens, found 0", "tables", "lengths", "--model=x", "--length=0"),
                (2, "--tasks: table 'lengths' is of tasks that have a length, and sort has none; give some of single,",
                 "tables", "lengths", "--model=x", "--tasks=needles,sort"),
                (2, " have none; give some of ", "tables", "lengths", "--model=x"),
                (1, "expected a schedule's text in UTF-8", "--model", LLADA, "--schedule", LLADA / "model.safetensors"),
                (1, "/nonexistent/r.jsonl: No such file", "--model", LLADA, "--out", "/nonexistent/r.jsonl"),
                (2, "none of f32, bf16, f16", "--model", LLADA, "--dtype=int8"),
                (1, "--dtype=f16 needs a GPU", "--model", LLADA, "--tasks=sort", "--device=cpu", "--dtype=f16"),
                (1, "/nonexistent", "--model", "/nonexistent", "--tasks=sort")):
            done = command(*arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_interrupts_and_kills_leave_the_file_good(self):
        for what, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
            with tempfile.TemporaryDirectory() as folder, self.subTest(what):
                out = Path(folder) / "r.jsonl"
                arguments = [sys.executable, "-m", "heddle.evaluation.command", "--model", str(LLADA),
                             "--tasks=recall", "--examples=40", "--batch=2", "--steps=32", "--out", str(out)]
                process = subprocess.Popen(
                    arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                    # A shell's `&` may have these tests ignore SIGINT.
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                self.assertIn("2 of 40", process.stderr.readline())
                process.send_signal(what)
                process.communicate()
                self.assertEqual(process.returncode, code)
                with records.Records(out) as file:
                    self.assertLess(sum(len(r["results"]) for r in file.records), 40)
                    self.assertGreaterEqual(len(file.records), 1)


@unittest.skipUnless(importlib.util.find_spec("lm_eval"), "needs lm-eval")
class LmEvalTest(unittest.TestCase):
    def test_the_entry_point(self):
        from heddle.evaluation import lm_eval
        (found,) = importlib.metadata.entry_points(group="lm_eval.models", name="heddle")
        self.assertIs(found.load(), lm_eval.HeddleLM)

    def test_generates(self):
        from lm_eval.api.registry import get_model
        from heddle.evaluation import lm_eval  # noqa: F401  registers the model
        model = get_model("heddle")(folder=str(LLADA), schedule="pulsecol", keep="1/2", batch_size=2,
                                    block_length=8, steps=16)
        requests = [types.SimpleNamespace(args=(prompt, {"until": until, "max_gen_toks": 30}))
                    for prompt, until in (("Sort 52 17 90 33.", []), ("Sort 52 17 90 33.", [" 52"]),
                                          (PROMPTS[1], ["\n"]))]
        self.assertEqual(model.generate_until(requests, disable_tqdm=True),
                         ["17 33 52 90", "17 33", "5798"])
        self.assertRaisesRegex(NotImplementedError, "generate_until", model.loglikelihood, requests)

        def ask(*prompts, **wanted):
            return model.generate_until([types.SimpleNamespace(args=(p, {"max_gen_toks": 30, **wanted})) for p in prompts],
                                        disable_tqdm=True)
        with self.assertLogs("heddle.evaluation.lm_eval", "WARNING") as said:
            made = ask("", PROMPTS[1], "word " * 2000 + "\n" + PROMPTS[1], PROMPTS[0])
        self.assertEqual((made[0], made[1], made[3]), ("", "5798", "17 33 52 90"))
        self.assertIn("1 empty prompts", "".join(said.output))
        self.assertIn("its beginning is left out", "".join(said.output))
        self.assertEqual(ask(*PROMPTS, temperature=5.0, do_sample=False), ask(*PROMPTS))
        self.assertRaisesRegex(heddle.HeddleError, "5000 tokens are to be generated", ask, PROMPTS[0], max_gen_toks=5000)
        for wrong, message in (({"batch_size": 0}, "expected 1 or more"), ({"batch_size": -1}, "expected 1 or more"),
                               ({"batch_size": "x"}, "batch_size: expected a number"), ({"steps": "x"}, "steps: expected a number"),
                               ({"nope": 1}, "no parameter 'nope'"), ({"device": "cuda:99"}, "--device cpu")):
            with self.subTest(wrong):
                self.assertRaisesRegex(heddle.HeddleError, message, get_model("heddle"), **{"folder": str(LLADA), **wrong})

    def test_the_program_runs_a_task(self):
        rows = [*zip(PROMPTS, ("17 33 52 90", "5798")), ("word " * 2000, "no answer")]
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "rows.jsonl").write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in rows))
            (folder / "own.yaml").write_text(json.dumps({  # which is YAML, too
                "task": "own", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(folder / "rows.jsonl")}},
                "test_split": "test", "output_type": "generate_until", "doc_to_text": "{{question}}",
                "doc_to_target": "{{answer}}", "generation_kwargs": {"max_gen_toks": 30, "until": ["\n"], "do_sample": False},
                "metric_list": [{"metric": "exact_match"}]}))
            command = [sys.executable, "-m", "heddle.evaluation.lm_eval", "--model", "heddle", "--tasks", "own",
                       "--include_path", folder, "--batch_size", "2", "--output_path", folder / "out", "--model_args"]
            environment = {**os.environ, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
            done = subprocess.run([*command, f"folder={LLADA},tokenizer={LLADA}", "--device", "cpu"], env=environment,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            result, = (folder / "out").rglob("results_*.json")
            self.assertAlmostEqual(json.loads(result.read_text())["results"]["own"]["exact_match,none"], 2 / 3, places=4)
            done = subprocess.run([*command, f"folder={LLADA},nope=1", "--device", "cpu"], env=environment,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("heddle.evaluation.lm_eval: error: model_args: preset 'dense' has no parameter", done.stderr)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
