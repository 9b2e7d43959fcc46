# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a search found: the specification with its evidence, a table, a plot."""

import os

from .. import compiler, files
from ..errors import HeddleError
from ..evaluation.report import pyplot, save
from ..evaluation.tasks import LONG
from ..schedule import Source


def _percent(score):
    return f"{100 * score['accuracy']:.1f}% ({100 * score['low']:.0f} to {100 * score['high']:.0f})"


def seconds_text(seconds) -> str:
    """Three digits with a unit."""
    for scale, unit in ((1, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def header(trials) -> dict:
    """What of a search all reports say: {"dense": trial, "done", "stopped", "refused"}."""
    if not trials:
        raise HeddleError("there is no trial yet; give the search more time")
    count = lambda state: sum(t["state"] == state for t in trials)
    return {"dense": trials[0], "done": count("complete"), "stopped": count("stopped"), "refused": count("refused")}


def spec(trial, records, trials, confirmed=None, evidence=None) -> str:
    """The schedule's MLIR text under a head of comments that says what is known of it. confirmed: {"trial", "dense"},
    scores on other examples (Search.confirm). evidence: the file of results."""
    first = next(r for r in records if r["kind"] == "search")
    s, told = first["settings"], header(trials)
    full = trial["rungs"][-1]
    length = f", length {s['length']}" if any(name in ("long", "needles", *LONG) for name in s["tasks"]) else ""
    lines = [f"Found by heddle-tune, {first['date']}, {first['machine']}: {trial['about']}.", "",
             f"model      {next((r['model'] for r in records if r.get('kind') == 'batch'), '')}, {s['dtype']}, digest {s['model']}",
             f"tasks      {', '.join(s['tasks'])}; {s['examples']} examples a task, seed {s['seed']}{length}",
             f"right      {full['right']} of {full['count']}, {_percent(trial)} with the 95% interval (Wilson)" if "right" in full else
             f"right      not known: {trial['why']}",
             f"dense      {_percent(told['dense'])}"]
    if confirmed:
        lines.append(f"others     {_percent(confirmed['trial'])} of {confirmed['trial']['count']} examples that the search has not "
                     f"seen (heddle-eval --skip {s['examples']}); dense {_percent(confirmed['dense'])}")
    share = trial["cost"] / told["dense"]["cost"]
    lines += [f"cost       {seconds_text(trial['cost'])} a sequence, {100 * share:.1f}% of dense's {seconds_text(told['dense']['cost'])}: {s['cost']}"
              + (f" of {s['cost_model']}" if s["cost_model"] else ""),
              f"floor      {s['floor']}",
              f"search     trial {trial['number']} of {len(trials)}: {told['done']} on all examples, "
              f"{told['stopped']} stopped before, {told['refused']} refused"]
    if evidence:
        lines.append(f"evidence   {os.path.basename(evidence)}")
    return "".join(f"// {line}".rstrip() + "\n" for line in lines) + "\n" + trial["schedule"]


def write(text, path, model=None):
    """Writes a specification: .mlir as text, .hdl compiled (for `model`, a loaded one)."""
    if str(path).endswith(".hdl"):
        compiler.compile(Source(text), model=model, crossovers="none").save(path)
    elif str(path).endswith(".mlir"):
        files.write(path, text.encode())
    else:
        raise HeddleError(f"-o: '{path}' ends in neither .mlir, the text, nor .hdl, the compiled bundle")


def markdown(trials, kept) -> str:
    """The front as a table, and how many trials there were."""
    told = header(trials)
    lines = [f"{len(trials)} trials: {told['done']} on all examples, {told['stopped']} stopped before, {told['refused']} refused.",
             "", "| trial | schedule | right, 95% interval | seconds | of dense |", "|---:|---|---:|---:|---:|"]
    lines += [f"| {t['number']} | {t['about']} | {_percent(t)} | {seconds_text(t['cost'])} | {100 * t['cost'] / told['dense']['cost']:.1f}% |"
              for t in kept]
    return "\n".join(lines) + "\n"


def plot(trials, kept, settings, path):
    """Writes accuracy over cost as PNG, SVG or PDF. Needs matplotlib."""
    drawing = pyplot()
    told = header(trials)
    figure, axes = drawing.subplots(figsize=(7, 4.5), layout="constrained")
    for state, marker, colour, name in (("stopped", "x", "0.6", "stopped before all examples"), ("complete", "o", "C0", "all examples")):
        points = [(100 * t["cost"] / told["dense"]["cost"], 100 * t["accuracy"]) for t in trials if t["state"] == state]
        if points:
            axes.plot(*zip(*points), linestyle="", marker=marker, markersize=4, color=colour, label=name)
    if kept:
        axes.errorbar([100 * t["cost"] / told["dense"]["cost"] for t in kept], [100 * t["accuracy"] for t in kept],
                      yerr=([100 * (t["accuracy"] - t["low"]) for t in kept], [100 * (t["high"] - t["accuracy"]) for t in kept]),
                      marker="o", markersize=5, capsize=2, color="C3", label="the front, 95% intervals")
    axes.set(xlabel=f"seconds of a sequence, % of dense ({settings['cost']})", ylabel="right answers, %", xscale="log",
             ylim=(-3, 103), title=f"{', '.join(settings['tasks'])}, seed {settings['seed']}")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize="small")
    save(figure, path)
