# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.ops.heddle, torch.compile and patched models, on the host. They need PyTorch 2.4 or
later (and Transformers), which ./check does not install:

  pip install torch transformers && python -m unittest discover -s python/test/package"""

import copy
import threading
import types
import unittest

import heddle
from common import DREAM, LLADA
from heddle import Attention, attend, attention, columns, every, preset, sinks, window

try:
    import torch
    HAVE = hasattr(torch.library, "opcheck")
    # PyTorch 2.11 takes no sets of pairs into what it compiles.
    TAKES_PAIRS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15)
except ImportError:
    HAVE = False
try:
    import transformers
except ImportError:
    transformers = None
NEEDS = "PyTorch 2.4 or later is not installed"


def tensors(length=150, heads=4, kv_heads=2, dim=64, batch=2):
    return [torch.randn(batch, length, n, dim) for n in (heads, kv_heads, kv_heads)]


@unittest.skipUnless(HAVE, NEEDS)
class GenerationTest(unittest.TestCase):
    def test_responses_are_tensors_without_a_copy(self):
        with heddle.load(LLADA) as model:
            made = model.generate("Sort 3 1.", heddle.compile(preset("dense"), model=model), gen_length=8)
        for array in (*made.responses, *made.sequences):
            tensor = torch.from_numpy(array)
            self.assertEqual((tensor.dtype, tensor.data_ptr()), (torch.int32, array.ctypes.data))


@unittest.skipUnless(HAVE, NEEDS)
class OperationsTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        torch._dynamo.reset()
        self.q, self.k, self.v = tensors()
        self.near, self.chosen = heddle.plan(window(20)), heddle.plan(columns(0.2, 32) | sinks(4))
        self.selection = self.chosen.select(self.q, self.k)

    def test_operations_are_what_pytorch_expects(self):
        q, k, v = self.q, self.k, self.v
        ops = torch.ops.heddle
        for op, arguments in ((ops.attention, (q, k, v, self.near.key)),
                              (ops.attention, (q[0], k[0], v[0], self.chosen.key)),
                              (ops.select, (q, k, k, self.chosen.key)),
                              (ops.attend, (q, k, v, self.selection.lists, self.chosen.key))):
            with self.subTest(op=str(op)):
                outcomes = torch.library.opcheck(op.default, arguments)
                self.assertEqual(set(outcomes.values()), {"SUCCESS"})

    def test_operations_are_the_functions(self):
        q, k, v = self.q, self.k, self.v
        self.assertTrue(torch.equal(torch.ops.heddle.attention(q, k, v, self.near.key),
                                    attention(q, k, v, window(20))))
        self.assertTrue(torch.equal(self.selection.attend(q, k, v), self.chosen(q, k, v)))
        self.assertTrue(torch.equal(
            torch.ops.heddle.attend(q, k, v, self.selection.lists, self.chosen.key),
            self.chosen(q, k, v)))
        with self.assertRaisesRegex(heddle.HeddleError, "no plan or run 'none'"):
            torch.ops.heddle.attention(q, k, v, "none")
        with self.assertRaisesRegex(heddle.HeddleError, "expected lists of"):
            torch.ops.heddle.attend(q, k, v, torch.randint_like(self.selection.lists, 256), self.chosen.key)

    def test_compiled_functions(self):
        pairs, near, chosen = columns(0.2, 32) | sinks(4), self.near, self.chosen

        def by_plans(q, k, v):
            return near(q * 2, k, v) + chosen(q, k, v)

        def by_pairs(q, k, v):
            return attention(q, k, v, pairs) * 2

        def by_selections(q, k, v):
            selection = heddle.select(q, k, pairs)
            return selection.attend(q, k, v) + chosen.select(q, k).attend(q, k + 1, v)
        for function in (by_plans, by_pairs, by_selections) if TAKES_PAIRS else (by_plans,):
            for dynamic in (False, True):
                with self.subTest(function.__name__, dynamic=dynamic):
                    torch._dynamo.reset()
                    fast = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
                    for length in (150, 64):
                        given = tensors(length)
                        torch.testing.assert_close(fast(*given), function(*given))

    def test_pairs_are_made_outside_of_what_is_compiled(self):
        pairs, given = window(20), tensors()
        for function in (lambda q, k, v: attention(q, k, v, window(20)),
                         lambda q, k, v: attention(q, k, v, pairs | sinks(4)),
                         lambda q, k, v: attention(q, k, v, columns(0.2)),
                         lambda q, k, v: heddle.plan(pairs)(q, k, v)):
            torch._dynamo.reset()
            with self.assertRaisesRegex(torch._dynamo.exc.Unsupported,
                                        "make sets of pairs, or a heddle.plan\\(\\), outside|disable"):
                torch.compile(function, fullgraph=True, backend="aot_eager")(*given)
            torch._dynamo.reset()
            if TAKES_PAIRS:
                torch.testing.assert_close(torch.compile(function, backend="aot_eager")(*given), function(*given))

    def test_compiled_runs_count_their_steps(self):
        expected, mine = (Attention(attend(columns(0.2, 32), refresh=every(2)), steps=4, layers=2)
                          for _ in range(2))

        def body(q, k, v, layer):
            return mine(q, k, v, layer=layer) * 2
        fast = torch.compile(body, fullgraph=True, backend="aot_eager")
        for _ in range(4):
            for layer in range(2):
                q, k, v = tensors()
                torch.testing.assert_close(fast(q, k, v, layer), expected(q, k, v, layer=layer) * 2)
        with self.assertRaisesRegex(Exception, "all 4 steps are done"):
            fast(*tensors(), 0)

    def test_tensors_of_pytorch_before_exchange_functions(self):
        older = heddle.kernels.Plan(self.chosen.kernels.source, 0, True, "older")
        older.kernels.tensors = heddle._heddle.TensorCalls(torch, None)
        for q, k, v in (tensors(), tensors(batch=3), [t[0] for t in tensors(70)]):
            for _ in range(2):
                self.assertTrue(torch.equal(older(q, k, v), self.chosen(q, k, v)))
            selection = older.select(q, k)
            self.assertTrue(torch.equal(selection.attend(q, k, v), older(q, k, v)))
        with self.assertRaisesRegex(heddle.HeddleError, "q is on meta"):
            older.kernels.run_torch(0, *(t.to("meta") for t in tensors()), None, 0)

    def test_outputs_are_contiguous_whatever_q_is(self):
        wide = torch.randn(2, 150, 8, 64)
        q, k, v = wide[:, :, :4], wide[:, :, 4:6], wide[:, :, 6:]
        for _ in range(2):
            made = self.near(q, k, v)
            self.assertTrue(made.is_contiguous())
            torch.testing.assert_close(made, self.near(*(t.contiguous() for t in (q, k, v))))

    def test_parameters_and_what_wraps_tensors(self):
        q, k, v = self.q, self.k, self.v
        with torch.no_grad():
            own = [torch.nn.Parameter(t) for t in (q, k, v)]
            self.assertTrue(torch.equal(self.near(*own), self.near(q, k, v)))
            required = q.clone().requires_grad_()
            self.assertTrue(torch.equal(self.near(required, k, v), self.near(q, k, v)))

    def test_what_stands_for_other_tensors(self):
        """Transforms and traces see the operation; what has no memory is refused."""
        q, k, v = self.q, self.k, self.v
        expected, lists = self.near(q, k, v), self.selection.lists

        def near(q, k, v):
            return self.near(q, k, v)
        for function in (near, lambda *t: attention(*t, window(20))):
            for outcome in (torch.vmap(function)(q, k, v), torch.func.functionalize(function)(q, k, v),
                            torch.vmap(lambda row: function(row, k[0], v[0]))(q[:1])):
                self.assertTrue(torch.equal(outcome, expected[:len(outcome)]))
        batches = torch.vmap(lambda q, k: self.chosen.select(q, k).lists)(q, k)
        self.assertEqual(batches.numel(), lists.numel())
        wrapped = near(*(torch._to_functional_tensor(t) for t in (q, k, v)))
        self.assertTrue(torch.equal(torch._from_functional_tensor(wrapped), expected))
        traced = torch.jit.trace(near, (q, k, v))
        self.assertTrue(torch.equal(traced(k=k, q=q * 2, v=v), near(q * 2, k, v)))

        class Own(torch.Tensor):
            pass
        self.assertIsInstance(near(q.as_subclass(Own), k, v), Own)
        with torch.inference_mode():
            self.assertTrue(near(*tensors()).is_inference())
        from torch._subclasses.fake_tensor import FakeTensorMode
        with FakeTensorMode() as mode:
            fake = [mode.from_tensor(t) for t in (q, k, v)]
            self.assertEqual(near(*fake).shape, q.shape)
        with self.assertRaisesRegex(heddle.HeddleError, "q is a FakeTensor without memory"):
            Attention(preset("dense"))(*fake)
        with self.assertRaisesRegex(heddle.HeddleError, "q is a tensor of a torch.func transform"):
            torch.vmap(Attention(preset("dense")))(q, k, v)
        emptied = q.clone()
        emptied.untyped_storage().resize_(0)
        for odd, message in ((emptied, "q is a Tensor without memory"),
                             (q.to_sparse(), "q is of the layout torch.sparse_coo"),
                             (q.to_mkldnn(), "q is of the layout torch._mkldnn"),
                             (torch.nested.nested_tensor(list(q)), "q is a nested tensor")):
            for mine in (self.near, attention):
                with self.assertRaisesRegex(heddle.HeddleError, message):
                    mine(odd, k, v)
        for odd in (None, 3, [1.0]):
            with self.assertRaisesRegex(TypeError, "q: expected an array or tensor"):
                self.near(odd, k, v)
            with self.assertRaisesRegex(TypeError, "v: expected a torch.Tensor, as q is"):
                self.near(q, k, odd)

    def test_gradients_are_refused_everywhere(self):
        q, k, v = self.q, self.k, self.v
        required = v.clone().requires_grad_()
        operations = torch.ops.heddle
        for call in (lambda: self.near(q, k, required),
                     lambda: operations.attention(q, k, required, self.near.key),
                     lambda: operations.select(required, k, k, self.chosen.key),
                     lambda: self.selection.attend(q, k, required),
                     lambda: operations.attend(q, k, required, self.selection.lists,
                                               self.chosen.key),
                     lambda: torch.func.grad(lambda v: self.near(q, k, v).sum())(v)):
            with self.assertRaisesRegex(ValueError, "requires a gradient"):
                call()
        with self.assertRaisesRegex(Exception, "requires a gradient"):
            torch.compile(lambda v: self.near(q, k, v), backend="aot_eager")(required)
        with self.assertRaisesRegex(ValueError, "has a forward gradient"):
            torch.func.jvp(lambda v: self.near(q, k, v), (v,), (v,))
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(v, v)
            with self.assertRaisesRegex(ValueError, "has a forward gradient"):
                self.near(q, k, dual)
            self.assertTrue(torch.equal(self.near(q, k, v), operations.attention(q, k, v, self.near.key)))

    def test_meta_tensors_are_refused(self):
        with self.assertRaisesRegex(heddle.HeddleError, "q is on meta"):
            self.near.kernels.run_torch(0, *(t.to("meta") for t in (self.q, self.k, self.v)), None, 0)
        with self.assertRaisesRegex(TypeError, "k: expected a torch.Tensor"):
            attention(self.q, self.k.numpy(), self.v)
        with self.assertRaisesRegex(ValueError, "the selection is of"):
            self.selection.attend(self.q[:1], self.k[:1], self.v[:1])
        with self.assertRaisesRegex(ValueError, "nothing to reuse"):
            self.near.select(self.q, self.k)
        lists = self.selection.lists
        for wrong in (lists[:-1], lists.float(), lists.view(1, -1), lists.expand(2, -1)[:, 0],
                      torch.cat((lists, lists))[::2], lists.to("meta")):
            with self.assertRaisesRegex(heddle.HeddleError, "lists: expected those that select"):
                self.selection.lists = wrong
                self.selection.attend(self.q, self.k, self.v)
        with self.assertRaisesRegex(TypeError, "lists: expected .*, found None"):
            self.selection.lists = None
            self.selection.attend(self.q, self.k, self.v)
        self.selection.lists = lists
        with self.assertRaisesRegex(heddle.HeddleError, "multiple of 64 bytes"):
            lists = torch.zeros(len(self.selection.lists) + 1, dtype=torch.uint8)[1:]
            torch.ops.heddle.attend(self.q, self.k, self.v, lists, self.chosen.key)


@unittest.skipUnless(HAVE, NEEDS)
class PatchTest(unittest.TestCase):
    OPTIONS = {"steps": 32, "gen_length": 64, "block_length": 32}

    @classmethod
    def setUpClass(cls):
        import released
        cls.released = released
        torch.set_grad_enabled(False)

    @classmethod
    def tearDownClass(cls):
        torch.set_grad_enabled(True)

    def test_llada_gives_the_tokens_of_its_own_attention_and_of_the_runtime(self):
        model = self.released.load(LLADA)
        native = heddle.load(LLADA, dtype="f32")
        prompts = [native.encode(text) for text in ("Sort 52 17 90 33.", "Sort 88 17 12 95.")]
        given = torch.stack([torch.from_numpy(ids) for ids in prompts]).long()

        def generate():
            return self.released.generate(model, given, mask_id=570, **self.OPTIONS)
        plain = generate()
        differ = 0
        for name, schedule in (
                ("dense", preset("dense")), ("pulsecol", preset("pulsecol")),
                ("sparsed", preset("sparsed")),
                ("unions", attend(columns(0.1, 32) | window(16) | sinks(2), refresh=every(8)))):
            with self.subTest(name):
                theirs = native.generate(prompts, heddle.compile(schedule, model=native),
                                         **self.OPTIONS).sequences
                with heddle.patch(model, schedule, **self.OPTIONS) as patch:
                    for _ in range(2):  # the second run begins by itself
                        made = generate()
                        self.assertEqual(patch.step, 32)
                        for mine, other in zip(made, theirs):
                            self.assertEqual(mine.tolist(), other.tolist())
                if name == "dense":
                    self.assertTrue(torch.equal(made, plain))
                differ += not torch.equal(made, plain)
        self.assertGreater(differ, 0, "no schedule had any effect")
        self.assertTrue(torch.equal(generate(), plain), "the patch was not removed")

    def test_dream_gives_what_its_own_attention_gives(self):
        model = self.released.load(DREAM)
        ids = torch.randint(0, 500, (2, 100))
        plain = model(ids).logits
        with heddle.patch(model, preset("dense"), steps=4):
            torch.testing.assert_close(model(ids).logits, plain, atol=2e-4, rtol=1e-4)
        with heddle.patch(model, attend(columns(0.3, 32), refresh=every(4)), steps=4) as patch:
            torch.testing.assert_close(model(ids).logits, plain, atol=2e-4, rtol=1e-4)
            self.assertGreater((model(ids).logits - plain).abs().max(), 0.01)
            self.assertEqual(patch.step, 2)
            model(ids[:, :50])
            self.assertEqual(patch.step, 1, "sequences of another shape are another run")
            patch.restart()
            with self.assertRaisesRegex(heddle.HeddleError, "an attention mask"):
                model(ids, attention_mask=torch.ones(2, 1, 100, 100, dtype=torch.bool))

    def test_dream_is_the_runtime(self):
        """Whole runs, by the released rules that draw nothing."""
        model, native = self.released.load(DREAM), heddle.load(DREAM, dtype="f32")
        prompts = [native.encode(text) for text in ("Sort 52 17 90 33.", "Sort 88 17 12 95.")]
        given = torch.stack([torch.from_numpy(ids) for ids in prompts]).long()
        made = {}
        for alg in ("maskgit_plus", "topk_margin", "entropy"):
            options = {"steps": 24, "gen_length": 32, "alg": alg}
            for name, schedule in (("dense", preset("dense")),
                                   ("columns", attend(columns(0.1, 32), refresh=every(8), at_once=True))):
                with self.subTest(f"{alg}, {name}"), heddle.patch(model, schedule, steps=24) as patch:
                    made[alg, name] = self.released.generate_by_timesteps(model, given, mask_id=577, **options)
                    self.assertEqual(patch.step, 24)
                    theirs = native.generate(prompts, heddle.compile(schedule, model=native), **options).sequences
                    self.assertEqual(made[alg, name].tolist(), [sequence.tolist() for sequence in theirs])
            self.assertTrue(torch.equal(self.released.generate_by_timesteps(model, given, mask_id=577, **options),
                                        made[alg, "dense"]))
        self.assertFalse(torch.equal(made["maskgit_plus", "dense"], made["maskgit_plus", "columns"]), "the schedule has no effect")

    def test_random_weights_give_the_tokens_of_their_own_attention(self):
        """In f32 all tokens, at heads of 128, and for Dream fewer key heads."""
        shapes = (("LLaDAModelLM", {"d_model": 256, "n_heads": 2, "n_kv_heads": 2, "mlp_hidden_size": 512, "n_layers": 2,
                                    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "embedding_size": 1024}),
                  ("DreamModel", {"hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2,
                                  "intermediate_size": 512, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
                                  "rope_theta": 1000000.0, "vocab_size": 1024}))
        for kind, shape in shapes:
            torch.manual_seed(7)
            model = self.released.decided(getattr(self.released, kind)(types.SimpleNamespace(**shape)))
            prompt, seen = torch.randint(0, 1000, (2, 83)), []

            def generate():
                return self.released.of_class(model, lambda ids: seen.append(model(ids).logits) or self.released.Output(seen[-1]),
                                              prompt, steps=6, gen_length=24, mask_id=1023)
            with self.subTest(kind):
                plain, best = generate(), [logits.argmax(-1) for logits in seen]
                self.assertGreater(best[0].unique().numel(), 50, "all positions have one token")
                seen.clear()
                with heddle.patch(model, preset("dense"), steps=6):
                    self.assertTrue(torch.equal(generate(), plain))
                self.assertEqual(len(seen), 6)
                for mine, theirs in zip(seen, best):
                    self.assertTrue(torch.equal(mine.argmax(-1), theirs))
                seen.clear()
                with heddle.patch(model, attend(columns(0.2, 32), refresh=every(6), at_once=True), steps=6):
                    generate()
                self.assertGreater((seen[0].argmax(-1) != best[0]).float().mean(), 0.2, "attention decides no tokens")

    def test_compiled_models(self):
        ids = torch.randint(0, 500, (1, 96))
        schedule = attend(columns(0.3, 32), refresh=every(2))
        for folder in (LLADA, DREAM):
            model = self.released.load(folder)
            torch._dynamo.reset()
            with self.subTest(folder.name), heddle.patch(model, schedule, steps=2):
                expected = [model(ids).logits for _ in range(2)]
                fast = torch.compile(model, fullgraph=True)
                for each in expected:
                    torch.testing.assert_close(fast(ids).logits, each, atol=2e-4, rtol=1e-4)
                self.assertGreater((expected[0] - expected[1]).abs().max(), 0.01)

    def test_what_cannot_be_patched_is_said(self):
        model = self.released.load(LLADA)
        with self.assertRaisesRegex(heddle.HeddleError, "no attention that can be patched"):
            heddle.patch(torch.nn.Linear(3, 3), preset("dense"), steps=4)
        for wrong, said in (("junk", "expected MLIR text"), ("heddle.schedule @a { attend dens }", "did you mean 'dense'")):
            with self.assertRaisesRegex(heddle.ScheduleError, said):
                heddle.patch(model, wrong, steps=4)
        with self.assertRaisesRegex(TypeError, "model: expected a model of PyTorch's, found str"):
            heddle.patch("model", preset("dense"), steps=4)
        with heddle.patch(model, preset("dense"), steps=4) as patch:
            with self.assertRaises(heddle.ScheduleError):
                heddle.patch(model, "junk", steps=4)
            self.assertIs(model._heddle_patch, patch, "a patch that is refused takes the place of none")
        with self.assertRaisesRegex(ValueError, "gen_length that is a multiple"):
            heddle.patch(model, preset("dense"), steps=4, gen_length=30, block_length=8)
        with heddle.patch(model, preset("dense"), steps=4):
            with self.assertRaisesRegex(TypeError, "patch the copy"):
                copy.deepcopy(model)
        copy.deepcopy(model)
        for schedule in (preset("dyllm"), preset("fast-dllm-dual"), preset("fast-dllm-parallel"), preset("window-diffusion"),
                         heddle.compile(preset("dyllm"))):
            with self.assertRaisesRegex(heddle.HeddleError, "statement, which needs a model"):
                heddle.patch(model, schedule, steps=16)
            self.assertFalse(hasattr(model, "_heddle_patch"))
        with self.assertRaisesRegex(heddle.HeddleError, "refreshes by drift, which .* needs a model"):
            heddle.patch(model, preset("pulsecol-drift"), steps=16)
        with self.assertRaisesRegex(heddle.HeddleError, "a selection by a set of positions, which needs a model"):
            heddle.patch(model, heddle.attend(heddle.columns(0.5, "all", of=heddle.block), refresh=heddle.every(4)), steps=16)
        for wrong in (-1, 0):
            with self.assertRaisesRegex(ValueError, "gen_length: expected 1 or more"):
                heddle.patch(model, preset("dense"), steps=4, gen_length=wrong)
        with self.assertRaisesRegex(TypeError, "gen_length"):
            heddle.patch(model, preset("dense"), steps=4, gen_length="64")
        with heddle.patch(model, preset("dense"), steps=4, gen_length=64):
            with self.assertRaisesRegex(heddle.HeddleError, "gen_length: 64 is more"):
                model(torch.zeros(1, 40, dtype=torch.long))

    def test_every_preset_of_attention_alone_can_be_patched(self):
        """The sentences of the statements are those that attention itself refuses, bundle by bundle."""
        model = self.released.load(LLADA)
        for name in heddle.presets():
            bundle = heddle.compile(preset(name), head_dim=32, dtype="f32")
            try:
                heddle._heddle.Attention(bundle._native, 4, -1)
            except heddle.HeddleError as error:
                if "needs a model" not in str(error):
                    continue  # of layers, say, which a forward pass tells
                with self.subTest(name), self.assertRaisesRegex(heddle.HeddleError, "needs a model"):
                    heddle.patch(model, bundle, steps=4)
            else:
                with self.subTest(name), heddle.patch(model, bundle, steps=4):
                    pass

    def test_two_threads_are_told_so(self):
        model = self.released.load(LLADA)
        ids = torch.zeros(1, 40, dtype=torch.long)
        said, blocks = [], model.model.transformer["blocks"]

        def other():
            try:
                with torch.no_grad():
                    model(ids)
            except heddle.HeddleError as error:
                said.append(str(error))

        def meanwhile(*_):
            hook.remove()
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        with heddle.patch(model, preset("dense"), steps=4) as patch:
            hook = blocks[1].register_forward_pre_hook(meanwhile)
            with self.assertRaisesRegex(heddle.HeddleError, "another thread began a step"):
                model(ids)
            self.assertEqual(said, [])
            model(ids)
            self.assertEqual(patch.step, 2)

    @unittest.skipUnless(hasattr(transformers, "ModernBertModel"), "Transformers has no ModernBERT")
    def test_windows_of_a_model_are_refused(self):
        import heddle.transformers  # registers the name
        torch.manual_seed(0)
        config = transformers.ModernBertConfig(
            vocab_size=101, hidden_size=128, num_hidden_layers=4, num_attention_heads=2, intermediate_size=128,
            local_attention=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
        model = transformers.ModernBertModel._from_config(config, attn_implementation="sdpa").eval()
        ids = torch.randint(3, 99, (1, 90))
        plain = model(ids[:, :30]).last_hidden_state
        dense, every = heddle.patch(model, preset("dense"), steps=5), attend(columns(0.3, 32), refresh=heddle.every(1))
        torch.testing.assert_close(model(ids[:, :30]).last_hidden_state, plain, atol=1e-4, rtol=1e-4)
        with self.assertRaisesRegex(heddle.HeddleError, r"window of its own \(3[23]\), and the sequence has 90"):
            model(ids)
        with heddle.patch(model, every, steps=5), self.assertRaisesRegex(heddle.HeddleError, "a window of its own"):
            model(ids)
        dense.remove()
        model.set_attn_implementation("heddle")
        with self.assertRaisesRegex(heddle.HeddleError, "a window of its own"):
            model(ids)

    @unittest.skipUnless(transformers, "Transformers is not installed")
    def test_what_models_add_to_attention_is_refused(self):
        from heddle.transformers import _interface, _mask
        q, k, v = (t.transpose(1, 2) for t in tensors())
        module = types.SimpleNamespace(is_causal=False)
        length = q.shape[2]
        plain = _interface(module, q, k, v)[0]
        for more in ({"softcap": None, "position_ids": torch.arange(length), "use_cache": False},
                     {"sliding_window": length}, {"output_attentions": False, "s_aux": None}):
            self.assertTrue(torch.equal(_interface(module, q, k, v, None, **more)[0], plain))
        for more, said in (({"softcap": 30.0}, "with softcap"), ({"s_aux": torch.zeros(4)}, "with s_aux"),
                           ({"position_bias": torch.zeros(4)}, "with position_bias"),
                           ({"sliding_window": length - 1}, "a window of its own"), ({"cu_seq_lens_q": k}, "with cu_seq_lens_q"),
                           ({"output_attentions": True}, "none to be seen")):
            with self.subTest(said), self.assertRaisesRegex(heddle.HeddleError, said):
                _interface(module, q, k, v, None, **more)
        try:
            from transformers.masking_utils import (and_masks, bidirectional_mask_function as every,
                                                    sliding_window_bidirectional_mask_function as near)
        except ImportError:
            return  # masks are not made so in this version
        masks = {"kv_length": 40, "allow_is_bidirectional_skip": True}
        self.assertIsNone(_mask(mask_function=every, **masks))
        self.assertIsNone(_mask(mask_function=near(40), local_size=40, **masks))
        for mask, size, plain in ((near(39), 39, True), (and_masks(every, every), None, False), (near(40), 40, False)):
            with self.assertRaisesRegex(heddle.HeddleError, r"window of its own \(39\)|a mask of its own"):
                _mask(mask_function=mask, local_size=size, **{**masks, "allow_is_bidirectional_skip": plain})

    @unittest.skipUnless(transformers, "Transformers is not installed")
    def test_models_of_transformers(self):
        import heddle.transformers  # registers the name
        torch.manual_seed(0)
        config = transformers.BertConfig(vocab_size=100, hidden_size=128, num_hidden_layers=3,
                                         num_attention_heads=2, intermediate_size=128)
        model = transformers.BertModel(config).eval()
        ids = torch.randint(0, 99, (2, 70))
        plain = model(ids).last_hidden_state
        model.set_attn_implementation("heddle")
        for mask in (None, torch.ones_like(ids)):
            torch.testing.assert_close(model(ids, attention_mask=mask).last_hidden_state, plain,
                                       atol=1e-4, rtol=1e-4)
        padded = torch.ones_like(ids)
        padded[0, :3] = 0
        with self.assertRaisesRegex(heddle.HeddleError, "without padding"):
            model(ids, attention_mask=padded)
        model.set_attn_implementation("sdpa")
        with heddle.patch(model, attend(columns(0.2, 32), refresh=every(2)), steps=2):
            torch.testing.assert_close(model(ids).last_hidden_state, plain, atol=1e-4, rtol=1e-4)
            self.assertGreater((model(ids).last_hidden_state - plain).abs().max(), 1e-3)
        self.assertTrue(torch.equal(model(ids).last_hidden_state, plain))
        causal = transformers.LlamaModel(transformers.LlamaConfig(
            vocab_size=100, hidden_size=128, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=128, attn_implementation="heddle"))
        with self.assertRaisesRegex(heddle.HeddleError, "attends causally"):
            causal(ids)


if __name__ == "__main__":
    unittest.main()
