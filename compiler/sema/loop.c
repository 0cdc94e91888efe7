/* `for` as a statement. Over lists it is unrolled. Over a tensor it is a loop along the first dimension
   with carried names that keep their type and with `yield` that is stacked: a loop of the program
   (scan_loop.c), but unrolled where it has few turns, and where it walks over a list as well. */
#include "builtin.h"
#include "expr.h"
#include "fold.h"
#include "op.h"
#include "scan_loop.h"

/* Up to FEW_TURNS, unrolling costs little and lets kernels of neighbouring turns fuse; LIST_TURNS is
   the limit where nothing else will do: a list beside the tensor, or a list made of its parts. */
enum { FEW_TURNS = 8, LIST_TURNS = 256 };

/* ---------- the parts of a tensor ---------- */

static Datum part(Eval *e, Val v, int64_t i, Span at) {
  Type t = value_at(e->build->graph, v)->type;
  Datum d = emit_slice(e, v, 0, dim_of(i), dim_of(i + 1), at);
  return d.kind == DATUM_error ? d : emit_reshape(e, d.as.tensor, t.dim + 1, t.rank - 1, at);
}

/* The length of what is walked over; false after a report. */
static bool tensor_length(Eval *e, Datum d, Span at, Val *v, Dim *length) {
  if (!need_tensor(e, d, at, "what `for` walks over", v)) return false;
  Type t = value_at(e->build->graph, *v)->type;
  if (!t.rank) {
    eval_report(e, DIAG_E0406, at, "`for` walks along the first dimension; this has none");
    return false;
  }
  *length = t.dim[0];
  return true;
}

static bool at_most(Dim length, int64_t turns) {
  return dim_known(length) && length.fixed <= turns;
}

static void refuse(Eval *e, Dim length, Span at) {
  Text t = {0};
  dim_print(&t, length);
  eval_report(e, DIAG_E0716, at,
              "a list of %s parts of a tensor is not supported yet; up to %d, known while "
              "compiling, are",
              t.at, LIST_TURNS);
  text_free(&t);
}

static bool parts(Eval *e, Val v, int64_t n, Span at, DatumList *out) {
  Datum *items = ARENA_ARRAY(e->arena, Datum, n);
  for (int64_t i = 0; i < n; i++)
    if ((items[i] = part(e, v, i, at)).kind == DATUM_error) return false;
  *out = (DatumList){items, (uint32_t)n};
  return true;
}

bool iterate_tensor(Eval *e, Datum d, Span at, DatumList *out) {
  Val v;
  Dim length;
  if (!tensor_length(e, d, at, &v, &length)) return false;
  if (at_most(length, LIST_TURNS)) return parts(e, v, length.fixed, at, out);
  refuse(e, length, at);
  return false;
}

/* ---------- turns ---------- */

typedef VEC(Datum) Column; /* what one `yield` gave in all turns */

typedef struct Carried { /* a name of an outer scope before the loop */
  const Binding *binding;
  Datum before;
} Carried;

typedef struct Turns {
  const Stmt *s;
  DatumList *lists;
  Column *columns;
  bool tensor; /* over a tensor */
  bool list;   /* and over a list */
  Dim length;
  VEC(Carried) names;
} Turns;

static void remember(Eval *e, Turns *t, Env *env) {
  for (Env *scope = env; scope; scope = scope->parent)
    for (uint32_t i = 0; i < scope->names.len; i++) {
      const Binding *b = &scope->names.at[i];
      if (b->kind == BIND_member || b->kind == BIND_size) continue;
      Carried c = {b, b->value};
      vec_push(e->arena, &t->names, c);
    }
}

/* Where the loop assigns a name. */
static Span assigned_at(StmtList body, const char *name, Span otherwise) {
  for (uint32_t i = 0; i < body.len; i++)
    for (uint32_t k = 0; k < body.at[i]->targets.len; k++)
      if (body.at[i]->targets.at[k].text == name) return body.at[i]->targets.at[k].span;
  return otherwise;
}

static bool tensor_or_number(Datum d) {
  return datum_is_tensorlike(d) || datum_is_numeric(d) || d.kind == DATUM_host ||
         d.kind == DATUM_dim;
}

/* What is carried has the type that it had before. */
static bool carried_fit(Eval *e, Turns *t) {
  for (uint32_t i = 0; i < t->names.len; i++) {
    const Binding *b = t->names.at[i].binding;
    Datum before = t->names.at[i].before, after = b->value;
    if (!datum_is_tensorlike(after)) continue;
    bool number = !datum_is_tensorlike(before);
    if (!tensor_or_number(before)) continue;
    Type was = tensor_type(e, before), is = tensor_type(e, after);
    if (number) was.dtype = is.dtype; /* a number takes the dtype that it meets */
    if (type_equal(was, is)) continue;
    eval_report(e, DIAG_E0419, assigned_at(t->s->body, b->name, t->s->span),
                "`%s` is carried through the loop: it was %s and becomes %s", b->name,
                datum_describe(e, before), datum_describe(e, after));
    if (b->at.file) diag_note(b->at, "it is set before the loop here");
    return false;
  }
  return true;
}

