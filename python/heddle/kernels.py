# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over the pairs of a schedule, as a function on arrays.

Arrays are NumPy's, PyTorch's, or any library's with __dlpack__ (CuPy, JAX), in the
host's memory or a GPU's, [length, heads, head_dim] or [batch, length, heads,
head_dim]: f32 or bf16 on the host, bf16 or f16 on a GPU. They are read where they are:
the head_dim elements of a head and the heads of a row are contiguous, rows and
sequences may be apart. For a PyTorch tensor [batch, heads, length, head_dim] that is
its transpose(1, 2), if it was made so.

On a GPU a call puts work into the current stream of PyTorch or CuPy and returns; a CUDA
graph may record it, once one call of its kind was made before. Arrays of other
libraries are waited for. PyTorch's tensors go through torch.ops.heddle, which
torch.compile knows."""

from __future__ import annotations

import functools
import hashlib
import sys
import weakref
from numbers import Integral
from typing import Optional

from .compiler import Bundle, compile, dtype_name
from .errors import HeddleError, check_unicode
from .schedule import Pairs, Schedule, Source, _count, _kind, _outside, attend, dense, every
from .scores import trace

_ALL, _SELECT, _ATTEND = 0, 1, 2  # Part in embed/Attention.h
_NAMES = ("attention", "select", "attend")  # of these in torch.ops.heddle
_DLPACK_DTYPES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
_MOST_CALLS = 1024


@functools.lru_cache(maxsize=64)
def _compiled(text: str, head_dim: int, dtype: str, target: str) -> Bundle:
    # Lists that are asked for by name are chosen and read, whatever they cost.
    return compile(Source(text), head_dim=head_dim, dtype=dtype, target=target, crossovers="none")


def _torch():
    """torch, if the program has loaded it."""
    return sys.modules.get("torch")


def _is_torch(array):
    torch = _torch()
    return torch is not None and isinstance(array, torch.Tensor)


def _ops():
    """torch.ops.heddle; None for a PyTorch that is too old to have such."""
    from . import torch_ops
    return torch_ops.OPS


class _Library:
    """How arrays of a library other than PyTorch are seen and made."""

    def __init__(self, q):
        self.like = q
        module = type(q).__module__.partition(".")[0]
        self.cupy = sys.modules.get("cupy") if module == "cupy" else None
        self.stream = 0
        self.waits = False
        try:
            kind, self.device = (int(number) for number in q.__dlpack_device__())
        except (AttributeError, TypeError, ValueError):  # of what only stands for an array
            raise TypeError(f"q: {type(q).__name__} says no device by __dlpack_device__") from None
        if kind == 2:
            # 1: the legacy default stream, as the protocol writes it.
            self.stream = self.cupy.cuda.get_current_stream().ptr or 1 if self.cupy else 1
            self.waits = self.cupy is None

    def view(self, array, name):
        """(address, shape, strides, dtype, device type, device), and who keeps it."""
        from . import _heddle
        kept = array
        if self.stream and hasattr(array, "__dlpack__"):
            kept = array.__dlpack__(stream=self.stream)
        try:
            return _heddle.view(kept), kept
        except TypeError:
            raise TypeError(f"{name}: its __dlpack__ gives no array that can be read") from None

    def new(self, shape, dtype=None, zeros=False):
        import numpy
        q = self.like
        if isinstance(q, numpy.ndarray):
            if not dtype:
                return numpy.empty(shape, q.dtype)
            memory = (numpy.zeros if zeros else numpy.empty)(shape[0] + 63, dtype)
            return memory[-memory.ctypes.data % 64:][:shape[0]]
        if self.cupy:
            with q.device:
                return (self.cupy.zeros if zeros else self.cupy.empty)(shape, dtype or q.dtype)
        if not hasattr(q, "__array_namespace__"):
            raise TypeError(f"q: {type(q).__name__} has no __array_namespace__, by which arrays like it "
                            "are made; pass a NumPy array or a PyTorch tensor of its memory "
                            "(numpy.from_dlpack, torch.from_dlpack)")
        space = q.__array_namespace__()
        return (space.zeros if zeros else space.empty)(
            shape, dtype=getattr(space, dtype) if dtype else q.dtype, device=q.device)

    def finish(self):
        """Arrays of a library whose streams are its own are ready when they are seen."""
        if self.waits:
            from . import _heddle
            _heddle.synchronize(self.device, self.stream)


def _check_array(array, name):
    if not hasattr(array, "__dlpack__") or not hasattr(array, "shape"):
        raise TypeError(f"{name}: expected an array or tensor with __dlpack__, found "
                        f"{type(array).__name__}")
    if type(array).__module__.startswith("numpy.ma"):
        raise TypeError(f"{name}: a masked array, whose mask would not count; pass its data")


def _check_gradient(array, name):
    torch = _torch()
    if array.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name}: requires a gradient, and there is none of this attention; "
                         "call it under torch.no_grad(), or on detach()ed tensors")
    forward = torch.autograd.forward_ad
    if forward._current_level >= 0 and forward.unpack_dual(array).tangent is not None:
        raise ValueError(f"{name}: has a forward gradient, and there is none of this attention; "
                         "call it on the primal tensor")


def _check_tensors(*tensors):
    for name, tensor in zip("qkv", tensors):
        if not _is_torch(tensor):
            raise TypeError(f"{name}: expected a torch.Tensor, as q is, found {type(tensor).__name__}")
        _check_gradient(tensor, name)


def _stands_for_another(tensor):
    """Whether PyTorch wrapped it, for a transform (torch.func) or to make functions pure."""
    torch = _torch()
    functorch = getattr(torch._C, "_functorch", None)
    is_wrapped = getattr(functorch, "is_functorch_wrapped_tensor", None)
    return bool(is_wrapped and is_wrapped(tensor)) or torch._is_functional_tensor(tensor)


def _check_memory(tensor, name):
    """HeddleError for what lies in no memory that kernels could read."""
    if _stands_for_another(tensor):
        what = "a tensor of a torch.func transform (vmap, grad), which this does not know; call " \
            "it outside"
    elif tensor.is_nested:
        what = "a nested tensor; pad it, or call this for each of its own"
    elif tensor.layout is not _torch().strided:
        what = f"of the layout {tensor.layout}; make it dense: to_dense()"
    else:
        try:
            if tensor.data_ptr() or not tensor.numel():
                return
        except RuntimeError:  # PyTorch's, for tensors that only say what others would be
            pass
        what = f"a {type(tensor).__name__} without memory"
    raise HeddleError(f"{name} is {what}")


def _layout(name, shape, strides):
    """(sequence, row) strides in elements of an array [.., length, heads, head_dim]."""
    length, heads, head_dim = shape[-3:]
    width = heads * head_dim
    row = strides[-3] if length > 1 else width
    batch = shape[0] if len(shape) == 4 else 1
    if (head_dim > 1 and strides[-1] != 1) or (heads > 1 and strides[-2] != head_dim) or \
            row < width:
        raise HeddleError(
            f"{name}: strides {list(strides)} of the shape {list(shape)} do not fit; the head_dim "
            "elements of a head and the heads of a row must be contiguous ([.., length, heads, "
            "head_dim]): make it contiguous")
    return (strides[0] if batch > 1 else length * row), row


def _check_lists(view, size, like):
    """That the lists of a selection are `size` bytes in a row, where the array `like` is."""
    _, shape, strides, dtype, *place = view
    if (shape, strides, dtype) != ((size,), (1,), "other8"):
        raise HeddleError(f"lists: expected those that select() of this plan makes of such arrays, "
                          f"{size} bytes, found {list(shape)} of {dtype.removeprefix('other')}"
                          f"{' bits' if dtype.startswith('other') else ''}, strides {list(strides)}")
    if (2 in (place[0], like[4])) and place != list(like[4:]):
        raise HeddleError("lists: they are not on the device of q")


def _check_shapes(shapes, selecting=False):
    """(sequences, length, query heads, kv heads, head dim) of q, k and v."""
    for name, shape in zip("qkv", shapes):
        if len(shape) not in (3, 4) or 0 in shape:
            raise ValueError(f"{name}: expected [length, heads, head_dim] or [batch, length, heads,"
                             f" head_dim], none of them 0, found {list(shape)}")
    a, b, c = map(tuple, shapes)
    if b != c or a[:-2] != b[:-2] or a[-1] != b[-1] or a[-2] % b[-2]:
        given = f"q {list(a)} and k {list(b)}" if selecting else \
            f"q {list(a)}, k {list(b)} and v {list(c)}"
        raise ValueError(f"{given} do not go together: all but heads are the same, and q has as "
                         "many heads as k and v or a multiple")
    return (1 if len(a) == 3 else a[0]), a[-3], a[-2], b[-2], a[-1]


class Kernels:
    """A schedule's kernels: compiled for each head dim, dtype and kind of device when a
    call first needs them, loaded once a device. `source`: a schedule, or a bundle, whose
    code is then all that there is."""

    def __init__(self, source, layers=1):
        if isinstance(source, str):
            source = Source(source)
        _kind(source, (Schedule, Bundle), "schedule", "a heddle.Schedule, a heddle.Bundle or MLIR "
              "text")
        self.source, self.layers = source, layers
        self._native, self._calls, self.tensors = {}, {}, None

    def _loaded(self, head_dim, dtype, device):
        from . import _heddle
        fixed = isinstance(self.source, Bundle)
        key = device if fixed else (head_dim, dtype, device)
        if key not in self._native:
            bundle = self.source if fixed else _compiled(
                str(self.source), head_dim, dtype, "host" if device < 0 else "cuda")
            self._native[key] = _heddle.Attention(bundle._native, self.layers, device)
        return self._native[key]

    def prepare(self, shapes, strides, dtypes, devices, prompt, selecting=False):
        sequences, length, heads, kv_heads, head_dim = _check_shapes(shapes, selecting)
        if prompt > length:
            raise ValueError(f"prompt: {prompt} is more than the length, {length}")
        for name, dtype, device in zip("kv", dtypes[1:], devices[1:]):
            if dtype != dtypes[0]:
                raise HeddleError(f"{name} is not of dtype {dtypes[0]}, as q is")
            if device != devices[0]:
                raise HeddleError(f"{name} is not on the device of q")
        layout = [n for name, shape, s in zip("qkv", shapes, strides)
                  for n in _layout(name, shape, s)]
        row = heads * head_dim
        native = self._loaded(head_dim, dtypes[0], devices[0])
        return native.prepare(dtypes[0], sequences, length, prompt, heads, kv_heads, head_dim,
                              [*layout, length * row, row])

    def check(self, head_dim, dtype, device, steps, block_steps):
        self._loaded(head_dim, dtype, device).check(steps, block_steps)

    def prepared(self, q, k, v, prompt, selecting=False):
        """The native call for PyTorch's tensors."""
        torch = _torch()
        if self.tensors is None:
            from . import _heddle
            if hasattr(torch, "compiler"):
                global _compiling
                _compiling = torch.compiler.is_compiling  # as above, in half the time
            self.tensors = _heddle.TensorCalls(
                torch, getattr(torch.Tensor, "__dlpack_c_exchange_api__", None))
        call = self.tensors.find(q, k, v, prompt)
        if call is not None:
            return call
        devices = []
        for name, tensor in zip("qkv", (q, k, v)):
            if tensor.device.type not in ("cpu", "cuda"):
                raise HeddleError(f"{name} is on {tensor.device}; attention runs on the host "
                                  "and on CUDA GPUs")
            _check_memory(tensor, name)
            devices.append(tensor.device.index if tensor.device.type == "cuda" else -1)
        if devices[0] >= 0 and torch.cuda.is_current_stream_capturing():
            raise HeddleError("the kernels are not loaded yet, which cannot be recorded: call "
                              "it once before the capture")
        call = self.prepare([tuple(t.shape) for t in (q, k, v)], [t.stride() for t in (q, k, v)],
                            [dtype_name(t.dtype) for t in (q, k, v)], devices, prompt, selecting)
        # Expanded: what zeros_like() is fastest with.
        byte = q.new_empty(1, dtype=torch.uint8)
        lists = max(call.list_bytes(layer) for layer in range(self.layers))
        self.tensors.add(q, k, v, prompt, call, byte, byte.expand(lists))
        return call

    def run_torch(self, part, q, k, v, lists, prompt, place=(0, 1, 1, 0)):
        """What `part` makes of PyTorch's tensors: attention's output, or the lists."""
        q, k, v = (x.resolve_neg() for x in (q, k, v))
        tensors = self.tensors
        made = tensors.run(part, q, k, v, lists, prompt, *place) if tensors else None
        if made is None:
            self.prepared(q, k, v, prompt, part == _SELECT)
            made = self.tensors.run(part, q, k, v, lists, prompt, *place)
        return made

    def prepared_others(self, library, q, k, v, prompt, selecting=False):
        """The same of arrays of any other library, with their views and owners."""
        views, kept = zip(*map(library.view, (q, k, v), "qkv"))
        key = (*(view[1:] for view in views), prompt)
        found = self._calls.get(key)
        if found is None:
            dtypes, devices = [], []
            for name, array, view in zip("qkv", (q, k, v), views):
                dtypes.append(dtype_name(_DLPACK_DTYPES.get(view[3]) or array.dtype))
                if view[4] not in (1, 2, 3):  # the host's, CUDA's, pinned
                    raise HeddleError(f"{name} is on a device of DLPack's number {view[4]}; "
                                      "attention runs on the host and on CUDA GPUs")
                devices.append(view[5] if view[4] == 2 else -1)
            found = self.prepare([view[1] for view in views], [view[2] for view in views], dtypes,
                                 devices, prompt, selecting)
            if len(self._calls) >= _MOST_CALLS:
                self._calls.clear()
            self._calls[key] = found
        return found, views, kept

    def run_others(self, part, q, k, v, lists, prompt, place=(0, 1, 1, 0)):
        """What `part` makes of arrays of any other library."""
        library = _Library(q)
        call, views, kept = self.prepared_others(library, q, k, v, prompt, part == _SELECT)
        out = None if part == _SELECT else library.new(tuple(q.shape))
        size, work = call.list_bytes(place[0]), call.workspace_bytes
        if lists is None and size:
            lists = library.new((size,), "uint8", zeros=True)
        made = {"output": out, "lists": lists,
                "workspace": library.new((work,), "uint8") if work else None}
        own = [array if array is None else library.view(array, name)
               for name, array in made.items()]
        if lists is not None:
            _check_lists(own[1][0], size, views[0])
        call.run(part, *(view[0] for view in views), *(each[0][0] if each else 0 for each in own),
                 library.stream, *place)
        library.finish()
        del kept, own  # arrays of other libraries stay while they are read
        return lists if part == _SELECT else out

    def run(self, part, q, k, v, lists, prompt, place=(0, 1, 1, 0)):
        for name, array in zip("qkv", (q, k, v)):
            _check_array(array, name)
        if not _is_torch(q):
            return self.run_others(part, q, k, v, lists, prompt, place)
        _check_tensors(q, k, v)
        return self.run_torch(part, q, k, v, lists, prompt, place)


