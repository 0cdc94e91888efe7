/* Settings from their four sources. In: the table, the job's resolved settings, a JSON file, flags.
   Out: typed values with the text and the source of each; or the first thing that is wrong. */
#include "config.h"
#include "config_rules.h"
#include "log.h"
#include "suggest.h"
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct DdpText {
  struct DdpText *next;
  char text[];
} DdpText;

typedef struct OwnFlag {
  const char *name, *argument, *doc;
  size_t offset;     /* of a bool, or of a const char * when it takes an argument */
  const char *needs; /* the flag without which it says nothing, or NULL */
} OwnFlag;

static const OwnFlag own_flags[] = {
    {"help", NULL, "this text", offsetof(DdpConfig, help), NULL},
    {"help_env", NULL, "environment variables that are read", offsetof(DdpConfig, help_env), NULL},
    {"version", NULL, "versions, target and hashes", offsetof(DdpConfig, version), NULL},
    {"spec", NULL, "the resolved job that this binary was made from", offsetof(DdpConfig, spec),
     NULL},
    {"print_config", NULL, "every setting, its value and where the value comes from",
     offsetof(DdpConfig, print_config), NULL},
    {"config", "FILE.json", "settings from a JSON object; flags win over it",
     offsetof(DdpConfig, config), NULL},
    {"init_from", "FILE.safetensors", "start from these weights instead of drawing them",
     offsetof(DdpConfig, init_from), NULL},
    {"stop_at_update", "N", "end after update N with a complete checkpoint; exit code 9",
     offsetof(DdpConfig, stop_at_update), NULL},
    {"profile", "TRACE.json", "a time line of the run on all ranks, as a Chrome trace",
     offsetof(DdpConfig, profile), NULL},
    {"init_only", NULL, "write the initial weights to output_dir and end",
     offsetof(DdpConfig, init_only), NULL},
    {"predict", "FILE.safetensors", "write the outputs for every sample of a split and end",
     offsetof(DdpConfig, predict), NULL},
    {"predict_split", "NAME", "the split of --predict (default: validation)",
     offsetof(DdpConfig, predict_split), "predict"},
    {"generate", "N", "print N characters that the model writes and end",
     offsetof(DdpConfig, generate), NULL},
    {"prompt", "TEXT", "what the text of --generate begins with (default: a line end)",
     offsetof(DdpConfig, prompt), "generate"},
    {"temperature", "X", "of --generate: below 1 likelier characters, 0 the likeliest (default: 1)",
     offsetof(DdpConfig, temperature), "generate"},
    {"top_k", "K", "of --generate: draw among the K likeliest characters (default: all)",
     offsetof(DdpConfig, top_k), "generate"},
};
enum { OWN_FLAGS = sizeof own_flags / sizeof own_flags[0] };

/* Names of older releases of TrainingArguments, and what to write instead. */
static const struct {
  const char *old, *now;
} old_names[] = {
    {"evaluation_strategy", "use --eval_strategy"},
    {"warmup_ratio", "use --warmup_steps with a fraction below 1"},
    {"group_by_length", "use --train_sampling_strategy"},
    {"no_cuda", "the device was chosen when the binary was made"},
    {"per_gpu_train_batch_size", "it is per_device_train_batch_size, fixed when compiled"},
    {"per_gpu_eval_batch_size", "it is per_device_eval_batch_size, fixed when compiled"},
    {"overwrite_output_dir", "leave it out: existing files are replaced one by one"},
    {"logging_dir", "leave it out: the log is in --output_dir"},
    {"save_safetensors", "leave it out: weights are always safetensors"},
};

const char *ddp_config_keep(DdpConfig *c, const char *text) {
  size_t n = strlen(text) + 1;
  DdpText *t = malloc(sizeof *t + n);
  if (!t) abort(); /* a few bytes at start: nothing sensible is left to do */
  memcpy(t->text, text, n);
  t->next = c->texts;
  c->texts = t;
  return t->text;
}

