# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An editor: starts the language server, talks with it over pipes and checks what it answers.

usage: client.py SERVER HEDDLEC HEDDLE_OPT MISTAKES.mlir...

The files of mistakes hold texts that lines of `// -----` part. Of each text the server, heddlec and
heddle-opt must say the same at the same places.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path


class Server:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.next_id = 0
        self.next_file = 0
        self.published = {}

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while line := self.process.stdout.readline().strip():
            name, value = line.split(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the server has ended"
        message = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.published[message["params"]["uri"]] = message["params"]
        return message

    def ask(self, method, params):
        self.next_id += 1
        self.send({"id": self.next_id, "method": method, "params": params})
        while (answer := self.receive()).get("id") != self.next_id:
            pass
        return answer

    def result(self, method, params):
        answer = self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def open(self, text):
        """Opens a new file; its URI and diagnostics."""
        self.next_file += 1
        uri = f"file:///schedules/{self.next_file}.mlir"
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": {
            "uri": uri, "languageId": "mlir", "version": 1, "text": text}}})
        while uri not in self.published:
            self.receive()
        return uri, self.published[uri]["diagnostics"]

    def change(self, uri, text):
        del self.published[uri]
        self.send({"method": "textDocument/didChange", "params": {
            "textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]}})
        while uri not in self.published:
            self.receive()
        return self.published[uri]["diagnostics"]

    def at(self, method, marked, **more):
        """Asks of the place of ^ in a new file."""
        offset = marked.index("^")
        uri, _ = self.open(marked[:offset] + marked[offset + 1:])
        line = marked[:offset].count("\n")
        character = offset - (marked[:offset].rfind("\n") + 1)
        return self.result(f"textDocument/{method}", {
            "textDocument": {"uri": uri}, "position": {"line": line, "character": character},
            **more})

    def hover(self, marked):
        answer = self.at("hover", marked)
        return answer["contents"]["value"] if answer else ""

    def complete(self, marked):
        return {item["label"]: item for item in self.at("completion", marked)["items"]}


def edited(text, edit):
    """The text after a TextEdit, whose ends are in one line."""
    lines = text.split("\n")
    start, end = edit["range"]["start"], edit["range"]["end"]
    assert start["line"] == end["line"], edit
    line = lines[start["line"]]
    lines[start["line"]] = line[:start["character"]] + edit["newText"] + line[end["character"]:]
    return "\n".join(lines)


SAID = re.compile(r"^.*?\.mlir:(\d+):(\d+): (error|warning|note): (.*)$", re.M)


def said_by(program, *options):
    def said(text, folder):
        file = Path(folder) / "text.mlir"
        file.write_text(text)
        run = subprocess.run([program, str(file), *options], capture_output=True, text=True)
        return [(int(line), int(column), kind, message)
                for line, column, kind, message in SAID.findall(run.stderr)]
    return said


def said_by_server(server, text):
    said = []
    for found in server.open(text)[1]:
        kind = {1: "error", 2: "warning"}[found["severity"]]
        start = found["range"]["start"]
        said.append((start["line"] + 1, start["character"] + 1, kind,
                     found["message"].split("\n")[0]))
        for note in found.get("relatedInformation", []):
            start = note["location"]["range"]["start"]
            said.append((start["line"] + 1, start["character"] + 1, "note", note["message"]))
    return said


def test_same_errors(server, heddlec, heddle_opt, files):
    others = {"heddlec": said_by(heddlec, "--compile-to=plan", "-o", "-"),
              "heddle-opt": said_by(heddle_opt, "--heddle-verify-schedule", "-o", "-")}
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            for text in Path(file).read_text().split("// -----\n"):
                text = re.sub(r" *// (expected-|REQUIRES|RUN).*\n", "\n", text)
                # heddlec asks for one schedule, and says so only when there is no mistake.
                here = said_by_server(server, text)
                assert here, f"{file}: nothing is wrong with\n{text}"
                for name, said in others.items():
                    there = said(text, folder)
                    assert here == there, f"{file}: the server says\n{here}\n{name}\n{there}\nof\n{text}"
                count += 1
    assert count > 30, count


VALUES = """heddle.schedule @s(share = 1/2, size = 32) {
  %c = cadence first(1)
  %w = window(4)
  %p = positions block
"""
PLAN_LEVEL = {"plan", "rule", "phase", "kernel", "selection", "refresh", "attend_with",
              "score_with", "measure", "heddle.plan"}


GRAMMAR = (Path(__file__).resolve().parents[4] / "docs/Spec/Grammar.md").read_text()


def words_of(op):
    """The words that forms of the op begin with, of which one stands behind it, by the Spec's grammar."""
    (found,) = re.findall(rf"^(?:%name = )?{op}\n {{7}}(.*(?:\n {{5}}\| .*)*)", GRAMMAR, re.M)
    return {re.match("[a-z_]*", form)[0] for form in re.split(r"\n {5}\| ", found)} - {""}


def test_completion(server):
    def check(line, exactly=None, has=(), lacks=()):
        marked = VALUES + "  " + line + "\n  attend dense\n}\n"
        found = server.complete(marked)
        if exactly is not None:
            assert set(found) == set(exactly), f"{line}: {sorted(found)}"
        assert set(has) <= set(found), f"{line}: {sorted(found)} lacks {set(has) - set(found)}"
        wrong = set(lacks) & set(found) | (PLAN_LEVEL - set(exactly or ())) & set(found)
        assert not wrong, f"{line}: {sorted(wrong)}"
        for label, item in found.items():
            assert item["textEdit"]["newText"] == label, item
        return found

    # Ops, with their documentation; those that make values behind = alone.
    ops = check("^", has=["attend", "commit", "recompute", "reuse", "visible"],
                lacks=["window", "select", "yield", "schedule"])
    assert "which predictions become tokens" in ops["commit"]["detail"], ops["commit"]
    assert "| `quota` |" in ops["commit"]["documentation"]["value"]
    check("%x = ^", has=["cadence", "select", "window", "sinks", "others", "union", "intersect", "fix"],
          lacks=["attend", "commit", "reuse"])
    # Words where they may stand, also when they have been begun.
    words = check("%x = cadence ^", exactly=words_of("cadence"))
    assert {"never", "every", "at"} <= set(words), words
    assert "`every(n, from = s)`" in words["every"]["documentation"]["value"], words["every"]
    begun = check("%x = cadence ev^", has=["every"])
    assert begun["every"]["textEdit"]["range"] == {
        "start": {"line": 4, "character": 15}, "end": {"line": 4, "character": 17}}, begun["every"]
    check("%x = cadence every(4, ^", exactly=["from"])
    check("%x = cadence every(4) ^", has=["in", "or"], lacks=["on", "by", "window"])
    check("%x = select ^", exactly=words_of("select"))
    check("%x = select columns(^", exactly=["keep", "group", "rounding", "per_kv_head", "per_layer"])
    check("%x = select columns(keep = 1/5, ^", exactly=["group", "rounding", "per_kv_head", "per_layer"])
    check("%x = select columns(rounding = ^", exactly=["floor", "ceil", "round", "floor_plus_one"])
    check("%x = select columns(keep = 1/5, group = 32) ^", exactly=["by"])
    check("%x = select columns(keep = 1/5, group = 32) by ^", exactly=["mean_probability", "mean_logit"])
    check("%x = positions ^", has=words_of("positions"), lacks=["first", "%p"])
    check("commit ^", has=words_of("commit"), lacks=["within", "stop", "kv"])
    check("commit quota ^", has=["within", "on", "near", "renoise", "stop"], lacks=["quota", "above"])
    check("commit above(0.6, ^", exactly=["strictly"])
    check("commit above(0.6) at_most(share = 0.7, ^", exactly=["least", "most"])
    check("commit above(0.6) revoke(below = 0.9, ^", exactly=["by", "fewer_than"])
    check("commit above(0.6) revoke(below = 0.9, by = ^", has=["shadow"])
    check("reuse ^", exactly=words_of("reuse"))
    # Parameters where numbers of their kind are.
    check("%x = window(^", exactly=["size"])
    check("%x = cadence at(^", exactly=["share", "step"])
    # Values of the right type alone.
    check("attend pairs(^", exactly=["%w"])
    check("attend pairs(%^", exactly=["%w"])
    check("attend dense until(^", exactly=["%c"])
    check("commit quota within(^", exactly=["%p"])
    check("commit quota on ^", exactly=["%c"])
    check("recompute all on %c and ^", exactly=["%c"])
    check("recompute ^", has=["all", "salient", "%p"], lacks=["%c", "%w"])
    check("recompute least_similar(keep = 1/4, among = ^", exactly=["%p"])
    check("reuse kv, attention(outside = %p, on = %c, ^", exactly=["refresh"])
    check("reuse kv, attention(outside = %p, on = %c, refresh = ^", exactly=["least_similar", "%p"])
    check("visible ^", has=["all", "%p"], lacks=["%c", "%w"])
    check("visible all on ^", exactly=["%c"])
    check("%x = fix %p on ^", exactly=["%c"])
    check("%x = neighbors(2) of ^", exactly=["%p"])
    check("%x = neighbors(2) of %p in ^", exactly=["%p"])
    check("%x = confident(2) of ^", exactly=["%p"])
    check("%x = attended(share = 1/2) of ^", exactly=["%p"])
    check("%x = positions committed(since = ^", exactly=["%c"])
    check("%x = select columns(keep = 1/5, group = 32) by mean_probability on ^", exactly=["%c"])
    # In a comment nothing, in scores what they are made of, before schedules one.
    check("// ^", exactly=[])
    scores = check("attend dense scores(%logit) { ^", has=["arith.mulf", "math.tanh", "yield"])
    assert "attend" not in scores
    assert set(server.complete("^")) == {"heddle.schedule"}
    # A value that is made below, and one of another schedule, are none here.
    found = server.complete("heddle.schedule @a {\n  %a = window(4)\n  attend pairs(%a)\n}\n"
                            "heddle.schedule @b {\n  attend pairs(^)\n  %b = window(4)\n}\n")
    assert not found, sorted(found)
    # While the rest is missing.
    assert set(server.complete("heddle.schedule @a {\n  %a = window(4)\n  attend pairs(^")) == {"%a"}


def test_hover(server):
    def check(line, *has):
        found = server.hover(VALUES + "  " + line + "\n  attend dense\n}\n")
        for text in has:
            assert text in found, f"{line}: {text} is not in\n{found}"
        if not has:
            assert not found, found

    check("commit quo^ta", "`quota`", "the model's quota of each step")
    check("com^mit quota", "`heddle.commit`", "which predictions become tokens")
    check("%x = cadence eve^ry(4, from = 2)", "`every(n)`", "1, 1 + n, 1 + 2n")
    check("%x = cadence every(4, fr^om = 2)", "`every(n, from = s)`", "s, s + n")
    check("%x = select columns(keep = 1/5, group = 32) by mean_prob^ability on %c",
          "mean softmax probability")
    check("attend den^se until(%c) then pairs(%w)", "all pairs")
    check("attend dense un^til(%c) then pairs(%w)", "until(%cadence)")
    check("attend dense in lay^ers(5)", "in these layers only")
    check("%x = union %^w, %w", "!heddle.pairs", "window(4)")
    # A word of an op that is not yet right.
    check("commit quo^ta on", "`quota`")
    check("%x = window(^4)")


def test_actions(server):
    def check(text, *titles):
        """What each action makes of the text has no error."""
        uri, found = server.open(text)
        assert found, text
        actions = server.result("textDocument/codeAction", {
            "textDocument": {"uri": uri}, "range": found[0]["range"],
            "context": {"diagnostics": found}})
        assert [action["title"] for action in actions] == list(titles), (text, actions)
        for action in actions:
            assert action["kind"] == "quickfix"
            (edit,) = action["edit"]["changes"][uri]
            assert not server.change(uri, edited(text, edit)), edited(text, edit)

    def schedule(body):
        return f"heddle.schedule @s {{\n  {body}\n}}\n"

    check(schedule("commit qota\n  attend dense"), "Write 'quota'")
    check(schedule("comit quota\n  attend dense"), "Write 'commit'")
    check(schedule("%c = cadence evry(4)\n  recompute all on %c\n  recompute all\n  attend dense"),
          "Write 'every'")
    check(schedule("%near = window(4)\n  attend pairs(%neer)"), "Write '%near'")
    check(schedule("%tenth = sinks(10%)\n  attend pairs(%tenth)"), "Write '10 percent'")
    check(schedule("%c = cadence uniform(window = 30, count = 2)\n  recompute all on %c\n  recompute all\n"
                   "  attend dense"), "Write '30 percent'")
    # A clause, not an op that is as near.
    check(schedule("%c = cadence first(1)\n  %b = positions block\n  reuse kv\n  recompute all on %c\n  recompute %b alon\n"
                   "  attend dense"), "Write 'alone'")
    check(schedule("attend dense in layers(0 o 3)\n  attend dense"), "Write 'to'")
    check(schedule("%w = window(4)\n  attend %w"), "Write 'pairs(%w)'")
    check(schedule("%c = cadence first(1)\n  %m = undecoded\n  reuse kv\n  recompute all on %c\n  recompute %m\n"
                   "  attend dense"), "Write 'positions undecoded'")
    check("schedule @s { attend dense }", "Write 'heddle.schedule'")
    # Spellings of before.
    check(schedule("%w = window(4)\n  heddle.attend pairs(%w)"), "Write 'attend'")
    check(schedule("%c = cadence at(step 1)\n  recompute all on %c\n  recompute all\n"
                   "  attend dense"), "Write 'step ='")
    check("heddle.schedule @s(size = 4) {\n  %w = window(sise)\n  attend pairs(%w)\n}",
          "Write 'size'")


def test_warnings(server):
    _, found = server.open("heddle.schedule @s(size = 4) {\n  %w = window(4)\n  attend dense\n}\n")
    assert [(each["severity"], each["message"]) for each in found] == [
        (2, "parameter 'size' is named nowhere in the schedule"),
        (2, "has no effect: no op of the schedule reads it")], found
    # Two schedules in a file, and other levels of IR, are no mistakes.
    assert server.open("heddle.schedule @a { attend dense }\n"
                       "heddle.schedule @b { attend dense }\n")[1] == []
    assert server.open("module {\n}\n")[1] == []


def test_places(server):
    marked = VALUES + "  // \u00e9\U0001f9f6\n  attend pairs(%^w)\n}\n"
    (made,) = server.at("definition", marked)
    assert made["range"]["start"] == {"line": 2, "character": 2}, made
    used = server.at("references", marked, context={"includeDeclaration": True})
    assert [each["range"]["start"]["line"] for each in used] == [2, 5], used
    uri, _ = server.open("heddle.schedule @a {\n  %a = window(4)\n  attend pairs(%a)\n}\n")
    (symbol,) = server.result("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert symbol["name"] == "a" and [each["name"] for each in symbol["children"]] == ["%a"], symbol
    # Columns are UTF-16 units.
    _, (found,) = server.open('heddle.schedule @"\u00e9\U0001f9f6" { attend dence }')
    assert found["range"]["start"]["character"] == 32, found


def test_typing(server):
    """A schedule as it is typed, character by character: an answer at each."""
    text = (VALUES + "  %x = select blocks(keep = share, size = size) by mean_probability "
            "isolating(spans) on %c\n  %u = union %w, %x\n  visible all on %c then %p\n"
            "  attend dense until(%c) then pairs(%u) scores(%logit) {\n"
            "    %half = arith.mulf %logit, %logit : f32\n    yield %half\n  }\n}\n")
    uri, _ = server.open("")
    for end in range(1, len(text) + 1):
        found = server.change(uri, text[:end])
        line = text[:end].count("\n")
        place = {"textDocument": {"uri": uri}, "position": {
            "line": line, "character": end - (text[:end].rfind("\n") + 1)}}
        items = server.result("textDocument/completion", place)["items"]
        assert not PLAN_LEVEL & {item["label"] for item in items}, (text[:end], items)
        server.result("textDocument/hover", place)
    assert all(each["severity"] == 1 for each in found), found


def test_protocol(server):
    answer = server.ask("textDocument/rename", {})
    assert answer["error"]["code"] == -32601, answer
    answer = server.ask("textDocument/hover", {"textDocument": 3})
    assert "error" in answer, answer
    nowhere = {"textDocument": {"uri": "file:///closed.mlir"},
               "position": {"line": 0, "character": 0}}
    assert server.result("textDocument/hover", nowhere) is None
    uri, _ = server.open("heddle.schedule @s { attend dense }")
    far = {"textDocument": {"uri": uri}, "position": {"line": 99, "character": 99}}
    server.result("textDocument/completion", far)
    server.send({"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}})
    assert server.result("textDocument/hover", far) is None


def main(program, heddlec, heddle_opt, *files):
    server = Server(program)
    start = server.result("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    for name in ("hoverProvider", "definitionProvider", "completionProvider",
                 "codeActionProvider"):
        assert start["capabilities"][name], start
    server.send({"method": "initialized", "params": {}})
    test_completion(server)
    test_hover(server)
    test_actions(server)
    test_warnings(server)
    test_places(server)
    test_typing(server)
    test_protocol(server)
    test_same_errors(server, heddlec, heddle_opt, files)
    assert server.result("shutdown", None) is None
    server.send({"method": "exit"})
    assert server.process.wait(timeout=60) == 0
    # An end that was not asked for.
    server = Server(program)
    server.send({"method": "exit"})
    assert server.process.wait(timeout=60) == 1
    print("all is as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
