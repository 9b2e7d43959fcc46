# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What recall.py measured, as tables and plots. Rows: {"model", "tasks", "tokens" (of a prompt, in the mean), "dtype", "seed",
"machine", "date", "pattern", "size", "later", "keep", "mass", "keys"}."""

from fractions import Fraction

from heddle.evaluation.report import pyplot, save


def about(row):
    """Of what and where it was measured, in one line."""
    return (f"{row['model']}, {row['tasks']}, {row['tokens']:.0f} tokens in the mean, {row['dtype']}, seed {row['seed']}, "
            f"{row['date']}, {row['machine']}")


def name(row):
    return row["pattern"] + (f" of {row['size']}" if row["size"] else "") + (", later" if row["later"] else "")


def markdown(rows):
    """The table of one model's rows."""
    lines = {}
    for row in rows:
        lines.setdefault(name(row), {})[row["keep"]] = row["mass"]
    keeps = list(dict.fromkeys(row["keep"] for row in rows))
    text = ["| kept | " + " | ".join(f"{100 * float(Fraction(k)):g}%" for k in keeps) + " |",
            "|---|" + "---:|" * len(keeps)]
    text += [f"| {label} | " + " | ".join(f"{100 * of[k]:.1f}" for k in keeps) + " |"
             for label, of in lines.items()]
    return "\n".join(text)


def plot(rows, path):
    """Draws mass over keys, a model beside another, into a file by the path's end. Needs matplotlib."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    figure, axes = pyplot().subplots(1, len(models), figsize=(8 * len(models), 4.5), squeeze=False, layout="constrained")
    for model, place in zip(models, axes[0]):
        lines, mine = {}, [row for row in rows if row["model"] == model]
        for row in mine:
            lines.setdefault(name(row), []).append((100 * row["keys"], 100 * row["mass"]))
        colors = {}
        for label, points in lines.items():
            # What is measured later has the color of what it was chosen as.
            color = colors.setdefault(label.removesuffix(", later"), f"C{len(colors)}")
            later = label.endswith("later")
            place.plot(*zip(*points), marker="x" if later else "o", markersize=4, markerfacecolor="none", color=color, label=label,
                       linestyle=":" if later else "-", linewidth=1)
        first = mine[0]
        place.set(xlabel="keys kept, %", ylabel="attention mass kept, %", ylim=(0, 102),
                  title=f"{model}, {first['tasks']}, {first['tokens']:.0f} tokens in the mean\n"
                        f"{first['dtype']}, seed {first['seed']}, {first['date']}, {first['machine']}")
        place.grid(alpha=0.3)
        place.legend(fontsize="small", loc="lower right")
    save(figure, path)
