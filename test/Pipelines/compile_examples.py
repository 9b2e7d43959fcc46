#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: compile_examples.py HEDDLEC HEDDLE_BUNDLE EXAMPLES_DIR OUT_DIR

Compiles every schedule in EXAMPLES_DIR, twice, and verifies the bundles. The
two must be equal byte by byte: a bundle depends on nothing but its source, the
options and the compiler. Kernels that schedules share are compiled once in each
of the two rounds, which have caches of their own.
"""
import subprocess
import sys
from pathlib import Path

heddlec, heddle_bundle, examples, out = sys.argv[1:]
sources = sorted(Path(examples).glob("*.mlir"))
assert sources, f"no schedules in {examples}"
for source in sources:
    bundles = [Path(out, run + source.stem + ".hdl") for run in ("", "again-")]
    for bundle, cache in zip(bundles, ("cache", "another-cache")):
        subprocess.run([heddlec, source, "--target=x86-64-v3", "--dtype=f32", "--head-dim=64",
                        f"--cache-dir={out}.{cache}", "-o", bundle], check=True)
    assert bundles[0].read_bytes() == bundles[1].read_bytes(), source
    sys.stdout.flush()
    subprocess.run([heddle_bundle, "verify", bundles[0]], check=True)
left = {path.name for path in Path(out).iterdir()}
expected = {prefix + s.stem + ".hdl" for s in sources for prefix in ("", "again-")}
assert left == expected, left ^ expected
sys.stdout.flush()
print("all examples compiled")
