/* include_num_input_tokens_seen. In: the samples of micro-batches. Out: how many tokens they hold: all of the
   field that is the model's input, or those that its attention_mask counts. */
#include "run.h"
#include <string.h>

static int32_t field_named(const DdpRun *r, const char *name) {
  for (int32_t i = 0; i < r->job->n_fields; i++) {
    const DdpField *f = &r->job->fields[i];
    if (f->used && strcmp(f->name, name) == 0) return i;
  }
  return -1;
}

/* The Trainer counts `input_ids`; here the field may have another name. */
static int32_t first_tokens(const DdpRun *r) {
  for (int32_t i = 0; i < r->job->n_fields; i++) {
    const DdpField *f = &r->job->fields[i];
    if (f->used && f->rank == 1 && f->dtype != DDP_f32 && !f->text) return i;
  }
  return -1;
}

DdpError *run_seen_open(DdpRun *r) {
  const char *what = r->set->include_num_input_tokens_seen;
  r->tokens_field = -1;
  if (strcmp(what, "no") == 0) return NULL;
  r->tokens_masked = strcmp(what, "non_padding") == 0;
  r->tokens_field = field_named(r, r->tokens_masked ? "attention_mask" : "input_ids");
  if (r->tokens_field < 0 && !r->tokens_masked) r->tokens_field = first_tokens(r);
  if (r->tokens_field >= 0) return NULL;
  r->quiet = r->rank != 0;
  return ddp_error(DDP_USAGE, "include_num_input_tokens_seen = %s: the job reads no field %s", what,
                   r->tokens_masked ? "`attention_mask`, which says what is padding"
                                    : "of tokens (`input_ids`, or whole numbers [T])");
}

static bool is_set(const DdpField *f, const void *data, int64_t i) {
  switch (f->dtype) {
  case DDP_f32:
    return ((const float *)data)[i] != 0;
  case DDP_i32:
    return ((const int32_t *)data)[i] != 0;
  case DDP_i64:
    return ((const int64_t *)data)[i] != 0;
  default:
    return ((const uint8_t *)data)[i] != 0;
  }
}

int64_t run_seen_count(const DdpRun *r, int64_t n) {
  if (r->tokens_field < 0) return 0;
  const DdpField *f = &r->job->fields[r->tokens_field];
  int64_t seen = 0;
  if (!r->tokens_masked) return n * f->elements;
  for (int64_t i = 0; i < n * f->elements; i++)
    seen += is_set(f, r->batch->fields[r->tokens_field], i);
  return seen;
}
