# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results as Markdown tables and as plots."""

import io
import os

from .. import files
from ..errors import HeddleError
from .statistics import wilson


def label(row) -> str:
    """"pulsecol, keep 1/5"."""
    return ", ".join([row["schedule"], *(f"{k} {v}" for k, v in row["settings"].items())])


def _column(row):
    return row["task"] + (f" @{row['length']}" if row["length"] else "")


def _varied(rows):
    """The options of generation in which runs of one task differ, sorted."""
    tasks = {}
    for row in rows:
        tasks.setdefault(_column(row), []).append(row["options"])
    return sorted({name for options in tasks.values() for name in set().union(*options)
                   if len({repr(one.get(name)) for one in options}) > 1})


def _settings(row, varied):
    """{"keep": "1/5", "steps": 8}: the schedule's parameters, and the options that vary."""
    return {**row["settings"], **{name.replace("_", "-"): row["options"].get(name, "default") for name in varied}}


def _grouped(rows):
    """{(model, machine, dtype, seed): {schedule's label: {task's column: row}}}. Options of generation are in the
    label where they differ. HeddleError for two rows of one place: what tells them apart no table would show."""
    groups, found = {}, {}
    for row in rows:
        groups.setdefault((row["model"], row["machine"], row["dtype"], row["seed"]), []).append(row)
    for group, members in groups.items():
        varied, schedules = _varied(members), {}
        for row in members:
            row = {**row, "settings": _settings(row, varied)}
            cells = schedules.setdefault(label(row), {})
            if _column(row) in cells:
                raise HeddleError(f"two results are both '{label(row)}' on {_column(row)} of {row['model']}: schedules or "
                                  "models of one name; give each a name, or a file of results, of its own")
            cells[_column(row)] = row
        found[group] = schedules
    return found


def _dates(schedules):
    """"2026-11-23", or the first and the last day."""
    days = sorted(row["date"] for cells in schedules.values() for row in cells.values())
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def total(cells) -> dict:
    """The sums of a schedule's tasks, with the accuracy over all examples and its interval."""
    out = {k: sum(c[k] for c in cells) for k in
           ("count", "right", "tokens", "rows", "pairs", "dense_pairs", "operations", "seconds")}
    out["accuracy"] = out["right"] / out["count"]
    out["low"], out["high"] = wilson(out["right"], out["count"])
    out["steps"] = sum(c["steps"] * c["count"] for c in cells) / out["count"]
    return out


def below(rows, required) -> list:
    """A sentence for each schedule with its settings that has a smaller share of right answers, over all of its tasks,
    than {schedule's name: share} asks for."""
    sentences = []
    for schedules in _grouped(rows).values():
        for name, cells in schedules.items():
            cells = list(cells.values())
            sums, least = total(cells), required.get(cells[0]["schedule"], 0)
            if sums["accuracy"] < least:
                sentences.append(f"{name}: {sums['right']} of {sums['count']} answers are right, "
                                 f"{100 * sums['accuracy']:.1f}%; required are {100 * least:g}%")
    return sentences


def _share(row):
    return f"{round(100 * row['right'] / row['count'], 1):g}"


def _percent(row):
    return f"{_share(row)} ({100 * row['low']:.0f} to {100 * row['high']:.0f})"


def short(number) -> str:
    """"345 G": three figures and a prefix."""
    for prefix in ("", " k", " M", " G", " T", " P"):
        if number < 999.5:
            return f"{number:.3g}{prefix}" if number < 99.95 else f"{number:.0f}{prefix}"
        number /= 1000
    return f"{number:.0f} E"


def markdown(rows, brief=False) -> str:
    """A table a model, machine, dtype and seed: percent of answers that are right, by schedule and task,
    with 95% intervals; and the work. rows: as evaluate() and summarize() return them. brief: of one length; an interval
    only over all tasks, and of the work what a reader of docs compares. HeddleError for two rows that the table could not tell apart."""
    if not rows:
        return "No results.\n"
    texts = []
    for (model, machine, dtype, seed), schedules in _grouped(rows).items():
        columns = list(dict.fromkeys(c for cells in schedules.values() for c in cells))
        shown, lines = _share if brief else _percent, {}
        for name, cells in schedules.items():
            sums = total(list(cells.values()))
            speed = sums["tokens"] / sums["seconds"] if sums["seconds"] else 0
            share = sums["pairs"] / sums["dense_pairs"] if sums["dense_pairs"] else 1
            lines[name] = {**{c: shown(cells[c]) if c in cells else "" for c in columns}, "all": _percent(sums),
                           "n": str(sums["count"]), "steps": f"{sums['steps']:.3g}",
                           "tokens/s": f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}",
                           "rows": short(sums["rows"]), "pairs": short(sums["pairs"]), "of dense": f"{100 * share:.0f}%",
                           "operations": short(sums["operations"])}
            if brief:
                lines[name] = {head: cell for head, cell in lines[name].items() if head not in ("n", "rows", "pairs", "operations")}
        heads = ["schedule", *next(iter(lines.values()))]
        if brief:
            heads = [head.partition(" @")[0] for head in heads[:-1]] + ["pairs of dense"]
        texts += [f"{model}, {machine}, {dtype}, seed {seed}, {_dates(schedules)}. Percent of answers that are right, "
                  "letter for letter, with 95% intervals (Wilson).", "",
                  "| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1),
                  *(f"| {' | '.join([name, *line.values()])} |" for name, line in lines.items()), ""]
    return "\n".join(texts)


