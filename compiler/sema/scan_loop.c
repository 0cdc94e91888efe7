/* A `for` over tensors as a loop of the program (OP_scan). In: the statement and the tensors. Out: a
   value of the graph whose body is one turn.

   A turn is evaluated twice in the graph at hand. The first time shows which outer names it changes:
   they are carried. Then everything that was added goes, what is walked and carried becomes arguments,
   and the second evaluation is cut out of the graph as the body. What depends on no argument and no
   draw stays outside, so that it is computed once; constants and views of that go along, since
   they cost nothing there. */
#include "scan_loop.h"
#include "expr.h"
#include "fold.h"
#include "op.h"
#include "scan.h"
#include <string.h>

typedef struct Carried { /* a name of an outer scope */
  Binding *binding;
  Datum before;
  Type type; /* of what is carried */
  bool changed;
} Carried;

typedef struct Mark { /* of a graph that is being built */
  uint32_t values, sites;
  Val *leaf_value;
  uint32_t leaves;
} Mark;

typedef struct ScanLoop {
  Eval *e;
  const Stmt *s;
  Env *env;
  int over;
  const Val *walked;
  Dim length;
  bool reverse;
  VEC(Carried) names;
  Val *yielded;
  /* the turn, cut out of the graph */
  Graph old; /* what the graph was with the turn at its end */
  Graph *body;
  uint32_t first;           /* value of the turn */
  bool *depends, *constant; /* by value of `old`: on an argument or a draw; on constants alone */
  Val *outside, *inside;    /* by value of `old`: where it is now */
  Val input[IR_MAX_INPUTS]; /* of the loop */
  int inputs;
} ScanLoop;

/* ---------- what a turn changes ---------- */

static bool same_datum(Datum a, Datum b) {
  bool comparable = false;
  if (a.kind != b.kind) return false;
  switch (a.kind) {
  case DATUM_tensor:
    return a.as.tensor == b.as.tensor;
  case DATUM_leaf:
    return a.as.leaf == b.as.leaf;
  case DATUM_list:
  case DATUM_tuple:
    return a.as.list.at == b.as.list.at && a.as.list.len == b.as.list.len;
  case DATUM_bool:
  case DATUM_int:
  case DATUM_float:
  case DATUM_dim:
    return datum_equal(a, b, &comparable) && comparable;
  case DATUM_host:
    return a.as.host.value == b.as.host.value && a.as.host.val == b.as.host.val;
  default:
    return true;
  }
}

static void remember(ScanLoop *l) {
  for (Env *scope = l->env; scope; scope = scope->parent)
    for (uint32_t i = 0; i < scope->names.len; i++) {
      Binding *b = &scope->names.at[i];
      if (b->kind == BIND_member || b->kind == BIND_size) continue;
      Carried c = {.binding = b, .before = b->value};
      vec_push(l->e->arena, &l->names, c);
    }
}

static Mark mark(Eval *e) {
  const Build *b = e->build;
  Mark m = {.values = b->graph->values.len, .sites = b->sites.len, .leaves = b->leaf_value.len};
  m.leaf_value = ARENA_ARRAY(e->arena, Val, m.leaves + 1);
  for (uint32_t i = 0; i < m.leaves; i++) m.leaf_value[i] = b->leaf_value.at[i];
  return m;
}

/* As if the turn had never been evaluated. */
static void take_back(ScanLoop *l, const Mark *m) {
  Build *b = l->e->build;
  b->graph->values.len = m->values;
  b->sites.len = m->sites;
  for (uint32_t i = 0; i < b->leaf_value.len; i++)
    b->leaf_value.at[i] = i < m->leaves ? m->leaf_value[i] : NO_VAL;
  for (uint32_t i = 0; i < l->names.len; i++) l->names.at[i].binding->value = l->names.at[i].before;
}

static bool tensor_or_number(Datum d) {
  return datum_is_tensorlike(d) || datum_is_numeric(d) || d.kind == DATUM_host ||
         d.kind == DATUM_dim;
}

