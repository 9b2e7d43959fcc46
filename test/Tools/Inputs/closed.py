# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a command with descriptors 0 to 2 closed, in each combination that closes
standard output. Expects exit code 0, with --fails 1 to 127 (no signal)."""

import os
import sys

command = sys.argv[1:]
fails = command[0] == "--fails"
if fails:
    command = command[1:]
for closed in ((1,), (0, 1), (0, 1, 2)):
    child = os.fork()
    if child == 0:
        for descriptor in closed:
            os.close(descriptor)
        os.execvp(command[0], command)
    status = os.waitpid(child, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    if not (1 <= code < 128 if fails else code == 0):
        sys.exit(f"{closed} closed: exit code {code}")
