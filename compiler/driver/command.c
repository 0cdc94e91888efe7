/* What the commands share. */
#include "command.h"
#include "diag.h"
#include "die.h"
#include "install.h"
#include "pipeline.h"
#include "weights.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

double run_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
void run_say_time(Run *r, const char *what) {
  double t = run_clock();
  if (what && r->options.value[OPT_verbose])
    fprintf(stderr, "%-10s %7.1f ms\n", what, 1e3 * (t - r->started));
  r->started = t;
}

int run_flush(int code) {
  diag_flush(stderr, isatty(STDERR_FILENO) && !getenv("NO_COLOR"));
  return diag_errors() ? WRONG_JOB : code;
}

const char *run_file(const Run *r) {
  uint32_t n = r->options.names.len;
  if (n == 1) return r->options.names.at[0];
  bool typo =
      n > 1 && r->options.command == COMMAND_compile && access(r->options.names.at[0], F_OK);
  const char *command = typo ? options_nearest_command(r->options.names.at[0]) : NULL;
  if (command) {
    fprintf(stderr, "ddpc: there is no command `%s`\nhelp: did you mean `ddpc %s`?\n",
            r->options.names.at[0], command);
    return NULL;
  }
  fprintf(stderr, "ddpc: %s\nhelp: `ddpc --help` lists commands and options\n",
          n ? "one job at a time" : "which job?");
  return NULL;
}

static const char *include_folder(Arena *a) {
  const Install *where = install_find(a);
  return where ? where->include : NULL;
}

/* "native", "sm_80,sm_90", "sim" */
static const char *processors(Arena *a, const JobTarget *t) {
  if (!t->cuda) return t->march;
  const char *text = t->emulated ? "sim" : t->archs.at[0];
  for (uint32_t i = 1; !t->emulated && i < t->archs.len; i++)
    text = arena_printf(a, "%s,%s", text, t->archs.at[i]);
  return text;
}

Job *run_analyse(Run *r, const char *path, bool check_only) {
  SemaOptions how = {.defines = r->options.defines.at,
                     .n_defines = (int)r->options.defines.len,
                     .target = r->options.value[OPT_target],
                     .include = include_folder,
                     .no_kernels = run_switch(r, OPT_no_kernels),
                     .check_only = check_only};
  die_context("sema");
  Job *job = sema_analyse(r->arena, path, &how);
  if (job) r->march = processors(r->arena, &job->target);
  if (job && !weights_check(r->arena, job)) job = NULL;
  run_say_time(r, "sema");
  return job;
}

void run_check_memory(const Plan *plan) {
  const JobTarget *target = &plan->job->target;
  int64_t bytes = plan_room_bytes(plan);
  if (!target->memory || bytes <= target->memory) return;
  diag_report(DIAG_E0905, target->at,
              "one rank takes %lld bytes %s; `memory` of target `%s` is %lld", (long long)bytes,
              plan_on_gpu(plan) ? "of its GPU, with an allowance for the CUDA context and libraries"
                                : "beside the data",
              target->name, (long long)target->memory);
  diag_help("`ddpc plan --target %s --max-batch` finds the largest batch that fits", target->name);
}

bool run_memory(const Run *r, int64_t *bytes) {
  const char *given = r->options.value[OPT_memory];
  *bytes = 0;
  if (!given || text_parse_size(given, bytes)) return true;
  fprintf(stderr, "ddpc: --memory %s is no size\nhelp: a number with a unit, as 16GiB or 500MB\n",
          given);
  return false;
}

Plan *run_plan(Run *r, int *code) {
  *code = WRONG_USE;
  const char *path = run_file(r);
  int64_t memory;
  if (!path || !run_memory(r, &memory)) return NULL;
  Job *job = run_analyse(r, path, false);
  if (job && memory) job->target.memory = memory;
  Plan *plan = job ? pipeline_run(job, NULL, NULL) : NULL;
  if (plan && !run_switch(r, OPT_max_batch)) run_check_memory(plan);
  run_say_time(r, "passes");
  *code = run_flush(plan ? DONE : WRONG_JOB);
  return *code == DONE ? plan : NULL;
}

bool run_switch(const Run *r, OptionKind option) {
  return r->options.value[option] != NULL;
}

int run_write(const char *path, const Text *t) {
  bool standard = !path || !strcmp(path, "-");
  FILE *f = standard ? stdout : fopen(path, "w");
  bool good = f && fwrite(t->at ? t->at : "", 1, t->len, f) == t->len;
  if (f && (standard ? fflush(f) : fclose(f))) good = false;
  if (good) return DONE;
  fprintf(stderr, "ddpc: cannot write %s: %s\n", standard ? "to the standard output" : path,
          strerror(errno));
  return WRONG_USE;
}

int run_write_json(const char *path, json_t *j) {
  char *s = json_dumps(j, JSON_INDENT(2));
  json_decref(j);
  check(s, "a value has no JSON");
  Text t = {0};
  text_add(&t, s);
  text_add(&t, "\n");
  free(s);
  int code = run_write(path, &t);
  text_free(&t);
  return code;
}

json_t *run_json_text(const char *s) {
  if (!s) return json_null();
  json_t *j = json_string(s);
  if (j) return j;
  Text t = {0}; /* other bytes become `?` */
  for (; *s; s++) text_add_n(&t, (unsigned char)*s < 0x80 ? s : "?", 1);
  j = json_string(t.at ? t.at : "");
  text_free(&t);
  return j;
}

json_t *run_json_place(Span at) {
  if (!at.file) return json_null();
  Place p = source_place(at.file, at.begin);
  json_t *j = json_object();
  json_object_set_new(j, "path", run_json_text(p.path));
  json_object_set_new(j, "line", json_integer(p.line));
  json_object_set_new(j, "column", json_integer(p.column));
  return j;
}

const char *run_place(Arena *a, Span at) {
  if (!at.file) return "";
  Place p = source_place(at.file, at.begin);
  return arena_printf(a, "%s:%u", p.path, p.line);
}
