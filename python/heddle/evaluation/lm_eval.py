# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model of lm-evaluation-harness: `python3 -m heddle.evaluation.lm_eval` is its program
lm_eval with the model `heddle`. lm-eval 0.4.13 looks for no models in other packages, so the
registration is an import of this module; later ones find it by the package's entry point.

  python3 -m heddle.evaluation.lm_eval --model heddle --tasks gsm8k --device cuda \\
      --model_args folder=LLaDA-8B-Instruct,schedule=pulsecol,keep=1/5,gen_length=256
"""

import logging
import sys

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from .. import compiler, model as models
from ..errors import HeddleError
from .runner import run_batch
from .sweep import make

RUN = {"gen_length": int, "steps": int, "block_length": int, "alg": str, "alg_temp": float, "seed": int,
       "cfg_scale": float, "remasking": str, "top_p": float, "top_k": int}


log = logging.getLogger(__name__)


def _number(kind, name, value):
    try:
        return kind(value)
    except ValueError:
        raise HeddleError(f"{name}: expected a number, found {value!r}") from None


@register_model("heddle")
class HeddleLM(LM):
    """folder: the model's. schedule: a preset's name or a file. device: lm_eval's, cpu, cuda or
    cuda:N. dtype: as heddle.load has it. batch_size: sequences at once. gen_length, steps, block_length, alg and so on: as Model.generate
    has them. tokenizer, pretrained: for tasks that count tokens themselves (RULER); the model has its folder's.
    Anything else is a parameter of the preset (keep=1/5)."""

    def __init__(self, folder, schedule="dense", device=None, dtype=None, batch_size=1,
                 max_batch_size=None, tokenizer=None, pretrained=None, **options):
        super().__init__()
        self.batch = 1 if str(batch_size).startswith("auto") else _number(int, "batch_size", batch_size)
        if self.batch < 1:
            raise HeddleError(f"batch_size: expected 1 or more, or auto, found {batch_size}")
        self.options = {k: RUN[k](v) if RUN[k] is str else _number(RUN[k], k, v)
                        for k in list(options) if k in RUN for v in [options.pop(k)]}
        try:
            self.name, expression = make(schedule, {k: str(v) for k, v in options.items()})
        except TypeError as error:
            raise HeddleError(f"model_args: {error}") from None
        try:
            self.model = models.load(folder, device=device or "cpu", dtype=dtype)
        except HeddleError as error:
            if not str(device).startswith("cuda"):
                raise
            raise HeddleError(f"{error} (lm_eval's device is cuda:0 unless it is told another: --device cpu)") from None
        self.bundle = compiler.compile(expression, model=self.model, crossovers="none")  # the method, not what is faster

    def _lengths(self, wanted):
        """The run's lengths for an answer of up to `wanted` tokens, in whole blocks."""
        options = {"gen_length": wanted, **self.options}
        block = options.get("block_length")
        if block:
            blocks = -(-options["gen_length"] // block)
            options["gen_length"] = blocks * block
            steps = options.get("steps", options["gen_length"])
            options["steps"] = -(-steps // blocks) * blocks
        return options

    def _prompt(self, context, generated):
        """The token ids of a prompt, without its beginning where it is too long to be answered, as lm-eval's own
        models have it."""
        ids, most = self.model.encode(context), self.model.config["max_sequence_length"]
        if generated >= most:
            raise HeddleError(f"{generated} tokens are to be generated (gen_length, or the task's max_gen_toks), and the "
                              f"model takes {most} with the prompt")
        if len(ids) > most - generated:
            log.warning("a prompt of %d tokens and %d to generate are more than the model's %d: its beginning is left out",
                        len(ids), generated, most)
        return ids[-(most - generated):]

    def generate_until(self, requests, disable_tqdm=False):
        from tqdm import tqdm  # lm-eval needs it, too
        groups = {}
        for index, request in enumerate(requests):
            context, wanted = request.args
            until = wanted.get("until") or []
            sampled = wanted.get("do_sample") is not False
            groups.setdefault((wanted.get("max_gen_toks", 256), sampled and wanted.get("temperature") or 0.0), []).append(
                (index, context, [until] if isinstance(until, str) else list(until), request))
        answers = [None] * len(requests)
        with tqdm(total=len(requests), disable=disable_tqdm, desc=f"heddle, {self.name}") as bar:
            for (tokens, temperature), group in groups.items():
                options = {**self._lengths(tokens), "temperature": float(temperature)}
                for first in range(0, len(group), self.batch):
                    part = group[first:first + self.batch]
                    prompts = [self._prompt(context, options["gen_length"]) for _, context, _, _ in part]
                    filled = [ids for ids in prompts if len(ids)]
                    if len(filled) < len(part):
                        log.warning("%d empty prompts get empty answers", len(part) - len(filled))
                    texts = iter(run_batch(self.model, self.bundle, filled, options)["texts"] if filled else ())
                    for (index, context, until, request), ids in zip(part, prompts):
                        text = next(texts) if len(ids) else ""
                        ends = [text.find(stop) for stop in until if stop and stop in text]
                        answers[index] = text[:min(ends)] if ends else text
                        self.cache_hook.add_partial("generate_until", request.args, answers[index])
                    bar.update(len(part))
        return answers

    def _no_likelihood(self, requests, **_):
        raise NotImplementedError(
            "heddle runs tasks whose output_type is generate_until (gsm8k, humaneval, RULER, ...); "
            "likelihoods (loglikelihood, multiple_choice, perplexities) need the logits of masked "
            "texts, which the runtime does not give")

    loglikelihood = loglikelihood_rolling = _no_likelihood

    @property
    def tokenizer_name(self):
        return str(self.model.folder)

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        try:
            from transformers import AutoTokenizer
        except ImportError:
            raise ImportError("--apply_chat_template needs transformers: pip install transformers") from None
        return AutoTokenizer.from_pretrained(self.model.folder).apply_chat_template(
            chat_history, tokenize=False, add_generation_prompt=add_generation_prompt)


def main():
    from lm_eval.__main__ import cli_evaluate
    try:
        return cli_evaluate()
    except HeddleError as error:
        print(f"heddle.evaluation.lm_eval: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
