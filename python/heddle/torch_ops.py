# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.ops.heddle: attention as operations that torch.compile, torch.export and
PyTorch's profiler know. Plans and runs go by their keys, which are words: a compiled
program that PyTorch keeps on disk names a plan by what it computes.

  attention(q, k, v, plan) -> output    select(q, k, k, plan) -> lists
  attend(q, k, v, lists, plan) -> output    step(q, k, v, run, layer) -> output

All but `step` compute from their arguments alone, so CUDA graphs may record them.
`step` counts the steps of a run, which a recording would not. `lists` are what `select`
made: on the host others are refused, on a GPU kernels read where they point."""

import torch

from . import kernels

OPS = None


def _refuse_gradients(q, k, v):
    """PyTorch would take them for zero, as no kernel of these operations makes any. An
    operation does not see forward ones."""
    if torch.is_grad_enabled():
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            kernels._check_gradient(tensor, name)


def _part(part):
    """What computes a part of a plan, of (q, k, v, plan) or (q, k, v, lists, plan)."""
    def compute(q, k, v, *lists_and_plan):
        *lists, plan = lists_and_plan
        _refuse_gradients(q, k, v)
        plan = kernels._known(plan)
        return plan.kernels.run_torch(part, q, k, v, *(lists or [None]), plan.prompt)
    return compute


def _step(q, k, v, run, layer):
    return kernels._known(run)._attend(q, k, v, layer)


def _like(q, k, v, *rest):
    """What the kernels refuse is refused when a program is traced, too."""
    _refuse_gradients(q, k, v)
    if all(isinstance(n, int) for x in (q, k, v) for n in x.shape):
        kernels._check_shapes([x.shape for x in (q, k, v)])
    return q.new_empty(q.shape)


def _lists(q, k, v, plan):
    _refuse_gradients(q, k, v)
    # How long they are is the kernels' business, and known when they run.
    return q.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.uint8)


def _register():
    library = torch.library.Library("heddle", "DEF")
    unsafe = getattr(torch.Tag, "cudagraph_unsafe", None)
    for name, arguments, function, fake in (
            ("attention", "Tensor q, Tensor k, Tensor v, str plan", _part(kernels._ALL), _like),
            ("select", "Tensor q, Tensor k, Tensor v, str plan", _part(kernels._SELECT), _lists),
            ("attend", "Tensor q, Tensor k, Tensor v, Tensor lists, str plan", _part(kernels._ATTEND), _like),
            ("step", "Tensor q, Tensor k, Tensor v, str run, int layer", _step, _like)):
        # Bundles take tensors as they lie, so compilers must leave them so.
        tags = [torch.Tag.needs_exact_strides] if hasattr(torch.Tag, "needs_exact_strides") else \
            [torch.Tag.needs_fixed_stride_order]
        if name == "step" and unsafe is not None:
            tags.append(unsafe)
        library.define(f"{name}({arguments}) -> Tensor", tags=tuple(tags))
        for device in ("CPU", "CUDA"):
            library.impl(name, function, device)
        torch.library.register_fake(f"heddle::{name}", fake, lib=library)
    return library


if hasattr(torch.library, "register_fake"):
    _LIBRARY = _register()  # the operations go with it
    OPS = torch.ops.heddle
