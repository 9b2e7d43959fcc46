# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tasks over long contexts, in the manner of RULER (Hsieh et al., 2024): needles
(single, many keys, many values, many queries), chains of variables, common and
frequent words, questions over facts in two hops, and copying of code, beside
sums. A context is sentences in a random order; one right answer each.

Everything is drawn from a random.Random, so a seed names a test set. Only the
standard library is used.

  python3 long_tasks.py --task multi_key --length 512 --count 2
"""

import argparse
import random
from collections import namedtuple

import tasks

# `repeats`: numbers of the sentences that state a fact which another sentence
# states too, in its last four digits; training masks these.
Example = namedtuple("Example", "task sentences question answer repeats", defaults=((),))

COLOURS = ("red blue green white black grey brown pink gold silver pale dark bright dull "
           "old young big small wet dry warm cold soft hard").split()
SUBJECTS = "rain wind light frost smoke night dust mist snow thunder shade heat".split()
VERBS = "fell stayed turned came moved passed rose faded".split()
PLACES = "slowly outside again nearby early quietly late twice above below".split()
SIDES = "north south east west".split()
STEPS = "push pull load store jump call swap drop".split()

TASKS = ("single", "multi_key", "multi_value", "multi_query", "variables", "common",
         "frequent", "hops", "code", "sum")

# Tokens of a sentence: digits, words, and the space before a digit are one each.
FILLER, FACT, HOPS, CHAIN = 4, 9, 15, 8


def name(rng):
    """"red fox": one of 1,536."""
    return f"{rng.choice(COLOURS)} {rng.choice(tasks.NAMES)}"


def names(rng, count):
    chosen = rng.sample(range(len(COLOURS) * len(tasks.NAMES)), count)
    return [f"{COLOURS[i // len(tasks.NAMES)]} {tasks.NAMES[i % len(tasks.NAMES)]}"
            for i in chosen]


def value(rng):
    return str(rng.randrange(1000, 10000))


def filler(rng):
    return f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(PLACES)};"


def among(rng, facts, fillers):
    """`facts` in their order, `fillers` unrelated sentences between them; and
    the place of each fact."""
    total = len(facts) + max(0, fillers)
    places = sorted(rng.sample(range(total), len(facts)))
    sentences = [None] * total
    for place, fact in zip(places, facts):
        sentences[place] = fact
    return [s or filler(rng) for s in sentences], places


def needles(rng, task, length, facts, asked, values=1, repeats=0):
    """`facts` facts, of which `asked` are asked for; the first asked key has
    `values` values. `repeats` facts are stated twice."""
    keys = names(rng, facts)
    stated = [(key, value(rng)) for key in keys]
    chosen = rng.sample(range(facts), asked)
    more = [(keys[chosen[0]], value(rng)) for _ in range(values - 1)]
    again = rng.sample([i for i in range(facts) if i != chosen[0] or values == 1],
                       min(repeats, facts - 1))
    order = stated + more + [stated[i] for i in again]
    numbers = list(range(len(order)))
    rng.shuffle(numbers)
    sentences, places = among(rng, [f"{order[i][0]} is {order[i][1]};" for i in numbers],
                              (length - FACT * len(order) - 12 - 4 * asked) // FILLER)
    if values > 1:
        question = f"What are all of {keys[chosen[0]]}?"
        answer = ", ".join(order[i][1] for i in numbers if order[i][0] == keys[chosen[0]])
    else:
        question = "What is " + ", ".join(keys[i] for i in chosen) + "?"
        answer = ", ".join(stated[i][1] for i in chosen)
    twice = set(again)
    where = [place for place, i in zip(places, numbers)
             if i in twice or i >= len(stated) + len(more)]
    return Example(task, sentences, question, answer, tuple(where))


def fill(length, share, per_fact=FACT, least=2, most=1200):
    """How many facts take `share` of `length` tokens."""
    return max(least, min(most, int(length * share) // per_fact))


def single(rng, length):
    """One fact among unrelated sentences."""
    return needles(rng, "single", length, 1, 1)


def multi_key(rng, length):
    """The context is full of facts; one is asked for."""
    return needles(rng, "multi_key", length, fill(length - 16, 0.95), 1)


def multi_value(rng, length):
    """All two to four values of one key, in their order."""
    return needles(rng, "multi_value", length, fill(length - 60, 0.4), 1, rng.randint(2, 4))


def multi_query(rng, length):
    """Four keys (fewer in the shortest contexts) are asked for."""
    facts = fill(length - 40, 0.5)
    return needles(rng, "multi_query", length, facts, min(4, facts))


def variables(rng, length):
    """Which variables have a value, through assignments of each other: "let red
    fox = 4175; ... let old owl = red fox;". Chains of two or three steps."""
    steps = rng.randint(2, 3)
    chains = fill(length - 40, 0.3, CHAIN * (steps + 1), 2, 60)
    keys = names(rng, chains * (steps + 1))
    lines, chosen, answer = [], rng.randrange(chains), []
    values = [str(v) for v in rng.sample(range(1000, 10000), chains)]
    at = [0] * chains
    left = [c for c in range(chains) for _ in range(steps + 1)]
    rng.shuffle(left)
    for c in left:
        i = c * (steps + 1) + at[c]
        lines.append(f"let {keys[i]} = {keys[i - 1] if at[c] else values[c]};")
        if c == chosen:
            answer.append(keys[i])
        at[c] += 1
    sentences, _ = among(rng, lines, (length - CHAIN * len(lines) - 40) // FILLER)
    return Example("variables", sentences, f"Which are {values[chosen]}?", ", ".join(answer))


def _words(rng, task, length, counts):
    """A list of words that occur `counts[i]` times each; the three most frequent
    ones, most frequent first."""
    for i in (2, 1, 0):  # no ties among the first four
        counts[i] = max(counts[i], counts[i + 1] + 1)
    words = [f"{a} {b}" for a, b in zip(rng.sample(tasks.NAMES, len(counts)),
                                        rng.choices(STEPS, k=len(counts)))]
    drawn = [f"{w};" for w, c in zip(words, counts) for _ in range(c)]
    rng.shuffle(drawn)
    return Example(task, drawn, "Which three are most common?", ", ".join(words[:3]))


def common(rng, length):
    """Three words occur ten times as often as the others: 30%, 20% and 12%."""
    room = (length - 24) // 3
    top = [room * 30 // 100, room * 20 // 100, room * 12 // 100]
    rest = min(40, max(4, (room - sum(top)) // 2))
    return _words(rng, "common", length, top + [max(1, (room - sum(top)) // rest)] * rest)


def frequent(rng, length):
    """Word i occurs in proportion to 1 / i^1.5 (Zipf)."""
    room = (length - 24) // 3
    weights = [1 / (i + 1) ** 1.5 for i in range(min(40, max(5, room // 3)))]
    return _words(rng, "frequent", length, [max(1, int(room * w / sum(weights))) for w in weights])


def hops(rng, length):
    """"red fox is by old pond; old pond is north of big gate;": what lies on a
    side of where somebody is."""
    pairs = fill(length - 40, 0.6, HOPS, 2, 160)
    keys = names(rng, 3 * pairs)
    lines = []
    for i in range(pairs):
        a, b, c = keys[3 * i:3 * i + 3]
        lines += [f"{a} is by {b};", f"{b} is {rng.choice(SIDES)} of {c};"]
    chosen = rng.randrange(pairs)
    rng.shuffle(lines)
    sentences, _ = among(rng, lines, (length - pairs * HOPS - 40) // FILLER)
    return Example("hops", sentences, f"{keys[3 * chosen]} is by what, of what?",
                   f"{keys[3 * chosen + 1]}, {keys[3 * chosen + 2]}")


def code(rng, length):
    """The body of one of many functions, word for word."""
    steps = rng.randint(3, 5)
    tokens = 5 + 4 * steps
    count = fill(length - 60, 0.8, tokens, 2, 120)
    keys = names(rng, count)
    bodies = [" ".join(f"{rng.choice(STEPS)} {rng.randrange(10, 100)}" for _ in range(steps))
              for _ in keys]
    chosen = rng.randrange(count)
    sentences, _ = among(rng, [f"def {k}: {b};" for k, b in zip(keys, bodies)],
                         (length - count * tokens - 40) // FILLER)
    return Example("code", sentences, f"What does {keys[chosen]} do?", bodies[chosen])


def sum_(rng, length):
    """The sum of the values of two keys."""
    facts = fill(length - 40, 0.3)
    drawn = needles(rng, "sum", length, facts, 2)
    left, right = drawn.answer.split(", ")
    question = "Add " + drawn.question[len("What is "):-1].replace(", ", " and ") + "."
    return drawn._replace(question=question, answer=str(int(left) + int(right)))


GENERATORS = {"single": single, "multi_key": multi_key, "multi_value": multi_value,
              "multi_query": multi_query, "variables": variables, "common": common,
              "frequent": frequent, "hops": hops, "code": code, "sum": sum_}


def prompt(example):
    """The whole prompt: "Notes: red fox is 4175; ... What is red fox?"."""
    return "Notes: " + " ".join(example.sentences) + " " + example.question


def training_example(rng, length):
    """One example of at most `length` tokens with its question. Half of them ask
    many needles at once, with facts stated twice: an answer teaches little of a
    long context, many do."""
    length = max(length, 64)
    if rng.random() < 0.5:
        facts = fill(length, rng.uniform(0.1, 0.45))
        return needles(rng, "multi_query", length, facts,
                       min(facts, rng.choice((1, 1, 2, 4, 8))),
                       repeats=facts // 2 if rng.random() < 0.7 else 0)
    return GENERATORS[rng.choice(TASKS)](rng, length)


def test_set(task, count, seed=2026, length=4096):
    """The fixed examples of `length` tokens, or a little fewer, with the answer's
    room of 64, as tasks.Example (prompt and answer texts)."""
    rng = random.Random(f"long {task} {length} {seed}")
    drawn = (GENERATORS[task](rng, length - 64) for _ in range(count))
    return [tasks.Example(task, prompt(e), e.answer) for e in drawn]


def corpus():
    """Texts that the tokenizer is trained on: all words occur often, at the start
    of an answer too."""
    rng = random.Random(1)
    for _ in range(1500):
        for task in TASKS:
            example = GENERATORS[task](rng, 256)
            yield prompt(example)
            yield example.answer
    for _ in range(400):
        yield from tasks.NAMES + COLOURS + STEPS


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--task", choices=TASKS, default="single")
    p.add_argument("--length", type=int, default=256, help="tokens of prompt and answer")
    p.add_argument("--count", type=int, default=1)
    p.add_argument("--seed", default="2026")
    args = p.parse_args()
    for e in test_set(args.task, args.count, args.seed, args.length):
        print(f"{e.prompt}\n-> {e.answer}")


if __name__ == "__main__":
    main()
