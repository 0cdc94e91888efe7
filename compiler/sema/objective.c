/* The objective. In: the `objective` block. Out: Job.train and Job.eval, the forward graphs with the
   loss, the written buffers and, for evaluation, the metrics as outputs. */
#include "analysis.h"
#include "diag.h"
#include "die.h"

static Val as_f32(Graph *g, Val v, Span at) {
  if (value_at(g, v)->type.dtype == DT_f32) return v;
  Attr attr = {.as.i = DT_f32};
  return ir_must(g, OP_cast, &v, 1, &attr, at, 0);
}

void objective_metric(void *self, Eval *e, const Stmt *stmt, Datum value) {
  Analysis *a = self;
  const Name *name = &stmt->targets.at[0];
  if (!e->build || e->build->graph->training) return; /* metrics are for evaluation */
  if (a->job->eval) return;                           /* the graph of the outputs */
  for (uint32_t i = 0; i < a->job->metrics.len; i++) {
    if (a->job->metrics.at[i].name != name->text) continue;
    eval_report(e, DIAG_E0302, name->span, "metric `%s` is declared twice", name->text);
    diag_note(a->job->metrics.at[i].at, "first declared here");
    return;
  }
  if (!strcmp(name->text, "loss")) {
    eval_report(e, DIAG_E0302, name->span, "`loss` is a metric already");
    return;
  }
  Val v = NO_VAL;
  if (value.kind == DATUM_error || !need_tensor(e, value, stmt->value->span, "a metric", &v)) {
    return;
  }
  Graph *g = e->build->graph;
  if (value_at(g, v)->type.rank != 0) {
    eval_report(e, DIAG_E0904, stmt->value->span, "metric `%s` is %s, not one number", name->text,
                datum_describe(e, value));
    diag_help("take the `mean` of it");
    return;
  }
  vec_push(a->arena, &a->job->metrics,
           (Metric){.name = name->text,
                    .at = name->span,
                    .eval_value = as_f32(g, v, stmt->value->span)});
}

/* Outputs are noted while the graph for evaluation is built, and computed in a graph of their own. */
void objective_output(void *self, Eval *e, const Stmt *stmt, Datum value) {
  Analysis *a = self;
  const Name *name = &stmt->targets.at[0];
  bool predict = e->build && a->job->eval && !e->build->graph->training;
  if (!e->build || e->build->graph->training) return;
  Val v = NO_VAL;
  if (value.kind == DATUM_error || !need_tensor(e, value, stmt->value->span, "an output", &v)) {
    return;
  }
  Type t = value_at(e->build->graph, v)->type;
  if (predict) {
    for (uint32_t i = 0; i < a->job->outputs.len; i++)
      if (a->job->outputs.at[i].name == name->text)
        graph_output(e->build->graph, OUT_result, (int32_t)i, v);
    return;
  }
  for (uint32_t i = 0; i < a->job->outputs.len; i++) {
    if (a->job->outputs.at[i].name != name->text) continue;
    eval_report(e, DIAG_E0302, name->span, "output `%s` is declared twice", name->text);
    diag_note(a->job->outputs.at[i].at, "first declared here");
    return;
  }
  if (t.rank == 0 || t.dim[0].per_batch != 1 || t.dim[0].fixed != 0) {
    eval_report(e, DIAG_E0914, stmt->value->span,
                "output `%s` is %s; its first dimension is not that of the samples", name->text,
                datum_describe(e, value));
    diag_help("`metric` is for one number over all samples");
    return;
  }
  vec_push(a->arena, &a->job->outputs,
           (JobOutput){.name = name->text, .type = t, .at = name->span});
}

/* Where `loss` was assigned last, for messages. */
static Span loss_span(const Decl *objective) {
  Span at = objective->span;
  for (uint32_t i = 0; i < objective->body.len; i++) {
    const Stmt *s = objective->body.at[i];
    for (uint32_t k = 0; k < s->targets.len; k++) {
      bool assigns = s->kind == STMT_assign || s->kind == STMT_collect;
      if (assigns && !strcmp(s->targets.at[k].text, "loss")) at = s->targets.at[k].span;
    }
  }
  return at;
}

