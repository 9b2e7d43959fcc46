# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedules as expressions, their MLIR, and what is wrong with them."""

import copy
import inspect
import itertools
import math
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import types
import unittest
import unittest.mock
import warnings
from fractions import Fraction

import heddle
from heddle import (all_positions, at, at_step, attend, attention_outside, block, blocks, columns, commit, committed, decoded,
                    dense, every, first, recompute, response, reuse, salient, schedule, sinks,
                    undecoded, uniform, visible, window)
from heddle.parse import _CLAUSE
from common import ROOT


def written(name, made):
    """The test's own statement of a preset, in the compiler's canonical form."""
    return heddle.canonical(schedule(name, made))


def composed():
    phase = every(32)
    active = undecoded(first=16)
    rows = active | committed(since=phase)
    return (visible((decoded | undecoded(first=64)).fixed(phase)) +
            reuse("kv", "context(propagating)", "ffn") +
            recompute(all_positions, on=phase) + recompute(salient(rows, below=0.99)) +
            commit("quota", within=active) +
            attend(columns(keep=0.2, group=32), refresh=phase))


class ModuleTest(unittest.TestCase):
    def test_version(self):
        from importlib import metadata
        with unittest.mock.patch.object(metadata, "version", side_effect=metadata.PackageNotFoundError):
            self.assertEqual(heddle.__version__, "0+unknown")
        with unittest.mock.patch.object(metadata, "version", return_value="3.4.5") as asked:
            self.assertEqual(heddle.__version__, "3.4.5")
        asked.assert_called_once_with("heddle")
        self.assertFalse(hasattr(heddle, "nope"))


