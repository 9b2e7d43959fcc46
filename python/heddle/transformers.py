# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Heddle's attention in models of PyTorch and Transformers.

patch(model, schedule, steps=...) has a model attend as a schedule says: the released
LLaDA and Dream classes (modeling_llada.py and modeling_dream.py, as
trust_remote_code loads them), and the bidirectional models of Transformers that take
attn_implementation. Importing this module registers "heddle" as such; a model that is
loaded with it and not patched attends to everything.

A model's forward pass is a step. Which rows a step computes, what is cached and which
tokens are committed stays the generating script's business: schedules that say so need
heddle.load()."""

from __future__ import annotations

import re
import threading
import types
from contextlib import AbstractContextManager
from typing import Optional

from .compiler import Bundle, canonical
from .errors import HeddleError
from .kernels import Attention, plan
from .schedule import _count, _kind, dense


class _Run(Attention):
    """A run that begins anew with the next forward pass when all steps are done, or when
    sequences of another shape come."""

    def __init__(self, schedule, steps, layers, gen_length, blocks):
        super().__init__(schedule, steps=steps, layers=layers, blocks=blocks)
        self.gen_length = gen_length
        self._thread = None

    def _attend(self, q, k, v, layer):
        thread = threading.get_ident()
        if layer and self._thread not in (None, thread):
            raise HeddleError("another thread began a step while this one's was under way: a patched model "
                              "counts the steps of one run, so run it in one thread at a time, or patch a copy "
                              "for each")
        if layer == 0:
            self._thread = thread
            shape = tuple(q.shape), q.dtype, q.device
            if self._step == self.steps or self._made_for and shape != self._shape or self._next:
                self.restart()
            if self._made_for is None:
                length = q.shape[1]
                if self.gen_length is not None and self.gen_length > length:
                    raise HeddleError(f"gen_length: {self.gen_length} is more than the "
                                      f"{length} tokens of a sequence")
                self.prompt = 0 if self.gen_length is None else length - self.gen_length
                self._shape = shape
        return super()._attend(q, k, v, layer)


def _rows(x):
    """[batch, heads, length, head_dim] as [batch, length, heads, head_dim], copied only if
    its memory is not so."""
    x = x.transpose(1, 2)
    fits = x.stride(3) == 1 and x.stride(2) == x.shape[3] and x.shape[2] * x.shape[3] <= x.stride(1)
    return x if fits else x.contiguous()


def _refuse(mask, q_length, k_length, dropout):
    if mask is not None and not isinstance(mask, str):
        raise HeddleError("an attention mask was given, and Heddle's attention takes none: give "
                          "prompts of one length, or one after the other, without padding")
    if q_length != k_length:
        raise HeddleError(f"{q_length} queries and {k_length} keys: Heddle's attention is of whole "
                          "sequences; call the model without past keys and values")
    if dropout:
        raise HeddleError("dropout is for training; call model.eval()")


#: What a model may say of a call and attention over all tokens is the same.
_NO_MATTER = frozenset(("position_ids", "cache_position", "use_cache", "output_hidden_states",
                        "output_router_logits", "return_dict", "num_items_in_batch",
                        "deterministic", "target_dtype"))


def _refuse_window(window, length):
    """A window at least as long as the sequence leaves nothing out."""
    if length > window:
        raise HeddleError(f"the model attends within a window of its own ({window}), and the sequence has {length} tokens: "
                          "Heddle's attention would see them all; give shorter sequences, or call "
                          "heddle.attention(q, k, v, heddle.window(...)) in such layers")


def _refuse_others(module, length, given):
    """Refuses what changes the result and Heddle's attention does not know."""
    for name, value in given.items():
        if value is None or value is False or name in _NO_MATTER:
            continue
        if name == "sliding_window":
            _refuse_window(value, length)
        elif name == "output_attentions":
            raise HeddleError("output_attentions: there are none to be seen")
        else:
            raise HeddleError(f"{type(module).__name__} attends with {name}, which Heddle's attention does "
                              "not know; use the model's own attention")


def _through(run, layer, q, k, v):
    return run(q, k, v, layer) if run is not None else plan(dense)(q, k, v)


def _llada(block, run, layer):
    """The attention of a LLaDABlock: q [batch, heads, length, head_dim], k and v with as
    many heads or fewer."""
    def scaled_dot_product_attention(self, q, k, v, attn_mask=None, dropout_p=0.0,
                                     is_causal=False):
        _refuse(attn_mask, q.shape[2], k.shape[2], dropout_p)
        return _through(run, layer, _rows(q), _rows(k), _rows(v)).transpose(1, 2)
    return "_scaled_dot_product_attention", scaled_dot_product_attention


