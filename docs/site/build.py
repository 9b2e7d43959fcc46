#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the site of the docs from the repository's Markdown and from what programs say.

The Markdown is taken as it is, so that its links work where the repository is shown as well. Here
they lead to the site's pages: a README.md is its folder's index.html, an example is its place in
the cookbook, another file is a page that shows it. A link that leads nowhere, a page in no section
and every warning of Sphinx is an error.

  docs/site/build.py                          of build/dev, into build/dev/docs/site
  docs/site/build.py --build build/release --out /tmp/site

The build must have heddlec, the other tools and the target mlir-doc; the target docs-site sees to
that. Exit code 1: something is wrong with the docs; 3: a package is missing, which is named.
"""

import argparse
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import cookbook
import reference

ROOT = Path(__file__).resolve().parents[2]
MISSING = 3  # the exit code where Sphinx, MyST or furo is not there
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
PICTURE = re.compile(r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*'
                     r'<img alt="([^"]+)" src="([^"]+)">'
                     r"\s*</picture>")
# Captions of the side bar and their pages, by what they are called here; every other page stands
# below the index of its folder.
SECTIONS = (
    ("Tutorials", ["docs/Tutorials/index", "docs/Tutorials/FirstRun", "docs/Tutorials/YourSchedule",
                   "docs/Tutorials/YourModel", "docs/Tutorials/HonestBenchmarks",
                   "docs/Tutorials/APairSet"]),
    ("How to", ["docs/HowTo/*"]),
    ("The language", ["docs/Spec/index", "docs/Cookbook", "examples/index"]),
    ("Reference", ["docs/Python/index", "docs/Tools/index", "docs/Dialects/index",
                   "docs/Passes/index", "docs/Bundle", "docs/Runtime"]),
    ("Background", ["docs/Charter", "docs/Architecture", "docs/Performance", "docs/Testing",
                    "docs/Decisions/index", "models/index", "docs/*"]),
    ("Project", ["CONTRIBUTING", "CHANGELOG", "Components", "files/index"]))


class DocsError(Exception):
    """What is wrong with the docs, a line each."""


def page_of(path):
    """The page of a Markdown file: README.md is its folder's index."""
    path = PurePosixPath(path).with_suffix("")
    return str(path.with_name("index") if path.name == "README" else path)


def markdown_files(root):
    """Every Markdown file that is not a build's, by its path in the repository."""
    found = []
    for folder, below, names in os.walk(root):
        below[:] = sorted(n for n in below if not n.startswith((".", "build")) and
                          n not in ("out", "node_modules", "__pycache__"))
        found += [str(Path(folder, name).relative_to(root)) for name in sorted(names)
                  if name.endswith(".md")]
    return found


def outside_of_code(text):
    """(lines, whether they are code) of a Markdown text."""
    code, lines = False, []
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        lines.append((line, code or fence))
        code = code != fence
    return lines


