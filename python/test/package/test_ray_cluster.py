# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.ray over Ray: batches whose workers, machine and driver are killed, and the server by OpenAI's
own client. Four minutes; needs pip install 'heddle[ray]' openai."""

import doctest
import glob
import http.client
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import heddle
import heddle.ray
from heddle.ray import shards
from common import BIN, DREAM, LLADA, PROMPTS, ROOT

HAVE_RAY = all(map(importlib.util.find_spec, ("ray", "fastapi", "pyarrow")))
WHY = "needs Ray: pip install 'heddle[ray]'"
LENGTHS = {"gen_length": 64, "steps": 64, "block_length": 32}
CHAT = [{"role": "user", "content": PROMPTS[0]}]


def setUpModule():
    if not HAVE_RAY:
        return
    global ray
    import logging
    import ray
    import ray.data
    # Whatever cluster this machine has, here and in the children.
    os.environ["RAY_ADDRESS"] = "local"
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
             object_store_memory=100 << 20)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def tearDownModule():
    if HAVE_RAY:
        ray.shutdown()


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} in {seconds} s")
        time.sleep(0.02)
    return found


def lines_of(folder):
    """All records of a batch's folder, shard after shard."""
    return [json.loads(line) for path in sorted(glob.glob(f"{folder}/part-*.jsonl"))
            for line in Path(path).read_bytes().splitlines()]


