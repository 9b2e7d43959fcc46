# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sparse schedules as masks on n x n attention.

Grammar of the command line: `dense`, or terms joined by "+":
  columns:keep=1/5,group=32,window=3/10,count=16[,rule=floor]
  columns:keep=1/5,group=32,steps=1;5;9     (refresh at these steps)
  window:size=64      |i - j| <= 64 / 2
  sinks:size=4        j < 4
  sinks:share=1/10    j < max(1, floor(n / 10))
Different layers: alternatives joined by "|", all but one with "@first..last"
(inclusive, from 0; negative counts from the last layer, -1):
  window:size=64|dense@0..1|sinks:size=4@-1..-1
Steps are 1-based. A refresh step attends densely and refreshes the columns from
its own probabilities; before any refresh, columns are dense as well.
"""

from fractions import Fraction

import torch

from .model import probabilities


def keep_count(keep, n, rule="floor"):
    """How many of n keys the exact fraction `keep` leaves: 1 to n."""
    whole, rest = divmod(keep.numerator * n, keep.denominator)
    up = {"floor": 0, "ceil": rest > 0,
          "round": 2 * rest >= keep.denominator}[rule]
    return max(1, min(n, whole + int(up)))


def uniform_steps(window, count, total):
    """PulseCol's refresh steps among 1..total (its equation 8), `window` an
    exact fraction of total, at least one step."""
    length = max(1, window.numerator * total // window.denominator)
    if count == 1:
        return [1]
    return sorted({1 + r * (length - 1) // (count - 1) for r in range(count)})


def largest(scores, count):
    """The `count` indices of largest score, ties to the lowest index,
    ascending."""
    order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))
    return sorted(order[:count])


def select_columns(p, group, count):
    """allowed [heads, n, n]: for each head and each `group` consecutive
    queries, the `count` keys of largest mean probability in p [heads, n, n]
    (PulseCol, equations 5 and 6; the last group may be smaller)."""
    heads, n, _ = p.shape
    allowed = torch.zeros(heads, n, n, dtype=torch.bool)
    for first in range(0, n, group):
        mean = p[:, first:first + group].double().mean(1).tolist()
        for head in range(heads):
            allowed[head, first:first + group, largest(mean[head], count)] = True
    return allowed


def parse_terms(text, total_steps):
    """[(kind, values)] of one alternative; none means dense."""
    terms = []
    for term in [] if text == "dense" else text.split("+"):
        kind, _, rest = term.partition(":")
        values = dict(item.split("=") for item in rest.split(",") if item)
        if kind == "columns":
            if "steps" in values:
                steps = [int(s) for s in values.pop("steps").split(";")]
            else:
                steps = uniform_steps(Fraction(values.pop("window")),
                                      int(values.pop("count")), total_steps)
            known = {"keep": Fraction(values.pop("keep")),
                     "group": int(values.pop("group")),
                     "rule": values.pop("rule", "floor"), "steps": set(steps)}
        elif kind == "sinks" and "share" in values:
            known = {"share": Fraction(values.pop("share"))}
        elif kind in ("window", "sinks"):
            known = {"size": int(values.pop("size"))}
        else:
            raise ValueError(f"'{kind}' in schedule '{text}': expected dense, "
                             "columns, window or sinks")
        if values:
            raise ValueError(f"'{term}': unknown {', '.join(values)}")
        terms.append((kind, known))
    return terms


class Schedule:
    """One run's attention; keeps the columns of every layer and sequence."""

    def __init__(self, text, total_steps, layers):
        self.columns, self.by_layer, default = {}, {}, None
        for rule in text.split("|"):
            words, _, where = rule.partition("@")
            terms = parse_terms(words, total_steps)
            if where:
                first, last = (int(i) % layers for i in where.split(".."))
                self.by_layer.update(dict.fromkeys(range(first, last + 1), terms))
            else:
                default = terms
        for layer in range(layers):
            if self.by_layer.setdefault(layer, default) is None:
                raise ValueError(f"schedule '{text}' says nothing of layer {layer}")

    def begin_step(self, step, sequence):
        """Names the step (1-based) and the sequence of the next forward pass,
        and counts anew: pairs attended, lists of columns refreshed."""
        self.step, self.sequence = step, sequence
        self.pairs = self.refreshes = 0

    def mask(self, layer, q, k):
        """Allowed pairs [heads, n, n] or [n, n]; None when all are."""
        n = q.shape[1]
        i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
        terms = self.by_layer[layer]
        dense, allowed, p = not terms, None, None
        for index, (kind, values) in enumerate(terms):
            if kind == "columns":
                key = (index, layer, self.sequence)
                if self.step in values["steps"]:
                    p = probabilities(q, k) if p is None else p
                    self.columns[key] = select_columns(
                        p, values["group"], keep_count(values["keep"], n, values["rule"]))
                    self.refreshes += 1
                    dense = True
                elif key not in self.columns:
                    dense = True
                term = self.columns.get(key)
            elif kind == "window":
                term = (i - j).abs() <= values["size"] // 2
            else:
                sinks = keep_count(values["share"], n) if "share" in values else values["size"]
                term = (j < sinks).expand(n, n)
            if term is not None:
                allowed = term if allowed is None else allowed | term
        return None if dense else allowed

    def attend(self, layer, q, k, v):
        """Attention of the current step and sequence, for Model.forward."""
        repeat = q.shape[0] // k.shape[0]
        k, v = k.repeat_interleave(repeat, 0), v.repeat_interleave(repeat, 0)
        heads, n, _ = q.shape
        allowed = self.mask(layer, q, k)
        self.pairs += (heads * n * n if allowed is None
                       else int(allowed.expand(heads, n, n).sum()))
        return probabilities(q, k, allowed) @ v