def _rotated(x, cos, sin):
    """Rotate-half RoPE of [batch, length, heads, head_dim]; cos, sin [batch, length, 1,
    head_dim]."""
    half = x.shape[-1] // 2
    import torch
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def _dream(attention, run, layer):
    """The forward pass of a DreamAttention: hidden_states [batch, length, hidden]."""
    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_value=None,
                output_attentions=False, use_cache=False, cache_position=None,
                position_embeddings=None, **others):
        batch, length, _ = hidden_states.shape
        _refuse_others(self, length, {"output_attentions": output_attentions, **others})
        if past_key_value is not None:
            raise HeddleError("keys and values of other calls were given; call the model with "
                              "use_cache=False")
        _refuse(attention_mask, length, length, self.attention_dropout if self.training else 0)
        q, k, v = (project(hidden_states).view(batch, length, -1, self.head_dim)
                   for project in (self.q_proj, self.k_proj, self.v_proj))
        cos, sin = position_embeddings if position_embeddings is not None else \
            self.rotary_emb(v, position_ids)
        cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
        made = _through(run, layer, _rotated(q, cos, sin), _rotated(k, cos, sin), v)
        return self.o_proj(made.reshape(batch, length, -1)), None, None
    return "forward", forward


def _interface(module, query, key, value, attention_mask=None, scaling=None, dropout=0.0,
               is_causal=None, **others):
    """What Transformers calls: query [batch, heads, length, head_dim]; the output is
    [batch, length, heads, head_dim]."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if causal:
        raise HeddleError(f"{type(module).__name__} attends causally, and Heddle is for models "
                          "that attend in both directions")
    if scaling is not None and abs(scaling * query.shape[-1] ** 0.5 - 1) > 1e-6:
        raise HeddleError(f"{type(module).__name__} scales logits by {scaling}; Heddle's attention "
                          "by 1 / sqrt(head_dim)")
    _refuse(attention_mask, query.shape[2], key.shape[2], dropout)
    _refuse_others(module, key.shape[2], others)
    run = getattr(module, "_heddle", None)
    run, layer = run if run is not None else (None, 0)
    return _through(run, layer, _rows(query), _rows(key), _rows(value)), None


def _mask(*_, mask_function=None, attention_mask=None, kv_length=0, local_size=None,
          allow_is_bidirectional_skip=False, **__):
    """What Transformers calls for a mask; there is none. mask_function says which keys a query sees;
    allow_is_bidirectional_skip that a model added nothing of its own to it."""
    from transformers import masking_utils
    if attention_mask is not None and not attention_mask.all():
        _refuse(attention_mask, 0, 0, 0)
    if local_size is not None:
        _refuse_window(local_size, kv_length)
    everything = getattr(masking_utils, "bidirectional_mask_function", None)
    if mask_function is not everything and (local_size is None or not allow_is_bidirectional_skip):
        raise HeddleError("the model attends causally, or by a mask of its own, and Heddle is for models "
                          "that attend in both directions to every token")


def _register():
    try:
        from transformers import AttentionInterface
    except ImportError:  # PyTorch models alone
        return
    AttentionInterface.register("heddle", _interface)
    try:
        from transformers.masking_utils import AttentionMaskInterface
    except ImportError:  # Transformers before 4.53
        return
    AttentionMaskInterface.register("heddle", _mask)


_register()


class Patch(AbstractContextManager):
    """A patched model: made by patch(). `with` removes it at the end."""

    def __init__(self, model, run, undo):
        self.model, self.run, self._undo = model, run, undo

    @property
    def step(self) -> int:
        """The step at hand, from 1; 0 before the first forward pass."""
        return self.run.step

    def restart(self) -> None:
        """The next forward pass is step 1: needed when a run ended early, or after passes
        that were no steps."""
        self.run.restart()

    def remove(self) -> None:
        """Gives the model its own attention back."""
        undo, self._undo = self._undo, []
        for each in reversed(undo):
            each()

    def __exit__(self, *_):
        self.remove()

    def __reduce__(self):
        raise TypeError("a patched model is neither copied nor pickled: both would count the steps of "
                        "one run; remove() the patch before, and patch the copy")

    def __repr__(self):
        return (f"<heddle.Patch of {type(self.model).__name__}, {self.run.layers} layers, step "
                f"{self.step} of {self.run.steps}>")


def _attentions(model):
    """(modules in the order of layers, what makes their methods)."""
    modules = list(model.modules())
    found = [m for m in modules if hasattr(m, "_scaled_dot_product_attention")
             and hasattr(m, "attn_out")]
    if found:
        return sorted(found, key=lambda m: getattr(m, "layer_id", 0)), _llada
    found = [m for m in modules if type(m).__name__.startswith("Dream")
             and all(hasattr(m, name) for name in ("q_proj", "k_proj", "v_proj", "o_proj"))]
    if found:
        return found, _dream
    found = [m for m in modules if getattr(m, "layer_idx", None) is not None
             and hasattr(m, "is_causal")]
    if found and hasattr(model, "set_attn_implementation"):
        return found, None
    raise HeddleError(f"{type(model).__name__} has no attention that can be patched: LLaDA's and "
                      "Dream's released classes have, and the models of Transformers that take "
                      "attn_implementation; elsewhere call heddle.attention")


def _refuse_programs(text):
    """Refuses a schedule's text that says more than which pairs attention computes."""
    said = re.search(r"(?m)(?<![%@\w.])(visible|recompute|reuse|commit(?!\s+quota\s*$))\b", text)
    if said:
        raise HeddleError(f"the schedule has a '{said[1]}' statement, which needs a model that heddle.load() made: "
                          "a patched model keeps its own rows, caches and commits; patch() takes schedules of "
                          "nothing but attend statements")
    if re.search(r"\bcadence\s+drift\b", text):
        raise HeddleError("the schedule refreshes by drift, which is measured in runs and needs a model that heddle.load() "
                          "made; patch() takes schedules whose steps are known before")
    if re.search(r"\bselect\b[^\n]*\b(of|always)\s+%", text):
        raise HeddleError("the schedule has a selection by a set of positions, which needs a model that heddle.load() made; "
                          "patch() takes selections without `of` and `always`")


