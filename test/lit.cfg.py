# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lit suite. A tool that the build does not have is no feature of it:
tests say `REQUIRES: heddlec` and are left out of, say, a build without LLVM."""

import os
import re
import shutil

import lit.formats

config.name = "Heddle"
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.heddle_exec_dir
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "Laws", "unit"]

for variable in ("HOME", "TMPDIR", "UBSAN_OPTIONS", "LD_LIBRARY_PATH"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
# LLVM's allocators mark memory in our objects and not in its shared libraries,
# which are built without the sanitizers: marks would be stale.
config.environment["ASAN_OPTIONS"] = ":".join(
    filter(None, (os.environ.get("ASAN_OPTIONS"), "allow_user_poisoning=0")))
# Every test compiles; those of the cache name one.
config.environment["HEDDLE_CACHE_DIR"] = ""
config.environment["FILECHECK_OPTS"] = "-enable-var-scope"
config.environment["PATH"] = os.pathsep.join(
    (config.heddle_bin_dir, config.llvm_tools_dir, os.environ.get("PATH", "")))

config.substitutions.append(("%heddle_src", config.heddle_source_dir))
config.substitutions.append(("%examples", os.path.join(config.heddle_source_dir, "examples")))
config.substitutions.append(("%python", config.python))


def add_tool(name, path):
    """Replaces `name`, where it stands as a command, by its full path."""
    config.substitutions.append(
        (r"(?<![-\w./%])" + re.escape(name) + r"(?![-\w./=])", path))


for name in config.heddle_tools:
    if name:
        config.available_features.add(name)
        add_tool(name, os.path.join(config.heddle_bin_dir, name))
def find_ptxas():
    """NVIDIA's assembler where heddlec finds it too (lib/Target/NVPTX/Ptxas.cpp)."""
    for toolkit in ("CUDA_HOME", "CUDA_PATH"):
        path = os.path.join(os.environ.get(toolkit, ""), "bin", "ptxas")
        if os.environ.get(toolkit) and os.access(path, os.X_OK):
            return path
    path = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    return path if os.access(path, os.X_OK) else None


if find_ptxas():
    config.available_features.add("ptxas")
elif "heddlec" in config.available_features:
    lit_config.note("no ptxas: the code for GPUs is not assembled")
for variable in ("CUDA_HOME", "CUDA_PATH"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]
add_tool("FileCheck", config.filecheck)
add_tool("not", config.not_)

if config.sanitizers:
    config.available_features.add("sanitizers")