static int row_find(const char *name) {
  for (int i = 0; i < DDP_KEY_COUNT; i++) {
    if (strcmp(ddp_setting_rows[i].name, name) == 0) return i;
  }
  return -1;
}

static const char *flag_name_at(int i) {
  return i < DDP_KEY_COUNT ? ddp_setting_rows[i].name : own_flags[i - DDP_KEY_COUNT].name;
}

static DdpError *unknown(const char *origin, const char *name) {
  for (size_t i = 0; i < sizeof old_names / sizeof old_names[0]; i++) {
    if (strcmp(old_names[i].old, name) == 0) {
      return ddp_error(DDP_USAGE, "%s: an old name; %s", origin, old_names[i].now);
    }
  }
  const char *near = ddp_suggest(name, flag_name_at, DDP_KEY_COUNT + OWN_FLAGS);
  if (near) return ddp_error(DDP_USAGE, "%s: unknown; did you mean '%s'?", origin, near);
  return ddp_error(DDP_USAGE, "%s: unknown; --help lists all settings", origin);
}

bool ddp_config_same(const DdpSettingRow *row, const char *a, const char *b) {
  DdpSettings left = {0}, right = {0};
  DdpError *error = ddp_config_parse(&left, row, a);
  if (!error) error = ddp_config_parse(&right, row, b);
  const char *x = (const char *)&left + row->offset, *y = (const char *)&right + row->offset;
  if (error) {
    ddp_error_free(error);
    return false;
  }
  switch (row->type) {
  case DDP_TYPE_int:
    return memcmp(x, y, sizeof(int64_t)) == 0;
  case DDP_TYPE_float:
    return memcmp(x, y, sizeof(double)) == 0;
  case DDP_TYPE_bool:
    return *x == *y;
  case DDP_TYPE_text:
  case DDP_TYPE_word:
  case DDP_TYPE_list:
  case DDP_TYPE_map:
    break;
  }
  const char *s, *t;
  memcpy(&s, x, sizeof s);
  memcpy(&t, y, sizeof t);
  return s && t ? strcmp(s, t) == 0 : s == t;
}

static const DdpSettingText *spec_entry(const DdpJob *job, const char *name) {
  for (int i = 0; i < job->n_settings; i++) {
    if (strcmp(job->settings[i].key, name) == 0) return &job->settings[i];
  }
  return NULL;
}

/* May this key change at run time, and to this value? */
static DdpError *check_override(const DdpConfig *c, const DdpJob *job, int key, const char *text,
                                const char *origin) {
  const DdpSettingRow *row = &ddp_setting_rows[key];
  const DdpSettingText *entry = spec_entry(job, row->name);
  bool same = ddp_config_same(row, text, c->value[key]);
  if (row->class_ == 'X') {
    return ddp_error(DDP_USAGE, "%s: `%s` is not accepted: %s", origin, row->name, row->doc);
  }
  if (row->later && !ddp_config_same(row, text, row->default_)) {
    return ddp_error(DDP_USAGE, "%s: `%s` is not supported yet", origin, row->name);
  }
  if (same) return NULL;
  if (c->fixed[key]) {
    bool why = entry && entry->fixed_by;
    return ddp_error(
        DDP_USAGE,
        "%s: `%s` is fixed at %s in this binary%s%s%s; recompile with `ddpc -D %s.%s=%s`", origin,
        row->name, c->value[key], why ? " (" : "", why ? entry->fixed_by : "", why ? ")" : "",
        row->block, row->name, text);
  }
  if (row->class_ == 'A') {
    ddp_log(DDP_LOG_info, "%s: accepted, has no effect in a compiled job", origin);
  }
  return NULL;
}

