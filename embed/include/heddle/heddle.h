/*===- heddle.h - Heddle for C and whatever calls C ---------------*- C -*-===*\
|*                                                                            *|
|* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Compile schedules, run models, compute attention on your own tensors.      *|
|* docs/HowTo/UseFromC.md shows how; examples/embed/example.c is a program.   *|
|*                                                                            *|
|* Errors. Every call that can fail returns a heddle_status, and sets what it *|
|* makes to NULL or 0 first. heddle_last_error() is the sentence: what was    *|
|* found, what was expected, what to do; for a schedule with line and column. *|
|*                                                                            *|
|* Handles (heddle_bundle * and so on) are numbers in the shape of pointers,  *|
|* never read through. One that was destroyed, is of another kind or never    *|
|* was one is HEDDLE_INVALID_ARGUMENT. Destroy handles in any order, also     *|
|* while other threads use them: what is used stays until it is not.          *|
|*                                                                            *|
|* Structs begin with their size: `heddle_load_options o = {.size = sizeof    *|
|* o};`, the rest 0. A later version adds fields at the end; those that a     *|
|* caller's size leaves out are 0. Where a struct may be NULL, all of it is 0.*|
|* A field that says API 2 is there where heddle_api_version() is 2 or more.  *|
|*                                                                            *|
|* Memory that a call gets stays the caller's; it is read during the call     *|
|* alone. Memory that a call gives is the handle's that it was asked of, and  *|
|* goes with it. Strings are UTF-8 and end in a 0.                            *|
|*                                                                            *|
|* Threads. Every function may be called from any thread at any time. Runs of *|
|* one model come one after the other, and steps on the host take turns,      *|
|* since each uses all cores. After a fork the child can run nothing that its *|
|* parent has run; that is an error. Nothing here handles signals.            *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef HEDDLE_HEDDLE_H
#define HEDDLE_HEDDLE_H

#include <stddef.h>
#include <stdint.h>

/* Grows when functions or fields are added; libheddle.so.1 serves every
 * program that was compiled against the same or a smaller number. */
#define HEDDLE_C_API 2

#ifdef __GNUC__
#define HEDDLE_C_EXPORT __attribute__((visibility("default")))
#else
#define HEDDLE_C_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_bundle heddle_bundle;         /* a compiled schedule */
typedef struct heddle_model heddle_model;           /* weights on a device */
typedef struct heddle_generation heddle_generation; /* what a run made */
typedef struct heddle_attention heddle_attention;   /* a bundle's kernels */
typedef struct heddle_call heddle_call;             /* attention of a shape */

/* An int32_t wherever it is stored; later versions may add values. */
typedef enum heddle_status {
  HEDDLE_OK = 0,
  HEDDLE_INVALID_ARGUMENT = 1, /* a NULL, handle, size or number that the call
                                  cannot take: a bug in the caller */
  HEDDLE_FAILED = 2,           /* a file, machine or run is not as it must be */
  HEDDLE_SCHEDULE_ERROR = 3,   /* the compiler refuses the schedule */
  HEDDLE_NO_COMPILER = 4,      /* there is no heddlec to compile with */
  HEDDLE_INTERRUPTED = 5,      /* a load was ended by its `interrupted` */
  HEDDLE_OUT_OF_MEMORY = 6,
  HEDDLE_INTERNAL_ERROR = 7 /* a bug in Heddle */
} heddle_status;

/* Heddle's version, "0.1.0"; lives forever. */
HEDDLE_C_EXPORT const char *heddle_version(void);
/* HEDDLE_C_API of the library that was loaded. */
HEDDLE_C_EXPORT uint32_t heddle_api_version(void);
/* Why this thread's last call of a function that returns a heddle_status
 * failed, "" if it did not; lives until this thread's next such call. */
HEDDLE_C_EXPORT const char *heddle_last_error(void);
/* What the compiler warned of in this thread's last heddle_compile(), such as a
 * value that has no effect, a line each with the place; "" for nothing. Lives
 * until this thread's next heddle_compile(). */
HEDDLE_C_EXPORT const char *heddle_last_warnings(void);
/* Cores that the host's models use, 0: all. Refused once anything has run. */
HEDDLE_C_EXPORT heddle_status heddle_set_threads(int32_t threads);

