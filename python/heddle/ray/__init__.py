# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many machines, by Ray (pip install 'heddle[ray]'): batches of any size over Ray Data, and a
server with OpenAI's chat schema over Ray Serve. Placement, restarts and scaling are Ray's.

    heddle.ray.generate(["prompts.jsonl"], "LLaDA-8B-Instruct", "pulsecol", "out",
                        device="cuda", workers=8)
    ray.serve.run(heddle.ray.app("LLaDA-8B-Instruct", "pulsecol", device="cuda"))

Importing it does not import Ray."""

from .batch import generate


def app(model, schedule="dense", **options):
    """An application of Ray Serve: help(heddle.ray.server.app)."""
    from .server import app as make
    return make(model, schedule, **options)


__all__ = ["app", "generate"]
