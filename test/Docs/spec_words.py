#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Spec's grammar and tables of words, from what TableGen says of the dialect.

A description's tables are the op's words: of `form` (or of an attribute that the op has) one is
written, of `part` some with commas between; `argument` stands in a form's parentheses; each row of
`then` follows, of `clause` may follow, rows that begin with one word in each other's place. What
follows is printed in this order and read in any, but for a `then` in front of all clauses. A row `word` of FORM belongs to that form alone, `word` not of FORM to the others.
Between `<!-- generated: OP... -->` and `<!-- end -->` a page of docs/Spec holds the tables of these
ops, and for `grammar` the grammar of all.

  spec_words.py --write             writes the pages
  spec_words.py --opt heddle-opt    fails if a page says otherwise, the parser refuses a form, or a
                                    word of an enumeration is in no table
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lib/Dialect/Heddle/IR"))

from reference import described, tables_of  # noqa: E402

PAGES = sorted((ROOT / "docs/Spec").glob("*.md"))
BLOCK = re.compile(r"(<!-- generated: ([\w ]+) -->\n).*?(<!-- end -->)", re.S)
# Cases of enumerations that are spelled otherwise.
SPELLED = {"before_block": "before", "from_block": "from", "fixed": "fix",
           "propagated": "propagating", "none": None}


