/*===- gpu.c - The C API on a GPU -----------------------------------------===*\
|*                                                                            *|
|* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/
/* usage: gpu MODEL_FOLDER RUN_BUNDLE ATTENTION_BUNDLE
 *
 * Attention in a CUDA stream, alone and replayed from a graph, against loops in
 * double; a run of a model on the GPU; what is refused. Not built by CMake,
 * since it needs a GPU and NVIDIA's headers:
 *
 *   heddlec examples/fast-dllm-dual.mlir --target=cuda --dtype=bf16 -o run.hdl
 *   echo 'heddle.schedule @near { %near = window(64) attend pairs(%near) }' \
 *     | heddlec - --target=cuda --dtype=bf16 -o near.hdl
 *   cc -std=c11 embed/test/gpu.c -o gpu $(pkg-config --cflags --libs heddle) \
 *     -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -lm
 *   ./gpu models/heddle-4m run.hdl near.hdl
 */

#include <heddle/heddle.h>

#include <cuda_runtime_api.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rows = 333, heads = 4, kv_heads = 2, dim = 64, reach = 32 };
enum { width = (heads + 2 * kv_heads) * dim, outputs = rows * heads * dim };

static uint16_t qkv[rows][width]; /* bf16; a row: q, k, v */
static uint16_t output[rows][heads][dim];
static int failed;

static void check(heddle_status status) {
  if (status == HEDDLE_OK)
    return;
  fprintf(stderr, "gpu: %s\n", heddle_last_error());
  exit(1);
}

static void cuda(cudaError_t status) {
  if (status == cudaSuccess)
    return;
  fprintf(stderr, "gpu: %s\n", cudaGetErrorString(status));
  exit(1);
}

static void expect(int holds, const char *what) {
  printf("%s  %s\n", holds ? "passed" : "FAILED", what);
  failed += !holds;
}

