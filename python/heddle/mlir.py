# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLIR text of schedules: each value once, in front of what uses it."""

import re


class Writer:
    """Lines of a schedule's body, and the names of the values in it."""

    def __init__(self):
        self.lines = []
        self.operands = {}
        self.names = {}

    def value(self, value, name, operation):
        """The operand of a value, whose operation is written the first time."""
        if value in self.operands:
            return self.operands[value]
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        operand = f"%{name}{count or ''}"
        self.lines.append(f"  {operand} = {operation}")
        self.operands[value] = operand
        return operand


class Inline:
    """Writes a value where it stands, in parentheses if it is more than a word and its
    arguments: what repr() shows."""

    @staticmethod
    def short(operation):
        return re.sub("^(cadence|positions) ", "", operation)

    def value(self, value, name, operation):
        text = word = self.short(operation)
        while (rest := re.sub(r"\([^()]*\)", "", word)) != word:
            word = rest
        return text if word.isidentifier() else f"({text})"


def text_of(schedule):
    """The text of a heddle.Schedule."""
    out = Writer()
    # Of a schedule's attends the first that has a layer is the layer's, and last stands the one
    # that names none.
    ordered = sorted(schedule.statements, key=lambda one: (
        one.form.startswith("attend") and " in layers(" not in one.form))
    statements = ["  " + statement._said(out) for statement in ordered]
    body = "\n".join(out.lines + statements)
    return f"heddle.schedule @{schedule.name} {{\n{body}{chr(10) if body else ''}}}\n"
