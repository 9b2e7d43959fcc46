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
import functools
import inspect
import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Callable, Optional, TypeVar, Union

from . import mlir
from . import scores as score_functions
from .errors import ScheduleError, error_at

Ratio = Union[float, int, Fraction, str]
Layers = Union[int, tuple, list, None]  # a layer, (first, last), or a list of these
Selection = "Pairs"  # of columns() or blocks() alone
_Function = TypeVar("_Function", bound=Callable)


def _outside(function: _Function) -> _Function:
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


def _layers_text(layers, what="layers"):
    """" in layers(0 to 3, 8)" of (0, 3), of 8 or of a list of these; "" of None."""
    if layers is None:
        return ""
    ranges = []
    for each in layers if isinstance(layers, list) else [layers]:
        if isinstance(each, tuple) and len(each) == 2:
            ranges.append(" to ".join(str(_count(layer, what)) for layer in each))
        elif isinstance(each, Integral) and not isinstance(each, bool):
            ranges.append(str(each))
        else:
            raise TypeError(f"{what}: expected (first, last), a layer or a list of these, found {layers!r}")
    if not ranges:
        raise ValueError(f"{what}: the list names no layer")
    return f" in layers({', '.join(ranges)})"


#: What becomes of an argument, by its annotation: an int, its spelling in MLIR, or itself; else a TypeError or ValueError.
_TAKEN = {
    "int": _count, "Ratio": ratio_text, "Union[int, Ratio]": number_text, "Layers": _layers_text,
    "bool": lambda value, what: _kind(value, bool, what, "True or False"),
    "Cadence": lambda value, what: _kind(value, Cadence, what, "a cadence"),
    "Pairs": lambda value, what: _kind(value, Pairs, what, "a set of pairs, such as columns(...) | window(128)"),
    "Selection": lambda value, what: _kind(value, _Selection, what, "columns() or blocks()"),
    "Positions": lambda value, what: _kind(value, Positions, what, "a set of positions")}


def _checked(function: _Function) -> _Function:
    """Has the function called with its arguments as _TAKEN has them; None stays where the annotation is Optional."""
    signature, taken = inspect.signature(function), []
    for name, parameter in signature.parameters.items():
        optional = re.fullmatch(r"Optional\[(.*)\]", str(parameter.annotation))
        kind = optional[1] if optional else parameter.annotation
        if kind in _TAKEN and parameter.kind != parameter.VAR_KEYWORD:
            taken.append((name, _TAKEN[kind], optional))

    @functools.wraps(function)
    def checked(*arguments, **named):
        try:
            given = signature.bind(*arguments, **named)
        except TypeError:  # Python says it, with the function's name
            return function(*arguments, **named)
        given.apply_defaults()
        for name, take, optional in taken:
            if not optional or given.arguments[name] is not None:
                given.arguments[name] = take(given.arguments[name], name)
        return function(*given.args, **given.kwargs)
    return _outside(checked)


def _form(word, *said, **named):
    """"every(8, from = 2)": a word of the Spec and what it is stated with (`from_`: from), without what is None or
    False; of True the name stands alone."""
    said = [str(each) for each in said if each is not None]
    said += [name.rstrip("_") + ("" if value is True else f" = {value}") for name, value in named.items()
             if value is not None and value is not False]
    return f"{word}({', '.join(said)})" if said else word


class _Said:
    """What has words in MLIR: `_said(out)` gives them, and writes the values among them."""

    def __repr__(self):
        """What str() of a schedule says of it, in one line."""
        text = mlir.Inline.short(self._said(mlir.Inline()))
        return f"<heddle.{getattr(self, '_family', type(self)).__name__} {text}>"


@dataclass(frozen=True, repr=False)
class _Words(_Said):
    """`form` with a place for each of `values`."""
    form: str
    values: tuple = ()

    def _said(self, out):
        return self.form.format(*(value._emit(out) for value in self.values))


