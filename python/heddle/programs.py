# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the package's programs share: how they end, and options."""

import argparse
import json
import os
import re
import signal
import sys
from typing import Callable

from .compiler import dtype_name
from .errors import HeddleError

#: What is said after Ctrl-C where --out has what was done.
RESUMES = "interrupted; the same command goes on from what --out has"

#: Arguments of Python's functions, in errors, that are options of the programs.
OPTION = re.compile(r"(?<![\w-])(device|dtype|gen_length|block_length|temperature)=")


def run(name: str, does: Callable, interrupted: str = "interrupted", as_json: bool = False) -> int:
    """The exit status of the program `name`: what does() returns, None for 0; 1 with a line on standard error where a
    HeddleError or an OSError says what is wrong; 130 after Ctrl-C, with the line `interrupted`. as_json: what is said then
    is also an object on standard output, heddle-run's {"complete": false, "error": "..."}."""
    status = 1
    try:
        return does() or 0
    except HeddleError as error:
        said = OPTION.sub(lambda found: f"--{found[1].replace('_', '-')}=", str(error))
    except BrokenPipeError:  # the reader of what it prints has gone
        _drop_output()
        return 0
    except OSError as error:
        if error.filename is None:  # only standard output has none
            _drop_output()
        file = "standard output" if error.filename is None else _shown(os.fsdecode(error.filename)) or "''"
        said = f"{file}: {error.strerror or error}"
    except KeyboardInterrupt:
        said, status = interrupted, 128 + signal.SIGINT
    said = "\n".join(map(_shown, said.split("\n")))
    print(f"{name}: {said}", file=sys.stderr)
    if as_json:
        try:
            print(json.dumps({"complete": False, "error": said}, indent=2), flush=True)
        except OSError:
            _drop_output()
    return status


def dtype(text: str) -> str:
    """--dtype: "f32", "bf16" or "f16"."""
    try:
        return dtype_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def plot_path(text: str) -> str:
    """--output of a plot: its end says the format."""
    if not text.endswith((".png", ".svg", ".pdf")):
        raise argparse.ArgumentTypeError(f"'{text}' ends in none of .png, .svg, .pdf")
    return text


def _shown(text):
    """A name as it may stand in a line, as heddle-run shows it: what ends a line, steers a terminal or turns the direction of
    writing is an escape."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _drop_output():
    """Python's last flush would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
