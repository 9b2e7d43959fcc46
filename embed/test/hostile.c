/*===- hostile.c - A caller who does everything wrong ---------------------===*\
|*                                                                            *|
|* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/
/* usage: hostile MODEL_FOLDER [no-compiler]
 *
 * Every call must come back with a status and a sentence. */

#include <heddle/heddle.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What programs were compiled against: a field may be added at the end of a
 * struct, with a larger HEDDLE_C_API, and nothing else may change. */
_Static_assert(HEDDLE_C_API == 2, "say below what was added");
_Static_assert(sizeof(heddle_compile_options) == 72, "API 1");
_Static_assert(sizeof(heddle_load_options) == 40, "API 1");
_Static_assert(sizeof(heddle_prompt) == 24, "for ever: it has no size");
_Static_assert(offsetof(heddle_step, seconds) == 80, "API 1");
_Static_assert(offsetof(heddle_step, steps) == 88, "API 2");
_Static_assert(sizeof(heddle_step) == 96, "API 2");
_Static_assert(sizeof(heddle_generate_options) == 32, "API 1");
_Static_assert(sizeof(heddle_response) == 40, "API 1");
_Static_assert(sizeof(heddle_summary) == 40, "API 1");
_Static_assert(sizeof(heddle_attention_shape) == 128, "API 1");
_Static_assert(sizeof(heddle_attention_run) == 152, "API 1");

static int failures;