static bool find_loss(Analysis *a, Eval *e, Env *env, Val *out) {
  Binding *b = NULL;
  for (uint32_t i = 0; i < env->names.len; i++) {
    if (!strcmp(env->names.at[i].name, "loss")) b = &env->names.at[i];
  }
  Span at = loss_span(a->objective);
  if (!b) {
    diag_report(DIAG_E0901, (Span){at.file, at.begin, at.begin + 9},
                "the objective makes no `loss`");
    diag_help("for example `loss = cross_entropy(logits, labels)`");
    return false;
  }
  Val v = NO_VAL;
  if (b->value.kind == DATUM_error || !need_tensor(e, b->value, at, "`loss`", &v)) return false;
  Type t = value_at(e->build->graph, v)->type;
  if (t.rank == 0 && dtype_category(t.dtype) == 'f') {
    *out = as_f32(e->build->graph, v, at);
    return true;
  }
  diag_report(DIAG_E0901, at, "`loss` is %s, not one float", datum_describe(e, datum_tensor(v)));
  if (t.rank) diag_help("take the `mean` of it");
  return false;
}

static Graph *build_graph(Analysis *a, bool training) {
  Graph *g = graph_new(a->arena, training ? "train" : "eval", training);
  Build *b = build_new(a->arena, g, a->leaves);
  b->batch = training ? a->job->train_batch : a->job->eval_batch;
  Eval e = eval_new(a->program, b, a->leaves, training);
  Env *env = env_new(a->arena, NULL, a->root);
  bool ok = eval_stmts(&e, a->objective->body, env);
  Val loss = NO_VAL;
  if (!ok || !find_loss(a, &e, env, &loss)) return NULL;
  graph_output(g, OUT_value, 0, loss);
  if (training) {
    build_buffers(b);
  } else {
    for (uint32_t i = 0; i < a->job->metrics.len; i++) {
      graph_output(g, OUT_value, (int32_t)i + 1, a->job->metrics.at[i].eval_value);
    }
  }
  ir_verify(g, "sema");
  return g;
}

/* metric_for_best_model: `eval_` may stand in front. */
static void check_metric_name(Analysis *a) {
  const SettingValue *v = settings_value(a->settings, "metric_for_best_model");
  const SettingSlot *slot = settings_slot(a->settings, "metric_for_best_model");
  const char *text = v->kind == VALUE_text ? v->text : NULL;
  if (slot->expr && slot->expr->kind == EXPR_name) text = slot->expr->as.name.text;
  if (!text) return;
  const char *name = !strncmp(text, "eval_", 5) ? text + 5 : text;
  TextNearest near = {.wanted = name};
  text_offer(&near, "loss");
  bool known = !strcmp(name, "loss");
  for (uint32_t i = 0; i < a->job->metrics.len; i++) {
    known |= !strcmp(name, a->job->metrics.at[i].name);
    text_offer(&near, a->job->metrics.at[i].name);
  }
  if (known) return;
  diag_report(DIAG_E0714, slot->at, "the objective has no metric `%s`", name);
  if (near.best) diag_help("did you mean `%s`?", near.best);
}

static Graph *build_predict(Analysis *a) {
  Graph *g = graph_new(a->arena, "predict", false);
  Build *b = build_new(a->arena, g, a->leaves);
  b->batch = a->job->eval_batch;
  Eval e = eval_new(a->program, b, a->leaves, false);
  Env *env = env_new(a->arena, NULL, a->root);
  bool ok = eval_stmts(&e, a->objective->body, env);
  if (!ok) return NULL;
  ir_verify(g, "sema");
  return g;
}

void objective_build(Analysis *a) {
  unsigned before = diag_errors();
  a->job->train = build_graph(a, true);
  if (!a->job->train && diag_errors() > before) return; /* the other graph has the same fault */
  a->job->eval = build_graph(a, false);
  a->objective_ok = a->job->train && a->job->eval;
  if (a->objective_ok) check_metric_name(a);
  if (a->objective_ok && a->job->outputs.len) a->job->predict = build_predict(a);
}
