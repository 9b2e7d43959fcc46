#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: packages.py BUILD_DIR OUT_DIR CPACK PROGRAM...

Makes the Debian packages of a build and looks at what they hold and need.
Installing them on a system that has nothing else is clean_root.sh's.
"""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

BUILD, OUT = (Path(a).resolve() for a in sys.argv[1:3])
CPACK, PROGRAMS = sys.argv[3], sys.argv[4:]
COMPILER = {"heddlec", "heddle-opt", "heddle-lsp-server"}


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, cwd=BUILD)
    if result.returncode:
        raise AssertionError(f"{command}: exit code {result.returncode}\n"
                             f"{result.stdout}\n{result.stderr}")
    return result.stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(OUT, ignore_errors=True)
        run(CPACK, "-G", "DEB", "-B", OUT, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
        cls.files = {re.match("heddle-([a-z]+)_", p.name)[1]: p for p in OUT.glob("*.deb")}
        cls.held = {name: cls.contents(path) for name, path in cls.files.items()}

    @classmethod
    def contents(cls, package):
        """Path -> (mode, owner)."""
        rows = (line.split(None, 5) for line in run("dpkg-deb", "-c", package).splitlines())
        return {row[5][1:].partition(" -> ")[0]: (row[0], row[1]) for row in rows}

    def field(self, name, field):
        return run("dpkg-deb", "-f", self.files[name], field).strip()

    def test_which(self):
        self.assertEqual(set(self.files), {"runtime", "compiler", "dev"})
        for name in self.files:
            self.assertEqual(self.field(name, "Package"), f"heddle-{name}")
            self.assertRegex(self.field(name, "Version"), r"^\d+\.\d+\.\d+$")

    def test_each_file_is_in_one(self):
        every = [p for held in self.held.values() for p in held if not p.endswith("/")]
        self.assertEqual(len(every), len(set(every)))

    def test_programs_have_their_pages(self):
        for program in PROGRAMS:
            held = self.held["compiler" if program in COMPILER else "runtime"]
            for path in (f"/usr/bin/{program}", f"/usr/share/man/man1/{program}.1",
                         f"/usr/share/bash-completion/completions/{program}",
                         f"/usr/share/zsh/vendor-completions/_{program}",
                         f"/usr/share/fish/vendor_completions.d/{program}.fish"):
                self.assertIn(path, held)
        self.assertIn("/usr/share/heddle/examples/pulsecol.mlir", self.held["compiler"])
        self.assertIn("/usr/lib/libheddle.so.1", self.held["runtime"])
        for path in ("cmake/Heddle/HeddleConfig.cmake", "pkgconfig/heddle.pc", "libheddle.so"):
            self.assertIn(f"/usr/lib/{path}", self.held["dev"])
        self.assertIn("/usr/include/heddle/heddle.h", self.held["dev"])
        for name, held in self.held.items():
            self.assertIn(f"/usr/share/doc/heddle-{name}/copyright", held)

    def test_modes(self):
        for held in self.held.values():
            for path, (mode, owner) in held.items():
                expected = ("drwxr-xr-x" if path.endswith("/") else
                            "lrwxrwxrwx" if path == "/usr/lib/libheddle.so" else
                            "-rwxr-xr-x" if path.startswith("/usr/bin/") else "-rw-r--r--")
                self.assertEqual((mode, owner), (expected, "root/root"), path)

    def test_what_they_need(self):
        needs = {name: self.field(name, "Depends") for name in self.files}
        for package in ("libmlir-22", "libllvm22", "lld-22", "libc6"):
            self.assertRegex(needs["compiler"], rf"\b{package}\b")
        for package in ("libdnnl2", "libtbb12", "libpcre2-8-0", "libutf8proc2", "libgomp1"):
            self.assertRegex(needs["runtime"], rf"\b{package}\b")
        self.assertNotRegex(needs["runtime"], "llvm|mlir|cuda|nvidia")

    def test_where_libraries_are_looked_for(self):
        for name in ("runtime", "compiler"):
            folder = OUT / f"unpacked-{name}"
            run("dpkg-deb", "-x", self.files[name], folder)
            for program in (folder / "usr/bin").iterdir():
                paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]",
                                   run("readelf", "-d", program))
                expected = ["/usr/lib/llvm-22/lib"] if name == "compiler" else []
                self.assertEqual(paths, expected, program)
                self.assertNotIn(".symtab", run("readelf", "-SW", program))


unittest.main(argv=[sys.argv[0]])
