# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a search adds to the file of results: a line that says which search it is, and one a trial."""

from ..errors import HeddleError
from ..evaluation import records
from ..evaluation.records import ANY, NUMBER, check

SEARCH = {"settings": dict, "date": str, "machine": str}
SETTINGS = {"model": str, "dtype": str, "tasks": list, "floor": ANY, "cost": str, "cost_model": ANY,
            "examples": int, "length": ANY, "seed": int}
TRIAL = {"number": int, "state": str, "why": str, "about": str, "params": dict, "key": str, "schedule": str,
         "rungs": list, "seconds": NUMBER}
RAN = dict.fromkeys(("cost", "accuracy", "low", "high"), NUMBER)


def _check_search(record):
    check(record, "search", SEARCH)
    check(record["settings"], "search's settings", SETTINGS)


def _check_trial(record):
    check(record, "trial", TRIAL)
    if record["state"] != "refused":
        check(record, "trial that ran", RAN)


CHECKS = {**records.CHECKS, "search": _check_search, "trial": _check_trial}


def trials_of(records, path=None) -> list:
    """The trials among the records of a file. HeddleError for a file that lacks some of them."""
    trials = [r for r in records if r.get("kind") == "trial"]
    for number, trial in enumerate(trials):
        if trial["number"] != number:
            raise HeddleError(f"{path}: trial {trial['number']} follows {number} others, expected trial {number}: lines are "
                              "missing or stand twice; mend the file, or give another --out")
    return trials
