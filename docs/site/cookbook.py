# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cookbook: every schedule of examples/ with what its file says of it, its text, its source and
what it costs, as heddlec --explain has it."""

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

# Runs whose costs are shown: tokens of the sequence. 256 of them are generated, one a step.
LENGTHS = (1024, 16384)
RUN = ("--gen-length=256", "--steps=256", "--machine=h200")
INTRODUCTION = """# Cookbook
Each schedule of [examples/](../examples/index.md): what it does, its text, where it comes from and what it costs.
[Methods](Spec/Methods.md) has the published ones beside each other, [Behaviours](Spec/Behaviours.md) says where released code
differs from its paper.

```console
$ heddlec examples/NAME.mlir -o NAME.hdl
$ heddle-run -m MODEL -b NAME.hdl "..."
```
Costs are those of `heddlec --explain --machine=h200` for LLaDA-8B's shape: sequences of 1,024 and 16,384 tokens, the last 256 of them generated in
256 steps. Rows and pairs are shares of what a dense run of the same steps computes. *At most* stands where a run finds out itself how much it needs;
then the gain is the least, and *1.00* says that nothing is certain before the run. The gain is an estimate for an H200.

"""


class CookbookError(Exception):
    """Something that the page is made of is not there."""


def explained(heddlec, path, *options):
    done = subprocess.run([heddlec, path, *options, *RUN], capture_output=True, check=False)
    if done.returncode:
        raise CookbookError(f"{path}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def parts(text):
    """(head comment's lines, schedule) of an example."""
    head, rest = [], []
    for line in text.splitlines():
        if line.startswith("//") and not rest:
            head.append(line[2:].removeprefix(" "))
        elif line or rest:
            rest.append(line)
    return head, "\n".join(rest)


def plain(text):
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text)


def linked(text):
    """Pages that a comment names, as links."""
    return re.sub(r"docs/(Spec/\w+)\\?\.md", r"[\1](\1.md)", text)


def prose(head, sources):
    """A head comment as Markdown: its paragraphs, with a table of its parameters."""
    lines, table = [], []
    for line in head + [""]:
        match = re.match(r"([\w%(). =-]+?)  +(\S.*)", line)
        if match and not line.startswith(" "):
            table.append([match[1].strip(), match[2]])
        elif table and line.startswith("   "):
            table[-1][1] += " " + line.strip()
        else:
            if table:
                lines += ["", "| parameter | value |", "|---|---|"]
                lines += [f"| {plain(name)} | {linked(plain(text))} |" for name, text in table]
                lines.append("")
                table = []
            lines.append(linked(plain(line)))
    text = "\n".join(lines)
    for name, link in sources.items():
        text = re.sub(rf"(Source: .*?)\b{re.escape(name)}\b", rf"\1[{name}]({link})", text, count=1)
    return text


def sources(root):
    """{a method's name, or its repository's: link} as docs/Spec/Methods.md has them."""
    text = (root / "docs/Spec/Methods.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"\[([\w /-]+)\]\((https://[^)]+)\)", text))
    if not found:
        raise CookbookError("docs/Spec/Methods.md: names no sources")
    return found


def groups(root):
    """[(title, [examples])] in the order of examples/README.md."""
    text = (root / "examples/README.md").read_text(encoding="utf-8")
    published, _, own = text.partition("Compositions that nobody")
    names = lambda part: [n for row in re.findall(r"^\| ([\w, -]+) \|", part, re.M)
                          for n in row.split(", ") if n != "file"]
    found = [("Published methods", names(published)), ("Compositions", names(own))]
    listed = {n for _, each in found for n in each}
    there = {path.stem for path in (root / "examples").glob("*.mlir")}
    if listed != there:
        raise CookbookError("examples/README.md and examples/ differ: "
                            f"{', '.join(sorted(listed ^ there))}")
    return found


def variants(root):
    """{an example: [what a --set makes of it]} as examples/README.md lists them."""
    text = (root / "examples/README.md").read_text(encoding="utf-8")
    found = {}
    for line, name in re.findall(r"^- (.*: `heddlec examples/([\w-]+)\.mlir --set .*`)$", text,
                                 re.M):
        found.setdefault(name, []).append(line)
    return found


def share(work, dense, bound):
    percent = 100 * work / dense if dense else 0
    return f"{bound}{percent:.1f}%"


def cost_row(cost):
    bound = {"exact": "", "at_most": "at most ", "about": "about "}[cost["certainty"]]
    work, dense = cost["work"], cost["dense_work"]
    gain = cost["estimate"]["times_as_fast"]
    return [share(work["operations"], dense["operations"], bound),
            share(work["query_rows"], dense["query_rows"], bound),
            share(work["ffn_rows"], dense["ffn_rows"], bound),
            share(work["pairs"] + work["score_pairs"], dense["pairs"], bound),
            ("at least " if bound == "at most " else bound) + f"{gain:.2f}"]


def page(root, heddlec, quick=False):
    """({page: text}, {file of the site: bytes}): the cookbook, and an explain page for each."""
    if not os.path.exists(heddlec):
        raise CookbookError(f"{heddlec}: not there; build heddlec first")
    wanted, known = groups(root), sources(root)
    lengths = LENGTHS[:1] if quick else LENGTHS
    names = [name for _, each in wanted for name in each]

    def costs(name):
        path = root / "examples" / f"{name}.mlir"
        rows = [json.loads(explained(heddlec, path, "--explain=json", f"--length={n}"))["cost"]
                for n in lengths]
        return rows, not quick and explained(heddlec, path, "--explain=html", "-o", "-",
                                            f"--length={LENGTHS[0]}")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        known_costs = dict(zip(names, pool.map(costs, names)))
    lines, extra, others = [INTRODUCTION], {}, variants(root)
    for title, each in wanted:
        lines.append(f"## {title}\n")
        for name in each:
            head, text = parts((root / "examples" / f"{name}.mlir").read_text(encoding="utf-8"))
            rows, picture = known_costs[name]
            lines += [f"### {name}", prose(head, known), "", f"```mlir\n{text}\n```", "",
                      "| tokens | operations | rows (QKV) | rows (FFN) | pairs, scoring included "
                      "| times as fast |", "|---:|---:|---:|---:|---:|---:|"]
            lines += [f"| {n:,} | {' | '.join(cost_row(row))} |" for n, row in zip(lengths, rows)]
            lines += ["", *(f"- {line}" for line in others.get(name, ()))]
            if picture:
                extra[f"docs/explain/{name}.html"] = picture
                lines += ["", f'<a href="explain/{name}.html">Step by step, in pictures</a>']
            lines.append("")
    return {"docs/Cookbook": "\n".join(lines) + "\n"}, extra
