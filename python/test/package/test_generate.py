# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs from Python: the same as heddle-run's, from several threads, and what goes
wrong."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np

import heddle
from heddle.tracing import Record
from heddle import attend, columns, sinks, uniform, window
from common import DREAM, LLADA, PROMPTS, contrary, heddle_run

SCHEDULE = attend(columns(keep=0.2, group=64) | window(64) | sinks(4), refresh=uniform(0.3, 4))
SHORT = {"gen_length": 32, "steps": 16}


def setUpModule():
    global llada, bundle
    llada = heddle.load(LLADA)
    bundle = heddle.compile(SCHEDULE, model=llada)


def heed_interrupts():
    """In a child of tests that were started with SIGINT ignored, as a shell's `&` does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class SameAsHeddleRunTest(unittest.TestCase):
    def check(self, model, made, prompts, **options):
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        theirs, sequences, texts = heddle_run(model.folder, made, prompts, *flags)
        mine = []
        result = model.generate(prompts, made, on_step=mine.append, **options)
        self.assertEqual([s.tolist() for s in result.sequences], sequences)
        self.assertEqual(result.texts, texts)
        self.assertTrue(result.complete)
        self.assertEqual(result.steps, len(theirs))
        for step, line in zip(mine, theirs):
            self.assertEqual((step.step, step.block, step.rows, step.pairs),
                             tuple(line[k] for k in ("step", "block", "rows", "pairs")))
            self.assertEqual(
                list(zip(step.sequences, step.positions, step.tokens, step.confidences, step.revoked, step.edited)),
                [(c["sequence"], c["position"], c["token"], c["confidence"], c.get("revoked", False), c.get("edited", False))
                 for c in line["commits"]])
        return mine

    def test_blocks(self):
        self.check(llada, bundle, PROMPTS, **SHORT)
        self.check(llada, bundle, PROMPTS, **SHORT, block_length=16, temperature=0.7, seed=5)

    def test_cached_rows_and_thresholds(self):
        dual = heddle.compile(heddle.preset("fast-dllm-dual-parallel"), model=llada)
        self.check(llada, dual, PROMPTS[:1])

    def test_revoked_tokens(self):
        again = heddle.compile(heddle.schedule("again", heddle.commit("best", 4, revoke=1), heddle.attend()), model=llada)
        self.assertTrue(again.revokes)
        self.assertFalse(bundle.revokes)
        steps = self.check(llada, again, PROMPTS, **SHORT)
        mask = llada.config["mask_token"]
        self.assertGreater(sum(step.revoked.sum() for step in steps), 3)
        for step in steps:
            np.testing.assert_array_equal(step.revoked, step.tokens == mask)

    def test_verified_drafts(self):
        plain = heddle.compile(heddle.schedule("plain", heddle.attend()), model=llada)
        drafted = heddle.compile(heddle.schedule("drafted", heddle.commit(verify=3), heddle.attend()), model=llada)
        options = {**SHORT, "steps": SHORT["gen_length"]}
        steps, made = [], [0] * len(PROMPTS)
        found = llada.generate(PROMPTS, drafted, on_step=steps.append, **options)
        expected = llada.generate(PROMPTS, plain, **options)
        for mine, theirs in zip(found.sequences, expected.sequences):
            np.testing.assert_array_equal(mine, theirs)
        self.assertLess(found.steps, expected.steps)
        for step in steps:
            for sequence, copies, count in step.verified:
                self.assertTrue(1 <= count <= copies <= 4)
                of = step.steps[step.sequences == sequence]
                self.assertEqual(sorted(set(of)), [made[sequence] + i + 1 for i in range(count)])
                made[sequence] += count
        self.assertEqual(made, [expected.steps] * len(PROMPTS))
        self.check(llada, drafted, PROMPTS, **SHORT)

    def test_edited_tokens(self):
        model = heddle.load(contrary())
        self.addCleanup(model.close)
        other = heddle.compile(heddle.schedule("other", heddle.commit("best", 8, edit=0.05, further=3), heddle.attend()), model=model)
        self.assertTrue(other.edits)
        self.assertFalse(other.revokes or bundle.edits)
        steps = self.check(model, other, PROMPTS, **SHORT)
        self.assertGreater(sum(step.edited.sum() for step in steps), 9)
        there = set()
        for step in steps:
            for sequence, position, edited in zip(step.sequences.tolist(), step.positions.tolist(), step.edited):
                self.assertEqual((sequence, position) in there, bool(edited))
                there.add((sequence, position))
        made = model.generate(PROMPTS, other, **SHORT)
        self.assertEqual(made.timeline["committed"].sum(), len(there))
        self.assertEqual(made.timeline["edited"].sum(), sum(step.edited.sum() for step in steps))

    def test_timesteps(self):
        with heddle.load(DREAM, dtype="f32") as dream:
            made = heddle.compile(SCHEDULE, model=dream)
            self.check(dream, made, PROMPTS, **SHORT, alg="entropy", temperature=0.5, seed=3)


class RunTest(unittest.TestCase):
    def test_prompts_of_all_kinds_are_the_same(self):
        ids = llada.encode(PROMPTS[0])
        self.assertEqual(ids.dtype, np.int32)
        self.assertEqual(llada.decode(ids), PROMPTS[0])
        expected = llada.generate(PROMPTS, bundle, **SHORT).sequences
        for prompts in ([ids, PROMPTS[1]], [ids.tolist(), llada.encode(PROMPTS[1]).astype("u2")]):
            for a, b in zip(llada.generate(prompts, bundle, **SHORT).sequences, expected):
                np.testing.assert_array_equal(a, b)
        for one in (PROMPTS[0], ids, ids.tolist(), ids[None]):
            made = llada.generate(one, bundle, **SHORT)
            np.testing.assert_array_equal(made.sequences[0], expected[0])
            self.assertEqual(len(made.responses[0]), 32)

    def test_steps_say_what_their_sequences_go_by(self):
        made = heddle.compile(attend(columns(keep=0.2, group=32), refresh=heddle.drift(0.98, 6)), model=llada)
        steps = []
        llada.generate(PROMPTS[:2], made, on_step=steps.append, **SHORT)
        lists = steps[0].refreshes // 2  # of a sequence
        latest, early = [0, 0], 0
        for step in steps:
            due = [before == 0 or step.step == before + 6 or found is not None and found < 0.98
                   for before, found in zip(latest, step.similarity)]
            self.assertEqual(step.refreshes, lists * sum(due), step)
            early += sum(now and before and step.step < before + 6 for now, before in zip(due, latest))
            for found, before in zip(step.similarity, latest):
                self.assertEqual(found is None, step.step <= before + 2, step)
            latest = [step.step if now else before for now, before in zip(due, latest)]
        self.assertGreater(early, 0)
        steps.clear()
        llada.generate(PROMPTS[:2], bundle, on_step=steps.append, **SHORT)
        self.assertEqual(steps[3].similarity, [])

    def test_results_outlive_the_model(self):
        with heddle.load(LLADA) as model:
            made = model.generate(PROMPTS[0], bundle, **SHORT)
        expected = llada.generate(PROMPTS[0], bundle, **SHORT)
        del model
        np.testing.assert_array_equal(made.responses[0], expected.responses[0])
        made.responses[0][0] = 1  # writable, and nobody else's

    def test_stream_yields_what_generate_commits(self):
        run, steps = llada.stream(PROMPTS, bundle, **SHORT), []
        while True:
            try:
                steps.append(next(run))
            except StopIteration as end:
                made = end.value
                break
        expected = llada.generate(PROMPTS, bundle, **SHORT)
        rebuilt = [np.full(32, -1, np.int32) for _ in PROMPTS]
        starts = [len(s) - 32 for s in made.sequences]
        for step in steps:
            for sequence, position, token in zip(step.sequences, step.positions, step.tokens):
                rebuilt[sequence][position - starts[sequence]] = token
        for i in range(len(PROMPTS)):
            np.testing.assert_array_equal(rebuilt[i], expected.responses[i])

    def test_leaving_a_stream_ends_its_run(self):
        for step in llada.stream(PROMPTS[0], bundle):
            if step.step == 2:
                break
        self.assertNotIn("heddle-stream", [t.name for t in threading.enumerate()])
        with self.assertRaisesRegex(heddle.HeddleError, "is empty"):
            list(llada.stream("", bundle))

    def test_a_callback_ends_a_run(self):
        for kind in (bool, np.bool_):
            made = llada.generate(PROMPTS[0], bundle, on_step=lambda step: kind(step.step < 3), **SHORT)
            self.assertEqual((made.steps, made.complete), (3, False))

        def fails(step):
            raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            llada.generate(PROMPTS[0], bundle, on_step=fails)
        with self.assertRaisesRegex(heddle.HeddleError, "in the middle of a step"):
            llada.generate(PROMPTS[0], bundle, on_step=lambda step: llada.close())
        self.assertFalse(llada.closed)

    def test_several_models_and_threads(self):
        expected = [llada.generate(p, bundle, **SHORT).texts for p in PROMPTS]
        second = heddle.load(LLADA)
        results, moved = {}, []

        def work(number, model):
            for _ in range(2):
                results[number] = [model.generate(p, bundle, **SHORT).texts for p in PROMPTS]
        threads = [threading.Thread(target=work, args=(i, model))
                   for i, model in enumerate((llada, second, llada, second))]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            moved.append(1)  # the GIL is free while they compute
            threads[0].join(0.001)
        for thread in threads:
            thread.join()
        self.assertEqual(results, {i: expected for i in range(4)})
        self.assertGreater(len(moved), 5)

    def test_bundles_keep_and_travel(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "b.hdl")
            bundle.save(path)
            self.assertEqual(os.listdir(folder), ["b.hdl"])
            read = heddle.Bundle.read(path)
        for other in (read, pickle.loads(pickle.dumps(bundle))):
            self.assertEqual(bytes(other), bytes(bundle))
            self.assertEqual((other.schedule, other.targets), (bundle.schedule, bundle.targets))
        self.assertEqual(bundle.source, str(SCHEDULE))


class WrongTest(unittest.TestCase):
    def test_types_and_values(self):
        for error, text, call in (
                (TypeError, "expected a heddle.Bundle", lambda: llada.generate("a", "b.hdl")),
                (TypeError, "cannot be called", lambda: llada.generate("a", bundle, on_step=3)),
                (TypeError, "expected token ids", lambda: llada.generate([np.ones((2, 2), int)],
                                                                         bundle)),
                (TypeError, "float64", lambda: llada.generate(np.array([1.0]), bundle)),
                (TypeError, "prompts: expected", lambda: llada.generate(3, bundle)),
                (TypeError, "prompt 0: expected", lambda: llada.generate([b"a"], bundle)),
                (ValueError, "from 0 to", lambda: llada.generate([-1], bundle)),
                (ValueError, "prompt 0: not Unicode", lambda: llada.generate("a\ud800", bundle)),
                (TypeError, "no option 'stepz'", lambda: llada.generate("a", bundle, stepz=3)),
                (TypeError, "steps: 'x' has the wrong type",
                 lambda: llada.generate("a", bundle, steps="x")),
                (heddle.HeddleError, "^prompt 0: the prompt is empty", lambda: llada.generate("", bundle)),
                (heddle.HeddleError, "^prompt 1: the prompt is empty", lambda: llada.generate(["a", ""], bundle)),
                (heddle.HeddleError, "^prompt 1: the prompt is empty", lambda: llada.generate([[5], []], bundle)),
                (heddle.HeddleError, "^prompt 1: the prompt has 9999 tokens",
                 lambda: llada.generate([[5], [5] * 9999], bundle)),
                (TypeError, "on_step: is of generate", lambda: llada.stream("a", bundle, on_step=print)),
                (TypeError, "load it where it is needed: heddle.load", lambda: pickle.dumps(llada)),
                (heddle.HeddleError, "^head_dim: 16", lambda: heddle.compile(SCHEDULE, head_dim=16)),
                (heddle.HeddleError, "at least one", lambda: llada.generate([], bundle)),
                (heddle.HeddleError, "temperature: -1 is out of range",
                 lambda: llada.generate("a", bundle, temperature=-1.0)),
                (heddle.HeddleError, "has no such option|have no such option|no such option",
                 lambda: llada.generate("a", bundle, alg="entropy")),
                (heddle.HeddleError, "token id 99999", lambda: llada.generate([99999], bundle)),
                (heddle.HeddleError, "is no token", lambda: llada.decode([99999])),
                (TypeError, "ids: expected token ids, found 'a'", lambda: llada.decode("a")),
                (ValueError, "ids: token ids are from 0", lambda: llada.decode([-1])),
                (TypeError, "text: expected a str, found 3", lambda: llada.encode(3)),
                (ValueError, "text: not Unicode at character 1", lambda: llada.encode("a\ud800")),
                (heddle.HeddleError, "config.json", lambda: heddle.load("/nowhere")),
                (heddle.HeddleError, "folder is empty", lambda: heddle.load("")),
                (heddle.HeddleError, "no device 'tpu'", lambda: heddle.load(LLADA, device="tpu")),
                (TypeError, "device: expected", lambda: heddle.load(LLADA, device=0)),
                (ValueError, "dtype: 'int8'", lambda: heddle.load(LLADA, dtype="int8")),
                (heddle.HeddleError, "needs a GPU", lambda: heddle.load(LLADA, dtype="f16")),
                (heddle.HeddleError, "not a bundle", lambda: heddle.Bundle(b"abc")),
                (TypeError, "expected bytes", lambda: heddle.Bundle("abc")),
                (heddle.HeddleError, "/dev/zero: expected a regular file",
                 lambda: heddle.Bundle.read("/dev/zero")),
                (heddle.HeddleError, "/dev/zero: expected a regular file",
                 lambda: Record("/dev/zero")),
                (heddle.HeddleError, "before the first model", lambda: heddle.set_threads(1)),
                (TypeError, "threads: expected", lambda: heddle.set_threads("4")),
                (TypeError, "threads: expected", lambda: heddle.set_threads(10**20)),
                (ValueError, "no path has a NUL", lambda: heddle.load(f"{LLADA}\0x")),
                (TypeError, "head_dim", lambda: heddle.compile(SCHEDULE, head_dim="64")),
                (ValueError, "head_dim: expected one", lambda: heddle.compile(SCHEDULE, head_dim=[])),
                (TypeError, "model: expected a heddle.Model",
                 lambda: heddle.compile(SCHEDULE, model=LLADA)),
                (TypeError, "target: expected a str", lambda: heddle.compile(SCHEDULE, target=None)),
                (TypeError, "parameters: expected a dict",
                 lambda: heddle.compile(SCHEDULE, parameters=3)),
                (heddle.HeddleError, "target|CPU", lambda: heddle.compile(SCHEDULE, target="z80"))):
            with self.subTest(text):
                with self.assertRaisesRegex(error, text):
                    call()

    def test_damaged_bundles(self):
        whole = bytes(bundle)
        for at in (9, 40, 200, len(whole) // 2, len(whole) - 70):
            damaged = bytearray(whole)
            damaged[at] ^= 0x40
            with self.assertRaises(heddle.HeddleError):
                heddle.Bundle(bytes(damaged))
        with self.assertRaises(heddle.HeddleError):
            heddle.Bundle(whole[:-1])

    def test_bundles_for_other_models(self):
        other = heddle.compile(SCHEDULE, head_dim=128, dtype=np.float32)
        with self.assertRaisesRegex(heddle.HeddleError, "compile the schedule for this model"):
            llada.generate("a", other)

    def test_closed_models(self):
        model = heddle.load(LLADA)
        model.close()
        model.close()
        with self.assertRaisesRegex(heddle.HeddleError, "closed; load it again"):
            model.generate("a", bundle)
        self.assertIn("closed", repr(model))

    def test_no_compiler(self):
        os.environ["HEDDLEC"] = "/nowhere/heddlec"
        try:
            with self.assertRaisesRegex(heddle.HeddleError, "no program is there"):
                heddle.compile(SCHEDULE)
        finally:
            del os.environ["HEDDLEC"]

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_forks_are_told(self):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            said = b"ran"
            try:
                llada.generate("a", bundle, **SHORT)
            except heddle.HeddleError as error:
                said = str(error).encode()
            os.write(writing, said)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            self.assertIn("forked", pipe.read())
        os.waitpid(child, 0)

    def test_the_interpreter_ends_in_the_middle_of_runs(self):
        program = ("import heddle, sys, threading\n"
                   f"m = heddle.load({str(LLADA)!r})\n"
                   "b = heddle.Bundle(sys.stdin.buffer.read())\n"
                   "steps = m.stream('a', b)\n"
                   "def work():\n"
                   "    while True: m.generate('a', b)\n"
                   "threading.excepthook = lambda args: None\n"
                   "threading.Thread(target=work, daemon=True).start()\n"
                   "print(next(steps).step)\n")
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", program], input=bytes(bundle),
                                  capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"1\n", b""))

    def test_threads_do_not_change_results(self):
        program = ("import heddle, sys\n"
                   "heddle.set_threads({})\n"
                   f"m = heddle.load({str(LLADA)!r})\n"
                   "b = heddle.Bundle(sys.stdin.buffer.read())\n"
                   f"print(m.generate({PROMPTS!r}, b, **{SHORT!r}).sequences)\n")
        expected = llada.generate(PROMPTS, bundle, **SHORT).sequences
        for threads in (1, 3):
            done = subprocess.run([sys.executable, "-c", program.replace("{}", str(threads), 1)],
                                  input=bytes(bundle), capture_output=True, check=True)
            self.assertEqual(done.stdout.decode(), f"{expected}\n")

    def test_interrupts_end_runs(self):
        program = ("import heddle, sys\n"
                   f"m = heddle.load({str(LLADA)!r})\n"
                   "b = heddle.Bundle(sys.stdin.buffer.read())\n"
                   "def seen(step):\n"
                   "    if step.step == 1: print('on', flush=True)\n"
                   "try:\n"
                   "    while True: m.{}\n"
                   "except KeyboardInterrupt:\n"
                   "    print('interrupted', len(m.generate('a', b, gen_length=8).responses[0]))\n")
        for call in ("generate('a', b, on_step=seen)", "generate('a', b, on_step=seen, steps=1)",
                     "folder; [seen(s) for s in m.stream('a', b)]"):
            with self.subTest(call):
                child = subprocess.Popen([sys.executable, "-c", program.replace("{}", call)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, preexec_fn=heed_interrupts)
                self.addCleanup(child.kill)
                child.stdin.write(bytes(bundle))
                child.stdin.close()
                child.stdin = None
                self.assertEqual(child.stdout.readline(), b"on\n")
                child.send_signal(signal.SIGINT)
                out, err = child.communicate(timeout=60)
                self.assertEqual((child.returncode, out.splitlines()[-1:]),
                                 (0, [b"interrupted 8"]), err.decode())


    def test_interrupts_end_waiting(self):
        def interrupted(*_):
            raise KeyboardInterrupt
        for call in (lambda model: model.generate("a", bundle, **SHORT), heddle.Model.close):
            began, ended = threading.Event(), threading.Event()

            def seen(step):
                began.set()
                return not ended.wait(20)
            with heddle.load(LLADA) as model:
                other = threading.Thread(target=model.generate, args=("a", bundle),
                                         kwargs={"on_step": seen})
                before = signal.signal(signal.SIGALRM, interrupted)
                other.start()
                try:
                    self.assertTrue(began.wait(20))
                    signal.setitimer(signal.ITIMER_REAL, 0.1)
                    with self.assertRaises(KeyboardInterrupt):
                        call(model)
                    self.assertTrue(other.is_alive(), "nobody was waited for")
                finally:
                    signal.signal(signal.SIGALRM, before)
                    ended.set()
                    other.join()
                self.assertEqual(len(model.generate("a", bundle, **SHORT).responses), 1)


class ConfidenceTest(unittest.TestCase):
    def test_confidences_are_in_the_ranges_that_are_documented(self):
        with heddle.load(DREAM) as model:
            bundle = heddle.compile(heddle.preset("dense"), model=model)
            for alg, low, high in (("origin", 0, 1), ("maskgit_plus", 0, 1), ("topk_margin", 0, 1), ("entropy", -100, 1e-9)):
                found = np.concatenate([step.confidences for step in model.stream(
                    ["Copy: stone fox."], bundle, gen_length=16, steps=8, alg=alg)])
                self.assertEqual(found.size, 16)
                self.assertTrue((low <= found).all() and (found <= high).all(), (alg, found))
                self.assertEqual((found < -1e-6).any(), alg == "entropy")


if __name__ == "__main__":
    unittest.main()
