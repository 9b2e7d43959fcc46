# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""device_check.py must fail when a device differs, and let ties pass."""

import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import device_check  # noqa: E402


def commit(sequence, position, token, confidence):
    return {"sequence": sequence, "position": position, "token": token, "confidence": confidence}


def run():
    """Two sequences, two steps."""
    same = {"block": 0, "rows": 16, "logit_rows": 8, "pairs": 100000, "dense_pairs": 100000,
            "score_pairs": 0, "refreshes": 0}
    return {"prompt_lengths": [4, 4], "sequences": [[1] * 8, [2] * 8], "records": [
        {"step": 1, **same, "commits": [commit(0, 5, 7, 0.9), commit(1, 4, 8, 0.99999)]},
        {"step": 2, **same, "commits": [commit(0, 6, 9, 0.5), commit(1, 6, 9, 0.25)]}]}


class CompareTest(unittest.TestCase):
    def judge(self, change):
        device = run()
        change(device, device["records"][0]["commits"])
        return device_check.compare(run(), device)

    def test_equal_runs_pass(self):
        result = self.judge(lambda *_: None)
        self.assertEqual((result["steps"], result["of"], result["ties"], result["errors"]),
                         (4, 4, [], []))

    def test_another_position_as_sure_is_a_tie_and_ends_the_sequence(self):
        def change(device, commits):
            commits[0].update(position=6, confidence=0.90005)
            device["sequences"][0] = [3] * 8
        result = self.judge(change)
        self.assertEqual((result["steps"], len(result["ties"]), result["errors"]), (2, 1, []))

    def test_another_token_as_likely_is_a_tie(self):
        result = self.judge(lambda _, commits: commits[0].update(token=1))
        self.assertEqual((len(result["ties"]), result["errors"]), (1, []))

    def test_candidates_that_are_merely_all_sure_are_no_tie(self):
        # 1 - confidence is 1e-5 and 5e-5.
        result = self.judge(lambda _, c: c[1].update(position=5, confidence=0.99995))
        self.assertEqual((result["ties"], len(result["errors"])), ([], 1))

    def test_every_difference_fails(self):
        def position(_, commits):
            commits[0].update(position=6, confidence=0.8)

        def token(_, commits):
            commits[0].update(token=1, confidence=0.8)

        def confidence(_, commits):
            commits[0].update(confidence=0.902)

        def no_number(_, commits):
            commits[0].update(token=1, confidence=None)

        def only_no_number(_, commits):
            commits[0].update(confidence=None)

        def missing(_, commits):
            del commits[0]

        def step(device, _):
            del device["records"][1]

        def sequence(device, _):
            device["sequences"][1][0] = 5

        def prompt(device, _):
            device["prompt_lengths"][1] = 5

        def pairs(device, _):
            device["records"][0]["pairs"] = 90000

        for change in (position, token, confidence, no_number, only_no_number, missing, step,
                       sequence, prompt, pairs):
            self.assertTrue(self.judge(change)["errors"], change.__name__)
        for key in device_check.COUNTS:
            def count(device, _, key=key):
                device["records"][0][key] += 1
            self.assertTrue(self.judge(count)["errors"], key)

    def test_a_tie_that_is_not_one_number_is_refused(self):
        host = {5: (7, 0.9)}
        self.assertEqual(device_check.tie_gaps(host, {5: (8, float("nan"))})[0], float("inf"))
        self.assertEqual(device_check.tie_gaps(host, {})[0], float("inf"))


if __name__ == "__main__":
    unittest.main()
