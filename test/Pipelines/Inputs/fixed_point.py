# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fixed_point.py HEDDLEC FOLDER SCHEDULE...: compiles each schedule to its level and
the plan, then what was printed again, and compares the bytes."""

import glob
import os
import subprocess
import sys

heddlec, folder, patterns = sys.argv[1], sys.argv[2], sys.argv[3:]
os.makedirs(folder, exist_ok=True)
schedules = sorted(path for pattern in patterns for path in glob.glob(pattern))


def compiled(source, level):
    result = subprocess.run([heddlec, source, f"--compile-to={level}", "-o", "-"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if result.returncode:
        sys.exit(f"{source}: {result.stderr.decode()}")
    return result.stdout


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
if wrong:
    sys.exit("\n".join(wrong))
