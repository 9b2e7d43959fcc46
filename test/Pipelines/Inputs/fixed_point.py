# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fixed_point.py HEDDLEC HEDDLE_BUNDLE FOLDER SCHEDULE...: compiles each schedule to its
level and the plan, then what was printed again, and compares the bytes; and both to
bundles, whose sections must be the same but for the schedule's own text."""

import glob
import os
import subprocess
import sys

heddlec, heddle_bundle, folder, patterns = *sys.argv[1:4], sys.argv[4:]
os.makedirs(folder, exist_ok=True)
schedules = sorted(path for pattern in patterns for path in glob.glob(pattern))


def compiled(source, level):
    result = subprocess.run([heddlec, source, f"--compile-to={level}", "-o", "-"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if result.returncode:
        sys.exit(f"{source}: {result.stderr.decode()}")
    return result.stdout


def sections(source):
    """The manifest and the code of the bundle of a schedule. Which kernels there are, not how
    they are made, depends on the schedule: one type and head dim serve."""
    bundle = os.path.join(folder, "compiled.hdl")
    subprocess.run([heddlec, source, "--dtype=f32", "--head-dim=64", "-o", bundle,
                    f"--cache-dir={folder}/cache"], check=True)
    return [subprocess.run([heddle_bundle, "dump", bundle, f"--section={name}"], check=True,
                           stdout=subprocess.PIPE).stdout for name in ("manifest", "code.host")]


assert len(schedules) > 20, schedules
wrong = []
for schedule in schedules:
    printed = compiled(schedule, "schedule")
    again = os.path.join(folder, os.path.basename(schedule))
    with open(again, "wb") as file:
        file.write(printed)
    if compiled(again, "schedule") != printed:
        wrong.append(f"{schedule}: the schedule, printed and compiled again, is another")
    if compiled(again, "plan") != compiled(schedule, "plan"):
        wrong.append(f"{schedule}: the printed schedule has another plan")
    if sections(again) != sections(schedule):
        wrong.append(f"{schedule}: the printed schedule makes another manifest or other code")
if wrong:
    sys.exit("\n".join(wrong))
