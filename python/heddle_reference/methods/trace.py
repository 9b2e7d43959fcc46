# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a run did, step by step, as JSON lines.

One line a forward pass (a step of one sequence). Lines without "step" are
comments of the writer (settings, say), which readers skip.

  {"sequence": 0, "step": 1, "n": 52,
   "layers": [{"queries": null, "keys_values": null, "ffn": null, "pairs": 10816}, ...],
   "visible": null,
   "refreshed": [{"layer": 0, "head": 0, "kind": "columns", "lists": [[0, 3, 9], ...]}, ...],
   "logits": [20, 21, 22],
   "committed": [[21, 417, 0.93], ...],
   "rows": 312, "pairs": 64896, "ffn_rows": 312, "kv_written": 638976, "kv_read": 0}

sequence   which prompt, from 0; 0 if absent
step       which forward pass of the sequence, from 1
n          prompt and response together
layers     an entry for each layer, in order:
  queries      rows whose Q is computed
  keys_values  rows whose K and V are computed
  ffn          rows whose FFN is computed
  pairs        (query, key) pairs that have a score, over all query heads
  and only if they differ from what is said above:
  values       rows whose V is computed, if these are not those of K
  exact        rows of `queries` whose attention is computed in full; the others
               keep their context and add the change of V
  valued       pairs whose weight meets a V or a change of V; the other scores
               are needed for denominators alone
  margin       where rows are chosen by cosine: how close the choice was (not
               compared; it tells rounding from a mistake)
visible    positions that exist as keys; K and V of those outside of keys_values
           come from a cache
refreshed    selections made in this step, for each layer and query head; empty or
           absent if none.
           "columns": the keys of each group of queries, as positions.
           "near": of which lists the scores on both sides of the choice are
           equal but for rounding, as {"lists": [...]}; not compared.
           "blocks": the key blocks of each block of queries. A selection that
           isolates spans has the prompt's blocks as "lists", the response's as
           "response", counted from "split", the position where it begins
logits     rows whose logits the commit rule looks at: those that predict masked
           positions up to the block's end, within the method's window, and what
           it may make masks again. In a shifted model row p - 1 predicts
           position p. Rows of a second view count where they stand; what else
           they compute is in no field
committed  [position, token, confidence], by position; of a token that became a
           mask again [position, mask, the probability of what was there]
pass       which forward pass made the step, from 1, where some are drafted ahead;
           absent where each has a pass of its own
totals     over the layers: rows (of queries), pairs, ffn_rows; bytes in f32 of
           K and V rows computed (kv_written) and of K and V rows that
           attention reads, but taken from an earlier step (kv_read)

