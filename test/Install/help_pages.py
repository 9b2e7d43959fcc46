#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: help_pages.py SOURCE_DIR BIN_DIR OUT_DIR TOOL...

Man pages and completions hold every option of every tool, and the shells take
them: bash is asked for completions, zsh and fish where they are installed.
"""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE, BIN, OUT = (Path(a).resolve() for a in sys.argv[1:4])
TOOLS = sys.argv[4:]


def output(*command, **others):
    return subprocess.run(command, capture_output=True, text=True, check=True, **others).stdout


def options(tool, *command):
    """The options in a tool's --help, found in the simplest way that there is."""
    text = output(BIN / tool, *command, "--help")
    return {name for line in re.findall(r"^ {2,6}(-[\w,-]+)", text, re.M)
            for name in line.split(",")}


def of_page(tool, path):
    return (OUT / path.format(tool)).read_text()


def bash(tool, *words):
    """What bash offers for the last of the words."""
    script = (f"source {OUT}/bash-completion/completions/{tool}\n"
              'function=$(complete -p "$1" | sed "s/.*-F \\([^ ]*\\).*/\\1/")\n'
              'COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))\n'
              'compopt() { :; }\n"$function"\nprintf "%s\\n" "${COMPREPLY[@]}"')
    return set(output("bash", "-c", script, "bash", tool, *words, cwd=SOURCE).split())


class HelpPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(OUT, ignore_errors=True)
        for tool in TOOLS:
            subprocess.run([sys.executable, SOURCE / "cmake/help_pages.py", BIN / tool, OUT],
                           check=True)

    def test_every_option_is_everywhere(self):
        for tool in TOOLS:
            commands = re.findall(r"^  (\w+)", output(BIN / tool, "--help").partition(
                "Subcommands:")[2].partition("\n\n")[0], re.M)
            self.assertEqual(bool(commands), tool == "heddle-bundle")
            every = options(tool).union(*(options(tool, c) for c in commands))
            self.assertGreaterEqual(len(every), 4, tool)
            man = of_page(tool, "man/man1/{}.1").replace("\\-", "-")
            zsh = of_page(tool, "zsh/vendor-completions/_{}")
            words = of_page(tool, "bash-completion/completions/{}")
            fish = of_page(tool, "fish/vendor_completions.d/{}.fish")
            for name in every:
                with self.subTest(tool=tool, name=name):
                    self.assertIn(f"\\fB{name}\\fR", man)
                    self.assertRegex(zsh, rf"['){re.escape(' ')}]{name}[=+\[]")
                    self.assertRegex(words, rf"['\s]{name}[='\s]")
                    flag = "-l" if name.startswith("--") else "-s" if len(name) == 2 else "-o"
                    self.assertRegex(fish, rf" {flag} {name.lstrip('-')} ")

    def test_bash_completes(self):
        self.assertEqual(bash("heddlec", "--comp"), {"--compile-to="})
        self.assertEqual(bash("heddlec", "--compile-to", "=", "s"), {"schedule", "shed"})
        self.assertLessEqual({"text", "json"}, bash("heddlec", "--explain", "="))
        self.assertIn("--explain", bash("heddlec", "--ex"))
        self.assertEqual(bash("heddlec", "READ"), {"README.md"})
        self.assertEqual(bash("heddlec", "-o", "READ"), {"README.md"})
        if "heddle-run" in TOOLS:
            self.assertLessEqual({"--prompt-file=", "--prompts-file=", "--prompt-ids="},
                                 bash("heddle-run", "--pro"))
            self.assertNotIn("--model=", bash("heddle-run", "--pro"))
            self.assertIn("-m", bash("heddle-run", "-"))
            self.assertEqual(bash("heddle-run", "--model", "READ"), {"README.md"})
        if "heddle-bundle" in TOOLS:
            self.assertEqual(bash("heddle-bundle", "ver"), {"verify"})
            self.assertIn("--section=", bash("heddle-bundle", "dump", "--"))
            self.assertNotIn("--section=", bash("heddle-bundle", "verify", "--"))

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh_reads(self):
        for tool in TOOLS:
            output("zsh", "-n", OUT / f"zsh/vendor-completions/_{tool}")

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish_completes(self):
        def fish(tool, line):
            file = OUT / f"fish/vendor_completions.d/{tool}.fish"
            return {row.split("\t")[0] for row in
                    output("fish", "--no-config", "-c",
                           f"source {file}; complete -C '{line}'").splitlines()}
        self.assertEqual(fish("heddlec", "heddlec --compile-to=s"),
                         {"--compile-to=schedule", "--compile-to=shed"})
        for tool in TOOLS:
            self.assertLessEqual({n for n in options(tool) if n.startswith("--")},
                                 fish(tool, f"{tool} --"))
        if "heddle-bundle" in TOOLS:
            self.assertIn("--section", fish("heddle-bundle", "heddle-bundle dump --"))

    @unittest.skipUnless(shutil.which("man"), "no man")
    def test_man_has_no_complaint(self):
        for tool in TOOLS:
            result = subprocess.run(["man", "--warnings", "-l", OUT / f"man/man1/{tool}.1"],
                                    capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("SYNOPSIS", result.stdout)
            self.assertIn(tool, result.stdout)


unittest.main(argv=[sys.argv[0]])
