# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The search for a cheap schedule whose answers stay right. docs/Decisions/Search.md says why it is so.

A trial climbs rungs: short texts and few steps, then some of the examples, then all. It is stopped
where its accuracy's 95% interval lies below what is asked, or where it can no longer be better than a trial that
is done. The file of results holds all of it, batches and trials; a search goes on from it, and
proposes what it would have proposed without the stop: the sampler's seed is that of the trial's number."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Callable, Optional

from .. import compiler, model as models
from ..errors import HeddleError, ScheduleError
from ..evaluation.records import Records
from ..evaluation.runner import Plan, digest, fingerprint
from ..evaluation.statistics import counted, wilson
from ..evaluation.tasks import find
from .cost import Estimate, parse_cost
from .recall import heddle_run, hopeless, recall
from .records import CHECKS, trials_of
from .space import AXES, Space

#: By price; "recall" runs no task to its answers and is taken on request.
RUNGS = ("recall", "short", "part", "full")
DEFAULT_RUNGS = RUNGS[1:]
DRAWS = 50  # at random, for a schedule that was not tried


class OutOfTime(Exception):
    pass


def parse_floor(text) -> tuple:
    """("dense", 0.02) of "dense-2", in percent points; ("share", 0.9) of "90"."""
    relative = str(text).startswith("dense-")
    try:
        value = float(str(text)[6:] if relative else text) / 100
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise HeddleError(f"floor: '{text}': expected the percent of right answers, such as 95, or points that may be "
                          "lost against dense attention, such as dense-2")
    return ("dense" if relative else "share"), value


def front(trials) -> list:
    """The trials on all examples that none other dominates, from cheap to dear; of equal ones the first."""
    done, kept = [t for t in trials if t["state"] == "complete"], []
    for trial in sorted(done, key=lambda t: (t["cost"], -t["accuracy"], t["number"])):
        if not kept or trial["accuracy"] > kept[-1]["accuracy"]:
            kept.append(trial)
    return kept


