/* `ddpc graph JOB`: a graph of the job as DOT, modules as clusters. */
#include "diag.h"
#include "op.h"
#include "pipeline.h"
#include "command.h"

typedef struct Drawing {
  const Graph *g;
  const Job *job;
  bool *used, *inside; /* by value: reaches an output; by scope: holds something used */
  Text *out;
} Drawing;

/* Inside the quotes of DOT. */
static void quoted(Text *out, const char *s) {
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') text_add(out, "\\");
    text_add_n(out, s, 1);
  }
}

static void node(const Drawing *d, Val v, int level) {
  const Value *x = value_at(d->g, v);
  Text type = {0};
  type_print(&type, x->type);
  const char *name = op_def(x->op)->name, *shape = "ellipse";
  bool leaf = x->op == OP_param || x->op == OP_buffer;
  int64_t number = leaf || x->op == OP_input ? x->attr[0].as.i : -1;
  if (leaf && number >= 0 && number < d->job->leaves.len) {
    name = d->job->leaves.at[number].name;
    shape = x->op == OP_param ? "box" : "box3d";
  }
  if (x->op == OP_input && number >= 0 && number < d->job->dataset.fields.len) {
    name = d->job->dataset.fields.at[number].name;
    shape = "cds";
  }
  text_addf(d->out, "%*sv%u [label=\"", 2 * level, "", v);
  quoted(d->out, name);
  text_add(d->out, "\\n");
  quoted(d->out, type.at);
  text_addf(d->out, "\", shape=%s];\n", shape);
  text_free(&type);
}

static void scope(const Drawing *d, Scope s, int level) {
  const Graph *g = d->g;
  if (s) {
    text_addf(d->out, "%*ssubgraph cluster_%u {\n%*slabel=\"", 2 * level, "", s, 2 * level + 2, "");
    quoted(d->out, g->scopes.at[s].name);
    text_add(d->out, "\";\n");
    level++;
  }
  for (Val v = 1; v < g->values.len; v++)
    if (d->used[v] && value_at(g, v)->scope == s) node(d, v, level);
  for (Scope c = s + 1; c < g->scopes.len; c++)
    if (g->scopes.at[c].parent == s && d->inside[c]) scope(d, c, level);
  if (s) text_addf(d->out, "%*s}\n", 2 * (level - 1), "");
}

static const char *output_name(Arena *a, const Job *job, const Output *o) {
  switch (o->kind) {
  case OUT_loss:
    return "loss";
  case OUT_grad:
    return arena_printf(a, "gradient of %s", job->leaves.at[o->index].name);
  case OUT_buffer:
    return arena_printf(a, "new %s", job->leaves.at[o->index].name);
  case OUT_result:
  case OUT_value:
    if (!o->index) return "loss";
    if ((uint32_t)o->index <= job->metrics.len)
      return arena_printf(a, "metric %s", job->metrics.at[o->index - 1].name);
    return arena_printf(a, "value %d", o->index);
  default:
    return arena_printf(a, "sum %d", o->index);
  }
}

static void draw(Arena *a, Text *out, const Graph *g, const Job *job) {
  Drawing d = {.g = g, .job = job, .out = out};
  d.used = ARENA_ARRAY(a, bool, g->values.len + 1);
  d.inside = ARENA_ARRAY(a, bool, g->scopes.len + 1);
  for (uint32_t i = 0; i < g->outputs.len; i++) d.used[g->outputs.at[i].value] = true;
  for (Val v = g->values.len - 1; v > 0; v--) {
    const Value *x = value_at(g, v);
    for (int i = 0; d.used[v] && i < x->inputs; i++) d.used[x->in[i]] = true;
    for (Scope s = x->scope; d.used[v] && s; s = g->scopes.at[s].parent) d.inside[s] = true;
  }
  text_addf(out, "digraph %s {\n  rankdir=TB;\n  node [fontname=\"sans-serif\"];\n", g->name);
  scope(&d, 0, 1);
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    text_addf(out, "  out%u [label=\"", i);
    quoted(out, output_name(a, job, &g->outputs.at[i]));
    text_addf(out, "\", shape=doubleoctagon];\n  v%u -> out%u;\n", g->outputs.at[i].value, i);
  }
  for (Val v = 1; v < g->values.len; v++)
    for (int i = 0; d.used[v] && i < value_at(g, v)->inputs; i++)
      text_addf(out, "  v%u -> v%u;\n", value_at(g, v)->in[i], v);
  text_add(out, "}\n");
}

int cmd_graph(Run *r) {
  static const char *const stages[] = {"forward", "train", "eval"};
  const char *stage = r->options.value[OPT_stage] ? r->options.value[OPT_stage] : "forward";
  bool known = false;
  for (int i = 0; i < 3; i++) known = known || !strcmp(stage, stages[i]);
  if (!known) {
    fprintf(stderr, "ddpc: there is no stage `%s`\nhelp: forward, train or eval\n", stage);
    return WRONG_USE;
  }
  const char *path = run_file(r);
  if (!path) return WRONG_USE;
  Job *job = run_analyse(r, path, false);
  const Graph *g = job ? job->train : NULL;
  if (job && !strcmp(stage, "eval")) g = job->eval;
  if (job && !strcmp(stage, "train")) {
    Plan *plan = pipeline_run(job, NULL, NULL);
    g = plan ? plan->train.g : NULL;
  }
  int code = run_flush(job ? DONE : WRONG_JOB);
  if (code || !g) return code ? code : WRONG_JOB;
  Text out = {0};
  draw(r->arena, &out, g, job);
  code = run_write(r->options.value[OPT_output], &out);
  text_free(&out);
  return code;
}