/* Where the loop assigns a name. */
static Span assigned_at(const ScanLoop *l, const char *name) {
  StmtList body = l->s->body;
  for (uint32_t i = 0; i < body.len; i++)
    for (uint32_t k = 0; k < body.at[i]->targets.len; k++)
      if (body.at[i]->targets.at[k].text == name) return body.at[i]->targets.at[k].span;
  return l->s->span;
}

static bool not_carried(ScanLoop *l, const Carried *c) {
  eval_report(l->e, DIAG_E0419, assigned_at(l, c->binding->name),
              "`%s` is carried through the loop: it was %s and becomes %s", c->binding->name,
              datum_describe(l->e, c->before), datum_describe(l->e, c->binding->value));
  if (c->binding->at.file) diag_note(c->binding->at, "it is set before the loop here");
  return false;
}

/* ---------- one turn ---------- */

static Val argument(ScanLoop *l, int k, Type t, Span at) {
  return scan_arg(l->e->build->graph, k, t, at, l->e->scope);
}

static bool evaluate(ScanLoop *l) {
  Eval in = *l->e;
  const Loop *loop = &l->s->loop;
  Graph *g = in.build->graph;
  Env *inner = env_new(in.arena, l->env, NULL);
  DatumList *lists = ARENA_ARRAY(in.arena, DatumList, l->over + 1);
  in.in_loop = true;
  for (int k = 0; k < l->over; k++) {
    Span at = loop->iterables.at[k]->span;
    Type part = scan_part_type(value_at(g, l->walked[k])->type);
    Datum d = datum_tensor(argument(l, k, part, at));
    lists[k] = (DatumList){arena_copy(in.arena, &d, sizeof d), 1};
  }
  int number = l->over;
  for (uint32_t i = 0; i < l->names.len; i++) {
    Carried *c = &l->names.at[i];
    if (c->changed) c->binding->value = datum_tensor(argument(l, number++, c->type, l->s->span));
  }
  if (!count_work(&in, l->s->span) || !loop_bind(&in, loop, lists, 0, inner)) return false;
  if (!eval_stmts(&in, l->s->body, inner)) return false;
  for (uint32_t k = 0; k < l->s->yields.len; k++) {
    Span at = l->s->yields.at[k]->span;
    Datum d = eval_expr(&in, l->s->yields.at[k], inner);
    if (d.kind == DATUM_error) return false;
    if (!tensor_or_number(d)) {
      eval_report(&in, DIAG_E0420, at, "%s cannot be stacked", datum_describe(&in, d));
      return false;
    }
    if (!need_tensor(&in, d, at, "what is yielded", &l->yielded[k])) return false;
  }
  return true;
}

/* Which names are carried, and as what. A number takes the dtype that it meets. */
static bool find_carried(ScanLoop *l) {
  for (uint32_t i = 0; i < l->names.len; i++) {
    Carried *c = &l->names.at[i];
    Datum after = c->binding->value;
    c->changed = !same_datum(c->before, after);
    if (!c->changed) continue;
    if (!tensor_or_number(c->before) || !tensor_or_number(after)) return not_carried(l, c);
    c->type = tensor_type(l->e, c->before);
    Type is = tensor_type(l->e, after);
    if (!datum_is_tensorlike(c->before)) c->type.dtype = is.dtype;
    if (!type_equal(c->type, is)) return not_carried(l, c);
  }
  return true;
}

/* What is carried has the type that it had before. */
static bool carried_fit(ScanLoop *l) {
  for (uint32_t i = 0; i < l->names.len; i++) {
    Carried *c = &l->names.at[i];
    Datum after = c->binding->value;
    if (!c->changed && !same_datum(c->before, after)) return not_carried(l, c);
    if (c->changed && !type_equal(c->type, tensor_type(l->e, after))) return not_carried(l, c);
  }
  return true;
}

/* ---------- cutting it out ---------- */

