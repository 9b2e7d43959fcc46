# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A byte-level BPE tokenizer read from tokenizer.json, or from vocab.json and
merges.txt of a Qwen2 tokenizer, for scripts that must run without the
`tokenizers` package. Covers what the models of this repository use: NFC or
nothing, a split by a regular expression, bytes, merges by rank, special
tokens."""

import json
import os
import re
import unicodedata

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def read(folder):
    """(vocab, pairs, pattern, special tokens, whether text becomes NFC)."""
    def load(name):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            return json.load(f)

    if not os.path.exists(os.path.join(folder, "tokenizer.json")):
        with open(os.path.join(folder, "merges.txt"), encoding="utf-8") as f:
            lines = f.read().split("\n")
        added = load("tokenizer_config.json")["added_tokens_decoder"]
        return (load("vocab.json"), [tuple(line.split()) for line in lines[1:] if line], QWEN2,
                {t["content"]: int(i) for i, t in added.items()}, True)
    data = load("tokenizer.json")
    pairs = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m)
             for m in data["model"]["merges"]]
    return (data["model"]["vocab"], pairs,
            data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"],
            {t["content"]: t["id"] for t in data["added_tokens"]}, False)


def byte_letters():
    """GPT-2's one printable character for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + extra)
            extra += 1
    return letters


class Tokenizer:
    def __init__(self, folder):
        self.vocab, pairs, pattern, self.special, self.nfc = read(folder)
        self.rank = {pair: i for i, pair in enumerate(pairs)}
        # Python's re has no \p{..}; these are the same sets for \d and letters.
        pattern = pattern.replace(r"[^\r\n\p{L}\p{N}]", r"(?:[^\w\r\n]|_)")
        pattern = pattern.replace(r"[^\s\p{L}\p{N}]", r"(?:[^\w\s]|_)")
        pattern = pattern.replace(r"\p{L}", r"[^\W\d_]").replace(r"\p{N}", r"\d")
        self.pattern = re.compile(pattern)
        self.split = re.compile("(" + "|".join(map(re.escape, self.special)) + ")")
        self.letters = byte_letters()
        self.bytes = {c: b for b, c in self.letters.items()}
        self.names = {i: t for t, i in [*self.vocab.items(), *self.special.items()]}

    def encode(self, text):
        ids = []
        for part in self.split.split(text):
            if part in self.special:
                ids.append(self.special[part])
                continue
            if self.nfc:
                part = unicodedata.normalize("NFC", part)
            for word in self.pattern.findall(part):
                ids += [self.vocab[t] for t in self.merge(word)]
        return ids

    def merge(self, word):
        parts = [self.letters[b] for b in word.encode()]
        while len(parts) > 1:
            ranks = [self.rank.get(pair, len(self.rank)) for pair in zip(parts, parts[1:])]
            best = min(ranks)
            if best == len(self.rank):
                break
            i = ranks.index(best)
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        return parts

    def decode(self, ids, skip_special=True):
        out = b""
        for i in ids:
            name = self.names[i]
            if name in self.special:
                out += b"" if skip_special else name.encode()
            else:
                out += bytes(self.bytes[c] for c in name)
        return out.decode("utf-8", "replace")
