/* See random_graph.h. Ops are drawn with arguments that fit; values stay small and free of NaN. */
#include "random_graph.h"
#include "op.h"

typedef struct Maker {
  Graph *g;
  uint64_t state;
  VEC(Val) floats; /* what may be used further */
  int sites;
} Maker;

static uint64_t next(Maker *m) {
  m->state = text_hash(&m->state, sizeof m->state, 5);
  return m->state >> 8;
}
static int below(Maker *m, int n) {
  return (int)(next(m) % (uint64_t)n);
}

static Val pick(Maker *m) {
  uint32_t n = m->floats.len;
  uint32_t recent = n > 6 && below(m, 3) ? n - 6 : 0;
  return m->floats.at[recent + (uint32_t)below(m, (int)(n - recent))];
}

static Type type_of(const Maker *m, Val v) {
  return value_at(m->g, v)->type;
}

static Val make(Maker *m, OpKind op, const Val *in, int n, const Attr *attrs) {
  const char *error;
  int code;
  return ir_add(m->g, op, in, n, attrs, (Span){0}, 0, &error, &code);
}

static Val make1(Maker *m, OpKind op, Val a) {
  return make(m, op, &a, 1, NULL);
}
static Val make2(Maker *m, OpKind op, Val a, Val b) {
  return make(m, op, (Val[]){a, b}, 2, NULL);
}

/* Keeps numbers within bounds. */
static Val tame(Maker *m, Val v) {
  return make1(m, OP_tanh, v);
}

static Dim random_size(Maker *m) {
  static const int size[] = {1, 2, 3, 4, 6};
  return dim_of(size[below(m, 5)]);
}

static Val leaf(Maker *m, int number) {
  static const OpKind kind[] = {OP_input, OP_param, OP_buffer};
  OpKind op = kind[number % 3];
  Attr attrs[3] = {{.as.i = number}, {.as.i = DT_f32}};
  int rank = below(m, 4);
  attrs[2].as.dims.len = rank;
  for (int i = 0; i < rank; i++)
    attrs[2].as.dims.at[i] = i == 0 && op == OP_input ? (Dim){1, 0} : random_size(m);
  return make(m, op, NULL, 0, attrs);
}

static Val unary(Maker *m) {
  static const OpKind ops[] = {OP_neg, OP_tanh, OP_abs, OP_sin, OP_detach, OP_sign, OP_exp};
  OpKind op = ops[below(m, 7)];
  Val x = pick(m);
  return make1(m, op, op == OP_exp ? tame(m, x) : x);
}

static Val binary(Maker *m) {
  static const OpKind ops[] = {OP_add, OP_sub, OP_mul, OP_maximum, OP_minimum};
  OpKind op = ops[below(m, 5)];
  Val a = pick(m), b = pick(m), v = NO_VAL;
  for (int tries = 0; tries < 12 && !v; tries++, b = pick(m)) v = make2(m, op, a, b);
  return v && op == OP_mul ? tame(m, v) : v;
}

static Val choice(Maker *m) {
  static const OpKind ops[] = {OP_le, OP_lt, OP_gt, OP_ge, OP_eq, OP_ne};
  Val a = pick(m), b = pick(m);
  Val test = make2(m, ops[below(m, 6)], a, b);
  for (int tries = 0; tries < 12 && !test; tries++) test = make2(m, OP_le, a, b = pick(m));
  return test ? make(m, OP_where, (Val[]){test, a, b}, 3, NULL) : NO_VAL;
}

static Val reduction(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  if (t.rank == 0) return NO_VAL;
  OpKind op = below(m, 4) ? OP_sum : below(m, 3) ? OP_amax : OP_argmax;
  Attr attrs[2] = {{.as.ints.len = 0}, {.as.i = below(m, 2)}};
  for (int i = 0; i < t.rank; i++)
    if (below(m, 2) && (op != OP_argmax || attrs[0].as.ints.len == 0))
      attrs[0].as.ints.at[attrs[0].as.ints.len++] = i;
  if (attrs[0].as.ints.len == 0) attrs[0].as.ints.at[attrs[0].as.ints.len++] = t.rank - 1;
  Val v = make(m, op, &x, 1, attrs);
  if (v && op == OP_argmax) {
    Attr to = {.as.i = DT_f32};
    return make(m, OP_cast, &v, 1, &to);
  }
  return v && op == OP_sum ? tame(m, v) : v;
}

static Val permuted(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  Attr attrs[2] = {{.as.ints.len = t.rank}, {.as.i = below(m, 2)}};
  for (int i = 0; i < t.rank; i++) attrs[0].as.ints.at[i] = i;
  for (int i = t.rank - 1; i > 0; i--) {
    int j = below(m, i + 1);
    int64_t k = attrs[0].as.ints.at[i];
    attrs[0].as.ints.at[i] = attrs[0].as.ints.at[j];
    attrs[0].as.ints.at[j] = k;
  }
  return make(m, OP_permute, &x, 1, attrs);
}

