# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the byte-level BPE tokenizer of models/heddle-4m on task text and
writes it as Hugging Face does. Needs the `tokenizers` package (0.20 or later).

  python3 make_tokenizer.py ../models/heddle-4m
"""

import json
import os
import random
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        pre_tokenizers, trainers)

import tasks

# Single digits, words with the one character before them, punctuation.
PATTERN = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
           r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")

# LLaDA's special tokens, in its order; the mask is in front of the roles.
SPECIAL = ["<|startoftext|>", "<|endoftext|>", "[CLS]", "[gMASK]",
           "<|mdm_mask|>", "<role>", "</role>", "<|start_header_id|>",
           "<|end_header_id|>", "<|eot_id|>"]


def corpus():
    """Task texts, with the words of the chat template and of `NAMES`."""
    rng = random.Random(1)
    for _ in range(4000):
        for task in tasks.TASKS:
            example = tasks.GENERATORS[task](rng)
            yield example.prompt
            yield example.answer
    for _ in range(400):
        for word in tasks.NAMES + ["user", "assistant", "system", "\n\n"]:
            yield word


def main(folder):
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=4096, min_frequency=200, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    ordinary = tokenizer.get_vocab_size()
    total = -(-(ordinary + len(SPECIAL)) // 64) * 64
    reserved = [f"<|reserved_token_{i}|>"
                for i in range(total - ordinary - len(SPECIAL))]
    # LLaDA keeps its reserved tokens between [gMASK] and the mask.
    names = SPECIAL[:4] + reserved + SPECIAL[4:]
    tokenizer.add_special_tokens(
        [AddedToken(n, normalized=False, special=True) for n in names])
    os.makedirs(folder, exist_ok=True)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))

    template = (
        "{% set loop_messages = messages %}{% for message in loop_messages %}"
        "{% set content = '<|start_header_id|>' + message['role'] + "
        "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
        "{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
        "{% endif %}{{ content }}{% endfor %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}")
    ids = {n: tokenizer.token_to_id(n) for n in names}
    write(folder, "tokenizer_config.json", {
        "add_bos_token": False,
        "add_eos_token": False,
        "added_tokens_decoder": {
            str(ids[n]): {"content": n, "lstrip": False, "normalized": False,
                          "rstrip": False, "single_word": False,
                          "special": True} for n in names},
        "bos_token": "<|startoftext|>",
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
        "cls_token": "[CLS]",
        "eos_token": "<|endoftext|>",
        "model_max_length": 1024,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast"})
    entry = {"lstrip": False, "normalized": False, "rstrip": False,
             "single_word": False}
    write(folder, "special_tokens_map.json", {
        "bos_token": dict(entry, content="<|startoftext|>"),
        "cls_token": dict(entry, content="[CLS]"),
        "eos_token": dict(entry, content="<|endoftext|>"),
        "pad_token": dict(entry, content="<|endoftext|>")})
    print(f"{ordinary} ordinary tokens, {total} in all; {ids}"
          if "-v" in sys.argv else f"{ordinary} ordinary tokens, {total} in all")


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        json.dump(value, out, indent=2, ensure_ascii=False)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