static bool run_turns(Eval *e, Turns *t, Env *env) {
  Env *inner = env_new(e->arena, env, NULL); /* nothing keeps the scope of a turn */
  for (uint32_t turn = 0; turn < t->lists[0].len; turn++) {
    inner->names.len = 0;
    if (!count_work(e, t->s->span) || !loop_bind(e, &t->s->loop, t->lists, turn, inner))
      return false;
    if (!eval_stmts(e, t->s->body, inner)) return false;
    for (uint32_t k = 0; k < t->s->yields.len; k++) {
      Datum d = eval_expr(e, t->s->yields.at[k], inner);
      if (d.kind == DATUM_error) return false;
      vec_push(e->arena, &t->columns[k], d);
    }
    if (t->tensor && !carried_fit(e, t)) return false;
  }
  return true;
}

/* ---------- what was yielded ---------- */

/* A tensor with a first dimension for the turns. */
static Datum stacked(Eval *e, const Column *column, Span at) {
  Val *v = ARENA_ARRAY(e->arena, Val, column->len);
  for (uint32_t i = 0; i < column->len; i++) {
    if (!tensor_or_number(column->at[i])) {
      eval_report(e, DIAG_E0420, at, "%s cannot be stacked", datum_describe(e, column->at[i]));
      return datum_error();
    }
    if (!need_tensor(e, column->at[i], at, "what is yielded", &v[i])) return datum_error();
  }
  return stack_values(e, v, column->len, 0, at);
}

static bool collect(Eval *e, const Turns *t, Env *env) {
  const Stmt *s = t->s;
  uint32_t n = s->yields.len;
  Datum *values = ARENA_ARRAY(e->arena, Datum, n ? n : 1);
  for (uint32_t k = 0; k < n; k++) {
    const Column *c = &t->columns[k];
    values[k] =
        t->tensor ? stacked(e, c, s->yields.at[k]->span) : datum_list(e->arena, c->at, c->len);
    if (values[k].kind == DATUM_error) return false;
  }
  Datum all = n == 1 ? values[0] : datum_tuple(e->arena, values, n);
  return assign_all(e, env, s->targets, all, s->span);
}

/* ---------- the loop ---------- */

/* What is walked over: tensors in walked[] or lists, all equally long. */
static bool lengths_agree(Eval *e, Turns *t, const Datum *over, Val *walked) {
  const Loop *loop = &t->s->loop;
  bool first = true;
  for (uint32_t k = 0; k < loop->iterables.len; k++) {
    Span at = loop->iterables.at[k]->span;
    Dim length;
    if (datum_is_tensorlike(over[k])) {
      if (!tensor_length(e, over[k], at, &walked[k], &length)) return false;
    } else {
      if (!iterate(e, over[k], at, &t->lists[k])) return false;
      length = dim_of(t->lists[k].len);
      t->list = true;
    }
    if (first) t->length = length;
    first = false;
    if (!dim_equal(length, t->length)) {
      Text text = {0};
      dim_print(&text, t->length);
      text_add(&text, " and ");
      dim_print(&text, length);
      eval_report(e, DIAG_E0418, at, "what one `for` walks over differs in length: %s", text.at);
      text_free(&text);
      return false;
    }
  }
  return true;
}

/* Lists of the parts of each tensor. */
static bool tensor_lists(Eval *e, Turns *t, const Val *walked) {
  const Loop *loop = &t->s->loop;
  for (uint32_t k = 0; k < loop->iterables.len; k++) {
    Span at = loop->iterables.at[k]->span;
    if (walked[k] && !parts(e, walked[k], t->length.fixed, at, &t->lists[k])) return false;
  }
  return true;
}

bool run_for(Eval *e, const Stmt *s, Env *env) {
  uint32_t n = s->loop.iterables.len;
  Turns t = {.s = s,
             .lists = ARENA_ARRAY(e->arena, DatumList, n + 1),
             .columns = ARENA_ARRAY(e->arena, Column, s->yields.len + 1)};
  Datum *over = ARENA_ARRAY(e->arena, Datum, n + 1);
  for (uint32_t k = 0; k < n; k++) {
    over[k] = eval_expr(e, s->loop.iterables.at[k], env);
    if (over[k].kind == DATUM_error) return false;
    t.tensor = t.tensor || datum_is_tensorlike(over[k]);
  }
  bool one_each = n == s->loop.targets.len;
  if (!t.tensor || !one_each) {
    t.tensor = false;
    if (!loop_lists_of(e, &s->loop, over, t.lists)) return false;
  } else {
    Val *walked = ARENA_ARRAY(e->arena, Val, n);
    if (!lengths_agree(e, &t, over, walked)) return false;
    if (!at_most(t.length, FEW_TURNS) && !t.list) return run_scan(e, s, env, walked, t.length);
    if (!at_most(t.length, LIST_TURNS)) {
      refuse(e, t.length, s->loop.iterables.at[0]->span);
      return false;
    }
    if (!tensor_lists(e, &t, walked)) return false;
  }
  Eval in = *e;
  in.in_loop = e->in_loop || t.tensor;
  if (t.tensor) remember(e, &t, env);
  if (!run_turns(&in, &t, env)) return false;
  return s->kind != STMT_collect || collect(e, &t, env);
}
