# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python/bench/patched.py goes through all that it times, on the host at tiny sizes."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from common import ROOT

SCRIPT = ROOT / "python" / "bench" / "patched.py"


def flexes():
    try:
        return importlib.util.find_spec("torch.nn.attention.flex_attention") is not None
    except ModuleNotFoundError:
        return False


class PatchedBenchTest(unittest.TestCase):
    def run_it(self, *options):
        return subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True)

    @unittest.skipUnless(flexes(), "needs PyTorch 2.5")
    def test_all_of_it_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_it("compile", folder, "--device=cpu")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            out = Path(folder) / "rows.jsonl"
            done = self.run_it("run", folder, "--device=cpu", "--shape=tiny", "--lengths=256,384", f"--json={out}")
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = [json.loads(line) for line in out.read_text().splitlines()]
            self.assertEqual([(row["model"], row["tokens"]) for row in rows],
                             [("llada", 256), ("llada", 384), ("dream", 256), ("dream", 384)])
            for row in rows:
                self.assertTrue(all(row[each] > 0 for each in ("sdpa", "flex", "dense", "choosing", "columns")), row)
                self.assertLess(row["differs"], 1e-4)
                shown = [f"{row[each]:,.1f}" for each in ("sdpa", "flex", "dense", "choosing", "columns")]
                gains = [f"{row[each] / row['columns']:.2f}" for each in ("sdpa", "flex")]
                self.assertIn(f"| {row['tokens']} | {' | '.join(shown + gains)} |", done.stdout)
            done = self.run_it("run", folder, "--device=cpu", "--shape=tiny", "--lengths=256", "--models=dream", "--no-flex")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"\| 256 \| [\d.,]+ \| - \| [\d.,]+ \|.*\| - \|\n")

    def test_wrong_options(self):
        for options, said in ((["--models=gpt"], "--models: expected some of llada, dream, found gpt"),
                              (["--models="], "found none"), (["--lengths=100"], "multiples of 128"),
                              (["--lengths=128,x"], "multiples of 128")):
            done = self.run_it("run", "/nonexistent", *options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
