# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program heddle-ray."""

import argparse
import importlib.util
import json
import logging
import os
import signal
import sys

from .. import programs
from ..errors import HeddleError
from ..evaluation.sweep import parse_settings

EXAMPLES = """
examples:
  heddle-ray generate prompts.jsonl --model models/heddle-4m --schedule dense --out answers --workers 2
  heddle-ray generate 'in/*.jsonl' --model LLaDA-8B-Instruct --schedule pulsecol --set keep=1/5 \\
      --device cuda --workers 8 --address auto --chat --out answers
  heddle-ray serve --model models/heddle-4m --schedule dense
  heddle-ray serve --model LLaDA-8B-Instruct --schedule fast-dllm-dual-parallel --device cuda --replicas 8

A row of the input is a JSON string, or an object with "prompt", "prompt_ids" or "messages".
After a kill or Ctrl-C the same command of generate goes on; what is there is not run again.
exit status: 0 done, 1 an error that the message names, 2 wrong options, 3 done, but rows could
not be run (OUT/errors.jsonl lists them), 130 Ctrl-C
"""


def _common(p):
    p.add_argument("--model", required=True, metavar="FOLDER", help="as it was downloaded, on every machine")
    p.add_argument("--schedule", default="dense", metavar="NAME|FILE",
                   help="a preset (the files of examples/) or a file of MLIR (default: dense)")
    p.add_argument("--bundle", metavar="FILE", help="a compiled schedule, in place of --schedule")
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
                   help="a parameter of the schedule: keep=1/5, 'keep=20 percent'")
    p.add_argument("--device", default="cpu", help="cpu or cuda, of each worker (default: cpu)")
    p.add_argument("--dtype", type=programs.dtype, help="f32, bf16, f16 (default: that of the weights)")
    p.add_argument("--cpus", type=int, default=1, metavar="N", help="of each worker (default: 1)")
    p.add_argument("--gpus", type=float, metavar="N", help="of each worker (default: 1 with cuda)")
    p.add_argument("--address", metavar="ADDRESS",
                   help="of a Ray cluster, auto, or local: a new one of this machine "
                   "(default: RAY_ADDRESS, else one that runs here, else a new one)")


def _parser():
    p = argparse.ArgumentParser(prog="heddle-ray", description="Batches and a server over a Ray cluster.",
                                epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True, metavar="generate|serve")
    g = commands.add_parser("generate", help="answer every row of files", epilog=EXAMPLES,
                            description="Answers every row of JSON lines into a folder, shard by shard.",
                            formatter_class=argparse.RawDescriptionHelpFormatter)
    g.add_argument("input", nargs="+", metavar="FILE|FOLDER|PATTERN", help="JSON lines")
    _common(g)
    g.add_argument("--out", required=True, metavar="FOLDER", help="gets a file a shard")
    g.add_argument("--workers", type=int, default=1, metavar="N", help="actors, each with a model (default: 1)")
    g.add_argument("--batch", type=int, default=16, metavar="N", help="sequences at once (default: 16)")
    g.add_argument("--shard-rows", type=int, default=256, metavar="N", help="rows of a shard (default: 256)")
    g.add_argument("--retries", type=int, default=3, metavar="N",
                   help="of a shard whose worker died (default: 3)")
    g.add_argument("--chat", action="store_true", help="put strings into the chat template")
    g.add_argument("--system", metavar="TEXT", help="a system message, with --chat")
    for name, kind in (("gen-length", int), ("steps", int), ("block-length", int), ("temperature", float),
                       ("seed", int), ("alg", str), ("top-p", float), ("top-k", int), ("cfg-scale", float)):
        g.add_argument("--" + name, type=kind, help="as heddle-run has it")
    g.add_argument("--json", action="store_true", help="print the summary as JSON")
    g.add_argument("--quiet", action="store_true", help="no progress")
    s = commands.add_parser("serve", help="serve OpenAI's chat schema", epilog=EXAMPLES,
                            description="Serves POST /v1/chat/completions, GET /v1/models and GET /health.",
                            formatter_class=argparse.RawDescriptionHelpFormatter)
    _common(s)
    s.add_argument("--name", help="what requests call the model (default: the folder's name)")
    s.add_argument("--replicas", type=int, default=1, metavar="N", help="each with a model (default: 1)")
    s.add_argument("--batch", type=int, default=8, metavar="N", help="requests in one run (default: 8)")
    s.add_argument("--max-tokens", type=int, default=128, metavar="N", 
                   help="of requests that do not say (default: 128)")
    s.add_argument("--tokens-per-step", type=int, default=1, metavar="N", help="(default: 1)")
    s.add_argument("--block-length", type=int, default=32, metavar="N",
                   help="of models that are sampled in blocks (default: 32)")
    s.add_argument("--host", default="127.0.0.1", help="to listen at (default: 127.0.0.1; 0.0.0.0 for all)")
    s.add_argument("--port", type=int, default=8000,
                   help="(default: 8000; where Serve runs on the cluster already, its host and port stay)")
    s.add_argument("--app", default="heddle", metavar="NAME", help="of the application of Serve (default: heddle)")
    s.add_argument("--route", default="/", metavar="PATH",
                   help="before /v1, for several applications of one cluster (default: /)")
    return p


