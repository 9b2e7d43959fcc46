# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A loaded model that answers requests as they come, several in one run."""

import collections
import logging
import threading

from ..errors import HeddleError
from .answers import Answer


class Job:
    """A request on its way. deliver: called in the engine's thread with (new text, finish) or
    with an exception, which is the last."""

    def __init__(self, ids, options, answer, deliver):
        self.ids, self.options, self.answer, self.deliver = ids, options, answer, deliver
        self.cancelled = False

    @property
    def live(self):
        return not self.cancelled and self.answer.finish is None

    def cancel(self):
        """Ends the run after its current step, if no other request is in it."""
        self.cancelled = True


class Engine:
    """Runs come one after the other. What waits when one begins and has the same options goes
    along, up to `batch` sequences: no sequence's tokens depend on the others. A run ends as
    soon as every answer in it has ended or is wanted no longer."""

    def __init__(self, model, bundle, batch=8):
        self.model, self.bundle, self.batch = model, bundle, batch
        config = model.config
        self._ends = [t for t in (config["eos_token"], config["end_of_turn_token"]) if t >= 0]
        self._mask = config["mask_token"]
        self._waiting = collections.deque()
        self._changed = threading.Condition()
        self._closed = False
        self.runs = self.steps = 0
        self._thread = threading.Thread(target=self._work, name="heddle-engine", daemon=True)
        self._thread.start()

    def submit(self, ids, options, limit, stop, deliver) -> Job:
        """ids: of the prompt [tokens]. options: of Model.generate. limit: of tokens. stop:
        strings."""
        answer = Answer(self.model.decode, len(ids), limit, self._ends, self._mask, stop)
        job = Job(ids, options, answer, deliver)
        with self._changed:
            if self._closed:
                raise HeddleError("the model is being shut down")
            self._waiting.append(job)
            self._changed.notify()
        return job

    def _next(self):
        """The jobs of the next run, [] when closed."""
        with self._changed:
            while True:
                if self._closed:
                    return []
                alive = [job for job in self._waiting if job.live]
                if alive:
                    jobs = [job for job in alive if job.options == alive[0].options][:self.batch]
                    self._waiting = collections.deque(job for job in alive if job not in jobs)
                    return jobs
                self._waiting.clear()
                self._changed.wait()

    def _work(self):
        while jobs := self._next():
            try:
                self._run(jobs)
            except Exception as error:
                if len(jobs) > 1:  # it may be one's fault, or the batch's size
                    for job in jobs:
                        self._alone(job)
                elif jobs[0].live:
                    self._fail(jobs[0], error)

    def _alone(self, job):
        try:
            if job.live and not job.answer.text:
                self._run([job])
            elif job.live:
                self._fail(job, HeddleError("the run failed in the middle of the answer"))
        except Exception as error:
            self._fail(job, error)

    @staticmethod
    def _fail(job, error):
        if job.live:
            Engine._tell(job, error)
            job.cancelled = True

    @staticmethod
    def _tell(job, what):
        try:
            job.deliver(what)
        except Exception:  # who asked is gone
            logging.getLogger(__name__).exception("an answer could not be delivered")
            job.cancelled = True

    def _take(self, job, *commits):
        if job.live:
            new = job.answer.commit(*commits)
            if new or job.answer.finish:
                self._tell(job, (new, job.answer.finish))

    def _run(self, jobs):
        options = jobs[0].options
        # Tokens of a block that is being decoded may become others, or masks again.
        held = self.bundle.revokes or self.bundle.edits
        block = options.get("block_length", 0)

        def on_step(step):
            self.steps += 1
            settled = step.block * block if held else None
            for i, job in enumerate(jobs):
                own = step.sequences == i
                self._take(job, step.positions[own], step.tokens[own], settled)
            return not self._closed and any(job.live for job in jobs)

        self.runs += 1
        whole = self.model.generate([job.ids for job in jobs], self.bundle, on_step=on_step, **options).complete
        for job in jobs:
            if held and whole:
                self._take(job, (), ())
            self._fail(job, HeddleError("the model is being shut down" if self._closed else
                                        "the run ended before the answer did"))

    def close(self):
        """Ends the run after its current step; what waits fails."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, collections.deque()
            self._changed.notify()
        for job in waiting:
            self._fail(job, HeddleError("the model is being shut down"))
        if threading.current_thread() is not self._thread:
            self._thread.join()
