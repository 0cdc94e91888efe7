/* Plan -> train.c: header, tables, kernels, functions, job, main; for devices kernels and what launches
   them in a text of their own (device.c). The functions are written first, into texts of their own,
   because they decide which kernels there are. */
#include "emit.h"
#include "device.h"
#include "die.h"
#include "extern.h"
#include "op.h"
#include "program.h"
#include "tables.h"
#include <string.h>

void emit_need(Emit *e, const char *header) {
  for (uint32_t i = 0; i < e->headers.len; i++)
    if (!strcmp(e->headers.at[i], header)) return;
  vec_push(e->arena, &e->headers, header);
}

void emit_includes(const Emit *e, Text *out) {
  for (uint32_t i = 0; i < e->headers.len; i++)
    text_addf(out, "#include \"kernels/%s/%s\"\n", e->target->kernels, e->headers.at[i]);
}

/* What the text of the host has of the functions, to be read from its end. */
static const char *const reading[] = {
    "   Read from the end: main() starts `job`, whose functions are forward_backward(),\n"
    "   evaluate(), the optimizer's step and the schedule. Above them stand the kernels, above\n"
    "   these the tables. The first micro-batch of an update writes the gradients, the others\n"
    "   add to them; ddp_grad_ready() marks where one is complete, so that its bucket may leave,\n"
    "   and DDP_RAN() where a trace looks at the clock.\n"
    "   B is the number of samples of a micro-batch; all other sizes are constants. */\n",
    "   What runs on the host: main() at the end starts `job`; above it stand the schedule, the\n"
    "   values of metrics, the tables. Kernels and what launches them are in the .cu beside. */\n"};

void emit_title(const Emit *e, Text *out) {
  const EmitOptions *how = e->options;
  const Job *job = e->plan->job;
  const char *file = strrchr(job->path, '/');
  text_addf(out, "/* %s, compiled by ddpc %s for %s:%s\n   job %016llx, plan %016llx\n\n",
            file ? file + 1 : job->path, how->compiler_version, how->target->name, how->march,
            (unsigned long long)job->spec_hash, (unsigned long long)e->plan->hash);
}

static void write_header(Emit *e, Text *out) {
  const Job *job = e->plan->job;
  bool whole = e->options->target == e->target;
  emit_title(e, out);
  text_add(out, reading[!whole]);
  text_add(out, "#include \"ddp/job.h\"\n#include \"ddp/settings.h\"\n");
  if (whole)
    text_add(out, "#include \"kernels/cpu/conv.h\"\n#include \"kernels/cpu/gemm16.h\"\n#include "
                  "\"kernels/cpu/index.h\"\n"
                  "#include \"kernels/cpu/math.h\"\n#include \"kernels/cpu/optimizer.h\"\n"
                  "#include \"kernels/cpu/pool.h\"\n#include \"kernels/random.h\"\n");
  else
    text_add(out, "#include \"kernels/cpu/math.h\"\n");
  emit_includes(e, out);
  for (uint32_t i = 0; i < job->natives.len; i++)
    if (job->natives.at[i].compiled)
      text_addf(out, "#include \"%s\"\n", job->natives.at[i].include);
  text_add(out, "\n#ifndef DDP_JOB_DIRECTORY\n#define DDP_JOB_DIRECTORY \"\"\n#endif\n\n");
}

void emit_section(Text *out, const char *title) {
  text_addf(out, "/* ---------- %s ---------- */\n\n", title);
}

static void write_helpers(Emit *e, Text *out) {
  for (uint32_t i = 0; i < e->helpers.len; i++) {
    const Helper *h = &e->helpers.at[i];
    const char *in = e->target->compute_type(h->in);
    text_addf(out, "%s %s %s(", e->target->helper_qualifier, e->target->compute_type(h->result),
              h->name);
    for (int k = 0; k < op_def(h->op)->inputs; k++)
      text_addf(out, "%s%s %c", k ? ", " : "", in, 'a' + k);
    text_addf(out, ") {\n  return %s;\n}\n\n", h->body);
  }
}

/* Up to the next blank that is not in "x [B, 64]". */
static size_t item_length(const char *s) {
  size_t n = 0;
  for (int depth = 0; s[n] && (s[n] != ' ' || depth || s[n + 1] == '['); n++)
    depth += (s[n] == '[') - (s[n] == ']');
  return n;
}

