#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as a function, torch.ops.heddle and patched models on a GPU.

  python3 device_check.py compile FOLDER              where heddlec is: writes bundles
  python3 device_check.py check FOLDER [--models=DIR]  where a GPU and PyTorch are
  python3 device_check.py bench FOLDER [--lengths=4096,16384]

check ends with "N passed, M failed", exit code 1 if any failed; compile and check with
--device=cpu do what concerns models on the host. bench prints host time a call beside that
of a bare launch, of SDPA and of FlexAttention; and attention alone, beside SDPA and
FlexAttention over as many blocks. --lengths= of nothing: host time alone. Steps of models:
python/bench/patched.py."""

import argparse
import copy
import ctypes
import itertools
import os
import shutil
import sys
import threading
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

import heddle
from heddle import attend, blocks, columns, dense, every, sinks, window

HERE = Path(__file__).resolve().parent
PAIRS = {
    "dense": dense,
    "window": window(128),
    "near": window(64) | sinks(4),
    "columns": columns(keep=0.2, group=128),
    "columns32": columns(keep=0.25, group=32),
    "mixed": columns(keep=0.1, group=64) | window(64) | sinks(4),
    "blocks": blocks(keep=0.3, size=128),
}
SCHEDULES = {"dense": lambda: heddle.preset("dense"), "pulsecol": lambda: heddle.preset("pulsecol"),
             "every": lambda: attend(columns(keep=0.2, group=128), refresh=every(4)),
             "sparsed": lambda: heddle.preset("sparsed")}
#: Checks that ask a GPU for nothing.
ON_HOST = ("patched", "random_weights", "random_tokens", "records")
RANDOM = {
    "LLaDA": ("LLaDAModelLM", {"d_model": 1024, "n_heads": 8, "n_kv_heads": 8, "mlp_hidden_size": 3072, "n_layers": 4,
                               "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "embedding_size": 4096}),
    "Dream": ("DreamModel", {"hidden_size": 896, "num_attention_heads": 7, "num_key_value_heads": 1,
                             "intermediate_size": 3072, "num_hidden_layers": 4, "rms_norm_eps": 1e-6,
                             "rope_theta": 1000000.0, "vocab_size": 4096}),
}


def compile_all(folder, target):
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in PAIRS.items():
        at_once = {"refresh": every(1), "at_once": True} if pairs._unrefreshed() else {}
        heddle.compile(heddle.schedule(name, attend(pairs, **at_once)), target=target, crossovers="none").save(
            folder / f"pairs-{name}.hdl")
    for name, make in SCHEDULES.items():
        heddle.compile(make(), target=target, crossovers="none").save(folder / f"run-{name}.hdl")
    print(f"{len(PAIRS) + len(SCHEDULES)} bundles in {folder}, "
          f"{sum(f.stat().st_size for f in folder.glob('*.hdl')):,} bytes")


def bundle(folder, name):
    return heddle.Bundle.read(folder / f"{name}.hdl")


class Checks:
    def __init__(self, folder, models, device="cuda", heddle_run=None):
        import torch
        self.torch, self.folder, self.models, self.device = torch, folder, models, device
        self.heddle_run = heddle_run
        torch.manual_seed(7)
        self.plans = {name: heddle.plan(bundle(folder, f"pairs-{name}")) for name in PAIRS}

    def tensors(self, n=300, heads=8, kv=2, dim=128, batch=2, dtype="bfloat16"):
        torch = self.torch
        return [torch.randn(batch, n, h, dim, device="cuda", dtype=getattr(torch, dtype))
                for h in (heads, kv, kv)]

    def probabilities(self, q, k):
        k = k.repeat_interleave(q.shape[2] // k.shape[2], 2)
        s = self.torch.einsum("bihd,bjhd->bhij", q.float(), k.float()) / q.shape[3] ** 0.5
        return s

    def mask(self, name, q, k):
        """[batch or 1, heads or 1, n, n], by definition in float32."""
        torch, n = self.torch, q.shape[1]
        i = torch.arange(n, device="cuda")
        distance, key = (i[:, None] - i).abs()[None, None], i[None, None, None]
        near = {"window": distance <= 64, "near": (distance <= 32) | (key < 4),
                "mixed": (distance <= 32) | (key < 4)}.get(name)
        selections = {"columns": (0.2, 128), "columns32": (0.25, 32), "mixed": (0.1, 64),
                      "blocks": (0.3, 128)}
        if name not in selections:
            return near if near is not None else torch.ones(1, 1, n, n, dtype=bool, device="cuda")
        keep, group = selections[name]
        p = self.probabilities(q, k).softmax(-1)
        mask = torch.zeros_like(p, dtype=torch.bool)
        for start in range(0, n, group):
            score = p[:, :, start:start + group].mean(2)
            if name == "blocks":
                pad = torch.nn.functional.pad(score, (0, -n % group))
                score = pad.unflatten(-1, (-1, group)).sum(-1)
                score = score / torch.tensor([min(group, n - b * group)
                                              for b in range(score.shape[-1])], device="cuda")
            count = max(1, int(keep * score.shape[-1]))
            best = score.sort(dim=-1, descending=True, stable=True).indices[..., :count]
            kept = torch.zeros_like(score, dtype=torch.bool).scatter_(-1, best, True)
            if name == "blocks":
                kept = kept.repeat_interleave(group, -1)[..., :n]
            mask[:, :, start:start + group] = kept[:, :, None]
        return mask if near is None else mask | near

    def attended(self, q, k, v, mask):
        torch = self.torch
        p = self.probabilities(q, k).masked_fill(~mask, -torch.inf).softmax(-1)
        v = v.repeat_interleave(q.shape[2] // v.shape[2], 2).float()
        return torch.einsum("bhij,bjhd->bihd", p, v)

    def near(self, mine, theirs, share=0.0, tolerance=0.02):
        """All rows, but a `share` of them, whose scores in bf16 tie otherwise."""
        error = (mine.float() - theirs.float()).abs().amax(-1)
        assert mine.isfinite().all(), "not finite"
        off = (error > tolerance).float().mean().item()
        assert off <= share, f"{off:.2%} of rows are off, by {error.max().item():.3g}"

    # Each method is a check.
    def pairs(self):
        for name, plan in self.plans.items():
            for dim, dtype, n, batch, heads, kv in (
                    (128, "bfloat16", 1024, 1, 8, 8), (128, "bfloat16", 1000, 3, 8, 2),
                    (64, "bfloat16", 640, 2, 4, 4), (128, "float16", 777, 1, 7, 1)):
                q, k, v = self.tensors(n, heads, kv, dim, batch, dtype)
                try:
                    self.near(plan(q, k, v), self.attended(q, k, v, self.mask(name, q, k)),
                              0.05 if plan.selects and name not in ("dense", "window", "near")
                              else 0)
                except Exception as error:
                    raise AssertionError(f"{name}, head dim {dim}, {dtype}, {n} x {batch}, "
                                         f"{heads}/{kv} heads: {error}") from error

    def strides(self):
        torch = self.torch
        wide = torch.randn(2, 300, 12, 128, device="cuda", dtype=torch.bfloat16)
        q, k, v = wide[:, :, :8], wide[:, :, 8:10], wide[:, :, 10:]
        for name in ("dense", "columns"):
            plan = self.plans[name]
            assert torch.equal(plan(q, k, v), plan(*(t.contiguous() for t in (q, k, v))))
            one = plan(q[0], k[0], v[0])
            assert torch.equal(one, plan(q, k, v)[0])

    def refusals(self):
        torch = self.torch
        q, k, v = self.tensors()
        plan = self.plans["window"]
        flat = torch.randn(q.numel() + 1, device="cuda", dtype=torch.bfloat16)
        for text, call in (
                ("contiguous", lambda: plan(*(t.transpose(1, 2).contiguous().transpose(1, 2)
                                              for t in (q, k, v)))),
                ("not on the device", lambda: plan(q, k.cpu(), v)),
                ("not of dtype", lambda: plan(q, k.half(), v)),
                ("has no form|none of", lambda: plan(*(t.float() for t in (q, k, v)))),
                ("16 bytes", lambda: plan(flat[1:].view(q.shape), k, v)),
                ("do not go together", lambda: plan(q, k[:, :9], v)),
                ("none of which runs on|code for", lambda: plan(q.cpu(), k.cpu(), v.cpu())),
                ("requires a gradient", lambda: plan(q.clone().requires_grad_(), k, v)),
                ("none of them is selected|nothing to reuse",
                 lambda: heddle.plan(dense).select(q, k))):
            import re
            try:
                call()
            except (heddle.HeddleError, ValueError) as error:
                assert re.search(text, str(error)), f"{text!r} is not in: {error}"
            else:
                raise AssertionError(f"nothing was said of {text!r}")
        assert plan(q, k, v).isfinite().all()

    def selections(self):
        torch = self.torch
        q, k, v = self.tensors(1000)
        later = self.tensors(1000)
        for name in ("columns", "columns32", "mixed", "blocks"):
            plan = self.plans[name]
            selection = plan.select(q, k)
            assert torch.equal(selection.attend(q, k, v), plan(q, k, v))
            self.near(selection.attend(*later), self.attended(*later, self.mask(name, q, k)), 0.05)

    def streams(self):
        torch = self.torch
        q, k, v = self.tensors(2000)
        plan = self.plans["columns"]
        expected = plan(q, k, v)
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x = torch.randn(4096, 4096, device="cuda")
            for _ in range(20):
                x = x @ x / 4096
            late = q + 0 * x.sum().to(q.dtype)  # known only when all of that is done
            mine = plan(late, k, v)
        assert not side.query(), "the stream was waited for"
        side.synchronize()
        assert torch.equal(mine, expected) or x.isnan().any()

    def threads(self):
        torch = self.torch
        q, k, v = self.tensors(500)
        expected = {name: plan(q, k, v) for name, plan in self.plans.items()}
        wrong = []

        def work(name):
            try:
                with torch.cuda.stream(torch.cuda.Stream()):
                    for _ in range(50):
                        made = self.plans[name](q, k, v)
                        torch.cuda.current_stream().synchronize()
                        if not torch.equal(made, expected[name]):
                            wrong.append(name)
            except Exception as error:
                wrong.append(f"{name}: {error}")
        torch.cuda.synchronize()
        threads = [threading.Thread(target=work, args=(name,)) for name in (*PAIRS, *PAIRS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong

    def graphs(self):
        torch = self.torch
        for name in ("dense", "mixed"):
            plan = self.plans[name]
            q, k, v = self.tensors(700)
            plan(q, k, v)
            if name == "mixed":
                plan.select(q, k).attend(q, k, v)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                made = plan(q, k, v)
                if name == "mixed":
                    made = made + plan.select(q, k).attend(q, k, v)
            for _ in range(3):
                for into, new in zip((q, k, v), self.tensors(700)):
                    into.copy_(new)
                graph.replay()
                expected = plan(q, k, v)
                assert torch.equal(made, expected * 2 if name == "mixed" else expected)

    def arguments_that_are_kept(self):
        """More tensors than a stream keeps arguments of, in several streams."""
        torch, plan = self.torch, self.plans["window"]
        many = [self.tensors(150) for _ in range(20)]
        mask = self.mask("window", *many[0][:2])
        selections = [self.plans["columns"].select(q, k) for q, k, _ in many]
        expected = [self.attended(q, k, v, mask) for q, k, v in many]
        selected = [s.attend(*t) for s, t in zip(selections, many)]
        torch.cuda.synchronize()
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                for _ in range(2):
                    for i in (*range(20), *range(19, -1, -1), 3, 3, 3):
                        self.near(plan(*many[i]), expected[i])
                        assert torch.equal(selections[i].attend(*many[i]), selected[i])
        # The same places with other contents, while earlier calls may still run.
        q, k, v = self.tensors(4000)
        for scale in (1, 2, 3):
            made = plan(q, k, v)
            q.mul_(2)
            self.near(made, self.attended(q / 2, k, v, self.mask("window", q, k)), tolerance=0.03)

    def selecting_again_and_again(self):
        """Calls of several kernels become graphs when their memory comes back."""
        torch = self.torch
        for name in ("columns", "blocks", "mixed"):
            plan, (q, k, v) = self.plans[name], self.tensors(400)
            for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
                torch.cuda.synchronize()
                with torch.cuda.stream(stream):
                    for round in range(8):
                        for x in (q, k, v):  # other numbers at the same places, while earlier calls may still run
                            x.normal_()
                        # Between them the allocator hands out other memory.
                        other = torch.empty_like(q) if round == 5 else None
                        made = plan(q, k, v)
                        chosen = plan.select(q, k)
                        assert torch.equal(made, chosen.attend(q, k, v)), f"{name}, round {round}"
                        self.near(made, self.attended(q, k, v, self.mask(name, q, k)), 0.05)
                        del other, chosen, made

    def tensors_that_are_asked_by_methods(self):
        torch = self.torch
        for name in ("window", "mixed"):
            plan, older = self.plans[name], heddle.kernels.Plan(self.plans[name].kernels.source, 0,
                                                                True, "older")
            older.kernels.tensors = heddle._heddle.TensorCalls(torch, None)
            given = self.tensors(200)
            with torch.cuda.stream(torch.cuda.Stream()):
                assert torch.equal(older(*given), plan(*given))

    def captures_of_what_is_not_loaded(self):
        torch = self.torch
        q, k, v = self.tensors(64)
        fresh = heddle.plan(bundle(self.folder, "pairs-window"), prompt=1)
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                fresh(q, k, v)
        except heddle.HeddleError as error:
            assert "before the capture" in str(error)
        else:
            raise AssertionError("nothing was said")
        torch.cuda.synchronize()

    def compiled(self):
        torch = self.torch
        q, k, v = self.tensors(400)
        plan, mixed = self.plans["window"], self.plans["mixed"]

        def body(q, k, v):
            return plan(q * 1, k, v) + mixed.select(q, k).attend(q, k, v)
        with torch.no_grad():
            for mode in ("default", "reduce-overhead"):
                torch._dynamo.reset()
                fast = torch.compile(body, fullgraph=True, mode=mode)
                for _ in range(3):
                    made = fast(q, k, v).clone()
                self.near(made, body(q, k, v), tolerance=0.02)
        for op, arguments in ((torch.ops.heddle.attention, (q, k, v, plan.key)),
                              (torch.ops.heddle.select, (q, k, k, mixed.key))):
            torch.library.opcheck(op.default, arguments)

    def forks(self):
        q, k, v = self.tensors()
        self.plans["window"](q, k, v)
        child = os.fork()
        if child == 0:
            try:
                self.plans["window"](q, k, v)
            except Exception:
                os._exit(3)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 3, f"status {status}"

    def cupy(self):
        import cupy
        torch = self.torch
        q, k, v = self.tensors(300, dtype="float16")
        expected = self.plans["columns"](q, k, v)
        torch.cuda.synchronize()
        there = [cupy.from_dlpack(t) for t in (q, k, v)]
        with cupy.cuda.Stream(non_blocking=True) as stream:
            made = self.plans["columns"](*there)
            stream.synchronize()
        assert isinstance(made, cupy.ndarray)
        assert torch.equal(torch.from_dlpack(made), expected)

    def jax(self):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        torch = self.torch
        q, k, v = self.tensors(300)
        expected = self.plans["columns"](q, k, v)
        torch.cuda.synchronize()
        there = [jax.dlpack.from_dlpack(t) for t in (q, k, v)]
        made = self.plans["columns"](*there)
        assert isinstance(made, jax.Array)
        assert torch.equal(torch.from_dlpack(made), expected)

    def runs(self):
        torch = self.torch
        run = heddle.Attention(bundle(self.folder, "run-every"), steps=6, layers=2)
        made, chosen = [], {}
        for step in range(6):
            for layer in range(2):
                q, k, v = self.tensors(600)
                made = run(q, k, v, layer=layer)
                if step % 4 == 0:
                    self.near(made, self.attended(q, k, v, self.mask("dense", q, k)))
                    chosen[layer] = self.mask("columns", q, k)
                else:
                    self.near(made, self.attended(q, k, v, chosen[layer]), 0.05)
        assert run.step == 6

    def fast(self, model):
        self.torch._dynamo.reset()  # or patch after patch is compiled for one function
        return self.torch.compile(model, fullgraph=True)

    def patched(self):
        """In bf16 other kernels give other tokens where two are nearly as probable, SDPA's own among them. As many are
        allowed here."""
        import released
        from torch.nn.attention import SDPBackend, sdpa_kernel
        torch = self.torch
        for name, mask_id in (("heddle-4m", 570), ("heddle-dream-5m", 577)):
            folder = self.models / name
            if not folder.is_dir():
                raise AssertionError(f"{folder}: --models= says where the trained models are")
            model = released.load(folder, torch.bfloat16).to(self.device)
            native = heddle.load(folder, device=self.device, dtype="bf16")
            prompt = torch.tensor(native.encode("Sort 52 17 90 33."), device=self.device)[None].long()
            options, given = {"steps": 64, "gen_length": 64}, {"block_length": 64}
            loop = released.generate
            if name == "heddle-dream-5m":  # of the released rules the one by probability, as `origin` draws at random
                loop, given = released.generate_by_timesteps, {"alg": "maskgit_plus"}

            def generate(model, prompt=prompt, mask_id=mask_id, loop=loop, options={**options, **given}):
                return loop(model, prompt, mask_id=mask_id, **options)

            def share(tokens, others):
                return (tokens == others).float().mean().item()
            plain = generate(model)
            with sdpa_kernel(SDPBackend.MATH):
                other = share(generate(model), plain)
            compiled = share(generate(self.fast(model)), plain)
            print(f"   {name}: SDPA's math kernels give {other:.1%} of its tokens, compiled it gives {compiled:.1%}")
            least = min(0.95, other - 0.05, compiled - 0.05)
            for schedule in ("dense", "every", "pulsecol", "sparsed"):
                code = bundle(self.folder, f"run-{schedule}")
                with heddle.patch(model, code, block_length=64, **options):
                    made = generate(model)
                    assert torch.equal(made, generate(model))
                    same = share(generate(self.fast(model)), made)
                print(f"   {name}, {schedule}: {same:.1%} of the tokens compiled, {share(made, plain):.1%} of the "
                      "unpatched model's")
                # Scores of selections are near ties, too.
                bound = least if schedule == "dense" else least - 0.1
                assert same >= bound, f"{schedule}: compiled, {same:.1%} of tokens, of at least {bound:.1%}"
                if schedule == "dense":
                    same = share(made, plain)
                    assert same >= least, f"{name}: {same:.1%} of the unpatched model's tokens, of at least {least:.1%}"
                theirs = native.generate("Sort 52 17 90 33.", code, **options, **given).sequences[0]
                same = (made[0].cpu().numpy() == theirs).mean()
                print(f"   {name}, {schedule}: {same:.1%} of the runtime's tokens")
                assert same >= bound - 0.05, f"{name}, {schedule}: {same:.1%} of the runtime's tokens"
            native.close()

    def random_weights(self):
        """Logits of models of random weights in bf16, patched and not, compiled and not, beside those in f32."""
        import released
        torch = self.torch
        for name, (kind, shape) in RANDOM.items():
            model = getattr(released, kind)(SimpleNamespace(**shape)).eval().to(self.device, torch.bfloat16)
            ids = torch.randint(0, 4096, (2, 700), device=self.device)
            exact = copy.deepcopy(model).float()
            expected = exact(ids).logits

            def error(model, expected=expected, ids=ids):
                return (model(ids).logits.float() - expected).square().mean().sqrt().item()
            own = error(model), error(self.fast(model))
            with heddle.patch(model, bundle(self.folder, "run-dense"), steps=64):
                mine = error(model), error(self.fast(model))
            print(f"   {name}: bf16 differs from f32 by {own[0]:.2e}, compiled {own[1]:.2e}, patched {mine[0]:.2e}, patched "
                  f"and compiled {mine[1]:.2e}, of logits {expected.std().item():.2f}")
            for here, there in zip(mine, own):
                assert 0 < here < 1.5 * there, f"{name}: {here:.2e} from f32, its own attention {there:.2e}"
            # A step that selects is dense, the next one reads.
            with heddle.patch(model, bundle(self.folder, "run-every"), steps=64) as patch:
                eager = [model(ids).logits for _ in range(2)]
                patch.restart()
                fast = self.fast(model)
                for step, logits in enumerate(eager):
                    apart = (fast(ids).logits - logits).float().square().mean().sqrt().item()
                    assert apart < 2 * (own[0] + own[1]), f"{name}, step {step + 1}: compiled, {apart:.2e} apart"
                sparse = (eager[1].float() - expected).square().mean().sqrt().item()
                assert sparse > 2 * own[0], f"{name}: the selection changes nothing ({sparse:.2e})"

    def random_tokens(self):
        """The tokens of models of random weights with dense attention, patched, compiled and not, at all positions of a
        generation's steps: those of the model's own attention wherever its best logit is above the next by more than the
        margin. That is twice the most by which bf16 moves the difference of these two from f32's: once for each side."""
        import released
        torch = self.torch
        vocabulary, (steps, length) = 4096, (8, 668) if self.device == "cuda" else (4, 168)
        for name, (kind, shape) in RANDOM.items():
            torch.manual_seed(7)
            model = released.decided(getattr(released, kind)(SimpleNamespace(**shape))).to(self.device, torch.bfloat16)
            exact, given, own = copy.deepcopy(model).float(), [], []

            def forward(ids, model=model, given=given, own=own):
                given.append(ids.clone())
                own.append(model(ids).logits)
                return released.Output(own[-1])
            prompt = torch.randint(0, vocabulary - 1, (2, length), device=self.device)
            options = {"steps": steps, "gen_length": 32, "mask_id": vocabulary - 1}
            plain = released.of_class(model, forward, prompt, **options)
            best, in_f32, gaps, moved = [], [], [], 0
            for ids, logits in zip(given, own):
                top = logits.float().topk(2)
                there = exact(ids).logits
                in_f32.append(there.argmax(-1))
                there = there.gather(-1, top.indices)
                best.append(top.indices[..., 0])
                gaps.append(top.values[..., 0] - top.values[..., 1])
                moved = max(moved, (gaps[-1] - (there[..., 0] - there[..., 1])).abs().max().item())
            best, sure = torch.stack(best), torch.stack(gaps) > 2 * moved
            compared = sure.float().mean().item()
            print(f"   {name}: margin {2 * moved:.3f} of logits {own[0].float().std().item():.2f}; {compared:.1%} of "
                  f"{sure.numel()} positions and steps are decided by more")
            assert compared > 0.5, f"{name}: {compared:.1%} of the positions are decided"
            with heddle.patch(model, bundle(self.folder, "run-dense"), steps=steps) as patch:
                for how, run in (("patched", model), ("patched and compiled", self.fast(model))):
                    patch.restart()
                    mine = torch.stack([run(ids).logits.argmax(-1) for ids in given])
                    same = mine == best
                    print(f"   {name}, {how}: {same[sure].float().mean().item():.2%} of the decided tokens are the same, "
                          f"{same.float().mean().item():.2%} of all")
                    assert same[sure].all(), f"{name}, {how}: {(~same[sure]).sum().item()} decided tokens differ"
                patch.restart()
                made = released.of_class(model, model, prompt, **options)
                alike = (made == plain)[:, length:].float().mean().item()
                print(f"   {name}: a generation of its own has {alike:.1%} of the tokens")
            with heddle.patch(model, bundle(self.folder, "run-every"), steps=steps):
                sparse = torch.stack([model(ids).logits.argmax(-1) for ids in given[:2]])[1]
                apart = (sparse != best[1])[sure[1]].float().mean().item()
                assert apart > 0.1, f"{name}: attention decides {apart:.1%} of the tokens"
            if self.device == "cpu":  # no error to speak of: all tokens
                with heddle.patch(exact, heddle.preset("dense"), steps=steps):
                    same = [torch.equal(exact(ids).logits.argmax(-1), best) for ids, best in zip(given, in_f32)]
                assert all(same), f"{name}: f32's tokens differ in steps {[i + 1 for i, ok in enumerate(same) if not ok]}"

    def records(self):
        """What heddle-run --record writes of runs that select columns and of one that is dense, read by heddle.tracing."""
        import subprocess
        import tempfile
        import numpy as np
        from heddle.tracing import Record
        prompt = "Sort 52 17 90 33."
        if self.heddle_run is None:
            raise AssertionError("--heddle-run= says where the program is")
        model, options = self.models / "heddle-4m", {"gen_length": 32, "block_length": 32, "steps": 16}
        native = heddle.load(model, device=self.device, dtype="bf16")
        with tempfile.TemporaryDirectory() as folder:
            for schedule in ("every", "dense"):
                path = Path(folder) / schedule
                subprocess.run([self.heddle_run, "-q", "-m", model, "-b", self.folder / f"run-{schedule}.hdl", "--dtype=bf16",
                                f"--device={self.device}", "--record", path, "--record-every=3", "--gen-length=32",
                                "--block-length=32", "--steps=16", prompt], check=True, stdout=subprocess.DEVNULL)
                record = Record(path)  # which checks shapes and ranges
                steps = list(native.stream(prompt, bundle(self.folder, f"run-{schedule}"), **options))
                commits = [[s.step, p, t] for s in steps for p, t in zip(s.positions.tolist(), s.tokens.tolist())]
                assert record["commits"].tolist() == commits, f"{schedule}: other commits than heddle.load()'s run"
                assert len(record["seconds"]) == len(steps) == 16 and (record["seconds"] > 0).all()
                at, length, layers = record["maps.steps"], record.run["length"], record.run["layers"]
                assert len(at) >= 5 and set(np.diff(at)[:-1]) == {3}, f"{schedule}: maps at steps {at.tolist()}"
                cells, rows = np.array(record["maps.mass"].shape)[-1], record.mass().sum(-1)
                assert np.abs(rows[rows > 0] - 1).max() < 0.1, f"{schedule}: mass of {rows.min():.3f} to {rows.max():.3f}"
                kept, recall = record["maps.kept"], record["maps.recall"]
                assert 0 <= recall.min() and recall.max() < 1.01
                if schedule == "dense":
                    assert recall.min() > 0.99 and len(record["drift"]) == 0, f"recall {recall.min():.3f} of dense attention"
                else:  # steps 1, 5, 9, 13 are dense and refresh, the others read
                    read = (at - 1) % 4 != 0
                    assert read.any() and recall[read].min() < 0.99, f"recall {recall[read].min():.3f} of columns"
                    refreshed = sorted(set(record["drift.at"][:, 0].tolist()))
                    assert refreshed == [1, 5, 9, 13], f"refreshed at {refreshed}"
                    assert len(record["drift"]) >= 4 * layers
                print(f"   {schedule}, {record.run['device']}: {length} tokens, {len(at)} maps of {cells} cells, "
                      f"recall {recall.min():.3f} to {recall.max():.3f}, mass kept in {np.mean(kept > 0):.1%} of the cells")
        native.close()

    def all(self, only):
        names = [n for n, f in vars(Checks).items() if callable(f) and not n.startswith("_")
                 and n not in ("tensors", "probabilities", "mask", "attended", "near", "fast", "all")]
        if self.device == "cpu":
            names = list(ON_HOST)
        failed = 0
        for name in names:
            if only and name not in only:
                continue
            started = time.perf_counter()
            try:
                with self.torch.no_grad() if name != "refusals" else self.torch.enable_grad():
                    getattr(self, name)()
                if self.device == "cuda":
                    self.torch.cuda.synchronize()
                print(f"passed  {name} ({time.perf_counter() - started:.1f} s)", flush=True)
            except Exception as error:
                failed += 1
                print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)
                traceback.print_exc(limit=6)
        print(f"{len([n for n in names if not only or n in only]) - failed} passed, {failed} failed")
        return failed