@unittest.skipUnless(HAVE_RAY, WHY)
class BatchTest(unittest.TestCase):
    ROWS = 48

    @classmethod
    def setUpClass(cls):
        cls.prompts = [f"Add {1000 + 37 * i} and {11 * i}." for i in range(cls.ROWS)]
        with heddle.load(LLADA) as model:
            bundle = heddle.compile(heddle.preset("dense"), model=model)
            made = [model.generate(cls.prompts[i:i + 16], bundle, **LENGTHS) for i in range(0, cls.ROWS, 16)]
        cls.texts = [text for one in made for text in one.texts]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.input = self.folder / "in.jsonl"
        self.input.write_text("".join(json.dumps({"prompt": p, "id": i}) + "\n"
                                      for i, p in enumerate(self.prompts)))
        self.out = self.folder / "out"

    def run_batch(self, data=None, **more):
        return heddle.ray.generate(self.input if data is None else data, LLADA, "dense", self.out,
                                   **{"workers": 2, "batch": 2, "shard_rows": 6, **LENGTHS, **more})

    def check_all(self, parts=8):
        """Every row is there once, in order, with the text of a run of one process."""
        records = lines_of(self.out)
        self.assertEqual([r["row"] for r in records], list(range(self.ROWS)))
        self.assertEqual([r["input"]["id"] for r in records], list(range(self.ROWS)))
        self.assertEqual([r["text"] for r in records], self.texts)
        self.assertEqual(sorted(os.listdir(self.out)),
                         [".lock", *sorted(f"part-{i:06}.jsonl" for i in range(parts)), "run.json"])

    def busy(self, shard="part-", dead=()):
        """(process, shard) of a worker in the middle of a shard. What the `dead` left is no sign of one."""
        for path in glob.glob(f"{self.out}/.{shard}*"):
            name, _, process = os.path.basename(path)[1:].rpartition(".")
            try:
                if os.path.getsize(path) and process.isdigit() and int(process) not in dead:
                    return int(process), name.split(".jsonl")[0] + ".jsonl"
            except FileNotFoundError:  # whole by now, and renamed
                continue
        return None

    def test_a_killed_worker_loses_and_doubles_nothing(self):
        said, killed = [], []

        def on_shard(one, done, total):
            said.append(one)
            self.assertEqual((done, total), (len(said), 8))
            if not killed:
                process, shard = wait_for(self.busy)
                os.kill(process, signal.SIGKILL)
                killed.append((process, shard))
                self.assertFalse((self.out / shard).exists())

        made = self.run_batch(on_shard=on_shard, batch=1)
        (process, shard), = killed
        self.check_all()
        self.assertEqual((made["rows"], made["errors"], made["shards"], made["skipped"]), (48, 0, 8, 0))
        self.assertEqual(sorted(one["shard"] for one in said), [f"part-{i:06}.jsonl" for i in range(8)])
        workers = {one["worker"] for one in said}
        self.assertGreaterEqual(len(workers), 2)
        # It was redone, by another process.
        self.assertNotEqual([one["worker"] for one in said if one["shard"] == shard], [process])

    def test_a_killed_driver_is_gone_on_from(self):
        words = [sys.executable, "-m", "heddle.ray", "generate", str(self.input), "--model", str(LLADA),
                 "--out", str(self.out), "--workers=2", "--batch=2", "--shard-rows=6", "--gen-length=64",
                 "--steps=64", "--block-length=32", "--json"]
        for what, code in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                                     start_new_session=True)
            for line in child.stderr:
                if " shards, part-" in line:
                    break
            child.send_signal(what)
            child.communicate(timeout=60)
            self.assertEqual(child.returncode, code)
        there = len(glob.glob(f"{self.out}/part-*.jsonl"))
        self.assertGreater(there, 1)
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        self.assertGreaterEqual(made["skipped"], there)
        self.check_all()

    def test_whole_shards_are_skipped_and_broken_ones_redone(self):
        self.run_batch()
        times = {path: os.stat(path).st_mtime_ns for path in glob.glob(f"{self.out}/part-*")}
        broken, gone = self.out / "part-000001.jsonl", self.out / "part-000005.jsonl"
        broken.write_bytes(broken.read_bytes()[:-30])
        gone.unlink()
        (self.out / ".part-000003.jsonl.elsewhere.1").write_text("of a kill")
        said = []
        made = self.run_batch(workers=1, on_shard=lambda one, *_: said.append(one["shard"]))
        self.assertEqual((sorted(said), made["skipped"]), ([broken.name, gone.name], 6))
        self.check_all()
        kept = [path for path in times if os.stat(path).st_mtime_ns == times[path]]
        self.assertEqual(len(kept), 6)
        again = self.run_batch()
        self.assertEqual((again["skipped"], again["tokens"]), (8, 0))
        for differs, more in (("options", {"steps": 32}), ("shard_rows", {"shard_rows": 7})):
            self.assertRaisesRegex(heddle.HeddleError, f"another run: {differs} differs", self.run_batch, **more)
        self.input.write_text('"a"\n')
        self.assertRaisesRegex(heddle.HeddleError, "inputs differs", self.run_batch)

    def test_bad_rows_have_their_errors(self):
        rows = ['"Sort 3 1."', "nonsense", '{"prompt": ""}', '{"prompt_ids": [999999]}', json.dumps("a " * 2000),
                "", '{"messages": [{"role": "user", "content": "Sort 3 1."}]}', '{"prompt": "\\ud800"}', " "]
        self.input.write_text("\n".join(rows) + "\n")
        made = self.run_batch(shard_rows=3, batch=8)
        records = lines_of(self.out)
        self.assertEqual([r["row"] for r in records if "error" in r], [1, 2, 3, 4, 6])
        self.assertEqual((made["rows"], made["errors"]), (7, 5))  # blank lines are none
        for row, said in ((1, "not a JSON value"), (2, "not empty"), (3, "token ids"), (4, "positions for"),
                          (6, "surrogate")):
            self.assertIn(said, records[row]["error"]["message"])
        failed = [json.loads(line) for line in (self.out / "errors.jsonl").read_text().splitlines()]
        self.assertEqual([(r["row"], r["shard"]) for r in failed][:2], [(1, "part-000000.jsonl"),
                                                                       (2, "part-000000.jsonl")])
        self.assertEqual(records[1]["input"], "nonsense")

    def test_datasets(self):
        data = ray.data.from_items([{"prompt": p, "id": i} for i, p in enumerate(self.prompts)])
        self.run_batch(data, shard_rows=8, batch=8)
        records = sorted(lines_of(self.out), key=lambda r: r["input"]["id"])
        self.assertEqual([r["text"] for r in records], self.texts)
        self.assertEqual(self.run_batch(data, shard_rows=8)["skipped"], 6)

    def test_what_is_no_rows_fault_ends_the_batch(self):
        for said, more in (("multiple of", {"gen_length": 30}), ("whole cluster has", {"cpus": 99}),
                           ("whole cluster has 0", {"device": "cuda"}), ("workers: expected", {"workers": 0}),
                           ("belongs to chat", {"system": "s"}),
                           ("no parameter|no parameters", {"settings": {"keep": "1/2"}})):
            with self.subTest(more), self.assertRaisesRegex(heddle.HeddleError, said):
                self.run_batch(**more)
            for path in glob.glob(f"{self.out}/*.json*"):
                os.unlink(path)
        self.assertRaisesRegex(heddle.HeddleError, "no model's folder", heddle.ray.generate, self.input,
                               self.folder, "dense", self.out)
        self.assertRaises(heddle.ScheduleError, heddle.ray.generate, self.input, LLADA,
                          heddle.attend(heddle.columns(keep=1.5), refresh=heddle.every(4)), self.out)

    def test_a_lost_machine_loses_and_doubles_nothing(self):
        # Two machines of a CPU each, as far as Ray can tell; one dies with all its processes.
        program = ("import glob, logging, sys\n"
                   "import ray\n"
                   "from ray.cluster_utils import Cluster\n"
                   "cluster = Cluster(initialize_head=True, head_node_args={'num_cpus': 0, 'include_dashboard': False})\n"
                   "nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]\n"
                   "ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)\n"
                   "import heddle.ray\n"
                   "def on_shard(said, done, total):\n"
                   "    if done == 2: cluster.remove_node(nodes[0], allow_graceful=False)\n"
                   f"made = heddle.ray.generate({str(self.input)!r}, {str(LLADA)!r}, 'dense', {str(self.out)!r}, workers=2,\n"
                   f"                            batch=1, shard_rows=6, on_shard=on_shard, **{LENGTHS!r})\n"
                   "assert [n['Alive'] for n in ray.nodes()].count(False) == 1\n"
                   "print('done', made['rows'], made['skipped'])\n"
                   "ray.shutdown()\n"
                   "cluster.shutdown()\n")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIn("done 48 0\n", done.stdout)
        self.check_all()

    def test_a_shard_that_kills_its_worker_is_named(self):
        ended, killed = threading.Event(), []

        def kill():
            while not ended.wait(0.01):
                if found := self.busy("part-000000", killed):
                    killed.append(found[0])
                    os.kill(found[0], signal.SIGKILL)
        killer = threading.Thread(target=kill)
        killer.start()
        self.addCleanup(killer.join)
        self.addCleanup(ended.set)
        with self.assertRaisesRegex(heddle.HeddleError, "part-000000.jsonl: the worker died 2 times"):
            self.run_batch(retries=1, batch=1, shard_rows=self.ROWS)  # one shard that takes long enough to be met
        self.assertEqual(len(killed), 2)
        ended.set()
        self.assertEqual(self.run_batch(shard_rows=self.ROWS)["skipped"], 0)  # another call tries anew
        self.check_all(parts=1)


