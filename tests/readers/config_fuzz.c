/* Flags and a --config file of any bytes: settings or an error of class usage. */
#include "config.h"
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>

const FuzzSeed fuzz_seeds[] = {
    FUZZ_SEED(
        "{\"learning_rate\": 1e-3, \"seed\": 7, \"eval_steps\": null, \"output_dir\": \"x\"}"),
    FUZZ_SEED("--learning_rate\n3e-4\n--max_steps=100\n--logging_first_step\n--data_seed\nnone"),
    FUZZ_SEED("--ddp_backend\ngloo\n--init-only\n--save_steps\n0.5\n--on_nan=ignore"),
    {NULL, 0}};

static void run(int argc, char **argv) {
  static const DdpJob job = {.abi = DDP_JOB_ABI};
  DdpConfig c;
  DdpError *e = ddp_config_read(&c, &job, argc, argv);
  if (e && e->klass != DDP_USAGE) abort();
  ddp_error_free(e);
  ddp_config_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char name[] = "train", flag[] = "--config", path[64];
  strncpy(path, fuzz_file(data, n), sizeof path - 1);
  path[sizeof path - 1] = 0;
  run(3, (char *[]){name, flag, path, NULL});
  fuzz_file_close();
  char *text = malloc(n + 1), *argv[20] = {name};
  int argc = 1;
  if (!text) abort();
  memcpy(text, data, n);
  text[n] = 0;
  for (char *word = strtok(text, "\n"); word && argc < 20; word = strtok(NULL, "\n")) {
    if (strcmp(word, "--config") != 0 && strncmp(word, "--config=", 9) != 0) argv[argc++] = word;
  }
  run(argc, argv);
  free(text);
  return 0;
}