def host_time(torch, call, count=2000):
    """Microseconds of this thread a call: short bursts, which do not fill the queue."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    best = []
    for _ in range(count // 20):
        started = time.perf_counter()
        for _ in range(20):
            call()
        best.append((time.perf_counter() - started) / 20)
        torch.cuda.synchronize()
    best.sort()
    return best[len(best) // 2] * 1e6


class BareLaunch:
    """cuLaunchKernel of a kernel that does nothing, with three parameters as attention's have."""

    CODE = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }
\0"""

    def __init__(self, torch):
        cuda = ctypes.CDLL("libcuda.so.1")
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        for name, *arguments in (("cuModuleLoadData", ctypes.byref(module), self.CODE),
                                 ("cuModuleGetFunction", ctypes.byref(function), module, b"nothing")):
            outcome = getattr(cuda, name)(*arguments)
            assert outcome == 0, f"{name}: {outcome}"
        self.parameters = [ctypes.c_uint64(0) for _ in range(3)]
        array = (ctypes.c_void_p * 3)(*(ctypes.addressof(p) for p in self.parameters))
        one = ctypes.c_uint(1)
        self.arguments = (function, one, one, one, ctypes.c_uint(384), one, one, ctypes.c_uint(0),
                          ctypes.c_void_p(0), array, ctypes.c_void_p(0))
        self.launch, self.nothing = cuda.cuLaunchKernel, ctypes.CDLL(None).abs
        assert self.launch(*self.arguments) == 0
        torch.cuda.synchronize()

    def host_time(self, torch):
        """Less what ctypes takes for a function of as many arguments."""
        return host_time(torch, lambda: self.launch(*self.arguments)) - \
            host_time(torch, lambda: self.nothing(*self.arguments))


def device_time(torch, call, count=20):
    """Milliseconds a call, median."""
    for _ in range(3):
        call()
    times = []
    for _ in range(count):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    times.sort()
    return times[len(times) // 2]


def bench(folder, lengths):
    import torch
    torch.set_grad_enabled(False)
    checks = Checks(folder, None)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("\nhost time a call, 128 tokens, 8 heads of 128, bf16 (us)")
    q, k, v = checks.tensors(128, 8, 8, 128, 1)
    heads_first = [t.transpose(1, 2) for t in (q, k, v)]
    dense, window, columns, blocks_ = (checks.plans[name] for name in ("dense", "window", "columns", "blocks"))
    selection, of_blocks = columns.select(q, k), blocks_.select(q, k)
    window(q, k, v)
    native, made = window.kernels.prepared(q, k, v, 0), torch.empty_like(q)
    memory = [t.data_ptr() for t in (q, k, v, made)] + [0, 0, 0]
    others = itertools.cycle([checks.tensors(128, 8, 8, 128, 1) for _ in range(40)])
    flex = None
    try:
        from torch.nn.attention.flex_attention import BlockMask, flex_attention
        flex = torch.compile(flex_attention)
    except ImportError:
        pass
    rows = [
        ("an empty_like", lambda: torch.empty_like(q)),
        ("scaled_dot_product_attention", lambda: sdpa(*heads_first)),
        ("FlexAttention, compiled", flex and (lambda: flex(*heads_first))),
        ("heddle.attention, dense", lambda: dense(q, k, v)),
        ("heddle.attention, window", lambda: window(q, k, v)),
        ("  of it the call in C++", lambda: native.run(0, *memory, 0, 1, 1, 0)),
        ("  on tensors of elsewhere", lambda: window(*next(others))),
        ("a selection's attend", lambda: selection.attend(q, k, v)),
        ("  of blocks", lambda: of_blocks.attend(q, k, v)),
        ("columns, selected and attended", lambda: columns(q, k, v)),
        ("  on tensors of elsewhere", lambda: columns(*next(others))),
        ("blocks, selected and attended", lambda: blocks_(q, k, v)),
        ("a selection alone", lambda: columns.select(q, k)),
        ("torch.ops.heddle.attention",
         lambda: heddle.kernels._ops().attention(q, k, v, window.key))]
    bare = BareLaunch(torch).host_time(torch)
    print(f"  {'a bare launch':32}{bare:8.2f}{'adds':>10}")
    for name, call in rows:
        if call:
            took = host_time(torch, call)
            print(f"  {name:32}{took:8.2f}{took - bare:10.2f}", flush=True)
    if not lengths:
        return

    print("\nattention alone, 32 heads of 128, bf16, batch 1 (ms)")
    print(f"  {'tokens':>8}{'SDPA':>10}{'dense':>10}{'columns':>10}{'blocks':>10}{'window':>10}"
          f"{'Flex 20%':>10}{'select':>10}")
    for n in lengths:
        q, k, v = checks.tensors(n, 32, 32, 128, 1)
        first = [t.transpose(1, 2).contiguous() for t in (q, k, v)]
        row = [device_time(torch, lambda: sdpa(*first)),
               device_time(torch, lambda: checks.plans["dense"](q, k, v))]
        for name in ("columns", "blocks"):
            chosen = checks.plans[name].select(q, k)
            row.append(device_time(torch, lambda: chosen.attend(q, k, v)))
        row.append(device_time(torch, lambda: checks.plans["window"](q, k, v)))
        if flex:
            count = n // 128
            kept, of = max(1, count // 5), torch.rand(1, 32, count, count, device="cuda")
            indices = of.argsort(-1).to(torch.int32)
            indices[..., :kept] = indices[..., :kept].sort(-1).values
            counts = torch.full((1, 32, count), kept, device="cuda", dtype=torch.int32)
            # Whole blocks, so that none is masked element by element.
            mask = BlockMask.from_kv_blocks(torch.zeros_like(counts), indices, counts, indices,
                                            BLOCK_SIZE=128)
            row.append(device_time(torch, lambda: flex(*first, block_mask=mask)))
        else:
            row.append(float("nan"))
        row.append(device_time(torch, lambda: checks.plans["columns"].select(q, k)))
        print(f"  {n:8}" + "".join(f"{x:10.3f}" for x in row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("compile", "check", "bench"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=Path, default=HERE.parents[2] / "models"
                        if len(HERE.parents) > 2 else Path("models"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="of compile and check")
    # Absolute: Path drops the "./" without which no program of this folder is found.
    parser.add_argument("--heddle-run", type=os.path.abspath, default=shutil.which("heddle-run"),
                        help="the program, for check's records")
    parser.add_argument("--only", help="checks, by comma", default="")
    parser.add_argument("--lengths", default="4096,8192,16384,32768,65536")
    arguments = parser.parse_args()
    if arguments.what == "compile":
        compile_all(arguments.folder, "host" if arguments.device == "cpu" else "cuda:sm_90a")
    elif arguments.what == "check":
        sys.path.insert(0, str(HERE))
        only = [name for name in arguments.only.split(",") if name]
        sys.exit(bool(Checks(arguments.folder, arguments.models, arguments.device, arguments.heddle_run).all(only)))
    else:
        bench(arguments.folder, [int(n) for n in arguments.lengths.split(",") if n])


if __name__ == "__main__":
    main()
