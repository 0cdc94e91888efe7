/* The reader of trainer_state.json on any bytes: a history that can be written and read again to the same text,
   or an error. */
#include "fuzz.h"
#include "history.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const FuzzSeed fuzz_seeds[] = {
    FUZZ_SEED(
        "{\"best_metric\": 0.5, \"best_model_checkpoint\": \"out/checkpoint-20\", \"epoch\": 1.5, "
        "\"log_history\": [{\"loss\": 0.1, \"step\": 1, \"name\": \"\\u00e4\"}, {\"eval_loss\": "
        "1e-7, "
        "\"list\": [1, [true, null]]}], \"max_steps\": 40}"),
    FUZZ_SEED("{\"best_model_checkpoint\": null, \"log_history\": []}"),
    {NULL, 0}};

static char *text_of(DdpHistory *h) {
  const DdpTrainerState s = {.epoch = 1.5, .best_metric = (double)NAN, .best_global_step = -1};
  char *text = NULL;
  DdpError *e = ddp_history_text(h, &s, &text);
  if (e || !text) abort();
  return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  DdpHistory *h = NULL, *again = NULL;
  DdpError *e = ddp_history_open(&h);
  if (e) abort();
  e = ddp_history_read(h, fuzz_file(data, n));
  fuzz_file_close();
  if (!e) {
    char *first = text_of(h);
    if (ddp_history_open(&again)) abort();
    if (ddp_history_read(again, fuzz_file((const uint8_t *)first, strlen(first)))) abort();
    fuzz_file_close();
    char *second = text_of(again);
    if (strcmp(first, second) != 0) abort();
    free(first);
    free(second);
    ddp_history_close(again);
  }
  ddp_history_close(h);
  ddp_error_free(e);
  return 0;
}
