# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that others name: read if they have an end, written whole or not at all."""

import os
import stat
from contextlib import contextmanager, suppress

from .errors import HeddleError


@contextmanager
def named(path):
    """An OSError within is of `path`: that of a read or a write names no file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def read(path) -> bytes:
    """The bytes of a regular file: a device or a pipe might have no end. HeddleError for
    these, OSError as open() raises it."""
    with named(path):
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise HeddleError(f"{os.fspath(path)}: expected a regular file, found a device or pipe")
        with open(path, "rb") as file:
            return file.read()


def write(path, data: bytes) -> None:
    """Makes `data` the content of the file `path`, whole or not at all. Links are followed; a device or a pipe
    is written to. Raises OSError, of `path`, that says why it cannot be written."""
    real = os.path.realpath(path)
    folder, name = os.path.split(real)
    part = os.path.join(folder, f".{name}.{os.getpid()}")
    with named(path):
        if os.path.exists(real) and not os.path.isfile(real):
            with open(real, "wb") as file:
                file.write(data)
            return
        try:
            with open(part, "wb") as file:
                file.write(data)
            os.replace(part, real)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part)


def check_writable(path) -> None:
    """Raises OSError where write() could not: a folder, or in a folder that there is not. For what takes long to make."""
    real = os.path.realpath(path)
    if os.path.isdir(real) or not os.path.isdir(os.path.dirname(real)) or not os.access(os.path.dirname(real), os.W_OK):
        write(path, b"")
