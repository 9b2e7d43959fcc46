# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What goes wrong, as exceptions."""

import re


class HeddleError(RuntimeError):
    """A file, a machine or a run is not as it must be. The text says what was
    found, what was expected and what to do."""


class ScheduleWarning(UserWarning):
    """The compiler takes a schedule but for a part that has no effect, or whose lists give way to
    dense attention. The text says which, with the line."""


class ScheduleError(HeddleError, ValueError):
    """The compiler refuses a schedule.

    message: of the first error. line, column: where in `source`, from 1, or None
    if it is of no place. source: the MLIR text that was compiled. str() shows all
    that the compiler said, with the lines that it points at."""

    _ERROR = re.compile(r"^<stdin>:(\d+):(\d+): error: (.*)$", re.MULTILINE)

    def __init__(self, diagnostics, source):
        found = self._ERROR.search(diagnostics)
        self.message = found.group(3) if found else diagnostics.strip()
        self.line = int(found.group(1)) if found else None
        self.column = int(found.group(2)) if found else None
        self.source = source
        self._diagnostics = diagnostics
        super().__init__(diagnostics.replace("<stdin>", "schedule").strip())

    def __reduce__(self):
        """Of a copy, or on its way from another process."""
        return type(self), (self._diagnostics, self.source)


def error_at(text, offset, why) -> ScheduleError:
    """The error of a place in a text."""
    before = text[:offset]
    return ScheduleError(f"<stdin>:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: error: {why}", text)


def check_unicode(text):
    """ScheduleError, with the place, for a text that no file could hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise error_at(text, error.start, "expected Unicode text, found half of a surrogate pair "
                       f"(U+{ord(text[error.start]):04X}); read the file as UTF-8, without surrogateescape") from None
