# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small masked diffusion model of LLaDA's or Dream's architecture by
one of the recipes of recipes.py. Needs PyTorch 2.5, the `tokenizers` package
and, to be of use, a GPU (five to ten minutes on an H200).

  python3 python/make_tokenizer.py models/heddle-4m
  python3 python/train.py --model models/heddle-4m --out out/trained --compile
  python3 python/make_tokenizer.py models/heddle-long-9m
  python3 python/train.py --model models/heddle-long-9m --out out/trained --compile
  python3 python/train.py --model models/heddle-long-9m --out out/more --compile \\
      --init out/trained --from-stage 0.5 --rate 4e-4 --muon 0.003

Writes config.json, generation_config.json and model.safetensors (bf16) into
--out, at every --save-minutes and at the end, and a log of the losses and of
the exact-match accuracy (bf16 weights, f32 arithmetic, temperature 0).
"""

import argparse
import ctypes
import json
import math
import multiprocessing
import os
import random
import struct
import sys
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n", 1)[1],
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True, help="folder with the tokenizer")
    p.add_argument("--recipe", help="of recipes.py (default: the name of --model's folder)")
    p.add_argument("--out", required=True)
    p.add_argument("--minutes", type=float, default=8.3)
    p.add_argument("--save-minutes", type=float, default=2)
    p.add_argument("--init", help="start from this folder's model.safetensors")
    p.add_argument("--tokens", type=int, help="tokens a batch; default: the recipe's")
    p.add_argument("--rate", type=float, default=6e-4)
    p.add_argument("--muon", type=float, default=0.005,
                   help="rate of the blocks' matrices; 0: AdamW for all")
    p.add_argument("--compile", action="store_true", help="use torch.compile")
    p.add_argument("--beta2", type=float, default=0.99)
    p.add_argument("--init-std", type=float, help="default: 1 / sqrt(width)")
    p.add_argument("--decay", type=float, default=0.6, help="last share of the time")
    p.add_argument("--from-stage", type=float, default=0,
                   help="share of the recipe's stages that --init has had (0 to 1)")
    p.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    p.add_argument("--judge", type=int, default=128,
                   help="test prompts a task, fewer of long ones; 0: does not judge")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    for name in ("minutes", "save_minutes", "decay"):
        if not getattr(args, name) > 0:
            p.error(f"--{name.replace('_', '-')}: expected more than 0, found {getattr(args, name)}")
    return args


if __name__ == "__main__":  # before PyTorch is loaded: --help needs none
    ARGS = options()

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import families  # noqa: E402
from heddle.evaluation import long_tasks  # noqa: E402
import recipes  # noqa: E402


class Block(nn.Module):
    def __init__(self, args, family):
        super().__init__()
        width, hidden = args.width, args.hidden
        kv = width // args.heads * args.kv_heads
        linear = lambda i, o, bias=False: nn.Linear(i, o, bias=bias)
        norm = lambda: nn.RMSNorm(width, eps=args.eps)
        self.heads, self.kv_heads = args.heads, args.kv_heads
        self.attention_norm = norm()
        self.query = linear(width, width, family.bias)
        self.key = linear(width, kv, family.bias)
        self.value = linear(width, kv, family.bias)
        self.attention_out = linear(width, width)
        self.mlp_norm = norm()
        self.gate = linear(width, hidden)
        self.up = linear(width, hidden)
        self.down = linear(hidden, width)

    def forward(self, x, cos, sin, mask):
        batch, length, width = x.shape
        n = self.attention_norm(x)
        split = lambda t, heads: t.view(batch, length, heads, -1).transpose(1, 2)
        q = split(self.query(n), self.heads)
        k, v = split(self.key(n), self.kv_heads), split(self.value(n), self.kv_heads)

        def rotate(t):
            t = t.float()
            a, b = t.chunk(2, -1)
            return (t * cos + torch.cat((-b, a), -1) * sin).to(v.dtype)

        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (rotate(k), v))
        out = F.scaled_dot_product_attention(rotate(q), k, v, attn_mask=mask)
        x = x + self.attention_out(out.transpose(1, 2).reshape(batch, length, width))
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    """Logits [rows, length, vocab]; entry i predicts token i in both families."""

    def __init__(self, vocab, args, family):
        super().__init__()
        self.dim, self.theta, self.shifted = args.width // args.heads, args.theta, family.shifted
        self.embedding = nn.Embedding(vocab, args.width)
        self.layers = nn.ModuleList(Block(args, family) for _ in range(args.layers))
        self.final_norm = nn.RMSNorm(args.width, eps=args.eps)
        self.head = nn.Linear(args.width, vocab, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=args.init_std)
            if name.endswith("bias"):
                nn.init.zeros_(p)
            if name.endswith(("attention_out.weight", "down.weight")):
                nn.init.normal_(p, std=args.init_std / math.sqrt(2 * args.layers))

    def forward(self, ids, mask=None):
        i = torch.arange(0, self.dim, 2, device=ids.device, dtype=torch.float32)
        angle = torch.outer(torch.arange(ids.shape[1], device=ids.device).float(),
                            1.0 / self.theta ** (i / self.dim)).repeat(1, 2)
        cos, sin = angle.cos(), angle.sin()
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        logits = self.head(self.final_norm(x))
        return torch.cat((logits[:, :1], logits[:, :-1]), 1) if self.shifted else logits


# --- data ---------------------------------------------------------------------

def rows_of(recipe, rng, total, count, encode):
    """`count` examples as (prompt ids, answer ids, whether to put it into the
    chat template, places that state what another place states too)."""
    examples = [recipe.rows(rng, total) for _ in range(count)]
    chats = [rng.random() < 0.4 for _ in examples]
    if recipe.tasks is not long_tasks:
        prompts = encode([recipe.family.chat(e.prompt) if c else e.prompt
                          for e, c in zip(examples, chats)])
        return list(zip(prompts, encode([e.answer for e in examples]), chats,
                        ([] for _ in examples)))
    # By sentences, so that the places of digits are known. A sentence begins with
    # a space and ends with a semicolon, where the tokenizer splits texts anyway.
    drawn = []
    answers = encode([e.answer for e in examples])
    for example, answer, chat in zip(examples, answers, chats):
        head, tail = (recipe.family.chat("\0") if chat else "\0").split("\0")
        parts = encode([head + "Notes:", *(" " + s for s in example.sentences),
                        " " + example.question + tail])
        ends = np.cumsum([len(p) for p in parts])
        stated = [int(ends[i]) + d for i, first, end in example.repeats
                  for d in range(len(parts[i + 1]))[first:end]]
        drawn.append(([t for p in parts for t in p], answer, chat, stated))
    return drawn


class Batches(torch.utils.data.IterableDataset):
    """Endless batches (ids [rows, total], prompt lengths, answer ends, which
    tokens of the prompt stand elsewhere too), all rows full: what the answer
    leaves free is end-of-text, as in LLaDA's fine-tuning. `passed`: the share of
    the training time that is over."""

    def __init__(self, recipe, folder, tokens_per_batch, seed, passed):
        self.recipe, self.folder, self.passed = recipe, folder, passed
        self.tokens, self.seed = tokens_per_batch, seed

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        rng = random.Random(f"train {self.seed} {info.id if info else 0}")
        tokenizer = self.recipe.family.load_tokenizer(self.folder)
        while True:
            lengths = next(l for end, l in self.recipe.stages if self.passed.value <= end)
            yield self.make(rng, rng.choices(list(lengths), list(lengths.values()))[0], tokenizer)

    def make(self, rng, total, tokenizer):
        """One batch of rows of `total` tokens."""
        eos, eot = (tokenizer.token_to_id(t) for t in (self.recipe.family.eos, self.recipe.family.eot))
        encode = lambda texts: [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
        rows = max(1, self.tokens // total)
        ids = np.full((rows, total), eos, np.int64)
        stated = np.zeros((rows, total), bool)
        prompt_ends = np.zeros(rows, np.int64)
        answer_ends = np.zeros(rows, np.int64)
        row = 0
        while row < rows:
            for p, a, c, s in rows_of(self.recipe, rng, total, rows - row, encode):
                a = a + ([eot] if c else []) + [eos]
                end = len(p) + len(a)
                if end > total:
                    continue
                ids[row, :len(p)] = p
                ids[row, len(p):end] = a
                stated[row, s] = True
                prompt_ends[row], answer_ends[row] = len(p), end
                row += 1
        return ids, prompt_ends, answer_ends, stated


def corrupt(ids, prompt_ends, answer_ends, stated, mask_token):
    """Masks response tokens, and a third or more of the `stated` ones, whose loss
    counts as much as the answers'. Three rows of four: each with a row's probability
    t (stratified over the batch). The others as block-wise decoding meets
    them: kept up to a random place, masked with t in a block, masked after."""
    rows, total = ids.shape
    device = ids.device
    at = torch.arange(total, device=device)
    t = (torch.randperm(rows, device=device) + torch.rand(rows, device=device)) / rows
    t = (0.05 + 0.95 * t)[:, None]
    drop = torch.rand(rows, total, device=device) < t
    start = prompt_ends[:, None] + (torch.rand(rows, 1, device=device)
                                    * (answer_ends - prompt_ends)[:, None]).long()
    size = (8 * 2 ** torch.randint(0, 3, (rows, 1), device=device))
    staged = (drop & (at >= start)) | (at >= start + size)
    blockwise = torch.rand(rows, 1, device=device) < 0.25
    masked = torch.where(blockwise, staged, drop) & (at >= prompt_ends[:, None])
    # The 1/t of the bound, and end-of-text filler at a twentieth: it is easy. Tokens of a
    # short answer count more, by the square root: of a word to be counted there are few.
    weight = torch.where(blockwise, torch.ones_like(t), 1 / t)
    weight = weight * torch.where(at < answer_ends[:, None], 1.0, 0.05)
    each = (answer_ends - prompt_ends).float().sqrt()[:, None]
    weight = weight * masked / each / each.sum()
    hidden = stated & (torch.rand(rows, total, device=device)
                       < 0.3 + 0.7 * torch.rand(rows, 1, device=device))
    weight = weight + hidden / hidden.sum().clamp(min=1)
    return torch.where(masked | hidden, mask_token, ids), weight


# --- judging --------------------------------------------------------------------

def quota(masked, step, steps, block, shifted):
    """Tokens that a step commits: LLaDA's share of its block, or Dream's of what
    is masked."""
    if not shifted:
        return block // steps + (step < block % steps)
    times = torch.linspace(1, 1e-3, steps + 1)
    return masked if step == steps - 1 else int(masked * (1 - times[step + 1] / times[step]))


@torch.no_grad()
def exact_match(model, tokenizer, config, test_set, gen_length, steps, block):
    """Exact-match share by task (test_set: its examples) of LLaDA's sampler, or Dream's maskgit_plus, at
    temperature 0, over padded batches with pads masked out as keys."""
    device = next(model.parameters()).device
    eos, mask_token = config["eos_token_id"], config["mask_token_id"]
    result = {}
    for task, examples in test_set.items():
        prompts = [tokenizer.encode(e.prompt, add_special_tokens=False).ids for e in examples]
        answers = [tokenizer.encode(e.answer, add_special_tokens=False).ids + [eos] for e in examples]
        width = max(map(len, prompts)) + gen_length
        count = len(examples)
        x = torch.full((count, width), eos, device=device)
        for row, p in enumerate(prompts):
            x[row, :len(p)] = torch.tensor(p)
            x[row, len(p):len(p) + gen_length] = mask_token
        lengths = torch.tensor([len(p) for p in prompts], device=device)
        at = torch.arange(width, device=device)
        keys = (at < (lengths + gen_length)[:, None])[:, None, None, :]
        for b in range(gen_length // block):
            limit = (lengths + (b + 1) * block)[:, None]
            in_block, left = steps // (gen_length // block), block
            for s in range(in_block):
                k = quota(left, s, in_block, block, model.shifted)
                left -= k
                confidence, token = model(x, keys).float().softmax(-1).max(-1)
                free = (x == mask_token) & (at < limit)
                confidence = confidence.masked_fill(~free, -1)
                chosen = confidence.topk(k, -1).indices
                x.scatter_(1, chosen, token.gather(1, chosen))
        good = sum(x[r, len(p):len(p) + len(a)].tolist() == a
                   for r, (p, a) in enumerate(zip(prompts, answers)))
        result[task] = good / count
    return result


def save(folder, state, config, family):
    """Writes the weights as bf16 safetensors, by hand: header, then data."""
    os.makedirs(folder, exist_ok=True)
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(state, key=lambda name: families.file_name(family, name)):
        t = state[name].detach().to(torch.bfloat16).cpu().contiguous()
        blobs.append(t.view(torch.int16).numpy().tobytes())
        header[families.file_name(family, name)] = {"dtype": "BF16", "shape": list(t.shape),
                                   "data_offsets": [offset, offset + len(blobs[-1])]}
        offset += len(blobs[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            out.write(blob)
    for name, value in (("config.json", config),
                        ("generation_config.json", family.generation_config(config))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            json.dump(value, out, indent=2)
            out.write("\n")


class Muon:
    """Momentum orthogonalised by a Newton-Schulz iteration, for the matrices
    of the blocks (K. Jordan et al., 2024)."""

    def __init__(self, matrices, momentum=0.95, decay=0.02):
        self.momentum, self.decay = momentum, decay
        self.groups = {}
        for m in matrices:
            self.groups.setdefault(tuple(m.shape), []).append(m)
        self.state = {k: torch.zeros(len(v), *k, device=v[0].device) for k, v in self.groups.items()}

    @torch.no_grad()
    def step(self, rate):
        for shape, group in self.groups.items():
            grad = torch.stack([m.grad for m in group])
            mean = self.state[shape].lerp_(grad, 1 - self.momentum)
            x = grad.lerp(mean, self.momentum).bfloat16()
            x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-7).bfloat16()
            wide = shape[0] > shape[1]
            x = x.mT if wide else x
            for _ in range(5):
                s = x @ x.mT
                x = 3.4445 * x + (-4.7750 * s + 2.0315 * (s @ s)) @ x
            x = (x.mT if wide else x).float() * (max(1, shape[0] / shape[1]) ** 0.5 * rate)
            torch._foreach_mul_(group, 1 - rate * self.decay)
            torch._foreach_sub_(group, list(x.unbind()))


def shape(args):
    """Adds what the recipe says of the model, and returns the recipe."""
    recipe = recipes.find(args.recipe, args.model)
    for field in ("layers", "width", "heads", "kv_heads", "hidden", "theta", "positions"):
        setattr(args, field, getattr(recipe, field))
    args.tokens = args.tokens or recipe.tokens
    args.init_std = args.init_std or args.width ** -0.5
    args.eps = 1e-5 if recipe.family is families.LLaDA else 1e-6
    return recipe


def judge(judged, recipe, tokenizer, config, count, device):
    """Prints the exact-match accuracy on the recipe's test sets of `count` prompts a task, fewer of long ones."""
    for name, test_set, gen, steps, block in recipe.judged(count):
        with torch.autocast(device, torch.bfloat16, enabled=recipe.tasks is long_tasks):
            r = exact_match(judged, tokenizer, config, test_set, gen, steps, block)
        print(f"  {name} gen {gen} steps {steps} block {block}: "
              + " ".join(f"{k} {v:.3f}" for k, v in r.items()), flush=True)


