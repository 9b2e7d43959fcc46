# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""parity.py must fail when anything differs: a judge that cannot say no."""

import copy
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

import parity  # noqa: E402
import schedules  # noqa: E402
from test_reference import tiny_model  # noqa: E402


class CompareTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.case = parity.block_case("columns_once_80", [[1, 2, 3], [4]], 8, 4, 4)
        cls.trace = parity.Trace(tiny_model(), cls.case)

    def judge(self, change=None):
        records = copy.deepcopy(self.trace.records)
        sequences = [list(p) + [0] * 8 for p in self.case.prompts]
        if change:
            change(records, sequences)
        good, messages, _ = parity.compare(self.case, self.trace, records, sequences)
        return good, " ".join(messages)

    def test_equal_runs_pass(self):
        self.assertEqual(self.judge(), (2, ""))

    def test_small_errors_of_confidence_pass(self):
        def change(records, _):
            records[1]["commits"][0]["confidence"] *= 1 + 0.9 * parity.RELATIVE
        self.assertEqual(self.judge(change)[0], 2)

    def test_every_difference_fails(self):
        def confidence(records, _):
            records[1]["commits"][0]["confidence"] *= 1 + 1.1 * parity.RELATIVE

        def token(records, _):
            records[2]["commits"][0]["token"] += 1

        def position(records, _):
            records[0]["commits"][0]["position"] += 5

        def missing(records, _):
            del records[3]["commits"][0]

        def prompt(_, sequences):
            sequences[0][0] += 1

        for change in (confidence, token, position, missing, prompt):
            good, message = self.judge(change)
            self.assertEqual(good, 1, change.__name__)
            self.assertIn("sequence 0", message)
        for key in ("step", "rows", "pairs", "dense_pairs", "refreshes"):
            def counter(records, _):
                records[1][key] += 1
            good, message = self.judge(counter)
            self.assertEqual(good, 0)
            self.assertIn(key, message)
        self.assertEqual(self.judge(lambda records, _: records.pop())[0], 0)


class SchedulesTest(unittest.TestCase):
    def test_names(self):
        self.assertEqual(len(schedules.BY_NAME), len(schedules.ALL))
        for entry in schedules.ALL:
            self.assertIn("@" + entry.name + " ", entry.source)
        for name in schedules.PARITY:
            self.assertIn(name, schedules.BY_NAME)


if __name__ == "__main__":
    unittest.main()