def _ray(args):
    """Ray, connected, with its own talk left out."""
    for name in ("ray", "ray.data", "ray.serve") if args.command == "serve" else ("ray", "ray.data"):
        try:
            found = importlib.util.find_spec(name)
        except ImportError:
            found = None
        if found is None:
            raise HeddleError(f"{name} is missing: pip install 'heddle[ray]'")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of a change to come
    import ray
    try:
        ray.init(address=args.address, logging_level=logging.ERROR, include_dashboard=False
                 if args.address is None and "RAY_ADDRESS" not in os.environ else None)
    except (ConnectionError, ValueError) as error:
        raise HeddleError(f"Ray: {error}") from None
    return ray


def _schedule(args):
    from ..compiler import Bundle
    settings = {}
    for name, values in parse_settings(args.settings).items():
        if len(values) > 1:
            raise HeddleError(f"--set {name}: expected one value, found {len(values)}; heddle-eval sweeps them")
        settings[name] = values[0]
    if args.bundle is None:
        return args.schedule, settings
    if settings:
        raise HeddleError("--set: a bundle has no parameters; give --schedule")
    return Bundle.read(args.bundle), {}


def _same(args):
    return {"device": args.device, "dtype": args.dtype, "cpus": args.cpus,
            "gpus": args.gpus, "batch": args.batch}


def _generate(args):
    from .batch import generate
    schedule, settings = _schedule(args)
    _ray(args)
    import ray.data
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    options = {n: getattr(args, n) for n in ("gen_length", "steps", "block_length", "temperature", "seed", "alg",
                                             "top_p", "top_k", "cfg_scale")}

    def shown(said, done, total):
        if not args.quiet:
            print(f"heddle-ray: {done} of {total} shards, {said['shard']}: {said['rows']} rows in "
                  f"{said['seconds']:.1f} s", file=sys.stderr, flush=True)
    made = generate(args.input, args.model, schedule, args.out, settings=settings, workers=args.workers,
                    shard_rows=args.shard_rows, retries=args.retries, chat=args.chat, system=args.system,
                    on_shard=shown, **_same(args), **options)
    if args.json:
        print(json.dumps(made))
    else:
        print(f"{made['rows']} rows in {made['shards']} shards ({made['skipped']} were there), "
              f"{made['errors']} errors; {made['tokens']} tokens in {made['seconds']:.1f} s "
              f"({made['tokens_per_second']:.1f} tok/s)")
    if made["errors"]:
        print(f"heddle-ray: {made['errors']} of {made['rows']} rows could not be run: "
              f"{os.path.join(args.out, 'errors.jsonl')}", file=sys.stderr)
    return 3 if made["errors"] else 0


def _place(args):
    """(host, port) at which Serve of this cluster listens already; None where none runs."""
    from ray.serve.context import _get_global_client
    client = _get_global_client(raise_if_no_controller_running=False)
    if client is None:
        return None
    options = getattr(client, "http_config", None)
    return getattr(options, "host", args.host), getattr(options, "port", args.port)


def _serve(args):
    schedule, settings = _schedule(args)
    ray = _ray(args)
    from ray import serve
    from ray.serve.exceptions import RayServeException
    from .server import app
    made = app(args.model, schedule, settings=settings, name=args.name, replicas=args.replicas,
               max_tokens=args.max_tokens, tokens_per_step=args.tokens_per_step,
               block_length=args.block_length, **_same(args))
    place, route = _place(args), "/" + args.route.strip("/")
    if place is not None and args.app in serve.status().applications:
        raise HeddleError(f"--app: Serve has an application '{args.app}' on this cluster already; give another name, and "
                          "a --route of its own")
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.default_int_handler)
    host, port = place or (args.host, args.port)
    if (host, port) != (args.host, args.port):
        print(f"heddle-ray: Serve runs on this cluster already, at {host}:{port}; --host and --port do not change that",
              file=sys.stderr, flush=True)
    try:
        if place is None:
            serve.start(http_options={"host": host, "port": port})
        try:
            serve.run(made, name=args.app, route_prefix=route)
        except (RuntimeError, ray.exceptions.RayError, RayServeException) as error:
            raise HeddleError(f"Ray Serve: {getattr(error, 'cause', None) or error}") from None
        print(f"heddle-ray: http://{host}:{port}{route.rstrip('/')}/v1 is ready; Ctrl-C ends it", file=sys.stderr, flush=True)
        signal.pause()
    finally:
        if args.app in serve.status().applications:
            serve.delete(args.app)
        if place is None and not serve.status().applications:  # others may have come
            serve.shutdown()
        ray.shutdown()


def main(argv=None):
    args = _parser().parse_args(argv)
    does, interrupted = {"generate": (_generate, programs.RESUMES), "serve": (_serve, "ended")}[args.command]
    return programs.run("heddle-ray", lambda: does(args), interrupted, "json" in args and args.json)


if __name__ == "__main__":
    sys.exit(main())
