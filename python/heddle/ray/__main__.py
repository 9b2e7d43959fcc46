# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python3 -m heddle.ray"""

import sys

from .command import main

sys.exit(main())