/*===-- Bundles -----------------------------------------------------------===*/

typedef struct heddle_compile_options {
  size_t size;
  const char *name;      /* of the text, in errors; NULL: "schedule" */
  const char *schedule;  /* which one of the text; NULL: the only one */
  const char *targets;   /* as heddlec --target: "host,cuda"; NULL: "host" */
  const char *dtypes;    /* as --dtype: "f32,bf16"; NULL: each target's */
  const char *head_dims; /* as --head-dim: "64,128"; NULL: these */
  const char *const *parameters; /* "name=value", ..., NULL: as --set */
  const char *compiler;          /* heddlec; NULL: $HEDDLEC, else ../bin/heddlec
                                    beside libheddle.so, else the one on PATH */
  const char *cache;             /* folder of compiled code; NULL: heddlec's own
                                    choice; "": none */
} heddle_compile_options;

/* Compiles a schedule's text (docs/Spec). It is done by the program heddlec in
 * a process of its own, so that no LLVM comes into this one.
 * HEDDLE_SCHEDULE_ERROR: heddle_last_error() is what the compiler says,
 * "schedule:3:33: error: ..." with the line. HEDDLE_NO_COMPILER: this
 * installation has a runtime alone, and no other heddlec is named or found. */
HEDDLE_C_EXPORT heddle_status
heddle_compile(const char *text, const heddle_compile_options *options,
               heddle_bundle **bundle);
/* Reads a file that heddlec or heddle_bundle_write() wrote. It holds machine
 * code: open only files that you would run a program from. */
HEDDLE_C_EXPORT heddle_status heddle_bundle_open(const char *path,
                                                 heddle_bundle **bundle);
/* The same from memory, which is copied. */
HEDDLE_C_EXPORT heddle_status heddle_bundle_parse(const void *bytes,
                                                  size_t size,
                                                  heddle_bundle **bundle);
/* A bundle's bytes, which live with it. */
HEDDLE_C_EXPORT heddle_status heddle_bundle_bytes(heddle_bundle *bundle,
                                                  const void **bytes,
                                                  size_t *size);
/* Writes them to a file, whole or not at all. */
HEDDLE_C_EXPORT heddle_status heddle_bundle_write(heddle_bundle *bundle,
                                                  const char *path);
/* A JSON object {"schedule", "producer", "targets", "source"} that lives with
 * the bundle. */
HEDDLE_C_EXPORT heddle_status heddle_bundle_describe(heddle_bundle *bundle,
                                                     const char **json);
/* NULL is fine, as for every destroy. */
HEDDLE_C_EXPORT heddle_status heddle_bundle_destroy(heddle_bundle *bundle);

/*===-- Models ------------------------------------------------------------===*/

typedef struct heddle_load_options {
  size_t size;
  const char *device; /* "cpu", "cuda", "cuda:1"; NULL: "cpu" */
  const char *dtype;  /* "f32", "bf16", "f16"; NULL: the weights', or the
                         nearest that the device computes in */
  int (*interrupted)(void *user_data); /* asked now and then; not 0: end */
  void *user_data;
} heddle_load_options;

/* Loads a model's folder in Hugging Face's layout: LLaDA or Dream. */
HEDDLE_C_EXPORT heddle_status
heddle_model_load(const char *folder, const heddle_load_options *options,
                  heddle_model **model);
/* A JSON object that lives with the model: {"device", "dtype",
 * "weight_bytes", "architecture", "sampler", "layers", "hidden",
 * "query_heads", "kv_heads", "head_dim", "vocabulary",
 * "max_sequence_length", "mask_token", "eos_token"}. */
HEDDLE_C_EXPORT heddle_status heddle_model_describe(heddle_model *model,
                                                    const char **json);
/* A text's tokens: *count of them, of which the first `capacity` go to `ids`
 * (which may be NULL with 0). */
HEDDLE_C_EXPORT heddle_status heddle_model_encode(heddle_model *model,
                                                  const char *text,
                                                  int32_t *ids, size_t capacity,
                                                  size_t *count);