static void find_kinds(ScanLoop *l) {
  const Graph *g = &l->old;
  l->depends = ARENA_ARRAY(l->e->arena, bool, g->values.len);
  l->constant = ARENA_ARRAY(l->e->arena, bool, g->values.len);
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    bool source = op_has(x->op, OPF_source);
    bool memory = x->op == OP_input || x->op == OP_param || x->op == OP_buffer || x->op == OP_arg;
    bool draw = op_has(x->op, OPF_random);
    l->depends[v] = v >= l->first && (x->op == OP_arg || draw || x->op == OP_turn);
    l->constant[v] = source ? !memory && !draw && x->op != OP_turn : op_has(x->op, OPF_view);
    for (int i = 0; i < x->inputs; i++) {
      l->depends[v] = l->depends[v] || l->depends[x->in[i]];
      l->constant[v] = l->constant[v] && l->constant[x->in[i]];
    }
  }
}

static Val new_input(ScanLoop *l, Val outside) {
  for (int k = 0; k < l->inputs; k++)
    if (k >= l->over && l->input[k] == outside && l->inside[outside] != NO_VAL)
      return l->inside[outside];
  if (l->inputs == IR_MAX_INPUTS) {
    eval_report(l->e, DIAG_E0716, l->s->span,
                "a loop that reads more than %d tensors is not supported yet", IR_MAX_INPUTS);
    return NO_VAL;
  }
  const Value x = *value_at(l->e->build->graph, outside);
  l->input[l->inputs] = outside;
  return scan_arg(l->body, l->inputs++, x.type, x.at, x.scope);
}

/* The value of the body that stands for v of `old`; NO_VAL after a report. */
static Val in_body(ScanLoop *l, Val v) {
  if (l->inside[v] != NO_VAL) return l->inside[v];
  const Value *x = value_at(&l->old, v);
  bool view = x->op == OP_permute || x->op == OP_reshape || x->op == OP_expand;
  if (!l->depends[v] && !l->constant[v] && !view) return l->inside[v] = new_input(l, l->outside[v]);
  for (int i = 0; i < x->inputs; i++)
    if (in_body(l, x->in[i]) == NO_VAL) return NO_VAL;
  return l->inside[v] = ir_copy(l->body, &l->old, v, l->inside);
}

/* Takes the turn out of the graph; what does not depend on it is added again. */
static void cut(ScanLoop *l) {
  Eval *e = l->e;
  Graph *g = e->build->graph;
  uint32_t n = g->values.len;
  l->old = *g;
  l->old.values.at = arena_copy(e->arena, g->values.at, sizeof(Value) * n);
  l->outside = ARENA_ARRAY(e->arena, Val, n);
  l->inside = ARENA_ARRAY(e->arena, Val, n);
  find_kinds(l);
  g->values.len = l->first;
  for (Val v = 1; v < n; v++)
    l->outside[v] = v < l->first ? v : l->depends[v] ? NO_VAL : ir_copy(g, &l->old, v, l->outside);
  Build *b = e->build;
  for (uint32_t i = 0; i < b->leaf_value.len; i++)
    b->leaf_value.at[i] = l->outside[b->leaf_value.at[i]];
  l->body = graph_new(g->arena, "body", g->training);
  l->body->scopes.len = 0;
  for (uint32_t i = 0; i < g->scopes.len; i++)
    vec_push(g->arena, &l->body->scopes, g->scopes.at[i]);
}

/* A number or tensor as the first value of what is carried. */
static bool first_value(ScanLoop *l, const Carried *c, Val *out) {
  Eval *e = l->e;
  double number;
  if (datum_number(c->before, &number)) {
    *out = ir_const(e->build->graph, number, c->type.dtype, l->s->span, e->scope);
    return true;
  }
  if (!need_tensor(e, c->before, l->s->span, "what is carried", out)) return false;
  if (value_at(e->build->graph, *out)->type.dtype == c->type.dtype) return true;
  Attr dtype = {.as.i = c->type.dtype};
  Datum d = emit_op(e, OP_cast, out, 1, &dtype, l->s->span);
  *out = d.as.tensor;
  return d.kind == DATUM_tensor;
}