Positions and indices are from 0 and ascend. For rows, visible and logits, null
is every position; a reader treats it and the whole list as the same.
"""

import json

TOTALS = ("rows", "pairs", "ffn_rows", "kv_written", "kv_read")
RELATIVE, ABSOLUTE = 1e-4, 1e-9  # what confidences may differ by
TIE = 1e-6  # of confidences, cosines and (relative) scores that count as equal


def compact(rows, n):
    """Ascending list, or None for all of 0..n-1."""
    rows = sorted(rows)
    return None if len(rows) == n else rows


class Record:
    """One forward pass, while it runs."""

    def __init__(self, pieces, sequence, step, n):
        self.pieces, self.n = pieces, n
        self.visible = range(n)
        self.kv_written = self.kv_read = 0
        self.line = {"sequence": sequence, "step": step, "n": n, "layers": [], "refreshed": []}

    def layer(self, queries, keys, ffn, pairs, values=None, exact=None, valued=None,
              margin=None, read=None):
        """Adds the next layer; `pairs` and `valued` over all query heads. read: the keys
        that attention reads, if these are not all visible ones."""
        n, size = self.n, 4 * self.pieces.kv_heads * self.pieces.dim
        values = keys if values is None else values
        entry = {"queries": compact(queries, n), "keys_values": compact(keys, n)}
        if set(values) != set(keys):
            entry["values"] = compact(values, n)
        if exact is not None and set(exact) != set(queries):
            entry["exact"] = compact(exact, n)
        entry.update(ffn=compact(ffn, n), pairs=int(pairs))
        if valued is not None and valued != pairs:
            entry["valued"] = int(valued)
        if margin is not None:
            entry["margin"] = float(margin)
        self.line["layers"].append(entry)
        seen = set(self.visible if read is None else read)
        self.kv_written += size * (len(keys) + len(values))
        self.kv_read += size * (len(seen - set(keys)) + len(seen - set(values)))

    def refresh(self, layer, head, kind, lists, **extra):
        close = lambda part: [u for u, entry in enumerate(part)
                              if getattr(entry, "gap", 1) <= TIE]
        near = {name: close(part) for name, part in (("lists", lists), *extra.items())
                if isinstance(part, list) and close(part)}
        self.line["refreshed"].append(
            {"layer": layer, "head": head, "kind": kind, "lists": lists, **extra,
             **({"near": near} if near else {})})

    def done(self, logits, committed):
        """The finished line, as a dict."""
        layers = self.line["layers"]
        size = lambda rows: self.n if rows is None else len(rows)
        return {**self.line, "visible": compact(self.visible, self.n),
                "logits": compact(logits, self.n), "committed": sorted(committed),
                "rows": sum(size(e["queries"]) for e in layers),
                "pairs": sum(e["pairs"] for e in layers),
                "ffn_rows": sum(size(e["ffn"]) for e in layers),
                "kv_written": self.kv_written, "kv_read": self.kv_read}


def read(path):
    """{(sequence, step): record} of a file, whose blank lines are none."""
    out = {}
    with open(path, encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except ValueError as problem:
                raise ValueError(f"{path}:{number}: not JSON: {problem}") from None
            if "step" in record:
                key = record.get("sequence", 0), record["step"]
                if key in out:
                    raise ValueError(f"{path}:{number}: sequence {key[0]}, step {key[1]} again")
                out[key] = record
    return out


def describe(expected, found):
    """How two lists of positions differ, in words."""
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    some = lambda rows: ", ".join(map(str, rows[:8])) + (", ..." if len(rows) > 8 else "")
    parts = [f"lacks {some(missing)}"] * bool(missing) + [f"has {some(extra)} besides"] * bool(extra)
    return f"{len(found)} entries, expected {len(expected)}: " + "; ".join(parts)


def rows_differ(what, expected, found, n):
    """A message if two lists of rows differ, else None."""
    expected = list(range(n)) if expected is None else expected
    found = list(range(n)) if found is None else found
    return None if expected == found else f"{what}: {describe(expected, found)}"


class Tie(str):
    """A difference that rounding decided: which of equally sure positions was
    committed, which of equally similar rows was computed, or which of equal
    scores was chosen. What follows in the sequence can't be compared."""


def layers_differ(expected, found, n):
    if len(expected) != len(found):
        return f"{len(found)} layers, expected {len(expected)}"
    for index, (mine, theirs) in enumerate(zip(expected, found)):
        for field in ("queries", "keys_values", "ffn"):
            if field not in theirs:
                return f"layer {index}: no '{field}'"
        for field, usual in (("queries", None), ("keys_values", None), ("values", "keys_values"),
                             ("exact", "queries"), ("ffn", None)):
            pick = lambda entry: entry[field if field in entry else usual]
            message = rows_differ(f"layer {index}: {field}", pick(mine), pick(theirs), n)
            if message:
                near = min((e["margin"] for e in expected[:index + 1] if "margin" in e), default=None)
                if near is not None and near <= TIE:
                    return Tie(f"{message} (cosines {near:.2g} apart)")
                return message + (f" (closest cosine so far: {near:.2g} away)" if near is not None else "")
        for field in ("pairs", "valued"):
            if field in mine and theirs.get(field, mine[field]) != mine[field]:
                return f"layer {index}: {theirs[field]} {field}, expected {mine[field]}"
    return None