def _replaced(module, name, function):
    setattr(module, name, types.MethodType(function, module))
    return lambda: delattr(module, name)


def patch(model, schedule, *, steps: int, gen_length: Optional[int] = None,
          block_length: Optional[int] = None) -> Patch:
    """Has a model attend as a schedule says, from the next forward pass on.

    model: LLaDAModelLM or DreamModel as released, or a bidirectional model of Transformers
    that takes attn_implementation; on any device, in f32 or bf16 on the host, bf16 or f16
    on a GPU. schedule: statements of attend() (also a preset of such), MLIR text, or a
    Bundle. steps: forward passes of a run, as the generating script has it; the one after
    them is step 1 of the next. gen_length: tokens of the response, for schedules that tell
    it from the prompt. block_length: for cadences in a block, steps being shared equally
    among gen_length / block_length blocks.

    Everything else about the model stays as it is, torch.compile included. Raises
    HeddleError for a model that is none of these and for a schedule of more than attend statements,
    ScheduleError for one that the compiler refuses; at the forward pass HeddleError for padding masks,
    past keys and values, the model's own windows if a sequence is longer, sinks and soft caps, for two
    threads at once, and for shapes and types that attention() refuses.

        import heddle
        heddle.patch(model, heddle.preset("pulsecol"), steps=128)
    """
    if not callable(getattr(model, "modules", None)):
        raise TypeError(f"model: expected a model of PyTorch's, found {type(model).__name__}")
    blocks = 1
    if gen_length is not None:
        gen_length = _count(gen_length, "gen_length")
        if gen_length < 1:
            raise ValueError(f"gen_length: expected 1 or more, found {gen_length}")
    if block_length is not None:
        if gen_length is None or _kind(block_length, int, "block_length", "a whole number") < 1 \
                or gen_length % block_length:
            raise ValueError(f"block_length: {block_length} takes a gen_length that is a multiple")
        blocks = gen_length // block_length
    modules, make = _attentions(model)
    run = _Run(schedule, steps, len(modules), gen_length, blocks)
    # What is refused is said here, not in a forward pass.
    _refuse_programs(schedule.source if isinstance(schedule, Bundle) else canonical(schedule))
    if hasattr(model, "_heddle_patch"):  # which stays where this one is refused
        model._heddle_patch.remove()
    undo = []
    for layer, module in enumerate(modules):
        if make is not None:
            undo.append(_replaced(module, *make(module, run, layer)))
        else:
            module._heddle = run, layer
            undo.append(lambda module=module: delattr(module, "_heddle"))
    if make is None:
        before = model.config._attn_implementation
        model.set_attn_implementation("heddle")
        undo.append(lambda: model.set_attn_implementation(before))
    made = Patch(model, run, undo)
    model._heddle_patch = made
    undo.append(lambda: delattr(model, "_heddle_patch"))
    return made
