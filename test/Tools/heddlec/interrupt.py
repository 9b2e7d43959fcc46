#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: interrupt.py HEDDLEC SCHEDULE OUT_DIR

Interrupts heddlec while it waits for a linker that never ends, as Ctrl-C would,
and checks that neither an output nor a temporary file is left.
"""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

heddlec, schedule, out = sys.argv[1:]
programs, temporary, results = (Path(out, d) for d in ("bin", "tmp", "results"))
for folder in (programs, temporary, results):
    folder.mkdir(parents=True)
started = Path(out, "started")
linker = programs / "ld.lld-22"
linker.write_text(f'#!/bin/sh\n: > "{started}"\nexec sleep 60\n')
linker.chmod(0o755)
environment = dict(os.environ, TMPDIR=str(temporary),
                   PATH=f"{programs}:{os.environ['PATH']}")

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    process = subprocess.Popen(
        [heddlec, schedule, "--target=x86-64-v3", "--dtype=f32",
         "--head-dim=64", "-o", results / "x.hdl"],
        env=environment, start_new_session=True)
    for _ in range(600):
        if started.exists():
            break
        time.sleep(0.1)
    assert started.exists(), "the linker was never called"
    before = list(temporary.iterdir())
    assert before, "no temporary file to look for"
    os.killpg(process.pid, number)
    assert process.wait(60) != 0
    left = list(temporary.iterdir()) + list(results.iterdir())
    assert not left, f"{number.name} left {left}"
    started.unlink()
print("nothing is left")
