# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedules with their parameters swept: keep=10,20,50 percent."""

import itertools
import re
from fractions import Fraction
from pathlib import Path

from ..compiler import Source
from ..errors import HeddleError
from ..parse import with_parameters
from ..presets import preset, presets
from ..schedule import Schedule


def parse_setting(text) -> tuple:
    """("keep", ["1/10", "1/5"]) of "keep=10,20 percent". Whole numbers are ints."""
    found = re.fullmatch(r"(\w+)=([0-9./, ]+?)( *percent)?", text.strip())
    if not found:
        raise HeddleError(f"'{text}': expected NAME=VALUE[,VALUE...], for shares with 'percent' behind, "
                          "such as 'keep=10,20,50 percent' or group=32,64")
    values = []
    for word in found[2].split(","):
        try:
            number = Fraction(word.strip())
        except (ValueError, ZeroDivisionError):
            raise HeddleError(f"'{text}': '{word.strip()}' is no number") from None
        if found[3]:
            number /= 100
        plain = re.fullmatch(r"\d+", word.strip()) and not found[3]
        values.append(int(number) if plain else str(number))
    return found[1], values


def parse_settings(texts) -> dict:
    """{"keep": ["1/10", "1/5"], "group": [32]} of several such texts. Values of one name add up; equal ones count once."""
    settings = {}
    for name, values in map(parse_setting, texts):
        settings[name] = list(dict.fromkeys(settings.get(name, []) + values))
    return settings


def make(schedule, settings) -> tuple:
    """(name, schedule) of a schedule with parameters set. schedule: a heddle.Schedule, a function of the parameters
    that returns one, a preset's name, or the path of a file of MLIR."""
    if isinstance(schedule, Schedule):
        if settings:
            raise TypeError(f"schedule @{schedule.name} is an expression: it has no parameter "
                            f"{', '.join(settings)}")
        return schedule.name, schedule
    if callable(schedule):
        return schedule.__name__, schedule(**settings)
    if schedule in presets():
        return schedule, preset(schedule, **settings)
    path = Path(schedule)
    if not path.is_file():
        raise HeddleError(f"no schedule '{schedule}': it is neither a file nor one of the presets "
                          f"{', '.join(presets())}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise HeddleError(f"{schedule}: expected a schedule's text in UTF-8: {error}") from None
    return path.stem, Source(with_parameters(text, settings, schedule) if settings else text)


def sweep(schedules, settings) -> list:
    """[(name, settings, schedule)]: each schedule, or (schedule, its own settings), with every
    combination of those parameters that it has. settings: {name: values}. Raises HeddleError for a parameter that no schedule has."""
    made, used = [], set()
    for schedule in schedules:
        schedule, fixed = schedule if isinstance(schedule, tuple) else (schedule, {})
        own = []
        for name, values in settings.items():
            try:
                make(schedule, {name: values[0]})
            except TypeError:
                continue
            own.append(name)
        used.update(own)
        for values in itertools.product(*(settings[name] for name in own)):
            chosen = {**fixed, **dict(zip(own, values))}
            name, expression = make(schedule, chosen)
            made.append((name, chosen, expression))
    for name in settings:
        if name not in used:
            raise HeddleError(f"none of the schedules has a parameter '{name}'")
    return made