#: Plans and runs by the words that torch.ops.heddle is given.
_KNOWN = weakref.WeakValueDictionary()


def _compiling():
    """Whether torch.compile is looking at this call."""
    torch = _torch()
    return torch is not None and hasattr(torch, "compiler") and torch.compiler.is_compiling()


def _call(part, known, q, k, v, lists=None):
    """A part of a plan: as an operation of PyTorch where somebody watches what is done
    with tensors, else straight away, which takes half as long."""
    if not _is_torch(q):
        return known.kernels.run(part, q, k, v, lists, known.prompt)
    _check_tensors(q, k, v)
    if _ops() is None or not _is_watched(_torch(), (q, k, v)):
        return known.kernels.run_torch(part, q, k, v, lists, known.prompt)
    op = getattr(_ops(), _NAMES[part])
    return op(q, k, v, known.key) if lists is None else op(q, k, v, lists, known.key)


def _is_watched(torch, tensors):
    """Whether somebody has to know what is done with tensors: their classes, a dispatch
    mode, a trace, a transform."""
    modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
    return any(type(tensor) is not torch.Tensor or _stands_for_another(tensor)
               for tensor in tensors) or bool(modes and modes()) or torch.jit.is_tracing()


class Plan:
    """Attention over a set of pairs, ready to be called: made by plan().

    plan(q, k, v) is attention(q, k, v, pairs); select(q, k) makes the selection of the
    pairs, to be attended over at this step and later ones."""

    def __init__(self, source, prompt, selects, key):
        self.kernels = Kernels(source)
        self.prompt, self.selects, self.key = prompt, selects, key

    def __call__(self, q, k, v):
        """softmax(q k^T / sqrt(head_dim)) v over the pairs, an array like q.

        q: [batch, length, heads, head_dim] or without batch; k, v: the same with as many
        heads or a divisor. ValueError for shapes that do not go together, HeddleError
        for devices, dtypes and strides that do not."""
        if _compiling():
            return _ops().attention(q, k, v, self.key)
        tensors = self.kernels.tensors  # asked here, since a call of _call() takes time too
        if tensors is not None:
            made = tensors.call(_ALL, q, k, v, None, self.prompt)
            if made is not None:
                return made
        return _call(_ALL, self, q, k, v)

    def select(self, q, k) -> Selection:
        """The selection that q and k make, each [batch, length, heads, head_dim] or without batch, of dtypes and
        with errors as in a call; ValueError for pairs of which none is selected."""
        if not self.selects:
            raise ValueError("pairs: none of them is selected (columns, blocks), so there is "
                             "nothing to reuse; call the plan itself")
        if _compiling():
            return Selection(self.key, _ops().select(q, k, k, self.key), q.shape, k.shape)
        tensors = self.kernels.tensors
        lists = tensors.call(_SELECT, q, k, k, None, self.prompt) if tensors is not None else None
        if lists is None:
            lists = _call(_SELECT, self, q, k, k)
        if lists is None:  # of a bundle, which alone can know
            raise ValueError("pairs: the bundle selects none of them (columns, blocks), so there "
                             "is nothing to reuse; call the plan itself")
        return Selection(self.key, lists, q.shape, k.shape, self)

    def __reduce__(self):
        return _again, (self.kernels.source, self.prompt, self.selects, self.key)

    def __repr__(self):
        return f"<heddle.Plan {self.key}>"


