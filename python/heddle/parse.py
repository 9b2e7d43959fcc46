# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLIR text back to expressions. What an operation may say is the compiler's to check;
here it is enough to know where each begins and which values it uses."""

import re

from .errors import HeddleError, ScheduleError, check_unicode
from .schedule import (_OPERATORS, SCORERS, Cadence, Pairs, Positions, Schedule, Source, _Selection, _Statement,
                       number_text)

#: All other operations make values.
_STATEMENTS = {"attend", "visible", "recompute", "reuse", "commit"}
#: What a line begins with that goes on with the operation before it.
_CLAUSE = re.compile(r"[,)%({=\d]|(by|on|in|of|near|or|then|with|among|always|at_once|alone|unseen|scores|within|at_most|revoke|edit|renoise|passes|pooled|"
                     r"stop|verify|isolating|scaled_by|until|layers|pairs)\b")
#: Sets that are said by one word.
_ALONE = re.compile(r"\b(dense|others)$")
_OPERAND = re.compile(r"%([A-Za-z0-9_$.-]+)")
_HEAD = re.compile(r"heddle\.schedule\s+@([A-Za-z_][\w.$]*)\s*(?:\(([^()]*)\)\s*)?\{", re.ASCII)


def declared(head: str) -> dict:
    """{name: number} of "keep = 0.2, group = 32"."""
    return {name.strip(): value.strip() for name, _, value in
            (one.partition("=") for one in (head or "").split(",")) if name.strip()}


def with_parameters(text: str, settings: dict, what: str = "the schedule") -> str:
    """MLIR text, without comments, with other numbers for the parameters that its first schedule
    declares. `what` names it in errors. Raises TypeError for one that it has not."""
    text = re.sub(r"(?m)^\s*//.*\n|//.*", "", text)
    head = _HEAD.search(text)
    numbers = declared(head[2]) if head else {}
    for name, value in settings.items():
        if name not in numbers:
            raise TypeError(f"{what} has no parameter {name!r}; it has "
                            f"{', '.join(sorted(numbers)) or 'none'}")
        numbers[name] = number_text(value, name)
    if not settings:
        return text
    written = ", ".join(f"{name} = {number}" for name, number in numbers.items())
    return f"{text[:head.start(2)]}{written}{text[head.end(2):]}"


class _Reader:
    def __init__(self, text):
        self.text = text
        self.values = {}
        self.numbers = {}
        self.number = 0

    def fail(self, why, at=None):
        """An error at the operation that is being read, or at the word `at` in it."""
        lines = self.text.splitlines() or [""]
        number, column = self.number or 1, 0
        while at and number < len(lines) and not at.search(lines[number - 1]):
            number += 1
        line = lines[number - 1]
        found = at and at.search(line)
        column = found.start() if found else len(line) - len(line.lstrip())
        raise ScheduleError(f"<stdin>:{number}:{column + 1}: error: {why}", self.text)

    def operands(self, words):
        """(words with {} for operands, their values)."""
        found = []
        for operand in _OPERAND.findall(words):
            if operand not in self.values:
                self.fail(f"%{operand} is not defined before this line", re.compile(rf"%{re.escape(operand)}(?![\w$.-])"))
            found.append(self.values[operand])
        escaped = words.replace("{", "{{").replace("}", "}}")
        return _OPERAND.sub("{}", escaped), tuple(found)

    def value(self, name, op, words):
        form, found = self.operands(words)
        if op == "cadence":
            text, block, eos = re.fullmatch(r"(.+?)( in block)?( or after eos)?", words).groups()
            return Cadence(text, bool(block), bool(eos), name)
        if op == "select":
            parts = re.fullmatch(rf"(\w+\(.*?\) by (?:{'|'.join(SCORERS)})\b.*?) on %[A-Za-z0-9_$.-]+"
                                 r"( in layers *\(.*\))?", words)
            if not parts:
                self.fail("expected 'columns(...)' or 'blocks(...)', 'by' a scorer and "
                          f"'on %cadence', found '{words}'")
            (said, sets), (layers, _) = self.operands(parts[1]), self.operands(parts[2] or "")
            return _Selection(f"select {said}{{on}}{layers}", sets, name, on=found[-1])
        operator = {word: operator for operator, word in _OPERATORS.items()}.get(op)
        # By arithmetic: window(64).
        of_pairs = _ALONE.fullmatch(op) or re.fullmatch(r"\([^()%]*\)", words) or \
            operator and found and isinstance(found[0], Pairs)
        family = Pairs if of_pairs else Positions
        if operator:
            return family._of(operator, found, name)
        return family(f"{op}{'' if form.startswith('(') else ' '}{form}".rstrip(), found, name)

    def statement(self, op, words):
        head, scores, region = words.partition(" scores(")
        form, found = self.operands(head)
        region = region.replace("{", "{{").replace("}", "}}")
        return _Statement(f"{op} {form}{scores}{region}", found)

    def lines(self):
        """(text of an operation, without comments), over all lines; of a region the lines stay."""
        kept, first, depth = "", 1, 0
        for number, line in enumerate(self.text.splitlines(), 1):
            line = line.split("//")[0].strip()
            if not line:
                continue
            inside = "scores(" in kept and depth > self.level
            begun = inside or kept.count("(") > kept.count(")") or kept.endswith((",", "=")) or \
                re.fullmatch(r"(%\S+ *= *)?[\w.]+", kept) and not _ALONE.search(kept) or \
                _CLAUSE.match(line) and not re.match(r"%\S+\s*=", line)
            if kept and not begun:
                self.number = first
                yield kept
                kept = ""
            if not kept:
                kept, first = line, number
            elif inside:
                kept += ("\n  " if line.startswith("}") else "\n    ") + line
            else:
                kept += ("" if kept.endswith("(") or line[0] in ",)" else " ") + line
            depth += line.count("{") - line.count("}")
        self.number = first
        if "scores(" in kept and depth > self.level:
            self.fail("the region of scores does not end")
        if kept:
            yield kept

    def with_numbers(self, line):
        """The line with numbers for the parameters that stand where numbers may: as an argument, or at an end of
        `layers(a to b)`."""
        names = "|".join(map(re.escape, self.numbers))
        return re.sub(rf"([=(,]\s*|\bto\s+)({names})(?=\s*[,)]|\s+to\b)",
                      lambda found: found[1] + self.numbers[found[2]], line) if names else line

    def schedules(self):
        made, name, statements, self.level = {}, None, [], 0
        for line in self.lines():
            if line == "module {" and name is None:
                self.level += 1
            elif line == "}" and self.level:
                self.level -= 1
                if name is not None:
                    made[name] = Schedule(statements, name)
                    name, statements, self.values = None, [], {}
            elif head := _HEAD.fullmatch(line):
                name, self.level = head[1], self.level + 1
                self.numbers = declared(head[2])
            elif name is None:
                self.fail(f"expected 'heddle.schedule @name {{', found '{line}'")
            else:
                line = self.with_numbers(line)
                found = re.fullmatch(r"(?:%(\S+) *= *)?(?:heddle\.)?(\w+) *(.*)", line, re.DOTALL)
                if not found or bool(found[1]) == (found[2] in _STATEMENTS):
                    self.fail(f"no operation of a schedule, one a line: '{line}'")
                if found[1]:
                    self.values[found[1]] = self.value(found[1], found[2], found[3])
                else:
                    statements.append(self.statement(found[2], found[3]))
        if self.level:
            self.fail("the text ends before its last '}'")
        return made


def _spelled(text, name, unread):
    """The compiler's spelling of a text that the reader here does not take, with the error `unread`, which is raised
    where the compiler is not there or its own names no place."""
    from .compiler import canonical
    try:
        return canonical(Source(text, name))
    except HeddleError as error:
        raise (error if getattr(error, "line", None) else unread) from None


def parse(text: str, name: str = None) -> Schedule:
    """A schedule from MLIR text, `name` where the text has several. Names of values are
    kept, comments are not, and parameters become the numbers that the text gives them
    (compile(text, parameters=...) takes others). Text with several operations in a line, or in
    MLIR's generic form, is read as the compiler spells it (canonical()). Raises ScheduleError,
    with line and column as the compiler says them, for what is no schedule, TypeError for what is
    no text."""
    if not isinstance(text, str):
        raise TypeError(f"text: expected MLIR text, found {text!r}")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name: expected a schedule's name, found {name!r}")
    check_unicode(text)
    reader = _Reader(text)
    try:
        made = reader.schedules()
    except ScheduleError as error:
        reader = _Reader(_spelled(text, name, error))
        made = reader.schedules()
    if name is None and len(made) == 1:
        return next(iter(made.values()))
    if name not in made:
        reader.fail("expected one schedule" if name is None and not made else
                    f"name one of the schedules: {', '.join(made)}" if name is None else
                    f"no schedule @{name}; there are: {', '.join(made) or 'none'}")
    return made[name]
