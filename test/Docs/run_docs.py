#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the commands that the docs print and compares what they print with the docs.

In a ```console block a line that begins with "$ " is a command (one that ends in a backslash goes on
in the next line, one with <<WORD up to the line WORD); the lines up to the next command are its whole
output, of both streams. A command that has not ended after --timeout seconds is ended, and its page with
it. A line
`...` stands for any lines, `...` within a line for any text. Times, rates, checksums, paths, names
of CPUs and the like are masked (MASKS). The blocks of a file run in order, in one shell and one
temporary folder with links to what the checkout has. A block of ```mlir that begins with
`// NAME.mlir` is written to that file first; one that holds a whole schedule must compile. So is a
block of ```c that begins with `/* NAME.c */`.

A comment in the line before a block says how to treat it:
  <!-- not run: REASON -->   never run
  <!-- gpu -->               run only with --gpu
Every other fence names a language and holds no commands, so that nothing escapes. Relative links
must lead to a file and heading that are there.

  test/Docs/run_docs.py                         all files, with build/dev/bin
  test/Docs/run_docs.py --update README.md      writes what is printed into the file
  test/Docs/run_docs.py --gpu --bin build/release/bin
"""

import argparse
import difflib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DATA = {"text", "json", "mlir", "lua", "elisp", "cmake", "cpp", "c",
        "python"}  # run by python/test/package/test_examples.py
HERE_DOCUMENT = re.compile(r"(?<!<)<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")  # and no <<< (a string)
COMMAND = re.compile(r"\s*(\$ |heddle|\./|python3 |cmake |ctest |ninja |pip |apt|export |git |hf )")
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
SHARE = re.compile(r"(\d+\.\d)%")
MASKS = [(re.compile(pattern), mask) for pattern, mask in (
    (rf"{NUMBER} (?:s|ms|us)\b", "# s"),
    (rf"{NUMBER} (tok/s|GFLOP/s|GB/s|threads?|cores?)\b", r"# \1"),
    (rf"(\"(?:seconds|confidence|[a-z_]*_seconds|[a-z_]*_ms)\": ?){NUMBER}", r"\1#"),
    (rf"{NUMBER} times as (fast|long)", r"# times as \1"),
    (r"\b[0-9a-f]{16}\b", "#"),
    (r"(?<=LLVM )[\d.]+", "#"),
    (r"^(\S+ +)\d+ +\d+ +#$", r"\1#"),  # a section's offset and size
    (r"\bthe CPU [^,]*", "the CPU #"),
    (r"\s+$", ""))]


class Block(NamedTuple):
    path: Path
    line: int        # of its first line, from 0
    language: str
    marker: str      # "", "gpu" or "not run"
    lines: list


class Command(NamedTuple):
    text: str
    shown: int       # how many lines of the block it takes
    output: list


def fenced_blocks(path, text):
    """The file's fenced blocks, and what is wrong with how they are written."""
    blocks, errors, lines = [], [], text.splitlines()
    start, marker = None, ""
    for number, line in enumerate(lines):
        where = f"{path}:{number + 1}"
        if start is not None:
            if line.strip() == "```":
                blocks.append(Block(path, start + 1, lines[start].strip()[3:], marker,
                                    lines[start + 1:number]))
                start, marker = None, ""
        elif line.lstrip().startswith("```"):
            start = number
        elif match := re.fullmatch(r"<!-- (not run|gpu)(?:: (.+))? -->", line):
            marker = match[1]
            if marker == "not run" and not match[2]:
                errors.append(f"{where}: 'not run' without a reason")
        elif line.strip() and marker:
            errors.append(f"{where}: a '{marker}' comment that no block follows")
            marker = ""
    if start is not None:
        errors.append(f"{path}:{start + 1}: a block that does not end")
    for block in blocks:
        where = f"{path}:{block.line}"
        if block.language == "console":
            if not block.lines or not block.lines[0].startswith("$ "):
                errors.append(f"{where}: a console block must begin with a command ('$ ')")
        elif block.language not in DATA:
            errors.append(f"{where}: a block of '{block.language}'; expected console, or for what "
                          f"is no command one of {', '.join(sorted(DATA))}")
        elif block.marker:
            errors.append(f"{where}: '{block.marker}' belongs to console blocks")
        elif block.language not in ("mlir", "python", "c") and any(map(COMMAND.match, block.lines)):
            errors.append(f"{where}: holds a command: make it a console block")
    return blocks, errors


def slug(heading):
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(path, text):
    """Relative links, and pictures, whose file or heading is not there."""
    errors = []
    for number, line in enumerate(text.splitlines(), 1):
        for target in re.findall(r'\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"', line):
            name, _, anchor = "".join(target).partition("#")
            if "://" in name:
                continue
            page = (ROOT / path).parent / name if name else ROOT / path
            if not page.exists():
                errors.append(f"{path}:{number}: there is no {name}")
            elif anchor and anchor not in map(slug, re.findall(r"^#+ (.*)$", page.read_text(), re.M)):
                errors.append(f"{path}:{number}: {name} has no heading #{anchor}")
    return errors