class Selection:
    """Which keys each group of rows attends to, for as long as it is used: made by
    select(). `lists`: an array of bytes, as bundle/abi/IndexLayout.h says, to be handed
    through CUDA graphs and compiled programs, not to be written: on the host other bytes
    are refused, on a GPU nobody looks, and kernels read where they point. `key`: the plan's."""

    def __init__(self, key, lists, q_shape, k_shape, plan=None):
        self.key, self.lists, self.q_shape, self.k_shape = key, lists, q_shape, k_shape
        self._plan = plan

    def attend(self, q, k, v):
        """Attention of these q, k and v, of the shapes [batch, length, heads, head_dim] and the dtype that the
        selection was made from, over the selected pairs and those beside them; an array like q.
        ValueError for other shapes; on the host HeddleError for lists that select() did not
        write."""
        if getattr(q, "shape", None) != self.q_shape or getattr(k, "shape", None) != self.k_shape:
            _check_array(q, "q")
            _check_array(k, "k")
            raise ValueError(f"the selection is of q {list(self.q_shape)} and k "
                             f"{list(self.k_shape)}; found {list(q.shape)} and {list(k.shape)}")
        if self.lists is None:  # new ones, to what runs the kernels: zeros
            raise TypeError("lists: expected those that select() of this plan makes, found None")
        if _compiling():
            return _ops().attend(q, k, v, self.lists, self.key)
        plan = self._plan or _known(self.key)
        tensors = plan.kernels.tensors
        if tensors is not None:
            made = tensors.call(_ATTEND, q, k, v, self.lists, plan.prompt)
            if made is not None:
                return made
        return _call(_ATTEND, plan, q, k, v, self.lists)

    def __setstate__(self, state):
        """Of a copy, or in another process: NumPy aligns less than lists are."""
        self.__dict__.update(state)
        if type(self.lists).__module__ == "numpy":
            lists = _Library(self.lists).new(self.lists.shape, "uint8")
            lists[:] = self.lists
            self.lists = lists

    def __repr__(self):
        return f"<heddle.Selection of {self.key}, {self.lists.shape[0]:,} bytes>"


