# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A schedule, however it is given, as what workers can be sent."""

import os

from .. import compiler
from ..compiler import Bundle
from ..errors import HeddleError
from ..evaluation.runner import fingerprint
from ..evaluation.sweep import make


def chosen(schedule, settings) -> dict:
    """{"name", "schedule": MLIR text, "bundle": bytes or None}. What the compiler refuses is
    raised here, with the place, and not on another machine."""
    if isinstance(schedule, Bundle):
        if settings:
            raise HeddleError("settings: a bundle has no parameters; give a preset's name")
        return {"name": schedule.schedule, "schedule": schedule.source, "bundle": bytes(schedule)}
    try:
        name, expression = make(schedule, settings or {})
    except TypeError as error:
        raise HeddleError(str(error)) from None
    compiler.canonical(expression)
    return {"name": name, "schedule": str(expression), "bundle": None}


def model_digest(folder) -> str:
    """Which model a folder holds. Raises HeddleError if it is none."""
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise HeddleError(f"{folder}: is no model's folder: it has no config.json")
    return fingerprint(folder)


def loaded(job) -> tuple:
    """(model, bundle) of a worker. job: "model", "device", "dtype", "cpus" and chosen()'s."""
    from .. import model as models
    if job["device"] == "cpu":
        models.set_threads(max(1, int(job["cpus"])))
    model = models.load(job["model"], device=job["device"], dtype=job["dtype"])
    return model, Bundle(job["bundle"]) if job["bundle"] else compiler.compile(
        job["schedule"], model=model, crossovers="none")  # the same tokens on each worker's machine


def positive(**numbers):
    """Raises HeddleError for a number that is not whole, or less than 1."""
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise HeddleError(f"{name}: expected a whole number, 1 or more, found {value!r}")
