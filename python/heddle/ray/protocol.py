# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""OpenAI's chat schema: what a request may say, what answers and errors look like."""

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Optional


class Refused(Exception):
    """A request that is answered with an error of OpenAI's schema."""

    def __init__(self, message, param=None, code=None, status=400, kind="invalid_request_error"):
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


@dataclass(frozen=True)
class Request:
    messages: list
    max_tokens: Optional[int] = None
    temperature: Optional[float] = None
    top_p: Optional[float] = None
    seed: Optional[int] = None
    stop: list = field(default_factory=list)
    stream: bool = False
    usage: bool = False  #: stream_options.include_usage


# What asks for nothing that an answer would have to show.
_IGNORED = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}
# Values that ask for nothing either, of what is not supported.
_NEUTRAL = {"n": (1,), "logprobs": (False,), "top_logprobs": (), "frequency_penalty": (0,),
            "presence_penalty": (0,), "logit_bias": ({},), "tools": ([],), "tool_choice": ("none", "auto"),
            "functions": ([],), "function_call": ("none", "auto"), "parallel_tool_calls": (True, False),
            "response_format": ({"type": "text"},), "modalities": (["text"],), "audio": (),
            "prediction": (), "reasoning_effort": (), "verbosity": (), "web_search_options": ()}


def _number(given, name, kinds, low, high):
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = "a number" if float in kinds else "a whole number"
        raise Refused(f"{name}: expected {what} from {low} to {high}, found {json.dumps(value)[:60]}", name)
    return value


def _flag(given, name):
    value = given.get(name)
    if value not in (None, True, False) or isinstance(value, (int, float)) and not isinstance(value, bool):
        raise Refused(f"{name}: expected true or false, found {json.dumps(value)[:60]}", name)
    return bool(value)


def _content(content, where):
    """The text of a message's content, a string or text parts."""
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                raise Refused(f"{where}.content: only parts of the type \"text\" are supported, found "
                              f"{json.dumps(part)[:60]}", where)
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise Refused(f"{where}.content: expected a string, found {json.dumps(content)[:60]}", where)
    try:
        content.encode()
    except UnicodeEncodeError:
        raise Refused(f"{where}.content: not Unicode: half of a surrogate pair", where) from None
    return content


def _messages(given):
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused("messages: expected an array of one message or more", "messages")
    made = []
    for i, message in enumerate(messages):
        where = f"messages[{i}]"
        if not isinstance(message, dict):
            raise Refused(f"{where}: expected an object, found {json.dumps(message)[:60]}", where)
        role = {"developer": "system"}.get(message.get("role"), message.get("role")) \
            if isinstance(message.get("role"), str) else message.get("role")
        if role not in ("system", "user", "assistant"):
            raise Refused(f"{where}.role: expected system, developer, user or assistant, found "
                          f"{json.dumps(role)[:60]}", where)
        made.append({"role": role, "content": _content(message.get("content"), where)})
    return made


def _stop(given):
    stop = given.get("stop")
    stop = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or len(stop) > 4 or not all(isinstance(s, str) and s for s in stop):
        raise Refused("stop: expected a string, or an array of at most 4, none of them empty", "stop")
    return stop


def parse(body: bytes, model: str) -> Request:
    """The request in a body, for a server of one model. Raises Refused."""
    try:
        given = json.loads(body)
    except ValueError as error:
        raise Refused(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Refused("the body is not JSON that anybody would send: too deep") from None
    if not isinstance(given, dict):
        raise Refused(f"the body: expected a JSON object, found {json.dumps(given)[:60]}")
    known = set(Request.__dataclass_fields__) - {"usage"} | {"model", "max_completion_tokens", "stream_options"}
    for name, value in given.items():
        if name in known or name in _IGNORED or value is None:
            continue
        if name not in _NEUTRAL:
            raise Refused(f"unrecognized request argument supplied: {json.dumps(name)}", json.dumps(name)[1:-1])
        if not any(type(value) in (type(one), float) and value == one for one in _NEUTRAL[name]):
            raise Refused(f"{name}: {json.dumps(value)[:60]} is not supported by this server", name,
                          "unsupported_parameter")
    name = given.get("model")
    if not isinstance(name, str):
        raise Refused("model: expected the name of a model", "model")
    if name != model:
        raise Refused(f"the model {json.dumps(name)} does not exist; this server has {json.dumps(model)}", "model",
                      "model_not_found", 404)
    options = given.get("stream_options")
    stream = _flag(given, "stream")
    if options is not None and (not isinstance(options, dict) or not stream):
        raise Refused("stream_options: expected an object, and only when stream is true", "stream_options")
    tokens = _number(given, "max_completion_tokens", (int,), 1, 1 << 30)
    older = _number(given, "max_tokens", (int,), 1, 1 << 30)
    return Request(messages=_messages(given), max_tokens=older if tokens is None else tokens,
                   temperature=_number(given, "temperature", (int, float), 0, 2),
                   top_p=_number(given, "top_p", (int, float), 0, 1),
                   seed=_number(given, "seed", (int,), -2**63, 2**63 - 1), stop=_stop(given), stream=stream,
                   usage=_flag(options or {}, "include_usage"))


class Reply:
    """The bodies of one answer."""

    def __init__(self, model, fingerprint, request, prompt_tokens):
        self._request, self._prompt_tokens = request, prompt_tokens
        self._same = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model,
                      "system_fingerprint": fingerprint}

    def _usage(self, tokens):
        return {"prompt_tokens": self._prompt_tokens, "completion_tokens": tokens,
                "total_tokens": self._prompt_tokens + tokens}

    def whole(self, text, finish, tokens) -> dict:
        return {**self._same, "object": "chat.completion", "usage": self._usage(tokens),
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": None,
                             "finish_reason": finish}]}

    def _chunk(self, choices, **more):
        if self._request.usage:
            more = {"usage": None, **more}
        return {**self._same, "object": "chat.completion.chunk", "choices": choices, **more}

    def chunk(self, delta, finish=None) -> dict:
        return self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])

    def usage_chunk(self, tokens) -> dict:
        return self._chunk([], usage=self._usage(tokens))


def event(body: dict) -> str:
    """A body as a server-sent event."""
    return f"data: {json.dumps(body)}\n\n"


DONE = "data: [DONE]\n\n"