def _known(key):
    """The plan or run of a word."""
    try:
        return _KNOWN[key]
    except KeyError:
        raise HeddleError(
            f"no plan or run {key!r} is there in this process; keep the heddle.Attention, or make "
            "the heddle.plan() again before the compiled program runs") from None


_recent = {}  # id(pairs) and the rest: (plan, pairs, scores)


@_outside
def plan(pairs: Pairs = dense, *, scores=None, prompt: Optional[int] = None) -> Plan:
    """Makes attention() ready for a set of pairs (or a Bundle that was compiled from one:
    compile(attend(pairs, refresh=every(1), at_once=True), head_dim=...)).

    scores: a function of logits, as attend() takes it. prompt: how many of the first
    positions are the prompt, for blocks that isolate it. The same arguments give the
    same plan; nothing is compiled before it is called. Raises TypeError for what are no pairs,
    scores or bundle, ValueError for a prompt that is no number of positions and for a selection
    with on=."""
    key = id(pairs), id(scores), prompt
    try:
        found = _recent.get(key)
    except TypeError:  # a prompt that is no number, as is said below
        found = None
    if found is None:
        if len(_recent) >= 256:
            _recent.clear()
        made = _make_plan(pairs, scores, prompt)  # first: it says what is no prompt
        found = _recent[key] = made, pairs, scores
    return found[0]


