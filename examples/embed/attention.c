/*===- attention.c - A schedule's attention on tensors, in C --------------===*\
|*                                                                            *|
|* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/
/* usage: attention
 *
 * Attention of each query to the keys at most 32 positions away, with 4 query
 * heads on 2 of keys and values that lie in one array; once by Heddle and once
 * by three loops, which must agree. */

#include <heddle/heddle.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { rows = 200, heads = 4, kv_heads = 2, dim = 64, reach = 32 };
enum { width = (heads + 2 * kv_heads) * dim };

static float qkv[rows][width]; /* a row: q, k, v */
static float output[rows][heads][dim];

static void check(heddle_status status) {
  if (status == HEDDLE_OK)
    return;
  fprintf(stderr, "attention: %s\n", heddle_last_error());
  exit(1);
}

static double largest_difference(void) {
  double worst = 0;
  for (int row = 0; row < rows; ++row)
    for (int head = 0; head < heads; ++head) {
      const float *q = qkv[row] + head * dim;
      double sum = 0, wanted[dim] = {0};
      for (int key = 0; key < rows; ++key) {
        const float *k = qkv[key] + (heads + head / (heads / kv_heads)) * dim;
        const float *v = k + kv_heads * dim;
        double logit = 0;
        if (abs(key - row) > reach)
          continue;
        for (int i = 0; i < dim; ++i)
          logit += (double)q[i] * k[i];
        double weight = exp(logit / sqrt(dim));
        sum += weight;
        for (int i = 0; i < dim; ++i)
          wanted[i] += weight * v[i];
      }
      for (int i = 0; i < dim; ++i)
        worst = fmax(worst, fabs(wanted[i] / sum - output[row][head][i]));
    }
  return worst;
}

int main(void) {
  heddle_bundle *bundle;
  heddle_attention *attention;
  heddle_call *call;
  size_t workspace;

  heddle_compile_options options = {
      .size = sizeof options, .dtypes = "f32", .head_dims = "64"};
  check(heddle_compile("heddle.schedule @near {\n"
                       "  %near = window(64)\n" /* 32 on either side */
                       "  attend pairs(%near)\n"
                       "}\n",
                       &options, &bundle));
  check(heddle_attention_create(bundle, 1, -1, &attention));
  heddle_attention_shape shape = {.size = sizeof shape,
                                  .dtype = "f32",
                                  .sequences = 1,
                                  .length = rows,
                                  .query_heads = heads,
                                  .kv_heads = kv_heads,
                                  .head_dim = dim,
                                  .query_row_stride = width,
                                  .key_row_stride = width,
                                  .value_row_stride = width};
  check(heddle_call_create(attention, &shape, &call));
  check(heddle_call_memory(call, 0, NULL, &workspace));

  for (int i = 0; i < rows * width; ++i)
    (&qkv[0][0])[i] = (float)(rand() % 2001 - 1000) / 1000;
  const float *query = &qkv[0][0], *key = query + heads * dim,
              *value = key + kv_heads * dim;
  heddle_attention_run run = {
      .size = sizeof run,
      .query = query,
      .key = key,
      .value = value,
      /* from its first element on; the last row ends before the array does */
      .query_bytes = sizeof qkv,
      .key_bytes = sizeof qkv - heads * dim * sizeof(float),
      .value_bytes = sizeof qkv - (heads + kv_heads) * dim * sizeof(float),
      .output = output,
      .output_bytes = sizeof output,
      .workspace = malloc(workspace + 1),
      .workspace_bytes = workspace};
  check(heddle_call_run(call, &run));
  free(run.workspace);

  double difference = largest_difference();
  printf("largest difference from the loops: %s\n",
         difference < 1e-5 ? "less than 0.00001" : "too large");
  check(heddle_call_destroy(call));
  check(heddle_attention_destroy(attention));
  check(heddle_bundle_destroy(bundle));
  return difference < 1e-5 ? 0 : 1;
}
