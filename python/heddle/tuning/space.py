# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which schedules are searched: parameters, and the schedule that they make.

Parameters are places in ordered lists, so that a sampler knows that 1/8 lies between 1/5 and
1/10, or names. Some are asked for only where others make them matter."""

from ..errors import HeddleError
from ..schedule import (Schedule, all_positions, attend, block, blocks, columns, commit, committed, decoded,
                        dense, drift, every, first, recompute, response, reuse, salient, schedule, sinks, undecoded,
                        uniform, visible, window)

KEEP = ("1", "1/2", "3/10", "1/5", "1/8", "1/10", "1/20")  # 1: dense
LISTS = {
    "group": (16, 32, 64, 128), "window": (0, 32, 64, 128, 256), "sinks": (0, 4, 16),
    "every": (2, 4, 8, 16, 32), "count": (1, 2, 4, 8, 16), "share": ("1/10", "3/10", "1/2", "1"),
    "below": ("9/10", "19/20", "49/50", "99/100", "199/200"), "whole": (2, 4, 8, 16, 32),
    "drift": ("4/5", "9/10", "19/20", "49/50"), "within": (8, 16, 32, 64),
    "first": (16, 32, 64, 128), "phase": (4, 8, 16, 32), "above": ("7/10", "4/5", "9/10", "19/20"),
}
NAMES = {"pattern": ("columns", "blocks"), "cadence": ("uniform", "every", "block", "drift"),
         "reuse": ("none", "salient", "block", "drift", "window"), "commit": ("quota", "above")}

#: What may be searched, and the parameters that are then free.
AXES = {"keep": (), "layers": (), "pattern": ("pattern",), "group": ("group",),
        "window": ("window", "sinks"), "cadence": ("cadence", "every", "count", "share", "drift", "within"),
        "reuse": ("reuse", "below", "whole", "drift", "within", "first", "phase"), "commit": ("commit", "above")}

#: Of an axis that is not searched, and where a start says nothing else.
DEFAULTS = {"keep": "1/5", "pattern": "columns", "group": 32, "window": 0, "sinks": 0, "cadence": "uniform", "every": 8,
            "count": 16, "share": "3/10", "drift": "9/10", "within": 64, "reuse": "none", "below": "99/100", "whole": 4, "first": 64,
            "phase": 8, "commit": "quota", "above": "9/10"}

#: Where every search begins: dense, and a point near each published method and two compositions.
STARTS = ({"keep": "1"}, {"keep": "1/5"}, {"keep": "3/10", "pattern": "blocks", "cadence": "block"},
          {"keep": "1/5", "cadence": "drift"},
          {"keep": "1", "reuse": "salient"}, {"keep": "1", "reuse": "block", "commit": "above"},
          {"keep": "1", "reuse": "window"}, {"keep": "1/5", "reuse": "salient", "window": 64},
          {"keep": "3/10", "cadence": "block", "reuse": "block", "commit": "above"})


class Space:
    """The schedules for a model of `layers` layers, cut into at most `parts` parts of consecutive
    layers that have a keep ratio each. axes: which are searched, of AXES."""

    def __init__(self, layers: int, parts: int = 3, axes=tuple(AXES)):
        for name in axes:
            if name not in AXES:
                raise HeddleError(f"no axis '{name}'; there are {', '.join(AXES)}")
        if not axes:
            raise HeddleError(f"axes: expected some of {', '.join(AXES)}")
        if parts < 1:
            raise HeddleError(f"parts of layers: expected 1 or more, found {parts}")
        self.layers, self.axes = layers, tuple(name for name in AXES if name in axes)
        self.parts = min(parts, layers) if "layers" in axes else 1
        self.free = {p for name in self.axes for p in AXES[name]}

    def starts(self) -> list:
        """Parameters of the first trials; what is not searched has its default."""
        made = []
        for start in STARTS:
            asked = dict(start)

            def choose(name, options):
                value = asked.get("keep" if name.startswith("keep") else name, DEFAULTS.get(name))
                return options.index(value)
            params = self.draw(choose)
            if params not in made:
                made.append(params)
        return made

    def suggest(self, trial) -> dict:
        """Parameters that an optuna.Trial proposes."""
        def choose(name, options):
            if name in NAMES:
                return options.index(trial.suggest_categorical(name, options))
            return trial.suggest_int(name, 0, len(options) - 1)
        return self.draw(choose)

    def distributions(self, params) -> dict:
        """Optuna's, of these parameters."""
        from optuna.distributions import CategoricalDistribution, IntDistribution
        return {name: CategoricalDistribution(NAMES[name]) if name in NAMES else
                IntDistribution(0, len(self._options(name)) - 1) for name in params}

    @staticmethod
    def _options(name):
        return KEEP if name.startswith("keep") else NAMES.get(name) or LISTS[name]

    def draw(self, choose) -> dict:
        """Asks choose(name, options) -> index for each parameter that matters."""
        params = {}

        def ask(name):
            if name in self.free or name.startswith("keep"):
                at = choose(name, self._options(name))
                params[name] = NAMES[name][at] if name in NAMES else at
                return self._options(name)[at]
            return DEFAULTS[name]
        keeps = [ask(f"keep{part}") for part in range(self.parts)] if "keep" in self.axes else []
        reused = ask("reuse")
        if any(keep != "1" for keep in keeps) or not keeps:
            for name in ("pattern", "group", "window", "sinks"):
                ask(name)
            # Lists over keys that come and go are refreshed when they do, and a schedule goes by one drift.
            when = reused if reused in ("window", "drift") else ask("cadence")
            for name in {"uniform": ("count", "share"), "every": ("every",), "drift": ("drift", "within")}.get(when, ()):
                ask(name)
        for name in {"salient": ("below", "whole"), "drift": ("drift", "within"), "window": ("first", "phase")}.get(reused, ()):
            if name not in params:
                ask(name)
        if ask("commit") == "above":
            ask("above")
        return params

    def _read(self, params):
        """(the value of a parameter by its name, the keep ratios of the parts)"""
        def of(key):
            if key not in params:
                return DEFAULTS[key]
            return params[key] if key in NAMES else self._options(key)[params[key]]
        return of, [of(f"keep{part}") if f"keep{part}" in params else DEFAULTS["keep"]
                    for part in range(self.parts)]

    @staticmethod
    def _cadence(of):
        """When lists are refreshed."""
        if of("reuse") == "window":
            return every(of("phase"))
        if of("reuse") == "drift":
            return drift(of("drift"), of("within")).in_block()
        return {"uniform": lambda: uniform(of("share"), of("count")), "every": lambda: every(of("every")),
                "block": lambda: first(1).in_block(), "drift": lambda: drift(of("drift"), of("within"))}[of("cadence")]()

    def schedule(self, params, name="tuned") -> Schedule:
        """The schedule that parameters make."""
        of, keeps = self._read(params)
        cadence = self._cadence(of)

        def pairs(keep):
            if keep == "1":
                return dense
            chosen = (columns(keep, of("group"), on=cadence) if of("pattern") == "columns" else
                      blocks(keep, of("group"), on=cadence))
            if of("window"):
                chosen = chosen | window(of("window"))
            return chosen | sinks(of("sinks")) if of("sinks") else chosen
        return schedule(name, *self._rows(of), *self._attends([pairs(keep) for keep in keeps]))

    def _attends(self, pairs):
        """An attend a run of equal parts; the longest names no layers."""
        bounds = [part * self.layers // self.parts for part in range(self.parts + 1)]
        runs = []
        for part, each in enumerate(pairs):
            if runs and runs[-1][2] == each:
                runs[-1][1] = bounds[part + 1] - 1
            else:
                runs.append([bounds[part], bounds[part + 1] - 1, each])
        longest = max(runs, key=lambda run: run[1] - run[0])
        return [attend(each, layers=None if run is longest else (begin, end))
                for run in runs for begin, end, each in [run]]

    @staticmethod
    def _rows(of):
        above = of("commit") == "above"
        rule = ("above", of("above")) if above else ("quota",)
        if of("reuse") == "salient":
            return [reuse("kv", "context(propagating)", "ffn"), recompute(all_positions, on=every(of("whole"))),
                    recompute(salient(response, below=of("below"))), commit(*rule)]
        if of("reuse") in ("block", "drift"):
            whole = first(1).in_block() if of("reuse") == "block" else Space._cadence(of)
            return [reuse("kv"), recompute(all_positions, on=whole), recompute(block), commit(*rule)]
        if of("reuse") == "window":
            phase, active = every(of("phase")), undecoded(of("first") // 4)
            return [visible((decoded | undecoded(of("first"))).fixed(phase)), reuse("kv"),
                    recompute(all_positions, on=phase), recompute(active | committed(since=phase)),
                    commit(*rule, within=active)]
        return [commit(*rule)] if above else []

    def about(self, params) -> str:
        """"columns of 32 keep 1/5, uniform 16 in 3/10, salient below 99/100, all every 4"."""
        of, keeps = self._read(params)
        words = ["dense"]
        if any(keep != "1" for keep in keeps):
            when = {"window": "each phase", "drift": "as the block's"}.get(of("reuse")) or {
                "uniform": f"uniform {of('count')} in {of('share')}", "every": f"every {of('every')}", "block": "each block",
                "drift": f"drift below {of('drift')} within {of('within')}"}[of("cadence")]
            shares = keeps[0] if len(set(keeps)) == 1 else " ".join(keeps)
            words = [f"{of('pattern')} of {of('group')} keep {shares}, {when}"]
            words += [f"{name} {of(name)}" for name in ("window", "sinks") if of(name)]
        words += {"salient": [f"salient below {of('below')}, all every {of('whole')}"], "block": ["block's rows"],
                  "drift": [f"block's rows, all at drift below {of('drift')} within {of('within')}"],
                  "window": [f"first {of('first')} masked, phases of {of('phase')}"], "none": []}[of("reuse")]
        if of("commit") == "above":
            words.append(f"commit above {of('above')}")
        return ", ".join(words)