@unittest.skipUnless(HAVE_RAY and importlib.util.find_spec("openai"), f"{WHY} openai")
class DocsTest(unittest.TestCase):
    """docs/HowTo/ManyMachines.md, but for what needs GPUs or other machines."""
    PAGE = "docs/HowTo/ManyMachines.md"

    def setUp(self):
        sys.path.insert(0, str(ROOT / "test" / "Docs"))
        self.addCleanup(sys.path.pop, 0)
        import run_docs
        self.docs = run_docs
        self.text = (ROOT / self.PAGE).read_text(encoding="utf-8")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_commands(self):
        marked = self.text.replace("<!-- not run: needs Ray; test_ray_cluster.py runs it -->\n", "")
        blocks = [b for b in self.docs.fenced_blocks(Path(self.PAGE), marked)[0]
                  if b.language == "console" and not b.marker]
        shell = self.docs.Shell(self.folder, BIN, timeout=300)
        self.addCleanup(shell.close)
        shell.run(f"PATH={os.path.dirname(sys.executable)}:$PATH")
        ran = 0
        for block in blocks:
            for command in self.docs.commands_of(block):
                _, lines = shell.run(command.text)
                self.assertTrue(self.docs.same(command.output, lines), (command.text, lines))
                ran += 1
        self.assertGreater(ran, 2)

    def test_python(self):
        from ray import serve
        self.addCleanup(serve.shutdown)
        for name in ("models", "examples"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "prompts.jsonl").write_text(''.join(json.dumps(p) + "\n" for p in PROMPTS))
        here, names = os.getcwd(), {}
        os.chdir(self.folder)
        self.addCleanup(os.chdir, here)
        blocks = re.findall(r"^```python\n(.*?)^```$", self.text, re.M | re.S)
        said = []
        for i, block in enumerate(blocks):
            test = doctest.DocTestParser().get_doctest(block, names, f"{self.PAGE} {i}", self.PAGE, 0)
            names = test.globs
            doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=said.append, clear_globs=False)
        self.assertGreater(len(blocks), 1)
        self.assertFalse(said, "".join(said))


