# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The schedules that parity.py compares, each in two statements: the source
that heddlec compiles and the words of heddle_reference.schedule. No program of its own:

  python3 python/parity.py --only sinks --heddlec build/dev/bin/heddlec \\
      --heddle-run build/dev/bin/heddle-run --model models/heddle-4m
"""

import os
import subprocess
from collections import namedtuple

Entry = namedtuple("Entry", "name reference source")


def columns(keep, group, window, count, name="cols"):
    """(reference words, schedule lines) of group-wise columns."""
    return (f"columns:keep={keep},group={group},window={window},count={count}",
            f"  %{name}_steps = cadence uniform(window = {window}, count = {count})\n"
            f"  %{name} = select columns(keep = {keep}, group = {group}) "
            f"by mean_probability on %{name}_steps\n")


def union(name, *terms):
    """Terms: (words, lines, operand) or, as text, "window 64", "sinks 4" and,
    for a share, "sinks 1/10"."""
    words, lines, operands = [], "", []
    for i, term in enumerate(terms):
        if isinstance(term, str):
            kind, size = term.split()
            words.append(f"{kind}:{'share' if '/' in size else 'size'}={size}")
            lines += f"  %t{i} = {kind}({size})\n"
            operands.append(f"%t{i}")
        else:
            words.append(term[0])
            lines += term[1]
            operands.append("%cols")
    both = operands[0]
    if len(operands) > 1:
        lines += f"  %all = union {', '.join(operands)}\n"
        both = "%all"
    return Entry(name, "+".join(words),
                 f"heddle.schedule @{name} {{\n{lines}  attend pairs({both})\n}}\n")


ALL = [
    Entry("dense", "dense",
          "heddle.schedule @dense {\n  attend dense\n}\n"),
    union("pulsecol_50", columns("1/2", 32, "3/10", 16)),
    union("pulsecol_80", columns("1/5", 32, "3/10", 16)),
    union("columns_once_80", columns("1/5", 32, "3/10", 1)),
    union("columns_wide", columns("1/3", 128, "1/2", 3)),
    union("window", "window 64"),
    union("streaming", "window 60", "sinks 4"),
    union("narrow_streaming", "window 5", "sinks 3"),
    union("streaming_share", "window 60", "sinks 1/10"),
    union("columns_share", columns("1/5", 32, "3/10", 2), "sinks 3", "sinks 1/8"),
    union("columns_window_sinks", columns("1/5", 32, "3/10", 2), "window 16", "sinks 2"),
    Entry("layers", "columns:keep=1/5,group=64,window=3/10,count=2|dense@0..1|window:size=64@-1..-1",
          """heddle.schedule @layers {
  %steps = cadence uniform(window = 3/10, count = 2)
  %cols = select columns(keep = 1/5, group = 64) by mean_probability on %steps
  %near = window(64)
  attend dense in layers(0 to 1)
  attend pairs(%near) in layers(-1)
  attend pairs(%cols)
}
"""),
]
BY_NAME = {entry.name: entry for entry in ALL}
PARITY = [entry.name for entry in ALL if entry.name != "dense"]


def compile_bundle(heddlec, name, folder):
    """Compiles a schedule for this machine; returns the bundle's path. Raises
    RuntimeError with heddlec's words."""
    source, bundle = (os.path.join(folder, name + end) for end in (".mlir", ".hdl"))
    with open(source, "w", encoding="utf-8") as out:
        out.write(BY_NAME[name].source)
    done = subprocess.run([heddlec, source, "--crossovers=none", "-o", bundle], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"heddlec exited with {done.returncode}: {done.stderr.strip()}")
    return bundle
