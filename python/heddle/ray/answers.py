# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text of a response while its tokens are committed, in any order."""

HELD = "\ufffd"  # what the first bytes of a character decode to


class Answer:
    """Tokens of a diffusion model come in any order; what can be told as text, and never be
    taken back, is that of the leading positions without a gap. The text ends, as heddle-run's
    does, before the first token of `ends`; before the first of the strings `stop`; or after
    `limit` tokens.

    decode: token ids to text. start: the position of the response's first token. mask: the
    token that is none."""

    def __init__(self, decode, start, limit, ends, mask, stop=()):
        self._decode, self._start, self._limit = decode, start, limit
        self._ends, self._mask, self._stop = frozenset(ends), mask, tuple(stop)
        self._waiting = {}  # index in the response: token
        self.ids = []  #: the leading tokens
        self.text = ""  #: told so far
        self.finish = None  #: "stop" or "length" when nothing will follow

    def commit(self, positions, tokens, settled=None) -> str:
        """Takes a step's commits; returns the text that follows from them. settled: how many of
        the response's first tokens will stay what they are; all, if None."""
        for position, token in zip(positions, tokens):
            at = int(position) - self._start
            if token != self._mask:
                self._waiting[at] = int(token)
            else:
                self._waiting.pop(at, None)
        before, ended = len(self.ids), None
        while ended is None:
            if len(self.ids) == self._limit:
                ended = "length"
            elif settled is not None and len(self.ids) >= settled:
                break
            elif (token := self._waiting.pop(len(self.ids), None)) is None:
                break
            elif token in self._ends:
                ended = "stop"
            else:
                self.ids.append(token)
        if self.finish or (ended is None and len(self.ids) == before):
            return ""
        text = self._decode(self.ids) if self.ids else ""
        stops = [at for at in (text.find(stop) for stop in self._stop) if at >= 0]
        if stops:
            text, ended = text[:min(stops)], "stop"
        elif ended is None:
            text = self._sure(text)
        self.finish = ended
        new, self.text = text[len(self.text):], max(text, self.text, key=len)
        return new

    def _sure(self, text):
        """Without an end that may become something else: a part of a character or of a stop."""
        text = text.rstrip(HELD)
        held = max((n for stop in self._stop for n in range(1, len(stop))
                    if text.endswith(stop[:n])), default=0)
        return text[:len(text) - held]
