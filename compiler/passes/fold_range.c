/* What integers can be: declared ranges of fields, positions, bool; followed through views, choices
   and additions. Used to decide comparisons (`label != -100` with a label of 0..10). */
#include "folding.h"
#include <math.h>

enum { DEPTH = 16 }; /* of the walk towards the sources */

typedef bool RangeRule(const Fold *f, const Value *x, int depth, Range *out);
static bool range_of(const Fold *f, Val v, int depth, Range *out);

static bool range_input(const Fold *f, const Value *x, int depth, Range *out) {
  (void)depth;
  int64_t k = x->attr[0].as.i;
  if (!f->job || k < 0 || k >= f->job->dataset.fields.len) return false;
  const Field *field = &f->job->dataset.fields.at[k];
  if (!field->has_range || field->type.dtype != x->type.dtype) return false;
  *out = (Range){ceil(field->low), ceil(field->high) - 1}; /* high itself is left out */
  return out->low <= out->high;
}

static bool range_const(const Fold *f, const Value *x, int depth, Range *out) {
  (void)f, (void)depth;
  *out = (Range){x->attr[0].as.f, x->attr[0].as.f};
  return true;
}

static bool range_arange(const Fold *f, const Value *x, int depth, Range *out) {
  (void)f, (void)depth;
  Dim n = x->type.dim[0];
  *out = (Range){0, dim_known(n) ? (double)n.fixed - 1 : INFINITY};
  return true;
}

static bool range_dimval(const Fold *f, const Value *x, int depth, Range *out) {
  (void)f, (void)depth;
  Dim n = x->attr[0].as.dims.at[0];
  if (n.per_batch < 0) return false;
  *out = (Range){(double)dim_at(n, 1), dim_known(n) ? (double)n.fixed : INFINITY};
  return true;
}

static bool range_same(const Fold *f, const Value *x, int depth, Range *out) {
  return range_of(f, x->in[0], depth, out);
}

static bool range_argmax(const Fold *f, const Value *x, int depth, Range *out) {
  (void)depth;
  Dim n = value_at(f->to, x->in[0])->type.dim[x->attr[0].as.ints.at[0]];
  *out = (Range){0, dim_known(n) ? (double)n.fixed - 1 : INFINITY};
  return true;
}

static bool range_where(const Fold *f, const Value *x, int depth, Range *out) {
  Range a, b;
  if (!range_of(f, x->in[1], depth, &a) || !range_of(f, x->in[2], depth, &b)) return false;
  *out = (Range){fmin(a.low, b.low), fmax(a.high, b.high)};
  return true;
}

static bool range_add(const Fold *f, const Value *x, int depth, Range *out) {
  Range a, b;
  if (!range_of(f, x->in[0], depth, &a) || !range_of(f, x->in[1], depth, &b)) return false;
  *out = (Range){a.low + b.low, a.high + b.high};
  return true;
}

static bool range_sub(const Fold *f, const Value *x, int depth, Range *out) {
  Range a, b;
  if (!range_of(f, x->in[0], depth, &a) || !range_of(f, x->in[1], depth, &b)) return false;
  *out = (Range){a.low - b.high, a.high - b.low};
  return true;
}

static bool range_pad(const Fold *f, const Value *x, int depth, Range *out) {
  Range a;
  if (!range_of(f, x->in[0], depth, &a)) return false;
  double fill = x->attr[2].as.f;
  *out = (Range){fmin(a.low, fill), fmax(a.high, fill)};
  return true;
}

static const struct {
  OpKind op;
  RangeRule *rule;
} rules[] = {
    {OP_input, range_input},   {OP_const, range_const},   {OP_arange, range_arange},
    {OP_dimval, range_dimval}, {OP_argmax, range_argmax}, {OP_where, range_where},
    {OP_add, range_add},       {OP_sub, range_sub},       {OP_pad, range_pad},
    {OP_cast, range_same},     {OP_gather, range_same},   {OP_rows, range_same},
    {OP_amax, range_same},     {OP_amin, range_same},     {OP_detach, range_same},
};

static bool range_of(const Fold *f, Val v, int depth, Range *out) {
  const Value *x = value_at(f->to, v);
  static const struct {
    DType t;
    double low, high;
  } limits[] = {{DT_bool, 0, 1}, {DT_u8, 0, 255}, {DT_i32, -2147483648.0, 2147483647.0}};
  if (dtype_category(x->type.dtype) == 'f') return false;
  bool known = false;
  for (size_t i = 0; depth > 0 && i < sizeof rules / sizeof *rules; i++)
    if (rules[i].op == x->op) known = rules[i].rule(f, x, depth - 1, out);
  if (depth > 0 && !known && op_has(x->op, OPF_view) && x->inputs == 1 && x->op != OP_pad)
    known = range_same(f, x, depth - 1, out);
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    if (limits[i].t != x->type.dtype) continue;
    /* what may have wrapped round is anything of that type */
    if (known && out->low >= limits[i].low && out->high <= limits[i].high) return true;
    *out = (Range){limits[i].low, limits[i].high};
    return true;
  }
  return known;
}

bool fold_range(const Fold *f, Val v, Range *out) {
  return range_of(f, v, DEPTH, out);
}
