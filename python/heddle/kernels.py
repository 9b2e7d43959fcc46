# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as a function of tensors.

Tensors are NumPy arrays, PyTorch tensors or whatever else has __dlpack__, in the
host's memory, [length, heads, head_dim] or [batch, length, heads, head_dim], f32 or
bf16. They are read where they are: the head_dim elements of a head and the heads of a
row are contiguous, rows may be apart, sequences of a batch follow each other. For a
PyTorch tensor [batch, heads, length, head_dim] that is its transpose(1, 2), if it was
made so."""

from __future__ import annotations

import functools
import sys
from typing import Optional

from .compiler import Bundle, compile, dtype_name
from .scores import trace
from .schedule import Pairs, Schedule, Source, _kind, attend, dense, every


@functools.lru_cache(maxsize=64)
def _compiled(text: str, head_dim: int, dtype: str) -> Bundle:
    return compile(Source(text), head_dim=head_dim, dtype=dtype)


def _shape(q, k, v):
    """(sequences, length, query heads, kv heads, head dim) of three tensors."""
    shapes = []
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not hasattr(tensor, "__dlpack__") or not hasattr(tensor, "shape"):
            raise TypeError(f"{name}: expected an array or tensor with __dlpack__, found "
                            f"{type(tensor).__name__}")
        shape = tuple(int(n) for n in tensor.shape)
        if len(shape) not in (3, 4) or 0 in shape:
            raise ValueError(f"{name}: expected [length, heads, head_dim] or [batch, length, heads,"
                             f" head_dim], none of them 0, found {list(shape)}")
        shapes.append(shape)
        if getattr(tensor, "requires_grad", False) and sys.modules["torch"].is_grad_enabled():
            raise ValueError(f"{name}: requires a gradient, and there is none of this attention; "
                             "call it under torch.no_grad(), or on detach()ed tensors")
    a, b, c = shapes
    if b != c or a[:-2] != b[:-2] or a[-1] != b[-1] or a[-2] % b[-2]:
        raise ValueError(f"q {list(a)}, k {list(b)} and v {list(c)} do not go together: all but "
                         "heads are the same, and q has as many heads as k and v or a multiple")
    return (1 if len(a) == 3 else a[0]), a[-3], a[-2], b[-2], a[-1]


def _empty_like(q):
    if hasattr(q, "new_empty"):  # PyTorch
        return q.new_empty(tuple(q.shape))
    import numpy as np
    return np.empty(tuple(q.shape), dtype=q.dtype if isinstance(q, np.ndarray) else str(q.dtype))


class Attention:
    """The attention of a schedule over the steps of a run: selections are made at the
    steps that the schedule says, and read in between.

    schedule: statements of attend(), or MLIR text. steps: of the run. layers: of the
    model. prompt: positions of it, for blocks that isolate it. Called with q, k (both
    after RoPE) and v of a layer, layer by layer; layer 0 begins a step. The first call
    fixes shapes and dtype. Every row attends to every kept key: there is no causal
    mask."""

    def __init__(self, schedule, *, steps: int = 1, layers: int = 1, prompt: int = 0):
        if isinstance(schedule, str):
            schedule = Source(schedule)
        _kind(schedule, Schedule, "schedule", "a heddle.Schedule or MLIR text")
        for name, value, least in (("steps", steps, 1), ("layers", layers, 1),
                                   ("prompt", prompt, 0)):
            if _kind(value, int, name, "a whole number") < least:
                raise ValueError(f"{name}: {value} is less than {least}")
        self.schedule, self.steps, self.layers, self.prompt = schedule, steps, layers, prompt
        self._native = None
        self._made_for = None

    def __call__(self, q, k, v, layer: int = 0):
        """softmax(q k^T / sqrt(head_dim)) v over the schedule's pairs, like q."""
        return self._attend(q, k, v, layer, once=False)

    def _attend(self, q, k, v, layer, once):
        shape = _shape(q, k, v)
        dtype = dtype_name(q.dtype)
        _kind(layer, int, "layer", "a whole number")
        if self._native is None:
            from . import _heddle
            sequences, length, heads, kv_heads, head_dim = shape
            if self.prompt > length:
                raise ValueError(f"prompt: {self.prompt} is more than the length, {length}")
            bundle = _compiled(str(self.schedule), head_dim, dtype)
            self._native = _heddle.Attention(
                bundle._native, sequences, length, self.prompt, heads, kv_heads, head_dim,
                self.layers, self.steps, dtype)
            self._made_for = shape, dtype
        if self._made_for != (shape, dtype):
            raise ValueError(f"the run is of {list(self._made_for[0])} (batch, length, heads, k/v "
                             f"heads, head dim) in {self._made_for[1]}; found {list(shape)} in "
                             f"{dtype}")
        out = _empty_like(q)
        self._native.attend(q, k, v, out, layer, once)
        return out

    @property
    def step(self) -> int:
        """The step at hand, from 1; 0 before the first."""
        return self._native.step if self._native is not None else 0

    def restart(self) -> None:
        """Begins the run anew: no selection is made yet."""
        if self._native is not None:
            self._native.restart()


@functools.lru_cache(maxsize=64)
def _once(pairs, scores, prompt, shape, dtype) -> Attention:
    at_once = {"refresh": every(1), "at_once": True} if pairs._unrefreshed() else {}
    return Attention(attend(pairs, scores=scores, **at_once), prompt=prompt)


def attention(q, k, v, pairs: Pairs = dense, *, scores=None, prompt: Optional[int] = None):
    """softmax(q k^T / sqrt(head_dim)) v over `pairs`; a selection among them is made
    from these q and k, then attended over.

    q: [batch, length, heads, head_dim] or without batch, f32 or bf16, in the host's
    memory; k, v: the same with as many heads or a divisor. scores: a function of
    logits, as attend() takes it. prompt: its positions. Returns a tensor like q.
    The first call for a set of pairs, head dim and dtype compiles its kernel. Every row
    attends to every kept key: there is no causal mask. Heddle's attend() on more steps:
    heddle.Attention."""
    _kind(pairs, Pairs, "pairs", "a set of pairs, such as columns(...) | window(128)")
    selections = getattr(pairs, "parts", (pairs,))
    if any(getattr(part, "on", None) is not None for part in selections):
        raise ValueError("pairs: a selection with on= is of a run with steps: heddle.Attention")
    if callable(scores):
        scores = trace(scores)
    once = _once(pairs, scores, prompt or 0, _shape(q, k, v), dtype_name(q.dtype))
    return once._attend(q, k, v, 0, once=True)
