# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The two architectures that train.py trains: what their folders say, under
which names, and in what they differ. Needs the `tokenizers` package."""

import os

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers)

from heddle.evaluation import short_tasks as tasks

# Qwen2's way to split text, which is Dream's.
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# That of LLaDA's tokenizer: single digits, words with the one character before.
LLADA = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
         r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")


class LLaDA:
    """LLaDA-8B's names and fields. Every head has its own keys."""
    eos, eot, mask = "<|endoftext|>", "<|eot_id|>", "<|mdm_mask|>"
    shifted = bias = False
    chat = staticmethod(tasks.chat)
    outer = {"embedding": "model.transformer.wte", "final_norm": "model.transformer.ln_f",
             "head": "model.transformer.ff_out"}
    layer = "model.transformer.blocks."
    inner = {"attention_norm": "attn_norm", "query": "q_proj", "key": "k_proj",
             "value": "v_proj", "attention_out": "attn_out", "mlp_norm": "ff_norm",
             "gate": "ff_proj", "up": "up_proj", "down": "ff_out"}

    @staticmethod
    def load_tokenizer(folder):
        return Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))

    @staticmethod
    def config(tokenizer, args):
        token = tokenizer.token_to_id
        vocab = tokenizer.get_vocab_size()
        return {
            "activation_type": "silu", "alibi": False,
            "architectures": ["LLaDAModelLM"], "attention_dropout": 0.0,
            "attention_layer_norm": False, "bias_for_layer_norm": False,
            "block_group_size": 1, "block_type": "llama",
            "bos_token_id": token("<|startoftext|>"), "d_model": args.width,
            "embedding_dropout": 0.0, "embedding_size": vocab,
            "eos_token_id": token("<|endoftext|>"), "flash_attention": False,
            "include_bias": False, "include_qkv_bias": False,
            "init_std": args.init_std, "input_emb_norm": False, "layer_norm_type": "rms",
            "layer_norm_with_affine": True, "mask_token_id": token("<|mdm_mask|>"),
            "max_sequence_length": args.positions, "mlp_hidden_size": args.hidden,
            "model_type": "llada", "multi_query_attention": None,
            "n_heads": args.heads, "n_kv_heads": args.kv_heads,
            "n_layers": args.layers, "pad_token_id": token("<|endoftext|>"),
            "precision": "amp_bf16", "residual_dropout": 0.0, "rms_norm_eps": 1e-05,
            "rope": True, "rope_full_precision": True, "rope_theta": args.theta,
            "scale_logits": False, "torch_dtype": "bfloat16",
            "transformers_version": "4.46.3", "use_cache": False,
            "vocab_size": vocab, "weight_tying": False}

    @staticmethod
    def generation_config(config):
        return {"_from_model_config": True, "bos_token_id": config["bos_token_id"],
                "eos_token_id": config["eos_token_id"],
                "pad_token_id": config["pad_token_id"]}


class Dream:
    """Dream-7B's: biases of query, key and value, few key heads, the row of a
    position predicts the next one."""
    eos, eot, mask = "<|endoftext|>", "<|im_end|>", "<|mask|>"
    shifted = bias = True
    chat = staticmethod(tasks.chatml)
    outer = {"embedding": "model.embed_tokens", "final_norm": "model.norm", "head": "lm_head"}
    layer = "model.layers."
    inner = {"attention_norm": "input_layernorm", "query": "self_attn.q_proj",
             "key": "self_attn.k_proj", "value": "self_attn.v_proj",
             "attention_out": "self_attn.o_proj", "mlp_norm": "post_attention_layernorm",
             "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
    # After vocab.json, in Dream's order.
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|beginoftext|>", "<|mask|>"]

    @classmethod
    def load_tokenizer(cls, folder):
        """From vocab.json and merges.txt, as Qwen2's tokenizer reads them."""
        tokenizer = Tokenizer(models.BPE.from_file(os.path.join(folder, "vocab.json"),
                                                   os.path.join(folder, "merges.txt")))
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = split_then_bytes(QWEN2)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens([AddedToken(n, normalized=False, special=True)
                                      for n in cls.special])
        return tokenizer

    @staticmethod
    def config(tokenizer, args):
        token = tokenizer.token_to_id
        return {
            "architectures": ["DreamModel"], "attention_dropout": 0.0,
            "bos_token_id": token("<|endoftext|>"), "eos_token_id": token("<|endoftext|>"),
            "hidden_act": "silu", "hidden_size": args.width,
            "initializer_range": args.init_std, "intermediate_size": args.hidden,
            "mask_token_id": token("<|mask|>"), "max_position_embeddings": args.positions,
            "max_window_layers": args.layers, "model_type": "Dream",
            "num_attention_heads": args.heads, "num_hidden_layers": args.layers,
            "num_key_value_heads": args.kv_heads, "pad_token_id": token("<|endoftext|>"),
            "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": args.theta,
            "sliding_window": None, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16", "transformers_version": "4.46.2",
            "use_cache": True, "use_sliding_window": False,
            # Dream's vocabulary is padded likewise.
            "vocab_size": -(-tokenizer.get_vocab_size() // 64) * 64}

    @staticmethod
    def generation_config(config):
        return {"_from_model_config": True, "alg": "entropy", "alg_temp": None,
                "bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"],
                "eps": 0.001, "mask_token_id": None, "output_history": False,
                "pad_token_id": config["pad_token_id"], "steps": 32, "temperature": 0.0,
                "top_k": None, "top_p": None, "transformers_version": "4.46.2"}


FAMILIES = {"llada": LLaDA, "dream": Dream}


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def file_name(family, name):
    """The tensor name in files of train.py's `name`: "layers.3.query.weight"."""
    words = name.split(".")
    if words[0] == "layers":
        return f"{family.layer}{words[1]}.{family.inner[words[2]]}.{words[3]}"
    return f"{family.outer[words[0]]}.{words[1]}"