class TextTest(unittest.TestCase):
    def test_values_are_written_once_in_front_of_their_use(self):
        made = schedule("mine", attend(columns(keep=0.2, group=64) | window(128) | sinks(4),
                                       refresh=uniform(0.3, 16)))
        self.assertEqual(str(made), """heddle.schedule @mine {
  %steps = cadence uniform(window = 0.3, count = 16)
  %cols = select columns(keep = 0.2, group = 64) by mean_probability on %steps
  %near = window(128)
  %sinks = sinks(4)
  %pairs = union %cols, %near, %sinks
  attend pairs(%pairs)
}
""")

    def test_values_show_what_they_say(self):
        for value, text in (
                (every(4).in_block(), "Cadence every(4) in block"),
                (window(64) | sinks(4), "Pairs union window(64), sinks(4)"),
                (columns(keep=0.2), "Pairs select columns(keep = 0.2, group = 32) by mean_probability"),
                (blocks(keep=0.3, on=every(2)) | dense,
                 "Pairs union (select blocks(keep = 0.3, size = 128) by mean_probability on every(2)), "
                 "dense"),
                (blocks(keep=0.25, size=64, by="mean_logit"), "Pairs select blocks(keep = 0.25, size = 64) by mean_logit"),
                (columns(keep=0.2) & window(64) & (sinks(4) | window(8)),
                 "Pairs intersect (select columns(keep = 0.2, group = 32) by mean_probability), window(64), "
                 "(union sinks(4), window(8))"),
                ((block | committed(since=every(2))) & undecoded().fixed(first(3)),
                 "Positions intersect (union block, committed(since = every(2))), "
                 "(fix undecoded on first(3))"),
                (salient(block - decoded, 0.9), "Exact salient(below = 0.9) in (except block, decoded)")):
            self.assertEqual(repr(value), f"<heddle.{text}>")
        with self.assertRaisesRegex(TypeError, "found <heddle.Cadence every\\(4\\)>"):
            attend(every(4))

    def test_positions_without_others(self):
        rest = undecoded(first=6) - undecoded(first=5)
        made = schedule("mine", reuse("kv") + recompute(all_positions, on=every(4)) +
                        recompute(undecoded(first=6) | rest.last(2)) + attend())
        for line in (" = except %", " = last(2) of %"):
            self.assertIn(line, str(made))
        self.assertEqual(str(heddle.parse(str(made))), str(made))
        self.assertEqual(rest, undecoded(first=6) - undecoded(first=5))

    def test_rows_that_are_not_visible(self):
        made = schedule("mine", visible((decoded | undecoded(first=8)).fixed(every(4))) + reuse("kv") +
                        recompute(all_positions, on=every(4)) +
                        recompute(undecoded(first=4), alone=True, unseen=True, on=every(2)) +
                        recompute(undecoded(first=6), unseen=True) + attend())
        for line in (" alone unseen on %", " unseen\n"):
            self.assertIn(line, str(made))
        self.assertEqual(str(heddle.parse(str(made))), str(made))
        with self.assertRaisesRegex(TypeError, "unseen: expected True or False"):
            recompute(block, unseen=1)

    def test_rows_and_what_is_kept_of_some_layers(self):
        made = schedule("mine", reuse("kv", layers=(0, 3)) + reuse("kv", "output", "ffn", layers=[4, (-2, -1)]) +
                        reuse("kv") + recompute(all_positions, on=first(1).in_block()) +
                        recompute(block, alone=True, on=every(2), layers=[(0, 3), -1]) +
                        recompute(block & undecoded(), alone=True) + attend())
        for line in ("reuse kv in layers(0 to 3)\n", "reuse kv, output, ffn in layers(4, -2 to -1)\n",
                     "reuse kv\n", " in layers(0 to 3, -1)\n"):
            self.assertIn(line, str(made))
        self.assertEqual(str(heddle.parse(str(made))), str(made))
        for make in (lambda: reuse("kv", layers=[]), lambda: recompute(block, layers=[])):
            with self.assertRaisesRegex(ValueError, "names no layer"):
                make()
        with self.assertRaisesRegex(TypeError, "a layer or a list of these, found 'all'"):
            recompute(block, layers="all")

    def test_drift_names_its_layer(self):
        self.assertEqual(heddle.drift(0.9, 8), heddle.drift(0.9, 8, layer=-1))
        made = heddle.schedule("deeper", reuse("kv", "output", "ffn"), recompute(all_positions, on=first(1)),
                               *[recompute(all_positions, on=heddle.drift(bound, 8, layer=layer), layers=(layer, -1))
                                 for layer, bound in ((-4, 0.9), (-2, 0.95))], recompute(undecoded(8)), attend())
        for line in ("drift(below = 0.9, within = 8, layer = -4)\n", "drift(below = 0.95, within = 8, layer = -2)\n",
                     " in layers(-2 to -1)\n"):
            self.assertIn(line, str(made))
        self.assertEqual(str(heddle.parse(str(made))), str(made))
        with self.assertRaisesRegex(TypeError, "layer"):
            heddle.drift(0.9, 8, layer="last")

    def test_drift_is_of_values_or_of_attention(self):
        self.assertNotEqual(heddle.drift(0.9, 8, attention=True), heddle.drift(0.9, 8))
        made = heddle.schedule("weighed", attend(columns(0.2, 128), refresh=heddle.drift(0.9, 8, 1, attention=True)))
        self.assertIn("drift(attention, below = 0.9, within = 8, layer = 1)\n", str(made))
        self.assertEqual(str(heddle.parse(str(made))), str(made))
        with self.assertRaisesRegex(TypeError, "attention"):
            heddle.drift(0.9, 8, attention="weights")

    def test_every_cadence_and_set_of_positions_has_an_expression(self):
        grammar = (ROOT / "docs/Spec/Grammar.md").read_text()
        made = {"cadence": {
            "never": heddle.never, "every": every(4), "first": first(4), "at": at(0.2),
            "uniform": uniform(0.3, 16), "random": heddle.random(0.3, 16, 7),
            "power": heddle.power(0.3, 16), "geometric": heddle.geometric(2), "drift": heddle.drift(0.9, 8)},
            "positions": {
            "all": all_positions, "prompt": heddle.prompt, "response": heddle.response,
            "block": block, "before": heddle.before_block, "from": heddle.from_block,
            "decoded": decoded, "undecoded": undecoded(), "committed": committed(last=2),
            "next": heddle.next_positions, "single": heddle.single(-1)}}
        for what, expressions in made.items():
            forms = grammar.split(f"%name = {what}\n")[1].split("\n\n")[0]
            words = set(re.findall(r"^ +(?:\| )?(\w+)", forms, re.M))
            self.assertEqual(words, set(expressions))
            for word, value in expressions.items():
                uses = (attend(columns(0.5, 16), refresh=value) if what == "cadence" else
                        visible(value | decoded))
                with self.subTest(word):
                    self.assertIn(f" = {what} {word}", str(schedule("mine", uses)))
                    self.assertEqual(str(heddle.parse(str(schedule("mine", uses)))),
                                     str(schedule("mine", uses)))

    def test_every_operation_on_positions_has_an_expression(self):
        operations = re.findall(r"^%name = (\w+)\S* .*%", (ROOT / "docs/Spec/Grammar.md").read_text(), re.M)
        later = committed(last=2)
        made = {"attended": decoded.attended(0.1), "confident": block.confident(2), "except": decoded - later, "fix": decoded.fixed(every(4)), "hull": later.hull(),
                "intersect": decoded & block, "last": decoded.last(2), "leading": later.leading(),
                "nearest": later.nearest(2, undecoded()), "union": decoded | later,
                "neighbors": later.neighbors(2, undecoded()), "predicting": later.predicting()}
        self.assertEqual(sorted(operations), sorted(made))
        for word, value in made.items():
            with self.subTest(word):
                text = str(schedule("mine", visible(value)))
                self.assertRegex(text, rf" = {word}\b")
                self.assertEqual(str(heddle.parse(text)), text)

    def test_every_set_of_pairs_by_arithmetic_has_an_expression(self):
        table = (ROOT / "docs/Spec/Pairs.md").read_text().split("<!-- end")[0]
        forms = re.findall(r"^\| `([a-z_]+)\((.+)\)` \|", table, re.M)
        self.assertLessEqual({("window", "n"), ("sinks", "n"), ("sinks", "r")}, set(forms))
        for word, numbers in forms:
            lone, named = [], {}
            for number in numbers.split(", "):
                name, equals, _ = number.partition(" = ")
                if equals:
                    named[name] = 3
                else:
                    lone.append(0.25 if number == "r" else 3)
            with self.subTest(word, numbers=numbers):
                made = schedule("mine", attend(heddle.pairs(word, *lone, **named)))
                said = ", ".join([*map(str, lone), *(f"{name} = 3" for name in named)])
                self.assertIn(f" = {word}({said})", str(made))
                self.assertEqual(heddle.parse(str(made)), made)
                self.assertIn(f" = {word}({said})", heddle.canonical(made))
        self.assertEqual(heddle.pairs("window", 64), window(64))
        # An int is a number of keys or blocks.
        for made, said in ((columns(512, 64), "columns(keep = 512, group = 64)"),
                           (columns(1.0, 64), "columns(keep = 1/1, group = 64)"),
                           (blocks(8, 64), "blocks(keep = 8, size = 64)")):
            self.assertIn(said, heddle.canonical(attend(made, refresh=every(4))))
        self.assertEqual(heddle.pairs("sinks", "10 percent"), sinks("10 percent"))
        with self.assertRaisesRegex(heddle.ScheduleError, "gap"):
            heddle.canonical(attend(window(64, gap=2)))
        with self.assertRaisesRegex(ValueError, "'window 3' is no word of the Spec"):
            heddle.pairs("window 3")
        with self.assertRaises(TypeError):
            heddle.pairs("window", 64.5j)

    def test_what_is_written_means_what_the_examples_do(self):
        once, start, second = at(0.2), first(1).in_block(), at_step(2).in_block()
        certain = undecoded().confident(32, near=10) | undecoded(first=1) | committed(last=1)
        for name, made in {
                "dense": attend(),
                "pulsecol": attend(columns(keep=0.2), refresh=uniform(0.3, 16)),
                "sparsed": attend(blocks(keep=Fraction(3, 10), isolating="spans"), refresh=once,
                                  until=once),
                "streaming-llm": attend(window(256) | sinks(0.1)),
                "fast-dllm-dual-parallel": reuse("kv") + recompute(all_positions, on=start) +
                recompute(block) + commit("above", 0.9) + attend(dense),
                "flashblock": reuse("kv", attention_outside(block, on=start)) + recompute(all_positions, on=start) +
                recompute(block) + attend(dense),
                "losa": reuse("kv", attention_outside(block, on=start, refresh=block, keep=0.25)) +
                recompute(all_positions, on=start) + recompute(block) + attend(dense),
                "sparse-dllm": attend(columns(0.5, "all", per_layer=True, pooled=3, of=block, always=block,
                                              on=second), until=second) +
                reuse("kv") + recompute(all_positions, on=start) + recompute(block),
                "prefilling-dllm": attend(columns(
                    0.5, 128, always=response, within=blocks(8, isolating="spans")), refresh=first(1)) +
                reuse("kv") + recompute(all_positions, on=first(1)) + recompute(response),
                "threshold-revoke": commit("above", 0.6, revoke=0.9) + attend(),
                "wino": commit("above", 0.6, strictly=True, at_most=0.7, least=5, most=20, revoke=0.9,
                               revoke_by="shadow", fewer_than="step_before") + attend(),
                "drafted-steps": commit(verify=3) + attend(),
                "token-edit": commit("above", 0.7, edit=0.5, further=16) + attend(),
                "entropy-bound": commit("entropy", 0.1) + attend(),
                "renoise": heddle.visible((heddle.before_block | block).fixed(start)) +
                commit("above", 0.95, renoise=True) + attend(),
                "per-layer": attend(columns(keep="1/8", group=128), refresh=every(8)) +
                attend(layers=(0, 1)) + attend(window(256), layers=(-1, -1)),
                "columns-across-layers": attend(
                    columns("20 percent", 128, on=uniform(0.3, 16), layers=[0, 8, (16, 16), 24])),
                "es-dllm": reuse("kv") + recompute(all_positions, on=start) + recompute(
                    heddle.least_similar(block, "1/2", block - (
                        undecoded(first=1) | block.confident(2) | committed(last=1)), confidence=0.5),
                    layers=[4, 8]) + recompute(block) + attend(),
                "d2-cache": reuse("kv") + recompute(all_positions, on=start) + recompute(
                    certain | (all_positions - certain).attended(0.1)) + commit(near=10) + attend(),
                "elastic-cache": reuse("kv", "output", "ffn") + recompute(all_positions, on=first(1)) +
                recompute(all_positions, on=heddle.drift(0.9, 64, layer=-24, attention=True), layers=(-24, -1)) +
                recompute(all_positions, on=heddle.drift(0.9, 64, layer=-12, attention=True), layers=(-12, -1)) +
                recompute(undecoded(first=16) | committed(last=1)) +
                commit("quota", within=undecoded(first=16)) + attend(),
                "columns-fewer-later": attend(
                    columns(0.1, 128), earlier=[(columns(0.5, 128), at(Fraction(1, 3)))],
                    refresh=uniform(0.5, 8)),
                "columns-window-saliency": composed()}.items():
            with self.subTest(name):
                theirs = heddle.canonical(heddle.preset(name))
                # Order of independent values is the writer's own.
                self.assertEqual(sorted(self.plain(written(name.replace("-", "_"), made))),
                                 sorted(self.plain(theirs)))

    def test_attention_outside_is_of_positions_on_a_cadence(self):
        kept = attention_outside(block, first(1).in_block())
        self.assertEqual(repr(kept), "<heddle.Outside attention(outside = block, on = (first(1) in block))>")
        for wrong in (lambda: attention_outside("block", every(4)), lambda: attention_outside(block, 4)):
            with self.assertRaises(TypeError):
                wrong()
        self.assertEqual(repr(attention_outside(block, every(4), refresh=committed(last=1))),
                         "<heddle.Outside attention(outside = block, on = every(4), refresh = committed(last = 1))>")
        self.assertEqual(repr(attention_outside(block, every(4), refresh=block, keep="1/4")),
                         "<heddle.Outside attention(outside = block, on = every(4), refresh = least_similar(keep = 1/4) in block)>")
        with self.assertRaises(TypeError):
            attention_outside(block, every(4), refresh=[1])
        for keep, refresh in ((0.5, None), ("half", block)):
            with self.assertRaisesRegex(ValueError, "keep"):
                attention_outside(block, every(4), refresh=refresh, keep=keep)
        with self.assertRaisesRegex(ValueError, "'attention' is none of kv"):
            reuse("kv", "attention")
        with self.assertRaisesRegex(heddle.ScheduleError, "need not include step 1"):
            heddle.canonical(reuse("kv", attention_outside(block, every(4, start=2))) + attend())

    @staticmethod
    def plain(text):
        """Lines of a canonical schedule, each operand replaced by what it stands for."""
        values, lines = {}, []
        for line in text.splitlines():
            name, equals, operation = line.strip().partition(" = ")
            operation = operation if equals and name.startswith("%") else line.strip()
            for operand in sorted(values, key=len, reverse=True):
                operation = operation.replace(operand, f"<{values[operand]}>")
            if name.startswith("%") and equals:
                values[name] = operation
            lines.append(operation)
        return lines

    def test_ratios_are_exact(self):
        for value, text in ((0.2, "0.2"), (1e-05, "0.00001"), (Fraction(1, 3), "1/3"),
                            ("20 percent", "20 percent"), (1, "1/1"), (0.1 + 0.2 - 0.2, None)):
            with self.subTest(value):
                if text is None:
                    with self.assertRaisesRegex(ValueError, "more than 15 digits"):
                        at(value)
                else:
                    self.assertEqual(at(value).text, f"at({text})")
        for bad in (math.nan, math.inf, "a fifth"):
            with self.assertRaises(ValueError):
                columns(keep=bad)

    def test_presets_have_parameters(self):
        self.assertEqual(heddle.presets(), sorted(p.stem for p in
                                                  (ROOT / "examples").glob("*.mlir")))
        made = str(heddle.preset("pulsecol", keep=0.5, count=8))
        self.assertIn("keep = 0.5", made)
        self.assertIn("count = 8", made)
        with self.assertRaisesRegex(TypeError, "no parameter 'keeps'; it has count, group, keep, window"):
            heddle.preset("pulsecol", keeps=0.5)
        with self.assertRaisesRegex(KeyError, "no preset 'pulsecols'"):
            heddle.preset("pulsecols")
        with self.assertRaises(KeyError):
            heddle.preset("../examples/pulsecol")

    def test_text_is_read_back(self):
        near = attend(window(128), scores="(%logit) {\n    yield %logit\n  }")
        for made in (schedule("mine", composed()), near, heddle.preset("soft-cap")):
            again = heddle.parse(str(made))
            self.assertEqual(str(again), str(made))
            self.assertEqual(heddle.parse(heddle.canonical(made)).name, made.name)
        for name in heddle.presets():
            with self.subTest(name):
                text = (ROOT / "examples" / f"{name}.mlir").read_text()
                mine, theirs = heddle.canonical(heddle.parse(text)), heddle.canonical(text)
                self.assertEqual(sorted(self.plain(mine)), sorted(self.plain(theirs)))
        both = heddle.parse(str(schedule("a", attend())) + str(schedule("b", attend(window(3)))),
                            "b")
        self.assertEqual(both, schedule("b", attend(window(3))))

    def test_all_that_the_compiler_reads(self):
        text = """heddle.schedule @a(
    keep = 20 percent, near = 128, last = 1, on = 64) {
  %often = cadence
    every(4)  // a comment
  %cols = select columns(keep=keep, group = on)
      by mean_probability
      on %often
      in layers(0, last to 3)
  %w = window(
    near
  )
  %both = union %cols,
    %w
  attend pairs(%w) until(%often) then
      pairs(%cols) in layers(0 to last)
  attend
    pairs(%both) scores(%logit) {
    %c = arith.constant 30.0 : f32
    %m = arith.minimumf %logit, %c : f32
    yield %m
  }
}
"""
        mine, theirs = heddle.canonical(heddle.parse(text)), heddle.canonical(text)
        self.assertEqual(sorted(self.plain(mine)), sorted(self.plain(theirs)))

    def test_clauses_of_a_selection_stand_on_lines_of_their_own(self):
        text = """heddle.schedule @a {
  %start = cadence first(1) in block
  %block = positions block
  %all = select columns(keep = 0.5, group = all, per_layer) by mean_logit on %start
  %cols = select columns(keep = 0.5, group = all, per_layer)
    by mean_probability
    pooled(3)
    of %block
    always %block
    within %all
    on %start
  reuse kv
  recompute all on %start
  recompute %block
  attend pairs(%cols)
}
"""
        self.assertEqual(sorted(self.plain(heddle.canonical(heddle.parse(text)))), sorted(self.plain(heddle.canonical(text))))

    def test_texts_of_other_forms_are_read_as_the_compiler_spells_them(self):
        generic = """"heddle.schedule"() <{sym_name = "a"}> ({
  %0 = "heddle.window"() <{term = #heddle.term<window(64)>}> : () -> !heddle.pairs
  "heddle.attend"(%0) <{operandSegmentSizes = array<i32: 0, 1>}> ({
  }) : (!heddle.pairs) -> ()
}) : () -> ()
"""
        line = "heddle.schedule @a(near = 64) { %w = window(near) attend pairs(%w) }"
        for text in (generic, line, line + " heddle.schedule @b { attend dense }"):
            with self.subTest(text):
                made = heddle.parse(text, "a")
                self.assertEqual((made.name, made.statements), ("a", attend(window(64)).statements))
        self.assertEqual(heddle.parse("heddle.schedule @a { attend dense }"), schedule("a", attend()))
        self.assertIn("window(64)", heddle.canonical(generic))

    def test_errors_say_the_column(self):
        for line, column, text in (
                (2, 16, "heddle.schedule @a {\n  attend pairs(%b)\n}"),
                (4, 7, "heddle.schedule @a {\n  %bb = window(3)\n  %c = union %bb,\n      %b\n  attend pairs(%c)\n}"),
                (2, 3, "heddle.schedule @a {\n  attned dense\n}"),
                (3, 3, "heddle.schedule @a {\n  attend dense\n  attned dense\n}")):
            with self.assertRaises(heddle.ScheduleError) as caught:
                heddle.parse(text)
            self.assertEqual((caught.exception.line, caught.exception.column), (line, column), text)

    def test_errors_of_one_line_are_the_compilers(self):
        for text, column, why in (
                ("heddle.schedule @a { %c = cadence evry(4) attend dense }", 35, "'evry'"),
                ("heddle.schedule @a { attend pairs(%b) }", 35, "no value %b is made above"),
                ("heddle.schedule @a { %w = window(64) attend pairs(%w) attend pairs(%w) }", 38, "write it last")):
            with self.subTest(text):
                with self.assertRaisesRegex(heddle.ScheduleError, why) as caught:
                    heddle.parse(text)
                with self.assertRaises(heddle.ScheduleError) as theirs:
                    heddle.compile(text)
                self.assertEqual(str(caught.exception), str(theirs.exception))
                self.assertEqual((caught.exception.line, caught.exception.column), (1, column))

    def test_half_of_a_surrogate_pair_is_refused(self):
        text = "heddle.schedule @a {\n  // \ud800\n  attend dense\n}"
        for make in (heddle.parse, heddle.compile, heddle.canonical, heddle.explain):
            with self.assertRaisesRegex(heddle.ScheduleError, r"schedule:2:6: error: .*U\+D800") as caught:
                make(text)
            str(caught.exception).encode()
            self.assertEqual((caught.exception.line, caught.exception.column), (2, 6))
        with self.assertRaisesRegex(heddle.HeddleError, "surrogates not allowed"):
            heddle.compile(attend(), cache_dir="\ud800")

    def test_what_was_read_composes(self):
        cached = heddle.preset("fast-dllm-dual") + attend(window(64), layers=(0, 1))
        text = heddle.canonical(schedule("both", cached))
        self.assertIn("reuse kv", text)
        self.assertIn("in layers(0 to 1)", text)

    def test_lines_go_on_with_every_clause_of_the_grammar(self):
        grammar = (ROOT / "docs/Spec/Grammar.md").read_text().split("```")[1]
        clauses = {re.match("[a-z_]+", one)[0] for line in re.findall(r"^ {7}\[(.*?)\](?: \(.*\))?$", grammar, re.M)
                   for one in line.split(" | ")}
        self.assertGreater(len(clauses), 12)
        self.assertLessEqual({"within", "revoke", "unseen", "scaled_by"}, clauses)
        for clause in clauses:
            self.assertTrue(re.match(_CLAUSE, f"{clause} %x"), clause)

    def test_text_that_cannot_be_read(self):
        texts = ((2, "is not defined", "heddle.schedule @a {\n  attend pairs(%b)\n}"),
                 (2, "no operation", "heddle.schedule @a {\n  heddle.attned dense\n}"),
                 (2, "no operation", "heddle.schedule @a {\n  %a = reuse kv\n}"),
                 (2, "'by' a scorer", "heddle.schedule @a {\n  %a = select x\n}"),
                 (1, "ends before", "heddle.schedule @a {"),
                 (1, "expected 'heddle.schedule", "func.func @a() {"),
                 (3, "no schedule @b; there are: a",
                  "heddle.schedule @a {\n  attend dense\n}"))
        # Where there is a compiler, it says what is wrong.
        with unittest.mock.patch.dict(os.environ, {"HEDDLEC": "/nonexistent"}):
            for line, why, text in texts:
                with self.subTest(why):
                    with self.assertRaisesRegex(heddle.ScheduleError, why) as caught:
                        heddle.parse(text, "b" if "@b" in why else None)
                    self.assertEqual(caught.exception.line, line)
        with self.assertRaisesRegex(heddle.ScheduleError, "expected one schedule"):
            heddle.parse("")

    def test_equal_schedules_are_equal(self):
        self.assertEqual(composed(), composed())
        self.assertEqual(len({window(4), window(4), window(5), sinks(4)}), 3)


