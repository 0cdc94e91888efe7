/* The family of loops (scan.h): the scan itself, and the sources of its body. */
#include "scan.h"
#include "die.h"
#include "family.h"
#include <string.h>

enum { OVER, CARRIED, LENGTH, REVERSE, BODY };

Scan scan_of(const Value *v) {
  check(v->op == OP_scan, "%s is no loop", op_def(v->op)->name);
  Scan s = {.inputs = v->inputs,
            .over = (int)v->attr[OVER].as.i,
            .carried = (int)v->attr[CARRIED].as.i,
            .length = v->attr[LENGTH].as.dims.at[0],
            .reverse = v->attr[REVERSE].as.i != 0,
            .body = v->attr[BODY].as.graph};
  for (uint32_t i = 0; i < s.body->outputs.len; i++)
    s.yields += s.body->outputs.at[i].kind == OUT_yield;
  return s;
}

Val scan_output(const Scan *s, int result) {
  OutputKind kind = result < s->carried ? OUT_carried : OUT_yield;
  int index = result < s->carried ? result : result - s->carried;
  for (uint32_t i = 0; i < s->body->outputs.len; i++) {
    const Output *o = &s->body->outputs.at[i];
    if (o->kind == kind && o->index == index) return o->value;
  }
  return NO_VAL;
}

Type scan_part_type(Type t) {
  t.rank--;
  memmove(t.dim, t.dim + 1, sizeof *t.dim * (size_t)t.rank);
  t.dim[t.rank] = dim_of(0);
  return t;
}

Type scan_stack_type(Type part, Dim length) {
  memmove(part.dim + 1, part.dim, sizeof *part.dim * (size_t)part.rank);
  part.dim[0] = length;
  part.rank++;
  return part;
}

Type scan_result_type(const Scan *s, int result) {
  Type t = value_at(s->body, scan_output(s, result))->type;
  return result < s->carried ? t : scan_stack_type(t, s->length);
}

void scan_args(const Graph *body, int n, Val *arg) {
  for (int k = 0; k < n; k++) arg[k] = NO_VAL;
  for (Val v = 1; v < body->values.len; v++) {
    const Value *x = value_at(body, v);
    if (x->op == OP_arg && x->attr[0].as.i < n) arg[x->attr[0].as.i] = v;
  }
}

void scan_attrs(int over, int carried, Dim length, bool reverse, const Graph *body, Attr *out) {
  memset(out, 0, sizeof *out * IR_MAX_ATTRS);
  out[OVER].as.i = over;
  out[CARRIED].as.i = carried;
  out[LENGTH].as.dims.len = 1;
  out[LENGTH].as.dims.at[0] = length;
  out[REVERSE].as.i = reverse;
  out[BODY].as.graph = body;
}

Val scan_arg(Graph *body, int k, Type type, Span at, Scope scope) {
  return ir_leaf(body, OP_arg, k, type, at, scope);
}

Val scan_result(Graph *g, Val v, int k) {
  if (k == 0) return v;
  const Value x = *value_at(g, v);
  Attr index = {.as.i = k};
  return ir_must(g, OP_part, &v, 1, &index, x.at, x.scope);
}

/* ---------- types ---------- */
static bool turn_infer(const Graph *g, Value *v, const char **error, int *code) {
  (void)g, (void)error, (void)code;
  v->type = type_scalar(DT_i64);
  return true;
}

/* Each output once, numbers without gaps. */
static bool outputs_fit(const Graph *g, const Scan *s, const char **error, int *code) {
  if ((uint32_t)scan_results(s) != s->body->outputs.len || !scan_results(s))
    return infer_fail(g, error, code, 514, "the body of a loop has outputs that are no results");
  for (int k = 0; k < scan_results(s); k++)
    if (scan_output(s, k) == NO_VAL)
      return infer_fail(g, error, code, 514, "the body of a loop lacks its result %d", k);
  return true;
}

static bool argument_fits(const Graph *g, const Value *v, const Scan *s, const Value *arg,
                          const char **error, int *code) {
  int64_t k = arg->attr[0].as.i;
  if (k < 0 || k >= s->inputs)
    return infer_fail(g, error, code, 514, "the body of a loop reads argument %lld of %d",
                      (long long)k, s->inputs);
  Type want = infer_in(g, v, (int)k);
  if (k < s->over) want = scan_part_type(want);
  if (type_equal(want, arg->type)) return true;
  return infer_fail(g, error, code, 405, "argument %lld of a loop is %s, not %s", (long long)k,
                    infer_type_text(g, want), infer_type_text(g, arg->type));
}

static bool body_fits(const Graph *g, const Value *v, const Scan *s, const char **error,
                      int *code) {
  for (Val b = 1; b < s->body->values.len; b++) {
    const Value *x = value_at(s->body, b);
    if (x->op == OP_arg && !argument_fits(g, v, s, x, error, code)) return false;
    if (x->op == OP_input || x->op == OP_param || x->op == OP_buffer)
      return infer_fail(g, error, code, 514, "the body of a loop reads `%s`", op_def(x->op)->name);
  }
  for (int j = 0; j < s->carried; j++) {
    Type was = infer_in(g, v, s->over + j), is = scan_result_type(s, j);
    if (!type_equal(was, is))
      return infer_fail(g, error, code, 419, "what is carried was %s and becomes %s",
                        infer_type_text(g, was), infer_type_text(g, is));
  }
  return true;
}