/* The text of tokens without special ones: *length bytes, of which the first
 * capacity - 1 and a 0 go to `text` (which may be NULL with 0). */
HEDDLE_C_EXPORT heddle_status heddle_model_decode(heddle_model *model,
                                                  const int32_t *ids,
                                                  size_t count, char *text,
                                                  size_t capacity,
                                                  size_t *length);
/* Ends the model's run under way, of any thread, after its step; the run's
 * call then succeeds with what there is. Without a run nothing happens. */
HEDDLE_C_EXPORT heddle_status heddle_model_cancel(heddle_model *model);
/* Frees the weights, after the runs of other threads. */
HEDDLE_C_EXPORT heddle_status heddle_model_destroy(heddle_model *model);

/*===-- Runs --------------------------------------------------------------===*/

/* Either a text or ids. */
typedef struct heddle_prompt {
  const char *text; /* NULL: ids */
  const int32_t *ids;
  size_t count; /* of ids */
} heddle_prompt;

/* What a step did, which is one forward pass: of a schedule with `verify`
 * several steps of a sequence, one after the other. Arrays are [commits] and
 * live until the callback returns. A schedule whose commits `revoke` makes
 * masks of tokens again: these are commits of the mask token, with the
 * probability of the token that was there. One whose commits `edit` gives
 * tokens to positions that had others. */
typedef struct heddle_step {
  size_t size;         /* as this library knows it */
  int64_t step;        /* from 1 */
  int64_t total_steps; /* as planned, or `step` when that is more */
  int64_t block;       /* from 0 */
  size_t commits;
  const int64_t *sequences; /* indices of prompts */
  const int64_t *positions; /* in the sequence, prompt included */
  const int32_t *tokens;    /* committed there */
  /* Each token's probability, in [0, 1]. With "alg": "topk_margin" the
   * difference of the two largest, in [0, 1]; with "entropy", and of a
   * schedule that commits by entropy, the negative entropy in nats, at most 0;
   * with "remasking": "random" a random number in (0, 1). */
  const double *confidences;
  int64_t rows; /* that the step computed */
  double seconds;
  /* API 2. The step of its sequence, from 1, that made each commit: `step`, but
   * with `verify` any of those that the pass made. */
  const int64_t *steps;
} heddle_step;

typedef struct heddle_generate_options {
  size_t size;
  /* A JSON object of heddle-run's options, `{"gen_length": 64, "steps": 32}`:
   * gen_length, steps, block_length, temperature, seed, cfg_scale, remasking,
   * logits_eos_inf, confidence_eos_eot_inf, alg, alg_temp, eps, top_p, top_k,
   * eot_id, commit_order, chat, system, raw (docs/HowTo/Run.md). NULL: the
   * model's own. */
  const char *json;
  /* Called after each step in the thread of the call; not 0 ends the run.
   * It must return, and cannot run or destroy anything of this model. */
  int (*on_step)(const heddle_step *step, void *user_data);
  void *user_data;
} heddle_generate_options;

/* Denoises all prompts in one ragged batch. The same model, bundle, options and
 * prompts give the same tokens, whatever the batch and the threads. */
HEDDLE_C_EXPORT heddle_status heddle_generate(
    heddle_model *model, heddle_bundle *bundle, const heddle_prompt *prompts,
    size_t count, const heddle_generate_options *options,
    heddle_generation **generation);

/* What a run made of one of its prompts; lives with the generation. */
typedef struct heddle_response {
  size_t size;
  const int32_t *tokens; /* prompt and response; masked ones if it was ended */
  size_t count;
  size_t prompt_count; /* of these, the prompt's */
  const char *text;    /* of the response, up to its end; "" where the model
                          has no tokenizer */
} heddle_response;

/* Fills in the fields that response->size has room for. */
HEDDLE_C_EXPORT heddle_status heddle_generation_response(
    heddle_generation *generation, size_t index, heddle_response *response);

typedef struct heddle_summary {
  size_t size;
  int64_t responses;
  int64_t steps;
  int64_t complete; /* 0: a callback or heddle_model_cancel() ended it */
  double seconds;   /* of all steps */
} heddle_summary;

HEDDLE_C_EXPORT heddle_status heddle_generation_summary(
    heddle_generation *generation, heddle_summary *summary);