static void expect(int line, heddle_status found, heddle_status wanted,
                   const char *said) {
  const char *error = heddle_last_error();
  int fine = found == wanted && (wanted == HEDDLE_OK) == (error[0] == 0) &&
             (!said || strstr(error, said));
  if (fine)
    return;
  ++failures;
  fprintf(stderr, "hostile.c:%d: status %d, expected %d; \"%s\"%s%s\n", line,
          (int)found, (int)wanted, error, said ? ", expected " : "",
          said ? said : "");
}
#define FINE(call) expect(__LINE__, call, HEDDLE_OK, NULL)
#define BAD(call, said) expect(__LINE__, call, HEDDLE_INVALID_ARGUMENT, said)
#define REFUSED(call, said) expect(__LINE__, call, HEDDLE_FAILED, said)
#define TRUE(condition)                                                        \
  do {                                                                         \
    if (!(condition)) {                                                        \
      ++failures;                                                              \
      fprintf(stderr, "hostile.c:%d: not so: %s\n", __LINE__, #condition);     \
    }                                                                          \
  } while (0)

static const char *folder;
static const char dense[] = "heddle.schedule @d {\n  attend dense\n}\n";
static const char columns[] =
    "heddle.schedule @c {\n"
    "  %steps = cadence every(1)\n"
    "  %cols = select columns(keep = 0.5, group = 32) by mean_probability on "
    "%steps\n"
    "  attend pairs(%cols)\n}\n";

/* Layers 1 and 3 choose, 2 and 4 read what they chose, 0 takes no lists. */
static const char shared[] =
    "heddle.schedule @s {\n"
    "  %steps = cadence every(1)\n"
    "  %cols = select columns(keep = 0.25, group = 32) by mean_probability on "
    "%steps in layers(1, 3)\n"
    "  %near = window(8)\n"
    "  attend pairs(%near) in layers(0)\n"
    "  attend pairs(%cols)\n}\n";

static const char adjustable[] = "heddle.schedule @a(wide = 64) {\n"
                                 "  %near = window(wide)\n"
                                 "  attend pairs(%near)\n}\n";

static const char drafted[] = "heddle.schedule @v {\n"
                              "  commit quota verify(drafts = 3)\n"
                              "  attend dense\n}\n";

static const char idle[] = "heddle.schedule @i {\n"
                           "  %near = window(64)\n"
                           "  attend dense\n}\n";

static heddle_bundle *compiled(const char *text) {
  heddle_compile_options options = {
      .size = sizeof options, .dtypes = "f32,bf16", .head_dims = "64"};
  heddle_bundle *bundle;
  FINE(heddle_compile(text, &options, &bundle));
  return bundle;
}

static void nothing_at_all(void) {
  heddle_bundle *bundle = (heddle_bundle *)&failures;
  heddle_model *model;
  heddle_generation *generation;
  const char *json;
  const void *bytes;
  size_t size;
  BAD(heddle_bundle_open(NULL, &bundle), "path");
  TRUE(bundle == NULL);
  BAD(heddle_bundle_open("x", NULL), "bundle");
  BAD(heddle_bundle_parse(NULL, 7, &bundle), "bytes");
  BAD(heddle_compile(NULL, NULL, &bundle), "text");
  BAD(heddle_compile(dense, NULL, NULL), "bundle");
  BAD(heddle_bundle_bytes(NULL, &bytes, &size), "bundle: expected a handle");
  BAD(heddle_bundle_describe(NULL, &json), "NULL");
  BAD(heddle_bundle_write(NULL, "x"), "NULL");
  BAD(heddle_model_load(NULL, NULL, &model), "folder");
  BAD(heddle_model_load(folder, NULL, NULL), "model");
  BAD(heddle_model_describe(NULL, &json), "NULL");
  BAD(heddle_model_cancel(NULL), "NULL");
  BAD(heddle_generate(NULL, NULL, NULL, 0, NULL, &generation), "model");
  BAD(heddle_generation_response(NULL, 0, NULL), "generation");
  BAD(heddle_generation_summary(NULL, NULL), "generation");
  BAD(heddle_call_create(NULL, NULL, NULL), "call");
  BAD(heddle_call_run(NULL, NULL), "call");
  BAD(heddle_set_threads(-1), "negative");
  FINE(heddle_bundle_destroy(NULL));
  FINE(heddle_model_destroy(NULL));
  FINE(heddle_generation_destroy(NULL));
  FINE(heddle_attention_destroy(NULL));
  FINE(heddle_call_destroy(NULL));
  TRUE(heddle_api_version() == HEDDLE_C_API);
  TRUE(strlen(heddle_version()) >= 5);
}

static void files(void) {
  heddle_bundle *bundle;
  char path[] = "/tmp/heddle-hostile-XXXXXX";
  REFUSED(heddle_bundle_open("/nowhere/x.hdl", &bundle), "/nowhere/x.hdl");
  REFUSED(heddle_bundle_open("/dev/zero", &bundle), "/dev/zero");
  REFUSED(heddle_bundle_open("/", &bundle), "/");
  REFUSED(heddle_bundle_parse("HEDDLE\r\n", 8, &bundle), "bundle");
  REFUSED(heddle_bundle_parse("", 0, &bundle), "bundle");
  int file = mkstemp(path);
  TRUE(file >= 0 && ftruncate(file, (off_t)1 << 40) == 0);
  REFUSED(heddle_bundle_open(path, &bundle), "bytes");
  close(file);
  unlink(path);
}

static void no_compiler(void) {
  heddle_bundle *bundle;
  unsetenv("HEDDLEC");
  setenv("PATH", "", 1);
  expect(__LINE__, heddle_compile(dense, NULL, &bundle), HEDDLE_NO_COMPILER,
         "heddlec");
  TRUE(bundle == NULL);
}

static void compiling(void) {
  heddle_bundle *bundle;
  heddle_compile_options options = {.size = sizeof options};
  expect(
      __LINE__,
      heddle_compile("heddle.schedule @x {\n  attend wool\n}\n", NULL, &bundle),
      HEDDLE_SCHEDULE_ERROR, "schedule:2:");
  TRUE(bundle == NULL);
  options.name = "my.mlir";
  expect(__LINE__, heddle_compile("(((", &options, &bundle),
         HEDDLE_SCHEDULE_ERROR, "my.mlir:1:");
  expect(__LINE__, heddle_compile("", &options, &bundle), HEDDLE_SCHEDULE_ERROR,
         NULL);
  const char *parameters[] = {"wide=32", "wool=3", NULL};
  options.parameters = parameters;
  expect(__LINE__, heddle_compile(adjustable, &options, &bundle),
         HEDDLE_SCHEDULE_ERROR, "wool");
  parameters[1] = NULL;
  FINE(heddle_compile(adjustable, &options, &bundle));
  FINE(heddle_bundle_destroy(bundle));
  options.parameters = NULL;
  TRUE(strcmp(heddle_last_warnings(), "") == 0);
  FINE(heddle_compile(idle, &options, &bundle));
  FINE(heddle_bundle_destroy(bundle)); /* no other call takes them away */
  TRUE(strstr(heddle_last_warnings(), "my.mlir:2:11: warning: has no effect"));
  TRUE(heddle_compile("(((", &options, &bundle) == HEDDLE_SCHEDULE_ERROR);
  TRUE(strcmp(heddle_last_warnings(), "") == 0);
  /* Who ignores SIGCHLD learns no child's status. */
  signal(SIGCHLD, SIG_IGN);
  FINE(heddle_compile(idle, &options, &bundle));
  FINE(heddle_bundle_destroy(bundle));
  expect(__LINE__, heddle_compile("(((", &options, &bundle),
         HEDDLE_SCHEDULE_ERROR, "my.mlir:1:");
  signal(SIGCHLD, SIG_DFL);
  options.targets = "loom";
  REFUSED(heddle_compile(dense, &options, &bundle), "loom");
  options.targets = NULL;
  options.compiler = "/nowhere/heddlec";
  REFUSED(heddle_compile(dense, &options, &bundle), "/nowhere/heddlec");
  options.compiler = "/bin/false";
  REFUSED(heddle_compile(dense, &options, &bundle), "ended with 1");
  options.compiler = "/bin/true";
  REFUSED(heddle_compile(dense, &options, &bundle), NULL);
  options.compiler = NULL;
  /* Sizes: none, cut within a field, an older caller's, a later one's. */
  options.size = 0;
  BAD(heddle_compile(dense, &options, &bundle), "size");
  options.size = 13;
  BAD(heddle_compile(dense, &options, &bundle), "13 bytes");
  options.size = sizeof options + 8;
  BAD(heddle_compile(dense, &options, &bundle), "later heddle.h");
  options.size = (size_t)-8;
  BAD(heddle_compile(dense, &options, &bundle), "later heddle.h");
  options.compiler = "/nowhere/heddlec";
  options.size = offsetof(heddle_compile_options, compiler);
  FINE(heddle_compile(dense, &options, &bundle)); /* ... of which it is none */
  FINE(heddle_bundle_destroy(bundle));
}

struct Stop {
  heddle_model *model;
  heddle_bundle *bundle;
  int64_t after, steps;
};

static int stop(const heddle_step *step, void *user_data) {
  struct Stop *stop = user_data;
  heddle_generation *generation;
  heddle_prompt prompt = {.text = "Sort 2 1."};
  TRUE(step->size == sizeof *step && step->commits > 0);
  TRUE(step->step == ++stop->steps);
  /* Neither another run of the model nor its end can come from here. */
  REFUSED(
      heddle_generate(stop->model, stop->bundle, &prompt, 1, NULL, &generation),
      "step");
  REFUSED(heddle_model_destroy(stop->model), "step");
  return step->step == stop->after;
}

static int cancel(const heddle_step *step, void *user_data) {
  struct Stop *stop = user_data;
  ++stop->steps;
  if (step->step == stop->after)
    FINE(heddle_model_cancel(stop->model));
  return 0;
}

/* The step that committed each position of two prompts' responses. */
struct Commits {
  int64_t at[2][64], passes, ahead;
};

static int note(const heddle_step *step, void *user_data) {
  struct Commits *commits = user_data;
  ++commits->passes;
  for (size_t i = 0; i < step->commits; ++i) {
    TRUE(step->sequences[i] >= 0 && step->sequences[i] < 2 &&
         step->positions[i] < 64);
    int64_t *at = &commits->at[step->sequences[i]][step->positions[i]];
    TRUE(*at == 0); /* once */
    *at = step->steps[i];
    commits->ahead += *at != step->step;
  }
  return 0;
}

/* A pass that verifies drafts says of each commit which step made it: that of
 * the same run without. */
static void verified(void) {
  heddle_model *model;
  heddle_generation *generation;
  heddle_prompt prompts[] = {{.text = "Sort 52 17 90 33."},
                             {.text = "Add 4821 and 977."}};
  struct Commits one = {.passes = 0}, several = {.passes = 0};
  heddle_generate_options options = {
      .size = sizeof options,
      .json = "{\"gen_length\": 32, \"steps\": 32, \"block_length\": 32}",
      .on_step = note,
      .user_data = &one};
  heddle_bundle *without = compiled(dense), *with = compiled(drafted);
  FINE(heddle_model_load(folder, NULL, &model));
  FINE(heddle_generate(model, without, prompts, 2, &options, &generation));
  FINE(heddle_generation_destroy(generation));
  options.user_data = &several;
  FINE(heddle_generate(model, with, prompts, 2, &options, &generation));
  FINE(heddle_generation_destroy(generation));
  TRUE(one.passes == 32 && one.ahead == 0);
  TRUE(several.passes < 32 && several.ahead > 0);
  TRUE(memcmp(one.at, several.at, sizeof one.at) == 0);
  FINE(heddle_model_destroy(model));
  FINE(heddle_bundle_destroy(without));
  FINE(heddle_bundle_destroy(with));
}

static int never(void *user_data) { return ++*(int *)user_data > 0; }

static void models(void) {
  heddle_model *model;
  heddle_generation *generation;
  heddle_load_options load = {.size = sizeof load, .dtype = "int8"};
  heddle_bundle *bundle = compiled(dense);
  int polled = 0;
  BAD(heddle_model_load(folder, &load, &model), "int8");
  load.dtype = NULL;
  load.device = "tpu";
  REFUSED(heddle_model_load(folder, &load, &model), "tpu");
  load.device = NULL;
  REFUSED(heddle_model_load("/nowhere", &load, &model), "config.json");
  REFUSED(heddle_model_load("", &load, &model), "folder is empty");
  load.interrupted = never;
  load.user_data = &polled;
  expect(__LINE__, heddle_model_load(folder, &load, &model), HEDDLE_INTERRUPTED,
         NULL);
  TRUE(polled == 1 && model == NULL);
  FINE(heddle_model_load(folder, NULL, &model));

  /* Handles of another kind, and none. */
  BAD(heddle_generate((heddle_model *)bundle, bundle, NULL, 0, NULL,
                      &generation),
      "model");
  BAD(heddle_bundle_destroy((heddle_bundle *)model), "bundle");
  BAD(heddle_model_cancel((heddle_model *)"no handle"), "model");
  BAD(heddle_model_cancel((heddle_model *)(uintptr_t)-1), "model");

  /* Prompts and options. */
  int32_t ids[] = {1, 2, 3}, wrong[] = {-5};
  size_t count = 99;
  heddle_prompt prompts[] = {{.text = "Sort 52 17 90 33."},
                             {.ids = ids, .count = 3}};
  heddle_prompt both = {.text = "x", .ids = ids, .count = 3},
                empty = {.count = 0}, gone = {.count = 3},
                outside = {.ids = wrong, .count = 1}, broken = {.text = "\xff"};
  heddle_generate_options options = {.size = sizeof options};
  REFUSED(heddle_generate(model, bundle, NULL, 0, NULL, &generation), "prompt");
  BAD(heddle_generate(model, bundle, NULL, 2, NULL, &generation), "prompts");
  BAD(heddle_generate(model, bundle, &both, 1, NULL, &generation), "both");
  BAD(heddle_generate(model, bundle, &gone, 1, NULL, &generation), "ids");
  REFUSED(heddle_generate(model, bundle, &empty, 1, NULL, &generation),
          "empty");
  REFUSED(heddle_generate(model, bundle, &outside, 1, NULL, &generation), "-5");
  REFUSED(heddle_generate(model, bundle, &broken, 1, NULL, &generation),
          "UTF-8");
  static const struct {
    const char *json, *said;
    heddle_status status;
  } cases[] = {
      {"{", "JSON", HEDDLE_INVALID_ARGUMENT},
      {"[]", "object", HEDDLE_INVALID_ARGUMENT},
      {"{\"wool\": 1}", "'wool'", HEDDLE_INVALID_ARGUMENT},
      {"{\"steps\": \"8\"}", "steps", HEDDLE_INVALID_ARGUMENT},
      {"{\"steps\": 99999999999999999999}", "steps", HEDDLE_INVALID_ARGUMENT},
      {"{\"steps\": [8]}", "steps", HEDDLE_INVALID_ARGUMENT},
      {"{\"steps\": {\"a\": 8}}", "steps", HEDDLE_INVALID_ARGUMENT},
      {"{\"steps\": null}", "steps", HEDDLE_INVALID_ARGUMENT},
      {"{\"commit_order\": [4294967296]}", "small integers",
       HEDDLE_INVALID_ARGUMENT},
      {"{\"commit_order\": 3}", "commit_order", HEDDLE_INVALID_ARGUMENT},
      {"{\"commit_order\": [0, 0]}", NULL, HEDDLE_FAILED},
      {"{\"eot_id\": 4294967296}", "eot_id", HEDDLE_INVALID_ARGUMENT},
      {"{\"remasking\": \"no\"}", "remasking", HEDDLE_INVALID_ARGUMENT},
      {"{\"steps\": 0}", "steps", HEDDLE_FAILED},
      {"{\"gen_length\": -1}", "gen", HEDDLE_FAILED},
      {"{\"temperature\": -1}", "temperature", HEDDLE_FAILED}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    options.json = cases[i].json;
    expect(__LINE__,
           heddle_generate(model, bundle, prompts, 2, &options, &generation),
           cases[i].status, cases[i].said);
    TRUE(generation == NULL);
  }

  /* Runs that a callback and a cancellation end. */
  struct Stop state = {.model = model, .bundle = bundle, .after = 2};
  options.json = "{\"gen_length\": 32, \"steps\": 8}";
  options.on_step = stop;
  options.user_data = &state;
  FINE(heddle_generate(model, bundle, prompts, 2, &options, &generation));
  heddle_summary summary = {.size = sizeof summary};
  heddle_response response = {.size = sizeof response};
  FINE(heddle_generation_summary(generation, &summary));
  TRUE(summary.responses == 2 && summary.steps == 2 && !summary.complete &&
       state.steps == 2);
  BAD(heddle_generation_response(generation, 2, &response), "2 of 2");
  BAD(heddle_generation_response(generation, (size_t)-1, &response), "index");
  BAD(heddle_generation_response(generation, 0, NULL), "response");
  response.size = offsetof(heddle_response, prompt_count);
  response.text = "mine";
  FINE(heddle_generation_response(generation, 1, &response));
  TRUE(response.count == 35 && response.tokens[2] == 3 &&
       !strcmp(response.text, "mine"));
  FINE(heddle_generation_destroy(generation));
  BAD(heddle_generation_destroy(generation), "destroyed");
  state.steps = 0;
  options.on_step = cancel;
  FINE(heddle_generate(model, bundle, prompts, 2, &options, &generation));
  TRUE(state.steps == 2);
  FINE(heddle_generation_destroy(generation));

  /* Tokens. */
  char text[4] = "123";
  FINE(heddle_model_encode(model, "Sort 52", NULL, 0, &count));
  TRUE(count > 0);
  BAD(heddle_model_encode(model, "Sort", NULL, 3, &count), "ids");
  BAD(heddle_model_encode(model, NULL, ids, 3, &count), "text");
  FINE(heddle_model_encode(model, "S", ids, 1, &count));
  FINE(heddle_model_decode(model, ids, 1, text, 4, &count));
  TRUE(!strcmp(text, "S") && count == 1);
  FINE(heddle_model_decode(model, ids, 1, NULL, 0, &count));
  BAD(heddle_model_decode(model, NULL, 1, text, 4, &count), "ids");
  REFUSED(heddle_model_decode(model, wrong, 1, text, 4, &count), "-5");

  /* After a fork, in this order: the bundle goes first. */
  FINE(heddle_bundle_destroy(bundle));
  BAD(heddle_generate(model, bundle, prompts, 1, NULL, &generation), "bundle");
  bundle = compiled(dense);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    failures = 0;
    REFUSED(heddle_generate(model, bundle, prompts, 1, NULL, &generation),
            "forked");
    _exit(failures ? 1 : 0);
  }
  int status = 1;
  TRUE(waitpid(child, &status, 0) == child && status == 0);
  FINE(heddle_model_destroy(model));
  BAD(heddle_model_destroy(model), "destroyed");
  FINE(heddle_bundle_destroy(bundle));
}

