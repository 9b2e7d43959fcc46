#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of run_docs.py: what it must find wrong, and what it must let pass."""

import argparse
import re
import tempfile
import unittest
from pathlib import Path

import run_docs


def run_page(text, gpu=False, timeout=60):
    """(commands run, errors, lines with --update) of a page."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.md"
        page.write_text(text)
        blocks, wrong = run_docs.fenced_blocks(page, text)
        ran, errors, lines = run_docs.check_file(
            page, blocks, argparse.Namespace(bin=Path(folder), gpu=gpu, verbose=False,
                                                   timeout=timeout))
        return ran, wrong + errors, "\n".join(lines) + "\n"


class RunDocs(unittest.TestCase):
    def test_equal_output_passes(self):
        self.assertEqual(run_page("```console\n$ echo a; echo b >&2\na\nb\n```\n")[:2], (1, []))

    def test_other_output_is_found_and_written(self):
        _, errors, new = run_page("text\n```console\n$ echo b\na\n$ echo c\nc\n```\n")
        self.assertIn("page.md:3: printed something else: echo b", errors[0])
        self.assertEqual(new, "text\n```console\n$ echo b\nb\n$ echo c\nc\n```\n")

    def test_output_that_is_not_shown_is_found(self):
        self.assertTrue(run_page("```console\n$ echo a\n```\n")[1])
        self.assertTrue(run_page("```console\n$ true\na\n```\n")[1])

    def test_a_failure_is_found_unless_the_docs_show_an_error(self):
        self.assertIn("status 3", run_page("```console\n$ (exit 3)\n```\n")[1][0])
        self.assertFalse(run_page("```console\n$ echo error: no; (exit 3)\nerror: no\n```\n")[1])

    def test_blocks_share_a_shell_and_a_folder(self):
        page = "```console\n$ A=7; echo x > file\n```\n\n```console\n$ cat file; echo $A\nx\n7\n```\n"
        self.assertEqual(run_page(page)[:2], (2, []))

    def test_long_commands_go_on(self):
        self.assertEqual(run_page("```console\n$ echo a \\\n    b\na b\n```\n")[:2], (1, []))

    def test_here_documents_go_on_to_their_end(self):
        for word in ("END", "'END'", '"END"', " END"):
            with self.subTest(word):
                page = f"```console\n$ cat <<{word} | tr a b\n$ a\nEND\n$ b\n$ echo c\nc\n```\n"
                blocks, _ = run_docs.fenced_blocks(Path("page.md"), page)
                self.assertEqual([c.text for c in run_docs.commands_of(blocks[0])],
                                 [f"cat <<{word} | tr a b\n$ a\nEND", "b", "echo c"])
        page = "```console\n$ cat <<END | tr a b\na $((1 + 1))\nEND\nb 2\n$ cat <<< a\na\n```\n"
        self.assertEqual(run_page(page)[:2], (2, []))

    def test_what_does_not_end_is_ended_and_said(self):
        for command in ("sleep 1000", "sleep 1000 | cat", "cat <<END"):
            with self.subTest(command):
                page = f"```console\n$ echo a\na\n$ {command}\n$ echo b\nb\n```\n"
                ran, errors, _ = run_page(page + page, timeout=0.5)
                self.assertEqual(ran, 2)
                self.assertIn("page.md:4: did not end in 0.5 s", errors[0])

    def test_programs_that_are_missing_are_named(self):
        page = "```console\n$ heddle-none --x | cat\na\n$ build/dev/bin/heddle-none\nb\n$ echo c\nc\n```\n"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "bin").mkdir()
            (Path(folder) / "page.md").write_text(page)
            args = argparse.Namespace(bin=Path(folder) / "bin", gpu=False, verbose=False, timeout=60)
            blocks, _ = run_docs.fenced_blocks(Path(folder) / "page.md", page)

            def run():
                ran, errors, lines = run_docs.check_file(Path(folder) / "page.md", blocks, args)
                # What is printed without it is not what the docs are to say.
                self.assertEqual((ran, lines), (3, page.splitlines()))
                return errors
            for rules, what in (("", f"no target of {folder} makes it; install it"),
                                ("# rules\nbuild heddle-none: phony bin/heddle-none\n",
                                 f"build it (cmake --build {folder} --target heddle-none)")):
                (Path(folder) / "build.ninja").write_text(rules)
                self.assertEqual(run(), [
                    f"{folder}/page.md:2: there is no program heddle-none: {what}: heddle-none --x | cat",
                    f"{folder}/page.md:4: there is no program build/dev/bin/heddle-none: {what}: "
                    "build/dev/bin/heddle-none"])
        for line in ("sh: 1: heddle-none: not found", "env: \u2018heddle-none\u2019: No such file or directory"):
            self.assertIn("no program heddle-none:", run_docs.missing_program([], [line], Path("/bin")))
        # Unless the docs show just that.
        shown = "bash: line 1: heddle-none: command not found"
        self.assertIsNone(run_docs.missing_program([shown], [shown], Path("/bin")))
        self.assertIsNone(run_docs.missing_program([], ["bash: line 1: x: No such file or directory"], Path("/bin")))

    def test_dots_stand_for_lines_and_for_text(self):
        self.assertTrue(run_docs.same(["a", "...", "d"], list("abcd")))
        self.assertTrue(run_docs.same(["a", "..."], ["a"]))
        self.assertFalse(run_docs.same(["a", "...", "d"], list("abc")))
        self.assertTrue(run_docs.same(["a ... d"], ["a b c d"]))
        self.assertFalse(run_docs.same(["a ... d"], ["a b c"]))
        self.assertEqual(run_docs.rewritten(["first 1", "...", "last 1"],
                                            ["first 2", "middle", "last 2"]),
                         ["first 2", "...", "last 2"])

    def test_times_are_masked_and_other_numbers_are_not(self):
        self.assertTrue(run_docs.same(["3.68 s (34.8 tok/s)"], ["4 s (30 tok/s)"]))
        self.assertFalse(run_docs.same(["30.0% of the pairs"], ["29.0% of the pairs"]))

    def test_shares_may_differ_in_their_last_digit(self):
        self.assertTrue(run_docs.same_line("rows 7.1%, 3 steps", "rows 7.3%, 3 steps"))
        self.assertFalse(run_docs.same_line("rows 7.1%, 3 steps", "rows 7.4%, 3 steps"))
        self.assertFalse(run_docs.same_line("rows 7.1%, 3 steps", "rows 7.1%, 4 steps"))

    def test_what_needs_a_gpu_or_is_not_run_waits(self):
        page = "<!-- gpu -->\n```console\n$ echo a\nb\n```\n<!-- not run: why -->\n```console\n$ b\n```\n"
        self.assertEqual(run_page(page)[:2], (0, []))
        self.assertEqual(run_page(page, gpu=True)[0], 1)

    def test_nothing_escapes(self):
        for page, word in (("```\nx\n```\n", "a block of ''"),
                           ("```sh\nx\n```\n", "a block of 'sh'"),
                           ("```text\nheddlec x\n```\n", "holds a command"),
                           ("```console\nx\n```\n", "must begin with a command"),
                           ("<!-- not run -->\n```console\n$ x\n```\n", "without a reason"),
                           ("<!-- gpu -->\ntext\n", "no block follows"),
                           ("```console\n$ true\n", "does not end")):
            with self.subTest(page):
                self.assertIn(word, run_docs.fenced_blocks(Path("page.md"), page)[1][0])

    def test_links_lead_somewhere(self):
        page = Path("docs/page.md")  # need not exist itself
        good = "[a](Spec/README.md) [b](HowTo/Run.md#on-a-gpu) [c](https://x.invalid/y) ![d](../LICENSE)"
        self.assertEqual(run_docs.broken_links(page, good), [])
        self.assertEqual(len(run_docs.broken_links(page, "[a](no.md)\n[b](HowTo/Run.md#no)")), 2)

    def test_the_docs_are_found(self):
        pages = {str(page) for page in run_docs.docs()}
        self.assertLessEqual({"README.md", "docs/Tutorials/FirstRun.md", "docs/HowTo/Run.md",
                              "docs/Spec/README.md", "models/heddle-4m/README.md"}, pages)


class Quickstart(unittest.TestCase):
    def test_builds_what_the_pages_run(self):
        text = (run_docs.ROOT / "quickstart").read_text()
        built = set(re.search(r"^build release (.*)$", text.replace("\\\n", ""), re.M)[1].split())
        install = (run_docs.ROOT / "cmake/HeddleInstall.cmake").read_text()
        programs = set(re.search(r"foreach\(program ([^)]*)\)", install)[1].split())
        used = set()
        for page in run_docs.docs():
            for block in run_docs.fenced_blocks(page, (run_docs.ROOT / page).read_text())[0]:
                if block.language != "console" or block.marker:
                    continue
                for command in run_docs.commands_of(block):
                    used |= programs & set(re.findall(r"heddlec|heddle(?:-[a-z]+)+", command.text))
                    if re.search(r"pkg-config .*\bheddle\b", command.text):
                        used.add("HeddleC")
        self.assertLessEqual({"heddlec", "heddle-run", "heddle-conformance", "HeddleC"}, used)
        self.assertEqual(used - built, set())


if __name__ == "__main__":
    unittest.main()
