#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: cache.py HEDDLEC SCHEDULE OUT_DIR

The cache of compiled code as users meet it: a bundle is the same bytes whatever
the cache holds, and whatever somebody did to it.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

HEDDLEC, SCHEDULE, OUT = (Path(argument).resolve() for argument in sys.argv[1:])
HIT, MISS = "code for host is from the cache", "code for host is not in the cache"
VARIABLES = ("HEDDLE_CACHE_DIR", "HEDDLE_CACHE_POLICY", "XDG_CACHE_HOME")


def run(*options, schedule=SCHEDULE, env={}, target="x86-64-v3", cwd=None, program=HEDDLEC):
    """Compiles; returns the bundle's bytes and what was said."""
    out = OUT / f"{threading.get_ident()}.hdl"
    out.unlink(missing_ok=True)
    environment = {k: v for k, v in os.environ.items() if k not in VARIABLES}
    result = subprocess.run(
        [program, schedule, f"--target={target}", "--dtype=f32", "--head-dim=32",
         "-o", out, *options],
        env=environment | env, cwd=cwd, capture_output=True, text=True)
    if result.returncode:
        raise AssertionError(f"{options}: {result.stderr}")
    return out.read_bytes(), result.stderr


def rewritten(name, old, new):
    text = SCHEDULE.read_text()
    assert old in text
    path = OUT / name
    path.write_text(text.replace(old, new))
    return path


