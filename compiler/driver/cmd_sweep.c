/* `ddpc sweep JOB`: the runs of the job's `sweep` block. In: its axes. Out: one run for every combination,
   the last axis fastest; runs that differ only in what may change at run time share a program. With -o
   the programs are compiled; else the commands that do it are printed. */
#include "command.h"
#include "diag.h"
#include <errno.h>
#include <sys/stat.h>

typedef struct Sweep {
  const Job *job;
  const char *file, *folder; /* of the programs */
  uint32_t runs, programs;
} Sweep;

/* Value of axis i in run n. */
static const char *value_at_run(const Job *job, uint32_t run, uint32_t axis) {
  uint32_t below = 1;
  for (uint32_t k = axis + 1; k < job->sweep.len; k++) below *= job->sweep.at[k].values.len;
  return job->sweep.at[axis].values.at[run / below % job->sweep.at[axis].values.len];
}

static bool same_program(const Job *job, uint32_t x, uint32_t y) {
  for (uint32_t i = 0; i < job->sweep.len; i++)
    if (job->sweep.at[i].compile_time &&
        strcmp(value_at_run(job, x, i), value_at_run(job, y, i)) != 0)
      return false;
  return true;
}

/* The first run with the same program, and the number of that program from 1. */
static uint32_t program_of(const Sweep *s, uint32_t run, uint32_t *number) {
  uint32_t first = run, n = 0;
  for (uint32_t i = 0; i <= first; i++) {
    bool fresh = true;
    for (uint32_t k = 0; k < i && fresh; k++) fresh = !same_program(s->job, i, k);
    n += fresh;
    if (same_program(s->job, i, run)) first = i;
  }
  if (number) *number = n;
  return first;
}

static const char *program_path(Arena *a, const Sweep *s, uint32_t run) {
  uint32_t number;
  program_of(s, run, &number);
  return s->programs == 1 ? arena_printf(a, "%s/train", s->folder)
                          : arena_printf(a, "%s/train-%u", s->folder, number);
}

/* "learning_rate=0.1,seed=2", as a folder's name. */
static const char *run_name(Arena *a, const Sweep *s, uint32_t run) {
  char *name = arena_strdup(a, "");
  for (uint32_t i = 0; i < s->job->sweep.len; i++)
    name = arena_printf(a, "%s%s%s=%s", name, i ? "," : "", s->job->sweep.at[i].key,
                        value_at_run(s->job, run, i));
  for (char *c = name; *c; c++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-=,", *c))
      *c = '_';
  if (strlen(name) > 160) name = arena_printf(a, "run-%u", run + 1);
  return name;
}

/* For a shell. */
static const char *shell(Arena *a, const char *word) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-=,/:@%";
  if (*word && !word[strspn(word, plain)]) return word;
  Text t = {0};
  text_add(&t, "'");
  for (; *word; word++) text_add_n(&t, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
  text_add(&t, "'");
  const char *kept = arena_strdup(a, t.at);
  text_free(&t);
  return kept;
}

/* Where a run writes: a folder of its own below the job's. NULL: the sweep itself or `final` says it. */
static const char *output_folder(Arena *a, const Sweep *s, uint32_t run) {
  for (uint32_t i = 0; i < s->job->sweep.len; i++)
    if (!strcmp(s->job->sweep.at[i].key, "output_dir")) return NULL;
  const char *base = "trainer_output";
  for (uint32_t i = 0; i < s->job->settings.len; i++) {
    const JobSetting *set = &s->job->settings.at[i];
    if (strcmp(set->key, "output_dir") != 0) continue;
    if (set->fixed || set->is_final) return NULL;
    if (strcmp(set->value, "none") != 0 && *set->value) base = set->value;
  }
  return arena_printf(a, "%s/%s", base, run_name(a, s, run));
}

typedef VEC(const char *) Words;

static Words compile_words(Run *r, const Sweep *s, uint32_t run) {
  Words w = {0};
  vec_push(r->arena, &w, "ddpc");
  vec_push(r->arena, &w, s->file);
  if (r->options.value[OPT_target]) {
    vec_push(r->arena, &w, "--target");
    vec_push(r->arena, &w, r->options.value[OPT_target]);
  }
  for (uint32_t i = 0; i < r->options.defines.len; i++) {
    const SemaDefine *d = &r->options.defines.at[i];
    vec_push(r->arena, &w, "-D");
    vec_push(r->arena, &w, arena_printf(r->arena, "%s=%s", d->name, d->value));
  }
  for (uint32_t i = 0; i < s->job->sweep.len; i++) {
    const SweepAxis *x = &s->job->sweep.at[i];
    if (!x->compile_time) continue;
    vec_push(r->arena, &w, "-D");
    vec_push(r->arena, &w, arena_printf(r->arena, "%s=%s", x->name, value_at_run(s->job, run, i)));
  }
  vec_push(r->arena, &w, "-o");
  vec_push(r->arena, &w, program_path(r->arena, s, run));
  return w;
}

static Words run_words(Arena *a, const Sweep *s, uint32_t run) {
  Words w = {0};
  const char *path = program_path(a, s, run), *output = output_folder(a, s, run);
  vec_push(a, &w, strchr(path, '/') ? path : arena_printf(a, "./%s", path));
  for (uint32_t i = 0; i < s->job->sweep.len; i++) {
    const SweepAxis *x = &s->job->sweep.at[i];
    if (x->compile_time) continue;
    vec_push(a, &w, arena_printf(a, "--%s", x->key));
    vec_push(a, &w, value_at_run(s->job, run, i));
  }
  if (output) {
    vec_push(a, &w, "--output_dir");
    vec_push(a, &w, output);
  }
  return w;
}

static void add_words(Text *out, Arena *a, const Words *w) {
  for (uint32_t i = 0; i < w->len; i++) text_addf(out, "%s%s", i ? " " : "", shell(a, w->at[i]));
  text_add(out, "\n");
}

static json_t *words_json(const Words *w) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < w->len; i++) json_array_append_new(list, run_json_text(w->at[i]));
  return list;
}

