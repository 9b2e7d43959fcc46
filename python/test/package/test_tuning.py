# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle-tune: what it proposes, what it keeps, what it writes."""

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import heddle
from common import BIN, LLADA
from heddle.evaluation import records
from heddle.tuning import Space, front, tune
from heddle.tuning.cost import Estimate
from heddle.tuning.recall import hopeless, recall
from heddle.tuning.search import Search, parse_floor

SMALL = dict(examples=8, batch=8, gen_length=16, steps=4, block_length=8)
FLAGS = ["--model", LLADA, "--tasks=sort", "--examples=8", "--batch=8", "--gen-length=16", "--steps=4",
         "--block-length=8"]


def small(out=None, **more):
    options = {name: SMALL[name] for name in ("gen_length", "steps", "block_length")}
    return tune(LLADA, "sort", out=out, examples=8, batch=8, options=options, **more)


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "heddle.tuning.command", *map(str, arguments)],
                          capture_output=True, text=True)


def made(trials):
    """What of trials does not depend on the clock."""
    def cleaned(value):
        if isinstance(value, dict):
            return {k: cleaned(v) for k, v in value.items() if k not in ("seconds", "date")}
        return [cleaned(v) for v in value] if isinstance(value, list) else value
    return json.loads(json.dumps(cleaned(trials)))


class SpaceTest(unittest.TestCase):
    def test_every_draw_is_a_schedule_and_has_its_distributions(self):
        draw = random.Random(5)
        for layers, parts in ((1, 3), (4, 3), (6, 2), (32, 5)):
            space = Space(layers, parts)
            seen = set()
            for _ in range(12):
                params = space.draw(lambda name, options: draw.randrange(len(options)))
                text = str(space.schedule(params))
                heddle.canonical(text)  # the compiler takes it
                seen.add(space.about(params))
                if importlib.util.find_spec("optuna"):
                    self.assertEqual(set(space.distributions(params)), set(params))
            self.assertGreater(len(seen), 8)

    def test_layers_are_covered_once(self):
        space = Space(6, 3, ("keep", "layers"))
        for keeps, ranges in (((0, 0, 0), []), ((0, 3, 3), [(0, 1)]), ((0, 3, 0), [(2, 3), (4, 5)]), ((1, 2, 3), [(2, 3), (4, 5)])):
            text = str(space.schedule({f"keep{i}": k for i, k in enumerate(keeps)}))
            found = [tuple(map(int, r)) for r in re.findall(r"layers\((\d+) to (\d+)\)", text)]
            self.assertEqual(found, ranges, text)
            self.assertEqual(text.count("attend") - len(found), 1)

    def test_what_is_not_searched_stays(self):
        space = Space(4, 3, ("group",))
        params = space.draw(lambda name, options: len(options) - 1)
        self.assertEqual(set(params), {"group"})
        self.assertIn("group = 128", str(space.schedule(params)))
        for wrong in (("nope",), ()):
            self.assertRaises(heddle.HeddleError, Space, 4, 3, wrong)

    def test_lists_and_rows_go_by_one_drift(self):
        space = Space(4, 1)
        asked = {"keep0": 3, "cadence": "drift", "reuse": "none", "drift": 2, "within": 0}
        text = str(space.schedule(asked))
        self.assertIn("cadence drift(below = 19/20, within = 8)\n", text)
        self.assertIn("keep 1/5, drift below 19/20 within 8", space.about(asked))
        # A block's rows by drift: its lists are refreshed with them, and no other cadence is asked for.
        order = {"keep": 3, "reuse": "drift", "drift": 1, "within": 3}
        drawn = space.draw(lambda name, options: order.get("keep" if name.startswith("keep") else name, 0)
                           if name != "reuse" else options.index("drift"))
        self.assertNotIn("cadence", drawn)
        self.assertEqual((drawn["drift"], drawn["within"]), (1, 3))
        text = str(space.schedule(drawn))
        self.assertEqual(text.count("drift(below = 9/10, within = 64) in block"), 1)
        for made in (space.schedule(asked), space.schedule(drawn), space.schedule({**drawn, "keep0": 0})):
            heddle.canonical(made)

    def test_drift_costs_what_its_runs_found(self):
        estimate = Estimate("cpu", str(LLADA))
        runs = [(32, {"gen_length": 64, "steps": 64, "block_length": 64}, 2)]
        made = heddle.schedule("s", heddle.attend(heddle.columns("1/5", on=heddle.drift("9/10", 32))))
        cost = heddle.explain(made, format="json", prompt=32, length=96, steps=64, block_length=64, model=str(LLADA),
                              machine="cpu")["cost"]
        few, most, seconds = cost["work"]["operations"], cost["drift"]["most_operations"], cost["estimate"]["seconds"]
        self.assertGreater(most, 1.02 * few)
        found = {"salient_rows": 0, "salient_of": 0, "tokens": 0, "sequence_steps": 0}
        told = [estimate(made, runs, {**found, "operations": 2 * each}, (str(LLADA), runs)) / seconds
                for each in (few, (few + most) / 2, most, 2 * most)]
        share = most / few
        for one, expected in zip([*told, estimate(made, runs) / seconds], (1, (1 + share) / 2, share, share, share)):
            self.assertAlmostEqual(one, expected, places=6)

    def test_floor(self):
        self.assertEqual(parse_floor("dense-2"), ("dense", 0.02))
        self.assertEqual(parse_floor("95"), ("share", 0.95))
        for wrong in ("", "dense", "200", "-1", "nan", "dense-x"):
            self.assertRaises(heddle.HeddleError, parse_floor, wrong)

    def test_front(self):
        trial = lambda number, cost, accuracy, state="complete": {"number": number, "cost": cost, "accuracy": accuracy, "state": state}
        kept = front([trial(0, 3, .9), trial(1, 1, .5), trial(2, 2, .9), trial(3, 2, .9), trial(4, 1, .4),
                      trial(5, .5, 1, "stopped"), trial(6, 4, .95)])
        self.assertEqual([t["number"] for t in kept], [1, 2, 6])