def refreshed_differ(expected, found):
    key = lambda r: (r["layer"], r["head"], r["kind"])
    mine, theirs = ({key(r): r for r in side} for side in (expected, found))
    if set(mine) != set(theirs):
        odd = sorted(set(mine) ^ set(theirs))[0]
        return f"layer {odd[0]}, head {odd[1]}: {odd[2]} refreshed by one side alone"
    for k in sorted(mine):
        for part in ("lists", "response", "split"):
            a, b = mine[k].get(part), theirs[k].get(part)
            if a == b:
                continue
            where = f"layer {k[0]}, head {k[1]}, {k[2]}, {part}"
            if part == "split" or a is None or b is None or len(a) != len(b):
                return f"{where}: {b}, expected {a}"
            u = next(i for i in range(len(a)) if a[i] != b[i])
            message = f"{where}, list {u}: {describe(a[u], b[u])}"
            if u in mine[k].get("near", {}).get(part, ()) and len(a[u]) == len(b[u]):
                return Tie(f"{message} (scores within {TIE:g} of each other)")
            return message
    return None


def committed_differ(expected, found):
    mine, theirs = ({c[0]: c for c in side} for side in (expected, found))
    if set(mine) != set(theirs) and len(mine) == len(theirs):
        sides = [(side[p][2], p) for side, other in ((mine, theirs), (theirs, mine))
                 for p in side if p not in other]
        if max(sides)[0] - min(sides)[0] <= TIE:
            return Tie("equally sure: " + ", ".join(f"{p} ({c:.9g})" for c, p in sides))
    if set(mine) != set(theirs):
        sure = lambda side, other: ", ".join(f"{p} ({side[p][2]:.9g})" for p in sorted(side)
                                             if p not in other) or "nothing"
        return (f"committed positions (and confidences): {sure(theirs, mine)} instead of "
                f"{sure(mine, theirs)}")
    for position in sorted(mine):
        (_, token, sure), (_, other, confidence) = mine[position], theirs[position]
        if token != other:
            return f"position {position}: token {other}, expected {token}"
        if abs(sure - confidence) > max(RELATIVE * abs(sure), ABSOLUTE):
            return f"position {position}: confidence {confidence!r}, expected {sure!r}"
    return None


def logits_differ(expected, found, n):
    """A step that commits nothing need not look at logits."""
    if not expected["committed"] and not found.get("committed") and found.get("logits") == []:
        return None
    return rows_differ("logits", expected["logits"], found.get("logits"), n)


def difference(expected, found):
    """The first difference of two records, in words; None if there is none.
    Tokens come last, since they are what the others lead to."""
    n = expected["n"]
    if found.get("n", n) != n:
        return f"{found['n']} positions, expected {n}"
    message = (rows_differ("visible", expected["visible"], found.get("visible"), n)
               or layers_differ(expected["layers"], found.get("layers", []), n)
               or refreshed_differ(expected["refreshed"], found.get("refreshed", []))
               or logits_differ(expected, found, n)
               or committed_differ(expected["committed"], found.get("committed", [])))
    if not message and found.get("pass") != expected.get("pass"):
        message = f"pass {found.get('pass')}, expected {expected.get('pass')}"
    for field in TOTALS:
        if not message and found.get(field, expected[field]) != expected[field]:
            message = f"{field}: {found[field]}, expected {expected[field]}"
    return message


def compare(expected, found):
    """{sequence: (step, message) or None}: the first difference of each
    sequence of two traces as read() gives them."""
    out = {}
    for sequence in sorted({s for s, _ in expected} | {s for s, _ in found}):
        steps = sorted({t for s, t in (*expected, *found) if s == sequence})
        out[sequence] = None
        for step in steps:
            key = sequence, step
            message = ("one side ends before it" if key not in expected or key not in found
                       else difference(expected[key], found[key]))
            if message:
                out[sequence] = step, message
                break
    return out
