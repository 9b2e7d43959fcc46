# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedules as expressions: values (cadences, pairs, positions) and the statements
that use them, as docs/Spec has them.

Values are immutable and compare by what they say. Pairs and positions are united
with `|` and intersected with `&`, positions taken away with `-`; statements are
put together with `+`, in the order in which they count. `str(schedule)` is the MLIR text. Kinds of
arguments are checked here (TypeError), everything that the Spec numbers by the
compiler (ScheduleError), so that there is one set of rules.

A ratio is exact: a float, NumPy's too, means the decimal that is printed for it, a
fractions.Fraction itself, an int n/1, a str what the Spec allows ("20 percent")."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Optional, Union

from . import mlir
from . import scores as score_functions
from .errors import ScheduleError

Ratio = Union[float, int, Fraction, str]


def _outside(function):
    """Has torch.compile call the function outside of what it compiles (as torch.compiler.disable()
    does, without PyTorch): it takes no values of schedules that a program makes, and ends with
    an internal error of its own."""
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = "make sets of pairs, or a heddle.plan(), outside of what " \
        "torch.compile compiles"
    return function


def _kind(value, kind, what, expected):
    if not isinstance(value, kind) or isinstance(value, bool) and kind is not bool:
        raise TypeError(f"{what}: expected {expected}, found {value!r}")
    return value


def _count(value, what):
    return int(_kind(value, Integral, what, "a whole number"))


def _one_of(value, what, words):
    if value is not None and not isinstance(value, str) or value not in words:
        raise ValueError(f"{what}: {value!r} is none of {', '.join(map(str, words))}")
    return value


def ratio_text(value: Ratio, what: str = "ratio") -> str:
    """The spelling of a ratio in MLIR: "0.2", "1/3", "20 percent"."""
    _kind(value, (Real, str), what, "a float, int, fractions.Fraction or str")
    if isinstance(value, str):
        if not re.fullmatch(r"\d+(\.\d+)?|\d+/\d+|\d+(\.\d+)? percent", value):
            raise ValueError(f"{what}: {value!r} is no ratio; expected one like '0.2', '1/5' "
                             "or '20 percent'")
        return value
    if not isinstance(value, Rational):
        if not math.isfinite(value):
            raise ValueError(f"{what}: {value!r} is no ratio")
        text = format(Decimal(str(value)), "f")  # NumPy's repr() names the type
        if len(text.replace(".", "").lstrip("0-")) > 15:
            raise ValueError(f"{what}: {value!r} has more than 15 digits; give a "
                             "fractions.Fraction, which is exact")
        return text if "." in text else text + ".0"
    value = Fraction(value)
    return f"{value.numerator}/{value.denominator}"


def number_text(value, what: str = "number") -> str:
    """The spelling of a parameter's value: an int is an integer, all else a ratio; text of
    digits is an integer, too."""
    if isinstance(value, Integral) and not isinstance(value, bool) or \
            isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return str(value)
    return ratio_text(value, what)


class _Value:
    """What a schedule's statements are made of. `_emit(out)` writes the operation
    and returns its operand."""

    def _operation(self, out):
        raise NotImplementedError

    def _emit(self, out):
        return out.value(self, self._name, self._operation(out))

    def __repr__(self):
        """What str() of a schedule says of it, in one line."""
        text = mlir.Inline.short(self._operation(mlir.Inline()))
        return f"<heddle.{self._family.__name__} {text}>"

    def __bool__(self):
        raise TypeError("a value of a schedule is neither true nor false; unite with |, "
                        "intersect with &")


@dataclass(frozen=True, repr=False)
class Cadence(_Value):
    """A set of steps (docs/Spec/Cadence.md), made by every(), at() and their like."""
    text: str
    per_block: bool = False
    eos: bool = False
    _name: str = field(default="steps", compare=False)

    def in_block(self) -> Cadence:
        """The same steps, counted anew in each block."""
        return dataclasses.replace(self, per_block=True)

    def or_after_eos(self) -> Cadence:
        """Besides, all steps once EOS was found."""
        return dataclasses.replace(self, eos=True)

    def _operation(self, out):
        return (f"cadence {self.text}" + (" in block" if self.per_block else "") +
                (" or after eos" if self.eos else ""))


Cadence._family = Cadence
never = Cadence("never")  #: No step.


@_outside
def every(n: int, start: Optional[int] = None) -> Cadence:
    """Steps 1, 1 + n, 1 + 2n...; with `start` s, s + n... TypeError for what is no whole number;
    what the Spec numbers is the compiler's ScheduleError. Source: docs/Spec/Cadence.md."""
    _count(n, "n")
    return Cadence(f"every({n})" if start is None else
                   f"every({n}, from = {_count(start, 'start')})")


@_outside
def first(n: int) -> Cadence:
    """Steps 1 to n. TypeError for what is no whole number; what the Spec numbers is the compiler's
    ScheduleError. Source: docs/Spec/Cadence.md."""
    return Cadence(f"first({_count(n, 'n')})")


