# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a byte-level BPE tokenizer on the text of a recipe's tasks and writes
it as LLaDA's or Dream's folder has it. Needs the `tokenizers` package (0.20 or
later).

  python3 make_tokenizer.py ../models/heddle-4m
  python3 make_tokenizer.py ../models/heddle-dream-5m
"""

import argparse
import itertools
import json
import os

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import families
import recipes

# LLaDA's special tokens, in its order; the mask is in front of the roles.
SPECIAL = ["<|startoftext|>", "<|endoftext|>", "[CLS]", "[gMASK]",
           "<|mdm_mask|>", "<role>", "</role>", "<|start_header_id|>",
           "<|end_header_id|>", "<|eot_id|>"]


def train(recipe, pattern, words, normalizer=None):
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = families.split_then_bytes(pattern)
    tokenizer.decoder = decoders.ByteLevel()
    texts = itertools.chain(recipe.tasks.corpus(), words * 400)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=4096, min_frequency=200, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def make_llada(folder, recipe):
    """tokenizer.json, with LLaDA's special tokens and template."""
    tokenizer = train(recipe, families.LLADA, ["user", "assistant", "system", "\n\n"])
    ordinary = tokenizer.get_vocab_size()
    total = -(-(ordinary + len(SPECIAL)) // 64) * 64
    reserved = [f"<|reserved_token_{i}|>"
                for i in range(total - ordinary - len(SPECIAL))]
    # LLaDA keeps its reserved tokens between [gMASK] and the mask.
    names = SPECIAL[:4] + reserved + SPECIAL[4:]
    tokenizer.add_special_tokens(
        [AddedToken(n, normalized=False, special=True) for n in names])
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
        "model_max_length": recipe.positions,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast"})
    entry = {"lstrip": False, "normalized": False, "rstrip": False,
             "single_word": False}
    write(folder, "special_tokens_map.json", {
        "bos_token": dict(entry, content="<|startoftext|>"),
        "cls_token": dict(entry, content="[CLS]"),
        "eos_token": dict(entry, content="<|endoftext|>"),
        "pad_token": dict(entry, content="<|endoftext|>")})
    print(f"{ordinary} ordinary tokens, {total} in all")


def make_dream(folder, recipe):
    """vocab.json, merges.txt and what stands beside them in Dream's folder."""
    tokenizer = train(recipe, families.QWEN2,
                      ["user", "assistant", "system", "\n", "You are a helpful assistant."],
                      normalizers.NFC())
    tokenizer.model.save(folder)
    ordinary = tokenizer.get_vocab_size()
    names = families.Dream.special
    template = (
        "{% if messages[0]['role'] == 'system' %}{{ '<|im_start|>system\n' + "
        "messages[0]['content'] + '<|im_end|>\n' }}{% else %}"
        "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}"
        "{% endif %}{% for message in messages %}"
        "{% if not (loop.first and message['role'] == 'system') %}"
        "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>\n' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
    write(folder, "added_tokens.json", {n: ordinary + i for i, n in enumerate(names)})
    write(folder, "tokenizer_config.json", {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(ordinary + i): {"content": n, "lstrip": False, "normalized": False,
                                "rstrip": False, "single_word": False, "special": True}
            for i, n in enumerate(names)},
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": "<|beginoftext|>",
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|endoftext|>",
        "errors": "replace",
        "mask_token": "<|mask|>",
        "model_max_length": recipe.positions,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None})
    print(f"{ordinary} ordinary tokens, {ordinary + len(names)} in all")


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        json.dump(value, out, indent=2, ensure_ascii=False)
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--recipe", choices=recipes.RECIPES, help="default: the folder's name")
    args = parser.parse_args()
    recipe = recipes.find(args.recipe, args.folder)
    os.makedirs(args.folder, exist_ok=True)
    (make_dream if recipe.family is families.Dream else make_llada)(args.folder, recipe)


if __name__ == "__main__":
    main()