static bool scan_infer(const Graph *g, Value *v, const char **error, int *code) {
  if (!v->attr[BODY].as.graph || v->attr[LENGTH].as.dims.len != 1)
    return infer_fail(g, error, code, 503, "`scan` needs one length and a body");
  Scan s = scan_of(v);
  if (s.over < 0 || s.carried < 0 || s.over + s.carried > s.inputs)
    return infer_fail(g, error, code, 503, "`scan` has too few inputs");
  for (int k = 0; k < s.over; k++) {
    Type t = infer_in(g, v, k);
    if (t.rank < 1 || !dim_equal(t.dim[0], s.length))
      return infer_fail(g, error, code, 418, "a loop over %s walks along %s",
                        infer_dim_text(g, s.length), infer_type_text(g, t));
  }
  if (!outputs_fit(g, &s, error, code) || !body_fits(g, v, &s, error, code)) return false;
  Dim n;
  for (int k = 0; k < scan_results(&s); k++) {
    Type part = value_at(s.body, scan_output(&s, k))->type;
    if (k >= s.carried && part.rank == IR_MAX_RANK)
      return infer_fail(g, error, code, 411, "what a loop yields has too many dimensions");
    if (!type_elements(scan_result_type(&s, k), &n))
      return infer_fail(g, error, code, 716,
                        "a loop along the batch that yields something of each sample is not "
                        "supported yet");
  }
  v->type = scan_result_type(&s, 0);
  return true;
}

static bool scan_part(const Graph *g, const Value *v, int index, Type *out) {
  (void)g;
  Scan s = scan_of(v);
  if (index < 1 || index >= scan_results(&s)) return false;
  *out = scan_result_type(&s, index);
  return true;
}

/* ---------- meaning ---------- */
typedef struct Turn {
  const Scan *s;
  const Interp *outer; /* of the graph that the loop stands in */
  const double *const *in;
  double **carried;
  int64_t batch, number;
} Turn;

static void supply(void *self, const Graph *g, Val v, double *out) {
  const Turn *t = self;
  const Value *x = value_at(g, v);
  if (x->op == OP_turn) {
    out[0] = (double)t->number;
    return;
  }
  if (x->op != OP_arg) { /* a draw, a number of the host */
    check(t->outer && t->outer->source, "interp: nobody says what %s is", op_def(x->op)->name);
    t->outer->source(t->outer->self, g, v, out);
    return;
  }
  int k = (int)x->attr[0].as.i;
  int64_t n = type_elements_at(x->type, t->batch);
  const double *from = k < t->s->over                   ? t->in[k] + t->number * n
                       : k < t->s->over + t->s->carried ? t->carried[k - t->s->over]
                                                        : t->in[k];
  memcpy(out, from, sizeof *out * (size_t)n);
}

/* Runs the loop and keeps result `wanted`. */
static void run(const Graph *g, const Value *v, int64_t batch, const double *const *in, int wanted,
                double *out) {
  (void)g;
  Scan s = scan_of(v);
  Arena *a = arena_new();
  int64_t length = dim_at(s.length, batch), size[IR_MAX_INPUTS];
  Turn t = {.s = &s, .outer = interp_current(), .in = in, .batch = batch};
  t.carried = ARENA_ARRAY(a, double *, s.carried + 1);
  for (int j = 0; j < s.carried; j++) {
    size[j] = type_elements_at(scan_result_type(&s, j), batch);
    t.carried[j] = arena_copy(a, in[s.over + j], sizeof(double) * (size_t)size[j]);
  }
  bool round = t.outer && t.outer->round_f32;
  for (int64_t i = 0; i < length; i++) {
    Arena *turn = arena_new();
    t.number = s.reverse ? length - 1 - i : i;
    Interp how = {.batch = batch,
                  .round_f32 = round,
                  .turn = t.number,
                  .outer = t.outer,
                  .source = supply,
                  .self = &t};
    double **value = interp_run(turn, s.body, &how);
    for (int j = 0; j < s.carried; j++)
      memcpy(t.carried[j], value[scan_output(&s, j)], sizeof(double) * (size_t)size[j]);
    if (wanted >= s.carried) {
      Val y = scan_output(&s, wanted);
      int64_t n = type_elements_at(value_at(s.body, y)->type, batch);
      memcpy(out + t.number * n, value[y], sizeof(double) * (size_t)n);
    }
    arena_free(turn);
  }
  if (wanted < s.carried) memcpy(out, t.carried[wanted], sizeof(double) * (size_t)size[wanted]);
  arena_free(a);
}

static void scan_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                           double *out) {
  run(g, v, batch, in, 0, out);
}

static void part_of_scan(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                         int index, double *out) {
  run(g, v, batch, in, index, out);
}

/* ---------- lowering ---------- */
static NestTemp turn_lower(Nest *n, Val v, const NestIndex *index) {
  (void)index;
  return nest_host(n, v);
}

static double scan_flops(const Graph *g, const Value *v, int64_t batch) {
  (void)g;
  Scan s = scan_of(v);
  double turn = 0;
  for (Val k = 1; k < s.body->values.len; k++) turn += op_flops(s.body, k, batch);
  return turn * (double)dim_at(s.length, batch);
}

const OpCode family_scan[] = {
    {.op = OP_arg, .infer = leaf_infer},
    {.op = OP_turn, .infer = turn_infer, .lower = turn_lower},
    {.op = OP_scan,
     .infer = scan_infer,
     .interpret = scan_interpret,
     .part_type = scan_part,
     .interpret_part = part_of_scan,
     .flops = scan_flops},
    {.op = OP_none},
};
