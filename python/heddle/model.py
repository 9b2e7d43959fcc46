# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that generate."""

from __future__ import annotations

import os
import queue
import threading
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Callable, Iterator, Optional

from .compiler import Bundle, dtype_name

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Step:
    """What one step did, made by Model.stream() and for on_step: one forward pass. Arrays are [commits], by sequence, then
    in the order of positions; of several steps that a schedule with `verify` makes at once, one after the other."""
    step: int  #: from 1
    total_steps: int  #: as planned, or `step` when that is more
    block: int  #: from 0; of the hindmost sequence
    sequences: np.ndarray  #: int64: index into the prompts
    positions: np.ndarray  #: int64: in the sequence, prompt included
    tokens: np.ndarray  #: int32
    #: uint8: 1 where `revoke` made a mask again of what an earlier step committed: the token is then the mask, and the
    #: confidence the probability of what was there
    revoked: np.ndarray
    #: uint8: 1 where `edit` put the token in the place of another one, which an earlier step had committed
    edited: np.ndarray
    #: float64: the token's probability, in [0, 1]. With alg="topk_margin" the difference of the two largest
    #: probabilities, in [0, 1]; with alg="entropy" and commits by
    #: entropy the negative entropy in nats, at most 0; with remasking="random" a random number in (0, 1)
    confidences: np.ndarray
    #: int64: the step of its sequence, from 1, that made each commit: `step`, unless drafts are verified (`verify`)
    steps: np.ndarray
    rows: int  #: of the forward pass
    pairs: int  #: (query, key) pairs of attention, all layers and heads
    dense_pairs: int  #: that dense attention over all rows computes
    operations: float  #: floating-point, of all products and attention
    refreshes: int  #: index lists that were selected anew, of all layers and sequences
    salient_rows: list  #: [layers]: rows that each found to have changed; empty where the step looks for none
    #: [sequences x layers]: with cadences by drift() the mean similarity that the step before found in each of their
    #: layers, from the first on, by which this one goes, in [-1, 1], None where it compared nothing; else empty
    similarity: list
    #: with `verify` for each sequence that was not done (sequence, copies in the pass, steps made of it); else empty
    verified: list
    seconds: float  #: by the clock


@dataclass(frozen=True, repr=False)
class Generation:
    """A run's result, a sequence a prompt; made by Model.generate()."""
    sequences: list  #: int32 arrays [prompt + response]
    responses: list  #: int32 arrays [response], views of `sequences`
    texts: list  #: of the responses, up to end of sequence, as heddle-run prints them
    steps: int  #: that were done, one forward pass each
    complete: bool  #: False when a callback ended the run
    seconds: float  #: of its steps
    #: arrays [steps]: "committed", "revoked" and "edited" (tokens), "rows" (of the forward pass), "refreshes" (index lists selected
    #: anew), int64, and "seconds", float64
    timeline: dict

    def __repr__(self):
        """What it is of, and how the texts begin."""
        texts = ", ".join(repr(text if len(text) <= 40 else text[:40] + "...") for text in self.texts[:3])
        more = f" and {len(self.texts) - 3} more" if len(self.texts) > 3 else ""
        return (f"<heddle.Generation {texts}{more}; {self.steps} steps in {self.seconds:.2f} s"
                f"{'' if self.complete else ', not complete'}>")

    def _repr_html_(self):
        """The texts, over a picture of the timeline."""
        from .notebooks import generated
        return generated(self)


