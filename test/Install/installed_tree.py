#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: installed_tree.py SOURCE_DIR BUILD_DIR OUT_DIR CMAKE CXX

Installs a build, moves the tree, builds examples/embed with nothing but it and
compares what those programs and the installed ones make.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE, BUILD, OUT = (Path(a).resolve() for a in sys.argv[1:4])
CMAKE, CXX = sys.argv[4:]
MODEL = SOURCE / "models/heddle-4m"
PROMPT, ANSWER = "Sort 52 17 90 33.", "17 33 52 90"


def run(*command, **others):
    result = subprocess.run(command, capture_output=True, text=True, **others)
    if result.returncode:
        raise AssertionError(f"{command}: exit code {result.returncode}\n"
                             f"{result.stdout}\n{result.stderr}")
    return result.stdout


class InstalledTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(OUT, ignore_errors=True)
        first, cls.tree = OUT / "first", OUT / "moved"
        run(CMAKE, "--install", BUILD, "--prefix", first)
        first.rename(cls.tree)
        cls.bin = cls.tree / "bin"
        cls.examples = cls.tree / "share/heddle/examples"

    def test_embedding(self):
        build = OUT / "embed"
        run(CMAKE, "-S", self.examples / "embed", "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.tree}", f"-DCMAKE_CXX_COMPILER={CXX}")
        cache = (build / "CMakeCache.txt").read_text()
        self.assertIn(f"Heddle_DIR:PATH={self.tree}", cache)
        run(CMAKE, "--build", build, "-j2")
        bundle = OUT / "embedded.hdl"
        run(build / "compile", self.examples / "pulsecol.mlir", bundle)
        run(self.bin / "heddle-bundle", "verify", bundle)
        text = run(build / "generate", MODEL, bundle, PROMPT)
        self.assertEqual(text.strip(), ANSWER)
        environment = dict(os.environ, HEDDLE_CACHE_DIR="")
        environment.pop("HEDDLEC", None)  # the compiler is the one beside the library
        pulsecol, compiled = self.examples / "pulsecol.mlir", OUT / "for-c.hdl"
        run(self.bin / "heddlec", pulsecol, "-o", compiled, env=environment)
        for schedule in (pulsecol, compiled):
            text = run(build / "example", MODEL, schedule, PROMPT, env=environment)
            self.assertEqual(text.strip(), ANSWER)
        self.assertIn("less than", run(build / "attention", env=environment))
        # Errors are the library's sentences.
        bad = subprocess.run([build / "generate", MODEL, SOURCE / "README.md", PROMPT],
                             capture_output=True, text=True)
        self.assertEqual(bad.returncode, 1)
        self.assertIn("README.md", bad.stderr)

    def test_c_by_pkg_config(self):
        environment = dict(os.environ, PKG_CONFIG_PATH=str(self.tree / "lib/pkgconfig"))
        flags = run("pkg-config", "--cflags", "--libs", "heddle", env=environment).split()
        program = OUT / "by-pkg-config"
        run("cc", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror",
            self.examples / "embed/example.c", "-o", program, *flags,
            f"-Wl,-rpath,{self.tree / 'lib'}")
        self.assertEqual(run(program, MODEL, self.examples / "dense.mlir", PROMPT).strip(), ANSWER)

    def test_c_alone_needs_nothing_else(self):
        """No C++, none of the runtime's own dependencies."""
        project = OUT / "c-alone"
        project.mkdir()
        (project / "main.c").write_text(
            "#include <heddle/heddle.h>\n#include <stdio.h>\n"
            "int main(void) { return puts(heddle_version()) < 0; }\n")
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(Alone LANGUAGES C)\n"
            "find_package(Heddle 0.1 REQUIRED COMPONENTS C)\n"
            "add_executable(alone main.c)\ntarget_link_libraries(alone PRIVATE Heddle::C)\n")
        run(CMAKE, "-S", project, "-B", project / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.tree}")
        run(CMAKE, "--build", project / "build")
        self.assertRegex(run(project / "build/alone"), r"^\d+\.\d+\.\d+$")
        self.assertNotIn("dnnl_DIR", (project / "build/CMakeCache.txt").read_text())

    def test_programs(self):
        bundle = OUT / "programs.hdl"
        environment = dict(os.environ, HEDDLE_CACHE_DIR="")
        run(self.bin / "heddlec", self.examples / "dense.mlir", "--dtype=f32",
            "--head-dim=64", "-o", bundle, env=environment)
        self.assertIn("dense", run(self.bin / "heddle-bundle", "dump", bundle))

    def test_the_config_says_what_is_missing(self):
        project = OUT / "missing"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(Missing LANGUAGES C CXX)\n"
            "find_package(Heddle REQUIRED COMPONENTS Weaving)\n")
        result = subprocess.run(
            [CMAKE, "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.tree}"],
            capture_output=True, text=True)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"components\s+C,\s+Runtime\s+and\s+Compiler")

    def test_headers_are_whole(self):
        """What an installed header includes of Heddle is installed."""
        root = self.tree / "include/heddle"
        headers = [p for p in root.rglob("*") if p.suffix in (".h", ".inc")]
        self.assertGreater(len(headers), 100)
        missing = [f"{p}: {name}" for p in headers
                   for name in re.findall(r'#include "((?:bundle|runtime|heddle)/[^"]+)"',
                                          p.read_text()) if not (root / name).is_file()]
        self.assertEqual(missing, [])

    def test_no_path_of_the_build(self):
        """The tree may be moved, and the build folder removed."""
        for file in (self.tree / "lib/cmake/Heddle").iterdir():
            for folder in (SOURCE, BUILD):
                self.assertNotIn(str(folder) + "/", file.read_text(), file)


unittest.main(argv=[sys.argv[0]])
