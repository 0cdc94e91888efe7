/* trainer_state.json. In: lines of the log, where the run stands. Out: the text that Python's
   json.dumps(state, indent=2, sort_keys=True) would give, numbers included: floats keep their point, and
   read back to the same bits. Holds: a history that was read and written again is the same text. */
#include "history.h"
#include "real.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Text {
  char *bytes;
  size_t size, room;
} Text;

/* Entries are kept as the text that they have in the file: a long run has many, and every checkpoint writes
   all of them. What has come since the last one waits as it came, so that a line of the log costs no more
   than a copy. */
struct DdpHistory {
  Text log;     /* entries with ",\n" between them */
  Text waiting; /* lines, each with its zero */
  int64_t lines;
  char *best;
};

DdpError *ddp_history_open(DdpHistory **out) {
  *out = calloc(1, sizeof **out);
  return *out ? NULL : ddp_error(DDP_MEMORY, "out of memory");
}

void ddp_history_close(DdpHistory *h) {
  if (!h) return;
  free(h->log.bytes);
  free(h->waiting.bytes);
  free(h->best);
  free(h);
}

DdpError *ddp_history_set_best(DdpHistory *h, const char *folder) {
  char *copy = folder ? strdup(folder) : NULL;
  if (folder && !copy) return ddp_error(DDP_MEMORY, "out of memory");
  free(h->best);
  h->best = copy;
  return NULL;
}

const char *ddp_history_best(const DdpHistory *h) {
  return h->best;
}

/* ---------- writing ---------- */
static int by_key(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void dump(FILE *out, const json_t *v, int indent);

static void dump_text(FILE *out, const char *text) {
  json_t *value = json_string(text);
  char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
  fputs(quoted ? quoted : "null", out);
  free(quoted);
  json_decref(value);
}

static void dump_object(FILE *out, const json_t *v, int indent) {
  size_t n = json_object_size(v), k = 0;
  const char **keys = malloc((n + 1) * sizeof *keys);
  if (!keys) return;            /* the stream's own check finds what is missing */
  json_t *object = (json_t *)v; /* iterators are not const; nothing is changed */
  for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
    keys[k++] = json_object_iter_key(i);
  }
  qsort(keys, n, sizeof *keys, by_key);
  for (k = 0; k < n; k++) {
    fprintf(out, "%s%*s", k ? ",\n" : "{\n", indent + 2, "");
    dump_text(out, keys[k]);
    fputs(": ", out);
    dump(out, json_object_get(v, keys[k]), indent + 2);
  }
  if (n)
    fprintf(out, "\n%*s}", indent, "");
  else
    fputs("{}", out);
  free(keys);
}

static void dump_array(FILE *out, const json_t *v, int indent) {
  size_t n = json_array_size(v);
  for (size_t k = 0; k < n; k++) {
    fprintf(out, "%s%*s", k ? ",\n" : "[\n", indent + 2, "");
    dump(out, json_array_get(v, k), indent + 2);
  }
  if (n)
    fprintf(out, "\n%*s]", indent, "");
  else
    fputs("[]", out);
}

static void dump(FILE *out, const json_t *v, int indent) {
  char text[DDP_REAL_TEXT];
  switch (json_typeof(v)) {
  case JSON_OBJECT:
    dump_object(out, v, indent);
    break;
  case JSON_ARRAY:
    dump_array(out, v, indent);
    break;
  case JSON_STRING:
    dump_text(out, json_string_value(v));
    break;
  case JSON_INTEGER:
    fprintf(out, "%lld", (long long)json_integer_value(v));
    break;
  case JSON_REAL:
    fputs(ddp_real_text(json_real_value(v), text), out);
    break;
  case JSON_TRUE:
    fputs("true", out);
    break;
  case JSON_FALSE:
    fputs("false", out);
    break;
  case JSON_NULL:
    fputs("null", out);
    break;
  }
}

/* n bytes and a zero behind them; room grows by doubling. */
static DdpError *put(Text *t, const char *bytes, size_t n) {
  size_t room = t->room ? t->room : 1 << 16; /* what is not used costs no memory */
  while (room < t->size + n + 1) room *= 2;
  char *grown = room > t->room ? realloc(t->bytes, room) : t->bytes;
  if (!grown) return ddp_error(DDP_MEMORY, "out of memory");
  t->bytes = grown;
  t->room = room;
  memcpy(t->bytes + t->size, bytes, n);
  t->size += n;
  t->bytes[t->size] = 0;
  return NULL;
}

static DdpError *append(DdpHistory *h, const json_t *entry) {
  char *text = NULL;
  size_t n = 0;
  FILE *out = open_memstream(&text, &n);
  if (!out) return ddp_error(DDP_MEMORY, "out of memory");
  fputs(h->log.size ? ",\n    " : "    ", out);
  dump(out, entry, 4);
  bool written = ferror(out) == 0;
  written = fclose(out) == 0 && written;
  DdpError *error = written ? put(&h->log, text, n) : ddp_error(DDP_MEMORY, "out of memory");
  free(text);
  return error;
}

DdpError *ddp_history_add(DdpHistory *h, const char *line) {
  DDP_TRY(put(&h->waiting, line, strlen(line) + 1));
  h->lines++;
  return NULL;
}

/* The lines that wait become entries. */
static DdpError *settle(DdpHistory *h) {
  DdpError *error = NULL;
  for (size_t at = 0; !error && at < h->waiting.size;) {
    const char *line = h->waiting.bytes + at;
    json_error_t where;
    json_t *entry = json_loads(line, JSON_REJECT_DUPLICATES, &where);
    error = entry ? append(h, entry)
                  : ddp_error(DDP_FAILED, "a line of the log is no JSON: %s", where.text);
    json_decref(entry);
    at += strlen(line) + 1;
  }
  if (!error) h->waiting.size = 0;
  return error;
}