class Site:
    """The pages of a site: `pages` by name with their text, `files` to be copied."""

    def __init__(self, root=ROOT):
        self.root = Path(root)
        self.pages, self.files, self.errors = {}, set(), []
        self.shown = set()  # files and folders that have a page because a link leads there

    def read(self, path):
        """Takes a Markdown file of the repository in."""
        text = (self.root / path).read_text(encoding="utf-8")
        text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
        text = PICTURE.sub(lambda match: self.picture(path, match), text)
        lines = []
        for number, (line, code) in enumerate(outside_of_code(text), 1):
            if not code:
                line = LINK.sub(lambda m: m[1] + self.lead(path, number, m[2]) + m[3], line)
            lines.append(line)
        text = "\n".join(lines) + "\n"
        if not text.startswith("# "):  # as some components' pages do not
            text = f"# {PurePosixPath(path).parent}\n{text}"
        self.pages[page_of(path)] = text

    def picture(self, path, match):
        """A picture of each theme, which the site's own switch chooses."""
        dark, alt, light = match.groups()
        self.files |= {str(PurePosixPath(path).parent / name) for name in (dark, light)}
        return "\n".join(f"```{{image}} {name}\n:alt: {json.dumps(alt)}\n:class: only-{theme}\n```"
                         for theme, name in (("light", light), ("dark", dark)))

    def lead(self, path, number, target):
        """Where a link of the file `path` leads on the site."""
        name, _, anchor = target.partition("#")
        if ":" in name or not name:
            return target
        there = (self.root / path).parent / name
        if not there.exists() or self.root not in there.resolve().parents:
            self.errors.append(f"{path}:{number}: there is no {name} in the repository")
            return target
        there = there.resolve()
        if there.is_dir() and (there / "README.md").exists():
            there = there / "README.md"
        relative = str(there.relative_to(self.root))
        if there.suffix in (".png", ".svg"):
            self.files.add(relative)
            return name
        if relative.endswith(".md"):
            page = page_of(relative)
        elif re.fullmatch(r"examples/[\w-]+\.mlir", relative):
            page, anchor = "docs/Cookbook", there.stem
        else:
            self.shown.add(relative)
            page = f"files/{relative}"
        return os.path.relpath(page, PurePosixPath(path).parent) + ".md" + (
            f"#{anchor}" if anchor else "")

    def show_files(self):
        """The pages of files and folders that links lead to."""
        languages = {".h": "cpp", ".cpp": "cpp", ".py": "python", ".mlir": "mlir", ".td": "text"}
        for path in sorted(self.shown):
            there = self.root / path
            if there.is_dir():
                body = "".join(f"- `{p.name}{'/' if p.is_dir() else ''}`\n"
                               for p in sorted(there.iterdir())
                               if not p.name.startswith((".", "__")))
            else:
                text = there.read_text(encoding="utf-8")
                body = f"````{languages.get(there.suffix, 'text')}\n{text}````\n"
            self.pages[f"files/{path}"] = f"# {path}\n{body}"
        self.pages["files/index"] = "# Files that these pages name\n" + "".join(
            f"- [{path}]({path}.md)\n" for path in sorted(self.shown))

    def arrange(self):
        """Gives every page its place in the side bar."""
        components = [p for p in self.pages if p.endswith("/index") and not p.startswith(
            ("docs/", "files/", "models/", "examples/"))] + ["docs/site/index"]
        self.pages["Components"] = "# Components\nWhat may live where: the page of each folder.\n\n" + \
            "".join(f"- [{PurePosixPath(p).parent}]({p}.md)\n" for p in components)
        listed, captions = set(), []
        for caption, names in SECTIONS:
            pages = []
            for name in names:
                found = [name] if "*" not in name else sorted(
                    p for p in self.pages if PurePosixPath(p).match(name) and
                    p.count("/") == name.count("/") and p not in {*listed, *pages})
                pages += found
                self.errors += [f"docs/site/build.py: the section {caption} names {page}, which "
                                "there is not" for page in found if page not in self.pages]
            listed |= set(pages)
            captions.append(toctree(pages, "index", f":caption: {caption}"))
        below = {"Components": components, "index": []}
        for page in self.pages:
            if page in listed or page in components or page in ("index", "Components"):
                continue
            at = PurePosixPath(page)
            parent = next((str(f / "index") for f in at.parents if f != PurePosixPath(".")
                           and str(f / "index") in self.pages and str(f / "index") != page), None)
            if parent is None or parent == "docs/index":
                self.errors.append(f"{page}.md: its folder has no README.md, and no section of "
                                   "docs/site/build.py names it")
            else:
                below.setdefault(parent, []).append(page)
        for parent, pages in below.items():
            if pages and not parent.startswith("docs/Python/"):  # which has its own
                self.pages[parent] += toctree(pages, parent)
        self.pages["index"] += "".join(captions)

    def write(self, folder):
        """Writes what has changed, so that Sphinx reads no page twice; returns the pages that were
        there before and are no more."""
        wanted = {page + (".rst" if page.startswith("docs/Python/") else ".md"): text.encode()
                  for page, text in self.pages.items()}
        wanted.update((path, (self.root / path).read_bytes()) for path in self.files)
        gone = [path for path in folder.rglob("*") if path.is_file()
                and str(path.relative_to(folder)) not in wanted]
        for path in gone:
            path.unlink()
        for path, data in wanted.items():
            there = folder / path
            if not there.exists() or there.read_bytes() != data:
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(data)
        return [path.relative_to(folder).with_suffix(".html") for path in gone]