def commands_of(block):
    found, i = [], 0
    while i < len(block.lines):
        first = i
        while block.lines[i].endswith("\\") and i + 1 < len(block.lines):
            i += 1
        if here := HERE_DOCUMENT.search(" ".join(block.lines[first:i + 1])):
            # Without its end the shell would wait for more: the timeout says so.
            ends = [k for k in range(i + 1, len(block.lines)) if block.lines[k].strip() == here[2]]
            i = ends[0] if ends else i
        text = "\n".join([block.lines[first][2:], *block.lines[first + 1:i + 1]])
        end = i + 1
        while end < len(block.lines) and not block.lines[end].startswith("$ "):
            end += 1
        found.append(Command(text, i + 1 - first, block.lines[i + 1:end]))
        i = end
    return found


def masked(line):
    for pattern, mask in MASKS:
        line = pattern.sub(mask, line)
    return line


def close_shares(expected, actual):
    """Whether percents with a decimal are the same but for two of its last digit.

    Rows that are salient are those beyond a threshold, and CPUs round differently.
    """
    of = lambda line: [float(share) for share in SHARE.findall(line)]
    return len(of(expected)) == len(of(actual)) and all(
        abs(a - b) < 0.25 for a, b in zip(of(expected), of(actual)))


def same_line(expected, actual):
    expected, actual = masked(expected), masked(actual)
    if close_shares(expected, actual):
        expected, actual = SHARE.sub("#%", expected), SHARE.sub("#%", actual)
    if "..." not in expected:
        return expected == actual
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), actual) is not None


def same(expected, actual):
    """Whether lines are what the docs say; a line `...` stands for any number of lines."""
    reach = {0}  # how many of the actual lines may be used up
    for line in expected:
        if line.strip() == "...":
            reach = set(range(min(reach), len(actual) + 1))
        else:
            reach = {i + 1 for i in reach if i < len(actual) and same_line(line, actual[i])}
        if not reach:
            return False
    return len(actual) in reach


def rewritten(expected, actual):
    """The actual lines, cut where the docs cut them as far as the lines around are found again."""
    def find(line, start):
        ratios = [difflib.SequenceMatcher(None, masked(line), masked(a)).ratio()
                  for a in actual[start:]]
        return start + ratios.index(max(ratios)) if ratios and max(ratios) > 0.6 else None
    result, at = [], 0
    for i, line in enumerate(expected):
        if line.strip() != "...":
            continue
        if i > 0 and (last := find(expected[i - 1], at)) is not None:
            result += actual[at:last + 1]
            at = last + 1
        next_line = find(expected[i + 1], at) if i + 1 < len(expected) else len(actual)
        if next_line is not None and next_line > at:
            result.append(line)
            at = next_line
    return result + actual[at:]


