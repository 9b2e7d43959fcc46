# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tasks over long contexts, in the manner of RULER (Hsieh et al., 2024): needles
(single, many keys, many values, many queries), chains of variables, common and
frequent words, questions over facts in two hops, and copying of code, beside
sums. A context is sentences in a random order; one right answer each.

Everything is drawn from a random.Random, so a seed names a test set. Only the
standard library is used.

  python3 -m heddle.evaluation.long_tasks --task multi_key --length 512 --count 2
"""

import argparse
import random
from collections import namedtuple

from . import short_tasks as tasks

# `repeats`: (number of a sentence, first token, end) of sentences that state what
# another one states too; training masks these tokens. Ends may count from the back.
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
FILLER, FACT, HOPS, CHAIN, SUM = 4, 9, 15, 8, 11
# What a sentence that is stated twice hides: the number of a fact, the name at the
# end or after "let", the body of a function.
NUMBER, LAST_NAME, FIRST_NAME, BODY = (-5, -1), (-3, -1), (1, 3), (4, -1)


def name(rng):
    """"red fox": one of 1,536."""
    return f"{rng.choice(COLOURS)} {rng.choice(tasks.NAMES)}"


def names(rng, count):
    chosen = rng.sample(range(len(COLOURS) * len(tasks.NAMES)), count)
    return [f"{COLOURS[i // len(tasks.NAMES)]} {tasks.NAMES[i % len(tasks.NAMES)]}"
            for i in chosen]


def value(rng):
    return str(rng.randrange(1000, 10000))


def small_value(rng):
    """Of a sum: two digits."""
    return str(rng.randrange(10, 100))


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


def twice(rng, lines, hide, count):
    """`lines` and `count` of them once more, in a random order, and what each line
    hides: one of the two that say the same hides hide[i], the others None."""
    again = rng.sample(range(len(lines)), max(0, min(count, len(lines))))
    drawn = [(line, None) for line in lines] + [(lines[i], hide[i]) for i in again]
    rng.shuffle(drawn)
    return [line for line, _ in drawn], [hides for _, hides in drawn]


def hidden_tokens(places, hides):
    return tuple((place, *tokens) for place, tokens in zip(places, hides) if tokens)


def needles(rng, task, length, facts, asked, values=1, repeats=0, draw=value):
    """`facts` facts, of which `asked` are asked for; with `values` above 1 each asked
    key has two to that many values. `repeats` facts are stated twice. The answer states
    the facts again, so that what is looked for stands before what is found. `draw` makes
    a value."""
    keys = names(rng, facts)
    chosen = rng.sample(range(facts), asked)
    count = {i: rng.randint(2, values) for i in chosen} if values > 1 else {}
    stated = [(key, draw(rng)) for i, key in enumerate(keys) for _ in range(count.get(i, 1))]
    rng.shuffle(stated)
    lines = [f"{key} is {number};" for key, number in stated]
    # A key of several values does not say which one is hidden.
    once = [i for i, (key, _) in enumerate(stated) if key not in {keys[c] for c in count}]
    kept = [line for i, line in enumerate(lines) if i not in set(once)]
    shown, hidden = twice(rng, [lines[i] for i in once], [NUMBER] * len(once), repeats)
    # Values keep their order among the others.
    order = [True] * len(kept) + [False] * len(shown)
    rng.shuffle(order)
    several, others = iter((line, None) for line in kept), iter(zip(shown, hidden))
    drawn = [next(several if is_kept else others) for is_kept in order]
    sentences, places = among(rng, [line for line, _ in drawn],
                              (length - FACT * len(drawn) - 12 - 4 * asked) // FILLER)
    what = "What are all of " if values > 1 else "What is "
    question = what + ", ".join(keys[i] for i in chosen) + "?"
    answer = "; ".join(f"{keys[i]} is {number}" for i in chosen
                       for key, number in stated if key == keys[i])
    return Example(task, sentences, question, answer,
                   hidden_tokens(places, [hides for _, hides in drawn]))


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
    return needles(rng, "multi_value", length, fill(length - 60, 0.4), 1, 4)


def multi_query(rng, length):
    """Four keys (fewer in the shortest contexts) are asked for."""
    facts = fill(length - 40, 0.5)
    return needles(rng, "multi_query", length, facts, min(4, facts))


def variables(rng, length, repeats=0, asked=1):
    """Which variables have a value, through assignments of each other: "let red
    fox = 4175; ... let old owl = red fox;". Chains of two or three steps. `repeats`: the share
    of the assignments that are stated twice. `asked`: how many chains are asked for."""
    steps = rng.randint(2, 3)
    chains = fill(length - 40, 0.3 / (1 + repeats), CHAIN * (steps + 1), max(2, asked), 60)
    keys = names(rng, chains * (steps + 1))
    chosen = rng.sample(range(chains), asked)
    answer = {c: [] for c in chosen}
    values = [str(v) for v in rng.sample(range(1000, 10000), chains)]
    lines, hide = [], []
    at = [0] * chains
    left = [c for c in range(chains) for _ in range(steps + 1)]
    rng.shuffle(left)
    for c in left:
        i = c * (steps + 1) + at[c]
        lines.append(f"let {keys[i]} = {keys[i - 1] if at[c] else values[c]};")
        hide.append(FIRST_NAME if rng.random() < 0.7 else LAST_NAME if at[c] else NUMBER)
        if c in answer:
            answer[c].append(lines[-1][len("let "):-1])
        at[c] += 1
    if repeats:
        lines, hide = twice(rng, lines, hide, int(len(lines) * repeats))
    else:
        hide = [None] * len(lines)
    sentences, places = among(rng, lines, (length - (CHAIN + 1) * len(lines) - 40) // FILLER)
    return Example("variables", sentences, f"Which are {', '.join(values[c] for c in chosen)}?",
                   "; ".join(sum(answer.values(), [])), hidden_tokens(places, hide))


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


def hops(rng, length, repeats=0):
    """"red fox is by old pond; old pond is north of big gate;": what lies on a
    side of where somebody is. `repeats`: the share of the sentences that are stated twice."""
    pairs = fill(length - 40, 0.6 / (1 + repeats), HOPS, 2, 160)
    keys = names(rng, 3 * pairs)
    lines = []
    for i in range(pairs):
        a, b, c = keys[3 * i:3 * i + 3]
        lines += [f"{a} is by {b};", f"{b} is {rng.choice(SIDES)} of {c};"]
    chosen = rng.randrange(pairs)
    answer = f"{lines[2 * chosen]} {lines[2 * chosen + 1]}"[:-1]
    lines, hide = twice(rng, lines, [LAST_NAME] * len(lines), int(len(lines) * repeats))
    sentences, places = among(rng, lines, (length - HOPS * len(lines) // 2 - 40) // FILLER)
    return Example("hops", sentences, f"{keys[3 * chosen]} is by what, of what?", answer,
                   hidden_tokens(places, hide))


def code(rng, length, repeats=0):
    """One of many functions, word for word. `repeats`: the share that is stated twice."""
    steps = rng.randint(3, 5)
    tokens = 5 + 4 * steps
    count = fill(length - 60, 0.8 / (1 + repeats), tokens, 2, 120)
    keys = names(rng, count)
    bodies = [" ".join(f"{rng.choice(STEPS)} {rng.randrange(10, 100)}" for _ in range(steps))
              for _ in keys]
    chosen = rng.randrange(count)
    lines, hide = twice(rng, [f"def {k}: {b};" for k, b in zip(keys, bodies)], [BODY] * count,
                        int(count * repeats))
    sentences, places = among(rng, lines, (length - len(lines) * tokens - 40) // FILLER)
    return Example("code", sentences, f"What does {keys[chosen]} do?",
                   f"{keys[chosen]}: {bodies[chosen]}", hidden_tokens(places, hide))


def stated_sum(a, b):
    return f"{a}+{b}={int(a) + int(b)}"


def sum_(rng, length, sums=1):
    """The sum of the values of two keys, after both: "55+45=100"; or several `sums`."""
    facts = fill(length - 40, 0.3, least=2 * sums)
    drawn = needles(rng, "sum", length, facts, 2 * sums, draw=small_value)
    keys = drawn.question[len("What is "):-1].split(", ")
    stated = drawn.answer.split("; ")
    question = "Add " + ", ".join(" and ".join(pair) for pair in zip(keys[::2], keys[1::2])) + "."
    answer = "; ".join(f"{a}; {b}; {stated_sum(a.split()[-1], b.split()[-1])}"
                       for a, b in zip(stated[::2], stated[1::2]))
    return drawn._replace(question=question, answer=answer)


GENERATORS = {"single": single, "multi_key": multi_key, "multi_value": multi_value,
              "multi_query": multi_query, "variables": variables, "common": common,
              "frequent": frequent, "hops": hops, "code": code, "sum": sum_}


def prompt(example):
    """The whole prompt: "Notes: red fox is 4175; ... What is red fox?"."""
    return "Notes: " + " ".join(example.sentences) + " " + example.question


def many_needles(rng, length, values=1):
    """As many keys asked for as fit in a quarter of `length`, 24 at most, each with two to
    `values` values if that is above 1. Most texts state their facts twice."""
    asked = max(1, min(rng.choice((1, 2, 4, 8, 16, 24)), length // 4 // (FACT + 3)))
    asked = max(1, asked // values)
    room = length - asked * values * FACT
    facts = max(asked, fill(room, rng.uniform(0.1, 0.45)))
    again = facts if rng.random() < 0.7 else 0
    return needles(rng, "multi_value" if values > 1 else "multi_query", room, facts, asked,
                   values, again)


def many_chains(rng, length):
    """Several chains of variables asked for. The answer takes 8 tokens an assignment."""
    asked = max(1, min(rng.choice((1, 1, 1, 2, 4)), length // 4 // (4 * CHAIN + 6)))
    return variables(rng, length - 16 - asked * (4 * CHAIN + 6), rng.choice((0, 0, 0.5, 1)), asked)


def many_sums(rng, length):
    """Several sums asked for: 37 tokens of question and answer each. The context states other
    sums, and hides their totals."""
    sums = max(1, min(rng.choice((1, 2, 4, 8, 16)), length // 3 // (3 * FACT + SUM)))
    room = length - sums * (2 * FACT + SUM)
    lines = [stated_sum(small_value(rng), small_value(rng)) + ";"
             for _ in range(int(room * rng.uniform(0, 0.6)) // SUM)]
    drawn = sum_(rng, room - SUM * len(lines), sums)
    places = set(rng.sample(range(len(lines) + len(drawn.sentences)), len(lines)))
    stated, others = iter(lines), iter(drawn.sentences)
    sentences = [next(stated if i in places else others)
                 for i in range(len(lines) + len(drawn.sentences))]
    hidden = tuple((i, sentences[i].index("=") - len(sentences[i]) + 1, -1) for i in sorted(places))
    return drawn._replace(sentences=sentences, repeats=hidden)


# Of 100 examples, how many are of which kind, where there is room for all.
TRAINING = ((14, many_needles),
            (22, lambda rng, length: many_needles(rng, length, rng.randint(2, 4))),
            (16, many_chains),
            (6, lambda rng, length: rng.choice((hops, code))(rng, length - 48,
                                                             rng.choice((0, 0.5, 1)))),
            (24, many_sums),
            (10, lambda rng, length: rng.choice((common, frequent))(rng, length - 16)),
            (8, lambda rng, length: GENERATORS[rng.choice(TASKS)](rng, length - 40)))


def training_example(rng, length):
    """One example of at most `length` tokens with its question and its answer, now and then
    a few more. Most ask for many needles at once or state facts twice: one answer teaches
    little of a long context, many do."""
    if length < 128:
        return many_needles(rng, max(length, 64))
    weights, kinds = zip(*TRAINING)
    return rng.choices(kinds, weights)[0](rng, length)


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