def _halves(options) -> bool:
    blocks = max(1, options["gen_length"] // options.get("block_length", options["gen_length"]))
    return options["steps"] % (2 * blocks) == 0


def _optuna():
    try:
        import optuna
    except ImportError:
        raise HeddleError("schedules are proposed by Optuna: pip install 'heddle[tune]'") from None
    return optuna


@dataclass
class Search:
    """A search over a file of results. Raises HeddleError for what does not fit together, or a file of another search."""
    model: object  #: a loaded heddle.Model
    tasks: list  #: as heddle.evaluate takes them
    file: Optional[Records] = None  #: of batches and trials; None: in memory alone
    floor: str = "dense-2"  #: of right answers: percent, or points below dense attention
    cost: str = "estimate:h200"  #: or "estimate:h100", "estimate:cpu", "measured": seconds of a sequence
    cost_model: Optional[str] = None  #: a folder whose config.json the estimate is for; None: the model's
    examples: int = 64  #: of each task
    length: int = 1024  #: tokens of the long tasks' prompts and answers
    batch: int = 16  #: examples at once
    seed: int = 2026  #: of the examples and of the proposals
    parts: int = 3  #: of consecutive layers, with a keep ratio each
    axes: tuple = tuple(AXES)  #: what is searched
    rungs: tuple = DEFAULT_RUNGS  #: what a trial passes, by price
    options: dict = field(default_factory=dict)  #: of Model.generate
    on_trial: Optional[Callable] = None  #: called with (trial, search) after each
    on_batch: Optional[Callable] = None  #: called with each batch's record

    def __post_init__(self):
        for rung in self.rungs:
            if rung not in RUNGS:
                raise HeddleError(f"no rung '{rung}'; there are {', '.join(RUNGS)}")
        if "full" not in self.rungs:
            raise HeddleError("rungs: 'full' must be among them: it is what is written")
        self.rungs = tuple(name for name in RUNGS if name in self.rungs)
        if "recall" in self.rungs:
            if self.cost == "measured":
                raise HeddleError("rungs: 'recall' has no seconds that could be measured; search by an estimate, or leave it out")
            heddle_run()  # not there: no schedule is to blame for it
        self.floor_kind, self.floor_value = parse_floor(self.floor)
        self.cost_kind, machine = parse_cost(self.cost)
        self.space = Space(self.model.config["layers"], self.parts, self.axes)
        self.records = list(self.file.records) if self.file else []
        self.trials = trials_of(self.records, self.file and self.file.path)
        self.estimate = Estimate(machine, self.cost_model or self.model.folder)
        self.deadline = None
        self._check_settings()
        if self.cost_kind == "estimate":  # a wrong machine is said now
            self.estimate(self.space.schedule({}), self._runs("full")[:1])

    def _append(self, record):
        if self.file:
            self.file.append(record)
        self.records.append(record)

    def _check_settings(self):
        """A file is of one search: its first record says which."""
        self.settings = {
            "model": fingerprint(self.model.folder), "dtype": self.model.dtype, "device": self.model.device,
            "tasks": list(self.tasks), "floor": self.floor, "cost": self.cost, "cost_model": self.cost_model,
            "examples": self.examples, "length": self.length, "seed": self.seed, "parts": self.space.parts,
            "axes": list(self.space.axes), "rungs": list(self.rungs), "options": dict(self.options)}
        before = next((r for r in self.records if r.get("kind") == "search"), None)
        if before is None:
            if self.records:
                raise HeddleError(f"{self.file.path}: it has results of heddle-eval, and no search; give another --out")
            self._append({"kind": "search", "settings": self.settings, "date": time.strftime("%Y-%m-%d"),
                          "machine": self.model.machine})
            return
        for name, value in self.settings.items():
            if before["settings"].get(name) != value:
                raise HeddleError(f"{self.file.path}: the search in it has {name} {before['settings'].get(name)!r}, "
                                  f"this one {value!r}; give the same options, or another --out")

    # ---- what is run

    def _plan(self, schedule, rung, skip=0):
        """The batches of a schedule on a rung, on examples behind the first `skip`."""
        def plan(options):
            return Plan(self.model, tasks=self.tasks, schedules=[schedule], examples=count, skip=skip, length=length,
                        seed=self.seed, options=options, records=self.records)
        count, length = self.examples, self.length
        if rung == "full":
            return plan(self.options)
        count = min(count, max(4, count // (4 if rung == "part" else 8)))
        if rung == "part":
            return plan(self.options)
        length = max(128, length // 4)
        asked = plan(self.options)
        steps = {cell.options["steps"] for cell in asked.cells}
        # Half the steps, where they are the same for all tasks and divide by the blocks.
        if len(steps) == 1 and all(_halves(cell.options) for cell in asked.cells):
            return plan({**self.options, "steps": steps.pop() // 2})
        return asked

    def _runs(self, rung):
        """What an estimate is of: the tasks' lengths, [(prompt tokens, options, weight)]."""
        runs = []
        for cell in self._plan(self.space.schedule({}), rung).cells:
            tokens = [len(self.model.encode(e.prompt)) for e in cell.examples]
            runs.append((max(1, round(sum(tokens) / len(tokens))), cell.options, len(tokens)))
        return runs

    def _score(self, rung, plan) -> dict:
        """{"rung", "right", "count", "accuracy", "low", "high", "seconds", "pairs"...} of a plan; batches that the
        file has are not run again."""
        for record in plan.run(self.batch):
            self._append(record)
            if self.on_batch:
                self.on_batch(record)
            if self.deadline is not None and time.monotonic() > self.deadline:
                raise OutOfTime
        sums = dict.fromkeys(("right", "count", "tokens", "seconds", "pairs", "dense_pairs", "operations",
                              "sequence_steps", "salient_rows", "salient_of"), 0)
        for record, results, share in counted(self.records, plan.wanted()):
            sums["right"] += sum(r["right"] for r in results)
            sums["count"] += len(results)
            sums["sequence_steps"] += record["steps"] * len(results)
            for name in ("tokens", "seconds", "pairs", "dense_pairs", "operations", "salient_rows", "salient_of"):
                sums[name] += share * record[name]
        low, high = wilson(sums["right"], sums["count"])
        return {"rung": rung, **sums, "accuracy": sums["right"] / sums["count"], "low": low, "high": high}

    def recall_of(self, schedule) -> float:
        """The recall of attention mass (recall.py), the mean over the tasks, of the first example of each at the full
        length."""
        bundle, found = compiler.compile(schedule, model=self.model, crossovers="none"), []
        for cell in self._plan(schedule, "full").cells:
            left = {} if self.deadline is None else {"seconds": max(self.deadline - time.monotonic(), 0)}
            try:
                found.append(recall(bundle, self.model, self.model.encode(cell.examples[0].prompt), cell.options, **left))
            except HeddleError:
                if not left or time.monotonic() < self.deadline:
                    raise
            if left and time.monotonic() >= self.deadline:
                raise OutOfTime
        return sum(found) / len(found)

    # ---- the trials

    def floor_of(self, rung) -> float:
        """The accuracy below which a trial does not do. On shorter rungs that is bounded by what dense attention
        surely has there, the lower end of its interval: such texts may be harder."""
        dense = next((r for t in self.trials[:1] for r in t["rungs"] if r["rung"] == rung), None)
        lost = self.floor_value if self.floor_kind == "dense" else 0.0
        if rung != "full":
            sure = max(0.0, dense["low"] - lost) if dense else 0.0
            return sure if self.floor_kind == "dense" else min(self.floor_value, sure)
        if self.floor_kind == "share":
            return self.floor_value
        return max(0.0, dense["accuracy"] - lost) if dense else 0.0

    def passes(self, trial) -> bool:
        """Whether a trial on all examples reaches the floor."""
        return trial["state"] == "complete" and trial["accuracy"] >= self.floor_of("full") - 1e-12

    def best(self):
        """The cheapest trial that reaches the floor; None if none does."""
        return next((t for t in front(self.trials) if self.passes(t)), None)

    def _beaten(self, cost, high) -> Optional[int]:
        """The number of a trial on all examples that is as cheap and as accurate as this one can become."""
        return next((t["number"] for t in self.trials if t["state"] == "complete" and self.passes(t)
                     and t["cost"] <= cost and t["accuracy"] >= high), None)

    def _climb(self, schedule) -> dict:
        """Runs a schedule up the rungs; {"state", "why", "rungs", "cost", "accuracy", "low", "high"}."""
        estimates = self.cost_kind == "estimate"
        runs = self._runs("full") if estimates else None
        rungs, cost, is_dense = [], None, not self.trials
        for name in self.rungs:
            if name == "recall":
                share = self.recall_of(schedule)
                rungs.append({"rung": name, "recall": share})
                against = [] if is_dense else hopeless(share, self.trials, self.passes)
                if against:  # no answers yet: theirs at best
                    likely = max(against, key=lambda t: t["accuracy"])
                    return {"state": "stopped", "why": f"recall: {share:.3f} of the mass, and {len(against)} trials with as much "
                                                       "were too inaccurate",
                            "rungs": rungs, "cost": self.estimate(schedule, runs),
                            **{k: likely[k] for k in ("accuracy", "low", "high")}}
                continue
            score = self._score(name, self._plan(schedule, name))
            rungs.append(score)
            if estimates:
                cost = self.estimate(schedule, runs, score, (self.model.folder, self._runs(name)))
            else:
                cost = score["seconds"] / score["count"]
            made = {"rungs": rungs, "cost": cost, **{k: score[k] for k in ("accuracy", "low", "high")}}
            if is_dense or name == "full":
                continue
            if score["high"] < self.floor_of(name):
                return {"state": "stopped", "why": f"{name}: at most {score['high']:.3f} right, the floor is "
                                                   f"{self.floor_of(name):.3f}", "below_floor": True, **made}
            # Seconds of a short rung are no measure of the others.
            beaten = self._beaten(cost, score["high"]) if estimates or name != "short" else None
            if beaten is not None:
                return {"state": "stopped", "why": f"{name}: trial {beaten} costs less and is as accurate", **made}
        return {"state": "complete", "why": "", **made}

    def _try_dense(self):
        """Runs an example under dense attention, which ran before. Where that fails too no schedule is to blame."""
        dense = self.space.schedule(self.trials[0]["params"])
        next(Plan(self.model, tasks=self.tasks[:1], schedules=[dense], examples=1, length=self.length, seed=self.seed,
                  options=self.options).run())
        if self.cost_kind == "estimate":
            self.estimate(dense, self._runs("full")[:1])
        if "recall" in self.rungs:
            self.recall_of(dense)

    def _study(self, sampler):
        """Optuna's study of the trials so far."""
        optuna = _optuna()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
        for trial in self.trials:
            good = trial["state"] != "refused"
            study.add_trial(optuna.trial.create_trial(
                state=optuna.trial.TrialState.COMPLETE if good else optuna.trial.TrialState.FAIL,
                params=trial["params"], distributions=self.space.distributions(trial["params"]),
                values=[trial["cost"], trial["accuracy"]] if good else None))
        return study

    def propose(self) -> dict:
        """The parameters of the next trial."""
        starts = self.space.starts()
        if len(self.trials) < len(starts):
            return starts[len(self.trials)]
        samplers = _optuna().samplers
        seed = self.seed + len(self.trials)
        study = self._study(samplers.TPESampler(seed=seed, n_startup_trials=12))
        params = self.space.suggest(study.ask())
        # Near its optimum the sampler proposes the same again and again. Then
        # what is left of the time goes to schedules that it passes over.
        known = {trial["key"] for trial in self.trials}
        study.sampler = samplers.RandomSampler(seed=seed)
        for _ in range(DRAWS):
            if digest(str(self.space.schedule(params))) not in known:
                break
            params = self.space.suggest(study.ask())
        return params

    def step(self) -> dict:
        """Makes one trial and records it."""
        begun = time.monotonic()
        params = self.propose()
        schedule = self.space.schedule(params)
        about = self.space.about(params)
        made = {"kind": "trial", "number": len(self.trials), "params": params, "about": about}
        key = digest(str(schedule))
        twin = next((t for t in self.trials if t["key"] == key), None)
        if twin is not None:
            made.update({k: twin[k] for k in ("state", "rungs", "cost", "accuracy", "low", "high")},
                        why=f"the same as trial {twin['number']}")
        else:
            try:
                made.update(self._climb(schedule))
            except HeddleError as error:  # the compiler, or the model at these lengths, refuses it
                if not self.trials:
                    raise  # dense: not the schedule is wrong
                if not isinstance(error, ScheduleError):
                    self._try_dense()
                made.update(state="refused", why=str(error).splitlines()[0], rungs=[], cost=None, accuracy=None,
                            low=None, high=None)
        made.update(key=key, schedule=str(schedule), seconds=time.monotonic() - begun, date=time.strftime("%Y-%m-%d"))
        self._append(made)
        self.trials.append(made)
        if self.on_trial:
            self.on_trial(made, self)
        return made

    def run(self, trials: Optional[int] = None, seconds: Optional[float] = None):
        """Goes on until there are so many trials, or so many seconds of trials, in all: what the file has counts.
        A trial that time ends is begun again, without what it has done, when there is more time."""
        if trials is None or trials > max(len(self.trials), len(self.space.starts())):
            _optuna()  # missing: said before the trials that need none
        spent = sum(t["seconds"] for t in self.trials)
        if seconds is not None:
            self.deadline = time.monotonic() + seconds - spent
        try:
            while trials is None or len(self.trials) < trials:
                if self.deadline is not None and time.monotonic() > self.deadline and self.trials:
                    break
                if not self.trials and self.deadline is not None:
                    deadline, self.deadline = self.deadline, None  # dense is run to its end: all is compared with it
                    self.step()
                    self.deadline = deadline
                    continue
                self.step()
        except OutOfTime:
            pass
        finally:
            self.deadline = None
        return self.best()

    def confirm(self, trial) -> Optional[dict]:
        """The trial's score on as many other examples, which no choice has seen: those behind the search's. Of a
        file that has fewer the rest counts; None if it has none."""
        plan = self._plan(self.space.schedule(trial["params"]), "full", skip=self.examples)
        return self._score("full", plan) if any(cell.examples for cell in plan.cells) else None


def tune(model, tasks, *, out=None, trials: Optional[int] = None, minutes: Optional[float] = None, device: str = "cpu",
         dtype=None, **settings):
    """Searches for the cheapest schedule whose accuracy stays above a floor; returns the Search, with `trials`,
    `best()` and, from front(search.trials), all that none dominates.

    model: a folder, or a heddle.Model. tasks: as heddle.evaluate takes them. trials, minutes: when to end, what `out` has
    included. settings: of Search: floor "dense-2" (points below dense) or percent; cost "estimate:h200",
    "estimate:h100", "estimate:cpu" or "measured"; cost_model, a folder whose config.json the estimate is for; examples, length,
    batch, seed, parts, axes, rungs, options of Model.generate. Raises HeddleError for what does not fit;
    KeyboardInterrupt leaves `out` good."""
    if trials is None and minutes is None:
        raise HeddleError("say when to end: trials, minutes or both")
    tasks = [tasks] if isinstance(tasks, str) else list(tasks)
    find(tasks)
    with models.opened(model, device, dtype) as model, Records(out, CHECKS) if out is not None else nullcontext() as file:
        search = Search(model, tasks, file, **settings)
        search.run(trials, None if minutes is None else 60 * minutes)
        return search
