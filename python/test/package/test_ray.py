# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What heddle.ray is made of, without Ray: texts of tokens in any order, requests as runs,
OpenAI's schema, shards. test_ray_cluster.py runs it over Ray."""

import itertools
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import heddle
import heddle.ray
from heddle.ray import rows, shards
from heddle.ray.answers import Answer
from heddle.ray.engine import Engine
from heddle.ray.protocol import Refused, Reply, event, parse
from common import DREAM, LLADA, PROMPTS, contrary

SHORT = {"gen_length": 32, "steps": 16, "block_length": 16}
CHAT = [{"role": "user", "content": "a"}]


def setUpModule():
    global llada, bundle
    llada = heddle.load(LLADA)
    bundle = heddle.compile(heddle.preset("dense"), model=llada)


class AnswerTest(unittest.TestCase):
    END, MASK = 256, 257

    def told(self, ids, order, limit, stop, steps):
        """(deltas, answer) of tokens that are committed in an order."""
        decode = lambda part: bytes(part).decode(errors="replace")
        answer = Answer(decode, 7, limit, {self.END}, self.MASK, stop)
        deltas, at = [], 0
        while at < len(order):
            part = order[at:at + steps]
            at += steps
            deltas.append(answer.commit([7 + i for i in part], [ids[i] for i in part]))
        return deltas, answer

    def test_any_order_tells_the_same_text(self):
        chance = random.Random(1)
        for trial in range(400):
            text = "".join(chance.choices("abc€é🧵 ", k=chance.randrange(1, 20)))
            ids = list(text.encode())
            if chance.random() < 0.5:
                ids.insert(chance.randrange(len(ids) + 1), self.END)
            ids += [self.END] * chance.randrange(3)
            limit = chance.randrange(1, len(ids) + 1)
            stop = ["".join(chance.choices("abc€", k=chance.randrange(1, 4)))
                    for _ in range(chance.randrange(3))]
            kept = ids[:limit]
            ended = self.END in kept
            whole = bytes(kept[:kept.index(self.END)] if ended else kept).decode(errors="replace")
            cuts = [whole.find(s) for s in stop if s in whole]
            expected = whole[:min(cuts)] if cuts else whole
            order = list(range(len(ids)))
            chance.shuffle(order)
            deltas, answer = self.told(ids, order, limit, stop, chance.randrange(1, 5))
            self.assertEqual("".join(deltas), expected, (ids, order, limit, stop))
            self.assertEqual(answer.text, expected)
            self.assertEqual(answer.finish, "stop" if ended or cuts else "length")

    def test_what_may_change_is_held(self):
        deltas, _ = self.told(list("hé, moon".encode()), range(9), 9, ["moose"], 1)
        self.assertEqual(deltas, ["h", "", "é", ",", " ", "", "", "", "moon"])
        deltas, answer = self.told(list(b"abcd"), [3, 1, 2, 0], 4, [], 1)
        self.assertEqual(deltas, ["", "", "", "abcd"])
        self.assertEqual(answer.commit([7 + 2], [65]), "")  # it has ended

    def test_a_mask_is_no_token(self):
        answer = Answer(lambda ids: "x" * len(ids), 0, 2, {1}, 9)
        self.assertEqual(answer.commit([0], [9]), "")
        self.assertEqual(answer.commit([0, 1], [5, 1]), "x")
        self.assertEqual((answer.finish, answer.ids), ("stop", [5]))


    def test_what_is_not_settled_is_held(self):
        answer = Answer(lambda ids: "".join(map(chr, ids)), 7, 5, {1}, 9)
        self.assertEqual(answer.commit([7, 8, 9], [97, 98, 99], 0), "")
        self.assertEqual(answer.commit([8, 10], [9, 100], 0), "")  # 8 is a mask again
        self.assertEqual(answer.commit([], [], 3), "a")
        self.assertEqual(answer.commit([8, 11], [120, 101], 3), "xc")
        self.assertEqual(answer.commit((), ()), "de")
        self.assertEqual(answer.finish, "length")