class _Value(_Said):
    """What a schedule's statements are made of. `_emit(out)` writes the operation
    and returns its operand."""

    def _emit(self, out):
        return out.value(self, self._name, self._said(out))

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

    def _said(self, out):
        return (f"cadence {self.text}" + (" in block" if self.per_block else "") +
                (" or after eos" if self.eos else ""))


never = Cadence("never")  #: No step.


@_checked
def every(n: int, start: Optional[int] = None) -> Cadence:
    """Steps 1, 1 + n, 1 + 2n...; with `start` s, s + n... TypeError for what is no whole number;
    what the Spec numbers is the compiler's ScheduleError. Source: docs/Spec/Cadence.md."""
    return Cadence(_form("every", n, from_=start))


@_checked
def first(n: int) -> Cadence:
    """Steps 1 to n. TypeError for what is no whole number; what the Spec numbers is the compiler's
    ScheduleError. Source: docs/Spec/Cadence.md."""
    return Cadence(_form("first", n))


@_checked
def geometric(n: int) -> Cadence:
    """Steps 1, n, n^2...: ever fewer, in runs of any length. n: from 2. TypeError for what is no
    whole number; what the Spec numbers is the compiler's ScheduleError. Source:
    docs/Spec/Cadence.md."""
    return Cadence(_form("geometric", n))


@_checked
def drift(below: Ratio, within: int, layer: int = -1, attention: bool = False) -> Cadence:
    """Step 1; each step after one whose values in `layer` (-1: the last) have a mean cosine below `below` to
    what they were after the latest of these steps; the `within`-th after that one at the latest; and the
    steps of the schedule's others of layers before. attention: the weights of the layer's attention in place
    of its values. A run decides which: not for attention without a model.
    TypeError for what is no ratio, whole number or truth value; what the Spec numbers is the compiler's
    ScheduleError. Source: docs/Spec/Cadence.md."""
    return Cadence(_form("drift", attention=attention, below=below, within=within, layer=None if layer == -1 else layer))


@_checked
def at(share: Ratio, plus: Optional[int] = None) -> Cadence:
    """The one step max(1, floor(share T)), or floor(share T) + plus, of T steps. TypeError for what
    is no ratio or whole number; what the Spec numbers is the compiler's ScheduleError. Source:
    docs/Spec/Cadence.md."""
    return Cadence(_form("at", share, plus=plus))


@_checked
def at_step(step: int) -> Cadence:
    """The one step `step`, from 1. TypeError for what is no whole number; what the Spec numbers is
    the compiler's ScheduleError. Source: docs/Spec/Cadence.md."""
    return Cadence(_form("at", step=step))


@_checked
def uniform(window: Ratio, count: int) -> Cadence:
    """`count` steps spread evenly over the first share `window` of the run. Source:
    PulseCol, equation 8. TypeError for other kinds of arguments, ScheduleError of the compiler for
    numbers out of range."""
    return Cadence(_form("uniform", window=window, count=count))


@_checked
def random(window: Ratio, count: int, seed: int) -> Cadence:
    """`count` steps drawn by `seed` from the first share `window` of the run, the same on every
    machine. Source: PulseCol, appendix D, table 6. TypeError for other kinds of arguments, ScheduleError of
    the compiler for numbers out of range."""
    return Cadence(_form("random", window=window, count=count, seed=seed))


@_checked
def power(window: Ratio, count: int) -> Cadence:
    """`count` steps, densest at the beginning of the first share `window`. Source:
    PulseCol, appendix D, table 6. TypeError for other kinds of arguments, ScheduleError of the compiler for
    numbers out of range."""
    return Cadence(_form("power", window=window, count=count))


_OPERATORS = {"|": "union", "&": "intersect"}


