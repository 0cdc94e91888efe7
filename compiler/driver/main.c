/* ddpc: command line, then sema, passes, plan, emission and the C compiler in turn. Exit status: 0 done,
   1 the job has errors, 2 the command line has. */
#include "diag.h"
#include "die.h"
#include "emit.h"
#include "explain.h"
#include "host_cc.h"
#include "options.h"
#include "pipeline.h"
#include "pipeline_ir.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { DONE = 0, WRONG_JOB = 1, WRONG_USE = 2 };

typedef struct Run {
  Arena *arena;
  Options options;
  const char *march;
  double started;
} Run;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static void say_time(Run *r, const char *what) {
  double t = now();
  if (r->options.value[OPT_verbose])
    fprintf(stderr, "%-10s %7.1f ms\n", what, 1e3 * (t - r->started));
  r->started = t;
}

static int flush(int code) {
  diag_flush(stderr, isatty(STDERR_FILENO) && !getenv("NO_COLOR"));
  return diag_errors() ? WRONG_JOB : code;
}

/* "cpu" or "cpu:MARCH". */
static bool choose_target(Run *r) {
  const char *t = r->options.value[OPT_target];
  r->march = "native";
  if (!t || !strcmp(t, "cpu")) return true;
  if (!strncmp(t, "cpu:", 4) && t[4]) {
    for (const char *c = r->march = t + 4; *c; c++)
      if (*c <= ' ' || *c == '"' || *c == '\\') goto unknown;
    return true;
  }
  if (!strncmp(t, "cuda", 4) && (!t[4] || t[4] == ':')) {
    fprintf(stderr,
            "ddpc: --target %s is not supported yet\n"
            "help: leave it out, or choose a processor with --target cpu:MARCH\n",
            t);
    return false;
  }
unknown:
  fprintf(stderr,
          "ddpc: unknown target `%s`\nhelp: cpu, or cpu:MARCH with a -march of the C compiler\n",
          t);
  return false;
}

static Job *analyse(Run *r, bool check_only) {
  if (r->options.names.len != 1) {
    fprintf(stderr, "ddpc: %s\nhelp: `ddpc --help` lists commands and options\n",
            r->options.names.len ? "one job at a time" : "which job?");
    return NULL;
  }
  SemaOptions how = {.defines = r->options.defines.at,
                     .n_defines = (int)r->options.defines.len,
                     .target = r->options.value[OPT_target],
                     .check_only = check_only};
  die_context("sema");
  Job *job = sema_analyse(r->arena, r->options.names.at[0], &how);
  say_time(r, "sema");
  return job;
}

static int write_out(const char *path, const Text *t) {
  bool standard = !path || !strcmp(path, "-");
  FILE *f = standard ? stdout : fopen(path, "w");
  bool good = f && fwrite(t->at ? t->at : "", 1, t->len, f) == t->len;
  if (f && (standard ? fflush(f) : fclose(f))) good = false;
  if (good) return DONE;
  fprintf(stderr, "ddpc: cannot write %s: %s\n", standard ? "to the standard output" : path,
          strerror(errno));
  return WRONG_USE;
}

/* Relative data paths start at the job's folder, wherever the program is started. */
static const char *job_folder(Arena *a, const Job *job) {
  char *path = realpath(*job->directory ? job->directory : ".", NULL);
  const char *kept = path ? arena_strdup(a, path) : job->directory;
  free(path);
  return kept;
}

/* The C file of a program: beside it, so that no other run of ddpc uses the same one. */
static int compile_text(Run *r, const Job *job, const Text *text) {
  const char *output = r->options.value[OPT_output] ? r->options.value[OPT_output] : "train";
  bool keep = r->options.value[OPT_keep] != NULL;
  char *source = keep ? arena_printf(r->arena, "%s.c", output)
                      : arena_printf(r->arena, "%s.%ld.c", output, (long)getpid());
  int code = write_out(source, text);
  if (code) return code;
  HostCompile c = {.source = source,
                   .output = output,
                   .march = r->march,
                   .directory = job_folder(r->arena, job),
                   .verbose = r->options.value[OPT_verbose] != NULL};
  bool good = host_compile(r->arena, &c);
  say_time(r, "cc");
  if (!keep) unlink(source);
  return good ? DONE : WRONG_USE;
}

