# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Offline batches: shards of rows over Ray Data, an actor a GPU."""

import json
import os
import shutil
import time
from typing import Callable, Optional

from ..compiler import dtype_name
from ..errors import HeddleError
from . import rows
from .schedules import chosen, loaded, model_digest, positive
from .shards import (ERRORS, INPUT, Folder, attempt, find_inputs, packed, plan, read_records, unpacked,
                     write_whole)


class Worker:
    """What an actor does: a model that stays loaded, a shard at a time."""

    def __init__(self, job):
        self.job, self.fatal = job, None
        try:
            self._load()
        except Exception as error:  # the actor lives to say it in one sentence
            self.fatal = f"{type(error).__name__}: {error}" if not isinstance(error, HeddleError) else str(error)

    def _load(self):
        self.model, self.bundle = loaded(self.job)
        self.ends = [self.model.config[t] for t in ("eos_token", "end_of_turn_token")]
        self._probe()

    def _probe(self):
        """One step, which fails if anything but a row is wrong."""
        token = int(self.model.config["mask_token"] == 0)
        self._generate([[token]], on_step=lambda step: False)

    def _generate(self, prompts, **more):
        return self.model.generate(prompts, self.bundle, **self.job["options"], **more)

    def __call__(self, batch):
        if self.fatal is None:
            try:
                done = [self._shard(unpacked(text)) for text in batch["shard"]]
            except (HeddleError, OSError) as error:
                self.fatal = str(error)
        return {"done": [json.dumps(one) for one in ([{"fatal": self.fatal}] if self.fatal else done)]}

    def _shard(self, shard):
        out, began = self.job["out"], time.monotonic()
        work = {"shard": shard.name, "rows": shard.rows, "steps": 0, "tokens": 0, "worker": os.getpid()}
        # The first attempt may have ended before its word reached the driver.
        if read_records(out, shard) is None:
            with attempt(out, shard.name, self.job["retries"]):
                write_whole(out, shard.name, self._records(shard, work))
        return {**work, "seconds": time.monotonic() - began}

    def _records(self, shard, work):
        lines = shard.lines()
        if len(lines) != shard.rows:
            raise HeddleError(f"{shard.path}: changed while the batch ran")
        for start in range(0, shard.rows, self.job["batch"]):
            part = lines[start:start + self.job["batch"]]
            for record in self._batch(part, shard.first + start, work):
                yield json.dumps(record).encode()

    def _batch(self, lines, first, work):
        """The records of some lines, in order."""
        records, ids = [], []
        for number, line in enumerate(lines, first):
            record = {"row": number, "input": line.decode(errors="replace").rstrip("\r")}
            records.append(record)
            try:
                record["input"] = rows.parse(line)
                prompt = rows.prompt_ids(self.model, record["input"], self.job["chat"], self.job["system"])
                rows.check(self.model, prompt, self.job["options"]["gen_length"])
                ids.append((record, prompt))
            except HeddleError as error:
                record["error"] = {"type": type(error).__name__, "message": str(error)}
        if ids:
            self._answer(ids, work)
        return records

    def _answer(self, pairs, work):
        try:
            made = self._generate([prompt for _, prompt in pairs])
        except HeddleError as error:
            self._probe()  # raises if it is not for the rows
            if len(pairs) > 1:
                for pair in pairs:
                    self._answer([pair], work)
            else:
                pairs[0][0]["error"] = {"type": type(error).__name__, "message": str(error)}
            return
        work["steps"] += made.steps
        for (record, _), text, response in zip(pairs, made.texts, made.responses):
            work["tokens"] += len(response)
            kept = next((i for i, token in enumerate(response) if token in self.ends), len(response))
            record.update(text=text, tokens=kept, finish="stop" if kept < len(response) else "length")


def _input_files(data, out, shard_rows):
    """The files of rows; a dataset is written into the folder, once."""
    if not hasattr(data, "iter_batches"):
        return find_inputs(data)
    folder = os.path.join(out, INPUT)
    if not os.path.isdir(folder):
        part = f"{folder}.part"
        shutil.rmtree(part, ignore_errors=True)  # of a call that was killed
        os.makedirs(part)
        batches = data.iter_batches(batch_size=shard_rows, batch_format="pyarrow")
        for i, table in enumerate(batches):
            try:
                # What a dataset fills up with null, a row does not have.
                lines = [json.dumps({k: v for k, v in row.items() if v is not None}).encode()
                         for row in table.to_pylist()]
            except TypeError as error:
                raise HeddleError(f"the dataset has what JSON has not: {error}; columns {table.schema.names}") \
                    from None
            write_whole(part, f"{i:06}.jsonl", lines)
        os.rename(part, folder)
    return find_inputs(folder)


