# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model of lm-evaluation-harness: `python3 -m heddle.evaluation.lm_eval` is its program
lm_eval with the model `heddle`. lm-eval 0.4.13 looks for no models in other packages, so the
registration is an import of this module.

  python3 -m heddle.evaluation.lm_eval --model heddle --tasks gsm8k --device cuda \\
      --model_args folder=LLaDA-8B-Instruct,schedule=pulsecol,keep=1/5,gen_length=256
"""

import sys

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from .. import compiler, model as models
from .runner import run_batch
from .sweep import make

RUN = {"gen_length": int, "steps": int, "block_length": int, "alg": str, "alg_temp": float, "seed": int,
       "cfg_scale": float, "remasking": str, "top_p": float, "top_k": int}


@register_model("heddle")
class HeddleLM(LM):
    """folder: the model's. schedule: a preset's name or a file. device: lm_eval's, cpu, cuda or
    cuda:N. dtype: as heddle.load has it. batch_size: sequences at once. gen_length, steps, block_length, alg and so on: as Model.generate
    has them. Anything else is a parameter of the preset (keep=1/5)."""

    def __init__(self, folder, schedule="dense", device=None, dtype=None, batch_size=1,
                 max_batch_size=None, **options):
        super().__init__()
        self.batch = 1 if str(batch_size).startswith("auto") else int(batch_size)
        self.options = {k: RUN[k](options.pop(k)) for k in list(options) if k in RUN}
        self.name, expression = make(schedule, {k: str(v) for k, v in options.items()})
        self.model = models.load(folder, device=device or "cpu", dtype=dtype)
        self.bundle = compiler.compile(expression, model=self.model)

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

    def generate_until(self, requests, disable_tqdm=False):
        from tqdm import tqdm  # lm-eval needs it, too
        groups = {}
        for index, request in enumerate(requests):
            context, wanted = request.args
            until = wanted.get("until") or []
            groups.setdefault((wanted.get("max_gen_toks", 256), wanted.get("temperature") or 0.0), []).append(
                (index, context, [until] if isinstance(until, str) else list(until), request))
        answers = [None] * len(requests)
        with tqdm(total=len(requests), disable=disable_tqdm, desc=f"heddle, {self.name}") as bar:
            for (tokens, temperature), group in groups.items():
                for first in range(0, len(group), self.batch):
                    part = group[first:first + self.batch]
                    made = run_batch(self.model, self.bundle, [context for _, context, _, _ in part],
                                     {**self._lengths(tokens), "temperature": float(temperature)})
                    for (index, context, until, request), text in zip(part, made["texts"]):
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


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate
    sys.exit(cli_evaluate())
