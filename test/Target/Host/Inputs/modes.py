# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""modes.py FOLDER COMMAND...: runs a command under umask 0, with a linker on PATH
that writes the names and modes of its files to FOLDER/modes.txt."""

import os
import pathlib
import shutil
import subprocess
import sys

folder = pathlib.Path(sys.argv[1])
real = next(filter(None, map(shutil.which, ("ld.lld-22", "ld.lld", "ld"))))
linker = folder / "bin" / "ld.lld-22"
linker.write_text(f"""#!/bin/sh
'{real}' "$@" || exit
for file; do
  case $file in /*) stat -c '%n %a' "$file" >> '{folder}/modes.txt';; esac
done
""")
linker.chmod(0o755)
os.umask(0)
os.environ["PATH"] = f"{linker.parent}:{os.environ['PATH']}"
sys.exit(subprocess.call(sys.argv[2:]))
