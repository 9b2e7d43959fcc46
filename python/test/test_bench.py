# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the benchmarks of runs share: prompts by file, whole runs from measured steps."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))
import claims  # noqa: E402
import runs  # noqa: E402

# Prints a record a step, the first of which says what it was given.
FAKE_RUN = '''#!/usr/bin/env python3
import json, sys
options = dict(zip(sys.argv[1:-1], sys.argv[2:]))
prompts = [json.loads(line)["prompt_ids"] for line in open(options["--prompts-file"])]
print(json.dumps({"seconds": 1, "lengths": [len(p) for p in prompts], "most": max(map(max, prompts)),
                  "argument": max(map(len, sys.argv))}), flush=True)
for step in range(1, int(options["--steps"])):
    print(json.dumps({"seconds": 2}), flush=True)
print(json.dumps({"done": True}), flush=True)
'''


class Bench(unittest.TestCase):
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


if __name__ == "__main__":
    unittest.main()
