# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A search for the cheapest schedule whose answers stay right. docs/HowTo/Tune.md."""

from .search import Search, front, tune
from .space import Space