def _unicode(text, what):
    """The text; ValueError for one that is not Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what}: not Unicode at character {error.start}: half of a surrogate pair") from None
    return text


def _token_ids(value, what):
    """Token ids as a list of ints; a str as it is. `what`: the name in errors."""
    import numpy as np
    if isinstance(value, str):
        return _unicode(value, what)
    if isinstance(value, (bytes, dict, set)) or not hasattr(value, "__len__"):
        raise TypeError(f"{what}: expected a str or token ids, found {value!r}")
    ids = np.asarray(value)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise TypeError(f"{what}: expected token ids, whole numbers [tokens], found "
                        f"{ids.dtype} {list(ids.shape)}")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < 2**31:
        raise ValueError(f"{what}: token ids are from 0 to 2**31 - 1")
    return ids.tolist()


def _prompts(prompts):
    """One prompt or several, as a list of str and of lists of ints."""
    import numpy as np

    def is_ids(value):
        return not isinstance(value, (list, tuple)) or \
            all(isinstance(i, (int, np.integer)) for i in value)

    def one(value, index):
        return _token_ids(value, f"prompt {index}")

    if isinstance(prompts, str):
        return [one(prompts, 0)]
    if not hasattr(prompts, "__len__"):
        raise TypeError(f"prompts: expected a str, token ids or a list of them, found {prompts!r}")
    if isinstance(prompts, (list, tuple)):
        if len(prompts) and not is_ids(prompts):
            return [one(prompt, i) for i, prompt in enumerate(prompts)]
        return [one(prompts, 0)] if len(prompts) else []
    if getattr(prompts, "ndim", 1) == 2:
        return [one(prompts[i], i) for i in range(len(prompts))]
    return [one(prompts, 0)]


def _messages(messages):
    """[(role, content)] of a conversation."""
    if not isinstance(messages, (list, tuple)) or not messages:
        raise ValueError(f"messages: expected a list of messages, found {messages!r:.60}")
    made = []
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise ValueError(f"message {i}: expected an object with role and content, found {message!r:.60}")
        role, content = message.get("role"), message.get("content")
        if role not in ("system", "user", "assistant"):
            raise ValueError(f"message {i}: expected the role system, user or assistant, found {role!r:.60}")
        if not isinstance(content, str):
            raise ValueError(f"message {i}: expected a string as content, found {content!r:.60}")
        made.append((role, _unicode(content, f"message {i}")))
    return made


class Model(AbstractContextManager):
    """A model on a device, made by load(). Calls from several threads are fine: runs
    of one model come one after the other; the GIL is free while they compute."""

    def __init__(self, native, folder, device):
        self._native = native
        self.folder = folder
        self.device = device

    def generate(self, prompts, bundle: Bundle, *,
                 on_step: Optional[Callable[[Step], Optional[bool]]] = None,
                 progress: bool = False, **options) -> Generation:
        """Generates a response to each prompt.

        prompts: a str, token ids (ints, or an array [tokens] of an integer dtype), or a
        list of these: one ragged batch, in which no sequence's tokens depend on the
        others. on_step: called with a Step after each; False ends the run. progress: draws a
        bar of the steps (tqdm).

        Options, as heddle-run has them: gen_length and block_length (tokens), steps, temperature (0: the
        most probable token), seed (below 2**64), commit_order (the response's positions, from 0, in the order in
        which a schedule with `commit random_order` commits them), chat, system, raw; for models sampled in blocks
        remasking, cfg_scale, logits_eos_inf, confidence_eos_eot_inf; by timesteps alg, alg_temp, eps, top_p,
        top_k; eot_id.

        Same seed, bundle and device: the same tokens, whatever the batch. Ctrl-C ends
        it after the current step with KeyboardInterrupt. Raises HeddleError when the
        bundle, the prompts or the lengths do not fit the model, TypeError for arguments of other kinds and options
        that there are not, ValueError for token ids and texts that are none. Source: LLaDA (Nie et al., 2025) and
        Dream (Ye et al., 2025) as released, but for ties, where the lowest index wins."""
        if not isinstance(bundle, Bundle):
            raise TypeError(f"bundle: expected a heddle.Bundle (heddle.compile makes one), found "
                            f"{bundle!r}")
        if on_step is not None and not callable(on_step):
            raise TypeError(f"on_step: {on_step!r} cannot be called")
        import numpy as np
        ids = _prompts(prompts)
        given = {name: value for name, value in options.items() if value is not None}
        bar = None
        if progress:
            from .notebooks import Bar
            bar = Bar()

        def observer(fields):
            step = Step(**fields)
            if bar is not None:
                bar.show(step)
            answer = on_step(step) if on_step is not None else None
            return bool(answer) if isinstance(answer, np.bool_) else answer
        watched = bar is not None or on_step is not None
        try:
            made = self._native.generate(bundle._native, ids, given, observer if watched else None)
        finally:
            if bar is not None:
                bar.close()
        lengths = made.pop("prompt_lengths")
        responses = [s[n:] for s, n in zip(made["sequences"], lengths)]
        return Generation(responses=responses, **made)

    def stream(self, prompts, bundle: Bundle, **options) -> Iterator[Step]:
        """The steps of generate(), whose arguments and errors these are (prompts, bundle, options), one by one, while the
        run goes on in a thread of its own. To leave the loop ends the run. The generator's value is the Generation.
        Raises TypeError for on_step, as the loop sees the steps."""
        if "on_step" in options:
            raise TypeError("on_step: is of generate(); stream() yields the steps")
        return self._steps(prompts, bundle, options)

    def _steps(self, prompts, bundle, options):
        steps, stopped, end = queue.SimpleQueue(), threading.Event(), object()
        outcome = {}

        def on_step(step):
            steps.put(step)
            return not stopped.is_set()

        def work():
            try:
                outcome["made"] = self.generate(prompts, bundle, on_step=on_step, **options)
            except BaseException as error:  # raised where the steps are read
                outcome["error"] = error
            steps.put(end)

        thread = threading.Thread(target=work, name="heddle-stream", daemon=True)
        thread.start()
        try:
            while (step := steps.get()) is not end:
                yield step
        finally:
            stopped.set()
            thread.join()
        if "error" in outcome:
            raise outcome["error"]
        return outcome["made"]

    def encode(self, text: str) -> np.ndarray:
        """The token ids of a text, int32 [tokens]. Special tokens in it are read as such. Raises HeddleError where the
        model's folder has no tokenizer."""
        if not isinstance(text, str):
            raise TypeError(f"text: expected a str, found {text!r}")
        return self._native.encode(_token_ids(text, "text"))

    def decode(self, ids, skip_special: bool = True) -> str:
        """The text of token ids [tokens], ints or an array of an integer dtype, each from 0 to the vocabulary's size less 1 (config["vocabulary"]).
        skip_special: leave out end-of-text, mask and the like. Raises TypeError for what are no ids, HeddleError where
        the model's folder has no tokenizer."""
        if isinstance(ids, str):
            raise TypeError(f"ids: expected token ids, found {ids!r}")
        return self._native.decode(_token_ids(ids, "ids"), bool(skip_special))

    def chat_text(self, messages) -> str:
        """A conversation in the model's chat template, up to the header of the answer:
        the text of a prompt. messages: [{"role": "system", "user" or "assistant",
        "content": str}]. Raises ValueError for anything else."""
        return self._native.chat_text(_messages(messages))

    @property
    def config(self) -> dict:
        """The model's shape: architecture, layers, head_dim, vocabulary..."""
        return self._native.config

    @property
    def dtype(self) -> str:
        """What it computes in: "f32", "bf16" or "f16"."""
        return self._native.dtype

    @property
    def machine(self) -> str:
        """What it computes on, by name: a GPU, or the host's CPU, its threads, matrix library and instructions."""
        return self._native.description

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights in memory."""
        return self._native.weight_bytes

    def close(self) -> None:
        """Frees the model's memory; a run in another thread ends first. HeddleError in a callback
        of the model's own run and in a forked process."""
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._native.closed

    def __reduce__(self):
        raise TypeError("a model is memory of its process and is neither copied nor pickled; load it where it is needed: "
                        f"heddle.load({self.folder!r}, device={self.device!r})")

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        c = self.config
        return (f"<heddle.Model {self.folder}: {c['architecture']}, {c['layers']} layers, "
                f"{self.dtype} on {self._native.description}{', closed' if self.closed else ''}>")


