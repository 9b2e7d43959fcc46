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


def _percent(row):
    return f"{100 * row['accuracy']:.1f} ({100 * row['low']:.0f} to {100 * row['high']:.0f})"


def markdown(rows) -> str:
    """A table a model, machine, dtype and seed: percent of answers that are right, by schedule and task,
    with 95% intervals; and the work. rows: as evaluate() and summarize() return them. HeddleError for two rows
    that the table could not tell apart."""
    if not rows:
        return "No results.\n"
    texts = []
    for (model, machine, dtype, seed), schedules in _grouped(rows).items():
        columns = list(dict.fromkeys(c for cells in schedules.values() for c in cells))
        texts += [f"{model}, {machine}, {dtype}, seed {seed}, {_dates(schedules)}. Percent of answers that are right, "
                  "letter for letter, with 95% intervals (Wilson).", "",
                  "| schedule | " + " | ".join(columns)
                  + " | all | n | steps | tokens/s | rows | pairs | of dense | operations |",
                  "|---|" + "---:|" * (len(columns) + 8)]
        for name, cells in schedules.items():
            sums = total(list(cells.values()))
            shown = [_percent(cells[c]) if c in cells else "" for c in columns]
            share = sums["pairs"] / sums["dense_pairs"] if sums["dense_pairs"] else 1
            speed = sums["tokens"] / sums["seconds"] if sums["seconds"] else 0
            shown += [_percent(sums), str(sums["count"]), f"{sums['steps']:.4g}", f"{speed:.1f}",
                      f"{sums['rows']:.4g}", f"{sums['pairs']:.4g}", f"{100 * share:.0f}%",
                      f"{sums['operations']:.4g}"]
            texts.append(f"| {name} | " + " | ".join(shown) + " |")
        texts.append("")
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


def plot(rows, path, over="pairs"):
    """Writes accuracy over the share of pairs ("pairs") or tokens a second ("speed") as PNG, SVG or
    PDF (by the path's end): a point a schedule with its 95% interval, joined over a sweep's
    settings. Needs matplotlib."""
    if over not in OVER:
        raise HeddleError(f"over: expected {' or '.join(OVER)}, found '{over}'")
    label, value = OVER[over]
    drawing = pyplot()
    if not rows:
        raise HeddleError("there are no results to draw")
    groups = _grouped(rows)
    # From 0, or from a little below the lowest interval where all are high.
    lowest = min(total(list(cells.values()))["low"] for schedules in groups.values() for cells in schedules.values())
    bottom = max(0, int(10 * lowest - 0.5)) * 10
    figure, axes = drawing.subplots(1, len(groups), figsize=(7 * len(groups), 4.5), squeeze=False,
                                    layout="constrained")
    for place, ((model, machine, dtype, seed), schedules) in zip(axes[0], groups.items()):
        series = {}
        for cells in schedules.values():
            first, sums = next(iter(cells.values())), total(list(cells.values()))
            # Points along one parameter are joined, those of different ones not.
            name = ", ".join([first["schedule"], *first["settings"]])
            series.setdefault(name, []).append(
                (value(sums), 100 * sums["accuracy"],
                 100 * (sums["accuracy"] - sums["low"]), 100 * (sums["high"] - sums["accuracy"])))
        for number, (name, points) in enumerate(series.items()):
            x, y, low, high = zip(*sorted(points))
            # Ten colours, then another mark.
            place.errorbar(x, y, yerr=(low, high), marker="os^D"[number // 10 % 4], markersize=4, capsize=2,
                           label=name)
        place.set(xlabel=label, ylabel="right answers, %",
                  ylim=(bottom - 0.03 * (100 - bottom), 103 - 0.03 * bottom), title=f"{model}, {dtype}, seed {seed}, {_dates(schedules)}\n{machine}")
        place.grid(alpha=0.3)
        # Beside the plot, where many names would cover it.
        many = len(series) > 10
        place.legend(fontsize="x-small" if many else "small",
                     **(dict(loc="center left", bbox_to_anchor=(1.01, 0.5)) if many else {}))
    save(figure, path)
