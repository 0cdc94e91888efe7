/* Operators of the language on values of every kind (fold.h). */
#include "fold.h"
#include "op.h"
#include <math.h>
#include <string.h>

static const OpKind op_of_binary[] = {
    [BIN_add] = OP_add,
    [BIN_sub] = OP_sub,
    [BIN_mul] = OP_mul,
    [BIN_div] = OP_div,
    [BIN_mod] = OP_mod,
    [BIN_pow] = OP_pow,
    [BIN_floordiv] = OP_floordiv,
    [BIN_lt] = OP_lt,
    [BIN_gt] = OP_gt,
    [BIN_le] = OP_le,
    [BIN_ge] = OP_ge,
    [BIN_eq] = OP_eq,
    [BIN_ne] = OP_ne,
    [BIN_and] = OP_and,
    [BIN_or] = OP_or,
};

bool datum_is_numeric(Datum d) {
  return d.kind == DATUM_int || d.kind == DATUM_float || d.kind == DATUM_bool;
}

bool datum_is_tensorlike(Datum d) {
  return d.kind == DATUM_tensor || d.kind == DATUM_leaf;
}

static double numeric(Datum d) {
  return d.kind == DATUM_int ? (double)d.as.i : d.kind == DATUM_bool ? d.as.b : d.as.f;
}

/* ---------- known numbers ---------- */

static Datum overflow(Eval *e, const char *op, int64_t a, int64_t b, Span at) {
  eval_report(e, DIAG_E0511, at, "%lld %s %lld does not fit in 64 bits", (long long)a, op,
              (long long)b);
  return datum_error();
}

/* A float made from numbers must be one: inf and nan are had by writing them. */
static Datum checked_float(Eval *e, double r, const double *in, int n, const char *what, Span at) {
  bool finite = true;
  for (int i = 0; i < n; i++) finite = finite && isfinite(in[i]);
  if (isnan(r) || (finite && isinf(r))) {
    bool had_nan = false;
    for (int i = 0; i < n; i++) had_nan = had_nan || isnan(in[i]);
    if (!had_nan) {
      eval_report(e, DIAG_E0512, at, "`%s` of these numbers is %s", what,
                  isnan(r) ? "not a number" : "not finite");
      return datum_error();
    }
  }
  return datum_float(r);
}

static Datum int_power(Eval *e, int64_t a, int64_t n, Span at) {
  int64_t r = 1, base = a;
  for (int64_t k = n; k; k >>= 1) {
    if ((k & 1) && __builtin_mul_overflow(r, base, &r)) return overflow(e, "**", a, n, at);
    if (k > 1 && __builtin_mul_overflow(base, base, &base)) return overflow(e, "**", a, n, at);
  }
  return datum_int(r);
}

static Datum by_zero(Eval *e, BinaryOp op, Span at) {
  eval_report(e, DIAG_E0510, at, "`%s` by zero", ast_binary_text(op));
  return datum_error();
}

static Datum fold_ints(Eval *e, BinaryOp op, int64_t a, int64_t b, Span at) {
  int64_t r = 0;
  switch (op) {
  case BIN_add:
    return __builtin_add_overflow(a, b, &r) ? overflow(e, "+", a, b, at) : datum_int(r);
  case BIN_sub:
    return __builtin_sub_overflow(a, b, &r) ? overflow(e, "-", a, b, at) : datum_int(r);
  case BIN_mul:
    return __builtin_mul_overflow(a, b, &r) ? overflow(e, "*", a, b, at) : datum_int(r);
  case BIN_floordiv:
  case BIN_mod:
    if (!b) return by_zero(e, op, at);
    if (b == -1) return op == BIN_mod ? datum_int(0) : fold_ints(e, BIN_sub, 0, a, at);
    r = a / b;
    if (a % b && (a % b < 0) != (b < 0)) r--;
    return datum_int(op == BIN_mod ? a - r * b : r);
  case BIN_pow:
    if (b >= 0) return int_power(e, a, b, at);
    break;
  case BIN_lt:
    return datum_bool(a < b);
  case BIN_gt:
    return datum_bool(a > b);
  case BIN_le:
    return datum_bool(a <= b);
  case BIN_ge:
    return datum_bool(a >= b);
  case BIN_eq:
    return datum_bool(a == b);
  case BIN_ne:
    return datum_bool(a != b);
  default:
    break;
  }
  double in[2] = {(double)a, (double)b};
  if (!b && op == BIN_div) return by_zero(e, op, at);
  if (!a && op == BIN_pow) return by_zero(e, op, at);
  return checked_float(e, op == BIN_div ? in[0] / in[1] : pow(in[0], in[1]), in, 2,
                       ast_binary_text(op), at);
}