static int run_ir(Run *r) {
  const char *stage = r->options.value[OPT_dump], *path = r->options.value[OPT_from_ir];
  if (!stage) {
    fprintf(stderr, "ddpc: --from-ir needs --dump=STAGE\n");
    return WRONG_USE;
  }
  uint32_t source = source_read(path);
  if (!source) {
    fprintf(stderr, "ddpc: cannot read %s: %s\n", path, strerror(errno));
    return WRONG_USE;
  }
  Text out = {0};
  bool good = pipeline_run_ir(r->arena, source, stage, &out);
  int code = flush(good ? DONE : WRONG_JOB);
  if (code == DONE) code = write_out(r->options.value[OPT_output], &out);
  text_free(&out);
  return code;
}

static int run_compile(Run *r) {
  const char *dump = r->options.value[OPT_dump], *emit = r->options.value[OPT_emit];
  if (dump && !pipeline_has_stage(dump)) {
    Text stages = {0};
    pipeline_stages(&stages);
    fprintf(stderr, "ddpc: there is no stage `%s`; there are %s\n", dump, stages.at);
    return WRONG_USE;
  }
  if (emit && strcmp(emit, "c")) {
    fprintf(stderr, "ddpc: --emit=%s: only c can be written\n", emit);
    return WRONG_USE;
  }
  if (r->options.value[OPT_from_ir]) return run_ir(r);
  Job *job = analyse(r, false);
  if (!job) return r->options.names.len == 1 ? flush(WRONG_JOB) : WRONG_USE;
  Text dumped = {0};
  Plan *plan = pipeline_run(job, dump, &dumped);
  say_time(r, "passes");
  int code = flush(DONE);
  if (code) return code;
  if (dump) return write_out(r->options.value[OPT_output], &dumped);
  Text text = {0};
  EmitOptions how = {.target = &target_cpu, .compiler_version = DDPC_VERSION, .march = r->march};
  emit_program(&text, plan, &how);
  say_time(r, "emit");
  code = emit ? write_out(r->options.value[OPT_output], &text) : compile_text(r, job, &text);
  text_free(&text);
  return code;
}

static int run_plan(Run *r) {
  Job *job = analyse(r, false);
  if (!job) return r->options.names.len == 1 ? flush(WRONG_JOB) : WRONG_USE;
  Plan *plan = pipeline_run(job, NULL, NULL);
  int code = flush(DONE);
  if (code) return code;
  Text text = {0};
  plan_print(&text, plan);
  code = write_out(NULL, &text);
  text_free(&text);
  return code;
}

static int run_check(Run *r) {
  Job *job = analyse(r, true);
  if (r->options.names.len != 1) return WRONG_USE;
  /* Fragments and libraries have no graph to go on with, and what is not supported yet no whole one. */
  if (job && job->train && job->eval && !diag_errors() && !diag_later()) pipeline_run(job, NULL, NULL);
  return flush(DONE);
}

static int run_explain(Run *r) {
  bool good = r->options.names.len > 0;
  if (!good) options_help(stderr, COMMAND_explain);
  for (uint32_t i = 0; i < r->options.names.len; i++) {
    if (i) printf("\n");
    if (!explain(r->options.names.at[i])) good = false;
  }
  return good ? DONE : WRONG_USE;
}

int main(int argc, char **argv) {
  Run r = {.arena = arena_new(), .started = now()};
  if (!options_parse(&r.options, r.arena, argc, argv)) return WRONG_USE;
  if (r.options.value[OPT_help]) {
    options_help(stdout, r.options.command);
    return DONE;
  }
  if (r.options.value[OPT_version]) {
    printf("ddpc %s\n", DDPC_VERSION);
    return DONE;
  }
  if (!choose_target(&r)) return WRONG_USE;
  int code = DONE;
  switch (r.options.command) {
  case COMMAND_plan:
    code = run_plan(&r);
    break;
  case COMMAND_check:
    code = run_check(&r);
    break;
  case COMMAND_explain:
    code = run_explain(&r);
    break;
  default:
    code = run_compile(&r);
    break;
  }
  arena_free(r.arena);
  return code;
}