@dataclass(frozen=True, repr=False)
class _Set(_Words, _Value):
    """What pairs and positions share: unions and intersections, which say their `operator`."""
    _name: str = field(default="", compare=False)
    operator: str = ""

    @_outside
    def __or__(self, other):
        return self._with("|", other)

    @_outside
    def __and__(self, other):
        return self._with("&", other)

    def _with(self, operator, other):
        if not isinstance(other, self._family):
            return NotImplemented
        return self._family._of(operator, self._parts_of(operator) + other._parts_of(operator))

    @classmethod
    def _of(cls, operator, parts, name=None):
        """The union or intersection of the parts."""
        return cls(f"{_OPERATORS[operator]} " + ", ".join(["{}"] * len(parts)), parts, name or cls._names[operator], operator)

    def _parts_of(self, operator):
        return self.values if operator == self.operator else (self,)


class Pairs(_Set):
    """A set of (query, key) pairs (docs/Spec/Pairs.md), made by window(), columns() and
    their like; `|` unites, `&` intersects."""
    _names = {"|": "pairs", "&": "pairs"}

    def _repr_html_(self):
        """The page of attention over them, selections made at each step."""
        from .notebooks import explained
        return explained(attend(self, refresh=every(1)) if self._unrefreshed() else attend(self))

    def _refreshed(self, cadence):
        """The same with `cadence` for the selections that name none."""
        return dataclasses.replace(self, values=tuple(
            value._refreshed(cadence) if isinstance(value, Pairs) else value for value in self.values))

    def _selections(self):
        """The selections in it."""
        return sum((value._selections() for value in self.values if isinstance(value, Pairs)), ())

    def _unrefreshed(self):
        """The selections that name no cadence."""
        return tuple(each for each in self._selections() if each.on is None)


Pairs._family = Pairs


@dataclass(frozen=True, repr=False)
class _Selection(Pairs):
    """Pairs that a scorer selects, and when: the form has {on} where the cadence stands. Its values are sets of
    positions, and what it chooses within."""
    on: Optional[Cadence] = None

    def _refreshed(self, cadence):
        return dataclasses.replace(super()._refreshed(cadence), on=cadence if self.on is None else self.on)

    def _selections(self):
        return super()._selections() + (self,)

    def _said(self, out):
        cadence = f" on {self.on._emit(out)}" if self.on is not None else ""
        return self.form.format(*(value._emit(out) for value in self.values), on=cadence)


dense = Pairs("dense", (), "all")  #: All pairs.
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
    return Pairs(_form(word, *said), (), {"window": "near"}.get(word, word))


@_checked
def window(size: int, **named: int) -> Pairs:
    """Keys near the query: those with |i - j| <= size / 2 tokens, rounded down. `named`: what else
    the Spec states a window with. TypeError for what are no whole numbers; the compiler's
    ScheduleError for a name that the Spec has not. Source: docs/Spec/Pairs.md."""
    return pairs("window", size, **named)


@_outside
def sinks(size: Union[int, Ratio]) -> Pairs:
    """The first keys: a `size` that is an int is their number, any other ratio their share of the
    sequence, rounded down, at least one. Source: StreamingLLM, as SparseD and PulseCol have it in section 4.1. TypeError for other kinds,
    ValueError for a text that is no ratio."""
    _kind(size, (Real, str), "size", "a number of keys or a fraction")
    return pairs("sinks", size)


def _selection(said, details, by, on, layers, name, sets=()):
    _one_of(by, "by", SCORERS)
    return _Selection(f"select {said} by {by}{details}{{on}}{layers}", sets, name, on=on)


@_checked
def columns(keep: Union[int, Ratio], group: Union[int, str] = 32, *, on: Optional[Cadence] = None,
            rounding: Optional[str] = None, per_kv_head: bool = False, per_layer: bool = False,
            pooled: Optional[int] = None, of: Optional[Positions] = None, always: Optional[Positions] = None,
            within: Optional[Selection] = None, by: str = "mean_probability",
            layers: Layers = None) -> Pairs:
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
    group = group if isinstance(group, str) and group == "all" else _count(group, "group")
    sets = {word: each for word, each in (("of", of), ("always", always), ("within", within)) if each is not None}
    return _selection(
        _form("columns", keep=keep, group=group, rounding=rounding, per_kv_head=per_kv_head, per_layer=per_layer),
        ("" if pooled is None else f" pooled({pooled})") + "".join(f" {word} {{}}" for word in sets),
        by, on, layers, "cols", tuple(sets.values()))