static Datum fold_floats(Eval *e, BinaryOp op, double a, double b, Span at) {
  OpKind kind = op_of_binary[op];
  bool divides = op == BIN_div || op == BIN_floordiv || op == BIN_mod;
  if (divides && b == 0) return by_zero(e, op, at);
  double r = op_def(kind)->eval(a, b, 0);
  if (op_has(kind, OPF_compare)) return datum_bool(r != 0);
  double in[2] = {a, b};
  return checked_float(e, r, in, 2, ast_binary_text(op), at);
}

/* ---------- symbolic sizes ---------- */

/* Sign of a - b for every batch of at least 1: -1, 0, 1; 2 when it depends on the batch. */
static int dim_compare(Dim a, Dim b) {
  int64_t slope, fixed, least;
  if (__builtin_sub_overflow(a.per_batch, b.per_batch, &slope) ||
      __builtin_sub_overflow(a.fixed, b.fixed, &fixed) ||
      __builtin_add_overflow(slope, fixed, &least))
    return 2;
  if (!slope) return fixed < 0 ? -1 : fixed > 0;
  if (slope > 0 && least > 0) return 1;
  if (slope < 0 && least < 0) return -1;
  return 2;
}

static Datum dims_undecided(Eval *e, BinaryOp op, Dim a, Dim b, Span at) {
  Text t = {0};
  dim_print(&t, a);
  text_addf(&t, " %s ", ast_binary_text(op));
  dim_print(&t, b);
  bool equality = op == BIN_eq || op == BIN_ne;
  eval_report(e, equality ? DIAG_E0409 : DIAG_E0508, at,
              "`%s` depends on the size of the batch, which is not known while compiling", t.at);
  text_free(&t);
  return datum_error();
}

bool dim_sum(Eval *e, Dim a, Dim b, int sign, Span at, Dim *out) {
  bool over = sign > 0 ? __builtin_add_overflow(a.per_batch, b.per_batch, &out->per_batch) ||
                             __builtin_add_overflow(a.fixed, b.fixed, &out->fixed)
                       : __builtin_sub_overflow(a.per_batch, b.per_batch, &out->per_batch) ||
                             __builtin_sub_overflow(a.fixed, b.fixed, &out->fixed);
  if (over) eval_report(e, DIAG_E0511, at, "this size does not fit in 64 bits");
  return !over;
}

/* What `require` asks of sizes that are not decided for every batch is decided for the one that the
   settings name. */
static bool asked_of_plan(const Eval *e, BinaryOp op, Dim a, Dim b) {
  if (!e->need || strcmp(e->need, "require ") != 0 || !e->build || !e->build->batch) return false;
  Dim r;
  if (op == BIN_floordiv || op == BIN_mod) return !dim_is(b, 0) && !dim_div(a, b, &r);
  return op_has(op_of_binary[op], OPF_compare) && dim_compare(a, b) == 2;
}