@_outside
def geometric(n: int) -> Cadence:
    """Steps 1, n, n^2...: ever fewer, in runs of any length. n: from 2. TypeError for what is no
    whole number; what the Spec numbers is the compiler's ScheduleError. Source:
    docs/Spec/Cadence.md."""
    return Cadence(f"geometric({_count(n, 'n')})")


@_outside
def drift(below: Ratio, within: int, layer: int = -1, attention: bool = False) -> Cadence:
    """Step 1; each step after one whose values in `layer` (-1: the last) have a mean cosine below `below` to
    what they were after the latest of these steps; the `within`-th after that one at the latest; and the
    steps of the schedule's others of layers before. attention: the weights of the layer's attention in place
    of its values. A run decides which: not for attention without a model.
    TypeError for what is no ratio, whole number or truth value; what the Spec numbers is the compiler's
    ScheduleError. Source: docs/Spec/Cadence.md."""
    of = "attention, " if _kind(attention, bool, "attention", "True or False") else ""
    where = "" if _count(layer, "layer") == -1 else f", layer = {layer}"
    return Cadence(f"drift({of}below = {ratio_text(below, 'below')}, within = {_count(within, 'within')}{where})")


@_outside
def at(share: Ratio, plus: Optional[int] = None) -> Cadence:
    """The one step max(1, floor(share T)), or floor(share T) + plus, of T steps. TypeError for what
    is no ratio or whole number; what the Spec numbers is the compiler's ScheduleError. Source:
    docs/Spec/Cadence.md."""
    text = ratio_text(share, "share")
    return Cadence(f"at({text})" if plus is None else f"at({text}, plus = {_count(plus, 'plus')})")


@_outside
def at_step(step: int) -> Cadence:
    """The one step `step`, from 1. TypeError for what is no whole number; what the Spec numbers is
    the compiler's ScheduleError. Source: docs/Spec/Cadence.md."""
    return Cadence(f"at(step = {_count(step, 'step')})")


@_outside
def uniform(window: Ratio, count: int) -> Cadence:
    """`count` steps spread evenly over the first share `window` of the run. Source:
    PulseCol, equation 8. TypeError for other kinds of arguments, ScheduleError of the compiler for
    numbers out of range."""
    return Cadence(f"uniform(window = {ratio_text(window, 'window')}, "
                   f"count = {_count(count, 'count')})")


@_outside
def random(window: Ratio, count: int, seed: int) -> Cadence:
    """`count` steps drawn by `seed` from the first share `window` of the run, the same on every
    machine. Source: PulseCol, appendix D, table 6. TypeError for other kinds of arguments, ScheduleError of
    the compiler for numbers out of range."""
    return Cadence(f"random(window = {ratio_text(window, 'window')}, "
                   f"count = {_count(count, 'count')}, seed = {_count(seed, 'seed')})")


@_outside
def power(window: Ratio, count: int) -> Cadence:
    """`count` steps, densest at the beginning of the first share `window`. Source:
    PulseCol, appendix D, table 6. TypeError for other kinds of arguments, ScheduleError of the compiler for
    numbers out of range."""
    return Cadence(f"power(window = {ratio_text(window, 'window')}, "
                   f"count = {_count(count, 'count')})")


_OPERATORS = {"|": "union", "&": "intersect"}


class _Set(_Value):
    """What pairs and positions share: unions and intersections."""

    @_outside
    def __or__(self, other):
        return self._with("|", other)

    @_outside
    def __and__(self, other):
        return self._with("&", other)

    def _with(self, operator, other):
        if not isinstance(other, self._family):
            return NotImplemented
        return self._made_of(operator, self._parts_of(operator) + other._parts_of(operator))

    def _parts_of(self, operator):
        return (self,)


class Pairs(_Set):
    """A set of (query, key) pairs (docs/Spec/Pairs.md), made by window(), columns() and
    their like; `|` unites, `&` intersects."""

    def _made_of(self, operator, parts):
        return _PairSet(operator, parts)

    def _repr_html_(self):
        """The page of attention over them, selections made at each step."""
        from .notebooks import explained
        return explained(attend(self, refresh=every(1)) if self._unrefreshed() else attend(self))

    def _refreshed(self, cadence):
        """The same with `cadence` for the selections that name none."""
        return self

    def _unrefreshed(self):
        """The selections that name no cadence."""
        return ()


@dataclass(frozen=True, repr=False)
class _SimplePairs(Pairs):
    """Pairs by a word of the Spec and numbers."""
    text: str
    _name: str = field(compare=False)

    def _operation(self, out):
        return self.text


@dataclass(frozen=True, repr=False)
class _PairSet(Pairs):
    """A union or an intersection of pairs."""
    operator: str
    parts: tuple
    _name: str = field(default="pairs", compare=False)

    def _parts_of(self, operator):
        return self.parts if operator == self.operator else (self,)

    def _refreshed(self, cadence):
        return dataclasses.replace(self, parts=tuple(part._refreshed(cadence) for part in self.parts))

    def _unrefreshed(self):
        return sum((part._unrefreshed() for part in self.parts), ())

    def _operation(self, out):
        return _OPERATORS[self.operator] + " " + ", ".join(part._emit(out) for part in self.parts)


