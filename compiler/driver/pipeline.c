/* The passes of ddpc in order, as one table. After each of them every graph is verified. */
#include "pipeline.h"
#include "die.h"
#include "diag.h"
#include "emit.h"
#include "passes.h"
#include "pipeline_ir.h"

typedef struct Pass {
  const char *name;
  void (*on_job)(Job *job);
  Graph *(*on_graph)(Graph *g);
  Graph *(*on_graph_of)(Graph *g, const Job *job);
} Pass;

/* Folding before grad makes gradients small; decomposing after it leaves loops for the planner. */
static const Pass passes[] = {
    {.name = "means", .on_job = pass_means},
    {.name = "fold", .on_graph_of = pass_fold},
    {.name = "cse", .on_graph = pass_cse},
    {.name = "dce", .on_graph = pass_dce},
    {.name = "cast", .on_job = pass_cast},
    {.name = "grad", .on_job = pass_grad},
    {.name = "decompose", .on_graph = pass_decompose},
    {.name = "layout", .on_graph_of = pass_layout},
    {.name = "fold2", .on_graph_of = pass_fold},
    {.name = "cse2", .on_graph = pass_cse},
    {.name = "dce2", .on_graph = pass_dce},
    {.name = "widen", .on_graph_of = pass_widen},
    {.name = "counts", .on_job = pass_counts},
    {.name = "gradients", .on_job = pass_gradients},
    {.name = "recompute", .on_job = pass_recompute},
};
enum { PASSES = sizeof passes / sizeof *passes };

/* What a plan can be looked at as. */
static const struct PlanView {
  const char *name;
  void (*print)(Text *out, const Plan *plan);
} views[] = {{"nests", plan_dump_nests}, {"launch", launch_print}, {"plan", plan_print}};
enum { VIEWS = sizeof views / sizeof *views };

static const struct PlanView *view_named(const char *name) {
  for (int i = 0; i < VIEWS; i++)
    if (!strcmp(views[i].name, name)) return &views[i];
  return NULL;
}

void pipeline_stages(Text *out) {
  text_add(out, "job");
  for (int i = 0; i < PASSES; i++) text_addf(out, ", %s", passes[i].name);
  for (int i = 0; i < VIEWS; i++) text_addf(out, ", %s", views[i].name);
}

bool pipeline_has_stage(const char *name) {
  for (int i = 0; i < PASSES; i++)
    if (!strcmp(passes[i].name, name)) return true;
  return !strcmp(name, "job") || view_named(name);
}

/* Calls `each` for every graph of the job, in the order in which they are printed. */
static void each_graph(Job *job, void (*each)(Graph **g, const Job *job, const Pass *pass),
                       const Pass *pass) {
  Graph **main_graphs[] = {&job->train,  &job->eval,   &job->predict,
                           &job->counts, &job->finish, &job->schedule};
  for (size_t i = 0; i < sizeof main_graphs / sizeof *main_graphs; i++)
    if (*main_graphs[i]) each(main_graphs[i], job, pass);
  for (uint32_t i = 0; i < job->optimizers.len; i++)
    if (job->optimizers.at[i].update) each(&job->optimizers.at[i].update, job, pass);
}

static void run_on_graph(Graph **g, const Job *job, const Pass *pass) {
  *g = pass->on_graph ? pass->on_graph(*g) : pass->on_graph_of(*g, job);
}
static void verify(Graph **g, const Job *job, const Pass *pass) {
  (void)job;
  ir_verify(*g, pass->name);
}

static Text *dump_text;
static void print(Graph **g, const Job *job, const Pass *pass) {
  (void)job;
  (void)pass;
  ir_print(dump_text, *g);
}
static void dump_graphs(Job *job, Text *out) {
  dump_text = out;
  each_graph(job, print, NULL);
}

/* False when it reported errors. */
static bool run_pass(Job *job, const Pass *pass) {
  unsigned before = diag_errors();
  die_context(pass->name);
  if (pass->on_job)
    pass->on_job(job);
  else
    each_graph(job, run_on_graph, pass);
  if (diag_errors() > before) return false;
  each_graph(job, verify, pass);
  return true;
}

Plan *pipeline_run(Job *job, const char *dump, Text *dump_out) {
  static const Pass start = {.name = "sema"};
  each_graph(job, verify, &start);
  if (dump && !strcmp(dump, "job")) {
    dump_graphs(job, dump_out);
    return NULL;
  }
  for (int i = 0; i < PASSES; i++) {
    if (!run_pass(job, &passes[i])) return NULL;
    if (!dump || strcmp(dump, passes[i].name)) continue;
    dump_graphs(job, dump_out);
    return NULL;
  }
  die_context("plan");
  Plan *plan = plan_make(job);
  if (plan && job->target.cuda && !diag_errors()) plan->device = emit_needs(plan);
  const struct PlanView *view = dump ? view_named(dump) : NULL;
  if (plan && view) view->print(dump_out, plan);
  die_context("emit");
  return dump ? NULL : plan;
}

/* Folding between these passes changes no verdict; it takes most of the time of a check. */
void pipeline_check(Job *job) {
  die_context("means");
  pass_means(job);
  if (diag_errors()) return;
  die_context("grad");
  pass_grad(job);
  if (diag_errors()) return;
}

static const Pass *find_pass(const char *name) {
  for (int i = 0; i < PASSES; i++)
    if (!strcmp(passes[i].name, name)) return &passes[i];
  return NULL;
}

bool pipeline_run_ir(Arena *a, uint32_t source, const char *stage, Text *out) {
  Graph *graphs[PIPELINE_MOST_GRAPHS];
  int n = ir_parse_all(a, source, graphs, PIPELINE_MOST_GRAPHS);
  if (n < 0) return false;
  const Pass *pass = find_pass(stage);
  Job *job = job_from_ir(a, source, graphs, n);
  if (pass && !pass->on_job) { /* any graph will do */
    die_context(pass->name);
    for (int i = 0; i < n; i++) {
      run_on_graph(&graphs[i], job, pass);
      ir_verify(graphs[i], pass->name);
      ir_print(out, graphs[i]);
    }
    return true;
  }
  if (pass && !run_pass(job, pass)) return false;
  const struct PlanView *view = view_named(stage);
  Plan *plan = view ? plan_make(job) : NULL;
  if (view && !plan) return false;
  if (view)
    view->print(out, plan);
  else
    dump_graphs(job, out);
  return true;
}
