# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a record says over all of its steps, as Markdown tables."""

import math

from ..errors import HeddleError
from .record import Record


def _about(record):
    run = record.run
    return (f"{run['schedule']}, {run['model']}, {run['dtype']} on {run['device']}, {run['date']}, seed {run['seed']}: "
            f"{len(record['seconds'])} steps over {run['length']} tokens (prompt {run['prompt']})")


def _markdown(heads, rows):
    return "\n".join(["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1),
                      *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def rows(record: Record) -> str:
    """Rows whose Q, attention and FFN each layer computes, of steps that do not compute all of them everywhere: the
    mean and the most. With a schedule that looks for salient rows the last two are those that a layer found.
    Source: DyLLM, the salient tokens of each layer."""
    counts = record["counts"]  # [steps, layers, 3]
    partial = counts[(counts < record.run["length"]).any((1, 2))]
    if not len(partial):
        raise HeddleError(f"{record.path}: every step computes all rows in all layers; record a schedule that does not")
    heads = ["layer", *(f"{what}, {how}" for what in ("Q", "attention", "FFN") for how in ("mean", "most"))]
    lines = [[str(layer), *(text for values in partial[:, layer].T for text in (f"{values.mean():.1f}", str(values.max())))]
             for layer in range(counts.shape[1])]
    return (f"{_about(record)}. Rows that a layer computes in the {len(partial)} steps that leave rows out.\n\n"
            + _markdown(heads, lines))


def overlaps(mass, queried, keep):
    """What patterns have in common: (steps [M, M], heads), fractions of 0 to 1. mass: [M, L, H, C, C], attention's mass of
    cells of queries and keys. queried: [M, L, C], 0 for cells of queries without rows. A pattern is the
    ceil(keep * C) cells of keys with the most mass of a cell of queries. steps: what the patterns of two maps have in
    common, the mean over layers, heads and cells of queries that both looked at. heads: what those of two heads of a
    layer have in the same map; NaN with one head."""
    import numpy as np
    maps, layers, count, cells, _ = mass.shape
    most = max(1, math.ceil(keep * cells))
    chosen = np.zeros(mass.shape, bool)
    np.put_along_axis(chosen, np.argsort(-mass, -1, kind="stable")[..., :most], True, -1)
    asked = queried > 0

    def common(a, b, both):  # [L, H, C, C] twice, [L, C]
        share = (a & b).sum(-1) / most
        weights = np.broadcast_to(both[:, None], share.shape)
        return float(share[weights].mean()) if weights.any() else math.nan
    steps = np.array([[common(chosen[i], chosen[j], asked[i] & asked[j]) for j in range(maps)] for i in range(maps)])
    heads = [common(chosen[i][:, [a]], chosen[i][:, [b]], asked[i])
             for i in range(maps) for a in range(count) for b in range(a)]
    return steps, float(np.mean(heads)) if heads else math.nan


def similarity(record: Record, keep=0.3, most=6) -> str:
    """How much the patterns of attention of two steps have in common: of the `keep` (0 to 1) of the map's cells of keys
    with the most mass, the fraction that both have. At most `most` maps are shown, spread over the run. Below the table:
    what two heads of a layer have in common at one step. Source: SparseD, the observation that patterns differ between
    heads and are alike over denoising steps."""
    import numpy as np
    if not 0 < keep < 1:
        raise HeddleError(f"keep: expected a fraction between 0 and 1, found {keep}")
    at = record["maps.steps"]
    if len(at) < 2:
        raise HeddleError(f"{record.path}: {len(at)} maps, expected two or more; record more of them with --record-every")
    some = np.unique(np.linspace(0, len(at) - 1, most).round().astype(int))
    mass = record.mass()[some]
    found, heads = overlaps(mass, record["maps.rows"][some], keep)
    shown = [[str(step), *("" if math.isnan(x) else f"{100 * x:.0f}" for x in line)] for step, line in zip(at[some], found)]
    text = (f"{_about(record)}. Percent of the {100 * keep:g}% of {mass.shape[-1]} cells of keys with the most mass that two "
            f"steps have in common.\n\n" + _markdown(["step", *map(str, at[some])], shown))
    if not math.isnan(heads):
        text += f"\nTwo heads of a layer have {100 * heads:.0f}% in common at one step.\n"
    return text


def shares(mass, queried):
    """Where heads look, float [L, H, 3], each the mean over maps and cells of queries that were looked at: the mass on the
    first cell of keys (sinks), on the queries' own cell and its neighbours (locality), and on the cell of keys that has the
    most of the cells of queries beyond its own and its neighbours, the first not counted (a column). NaN where nothing was
    looked at. mass: [M, L, H, C, C]; queried: [M, L, C]."""
    import numpy as np
    cells = mass.shape[-1]
    near = np.abs(np.subtract.outer(np.arange(cells), np.arange(cells))) < 2  # [C queries, C keys]
    asked = (queried > 0)[:, :, None, :, None]
    with np.errstate(invalid="ignore"):
        mean = lambda chosen, axes: (mass * (asked & chosen)).sum(axes) / (asked & chosen).sum(axes)
        columns = mean(np.broadcast_to(~near, mass.shape), (0, 3))  # [L, H, C]
        local = (mass * (asked & near)).sum((0, 3, 4)) / np.broadcast_to(asked, mass.shape[:-1] + (1,)).sum((0, 3, 4))
        first = mean(np.broadcast_to(np.arange(cells) == 0, mass.shape), (0, 3, 4))
    return np.stack([first, local, columns[..., 1:].max(-1)], -1)


def structure(record: Record) -> str:
    """Of each layer the head that has most mass on the first cell of keys (sinks), near the row (locality) and on one other
    cell of keys of all rows far from it (a column)."""
    import numpy as np
    mass = record.mass()
    if mass.shape[-1] < 4:
        raise HeddleError(f"{record.path}: maps of {mass.shape[-1]} cells, expected four or more; record a longer run")
    found = np.nan_to_num(shares(mass, record["maps.rows"]))
    lines = [[str(layer), *(f"{100 * of.max():.0f} (head {of.argmax()})" for of in found[layer].T)]
             for layer in range(len(found))]
    tokens = record.run["length"] / mass.shape[-1]
    return (f"{_about(record)}. The most of a layer's heads, percent of a row's mass, the mean over rows and {len(mass)} steps: on "
            f"the first cell of {tokens:.3g} tokens, within a cell of the row, on one cell of keys beyond.\n\n"
            + _markdown(["layer", "first cell", "near", "one column"], lines))
