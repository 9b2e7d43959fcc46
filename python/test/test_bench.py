# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the benchmarks of runs share: prompts by file, whole runs from measured steps."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import claims  # noqa: E402
import estimates  # noqa: E402
import runs  # noqa: E402
import tune  # noqa: E402

# Prints a record a step, the first of which says what it was given.
FAKE_RUN = '''#!/usr/bin/env python3
import json, sys
options = dict(zip(sys.argv[1:-1], sys.argv[2:]))
prompts = [json.loads(line)["prompt_ids"] for line in open(options["--prompts-file"])]
print(json.dumps({"step": 1, "seconds": 1, "lengths": [len(p) for p in prompts], "most": max(map(max, prompts)),
                  "argument": max(map(len, sys.argv))}), flush=True)
for step in range(1, int(options["--steps"])):
    print(json.dumps({"step": step + 1, "seconds": 2}), flush=True)
print(json.dumps({"done": True}), flush=True)
'''


# Estimates a second a step, half of it sparse, of the run that a whole log is of.
FAKE_BUNDLE = '''#!/usr/bin/env python3
import json, sys
options = dict(zip(sys.argv[1:-1], sys.argv[2:]))
lines = [json.loads(line) for line in open(options["--follow"])]
assert lines[-1] == {"done": True} and len(lines) == 5, lines
print(json.dumps({"cost": {"estimate": {"seconds": 4, "times_as_fast": 1.0}, "kinds": [
    {"what": "all", "steps": [1, 2, 3, 4], "seconds": 4}]}}))
'''

# Finds tiles of 176 keys slow, as ptxas may.
FAKE_HEDDLEC = '''#!/bin/sh
for word; do case $word in --tuning=*) table=${word#*=};; esac; done
if grep -q '"keys": 176' "$table"; then
  echo "error: it keeps 8 bytes of a thread in memory" >&2
  exit 1
fi
echo bundle > "$word"
'''

# Takes the first bundle's tiling for the fastest.
FAKE_BENCH = '''#!/usr/bin/env python3
import json, pathlib, sys
options = [arg.split("=", 1) for arg in sys.argv[1:]]
bundles = [pathlib.Path(value) for option, value in options if option == "--bundle"]
table = pathlib.Path(dict(options)["--tune"])
there = json.loads(table.read_text())["wgmma"] if table.exists() else []
table.write_text(json.dumps({"wgmma": there + json.loads(bundles[0].with_suffix(".json").read_text())["wgmma"]}))
'''