@_checked
def blocks(keep: Union[int, Ratio], size: int = 128, *, on: Optional[Cadence] = None,
           isolating: Optional[str] = None, scaled_by_heads: bool = False,
           rounding: Optional[str] = None, by: str = "mean_probability",
           layers: Layers = None) -> Pairs:
    """For each block of `size` query rows the share `keep` of blocks of as many keys, or, if that is an int, so many, by
    their mean probability, refreshed on the cadence `on` as columns() are.

    size: a power of two from 16 to 128. isolating: how prompt and response are told apart,
    "spans", "aligned" or "filtered" (docs/Spec/Pairs.md). scaled_by_heads: scores as SparseD's
    released code has them. rounding: of keep times the blocks, None for down. by: "mean_logit" scores by means of queries and keys. layers: as for columns(). ValueError for another word; what the
    Spec numbers is the compiler's ScheduleError. Source: SparseD, equations 5 and 6."""
    _one_of(rounding, "rounding", ROUNDINGS)
    _one_of(isolating, "isolating", (None, "spans", "aligned", "filtered"))
    details = (f" isolating({isolating})" if isolating else "") + \
        (" scaled_by(heads)" if scaled_by_heads else "")
    return _selection(_form("blocks", keep=keep, size=size, rounding=rounding), details, by, on, layers, "tiles")


class Positions(_Set):
    """A set of positions of a sequence, from 0, as it is before a step (docs/Spec/Rows.md): prompt,
    undecoded() and their like; `|` unites, `&` intersects, `-` takes away."""

    _names = {"|": "positions", "&": "both"}

    def __sub__(self, other):
        return Positions("except {}, {}", (self, other), "rest") if isinstance(other, Positions) else NotImplemented

    @_checked
    def fixed(self, on: Cadence) -> Positions:
        """The set as it was before the latest step of the cadence `on`. TypeError for other kinds
        of arguments."""
        return Positions("fix {} on {}", (self, on), "fixed")

    def hull(self) -> Positions:
        """Every position from the first to the last."""
        return Positions("hull {}", (self,), "hull")

    @_checked
    def last(self, count: int = 1) -> Positions:
        """The last `count` positions of the set. TypeError for what is no whole number."""
        return Positions(f"last({count}) of {{}}", (self,), "end")

    @_checked
    def confident(self, count: int, near: Optional[int] = None) -> Positions:
        """Of the masked positions of the set the `count` whose last prediction had the highest
        confidence; those without one come last. near: the standard deviation, in positions, of
        the weights by which decoded positions lift a confidence near them. TypeError for what
        is no whole number. Source: docs/Spec/Rows.md."""
        return Positions(_form("confident", count, near=near) + " of {}", (self,), "sure")

    @_checked
    def attended(self, share: Ratio) -> Positions:
        """Of the positions of the set those that drew most attention in the step before, as many as
        together drew less than `share` of what all of them did, at least one; none before the
        first step. ValueError or TypeError for what is no ratio; its bounds are the compiler's.
        Source: docs/Spec/Rows.md."""
        return Positions(_form("attended", share=share) + " of {}", (self,), "drawing")

    def leading(self) -> Positions:
        """As many first positions of the sequence as the set has."""
        return Positions("leading {}", (self,), "front")

    def predicting(self) -> Positions:
        """The rows that predict these positions."""
        return Positions("predicting {}", (self,), "predicting")

    @_checked
    def neighbors(self, count: int, among: Positions) -> Positions:
        """For each position `count` positions of `among` next to it. TypeError for other kinds of
        arguments."""
        return Positions(f"neighbors({count}) of {{}} in {{}}", (self, among), "near")

    @_checked
    def nearest(self, count: int, among: Positions) -> Positions:
        """For each position in turn the `count` nearest of `among` that are neither of the set
        nor taken before. TypeError for other kinds of arguments."""
        return Positions(f"nearest({count}) of {{}} in {{}}", (self, among), "near")


