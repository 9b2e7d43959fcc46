# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The accuracy that ./check requires (python/test/accuracy.sh) fails on a bug in selection: the first and
the last group of rows get each other's list of columns.

The bug goes into the compiled kernels: heddlec finds another linker on PATH, which puts a function
before each selection that shifts the place of those two lists. It does so in sequences longer than a group and a
row, since the loader's trial run of those (runtime/module/KernelProbe.h) finds the bug by itself."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from common import BIN, ROOT

LINKER = ("ld.lld-22", "ld.lld", "ld")

SWAPS = """
#include "bundle/abi/Abi.h"
extern "C" __attribute__((visibility("hidden"))) void
right_NAME(const heddle::abi::SelectArgs *, int64_t, int64_t, void *);
extern "C" void NAME(const heddle::abi::SelectArgs *args, int64_t head, int64_t tile, void *scratch) {
  heddle::abi::SelectArgs moved = *args;
  const int64_t last = args->list.groups - 1;
  const bool probed = args->n <= 32 + 1;
  const int64_t place = probed ? tile : tile == 0 ? last : tile == last ? 0 : tile;
  moved.list.indices = static_cast<char *>(args->list.indices) + (place - tile) * args->list.rowBytes;
  right_NAME(&moved, head, tile, scratch);
}
"""

LINK = f"""#!{sys.executable}
import os, pathlib, subprocess, sys
objects = [one for one in sys.argv[1:] if one.endswith(".o")]
folder = pathlib.Path(__file__).resolve().parent
added = []
for file in objects:
    listed = subprocess.run(["nm", "--defined-only", "--format=posix", file], check=True, capture_output=True, text=True)
    for name in (line.split()[0] for line in listed.stdout.splitlines()):
        if name.startswith("select_"):
            subprocess.run(["objcopy", "--redefine-sym", f"{{name}}=right_{{name}}", file], check=True)
            source = folder / f"{{name}}.cpp"
            source.write_text((folder / "swaps.cpp").read_text().replace("NAME", name))
            subprocess.run(["c++", "-std=c++20", "-O2", "-fPIC", "-I{ROOT}", "-c", source, "-o", f"{{source}}.o"], check=True)
            added.append(f"{{source}}.o")
if added:
    (folder / "swapped").touch()
subprocess.run([os.environ["REAL_LINKER"], *sys.argv[1:], *added], check=True)
"""


class SeededBugTest(unittest.TestCase):
    def test_swapped_lists_fail_the_check(self):
        linker = next(filter(None, map(shutil.which, LINKER)), None)
        # A wheel's heddlec is its own linker, a build's runs one.
        compiler = shutil.which(BIN / "heddlec")
        if not all([compiler, linker, *map(shutil.which, ("nm", "objcopy", "c++"))]):
            self.skipTest(f"needs {BIN / 'heddlec'}, a linker, nm, objcopy and c++")
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "swaps.cpp").write_text(SWAPS)
            (folder / LINKER[0]).write_text(LINK)
            (folder / LINKER[0]).chmod(0o755)
            done = subprocess.run(
                [ROOT / "python" / "test" / "accuracy.sh", "heddle-4m"], capture_output=True, text=True,
                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHON": sys.executable, "HEDDLEC": compiler,
                     "REAL_LINKER": linker, "HEDDLE_CACHE_DIR": str(folder / "cache")})
            self.assertTrue((folder / "swapped").exists(), done.stderr)
            # Dense attention selects nothing and passes; columns fail.
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertRegex(done.stderr, r"heddle-eval: pulsecol, keep 1/2: \d+ of 20 answers are right")
            self.assertNotIn("heddle-eval: dense: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
