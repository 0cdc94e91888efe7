/* Folding of elementwise ops. */
#include "folding.h"
#include <math.h>

static const Value *at(const Fold *f, Val v) {
  return value_at(f->to, v);
}

static bool integral(const Value *x) {
  return dtype_category(x->type.dtype) != 'f';
}

/* ---------- every op ---------- */
static Val all_uniform(Fold *f, Val v) {
  const Value *x = at(f, v);
  double in[IR_MAX_INPUTS];
  if (x->op == OP_detach && f->to->training) return NO_VAL; /* it still has to stop gradients */
  for (int i = 0; i < x->inputs; i++)
    if (!fold_uniform(f, x->in[i], &in[i])) return NO_VAL;
  return fold_full(f, op_eval(f->to, x, in), x->type, v);
}

/* What an operand is before it is expanded, in a shape that broadcasts to the same: with size 1 where
   expand puts a dim in, unless that is in front. */
static Val unexpanded(Fold *f, Val v) {
  double c;
  const Value *x = at(f, v);
  if (x->type.rank && fold_uniform(f, v, &c))
    return ir_const(f->to, c, x->type.dtype, x->at, x->scope);
  if (x->op != OP_expand) return v;
  Type in = at(f, x->in[0])->type, t = type_scalar(in.dtype);
  for (int i = 0, own = 0; i < x->type.rank; i++) {
    bool put_in = i - own < x->attr[1].as.ints.len && x->attr[1].as.ints.at[i - own] == i;
    if (!put_in)
      t.dim[t.rank++] = in.dim[own++];
    else if (own)
      t.dim[t.rank++] = dim_of(1);
  }
  return type_equal(in, t) ? x->in[0] : fold_reshape(f, x->in[0], t, v);
}

/* Operands need not be expanded, since they broadcast; if none has the full shape, fewer elements are
   computed and the result is expanded. */
static Val before_expanding(Fold *f, Val v) {
  const Value x = *at(f, v);
  Val in[IR_MAX_INPUTS];
  bool changed = false;
  for (int i = 0; i < x.inputs; i++) {
    in[i] = unexpanded(f, x.in[i]);
    changed = changed || in[i] != x.in[i];
  }
  if (!changed) return NO_VAL;
  const char *error;
  int code;
  Val r = ir_add(f->to, x.op, in, x.inputs, x.attr, x.at, x.scope, &error, &code);
  /* rank 0 promotes less: then the number has to stay a tensor */
  if (!r || at(f, r)->type.dtype != x.type.dtype) return NO_VAL;
  return fold_broadcast(f, fold_add(f, x.op, in, x.inputs, x.attr, r), x.type, r);
}

/* ---------- neutral and absorbing numbers ---------- */
static Val neutral(Fold *f, Val v) {
  static const struct {
    OpKind op;
    int side; /* which input is the number; -1: either */
    double number;
  } table[] = {
      {OP_add, -1, 0},
      {OP_sub, 1, 0},
      {OP_mul, -1, 1},
      {OP_div, 1, 1},
      {OP_pow, 1, 1},
      {OP_and, -1, 1},
      {OP_or, -1, 0},
      {OP_maximum, -1, -INFINITY},
      {OP_minimum, -1, INFINITY},
  };
  const Value *x = at(f, v);
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (table[i].op != x->op) continue;
    for (int side = 0; side < 2; side++)
      if ((table[i].side < 0 || table[i].side == side) &&
          fold_uniform_is(f, x->in[side], table[i].number))
        return fold_broadcast(f, x->in[1 - side], x->type, v);
  }
  return NO_VAL;
}

/* Not for floats: 0 * inf is not 0. */
static Val absorbing(Fold *f, Val v) {
  static const struct {
    OpKind op;
    double number;
  } table[] = {{OP_mul, 0}, {OP_and, 0}, {OP_or, 1}};
  const Value *x = at(f, v);
  for (size_t i = 0; integral(x) && i < sizeof table / sizeof *table; i++)
    if (table[i].op == x->op)
      for (int side = 0; side < 2; side++)
        if (fold_uniform_is(f, x->in[side], table[i].number))
          return fold_full(f, table[i].number, x->type, v);
  return NO_VAL;
}

/* x * -1 */
static Val negated(Fold *f, Val v) {
  const Value *x = at(f, v);
  for (int side = 0; side < 2; side++) {
    Val other = x->in[1 - side];
    if (!fold_uniform_is(f, x->in[side], -1)) continue;
    if (!type_equal(at(f, other)->type, x->type)) continue;
    return fold_add(f, OP_neg, &other, 1, NULL, v);
  }
  return NO_VAL;
}

/* -(-x), not (not x) */
static Val twice(Fold *f, Val v) {
  const Value *x = at(f, v), *inner = at(f, x->in[0]);
  return inner->op == x->op ? inner->in[0] : NO_VAL;
}

static Val not_equal(Fold *f, Val v) {
  const Value *inner = at(f, at(f, v)->in[0]);
  if (inner->op != OP_eq && inner->op != OP_ne) return NO_VAL;
  return fold_add(f, inner->op == OP_eq ? OP_ne : OP_eq, inner->in, 2, NULL, v);
}

static Val detached(Fold *f, Val v) {
  return f->to->training ? NO_VAL : at(f, v)->in[0];
}

static Val cast_same(Fold *f, Val v) {
  const Value *x = at(f, v);
  return type_equal(at(f, x->in[0])->type, x->type) ? x->in[0] : NO_VAL;
}