/* Which lines of the job it is for, and the shapes of its memory; in lines of up to 100 columns. */
static void write_comment(const Function *f, Text *out) {
  Text t = {0};
  for (uint32_t k = 0; k < f->at.len && k < 4; k++)
    text_addf(&t, "%s%s", k ? ", " : "", f->at.at[k]);
  if (f->at.len > 4) text_addf(&t, " and %u more", f->at.len - 4);
  if (*f->shapes) text_addf(&t, "%s%s", t.len ? ": " : "", f->shapes);
  if (!t.len) return;
  text_add(out, "/* ");
  size_t column = 3;
  for (const char *word = t.at; *word;) {
    size_t n = item_length(word), room = word[n] ? 0 : 3;
    if (column + 1 + n + room > 100 && word != t.at) {
      text_add(out, "\n   ");
      column = 3;
    } else if (word != t.at) {
      text_add(out, " ");
      column++;
    }
    text_add_n(out, word, n);
    column += n;
    word += n + (word[n] == ' ');
  }
  text_add(out, " */\n");
  text_free(&t);
}

void emit_functions(Emit *e, Text *out) {
  write_helpers(e, out);
  for (uint32_t i = 0; i < e->functions.len; i++) {
    const Function *f = &e->functions.at[i];
    write_comment(f, out);
    /* parameters stand under each other behind the name */
    size_t longest = 0, before = strlen(f->head) + strlen(f->name);
    for (uint32_t k = 0; k < f->n_parameters; k++)
      if (strlen(f->parameters[k]) > longest) longest = strlen(f->parameters[k]);
    bool wide = before > 60 || before + longest + 4 > 100;
    if (wide) text_addf(out, "%s\n", f->head);
    const char *head = wide ? f->name : arena_printf(e->arena, "%s %s", f->head, f->name);
    write_call(out, wide ? "    " : "", head, f->parameters, f->n_parameters, " {\n");
    text_addf(out, "%s}\n\n", f->body);
  }
}

static void name_leaves(Emit *e) {
  const Job *job = e->plan->job;
  e->leaf_name = ARENA_ARRAY(e->arena, const char *, job->leaves.len + 1);
  const char *common = plan_common_module(job);
  for (uint32_t i = 0; i < job->leaves.len; i++)
    e->leaf_name[i] = names_add(&e->globals, plan_short_name(job->leaves.at[i].name, common));
}

static void reserve_globals(Emit *e) {
  static const char *const names[] = {"arenas",
                                      "ready",
                                      "init",
                                      "groups",
                                      "fields",
                                      "sources",
                                      "splits",
                                      "settings",
                                      "metrics",
                                      "optimizers",
                                      "spec",
                                      "evaluate",
                                      "accumulate",
                                      "schedule",
                                      "factor",
                                      "count_per_sample",
                                      "metric_values",
                                      "forward_backward",
                                      "predict",
                                      "results",
                                      "warmup",
                                      "total",
                                      "base_lr",
                                      "window_counts",
                                      "forward_backward_chunk",
                                      "evaluate_chunk"};
  static const char *const device[] = {"target", "sm", "scratch"};
  for (size_t i = 0; e->options->target->host && i < sizeof device / sizeof *device; i++)
    names_add(&e->globals, device[i]);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) names_add(&e->globals, names[i]);
  for (int64_t i = 0; i < external_count(); i++) {
    const char *function = external_at(i)->function;
    if (!names_has(&e->globals, function)) names_add(&e->globals, function);
  }
  for (uint32_t i = 0; i < e->plan->job->optimizers.len; i++)
    names_add(&e->globals, optimizer_function(e, (int32_t)i));
}

/* A line an item: C compilers need not take literals of more than 4,095 characters. */
static void write_spec(Emit *e, const char *spec, Text *out) {
  text_add(out, "/* The job with all its defaults, as --spec prints it */\n"
                "static const char *const spec[] = {\n");
  while (*spec) {
    size_t n = strcspn(spec, "\n");
    n += spec[n] == '\n';
    text_add(out, "    ");
    write_string(out, arena_strndup(e->arena, spec, n), "");
    text_add(out, ",\n");
    spec += n;
  }
  text_add(out, "    NULL,\n};\n\n");
}