int64_t ddp_history_lines(const DdpHistory *h) {
  return h->lines;
}

/* What the Trainer's flow has decided when it saves: log and evaluation are done by then. It is not looked at
   again after the last save. */
static json_t *control(const DdpTrainerState *s) {
  return json_pack("{s{s{sbsbsbsbsb}s{}}}", "TrainerControl", "args", "should_training_stop",
                   s->saved_at >= s->max_steps, "should_epoch_stop", 0, "should_save",
                   s->saved_at >= 0, "should_evaluate", 0, "should_log", 0, "attributes");
}

static json_t *state_object(const DdpHistory *h, const DdpTrainerState *s) {
  json_t *metric = isfinite(s->best_metric) ? json_real(s->best_metric) : json_null();
  json_t *step = s->best_global_step >= 0 ? json_integer(s->best_global_step) : json_null();
  json_t *root = json_pack(
      "{sososs?sfsIsIsbsbsbs[]sIsIsIsIsIsosfsIsnsn}", "best_metric", metric, "best_global_step",
      step, "best_model_checkpoint", h->best, "epoch", s->epoch, "eval_steps",
      (json_int_t)s->eval_steps, "global_step", (json_int_t)s->global_step, "is_hyper_param_search",
      0, "is_local_process_zero", 1, "is_world_process_zero", 1, "log_history", "logging_steps",
      (json_int_t)s->logging_steps, "max_steps", (json_int_t)s->max_steps, "num_input_tokens_seen",
      (json_int_t)s->num_input_tokens_seen, "num_train_epochs", (json_int_t)s->num_train_epochs,
      "save_steps", (json_int_t)s->save_steps, "stateful_callbacks", control(s), "total_flos", 0.0,
      "train_batch_size", (json_int_t)s->train_batch_size, "trial_name", "trial_params");
  return root;
}

/* The object with the entries in its empty list. */
static bool dump_state(FILE *out, const DdpHistory *h, const json_t *root) {
  static const char list[] = "\"log_history\": [";
  char *text = NULL;
  size_t n = 0;
  FILE *whole = open_memstream(&text, &n);
  if (!whole) return false;
  dump(whole, root, 0);
  bool written = fclose(whole) == 0;
  if (written) {
    const char *rest = strstr(text, list) + sizeof list - 1;
    fwrite(text, 1, (size_t)(rest - text), out);
    if (h->log.size) fprintf(out, "\n%s\n  ", h->log.bytes);
    fprintf(out, "%s\n", rest);
  }
  free(text);
  return written;
}

DdpError *ddp_history_text(DdpHistory *h, const DdpTrainerState *s, char **text) {
  size_t size = 0;
  *text = NULL;
  DDP_TRY(settle(h));
  json_t *root = state_object(h, s);
  FILE *out = root ? open_memstream(text, &size) : NULL;
  bool written = false;
  if (out) {
    written = dump_state(out, h, root) && ferror(out) == 0;
    written = fclose(out) == 0 && written;
  }
  json_decref(root);
  if (written) return NULL;
  if (out) free(*text);
  *text = NULL;
  return ddp_error(DDP_MEMORY, "out of memory for trainer_state.json");
}

/* ---------- reading ---------- */
static DdpError *wrong(const char *path, const char *field, const char *expected) {
  return ddp_error(DDP_DATA, "%s: %s: expected %s; this is no trainer_state.json of a run", path,
                   field, expected);
}

DdpError *ddp_history_read(DdpHistory *h, const char *path) {
  json_error_t where;
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
  if (!root && where.line < 0) return ddp_error(DDP_DATA, "%s: %s", path, where.text);
  if (!root) return ddp_error(DDP_DATA, "%s:%d:%d: %s", path, where.line, where.column, where.text);
  const json_t *log = json_object_get(root, "log_history"),
               *best = json_object_get(root, "best_model_checkpoint");
  DdpError *error = NULL;
  if (!json_is_array(log)) error = wrong(path, "log_history", "a list");
  for (size_t i = 0; !error && i < json_array_size(log); i++) {
    if (!json_is_object(json_array_get(log, i)))
      error = wrong(path, "log_history", "a list of objects");
  }
  if (!error && !json_is_string(best) && !json_is_null(best))
    error = wrong(path, "best_model_checkpoint", "a text or null");
  if (!error) error = ddp_history_set_best(h, json_string_value(best));
  if (!error) h->log.size = h->waiting.size = 0;
  for (size_t i = 0; !error && i < json_array_size(log); i++)
    error = append(h, json_array_get(log, i));
  if (!error) h->lines = (int64_t)json_array_size(log);
  json_decref(root);
  return error;
}

DdpError *ddp_history_seek(DdpHistory *h, const char *key, bool greater, double *value,
                           int64_t *step) {
  char *text = NULL;
  *step = -1;
  DDP_TRY(settle(h));
  if (asprintf(&text, "[%s]", h->log.size ? h->log.bytes : "") < 0)
    return ddp_error(DDP_MEMORY, "out of memory");
  json_t *all = json_loads(text, 0, NULL);
  free(text);
  if (!all) return ddp_error(DDP_MEMORY, "out of memory");
  for (size_t i = 0; i < json_array_size(all); i++) {
    const json_t *entry = json_array_get(all, i), *v = json_object_get(entry, key);
    int64_t at = json_integer_value(json_object_get(entry, "step"));
    double now = json_number_value(v);
    if (!json_is_number(v) || at < 1) continue;
    if (*step >= 0 && !(greater ? now > *value : now < *value)) continue;
    *value = now;
    *step = at;
  }
  json_decref(all);
  return NULL;
}
