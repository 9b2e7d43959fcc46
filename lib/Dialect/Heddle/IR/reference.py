#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the dialect's TableGen files say of ops and words, as C++.

An op has its summary and description. A word has the rows of the tables in these descriptions: in
`| `every(n, from = s)` | s, s + n, ... |` the first cell is a form, which has the words `every` and
`from`, and the second what it means. Rows of an attribute's description hold wherever it stands.

usage: reference.py RECORDS.json OUT    (RECORDS.json: llvm-tblgen --dump-json)
"""

import json
import re
import sys
import textwrap


def tables_of(description):
    """(first cell of the head, [(form, meaning)]) of each table; a cell of several forms is as many
    rows. A cell's bar is written `\\|`. What belongs to one form alone,
    or not to it, says so: `word` of form, `word` not of form."""
    tables = []
    for line in description.splitlines():
        line = line.strip()
        if not line.startswith("|"):
            tables.append(None)
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not tables or tables[-1] is None:
            tables.append((cells, []))
        elif "`" in cells[0]:
            meaning = "; ".join([cells[1], *(f"{head}: {cell}" for head, cell in
                                             zip(tables[-1][0][2:], cells[2:]))])
            if owner := re.search(r"` ((?:not )?of \w+)$", cells[0]):
                meaning = f"{owner[1]}: {meaning}"
            tables[-1][1].extend((form, meaning) for form in re.findall(r"`([^`]+)`", cells[0]))
    return [(head[0], rows) for head, rows in filter(None, tables)]


def described(records):
    """{mnemonic: (record, description)} of the dialect's ops, and of its attributes by their
    record's name."""
    found = {}
    for kind, dialect, key in (("Op", "opDialect", "opName"), ("AttrDef", "dialect", "!name")):
        for name in sorted(records["!instanceof"][kind]):
            record = records[name]
            if record[dialect]["def"] == "Heddle_Dialect":
                found[record[key]] = (record, textwrap.dedent(record["description"] or "").strip())
    return found


def literal(text):
    assert ')~"' not in text, text
    return f'R"~({text})~"'


def main(source, out):
    with open(source) as file:
        records = json.load(file)
    lines = []
    for name, (record, description) in described(records).items():
        owner = record.get("opName", "")
        if owner:
            lines.append(f'HEDDLE_OP("{owner}", {literal(record["summary"])},\n'
                         f"{literal(description)})")
        for _, rows in tables_of(description):
            for form, meaning in rows:
                lines.append(f'HEDDLE_FORM("{owner}", {literal(form)}, {literal(meaning)})')
    with open(out, "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