/* Joins two neighbouring dimensions or splits one. */
static Val reshaped(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  Attr attr = {.as.dims.len = 0};
  if (t.rank >= 2 && below(m, 2)) {
    int at = below(m, t.rank - 1);
    for (int i = 0; i < t.rank; i++) {
      Dim d = t.dim[i];
      if (i == at && !dim_mul(d, t.dim[++i], &d)) return NO_VAL;
      attr.as.dims.at[attr.as.dims.len++] = d;
    }
  } else if (t.rank >= 1 && t.rank < 5) {
    int at = below(m, t.rank);
    for (int i = 0; i < t.rank; i++) {
      Dim rest, by = dim_of(1 + below(m, 3));
      if (i == at && dim_div(t.dim[i], by, &rest)) {
        attr.as.dims.at[attr.as.dims.len++] = rest;
        attr.as.dims.at[attr.as.dims.len++] = by;
      } else {
        attr.as.dims.at[attr.as.dims.len++] = t.dim[i];
      }
    }
  } else {
    attr.as.dims.at[attr.as.dims.len++] = dim_of(1);
    if (t.rank) return NO_VAL;
  }
  return make(m, OP_reshape, &x, 1, &attr);
}

static Val expanded(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  if (t.rank > 3) return NO_VAL;
  Attr attrs[2] = {{.as.dims.len = 0}, {.as.ints.len = -1}};
  Attr *shape = &attrs[0];
  if (below(m, 2)) shape->as.dims.at[shape->as.dims.len++] = below(m, 2) ? (Dim){1, 0} : dim_of(3);
  for (int i = 0; i < t.rank; i++)
    shape->as.dims.at[shape->as.dims.len++] =
        dim_is(t.dim[i], 1) && below(m, 2) ? dim_of(4) : t.dim[i];
  return make(m, OP_expand, &x, 1, attrs);
}

static Val sliced(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  Attr attrs[3] = {{.as.dims.len = t.rank}, {.as.dims.len = t.rank}, {.as.ints.len = t.rank}};
  for (int i = 0; i < t.rank; i++) {
    int64_t n = dim_known(t.dim[i]) ? t.dim[i].fixed : 1;
    int64_t start = below(m, (int)n), step = 1 + below(m, 2);
    attrs[0].as.dims.at[i] = dim_of(dim_known(t.dim[i]) ? start : 0);
    attrs[1].as.dims.at[i] = t.dim[i];
    attrs[2].as.ints.at[i] = dim_known(t.dim[i]) ? step : 1;
    if (!dim_known(t.dim[i])) continue;
    int64_t count = (n - start + step - 1) / step;
    attrs[1].as.dims.at[i] = dim_of(start + (count - 1) * step + 1);
  }
  return make(m, OP_slice, &x, 1, attrs);
}

static Val padded(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  Attr attrs[4] = {{.as.dims.len = t.rank},
                   {.as.dims.len = t.rank},
                   {.as.f = below(m, 2) * 0.5},
                   {.as.ints.len = t.rank}};
  for (int i = 0; i < t.rank; i++) {
    bool known = dim_known(t.dim[i]);
    attrs[0].as.dims.at[i] = dim_of(known ? below(m, 3) : 0);
    attrs[1].as.dims.at[i] = dim_of(known ? below(m, 2) : 0);
    attrs[3].as.ints.at[i] = known ? 1 + below(m, 2) : 1;
  }
  return make(m, OP_pad, &x, 1, attrs);
}

static Val flipped(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  Attr attr = {.as.ints.len = 0};
  for (int i = 0; i < t.rank; i++)
    if (below(m, 2)) attr.as.ints.at[attr.as.ints.len++] = i;
  return make(m, OP_flip, &x, 1, &attr);
}

static Val joined(Maker *m) {
  Val in[3] = {pick(m), pick(m), pick(m)};
  Type t = type_of(m, in[0]);
  if (t.rank == 0) return NO_VAL;
  Attr attr = {.as.ints = {1, {below(m, t.rank)}}};
  Val v = make(m, OP_concat, in, 2, &attr);
  return v ? v : make(m, OP_concat, (Val[]){in[0], in[0], in[0]}, 2 + below(m, 2), &attr);
}

