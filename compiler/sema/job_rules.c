/* Rules between settings, data and model. In: the job's splits, leaves and settings. Out: E0813, W0913. */
#include "analysis.h"
#include "diag.h"

static int64_t sum(int64_t a, int64_t b) {
  return a < 0 || b < 0 ? -1 : a + b;
}

/* Rows of a slice by its bounds alone: [:n], [-n:], [a:b]; -1: unknown. */
static int64_t slice_rows(const DataSource *s) {
  bool counts = s->start_kind != BOUND_percent && s->stop_kind != BOUND_percent;
  if (!counts) return -1;
  if (s->stop_kind == BOUND_none)
    return s->start_kind == BOUND_count && s->start < 0 ? (int64_t)-s->start : -1;
  double from = s->start_kind == BOUND_count ? s->start : 0;
  return s->stop >= 0 && from >= 0 ? (int64_t)(s->stop - from) : -1;
}

/* At most so many rows; -1: the file says. */
static int64_t rows_at_most(const Dataset *d, int32_t source) {
  if (source < 0) return -1;
  const DataSource *s = &d->sources.at[source];
  int64_t n = -1;
  if (s->kind == SOURCE_concat && s->children.len) { /* none: a source that nothing reads yet */
    n = 0;
    for (uint32_t i = 0; i < s->children.len; i++) n = sum(n, rows_at_most(d, s->children.at[i]));
  } else if (s->kind == SOURCE_shuffle && s->children.len) {
    n = rows_at_most(d, s->children.at[0]);
  } else if (s->kind == SOURCE_slice && s->children.len) {
    int64_t inner = rows_at_most(d, s->children.at[0]);
    n = slice_rows(s);
    if (n < 0 || (inner >= 0 && inner < n)) n = inner;
  }
  return n;
}

static void check_rows(Analysis *a) {
  const SettingValue *drop = settings_value(a->settings, "dataloader_drop_last");
  int64_t batch = settings_value(a->settings, "per_device_train_batch_size")->i;
  if (drop->kind != VALUE_bool || !drop->b) return;
  const Dataset *d = &a->job->dataset;
  for (uint32_t i = 0; i < d->splits.len; i++) {
    const Split *split = &d->splits.at[i];
    int64_t rows = strcmp(split->name, "train") ? -1 : rows_at_most(d, split->source);
    if (rows < 0 || rows >= batch) continue;
    const SettingSlot *slot = settings_slot(a->settings, "dataloader_drop_last");
    diag_report(DIAG_E0813, slot->key_at,
                "nothing to train on: split `train` has at most %lld samples, fewer than one batch "
                "of %lld, and `dataloader_drop_last` leaves them out",
                (long long)rows, (long long)batch);
    diag_note(split->at, "the split is here");
    diag_help("take `per_device_train_batch_size = %lld` or less", (long long)rows);
  }
}

/* A limit that the job names and that all gradients stay below. */
static void check_buckets(Analysis *a) {
  const SettingSlot *slot = settings_slot(a->settings, "ddp_bucket_cap_mb");
  const SettingValue *cap = settings_value(a->settings, "ddp_bucket_cap_mb");
  if (!slot->expr || cap->kind != VALUE_int || !a->job->leaves.len) return;
  double bytes = 0;
  for (uint32_t i = 0; i < a->job->leaves.len; i++) {
    const Leaf *leaf = &a->job->leaves.at[i];
    if (!leaf->trained || leaf->buffer || leaf->tied_to >= 0) continue;
    bytes += (double)type_elements_at(leaf->type, 1) * dtype_bytes(leaf->type.dtype);
  }
  double mebibytes = bytes / (1 << 20);
  if (mebibytes >= (double)cap->i) return;
  diag_report(DIAG_W0913, slot->key_at,
              "all gradients (%.1f MiB) fit into one bucket of %lld MiB: nothing is sent before "
              "backward is over",
              mebibytes, (long long)cap->i);
}

void job_rules(Analysis *a) {
  check_rows(a);
  check_buckets(a);
}
