# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python3 -m heddle_reference generate --model DIR --prompt-ids 5,9,17 ...

Writes the same JSON lines as heddle-run --steps-json: a record a step, then
{"done": true, ...} with the whole sequences.
"""

import argparse
import json
import sys

from . import sampler, timesteps, weights
from .model import Dream, make
from .tokenizer import Tokenizer


def main():
    parser = argparse.ArgumentParser(prog="heddle_reference")
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("generate", help="denoise prompts step by step")
    p.add_argument("--model", required=True, help="Hugging Face folder")
    p.add_argument("--prompt-ids", action="append", default=[],
                   help="token ids with commas between; repeat for a batch")
    p.add_argument("--prompt", action="append", default=[], help="text; may be repeated")
    families = (sampler.Options, timesteps.Options)
    for name, kind in {n: k for o in families for n, k in o.__annotations__.items()}.items():
        flag = "--" + name.replace("_", "-")
        if kind is bool:
            p.add_argument(flag, action="store_true", default=None)
        elif name == "eot":
            p.add_argument("--eot-id", dest="eot", type=int)
        else:
            p.add_argument(flag, type=kind)
    p.add_argument("--schedule", default="dense",
                   help="e.g. columns:keep=1/5,group=32,window=3/10,count=16+sinks:size=4")
    p.add_argument("--steps-json", default="-", help="file, or - for standard output")
    args = parser.parse_args()

    model = make(*weights.load(args.model))
    mine = timesteps if isinstance(model, Dream) else sampler
    given = {name: getattr(args, name) for o in families for name in o.__annotations__
             if getattr(args, name) is not None}
    for name in given:
        if name not in mine.Options.__annotations__:
            parser.error(f"--{name.replace('_', '-')} is no option of this model's sampler")
    prompts = [[int(i) for i in text.split(",")] for text in args.prompt_ids]
    if args.prompt:
        prompts += map(Tokenizer(args.model).encode, args.prompt)
    if not prompts or not all(prompts):
        parser.error("give at least one non-empty --prompt-ids or --prompt")
    out = sys.stdout if args.steps_json == "-" else open(args.steps_json, "w")
    write = lambda record: print(json.dumps(record, separators=(",", ":")), file=out, flush=True)
    try:
        done = mine.generate(model, prompts, mine.Options(**given), args.schedule, write)
    except ValueError as error:
        sys.exit(f"heddle_reference: {error}")
    write({"done": True, "complete": True, "sequences": done})


if __name__ == "__main__":
    main()
