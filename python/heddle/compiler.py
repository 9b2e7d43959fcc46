# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedules to bundles. The compiler is the program heddlec, in a process of its
own (docs/Decisions/PythonPackage.md says why)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from numbers import Integral
from pathlib import Path
from typing import Optional

from . import files
from .errors import HeddleError, ScheduleError, ScheduleWarning, check_unicode
from .schedule import Schedule, Source, number_text

_DTYPES = {"f32": "f32", "fp32": "f32", "float32": "f32", "bf16": "bf16", "bfloat16": "bf16",
           "f16": "f16", "fp16": "f16", "float16": "f16"}


def dtype_name(dtype) -> str:
    """"f32", "bf16" or "f16" for a name, a NumPy or a PyTorch dtype."""
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = _DTYPES.get(text.rsplit(".", 1)[-1])
    if not name:
        raise ValueError(f"dtype: {dtype!r} is none of f32, bf16, f16")
    return name


def find_compiler() -> str:
    """The path of heddlec: $HEDDLEC, the package's own, or the one on PATH."""
    named = os.environ.get("HEDDLEC")
    if named:
        if not os.access(named, os.X_OK):
            raise HeddleError(f"HEDDLEC={named}: no program is there")
        return named
    own = Path(__file__).resolve().parent / "bin" / "heddlec"
    # An empty entry means the current folder, where others' files lie.
    folders = os.pathsep.join(filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep)))
    found = str(own) if own.exists() else shutil.which("heddlec", path=folders)
    if not found:
        raise HeddleError("no compiler: the package was built without heddlec, and none is on "
                          "PATH; set HEDDLEC to one, or read a bundle that was compiled elsewhere "
                          "(heddle.Bundle.read)")
    return found


def _in_words_of_python(said):
    """What heddlec says of its options, as of arguments: --head-dim is head_dim."""
    from . import _heddle
    return _heddle.without_dashes(re.sub(r"^heddlec: (error: )?", "", said))


def _callers_level():
    """The `stacklevel` of a warning that points at whoever called the package."""
    package, frame, level = os.path.dirname(__file__) + os.sep, sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level


def _run(schedule, options, text):
    if isinstance(schedule, str):
        schedule = Source(schedule)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule: expected a heddle.Schedule or MLIR text, found {schedule!r}")
    source = str(schedule)
    check_unicode(source)
    if isinstance(schedule, Source):
        options = options + [f"--schedule={schedule.name}"]
    try:
        done = subprocess.run([find_compiler(), "-", *options], input=source.encode(),
                              capture_output=True, check=False)
    except (OSError, ValueError) as error:  # also of options that no program can be given
        raise HeddleError(f"heddlec cannot be started: {error}") from error
    said = done.stderr.decode(errors="replace")
    if done.returncode == 1 and "<stdin>:" in said:
        raise ScheduleError(said, source)
    if done.returncode:
        raise HeddleError(_in_words_of_python(said.strip()) or f"heddlec ended with {done.returncode}")
    if said.strip():
        warnings.warn(_in_words_of_python(said.replace("<stdin>", "schedule").strip()), ScheduleWarning,
                      stacklevel=_callers_level())
    return done.stdout.decode() if text else done.stdout


class Bundle:
    """A compiled schedule: code and step program in one file's bytes. It serves
    every model of its head dims and types, every length and number of steps."""

    def __init__(self, data: bytes, name: str = "bundle"):
        from . import _heddle
        if not isinstance(data, bytes):
            raise TypeError(f"data: expected bytes, found {type(data).__name__}")
        self._native = _heddle.Bundle.parse(data, name)
        self._data = data

    @classmethod
    def read(cls, path) -> Bundle:
        """The bundle of the file `path`, which heddlec or save() wrote. It holds machine code:
        read only files that you would run a program from. Raises OSError for a file
        that cannot be read, HeddleError for one that is no bundle, is damaged, or of another version, and for devices
        and pipes."""
        return cls(files.read(path), os.fspath(path))

    def save(self, path) -> None:
        """Writes the file `path`, whole or not at all; OSError says why it cannot be written."""
        files.write(path, self._data)

    @property
    def schedule(self) -> str:
        """The schedule's name."""
        return self._native.schedule

    @property
    def targets(self) -> list:
        """The machines that it has code for."""
        return self._native.targets

    @property
    def source(self) -> str:
        """The schedule's MLIR text."""
        return self._native.source

    @property
    def revokes(self) -> bool:
        """Whether a step may make masks again of what earlier steps committed (`revoke`)."""
        return self._native.revokes

    @property
    def edits(self) -> bool:
        """Whether a step may give another token to what earlier steps committed (`edit`)."""
        return self._native.edits

    def __bytes__(self):
        return self._data

    def __reduce__(self):
        return Bundle, (self._data,)

    def _repr_html_(self):
        from .notebooks import explained
        return explained(Source(self.source, self.schedule))

    def __repr__(self):
        return (f"<heddle.Bundle @{self.schedule} for {', '.join(self.targets)}, "
                f"{len(self._data):,} bytes>")


def _listed(values):
    return [values] if isinstance(values, (str, Integral)) or not hasattr(values, "__iter__") \
        else list(values)