@contextmanager
def opened(model, device="cpu", dtype=None):
    """A model, or that of a folder, which is closed at the end."""
    with nullcontext(model) if isinstance(model, Model) else load(model, device=device, dtype=dtype) as found:
        yield found


def load(folder, *, device: str = "cpu", dtype=None) -> Model:
    """Loads a model's folder as it was downloaded (config.json, safetensors,
    tokenizer).

    device: "cpu", "cuda" or "cuda:N". dtype: what it computes in, "f32", "bf16" or "f16" (GPUs alone), or NumPy's
    or PyTorch's, by default that of the weights. Raises HeddleError when files are missing or wrong,
    when there is no such device or too little memory; TypeError for a device that is no str, ValueError for a dtype
    that is none of these."""
    from . import _heddle
    if not isinstance(device, str):
        raise TypeError(f"device: expected 'cpu', 'cuda' or 'cuda:N', found {device!r}")
    folder = os.fsdecode(folder)
    if "\0" in folder:
        raise ValueError(f"folder: no path has a NUL: {folder!r}")
    name = None if dtype is None else dtype_name(dtype)
    return Model(_heddle.load(folder, device, name), folder, device)


def set_threads(threads: int) -> None:
    """How many threads all models on the host have, 0 for one a core. Before the first load();
    HeddleError after it. TypeError for what is no whole number."""
    from . import _heddle
    if not isinstance(threads, Integral) or isinstance(threads, bool) or abs(threads) >= 2**31:
        raise TypeError(f"threads: expected a whole number below 2**31, found {threads!r}")
    _heddle.set_threads(int(threads))