static Emit emit_new(const Plan *plan, const EmitOptions *options, const Target *target) {
  Emit e = {.plan = plan, .options = options, .target = target, .arena = plan->job->arena};
  names_init(&e.globals, e.arena, NULL);
  reserve_globals(&e);
  name_leaves(&e);
  return e;
}

typedef struct Parts { /* of a program, in the order in which they stand */
  Text steps, metrics, optimizers, rates;
} Parts;

static void parts_free(Parts *p) {
  text_free(&p->steps);
  text_free(&p->metrics);
  text_free(&p->optimizers);
  text_free(&p->rates);
}

/* What trains and evaluates, in the text of the target. */
static void write_steps(Emit *e, Emit *host, Parts *parts) {
  const Plan *plan = e->plan;
  Text *steps = &parts->steps, *metrics = e == host ? steps : &parts->metrics;
  program_write(e, &plan->train, ROLE_train, 0, steps);
  text_add(steps, "\n");
  if (plan->counts.kernels.len) {
    program_write(e, &plan->counts, ROLE_counts, 0, steps);
    text_add(steps, "\n");
  }
  if (plan->eval.kernels.len) {
    program_write(e, &plan->eval, ROLE_eval, 0, steps);
    text_add(steps, "\n");
    program_write(host, &plan->finish, ROLE_finish, 0, metrics);
    text_add(metrics, "\n");
  }
  if (plan->predict.g) {
    program_write(e, &plan->predict, ROLE_predict, 0, steps);
    text_add(steps, "\n");
  }
}

static void write_rates(Emit *e, Emit *host, Parts *parts) {
  Text *optimizers = &parts->optimizers, *rates = e == host ? optimizers : &parts->rates;
  for (uint32_t i = 0; i < e->plan->job->optimizers.len; i++) {
    optimizer_write(e, (int32_t)i, optimizers);
    text_add(optimizers, "\n");
  }
  tables_write_late(host, rates);
  program_write(host, &e->plan->schedule, ROLE_schedule, 0, rates);
}

static void write_device(Emit *e, const Parts *parts, Text *out) {
  device_write_header(e, out);
  if (e->products.len) emit_section(out, "matrix products");
  device_write_products(e, out);
  emit_section(out, "kernels");
  emit_functions(e, out);
  emit_section(out, "one micro-batch");
  text_add(out, parts->steps.at);
  emit_section(out, "optimizer");
  text_add(out, parts->optimizers.at);
  emit_section(out, "for the runtime");
  device_write_target(e, out);
}

PlanDevice emit_needs(const Plan *plan) {
  const EmitOptions options = {.target = &target_cuda, .compiler_version = "", .march = ""};
  Emit e = emit_new(plan, &options, &target_cuda), host = emit_new(plan, &options, &target_cpu);
  Parts parts = {0};
  write_steps(&e, &host, &parts);
  write_rates(&e, &host, &parts);
  parts_free(&parts);
  return device_needs(&e);
}

void emit_program(Text *out, Text *device, const Plan *plan, const EmitOptions *options) {
  const Target *target = options->target;
  Emit e = emit_new(plan, options, target), other = {0}, *host = &e;
  if (target->host) *(host = &other) = emit_new(plan, options, target->host);
  Parts parts = {0};
  write_steps(&e, host, &parts);
  write_rates(&e, host, &parts);
  if (target->host) write_device(&e, &parts, device);
  const Text *steps = target->host ? &parts.metrics : &parts.steps;
  const Text *rates = target->host ? &parts.rates : &parts.optimizers;

  write_header(host, out);
  emit_section(out, "tables");
  tables_write(host, out);
  write_spec(host, plan->job->spec ? plan->job->spec : "", out);
  if (target->host) device_declare(host, out);
  emit_section(out, "kernels");
  emit_functions(host, out);
  emit_section(out, target->host ? "metrics" : "one micro-batch");
  if (steps->at) text_add(out, steps->at);
  emit_section(out, target->host ? "schedule" : "optimizer and schedule");
  text_add(out, rates->at);
  text_add(out, "\n");
  emit_section(out, "the job");
  tables_write_job(host, out);
  text_add(out, "\nint main(int argc, char **argv) {\n  return ddp_main(&job, argc, argv);\n}\n");
  parts_free(&parts);
}
