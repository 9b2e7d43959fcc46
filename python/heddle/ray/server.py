# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A deployment of Ray Serve that speaks OpenAI's chat schema."""

import asyncio
import hashlib
import json
import os
import secrets

import fastapi
from fastapi.responses import JSONResponse, StreamingResponse
from ray import serve
from starlette.exceptions import HTTPException

from ..compiler import dtype_name
from ..errors import HeddleError
from .engine import Engine
from .protocol import DONE, Refused, Reply, event, parse
from .schedules import chosen, loaded, model_digest, positive

api = fastapi.FastAPI(title="Heddle", docs_url=None, redoc_url=None, openapi_url=None)


@api.exception_handler(Refused)
async def refused(request: fastapi.Request, error: Refused):
    return JSONResponse(error.body, error.status)


@api.exception_handler(HTTPException)
async def no_route(request: fastapi.Request, error: HTTPException):
    said = Refused(f"{request.method} {request.url.path}: {error.detail}; there are POST /v1/chat/completions, "
                   "GET /v1/models and GET /health", status=error.status_code)
    return JSONResponse(said.body, said.status)


def _failed(error):
    """An exception of a run as an answer."""
    return Refused(str(error), status=500, kind="server_error")


class Told:
    """What an engine's thread tells of one request, for the event loop to await."""

    def __init__(self):
        self._loop, self._queue = asyncio.get_running_loop(), asyncio.Queue()

    def __call__(self, what):
        self._loop.call_soon_threadsafe(self._queue.put_nowait, what)

    async def parts(self):
        """(text, finish) until finish is said."""
        finish = None
        while finish is None:
            what = await self._queue.get()
            if isinstance(what, Exception):
                raise what
            text, finish = what
            yield text, finish