@dataclass(frozen=True, repr=False)
class _Selection(Pairs):
    """Pairs that a scorer selects, and when."""
    form: str
    details: str
    on: Optional[Cadence]
    _name: str = field(compare=False)
    layers: str = ""
    sets: tuple = ()  # of positions, and what it chooses within, where `details` has {}
    by: str = "mean_probability"

    def _refreshed(self, cadence):
        return dataclasses.replace(self, on=cadence if self.on is None else self.on, sets=tuple(
            each._refreshed(cadence) if isinstance(each, Pairs) else each for each in self.sets))

    def _unrefreshed(self):
        outer = sum((each._unrefreshed() for each in self.sets if isinstance(each, Pairs)), ())
        return outer + (() if self.on is not None else (self,))

    def _operation(self, out):
        cadence = f" on {self.on._emit(out)}" if self.on is not None else ""
        details = self.details.format(*(positions._emit(out) for positions in self.sets))
        return f"select {self.form} by {self.by}{details}{cadence}{self.layers}"


Pairs._family = Pairs
dense = _SimplePairs("dense", "all")  #: All pairs.
ROUNDINGS = (None, "floor", "ceil", "round", "floor_plus_one")
SCORERS = ("mean_probability", "mean_logit")


@_outside
def pairs(word: str, *numbers: Union[int, Ratio], **named: int) -> Pairs:
    """Any set of pairs that the Spec has: pairs("window", 64, dilation=4) is window(64, dilation=4).

    word: of the Spec's table, such as "window". numbers: what it is stated with before names, tokens or
    shares of 0 to 1. named: numbers of tokens by their names. The compiler checks all of them. Raises
    ValueError for what is no word. Source: docs/Spec/Pairs.md."""
    _kind(word, str, "word", "a word of the Spec, such as 'window'")
    if not re.fullmatch(r"[a-z_]+", word):
        raise ValueError(f"word: {word!r} is no word of the Spec")
    said = [str(number) if isinstance(number, Integral) and not isinstance(number, bool)
            else ratio_text(number, word) for number in numbers]
    said += [f"{name} = {_count(number, name)}" for name, number in named.items()]
    return _SimplePairs(f"{word}({', '.join(said)})" if said else word, {"window": "near"}.get(word, word))


@_outside
def window(size: int, **named: int) -> Pairs:
    """Keys near the query: those with |i - j| <= size / 2 tokens, rounded down. `named`: what else
    the Spec states a window with. TypeError for what are no whole numbers; the compiler's
    ScheduleError for a name that the Spec has not. Source: docs/Spec/Pairs.md."""
    return pairs("window", _count(size, "size"), **named)


@_outside
def sinks(size: Union[int, Ratio]) -> Pairs:
    """The first keys: a `size` that is an int is their number, any other ratio their share of the
    sequence, rounded down, at least one. Source: StreamingLLM, as SparseD and PulseCol have it in section 4.1. TypeError for other kinds,
    ValueError for a text that is no ratio."""
    _kind(size, (Real, str), "size", "a number of keys or a fraction")
    return pairs("sinks", size)


def _layers_text(layers):
    """" in layers(0 to 3, 8)" of (0, 3), of 8 or of a list of these; "" of None."""
    if layers is None:
        return ""
    ranges = []
    for each in layers if isinstance(layers, list) else [layers]:
        if isinstance(each, tuple) and len(each) == 2:
            ranges.append(" to ".join(str(_count(layer, "layers")) for layer in each))
        elif isinstance(each, Integral) and not isinstance(each, bool):
            ranges.append(str(each))
        else:
            raise TypeError("layers: expected (first, last), a layer or a list of these, "
                            f"found {layers!r}")
    if not ranges:
        raise ValueError("layers: the list names no layer")
    return f" in layers({', '.join(ranges)})"


def _selection(kind, keep, size_name, size, words, details, on, layers, name, by, sets=()):
    _one_of(by, "by", SCORERS)
    if on is not None:
        _kind(on, Cadence, "on", "a cadence")
    form = f"{kind}(keep = {number_text(keep, 'keep')}, {size_name} = {size}{words})"
    return _Selection(form, details, on, name, _layers_text(layers), sets, by)