/* False: this operator gives no size; the graph computes it. */
static bool fold_dims(Eval *e, BinaryOp op, Dim a, Dim b, Span at, Datum *out) {
  Dim r;
  int sign;
  if (asked_of_plan(e, op, a, b)) {
    *out = fold_ints(e, op, dim_at(a, e->build->batch), dim_at(b, e->build->batch), at);
    return true;
  }
  switch (op) {
  case BIN_add:
  case BIN_sub:
    *out = dim_sum(e, a, b, op == BIN_add ? 1 : -1, at, &r) ? datum_dim(r) : datum_error();
    return true;
  case BIN_mul:
  case BIN_floordiv:
  case BIN_mod:
    if (op != BIN_mul && dim_is(b, 0)) return *out = by_zero(e, op, at), true;
    if (op == BIN_mul ? dim_mul(a, b, &r) : dim_div(a, b, &r)) {
      *out = op == BIN_mod ? datum_int(0) : datum_dim(r);
      return true;
    }
    eval_report(e, DIAG_E0716, at, "`%s` of symbolic sizes that is not linear in the batch",
                ast_binary_text(op));
    diag_help("only sums and multiples of the batch size are supported yet");
    if (op == BIN_mul || !dim_known(b) || b.fixed < 0) return *out = datum_error(), true;
    /* A size of the right kind, so that a check can go on. */
    r = (Dim){a.per_batch / b.fixed + 1, a.fixed / b.fixed};
    return *out = op == BIN_mod ? datum_int(0) : datum_dim(r), true;
  case BIN_lt:
  case BIN_gt:
  case BIN_le:
  case BIN_ge:
  case BIN_eq:
  case BIN_ne:
    sign = dim_compare(a, b);
    if (sign == 2) return *out = dims_undecided(e, op, a, b, at), true;
    return *out = fold_ints(e, op, sign, 0, at), true;
  default:
    return false;
  }
}

/* ---------- host scalars ---------- */

static void add_keys(Eval *e, HostValue *to, const HostValue *from) {
  uint32_t total = to->n_keys + from->n_keys;
  const char **keys = ARENA_ARRAY(e->arena, const char *, total ? total : 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < total; i++) {
    const char *key = i < to->n_keys ? to->keys[i] : from->keys[i - to->n_keys];
    bool seen = false;
    for (uint32_t j = 0; j < n; j++) seen = seen || keys[j] == key;
    if (!seen) keys[n++] = key;
  }
  to->keys = keys;
  to->n_keys = n;
}

static Datum host_op(Eval *e, OpKind op, const Datum *in, int n, Span at) {
  HostValue *h = ARENA_NEW(e->arena, HostValue);
  double x[3] = {0};
  h->known = true;
  for (int i = 0; i < n; i++) {
    if (in[i].kind != DATUM_host) {
      x[i] = numeric(in[i]);
      continue;
    }
    const HostValue *from = in[i].as.host.value;
    x[i] = from->value;
    h->known = h->known && from->known;
    add_keys(e, h, from);
  }
  h->value = h->known ? op_def(op)->eval(x[0], x[1], x[2]) : 0;
  h->is_bool = op_has(op, OPF_compare);
  Val v[3] = {NO_VAL};
  for (int i = 0; i < n; i++) {
    v[i] = host_node(e, in[i], at);
    if (v[i] == NO_VAL) return datum_error();
  }
  Datum node = emit_op(e, op, v, n, NULL, at);
  if (node.kind == DATUM_error) return node;
  return (Datum){.kind = DATUM_host, .as.host = {h, node.as.tensor}};
}

Val host_node(Eval *e, Datum d, Span at) {
  DType t = e->build->host_dtype;
  if (d.kind == DATUM_bool) return ir_const(e->build->graph, d.as.b, DT_bool, at, e->scope);
  double number;
  if (datum_number(d, &number)) return ir_const(e->build->graph, number, t, at, e->scope);
  if (d.kind == DATUM_dim) {
    Val v;
    return need_tensor(e, d, at, "this", &v) ? v : NO_VAL;
  }
  if (d.kind != DATUM_host) return NO_VAL;
  if (d.as.host.val != NO_VAL) return d.as.host.val;
  Attr attr[IR_MAX_ATTRS] = {0};
  attr[op_attr(OP_host, "name")].as.text = text_intern(d.as.host.value->keys[0]);
  attr[op_attr(OP_host, "dtype")].as.i = d.as.host.value->is_bool ? DT_bool : t;
  Datum node = emit_op(e, OP_host, NULL, 0, attr, at);
  return node.kind == DATUM_tensor ? node.as.tensor : NO_VAL;
}

/* ---------- tensors ---------- */

static int category_rank(DType t) {
  char c = dtype_category(t);
  return c == 'b' ? 0 : c == 'i' ? 1 : 2;
}