@serve.deployment
@serve.ingress(api)
class Chat:
    """One model under one schedule. Made by app()."""

    def __init__(self, config: dict):
        self.config, self.name = config, config["served"]
        self.model, bundle = loaded(config)
        self.engine = Engine(self.model, bundle, config["batch"])
        which = json.dumps([config["digest"], config["schedule"], self.model.dtype, self.model.machine])
        self.fingerprint = "fp_" + hashlib.sha256(which.encode()).hexdigest()[:16]

    def _lengths(self, tokens, room):
        """The run of an answer of up to so many tokens. Where a model is sampled in blocks, whole
        blocks are generated, if there is room, and cut."""
        each, block = self.config["tokens_per_step"], self.config["block_length"]
        if self.model.config["sampler"] == "timesteps":
            return {"gen_length": tokens, "steps": -(-tokens // each)}
        whole = -(-tokens // block) * block
        if whole > room:
            return {"gen_length": tokens, "steps": tokens}
        return {"gen_length": whole, "steps": whole // each, "block_length": block}

    def _submit(self, request, told):
        """(job, tokens of the prompt). Raises Refused."""
        try:
            ids = self.model.encode(self.model.chat_text(request.messages)).tolist()
        except (HeddleError, ValueError) as error:
            raise Refused(str(error), "messages") from None
        config = self.model.config
        if config["mask_token"] in ids:
            raise Refused("messages: hold the mask token, which a run takes for a position to fill", "messages")
        room = config["max_sequence_length"] - len(ids)
        tokens = request.max_tokens or min(self.config["max_tokens"], room)
        if tokens < 1 or tokens > room:
            raise Refused(f"This model's maximum context length is {config['max_sequence_length']} tokens; the "
                          f"messages have {len(ids)}, and {max(tokens, 1)} are to be generated", "messages",
                          "context_length_exceeded")
        options = self._lengths(tokens, room)
        if request.top_p not in (None, 1):
            if config["sampler"] != "timesteps":
                raise Refused("top_p: models that are sampled in blocks have none; give 1, or nothing",
                              "top_p", "unsupported_parameter")
            options["top_p"] = float(request.top_p)
        if request.temperature is not None:
            options["temperature"] = float(request.temperature)
        if request.seed is not None:
            options["seed"] = request.seed % 2**64
        elif request.temperature:
            options["seed"] = secrets.randbits(63)
        return self.engine.submit(ids, options, tokens, request.stop, told), len(ids)

    @api.post("/v1/chat/completions")
    async def completions(self, http: fastapi.Request):
        request = parse(await http.body(), self.name)
        told = Told()
        job, prompt_tokens = self._submit(request, told)
        reply = Reply(self.name, self.fingerprint, request, prompt_tokens)
        if request.stream:
            return StreamingResponse(self._events(request, reply, job, told), media_type="text/event-stream",
                                     headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        try:
            parts = [part async for part in told.parts()]
        except Exception as error:
            raise _failed(error) from None
        finally:  # of a client that has gone, too
            job.cancel()
        return JSONResponse(reply.whole("".join(text for text, _ in parts), parts[-1][1], len(job.answer.ids)))

    async def _events(self, request, reply, job, told):
        try:
            yield event(reply.chunk({"role": "assistant", "content": ""}))
            async for text, finish in told.parts():
                if text:
                    yield event(reply.chunk({"content": text}))
                if finish:
                    yield event(reply.chunk({}, finish))
            if request.usage:
                yield event(reply.usage_chunk(len(job.answer.ids)))
            yield DONE
        except Exception as error:
            yield event(_failed(error).body)
        finally:
            job.cancel()

    @api.get("/v1/models")
    async def list_models(self):
        return {"object": "list", "data": [await self.about(self.name)]}

    @api.get("/v1/models/{name}")
    async def about(self, name: str):
        if name != self.name:
            raise Refused(f"the model {json.dumps(name)} does not exist; this server has {json.dumps(self.name)}",
                          "model", "model_not_found", 404)
        return {"id": self.name, "object": "model", "created": 0, "owned_by": "heddle",
                "schedule": self.config["name"], "device": self.model.machine,
                "max_model_len": self.model.config["max_sequence_length"]}

    @api.get("/health")
    async def health(self):
        """Also what this replica has done; another one may answer next."""
        return {"status": "ok", "process": os.getpid(), "runs": self.engine.runs, "steps": self.engine.steps}

    def __del__(self):
        if hasattr(self, "engine"):
            self.engine.close()


def app(model, schedule="dense", *, settings=None, name=None, device="cpu", dtype=None, replicas=1, cpus=1,
        gpus=None, batch=8, max_tokens=128, tokens_per_step=1, block_length=32, **deployment):
    """An application of Ray Serve: serve.run(app("LLaDA-8B-Instruct", "pulsecol", device="cuda")).

    model: the folder, on every node. schedule: a preset's name (with its parameters in
    `settings`), a file, a heddle.Schedule or a heddle.Bundle. name: what requests call the
    model; by default the folder's. replicas: each has a model, `cpus` CPUs and `gpus` GPUs (1
    if device is "cuda"). batch: requests of equal options in one run. max_tokens: of requests
    that do not say. tokens_per_step: how many tokens a step commits; schedules with a
    threshold commit more. block_length: of models that are sampled in blocks. deployment:
    anything else of Ray's Deployment.options(): autoscaling_config, max_ongoing_requests...
    Raises HeddleError."""
    positive(batch=batch, max_tokens=max_tokens, block_length=block_length, tokens_per_step=tokens_per_step,
             replicas=replicas, cpus=cpus)
    if block_length % tokens_per_step:
        raise HeddleError(f"tokens_per_step: {tokens_per_step} does not divide the block's {block_length}")
    what = chosen(schedule, settings)
    folder = os.path.abspath(os.fspath(model))
    config = {**what, "model": folder, "served": name or os.path.basename(folder), "device": device,
              "dtype": None if dtype is None else dtype_name(dtype), "cpus": cpus, "batch": batch,
              "max_tokens": max_tokens, "tokens_per_step": tokens_per_step, "block_length": block_length,
              "digest": model_digest(model)}
    gpus = (1 if device.startswith("cuda") else 0) if gpus is None else gpus
    if "autoscaling_config" not in deployment:
        deployment["num_replicas"] = replicas
    return Chat.options(ray_actor_options={"num_cpus": cpus, "num_gpus": gpus},
                        **{"max_ongoing_requests": 4 * batch, **deployment}).bind(config)


def build(args: dict):
    """For Ray's own program and its files: serve run heddle.ray.server:build model=FOLDER ..."""
    whole = {"replicas", "cpus", "batch", "max_tokens", "tokens_per_step", "block_length"}
    return app(**{k: int(v) if k in whole else float(v) if k == "gpus" else v for k, v in args.items()})
