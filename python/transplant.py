# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights for a model of one family to start its training from, out of a trained
model of another with the same layers, width and heads. Needs PyTorch 2.5 and the
`tokenizers` package.

  python3 transplant.py --model ../models/heddle-long-9m --into ../models/heddle-dream-long-9m --out /tmp/start
  python3 train.py --model ../models/heddle-dream-long-9m --out /tmp/trained --init /tmp/start

Tokens keep their embeddings by their text. Where query heads come to share a key
head, those heads of each layer are kept without which the loss grows most; the others
begin anew and silent, as do further units of the FFN and biases. It is a start only:
another family's logits may stand a row further.
"""

import argparse
import json
import os
import random
from types import SimpleNamespace

import torch
import torch.nn.functional as F

import families
import recipes
import train
from heddle_reference.weights import read_safetensors


def arguments(recipe):
    """What train.Model and a family's configuration ask for."""
    fields = ("layers", "width", "heads", "kv_heads", "hidden", "theta", "positions")
    return SimpleNamespace(**{f: getattr(recipe, f) for f in fields}, init_std=recipe.width ** -0.5,
                           eps=1e-5 if recipe.family is families.LLaDA else 1e-6)


def read(recipe, folder):
    """The trained model of `folder`."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        vocab = json.load(file)["vocab_size"]
    model = train.Model(vocab, arguments(recipe), recipe.family)
    weights = read_safetensors(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({name: weights[families.file_name(recipe.family, name)].float()
                           for name in model.state_dict()})
    return model


@torch.no_grad()
def choose_heads(recipe, model, folder, kept, tokens, total):
    """`kept` heads of each layer: all others are taken away one by one, the one without
    which the training loss on a batch grows least first. One alone says little: what
    two heads do, either does."""
    torch.manual_seed(1)
    tokenizer = recipe.family.load_tokenizer(folder)
    batches = train.Batches(recipe, folder, tokens, 1, None)
    ids, prompts, answers, stated = map(torch.from_numpy, batches.make(
        random.Random(1), total, tokenizer))
    noisy, weight = train.corrupt(ids, prompts, answers, stated,
                                  tokenizer.token_to_id(recipe.family.mask))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, ids, noisy, weight = (x.to(device) for x in (model, ids, noisy, weight))
    dim = recipe.width // recipe.heads
    columns = lambda l, h: model.layers[l].attention_out.weight[:, h * dim:(h + 1) * dim]

    def loss_without(l, h):
        was = columns(l, h).clone()
        columns(l, h).zero_()
        logits = model(noisy).flatten(0, 1)
        columns(l, h).copy_(was)
        each = F.cross_entropy(logits, ids.flatten(), reduction="none").view_as(weight)
        return (each * weight).sum().item()

    left = [list(range(recipe.heads)) for _ in range(recipe.layers)]
    while any(len(heads) > kept for heads in left):
        loss, l, h = min((loss_without(l, h), l, h) for l, heads in enumerate(left)
                         if len(heads) > kept for h in heads)
        columns(l, h).zero_()
        left[l].remove(h)
        print(f"without head {h} of layer {l}: loss {loss:.3f}", flush=True)
    return left


@torch.no_grad()
def transplant(old, new, old_recipe, new_recipe, old_folder, new_folder, heads):
    """Copies into `new`, which has its first weights, what `old` has learnt."""
    tokens = [r.family.load_tokenizer(f) for r, f in ((old_recipe, old_folder), (new_recipe, new_folder))]
    same = {getattr(new_recipe.family, role): getattr(old_recipe.family, role)
            for role in ("eos", "eot", "mask")}
    pairs = [(i, tokens[0].token_to_id(same.get(text, text)))
             for text, i in tokens[1].get_vocab().items()]
    pairs = [(i, j) for i, j in pairs if j is not None]
    into, out_of = map(list, zip(*pairs))
    new.embedding.weight[into] = old.embedding.weight[out_of]
    new.head.weight[into] = old.head.weight[out_of]
    new.final_norm.weight.copy_(old.final_norm.weight)
    dim, group = new_recipe.width // new_recipe.heads, new_recipe.heads // new_recipe.kv_heads
    for a, b, kept in zip(old.layers, new.layers, heads):
        for name in ("attention_norm", "mlp_norm"):
            getattr(b, name).weight.copy_(getattr(a, name).weight)
        for name in ("gate", "up"):
            getattr(b, name).weight[:old_recipe.hidden] = getattr(a, name).weight
        b.down.weight.zero_()
        b.down.weight[:, :old_recipe.hidden] = a.down.weight
        b.attention_out.weight.zero_()
        for k, h in enumerate(kept):
            was, q = slice(h * dim, (h + 1) * dim), slice(k * group * dim, (k * group + 1) * dim)
            b.query.weight[q] = a.query.weight[was]
            b.attention_out.weight[:, q] = a.attention_out.weight[:, was]
            for name in ("key", "value"):
                getattr(b, name).weight[k * dim:(k + 1) * dim] = getattr(a, name).weight[was]
    return len(pairs)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--model", required=True, help="folder of the trained model")
    p.add_argument("--into", required=True, help="folder with the other's tokenizer")
    p.add_argument("--out", required=True)
    p.add_argument("--tokens", type=int, default=16384, help="of the batch that heads are judged by")
    p.add_argument("--length", type=int, default=512, help="of its rows")
    args = p.parse_args()
    recipe, target = recipes.find(None, args.model), recipes.find(None, args.into)
    for field in ("layers", "width", "heads"):
        if getattr(recipe, field) != getattr(target, field):
            p.error(f"the recipes differ in {field}: {getattr(recipe, field)} and {getattr(target, field)}")
    if recipe.kv_heads != recipe.heads or target.hidden < recipe.hidden:
        p.error("expected a trained model whose heads have keys of their own, and no fewer units of the "
                "FFN in the other")
    torch.manual_seed(1)
    old = read(recipe, args.model)
    made = arguments(target)
    config = target.family.config(target.family.load_tokenizer(args.into), made)
    new = train.Model(config["vocab_size"], made, target.family)
    heads = choose_heads(recipe, read(recipe, args.model), args.model, target.kv_heads, args.tokens,
                         args.length)
    print("heads that are kept, by layer:", heads)
    kept = transplant(old, new, recipe, target, args.model, args.into, heads)
    train.save(args.out, new.state_dict(), config, target.family)
    print(f"{kept} tokens keep their embeddings; {args.out}/model.safetensors")


if __name__ == "__main__":
    main()
