# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The random numbers of heddle-run, so that runs that draw can be compared:
Philox4x32-10 (Salmon et al., SC 2011), a function of what a number is for."""

import numpy as np

GUMBEL, REMASKING, TRANSFER, ORDER, COMMITS, NOISE = range(6)


def philox(counter, key):
    """Ten rounds on counter (4 arrays of 32-bit words, as uint64) under key
    (2 words)."""
    low = np.uint64(0xFFFFFFFF)
    a, b, c, d = counter
    key = list(key)
    for _ in range(10):
        left, right = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = ((right >> np.uint64(32)) ^ b ^ np.uint64(key[0]), right & low,
                      (left >> np.uint64(32)) ^ d ^ np.uint64(key[1]), left & low)
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return a, b, c, d


def uniforms(seed, stream, step, position, count=1):
    """Numbers 0 .. count - 1 of a stream at a step and a position, each in
    (0, 1): two to a counter, the upper 52 bits of 64 and a half."""
    index = np.arange((count + 1) // 2, dtype=np.uint64)
    same = lambda value: np.full_like(index, value)
    a, b, c, d = philox((index, same(position), same(step), same(stream)),
                        (seed & 0xFFFFFFFF, seed >> 32))
    words = np.stack((a | b << np.uint64(32), c | d << np.uint64(32)), 1).reshape(-1)[:count]
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0 ** -52


def gumbels(*where):
    return -np.log(-np.log(uniforms(*where)))