class EngineTest(unittest.TestCase):
    def setUp(self):
        self.engine = Engine(llada, bundle, batch=4)
        self.addCleanup(self.engine.close)

    def ask(self, prompt, limit=32, stop=(), **options):
        said = queue.SimpleQueue()
        ids = llada.encode(prompt).tolist() if isinstance(prompt, str) else prompt
        return self.engine.submit(ids, {**SHORT, **options}, limit, stop, said.put), said

    def read(self, said):
        """(text, finish) of an answer."""
        text = ""
        while True:
            what = said.get(timeout=60)
            if isinstance(what, Exception):
                raise what
            text += what[0]
            if what[1]:
                return text, what[1]

    def test_texts_are_those_of_generate(self):
        prompts = PROMPTS * 3
        expected = llada.generate(PROMPTS, bundle, **SHORT).texts * 3
        asked = [self.ask(prompt) for prompt in prompts]
        self.assertEqual([self.read(said)[0] for _, said in asked], expected)
        self.assertLess(self.engine.runs, 6)  # those that waited ran together
        hot = llada.generate(PROMPTS[0], bundle, **SHORT, temperature=0.9, seed=3).texts
        self.assertEqual([self.read(self.ask(PROMPTS[0], temperature=0.9, seed=3)[1])[0]], hot)

    def test_tokens_that_may_change_are_not_told(self):
        other = heddle.load(contrary())
        self.addCleanup(other.close)
        for (model, commits), options in itertools.product(
                ((llada, heddle.commit("best", 4, revoke=1)), (other, heddle.commit("best", 8, edit=0.05, further=3))),
                (SHORT, {"gen_length": 32, "steps": 16})):
            again = heddle.compile(heddle.schedule("again", commits, heddle.attend()), model=model)
            engine = Engine(model, again, batch=4)
            self.addCleanup(engine.close)
            expected = model.generate(PROMPTS, again, **options).texts
            told = [queue.SimpleQueue() for _ in PROMPTS]
            for prompt, said in zip(PROMPTS, told):
                engine.submit(model.encode(prompt).tolist(), options, 32, (), said.put)
            self.assertEqual([self.read(said)[0] for said in told], expected)

    def test_runs_end_with_the_answers(self):
        self.assertEqual(self.read(self.ask(PROMPTS[0], stop=[" 52"])[1]), ("17 33", "stop"))
        self.assertEqual(self.read(self.ask(PROMPTS[0], limit=2)[1])[1], "length")
        job, said = self.ask(PROMPTS[0], gen_length=512, steps=512)
        said.get(timeout=60)
        job.cancel()
        before = self.engine.steps
        self.read(self.ask(PROMPTS[0])[1])  # its turn comes soon
        self.assertLess(self.engine.steps - before, 64)

    def test_a_wrong_one_fails_alone(self):
        with llada_busy(self):
            asked = [self.ask(PROMPTS[0]), self.ask([100000]), self.ask(PROMPTS[1])]
        texts = llada.generate(PROMPTS, bundle, **SHORT).texts
        self.assertEqual([self.read(asked[i][1])[0] for i in (0, 2)], texts)
        self.assertRaisesRegex(heddle.HeddleError, "100000", self.read, asked[1][1])

    def test_a_listener_that_fails_ends_its_run(self):
        def deaf(what):
            raise RuntimeError("gone")
        with self.assertLogs("heddle.ray.engine"):
            job = self.engine.submit(llada.encode("a").tolist(), SHORT, 32, (), deaf)
            self.assertTrue(self.read(self.ask(PROMPTS[0])[1])[0])
        self.assertFalse(job.live)

    def test_closed(self):
        _, said = self.ask(PROMPTS[0], gen_length=512, steps=512)
        _, waiting = self.ask(PROMPTS[0])
        said.get(timeout=60)
        self.engine.close()
        for one in (said, waiting):
            self.assertRaisesRegex(heddle.HeddleError, "shut down", self.read, one)
        self.assertRaisesRegex(heddle.HeddleError, "shut down", self.ask, "a")