static void calls(void) {
  enum { rows = 96, dim = 64 };
  static float q[rows][dim], k[rows][dim], v[rows][dim], o[rows][dim];
  heddle_attention *attention;
  heddle_call *call;
  size_t lists = 1, workspace = 1;
  heddle_bundle *bundle = compiled(columns);
  BAD(heddle_attention_create(bundle, 0, -1, &attention), "layers");
  BAD(heddle_attention_create(bundle, 1, -2, &attention), "device");
  BAD(heddle_attention_create(bundle, (int64_t)1 << 40, -1, &attention),
      "layers");
  FINE(heddle_attention_create(bundle, 2, -1, &attention));
  FINE(heddle_bundle_destroy(bundle));

  const heddle_attention_shape good = {.size = sizeof good,
                                       .dtype = "f32",
                                       .sequences = 1,
                                       .length = rows,
                                       .query_heads = 1,
                                       .kv_heads = 1,
                                       .head_dim = dim};
  heddle_attention_shape shape = good;
  BAD(heddle_call_create(attention, NULL, &call), "shape");
#define SHAPE(field, value, said)                                              \
  shape = good;                                                                \
  shape.field = value;                                                         \
  BAD(heddle_call_create(attention, &shape, &call), said)
  SHAPE(dtype, NULL, "dtype");
  SHAPE(dtype, "f64", "f64");
  SHAPE(sequences, 0, "sequences");
  SHAPE(sequences, INT64_MAX, "sequences");
  SHAPE(length, -1, "length");
  SHAPE(length, INT64_MAX, "length");
  SHAPE(prompt, rows + 1, "prompt");
  SHAPE(query_heads, 0, "query_heads");
  SHAPE(kv_heads, 2, "multiple");
  SHAPE(head_dim, 0, "head_dim");
  SHAPE(query_row_stride, dim - 1, "query_row_stride");
  SHAPE(key_row_stride, INT64_MIN, "key_row_stride");
  SHAPE(output_row_stride, INT64_MAX, "output_row_stride");
  SHAPE(value_sequence_stride, -1, "value_sequence_stride");
  SHAPE(size, 24 + 1, "25");
  SHAPE(size, 16, "sequences");
  shape = good;
  shape.head_dim = 96;
  REFUSED(heddle_call_create(attention, &shape, &call), "96");
  shape = good;
  shape.dtype = "f16";
  REFUSED(heddle_call_create(attention, &shape, &call), NULL);
  FINE(heddle_call_create(attention, &good, &call));
  /* What a call is of may go first. */
  FINE(heddle_attention_destroy(attention));

  BAD(heddle_call_memory(call, 2, &lists, &workspace), "layer");
  BAD(heddle_call_memory(call, -1, &lists, &workspace), "layer");
  FINE(heddle_call_memory(call, 1, &lists, &workspace));
  TRUE(lists > 0 && workspace > 0);
  int64_t of = 7;
  BAD(heddle_call_list_layer(call, 2, &of), "layer");
  BAD(heddle_call_list_layer(call, 1, NULL), "of");
  FINE(heddle_call_list_layer(call, 1, &of));
  TRUE(of == 1);
  void *kept = aligned_alloc(64, (lists + 63) / 64 * 64);
  void *room = malloc(workspace);
  memset(kept, 0, lists);
  for (int i = 0; i < rows * dim; ++i)
    (&q[0][0])[i] = (&k[0][0])[i] = (&v[0][0])[i] = (float)(i % 7) - 3;
  const heddle_attention_run right = {.size = sizeof right,
                                      .query = q,
                                      .key = k,
                                      .value = v,
                                      .query_bytes = sizeof q,
                                      .key_bytes = sizeof k,
                                      .value_bytes = sizeof v,
                                      .output = o,
                                      .output_bytes = sizeof o,
                                      .lists = kept,
                                      .list_bytes = lists,
                                      .workspace = room,
                                      .workspace_bytes = workspace};
  heddle_attention_run run = right;
  BAD(heddle_call_run(call, NULL), "run");
#define RUN(field, value, said)                                                \
  run = right;                                                                 \
  run.field = value;                                                           \
  BAD(heddle_call_run(call, &run), said)
  RUN(part, 3, "part");
  RUN(layer, 2, "layer");
  RUN(steps, INT64_MAX, "steps");
  RUN(step, 2, "step");
  RUN(block_steps, -1, "block_steps");
  RUN(query, NULL, "query");
  RUN(query, (char *)q + 1, "query begins");
  RUN(key_bytes, sizeof k - 1, "key has");
  RUN(value, NULL, "value");
  RUN(output, NULL, "output");
  RUN(output_bytes, 0, "output has 0 bytes");
  RUN(lists, NULL, "lists");
  RUN(lists, (char *)kept + 4, "lists begins");
  RUN(list_bytes, lists - 1, "lists has");
  RUN(workspace, NULL, "workspace");
  RUN(workspace_bytes, workspace - 1, "workspace has");
  RUN(size, 8, "query");
  FINE(heddle_call_run(call, &right));
  FINE(heddle_call_destroy(call));
  BAD(heddle_call_destroy(call), "destroyed");
  BAD(heddle_call_run(call, &right), "destroyed");
  free(kept);
  free(room);
}