Positions._family = Positions


def _positions(words, name, *values):
    return Positions("positions " + words, values, name)


all_positions = _positions("all", "all")  #: Every position.
prompt = _positions("prompt", "prompt")  #: The prompt.
response = _positions("response", "response")  #: What follows the prompt.
block = _positions("block", "block")  #: The block that is being decoded.
before_block = _positions("before(block)", "before")  #: What stands before that block.
from_block = _positions("from(block)", "rest")  #: That block and what follows it.
decoded = _positions("decoded", "decoded")  #: What is no mask: the prompt and what was committed.
next_positions = _positions("next", "next")  #: What comes next in a drawn order.


@_checked
def single(n: int) -> Positions:
    """The one position n. n: from 0; negative: from the sequence's end, whose last is -1. TypeError
    for what is no whole number. Source: docs/Spec/Rows.md."""
    return _positions(_form("single", n), "one")


@_checked
def undecoded(first: Optional[int] = None) -> Positions:
    """The masked positions, or the first of them. TypeError for what is no whole number. Source:
    docs/Spec/Rows.md."""
    return _positions(_form("undecoded", first=first), "masked")


@_checked
def committed(*, last: Optional[int] = None, since: Optional[Cadence] = None) -> Positions:
    """What became a token in the last steps, or since a cadence's latest step. TypeError for both
    or neither, and for other kinds of arguments. Source: docs/Spec/Rows.md."""
    if (last is None) == (since is None):
        raise TypeError("committed: give either last= or since=")
    return _positions("committed(since = {})", "recent", since) if last is None else \
        _positions(_form("committed", last=last), "new")


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
            raise error_at(text, text.index(names[0]), f"{names[0]!r} is no name of a schedule; expected letters, digits and "
                           "underscores, no digit first")
        super().__init__((), name or (names[0] if names else None))
        self.text = text if text.endswith("\n") else text + "\n"

    def __str__(self):
        return self.text


def schedule(name: str, *parts: Schedule) -> Schedule:
    """The statements of `parts`, in their order, under a name, which bundles and reports show. TypeError for a part
    that is no schedule or of MLIR text. Source: docs/Spec/Schedules.md."""
    parts = (_kind(part, Schedule, "schedule", "statements such as attend(...)") for part in parts)
    return sum(parts, Schedule((), name))


class _Statement(_Words):
    """An attend, a recompute and their like."""


def _statement(form, values=()):
    return Schedule((_Statement(form, values),))


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


@_checked
def attend(pairs: Pairs = dense, *, refresh: Optional[Cadence] = None,
           until: Optional[Cadence] = None, earlier: Optional[list] = None, at_once: bool = False,
           layers: Layers = None, scores=None) -> Schedule:
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
    sets = [stage[0] for stage in stages] + [pairs]
    open_ones = sum((each._unrefreshed() for each in sets), ())
    if refresh is not None:
        if not open_ones:
            raise ValueError("refresh: no selection in these pairs is left without a cadence")
        sets = [each._refreshed(refresh) for each in sets]
    elif open_ones:
        raise ValueError(f"{open_ones[0].form[len('select '):].split(' by ')[0]}: says no cadence on which it is refreshed; "
                         "give refresh= here or on= there")
    text, values = "attend", ()
    if sets == [dense]:
        text += " dense"
        if until is not None:
            raise ValueError("until: attention is dense anyway")
    else:
        if until is not None:
            text, values = text + " dense until({}) then", (until,)
        for each, (_, end) in zip(sets, stages):
            text, values = text + " pairs({}) until({}) then", values + (each, end)
        text, values = text + " pairs({})", values + (sets[-1],)
    text += (" at_once" if at_once else "") + layers
    if scores is not None:
        if callable(scores):
            scores = score_functions.trace(scores)
        _kind(scores, str, "scores", "a function, or MLIR text: '(%logit) {...}'")
        text += " scores" + scores.strip().replace("{", "{{").replace("}", "}}")
    return _statement(text, values)