/* Indices are drawn from 0 to 2: the indexed dimension needs three. */
static Val indexed(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  Attr random[5] = {{.as.i = 0}, {.as.i = 3}, {.as.i = m->sites++}, {.as.i = below(m, 2)}};
  if (t.rank == 0) return NO_VAL;
  if (below(m, 2) && dim_known(t.dim[0]) && t.dim[0].fixed >= 3) {
    random[4].as.dims.len = 1;
    random[4].as.dims.at[0] = (Dim){1, 0};
    Val index = make(m, OP_randint, NULL, 0, random);
    return make2(m, OP_rows, x, index);
  }
  int at = t.rank - 1;
  if (!dim_known(t.dim[at]) || t.dim[at].fixed < 3) return NO_VAL;
  random[4].as.dims.len = t.rank;
  for (int i = 0; i < t.rank; i++) random[4].as.dims.at[i] = i == at ? dim_of(1) : t.dim[i];
  for (int i = 1; i < t.rank; i++)
    if (!dim_known(t.dim[i])) return NO_VAL; /* draws: the batch comes first */
  Val index = make(m, OP_randint, NULL, 0, random);
  Attr dim = {.as.ints = {1, {at}}};
  return make(m, OP_gather, (Val[]){x, index}, 2, &dim);
}

static Val product(Maker *m) {
  Val a = pick(m), b = pick(m), v = NO_VAL;
  for (int tries = 0; tries < 24 && !v; tries++) {
    Attr attrs[IR_MAX_ATTRS] = {{.as.i = below(m, 2)}, {.as.i = below(m, 2)}};
    if (type_of(m, a).rank >= 2 && type_of(m, b).rank >= 2)
      v = make(m, OP_matmul, (Val[]){a, b}, 2, attrs);
    b = pick(m);
    if (tries % 4 == 3) a = pick(m);
  }
  return v ? tame(m, v) : NO_VAL;
}

static Val dropped(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  for (int i = 1; i < t.rank; i++)
    if (!dim_known(t.dim[i])) return NO_VAL;
  Attr attrs[4] = {{.as.f = 0.5}, {.as.i = m->sites++}, {.as.i = 0}, {.as.dims.len = t.rank}};
  for (int i = 0; i < t.rank; i++) attrs[3].as.dims.at[i] = t.dim[i];
  return make2(m, OP_mul, x, make(m, OP_bernoulli, NULL, 0, attrs));
}

static Val counted(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  if (t.rank == 0) return NO_VAL;
  Attr attr = {.as.dims = {1, {t.dim[t.rank - 1]}}};
  return make2(m, OP_add, x, make(m, OP_arange, NULL, 0, &attr));
}

/* softmax over the last dimension, as autodiff leaves it */
static Val softmax(Maker *m) {
  Val x = pick(m);
  Type t = type_of(m, x);
  if (t.rank == 0) return NO_VAL;
  Attr last[2] = {{.as.ints = {1, {t.rank - 1}}}, {.as.i = 1}};
  Val e = make1(m, OP_exp, make2(m, OP_sub, x, make(m, OP_amax, &x, 1, last)));
  return make2(m, OP_div, e, make(m, OP_sum, &e, 1, last));
}

enum { LEAVES = 6 };

/* Gradients and plain values; buffers get a new value where one of their type was made. */
static void add_outputs(Maker *m, int outputs) {
  for (int i = 0; i < outputs; i++) {
    Val v = pick(m);
    graph_output(m->g, below(m, 2) ? OUT_grad : OUT_value, i, v);
    if (below(m, 4) == 0) graph_output(m->g, OUT_grad, outputs + i, v);
  }
  for (uint32_t b = 2; b < LEAVES; b += 3)
    for (uint32_t i = m->floats.len - 1; i >= LEAVES; i--) {
      if (!type_equal(type_of(m, m->floats.at[b]), type_of(m, m->floats.at[i]))) continue;
      graph_output(m->g, OUT_buffer, (int32_t)b, m->floats.at[i]);
      break;
    }
}

Graph *random_graph(Arena *a, uint64_t seed, int values, int outputs) {
  static Val (*const maker[])(Maker *) = {
      unary,  binary,  binary, choice,  reduction, reduction, permuted, reshaped, expanded, sliced,
      padded, flipped, joined, indexed, product,   product,   dropped,  counted,  softmax,  binary};
  Maker m = {.g = graph_new(a, "random", true), .state = seed * 2 + 1};
  for (int i = 0; i < LEAVES; i++) vec_push(a, &m.floats, leaf(&m, i));
  while ((int)m.floats.len < values) {
    Val v = maker[below(&m, (int)(sizeof maker / sizeof *maker))](&m);
    Dim n;
    if (!v || type_of(&m, v).dtype != DT_f32) continue;
    if (!type_elements(type_of(&m, v), &n) || dim_at(n, 3) > 400) continue;
    vec_push(a, &m.floats, v);
  }
  add_outputs(&m, outputs);
  return m.g;
}