/* Layers that read what another has chosen take its memory. */
static void shared_lists(void) {
  enum { rows = 96, dim = 64, layers = 5 };
  static float q[rows][dim], k[rows][dim], v[rows][dim], o[rows][dim],
      other[rows][dim];
  heddle_attention *attention;
  heddle_call *call;
  heddle_bundle *bundle = compiled(shared);
  REFUSED(heddle_attention_create(bundle, 3, -1, &attention), "layers");
  FINE(heddle_attention_create(bundle, layers, -1, &attention));
  FINE(heddle_bundle_destroy(bundle));
  const heddle_attention_shape shape = {.size = sizeof shape,
                                        .dtype = "f32",
                                        .sequences = 1,
                                        .length = rows,
                                        .query_heads = 1,
                                        .kv_heads = 1,
                                        .head_dim = dim};
  FINE(heddle_call_create(attention, &shape, &call));
  FINE(heddle_attention_destroy(attention));

  const int64_t owners[layers] = {-1, 1, 1, 3, 3};
  size_t lists = 0, workspace = 0;
  for (int layer = 0; layer < layers; ++layer) {
    int64_t of = 7;
    FINE(heddle_call_list_layer(call, layer, &of));
    TRUE(of == owners[layer]);
    FINE(heddle_call_memory(call, layer, &lists, &workspace));
    TRUE((lists > 0) == (of >= 0));
  }
  int64_t of = 7;
  BAD(heddle_call_list_layer(call, layers, &of), "layer");
  TRUE(of == -1);

  const size_t whole = (lists + 63) / 64 * 64;
  char *kept = aligned_alloc(64, whole), *before = malloc(whole);
  void *room = malloc(workspace);
  memset(kept, 0, whole);
  for (int i = 0; i < rows * dim; ++i) {
    (&q[0][0])[i] = (float)(i % 7) - 3;
    (&k[0][0])[i] = (float)(i % 11) - 5;
    (&v[0][0])[i] = (float)(i % 13) - 6;
  }
  heddle_attention_run run = {.size = sizeof run,
                              .query = q,
                              .key = k,
                              .value = v,
                              .query_bytes = sizeof q,
                              .key_bytes = sizeof k,
                              .value_bytes = sizeof v,
                              .output = o,
                              .output_bytes = sizeof o,
                              .workspace = room,
                              .workspace_bytes = workspace};
  FINE(heddle_call_run(call, &run)); /* layer 0 */
  run.layer = 2;
  BAD(heddle_call_run(call, &run), "lists");
  run.lists = kept;
  run.list_bytes = lists - 1;
  BAD(heddle_call_run(call, &run), "lists has");
  run.list_bytes = lists;

  /* Not before anything was chosen; then over what layer 1 chose, which a layer
   * that reads leaves as it is. */
  memcpy(other, o, sizeof o);
  REFUSED(heddle_call_run(call, &run), "expected lists of");
  run.layer = 1;
  FINE(heddle_call_run(call, &run));
  memcpy(before, kept, whole);
  run.layer = 2;
  run.output = o;
  FINE(heddle_call_run(call, &run));
  TRUE(memcmp(o, other, sizeof o) != 0);
  TRUE(memcmp(before, kept, whole) == 0);
  /* Bytes of the caller's are none that kernels may follow. */
  memset(kept, 1, whole);
  REFUSED(heddle_call_run(call, &run), "expected lists of");
  memcpy(kept, before, whole);
  /* It has nothing of its own to choose. */
  run.part = HEDDLE_SELECT;
  FINE(heddle_call_run(call, &run));
  TRUE(memcmp(before, kept, whole) == 0);
  run.part = HEDDLE_ATTEND;
  run.output = other;
  FINE(heddle_call_run(call, &run));
  TRUE(memcmp(o, other, sizeof o) == 0);
  FINE(heddle_call_destroy(call));
  free(kept);
  free(before);
  free(room);
}

