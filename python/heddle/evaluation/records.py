# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The file of results: JSON lines, one a batch, that a kill cannot spoil."""

import errno
import json
import os
import stat

from .. import files
from ..errors import HeddleError
from .statistics import ABOUT, WORK

NUMBER, ANY = (int, float), object
#: What a line of a kind has at least. Lines of other kinds are passed over.
FIELDS = {
    "batch": {"cell": str, "results": list, "steps": NUMBER, **dict.fromkeys(WORK, NUMBER),
              **{**dict.fromkeys(ABOUT, str), "settings": dict, "options": dict, "length": ANY, "seed": ANY}},
    "result": {"id": str, "answer": str, "right": bool},
    "search": {"settings": dict, "date": str, "machine": str},
    "search's settings": {"model": str, "dtype": str, "tasks": list, "floor": ANY, "cost": str, "cost_model": ANY,
                             "examples": int, "length": ANY, "seed": int},
    "trial": {"number": int, "state": str, "why": str, "about": str, "params": dict, "key": str, "schedule": str,
              "rungs": list, "seconds": NUMBER},
    "trial that ran": dict.fromkeys(("cost", "accuracy", "low", "high"), NUMBER),
}


def _check(record, kind):
    """ValueError for what a record of a kind lacks."""
    if not isinstance(record, dict):
        raise ValueError(f"a {kind} is no object")
    for name, types in FIELDS[kind].items():
        if name not in record or not isinstance(record[name], types):
            raise ValueError(f"a {kind} with {name!r} {record[name]!r:.40}" if name in record else f"a {kind} without {name!r}")


def _parse(line) -> dict:
    """The record of a line; ValueError for a line that is none."""
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("no object")
    kind = record.get("kind")
    if kind in ("batch", "search", "trial"):
        _check(record, kind)
    for one in record["results"] if kind == "batch" else ():
        _check(one, "result")
    if kind == "search":
        _check(record["settings"], "search's settings")
    if kind == "trial" and record["state"] != "refused":
        _check(record, "trial that ran")
    return record


def read(path) -> list:
    """The records of a file; a last line without its end, which a kill left, is passed over.
    Raises HeddleError for any other line that is no record, OSError for a file that cannot be read."""
    try:
        lines = files.read(path).split(b"\n")
    except FileNotFoundError:
        raise HeddleError(f"{path}: there is no such file") from None
    records = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            records.append(_parse(line))
        except (ValueError, RecursionError) as error:
            raise HeddleError(f"{path}:{number}: expected a record of heddle-eval or heddle-tune, one JSON object a "
                              f"line, found {line[:60]!r}: {error}; take the line out, or give another file") from None
    return records


class Records:
    """A file that is appended to by one process at a time. A record is one write, on disk
    before the next batch begins. OSError says why it cannot be written."""

    def __init__(self, path):
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
            self.records = read(self.path)
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
        try:
            written = os.write(self._file, line)
            if written != len(line):
                self._heal()
                raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes could be written: the disk is full?")
            os.fsync(self._file)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from None
        self.records.append(record)

    def close(self):
        os.close(self._file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