class Cache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected, said = run("--no-cache", "--cache-verbose")
        assert "cache" not in said, said

    def setUp(self):
        self.folder = OUT / self.id().split(".")[-1]
        self.options = (f"--cache-dir={self.folder}", "--cache-verbose")

    def compile(self, expected_word, *options, **others):
        bundle, said = run(*self.options, *options, **others)
        self.assertIn(expected_word, said)
        return bundle

    def check(self, expected_word, *options, **others):
        self.assertEqual(self.compile(expected_word, *options, **others),
                         self.expected)

    def entries(self):
        return sorted(self.folder.glob("llvmcache-*"))

    def stats(self, *options):
        out = subprocess.run(
            [HEDDLEC, f"--cache-dir={self.folder}", "--cache-stats=json", *options],
            capture_output=True, text=True, check=True).stdout
        return json.loads(out)

    def test_hit(self):
        self.check(MISS)
        self.check(HIT)
        self.assertEqual(self.folder.stat().st_mode & 0o777, 0o700)
        for entry in self.entries():
            self.assertEqual(entry.stat().st_mode & 0o777, 0o600)

    def test_a_hit_lowers_no_kernel(self):
        """With the bundle's entry alone: kernels that were lowered would be kept again."""
        self.check(MISS)
        contents = {entry: entry.read_bytes() for entry in self.entries()}
        found = []
        for kept, content in contents.items():
            for entry in self.entries():
                entry.unlink()
            kept.write_bytes(content)
            kept.chmod(0o600)
            bundle, said = run(*self.options)
            self.assertEqual(bundle, self.expected)
            found.append(HIT in said)
            self.assertEqual(len(self.entries()), 1 if found[-1] else 4)
        self.assertEqual(found.count(True), 1)

    def test_a_hit_starts_no_program(self):
        linker = shutil.which("ld.lld-22") or shutil.which("ld.lld") or shutil.which("ld")
        ptxas = next((path for path in (shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas")
                      if path and os.path.exists(path)), None)
        kit, calls = OUT / "kit", OUT / "calls"
        (kit / "bin").mkdir(parents=True)
        for name, real in (("ld.lld-22", linker), ("ptxas", ptxas)):
            script = kit / "bin" / name
            if real:
                script.write_text(f'#!/bin/sh\necho {name} >> "{calls}"\nexec {real} "$@"\n')
                script.chmod(0o755)
        env = {"PATH": f"{kit / 'bin'}:{os.environ['PATH']}", "CUDA_HOME": str(kit)}
        cuda = {"target": "cuda:sm_80", "env": env}
        said = [run(*self.options, env=env)[1]]
        if ptxas:
            said.append(run(*self.options, **cuda)[1])
        self.assertTrue(all("is not in the cache" in text for text in said), said)
        self.assertEqual(set(calls.read_text().split()),
                         {"ld.lld-22", "ptxas"} if ptxas else {"ld.lld-22"})
        calls.unlink()
        self.check(HIT, env=env)
        if ptxas:
            self.assertIn("is from the cache", run(*self.options, **cuda)[1])
        self.assertFalse(calls.exists(), calls.exists() and calls.read_text())

    def test_key(self):
        self.check(MISS)
        # What no kernel depends on: comments, names, when a selection is made.
        self.compile(HIT, schedule=rewritten("comment.mlir", "  %cols", "\n  // !\n  %cols"))
        self.compile(HIT, schedule=rewritten("count.mlir", "count = 16", "count = 8"))
        # What kernels depend on, and what their machine does.
        other = rewritten("group.mlir", "group = 128", "group = 64")
        self.compile(MISS, schedule=other)
        self.compile(MISS, "--head-dim=64")
        self.compile(MISS, target="znver3")
        self.compile(MISS, target="x86-64-v4")
        self.check(HIT)
        # A bundle of several machines takes each from where it is.
        bundle, said = run(*self.options, "--ptxas=none", target="x86-64-v3,cuda:sm_80",
                           schedule=other)
        self.assertIn("code for host is from the cache", said)

    def test_another_build(self):
        """One bit of the build id makes another program."""
        self.check(MISS)
        program = HEDDLEC.read_bytes()
        name = program.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
        other = OUT / "another-heddlec"
        other.write_bytes(program[:name] + bytes([program[name] ^ 1]) + program[name + 1:])
        other.chmod(0o755)
        self.check(MISS, program=other)
        self.check(HIT, program=other)
        self.check(HIT)

    def test_another_linker(self):
        self.check(MISS)
        linker = shutil.which("ld.lld-22") or shutil.which("ld.lld") or shutil.which("ld")
        folder = OUT / "linker"
        folder.mkdir()
        script = folder / "ld.lld-22"
        script.write_text(f'#!/bin/sh\nexec {linker} "$@"\n')
        script.chmod(0o755)
        env = {"PATH": f"{folder}:{os.environ['PATH']}"}
        self.check(MISS, env=env)
        self.assertEqual(len(self.entries()), 5)  # kernels are not linked yet
        self.check(HIT, env=env)
        self.check(HIT)

    def test_kernels_are_found_one_by_one(self):
        self.check(MISS)
        before = set(self.entries())
        self.compile(MISS, schedule=rewritten("group.mlir", "group = 128", "group = 64"))
        added = len(set(self.entries()) - before)
        # The dense kernel that measures is the same; the whole is an entry, too.
        self.assertEqual((len(before), added), (4, 3))

    def test_what_watches_a_compilation_compiles(self):
        self.check(MISS)
        for options in (["--no-cache"], [f"--dump={OUT}/levels"], ["--verify-each"],
                        ["--remarks=.*"], ["--mlir-timing"]):
            with self.subTest(options):
                bundle, said = run(*self.options, *options)
                self.assertEqual(bundle, self.expected)
                self.assertNotIn(" the cache\n", said)
                self.assertEqual("the cache is not used: --dump" in said, options != ["--no-cache"])
        # Levels that have no code neither read nor fill it.
        elsewhere = OUT / "never made"
        run(f"--cache-dir={elsewhere}", "--compile-to=machine")
        self.assertFalse(elsewhere.exists())

    def test_damage(self):
        self.check(MISS)
        damages = {
            "a bit": lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:],
            "the first byte": lambda b: bytes([b[0] ^ 1]) + b[1:],
            "cut": lambda b: b[:len(b) // 2],
            "empty": lambda b: b"",
            "longer": lambda b: b + b"\0",
        }
        for name, damage in damages.items():
            with self.subTest(name):
                for entry in self.entries():
                    entry.write_bytes(damage(entry.read_bytes()))
                self.check(MISS)
        # Whole entries under each other's names.
        contents = [entry.read_bytes() for entry in self.entries()]
        for entry, others in zip(self.entries(), contents[1:] + contents[:1]):
            entry.write_bytes(others)
        self.check(MISS)
        self.check(HIT)

    def test_others_may_have_written_an_entry(self):
        self.check(MISS)
        for mode in (0o620, 0o602):
            for entry in self.entries():
                entry.chmod(mode)
            self.check(MISS)  # which puts its own in their place
            self.check(HIT)
        moved = OUT / "elsewhere"
        moved.mkdir()
        for entry in self.entries():
            entry.rename(moved / entry.name)
            entry.symlink_to(moved / entry.name)
        self.check(MISS)
        self.check(HIT)
        self.assertFalse(any(entry.is_symlink() for entry in self.entries()))
        for entry in self.entries():
            entry.unlink()
            os.mkfifo(entry)
        self.check(MISS)

    def test_others_may_write_to_the_folder(self):
        self.check(MISS)
        for mode in (0o770, 0o707):
            self.folder.chmod(mode)
            self.check("may be written by others")
        self.folder.chmod(0o700)
        self.check(HIT)

    @unittest.skipIf(os.geteuid(), "only root can give files away")
    def test_of_another_user(self):
        self.check(MISS)
        try:
            for entry in self.entries():
                os.chown(entry, 1, -1)
        except OSError as error:  # a container may have one user
            self.skipTest(f"cannot give files away: {error}")
        self.check(MISS)
        os.chown(self.folder, 1, -1)
        self.check("belongs to user 1")

    def test_read_only(self):
        if os.geteuid() == 0:  # whom no mode stops, but this file system does
            self.folder = Path("/sys/kernel")
        else:
            self.folder.mkdir(mode=0o500)
        self.options = (f"--cache-dir={self.folder}", "--cache-verbose")
        self.check("compiled code is kept: ")

    def test_no_folder_can_be_made(self):
        self.options = ("--cache-dir=/dev/null/x", "--cache-verbose")
        self.check("cannot make the folder")
        file = OUT / "file"
        file.write_text("")
        self.options = (f"--cache-dir={file}", "--cache-verbose")
        self.check("no compiled code is kept")

    def test_where(self):
        def filled(folder, **env):
            bundle, said = run("--cache-verbose", env={"HOME": "", **env}, cwd=OUT)
            self.assertEqual(bundle, self.expected)
            self.assertEqual("the cache" in said, bool(folder))
            # Whoever chose that nothing is kept knows.
            self.assertEqual("no compiled code is kept: there is no folder to keep it in" in said,
                             not folder and "HEDDLE_CACHE_DIR" not in env)
            if folder:
                self.assertEqual(len(list(folder.glob("llvmcache-*"))), 4)
        before = set(OUT.iterdir())
        home = OUT / "home"
        filled(home / "here", HEDDLE_CACHE_DIR=str(home / "here"), XDG_CACHE_HOME="/dev/null")
        filled(home / "xdg/heddle", XDG_CACHE_HOME=str(home / "xdg"))
        filled(home / ".cache/heddle", HOME=str(home))
        filled(None, HOME=str(home), HEDDLE_CACHE_DIR="")
        filled(None, HOME=str(home), XDG_CACHE_HOME="relative")
        filled(None)
        self.assertEqual({p.name for p in set(OUT.iterdir()) - before} -
                         {f"{threading.get_ident()}.hdl"}, {"home"})

    def test_many_at_once(self):
        results = []
        threads = [threading.Thread(target=lambda: results.append(run(*self.options)[0]))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [self.expected] * 4)
        self.assertEqual(len(self.entries()), 4)
        self.check(HIT)

    def test_killed(self):
        started = time.monotonic()
        self.check(MISS)
        whole = time.monotonic() - started
        chance = random.Random(7)
        for _ in range(4):
            self.assertEqual(subprocess.run([HEDDLEC, f"--cache-dir={self.folder}",
                                             "--cache-clear"]).returncode, 0)
            process = subprocess.Popen(
                [HEDDLEC, SCHEDULE, "--target=x86-64-v3", "--dtype=f32", "--head-dim=32",
                 "-o", OUT / "killed.hdl", *self.options], stderr=subprocess.DEVNULL)
            try:
                process.wait(chance.uniform(0.3, 1) * whole)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            process.wait()
            self.check("the cache")
            self.check(HIT)

    def test_limit(self):
        self.check(MISS)
        held = self.stats()
        self.assertEqual(held["entries"], 4)
        self.assertEqual(held["bytes"], sum(e.stat().st_size for e in self.entries()))
        self.assertEqual(held["limit_bytes"], 1 << 30)
        # What a killed process left counts, and goes as what is longest unused.
        left = self.folder / "llvmcache-0123456789ab.tmp"
        left.write_bytes(b"x" * 1000)
        os.utime(left, (1, 1))
        other = rewritten("group.mlir", "group = 128", "group = 64")
        self.check(HIT)  # and so was used after the kernels of its own
        limit = held["bytes"] + 2000
        policy = f"--cache-policy=cache_size_bytes={limit}:prune_after=0s"
        self.compile(MISS, policy, schedule=other)
        self.assertFalse(left.exists())
        self.assertLessEqual(self.stats()["bytes"], limit)
        self.assertEqual(self.stats(policy)["limit_bytes"], limit)
        self.compile(HIT, schedule=other)
        self.check(MISS)  # its whole was used before the other's
        # By variable, and below what one compilation makes.
        run(*self.options, "--head-dim=64",
            env={"HEDDLE_CACHE_POLICY": "cache_size_bytes=1"})
        self.assertEqual(self.stats()["entries"], 0)

    def test_policy(self):
        for policy in ("cache_size_bytes=many", "nonsense"):
            bundle, said = run(*self.options, f"--cache-policy={policy}")
            self.assertIn(f"the policy '{policy}'", said)
            self.assertEqual(bundle, self.expected)

    def test_clear_and_stats(self):
        self.check(MISS)
        stranger = self.folder / "notes.txt"
        stranger.write_text("mine")
        text = subprocess.run([HEDDLEC, f"--cache-dir={self.folder}", "--cache-stats"],
                              capture_output=True, text=True, check=True).stdout
        self.assertRegex(text, r"folder +\S+\nentries +4\nbytes +[\d,]+\nlimit +1,073,741,824")
        self.assertEqual(self.stats("--cache-clear")["entries"], 0)
        self.assertTrue(stranger.exists())
        self.check(MISS)
        for option in ("--cache-stats", "--cache-clear"):
            result = subprocess.run([HEDDLEC, option, SCHEDULE], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2)
            self.assertIn("compile nothing", result.stderr)
        result = subprocess.run([HEDDLEC, "--cache-dir=/dev/null/x", "--cache-stats"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("/dev/null/x", result.stderr)


unittest.main(argv=[sys.argv[0]])