def batch_loss(run, batch, mask_token, device):
    """(the weighted loss of a batch of Batches, a scalar; its tokens) with bf16 products."""
    ids, prompts, answers, stated = (torch.from_numpy(a).to(device, non_blocking=True) for a in batch)
    noisy, weight = corrupt(ids, prompts, answers, stated, mask_token)
    with torch.autocast(device, torch.bfloat16):
        logits = run(noisy)
    loss = F.cross_entropy(logits.float().flatten(0, 1), ids.flatten(), reduction="none")
    return (loss.view_as(weight) * weight).sum(), ids.numel()


def start(args, recipe, make):
    """The model, with the weights of --init if given."""
    model = make()
    if args.init:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        from heddle_reference.weights import read_safetensors
        weights = read_safetensors(os.path.join(args.init, "model.safetensors"))
        model.load_state_dict({name: weights[families.file_name(recipe.family, name)]
                               for name in model.state_dict()})
    return model


def optimizers(args, model, device):
    """(AdamW, Muon for the blocks' matrices or None)"""
    inner = [v for k, v in model.named_parameters() if "layers" in k and v.dim() == 2]
    outer = [v for k, v in model.named_parameters() if "layers" not in k or v.dim() != 2]
    muon = Muon(inner) if args.muon else None
    return torch.optim.AdamW(outer if muon else list(model.parameters()), lr=args.rate,
                             betas=(0.9, args.beta2), weight_decay=0.01,
                             fused=device == "cuda"), muon


