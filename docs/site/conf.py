# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Sphinx is told. build.py runs it."""

import inspect
import os
import re
import sys
from pathlib import Path

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

ROOT = Path(os.environ["HEDDLE_ROOT"])
sys.path.insert(0, str(ROOT / "python"))

project = "Heddle"
version = release = re.search(r"HEDDLE_VERSION ([\d.]+)",
                              (ROOT / "cmake/HeddleVersion.cmake").read_text())[1]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
add_module_names = False
smartquotes = False  # an option is --x

html_theme = "furo"
html_title = f"Heddle {version}"
html_static_path = [str(ROOT / "docs/site/style.css")]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
# Summaries of what a search finds would be fetched page by page, which no browser does from disk.
html_show_search_summary = False
pygments_style = "default"
pygments_dark_style = "monokai"


#: Of schedules, by the grammar, which is made of TableGen's files.
OPS = sorted({"yield", *re.findall(r"^(?:%name = )?([a-z_]+)(?=\n|\(| %)",
                                   (ROOT / "docs/Spec/Grammar.md").read_text(), re.M)})


class MlirLexer(RegexLexer):
    """MLIR's text, for schedules above all."""
    name = "MLIR"
    aliases = ["mlir"]
    tokens = {"root": [
        (r"\s+", Text),
        (r"//[^\n]*", Comment.Single),
        (r'"(\\.|[^"\\])*"', String),
        (r"[%^][\w$.-]+(:\d+|#\d+)?", Name.Variable),
        (r"@[\w$.-]+", Name.Function),
        (r"[#!][A-Za-z_][\w$.]*", Keyword.Type),
        (words(OPS, prefix=r"(?<![\w.])", suffix=r"\b(?! =)"), Keyword),
        (r"(?<== )[a-z_]+(?=\()", Keyword),  # sets of pairs by arithmetic: window(64)
        (r"[A-Za-z_][\w$]*(\.[\w$]+)+", Keyword),
        (r"0x[0-9A-Fa-f]+|\d+(\.\d+)?([eE][+-]?\d+)?", Number),
        (r"[A-Za-z_][\w$-]*", Name),
        (r"->|==|[-+*/=<>:?]", Operator),
        (r"[()\[\]{},;|.`$^%#@!&']", Punctuation),
        (r".", Text)]}


def plain(text):
    """A docstring's paragraph, in which no character is markup."""
    text = re.sub(r"([\\*|])", r"\\\1", text)
    text = re.sub(r"`([^`]+)`", lambda match: "``" + match[1].replace("\\", "") + "``", text)
    text = re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)
    return re.sub(r"docs/([\w/]+)\.md", r":doc:`/docs/\1`", text)


def as_text(app, what, name, obj, options, lines):
    """Docstrings are plain text with examples. Paragraphs stay so; what is indented is code; a
    parameter that one explains stands out."""
    try:
        parameters = set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        parameters = set()
    made, code = [], False
    for line in lines:
        begins = line.startswith((" ", ">>>"))
        if line.strip() and begins != code and (begins or not line.startswith(" ")):
            made += [""] + ([".. code-block:: " + ("pycon" if ">>>" in line else "text"), ""]
                            if begins else [])
            code = begins
        if code:
            made.append("   " + line)
            continue
        line = plain(line)
        for parameter in parameters:
            line = re.sub(rf"(?<![\w*:/]){parameter}: ", f"**{parameter}**: ", line)
        made.append(line)
    lines[:] = made + [""]


def without_signature(app, what, name, obj, options, signature, returns):
    """Nobody calls the class of what a function makes."""
    if what == "class" and "made by" in (obj.__doc__ or "").replace("\n    ", " "):
        return "", None
    return None


def setup(app):
    app.add_lexer("mlir", MlirLexer)
    app.connect("autodoc-process-docstring", as_text)
    app.connect("autodoc-process-signature", without_signature)