@_checked
def visible(positions: Positions, *, all_on: Optional[Cadence] = None) -> Schedule:
    """Only these `positions` exist as rows and keys; on the steps of the cadence `all_on` all do. TypeError for other
    kinds of arguments. Source: Window-Diffusion, section 4.2 (docs/Spec/Rows.md)."""
    return _statement("visible {}", (positions,)) if all_on is None else \
        _statement("visible all on {} then {}", (all_on, positions))


class Outside(_Words):
    """Attention over the keys outside of a set, kept from one step to others: attention_outside()."""


@_checked
def attention_outside(positions: Positions, on: Cadence, *, refresh: Optional[Positions] = None,
                      keep: Optional[Ratio] = None) -> Outside:
    """For reuse(): attention over the visible keys outside of `positions` as of the latest step of the cadence `on`. At
    other steps rows attend to the keys inside, and the two are merged by log-sum-exp; the rows in `refresh` attend to all
    keys and keep it anew, or of these the share `keep` (0 to 1) whose V has changed most. TypeError for other kinds of
    arguments, ValueError for what is no ratio, and for a share of no rows. Source: FlashBlock, LoSA (docs/Spec/Reuse.md)."""
    if refresh is None and keep is not None:
        raise ValueError("keep: a share of the rows in refresh, and there are none; name them, as refresh=block")
    part = "{}" if keep is None else f"least_similar(keep = {keep}) in {{}}"
    return Outside(_form("attention", outside="{}", on="{}", refresh=None if refresh is None else part),
                   (positions, on) + (() if refresh is None else (refresh,)))


@_checked
def reuse(*kept: Union[str, Outside], layers: Layers = None) -> Schedule:
    """What is kept of rows from one step to the next: any of "kv" (keys and values; "kv(before_rope)"), "context"
    (of attention; "context(propagating)": with the changes of recomputed values added), "output", attention_outside(...), "ffn".
    layers: that keep it, as attend() has them; the last reuse names none.
    ValueError for another word. Source: docs/Spec/Reuse.md."""
    parts, values = [], ()
    for part in kept:
        if isinstance(part, Outside):
            parts.append(part.form)
            values += part.values
        else:
            parts.append(_one_of(part, "reuse", ("kv", "kv(before_rope)", "context", "context(propagating)", "output", "ffn")))
    return _statement("reuse " + ", ".join(parts) + layers, values)


class Exact(_Words):
    """Which of a pass's rows a layer recomputes: salient(), salient_ffn(),
    least_similar()."""


def _exact(which, rows, values=()):
    return Exact(which + ("all" if rows == all_positions else "{}"), values + (() if rows == all_positions else (rows,)))


@_checked
def salient(rows: Positions, below: Ratio) -> Exact:
    """Of `rows` those whose attention context has a cosine of less than `below` (0 to 1) to the cached one.
    Source: DyLLM, algorithm 1. TypeError and ValueError for what are no positions or ratios."""
    return _exact(f"salient(below = {below}) in ", rows)


@_checked
def salient_ffn(rows: Positions, below: Ratio) -> Exact:
    """All of `rows`, but of the FFN only those that salient() takes, with a cosine of less than `below` (0 to 1).
    Source: DyLLM, table 1. TypeError and ValueError for what are no positions or ratios."""
    return _exact(f"salient_ffn(below = {below}) in ", rows)


@_checked
def least_similar(rows: Positions, keep: Ratio, among: Positions, confidence: Optional[Ratio] = None) -> Exact:
    """Of the rows in `among` the share `keep` (0 to 1) whose V has the lowest cosine to the cached one, and all of `rows`
    outside of it. confidence: the weight (up to 1) of how confident a row's last prediction was, beside the change. Source:
    dLLM-Cache, as released, and ES-dLLM (docs/Spec/Rows.md). TypeError and ValueError for what are no positions or ratios."""
    return _exact(_form("least_similar", keep=keep, among="{}", confidence=confidence) + " in ", rows, (among,))


