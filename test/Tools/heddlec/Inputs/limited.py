# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a command with little more address space than it asks for at least. It
must end with exit code 0, or 1 and a sentence, and take no more of the processor
than three times what it takes without a limit."""

import re
import resource
import subprocess
import sys


def run(limit):
    """The outcome with `limit` KB of address space, and the seconds of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        sys.argv[1:], stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: limit and resource.setrlimit(resource.RLIMIT_AS, (limit << 10,) * 2))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


free, seconds = run(None)
if free.returncode:
    sys.exit(free.stderr)
# Enough for its libraries, less than it needs.
for least in range(330000, 600000, 10000):
    found = re.search(r"needs at least (\d+) KB", run(least)[0].stderr)
    if found:
        break
else:
    sys.exit("no limit is too low")
for more in (28, 32, 36):
    result, taken = run(int(found.group(1)) + (more << 10))
    if result.returncode not in (0, 1) or bool(result.stderr) != bool(result.returncode):
        sys.exit(f"{more} MB more: exit code {result.returncode}, {result.stderr}")
    if taken > 3 * seconds + 0.3:
        sys.exit(f"{more} MB more: {taken:.2f} s of the processor, {seconds:.2f} without a limit")
