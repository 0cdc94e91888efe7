/* `ddpc JOB -o OUT`: sema, passes, plan, emission and the C compiler in turn; --emit, --dump and --from-ir
   stop on the way. */
#include "diag.h"
#include "emit.h"
#include "host_cc.h"
#include "pipeline.h"
#include "pipeline_ir.h"
#include "command.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Relative data paths start at the job's folder, wherever the program is started. */
static const char *job_folder(Arena *a, const Job *job) {
  char *path = realpath(*job->directory ? job->directory : ".", NULL);
  const char *kept = path ? arena_strdup(a, path) : job->directory;
  free(path);
  return kept;
}

/* The sources of operators that the job imports from C headers. */
static void add_natives(Run *r, const Job *job, HostCompile *c) {
  const char **files = ARENA_ARRAY(r->arena, const char *, job->natives.len + 1);
  for (uint32_t i = 0; i < job->natives.len; i++) {
    const NativeHeader *n = &job->natives.at[i];
    if (n->compiled && n->c_file) files[c->n_natives++] = n->c_file;
  }
  c->natives = files;
  c->headers = job->natives.len > 0;
}

/* The C file of a program: beside it, so that no other run of ddpc uses the same one. */
static int compile_text(Run *r, const Job *job, const Text *text) {
  const char *output = r->options.value[OPT_output] ? r->options.value[OPT_output] : "train";
  bool keep = r->options.value[OPT_keep] != NULL;
  char *source = keep ? arena_printf(r->arena, "%s.c", output)
                      : arena_printf(r->arena, "%s.%ld.c", output, (long)getpid());
  int code = run_write(source, text);
  if (code) return code;
  HostCompile c = {.source = source,
                   .output = output,
                   .march = r->march,
                   .directory = job_folder(r->arena, job),
                   .verbose = r->options.value[OPT_verbose] != NULL};
  add_natives(r, job, &c);
  bool good = host_compile(r->arena, &c);
  run_say_time(r, "cc");
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
  int code = run_flush(good ? DONE : WRONG_JOB);
  if (code == DONE) code = run_write(r->options.value[OPT_output], &out);
  text_free(&out);
  return code;
}

int cmd_compile(Run *r) {
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
  const char *path = run_file(r);
  if (!path) return WRONG_USE;
  Job *job = run_analyse(r, path, false);
  if (!job) return run_flush(WRONG_JOB);
  Text dumped = {0};
  Plan *plan = pipeline_run(job, dump, &dumped);
  if (plan) run_check_memory(plan);
  run_say_time(r, "passes");
  int code = run_flush(DONE);
  if (code) return code;
  if (dump) return run_write(r->options.value[OPT_output], &dumped);
  Text text = {0};
  EmitOptions how = {.target = &target_cpu, .compiler_version = DDPC_VERSION, .march = r->march};
  emit_program(&text, plan, &how);
  run_say_time(r, "emit");
  code = emit ? run_write(r->options.value[OPT_output], &text) : compile_text(r, job, &text);
  text_free(&text);
  return code;
}