/* Node of an operand; numbers take the dtype of the tensors they meet. */
static Val operand_node(Eval *e, Datum d, bool has_like, DType like, Span at) {
  if (d.kind == DATUM_int || d.kind == DATUM_float) {
    int mine = d.kind == DATUM_int ? 1 : 2;
    DType own = d.kind == DATUM_int ? DT_i64 : e->build->compute;
    DType t = has_like && category_rank(like) >= mine ? like : own;
    return ir_const(e->build->graph, numeric(d), t, at, e->scope);
  }
  if (d.kind == DATUM_host) return host_node(e, d, at);
  Val v;
  return need_tensor(e, d, at, "this operand", &v) ? v : NO_VAL;
}

static bool dtype_holds(DType t, int64_t i) {
  return t == DT_u8 ? i >= 0 && i <= UINT8_MAX : t != DT_i32 || (i >= INT32_MIN && i <= INT32_MAX);
}

/* A comparison with a number that the integers of a tensor cannot hold is decided in int64: uint8
   labels never equal -100. */
static bool widen(Eval *e, OpKind op, const Datum *in, int n, Span at, DType *like, Val *v) {
  bool wide = false;
  if (!op_has(op, OPF_compare) || dtype_category(*like) != 'i') return true;
  for (int i = 0; i < n; i++) {
    wide |= in[i].kind == DATUM_int && !dtype_holds(*like, in[i].as.i);
  }
  if (!wide) return true;
  *like = DT_i64;
  Attr attr = {.as.i = DT_i64};
  for (int i = 0; i < n; i++) {
    if (v[i] == NO_VAL) continue;
    Datum d = emit_op(e, OP_cast, &v[i], 1, &attr, at);
    if (d.kind != DATUM_tensor) return false;
    v[i] = d.as.tensor;
  }
  return true;
}

static Datum tensor_op(Eval *e, OpKind op, const Datum *in, int n, Span at) {
  if (!e->build) {
    eval_report(e, DIAG_E0508, at, "a tensor has no value while compiling");
    return datum_error();
  }
  bool has_like = false;
  DType like = DT_bool;
  int first = op == OP_where ? 1 : 0; /* the condition does not join the promotion */
  Val v[3] = {NO_VAL};
  for (int i = 0; i < n; i++) {
    if (!datum_is_tensorlike(in[i])) continue;
    if (!need_tensor(e, in[i], at, "this operand", &v[i])) return datum_error();
    if (i < first) continue;
    DType t = value_at(e->build->graph, v[i])->type.dtype;
    like = has_like ? dtype_promote(like, t) : t;
    has_like = true;
  }
  if (has_like && !widen(e, op, in, n, at, &like, v)) return datum_error();
  for (int i = 0; i < n; i++) {
    if (v[i] == NO_VAL) v[i] = operand_node(e, in[i], i >= first && has_like, like, at);
    if (v[i] == NO_VAL) return datum_error();
  }
  return emit_op(e, op, v, n, NULL, at);
}

static bool acceptable(Datum d) {
  return datum_is_numeric(d) || datum_is_tensorlike(d) || d.kind == DATUM_host ||
         d.kind == DATUM_dim;
}

static Datum fold_known(Eval *e, OpKind op, const Datum *in, int n, Span at) {
  const OpDef *def = op_def(op);
  double x[3] = {0};
  bool ints = true;
  for (int i = 0; i < n; i++) {
    x[i] = numeric(in[i]);
    ints = ints && in[i].kind == DATUM_int;
  }
  if (op == OP_where) return x[0] != 0 ? in[1] : in[2];
  double r = def->eval(x[0], x[1], x[2]);
  if (def->flags & OPF_compare) return datum_bool(r != 0);
  if (ints && !(def->flags & OPF_float)) {
    if (op == OP_maximum) return datum_int(in[0].as.i > in[1].as.i ? in[0].as.i : in[1].as.i);
    if (op == OP_minimum) return datum_int(in[0].as.i < in[1].as.i ? in[0].as.i : in[1].as.i);
    if (fabs(r) < 9e15) return datum_int((int64_t)r);
  }
  return checked_float(e, r, x, n, def->name, at);
}

