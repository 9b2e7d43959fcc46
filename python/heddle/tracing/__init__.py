# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs that heddle-run --record wrote: as arrays, and as a page. docs/HowTo/Trace.md."""

from .page import html
from .record import Record
