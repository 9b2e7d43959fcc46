# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What notebooks show: the page of explain() for schedules and bundles, bars for runs."""

import html


def explained(schedule):
    """The explain page in a frame; None, so that repr() is shown, where the compiler is not
    there or refuses the schedule."""
    from .compiler import explain
    from .errors import HeddleError
    try:
        page = explain(schedule, format="html")
    except HeddleError:
        return None
    return (f'<iframe srcdoc="{html.escape(page)}" title="@{html.escape(schedule.name)}, explained" '
            'style="width: 100%; height: 36em; border: 0" loading="lazy"></iframe>')


class Bar:
    """A bar of a run's steps, by tqdm: in a notebook, and in a terminal."""

    def __init__(self):
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ImportError("progress=True draws with tqdm: pip install tqdm") from None
        self._tqdm, self._bar, self._tokens = tqdm, None, 0

    def show(self, step):
        """After each step: a heddle.Step."""
        if self._bar is None:
            self._bar = self._tqdm(total=step.total_steps, unit="step")
        self._bar.total = step.total_steps
        self._tokens += len(step.tokens) - 2 * int(step.revoked.sum())
        self._bar.set_postfix(tokens=self._tokens, refresh=False)
        self._bar.update(step.step - self._bar.n)

    def close(self):
        if self._bar is not None:
            self._bar.close()
