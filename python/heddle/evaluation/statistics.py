# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shares of right answers with their intervals, and sums of work."""

import math

Z95 = 1.959963984540054  # the normal distribution's 97.5% quantile


def wilson(right: int, count: int, z: float = Z95) -> tuple:
    """(low, high): the score interval of a share, 95% by default. Unlike the normal one
    it stays inside of 0 to 1 and has a width at 0 and 1, too (E. B. Wilson, 1927)."""
    if not 0 <= right <= count or count < 1:
        raise ValueError(f"{right} of {count}: expected 0 <= right <= count and count >= 1")
    share = right / count
    scale = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    low = 0.0 if right == 0 else middle - half
    high = 1.0 if right == count else middle + half
    return low, high


WORK = ("tokens", "rows", "pairs", "dense_pairs", "operations", "seconds")


def summarize(records) -> list:
    """One row a cell (a schedule with its settings, a task, a length, a seed), in the order
    of the records: {"schedule", "settings", "task", "length", "seed", "model", "device", "machine", "date",
    "count", "right", "accuracy", "low", "high", "tokens_per_second", "steps", ...}. `steps` are those
    of a sequence in the mean; tokens, rows, pairs, operations (floating-point) and seconds are sums."""
    cells = {}
    for record in records:
        if record.get("kind") != "batch":
            continue
        row = cells.get(record["cell"])
        if row is None:
            row = cells[record["cell"]] = {
                **{k: record[k] for k in ("schedule", "settings", "task", "length", "seed", "model",
                                          "device", "machine", "date")},
                "count": 0, "right": 0, "steps": 0, **dict.fromkeys(WORK, 0)}
        count = len(record["results"])
        row["count"] += count
        row["right"] += sum(r["right"] for r in record["results"])
        row["steps"] += record["steps"] * count
        for name in WORK:
            row[name] += record[name]
    rows = list(cells.values())
    for row in rows:
        row["steps"] /= row["count"]
        row["accuracy"] = row["right"] / row["count"]
        row["low"], row["high"] = wilson(row["right"], row["count"])
        row["tokens_per_second"] = row["tokens"] / row["seconds"] if row["seconds"] else 0.0
        row["pairs_share"] = row["pairs"] / row["dense_pairs"] if row["dense_pairs"] else 1.0
    return rows