class Bench(unittest.TestCase):
    def test_tuning_writes_the_fastest_tiling(self):
        with tempfile.TemporaryDirectory() as folder:
            tools = {name: Path(folder) / name for name in ("heddlec", "heddle-bench")}
            for tool, text in zip(tools.values(), (FAKE_HEDDLEC, FAKE_BENCH)):
                tool.write_text(text)
                tool.chmod(0o755)
            form = ["--dtypes=bf16", "--head-dims=128", f"{folder}/candidates"]
            table = Path(folder) / "table.json"

            def run(*arguments):
                with mock.patch("sys.argv", ["tune.py", *arguments, *form]), \
                        contextlib.redirect_stdout(io.StringIO()) as said, \
                        contextlib.redirect_stderr(said):
                    tune.main()
                return said.getvalue()

            self.assertIn("3x176_s2_p1: error: it keeps", run("compile", f"--heddlec={tools['heddlec']}"))
            made = {path.stem for path in Path(folder).glob("candidates/bf16_d128/*.hdl")}
            self.assertIn("portable", made)
            self.assertTrue({"3x128_s2_p2", "3x128_s2_p2_tma", "3x128_s2_p2_tma2", "3x128_s2_p4_tma2_q2_sums"} <= made)
            shared = json.loads(
                (Path(folder) / "candidates/bf16_d128/3x128_s2_p2_tma2.json").read_text())
            self.assertEqual((shared["wgmma"][0]["copies"], shared["wgmma"][0]["cluster"]), ("tma", 2))
            self.assertEqual(json.loads((Path(folder) / "candidates/bf16_d128/portable.json").read_text()),
                             {"wgmma": []})
            self.assertFalse([name for name in made if "x176" in name])
            run("measure", f"--heddle-bench={tools['heddle-bench']}", "--lengths=128,64", f"--output={table}")
            [tiling] = json.loads(table.read_text())["wgmma"]
        self.assertEqual((tiling["element"], tiling["head_dim"]), ("bf16", 128))

    def test_tilings_divide_groups_and_blocks(self):
        of = {over: list(tune.tilings("bf16", 128, over))
              for over in ("all", "list/128", "list/64", "blocks/128", "blocks/64", "list/32", "shared/32")}
        self.assertEqual({t["consumers"] for t in of["all"]}, {2, 3})
        self.assertEqual({t["consumers"] for t in of["list/128"]}, {1, 2})
        self.assertEqual({(t["consumers"], t.get("blocks", 1)) for t in of["list/64"]},
                         {(1, 1), (1, 2)})
        self.assertEqual({t["keys"] for t in of["blocks/128"]}, {64, 128})
        self.assertEqual({t["keys"] for t in of["blocks/64"]}, {64})
        self.assertEqual(of["list/32"], [])
        self.assertEqual({(t["consumers"], t["over"], t["shared"]) for t in of["shared/32"]},
                         {(2, "list", True), (3, "list", True)})
        for over, stages in (("all", {None, 2}), ("shared/32", {None})):
            self.assertEqual({t.get("query_stages") for t in tune.tilings(
                "bf16", 128, over, query_stages=(0, 2))}, stages)
        self.assertEqual({t.get("over") for t in of["all"]}, {None})
        for dtype in ("bf16", "f16"):
            self.assertEqual({t.get("check_sums") for t in tune.tilings(dtype, 128, check_sums=(0, 1))}, {None, True})
        for over, order in (("all", {None, True}), ("list/128", {None, True}), ("list/64", {None}),
                            ("blocks/128", {None, True}), ("range/4096", {None}), ("shared/32", {None})):
            tried = list(tune.tilings("bf16", 128, over, ping_pong=(0, 1)))
            self.assertEqual({t.get("ping_pong") for t in tried}, order)
            self.assertEqual(len({tune.name_of(t) for t in tried}), len(tried))
        for over, tails in (("all", {None}), ("list/128", {None, 48}), ("shared/32", {None, 48}), ("blocks/128", {None})):
            tried = list(tune.tilings("bf16", 128, over, tail_keys=(0, 48)))
            self.assertEqual({t.get("tail_keys") for t in tried}, tails)
            self.assertEqual(len({tune.name_of(t) for t in tried}), len(tried))
        one = [t for t in tune.tilings("bf16", 128, "list/128", query_stages=(2,), one_ring=(0, 1))
               if t["consumers"] == 2]
        self.assertEqual({t["stages"] for t in one if "one_ring" in t}, {3, 5})
        self.assertEqual(max(t["keys"] for t in one if "one_ring" in t), 192)
        self.assertLess(max(t["keys"] for t in one if "one_ring" not in t), 192)
        self.assertEqual(len({tune.name_of(t) for t in one}), len(one))
        self.assertEqual({t["keys"] for t in tune.tilings("bf16", 128, "list/64", tail_keys=(80,))},
                         {keys for keys in {t["keys"] for t in of["list/64"]} if keys > 80})
        self.assertIn("blocks(keep = 0.1, size = 64)", tune.schedule_of("blocks/64", 0.1))
        self.assertIn("window(4096)", tune.schedule_of("range/4096", 0.1))
        near = list(tune.tilings("bf16", 128, "range/4096"))
        self.assertEqual({each["over"] for each in near}, {"range"})
        self.assertFalse(any("cluster" in each for each in near))
        scores = list(tune.tilings("bf16", 128, "scores/128"))
        self.assertEqual({(each["consumers"], each["over"]) for each in scores},
                         {(4, "scores"), (2, "scores")})
        self.assertEqual({each.get("copies") for each in scores}, {None, "tma"})
        self.assertFalse(any("cluster" in each for each in scores))
        self.assertEqual(len({tune.name_of(each) for each in scores}), len(scores))
        self.assertNotIn((4, 128, 3), {(each["consumers"], each["keys"], each["stages"])
                                       for each in scores})  # it does not fit a block
        self.assertIn("group = 64)", tune.schedule_of("scores/64", 0.1))

    def test_what_is_not_timed_has_tilings_of_its_own(self):
        given = []

        def run(command, **_):
            table = next(part for part in command if part.startswith("--tuning="))[len("--tuning="):]
            given.append(json.loads(Path(table).read_text()))
            return subprocess.CompletedProcess(command, len(given) - 1, "", "error: spilt")

        with tempfile.TemporaryDirectory() as folder, mock.patch("subprocess.run", run):
            folder = Path(folder)
            own, other = {"keys": 64}, {"over": "scores"}
            self.assertTrue(tune.compile_one("heddlec", folder, "x", "bf16", 128, [own], [other]))
            self.assertEqual(given, [{"wgmma": [own, other]}])
            # heddle-bench takes one tiling.
            self.assertEqual({each.name: json.loads(each.read_text()) for each in folder.iterdir()},
                             {"x.json": {"wgmma": [own]}})
            with contextlib.redirect_stderr(io.StringIO()):
                self.assertFalse(tune.compile_one("heddlec", folder, "y", "bf16", 128, [own], []))
            self.assertEqual([each.name for each in folder.iterdir()], ["x.json"])

    def test_long_prompts_travel_by_file(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = Path(folder) / "heddle-run"
            fake.write_text(FAKE_RUN)
            fake.chmod(0o755)
            (Path(folder) / "config.json").write_text(json.dumps(
                {"d_model": 64, "vocab_size": 1000}))
            records = runs.run_steps(str(fake), folder, "b.hdl", 200000, 8, batch=2)
            self.assertEqual(len(records), 8)
            self.assertEqual(records[0]["lengths"], [200000, 200000])
            self.assertLess(records[0]["most"], 750)
            self.assertLess(records[0]["argument"], 1000)
            self.assertEqual(len(runs.run_steps(str(fake), folder, "b.hdl", 10, 800, measured=3)), 3)

    def test_estimates_of_long_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            for name, text in (("heddle-run", FAKE_RUN), ("heddle-bundle", FAKE_BUNDLE)):
                (folder / name).write_text(text)
                (folder / name).chmod(0o755)
            (folder / "config.json").write_text(json.dumps({"d_model": 64, "vocab_size": 1000}))
            for name in ("dense", "other"):
                (folder / f"{name}.hdl").touch()
            with mock.patch("sys.argv", ["estimates.py", f"--bin={folder}", f"--model={folder}", f"--bundles={folder}",
                                         "--length=200000", "--gen-length=4", "--steps=4", "--block-length=4"]), \
                    contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertFalse(estimates.main())
        self.assertIn("other                       7.000s", said.getvalue())

    def test_claims_are_checked(self):
        page = (claims.ROOT / "README.md").read_text()
        other = claims.printed(page, "NVIDIA H100 80GB HBM3")
        self.assertEqual((other["composed"]["Heddle's dense run"], other["columns"]["eager PyTorch, FlashAttention-2"]), (15, 3.7))
        table = claims.printed(page, "NVIDIA H200")
        self.assertEqual(set(table), set(claims.CLAIMS))
        self.assertEqual(set(table["columns"]), {"eager PyTorch", "eager PyTorch, FlashAttention-2"})

        def run(factor, card="NVIDIA H200"):
            def measured(args, name, claim):
                ratios = {"eager PyTorch, cuDNN": table[name]["eager PyTorch"],
                          "eager PyTorch, FlashAttention-2": table[name].get("eager PyTorch, FlashAttention-2", 99),
                          "Heddle's dense run": table[name].get("Heddle's dense run", 1)}
                return [dict(claim=name, rival=rival, ratio=factor * ratio) for rival, ratio in ratios.items()]
            with tempfile.TemporaryDirectory() as folder:
                for name in ("run", "dense.hdl", *(f"{name}.hdl" for name in claims.CLAIMS)):
                    (Path(folder) / name).touch()
                with mock.patch("sys.argv", ["claims.py", "run", f"--heddle-run={folder}/run", f"--folder={folder}",
                                             f"--check={claims.ROOT / 'README.md'}"]), \
                        mock.patch.object(claims, "measure", measured), mock.patch.object(
                            claims, "torch", mock.MagicMock(__version__="2")) as torch, \
                        contextlib.redirect_stdout(io.StringIO()) as said:
                    torch.cuda.get_device_name.return_value = card
                    return claims.main(), said.getvalue()

        self.assertEqual(run(1.09)[0], 0)
        for factor in (0.89, 1.11):
            code, said = run(factor)
            self.assertEqual(code, 1)
            self.assertIn("composed over Heddle's dense run: 16 is printed", said)
        with self.assertRaisesRegex(SystemExit, "figures of H200, H100; this is one NVIDIA A100-SXM4"):
            run(1, "NVIDIA A100-SXM4-80GB")

    def test_dream_has_llada_names(self):
        inputs = BENCH.parents[1] / "runtime/test/model/Inputs"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(
                (inputs / "dream-7b-config.json").read_text())
            config = runs.config_of(folder)
        self.assertEqual((config["n_layers"], config["d_model"], config["n_heads"],
                          config["n_kv_heads"], config["shifted"]), (28, 3584, 28, 4, True))

    def test_steps_that_were_not_measured_count_as_the_last_periods(self):
        records = [{"seconds": s} for s in (9, 1, 2, 1, 2, 1, 2)]
        self.assertEqual(runs.seconds_of(records, 7), 18)
        self.assertEqual(runs.seconds_of(records, 9, period=2), 18 + 2 * 1.5)

    def test_kinds_of_steps(self):
        records = [dict(pairs=p, dense_pairs=100, refreshes=r, seconds=s)
                   for p, r, s in ((100, 6, 9), (20, 0, 5), (20, 0, 2), (20, 0, 3))]
        self.assertEqual(runs.seconds_by_kind(records), {(1.0, True): 9, (0.2, False): 2.5})

    def test_claims_find_their_schedules(self):
        for name, claim in claims.CLAIMS.items():
            with self.subTest(name):
                text = (claims.ROOT / f"examples/{claim.example}.mlir").read_text()
                for old, _ in claim.replace:
                    self.assertIn(old, text)
                self.assertIn(claim.model, claims.SHAPES)


class HelpTest(unittest.TestCase):
    def test_help_needs_no_pytorch(self):
        without = "import runpy, sys; sys.modules.update(dict.fromkeys(('torch', 'numpy', 'heddle'))); sys.argv = sys.argv[1:]; " \
            "sys.path.insert(0, sys.argv[0].rpartition('/')[0]); runpy.run_path(sys.argv[0], run_name='__main__')"
        for name in ("train.py", "recall.py", "parity.py", "random_checkpoint.py", "bench/gpu.py", "bench/compare.py"):
            path = BENCH.parent / name
            done = subprocess.run([sys.executable, "-c", without, str(path), "--help"], capture_output=True, text=True)
            with self.subTest(name):
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(f"  python3 python/{name} ", done.stdout)  # an example


if __name__ == "__main__":
    unittest.main()