def toctree(pages, of, *options):
    """A hidden table of contents, with names relative to the page that it stands on."""
    here = PurePosixPath(of).parent
    names = [os.path.relpath(page, here) for page in pages]
    return "\n".join(["", "```{toctree}", ":hidden:", *options, *names, "```", ""])


@functools.lru_cache(None)
def sphinx_python():
    """A Python that has what requirements.txt names, or None: this one, ./check's or the
    system's. Debian 12's furo is too old, and fetches a style sheet from its server."""
    code = ("import sphinx, myst_parser, furo; from importlib.metadata import version; "
            "assert version('furo') >= '2024'")
    for python in (sys.executable, str(ROOT / "build/docs-venv/bin/python"), "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run(
                [python, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


def sphinx(source, out, trees, *options, **others):
    """Runs Sphinx on a folder of pages, with its warnings as errors."""
    return subprocess.run(
        [sphinx_python(), "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-b", "html",
         *options, "-c", str(ROOT / "docs/site"), "-d", str(trees), str(source), str(out)], check=False,
        env=dict(os.environ, HEDDLE_ROOT=str(ROOT), PYTHONDONTWRITEBYTECODE="1"), **others)


def collect(build, quick=False):
    """The site's pages, of the repository and of what a build folder's programs say; and files to
    be put beside them."""
    site = Site()
    for path in markdown_files(ROOT):
        site.read(path)
    site.pages.update(reference.dialects(build / "docs"))
    site.pages.update(reference.tools(build / "bin"))
    site.pages.update(reference.python(ROOT / "python"))
    pages, extra = cookbook.page(ROOT, build / "bin/heddlec", quick)
    site.pages.update(pages)
    site.show_files()
    site.arrange()
    if site.errors:
        raise DocsError("\n".join(site.errors))
    return site, extra


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev",
                        help="the build folder (default: build/dev)")
    parser.add_argument("--out", type=Path, help="the site's folder (default: BUILD/docs/site)")
    parser.add_argument("--can-build", action="store_true",
                        help="says by its exit code whether Sphinx and the rest are there")
    parser.add_argument("--quick", action="store_true", help="of each example the costs at one "
                        "length alone, and no page of pictures")
    args = parser.parse_args()
    build = args.build.resolve()
    out = (args.out or build / "docs/site").resolve()
    if sphinx_python() is None:
        print("docs/site: Sphinx, MyST or furo is missing: python3 -m venv build/docs-venv && "
              "build/docs-venv/bin/pip install -r docs/site/requirements.txt", file=sys.stderr)
        return MISSING
    if args.can_build:
        return 0
    try:
        site, extra = collect(build, args.quick)
    except (DocsError, reference.ReferenceError, cookbook.CookbookError) as error:
        print(error, file=sys.stderr)
        return 1
    source = build / f"docs/{out.name}-source"
    # Every page shows the side bar, so all are written when one comes or goes.
    before = {path.relative_to(source) for path in source.rglob("*.*")}
    for page in site.write(source):
        (out / page).unlink(missing_ok=True)
    options = [] if before == {path.relative_to(source) for path in source.rglob("*.*")} else ["-a"]
    done = sphinx(source, out, build / f"docs/{out.name}-trees", *options)
    if done.returncode:
        return 1
    for name, data in extra.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)
    print(f"{len(site.pages)} pages: {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