@unittest.skipUnless(importlib.util.find_spec("optuna"), "needs Optuna")
class SearchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "s.jsonl"

    def test_a_search_that_was_ended_goes_on_as_if_it_had_not(self):
        run = dict(trials=14, axes=("keep", "group"))  # the last two are TPE's
        whole = small(self.folder / "whole.jsonl", **run)
        self.assertEqual(len(whole.trials), 14)
        lines = (self.folder / "whole.jsonl").read_text().splitlines(True)
        # Killed in the middle of a batch of a trial.
        places = [i for i, line in enumerate(lines) if '"kind":"trial"' in line]
        cut = places[6] + 1
        self.out.write_text("".join(lines[:cut]) + (lines[cut] if '"kind":"batch"' in lines[cut] else "") + '{"kind":"ba')
        kept = self.out.read_text().splitlines()[:-1]
        again = small(self.out, **run)
        self.assertEqual(made(again.trials), made(whole.trials))
        # What was there stands as it stood, and no batch is there twice.
        text = self.out.read_text().splitlines()
        self.assertEqual(text[:len(kept)], kept)
        done = [(r["cell"], one["id"]) for r in map(json.loads, text) if r["kind"] == "batch" for one in r["results"]]
        self.assertEqual(len(done), len(set(done)))
        # Nothing is left to do.
        small(self.out, **run)
        self.assertEqual(self.out.read_text().splitlines(), text)

    def test_another_search_is_refused(self):
        small(self.out, trials=1)
        with self.assertRaisesRegex(heddle.HeddleError, "has seed 2026, this one 7"):
            small(self.out, trials=1, seed=7)
        self.assertRaises(heddle.HeddleError, small)  # without an end
        for wrong in ({"cost": "estimate"}, {"cost": "estimate:nope"}, {"rungs": ("short",)}, {"rungs": ("x", "full")}):
            self.assertRaises(heddle.HeddleError, small, trials=1, **wrong)

    def test_rungs_stop_what_is_surely_worse(self):
        # All keys, a half of them, a twentieth: with those no short text is sorted.
        asked = [{f"keep{part}": keep for part in range(3)} for keep in (0, 1, 6)]
        with mock.patch.object(Search, "propose", lambda search: asked[len(search.trials)]):
            search = tune(LLADA, "sort", trials=3, examples=16, axes=("keep",), floor="dense-0",
                          options=dict(gen_length=32, steps=16, block_length=8))
        rungs = [[r["rung"] for r in trial["rungs"]] for trial in search.trials]
        self.assertEqual(rungs, [["short", "part", "full"]] * 2 + [["short"]])
        self.assertEqual([t["state"] for t in search.trials], ["complete", "complete", "stopped"])
        worse = search.trials[2]
        self.assertTrue(worse["below_floor"])
        self.assertLess(worse["rungs"][0]["high"], search.floor_of("short"))
        self.assertIn("the floor is", worse["why"])

    def test_what_was_tried_is_not_proposed_while_something_else_is_left(self):
        result = dict(state="complete", why="", rungs=[], cost=1.0, accuracy=1.0, low=1.0, high=1.0)
        with mock.patch.object(Search, "_climb", lambda search, schedule: dict(result)):
            search = small(trials=40, axes=("keep",), parts=1, floor="90")
        starts = len(search.space.starts())
        # The shares of columns: all 7 come, and then what was there again.
        keys = [trial["key"] for trial in search.trials]
        self.assertEqual(len(set(keys)), 7)
        self.assertEqual(len(set(keys[:starts + 7 - len(set(keys[:starts]))])), 7)

    def test_the_best_is_the_cheapest_that_passes(self):
        search = small(trials=6, cost="measured", axes=("keep",), floor="dense-0")
        self.assertEqual(search.best()["number"], min(
            (t for t in search.trials if search.passes(t)), key=lambda t: (t["cost"], -t["accuracy"]))["number"])
        self.assertAlmostEqual(search.trials[0]["cost"], search.trials[0]["rungs"][-1]["seconds"] / 8)

    def test_recall_speaks_for_answers(self):
        with mock.patch.dict("os.environ", PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}"):
            search = small(self.out, trials=3, axes=("keep",), rungs=("full", "recall"))
            shares = [t["rungs"][0]["recall"] for t in search.trials]
            self.assertAlmostEqual(shares[0], 1.0, places=5)  # dense
            self.assertTrue(all(0 < share < 1 for share in shares[1:]), shares)
            # By hand: fewer keys hold less of the mass.
            keeps = [search.recall_of(heddle.preset("pulsecol", keep=keep)) for keep in (0.05, 0.2, 0.5)]
            self.assertEqual(keeps, sorted(keeps))
            self.assertLess(keeps[0] + 0.05, keeps[2])
            again = small(self.out, trials=4, axes=("keep",), rungs=("recall", "full"))
            self.assertEqual(made(again.trials[:3]), made(search.trials))
        with mock.patch("heddle.tuning.recall.shutil.which", return_value=None):
            with self.assertRaisesRegex(heddle.HeddleError, "heddle-run records the runs"):
                small(self.out, trials=5, axes=("keep",), rungs=("recall", "full"))  # nor is a trial refused for it
        with self.assertRaisesRegex(heddle.HeddleError, "no seconds"):
            small(trials=1, cost="measured", rungs=("recall", "full"))

    def test_recall_does_not_wait_for_ever(self):
        with tempfile.TemporaryDirectory() as folder, heddle.load(LLADA) as model:
            endless = Path(folder, "endless")
            endless.write_text("#!/bin/sh\nexec sleep 600\n")
            endless.chmod(0o755)
            bundle = heddle.compile(heddle.preset("dense"), model=model)
            with mock.patch("heddle.tuning.recall.heddle_run", return_value=str(endless)):
                with self.assertRaisesRegex(heddle.HeddleError, "did not end within 1 s"):
                    recall(bundle, model, [1, 2, 3], {}, seconds=0.6)

    def test_three_trials_speak_against_one(self):
        trial = lambda recall, state, accuracy, rungs=2: {
            "state": state, "accuracy": accuracy, "below_floor": state == "stopped",
            "rungs": [{"rung": "recall", "recall": recall}, {"rung": "full"}][:rungs]}
        good = lambda t: t["state"] == "complete" and t["accuracy"] >= .9
        bad = [trial(.8, "stopped", .1), trial(.7, "stopped", .3), trial(.75, "stopped", .2)]
        self.assertEqual(hopeless(.7, bad, good), bad)
        self.assertEqual(hopeless(.71, bad, good), [])  # two
        self.assertEqual(hopeless(.6, [*bad, trial(.6, "complete", .95)], good), [])  # one that was good
        self.assertEqual(len(hopeless(.6, [*bad, trial(.6, "complete", .5)], good)), 3)
        self.assertEqual(hopeless(.6, [*bad[:2], trial(.9, "stopped", .1, 1)], good), [])  # that one was never run

    def test_the_command_writes_what_it_states(self):
        spec, bundle = self.folder / "t.mlir", self.folder / "t.hdl"
        arguments = [*FLAGS, "--trials=8", "--out", self.out, "--cost=estimate:cpu"]
        done = command(*arguments, "-o", spec)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| trial | schedule |", done.stdout)
        self.assertIn("heddle-tune: trial 7:", done.stderr)
        text = spec.read_text()
        self.assertIn("tasks      sort; 8 examples a task, seed 2026\n", text)  # no length, which short tasks have not
        right, count = map(int, re.search(r"right +(\d+) of (\d+)", text).groups())
        other = float(re.search(r"others +([\d.]+)%", text)[1])
        # heddle-eval of the file gives the score, on the examples and on the others.
        run = dict(examples=8, schedules=[str(spec)], gen_length=16, steps=4, block_length=8)
        (row,) = heddle.evaluate(LLADA, ["sort"], **run)
        self.assertEqual((row["right"], row["count"]), (right, count))
        (row,) = heddle.evaluate(LLADA, ["sort"], skip=8, **run)
        self.assertAlmostEqual(100 * row["accuracy"], other, delta=0.05)
        # Again, compiled: nothing is run anew but the file of the bundle.
        before = self.out.read_bytes()
        again = command(*arguments, "-o", bundle, "--json")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.out.read_bytes(), before)
        self.assertEqual(json.loads(again.stdout)["trials"], 8)
        compiled = heddle.Bundle.read(bundle)
        self.assertEqual(compiled.schedule, "tuned")
        # A trial of the front, and the plot.
        self.assertEqual(command("front", self.out).stdout, done.stdout)
        written = command("front", self.out, "--trial=1")
        self.assertIn("heddle.schedule @tuned", written.stdout)
        heddle.canonical(written.stdout)
        if importlib.util.find_spec("matplotlib"):
            plot = self.folder / "p.svg"
            self.assertEqual(command("plot", self.out, "-o", plot).returncode, 0)
            self.assertIn("</svg>", plot.read_text())

    def test_help_and_errors(self):
        shown = command("--help")
        self.assertEqual(shown.returncode, 0)
        self.assertIn("examples:", shown.stdout)
        folder = self.folder / "folder.mlir"
        folder.mkdir()
        self.out.write_text('{"kind": "a note"}\n')
        for code, said, *arguments in (
                (2, "--model", "--tasks=sort"),
                (2, "ends in neither", *FLAGS, "-o", "x.txt"),
                (1, "No such file", *FLAGS, "-o", "/nonexistent/x.mlir"),
                (1, "Is a directory", "front", self.out, "--trial=0", "-o", folder),
                (1, "No such file", *FLAGS, "--trials=1", "--out", "/nonexistent/r.jsonl"),
                (2, "leave --trial or --json out", "front", self.out, "--trial=0", "--json"),
                (2, "more than 0", *FLAGS, "--trials=0"),
                (1, "no task 'nope'", "--model", LLADA, "--tasks=nope"),
                (1, "no axis 'nope'", *FLAGS, "--axes=nope", "--trials=1"),
                (1, "floor: 'x'", *FLAGS, "--floor=x"),
                (1, "expected 'measured'", *FLAGS, "--cost=slow"),
                (1, "no search in it", "front", self.out),
                (1, "and no search", *FLAGS, "--trials=1", "--out", self.out),
                (1, "/dev/null/x: Not a directory", *FLAGS, "--out=/dev/null/x"),
                (1, "/nonexistent.jsonl: No such file", "front", "/nonexistent.jsonl")):
            done = command(*arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_a_file_is_confirmed_on_its_other_examples(self):
        tasks = self.folder / "t.jsonl"
        tasks.write_text("".join(json.dumps({"prompt": f"Add {i} and 1.", "answer": str(i + 1)}) + "\n" for i in range(7)))
        run = ["--model", LLADA, f"--tasks={tasks}", "--gen-length=16", "--steps=4", "--block-length=8", "--trials=1",
               "--rungs=full", "--floor=0", "--out", self.out]
        done = command(*run, "--examples=4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of 3 examples that the search has not seen (heddle-eval --skip 4)", done.stdout)
        batches = [r for r in map(json.loads, self.out.read_text().splitlines()) if r["kind"] == "batch"]
        seen = [one["id"] for batch in batches for one in batch["results"]]
        self.assertEqual([len(seen), len(set(seen))], [7, 7])
        self.out.unlink()
        done = command(*run, "--examples=7")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no confirmation", done.stderr)
        self.assertNotIn("has not seen", done.stdout)

    def test_no_schedule_reaches_the_floor(self):
        done = command("--model", LLADA, "--tasks=sort", "--examples=4", "--gen-length=8", "--steps=1", "--block-length=8",
                       "--trials=1", "--floor=100", "--cost=measured")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("no schedule reached the floor", done.stderr)

    def test_without_optuna(self):
        with mock.patch.dict(sys.modules, {"optuna": None}):
            for ends in ({"trials": 20}, {"minutes": 1}):
                made = []
                self.assertRaisesRegex(heddle.HeddleError, "heddle.tune", small, axes=("group",),
                                       on_trial=lambda trial, _: made.append(trial), **ends)
                self.assertEqual(made, [])

    def test_a_full_disk_is_no_refusal(self):
        small(self.out, trials=1)
        before, writes, write = self.out.read_bytes(), [], os.write

        def full_once(file, line):
            if bytes(line).startswith(b'{"kind":"batch"'):
                writes.append(line)
                line = line[:10] if len(writes) == 1 else line
            return write(file, line)
        with mock.patch.object(records.os, "write", full_once):
            self.assertRaisesRegex(OSError, "disk is full", small, self.out, trials=2)
        self.assertEqual(self.out.read_bytes(), before)
        self.assertEqual([t["state"] for t in small(self.out, trials=2).trials], ["complete", "complete"])

    def test_what_dense_attention_fails_at_too_is_no_refusal(self):
        shape = self.folder / "shape"
        shape.mkdir()
        config = shape / "config.json"
        config.write_bytes((LLADA / "config.json").read_bytes())
        self.assertRaisesRegex(heddle.HeddleError, "config.json", small, self.out, trials=3, cost_model=str(shape),
                               on_trial=lambda *_: config.unlink())
        generate = heddle.Model.generate
        made = []

        def fails_at(word):
            def fails(model, prompts, bundle, **options):
                if made and word in bundle.source:
                    raise heddle.HeddleError("it does not fit")
                return generate(model, prompts, bundle, **options)
            return mock.patch.object(heddle.Model, "generate", fails)
        run = lambda: small(trials=2, on_trial=lambda trial, _: made.append((trial["state"], trial["why"])))
        with fails_at("select"):
            run()
        self.assertEqual(made, [("complete", ""), ("refused", "it does not fit")])
        made.clear()
        with fails_at("attend"):
            self.assertRaisesRegex(heddle.HeddleError, "it does not fit", run)
        self.assertEqual(made, [("complete", "")])

    def test_a_file_that_lacks_a_trial_is_refused(self):
        small(trials=3, out=self.out)
        lines = self.out.read_text().splitlines(True)
        self.out.write_text("".join(line for line in lines if '"number":1,' not in line))
        said = "trial 2 follows 1 others, expected trial 1"
        self.assertRaisesRegex(heddle.HeddleError, said, small, trials=3, out=self.out)
        done = command("front", self.out)
        self.assertEqual(done.returncode, 1)
        self.assertIn(said, done.stderr)

    def test_lines_that_lack_what_is_reported_are_errors(self):
        small(trials=1, out=self.out)
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        search, trial = (next(line for line in lines if line["kind"] == kind) for kind in ("search", "trial"))
        for wrong in ({"kind": "trial"}, {**trial, "cost": None}, {**trial, "number": "0"}, {**search, "settings": {}},
                      {**search, "settings": 3}, {"kind": "search"}):
            self.out.write_text(json.dumps(wrong) + "\n")
            with self.subTest(wrong):
                self.assertRaisesRegex(heddle.HeddleError, "s.jsonl:1: expected a record", small, trials=1, out=self.out)

    def test_interrupts_and_kills_leave_the_file_good(self):
        for what, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
            with self.subTest(what):
                out = self.folder / f"{what}.jsonl"
                process = subprocess.Popen(
                    [sys.executable, "-m", "heddle.tuning.command", *map(str, FLAGS), "--trials=500", "--out", str(out)],
                    stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                self.assertIn("trial 0", process.stderr.readline())
                process.send_signal(what)
                process.communicate()
                self.assertEqual(process.returncode, code)
                with records.Records(out) as file:
                    trials = [r for r in file.records if r["kind"] == "trial"]
                    self.assertTrue(1 <= len(trials) < 500)


if __name__ == "__main__":
    unittest.main()