/* Errors are each thread's own; handles may be destroyed in use. */
static void *in_a_thread(void *handle) {
  heddle_generation *generation;
  heddle_prompt prompt = {.text = "Sort 52 17 90 33."};
  heddle_bundle *bundle = compiled(dense);
  heddle_generate_options options = {
      .size = sizeof options, .json = "{\"gen_length\": 32, \"steps\": 8}"};
  TRUE(heddle_last_error()[0] == 0);
  for (;;) {
    heddle_status status =
        heddle_generate(handle, bundle, &prompt, 1, &options, &generation);
    if (status != HEDDLE_OK) { /* closed, or the handle is gone */
      TRUE(status == HEDDLE_FAILED || status == HEDDLE_INVALID_ARGUMENT);
      break;
    }
    FINE(heddle_generation_destroy(generation));
  }
  FINE(heddle_bundle_destroy(bundle));
  return NULL;
}

static void threads(void) {
  heddle_model *model;
  pthread_t thread;
  FINE(heddle_model_load(folder, NULL, &model));
  TRUE(pthread_create(&thread, NULL, in_a_thread, model) == 0);
  BAD(heddle_model_cancel(NULL), "NULL");
  usleep(300000);
  TRUE(heddle_last_error()[0] != 0);
  FINE(heddle_model_destroy(model));
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  folder = argv[1];
  nothing_at_all();
  files();
  if (argc > 2) {
    no_compiler();
  } else {
    compiling();
    models();
    verified();
    calls();
    shared_lists();
    threads();
  }
  if (failures)
    fprintf(stderr, "%d checks failed\n", failures);
  return failures ? 1 : 0;
}