@_outside
def columns(keep: Union[int, Ratio], group: Union[int, str] = 32, *, on: Optional[Cadence] = None,
            rounding: Optional[str] = None, per_kv_head: bool = False, per_layer: bool = False,
            pooled: Optional[int] = None, of: Optional["Positions"] = None, always: Optional["Positions"] = None,
            within: Optional[Pairs] = None, by: str = "mean_probability",
            layers: Union[int, tuple, list, None] = None) -> Pairs:
    """For each group of `group` query rows the keys of largest mean probability, the share
    `keep` of all or, if that is an int, so many, refreshed on the cadence `on`, else on the
    `refresh` of attend().

    group: rows, a power of two from 16 to 1024, or "all". rounding: of keep times the keys, None for
    down. per_kv_head: query heads that share keys share a list; per_layer: all heads do. pooled: a
    key scores as much as the best of so many neighbors, itself among them, an odd number. of: with
    group="all" the mean is over the rows of this range of positions. always: the keys of this range
    are listed, too, and `keep` is of the others. within: columns() or blocks() from whose keys
    these are chosen, and `keep` is of them. by: "mean_logit" scores by the mean
    of the group's queries, and needs no dense attention before. layers: that refresh it, a layer,
    (first, last) or a list of these; others read what the nearest one before has chosen. None:
    each layer refreshes its own. ValueError for another rounding or no layer; what the Spec
    numbers is the compiler's ScheduleError. Source: PulseCol, equations 5 to 7; Sparse-dLLM."""
    _one_of(rounding, "rounding", ROUNDINGS)
    _kind(per_kv_head, bool, "per_kv_head", "True or False")
    _kind(per_layer, bool, "per_layer", "True or False")
    words = (f", rounding = {rounding}" if rounding else "") + \
        (", per_kv_head" if per_kv_head else "") + (", per_layer" if per_layer else "")
    details = "" if pooled is None else f" pooled({_count(pooled, 'pooled')})"
    sets = ()
    for word, positions in (("of", of), ("always", always)):
        if positions is not None:
            details += f" {word} {{}}"
            sets += (_kind(positions, Positions, word, "a set of positions"),)
    if within is not None:
        details += " within {}"
        sets += (_kind(within, _Selection, "within", "columns() or blocks()"),)
    return _selection("columns", keep, "group", "all" if isinstance(group, str) and group == "all" else _count(group, "group"),
                      words, details, on, layers, "cols", by, sets)


@_outside
def blocks(keep: Union[int, Ratio], size: int = 128, *, on: Optional[Cadence] = None,
           isolating: Optional[str] = None, scaled_by_heads: bool = False,
           rounding: Optional[str] = None, by: str = "mean_probability",
           layers: Union[int, tuple, list, None] = None) -> Pairs:
    """For each block of `size` query rows the share `keep` of blocks of as many keys, or, if that is an int, so many, by
    their mean probability, refreshed on the cadence `on` as columns() are.

    size: a power of two from 16 to 128. isolating: how prompt and response are told apart,
    "spans", "aligned" or "filtered" (docs/Spec/Pairs.md). scaled_by_heads: scores as SparseD's
    released code has them. rounding: of keep times the blocks, None for down. by: "mean_logit" scores by means of queries and keys. layers: as for columns(). ValueError for another word; what the
    Spec numbers is the compiler's ScheduleError. Source: SparseD, equations 5 and 6."""
    _one_of(rounding, "rounding", ROUNDINGS)
    _one_of(isolating, "isolating", (None, "spans", "aligned", "filtered"))
    _kind(scaled_by_heads, bool, "scaled_by_heads", "True or False")
    details = (f" isolating({isolating})" if isolating else "") + \
        (" scaled_by(heads)" if scaled_by_heads else "")
    return _selection("blocks", keep, "size", _count(size, "size"),
                      f", rounding = {rounding}" if rounding else "", details, on, layers, "tiles", by)


class Positions(_Set):
    """A set of positions of a sequence, from 0, as it is before a step (docs/Spec/Rows.md): prompt,
    undecoded() and their like; `|` unites, `&` intersects, `-` takes away."""

    def _made_of(self, operator, parts):
        return _PositionSet(_OPERATORS[operator] + " {}", parts, (),
                            "positions" if operator == "|" else "both", operator)

    def __sub__(self, other):
        if not isinstance(other, Positions):
            return NotImplemented
        return _PositionSet("except {}, {}", (self, other), (), "rest", "")

    def fixed(self, on: Cadence) -> Positions:
        """The set as it was before the latest step of the cadence `on`. TypeError for other kinds
        of arguments."""
        _kind(on, Cadence, "on", "a cadence")
        return _PositionSet("fix {} on {}", (self,), (on,), "fixed", "")

    def hull(self) -> Positions:
        """Every position from the first to the last."""
        return _PositionSet("hull {}", (self,), (), "hull", "")

    def last(self, count: int = 1) -> Positions:
        """The last `count` positions of the set. TypeError for what is no whole number."""
        return _PositionSet(f"last({_count(count, 'count')}) of {{}}", (self,), (), "end", "")

    def confident(self, count: int, near: Optional[int] = None) -> Positions:
        """Of the masked positions of the set the `count` whose last prediction had the highest
        confidence; those without one come last. near: the standard deviation, in positions, of
        the weights by which decoded positions lift a confidence near them. TypeError for what
        is no whole number. Source: docs/Spec/Rows.md."""
        lifted = "" if near is None else f", near = {_count(near, 'near')}"
        return _PositionSet(f"confident({_count(count, 'count')}{lifted}) of {{}}", (self,), (),
                            "sure", "")

    def leading(self) -> Positions:
        """As many first positions of the sequence as the set has."""
        return _PositionSet("leading {}", (self,), (), "front", "")

    def predicting(self) -> Positions:
        """The rows that predict these positions."""
        return _PositionSet("predicting {}", (self,), (), "predicting", "")

    def neighbors(self, count: int, among: Positions) -> Positions:
        """For each position `count` positions of `among` next to it. TypeError for other kinds of
        arguments."""
        _kind(among, Positions, "among", "a set of positions")
        return _PositionSet(f"neighbors({_count(count, 'count')}) of {{}} in {{}}",
                            (self, among), (), "near", "")

    def nearest(self, count: int, among: Positions) -> Positions:
        """For each position in turn the `count` nearest of `among` that are neither of the set
        nor taken before. TypeError for other kinds of arguments."""
        _kind(among, Positions, "among", "a set of positions")
        return _PositionSet(f"nearest({_count(count, 'count')}) of {{}} in {{}}",
                            (self, among), (), "near", "")


