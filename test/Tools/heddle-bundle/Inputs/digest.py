# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""digest.py FILE COMMAND...: appends the SHA-256 of a file to a command, in both
cases of letters, and the file's name if the command does not have it yet."""

import hashlib
import subprocess
import sys

file, command = sys.argv[1], sys.argv[2:]
digest = hashlib.sha256(open(file, "rb").read()).hexdigest()
for spelling in (digest, digest.upper()):
    subprocess.run([*command, spelling] + ([] if file in command else [file]), check=True,
                   stdin=subprocess.DEVNULL)