def compile(schedule, *, parameters: Optional[dict] = None, model=None, head_dim=None, dtype=None,
            target="host", crossovers=None, cache_dir: Optional[str] = None) -> Bundle:
    """Compiles a schedule (or MLIR text).

    parameters: other numbers for those that the text declares, {"keep": "1/2", "group": 64}.

    model: a heddle.Model, whose head dim, dtype and device are then those of the
    bundle, and of whose layers the schedule may name no others. Without one: head_dim, an int or several (64 and 128 by default); dtype,
    one or several of "f32", "bf16", "f16" (or NumPy's or PyTorch's), by default f32
    and bf16 for CPUs, bf16 and f16 for GPUs; target: "host", a CPU by LLVM's name,
    "cuda", "cuda:sm_90a", or several.

    crossovers: where a selection keeps more of the keys than is faster on all targets, all are
    attended to, and a ScheduleWarning says so; "none" keeps the lists, a path is that of a table in place
    of the measured one.

    Code that was compiled before comes from heddlec's cache on disk (cache_dir, else
    as docs/HowTo/Install.md says). Warns with ScheduleWarning of what has no effect. Raises ScheduleError, with the place, for a
    schedule that the compiler refuses; HeddleError for anything else."""
    layers = None
    if model is not None:
        if not hasattr(model, "config") or not hasattr(model, "device"):
            raise TypeError(f"model: expected a heddle.Model (heddle.load makes one), found {model!r}")
        if head_dim is not None or dtype is not None:
            raise TypeError("model: says head_dim and dtype; give one or the other")
        head_dim, dtype, layers = model.config["head_dim"], model.dtype, model.config["layers"]
        if target == "host" and model.device.startswith("cuda"):
            target = "cuda"
    targets = _listed(target)
    if not all(isinstance(one, str) for one in targets):
        raise TypeError(f"target: expected a str or several, found {target!r}")
    if parameters is not None and not isinstance(parameters, dict):
        raise TypeError(f"parameters: expected a dict, found {parameters!r}")
    options = ["-o", "-", "--target=" + ",".join(targets)]
    if head_dim is not None:
        dims = _listed(head_dim)
        if not dims:
            raise ValueError("head_dim: expected one at least, found none")
        for dim in dims:
            if not isinstance(dim, Integral) or isinstance(dim, bool) or dim < 1:
                raise TypeError(f"head_dim: expected a positive int, found {dim!r}")
        options.append("--head-dim=" + ",".join(map(str, dims)))
    if dtype is not None:
        options.append("--dtype=" + ",".join(dtype_name(d) for d in _listed(dtype)))
    options += [f"--set={name}={number_text(value, name)}"
                for name, value in (parameters or {}).items()]
    if layers is not None:
        options.append(f"--layers={layers}")
    for name, path, expected in (("crossovers", crossovers, "a path or 'none'"), ("cache_dir", cache_dir, "a path")):
        if path is not None:
            if not isinstance(path, (str, bytes, os.PathLike)):
                raise TypeError(f"{name}: expected {expected}, found {path!r}")
            options.append(f"--{name.replace('_', '-')}={os.fsdecode(path)}")
    return Bundle(_run(schedule, options, text=False))


def explain(schedule, *, steps: Optional[int] = None, length: Optional[int] = None,
            prompt: Optional[int] = None, block_length: Optional[int] = None, model=None,
            machine: Optional[str] = None, salient_share: Optional[float] = None,
            tokens_per_step: Optional[float] = None, format: str = "text"):
    """What each step of a schedule computes, keeps and costs: as "text", as "json" (a
    dict) or as "html" (a page of its own).

    format: one of these. steps: of the run, by default a token each. length: tokens, prompt included, 4096 by
    default; prompt: how many of them are the prompt. block_length: tokens that are unmasked together.
    model: a folder with a config.json, or a heddle.Model, by default LLaDA-8B's shape. machine: whose
    rates the estimate has, "h200", "h100" or "cpu". salient_share (of the rows, 0 to 1), tokens_per_step: what a run finds,
    where it decides (docs/HowTo/Explain.md). Raises ValueError for another format, ScheduleError for a schedule that
    the compiler refuses, HeddleError for lengths that do not fit together."""
    if format not in ("text", "json", "html"):
        raise ValueError(f"format: {format!r} is none of text, json, html")
    options = [f"--explain={format}"] + (["-o", "-"] if format == "html" else [])
    for name, value in (("steps", steps), ("length", length), ("prompt", prompt),
                        ("block-length", block_length), ("model", getattr(model, "folder", model)),
                        ("machine", machine), ("salient-share", salient_share),
                        ("tokens-per-step", tokens_per_step)):
        if value is not None:
            options.append(f"--{name}={value}")
    said = _run(schedule, options, text=True)
    if format != "json":
        return said
    import json
    return json.loads(said)


def canonical(schedule) -> str:
    """The compiler's own spelling of a schedule, simplified and verified. Raises
    ScheduleError, with the place, for one that it refuses."""
    return _run(schedule, ["--compile-to=schedule", "-o", "-"], text=True)