Datum fold_elementwise(Eval *e, OpKind op, const Datum *in, int n, Span at) {
  bool known = true, host = true;
  for (int i = 0; i < n; i++) {
    if (in[i].kind == DATUM_error) return datum_error();
    if (in[i].kind == DATUM_none) {
      eval_report(e, DIAG_E0507, at, "argument %d of `%s` is `none`", i + 1, op_def(op)->name);
      return datum_error();
    }
    if (!acceptable(in[i])) {
      eval_report(e, DIAG_E0501, at, "`%s` takes numbers and tensors, not %s", op_def(op)->name,
                  datum_describe(e, in[i]));
      return datum_error();
    }
    known = known && datum_is_numeric(in[i]);
    host = host && (datum_is_numeric(in[i]) || in[i].kind == DATUM_host);
  }
  if (known) return fold_known(e, op, in, n, at);
  if (host && e->build) return host_op(e, op, in, n, at);
  if (host) { /* no graph: a setting is read now */
    Datum fixed[3];
    for (int i = 0; i < n; i++) {
      double x;
      fixed[i] = in[i];
      if (in[i].kind != DATUM_host) continue;
      if (!need_number(e, in[i], at, "this number", &x)) return datum_error();
      fixed[i] = datum_float(x);
    }
    return fold_known(e, op, fixed, n, at);
  }
  return tensor_op(e, op, in, n, at);
}

/* ---------- operators ---------- */

Datum fold_unary(Eval *e, UnaryOp op, Datum x, Span at) {
  if (x.kind == DATUM_error) return x;
  if (op == UN_not) {
    if (x.kind == DATUM_bool) return datum_bool(!x.as.b);
    if (!datum_is_tensorlike(x) && x.kind != DATUM_host) {
      eval_report(e, DIAG_E0501, at, "`not` takes a bool, not %s", datum_describe(e, x));
      return datum_error();
    }
    return fold_elementwise(e, OP_not, &x, 1, at);
  }
  if (x.kind == DATUM_int) return fold_ints(e, BIN_sub, 0, x.as.i, at);
  if (x.kind == DATUM_float) return datum_float(-x.as.f);
  if (x.kind == DATUM_dim) return fold_binary(e, BIN_sub, datum_int(0), x, at, at);
  if (x.kind == DATUM_bool) {
    eval_report(e, DIAG_E0501, at, "`-` takes a number, not bool");
    return datum_error();
  }
  return fold_elementwise(e, OP_neg, &x, 1, at);
}

static Datum logical(Eval *e, BinaryOp op, Datum a, Datum b, Span at) {
  Datum in[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    if (in[i].kind == DATUM_bool || datum_is_tensorlike(in[i]) || in[i].kind == DATUM_host)
      continue;
    eval_report(e, DIAG_E0501, at, "`%s` takes bools, not %s", ast_binary_text(op),
                datum_describe(e, in[i]));
    return datum_error();
  }
  if (a.kind == DATUM_bool && b.kind == DATUM_bool)
    return datum_bool(op == BIN_and ? a.as.b && b.as.b : a.as.b || b.as.b);
  /* A known side that decides keeps the other one out of the graph, and settings unread. */
  for (int i = 0; i < 2; i++)
    if (in[i].kind == DATUM_bool && !datum_is_tensorlike(in[1 - i]))
      return in[i].as.b == (op == BIN_or) ? in[i] : in[1 - i];
  return fold_elementwise(e, op_of_binary[op], in, 2, at);
}

static Datum concat_lists(Eval *e, Datum a, Datum b, Span at) {
  uint32_t n = a.as.list.len + b.as.list.len;
  if (n > 65536) {
    eval_report(e, DIAG_E0519, at, "list of %u elements; 65,536 is the limit", n);
    return datum_error();
  }
  Datum *items = ARENA_ARRAY(e->arena, Datum, n ? n : 1);
  for (uint32_t i = 0; i < n; i++)
    items[i] = i < a.as.list.len ? a.as.list.at[i] : b.as.list.at[i - a.as.list.len];
  return (Datum){.kind = DATUM_list, .as.list = {items, n}};
}

static Datum equality(Eval *e, BinaryOp op, Datum a, Datum b, Span at) {
  bool comparable;
  bool equal = datum_equal(a, b, &comparable);
  if (!comparable) {
    eval_report(e, DIAG_E0501, at, "%s and %s cannot be compared", datum_describe(e, a),
                datum_describe(e, b));
    return datum_error();
  }
  return datum_bool(equal == (op == BIN_eq));
}