def _plan_key(pairs, scores, prompt, selecting):
    made = plan(pairs, scores=scores, prompt=prompt)
    if selecting and not made.selects:
        raise ValueError("pairs: none of them is selected (columns, blocks)")
    return made.key


# torch.compile calls it, instead of looking into how a plan is made.
_plan_key._dynamo_marked_constant = True


def _make_plan(pairs, scores, prompt):
    prompt = 0 if prompt is None else prompt
    if isinstance(prompt, bool) or not isinstance(prompt, Integral) or not 0 <= prompt < 2**31:
        raise ValueError(f"prompt: {prompt!r} is no number of positions")
    prompt = int(prompt)  # NumPy's too
    if isinstance(pairs, Bundle):
        if scores is not None:
            raise TypeError("scores: a bundle has its own")
        source, selects, name = pairs, True, pairs.schedule
        digest = hashlib.sha256(bytes(pairs))
    else:
        _kind(pairs, Pairs, "pairs",
              "a set of pairs, such as columns(...) | window(128), or a Bundle")
        if any(each.on is not None for each in pairs._selections()):
            raise ValueError("pairs: a selection with on= is of a run with steps: heddle.Attention")
        if callable(scores):
            scores = trace(scores)
        selects, name = bool(pairs._unrefreshed()), "attention"
        at_once = {"refresh": every(1), "at_once": True} if selects else {}
        source = attend(pairs, scores=scores, **at_once)
        check_unicode(str(source))
        digest = hashlib.sha256(str(source).encode())
    key = f"{name}-{digest.hexdigest()[:16]}-{prompt}"
    return _again(source, prompt, selects, key)