def _ask(shards, job, workers, gpus):
    """Yields what workers say of each shard, as they finish."""
    import ray
    import ray.data
    if not ray.is_initialized():
        ray.init()
    has = ray.cluster_resources()
    for name, wanted in (("CPU", job["cpus"]), ("GPU", gpus)):
        if wanted > has.get(name, 0):
            raise HeddleError(f"a worker needs {wanted:g} of {name}, and the whole cluster has {has.get(name, 0):g}")
    blocks = ray.data.from_items([{"shard": packed(shard)} for shard in shards],
                                 override_num_blocks=min(len(shards), 4096))
    done = blocks.map_batches(
        Worker, fn_constructor_args=(job,), batch_size=1, num_cpus=job["cpus"], num_gpus=gpus,
        compute=ray.data.ActorPoolStrategy(size=min(workers, len(shards)), max_tasks_in_flight_per_actor=1))
    for row in done.iter_rows():
        said = json.loads(row["done"])
        if "fatal" in said:
            raise HeddleError(said["fatal"])
        yield said


def generate(data, model, schedule="dense", out="out", *, settings: Optional[dict] = None, workers: int = 1,
             device: str = "cpu", gpus: Optional[float] = None, cpus: int = 1, dtype=None, batch: int = 16,
             shard_rows: int = 256, retries: int = 3, chat: bool = False, system: Optional[str] = None,
             on_shard: Optional[Callable] = None, **options) -> dict:
    """Answers every row of `data` into the folder `out`, over the machines of a Ray cluster.

    data: paths of JSON lines (a file, a folder, a pattern, or a list of these), each a string
    or an object with "prompt", "prompt_ids" or "messages"; or a ray.data.Dataset with such a
    column, which is written to out/input first. model: the folder. schedule: a preset's name
    (with its parameters in `settings`), a file, a heddle.Schedule, or a heddle.Bundle. All
    paths are those of a file system that every worker sees.

    workers: actors, each with a model, `cpus` CPUs and `gpus` GPUs (1 if device is "cuda").
    batch: sequences at once. options: of Model.generate; gen_length is 128 by default.

    Every `shard_rows` rows of a file are a shard, which becomes one file of `out` when all of
    its rows are done: {"row", "input", "text", "tokens", "finish"} a line, or {"row", "input",
    "error"} for a row that cannot be run. A call goes on where one before it ended, however it
    ended: shards that are there are skipped. A worker that dies is started again by Ray and
    its shard redone, up to `retries` times. No row's text depends on workers, batch or shards.

    Returns {"rows", "errors", "shards", "skipped", "text_tokens"} of the folder, read from its
    files, and {"tokens", "seconds", "tokens_per_second"} of this call; tokens as heddle-run
    counts them, padding included. on_shard: called with (what the shard took, shards done,
    shards in all). Raises HeddleError."""
    positive(workers=workers, batch=batch, shard_rows=shard_rows, cpus=cpus)
    if system is not None and not chat:
        raise HeddleError("system: belongs to chat, which puts strings into the chat template")
    what = chosen(schedule, settings)
    options = {"gen_length": 128, **{k: v for k, v in options.items() if v is not None}}
    dtype = None if dtype is None else dtype_name(dtype)
    began = time.monotonic()
    with Folder(out) as folder:
        files = _input_files(data, folder.path, shard_rows)
        shards, about = plan(files, shard_rows)
        folder.agree({"model": model_digest(model), "schedule": what["schedule"],
                      "device": device.split(":")[0], "dtype": dtype,
                      "options": options, "chat": chat, "system": system, "shard_rows": shard_rows,
                      "inputs": about})
        folder.sweep()
        left = [shard for shard in shards if read_records(folder.path, shard) is None]
        job = {**what, "model": os.path.abspath(model), "device": device, "dtype": dtype, "cpus": cpus,
               "batch": batch, "out": folder.path, "options": options, "chat": chat, "system": system,
               "retries": retries}
        took = {"steps": 0, "tokens": 0}
        if left:
            gpus = (1 if device.startswith("cuda") else 0) if gpus is None else gpus
            for i, said in enumerate(_ask(left, job, workers, gpus)):
                took = {k: took[k] + said[k] for k in took}
                if on_shard:
                    on_shard(said, len(shards) - len(left) + i + 1, len(shards))
        folder.sweep()
        seconds = time.monotonic() - began
        return {"schedule": what["name"], **_count(folder.path, shards), "shards": len(shards),
                "skipped": len(shards) - len(left), **took, "seconds": seconds,
                "tokens_per_second": took["tokens"] / seconds}


def _count(out, shards):
    """What the folder has, row by row; errors.jsonl lists the rows that failed."""
    total, tokens, errors = 0, 0, []
    for shard in shards:
        records = read_records(out, shard)
        if records is None:
            raise HeddleError(f"{os.path.join(out, shard.name)}: has not exactly the rows {shard.first} to "
                              f"{shard.first + shard.rows - 1}; run again, and it is redone")
        total += len(records)
        tokens += sum(r.get("tokens", 0) for r in records)
        errors += [{"shard": shard.name, **r} for r in records if "error" in r]
    if errors:
        write_whole(out, ERRORS, [json.dumps(r).encode() for r in errors])
    elif os.path.exists(os.path.join(out, ERRORS)):
        os.unlink(os.path.join(out, ERRORS))
    return {"rows": total, "errors": len(errors), "text_tokens": tokens}