static DdpError * override(DdpConfig *c, const DdpJob *job, const char *name, const char *text,
                           const char *origin, const char *source) {
  int key = row_find(name);
  if (key < 0) return unknown(origin, name);
  DdpSettings scratch = c->settings;
  const char *kept = ddp_config_keep(c, text);
  DdpError *error = NULL;
  if (ddp_setting_rows[key].class_ != 'X') {
    error = ddp_config_parse(&scratch, &ddp_setting_rows[key], kept);
  }
  if (error) {
    DdpError *placed = ddp_error(DDP_USAGE, "%s: %s", origin, error->message);
    ddp_error_free(error);
    return placed;
  }
  DDP_TRY(check_override(c, job, key, kept, origin));
  c->settings = scratch;
  c->value[key] = kept;
  c->source[key] = ddp_config_keep(c, source);
  return NULL;
}

static DdpError *read_spec(DdpConfig *c, const DdpJob *job) {
  for (int i = 0; i < DDP_KEY_COUNT; i++) {
    c->value[i] = ddp_setting_rows[i].default_;
    /* An optimizer's own arguments are compiled into its step. */
    c->fixed[i] = ddp_setting_rows[i].class_ == 'C' || i == DDP_KEY_optim_args;
    c->source[i] = "default";
    DDP_TRY(ddp_config_parse(&c->settings, &ddp_setting_rows[i], c->value[i]));
  }
  for (int i = 0; i < job->n_settings; i++) {
    const DdpSettingText *s = &job->settings[i];
    int key = row_find(s->key);
    if (key < 0) {
      return ddp_error(DDP_FAILED,
                       "the job has a setting '%s' that this runtime does not know; "
                       "compiler and runtime differ",
                       s->key);
    }
    DDP_TRY(ddp_config_parse(&c->settings, &ddp_setting_rows[key], s->value));
    c->value[key] = s->value;
    c->fixed[key] = c->fixed[key] || s->fixed;
    c->source[key] = s->place ? s->place : "default";
  }
  return NULL;
}

/* A list of texts as a flag has it: with commas. NULL: something else. To be freed. */
static char *json_list(const json_t *v) {
  char *text = NULL;
  if (!json_is_array(v)) return NULL;
  if (json_array_size(v) == 0) return strdup("none");
  for (size_t i = 0; i < json_array_size(v); i++) {
    const char *one = json_string_value(json_array_get(v, i));
    char *longer = NULL;
    bool made = one && asprintf(&longer, "%s%s%s", text ? text : "", text ? "," : "", one) >= 0;
    free(text);
    if (!made) return NULL;
    text = longer;
  }
  return text;
}

/* JSON value -> the text that a flag would have. NULL: not a scalar. To be freed. */
static char *json_text(const json_t *v) {
  if (json_is_string(v)) return strdup(json_string_value(v));
  if (json_is_null(v)) return strdup("none");
  if (json_is_boolean(v) || json_is_number(v)) {
    return json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
  }
  return json_list(v);
}

static DdpError *read_file(DdpConfig *c, const DdpJob *job, const char *path) {
  json_error_t where;
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
  if (!root) {
    if (where.line < 0) return ddp_error(DDP_USAGE, "--config: %s", where.text);
    return ddp_error(DDP_USAGE, "--config %s:%d:%d: %s", path, where.line, where.column,
                     where.text);
  }
  DdpError *error = NULL;
  if (!json_is_object(root)) {
    error =
        ddp_error(DDP_USAGE, "--config %s: expected one JSON object, {\"key\": value, ...}", path);
  }
  const char *name;
  json_t *value;
  void *iterator = error ? NULL : json_object_iter(root);
  for (; iterator && !error; iterator = json_object_iter_next(root, iterator)) {
    name = json_object_iter_key(iterator);
    value = json_object_iter_value(iterator);
    char *text = json_text(value), *origin = NULL;
    if (asprintf(&origin, "%s: %s", path, name) < 0) origin = NULL;
    if (!origin)
      error = ddp_error(DDP_MEMORY, "out of memory");
    else if (!text)
      error = ddp_error(DDP_USAGE, "%s: expected a number, text, true, false or null", origin);
    else
      error = override(c, job, name, text, origin, path);
    free(text);
    free(origin);
  }
  json_decref(root);
  return error;
}

