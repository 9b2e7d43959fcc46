//===- PeakLoops.cpp - The most that this CPU can multiply ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/PeakLoops.h"

#include "runtime/module/CpuFeatures.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

using namespace heddle::bench;

// Enough accumulators to hide the latency: 4 or 5 cycles at 2 a cycle, with
// room to spare; all fit the register file. The assembly keeps the compiler
// from folding the loop.

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) static void fmaAvx2(int64_t iterations) {
  __m256 acc[12] = {}, a = _mm256_set1_ps(1), b = _mm256_set1_ps(1e-9f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (__m256 &sum : acc)
      asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  }
}

__attribute__((target("avx512f"))) static void fmaAvx512(int64_t iterations) {
  __m512 acc[24] = {}, a = _mm512_set1_ps(1), b = _mm512_set1_ps(1e-9f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (__m512 &sum : acc)
      asm volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  }
}

__attribute__((target("avx512f"))) static void dotAvx512(int64_t iterations) {
  __m512 acc[24] = {}, a = _mm512_set1_ps(1), b = _mm512_set1_ps(1e-9f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (__m512 &sum : acc)
      asm volatile("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  }
}

__attribute__((target("amx-tile,amx-bf16"))) static void
dotAmx(int64_t iterations) {
  // Palette 1: eight tiles of 16 rows of 64 bytes.
  struct alignas(64) {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  // GCC 12 takes _tile_loadconfig to read one pointer only and drops the rest.
  asm volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

std::vector<PeakLoop> heddle::bench::peakLoops() {
  auto usable = [](const char *feature) {
    return rt::cpuFeature(feature) == rt::FeatureState::Usable;
  };
  std::vector<PeakLoop> loops;
  if (usable("avx512f"))
    loops.push_back({"fma_f32", "avx512f", 24 * 16 * 2, fmaAvx512});
  else if (usable("avx2") && usable("fma"))
    loops.push_back({"fma_f32", "avx2", 12 * 8 * 2, fmaAvx2});
  if (usable("avx512bf16"))
    loops.push_back({"dot_bf16", "avx512bf16", 24 * 16 * 2 * 2, dotAvx512});
  if (usable("amx-bf16") && usable("amx-tile"))
    loops.push_back({"amx_bf16", "amx-bf16", 4 * 16 * 16 * 32 * 2, dotAmx});
  return loops;
}

#elif defined(__aarch64__)

static void fmaNeon(int64_t iterations) {
  float32x4_t acc[24] = {}, a = vdupq_n_f32(1), b = vdupq_n_f32(1e-9f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (float32x4_t &sum : acc)
      asm volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(a), "w"(b));
  }
}

std::vector<PeakLoop> heddle::bench::peakLoops() {
  return {{"fma_f32", "neon", 24 * 4 * 2, fmaNeon}};
}

#else

std::vector<PeakLoop> heddle::bench::peakLoops() { return {}; }

#endif
