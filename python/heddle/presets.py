# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The schedules of examples/ by name, with their numbers as parameters."""

from pathlib import Path

from .parse import parse, with_parameters
from .schedule import Schedule


def _folder():
    """presets/ of an installed package, examples/ of a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "presets", here.parent.parent / "examples"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{here / 'presets'}: the package's presets are missing; install it "
                            "again")


def presets() -> list:
    """The names of all presets, sorted. FileNotFoundError where the package lacks them."""
    return sorted(path.stem for path in _folder().glob("*.mlir"))


def preset(name: str, **parameters) -> Schedule:
    """A published or composed method, as examples/README.md describes it.

    Parameters are those that the schedule declares: preset("pulsecol", keep=0.5,
    count=8). Raises KeyError for a name that there is not, TypeError for a
    parameter that the schedule has not."""
    path = _folder() / f"{name}.mlir"
    if not isinstance(name, str) or name not in presets():
        raise KeyError(f"no preset {name!r}; there are {', '.join(presets())}")
    text = path.read_text(encoding="utf-8")
    return parse(with_parameters(text, parameters, f"preset {name!r}"))