typedef struct Flag {
  const char *origin; /* "--learning_rate" as written, without the value */
  const char *name;   /* with underscores */
  const char *value;  /* NULL: none given */
  int consumed;
} Flag;

static bool is_bool(const char *text) {
  return strcmp(text, "true") == 0 || strcmp(text, "false") == 0 || strcmp(text, "True") == 0 ||
         strcmp(text, "False") == 0 || strcmp(text, "none") == 0 || strcmp(text, "None") == 0;
}

/* One flag at argv[0]; a value may follow in argv[1]. */
static DdpError *flag_split(DdpConfig *c, int argc, char **argv, Flag *f) {
  const char *arg = argv[0];
  if (strcmp(arg, "-h") == 0) arg = "--help";
  if (strncmp(arg, "--", 2) != 0 || !arg[2]) {
    return ddp_error(DDP_USAGE, "unexpected argument '%s': settings are given as --key value", arg);
  }
  const char *equals = strchr(arg, '=');
  char *name = equals ? strndup(arg, (size_t)(equals - arg)) : strdup(arg);
  if (!name) return ddp_error(DDP_MEMORY, "out of memory");
  f->origin = ddp_config_keep(c, name);
  for (char *p = name + 2; *p; p++) {
    if (*p == '-') *p = '_';
  }
  f->name = ddp_config_keep(c, name + 2);
  free(name);
  f->value = equals ? equals + 1 : NULL;
  f->consumed = 1;
  int key = row_find(f->name);
  bool takes_value = key >= 0;
  for (int i = 0; i < OWN_FLAGS; i++) {
    if (strcmp(own_flags[i].name, f->name) == 0) takes_value = own_flags[i].argument != NULL;
  }
  if (f->value || !takes_value) return NULL;
  bool next = argc > 1 && strncmp(argv[1], "--", 2) != 0;
  if (key >= 0 && ddp_setting_rows[key].type == DDP_TYPE_bool) {
    next = next && is_bool(argv[1]);
    f->value = "true"; /* a lone flag switches it on, as in the Trainer's scripts */
  }
  if (next) {
    f->value = argv[1];
    f->consumed = 2;
  }
  if (!f->value) return ddp_error(DDP_USAGE, "%s: a value is missing", f->origin);
  return NULL;
}

static DdpError *own_flag(DdpConfig *c, const Flag *f, bool *found) {
  for (int i = 0; i < OWN_FLAGS; i++) {
    if (strcmp(own_flags[i].name, f->name) != 0) continue;
    char *at = (char *)c + own_flags[i].offset;
    *found = true;
    if (own_flags[i].argument)
      *(const char **)(void *)at = ddp_config_keep(c, f->value);
    else if (f->value)
      return ddp_error(DDP_USAGE, "%s takes no value", f->origin);
    else
      *(bool *)at = true;
    return NULL;
  }
  *found = false;
  return NULL;
}

/* Of two different values one would be ignored. */
static DdpError *check_once(const DdpConfig *c, const Flag *f) {
  int key = row_find(f->name);
  if (key < 0 || strncmp(c->source[key], "--", 2) != 0) return NULL;
  if (ddp_config_same(&ddp_setting_rows[key], c->value[key], f->value)) return NULL;
  return ddp_error(DDP_USAGE, "%s is given twice: '%s' and '%s'", f->origin, c->value[key],
                   f->value);
}

