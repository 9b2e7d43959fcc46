# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The file of results: JSON lines, one a batch, that a kill cannot spoil."""

import json
import os

from .. import files
from ..errors import HeddleError


def read(path) -> list:
    """The records of a file; a last line without its end, which a kill left, is passed over.
    Raises HeddleError for any other line that is no JSON object."""
    try:
        lines = files.read(path).split(b"\n")
    except FileNotFoundError:
        raise HeddleError(f"{path}: there is no such file") from None
    records = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("no object")
        except ValueError as error:
            raise HeddleError(f"{path}:{number}: expected a record of heddle-eval, one JSON object a "
                              f"line, found {line[:60]!r}: {error}") from None
        records.append(record)
    return records


class Records:
    """A file that is appended to by one process at a time. A record is one write, on disk
    before the next batch begins."""

    def __init__(self, path):
        import fcntl
        self.path = os.fspath(path)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise HeddleError(f"{path}: another heddle-eval writes into it; wait for that, or give "
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
        written = os.write(self._file, line)
        if written != len(line):
            self._heal()
            raise HeddleError(f"{self.path}: only {written} of {len(line)} bytes were written: the disk is "
                              "full?")
        os.fsync(self._file)
        self.records.append(record)

    def close(self):
        os.close(self._file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
