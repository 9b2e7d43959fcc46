#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains small byte-level BPE tokenizers with Hugging Face `tokenizers` and
records what it makes of awkward strings.

    pip install tokenizers==0.23.3
    python make_goldens.py
    pip install transformers==4.46.2   # which wants an older tokenizers
    python make_goldens.py separate_files

writes goldens/<name>/tokenizer.json (separate_files: vocab.json, merges.txt
and what stands beside them) and goldens/<name>/cases.json:
a list of [text, ids, decoded, decoded without special tokens, decoded from the
ids in reverse order (which breaks characters apart)].
"""

import json
import pathlib
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
BAILING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
           r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")

CORPUS = [
    "The loom lifts the warp threads, and the shuttle carries the weft.",
    "It's what they've said: we'll weave, don't we? I'd say I'm sure.",
    "for (int i = 0; i < 10; ++i) {\n\tsum += values[i];\n}\r\n",
    "In 2024 there were 1234567 threads at 3.14159 each; 100% of 42.",
    "Привет, мир! Это ткацкий станок. 你好，世界。织机在这里。 こんにちは",
    "Größe, naïve café, Ångström, été, e\u0301te\u0301, \u1112\u1161\u11ab",
    "emoji 👍🏽 👩‍👩‍👧 🇩🇪 and symbols → ∑ ≠ © ½ ² Ⅷ",
    "    indented\n        more\n\n\n   trailing   ",
    "user assistant system header the the the thread thread loom loom",
] * 4

CASES = [
    "", " ", "  ", "   ", "\n", "\r\n", "\r\n\r\n", "\t", " \t \n ",
    "a", " a", "a ", "  a  ", "the loom", "The  loom   lifts    the",
    "It's they've WE'LL don'T I'd I'm 's 'S 't'T 'ſ 'K", "''s ''", "'",
    "0", "12", "123", "1234", "1234567890", "3.14159", "1,000,000", "x86_64",
    "½²Ⅷ٣४", "a1b2c3", "  12  34  ", "١٢٣٤٥",
    "你好世界", "你好，世界。", "こんにちは世界 loom", "한국어 텍스트",
    "Привет, мир!", "שלום עולם", "مرحبا بالعالم", "ไทย", "हिन्दी",
    "café cafe\u0301 \u0301 a\u0327\u0301\u0327", "\u1112\u1161\u11ab \ud55c",
    "\u212b \u2126 \ufb01 ﬀ ǅ İ ß ẞ", "\u0344\u0f73\u0f71\u0f72", "\u2000\u2001x",
    "👍", "👍🏽", "👩‍👩‍👧", "🇩🇪🇫🇷", "x👍y", " 👍 ", "\ufe0f\u200d",
    "a\u00a0b\u3000c\u180ed\u200be\u0085f\u2028g\ufeffh", "\u00a0\u00a0 \u3000",
    "\0", "a\0b", "\0\0\0", "\x01\x1f\x7f", "\ufffd", "\uffff", "\U0010ffff",
    "for (int i = 0; i < 10; ++i) {\n\tsum += values[i];\n}\r\n",
    "!!!", "...", " ...\n\n", "?!\r\n\r\nnext", "-----", "a-b_c", "$100 €5",
    "\n\n\n", " \n \n ", "\n \n", "a\n\nb", "a \n b", "a\r\rb", "x   \n   y",
    "trailing   ", "   leading", "tabs\t\tand spaces", "mixed\u00a0 \t space",
    "threadthreadthread", "loom" * 50, "ab" * 300, "a" * 1000, " " * 300,
    "\n" * 100, "é" * 200, "1" * 100, "!" * 100, "👍" * 50,
    "<|startoftext|>", "<|mdm_mask|>", "<|mdm_mask|><|mdm_mask|>",
    "a<|mdm_mask|>b", " <|mdm_mask|> ", "<|mdm_mask|", "<<|mdm_mask|>>",
    "<|MDM_MASK|>", "[CLS][gMASK]", "x[CLS]y", "<role>user</role>",
    "<|start_header_id|>user<|end_header_id|>\n\nthe loom<|eot_id|>",
    "the<|eot_id|>\n\n<|eot_id|>the", "  <|eot_id|>  x", "<|endoftext|>\n",
    "<tool>", "a <tool> b", "<tool_call>", "<tool_ca", "  <tool>  ",
    "left <l> x", "x <l>", "<r>  x", "  <r>  ", "<l><r>", "<r> <l>", "<r>   <r>",
    "word wordy aword word. _word word_ \u0301word word\u0301 (word)",
    "Ångström A\u030angstro\u0308m", "caf\u00e9s cafe\u0301s",
    "a<|reserved_token_1|><|reserved_token_0|>", "Ġthe", "ĊĊ", "Ġ Ġ", "Ã©",
]

LLADA_SPECIALS = (["<|startoftext|>", "<|endoftext|>", "[CLS]", "[gMASK]"] +
                  [f"<|reserved_token_{i}|>" for i in range(4)] +
                  ["<|mdm_mask|>", "<role>", "</role>", "<|arithmetic_start|>",
                   "<|arithmetic_end|>", "<|number_start|>", "<|number_end|>",
                   "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"])


def build(pre_tokenizer, normalizer=None, size=700, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=size, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2():
    tokenizer = build(pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def prefix_space():
    tokenizer = build(pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.add_special_tokens([
        AddedToken("<|mdm_mask|>", lstrip=True, special=True, normalized=False)])
    return tokenizer


def qwen2():
    tokenizer = build(split_then_bytes(QWEN2), normalizers.NFC())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>"])
    tokenizer.add_tokens([
        AddedToken("<tool>", normalized=False),
        AddedToken("<tool_call>", normalized=False),
        AddedToken("Ångström", normalized=True),
        AddedToken("caf\u00e9s", normalized=True)])
    return tokenizer


def llama3():
    tokenizer = build(split_then_bytes(LLAMA3), ignore_merges=True)
    tokenizer.add_special_tokens(["<|start_header_id|>", "<|eot_id|>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|eot_id|> $A", special_tokens=[("<|eot_id|>", 701)])
    return tokenizer


def llada():
    tokenizer = build(split_then_bytes(BAILING))
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t in LLADA_SPECIALS])
    return tokenizer


def flags():
    """Every flag of added tokens, and a Replace in front."""
    tokenizer = build(
        pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        normalizers.Sequence([normalizers.Replace("threads", "strings"),
                              normalizers.Lowercase()]))
    tokenizer.add_tokens([
        AddedToken("<l>", lstrip=True, normalized=False),
        AddedToken("<r>", rstrip=True, normalized=False),
        AddedToken("word", single_word=True, normalized=False),
        AddedToken("loom", normalized=True),
        AddedToken("the"),
        AddedToken("  ", normalized=False)])
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(),
                                           decoders.Fuse()])
    return tokenizer


def split_behaviors():
    """All behaviours of Split, strings and inverted, and steps that see the
    characters of bytes after a ByteLevel."""
    split = pre_tokenizers.Split
    tokenizer = build(pre_tokenizers.Sequence([
        split(".", behavior="merged_with_previous"),
        split(Regex(r"[A-Z]\w*"), behavior="merged_with_next"),
        split(Regex(r"\d{2,3}+"), behavior="isolated"),
        split(Regex(r"\s+"), behavior="contiguous"),
        split(Regex(r"[^|]+"), behavior="removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
        pre_tokenizers.Digits(individual_digits=False),
        split("Ġ", behavior="merged_with_next")]), normalizers.NFKC())
    return tokenizer


def write_cases(folder, encode, decode):
    lines = []
    for text in CASES:
        ids = encode(text)
        lines.append(json.dumps([
            text, ids, decode(ids, False), decode(ids, True),
            decode(ids[::-1], False)], separators=(",", ":")))
    (folder / "cases.json").write_text(
        "[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def separate_files(folder):
    """As Dream's folder: the slow Qwen2Tokenizer of `transformers` judges. The
    added tokens stand in tokenizer_config.json; that older folders, which have
    them in added_tokens.json, mean the same is asserted here and is used by
    SeparateFilesTest.cpp."""
    from transformers import Qwen2Tokenizer
    trained = build(split_then_bytes(QWEN2), normalizers.NFC())
    trained.model.save(str(folder))
    count = trained.get_vocab_size()
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mdm_mask|>",
             "<tool>", "<tool_call>"]
    decoder = {str(count + i): {"content": name, "lstrip": False,
                                "normalized": False, "rstrip": False,
                                "single_word": False,
                                "special": name.startswith("<|")}
               for i, name in enumerate(names)}
    config = {
        "add_bos_token": False, "add_prefix_space": False,
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "errors": "replace", "eos_token": "<|endoftext|>",
        "mask_token": "<|mdm_mask|>", "pad_token": "<|endoftext|>",
        "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None}
    write = lambda name, value: (folder / name).write_text(
        json.dumps(value, indent=1) + "\n", encoding="utf-8")
    load = lambda: Qwen2Tokenizer.from_pretrained(str(folder))
    encode = lambda judge, text: judge.encode(text, add_special_tokens=False)

    write("tokenizer_config.json", config)
    write("added_tokens.json", {n: count + i for i, n in enumerate(names)})
    older = load()
    (folder / "added_tokens.json").unlink()
    write("tokenizer_config.json", {**config, "added_tokens_decoder": decoder})
    judge = load()
    for text in CASES:
        assert encode(older, text) == encode(judge, text), text
    write_cases(folder, lambda text: encode(judge, text),
                lambda ids, skip: judge.decode(
                    ids, skip_special_tokens=skip,
                    clean_up_tokenization_spaces=False))


def main():
    out = pathlib.Path(__file__).parent / "goldens"
    if sys.argv[1:] == ["separate_files"]:
        folder = out / "separate_files"
        folder.mkdir(parents=True, exist_ok=True)
        separate_files(folder)
        return
    for make in (gpt2, prefix_space, qwen2, llama3, llada, flags,
                 split_behaviors):
        folder = out / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = make()
        # Without indentation: half the size.
        (folder / "tokenizer.json").write_text(
            tokenizer.to_str(), encoding="utf-8")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        write_cases(
            folder,
            lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
            lambda ids, skip: tokenizer.decode(ids, skip_special_tokens=skip))


if __name__ == "__main__":
    main()