#: What plot() draws answers over: (label, value of a schedule's sums).
OVER = {
    "pairs": ("pairs of attention computed, % of dense",
              lambda sums: 100 * sums["pairs"] / max(1, sums["dense_pairs"])),
    "speed": ("tokens a second", lambda sums: sums["tokens"] / max(1e-9, sums["seconds"])),
}


def pyplot():
    """matplotlib.pyplot, drawing into files. HeddleError where there is no matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise HeddleError("plots are drawn by matplotlib: pip install 'heddle[eval]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as found
    return found


def save(figure, path):
    """Writes a figure as PNG, SVG or PDF, by the path's end."""
    made = io.BytesIO()
    figure.savefig(made, dpi=150, format=os.path.splitext(path)[1][1:])
    pyplot().close(figure)
    files.write(path, made.getvalue())


def _apart(points, width, height):
    """The points, each at the nearest place to its side where it covers none before it."""
    placed = []
    for x, y in points:
        taken = [a for a, b in placed if abs(b - y) < height]
        steps = sorted(range(-len(taken), len(taken) + 1), key=lambda n: (abs(n), n))
        placed.append((next(x + n * width for n in steps if all(abs(x + n * width - a) >= 0.99 * width for a in taken)), y))
    return placed


def _best(points):
    """(x, y) of a line from the left: the best answers at this speed or more."""
    front = []
    for x, y in sorted(points, reverse=True):
        if not front or y > front[-1][1]:
            front.append((x, y))
    front.append((min(x for x, _ in points), front[-1][1]))
    return front[::-1]


def _lines(names):
    """The line that each schedule's point is on: those that differ in the last of their parameters alone share one, without
    that one's value."""
    stems = [name.rpartition(" ")[0] if ", " in name else name for name in names]
    return [stem if stems.count(stem) > 1 else name for stem, name in zip(stems, names)]


def plot(rows, path, over="pairs"):
    """Writes accuracy over the share of pairs ("pairs") or tokens a second ("speed") as PNG, SVG or
    PDF (by the path's end): a point a schedule with its 95% interval, joined over a sweep's settings. Points that
    would cover one another stand side by side. Over speed, a grey line is the front. Needs matplotlib."""
    if over not in OVER:
        raise HeddleError(f"over: expected {' or '.join(OVER)}, found '{over}'")
    label, value = OVER[over]
    drawing = pyplot()
    if not rows:
        raise HeddleError("there are no results to draw")
    groups = _grouped(rows)
    # From 0, or from a little below the lowest interval where all are high.
    lowest = 100 * min(total(list(cells.values()))["low"] for schedules in groups.values() for cells in schedules.values())
    bottom = lowest - 0.1 * (100 - lowest) if lowest > 50 else -3
    top = 100 + 0.04 * (100 - bottom)
    figure, axes = drawing.subplots(1, len(groups), figsize=(8 * len(groups), 4.5), squeeze=False,
                                    layout="constrained")
    for place, ((model, machine, dtype, seed), schedules) in zip(axes[0], groups.items()):
        found = []
        for name, cells in zip(_lines(list(schedules)), schedules.values()):
            sums = total(list(cells.values()))
            found.append((name, value(sums), sums))
        at = [(x, 100 * sums["accuracy"]) for _, x, sums in found]
        wide = (max(x for x, _ in at) - min(x for x, _ in at)) or 1
        series = {}
        for (name, _, sums), (x, y) in zip(found, _apart(at, 0.012 * wide, 0.02 * (top - bottom))):
            series.setdefault(name, []).append((x, y, y - 100 * sums["low"], 100 * sums["high"] - y))
        if over == "speed":
            place.plot(*zip(*_best(at)), color="0.8", linewidth=5, drawstyle="steps-pre", label="the best at this speed or more")
        for number, (name, points) in enumerate(series.items()):
            x, y, low, high = zip(*sorted(points))
            place.errorbar(x, y, yerr=(low, high), marker="os^Dv<>"[number % 7], markersize=5, markerfacecolor="none",
                           linewidth=1, elinewidth=0.6, capsize=2, label=name)
        place.set(xlabel=label, ylabel="right answers, %", ylim=(bottom, top),
                  title=f"{model}, {dtype}, seed {seed}, {_dates(schedules)}\n{machine}")
        place.grid(alpha=0.3)
        # Beside the plot, where it covers nothing.
        place.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    save(figure, path)