class Shell:
    """One bash in a folder of its own, which is told one command after the other."""

    def __init__(self, folder, bin_dir, timeout):
        for name in ("examples", "models", "python", "docs", "cmake", "test"):
            (folder / name).symlink_to(ROOT / name)
        for preset in ("release", "dev"):  # what the docs call the folder of programs
            (folder / "build" / preset).mkdir(parents=True)
            (folder / "build" / preset / "bin").symlink_to(bin_dir)
        self.folder = folder
        self.timeout = timeout
        self.ended = False
        environment = dict(os.environ, PATH=f"{bin_dir}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
        environment["PKG_CONFIG_PATH"] = str(bin_dir.parent / "lib/pkgconfig")
        environment.setdefault("HEDDLE_CACHE_DIR", str(ROOT / "build/test-cache"))
        self.bash = subprocess.Popen(
            ["bash", "--norc"], cwd=folder, env=environment, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
            start_new_session=True)

    def end(self):
        """Ends the shell and whatever it runs."""
        self.ended = True
        os.killpg(self.bash.pid, signal.SIGKILL)

    def run(self, text):
        """(status, lines) of a command; status None: it was ended after `timeout` seconds."""
        timer = threading.Timer(self.timeout, self.end)
        timer.start()
        try:
            status, lines = self.answer(text)
        finally:
            timer.cancel()
            timer.join()
        return (None if self.ended else status), lines

    def answer(self, text):
        end = "-- end of a command --"
        self.bash.stdin.write(f"{{ {text}\n}} </dev/null\nprintf '\\n%s %d\\n' '{end}' $?\n")
        self.bash.stdin.flush()
        lines = []
        for line in self.bash.stdout:
            line = line.rstrip("\n")
            if line.startswith(end):
                if lines and not lines[-1]:  # the marker's own line break
                    lines.pop()
                return int(line.split()[-1]), lines
            lines.append(line.replace(str(self.folder), "..."))
        return self.bash.wait(), lines

    def close(self):
        self.bash.stdin.close()
        self.bash.wait()
        self.bash.stdout.close()


def check_schedule(shell, block):
    """What is wrong with a block of mlir that holds a whole schedule."""
    text = "\n".join(block.lines) + "\n"
    if "heddle.schedule" not in text:
        return []
    name = re.match(r"// ([\w-]+\.mlir)$", block.lines[0])
    path = shell.folder / (name[1] if name else "block.mlir")
    path.write_text(text)
    status, lines = shell.run(f"heddlec {shlex.quote(path.name)} --explain")
    return [] if status == 0 else [f"{block.path}:{block.line}: does not compile", *lines]


def write_program(shell, block):
    """A block of C as the file that its first line names."""
    if name := re.match(r"/\* ([\w-]+\.c) \*/$", block.lines[0]):
        (shell.folder / name[1]).write_text("\n".join(block.lines) + "\n")


MISSING = re.compile(r"(?:ba)?sh: (?:line )?\d+: ([^\s:]+): (?:command )?not found"
                     r"|bash: line \d+: ([^\s:]*bin/[^\s:]+): No such file or directory"
                     r"|env: .([^\s:]+).: No such file or directory")


def missing_program(expected, actual, bin_dir):
    """What to do about a program that a command did not find; None where it found all."""
    for line in actual:
        match = MISSING.match(line)
        if not match or line in expected:
            continue
        name = next(filter(None, match.groups()))
        target, build = Path(name).name, bin_dir.parent
        rules = build / "build.ninja"
        made = rules.is_file() and f"\nbuild {target}: phony " in rules.read_text(errors="replace")
        return f"there is no program {name}: " + (
            f"build it (cmake --build {build} --target {target})" if made else
            f"no target of {build} makes it; install it")
    return None


def check_file(path, blocks, args):
    """(commands run, errors, the file's new lines)."""
    lines = (ROOT / path).read_text().splitlines()
    ran, errors, changes = 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(Path(folder), args.bin, args.timeout)
        for block in blocks:
            if shell.ended:
                break
            if block.language == "mlir":
                errors += check_schedule(shell, block)
            if block.language == "c":
                write_program(shell, block)
            if block.language != "console" or block.marker == "not run" or \
                    block.marker == "gpu" and not args.gpu:
                continue
            at = block.line
            for command in commands_of(block):
                at += command.shown
                start = time.monotonic()
                status, actual = shell.run(command.text)
                ran += 1
                if status is None:
                    errors += [f"{path}:{at}: did not end in {args.timeout:g} s; the page's other "
                               f"commands were not run: {command.text}", *actual]
                    break
                if args.verbose:
                    print(f"{time.monotonic() - start:6.2f} s  {path}: {command.text}", flush=True)
                if missing := missing_program(command.output, actual, args.bin):
                    errors.append(f"{path}:{at}: {missing}: {command.text}")
                    at += len(command.output)
                    continue
                failed = status != 0 and not any("error" in line for line in command.output)
                if failed or not same(command.output, actual):
                    why = f"ended with status {status}" if failed else "printed something else"
                    errors += [f"{path}:{at}: {why}: {command.text}",
                               *difflib.unified_diff(command.output, actual, "docs", "printed",
                                                     lineterm="", n=99)]
                    changes.append((at, len(command.output), rewritten(command.output, actual)))
                at += len(command.output)
        shell.close()
    for at, count, new in reversed(changes):
        lines[at:at + count] = new
    return ran, errors, lines


def docs():
    """Every page for readers; Decisions record what was measured once."""
    pages = ["README.md", "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/HowTo/*.md"),
             *ROOT.glob("docs/Tutorials/*.md"), *ROOT.glob("docs/Spec/*.md"), *ROOT.glob("docs/Dialects/*.md"),
             *ROOT.glob("models/*/README.md"), "examples/README.md", "docs/site/README.md",
             "python/README.md", *ROOT.glob("python/*/README.md")]
    return sorted({Path(page).relative_to(ROOT) if Path(page).is_absolute() else Path(page)
                   for page in pages})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="pages; all by default")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/dev/bin",
                        help="the folder of the programs (default: build/dev/bin)")
    parser.add_argument("--gpu", action="store_true", help="runs the blocks that need a GPU, too")
    parser.add_argument("--update", action="store_true", help="writes what is printed into the docs")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS",
                        help="how long a command may take (default: 300)")
    parser.add_argument("--verbose", action="store_true", help="prints each command and its time")
    args = parser.parse_args()
    args.bin = args.bin.resolve()
    for program in ("heddlec", "heddle-run", "heddle-bundle"):
        if not (args.bin / program).is_file():
            sys.exit(f"error: there is no {args.bin / program}: build it, or name the folder with --bin")
    counts = dict.fromkeys(("run", "gpu", "not run", "data"), 0)
    errors, commands, start = [], 0, time.monotonic()
    for path in [p.resolve().relative_to(ROOT) for p in args.files] or docs():
        text = (ROOT / path).read_text()
        blocks, wrong = fenced_blocks(path, text)
        wrong += broken_links(path, text)
        for block in blocks:
            counts["data" if block.language != "console" else block.marker or "run"] += 1
        ran, failed, lines = check_file(path, blocks, args)
        commands += ran
        if failed and args.update:
            (ROOT / path).write_text("\n".join(lines) + "\n")
        errors += wrong + failed
    print("\n".join(errors))
    print(f"{sum(counts.values())} blocks: " +
          ", ".join(f"{count} {name}" for name, count in counts.items()) +
          f"; {commands} commands in {time.monotonic() - start:.0f} s")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
