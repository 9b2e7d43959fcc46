# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""files.py and programs.py: what is written, and how programs end."""

import contextlib
import errno
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import heddle
from heddle import files, programs


class FilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_links_are_followed(self):
        there = self.folder / "there"
        for name, to in (("link", there), ("chain", self.folder / "link"), ("relative", "there")):
            (self.folder / name).symlink_to(to)
            files.write(self.folder / name, name.encode())
            self.assertTrue((self.folder / name).is_symlink())
            self.assertEqual(there.read_text(), name)
        self.assertEqual(len(list(self.folder.iterdir())), 4)

    def test_a_pipe_stays_one(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
        files.write(pipe, b"all")
        self.assertEqual(reader.communicate(timeout=30)[0], b"all")
        self.assertTrue(pipe.is_fifo())

    def test_what_cannot_be_read_or_written_is_named_and_leaves_nothing(self):
        for path, number in ((self.folder, errno.EISDIR), (self.folder / "no" / "x", errno.ENOENT)):
            for does in (lambda: files.write(path, b"x"), lambda: files.check_writable(path)):
                with self.assertRaises(OSError) as raised:
                    does()
                self.assertEqual((raised.exception.filename, raised.exception.errno), (str(path), number))
        for path in ("/nonexistent", "/proc/self/mem"):  # to be opened, and to be read
            with self.assertRaises(OSError) as raised:
                files.read(path)
            self.assertEqual(raised.exception.filename, path)
        files.check_writable(self.folder / "x")
        self.assertEqual(list(self.folder.iterdir()), [])


class ProgramsTest(unittest.TestCase):
    def test_ends(self):
        def raises(error):
            raise error
        for status, said, does in (
                (0, "", lambda: None), (3, "", lambda: 3),
                (1, "p: wrong\n", lambda: raises(heddle.HeddleError("wrong"))),
                (1, "p: /nonexistent: No such file or directory\n", lambda: open("/nonexistent", encoding="utf-8")),
                (1, "p: /none\\n\\u001b[31m: No such file or directory\n", lambda: open("/none\n\033[31m", encoding="utf-8")),
                (1, "p: '': No such file or directory\n", lambda: open("", encoding="utf-8")),
                (1, "p: two\n  lines\\u202e\n", lambda: raises(heddle.HeddleError("two\n  lines\u202e"))),
                (130, "p: stopped\n", lambda: raises(KeyboardInterrupt))):
            with contextlib.redirect_stderr(io.StringIO()) as shown:
                self.assertEqual(programs.run("p", does, "stopped"), status)
            self.assertEqual(shown.getvalue(), said)
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()) as shown:
                self.assertEqual(programs.run("p", does, "stopped", True), status)
            said = said.removeprefix("p: ").strip()
            self.assertEqual(shown.getvalue() and json.loads(shown.getvalue()), said and {"complete": False, "error": said})
        self.assertRaises(ValueError, programs.run, "p", lambda: raises(ValueError("a bug")))

    def test_an_output_that_ends_early(self):
        code = "import sys; from heddle import programs; sys.exit(programs.run('p', lambda: print('x' * 100000, flush=True)))"
        with open("/dev/full", "wb") as full:
            done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "p: standard output: No space left on device\n"))
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        self.assertEqual((process.wait(), process.stderr.read()), (0, b""))
        process.stderr.close()


if __name__ == "__main__":
    unittest.main()
