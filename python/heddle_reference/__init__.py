# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plain statement of what Heddle computes, to judge it against.

The forward passes and samplers of LLaDA and Dream and the sparse schedules, written for
obviousness in PyTorch (1.13 or later; NumPy is the only other need), with
nothing shared with the C++ code. Attention is an n x n softmax under a mask.
"""
