# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What becomes of a logit before the softmax, as a Python function.

    attend(window(128), scores=lambda logit: 30 * scores.tanh(logit / 30))
    attend(dense, scores=lambda logit, query, key: key <= query)

The function is called once, with values that record what is done with them as
operations of `arith` (docs/Spec/Scores.md): numbers that it takes from elsewhere are those
of that moment. Its arguments, of which the last may be left out and those with a default
keep it: logit, a float (scaled by the root of the head dim), and query, key and head,
whole numbers from 0: where both stand in the sequence, and the query head. It
returns a float in the logit's place, or a truth: False masks the pair.

Floats have + - * / abs, comparisons and the functions below, whole numbers + - *,
// and % by positive constants (as Python has them), << and >> by constants from 0 to 31,
and & | ^. Truths have & | ^ ~. Whole numbers become floats where they meet them. There is
no `if` over such a value: where()."""

import inspect
import math
import struct
from numbers import Integral, Real

_NAMES = ("logit", "query", "key", "head")
_MOST = 256  # operations, F1


class _Trace:
    def __init__(self):
        self.lines = []
        self.known = {}

    def add(self, operation, kind):
        """The value of an operation, which is written once."""
        if operation not in self.known:
            if len(self.lines) == _MOST:
                raise ValueError(f"scores: more than {_MOST} operations")
            name = f"%v{len(self.lines)}"
            self.lines.append(f"    {name} = {operation}")
            self.known[operation] = Value(self, name, kind)
        return self.known[operation]

    def constant(self, value, kind):
        if kind == "i1":
            return self.add(f"arith.constant {'true' if value else 'false'}", kind)
        if kind == "i32":
            if not -2**31 <= value < 2**31:
                raise ValueError(f"scores: {value} has more than 32 bits")
            return self.add(f"arith.constant {value} : i32", kind)
        if math.isnan(value):
            raise ValueError("scores: a constant is not a number")
        try:
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
        except OverflowError:
            raise ValueError(f"scores: {value!r} is beyond 32-bit floats") from None
        text = f"0x{bits:08X}" if math.isinf(value) else \
            repr(value) if "." in repr(value) else f"{value:.9e}"
        return self.add(f"arith.constant {text} : f32", kind)


def _kind_of(value):
    if isinstance(value, Value):
        return value.kind
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return "i1"
    for types, kind in ((bool, "i1"), (Integral, "i32"), (Real, "f32")):
        if isinstance(value, types):
            return kind
    raise TypeError(f"scores: expected a number, found {value!r}")


def _same(*values):
    """The values in one kind, the trace's: whole numbers become floats beside them."""
    kinds = [_kind_of(value) for value in values]
    kind = "f32" if "f32" in kinds else kinds[0]
    if "i1" in kinds and set(kinds) != {"i1"}:
        raise TypeError("scores: a truth and a number do not go together; where() chooses")
    trace = next((value.trace for value in values if isinstance(value, Value)), None)
    if trace is None:
        raise TypeError("scores: none of these values depends on the pair")
    return [_as(trace, value, kind) for value in values]


def _as(trace, value, kind):
    if not isinstance(value, Value):
        return trace.constant({"f32": float, "i32": int, "i1": bool}[kind](value), kind)
    if value.kind == "i32" and kind == "f32":
        return trace.add(f"arith.sitofp {value.name} : i32 to f32", kind)
    return value


def _operate(operation, *values, kind=None):
    names = ", ".join(value.name for value in values)
    return values[0].trace.add(f"{operation} {names} : {values[0].kind}", kind or values[0].kind)


def _operator(operations, swapped=False, kind=None, wrong="no such operation on {}"):
    """A method of two values: the operation by their kind. kind: of the result, if it is another."""
    def method(self, other):
        a, b = _same(other, self) if swapped else _same(self, other)
        if a.kind not in operations:
            raise TypeError("scores: " + wrong.format(a.words))
        return _operate(operations[a.kind], a, b, kind=kind)
    return method


def _arithmetic(name):
    return (_operator({"f32": f"arith.{name}f", "i32": f"arith.{name}i"}, swapped) for swapped in (False, True))


def _comparison(floats, ints):
    return _operator({"f32": f"arith.cmpf {floats},", "i32": f"arith.cmpi {ints},"}, kind="i1",
                     wrong="truths are not compared; use ^")


def _bits(name):
    return _operator(dict.fromkeys(("i32", "i1"), name))