@_checked
def recompute(rows: Union[Positions, Exact], *, on=None, alone: bool = False, unseen: bool = False,
              layers: Layers = None) -> Schedule:
    """The rows that the layers of a step compute: in a layer the first of a schedule's recomputes counts whose
    cadences all have the step and whose layers have the layer. `on`: a cadence or several. `alone`: without the row before each
    position, by which a model of shifted logits predicts it. `unseen`: with those of the rows that are not visible(), which
    attend to the visible keys and are none. layers: as attend() has them.
    TypeError for other kinds of arguments. Source: docs/Spec/Rows.md."""
    if not isinstance(rows, Exact):
        rows = _exact("", _kind(rows, Positions, "rows", "a set of positions"))
    when, cadences = _on(on)
    words = (" alone" if alone else "") + (" unseen" if unseen else "")
    return _statement(f"recompute {rows.form}{words}{when}{layers}", rows.values + cadences)


@_checked
def commit(kind: str = "quota", value: Union[Ratio, int, None] = None, *,
           last_alone: bool = False, strictly: bool = False, within: Optional[Positions] = None, on=None,
           near: Optional[int] = None, at_most: Optional[Ratio] = None, least: Optional[int] = None, most: Optional[int] = None,
           revoke: Optional[Ratio] = None, revoke_by: Optional[str] = None, fewer_than: Optional[str] = None,
           edit: Optional[Ratio] = None, further: Optional[int] = None, renoise: bool = False,
           passes: Optional[int] = None, verify: Optional[int] = None, stop: Optional[str] = None) -> Schedule:
    """Which predictions become tokens.

    kind: "quota", "above" (value: a confidence, 0 to 1), "factor" (value: a ratio), "best" (value: how many),
    "timesteps", "even", "even_above" (a confidence), "entropy" (a sum in nats) or "random_order". last_alone: with
    "factor", the last candidate is taken where it alone fails. strictly: with "above" and "even_above", confidences
    exceed the value. within: positions that may be committed. on: a cadence or several, whose steps alone it is for.
    near: confidences count times the share of what stands near that is decoded, by a Gaussian of this standard
    deviation, in positions. at_most: of the candidates of a step at most this share, but `least` if that is less, and `most` if it is more.
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
    if (value is not None) != (kind in ("above", "factor", "best", "even_above", "entropy")):
        raise TypeError(f"commit: {kind!r} takes {'no' if value is not None else 'a'} value")
    if last_alone and kind != "factor":
        raise TypeError(f"commit: {kind!r} takes no last_alone; 'factor' does")
    if strictly and kind not in ("above", "even_above"):
        raise TypeError(f"commit: {kind!r} takes no strictly; 'above' and 'even_above' do")
    for name, each, words in (("revoke_by", revoke_by, ("row", "shadow")), ("fewer_than", fewer_than, ("step", "step_before")),
                              ("stop", stop, ("eos", "eos, narrowing"))):
        if each is not None:
            _one_of(each, name, words)
    number = None if value is None else _count(value, "best") if kind == "best" else ratio_text(value, kind)
    when, cadences = _on(on)
    text = "commit " + _form(kind, number, last_alone=last_alone, strictly=strictly) + \
        ("" if within is None else " within({})") + when + ("" if near is None else f" near({_count(near, 'near')})")
    for word, stated, why in (
            ("at_most", {"share": at_most, "least": least, "most": most}, "least and most bound a share"),
            ("revoke", {"below": revoke, "by": revoke_by, "fewer_than": fewer_than},
             "revoke_by and fewer_than say how tokens are revoked"),
            ("edit", {"above": edit, "further": further}, "further passes only edit")):
        share, *others = stated.values()
        if share is not None:
            text += " " + _form(word, **stated)
        elif any(each is not None for each in others):
            raise TypeError(f"commit: {why}; give {word}, too")
    text += " renoise" if renoise else ""
    for clause, said in (("passes(at_least = {})", passes), ("verify(drafts = {})", verify), ("stop({})", stop)):
        text += "" if said is None else " " + clause.format(said)
    return _statement(text, (() if within is None else (within,)) + cadences)
