# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tasks whose answers a program can check, as prompt and answer texts.

The trained model in models/heddle-4m was trained on these and is judged on
these. Everything is drawn from a random.Random, so a seed names a test set.
Only the standard library is used.
"""

import random
from collections import namedtuple

Example = namedtuple("Example", "task prompt answer")

# Names that carry a value in `recall`, and the items of `copy` and `reverse`.
NAMES = (
    "amber ash bear bell bird boat book bowl card cat clay coal coin corn crow "
    "deer dog door drum dust fern fig fish flag fox frog gate gold hare hawk "
    "horn iron jade kite lake lamp leaf lily lion loom moon moss nest oak owl "
    "path pear pine pond reed ring rope rose salt sand seed ship snow star "
    "stone tree vine wolf wool").split()

# Words of the sentences that `recall` puts between its facts.
SUBJECTS = "rain wind light frost smoke night".split()
VERBS = "fell stayed turned came moved".split()
PLACES = "slowly outside again nearby early quietly".split()

TASKS = ("add", "sort", "reverse", "copy", "recall")


def add(rng, digits=None):
    """"Add 4821 and 977." -> "5798"; each number has 1 to `digits` digits."""
    most = digits or 4
    left = rng.randrange(10 ** rng.randint(1, most))
    right = rng.randrange(10 ** rng.randint(1, most))
    return Example("add", f"Add {left} and {right}.", str(left + right))


def sort(rng, count=None):
    """"Sort 52 17 90." -> "17 52 90"; distinct numbers of two digits."""
    numbers = rng.sample(range(10, 100), count or rng.randint(3, 8))
    return Example("sort", "Sort " + " ".join(map(str, numbers)) + ".",
                   " ".join(map(str, sorted(numbers))))


def reverse(rng, count=None):
    """"Reverse: stone fox." -> "fox stone"."""
    names = rng.sample(NAMES, count or rng.randint(2, 12))
    return Example("reverse", "Reverse: " + " ".join(names) + ".",
                   " ".join(reversed(names)))


def copy(rng, count=None):
    """"Copy: stone fox." -> "stone fox"."""
    names = rng.sample(NAMES, count or rng.randint(2, 12))
    return Example("copy", "Copy: " + " ".join(names) + ".", " ".join(names))


def recall(rng, facts=None, fillers=None, asked=None):
    """Facts among unrelated sentences, then a question about some of them:
    "Notes: fox is 417; rain fell early; owl is 902; What is fox?" -> "417".

    A fact takes 7 tokens, an unrelated sentence 4. Up to `asked` (1 to 3)
    names are asked for; the answers are separated by ", ".
    """
    facts = facts or rng.randint(2, 16)
    fillers = rng.randint(0, facts) if fillers is None else fillers
    asked = asked or min(rng.choice((1, 1, 2, 3)), facts)
    names = rng.sample(NAMES, facts)
    values = [str(rng.randrange(100, 1000)) for _ in names]
    lines = [f"{n} is {v};" for n, v in zip(names, values)]
    for _ in range(fillers):
        line = f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(PLACES)};"
        lines.insert(rng.randint(0, len(lines)), line)
    chosen = rng.sample(range(facts), asked)
    return Example(
        "recall",
        "Notes: " + " ".join(lines) + " What is "
        + ", ".join(names[i] for i in chosen) + "?",
        ", ".join(values[i] for i in chosen))


def recall_of_length(rng, tokens):
    """A `recall` of about `tokens` tokens in all, half of them facts."""
    facts = max(2, min(len(NAMES), int(tokens * rng.uniform(0.45, 0.95)) // 7))
    return recall(rng, facts, max(0, (tokens - 12 - facts * 7) // 4))


GENERATORS = {"add": add, "sort": sort, "reverse": reverse, "copy": copy,
              "recall": recall}


def test_set(task, count, seed=2026):
    """The fixed examples that accuracy tables are computed on: of a larger count the
    first are those of a smaller one. For `recall`, prompts of 64 to 400 tokens, over
    which the first few are spread as evenly as many."""
    rng = random.Random(f"{task} {seed}")
    if task == "recall":
        # The bits of i in reverse order: 0, 32, 16, 48, 8...
        places = (int(f"{i % 64:06b}"[::-1], 2) for i in range(count))
        return [recall_of_length(rng, 64 + 336 * place // 63) for place in places]
    return [GENERATORS[task](rng) for _ in range(count)]


def corpus():
    """Texts that the tokenizer is trained on: all words occur often."""
    rng = random.Random(1)
    for _ in range(4000):
        for task in TASKS:
            example = GENERATORS[task](rng)
            yield example.prompt
            yield example.answer
    for _ in range(400):
        yield from NAMES


def chat(prompt):
    """LLaDA's chat template around one user message."""
    return ("<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n"
            + prompt.strip() + "<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n")


def chatml(prompt):
    """Dream's chat template around one user message."""
    return ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
            f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n")
