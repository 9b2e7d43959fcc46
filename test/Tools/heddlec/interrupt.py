#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: interrupt.py HEDDLEC SCHEDULE OUT_DIR

Ends heddlec while it waits for a linker or an assembler that never ends, as
Ctrl-C would (the whole process group gets the signal) and as kill does (heddlec
alone), and checks that neither an output, a temporary file nor the program that
it waited for is left.
"""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

heddlec, schedule, out = sys.argv[1:]
toolkit, temporary, results = (Path(out, d) for d in ("kit", "tmp", "results"))
programs = toolkit / "bin"
for folder in (programs, temporary, results):
    folder.mkdir(parents=True)
started = Path(out, "started")
for name in ("ld.lld-22", "ptxas"):
    program = programs / name
    program.write_text(f'#!/bin/sh\necho $$ > "{started}.new"\n'
                       f'mv "{started}.new" "{started}"\nexec sleep 60\n')
    program.chmod(0o755)
environment = dict(os.environ, TMPDIR=str(temporary), CUDA_HOME=str(toolkit),
                   PATH=f"{programs}:{os.environ['PATH']}")


def interrupt(target, number, send):
    process = subprocess.Popen(
        [heddlec, schedule, "--target=" + target, "--dtype=f32",
         "--head-dim=64", "-o", results / "x.hdl"],
        env=environment, start_new_session=True)
    for _ in range(600):
        if started.exists():
            break
        time.sleep(0.1)
    assert started.exists(), "the program was never called"
    assert list(temporary.iterdir()), "no temporary file to look for"
    program = int(started.read_text())
    send(process.pid, number)
    assert process.wait(60) == -number
    left = list(temporary.iterdir()) + list(results.iterdir())
    assert not left, f"{number.name} left {left}"
    # Whoever inherited it from heddlec may take a moment to bury it.
    for _ in range(100):
        if not Path(f"/proc/{program}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{program}").exists(), f"{number.name}: it runs on"
    started.unlink()


numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
for number in numbers:  # whoever runs tests may ignore them
    signal.signal(number, signal.SIG_DFL)
for target in ("x86-64-v3", "cuda"):
    for send in (os.killpg, os.kill):
        for number in numbers:
            interrupt(target, number, send)
print("nothing is left")
