#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: help_pages.py PROGRAM OUT_DIR

Writes what an installed PROGRAM has beside it, all of it from its own --help
(CLI11's form or LLVM's): a man page, and completion for bash, zsh and fish, in
the folders of OUT_DIR that stand below share/ once installed.
"""
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Option:
    names: list                 # ["-o", "--output"]
    value: str = ""             # what stands for its value, "" for none
    optional: bool = False      # whether the value may be left out
    text: list = field(default_factory=list)
    values: dict = field(default_factory=dict)  # the values that there are
    nested: bool = False        # an option of a pass, which stands in its quotes

    @property
    def summary(self):
        return re.split(r"(?<=[^.])[.:;](?:\s|$)", " ".join(self.text))[0].strip()

    @property
    def takes_file(self):
        return bool(re.search(r"file|folder|\bdir\b|bundle", f"{self.value} {self.summary}", re.I))


@dataclass
class Section:
    title: str
    items: list = field(default_factory=list)  # options and lines of text


@dataclass
class Help:
    name: str
    about: list = field(default_factory=list)
    usage: str = ""
    sections: list = field(default_factory=list)
    commands: dict = field(default_factory=dict)  # name -> (text, Help)

    def options(self):
        return [i for s in self.sections for i in s.items
                if isinstance(i, Option) and not i.nested]


def read(program, arguments):
    """The --help of a program, which is called by its bare name."""
    name = Path(program).name
    result = subprocess.run([name, *arguments], executable=program,
                            capture_output=True, text=True)
    if result.returncode or not result.stdout.strip():
        sys.exit(f"{program} {' '.join(arguments)}: exit code {result.returncode}: {result.stderr}")
    return result.stdout


LLVM_OPTION = re.compile(r"( +)(-[\w-]+)(\[?=<.*?>\]?| <.*?>)? +-(?: +(.*))?$")
LLVM_VALUE = re.compile(r" +=(\S+) +-\s*(.*)$")
CLI_OPTION = re.compile(r" {2}(-\S.*?)(?: {2,}(\S.*))?$")
CLI_ENTRY = re.compile(r" {2}(\S.*?) {2,}(\S.*)$")


class Parser:
    def __init__(self, name, text):
        self.help = Help(name)
        self.section = None
        self.option = None
        self.llvm = text.startswith("OVERVIEW:")
        for line in text.splitlines():
            self.line(line.rstrip())

    def start(self, title):
        self.section = Section(title)
        self.help.sections.append(self.section)
        self.option = None

    def line(self, line):
        if match := re.match(r"(USAGE|Usage): (.*)", line):
            self.help.usage = match[2]
            self.section = None
        elif match := re.match(r"(OVERVIEW): (.*)", line):
            self.help.about.append(match[2])
        elif match := re.match(r"(EXIT CODES|Exit codes): (.*)", line):
            self.start("Exit status")
            self.section.items.append(match[2])
        elif re.match(r"OPTIONS:$", line):
            self.start("Options")
        elif match := re.match(r"(\S.*):$", line):
            self.start(match[1])
        elif self.option_line(line):
            pass
        elif self.section is None:
            if not self.help.usage:
                self.help.about.append(line)
        elif self.option and not self.llvm and line.startswith(" " * 10):
            self.option.text.append(line.strip())
        else:
            if self.section.title.lower().startswith("example") and line[:1].strip():
                self.start("Notes")
            self.option = None
            self.section.items.append(line)

    def option_line(self, line):
        if self.section is None or self.section.title.lower().startswith("example"):
            return False
        if self.llvm:
            if self.option and (match := LLVM_VALUE.match(line)):
                if match[1] != "<empty>":
                    self.option.values[match[1]] = match[2]
                return True
            if not (match := LLVM_OPTION.match(line)):
                return False
            value = match[3] or ""
            known = next((o for o in self.help.options() if o.names == [match[2]]), None)
            nested = len(match[1]) > 6
            if known and not nested:  # once without and once with a value
                known.value, known.optional, self.option = value.strip("[]= "), True, known
                return True
            self.option = Option([match[2]], value.strip("[]= "), value.startswith("["),
                                 [match[4] or ""], nested=nested)
        elif match := CLI_OPTION.match(line):
            names, _, rest = match[1].partition(" ")
            rest = re.sub(r"(Excludes|Needs): \S+|REQUIRED|\(Env:.*?\)", "", rest).strip()
            # TYPE:RANGE=DEFAULT ..., of which a page shows the type.
            self.option = Option(names.split(","), re.split("[:= ]", rest)[0],
                                 text=[match[2]] if match[2] else [])
            if choices := re.search(r":\{(.*?)\}", rest):
                self.option.values = dict.fromkeys(choices[1].split(","), "")
        elif (match := CLI_ENTRY.match(line)) and self.section.title == "Subcommands":
            self.help.commands[match[1]] = (match[2], None)
            return True
        else:
            return False
        self.section.items.append(self.option)
        return True


def load(program):
    name = Path(program).name
    result = Parser(name, read(program, ["--help"])).help
    for command, (text, _) in result.commands.items():
        result.commands[command] = (text, Parser(
            name, read(program, [command, "--help"])).help)
    return result


# --- the man page ------------------------------------------------------------

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def man_sections(page, heading):
    for section in page.sections:
        lines = [l for l in section.items if not isinstance(l, str) or l]
        if not lines:
            continue
        title = section.title
        yield f'.{heading} "{roff(title.upper() if heading == "SH" else title)}"'
        verbatim = False
        for item in lines:
            plain = isinstance(item, str) and item.startswith(" ")
            if plain != verbatim:
                yield ".nf" if plain else ".fi"
                verbatim = plain
            if isinstance(item, str):
                yield roff(item)
                continue
            value = f"=\\fI{roff(item.value)}\\fR" if item.value else ""
            if item.optional:
                value = f"[{value}]"
            yield ".TP"
            yield ", ".join(f"\\fB{roff(n)}\\fR" for n in item.names) + value
            yield roff(" ".join(item.text)) or "\\&"
            for name, text in item.values.items():
                if text:
                    yield f".br\n\\fB{roff(name)}\\fR: {roff(text)}"
        if verbatim:
            yield ".fi"


def man_page(page, version):
    about = [line for line in page.about if line]
    summary = about[0].rstrip(".")
    lines = [f'.TH {page.name.upper()} 1 "" "Heddle {version}" "User Commands"',
             ".SH NAME", f"{roff(page.name)} \\- {roff(summary[0].lower() + summary[1:])}",
             ".SH SYNOPSIS", f".B {roff(page.usage)}"]
    if about[1:]:
        lines += [".SH DESCRIPTION", *map(roff, about[1:])]
    lines += man_sections(page, "SH")
    for command, (text, inner) in page.commands.items():
        lines += [f'.SH "{roff(page.name)} {command}"', roff(text), ".PP",
                  f".B {roff(inner.usage)}"]
        inner.sections = [s for s in inner.sections
                          if any(isinstance(i, Option) for i in s.items)]
        lines += man_sections(inner, "SS")
    others = ["heddlec", "heddle-run", "heddle-bundle", "heddle-opt", "heddle-bench",
              "heddle-conformance", "heddle-lsp-server"]
    lines += [".SH SEE ALSO",
              ", ".join(f"\\fB{roff(o)}\\fR(1)" for o in others if o != page.name)]
    return "\n".join(lines) + "\n"


# --- completion --------------------------------------------------------------

def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash_words(page):
    """What bash offers: '--x=' where a value must follow."""
    return " ".join(name + ("=" if o.value and not o.optional and name.startswith("--") else "")
                    for o in page.options() for name in o.names)


def bash(page):
    function = "_" + page.name.replace("-", "_")
    words, cases = [], []
    pages = [page] + [inner for _, inner in page.commands.values()]
    for o in (o for p in pages for o in p.options() if o.values):
        cases.append(f"    {'|'.join(o.names)})\n"
                     f"      COMPREPLY=($(compgen -W {quoted(' '.join(o.values))} -- \"$cur\"))\n"
                     "      return ;;")
    for command, (_, inner) in page.commands.items():
        words.append(f"    {command}) words={quoted(bash_words(inner))} ;;")
    takers = [n for p in pages for o in p.options() if o.value and not o.optional for n in o.names]
    commands = " ".join(page.commands)
    return f"""# bash completion of {page.name}, made from its --help
{function}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} option= words
  # '=' is a word of its own.
  if [ "$cur" = = ]; then
    option=$prev cur=
  elif [ "$prev" = = ]; then
    option=${{COMP_WORDS[COMP_CWORD-2]}}
  else
    case $prev in {'|'.join(dict.fromkeys(takers)) or '-'}) option=$prev ;; esac
  fi
  case $option in
    "") ;;
{chr(10).join(cases)}
    *)
      COMPREPLY=($(compgen -f -- "$cur"))
      return ;;
  esac
  words={quoted(bash_words(page))}
  case ${{COMP_WORDS[1]}} in
{chr(10).join(words)}
    *) [ "$COMP_CWORD" -eq 1 ] && words="{commands} $words" ;;
  esac
  if [[ $cur == -* || ($COMP_CWORD -eq 1 && -n "{commands}") ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
  else
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}}
complete -o filenames -F {function} {page.name}
"""


def zsh_specs(page):
    escape = lambda text: re.sub(r"([\[\]:\\])", r"\\\1", text)
    for o in page.options():
        action = ""
        if o.value:
            choices = " ".join(o.values)
            action = (":" if o.optional else "") + ":" + escape(o.value) + ":" + (
                f"({choices})" if choices else "_files" if o.takes_file else "")
        for name in o.names:
            mark = ("=-" if o.optional else "=" if name.startswith("--") else "+") if o.value else ""
            others = [n for n in o.names if n != name]
            prefix = f"({' '.join(others)})" if others else ""
            yield quoted(f"{prefix}{name}{mark}[{escape(o.summary)}]{action}")


def zsh(page):
    lines = [f"#compdef {page.name}", f"# zsh completion of {page.name}, made from its --help"]
    specs = lambda p, rest: " \\\n    ".join(["_arguments", *zsh_specs(p), rest])
    if page.commands:
        lines.append("case $words[2] in")
        for command, (_, inner) in page.commands.items():
            lines.append(f"  {command})\n    " + specs(inner, "'2:file:_files' '*:file:_files'") + " ;;")
        lines.append("  *)\n    " + specs(page, f"'1:command:({' '.join(page.commands)})'")
                     + " ;;\nesac")
    else:
        lines.append(specs(page, "'*:file:_files'"))
    return "\n".join(lines) + "\n"


def fish(page):
    lines = [f"# fish completion of {page.name}, made from its --help"]

    def add(options, condition):
        for o in options:
            parts = [f"complete -c {page.name}{condition}"]
            for name in o.names:
                short = not name.startswith("--") and len(name) == 2
                flag = "-s" if short else "-l" if name.startswith("--") else "-o"
                parts.append(f"{flag} {name.lstrip('-')}")
            if o.values:
                parts.append(f"-a {quoted(' '.join(o.values))}")
            if o.value and not o.optional:
                parts.append("-r" if o.takes_file else "-x")
            parts.append(f"-d {quoted(o.summary)}")
            lines.append(" ".join(parts))
    add(page.options(), " -n __fish_use_subcommand" if page.commands else "")
    for command, (text, inner) in page.commands.items():
        lines.append(f"complete -c {page.name} -n __fish_use_subcommand -f -a {command} "
                     f"-d {quoted(text)}")
        add(inner.options(), f" -n '__fish_seen_subcommand_from {command}'")
    return "\n".join(lines) + "\n"


def main(program, out):
    page = load(program)
    version = re.search(r"(?:Heddle version|^\S+) (\d+\.\d+\.\d+)",
                        read(program, ["--version"]), re.M)[1]
    for path, text in (
            (f"man/man1/{page.name}.1", man_page(page, version)),
            (f"bash-completion/completions/{page.name}", bash(page)),
            (f"zsh/vendor-completions/_{page.name}", zsh(page)),
            (f"fish/vendor_completions.d/{page.name}.fish", fish(page))):
        file = Path(out, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