class Value:
    """A number or truth of a pair, made by the arguments of a function of scores."""
    __array_ufunc__ = None  # NumPy's numbers leave operations to these

    def __init__(self, trace, name, kind):
        self.trace, self.name, self.kind = trace, name, kind

    @property
    def words(self):
        return {"f32": "floats", "i32": "whole numbers", "i1": "truths"}[self.kind]

    def __bool__(self):
        raise TypeError("scores: what a pair is, is not known here; take where(condition, a, b), "
                        "and &, |, ~ in place of and, or, not")

    __hash__ = None
    __add__, __radd__ = _arithmetic("add")
    __sub__, __rsub__ = _arithmetic("sub")
    __mul__, __rmul__ = _arithmetic("mul")
    __lt__, __le__ = _comparison("olt", "slt"), _comparison("ole", "sle")
    __gt__, __ge__ = _comparison("ogt", "sgt"), _comparison("oge", "sge")
    __eq__, __ne__ = _comparison("oeq", "eq"), _comparison("une", "ne")
    __and__ = __rand__ = _bits("arith.andi")
    __or__ = __ror__ = _bits("arith.ori")
    __xor__ = __rxor__ = _bits("arith.xori")

    def __invert__(self):
        return self ^ (True if self.kind == "i1" else -1)

    def __neg__(self):
        return _operate("arith.negf", self) if self.kind == "f32" else 0 - self

    def __abs__(self):
        if self.kind == "i1":
            raise TypeError("scores: no such operation on truths")
        return _operate("math.absf" if self.kind == "f32" else "math.absi", self)

    def __truediv__(self, other):
        return _operate("arith.divf", *(_as(self.trace, v, "f32") for v in _same(self, other)))

    def __rtruediv__(self, other):
        return _operate("arith.divf", *(_as(self.trace, v, "f32") for v in _same(other, self)))

    def _divided(self, other):
        """(quotient, rest, divisor) towards zero."""
        if self.kind != "i32" or isinstance(other, bool) or not isinstance(other, Integral) or \
                other < 1:
            raise TypeError("scores: // and % are of whole numbers by positive constants")
        by = self.trace.constant(int(other), "i32")
        return _operate("arith.divsi", self, by), _operate("arith.remsi", self, by), by

    def __floordiv__(self, other):
        quotient, rest, _ = self._divided(other)
        return where(rest < 0, quotient - 1, quotient)

    def __mod__(self, other):
        _, rest, by = self._divided(other)
        return where(rest < 0, rest + by, rest)

    def _shifted(self, operation, other):
        if self.kind != "i32" or isinstance(other, bool) or not isinstance(other, Integral) or \
                not 0 <= other < 32:
            raise TypeError("scores: << and >> are of whole numbers by constants from 0 to 31")
        return _operate(operation, self, self.trace.constant(int(other), "i32"))

    def __lshift__(self, other):
        return self._shifted("arith.shli", other)

    def __rshift__(self, other):
        return self._shifted("arith.shrsi", other)


def where(condition, a, b):
    """a where the condition is true, else b; floats if one of them is. TypeError for a
    condition that does not depend on the pair."""
    if _kind_of(condition) != "i1" or not isinstance(condition, Value):
        raise TypeError("scores: where() takes a truth of the pair, such as key <= query")
    kinds = {_kind_of(a), _kind_of(b)}
    kind = "f32" if "f32" in kinds else kinds.pop()
    a, b = (_as(condition.trace, value, kind) for value in (a, b))
    return condition.trace.add(
        f"arith.select {condition.name}, {a.name}, {b.name} : {kind}", kind)


def minimum(a, b):
    """The lesser of two numbers."""
    a, b = _same(a, b)
    return _operate("arith.minimumf" if a.kind == "f32" else "arith.minsi", a, b)


def maximum(a, b):
    """The larger of two numbers."""
    a, b = _same(a, b)
    return _operate("arith.maximumf" if a.kind == "f32" else "arith.maxsi", a, b)


def _function(name):
    def function(x):
        if not isinstance(x, Value) or x.kind == "i1":
            raise TypeError(f"scores: {name}() takes a number of the pair, found {x!r}")
        return _operate(f"math.{name}", _as(x.trace, x, "f32"))
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of a number, in 32-bit floats, within 5e-7 relative."
    return function


exp, exp2, log, log2, sqrt, tanh = map(_function, ("exp", "exp2", "log", "log2", "sqrt", "tanh"))


def trace(function) -> str:
    """The region of `scores` that a function states: "(%logit) {...}"."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of what is none, or is not Python's
        raise TypeError(f"scores: expected a function of logit, query, key and head, found {function!r}") from None
    # Those with a default keep it: lambda logit, cap=cap: ... is how loops bind numbers.
    parameters = [p for p in parameters if p.default is p.empty]
    if not 1 <= len(parameters) <= 4 or \
            any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise TypeError("scores: expected a function of logit, query, key and head, of which the "
                        "last may be left out; found one of "
                        f"({', '.join(p.name for p in parameters)})")
    made = _Trace()
    arguments = [Value(made, f"%{name}", "f32" if i == 0 else "i32")
                 for i, name in enumerate(_NAMES[:len(parameters)])]
    result = function(*arguments)
    if isinstance(result, Value) and result.kind == "i1":
        result = where(result, arguments[0], -math.inf)
    if isinstance(result, (bool, int, float)) or not isinstance(result, Value):
        raise TypeError(f"scores: expected a value made of the pair's, found {result!r}")
    result = _as(made, result, "f32")
    return (f"({', '.join(a.name for a in arguments)}) {{\n" +
            "".join(line + "\n" for line in made.lines) +
            f"    yield {result.name}\n  }}")
