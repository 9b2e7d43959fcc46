# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every prompt of long_tasks.py has its answer in it: found here from the text
alone, by other means."""

import os
import random
import re
import sys
import unittest
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import long_tasks


def solve(task, prompt):
    """The answer, from the prompt's text."""
    body, question = re.fullmatch(r"Notes: (.*); ([A-Z].*|\w+ \w+ is by what, of what\?)",
                                  prompt).groups()
    sentences = body.split("; ")
    facts = [m.groups() for m in (re.fullmatch(r"(\w+ \w+) is (\d+)", s) for s in sentences) if m]
    keys = re.findall(r"(?:is|of|Add|,|and) (\w+ \w+)", question)
    if task == "multi_value":
        return ", ".join(v for k, v in facts if k == keys[0])
    if task == "sum":
        return str(sum(int(dict(facts)[k]) for k in keys))
    if task in ("single", "multi_key", "multi_query"):
        return ", ".join(dict(facts)[k] for k in keys)
    if task == "variables":
        wanted, found = question.split()[-1][:-1], []
        for s in sentences:
            m = re.fullmatch(r"let (\w+ \w+) = (.*)", s)
            if m and (m[2] == wanted or m[2] in found):
                found.append(m[1])
        return ", ".join(found)
    if task in ("common", "frequent"):
        counts = Counter(sentences).most_common(4)
        assert len({c for _, c in counts}) == len(counts), "ties"
        return ", ".join(w for w, _ in counts[:3])
    if task == "hops":
        near = dict(m.groups() for m in (re.fullmatch(r"(\w+ \w+) is by (\w+ \w+)", s)
                                         for s in sentences) if m)
        sides = dict(m.groups() for m in (re.fullmatch(r"(\w+ \w+) is \w+ of (\w+ \w+)", s)
                                          for s in sentences) if m)
        first = near[question.split(" is by")[0]]
        return f"{first}, {sides[first]}"
    key = re.search(r"does (\w+ \w+) do", question)[1]
    return next(s for s in sentences if s.startswith(f"def {key}: "))[len(f"def {key}: "):]


class Answers(unittest.TestCase):
    def test_answers_are_in_the_text(self):
        for task in long_tasks.TASKS:
            for length in (128, 300, 2048):
                for example in long_tasks.test_set(task, 12, 5, length):
                    self.assertEqual(solve(task, example.prompt), example.answer, example)

    def test_a_seed_names_a_test_set(self):
        for task in long_tasks.TASKS:
            drawn = [long_tasks.test_set(task, 3, seed, 256) for seed in (1, 1, 2)]
            self.assertEqual(drawn[0], drawn[1])
            self.assertNotEqual(drawn[0], drawn[2])

    def test_repeats_are_stated_twice(self):
        rng = random.Random(3)
        seen = 0
        for _ in range(60):
            example = long_tasks.training_example(rng, 400)
            counts = Counter(example.sentences)
            for place in example.repeats:
                self.assertEqual(counts[example.sentences[place]], 2)
                self.assertRegex(example.sentences[place], r" is \d{4};$")
                seen += 1
        self.assertGreater(seen, 100)


if __name__ == "__main__":
    unittest.main()