Positions._family = Positions


@dataclass(frozen=True, repr=False)
class _PositionSet(Positions):
    """Positions by a word of the Spec, of others and of cadences."""
    form: str
    parts: tuple
    cadences: tuple
    _name: str = field(compare=False)
    operator: str

    def _parts_of(self, operator):
        return self.parts if operator and operator == self.operator else (self,)

    def _operation(self, out):
        parts = [part._emit(out) for part in self.parts]
        cadences = [cadence._emit(out) for cadence in self.cadences]
        if self.operator:
            return self.form.format(", ".join(parts))
        return self.form.format(*parts, *cadences)


def _positions(text, name, *cadences):
    return _PositionSet("positions " + text, (), cadences, name, "")


all_positions = _positions("all", "all")  #: Every position.
prompt = _positions("prompt", "prompt")  #: The prompt.
response = _positions("response", "response")  #: What follows the prompt.
block = _positions("block", "block")  #: The block that is being decoded.
before_block = _positions("before(block)", "before")  #: What stands before that block.
from_block = _positions("from(block)", "rest")  #: That block and what follows it.
decoded = _positions("decoded", "decoded")  #: What is no mask: the prompt and what was committed.
next_positions = _positions("next", "next")  #: What comes next in a drawn order.


def single(n: int) -> Positions:
    """The one position n. n: from 0; negative: from the sequence's end, whose last is -1. TypeError
    for what is no whole number. Source: docs/Spec/Rows.md."""
    return _positions(f"single({_count(n, 'n')})", "one")


def undecoded(first: Optional[int] = None) -> Positions:
    """The masked positions, or the first of them. TypeError for what is no whole number. Source:
    docs/Spec/Rows.md."""
    return _positions("undecoded" if first is None else
                      f"undecoded(first = {_count(first, 'first')})", "masked")


def committed(*, last: Optional[int] = None, since: Optional[Cadence] = None) -> Positions:
    """What became a token in the last steps, or since a cadence's latest step. TypeError for both
    or neither, and for other kinds of arguments. Source: docs/Spec/Rows.md."""
    if (last is None) == (since is None):
        raise TypeError("committed: give either last= or since=")
    if last is not None:
        return _positions(f"committed(last = {_count(last, 'last')})", "new")
    return _positions("committed(since = {})", "recent",
                      _kind(since, Cadence, "since", "a cadence"))


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.$]*")


class Schedule:
    """Statements in the order in which they count, under a name. `+` joins two."""

    def __init__(self, statements, name: Optional[str] = None):
        self.statements = tuple(_kind(one, _Statement, "statements", "those of schedules, such as attend(...).statements")
                                for one in _kind(statements, (tuple, list), "statements", "a tuple or list"))
        self.name = "schedule" if name is None else _kind(name, str, "name", "a str")
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name: {self.name!r} is no name of a schedule; expected letters, "
                             "digits and underscores")

    def __add__(self, other):
        if not isinstance(other, Schedule):
            return NotImplemented
        if isinstance(other, Source) or isinstance(self, Source):
            raise TypeError("a schedule of MLIR text has no parts to join")
        return Schedule(self.statements + other.statements, self.name)

    def __str__(self):
        return mlir.text_of(self)

    def __repr__(self):
        return f"<heddle.Schedule @{self.name}\n{self}>"

    def _repr_html_(self):
        from .notebooks import explained
        return explained(self)

    def __eq__(self, other):
        return isinstance(other, Schedule) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


class Source(Schedule):
    """A schedule as MLIR text, the one in the text or the one that `name` chooses. ScheduleError for a text without one,
    or with several and no `name`."""

    def __init__(self, text: str, name: Optional[str] = None):
        _kind(text, str, "text", "MLIR text")
        if "heddle.schedule" not in text:
            raise ScheduleError("schedule: expected MLIR text, 'heddle.schedule @name { ... }', found "
                                f"{text!r:.60}; heddle.preset() makes schedules by their names", text)
        names = [plain or generic for plain, generic in re.findall(
            r'heddle\.schedule\s+@([A-Za-z0-9_.$]+)|"heddle\.schedule".*?\bsym_name = "([A-Za-z0-9_.$]+)"',
            re.sub("//.*", "", text))]
        if name is not None:
            _kind(name, str, "name", "a schedule's name")
        if len(names) > 1 and not name:
            raise ScheduleError(f"schedule: found {', '.join('@' + each for each in names)}; choose one by "
                                f"heddle.Source(text, {names[0]!r})", text)
        if name is None and names and not _NAME.fullmatch(names[0]):
            before = text[:text.index(names[0])]
            raise ScheduleError(f"<stdin>:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: error: {names[0]!r} "
                                "is no name of a schedule; expected letters, digits and underscores, no digit first", text)
        super().__init__((), name or (names[0] if names else None))
        self.text = text if text.endswith("\n") else text + "\n"

    def __str__(self):
        return self.text