class llada_busy:
    """Holds the engine in a run, so that what is asked meanwhile waits together."""

    def __init__(self, test):
        self.test = test

    def __enter__(self):
        self.job, said = self.test.ask(PROMPTS[0], gen_length=512, steps=512)
        said.get(timeout=60)

    def __exit__(self, *_):
        self.job.cancel()


class ProtocolTest(unittest.TestCase):
    def ask(self, **fields):
        return parse(json.dumps({"model": "m", "messages": CHAT, **fields}).encode(), "m")

    def test_what_is_asked(self):
        plain = self.ask()
        self.assertEqual((plain.messages, plain.max_tokens, plain.temperature, plain.stop, plain.stream),
                         (CHAT, None, None, [], False))
        full = self.ask(messages=[{"role": "developer", "content": "s"},
                                  {"role": "user", "content": [{"type": "text", "text": "a"},
                                                               {"type": "text", "text": "b"}]}],
                        temperature=1, top_p=0.5, max_tokens=3, max_completion_tokens=4, stop="x", seed=-1,
                        stream=True, stream_options={"include_usage": True}, n=1, user="me", tools=[],
                        logprobs=False, presence_penalty=0.0, response_format={"type": "text"}, logit_bias=None)
        self.assertEqual([m["role"] for m in full.messages], ["system", "user"])
        self.assertEqual(full.messages[1]["content"], "ab")
        self.assertEqual((full.max_tokens, full.stop, full.seed, full.usage), (4, ["x"], -1, True))

    def test_what_is_refused(self):
        for param, fields in (
                ("model", {"model": None}), ("model", {"model": "other"}), ("messages", {"messages": []}),
                ("messages", {"messages": "a"}), ("messages[0]", {"messages": ["a"]}),
                ("messages[0]", {"messages": [{"role": "tool", "content": "a"}]}),
                ("messages[0]", {"messages": [{"role": ["user"], "content": "a"}]}),
                ("messages[0]", {"messages": [{"role": "user"}]}),
                ("messages[0]", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
                ("messages[0]", {"messages": [{"role": "user", "content": "\ud800"}]}),
                ("max_tokens", {"max_tokens": 0}), ("max_tokens", {"max_tokens": 1.5}),
                ("max_completion_tokens", {"max_completion_tokens": True}),
                ("temperature", {"temperature": 2.1}), ("temperature", {"temperature": "1"}),
                ("temperature", {"temperature": float("nan")}), ("top_p", {"top_p": -1}),
                ("seed", {"seed": 2**63}), ("stop", {"stop": ["a"] * 5}), ("stop", {"stop": [1]}),
                ("stream", {"stream": 1}), ("stream_options", {"stream_options": {}}),
                ("n", {"n": 2}), ("n", {"n": True}), ("tools", {"tools": [{}]}), ("logprobs", {"logprobs": True}),
                ("response_format", {"response_format": {"type": "json_object"}}),
                ("temprature", {"temprature": 1})):
            with self.subTest(fields), self.assertRaises(Refused) as caught:
                self.ask(**fields)
            error = caught.exception.body["error"]
            self.assertEqual(error["param"], param)
            self.assertEqual(set(error), {"message", "type", "param", "code"})
            self.assertEqual(caught.exception.status, 404 if fields == {"model": "other"} else 400)
            json.dumps(error).encode()
            error["message"].encode()
        for body in (b"", b"{", b"[]", b"\xff", b"1" * 5000, b"[" * 100000):
            self.assertRaises(Refused, parse, body, "m")

    def test_replies(self):
        request = self.ask(stream=True, stream_options={"include_usage": True})
        reply = Reply("m", "fp", request, 5)
        whole = reply.whole("hi", "stop", 2)
        self.assertEqual(whole["usage"], {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})
        first, last, usage = reply.chunk({"content": "h"}), reply.chunk({}, "stop"), reply.usage_chunk(2)
        self.assertEqual(len({r["id"] for r in (whole, first, last, usage)}), 1)
        self.assertIsNone(first["usage"])
        self.assertEqual((usage["choices"], usage["usage"]["total_tokens"]), ([], 7))
        self.assertEqual(json.loads(event(first)[len("data: "):]), first)


class ShardsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_every_row_is_in_one_shard(self):
        texts = [b"1\n2\n3\n4\n5\n", b"\n\n", b"\n6\n \t\r\n\n8", b"9\r\n10\n\n\n"]
        for i, text in enumerate(texts):
            (self.folder / f"{i}.jsonl").write_bytes(text)
        for size in range(1, 7):
            plan, files = shards.plan(shards.find_inputs(self.folder), size)
            lines = [line for shard in plan for line in shard.lines()]
            self.assertEqual(lines, [b"1", b"2", b"3", b"4", b"5", b"6", b"8", b"9\r", b"10"])
            self.assertEqual([len(shard.lines()) for shard in plan], [shard.rows for shard in plan])
            self.assertEqual([s.first for s in plan], [sum(t.rows for t in plan[:i]) for i in range(len(plan))])
            self.assertTrue(all(1 <= s.rows <= size for s in plan))
            self.assertEqual([f["rows"] for f in files], [5, 0, 2, 2])
            self.assertEqual(shards.unpacked(shards.packed(plan[0])), plan[0])

    def test_only_whole_shards_count(self):
        shard = shards.Shard("part-000000.jsonl", "", 0, 0, 3, 2)
        good = [b'{"row": 3, "text": "a"}', b'{"row": 4, "error": {}}']
        self.assertIsNone(shards.read_records(self.folder, shard))
        shards.write_whole(self.folder, shard.name, good)
        self.assertEqual([r["row"] for r in shards.read_records(self.folder, shard)], [3, 4])
        for bad in (good[:1], good[::-1], good + good, [good[0], good[1][:-3]], [good[0], b'{"row": 4}'],
                    [good[0], b"4"]):
            shards.write_whole(self.folder, shard.name, bad)
            self.assertIsNone(shards.read_records(self.folder, shard), bad)

        def dies():
            yield good[0]
            raise KeyboardInterrupt
        (self.folder / shard.name).unlink()
        self.assertRaises(KeyboardInterrupt, shards.write_whole, self.folder, shard.name, dies())
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_the_folder(self):
        with shards.Folder(self.folder / "a") as folder:
            self.assertRaisesRegex(heddle.HeddleError, "another program", shards.Folder, folder.path)
            folder.agree({"model": 1, "options": {"steps": 2}})
            folder.agree({"model": 1, "options": {"steps": 2}})
            self.assertRaisesRegex(heddle.HeddleError, "another run: options differs", folder.agree,
                                   {"model": 1, "options": {"steps": 3}})
            for _ in range(2):  # killed twice
                self.assertRaises(SystemExit, self.killed, folder.path)
            self.assertRaisesRegex(heddle.HeddleError, "part-0: the worker died 2 times", self.killed, folder.path)
            folder.sweep()
            with shards.attempt(folder.path, "part-0", 1):
                pass
            self.assertEqual(sorted(os.listdir(folder.path)), [".lock", "run.json"])
        for wrong in ("s3://bucket/x", self.folder / "no.jsonl", []):
            self.assertRaises(heddle.HeddleError, shards.find_inputs, wrong)

    def killed(self, path):
        with shards.attempt(path, "part-0", 1):
            raise SystemExit


class RowsTest(unittest.TestCase):
    def test_prompts_are_heddle_runs(self):
        text = llada.chat_text([{"role": "system", "content": "s"}, {"role": "user", "content": " a "}])
        self.assertEqual(text, "<|startoftext|><|start_header_id|>system<|end_header_id|>\n\ns<|eot_id|>"
                               "<|start_header_id|>user<|end_header_id|>\n\na<|eot_id|>"
                               "<|start_header_id|>assistant<|end_header_id|>\n\n")
        ids = lambda value, **more: rows.prompt_ids(llada, value, **more)
        plain = llada.encode(PROMPTS[0]).tolist()
        self.assertEqual([ids(PROMPTS[0]), ids({"prompt": PROMPTS[0], "id": 3}), ids({"prompt_ids": plain})],
                         [plain] * 3)
        chat = ids({"messages": [{"role": "user", "content": PROMPTS[0]}]})
        self.assertEqual(chat, ids(PROMPTS[0], chat=True))
        self.assertEqual(chat[0], llada.encode("<|startoftext|>").tolist()[0])
        made = llada.generate([PROMPTS[0], chat], bundle, **SHORT).sequences
        self.assertEqual(made[1].tolist(),
                         llada.generate(PROMPTS[0], bundle, chat=True, **SHORT).sequences[0].tolist())
        with heddle.load(DREAM) as dream:
            self.assertIn("You are a helpful assistant.", dream.chat_text(CHAT))
            self.assertGreater(dream.config["end_of_turn_token"], 0)

    def test_bad_rows(self):
        for said, value in (("exactly one", {}), ("exactly one", {"prompt": "a", "messages": CHAT}),
                            ("exactly one", 3), ("exactly one", None), ("not empty", {"prompt": ""}),
                            ("prompt_ids: expected", {"prompt_ids": [1.5]}),
                            ("prompt_ids: expected", {"prompt_ids": [100000]}),
                            ("prompt_ids: expected", {"prompt_ids": [True]}),
                            ("message 0", {"messages": [{"role": "x", "content": "a"}]}),
                            ("prompt: ", {"prompt": "\ud800"}), ("messages: ", {"messages": "a"})):
            with self.subTest(value), self.assertRaisesRegex(heddle.HeddleError, said):
                rows.prompt_ids(llada, value)
        mask = llada.config["mask_token"]
        for said, ids in (("no tokens", []), ("mask token", [mask]), ("1000 tokens; with 32", [1] * 1000)):
            with self.assertRaisesRegex(heddle.HeddleError, said):
                rows.check(llada, ids, 32)
        rows.check(llada, [1] * 992, 32)
        self.assertRaises(heddle.HeddleError, rows.parse, b"\xff")


class CommandTest(unittest.TestCase):
    def test_help_and_errors(self):
        run = lambda *a: subprocess.run([sys.executable, "-m", "heddle.ray", *map(str, a)], capture_output=True,
                                        text=True)
        for words in (["--help"], ["generate", "--help"], ["serve", "--help"]):
            shown = run(*words)
            self.assertEqual((shown.returncode, "examples:" in shown.stdout), (0, True))
        for code, said, *words in ((2, "required"), (2, "--out", "generate", "x", "--model=m"),
                                   (1, "expected one value", "serve", "--model=m", "--set=keep=1/2,1/5"),
                                   (1, "'keep=x': ", "generate", "x", "--model=m", "--out=o", "--set=keep=x"),
                                   (1, "no-such.hdl", "serve", "--model=m", "--bundle=no-such.hdl")):
            done = run(*words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(said, done.stderr)

    def test_without_ray(self):
        program = ("import sys, heddle.ray, heddle.ray.command as command\n"
                   "assert 'ray' not in sys.modules\n"
                   "sys.modules['ray'] = None\n"
                   "sys.exit(command.main(['generate', 'x', '--model=m', '--out=o']))\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("pip install 'heddle[ray]'", done.stderr)


if __name__ == "__main__":
    unittest.main()
