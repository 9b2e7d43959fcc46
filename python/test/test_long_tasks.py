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

from heddle.evaluation import long_tasks


def solve(task, prompt):
    """The answer, from the prompt's text."""
    body, question = re.fullmatch(r"Notes: (.*); ([A-Z].*|\w+ \w+ is by what, of what\?)",
                                  prompt).groups()
    sentences = body.split("; ")
    facts = [m.groups() for m in (re.fullmatch(r"(\w+ \w+) is (\d+)", s) for s in sentences) if m]
    keys = re.findall(r"(?:is|of|Add|,|and) (\w+ \w+)", question)
    said = [f"{k} is {v}" for wanted in keys for k, v in facts if k == wanted]
    if task == "sum":
        a, b = (s.split()[-1] for s in said)
        return "; ".join([*said, f"{a}+{b}={int(a) + int(b)}"])
    if task in ("single", "multi_key", "multi_value", "multi_query"):
        return "; ".join(said)
    if task == "variables":
        wanted, found = question.split()[-1][:-1], {}
        for s in sentences:
            m = re.fullmatch(r"let (\w+ \w+) = (.*)", s)
            if m and (m[2] == wanted or m[2] in found):
                found[m[1]] = f"{m[1]} = {m[2]}"
        return "; ".join(found.values())
    if task in ("common", "frequent"):
        counts = Counter(sentences).most_common(4)
        assert len({c for _, c in counts}) == len(counts), "ties"
        return ", ".join(w for w, _ in counts[:3])
    if task == "hops":
        near = dict(m.groups() for m in (re.fullmatch(r"(\w+ \w+) is by (\w+ \w+)", s)
                                         for s in sentences) if m)
        first = question.split(" is by")[0]
        second = next(s for s in sentences if re.match(rf"{near[first]} is \w+ of ", s))
        return f"{first} is by {near[first]}; {second}"
    key = re.search(r"does (\w+ \w+) do", question)[1]
    return next(s for s in sentences if s.startswith(f"def {key}: "))[len("def "):]


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
        seen = sums = 0
        for _ in range(200):
            example = long_tasks.training_example(rng, 400)
            counts = Counter(example.sentences)
            hidden = [example.sentences[place] for place, _, _ in example.repeats]
            if example.task == "sum":
                # What is hidden can be computed.
                for sentence in hidden:
                    a, b, total = map(int, re.findall(r"\d+", sentence))
                    self.assertEqual(a + b, total, sentence)
                sums += len(hidden)
                continue
            self.assertEqual(len(set(hidden)), len(hidden))
            for sentence in hidden:
                self.assertEqual(counts[sentence], 2)
            seen += len(hidden)
        self.assertGreater(seen, 400)
        self.assertGreater(sums, 100)

    def test_training_examples_fit(self):
        # Words, digits, and the space before a number, are a token each.
        rng = random.Random(4)
        long = 0
        for total in (96, 128, 256, 512, 2048):
            for _ in range(150):
                example = long_tasks.training_example(rng, total)
                text = f"{long_tasks.prompt(example)} {example.answer}"
                tokens = len(re.findall(r"[a-z]+|[A-Z][a-z]*|\d| (?=\d)|[;:=?,.]", text))
                long += tokens > total
        self.assertLess(long, 40)  # training draws another one then


if __name__ == "__main__":
    unittest.main()