static bool make_body(ScanLoop *l, int *carried) {
  Val *next = ARENA_ARRAY(l->e->arena, Val, l->names.len + 1);
  for (uint32_t i = 0; i < l->names.len; i++) {
    const Carried *c = &l->names.at[i];
    if (!c->changed) continue;
    if (!need_tensor(l->e, c->binding->value, l->s->span, "what is carried", &next[i]))
      return false;
    ++*carried;
  }
  cut(l);
  if (l->over + *carried > IR_MAX_INPUTS) return new_input(l, 0) != NO_VAL;
  for (int k = 0; k < l->over; k++) l->input[l->inputs++] = l->walked[k];
  for (uint32_t i = 0; i < l->names.len; i++)
    if (l->names.at[i].changed && !first_value(l, &l->names.at[i], &l->input[l->inputs++]))
      return false;
  for (Val v = l->first; v < l->old.values.len; v++)
    if (l->depends[v] && in_body(l, v) == NO_VAL) return false;
  int j = 0;
  for (uint32_t i = 0; i < l->names.len; i++) {
    if (!l->names.at[i].changed) continue;
    Val v = in_body(l, next[i]);
    if (v == NO_VAL) return false;
    graph_output(l->body, OUT_carried, j++, v);
  }
  for (uint32_t k = 0; k < l->s->yields.len; k++) {
    Val v = in_body(l, l->yielded[k]);
    if (v == NO_VAL) return false;
    graph_output(l->body, OUT_yield, (int32_t)k, v);
  }
  return true;
}

/* Names after the loop. */
static bool results(ScanLoop *l, Val scan, int carried) {
  Eval *e = l->e;
  Graph *g = e->build->graph;
  const Stmt *s = l->s;
  int k = 0;
  for (uint32_t i = 0; i < l->names.len; i++)
    if (l->names.at[i].changed)
      l->names.at[i].binding->value = datum_tensor(scan_result(g, scan, k++));
  if (s->kind != STMT_collect) return true;
  uint32_t n = s->yields.len;
  Datum *values = ARENA_ARRAY(e->arena, Datum, n ? n : 1);
  Attr first = {.as.ints = {1, {0}}};
  for (uint32_t i = 0; i < n; i++) {
    Val y = scan_result(g, scan, carried + (int)i);
    values[i] = l->reverse ? emit_op(e, OP_flip, &y, 1, &first, s->span) : datum_tensor(y);
    if (values[i].kind == DATUM_error) return false;
  }
  Datum all = n == 1 ? values[0] : datum_tuple(e->arena, values, n);
  return assign_all(e, l->env, s->targets, all, s->span);
}

/* Tensors that are all turned round are walked from the last part to the first instead. */
static bool turned_round(const Graph *g, int n, Val *walked) {
  for (int k = 0; k < n; k++) {
    const Value *x = value_at(g, walked[k]);
    if (x->op != OP_flip || x->attr[0].as.ints.len != 1 || x->attr[0].as.ints.at[0] != 0)
      return false;
  }
  for (int k = 0; k < n; k++) walked[k] = value_at(g, walked[k])->in[0];
  return true;
}

bool run_scan(Eval *e, const Stmt *s, Env *env, Val *walked, Dim length) {
  ScanLoop l = {.e = e,
                .s = s,
                .env = env,
                .over = (int)s->loop.iterables.len,
                .walked = walked,
                .length = length};
  l.reverse = turned_round(e->build->graph, l.over, walked);
  l.yielded = ARENA_ARRAY(e->arena, Val, s->yields.len + 1);
  if (l.over > IR_MAX_INPUTS) return false;
  remember(&l);
  Mark at = mark(e);
  if (!evaluate(&l) || !find_carried(&l)) return false;
  take_back(&l, &at);
  l.first = at.values;
  if (!evaluate(&l) || !carried_fit(&l)) return false;
  int carried = 0;
  if (!make_body(&l, &carried)) return false;
  if (!carried && !s->yields.len) return true; /* nothing comes out of it */
  Attr attrs[IR_MAX_ATTRS];
  scan_attrs(l.over, carried, length, l.reverse, l.body, attrs);
  Datum d = emit_op(e, OP_scan, l.input, l.inputs, attrs, s->span);
  return d.kind == DATUM_tensor && results(&l, d.as.tensor, carried);
}