def schedule(name: str, *parts: Schedule) -> Schedule:
    """The statements of `parts`, in their order, under a name, which bundles and reports show. TypeError for a part
    that is no schedule or of MLIR text. Source: docs/Spec/Schedules.md."""
    for part in parts:
        _kind(part, Schedule, "schedule", "statements such as attend(...)")
        if isinstance(part, Source):
            raise TypeError("a schedule of MLIR text has no parts to join")
    return Schedule(sum((part.statements for part in parts), ()), name)


@dataclass(frozen=True)
class _Statement:
    """`form` with a place for each of `values`."""
    form: str
    values: tuple = ()

    def write(self, out):
        return self.form.format(*(value._emit(out) for value in self.values))


def _on(cadences):
    """(text, values) of `on %a and %b`."""
    if cadences is None:
        return "", ()
    if isinstance(cadences, Cadence):
        cadences = (cadences,)
    if not isinstance(cadences, (tuple, list)):
        _kind(cadences, Cadence, "on", "a cadence or several")
    cadences = tuple(_kind(c, Cadence, "on", "a cadence or several") for c in cadences)
    return " on " + " and ".join("{}" for _ in cadences), cadences


def attend(pairs: Pairs = dense, *, refresh: Optional[Cadence] = None,
           until: Optional[Cadence] = None, earlier: Optional[list] = None, at_once: bool = False,
           layers: Union[int, tuple, list, None] = None, scores=None) -> Schedule:
    """The pairs that attention computes.

    refresh: the cadence of selections in `pairs` that name none of their own.
    until: dense attention before this cadence's first step. earlier: a list of (pairs,
    cadence), each what is attended to, then, before that cadence's first step. at_once: attend over
    what was just chosen. layers: (first, last), both included, -1 the last one; a
    layer, or a list of these.
    scores: what becomes of a logit: a function of logit, query, key and head
    (heddle.scores says what it may do), or MLIR text, "(%logit) {...}". TypeError for other kinds
    of arguments; ValueError for refresh or until that say nothing, and for a selection without a
    cadence; ScheduleError of the compiler for what the Spec numbers. Source: docs/Spec/Pairs.md, docs/Spec/Scores.md."""
    stages = []
    for stage in _kind([] if earlier is None else earlier, list, "earlier", "a list of (pairs, cadence)"):
        if not isinstance(stage, tuple) or len(stage) != 2:
            raise TypeError(f"earlier: expected (pairs, cadence), found {stage!r}")
        stages.append((_kind(stage[0], Pairs, "earlier", "a set of pairs"),
                       _kind(stage[1], Cadence, "earlier", "a cadence")))
    _kind(pairs, Pairs, "pairs", "a set of pairs, such as columns(...) | window(128)")
    sets = [stage[0] for stage in stages] + [pairs]
    open_ones = sum((each._unrefreshed() for each in sets), ())
    if refresh is not None:
        _kind(refresh, Cadence, "refresh", "a cadence")
        if not open_ones:
            raise ValueError("refresh: no selection in these pairs is left without a cadence")
        sets = [each._refreshed(refresh) for each in sets]
    elif open_ones:
        raise ValueError(f"{open_ones[0].form}: says no cadence on which it is refreshed; give "
                         "refresh= here or on= there")
    text, values = "attend", ()
    if sets == [dense]:
        text += " dense"
        if until is not None:
            raise ValueError("until: attention is dense anyway")
    else:
        if until is not None:
            _kind(until, Cadence, "until", "a cadence")
            text, values = text + " dense until({}) then", (until,)
        for each, (_, end) in zip(sets, stages):
            text, values = text + " pairs({}) until({}) then", values + (each, end)
        text, values = text + " pairs({})", values + (sets[-1],)
    if _kind(at_once, bool, "at_once", "True or False"):
        text += " at_once"
    text += _layers_text(layers)
    if scores is not None:
        if callable(scores):
            scores = score_functions.trace(scores)
        _kind(scores, str, "scores", "a function, or MLIR text: '(%logit) {...}'")
        text += " scores" + scores.strip().replace("{", "{{").replace("}", "}}")
    return Schedule((_Statement(text, values),))


def visible(positions: Positions, *, all_on: Optional[Cadence] = None) -> Schedule:
    """Only these `positions` exist as rows and keys; on the steps of the cadence `all_on` all do. TypeError for other
    kinds of arguments. Source: Window-Diffusion, section 4.2 (docs/Spec/Rows.md)."""
    _kind(positions, Positions, "positions", "a set of positions")
    if all_on is None:
        return Schedule((_Statement("visible {}", (positions,)),))
    _kind(all_on, Cadence, "all_on", "a cadence")
    return Schedule((_Statement("visible all on {} then {}", (all_on, positions)),))


