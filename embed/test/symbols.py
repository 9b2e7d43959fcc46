#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: symbols.py LIBHEDDLE HEADER MAP

What libheddle.so exports and links is what heddle.h and heddle.map say.
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

LIBRARY, HEADER, MAP = map(Path, sys.argv[1:])


def readelf(option):
    return subprocess.run(["readelf", "-W", option, LIBRARY], capture_output=True, text=True,
                          check=True).stdout


class Symbols(unittest.TestCase):
    def setUp(self):
        nodes = re.findall(r"(HEDDLE_\d+) \{(.*?)\}", MAP.read_text(), re.S)
        self.listed = {(name, node) for node, body in nodes
                       for name in re.findall(r"^\s*(heddle_\w+);", body, re.M)}
        self.assertGreater(len(self.listed), 20)

    def test_exported(self):
        rows = [line.split() for line in readelf("--dyn-syms").splitlines()]
        found = [row[7] for row in rows if len(row) > 7 and row[4] in ("GLOBAL", "WEAK")
                 and row[6] not in ("UND", "ABS", "Ndx")]
        self.assertEqual({tuple(name.split("@@")) for name in found}, self.listed)

    def test_declared(self):
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
        declared = set(re.findall(r"HEDDLE_C_EXPORT[\w\s*]*?\b(heddle_\w+)\(", text))
        self.assertEqual(declared, {name for name, _ in self.listed})

    def test_the_newest_version_is_the_headers(self):
        number = int(re.search(r"#define HEDDLE_C_API (\d+)", HEADER.read_text())[1])
        # A version that brought fields alone has no symbol; its node is there.
        defined = re.findall(r"Name: HEDDLE_(\d+)$", readelf("-V"), re.M)
        self.assertEqual(sorted(map(int, defined)), list(range(1, number + 1)))

    def test_name_and_libraries(self):
        dynamic = readelf("-d")
        self.assertEqual(re.findall(r"SONAME.*\[(.*)\]", dynamic), ["libheddle.so.1"])
        needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
        self.assertEqual([name for name in needed
                          if re.match(r"lib(LLVM|MLIR|cuda|cublas|nv|python)", name)], [])
        self.assertEqual(re.findall(r"R(?:UN)?PATH", dynamic), [])


unittest.main(argv=[sys.argv[0]])