def _again(source, prompt, selects, key):
    """The plan of a key, which a copy or another process may ask for."""
    if key not in _plans:
        if len(_plans) >= 256:
            _plans.pop(next(iter(_plans)))
        _plans[key] = _KNOWN[key] = Plan(source, prompt, selects, key)
    return _plans[key]


_plans = {}  #: by key: equal arguments give the same plan


def attention(q, k, v, pairs: Pairs = dense, *, scores=None, prompt: Optional[int] = None):
    """softmax(q k^T / sqrt(head_dim)) v over `pairs`; a selection among them is made
    from these q and k, then attended over. Source: Vaswani et al., 2017, equation 1.

    q: [batch, length, heads, head_dim] or without batch, f32 or bf16 in the host's memory,
    bf16 or f16 in a GPU's; k, v: the same with as many heads or a divisor. pairs: a set of
    pairs, or a Bundle (see plan()). scores: a function of logits, as attend() takes it.
    prompt: how many of the first positions it has. head_dim: a multiple of 32 from 32 to 512, on a GPU to 256. Returns an
    array like q, on a GPU before it is computed, as any operation there. Every row attends to every kept key: there is no causal mask.

    The first call for a set of pairs, head dim, dtype and kind of device compiles its
    kernel, the first on a device loads it; later ones are fastest when `pairs` is the same
    object. `scores` is called once: a number that it takes from elsewhere is that of then, and
    the same function object keeps its kernel when the number changes. Raises TypeError for
    what are no arrays or pairs, ValueError for shapes that do not go together and tensors that
    require a gradient, HeddleError for devices, dtypes, strides and head dims. On the host
    Ctrl-C ends it with KeyboardInterrupt.

        >>> import numpy, heddle
        >>> q, k, v = numpy.random.default_rng(0).random((3, 64, 4, 32), dtype="f4")
        >>> heddle.attention(q, k, v, heddle.window(16) | heddle.sinks(2)).shape
        (64, 4, 32)
    """
    if _compiling():
        return _ops().attention(q, k, v, _plan_key(pairs, scores, prompt, False))
    return plan(pairs, scores=scores, prompt=prompt)(q, k, v)


