# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a schedule costs in answers: tasks with one right answer each, run under any schedule,
with the work that each run took. docs/HowTo/Evaluate.md."""

from .report import markdown
from .runner import Plan, evaluate
from .statistics import summarize, wilson