@dataclass(frozen=True, repr=False)
class Outside:
    """Attention over the keys outside of a set, kept from one step to others: attention_outside()."""
    positions: Positions
    on: Cadence
    refresh: Optional[Positions] = None
    keep: Optional[str] = None

    def _parts(self):
        """The words, with {} where values are, and the values."""
        text, values = "attention(outside = {}, on = {}", (self.positions, self.on)
        if self.refresh is not None:
            text += ", refresh = " + (f"least_similar(keep = {self.keep}) in " if self.keep else "") + "{}"
            values += (self.refresh,)
        return text + ")", values

    def __repr__(self):
        text, values = self._parts()
        return f"<heddle.Outside {text.format(*(value._emit(mlir.Inline()) for value in values))}>"


def attention_outside(positions: Positions, on: Cadence, *, refresh: Optional[Positions] = None,
                      keep: Optional[Ratio] = None) -> Outside:
    """For reuse(): attention over the visible keys outside of `positions` as of the latest step of the cadence `on`. At
    other steps rows attend to the keys inside, and the two are merged by log-sum-exp; the rows in `refresh` attend to all
    keys and keep it anew, or of these the share `keep` (0 to 1) whose V has changed most. TypeError for other kinds of
    arguments, ValueError for what is no ratio, and for a share of no rows. Source: FlashBlock, LoSA (docs/Spec/Reuse.md)."""
    _kind(positions, Positions, "positions", "a set of positions")
    _kind(on, Cadence, "on", "a cadence")
    if refresh is not None:
        _kind(refresh, Positions, "refresh", "a set of positions")
    elif keep is not None:
        raise ValueError("keep: a share of the rows in refresh, and there are none; name them, as refresh=block")
    return Outside(positions, on, refresh, None if keep is None else ratio_text(keep, "keep"))


def reuse(*kept: Union[str, Outside], layers: Union[int, tuple, list, None] = None) -> Schedule:
    """What is kept of rows from one step to the next: any of "kv" (keys and values; "kv(before_rope)"), "context"
    (of attention; "context(propagating)": with the changes of recomputed values added), "output", attention_outside(...), "ffn".
    layers: that keep it, as attend() has them; the last reuse names none.
    ValueError for another word. Source: docs/Spec/Reuse.md."""
    parts, values = [], ()
    for part in kept:
        if isinstance(part, Outside):
            text, of = part._parts()
            parts.append(text)
            values += of
        else:
            parts.append(_one_of(part, "reuse", ("kv", "kv(before_rope)", "context", "context(propagating)", "output", "ffn")))
    return Schedule((_Statement("reuse " + ", ".join(parts) + _layers_text(layers), values),))


@dataclass(frozen=True, repr=False)
class Exact:
    """Which of a pass's rows a layer recomputes: salient(), salient_ffn(),
    least_similar()."""
    form: str
    values: tuple
    rows: Positions

    def __repr__(self):
        values = (value._emit(mlir.Inline()) for value in (*self.values, self.rows))
        return f"<heddle.Exact {(self.form + '{}').format(*values)}>"


def _rows(rows):
    _kind(rows, Positions, "rows", "a set of positions")
    return ("all", ()) if rows == all_positions else ("{}", (rows,))


def salient(rows: Positions, below: Ratio) -> Exact:
    """Of `rows` those whose attention context has a cosine of less than `below` (0 to 1) to the cached one.
    Source: DyLLM, algorithm 1. TypeError and ValueError for what are no positions or ratios."""
    _kind(rows, Positions, "rows", "a set of positions")
    return Exact(f"salient(below = {ratio_text(below, 'below')}) in ", (), rows)


def salient_ffn(rows: Positions, below: Ratio) -> Exact:
    """All of `rows`, but of the FFN only those that salient() takes, with a cosine of less than `below` (0 to 1).
    Source: DyLLM, table 1. TypeError and ValueError for what are no positions or ratios."""
    _kind(rows, Positions, "rows", "a set of positions")
    return Exact(f"salient_ffn(below = {ratio_text(below, 'below')}) in ", (), rows)


def least_similar(rows: Positions, keep: Ratio, among: Positions, confidence: Optional[Ratio] = None) -> Exact:
    """Of the rows in `among` the share `keep` (0 to 1) whose V has the lowest cosine to the cached one, and all of `rows`
    outside of it. confidence: the weight (up to 1) of how confident a row's last prediction was, beside the change. Source:
    dLLM-Cache, as released, and ES-dLLM (docs/Spec/Rows.md). TypeError and ValueError for what are no positions or ratios."""
    for name, each in (("rows", rows), ("among", among)):
        _kind(each, Positions, name, "a set of positions")
    weight = "" if confidence is None else f", confidence = {ratio_text(confidence, 'confidence')}"
    return Exact(f"least_similar(keep = {ratio_text(keep, 'keep')}, among = {{}}{weight}) in ",
                 (among,), rows)


def recompute(rows: Union[Positions, Exact], *, on=None, alone: bool = False, unseen: bool = False,
              layers: Union[int, tuple, list, None] = None) -> Schedule:
    """The rows that the layers of a step compute: in a layer the first of a schedule's recomputes counts whose
    cadences all have the step and whose layers have the layer. `on`: a cadence or several. `alone`: without the row before each
    position, by which a model of shifted logits predicts it. `unseen`: with those of the rows that are not visible(), which
    attend to the visible keys and are none. layers: as attend() has them.
    TypeError for other kinds of arguments. Source: docs/Spec/Rows.md."""
    text, values = "recompute ", ()
    if isinstance(rows, Exact):
        text, values, rows = text + rows.form, rows.values, rows.rows
    words, operands = _rows(rows)
    when, cadences = _on(on)
    if _kind(alone, bool, "alone", "True or False"):
        words += " alone"
    if _kind(unseen, bool, "unseen", "True or False"):
        words += " unseen"
    return Schedule((_Statement(text + words + when + _layers_text(layers),
                                values + operands + cadences),))