/* A power of two divides by multiplying, with the same bits. */
static Val divided(Fold *f, Val v) {
  const Value *x = at(f, v);
  double c;
  int exponent;
  if (!fold_uniform(f, x->in[1], &c) || fabs(frexp(c, &exponent)) != 0.5) return NO_VAL;
  if (exponent < -100 || exponent > 100 || integral(at(f, x->in[0]))) return NO_VAL;
  Val in[2] = {x->in[0], ir_const(f->to, 1 / c, x->type.dtype, x->at, x->scope)};
  Val r = fold_add(f, OP_mul, in, 2, NULL, v);
  return type_equal(at(f, r)->type, at(f, v)->type) ? r : NO_VAL;
}

/* The exponents that PyTorch computes without pow. */
static Val power(Fold *f, Val v) {
  const Value *x = at(f, v);
  double c;
  Type t = x->type;
  Val base = x->in[0];
  if (!fold_uniform(f, x->in[1], &c)) return NO_VAL;
  if (c == 0) return fold_full(f, 1, t, v);
  base = fold_broadcast(f, base, t, v);
  if (!base) return NO_VAL;
  Val square[2] = {base, base};
  if (c == 2) return fold_add(f, OP_mul, square, 2, NULL, v);
  if (c == 3) {
    Val cube[2] = {fold_add(f, OP_mul, square, 2, NULL, v), base};
    return fold_add(f, OP_mul, cube, 2, NULL, v);
  }
  if (dtype_category(t.dtype) != 'f') return NO_VAL;
  if (c == 0.5) return fold_add(f, OP_sqrt, &base, 1, NULL, v);
  if (c == -0.5) return fold_add(f, OP_rsqrt, &base, 1, NULL, v);
  if (c != -1) return NO_VAL;
  Val one_over[2] = {ir_const(f->to, 1, t.dtype, at(f, v)->at, at(f, v)->scope), base};
  return fold_add(f, OP_div, one_over, 2, NULL, v);
}

/* ---------- where ---------- */
static Val where_known(Fold *f, Val v) {
  const Value *x = at(f, v);
  double c;
  if (fold_uniform(f, x->in[0], &c)) {
    Val chosen = x->in[c != 0 ? 1 : 2];
    Type t = at(f, chosen)->type, to = x->type;
    if (t.dtype == to.dtype) return fold_broadcast(f, chosen, to, v);
    Attr attrs[IR_MAX_ATTRS] = {{.as.i = to.dtype}};
    return fold_broadcast(f, fold_add(f, OP_cast, &chosen, 1, attrs, v), to, v);
  }
  double a, b;
  if (x->in[1] == x->in[2]) return fold_broadcast(f, x->in[1], x->type, v);
  if (!fold_uniform(f, x->in[1], &a) || !fold_uniform(f, x->in[2], &b)) return NO_VAL;
  if (a == b && signbit(a) == signbit(b)) return fold_full(f, a, x->type, v);
  if (x->type.dtype != DT_bool) return NO_VAL;
  return a != 0 ? fold_broadcast(f, x->in[0], x->type, v) : NO_VAL;
}

/* ---------- comparisons ---------- */
enum { UNKNOWN = -1 };
static int decide_lt(Range a, Range b) {
  return a.high < b.low ? 1 : a.low >= b.high ? 0 : UNKNOWN;
}
static int decide_le(Range a, Range b) {
  return a.high <= b.low ? 1 : a.low > b.high ? 0 : UNKNOWN;
}
static int decide_gt(Range a, Range b) {
  return decide_lt(b, a);
}
static int decide_ge(Range a, Range b) {
  return decide_le(b, a);
}
static int decide_eq(Range a, Range b) {
  if (a.high < b.low || b.high < a.low) return 0;
  return a.low == a.high && b.low == b.high && a.low == b.low ? 1 : UNKNOWN;
}
static int decide_ne(Range a, Range b) {
  int eq = decide_eq(a, b);
  return eq == UNKNOWN ? UNKNOWN : !eq;
}

static Val compared(Fold *f, Val v) {
  static const struct {
    OpKind op;
    int (*decide)(Range a, Range b);
  } table[] = {{OP_lt, decide_lt}, {OP_le, decide_le}, {OP_gt, decide_gt},
               {OP_ge, decide_ge}, {OP_eq, decide_eq}, {OP_ne, decide_ne}};
  const Value *x = at(f, v);
  Range a, b;
  if (!fold_range(f, x->in[0], &a) || !fold_range(f, x->in[1], &b)) return NO_VAL;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (table[i].op != x->op) continue;
    int is = table[i].decide(a, b);
    return is == UNKNOWN ? NO_VAL : fold_full(f, is, x->type, v);
  }
  return NO_VAL;
}

const FoldRule fold_arithmetic[] = {
    {OP_none, all_uniform},  {OP_none, before_expanding},
    {OP_add, neutral},       {OP_sub, neutral},
    {OP_mul, neutral},       {OP_div, neutral},
    {OP_pow, neutral},       {OP_and, neutral},
    {OP_or, neutral},        {OP_maximum, neutral},
    {OP_minimum, neutral},   {OP_mul, absorbing},
    {OP_mul, negated},       {OP_and, absorbing},
    {OP_or, absorbing},      {OP_neg, twice},
    {OP_not, twice},         {OP_not, not_equal},
    {OP_detach, detached},   {OP_cast, cast_same},
    {OP_div, divided},       {OP_pow, power},
    {OP_where, where_known}, {OP_lt, compared},
    {OP_le, compared},       {OP_gt, compared},
    {OP_ge, compared},       {OP_eq, compared},
    {OP_ne, compared},       {OP_none, NULL},
};