static Datum not_numbers(Eval *e, BinaryOp op, Datum a, Datum b, Span at) {
  Datum bad = acceptable(a) && a.kind != DATUM_bool ? b : a;
  if (bad.kind == DATUM_none)
    eval_report(e, DIAG_E0507, at, "a side of `%s` is `none`", ast_binary_text(op));
  else if (bad.kind == DATUM_recipe)
    eval_report(e, DIAG_E0515, at, "a side of `%s` waits for arguments of a place",
                ast_binary_text(op));
  else if (bad.kind == DATUM_draw)
    eval_report(e, DIAG_E0716, at, "arithmetic on random initial values is not supported yet");
  else if (bad.kind == DATUM_text || bad.kind == DATUM_percent)
    eval_report(e, DIAG_E0516, at, "`%s` takes numbers and tensors, not %s", ast_binary_text(op),
                datum_describe(e, bad));
  else
    eval_report(e, DIAG_E0501, at, "`%s` takes numbers and tensors, not %s", ast_binary_text(op),
                datum_describe(e, bad));
  return datum_error();
}

Datum fold_binary(Eval *e, BinaryOp op, Datum a, Datum b, Span at, Span whole) {
  if (a.kind == DATUM_error || b.kind == DATUM_error) return datum_error();
  if (op == BIN_and || op == BIN_or) return logical(e, op, a, b, at);
  if (op == BIN_matmul) return fold_matmul(e, a, b, whole);
  bool equals = op == BIN_eq || op == BIN_ne;
  if (equals && (a.kind == DATUM_none || b.kind == DATUM_none)) return equality(e, op, a, b, at);
  if (op == BIN_add && a.kind == DATUM_list && b.kind == DATUM_list)
    return concat_lists(e, a, b, at);
  if (a.kind == DATUM_int && b.kind == DATUM_int) return fold_ints(e, op, a.as.i, b.as.i, at);
  double x, y;
  if (datum_number(a, &x) && datum_number(b, &y)) return fold_floats(e, op, x, y, at);
  Dim da, db;
  Datum out;
  if (datum_dim_value(a, &da) && datum_dim_value(b, &db) && fold_dims(e, op, da, db, at, &out))
    return out;
  if (equals && !datum_is_tensorlike(a) && !datum_is_tensorlike(b) && a.kind != DATUM_host &&
      b.kind != DATUM_host)
    return equality(e, op, a, b, at);
  bool bools = a.kind == DATUM_bool || b.kind == DATUM_bool;
  bool tensors = datum_is_tensorlike(a) || datum_is_tensorlike(b);
  if (!acceptable(a) || !acceptable(b) || (bools && !tensors && !equals))
    return not_numbers(e, op, a, b, at);
  Datum in[2] = {a, b};
  return fold_elementwise(e, op_of_binary[op], in, 2, whole);
}

/* The tensor below a swap of the last two dimensions; NO_VAL when v is no such swap. */
static Val untransposed(const Graph *g, Val v) {
  const Value *p = value_at(g, v);
  int r = p->type.rank;
  if (p->op != OP_permute || r < 2) return NO_VAL;
  const Attr *dims = &p->attr[op_attr(OP_permute, "dims")];
  for (int i = 0; i < r - 2; i++)
    if (dims->as.ints.at[i] != i) return NO_VAL;
  return dims->as.ints.at[r - 2] == r - 1 && dims->as.ints.at[r - 1] == r - 2 ? p->in[0] : NO_VAL;
}

Datum fold_matmul(Eval *e, Datum a, Datum b, Span at) {
  Val in[2];
  if (!need_tensor(e, a, at, "the left side of `@`", &in[0])) return datum_error();
  if (!need_tensor(e, b, at, "the right side of `@`", &in[1])) return datum_error();
  Attr attr[IR_MAX_ATTRS] = {0};
  static const char *const name[2] = {"ta", "tb"};
  for (int i = 0; i < 2; i++) {
    Val below = untransposed(e->build->graph, in[i]);
    if (below == NO_VAL) continue;
    in[i] = below;
    attr[op_attr(OP_matmul, name[i])].as.i = true;
  }
  return emit_op(e, OP_matmul, in, 2, attr, at);
}
