# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""interrupted.py BUNDLE FOLDER: with a compiler that never ends beside a copy of
heddle-bundle in the folder, ends the copy and waits for its compiler to go."""

import os
import pathlib
import signal
import subprocess
import sys
import time

bundle, folder = sys.argv[1], pathlib.Path(sys.argv[2])
compiler = folder / "heddlec"
compiler.write_text(f"#!/bin/sh\necho $$ > '{folder}/pid.new'\nmv '{folder}/pid.new' '{folder}/pid'\nexec sleep 1000\n")
compiler.chmod(0o755)


def wait_for(what, message):
    for _ in range(600):
        if what():
            return
        time.sleep(0.05)
    sys.exit(message)


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# A test runner may ignore it, and what it starts inherits that.
signal.signal(signal.SIGINT, signal.SIG_DFL)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
    (folder / "pid").unlink(missing_ok=True)
    tool = subprocess.Popen([folder / "tool", "rebuild", bundle, "-o", folder / "out.hdl"])
    wait_for((folder / "pid").exists, "the compiler was not started")
    pid = int((folder / "pid").read_text())
    tool.send_signal(number)
    if tool.wait(timeout=60) != -number:
        sys.exit(f"the tool ended with {tool.returncode}, not by signal {number}")
    wait_for(lambda pid=pid: is_gone(pid), f"the compiler is still there after signal {number}")
    if (folder / "out.hdl").exists():
        sys.exit("there is a bundle")
