# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The accuracy that ./check requires fails on a bug in selection: two groups of rows that
got each other's lists of columns."""

import contextlib
import io
import os
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import accuracy
from heddle_reference import schedule


def swapped(p, group, count, select=schedule.select_columns):
    """select_columns, with the lists of the first and the last group exchanged."""
    allowed = select(p, group, count)
    last = (p.shape[1] - 1) // group * group
    first_list, last_list = allowed[:, :1].clone(), allowed[:, last:last + 1].clone()
    allowed[:, :group], allowed[:, last:] = last_list, first_list
    return allowed


class SeededBugTest(unittest.TestCase):
    def check(self):
        arguments = ["accuracy.py", "--model", os.path.join(HERE, "..", "..", "models", "heddle-4m"),
                     "--backend=reference", "--schedules=pulsecol_50", "--tasks=sort,copy", "--count=2",
                     "--require", "pulsecol_50=0.9"]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            return accuracy.main(), said.getvalue()

    def test_right_lists_pass(self):
        self.assertEqual(self.check()[0], 0)

    def test_swapped_lists_fail(self):
        with mock.patch.object(schedule, "select_columns", swapped):
            outcome, said = self.check()
        self.assertEqual(outcome, 1)
        self.assertIn("pulsecol_50 is right in", said)


if __name__ == "__main__":
    unittest.main()