def commit(kind: str = "quota", value: Union[Ratio, int, None] = None, *,
           last_alone: bool = False, strictly: bool = False, within: Optional[Positions] = None, on=None,
           at_most: Optional[Ratio] = None, least: Optional[int] = None, most: Optional[int] = None,
           revoke: Optional[Ratio] = None, revoke_by: Optional[str] = None, fewer_than: Optional[str] = None,
           edit: Optional[Ratio] = None, further: Optional[int] = None, renoise: bool = False,
           passes: Optional[int] = None, verify: Optional[int] = None, stop: Optional[str] = None) -> Schedule:
    """Which predictions become tokens.

    kind: "quota", "above" (value: a confidence, 0 to 1), "factor" (value: a ratio), "best" (value: how many),
    "timesteps", "even", "even_above" (a confidence), "entropy" (a sum in nats) or "random_order". last_alone: with
    "factor", the last candidate is taken where it alone fails. strictly: with "above" and "even_above", confidences
    exceed the value. within: positions that may be committed. on: a cadence or several, whose steps alone it is for.
    at_most: of the candidates of a step at most this share, but `least` if that is less, and `most` if it is more.
    revoke: tokens of the block whose probability falls below it become masks again, fewer at a step than it commits.
    revoke_by: "shadow", by the probability in a second view of the block, of masks, or "row". fewer_than:
    "step_before", fewer than the block's step before committed, or "step". edit: tokens of the block in whose place
    the model now predicts another one, with this probability and more, become that one. further: with edit, at most
    so many more passes of a block whose masks are gone, while each changes something. renoise: masks of the block are
    read as noise, drawn anew at each step. passes: the fewest steps of a block. verify: so many steps at most are
    drafted ahead and verified in one forward pass, for the same tokens. stop: "eos" or "eos, narrowing". TypeError
    for a value, last_alone or strictly that the kind has not and for what comes without at_most, revoke or edit,
    ValueError for another word. Source: docs/Spec/Commit.md."""
    _one_of(kind, "commit", "quota above factor best timesteps even even_above entropy random_order".split())
    text = f"commit {kind}"
    if (value is not None) != (kind in ("above", "factor", "best", "even_above", "entropy")):
        raise TypeError(f"commit: {kind!r} takes {'no' if value is not None else 'a'} value")
    if _kind(last_alone, bool, "last_alone", "True or False") and kind != "factor":
        raise TypeError(f"commit: {kind!r} takes no last_alone; 'factor' does")
    if _kind(strictly, bool, "strictly", "True or False") and kind not in ("above", "even_above"):
        raise TypeError(f"commit: {kind!r} takes no strictly; 'above' and 'even_above' do")
    if value is not None:
        number = f"{_count(value, 'best')}" if kind == "best" else ratio_text(value, kind)
        text += f"({number}{', last_alone' if last_alone else ''}{', strictly' if strictly else ''})"
    values = ()
    if within is not None:
        text += " within({})"
        values += (_kind(within, Positions, "within", "a set of positions"),)
    when, cadences = _on(on)
    text += when
    if at_most is not None:
        text += f" at_most(share = {ratio_text(at_most, 'at_most')}"
        text += "".join(f", {name} = {_count(each, name)}" for name, each in (("least", least), ("most", most))
                        if each is not None) + ")"
    elif least is not None or most is not None:
        raise TypeError("commit: least and most bound a share; give at_most, too")
    if revoke is not None:
        text += f" revoke(below = {ratio_text(revoke, 'revoke')}"
        if revoke_by is not None:
            text += f", by = {_one_of(revoke_by, 'revoke_by', ('row', 'shadow'))}"
        if fewer_than is not None:
            text += f", fewer_than = {_one_of(fewer_than, 'fewer_than', ('step', 'step_before'))}"
        text += ")"
    elif revoke_by is not None or fewer_than is not None:
        raise TypeError("commit: revoke_by and fewer_than say how tokens are revoked; give revoke, too")
    if edit is not None:
        more = f", further = {_count(further, 'further')}" if further is not None else ""
        text += f" edit(above = {ratio_text(edit, 'edit')}{more})"
    elif further is not None:
        raise TypeError("commit: further passes only edit; give edit, too")
    if _kind(renoise, bool, "renoise", "True or False"):
        text += " renoise"
    if passes is not None:
        text += f" passes(at_least = {_count(passes, 'passes')})"
    if verify is not None:
        text += f" verify(drafts = {_count(verify, 'verify')})"
    if stop is not None:
        text += f" stop({_one_of(stop, 'stop', ('eos', 'eos, narrowing'))})"
    return Schedule((_Statement(text, values + cadences),))