def select(q, k, pairs, *, scores=None, prompt: Optional[int] = None) -> Selection:
    """The selection that q and k make among `pairs`, to be attended over at this step and
    at others: the parts of attention(q, k, v, pairs); pairs, scores, prompt and errors as there.

    q: [batch, length, heads, head_dim] or without batch, f32 or bf16 in the host's memory, bf16 or f16 in a
    GPU's; k: the same with as many heads or a divisor. ValueError where none of the pairs is selected. Sources:
    columns() and blocks() say them.

        >>> import numpy, heddle
        >>> q, k, v = numpy.random.default_rng(0).random((3, 64, 4, 32), dtype="f4")
        >>> pairs = heddle.columns(keep=0.5, group=32)
        >>> selection = heddle.select(q, k, pairs)
        >>> bool((selection.attend(q, k, v) == heddle.attention(q, k, v, pairs)).all())
        True
    """
    if _compiling():
        key = _plan_key(pairs, scores, prompt, True)
        return Selection(key, _ops().select(q, k, k, key), q.shape, k.shape)
    return plan(pairs, scores=scores, prompt=prompt).select(q, k)


class Attention:
    """The attention of a schedule over the steps of a run: selections are made at the
    steps that the schedule says, and read in between.

    schedule: statements of attend(), MLIR text, or a Bundle. steps: of the run. layers: of
    the model. prompt: positions of it, for blocks that isolate it. blocks: that the run
    decodes one after the other, for cadences in a block. Called with q, k (both after
    RoPE) and v of a layer, [batch, length, heads, head_dim] of attention()'s dtypes, layer by layer; layer 0
    begins a step. The first call fixes
    shapes, dtype and device. Every row attends to every kept key: there is no causal mask.
    After a call that Ctrl-C ended, restart() it. Raises TypeError and ValueError for numbers that make no run,
    ScheduleError, at the first call, for a schedule that the compiler refuses.
    """

    def __init__(self, schedule, *, steps: int = 1, layers: int = 1, prompt: int = 0,
                 blocks: int = 1):
        steps, layers, prompt, blocks = (_count(value, name) for name, value in (
            ("steps", steps), ("layers", layers), ("prompt", prompt), ("blocks", blocks)))
        for name, value, least, most in (("steps", steps, 1, 2**20), ("layers", layers, 1, 2**16),
                                         ("prompt", prompt, 0, 2**31), ("blocks", blocks, 1, 2**20)):
            if not least <= value <= most:
                raise ValueError(f"{name}: expected {least} to {most:,}, found {value}")
        if steps % blocks:
            raise ValueError(f"blocks: {steps} steps are no multiple of {blocks}")
        self.kernels = Kernels(schedule, layers)
        self.schedule = self.kernels.source
        self.steps, self.layers, self.prompt = steps, layers, prompt
        self._block_steps = steps // blocks if blocks > 1 else 0
        self.key = f"run-{id(self):x}"
        _KNOWN[self.key] = self
        self.restart()

    def __call__(self, q, k, v, layer: int = 0):
        """softmax(q k^T / sqrt(head_dim)) v over the schedule's pairs, an array like q.

        q: [batch, length, heads, head_dim] or without batch; k, v: the same with as many
        heads or a divisor. layer: from 0, the one after the last call's. ValueError for
        shapes other than the first call's, HeddleError for a layer out of turn and for a
        step after the last."""
        if _compiling():
            return _ops().step(q, k, v, self.key, layer)
        return self._attend(q, k, v, layer)

    def _attend(self, q, k, v, layer):
        layer = _count(layer, "layer")
        for name, array in zip("qkv", (q, k, v)):
            _check_array(array, name)
        shape = _check_shapes([tuple(int(n) for n in x.shape) for x in (q, k, v)])
        made_for = shape, dtype_name(q.dtype), str(getattr(q, "device", "cpu"))
        if self._made_for is None:
            if self.prompt > shape[1]:
                raise ValueError(f"prompt: {self.prompt} is more than the length, {shape[1]}")
            kind, number = (1, 0) if _is_torch(q) and not q.is_cuda else q.__dlpack_device__()
            self.kernels.check(shape[4], made_for[1], int(number) if int(kind) == 2 else -1,
                               self.steps, self._block_steps)
            self._made_for = made_for
        if self._made_for != made_for:
            raise ValueError("the run is of {} (batch, length, heads, k/v heads, head dim) in {} on "
                             "{}; found {} in {} on {}".format(
                                 list(self._made_for[0]), *self._made_for[1:], list(shape),
                                 *made_for[1:]))
        if layer != self._next:
            raise HeddleError(f"layer {layer} was asked for; layer {self._next} of {self.layers} "
                              "is next")
        if layer == 0:
            if self._step == self.steps:
                raise HeddleError(f"all {self.steps} steps are done; restart() begins anew")
            self._step += 1
        self._next = (layer + 1) % self.layers
        place = layer, self._step, self.steps, self._block_steps
        if self._lists[layer] is None:
            self._lists[layer] = self._new_lists(q, k, v, layer)
        return self.kernels.run(_ALL, q, k, v, self._lists[layer], self.prompt, place)

    def _new_lists(self, q, k, v, layer):
        """Memory for the selections of a layer, zeros, or of the one whose selections it
        reads; None: it takes none."""
        library = None if _is_torch(q) else _Library(q)
        call = self.kernels.prepared(q, k, v, self.prompt) if library is None else \
            self.kernels.prepared_others(library, q, k, v, self.prompt)[0]
        if call.list_layer(layer) not in (-1, layer):
            return self._lists[call.list_layer(layer)]
        size = call.list_bytes(layer)
        if not size:
            return None
        return library.new((size,), "uint8", zeros=True) if library else \
            q.new_zeros(size, dtype=_torch().uint8)

    def __repr__(self):
        name = self.schedule.schedule if isinstance(self.schedule, Bundle) else self.schedule.name
        return (f"<heddle.Attention @{name}, step {self._step} of {self.steps}, layer {self._next} of "
                f"{self.layers} next>")

    @property
    def step(self) -> int:
        """The step at hand, from 1; 0 before the first."""
        return self._step

    def __reduce__(self):
        """A copy, or what another process gets, is a run of its own, not yet begun."""
        if self._step or self._next:
            raise TypeError("a run that has begun cannot be copied, as its selections are memory of "
                            "its own; restart() it before")
        blocks = self.steps // self._block_steps if self._block_steps else 1
        return functools.partial(Attention, self.schedule, steps=self.steps, layers=self.layers, prompt=self.prompt,
                                 blocks=blocks), ()

    def restart(self) -> None:
        """Begins the run anew: no selection is made yet, and the next call fixes shapes."""
        self._step = self._next = 0
        self._made_for = None
        self._lists = [None] * self.layers
