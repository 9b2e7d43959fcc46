# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as a function, against its definition in float64."""

import copy
import pickle
import signal
import threading
import time
import unittest

import numpy as np

import heddle
from heddle import Attention, attend, attention, blocks, columns, dense, every, scores, sinks, window

try:
    import torch
except ImportError:
    torch = None

RANDOM = np.random.default_rng(7)


def tensors(length=150, heads=4, kv_heads=2, dim=64, batch=()):
    shape = (*batch, length)
    return [RANDOM.standard_normal((*shape, n, dim)).astype(np.float32)
            for n in (heads, kv_heads, kv_heads)]


def logits_of(q, k):
    """[heads, rows, keys] in float64."""
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    return np.einsum("ihd,jhd->hij", q.astype(np.float64), k.astype(np.float64)) / \
        np.sqrt(q.shape[2])


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def attended(q, k, v, mask):
    """By definition; mask [heads or 1, rows, keys] says which pairs there are."""
    v = np.repeat(v, q.shape[1] // v.shape[1], axis=1).astype(np.float64)
    return np.einsum("hij,jhd->ihd", softmax(np.where(mask, logits_of(q, k), -np.inf)), v)


def distance(n):
    return np.abs(np.arange(n)[:, None] - np.arange(n))[None]


def columns_mask(q, k, keep, group, inside=None):
    """inside: the pairs of lists of columns for as many rows or more, from which these are chosen."""
    n, heads = q.shape[0], q.shape[1]
    share, mask = softmax(logits_of(q, k)), np.zeros((heads, n, n), bool)
    among = n if inside is None else inside[0, 0].sum()
    for start in range(0, n, group):
        score = share[:, start:start + group].mean(1)
        if inside is not None:
            score = np.where(inside[:, start], score, -1)
        best = np.argsort(-score, axis=1, kind="stable")[:, :max(1, int(keep * among))]
        for head in range(heads):
            mask[head, start:start + group, best[head]] = True
    return mask


class AttentionTest(unittest.TestCase):
    def near(self, mine, theirs, tolerance=2e-5):
        np.testing.assert_allclose(mine, theirs, atol=tolerance, rtol=0)

    def test_pairs(self):
        q, k, v = tensors()
        n = len(q)
        key = np.arange(n)[None, None]
        for pairs, mask in ((dense, np.ones((1, n, n), bool)),
                            (window(20), distance(n) <= 10),
                            (window(8) | sinks(3), (distance(n) <= 4) | (key < 3)),
                            (sinks(0.1), np.broadcast_to(key < 15, (1, n, n))),
                            (columns(0.2, 32), columns_mask(q, k, 0.2, 32)),
                            (columns(0.5, 32, within=columns(0.4, 64)),
                             columns_mask(q, k, 0.5, 32, columns_mask(q, k, 0.4, 64))),
                            (columns(0.1, 64) | window(8),
                             columns_mask(q, k, 0.1, 64) | (distance(n) <= 4))):
            with self.subTest(str(pairs)):
                self.near(attention(q, k, v, pairs), attended(q, k, v, mask))

    def test_blocks_that_tell_the_prompt_apart_differ(self):
        q, k, v = tensors()
        pairs = blocks(0.3, 32, isolating="spans")
        a, b = attention(q, k, v, pairs, prompt=40), attention(q, k, v, pairs, prompt=100)
        self.assertTrue(np.isfinite(a).all())
        self.assertGreater(np.abs(a - b).max(), 1e-3)

    def test_batches_and_strides(self):
        q, k, v = tensors(batch=(3,))
        wide = np.zeros((3, 150, 9, 64), np.float32)  # q, k and v of a fused product
        wide[:, :, :4], wide[:, :, 4:6], wide[:, :, 6:8] = q, k, v
        parts = wide[:, :, :4], wide[:, :, 4:6], wide[:, :, 6:8]
        for pairs in (dense, columns(0.2, 32)):
            mine = attention(q, k, v, pairs)
            for i in range(3):
                np.testing.assert_array_equal(mine[i], attention(q[i], k[i], v[i], pairs))
            np.testing.assert_array_equal(mine, attention(*parts, pairs))
        for shape in ((1, 1), (2, 1)):
            one = [t[:shape[0], :1] for t in (q, k, v)]
            self.near(attention(*one), np.repeat(one[2], 2, axis=2))

    def test_scores(self):
        q, k, v = tensors()
        n, heads = q.shape[:2]
        logits, head = logits_of(q, k), np.arange(heads)[:, None, None]
        i, j = np.arange(n)[None, :, None], np.arange(n)[None, None]
        for name, function, expected in (
                ("soft cap", lambda x: 2 * scores.tanh(x / 2), 2 * np.tanh(logits / 2)),
                ("causal", lambda x, a, b: b <= a, np.where(j <= i, logits, -np.inf)),
                ("bias", lambda x, a, b, h: x - abs(a - b) * scores.exp2((h + 1) * -0.5),
                 logits - np.abs(i - j) * np.exp2((head + 1) * -0.5)),
                ("numbers of NumPy", lambda x, a, b: scores.where(
                    (b < np.int64(40)) & np.True_, np.float32(2.5) * x, x / np.float64(2)),
                 np.where(j < 40, logits * 2.5, logits / 2)),
                ("defaults", lambda x, a=2.0, *, b=3: x * a + b, logits * 2 + 3),
                ("whole numbers", lambda x, a, b: x + ((a - b) // 7 + (a - b) % 5 * 2) * 0.01,
                 logits + ((i - j) // 7 + (i - j) % 5 * 2) * 0.01),
                ("shifts", lambda x, a, b: scores.where(((a >> 4) ^ (b >> 4)) & 1 == 0, x, -1e30),
                 np.where(((i >> 4) ^ (j >> 4)) & 1 == 0, logits, -1e30)),
                ("truths", lambda x, a, b: ~((a < 9) & (b > 20)) | (a == b),
                 np.where(~((i < 9) & (j > 20)) | (i == j), logits, -np.inf)),
                ("functions", lambda x, a: scores.maximum(scores.minimum(-x, 0.5), -1) +
                 scores.sqrt(a + 1.0) / (1 + scores.exp(-abs(x))) - scores.log(x * x + 1),
                 np.maximum(np.minimum(-logits, 0.5), -1) +
                 np.sqrt(i + 1.0) / (1 + np.exp(-np.abs(logits))) - np.log(logits**2 + 1))):
            with self.subTest(name):
                values = np.repeat(v, heads // v.shape[1], axis=1).astype(np.float64)
                by_hand = np.einsum("hij,jhd->ihd", softmax(np.broadcast_to(
                    expected, (heads, n, n)).astype(np.float64)), values)
                self.near(attention(q, k, v, scores=function), by_hand, 1e-4)

    def test_functions_that_are_none(self):
        for error, text, function in (
                (TypeError, "of which the last", lambda a, b, c, d, e: a),
                (TypeError, "of which the last", lambda *a: a[0]),
                (TypeError, "found one of \\(\\)", lambda logit=3.0: logit),
                (TypeError, "found one of \\(a, b\\)", lambda a, *, b: a),
                (TypeError, "made of the pair's", lambda a: 3.0),
                (TypeError, "where\\(condition", lambda a: a if a > 0 else -a),
                (TypeError, "found 'b'", lambda a: a + "b"),
                (TypeError, "positive constants", lambda a, b: a + b // 0),
                (TypeError, "positive constants", lambda a, b: a + b % b),
                (TypeError, "do not go together", lambda a, b: a + (b > 3)),
                (TypeError, "on floats", lambda a: a & 1),
                (TypeError, "takes a truth", lambda a: scores.where(True, a, a)),
                (TypeError, "takes a number", lambda a: a + scores.exp(1.0)),
                (ValueError, "not a number", lambda a: a + float("nan")),
                (ValueError, "beyond 32-bit", lambda a: a + 1e300),
                (ValueError, "32 bits", lambda a, b: a + (b + 2**31)),
                (ValueError, "more than 256", lambda a: sum((a * i for i in range(1, 200)), a))):
            with self.subTest(text):
                with self.assertRaisesRegex(error, text):
                    attend(scores=function)

    def test_steps_reuse_what_was_selected(self):
        first, second = tensors(), tensors()
        run = Attention(attend(columns(0.2, 32), refresh=every(2)), steps=3, layers=2)
        mask = [columns_mask(*t[:2], 0.2, 32) for t in (first, second)]
        everything = np.ones((1, 150, 150), bool)
        for step in range(3):
            for layer in range(2):
                mine = first if step == layer else second
                made = run(*mine, layer=layer)
                if step == 1:  # reads what step 1 chose in this layer
                    self.near(made, attended(*mine, mask[layer]))
                else:
                    self.near(made, attended(*mine, everything))
            self.assertEqual(run.step, step + 1)
        with self.assertRaisesRegex(heddle.HeddleError, "all 3 steps are done"):
            run(*first)
        run.restart()
        run(*first)
        with self.assertRaisesRegex(heddle.HeddleError, "layer 1 of 2 is next"):
            run(*first)

    def test_layers_read_what_one_before_has_chosen(self):
        made = [tensors() for _ in range(3)]
        run = Attention(attend(columns(0.2, 32, layers=0), refresh=every(2)), steps=3, layers=3)
        for step in range(3):
            if step % 2 == 0:
                chosen = made[step]
                mask = columns_mask(*chosen[:2], 0.2, 32)
            for layer in range(3):
                mine = made[(step + layer) % 3]
                found = run(*mine, layer=layer)
                if layer == 0 and step % 2 == 0:
                    self.near(found, attended(*mine, np.ones((1, 150, 150), bool)))
                else:
                    self.near(found, attended(*mine, mask))
        # Memory goes by layer: none for two layers' lists in one.
        two = attend(columns(0.2, 32, on=every(1), layers=0) | columns(0.2, 32, on=every(1)))
        with self.assertRaisesRegex(heddle.HeddleError, "layer 1 of the schedule 'schedule' takes "
                                                        "selections of several layers"):
            Attention(two, steps=1, layers=2)(*made[0])

    def test_threads(self):
        made = tensors()
        expected = attention(*made, columns(0.2, 32))
        results = []

        def work():
            for _ in range(5):
                results.append(attention(*made, columns(0.2, 32)))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(results), 20)
        for result in results:
            np.testing.assert_array_equal(result, expected)

    @unittest.skipUnless(torch, "no PyTorch")
    def test_torch(self):
        q, k, v = tensors(batch=(2,))
        there = [torch.from_numpy(t) for t in (q, k, v)]
        made = attention(*there, window(20))
        self.assertIsInstance(made, torch.Tensor)
        np.testing.assert_array_equal(made.numpy(), attention(q, k, v, window(20)))
        heads_first = [t.transpose(1, 2).contiguous() for t in there]
        with self.assertRaisesRegex(heddle.HeddleError, "make it contiguous"):
            attention(*[t.transpose(1, 2) for t in heads_first])
        half = [t.bfloat16() for t in there]
        made = attention(*half, window(20))
        self.assertEqual(made.dtype, torch.bfloat16)
        self.near(made.float().numpy(), attention(*[t.float().numpy() for t in half], window(20)),
                  0.02)
        for _ in range(2):  # also where such a call was made before
            negated = attention(torch._neg_view(there[0]), *there[1:], window(20))
            np.testing.assert_array_equal(negated.numpy(), attention(-q, k, v, window(20)))
        there[1].requires_grad_()
        with self.assertRaisesRegex(ValueError, "k: requires a gradient"):
            attention(*there)
        with torch.no_grad():
            self.assertFalse(attention(*there).requires_grad)

    def test_plans_are_copied_and_sent(self):
        q, k, v = tensors()
        for plan in (heddle.plan(columns(0.2) | sinks(4)),
                     heddle.plan(heddle.compile(attend(window(8)), head_dim=64))):
            for other in (copy.deepcopy(plan), pickle.loads(pickle.dumps(plan))):
                self.assertIs(other, plan)
            heddle.kernels._plans.pop(plan.key)  # as in another process
            sent = pickle.loads(pickle.dumps(plan))
            self.assertIsNot(sent, plan)
            np.testing.assert_array_equal(sent(q, k, v), plan(q, k, v))

    def test_selections_are_copied_and_sent_with_aligned_lists(self):
        q, k, v = tensors()
        selection = heddle.select(q, k, columns(0.2))
        sent = [copy.copy(selection), copy.deepcopy(selection), *(pickle.loads(pickle.dumps(selection)) for _ in range(4))]
        for other in sent:
            self.assertEqual(other.lists.ctypes.data % 64, 0)
            np.testing.assert_array_equal(other.attend(q, k, v), selection.attend(q, k, v))

    def test_lists_that_are_not_bytes_in_a_row_are_refused(self):
        q, k, v = tensors()
        selection = heddle.select(q, k, columns(0.2))
        size = len(selection.lists)

        def aligned(count, dtype="uint8"):
            memory = np.zeros(count * np.dtype(dtype).itemsize + 64, "uint8")
            return memory[-memory.ctypes.data % 64:][:count * np.dtype(dtype).itemsize].view(dtype)
        for lists in (aligned(size, "f4"), aligned(2 * size)[::2], aligned(size).reshape(1, -1),
                      np.broadcast_to(aligned(1), (size,))):
            selection.lists = lists
            with self.assertRaisesRegex(heddle.HeddleError, f"lists: expected .*, {size} bytes, found"):
                selection.attend(q, k, v)
        selection.lists = [0] * size
        with self.assertRaisesRegex(TypeError, "lists: "):
            selection.attend(q, k, v)
        selection.lists = None
        with self.assertRaisesRegex(TypeError, "lists: expected .*, found None"):
            selection.attend(q, k, v)
        with self.assertRaisesRegex(ValueError, "selects none of them .*nothing to reuse"):
            heddle.plan(heddle.compile(attend(window(8)), head_dim=q.shape[-1])).select(q, k)
        with self.assertRaisesRegex(TypeError, "q: expected an array"):
            selection.attend([1], k, v)

    def test_lists_of_other_bytes_are_refused(self):
        q, k, v = tensors()
        for pairs, number, ends in ((columns(0.2), 5, 150), (columns(0.2) | window(8), 5, 150),
                                    (blocks(0.3, 16), 1, 10),
                                    (columns(0.2, per_kv_head=True), 5, 150)):
            selection = heddle.select(q, k, pairs)
            numbers, expected = selection.lists.view(np.int32), selection.attend(q, k, v)
            right = numbers.copy()
            for name, wrong in (("random", RANDOM.integers(-2**31, 2**31, right.shape)),
                                ("zeros", 0 * right), ("none", 0 * right - 1), ("before 0", np.where(right == right[0], -7, right)),
                                ("beyond", np.where(right == right.max(), ends, right)),
                                ("twice", np.where(right == right[1], right[0], right))):
                with self.subTest(name, pairs=pairs):
                    numbers[:] = wrong
                    with self.assertRaisesRegex(heddle.HeddleError, f"lists of \\d+ of {ends} "):
                        selection.attend(q, k, v)
            numbers[:] = right
            np.testing.assert_array_equal(selection.attend(q, k, v), expected)

    def test_interrupts_end_calls_that_compute_or_wait(self):
        if threading.current_thread() is not threading.main_thread():
            self.skipTest("signals are the main thread's")
        small, long = tensors(64), tensors(40000, 2, 1)  # the long one takes seconds
        attention(*small)
        for waits in (False, True):
            with self.subTest(waits=waits):
                def interrupted(*_):
                    raise KeyboardInterrupt
                before = signal.signal(signal.SIGALRM, interrupted)
                other = threading.Thread(target=attention, args=[x[:20000] for x in long])
                try:
                    if waits:
                        other.start()
                        time.sleep(0.1)
                    signal.setitimer(signal.ITIMER_REAL, 0.2)
                    began = time.monotonic()
                    with self.assertRaises(KeyboardInterrupt):
                        attention(*(small if waits else long))
                    took = time.monotonic() - began
                    self.assertTrue(other.is_alive() or not waits, "nobody was waited for")
                    self.assertLess(took, 3)
                finally:
                    signal.signal(signal.SIGALRM, before)
                    if waits:
                        other.join()
        self.near(attention(*small), attended(*small, np.ones((1, 64, 64), bool)), 1e-4)

    def test_handlers_of_signals_cannot_compute(self):
        small, long, said = tensors(64), tensors(20000, 2, 1), []

        def handler(*_):
            try:
                attention(*small)
            except heddle.HeddleError as error:
                said.append(str(error))
        attention(*small)
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            attention(*long)
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertRegex("".join(said), "whose handler cannot run another")

    def test_a_run_is_copied_before_it_begins(self):
        q, k, v = tensors()
        run = Attention(attend(columns(0.2), refresh=every(2)), steps=4, blocks=np.int64(2))
        for other in (copy.copy(run), copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
            self.assertNotEqual(other.key, run.key)
            self.assertEqual((other.steps, other._block_steps), (4, 2))
            other(q, k, v)
            self.assertEqual((run.step, other.step), (0, 1))
        run(q, k, v)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "a run that has begun cannot be copied"):
                copied(run)
        run.restart()
        self.assertEqual(copy.copy(run).step, 0)

    def test_what_is_wrong_is_said(self):
        q, k, v = tensors()
        run = Attention(attend(window(8)))
        run(q, k, v)
        read_only = q.copy()
        read_only.flags.writeable = False
        np.testing.assert_array_equal(attention(q, k, v, window(8)),
                                      attention(read_only, k, v, window(8)))
        shortened = heddle.select(q, k, columns(0.2))
        shortened.lists = shortened.lists[:64]

        class Proxy:
            shape, __dlpack__, __dlpack_device__ = (4, 1, 32), None, lambda self: (self, self)

        class Lent:
            shape, dtype = q.shape, q.dtype

            def __dlpack__(self, **how):
                return q.__dlpack__(**how)

            def __dlpack_device__(self):
                return q.__dlpack_device__()
        for error, text, call in (
                (TypeError, "q: expected an array", lambda: attention(3, k, v)),
                (TypeError, "k: a masked array", lambda: attention(q, np.ma.array(k), v)),
                (TypeError, "k: expected an array", lambda: attention(q, [[1.0]], v)),
                (ValueError, "none of f32", lambda: attention(q.astype(int), k, v)),
                (ValueError, "none of f32", lambda: attention(q.astype(float), k, v)),
                (heddle.HeddleError, "k is not of dtype f32",
                 lambda: attention(q, k.astype(np.float16), v)),
                (ValueError, "do not go together", lambda: attention(q, k, v[:9])),
                (ValueError, "do not go together", lambda: attention(q[:, :3], k, v)),
                (ValueError, "found \\[64\\]", lambda: attention(q[0, 0], k, v)),
                (ValueError, "none of them 0", lambda: attention(q[:0], k[:0], v[:0])),
                (heddle.HeddleError, "strides", lambda: attention(q[:, ::-1], k, v)),
                (heddle.HeddleError, "strides", lambda: attention(q[::-1], k, v)),
                (heddle.HeddleError, "strides",
                 lambda: attention(np.broadcast_to(q[:1], q.shape), k, v)),
                (TypeError, "pairs: expected", lambda: attention(q, k, v, every(3))),
                (ValueError, "with on=", lambda: attention(q, k, v, columns(0.2, on=every(2)))),
                (ValueError, "prompt", lambda: attention(q, k, v, window(4), prompt=151)),
                (ValueError, "prompt", lambda: attention(q, k, v, window(4), prompt=np.int64(151))),
                (ValueError, "is no number of positions",
                 lambda: attention(q, k, v, window(4), prompt=2**70)),
                (ValueError, "the run is of", lambda: run(q[:9], k[:9], v[:9])),
                (ValueError, "steps: expected 1 to 1,048,576, found 0",
                 lambda: Attention(attend(), steps=0)),
                (ValueError, "layers: expected 1 to 65,536",
                 lambda: Attention(attend(), layers=10**9)),
                (TypeError, "q: Proxy says no device", lambda: attention(Proxy(), k, v)),
                (TypeError, "q: Lent has no __array_namespace__", lambda: attention(Lent(), k, v)),
                (heddle.HeddleError, "lists: expected those .*, found \\[64\\]",
                 lambda: shortened.attend(q, k, v)),
                (heddle.HeddleError, "needs a model",
                 lambda: Attention(heddle.preset("dyllm"))(q, k, v)),
                (heddle.HeddleError, "'pulsecol_drift' refreshes on drift.*needs a model",
                 lambda: Attention(heddle.preset("pulsecol-drift"))(q, k, v)),
                (heddle.HeddleError, "'cols' of the schedule .* goes by a set of positions, which needs a model",
                 lambda: attention(q, k, v, heddle.columns(0.5, "all", always=heddle.prompt)))):
            with self.subTest(text):
                with self.assertRaisesRegex(error, text):
                    call()


if __name__ == "__main__":
    unittest.main()
