# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hostile_names.py FOLDER HEDDLEC HEDDLE_BUNDLE HEDDLE_RUN: what these programs say of
files and folders whose names, and contents, hold line breaks, codes of terminals and
marks that turn the direction of writing: escapes, and no line that we did not begin."""

import os
import subprocess
import sys

folder, heddlec, bundle, run = sys.argv[1:]
NAME = "a\nheddle: good\x1b[2J\u202eb"
place = os.path.join(folder, NAME)
os.makedirs(place, exist_ok=True)


def write(name, text):
    path = os.path.join(place, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


schedule = write("s.mlir", "heddle.schedule @s { attend dense }  // \x1b[2J\u202e\n")
broken = write("broken.mlir", "heddle.schedule @s { attend dence }  // \x1b[2J\u202e\n")
unknown = write("unknown.mlir", 'heddle.schedule @s { attend dense scores("\u202e") }\n')
damaged = write("damaged.hdl", "no bundle")
made = os.path.join(place, "s.hdl")
model = os.path.join(place, "model")
os.makedirs(model, exist_ok=True)
write("model/config.json", '{"model_type": "a\\u202e\\n\\u001b[2J"}')

for command, code in [
        ([heddlec, schedule, "--dtype=f32", "--head-dim=64", "-o", made], 0),
        ([bundle, "verify", made], 0), ([bundle, "dump", made], 0),
        ([run, "--info", "-b", made], 0),
        ([heddlec, broken], 1), ([heddlec, unknown], 1), ([heddlec, place], 1),
        ([heddlec, schedule, "--dump=" + damaged], 1),
        ([heddlec, schedule, "--schedule=" + NAME], 1),
        ([heddlec, schedule, "--set=" + NAME + "=3"], 1),
        ([heddlec, schedule, "--explain", "--model=" + model], 1),
        ([heddlec, schedule, "--explain", "--follow=" + damaged], 1),
        ([heddlec, schedule, "-o", schedule], 2), ([heddlec, schedule, "--tuning=" + damaged], 1),
        ([heddlec, schedule, "--crossovers=" + damaged], 1),
        ([bundle, "verify", damaged], 1), ([bundle, "dump", place], 1),
        ([bundle, "dump", made, "--section=" + NAME], 1), ([bundle, NAME], 2),
        ([bundle, "dump", made, "--section=plan", "-o", made], 1),
        ([run, "-m", place, "-b", made, "x"], 1), ([run, "-m", model, "-b", made, "x"], 1),
        ([run, "-m", model, "-b", damaged, "x"], 1),
        ([run, "-m", model, "-b", made, "--prompt-file", damaged + NAME], 1),
        ([run, "--info", "-m", place], 1), ([run, NAME, NAME, NAME], 2)]:
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    said = done.stdout + done.stderr
    print(command, said, sep="\n")
    assert done.returncode == code, done.returncode
    assert not any(mark in said for mark in ("\x1b", "\u202e", "\nheddle: good")), ascii(said)
    assert "dump" in command[1] or not said or r"\u202e" in said, ascii(said)
