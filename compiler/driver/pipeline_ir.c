/* A job around the graphs of a file, for passes run as filters. */
#include "pipeline_ir.h"

static void add_leaf(Job *job, const Value *v) {
  uint32_t n = (uint32_t)v->attr[0].as.i;
  while (job->leaves.len <= n) {
    Leaf l = {.name = arena_printf(job->arena, "p%u", job->leaves.len),
              .type = type_scalar(DT_f32),
              .trained = true,
              .tied_to = -1,
              .model = "net"};
    vec_push(job->arena, &job->leaves, l);
  }
  Leaf *l = &job->leaves.at[n];
  l->type = v->type;
  l->buffer = v->op == OP_buffer;
  l->trained = !l->buffer;
  l->group = l->buffer ? -1 : 0;
}

static void add_field(Job *job, const Value *v) {
  uint32_t n = (uint32_t)v->attr[0].as.i;
  while (job->dataset.fields.len <= n) {
    Field f = {.name = arena_printf(job->arena, "x%u", job->dataset.fields.len),
               .type = type_scalar(DT_f32)};
    vec_push(job->arena, &job->dataset.fields, f);
  }
  Field *f = &job->dataset.fields.at[n];
  f->used = true;
  f->type = v->type;
  f->type.rank = v->type.rank ? v->type.rank - 1 : 0;
  for (int i = 0; i < f->type.rank; i++) f->type.dim[i] = v->type.dim[i + 1];
}

static void take_graph(Job *job, Graph *g) {
  const struct {
    const char *name;
    Graph **at;
  } places[] = {{"train", &job->train},
                {"eval", &job->eval},
                {"counts", &job->counts},
                {"finish", &job->finish},
                {"schedule", &job->schedule}};
  bool optimizer = !strncmp(g->name, "optimizer.", 10);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (!strcmp(g->name, places[i].name)) *places[i].at = g;
  if (optimizer) {
    Optimizer o = {.name = g->name + 10, .whole = true, .update = g};
    for (Val v = 1; v < g->values.len; v++) {
      const Value *x = value_at(g, v);
      if (x->op != OP_input) continue;
      if (x->attr[0].as.i == 0) o.tensor = x->type;
      if (x->type.rank && x->type.dim[0].per_batch) o.whole = false;
    }
    vec_push(job->arena, &job->optimizers, o);
    return;
  }
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (x->op == OP_param || x->op == OP_buffer) add_leaf(job, x);
    if (x->op == OP_input) add_field(job, x);
  }
}

static void default_settings(Job *job) {
  static const JobSetting rows[] = {
#define SETTING(block, name, type, nullable, default_, values, class_, state, doc)                 \
  {.key = #name, .value = default_},
#include "settings.def"
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    vec_push(job->arena, &job->settings, rows[i]);
}

Job *job_from_ir(Arena *a, uint32_t source, Graph *const *graphs, int n) {
  Job *job = ARENA_NEW(a, Job);
  job->arena = a;
  job->path = source_get(source)->path;
  job->directory = "";
  job->train_batch = job->eval_batch = 4;
  job->recompute.on = true; /* of the pass as a filter */
  job->dataset.name = "data";
  Group group = {.name = "all", .learning_rate = 0.1};
  vec_push(a, &job->groups, group);
  default_settings(job);
  for (int i = 0; i < n; i++) take_graph(job, graphs[i]);
  return job;
}
