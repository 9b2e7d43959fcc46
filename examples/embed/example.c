/*===- example.c - A schedule, a model and a text, in C -------------------===*\
|*                                                                            *|
|* Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/
/* usage: example MODEL_FOLDER SCHEDULE PROMPT
 *
 * Compiles the schedule for this machine's CPU (a file of it that ends in .hdl
 * is a bundle already), generates, and prints the text. */

#include <heddle/heddle.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(heddle_status status) {
  if (status == HEDDLE_OK)
    return;
  fprintf(stderr, "example: %s\n", heddle_last_error());
  exit(1);
}

/* The whole file, with a 0 behind it. */
static char *contents(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t size = 0, room = 0;
  if (!file) {
    perror(path);
    exit(1);
  }
  do {
    room = room ? 2 * room : 4096;
    text = realloc(text, room + 1);
    if (!text)
      abort();
    size += fread(text + size, 1, room - size, file);
  } while (size == room);
  text[size] = 0;
  fclose(file);
  return text;
}

static int on_step(const heddle_step *step, void *user_data) {
  *(int64_t *)user_data += step->rows;
  return 0; /* not 0 ends the run */
}

int main(int argc, char **argv) {
  heddle_bundle *bundle;
  heddle_model *model;
  heddle_generation *generation;
  int64_t rows = 0;
  size_t length;

  if (argc != 4) {
    fprintf(stderr, "usage: example MODEL_FOLDER SCHEDULE PROMPT\n");
    return 2;
  }
  length = strlen(argv[2]);
  if (length > 4 && !strcmp(argv[2] + length - 4, ".hdl")) {
    check(heddle_bundle_open(argv[2], &bundle));
  } else {
    char *text = contents(argv[2]);
    heddle_compile_options options = {.size = sizeof options, .name = argv[2]};
    check(heddle_compile(text, &options, &bundle));
    free(text);
  }
  check(heddle_model_load(argv[1], NULL, &model));

  heddle_prompt prompt = {.text = argv[3]};
  heddle_generate_options options = {
      .size = sizeof options,
      .json = "{\"gen_length\": 128, \"block_length\": 32}",
      .on_step = on_step,
      .user_data = &rows};
  check(heddle_generate(model, bundle, &prompt, 1, &options, &generation));

  heddle_response response = {.size = sizeof response};
  heddle_summary summary = {.size = sizeof summary};
  check(heddle_generation_response(generation, 0, &response));
  check(heddle_generation_summary(generation, &summary));
  fprintf(stderr, "%lld steps computed %lld rows\n", (long long)summary.steps,
          (long long)rows);
  printf("%s\n", response.text);

  check(heddle_generation_destroy(generation));
  check(heddle_model_destroy(model));
  check(heddle_bundle_destroy(bundle));
  return 0;
}
