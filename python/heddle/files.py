# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading files that others name."""

import os
import stat

from .errors import HeddleError


def read(path) -> bytes:
    """The bytes of a regular file: a device or a pipe might have no end. HeddleError for
    these, OSError as open() raises it."""
    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise HeddleError(f"{os.fspath(path)}: expected a regular file, found a device or pipe")
    with open(path, "rb") as file:
        return file.read()


def problem(error: OSError) -> str:
    """What a program says of an OSError: "FILE: why"."""
    why = error.strerror or str(error)
    return f"{os.fsdecode(error.filename)}: {why}" if isinstance(error.filename, (str, bytes)) else why