/* Two passes, because --config may stand anywhere and loses against every flag. */
static DdpError *read_flags(DdpConfig *c, const DdpJob *job, int argc, char **argv, bool settings) {
  for (int i = 1; i < argc;) {
    Flag f = {0};
    bool own = false;
    DDP_TRY(flag_split(c, argc - i, argv + i, &f));
    i += f.consumed;
    DDP_TRY(own_flag(c, &f, &own));
    if (own) continue;
    if (row_find(f.name) < 0) return unknown(f.origin, f.name);
    if (!settings) continue;
    DDP_TRY(check_once(c, &f));
    DDP_TRY(override(c, job, f.name, f.value, f.origin, f.origin));
  }
  return NULL;
}

static bool own_given(const DdpConfig *c, const OwnFlag *f) {
  const char *at = (const char *)c + f->offset;
  return f->argument ? *(const char *const *)(const void *)at != NULL : *(const bool *)at;
}

/* A flag that would have no effect, and two that both end the run. */
static DdpError *check_own(const DdpConfig *c) {
  for (int i = 0; i < OWN_FLAGS; i++) {
    if (!own_flags[i].needs || !own_given(c, &own_flags[i])) continue;
    for (int k = 0; k < OWN_FLAGS; k++) {
      if (strcmp(own_flags[k].name, own_flags[i].needs) != 0 || own_given(c, &own_flags[k]))
        continue;
      return ddp_error(DDP_USAGE, "--%s has no effect without --%s", own_flags[i].name,
                       own_flags[k].name);
    }
  }
  return NULL;
}

static DdpError *check_stop(DdpConfig *c) {
  char *end;
  bool trains = !c->predict && !c->generate && !c->init_only;
  if (c->profile && !trains)
    return ddp_error(DDP_USAGE, "--profile has no effect on a run that does not train");
  if (!c->stop_at_update) return NULL;
  c->stop_at = strtoll(c->stop_at_update, &end, 10);
  if (*end || c->stop_at < 1 || c->stop_at > INT32_MAX)
    return ddp_error(DDP_USAGE, "--stop_at_update: '%s' is no number of an update, from 1",
                     c->stop_at_update);
  if (!trains)
    return ddp_error(DDP_USAGE, "--stop_at_update has no effect on a run that does not train");
  return NULL;
}

/* `true` may stay: whoever starts a run again adds it to every command line. */
static DdpError *check_resume(const DdpConfig *c) {
  const char *path = c->settings.resume_from_checkpoint;
  if (!path || !(c->predict || c->generate || c->init_only)) return NULL;
  if (strncmp(c->source[DDP_KEY_resume_from_checkpoint], "--", 2) != 0 || is_bool(path))
    return NULL;
  return ddp_error(
      DDP_USAGE,
      "--resume_from_checkpoint %s has no effect on a run that does not train; --init-from "
      "%s takes its weights",
      path, path);
}

static DdpError *check_ends(const DdpConfig *c) {
  const char *ends[] = {c->predict ? "--predict" : NULL, c->generate ? "--generate" : NULL,
                        c->init_only ? "--init_only" : NULL};
  const char *first = ends[0] ? ends[0] : ends[1];
  const char *second = ends[2] ? ends[2] : ends[1];
  if (first && second && first != second)
    return ddp_error(DDP_USAGE, "%s and %s: a run does one of them and ends", first, second);
  return NULL;
}

DdpError *ddp_config_read(DdpConfig *out, const DdpJob *job, int argc, char **argv) {
  memset(out, 0, sizeof *out);
  DDP_TRY(read_spec(out, job));
  DDP_TRY(read_flags(out, job, argc, argv, false));
  if (out->config) DDP_TRY(read_file(out, job, out->config));
  DDP_TRY(read_flags(out, job, argc, argv, true));
  DDP_TRY(check_own(out));
  DDP_TRY(check_ends(out));
  DDP_TRY(check_stop(out));
  DDP_TRY(check_resume(out));
  return ddp_config_rules(out);
}

void ddp_config_free(DdpConfig *c) {
  for (DdpText *t = c->texts; t;) {
    DdpText *next = t->next;
    free(t);
    t = next;
  }
  c->texts = NULL;
}