HEDDLE_C_EXPORT heddle_status
heddle_generation_destroy(heddle_generation *generation);

/*===-- Attention ---------------------------------------------------------===*\
|* A bundle's attention on the caller's tensors, without a model or a copy: *|
|* for schedules of nothing but `attend` statements.                         *|
\*===----------------------------------------------------------------------===*/

/* Loads a bundle's kernels. layers: of the run, at least 1 (1 for attention as
 * a function). device: a GPU's number, -1 for the host. */
HEDDLE_C_EXPORT heddle_status
heddle_attention_create(heddle_bundle *bundle, int64_t layers, int64_t device,
                        heddle_attention **attention);
HEDDLE_C_EXPORT heddle_status
heddle_attention_destroy(heddle_attention *attention);

/* Tensors [sequences, length, heads, head_dim]. Heads of a row and elements of
 * a head are contiguous; sequences and rows are so many elements apart. */
typedef struct heddle_attention_shape {
  size_t size;
  const char *dtype; /* "f32" or "bf16" on the host, "bf16" or "f16" on a GPU */
  int64_t sequences;
  int64_t length;      /* of each sequence, prompt included */
  int64_t prompt;      /* in [0, length]; blocks may isolate it */
  int64_t query_heads; /* a multiple of kv_heads */
  int64_t kv_heads;
  int64_t head_dim;
  /* Elements, 0: contiguous. */
  int64_t query_sequence_stride, query_row_stride;
  int64_t key_sequence_stride, key_row_stride;
  int64_t value_sequence_stride, value_row_stride;
  int64_t output_sequence_stride, output_row_stride;
} heddle_attention_shape;

HEDDLE_C_EXPORT heddle_status
heddle_call_create(heddle_attention *attention,
                   const heddle_attention_shape *shape, heddle_call **call);
/* Bytes of the selections that a layer keeps from step to step or reads of
 * another layer (0: none), and of memory that a run of the call works in.
 * Either pointer may be NULL. */
HEDDLE_C_EXPORT heddle_status heddle_call_memory(heddle_call *call,
                                                 int64_t layer,
                                                 size_t *list_bytes,
                                                 size_t *workspace_bytes);
/* The layer whose selections' memory runs of `layer` take: itself, or the one
 * before it that chooses what it reads. -1: none. */
HEDDLE_C_EXPORT heddle_status heddle_call_list_layer(heddle_call *call,
                                                     int64_t layer,
                                                     int64_t *of);

enum {
  HEDDLE_ALL = 0,    /* attention, and the selections that are due */
  HEDDLE_SELECT = 1, /* these alone; reads no value, writes no output */
  HEDDLE_ATTEND = 2  /* attention alone, over selections made before */
};

/* One layer's attention at one step. Memory is the device's. */
typedef struct heddle_attention_run {
  size_t size;
  int64_t part;        /* HEDDLE_ALL, ... */
  int64_t layer;       /* from 0 */
  int64_t step;        /* from 1; 0 means 1 */
  int64_t steps;       /* of the run; 0 means 1 */
  int64_t block_steps; /* of each block; 0: one block */
  const void *query, *key, *value;
  size_t query_bytes, key_bytes, value_bytes;
  void *output;
  size_t output_bytes;
  void *lists; /* begins at a multiple of 64; zeros before the first step, then
                  nothing but what calls of this layer, or of
                  heddle_call_list_layer()'s, wrote: on the host other bytes
                  are refused, on a GPU kernels read where they point */
  size_t list_bytes;
  void *workspace; /* of any contents */
  size_t workspace_bytes;
  void
      *stream; /* of a GPU: a CUstream or cudaStream_t, NULL: the default one */
} heddle_attention_run;

/* On the host it returns when it is done. On a GPU it puts its work into the
 * stream and waits for nothing: memory must stay until the work is done, and a
 * CUDA graph may record the call. */
HEDDLE_C_EXPORT heddle_status heddle_call_run(heddle_call *call,
                                              const heddle_attention_run *run);
HEDDLE_C_EXPORT heddle_status heddle_call_destroy(heddle_call *call);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_HEDDLE_H */
