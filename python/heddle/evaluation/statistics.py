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


def counted(records, wanted=None):
    """(record, its results that count, their share of the batch) of batches. Of several results for
    one prompt of a cell the last counts. wanted: {cell: ids of prompts}; None: all."""
    batches = [r for r in records if r.get("kind") == "batch"
               and (wanted is None or r["cell"] in wanted)]
    last = {(r["cell"], one["id"]): one for r in batches for one in r["results"]}
    for record in batches:
        cell = record["cell"]
        kept = [one for one in record["results"] if last[cell, one["id"]] is one
                and (wanted is None or one["id"] in wanted[cell])]
        if kept:
            yield record, kept, len(kept) / len(record["results"])


ABOUT = ("schedule", "settings", "task", "length", "seed", "options", "model", "device", "dtype",
         "machine", "date")


def summarize(records, wanted=None) -> list:
    """One row a cell (a schedule with its settings, a task, a length, a seed, a dtype, options of generation), in
    the order of the records: {"schedule", "settings", "task", "length", "seed", "options", "model", "device",
    "dtype", "machine", "date", "count", "right", "accuracy", "low", "high", "tokens_per_second", "steps", ...}.
    `steps` are those of a sequence in the mean; tokens, rows, pairs, operations (floating-point) and seconds are
    sums, of a batch of which not all results count in proportion. wanted: {cell: ids of prompts}, which alone
    count; None: all that there are."""
    cells = {}
    for record, results, share in counted(records, wanted):
        row = cells.get(record["cell"])
        if row is None:
            row = cells[record["cell"]] = {
                **{k: record[k] for k in ABOUT},
                "count": 0, "right": 0, "steps": 0, **dict.fromkeys(WORK, 0)}
        row["count"] += len(results)
        row["right"] += sum(r["right"] for r in results)
        row["steps"] += record["steps"] * len(results)
        for name in WORK:
            row[name] += record[name] if share == 1 else share * record[name]
    rows = list(cells.values())
    for row in rows:
        row["steps"] /= row["count"]
        row["accuracy"] = row["right"] / row["count"]
        row["low"], row["high"] = wilson(row["right"], row["count"])
        row["tokens_per_second"] = row["tokens"] / row["seconds"] if row["seconds"] else 0.0
        row["pairs_share"] = row["pairs"] / row["dense_pairs"] if row["dense_pairs"] else 1.0
    return rows
