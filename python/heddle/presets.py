# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The schedules of examples/ by name, with their numbers as parameters."""

import re
from pathlib import Path

from .parse import parse
from .schedule import Schedule, ratio_text


def _folder():
    """presets/ of an installed package, examples/ of a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "presets", here.parent.parent / "examples"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{here / 'presets'}: the package's presets are missing; install it "
                            "again")


def presets() -> list:
    """The names of all presets, sorted."""
    return sorted(path.stem for path in _folder().glob("*.mlir"))


def preset(name: str, **parameters) -> Schedule:
    """A published or composed method, as examples/README.md describes it.

    A parameter replaces the number of that name wherever the text has it:
    preset("pulsecol", keep=0.5, count=8). Raises KeyError for a name that there is
    not, TypeError for a parameter that the text has not."""
    path = _folder() / f"{name}.mlir"
    if not isinstance(name, str) or name not in presets():
        raise KeyError(f"no preset {name!r}; there are {', '.join(presets())}")
    text = re.sub("//.*", "", path.read_text(encoding="utf-8"))
    for parameter, value in parameters.items():
        number = str(value) if isinstance(value, int) and not isinstance(value, bool) \
            else ratio_text(value, parameter)
        pattern = rf"\b({re.escape(parameter)} = )[0-9][0-9./]*(?: percent)?"
        text, count = re.subn(pattern, lambda found: found.group(1) + number, text)
        if not count:
            known = sorted(set(re.findall(r"\b(\w+) = [0-9]", text)))
            raise TypeError(f"preset {name!r} has no parameter {parameter!r}; it has "
                            f"{', '.join(known) or 'none'}")
    return parse(text)
