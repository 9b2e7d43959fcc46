# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs tasks under schedules. The command line, Python and the plugin of lm-evaluation-harness
all go through here."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Callable, Optional

from .. import compiler, model as models
from ..errors import HeddleError
from .records import Records
from .statistics import WORK, summarize
from .sweep import sweep
from .tasks import find

WHOLE = 1 << 30  # bytes of weights that are digested, not only named
MOST = 1 << 20  # examples of a task, tokens of a prompt: more are a slip, and would be drawn for hours


def fingerprint(folder) -> str:
    """Which model it is: a digest of the folder's configuration, tokenizer and weights (of weights
    above 1 GiB their names, sizes and times)."""
    digest = hashlib.sha256()
    names = sorted(n for n in os.listdir(folder)
                   if n.endswith((".json", ".safetensors", ".txt")))
    paths = [os.path.join(folder, name) for name in names]
    whole = sum(map(os.path.getsize, paths)) <= WHOLE
    for name, path in zip(names, paths):
        digest.update(name.encode() + b"\0")
        if whole or not name.endswith(".safetensors"):
            with open(path, "rb") as file:
                while part := file.read(1 << 20):
                    digest.update(part)
        else:
            stat = os.stat(path)
            digest.update(f"{stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def digest(value) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def run_batch(model, bundle, prompts, options, on_step: Optional[Callable] = None) -> dict:
    """One batch of prompts: {"texts": [...], "steps", "tokens", "rows", "pairs",
    "dense_pairs", "operations", "seconds"}, the work of the whole batch; and of steps whose layers look for rows
    that have changed those found, in a layer's mean, "salient_rows", of "salient_of"."""
    work = dict.fromkeys(WORK, 0)

    found = {"salient_rows": 0.0, "salient_of": 0}

    def watch(step):
        for name in ("rows", "pairs", "dense_pairs", "operations"):
            work[name] += getattr(step, name)
        work["tokens"] += len(step.tokens) - 2 * int(step.revoked.sum()) - int(step.edited.sum())
        if step.salient_rows:
            found["salient_rows"] += sum(step.salient_rows) / len(step.salient_rows)
            found["salient_of"] += step.rows
        return on_step(step) if on_step else None

    made = model.generate(prompts, bundle, on_step=watch, **options)
    if not made.complete:
        raise KeyboardInterrupt
    work["seconds"] = made.seconds
    return {"texts": made.texts, "steps": made.steps, **work, **found}


def distinct(examples, skip=0) -> list:
    """Those behind the first `skip`, without prompts that came before."""
    first = {}
    for number, example in enumerate(examples):
        first.setdefault(example.prompt, number)
    return [e for number, e in enumerate(examples) if number >= skip and first[e.prompt] == number]


@dataclass
class Cell:
    """A schedule with its settings on a task: what a row of a table is."""
    key: str
    about: dict  #: schedule, settings, task, length, seed, model, device, options
    schedule: object
    examples: list
    options: dict  #: of Model.generate
    done: dict = field(default_factory=dict)  #: {prompt's id: the answer that it was judged by}

    def left(self):
        return [e for e in self.examples if self.done.get(digest(e.prompt)) != e.answer]


class Plan:
    """Everything that is to be run, and what of it a file has already."""

    def __init__(self, model, *, tasks, schedules=("dense",), settings=None, examples=64,
                 skip=0, length=1024, seed=2026, options=None, records=()):
        if not 1 <= examples <= MOST:
            raise HeddleError(f"examples: expected 1 to {MOST}, found {examples}")
        if not 0 <= skip <= MOST:
            raise HeddleError(f"skip: expected 0 to {MOST}, found {skip}")
        lengths = [length] if isinstance(length, int) else list(length)
        given = {k: v for k, v in (options or {}).items() if v is not None}
        which = fingerprint(model.folder)
        by_timesteps = model.config["sampler"] == "timesteps"
        done = {}
        for record in records:
            if record.get("kind") == "batch":
                done.setdefault(record["cell"], {}).update((r["id"], r["answer"]) for r in record["results"])
        self.model, cells = model, {}
        for name, chosen, schedule in sweep(schedules, settings or {}):
            text = str(schedule)
            for task in find(tasks):
                drawn = task.timesteps if by_timesteps else task.blocks
                used = {"temperature": 0.0, **drawn, **given}
                for size in lengths if task.long else [None]:
                    if size is not None and not 128 <= size <= MOST:
                        raise HeddleError(f"length: expected 128 to {MOST} tokens, found {size}")
                    about = {"model": os.path.basename(os.path.abspath(model.folder)),
                             "device": model.device, "dtype": model.dtype, "schedule": name,
                             "settings": chosen, "task": task.name, "length": size, "seed": seed,
                             "options": used}
                    key = digest([which, text, about])
                    if key not in cells:  # what is given twice runs once
                        cells[key] = Cell(key, about, schedule, distinct(task.draw(skip + examples, seed, size), skip),
                                          used, done.get(key, {}))
        self.cells = list(cells.values())

    def wanted(self):
        """{cell: ids of the prompts that it has}."""
        return {cell.key: {digest(e.prompt) for e in cell.examples} for cell in self.cells}

    def __len__(self):
        """Examples that are left."""
        return sum(len(cell.left()) for cell in self.cells)

    def run(self, batch=16, on_batch=None, on_step=None):
        """Yields a record a batch. Schedules are compiled when their turn comes."""
        if batch < 1:
            raise HeddleError(f"batch: expected 1 or more, found {batch}")
        bundles = {}
        for cell in self.cells:
            left = cell.left()
            for first in range(0, len(left), batch):
                text = str(cell.schedule)
                if text not in bundles:
                    bundles = {text: compiler.compile(cell.schedule, model=self.model, crossovers="none")}
                examples = left[first:first + batch]
                made = run_batch(self.model, bundles[text], [e.prompt for e in examples],
                                 cell.options, on_step)
                results = [{"id": digest(e.prompt), "right": t == e.answer, "text": t,
                            "answer": e.answer} for e, t in zip(examples, made.pop("texts"))]
                yield {"kind": "batch", "cell": cell.key, **cell.about,
                       "machine": self.model.machine, "date": time.strftime("%Y-%m-%d"), **made,
                       "results": results}


def evaluate(model, tasks, *, schedules=("dense",), settings=None, examples: int = 64,
             skip: int = 0, length=1024, batch: int = 16, seed: int = 2026, out=None, device: str = "cpu",
             dtype=None, on_batch: Optional[Callable] = None, **options) -> list:
    """Runs tasks under schedules and returns a row of figures for each (statistics.summarize): among them "right" of
    "count" answers, their share "accuracy" with its 95% interval "low" to "high" (source: Wilson, 1927), "steps" of
    a sequence, "tokens", (query, key) "pairs", floating-point "operations", "seconds" by the clock.

    model: a folder, or a heddle.Model (then device and dtype are its own). tasks: names of
    tasks, of the groups "short", "long", "needles", or files of {"prompt", "answer"} lines.
    schedules: presets' names, files, expressions, or functions of parameters that return one. settings: {"keep": ["1/10", "1/5"]}, swept
    for the presets that have the parameter. examples, skip: of each task, behind the first `skip` that the seed
    draws. length: tokens of the long tasks' prompts and answers, or
    several. out: a file of JSON lines; what it has is not run again, and of it these examples alone count.
    batch: examples at once. on_batch: called with (record, examples done, of how many). Options are those of Model.generate. An answer is right when
    the text is the expected one, letter for letter; temperature is 0 unless it is given.

    Raises HeddleError for names that there are not, OSError for files that cannot be read or written; KeyboardInterrupt leaves `out` good."""
    if isinstance(tasks, str):
        tasks = [tasks]
    if isinstance(schedules, str) or not hasattr(schedules, "__iter__"):
        schedules = [schedules]
    find(tasks)  # what is wrong is said before a model is loaded
    sweep(schedules, settings or {})
    with models.opened(model, device, dtype) as model, Records(out) if out is not None else nullcontext() as file:
        plan = Plan(model, tasks=tasks, schedules=schedules, settings=settings,
                    examples=examples, skip=skip, length=length, seed=seed, options=options,
                    records=file.records if file else ())
        for cell in plan.cells:
            if not cell.examples:
                raise HeddleError(f"skip: {skip} passes over all examples of {cell.about['task']}")
        total, done, records = len(plan), 0, list(file.records if file else ())
        for record in plan.run(batch):
            if file:
                file.append(record)
            records.append(record)
            done += len(record["results"])
            if on_batch:
                on_batch(record, done, total)
        return summarize(records, plan.wanted())
