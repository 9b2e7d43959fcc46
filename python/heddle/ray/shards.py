# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of a batch: which rows a shard has, which shards are there and whole."""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import socket
from dataclasses import asdict, dataclass

from ..errors import HeddleError
from .rows import is_blank

INPUT, RUN, ERRORS, LOCK = "input", "run.json", "errors.jsonl", ".lock"


@dataclass(frozen=True)
class Shard:
    """Rows of one file, its lines that are not blank, and the file that they become."""
    name: str  #: of the output
    path: str  #: of the input
    offset: int  #: of its first line there, in bytes
    size: int  #: in bytes
    first: int  #: number of its first row among all rows, from 0
    rows: int

    def lines(self) -> list:
        """Its rows without their lines' ends."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            return [line for line in file.read(self.size).split(b"\n") if not is_blank(line)]


def find_inputs(data) -> list:
    """The files that paths name: files, patterns, and folders (their *.jsonl), sorted in each."""
    found = []
    for path in [data] if isinstance(data, (str, os.PathLike)) else list(data):
        path = os.fspath(path)
        if "://" in path:
            raise HeddleError(f"{path}: expected a path of a file system that all workers see; "
                              "ray.data.read_json reads from elsewhere, and generate takes its dataset")
        if os.path.isfile(path):
            own = [path]
        else:
            own = sorted(glob.glob(os.path.join(path, "*.jsonl") if os.path.isdir(path) else path))
        if not own:
            raise HeddleError(f"{path}: there is no such file, nor a folder with .jsonl files")
        found += own
    if not found:
        raise HeddleError("no input: expected a path of JSON lines, or a list of them")
    return [os.path.abspath(path) for path in found]


def plan(paths, shard_rows) -> tuple:
    """([Shard], [{"file", "rows", "sha256"}]) of files; a shard has rows of one file."""
    shards, files, first = [], [], 0
    for path in paths:
        digest, start, rows, offset = hashlib.sha256(), first, 0, 0
        with open(path, "rb") as file:
            begin = 0
            for line in file:
                digest.update(line)
                offset += len(line)
                rows += not is_blank(line)
                if rows == shard_rows:
                    shards.append((path, begin, offset - begin, first, rows))
                    first, rows, begin = first + rows, 0, offset
        if rows:
            shards.append((path, begin, offset - begin, first, rows))
            first += rows
        files.append({"file": os.path.basename(path), "rows": first - start, "sha256": digest.hexdigest()})
    if not shards:
        raise HeddleError(f"{', '.join(paths)}: no row in it; expected JSON lines")
    return [Shard(f"part-{i:06}.jsonl", *shard) for i, shard in enumerate(shards)], files


def scratch(out, name) -> str:
    """A name for a file that is not yet whole; no other process takes it."""
    return os.path.join(out, f".{name}.{socket.gethostname()}.{os.getpid()}")


def write_whole(out, name, lines):
    """Writes a file, whole or not at all, as the lines (bytes, without ends) come."""
    part = scratch(out, name)
    try:
        with open(part, "wb") as file:
            for line in lines:
                file.write(line + b"\n")
                file.flush()
            os.fsync(file.fileno())
        os.replace(part, os.path.join(out, name))
    finally:
        if os.path.exists(part):
            os.unlink(part)
    folder = os.open(out, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def attempt(out, name, retries):
    """Counts how often a shard was begun; raises HeddleError when that is too often. Only a
    process that died in it leaves its mark."""
    mark = os.path.join(out, f".try-{name}")
    with open(mark, "ab") as file:
        file.write(b".")
        times = file.tell()
    if times > retries + 1:
        raise HeddleError(f"{name}: the worker died {times - 1} times while this shard ran, {retries} retries "
                          "were allowed; Ray's logs say how (too little memory?)")
    yield
    os.unlink(mark)


def read_records(out, shard):
    """The records of a shard's output, or None if it is not there or not exactly its rows."""
    try:
        with open(os.path.join(out, shard.name), "rb") as file:
            records = [json.loads(line) for line in file]
        whole = [record["row"] for record in records] == list(range(shard.first, shard.first + shard.rows))
        return records if whole and all("text" in r or "error" in r for r in records) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Folder(contextlib.AbstractContextManager):
    """The output folder while one program works on it."""

    def __init__(self, path):
        self.path = os.path.abspath(os.fspath(path))
        if "://" in os.fspath(path):
            raise HeddleError(f"{path}: expected a folder of a file system that all workers see")
        os.makedirs(self.path, exist_ok=True)
        self._lock = os.open(os.path.join(self.path, LOCK), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise HeddleError(f"{path}: another program writes into it; wait for that, or give another "
                              "folder") from None

    def agree(self, settings):
        """Keeps what is run; raises HeddleError if the folder has shards of something else."""
        file = os.path.join(self.path, RUN)
        try:
            with open(file, encoding="utf-8") as there:
                kept = json.load(there)
        except FileNotFoundError:
            write_whole(self.path, RUN, [json.dumps(settings, indent=1).encode()])
            return
        except ValueError as error:
            raise HeddleError(f"{file}: {error}") from None
        differs = [name for name in {**kept, **settings} if kept.get(name) != settings.get(name)]
        if differs:
            raise HeddleError(f"{self.path}: has the results of another run: {', '.join(differs)} "
                              f"{'differs' if len(differs) == 1 else 'differ'} ({RUN} there says what it was); "
                              "give another folder")

    def sweep(self):
        """Removes what killed workers left."""
        for path in glob.glob(os.path.join(self.path, ".part-*")) + glob.glob(os.path.join(self.path, ".try-*")):
            os.unlink(path)

    def close(self):
        os.close(self._lock)

    def __exit__(self, *_):
        self.close()


def packed(shard) -> str:
    return json.dumps(asdict(shard))


def unpacked(text) -> Shard:
    return Shard(**json.loads(text))
