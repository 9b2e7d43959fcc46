# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The file of results: JSON lines, one a batch, that a kill cannot spoil."""

import errno
import json
import os
import stat
from contextlib import AbstractContextManager

from .. import files
from ..errors import HeddleError
from .statistics import ABOUT, WORK

NUMBER, ANY = (int, float), object
#: What a batch's line has at least, and each of its results.
BATCH = {"cell": str, "results": list, "steps": NUMBER, **dict.fromkeys(WORK, NUMBER),
         **{**dict.fromkeys(ABOUT, str), "settings": dict, "options": dict, "length": ANY, "seed": ANY}}
RESULT = {"id": str, "answer": str, "right": bool}


def check(record, what, fields):
    """ValueError for what a record lacks of {name: types}. what: it is, in errors."""
    if not isinstance(record, dict):
        raise ValueError(f"a {what} is no object")
    for name, types in fields.items():
        if name not in record or not isinstance(record[name], types):
            raise ValueError(f"a {what} with {name!r} {record[name]!r:.40}" if name in record else f"a {what} without {name!r}")


def _check_batch(record):
    check(record, "batch", BATCH)
    for one in record["results"]:
        check(one, "result", RESULT)


#: What raises ValueError for a record of a kind that lacks something. Other kinds are passed over.
CHECKS = {"batch": _check_batch}


def _parse(line, checks) -> dict:
    """The record of a line; ValueError for a line that is none."""
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("no object")
    kind = record.get("kind")
    if isinstance(kind, str) and kind in checks:
        checks[kind](record)
    return record


def read(path, checks=CHECKS) -> list:
    """The records of a file; blank lines, and a last line without its end, which a kill left, are passed over.
    Raises HeddleError for any other line that is no record, OSError for a file that cannot be read."""
    records = []
    for number, line in enumerate(files.read(path).split(b"\n")[:-1], 1):
        if not line.strip():
            continue
        try:
            records.append(_parse(line, checks))
        except (ValueError, RecursionError) as error:
            raise HeddleError(f"{path}:{number}: expected a record of heddle-eval or heddle-tune, one JSON object a "
                              f"line, found {line[:60]!r}: {error}; take the line out, or give another file") from None
    return records


class Records(AbstractContextManager):
    """A file that is appended to by one process at a time. A record is one write, on disk
    before the next batch begins. OSError says why it cannot be written."""

    def __init__(self, path, checks=CHECKS):
        import fcntl
        self.path = os.fspath(path)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise HeddleError(f"{path}: it is a device or a pipe; expected a file, from which a run goes on")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise HeddleError(f"{path}: another program writes into it; wait for that, or give "
                                  "another --out") from None
            self._heal()
            self.records = read(self.path, checks)
        except BaseException:
            os.close(self._file)
            raise

    def _heal(self):
        """Cuts off a last line that a kill left without its end."""
        size = end = os.fstat(self._file).st_size
        while end > 0:
            start = max(0, end - 65536)
            cut = os.pread(self._file, end - start, start).rfind(b"\n")
            if cut >= 0:
                end = start + cut + 1
                break
            end = start
        if end != size:
            os.ftruncate(self._file, end)

    def append(self, record: dict):
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        with files.named(self.path):
            written = os.write(self._file, line)
            if written != len(line):
                self._heal()
                raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes could be written: the disk is full?")
            os.fsync(self._file)
        self.records.append(record)

    def close(self):
        os.close(self._file)

    def __exit__(self, *_):
        self.close()
