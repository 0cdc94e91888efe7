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

/* The texts of a program: files beside it, so that no other run of ddpc uses the same ones. */
static const char *text_file(Run *r, const char *output, const char *ending) {
  if (run_switch(r, OPT_keep)) return arena_printf(r->arena, "%s.%s", output, ending);
  return arena_printf(r->arena, "%s.%ld.%s", output, (long)getpid(), ending);
}

static int compile_texts(Run *r, const Job *job, const Text *host, const Text *device) {
  const char *output = r->options.value[OPT_output] ? r->options.value[OPT_output] : "train";
  HostCompile c = {.source = text_file(r, output, "c"),
                   .device = job->target.cuda ? text_file(r, output, "cu") : NULL,
                   .output = output,
                   .target = &job->target,
                   .directory = job_folder(r->arena, job),
                   .verbose = r->options.value[OPT_verbose] != NULL};
  int code = run_write(c.source, host);
  if (code == DONE && c.device) code = run_write(c.device, device);
  if (code == DONE) {
    add_natives(r, job, &c);
    code = host_compile(r->arena, &c) ? DONE : WRONG_USE;
    run_say_time(r, "cc");
  }
  if (!run_switch(r, OPT_keep)) {
    unlink(c.source);
    if (c.device) unlink(c.device);
  }
  return code;
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

static int write_program(Run *r, const Job *job, const Plan *plan) {
  const char *emit = r->options.value[OPT_emit];
  bool gpu = job->target.cuda, device = emit && !strcmp(emit, "cu");
  if (device && !gpu) {
    fprintf(stderr, "ddpc: --emit=cu: a program for CPUs has no such text\n"
                    "help: choose GPUs with --target cuda\n");
    return WRONG_USE;
  }
  Text texts[2] = {0}; /* of the host, of the device */
  EmitOptions how = {.target = gpu ? &target_cuda : &target_cpu,
                     .compiler_version = DDPC_VERSION,
                     .march = r->march};
  emit_program(&texts[0], &texts[1], plan, &how);
  run_say_time(r, "emit");
  int code = emit ? run_write(r->options.value[OPT_output], &texts[device])
                  : compile_texts(r, job, &texts[0], &texts[1]);
  text_free(&texts[0]);
  text_free(&texts[1]);
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
  if (emit && strcmp(emit, "c") && strcmp(emit, "cu")) {
    fprintf(stderr, "ddpc: --emit=%s: c can be written, and for GPUs cu\n", emit);
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
  return write_program(r, job, plan);
}