def update(args, model, optimizer, muon, loss, share):
    """A step of both optimizers at `share` of their rates, left out where the gradients are not finite. Returns the
    gradients' norm."""
    for group in optimizer.param_groups:
        group["lr"] = args.rate * share
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    if math.isfinite(norm):
        optimizer.step()
        if muon:
            muon.step(args.muon * share)
    return norm


def main(args):
    recipe = shape(args)
    family = recipe.family
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    tokenizer = family.load_tokenizer(args.model)
    config = family.config(tokenizer, args)
    make = lambda: Model(config["vocab_size"], args, family).to(device)
    model = start(args, recipe, make)
    average = {k: v.detach().clone() for k, v in model.named_parameters()}
    optimizer, muon = optimizers(args, model, device)
    run = torch.compile(model, dynamic=True) if args.compile else model
    passed = multiprocessing.Value(ctypes.c_double, args.from_stage, lock=False)
    loader = torch.utils.data.DataLoader(
        Batches(recipe, args.model, args.tokens, args.seed, passed), batch_size=None,
        num_workers=args.workers, prefetch_factor=4, collate_fn=lambda b: b)
    print(f"{sum(v.numel() for v in model.parameters())} parameters, "
          f"vocabulary {config['vocab_size']}, {device}", flush=True)

    def finish(judges):
        save(args.out, average, config, family)
        if judges and args.judge:
            judged = make()
            judged.load_state_dict({k: v.to(torch.bfloat16).float() for k, v in average.items()})
            judge(judged, recipe, tokenizer, config, args.judge, device)

    begin = time.time()
    limit = args.minutes * 60
    saved = printed = begin
    step = seen = 0
    recent = []
    for batch in loader:
        over = (time.time() - begin) / limit
        if over >= 1:
            break
        passed.value = args.from_stage + (1 - args.from_stage) * over
        share = min(1, (step + 1) / 500) * min(1, (1 - over) / args.decay)
        loss, tokens = batch_loss(run, batch, config["mask_token_id"], device)
        norm = update(args, model, optimizer, muon, loss, share)
        if not math.isfinite(norm):
            print(f"step {step}: gradient norm {norm}, batch skipped", flush=True)
            continue
        keep = min(0.998, step / (step + 20))
        with torch.no_grad():
            torch._foreach_lerp_(list(average.values()), list(model.parameters()), 1 - keep)
        step += 1
        seen += tokens
        recent.append(loss.detach())
        now = time.time()
        if now - printed > 10:
            print(f"{now - begin:6.0f} s  step {step}  {seen / 1e6:.0f} M tokens  "
                  f"loss {torch.stack(recent).mean().item():.4f}  rate {args.rate * share:.2e}", flush=True)
            recent, printed = [], now
        if now - saved > args.save_minutes * 60 and over < 0.95:
            finish(recipe.tasks is not long_tasks)
            saved = time.time()
    finish(True)
    print(f"done: {step} steps, {seen / 1e6:.0f} M tokens, {time.time() - begin:.0f} s", flush=True)
    os._exit(0)  # the workers hold nothing worth waiting for


if __name__ == "__main__":
    main(ARGS)