void ddp_config_print(const DdpConfig *c, FILE *out) {
  const char *block = "";
  for (int i = 0; i < DDP_KEY_COUNT; i++) {
    const DdpSettingRow *row = &ddp_setting_rows[i];
    if (row->class_ == 'X') continue;
    if (strcmp(block, row->block) != 0) fprintf(out, "%s%s\n", block[0] ? "\n" : "", row->block);
    block = row->block;
    fprintf(out, "  %-34s %-20s %s\n", row->name, c->value[i], c->source[i]);
  }
}

enum { HELP_WIDTH = 36 };

/* A long left side gets a line of its own. */
static void help_left(FILE *out, const char *left) {
  if (strlen(left) <= HELP_WIDTH)
    fprintf(out, "  %-*s ", HELP_WIDTH, left);
  else
    fprintf(out, "  %s\n  %*s ", left, HELP_WIDTH, "");
}

/* What may stand behind the key: the words that are supported, or the kind of value. */
static void help_value(const DdpSettingRow *row, char *out, size_t size) {
  static const char *const kinds[] = {"N", "X", "true|false", "TEXT", "WORD", "A,B", "A=B,C=D"};
  snprintf(out, size, "%s", kinds[row->type]);
  if (row->type != DDP_TYPE_word || !row->values[0]) return;
  size_t used = 0;
  for (const char *v = row->values; *v;) {
    size_t n = strcspn(v, "|");
    if (*v != '~' && used + n + 2 < size)
      used += (size_t)snprintf(out + used, size - used, "%s%.*s", used ? "|" : "", (int)n, v);
    v += n + (v[n] == '|');
  }
}

void ddp_config_help(const DdpConfig *c, FILE *out) {
  fprintf(out, "This program's own flags:\n");
  for (int i = 0; i < OWN_FLAGS; i++) {
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", own_flags[i].name, own_flags[i].argument ? " " : "",
             own_flags[i].argument ? own_flags[i].argument : "");
    for (char *p = left + 2; *p && *p != ' '; p++) {
      if (*p == '_') *p = '-';
    }
    help_left(out, left);
    fprintf(out, "%s\n", own_flags[i].doc);
  }
  fprintf(out, "\nSettings (--key value or --key=value), with the value they have now:\n");
  for (int i = 0; i < DDP_KEY_COUNT; i++) {
    const DdpSettingRow *row = &ddp_setting_rows[i];
    if (row->class_ != 'R' || row->later || c->fixed[i]) continue;
    char left[200], value[128];
    help_value(row, value, sizeof value);
    snprintf(left, sizeof left, "--%s %s", row->name, value);
    help_left(out, left);
    fprintf(out, "%s [%s]\n", row->doc, c->value[i]);
  }
  fprintf(out, "\nEverything else is fixed in this program; --print-config lists it all.\n");
}

/* What only rank 0 or the one machine uses may differ between ranks. */
static bool may_differ(int key) {
  return key == DDP_KEY_output_dir || key == DDP_KEY_data_root || key == DDP_KEY_threads ||
         key == DDP_KEY_disable_tqdm || key == DDP_KEY_log_format || key == DDP_KEY_run_name ||
         key == DDP_KEY_resume_from_checkpoint || key == DDP_KEY_log_level ||
         key == DDP_KEY_log_level_replica;
}

char *ddp_config_agreement(const DdpConfig *c) {
  size_t size = 1;
  for (int i = 0; i < DDP_KEY_COUNT; i++) {
    size += strlen(ddp_setting_rows[i].name) + strlen(c->value[i]) + 2;
  }
  char *text = malloc(size), *w = text;
  if (!text) return NULL;
  *w = 0;
  for (int i = 0; i < DDP_KEY_COUNT; i++) {
    if (!may_differ(i)) w += sprintf(w, "%s=%s\n", ddp_setting_rows[i].name, c->value[i]);
  }
  return text;
}
