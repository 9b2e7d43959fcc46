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


#: The most bars that a picture has: those of longer runs are of several steps.
_MOST_BARS = 256


def _sums(values, each):
    """The sums of each `each` values."""
    return [sum(values[i:i + each]) for i in range(0, len(values), each)]


def _timeline(made):
    """An SVG of a run's steps: bars of tokens up, of those that were made masks again down, a mark under a bar where
    lists were selected anew."""
    steps = len(made.timeline["committed"])
    each = max(1, -(-steps // _MOST_BARS))
    committed, revoked, edited, refreshes = (_sums(made.timeline[name].tolist(), each)
                                             for name in ("committed", "revoked", "edited", "refreshes"))
    up, down = max(committed, default=0), max(revoked, default=0)
    unit, width = 56 / max(1, up + down), 640 / max(1, len(committed))
    drawn, base = [], up * unit
    for i, (tokens, masks, others, lists) in enumerate(zip(committed, revoked, edited, refreshes)):
        first, last = i * each + 1, min((i + 1) * each, steps)
        said = f"step {first}" if first == last else f"steps {first} to {last}"
        said += f": {tokens} committed" + (f", {masks} revoked" if masks else "") + (f", {others} edited" if others else "") \
            + (f", {lists} lists refreshed" if lists else "")
        x, wide = f"{i * width:.2f}", f"{0.8 * width:.2f}"
        parts = [(base - tokens * unit, tokens * unit, "committed", 0.6), (base, masks * unit, "revoked", 0.3),
                 (60, 4 if lists else 0, "refreshed", 1)]
        bars = "".join(f'<rect class="{kind}" x="{x}" y="{y:.2f}" width="{wide}" height="{height:.2f}" '
                       f'fill="currentColor" opacity="{opacity}"/>' for y, height, kind, opacity in parts if height)
        drawn.append(f"<g><title>{said}</title>{bars}</g>")
    about = f"{sum(committed) - sum(revoked)} tokens in {made.steps} steps, {made.seconds:.2f} s"
    refreshing = int((made.timeline["refreshes"] > 0).sum())
    if refreshing:
        about += f"; lists refreshed in {refreshing} of them (marks)"
    if each > 1:
        about += f"; a bar is of {each} steps"
    if not made.complete:
        about += "; not complete"
    return (f'<figure style="margin: 0"><svg role="img" aria-label="{about}" viewBox="0 0 640 64" width="640" height="64" '
            f'style="max-width: 100%">{"".join(drawn)}</svg><figcaption>{about}</figcaption></figure>')


def generated(made):
    """A heddle.Generation: its timeline, and how the texts begin."""
    texts = "".join(f"<li>{html.escape(text if len(text) <= 400 else text[:400] + '...')}</li>" for text in made.texts[:8])
    more = f"<p>and {len(made.texts) - 8} more</p>" if len(made.texts) > 8 else ""
    return f'{_timeline(made)}<ol start="0" style="white-space: pre-wrap">{texts}</ol>{more}'


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
        self._tokens += len(step.tokens) - 2 * int(step.revoked.sum()) - int(step.edited.sum())
        self._bar.set_postfix(tokens=self._tokens, refresh=False)
        self._bar.update(step.step - self._bar.n)

    def close(self):
        if self._bar is not None:
            self._bar.close()
