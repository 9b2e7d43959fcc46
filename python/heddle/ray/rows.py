# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lines of JSON as prompts, by heddle-run's rules for .jsonl files."""

import json

from ..errors import HeddleError

KEYS = ("prompt", "prompt_ids", "messages")


def is_blank(line: bytes) -> bool:
    """Whether a line is no row: it has nothing but what JSON takes for space."""
    return not line.strip(b" \t\r\n")


def parse(line: bytes):
    """The value of a line. Raises HeddleError."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise HeddleError(f"not a JSON value: {error}") from None


def prompt_ids(model, value, chat=False, system=None) -> list:
    """The token ids of a row: a string, or an object with one of "prompt", "prompt_ids" and
    "messages". chat puts strings into the chat template. Raises HeddleError."""
    given = {"prompt": value} if isinstance(value, str) else value
    present = [key for key in KEYS if key in given] if isinstance(given, dict) else []
    if len(present) != 1:
        raise HeddleError("expected a string, or an object with exactly one of \"prompt\", \"prompt_ids\" "
                          f"and \"messages\", found {json.dumps(value)[:60]}")
    what = given[present[0]]
    if present[0] == "prompt_ids":
        if not isinstance(what, list) or not all(type(i) is int and 0 <= i < model.config["vocabulary"]
                                                 for i in what):
            raise HeddleError("prompt_ids: expected an array of token ids, whole numbers from 0 to "
                              f"{model.config['vocabulary'] - 1}")
        return what
    try:
        if present[0] == "messages":
            return model.encode(model.chat_text(what)).tolist()
        if not isinstance(what, str) or not what:
            raise HeddleError(f"prompt: expected a string that is not empty, found {json.dumps(what)[:60]}")
        what.encode()
        if chat:
            turns = [{"role": "system", "content": system}] if system else []
            what = model.chat_text([*turns, {"role": "user", "content": what}])
        return model.encode(what).tolist()
    except ValueError as error:
        raise HeddleError(f"{present[0]}: {error}") from None


def check(model, ids, gen_length):
    """Raises HeddleError if a prompt cannot be run."""
    if not ids:
        raise HeddleError("the prompt has no tokens")
    if model.config["mask_token"] in ids:
        raise HeddleError("the prompt holds the mask token, which a run takes for a position to fill")
    room = model.config["max_sequence_length"] - len(ids)
    if room < gen_length:
        raise HeddleError(f"the prompt has {len(ids)} tokens; with {gen_length} to generate these are more than "
                          f"the {model.config['max_sequence_length']} that the model has positions for")
