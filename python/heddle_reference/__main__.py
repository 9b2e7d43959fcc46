# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python3 -m heddle_reference generate --model DIR --prompt-ids 5,9,17 ...

Writes the same JSON lines as heddle-run --steps-json: a record a step, then
{"done": true, ...} with the whole sequences.
"""

import argparse
import json
import sys

from . import sampler, weights
from .model import Model
from .tokenizer import Tokenizer


def main():
    parser = argparse.ArgumentParser(prog="heddle_reference")
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("generate", help="denoise prompts step by step")
    p.add_argument("--model", required=True, help="Hugging Face folder")
    p.add_argument("--prompt-ids", action="append", default=[],
                   help="token ids with commas between; repeat for a batch")
    p.add_argument("--prompt", action="append", default=[], help="text; may be repeated")
    for name, kind in sampler.Options.__annotations__.items():
        flag = "--" + name.replace("_", "-")
        default = getattr(sampler.Options, name)
        if kind is bool:
            p.add_argument(flag, action="store_true")
        elif name == "eot":
            p.add_argument("--eot-id", dest="eot", type=int, default=default)
        else:
            p.add_argument(flag, type=kind, default=default)
    p.add_argument("--schedule", default="dense",
                   help="e.g. columns:keep=1/5,group=32,window=3/10,count=16+sinks:size=4")
    p.add_argument("--steps-json", default="-", help="file, or - for standard output")
    args = parser.parse_args()

    model = Model(*weights.load(args.model))
    prompts = [[int(i) for i in text.split(",")] for text in args.prompt_ids]
    if args.prompt:
        prompts += map(Tokenizer(args.model).encode, args.prompt)
    if not prompts or not all(prompts):
        parser.error("give at least one non-empty --prompt-ids or --prompt")
    out = sys.stdout if args.steps_json == "-" else open(args.steps_json, "w")
    write = lambda record: print(json.dumps(record, separators=(",", ":")), file=out, flush=True)
    options = sampler.Options(**{name: getattr(args, name)
                                 for name in sampler.Options.__annotations__})
    try:
        done = sampler.generate(model, prompts, options, args.schedule, write)
    except ValueError as error:
        sys.exit(f"heddle_reference: {error}")
    write({"done": True, "complete": True, "sequences": done})


if __name__ == "__main__":
    main()