class WrongTest(unittest.TestCase):
    def test_the_compiler_says_where(self):
        with self.assertRaises(heddle.ScheduleError) as caught:
            heddle.compile(attend(columns(keep=1.5), refresh=uniform(0.3, 16)))
        error = caught.exception
        self.assertEqual(error.line, 3)
        self.assertIn("must be more than 0 and at most 1, found 3/2", error.message)
        self.assertTrue(error.source.splitlines()[error.line - 1][error.column - 1:]
                        .startswith("1.5"))
        self.assertIn("schedule:3:", str(error))

    def test_a_model_has_the_layers_that_are_named(self):
        model = types.SimpleNamespace(config={"head_dim": 64, "layers": 4}, dtype="f32", device="cpu")
        drift = lambda layer: attend(columns(0.2, on=heddle.drift(0.9, 8, layer=layer)))
        near = lambda *layers: attend(window(4), layers=layers) + attend()
        for wrong, why in ((drift(4), "goes by what drifts in layer 4, the model has layers 0 to 3"),
                           (drift(-5), "goes by what drifts in layer -5, the model"),
                           (near(1, 4), "names layers 1 to 4, the model has layers 0 to 3")):
            with self.assertRaisesRegex(heddle.ScheduleError, why) as caught:
                heddle.compile(wrong, model=model)
            said = str(wrong).splitlines()[caught.exception.line - 1]
            self.assertRegex(said, r"cadence drift|in layers\(1 to 4\)")
        for right in (drift(3), drift(-4), near(-4, -1)):
            heddle.compile(right, model=model)

    def test_dense_attention_takes_the_place_of_lists_that_take_longer(self):
        most = attend(columns(keep=0.5, group=32), refresh=uniform(0.3, 16))
        with tempfile.TemporaryDirectory() as folder:
            table, file = os.path.join(folder, "table.json"), os.path.join(folder, "one.hdl")
            with open(table, "w") as out:
                out.write('{"dense_above": [{"target": "x86-64-v3", "lists": "columns", "group": 32, "percent": 40}]}')

            def bundle(how):
                heddle.compile(most, target="x86-64-v3", head_dim=64, dtype="f32", crossovers=how).save(file)
                with open(file, "rb") as read:
                    return read.read()
            with self.assertWarnsRegex(heddle.ScheduleWarning, "all keys in place of cols, which keeps 50% of the keys for "
                                       "each 32 rows: .* above 40% on x86-64-v3; crossovers=none keeps the lists"):
                self.assertIn(b'"fallbacks"', bundle(table))
            # Of this machine no such share was measured.
            for none in ("none", None):
                self.assertNotIn(b"dense_above", bundle(none))
        with self.assertRaisesRegex(TypeError, "crossovers: expected a path or 'none', found True"):
            heddle.compile(most, crossovers=True)

    def test_errors_are_copied_and_sent(self):
        with self.assertRaises(heddle.ScheduleError) as caught:
            heddle.compile("heddle.schedule @a {\n  attend pairs(%x)\n}")
        for again in (pickle.loads(pickle.dumps(caught.exception)), copy.copy(caught.exception)):
            self.assertIs(type(again), heddle.ScheduleError)
            for what in ("message", "line", "column", "source", "args"):
                self.assertEqual(getattr(again, what), getattr(caught.exception, what))
            self.assertEqual(again.line, 2)

    def test_a_text_without_a_schedule_is_none(self):
        for make in (heddle.Source, heddle.compile, heddle.Attention):
            with self.assertRaisesRegex(heddle.ScheduleError, "expected MLIR text.*found 'pulsecol'.*preset"):
                make("pulsecol")


    def test_several_schedules_need_a_name(self):
        text = "// heddle.schedule @none\nheddle.schedule @a { attend dense }\nheddle.schedule @b { attend dense }\n"
        with self.assertRaisesRegex(heddle.ScheduleError, "found @a, @b; choose one by heddle.Source"):
            heddle.compile(text, head_dim=64, dtype="f32")
        self.assertEqual(heddle.compile(heddle.Source(text, "b"), head_dim=64, dtype="f32").schedule, "b")

    def test_wrong_kinds_are_refused_where_they_are_written(self):
        steps = every(8)
        for make in (lambda: window(128) | steps, lambda: window(1.5), lambda: window(True),
                     lambda: columns(keep=0.2, on=window(3)), lambda: attend(steps),
                     lambda: attend(window(3)) + window(3), lambda: recompute(window(3)),
                     lambda: recompute(block, on=3), lambda: salient(3, 0.5), lambda: heddle.salient_ffn(3, 0.5),
                     lambda: heddle.least_similar(3, 0.5, block), lambda: heddle.least_similar(block, 0.5, 3),
                     lambda: decoded & dense, lambda: decoded - dense, lambda: committed(),
                     lambda: commit("above"),
                     lambda: commit("quota", 3), lambda: bool(steps), lambda: steps and window(3),
                     lambda: attend(window(3), layers="3"), lambda: heddle.compile(3),
                     lambda: heddle.compile(attend(), parameters=[1]), lambda: heddle.compile(attend(), cache_dir=3),
                     lambda: schedule("a", heddle.Source("heddle.schedule @x {}"))):
            with self.assertRaises(TypeError):
                make()
        for make in (lambda: attend(columns(keep=0.2)), lambda: attend(refresh=steps),
                     lambda: columns(keep=0.2, rounding="up"), lambda: reuse("k"),
                     lambda: schedule("a b", attend()), lambda: commit("most")):
            with self.assertRaises(ValueError):
                make()

    ODD = [None, True, 0, -1, 10**400, -2**63, 1.5, -0.0, math.nan, math.inf, 5e-324, "", "0.2", "1/0", "20%", "\u00e9", "\ud800", "\0",
           "a\nb", "{}", "{0}", "%x", "}", "9" * 5000, "\u0661", b"0.2", [], [[1]], (1,), (1, 2, 3), (None, None), {}, {"a": 1}, set(),
           1j, Fraction(-1, 3), Fraction(10**400, 3), object(), object, int, len, lambda: 1, lambda *a: a[0], lambda a: None, block,
           dense, heddle.never, every(2), window(3), attend(), range(3), ..., iter([])]

    def test_whatever_is_given_is_refused_in_the_packages_words(self):
        """An argument of any kind is taken or refused by a `raise` of the package, a TypeError or ValueError."""
        good = {"rows": block, "positions": block, "among": block, "on": every(2), "keep": 0.2, "below": 0.9, "group": 32, "size": 32,
                "window": 0.3, "share": 0.2, "word": "window", "name": "a", "kind": "quota", "text": "heddle.schedule @a { attend dense }",
                "statements": ()}
        module = sys.modules["heddle.schedule"]
        calls = [each for name, each in vars(module).items() if name[0] != "_" and inspect.isfunction(each)
                 and each.__module__ == module.__name__] + [heddle.Schedule, heddle.Source, heddle.parse, heddle.preset]
        calls += [getattr(made, name) for made in (block, every(2), window(3)) for name in dir(made)
                  if name[0] != "_" and callable(getattr(made, name))]
        self.assertGreater(len(calls), 40)
        refused = 0
        for call, odd in itertools.product(calls, self.ODD):
            parameters = inspect.signature(call).parameters.values()
            needed = {p.name: good.get(p.name, 3) for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
            named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
            for arguments in ([{**needed, name: odd} for name in named] + [dict.fromkeys(needed, odd)]):
                try:
                    str(call(**arguments))
                    continue
                except (TypeError, ValueError, KeyError) as error:
                    last, said = traceback.extract_tb(error.__traceback__)[-1], str(error)
                    # What a function of scores does with its values is its own.
                    own = "heddle" in last.filename and last.line.startswith("raise ") or last.filename == __file__ or \
                        "result = function(" in last.line
                    self.assertTrue(own, f"{call} of {arguments}: {last}: {said}")
                    said.encode()
                    refused += 1
        self.assertGreater(refused, 2000)

    def test_texts_of_any_kind_are_read_or_refused_at_their_place(self):
        texts = [path.read_text() for path in sorted((ROOT / "examples").glob("*.mlir"))]
        odd = ["{", "}", "(", ")", "%", "@", "=", ",", "\n", "//", "\r", "\x85", "\u00e9", "\u00b2", "{0}", "{x!r}", "%a", " in layers(",
               " on %\u00e9", "scores(", "heddle.schedule @b {", "module {", "select columns(", "cadence ", "\0", '"', "union ", "9" * 99]
        draw = random.Random(11)
        read = refused = 0
        with unittest.mock.patch.dict(os.environ, {"HEDDLEC": "/nonexistent"}):
            for _ in range(1500):
                text = draw.choice(texts)
                for _ in range(draw.randint(1, 4)):
                    begin = draw.randrange(len(text) + 1)
                    end, lines = min(len(text), begin + draw.randrange(30)), text.split("\n")
                    draw.shuffle(lines)
                    text = draw.choice((text[:begin] + text[end:], text[:begin] + draw.choice(odd) + text[begin:],
                                        text[:begin] + 2 * text[begin:end] + text[end:], "\n".join(lines)))
                for make in (heddle.parse, heddle.Source):
                    try:
                        str(make(text))
                        read += 1
                    except heddle.ScheduleError as error:
                        str(error).encode()
                        self.assertTrue(error.line or make is heddle.Source, f"{error} of {text}")
                        refused += 1
        self.assertGreater(min(read, refused), 300)

    def test_warnings_are_said(self):
        text = "heddle.schedule @a {\n  %x = window(4)\n  attend dense\n}\n"
        for make in (heddle.compile, heddle.compile, heddle.explain, heddle.canonical):  # also of a cached bundle
            with self.assertWarnsRegex(heddle.ScheduleWarning, "schedule:2:8: warning: has no effect") as caught:
                make(text)
            self.assertEqual(caught.filename, __file__)
        with warnings.catch_warnings(record=True) as caught:  # from deep in the package, too
            warnings.simplefilter("always")
            heddle.preset("dense")._repr_html_()
            heddle.Source(text)._repr_html_()
        self.assertEqual([each.filename for each in caught], [__file__])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            heddle.compile(attend())

    def test_last_alone_is_of_factor(self):
        self.assertIn("commit factor(2/1, last_alone)", str(schedule("a", commit("factor", 2, last_alone=True))))
        for wrong in (("quota",), ("best", 3), ("above", 0.9)):
            with self.assertRaisesRegex(TypeError, "takes no last_alone"):
                commit(*wrong, last_alone=True)

    def test_revoking(self):
        self.assertIn("commit above(0.6) revoke(below = 0.9) stop(eos)",
                      str(schedule("a", commit("above", 0.6, revoke=0.9, stop="eos"))))
        with self.assertRaisesRegex(ValueError, "revoke: 'much' is no ratio"):
            commit("above", 0.6, revoke="much")

    def test_revoking_by_shadows(self):
        self.assertIn("commit best(4) revoke(below = 0.9, by = shadow, fewer_than = step_before)",
                      str(schedule("a", commit("best", 4, revoke=0.9, revoke_by="shadow", fewer_than="step_before"))))
        self.assertIn("commit even_above(0.5, strictly) revoke(below = 0.1, by = row)",
                      str(schedule("a", commit("even_above", 0.5, strictly=True, revoke=0.1, revoke_by="row"))))
        self.assertIn("commit factor(2/1) at_most(share = 0.5, most = 8)", str(schedule("a", commit("factor", 2, at_most=0.5, most=8))))
        self.assertIn("commit above(0.5) near(10) at_most(share = 0.5)",
                      str(schedule("a", commit("above", 0.5, near=10, at_most=0.5))))
        for wrong, why in (({"near": 0.5}, "near: expected a whole number"), ({"revoke_by": "shadow"}, "give revoke, too"), ({"fewer_than": "step"}, "give revoke, too"),
                           ({"least": 5}, "give at_most, too"), ({"strictly": True}, "'quota' takes no strictly")):
            with self.assertRaisesRegex(TypeError, why):
                commit(**wrong)
        with self.assertRaisesRegex(ValueError, "revoke_by: 'mask' is none of row, shadow"):
            commit("above", 0.6, revoke=0.9, revoke_by="mask")

    def test_others(self):
        text = str(schedule("a", attend(heddle.pairs("others") | window(8))))
        self.assertIn("%others = others\n", text)
        self.assertEqual(heddle.parse(text), schedule("a", attend(heddle.pairs("others") | window(8))))

    def test_verifying(self):
        self.assertIn("commit best(2) passes(at_least = 3) verify(drafts = 4) stop(eos)",
                      str(schedule("a", commit("best", 2, passes=3, verify=4, stop="eos"))))
        with self.assertRaisesRegex(TypeError, "verify"):
            commit(verify="all")

    def test_renoising(self):
        self.assertIn("commit entropy(0.1) edit(above = 0.9) renoise passes(at_least = 2)",
                      str(schedule("a", commit("entropy", 0.1, edit=0.9, renoise=True, passes=2))))
        self.assertNotIn("renoise", str(schedule("a", commit("entropy", 0.1))))
        with self.assertRaisesRegex(TypeError, "renoise: expected True or False, found 1"):
            commit("above", 0.9, renoise=1)
        written = "heddle.schedule @a {\n  commit above(0.9)\n      renoise\n  attend dense\n}\n"
        self.assertEqual(len(heddle.parse(written).statements), 2)
        self.assertIn("commit above(0.9) renoise", heddle.canonical(written))

    def test_editing(self):
        self.assertIn("commit above(0.7) edit(above = 0.5) stop(eos)",
                      str(schedule("a", commit("above", 0.7, edit=0.5, stop="eos"))))
        self.assertIn("commit quota revoke(below = 0.1) edit(above = 0.9, further = 16) passes(at_least = 2)",
                      str(schedule("a", commit(revoke=0.1, edit=0.9, further=16, passes=2))))
        with self.assertRaisesRegex(ValueError, "edit: 'much' is no ratio"):
            commit("above", 0.6, edit="much")
        with self.assertRaisesRegex(TypeError, "further: expected a whole number, found 0.5"):
            commit("above", 0.6, edit=0.5, further=0.5)
        with self.assertRaisesRegex(TypeError, "further passes only edit; give edit, too"):
            commit("above", 0.6, further=16)

    def test_numbers_of_numpy(self):
        import numpy as np
        for made, text in ((columns(keep=np.float64(0.2), group=np.int64(64), on=every(np.int32(3))), "columns(keep = 0.2, group = 64)"),
                           (sinks(np.int64(4)), "sinks(4)"), (sinks(np.float32(0.1)), "sinks(0.1)"),
                           (window(np.int16(8)), "window(8)")):
            self.assertIn(text, str(schedule("a", attend(made))))
        self.assertIn("keep = 1/2", str(heddle.preset("pulsecol", keep="1/2", count=np.int64(4))))
        heddle.compile((ROOT / "examples" / "pulsecol.mlir").read_text(), head_dim=np.int64(64),
                       parameters={"count": np.int64(4), "keep": np.float64(0.5)})
        for wrong in (np.float64("nan"), np.bool_(True), np.array([1, 2])):
            with self.assertRaises((TypeError, ValueError)):
                columns(keep=wrong)

    def test_scores(self):
        cap = "(%logit) { %c = arith.constant 30.0 : f32 %m = arith.minimumf %logit, %c : f32 " \
              "yield %m }"
        self.assertIn("arith.minimumf", heddle.canonical(attend(window(64), scores=cap)))

    def test_explain(self):
        lengths = {"steps": 32, "length": 512}
        for form, kind in (("text", str), ("json", dict), ("html", str)):
            said = heddle.explain(heddle.preset("pulsecol"), format=form, **lengths)
            self.assertIsInstance(said, kind)
            self.assertIn("pulsecol", str(said))
        with self.assertRaises(ValueError):
            heddle.explain(heddle.preset("pulsecol"), format="pdf")


class ImportTest(unittest.TestCase):
    def test_import_star_leaves_common_names_alone(self):
        self.assertFalse({"compile", "random"} & set(heddle.__all__))
        self.assertIsInstance(heddle.random(0.3, 4, 1), heddle.Cadence)

    def test_import_loads_neither_runtime_nor_numpy_nor_torch(self):
        done = subprocess.run(
            [sys.executable, "-c", "import sys, heddle; print([m for m in sys.modules if "
             "m.split('.')[0] in ('numpy', 'torch') or m == 'heddle._heddle'])"],
            check=True, capture_output=True, text=True, cwd=os.sep)
        self.assertEqual(done.stdout.strip(), "[]")

    @unittest.skipUnless(shutil.which("readelf"), "needs readelf (binutils)")
    def test_the_extension_links_neither_llvm_nor_cuda(self):
        from heddle import _heddle
        done = subprocess.run(["readelf", "-d", _heddle.__file__], check=True,
                              capture_output=True, text=True)
        self.assertIn("libdnnl", done.stdout)
        self.assertNotRegex(done.stdout, "(?i)llvm|mlir|cuda|torch")


if __name__ == "__main__":
    unittest.main()
