/* The plan of a job. In: a job after all passes. Out: its programs, memory layout, buckets, names.
 */
#include "plan.h"
#include "diag.h"
#include "die.h"
#include "fuse.h"
#include "op.h"
#include <stdlib.h>

int64_t plan_chunk_wanted(const Job *job) {
  const char *text = job_setting(job, "loss_chunk");
  return strcmp(text, "none") ? strtoll(text, NULL, 10) : CHUNK_by_size;
}

enum { GPU_ROWS = 2048 }; /* teams of threads that keep a GPU busy */

static void make_program(Plan *plan, Program *p, const Graph *g, int64_t batch, bool epilogues,
                         KernelNames *names) {
  if (!g || g->outputs.len == 0) return;
  die_context(arena_printf(plan->job->arena, "plan of graph %s", g->name));
  ProgramOptions options = {.batch_max = batch, .epilogues = epilogues};
  bool has_loss = p == &plan->train || p == &plan->eval;
  if (has_loss) options.chunk = plan_chunk_wanted(plan->job);
  if (plan->job->target.cuda) options.least_rows = GPU_ROWS;
  plan_program(p, plan->job->arena, g, &options);
  plan_name_values(p, plan->job->arena, plan->job);
  plan_name_kernels(p, plan->job->arena, names);
}

int64_t plan_step_block(const Plan *plan) {
  int64_t most = 0;
  for (uint32_t i = 0; i < plan->optimizers.len; i++)
    if (plan->optimizers.at[i].block_bytes > most) most = plan->optimizers.at[i].block_bytes;
  return most;
}

/* With the batch of the job; graphs alone are checked for one sample. */
static bool sizes_fit(const Graph *g, int64_t batch) {
  for (Val v = 1; g && v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (type_elements_at(x->type, batch) <= TYPE_MOST_ELEMENTS) continue;
    diag_report(DIAG_E0421, x->at,
                "the result of `%s` has more than 2^47 elements at a batch of %lld",
                op_def(x->op)->name, (long long)batch);
    return false;
  }
  return true;
}

Plan *plan_make(Job *job) {
  if (!sizes_fit(job->train, job->train_batch) || !sizes_fit(job->eval, job->eval_batch))
    return NULL;
  Plan *plan = ARENA_NEW(job->arena, Plan);
  plan->job = job;
  KernelNames names = {0};
  const bool epilogues = job->target.epilogues;
  make_program(plan, &plan->train, job->train, job->train_batch, epilogues, &names);
  make_program(plan, &plan->eval, job->eval, job->eval_batch, epilogues, &names);
  make_program(plan, &plan->predict, job->predict, job->eval_batch, epilogues, &names);
  make_program(plan, &plan->counts, job->counts, job->train_batch, false, &names);
  make_program(plan, &plan->finish, job->finish, 1, false, &names);
  make_program(plan, &plan->schedule, job->schedule, 1, false, &names);
  int64_t largest = 1; /* elements of a tensor: B of an optimizer's graph */
  for (uint32_t i = 0; i < job->leaves.len; i++) {
    int64_t n = type_elements_at(job->leaves.at[i].type, 1);
    if (job->leaves.at[i].trained && n > largest) largest = n;
  }
  for (uint32_t i = 0; i < job->optimizers.len; i++) {
    vec_push(job->arena, &plan->optimizers, (Program){0});
    make_program(plan, &plan->optimizers.at[i], job->optimizers.at[i].update, largest, false,
                 &names);
  }
  plan_layout(plan);
  plan->hash = plan_hash(plan);
  return plan;
}

static void dump_program(Text *out, const Program *p, Arena *a) {
  if (!p->g) return;
  text_addf(out, "program %s\n", p->g->name);
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    text_addf(out, "kernel %u %s", i, k->name ? k->name : "");
    if (k->nest)
      text_addf(out, " key %016llx\n", (unsigned long long)k->key);
    else
      text_addf(out, " call %%%u%s%s\n", k->call, k->epilogue.kind ? " epilogue " : "",
                plan_epilogue_text(&k->epilogue, a));
    if (k->nest) nest_print(out, k->nest);
  }
}

void plan_dump_nests(Text *out, const Plan *plan) {
  Arena *a = plan->job->arena;
  dump_program(out, &plan->train, a);
  dump_program(out, &plan->eval, a);
  dump_program(out, &plan->predict, a);
  dump_program(out, &plan->counts, a);
  dump_program(out, &plan->finish, a);
  dump_program(out, &plan->schedule, a);
  for (uint32_t i = 0; i < plan->optimizers.len; i++) dump_program(out, &plan->optimizers.at[i], a);
}
