# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every published method and some compositions, stated plainly, to hold the C++ runtime against.

Written from the papers (PulseCol, SparseD, DyLLM, Window-Diffusion) and from what
is documented of the released code, sharing nothing with the C++ code; slow on
purpose. f32, temperature 0, ties by lowest index; prompts one at a time.

  models.py      LLaDA and Dream as pieces that take any subset of rows
  run.py         the denoising loop
  commit.py      which predictions become tokens
  pairs.py       dense, windows, PulseCol, SparseD and their ablations
  cached.py      Fast-dLLM, dKV-Cache, Window-Diffusion
  dyllm.py       DyLLM
  dllm_cache.py  dLLM-Cache
  drift.py       columns and block caches that are refreshed by drift
  composed.py    compositions: columns, moving window, saliency; ranges of layers
  trace.py       the record of a run: its format, and comparing two
  catalogue.py   all of these by name, as the papers define them or as released

Where paper and code differ, the paper is the default; docs/Spec/Behaviours.md
has the list.
"""