@unittest.skipUnless(HAVE_RAY, WHY)
class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from ray import serve
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            cls.port = free.getsockname()[1]
        serve.start(http_options={"host": "127.0.0.1", "port": cls.port})
        cls.addClassCleanup(serve.shutdown)
        serve.run(heddle.ray.app(LLADA, "dense", batch=4), name="a", route_prefix="/")
        with heddle.load(LLADA) as model:
            bundle = heddle.compile(heddle.preset("dense"), model=model)
            text = model.chat_text(CHAT)
            cls.prompt_tokens = len(model.encode(text))
            cls.text = model.generate(text, bundle, **LENGTHS).texts[0]

    def ask(self, method, path, body=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        self.addCleanup(connection.close)
        body = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def chat(self, **fields):
        _, reply = self.ask("POST", "/v1/chat/completions", {"model": "heddle-4m", "messages": CHAT, **fields})
        return reply.status, json.loads(reply.read())

    def stream(self, **fields):
        """(texts of the chunks, last finish_reason, usage)."""
        _, reply = self.ask("POST", "/v1/chat/completions",
                            {"model": "heddle-4m", "messages": CHAT, "stream": True, **fields})
        self.assertEqual(reply.getheader("content-type").split(";")[0], "text/event-stream")
        events = [line[6:] for line in reply.read().decode().split("\n\n") if line]
        self.assertEqual(events[-1], "[DONE]")
        chunks = [json.loads(one) for one in events[:-1]]
        self.assertEqual(len({c["id"] for c in chunks}), 1)
        deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"]]
        self.assertEqual(deltas[0], {"role": "assistant", "content": ""})
        finish = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
        self.assertEqual([f for f in finish if f], finish[-1:])
        return [d["content"] for d in deltas[1:-1]], finish[-1], chunks[-1].get("usage")

    def health(self):
        return json.loads(self.ask("GET", "/health")[1].read())

    def test_answers(self):
        status, whole = self.chat(max_tokens=64, temperature=0)
        self.assertEqual((status, whole["choices"][0]["message"]["content"]), (200, self.text))
        self.assertEqual(whole["choices"][0]["finish_reason"], "stop")
        self.assertEqual(whole["usage"]["prompt_tokens"], self.prompt_tokens)
        texts, finish, usage = self.stream(max_tokens=64, stream_options={"include_usage": True})
        self.assertEqual(("".join(texts), finish, usage), (self.text, "stop", whole["usage"]))
        self.assertGreater(len(texts), 1)
        cut = self.text[:5]
        for fields, text, finish in (({"stop": self.text[5:8]}, cut, "stop"), ({"max_tokens": 5}, None, "length")):
            _, short = self.chat(**fields)
            choice = short["choices"][0]
            self.assertEqual(choice["finish_reason"], finish)
            self.assertEqual(choice["message"]["content"], text or choice["message"]["content"])
            self.assertEqual("".join(self.stream(**fields)[0]), choice["message"]["content"])
        self.assertEqual(short["usage"]["completion_tokens"], 5)

    def test_requests_at_once(self):
        prompts = [f"Add {i}{i} and 4." for i in range(1, 9)]
        with heddle.load(LLADA) as model:
            bundle = heddle.compile(heddle.preset("dense"), model=model)
            expected = model.generate([model.chat_text([{"role": "user", "content": p}]) for p in prompts], bundle,
                                      **LENGTHS).texts
        before = self.health()["runs"]
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(self.stream if i % 2 else self.chat, max_tokens=64,
                                 messages=[{"role": "user", "content": p}]) for i, p in enumerate(prompts)]
        made = [a.result() for a in asked]
        texts = ["".join(m[0]) if i % 2 else m[1]["choices"][0]["message"]["content"] for i, m in enumerate(made)]
        self.assertEqual(texts, expected)
        self.assertLess(self.health()["runs"] - before, 8)  # those that waited ran together

    def test_the_command(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        child = subprocess.Popen([sys.executable, "-m", "heddle.ray", "serve", "--model", str(LLADA), "--name=x",
                                  f"--port={port}"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.addCleanup(child.kill)
        for line in child.stderr:
            if "is ready" in line and "heddle-ray" in line:
                break
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/models")
        self.assertEqual(json.loads(connection.getresponse().read())["data"][0]["id"], "x")
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)
        self.assertIn("heddle-ray: ended", said)
        self.assertRaises(OSError, socket.create_connection, ("127.0.0.1", port), 1)

    def test_the_command_beside_other_applications(self):
        """It takes a name and a route, says where it is, and ends nothing but itself."""
        from ray import serve
        words = [sys.executable, "-m", "heddle.ray", "serve", "--model", str(LLADA), "--name=y", "--port=1",
                 f"--address={ray.get_runtime_context().gcs_address}"]
        before = set(serve.status().applications)
        refused = subprocess.run([*words, f"--app={min(before)}", "--route=/d"], capture_output=True, text=True, timeout=120)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn(f"--app: Serve has an application '{min(before)}'", refused.stderr)
        refused = subprocess.run([*words, "--app=d", "--route=/"], capture_output=True, text=True, timeout=120)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertRegex(refused.stderr, "heddle-ray: Ray Serve: .*Prefix / is being used")
        self.assertNotIn("Traceback", refused.stderr)
        self.assertEqual(set(serve.status().applications), before)
        child = subprocess.Popen([*words, "--app=d", "--route=/d/"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                 text=True)
        self.addCleanup(child.kill)
        said = ""
        for line in child.stderr:
            said += line
            if "is ready" in line and "heddle-ray" in line:
                break
        self.assertIn(f"Serve runs on this cluster already, at 127.0.0.1:{self.port}", said)
        self.assertIn(f"http://127.0.0.1:{self.port}/d/v1 is ready", said)
        _, reply = self.ask("GET", "/d/v1/models")
        self.assertEqual(json.loads(reply.read())["data"][0]["id"], "y")
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)
        self.assertEqual(set(serve.status().applications), before)
        self.assertEqual(self.chat()[0], 200)

    def test_ray_serves_own_files(self):
        from ray import serve
        from heddle.ray.server import build
        serve.run(build({"model": str(LLADA), "schedule": "pulsecol", "settings": {"keep": "1/2"}, "name": "half",
                         "batch": "2"}), name="c", route_prefix="/c")
        self.addCleanup(serve.delete, "c")
        _, reply = self.ask("GET", "/c/v1/models/half")
        self.assertEqual(json.loads(reply.read())["schedule"], "pulsecol")
        for said, more in (("no parameter", {"settings": {"nope": 1}}), ("does not divide", {"tokens_per_step": 3}),
                           ("no model's folder", {"model": "/nowhere"})):
            self.assertRaisesRegex(heddle.HeddleError, said, heddle.ray.app, **{"model": LLADA, **more})

    def test_seeds(self):
        hot = {"temperature": 2, "max_tokens": 64, "messages": [{"role": "user", "content": "Sort 9 4 7 1 1 3."}]}
        made = {seed: [self.chat(seed=seed, **hot)[1]["choices"][0]["message"]["content"] for _ in range(2)]
                for seed in (1, 2, -3)}
        self.assertTrue(all(a == b for a, b in made.values()))
        self.assertEqual(len({a for a, _ in made.values()}), 3)
        unseeded = {self.chat(**hot)[1]["choices"][0]["message"]["content"] for _ in range(3)}
        self.assertGreater(len(unseeded), 1)

    def test_errors(self):
        for status, param, fields in ((404, "model", {"model": "x"}), (400, "n", {"n": 2}),
                                      (400, "messages", {"max_tokens": 1001}), (400, "top_p", {"top_p": 0.5}),
                                      (400, "messages", {"messages": [{"role": "user", "content": "a " * 2000}]})):
            with self.subTest(param=param):
                got, body = self.chat(**fields)
                self.assertEqual((got, body["error"]["param"]), (status, param))
        for status, words in ((400, ("POST", "/v1/chat/completions", b"{")), (404, ("GET", "/v1/completions")),
                              (405, ("GET", "/v1/chat/completions")), (404, ("GET", "/v1/models/x"))):
            _, reply = self.ask(*words)
            self.assertEqual(reply.status, status)
            self.assertIn("message", json.loads(reply.read())["error"])
        _, reply = self.ask("GET", "/v1/models")
        self.assertEqual([m["id"] for m in json.loads(reply.read())["data"]], ["heddle-4m"])

    def test_who_goes_away_ends_the_run(self):
        long = {"model": "heddle-4m", "messages": [{"role": "user", "content": "Copy this."}], "max_tokens": 900,
                "stop": ["zzzz"]}
        before = self.health()
        connection, reply = self.ask("POST", "/v1/chat/completions", {**long, "stream": True})
        self.assertIn(b"assistant", reply.readline())
        wait_for(lambda: self.health()["runs"] > before["runs"])
        reply.close()
        connection.close()
        self.assert_idle(before)
        before = self.health()
        connection, reply = None, None
        with self.assertRaises(TimeoutError):
            self.ask("POST", "/v1/chat/completions", long, timeout=0.3)
        self.doCleanups()
        self.assert_idle(before)

    def assert_idle(self, before):
        """The run stops, long before its 900 steps."""
        def still():
            first = self.health()
            time.sleep(0.5)
            return self.health()["steps"] == first["steps"] and first
        after = wait_for(still)
        self.assertEqual(after["runs"], before["runs"] + 1)
        self.assertLess(after["steps"] - before["steps"], 400)

    @unittest.skipUnless(importlib.util.find_spec("openai"), "needs the package openai")
    def test_openais_client(self):
        import openai
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0)
        self.assertEqual([m.id for m in client.models.list()], ["heddle-4m"])
        make = lambda **more: client.chat.completions.create(model="heddle-4m", messages=CHAT, max_tokens=64, **more)
        self.assertEqual(make(temperature=0).choices[0].message.content, self.text)
        chunks = list(make(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), self.text)
        self.assertEqual(chunks[-1].usage.prompt_tokens, self.prompt_tokens)
        with self.assertRaises(openai.BadRequestError) as caught:
            make(temperature=9)
        self.assertEqual(caught.exception.param, "temperature")
        self.assertRaises(openai.NotFoundError, client.models.retrieve, "x")

    def test_a_killed_replica_is_replaced(self):
        from ray import serve
        serve.run(heddle.ray.app(DREAM, "dense", name="dream", replicas=2), name="b", route_prefix="/b")
        self.addCleanup(serve.delete, "b")
        body = {"model": "dream", "messages": CHAT, "max_tokens": 16}

        def process():
            return json.loads(self.ask("GET", "/b/health")[1].read())["process"]

        def both():
            seen = {process() for _ in range(8)}
            return seen if len(seen) == 2 else None
        first = wait_for(both)
        answer = self.ask("POST", "/b/v1/chat/completions", body)[1]
        text = json.loads(answer.read())["choices"][0]["message"]["content"]
        os.kill(min(first), signal.SIGKILL)
        wait_for(lambda: (seen := both()) and min(first) not in seen)
        for _ in range(4):
            answer = self.ask("POST", "/b/v1/chat/completions", body)[1]
            self.assertEqual(json.loads(answer.read())["choices"][0]["message"]["content"], text)


if __name__ == "__main__":
    unittest.main()