def load(tblgen):
    llvm = Path(tblgen).resolve().parents[1] / "include"
    run = subprocess.run(
        [tblgen, "--dump-json", "-I", ROOT / "include", "-I", llvm,
         ROOT / "include/heddle/Dialect/Heddle/IR/HeddleOps.td"],
        capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def is_of_schedules(record, records):
    """Whether a trait names the schedule as a parent."""
    return any("heddle::ScheduleOp" in json.dumps(records.get(trait["def"], {}))
               for trait in record["traits"])


class Language:
    def __init__(self, records):
        self.records = records
        self.entries = described(records)
        self.ops = {}
        for name, (record, description) in self.entries.items():
            if "opName" not in record or not is_of_schedules(record, records):
                continue
            tables = tables_of(description)
            for argument in record["arguments"]["args"]:
                attribute = self.entries.get(argument[0]["def"])
                if attribute and not any(head in ("form", "part") for head, _ in tables):
                    tables = tables_of(attribute[1]) + tables
            self.ops[name] = (bool(record["results"]["args"]), tables)
        # Ops that belong to scores or to plans as well.
        self.ops = {name: op for name, op in self.ops.items() if op[1]}

    def rows(self, names):
        lines = ["| form | meaning |", "|---|---|"]
        for name in names:
            for head, rows in self.ops[name][1]:
                for form, meaning in rows:
                    own = form.split("(")[0].split()[0] == name
                    prefix = {"form": f"{name} ", "part": f"{name} "}.get(head, "... ")
                    if head == "argument":
                        prefix = ""
                    lines.append(f"| `{'' if own else prefix}{form}` | {meaning} |")
        return "\n".join(lines) + "\n"

    @staticmethod
    def groups(rows):
        """Forms that begin with one word, in each other's place."""
        found = {}
        for form, _ in rows:
            found.setdefault(re.split(r"[ (]", form)[0], []).append(form)
        return list(found.values())

    @staticmethod
    def takes(head, meaning):
        """Whether a form takes the argument or clause with this meaning."""
        owner = re.match(r"(not )?of (\w+): ", meaning)
        return not owner or (re.split(r"[ (]", head)[0] == owner[2]) != bool(owner[1])

    @staticmethod
    def owner(forms, rows):
        """" (of columns)" if the rows of all these forms say so, or ""."""
        owners = {owner[1] if (owner := re.match(r"((?:not )?of \w+): ", meaning)) else ""
                  for form, meaning in rows if form in forms}
        return f" ({owner})" if len(owners) == 1 and (owner := owners.pop()) else ""

    def optional(self, forms, rows):
        if whole := self.owner(forms, rows):
            return f"[{' | '.join(forms)}]{whole}"
        return f"[{' | '.join(form + self.owner([form], rows) for form in forms)}]"

    def grammar(self):
        lines = ["```text",
                 "schedule = heddle.schedule @name [(name = number, ...)] { op ... }",
                 "number   = integer | integer/integer | decimal | number percent | parameter",
                 ""]
        for name, (makes, tables) in sorted(self.ops.items(), key=lambda op: not op[1][0]):
            start = f"%name = {name}" if makes else name
            for head, rows in tables:
                forms = [form for form, _ in rows]
                if head in ("form", "part"):
                    own = [form for form in forms if re.split(r"[ (]", form)[0] == name]
                    if own == forms:
                        start = start.removesuffix(name) + "\n     | ".join(forms)
                        continue
                    start += "\n       " + "\n     | ".join(forms)
                    if head == "part":
                        start += "\n       , ..."
                elif head == "then":
                    for group in self.groups(rows):
                        start += "\n       " + " | ".join(group)
                elif head == "clause":
                    for group in self.groups(rows):
                        start += "\n       " + self.optional(group, rows)
                elif head == "argument":
                    start += "\n       with the arguments " + ", ".join(
                        form + self.owner([form], rows) for form in forms)
            lines += [start, ""]
        return "\n".join(lines[:-1] + ["```", ""])

    def page(self, text):
        def block(found):
            names = found[2].split()
            return found[1] + (self.grammar() if names == ["grammar"] else self.rows(names)) + found[3]
        return BLOCK.sub(block, text)

    # Sentences

    @staticmethod
    def example(form):
        """The form with numbers and values."""
        form = re.sub(r"(?<=\bon )%\w+|(?<=\bon = )%\w+|(?<=and )%\w+|(?<=until\()%\w+|(?<=since = )%\w+", "%c", form)
        form = re.sub(r"(?<=pairs\()%\w+", "%w", form)
        form = re.sub(r"(?<=within )%pairs", "%s", form)
        if form.startswith("scores"):
            return form + " { yield %logit }"
        form = re.sub(r"%(?!c\b|w\b|s\b)\w+", "%p", form)
        form = re.sub(r"\br\b|(?<=confidence = )w\b", "0.5", form)
        return re.sub(r"(?<!%)\b[a-z]\b", lambda letter: {"w": "33"}.get(letter[0], "32"), form)  # w is odd

    def sentences(self):
        """(what it is of, [sentences that must be read], [others, which must not])."""
        for name, (makes, tables) in self.ops.items():
            def of(forms, name=name, makes=makes):
                return [("%x = " if makes else "") +
                        (form if re.split(r"[ (]", form)[0] == name else f"{name} {form}")
                        for form in forms]
            heads = [form for head, rows in tables if head in ("form", "part") for form, _ in rows]
            needed = " ".join(self.example(group[0]) for head, rows in tables if head == "then"
                              for group in self.groups(rows))
            for form in heads:
                yield f"{name}: {form}", of([f"{self.example(form)} {needed}"]), []
            required = []
            for head, rows in tables:
                for form, meaning in rows:
                    here = self.example(form)

                    def both(sentence, meaning=meaning, of=of):
                        return [of([sentence(each) for each in heads
                                    if self.takes(each, meaning) == taken])
                                for taken in (True, False)]
                    if head == "argument":
                        def added(each, here=here, needed=needed):
                            bare = re.sub(rf"{here.split(' = ')[0]} = [\w.]+, ", "",
                                          self.example(each))
                            return f"{bare.removesuffix(')')}, {here}) {needed}"
                        yield f"{name}: {form}", *both(added)
                    elif head in ("then", "clause"):
                        word = re.split(r"[ (]", form)[0]
                        rest = [self.example(group[0]) for other, others in tables
                                if other == "then" for group in self.groups(others)]
                        before = [each for each in rest if each.split()[0] in required]
                        after = [each for each in rest
                                 if each not in before and each.split()[0] != word]
                        yield f"{name}: {form}", *both(
                            lambda each, before=before, here=here, after=after: " ".join(
                                [self.example(each), *before, here, *after]))
                if head == "then":
                    required += [re.split(r"[ (]", form)[0] for form, _ in rows]
            for form in heads:
                first, clauses = self.clauses(form, tables)
                if len(clauses) > 1:
                    yield f"{name}: the clauses of {form}, the last one first", of(
                        [" ".join([self.example(form), *first, *reversed(clauses)])]), []

    def clauses(self, head, tables):
        """What stands in front of a form's clauses, and one of each of these."""
        first, clauses = [], {}
        for kind, rows in tables:
            for form, meaning in rows:
                word = re.split(r"[ (]", form)[0]
                if kind == "then" and not clauses:
                    first = first or [self.example(form)]
                elif kind in ("then", "clause") and self.takes(head, meaning):
                    clauses.setdefault(word, self.example(form))
        return first, list(clauses.values())

    def words(self):
        return {word for _, tables in self.ops.values() for _, rows in tables for form, _ in rows
                for word in re.findall(r"(?<![%\w])[a-z_]{2,}", form)} | set(self.ops)

    @staticmethod
    def cases():
        """The names of the bundle's enumerations that ops and attributes of schedules have."""
        names = (ROOT / "bundle/program/ManifestNames.h").read_text()
        for enum, listed in re.findall(r"namesOf\(([\w:]+)\).*?\{(\{.*?\})", names, re.S):
            # Those of plans and bundles alone.
            if enum.split(":")[0] not in ("Encoding", "Target", "Term", "Kernel", "When"):
                yield from ((enum, case) for case in re.findall(r'"(\w+)"', listed))
        cadences = (ROOT / "bundle/program/Cadences.h").read_text()
        yield from (("Cadence", case) for case in re.findall(r'Name name = "(\w+)"', cadences))


def refusals(opt, sentences):
    """Why the parser refuses each of them, "" where it reads it: one run, a schedule for each."""
    text = "".join("heddle.schedule @s {\n  %c = cadence first(1)\n  %w = window(4)\n"
                   "  %s = select columns(keep = 0.5, group = all, per_layer) by mean_probability on %c\n"
                   f"  %p = positions block\n  {sentence}\n  attend dense\n}}\n// -----\n"
                   for sentence in sentences)
    run = subprocess.run([opt, "--split-input-file", "-", "-o", "-"], input=text,
                         capture_output=True, text=True)
    wrong = {}
    for line, why in re.findall(r":(\d+):\d+: error: (?!'heddle)(.*)", run.stderr):
        wrong.setdefault(int(line), why)
    return [wrong.get(9 * i + 6, "") for i in range(len(sentences))]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tblgen", help="llvm-tblgen",
                        default=shutil.which("llvm-tblgen") or shutil.which("llvm-tblgen-22"))
    parser.add_argument("--opt", help="heddle-opt, which must read every form")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    language = Language(load(args.tblgen))
    errors = []
    for path in PAGES:
        text = path.read_text()
        if (made := language.page(text)) == text:
            continue
        if args.write:
            path.write_text(made)
        else:
            errors.append(f"{path.relative_to(ROOT)} is not what TableGen says; run "
                          "test/Docs/spec_words.py --write")
    count = 0
    if args.opt:
        forms = list(language.sentences())
        count = len(forms)
        why = iter(refusals(args.opt, [each for _, read, refused in forms for each in (*read, *refused)]))
        for what, read, refused in forms:
            errors += [f"{what}: the parser refuses {sentence}: {said}" for sentence in read if (said := next(why))]
            errors += [f"{what}: the parser reads {sentence}, which no table has"
                       for sentence in refused if not next(why)]
    words = language.words()
    for enum, case in language.cases():
        if SPELLED.get(case, case) not in words | {None}:
            errors.append(f"{enum}: the word {case} is in no table of a description")
    print("\n".join(errors) or f"{len(language.ops)} ops, {len(words)} words, {count} forms are read")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