static float wide(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t narrow(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double largest_difference(void) {
  double worst = 0;
  for (int row = 0; row < rows; ++row)
    for (int head = 0; head < heads; ++head) {
      const uint16_t *q = qkv[row] + head * dim;
      double sum = 0, wanted[dim] = {0};
      for (int key = 0; key < rows; ++key) {
        const uint16_t *k =
            qkv[key] + (heads + head / (heads / kv_heads)) * dim;
        const uint16_t *v = k + kv_heads * dim;
        double logit = 0;
        if (abs(key - row) > reach)
          continue;
        for (int i = 0; i < dim; ++i)
          logit += (double)wide(q[i]) * wide(k[i]);
        double weight = exp(logit / sqrt(dim));
        sum += weight;
        for (int i = 0; i < dim; ++i)
          wanted[i] += weight * wide(v[i]);
      }
      for (int i = 0; i < dim; ++i) {
        double off = fabs(wanted[i] / sum - wide(output[row][head][i]));
        worst = off <= worst ? worst : off; /* NaN too */
      }
    }
  return worst;
}

static void attends(const char *path) {
  heddle_bundle *bundle;
  heddle_attention *attention;
  heddle_call *call;
  size_t workspace;

  check(heddle_bundle_open(path, &bundle));
  expect(heddle_attention_create(bundle, 1, 4096, &attention) != HEDDLE_OK,
         "a GPU that is not there is refused");
  check(heddle_attention_create(bundle, 1, 0, &attention));
  heddle_attention_shape shape = {.size = sizeof shape,
                                  .dtype = "bf16",
                                  .sequences = 1,
                                  .length = rows,
                                  .query_heads = heads,
                                  .kv_heads = kv_heads,
                                  .head_dim = dim,
                                  .query_row_stride = width,
                                  .key_row_stride = width,
                                  .value_row_stride = width};
  heddle_attention *host;
  check(heddle_attention_create(bundle, 1, -1, &host));
  expect(heddle_call_create(host, &shape, &call) != HEDDLE_OK,
         "the host is refused: the bundle has no code for it");
  check(heddle_attention_destroy(host));
  shape.dtype = "f32";
  expect(heddle_call_create(attention, &shape, &call) != HEDDLE_OK,
         "f32 on a GPU is refused");
  shape.dtype = "bf16";
  check(heddle_call_create(attention, &shape, &call));
  check(heddle_call_memory(call, 0, NULL, &workspace));

  for (int i = 0; i < rows * width; ++i)
    (&qkv[0][0])[i] = narrow((float)(rand() % 2001 - 1000) / 1000);
  uint16_t *memory, *made;
  void *work;
  cudaStream_t stream;
  cuda(cudaMalloc((void **)&memory, sizeof qkv));
  cuda(cudaMalloc((void **)&made, sizeof output));
  cuda(cudaMalloc(&work, workspace + 1));
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cuda(
      cudaMemcpyAsync(memory, qkv, sizeof qkv, cudaMemcpyHostToDevice, stream));
  cuda(cudaMemsetAsync(made, 0xff, sizeof output, stream)); /* NaN */
  cuda(cudaMemsetAsync(work, 0xff, workspace, stream));
  heddle_attention_run run = {
      .size = sizeof run,
      .query = memory,
      .key = memory + heads * dim,
      .value = memory + (heads + kv_heads) * dim,
      .query_bytes = sizeof qkv,
      .key_bytes = sizeof qkv - heads * dim * sizeof(uint16_t),
      .value_bytes = sizeof qkv - (heads + kv_heads) * dim * sizeof(uint16_t),
      .output = made,
      .output_bytes = sizeof output,
      .workspace = work,
      .workspace_bytes = workspace,
      .stream = stream};
  run.output_bytes = sizeof output - 2;
  expect(heddle_call_run(call, &run) != HEDDLE_OK,
         "an output that is too small is refused");
  run.output_bytes = sizeof output;
  check(heddle_call_run(call, &run));
  cuda(cudaMemcpyAsync(output, made, sizeof output, cudaMemcpyDeviceToHost,
                       stream));
  cuda(cudaStreamSynchronize(stream));
  expect(largest_difference() < 0.01, "attention in a stream, against loops");

  /* Recorded once, replayed over other numbers. */
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  check(heddle_call_run(call, &run));
  cuda(cudaStreamEndCapture(stream, &graph));
  cuda(cudaGraphInstantiate(&ready, graph, 0));
  for (int i = 0; i < rows * width; ++i)
    (&qkv[0][0])[i] = narrow((float)(rand() % 2001 - 1000) / 1000);
  cuda(
      cudaMemcpyAsync(memory, qkv, sizeof qkv, cudaMemcpyHostToDevice, stream));
  cuda(cudaMemsetAsync(made, 0xff, sizeof output, stream));
  cuda(cudaGraphLaunch(ready, stream));
  cuda(cudaMemcpyAsync(output, made, sizeof output, cudaMemcpyDeviceToHost,
                       stream));
  cuda(cudaStreamSynchronize(stream));
  expect(largest_difference() < 0.01,
         "the same from a graph, over other numbers");

  cuda(cudaGraphExecDestroy(ready));
  cuda(cudaGraphDestroy(graph));
  cuda(cudaStreamDestroy(stream));
  cuda(cudaFree(memory));
  cuda(cudaFree(made));
  cuda(cudaFree(work));
  check(heddle_call_destroy(call));
  check(heddle_attention_destroy(attention));
  check(heddle_bundle_destroy(bundle));
}

static int on_step(const heddle_step *step, void *user_data) {
  *(int64_t *)user_data += (int64_t)step->commits;
  return 0;
}

static void generates(const char *folder, const char *path) {
  heddle_bundle *bundle;
  heddle_model *model;
  heddle_generation *generation;
  heddle_load_options load = {
      .size = sizeof load, .device = "cuda", .dtype = "bf16"};
  int64_t commits = 0;

  check(heddle_bundle_open(path, &bundle));
  check(heddle_model_load(folder, &load, &model));
  heddle_prompt prompts[] = {{.text = "Sort 52 17 90 33."},
                             {.text = "Add 4821 and 977."}};
  heddle_generate_options options = {
      .size = sizeof options,
      .json = "{\"gen_length\": 64, \"steps\": 64, \"block_length\": 32}",
      .on_step = on_step,
      .user_data = &commits};
  check(heddle_generate(model, bundle, prompts, 2, &options, &generation));
  expect(commits == 128, "each token of a run on the GPU was told once");
  for (size_t i = 0; i < 2; ++i) {
    heddle_response response = {.size = sizeof response};
    check(heddle_generation_response(generation, i, &response));
    printf("        %s -> %s\n", prompts[i].text, response.text);
  }
  check(heddle_generation_destroy(generation));
  check(heddle_model_destroy(model));
  check(heddle_bundle_destroy(bundle));
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: gpu MODEL_FOLDER RUN_BUNDLE ATTENTION_BUNDLE\n");
    return 2;
  }
  attends(argv[3]);
  generates(argv[1], argv[2]);
  printf("%d failed\n", failed);
  return failed != 0;
}