static json_t *sweep_json(Run *r, const Sweep *s) {
  json_t *all = json_object(), *programs = json_array(), *runs = json_array();
  for (uint32_t n = 0; n < s->runs; n++) {
    json_t *j = json_object(), *values = json_object();
    for (uint32_t i = 0; i < s->job->sweep.len; i++)
      json_object_set_new(values, s->job->sweep.at[i].name,
                          run_json_text(value_at_run(s->job, n, i)));
    Words w = run_words(r->arena, s, n);
    json_object_set_new(j, "name", run_json_text(run_name(r->arena, s, n)));
    json_object_set_new(j, "program", run_json_text(program_path(r->arena, s, n)));
    json_object_set_new(j, "values", values);
    json_object_set_new(j, "command", words_json(&w));
    json_array_append_new(runs, j);
    if (program_of(s, n, NULL) != n) continue;
    json_t *p = json_object();
    w = compile_words(r, s, n);
    json_object_set_new(p, "path", run_json_text(program_path(r->arena, s, n)));
    json_object_set_new(p, "command", words_json(&w));
    json_array_append_new(programs, p);
  }
  json_object_set_new(all, "job", run_json_text(s->file));
  json_object_set_new(all, "programs", programs);
  json_object_set_new(all, "runs", runs);
  return all;
}

/* As `ddpc JOB -D ... -o PROGRAM` does it. */
static int compile(Run *r, const Sweep *s, uint32_t run) {
  Run one = {.arena = r->arena, .started = r->started};
  one.options.command = COMMAND_compile;
  one.options.value[OPT_target] = r->options.value[OPT_target];
  one.options.value[OPT_verbose] = r->options.value[OPT_verbose];
  one.options.value[OPT_output] = program_path(r->arena, s, run);
  vec_push(r->arena, &one.options.names, s->file);
  for (uint32_t i = 0; i < r->options.defines.len; i++)
    vec_push(r->arena, &one.options.defines, r->options.defines.at[i]);
  for (uint32_t i = 0; i < s->job->sweep.len; i++) {
    const SweepAxis *x = &s->job->sweep.at[i];
    SemaDefine d = {x->name, value_at_run(s->job, run, i)};
    if (x->compile_time) vec_push(r->arena, &one.options.defines, d);
  }
  diag_reset();
  return cmd_compile(&one);
}

static bool count(Sweep *s) {
  enum { MOST_RUNS = 10000 };
  s->runs = 1;
  for (uint32_t i = 0; i < s->job->sweep.len; i++) {
    s->runs *= s->job->sweep.at[i].values.len;
    if (s->runs > MOST_RUNS) {
      fprintf(stderr, "ddpc: the sweep has more than %d runs\n", (int)MOST_RUNS);
      return false;
    }
  }
  for (uint32_t n = 0; n < s->runs; n++) s->programs += program_of(s, n, NULL) == n;
  return true;
}

static int compile_all(Run *r, const Sweep *s) {
  if (mkdir(s->folder, 0755) && errno != EEXIST) {
    fprintf(stderr, "ddpc: cannot make the folder %s: %s\n", s->folder, strerror(errno));
    return WRONG_USE;
  }
  for (uint32_t n = 0; n < s->runs; n++) {
    int code = program_of(s, n, NULL) == n ? compile(r, s, n) : DONE;
    if (code) return code;
  }
  return DONE;
}

int cmd_sweep(Run *r) {
  const char *file = run_file(r);
  if (!file) return WRONG_USE;
  const char *folder = r->options.value[OPT_output];
  Sweep s = {.job = run_analyse(r, file, false), .file = file, .folder = folder ? folder : "."};
  int code = run_flush(s.job ? DONE : WRONG_JOB);
  if (code || !s.job) return code;
  if (!s.job->sweep.len) {
    fprintf(stderr,
            "ddpc: %s has no `sweep`\nhelp: add `sweep { learning_rate in [1e-3, 1e-4] }`\n", file);
    return WRONG_JOB;
  }
  if (!count(&s)) return WRONG_JOB;
  bool list = run_switch(r, OPT_list) || !folder;
  if (!list) code = compile_all(r, &s);
  if (code) return code;
  if (run_switch(r, OPT_json)) return run_write_json(NULL, sweep_json(r, &s));
  Text out = {0};
  text_addf(&out, "# %u runs, %u programs\n", s.runs, s.programs);
  for (uint32_t n = 0; n < s.runs && list; n++) {
    if (program_of(&s, n, NULL) != n) continue;
    Words w = compile_words(r, &s, n);
    add_words(&out, r->arena, &w);
  }
  for (uint32_t n = 0; n < s.runs; n++) {
    Words w = run_words(r->arena, &s, n);
    add_words(&out, r->arena, &w);
  }
  code = run_write(NULL, &out);
  text_free(&out);
  return code;
}
