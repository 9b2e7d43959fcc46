# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tasks by name: the generated ones, and prompts with answers from a file."""

import json
import random
from dataclasses import dataclass, field
from typing import Callable

from .. import files
from ..errors import HeddleError
from . import long_tasks, short_tasks


@dataclass(frozen=True)
class Task:
    name: str
    #: (count, seed, length) -> examples with .prompt and .answer, at most so many; of a larger count
    #: the first are those of a smaller one
    draw: Callable
    #: options of Model.generate that fit the answers, of models sampled in blocks and by timesteps
    blocks: dict = field(default_factory=dict)
    timesteps: dict = field(default_factory=dict)
    long: bool = False  #: has a length


def _generated():
    short = {"gen_length": 32, "steps": 16}
    for name in short_tasks.TASKS:
        yield Task(name, lambda count, seed, length, name=name:
                   short_tasks.test_set(name, count, seed),
                   {**short, "block_length": 8}, {"gen_length": 32, "steps": 32, "alg": "entropy"})
    for name in long_tasks.TASKS:
        yield Task(name, lambda count, seed, length, name=name:
                   long_tasks.test_set(name, count, seed, length),
                   {"gen_length": 64, "steps": 32, "block_length": 64},
                   {"gen_length": 64, "steps": 64, "alg": "entropy"}, long=True)


GENERATED = {task.name: task for task in _generated()}
SHORT = list(short_tasks.TASKS)
LONG = list(long_tasks.TASKS)
NEEDLES = ["single", "multi_key", "multi_value", "multi_query"]
GROUPS = {"short": SHORT, "long": LONG, "needles": NEEDLES}


def _file_task(path):
    """A task of a JSON-lines file: objects with "prompt" and "answer". A seed draws from it
    without putting back."""
    examples, answers = [], {}
    try:
        for number, line in enumerate(files.read(path).decode("utf-8-sig").split("\n"), 1):
            if not line.strip():
                continue
            try:
                made = json.loads(line)
                examples.append(short_tasks.Example(path, made["prompt"], made["answer"]))
                if not (made["prompt"] + made["answer"]).encode() or not made["prompt"]:
                    raise ValueError
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise HeddleError(f"{path}:{number}: expected an object with the texts \"prompt\", not empty, and "
                                  f"\"answer\", found {line.strip()[:60]!r}") from None
            before, answer = answers.setdefault(made["prompt"], (number, made["answer"]))
            if answer != made["answer"]:
                raise HeddleError(f"{path}:{number}: line {before} has another answer to the same prompt; "
                                  "leave one of them")
    except UnicodeDecodeError as error:
        raise HeddleError(f"{path}: {error}") from None
    if not examples:
        raise HeddleError(f"{path}: there is no example in it")
    return Task(path, lambda count, seed, length:
                random.Random(f"file {seed}").sample(examples, len(examples))[:count])


def find(names) -> list:
    """The tasks of a list of names: of tasks, of groups (short, long, needles) or of JSON-lines files.
    Raises HeddleError for a name that there is not, OSError for a file that cannot be read."""
    found = {}
    for name in names:
        if name in GROUPS:
            found.update((n, GENERATED[n]) for n in GROUPS[name])
        elif name in GENERATED:
            found[name] = GENERATED[name]
        elif name.endswith(".jsonl"):
            found[name] = _file_task(name)
        else:
            raise HeddleError(f"no task '{name}'; there are {', '.join(GENERATED)}, the groups "
                              f"{', '.join(GROUPS)}, and files of prompts and answers that end in .jsonl")
    return list(found.values())
