#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a wheel promises, asked by the Python that has it, in the source folder: an import in
200 ms of the CPU that loads no PyTorch, and the README's example with no other program on PATH."""

import doctest
import os
import re
import subprocess
import sys

# Judged by the CPU's time, which is the clock's where nothing else runs.
ONE = """import sys, time
cpu, clock = time.process_time(), time.perf_counter()
import heddle
print(1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - clock))
assert 'torch' not in sys.modules and 'numpy' not in sys.modules"""


def imports():
    runs = [[float(t) for t in subprocess.check_output([sys.executable, "-c", ONE]).split()] for _ in range(10)]
    for what, times in zip(("of the CPU", "by the clock"), zip(*runs)):
        print("import heddle:", ", ".join(f"{t:.0f}" for t in sorted(times)), "ms", what)
    return min(cpu for cpu, _ in runs) < 200


def example():
    """Whether README.md's Python does what it says."""
    import heddle
    print(f"heddle {heddle.__version__} of {os.path.dirname(heddle.__file__)}")
    os.environ["PATH"] = os.devnull
    with open("README.md", encoding="utf-8") as file:
        text = "".join(re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S))
    test = doctest.DocTestParser().get_doctest(text, {}, "README.md", "README.md", 0)
    done = doctest.DocTestRunner().run(test)
    print(f"README.md: {done.attempted} examples, {done.failed} failed")
    return done.attempted > 3 and not done.failed


if __name__ == "__main__":
    sys.exit(not all([imports(), example()]))
