# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sparsity schedules for diffusion language models: write, compile, run.

    >>> import heddle
    >>> from heddle import attend, columns, sinks, uniform, window
    >>> schedule = attend(columns(keep=0.2, group=64) | window(128) | sinks(4),
    ...                   refresh=uniform(0.3, 16))
    >>> model = heddle.load("models/heddle-4m")
    >>> bundle = heddle.compile(schedule, model=model)
    >>> model.generate("Sort 52 17 90 33.", bundle).texts
    ['17 33 52 90']

Importing it loads neither the runtime nor NumPy; loading a model does.
"""

from . import scores
from .compiler import Bundle, canonical, compile, explain
from .errors import HeddleError, ScheduleError, ScheduleWarning
from .evaluation import evaluate
from .kernels import Attention, Plan, Selection, attention, plan, select
from .model import Generation, Model, Step, load, set_threads
from .parse import parse
from .presets import preset, presets
from .schedule import (Cadence, Pairs, Positions, Schedule, Source, all_positions, at, at_step,
                       attend, attention_outside, before_block, block, blocks, columns, commit, committed, decoded,
                       dense, every, first, from_block, geometric, least_similar, never,
                       next_positions, pairs, power, prompt, random, recompute, response, reuse,
                       salient, salient_ffn, schedule, single, sinks, undecoded, uniform, visible,
                       window)


def __getattr__(name):
    """__version__, of the installed package."""
    if name != "__version__":
        raise AttributeError(f"module 'heddle' has no attribute '{name}'")
    from importlib.metadata import PackageNotFoundError, version
    try:
        return version("heddle")
    except PackageNotFoundError:  # a checkout's folder on the path
        return "0+unknown"


def patch(model, schedule, *, steps, gen_length=None, block_length=None):
    """Has a model of PyTorch attend as a schedule says, from the next forward pass on, and returns a
    heddle.transformers.Patch, which undoes it.

    model: LLaDA or Dream as released, or a bidirectional model of Transformers. schedule: statements of attend(), MLIR
    text, or a Bundle. steps: forward passes of a run. gen_length: tokens of the response, which a schedule may tell from
    the prompt. block_length: tokens of a block, for cadences in one. Raises HeddleError for other models and schedules,
    ScheduleError for what the compiler refuses, TypeError and ValueError for what are no such numbers.
    help(heddle.transformers.patch) says more."""
    from .transformers import patch as apply
    return apply(model, schedule, steps=steps, gen_length=gen_length, block_length=block_length)


# `import *` leaves the builtin compile and Python's module random alone.
__all__ = [name for name in dir() if not name.startswith("_")
           and name not in ("compile", "random", "compiler", "errors", "evaluation", "files", "kernels", "model",
                            "mlir")]
