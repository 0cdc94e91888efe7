/* Library ops as calls. One row of the table per op; no other file knows which ops there are. */
#include "call.h"
#include "conv.h"
#include "die.h"
#include "extern.h"
#include "op.h"
#include "pool.h"

typedef struct Call {
  Emit *e;
  const Program *p;
  const Kernel *k;
  const Value *v;
  Text *out;
  const char *indent, *tail;
  OperandName name;
  void *self;
} Call;

static const char *memory(const Call *c, Val v) {
  return c->name(c->self, OPERAND_memory, kernel_named(c->p, v));
}
static Type type_of(const Call *c, Val v) {
  return value_at(c->p->g, v)->type;
}

static const char *size_text(const Call *c, Dim d) {
  Text t = {0};
  write_dim(&t, d);
  const char *s = arena_strdup(c->e->arena, t.at);
  text_free(&t);
  return s;
}
/* Product of some dimensions of a type. */
static Dim product(Type t, int from, int to) {
  Dim d = dim_of(1);
  for (int i = from; i < to; i++)
    check(dim_mul(d, t.dim[i], &d), "a size that is not linear in the batch");
  return d;
}

static bool attr_bool(const Call *c, const char *name) {
  return c->v->attr[op_attr(c->v->op, name)].as.i != 0;
}

/* Element offset of a batched operand: its own batch index where it has that dimension. */
static const char *batch_offset(const Call *c, const char *base, Type t, int batch_rank) {
  static const char *const names[] = {"i", "j", "k", "l", "m", "n"};
  Arena *a = c->e->arena;
  const char *text = base;
  int own = t.rank - 2;
  for (int d = 0; d < own; d++) {
    if (dim_is(t.dim[d], 1)) continue;
    const char *stride = size_text(c, product(t, d + 1, t.rank));
    text = arena_printf(a, "%s + %s * (%s)", text, names[d + batch_rank - own], stride);
  }
  return text;
}

static void gemm(const Call *c, const char *indent, const char *a, const char *b, const char *y,
                 Dim m, Dim n, Dim k) {
  bool ta = attr_bool(c, "ta"), tb = attr_bool(c, "tb");
  const char *beta = !c->k->accumulate ? "0.0f"
                                       : arena_printf(c->e->arena, "%s ? 1.0f : 0.0f",
                                                      c->name(c->self, OPERAND_accumulate, 0));
  DType in = type_of(c, c->v->in[0]).dtype, out = c->v->type.dtype;
  bool half = dtype_is_half(in), rounds = dtype_is_half(out);
  check(!rounds || !c->k->accumulate, "a sum of products in %s", dtype_name(out));
  const char *args[9] = {ta ? "true" : "false",
                         tb ? "true" : "false",
                         size_text(c, m),
                         size_text(c, n),
                         size_text(c, k),
                         a,
                         b,
                         rounds ? y : beta,
                         y};
  const char *name = !half ? "ddp_gemm" : arena_printf(c->e->arena, "ddp_gemm_%s", dtype_name(in));
  if (rounds) name = arena_printf(c->e->arena, "%s_%s", name, dtype_name(out));
  write_call(c->out, indent, name, args, rounds ? 8 : 9, c->tail);
}

static void call_matmul(const Call *c) {
  Type a = type_of(c, c->v->in[0]), b = type_of(c, c->v->in[1]), y = c->v->type;
  const char *an = memory(c, c->v->in[0]), *bn = memory(c, c->v->in[1]),
             *yn = memory(c, c->k->call);
  bool ta = attr_bool(c, "ta");
  check(a.rank >= 2 && b.rank >= 2, "a product of vectors");
  check(a.dtype == b.dtype && (y.dtype == DT_f32 || dtype_is_half(y.dtype)),
        "a product of %s and %s in %s", dtype_name(a.dtype), dtype_name(b.dtype),
        dtype_name(y.dtype));
  Dim n = y.dim[y.rank - 1], k = a.dim[ta ? a.rank - 2 : a.rank - 1];
  int batch = y.rank - 2;
  bool rows_only = b.rank == 2 && (!ta || a.rank == 2);
  if (rows_only) {
    gemm(c, c->indent, an, bn, yn, product(y, 0, y.rank - 1), n, k);
    return;
  }
  static const char *const names[] = {"i", "j", "k", "l", "m", "n"};
  const char *indent = c->indent;
  for (int d = 0; d < batch; d++) {
    text_addf(c->out, "%sfor (int64_t %s = 0; %s < %s; %s++)\n", indent, names[d], names[d],
              size_text(c, y.dim[d]), names[d]);
    indent = arena_printf(c->e->arena, "%s  ", indent);
  }
  gemm(c, indent, batch_offset(c, an, a, batch), batch_offset(c, bn, b, batch),
       batch_offset(c, yn, y, batch), y.dim[y.rank - 2], n, k);
}

static void call_matmul_bias(const Call *c) {
  Type x = type_of(c, c->v->in[0]), y = c->v->type;
  check(y.dtype == DT_f32, "a product with a bias in %s", dtype_name(y.dtype));
  const char *args[] = {size_text(c, y.dim[0]), size_text(c, y.dim[1]), size_text(c, x.dim[1]),
                        memory(c, c->v->in[0]), memory(c, c->v->in[1]), memory(c, c->v->in[2]),
                        memory(c, c->k->call)};
  write_call(c->out, c->indent, "ddp_gemm_bias", args, 7, c->tail);
}

static const char *accumulate_text(const Call *c) {
  return c->k->accumulate ? c->name(c->self, OPERAND_accumulate, 0) : "false";
}

static void call_rows_add(const Call *c) {
  Type index = type_of(c, c->v->in[0]), y = c->v->type;
  const char *f = arena_printf(c->e->arena, "ddp_rows_add_%s", dtype_name(index.dtype));
  const char *args[] = {memory(c, c->k->call),
                        memory(c, c->v->in[0]),
                        memory(c, c->v->in[1]),
                        size_text(c, product(index, 0, index.rank)),
                        size_text(c, product(y, 1, y.rank)),
                        size_text(c, y.dim[0]),
                        accumulate_text(c)};
  write_call(c->out, c->indent, f, args, 7, c->tail);
}

static void call_scatter_add(const Call *c) {
  Type x = type_of(c, c->v->in[0]), index = type_of(c, c->v->in[1]);
  int dim = (int)c->v->attr[op_attr(c->v->op, "dim")].as.ints.at[0];
  for (int d = 0; d < x.rank; d++)
    check(d == dim || dim_equal(x.dim[d], index.dim[d]), "scatter_add of a part of its rows");
  const char *f = arena_printf(c->e->arena, "ddp_scatter_add_%s", dtype_name(index.dtype));
  const char *args[] = {memory(c, c->k->call),
                        memory(c, c->v->in[0]),
                        memory(c, c->v->in[1]),
                        memory(c, c->v->in[2]),
                        size_text(c, product(x, 0, dim)),
                        size_text(c, x.dim[dim]),
                        size_text(c, index.dim[dim]),
                        size_text(c, product(x, dim + 1, x.rank)),
                        accumulate_text(c)};
  write_call(c->out, c->indent, f, args, 9, c->tail);
}

static const char *list_text(const Call *c, const int64_t *at, int n) {
  Arena *a = c->e->arena;
  const char *text = "";
  for (int i = 0; i < n; i++)
    text = arena_printf(a, "%s%s%lld", text, i ? ", " : "", (long long)at[i]);
  return arena_printf(a, "{%s}", text);
}

/* The three ops of convolution: the operand that the op computes is written. */
static void call_conv(const Call *c) {
  const ConvShape s = conv_shape(c->p->g, c->v);
  const char *x0 = memory(c, c->v->in[0]), *x1 = memory(c, c->v->in[1]), *y = memory(c, c->k->call);
  bool small = c->v->op == OP_conv, big = c->v->op == OP_conv_transpose;
  for (int i = 0; i < 2; i++)
    check(type_of(c, c->v->in[i]).dtype == DT_f32, "a convolution in %s",
          dtype_name(type_of(c, c->v->in[i]).dtype));
  const char *shape = arena_printf(
      c->e->arena, "&(DdpConv){%d, %lld, %lld, %lld, %lld, %lld, %s, %s, %s, %s, %s, %s}", s.space,
      (long long)s.groups, (long long)s.big.channels, (long long)s.small.channels,
      (long long)s.big.block, (long long)s.small.block, list_text(c, s.big.size, s.space),
      list_text(c, s.small.size, s.space), list_text(c, s.kernel, s.space),
      list_text(c, s.stride, s.space), list_text(c, s.padding, s.space),
      list_text(c, s.dilation, s.space));
  const char *args[] = {shape,
                        small ? "DDP_CONV_SMALL"
                        : big ? "DDP_CONV_BIG"
                              : "DDP_CONV_FILTER",
                        size_text(c, s.batch),
                        big ? y : x0,
                        small ? y
                        : big ? x0
                              : x1,
                        small || big ? x1 : y,
                        accumulate_text(c)};
  write_call(c->out, c->indent, "ddp_conv", args, 7, c->tail);
}

static void call_pool(const Call *c) {
  const PoolShape s = pool_shape(c->p->g, c->v);
  bool max = c->v->op == OP_pool_max || c->v->op == OP_pool_max_grad;
  bool back = c->v->op == OP_pool_max_grad || c->v->op == OP_pool_sum_grad;
  check(c->v->type.dtype == DT_f32, "pooling in %s", dtype_name(c->v->type.dtype));
  const char *shape = arena_printf(
      c->e->arena, "&(DdpPool){%d, %s, %s, %s, %s, %s, %s, %d, %d}", s.space,
      list_text(c, s.in, s.space), list_text(c, s.out, s.space), list_text(c, s.window, s.space),
      list_text(c, s.stride, s.space), list_text(c, s.padding, s.space),
      list_text(c, s.dilation, s.space), s.adaptive, (int)s.divide);
  const char *args[] = {shape,
                        size_text(c, s.outer),
                        size_text(c, dim_of(s.inner)),
                        max || !back ? memory(c, c->v->in[0]) : "NULL",
                        back ? memory(c, c->v->in[c->v->inputs - 1]) : "NULL",
                        memory(c, c->k->call),
                        accumulate_text(c)};
  write_call(c->out, c->indent, max ? "ddp_pool_max" : "ddp_pool_sum", args, 7, c->tail);
}

static const char *number_text(const Call *c, double number, DType dtype) {
  Text t = {0};
  write_number(&t, number, dtype);
  const char *s = arena_strdup(c->e->arena, t.at);
  text_free(&t);
  return s;
}

/* A function from a C header of the job. */
static void call_extern(const Call *c) {
  const ExternalCall *x = external_of(c->v);
  const char **args = ARENA_ARRAY(c->e->arena, const char *, x->args.len + 1);
  for (uint32_t i = 0; i < x->args.len; i++) {
    const ExternalArg *a = &x->args.at[i];
    args[i] = a->kind == EXTERNAL_result  ? memory(c, c->k->call)
              : a->kind == EXTERNAL_input ? memory(c, c->v->in[a->input])
              : a->kind == EXTERNAL_size  ? size_text(c, a->size)
                                          : number_text(c, a->number, a->dtype);
  }
  write_call(c->out, c->indent, x->function, args, x->args.len, c->tail);
}

static void call_all_sum(const Call *c) {
  Type t = c->v->type;
  check(t.dtype == DT_f32, "a sum over ranks in %s", dtype_name(t.dtype));
  const char *args[] = {"step", memory(c, c->k->call), memory(c, c->v->in[0]),
                        size_text(c, product(t, 0, t.rank))};
  write_call(c->out, c->indent, "ddp_all_sum", args, 4, c->tail);
}

/* ---------- attention ---------- */
/* Where operand v lies: "qkv + 128", and its strides. */
static const char *view_of(const Call *c, Val v, View *view) {
  Val base = v;
  while (c->p->places.at[base].home == HOME_alias) base = c->p->places.at[base].alias;
  check(plan_view(c->p->g, v, base, view), "%%%u is no view of its memory", v);
  const char *name = memory(c, v);
  if (dim_is(view->offset, 0)) return name;
  return arena_printf(c->e->arena, "%s + %s", name, size_text(c, view->offset));
}

static const char *heads_text(const Call *c, const char *field, Val v) {
  View view;
  const char *at = view_of(c, v, &view);
  return arena_printf(c->e->arena, "%s{%s, %s, %s, %s}", field, at, size_text(c, view.stride[0]),
                      size_text(c, view.stride[1]), size_text(c, view.stride[2]));
}

typedef struct Pieces { /* of a call, each with a comma behind it */
  const char *at[24];
  uint32_t n;
} Pieces;

static void add_mask(const Call *c, Pieces *p, Val mask) {
  Type t = type_of(c, mask);
  View view;
  const char *at = view_of(c, mask, &view), *step[4] = {"0", "0", "0", "0"};
  for (int i = 0; i < t.rank; i++)
    if (!dim_is(t.dim[i], 1)) step[i + 4 - t.rank] = size_text(c, view.stride[i]);
  p->at[p->n++] = arena_printf(c->e->arena, ".mask = %s", at);
  p->at[p->n++] = arena_printf(c->e->arena, ".mask_step = {%s, %s, %s, %s}", step[0], step[1],
                               step[2], step[3]);
  if (t.dtype != DT_bool) p->at[p->n++] = ".mask_added = true";
}

/* &(DdpAttention){...}; q is input `first`. */
static void add_attention(const Call *c, Pieces *p, int first) {
  Arena *a = c->e->arena;
  const Val *in = &c->v->in[first];
  Type q = type_of(c, in[0]), k = type_of(c, in[1]), v = type_of(c, in[2]);
  double keep = c->v->attr[op_attr(c->v->op, "keep")].as.f;
  double scale = c->v->attr[op_attr(c->v->op, "scale")].as.f;
  p->at[p->n++] = arena_printf(a, "&(DdpAttention){.batch = %s", size_text(c, q.dim[0]));
  p->at[p->n++] = arena_printf(a, ".heads = %s", size_text(c, q.dim[2]));
  p->at[p->n++] = arena_printf(a, ".groups = %s", size_text(c, k.dim[2]));
  p->at[p->n++] = arena_printf(a, ".t = %s", size_text(c, q.dim[1]));
  p->at[p->n++] = arena_printf(a, ".s = %s", size_text(c, k.dim[1]));
  p->at[p->n++] = arena_printf(a, ".k = %s", size_text(c, q.dim[3]));
  p->at[p->n++] = arena_printf(a, ".v = %s", size_text(c, v.dim[3]));
  p->at[p->n++] = arena_printf(a, ".scale = %s", number_text(c, scale, DT_f32));
  p->at[p->n++] = arena_printf(a, ".keep = %s", number_text(c, keep, DT_f32));
  if (attr_bool(c, "causal")) p->at[p->n++] = ".causal = true";
  if (keep < 1)
    p->at[p->n++] = arena_printf(a, ".draw = %s", c->name(c->self, OPERAND_draw, c->k->call));
  if (c->v->inputs > first + 3) add_mask(c, p, in[3]);
  p->at[p->n++] = heads_text(c, ".q = ", in[0]);
  p->at[p->n++] = heads_text(c, ".key = ", in[1]);
  p->at[p->n++] = arena_printf(a, "%s}", heads_text(c, ".value = ", in[2]));
}

static const char *part_memory(const Call *c, int index) {
  Val part = plan_part(c->p, c->k, index);
  return part ? memory(c, part) : "NULL";
}

static void call_attention(const Call *c) {
  Pieces p = {0};
  add_attention(c, &p, 0);
  p.at[p.n++] = memory(c, c->k->call);
  p.at[p.n++] = part_memory(c, 1);
  write_call(c->out, c->indent, "ddp_attention", p.at, p.n, c->tail);
}

static void call_attention_grad(const Call *c) {
  Pieces p = {0};
  add_attention(c, &p, 3);
  p.at[p.n++] = heads_text(c, "(DdpHeads)", c->v->in[0]);
  p.at[p.n++] = heads_text(c, "(DdpHeads)", c->v->in[1]);
  p.at[p.n++] = memory(c, c->v->in[2]);
  p.at[p.n++] = memory(c, c->k->call);
  p.at[p.n++] = part_memory(c, 1);
  p.at[p.n++] = part_memory(c, 2);
  write_call(c->out, c->indent, "ddp_attention_grad", p.at, p.n, c->tail);
}

static const struct {
  OpKind op;
  void (*write)(const Call *c);
  const char *header; /* of runtime/kernels/cpu, where not every program includes it */
} calls[] = {
    {OP_matmul, call_matmul, NULL},
    {OP_matmul_bias, call_matmul_bias, NULL},
    {OP_rows_add, call_rows_add, NULL},
    {OP_scatter_add, call_scatter_add, NULL},
    {OP_conv, call_conv, NULL},
    {OP_conv_transpose, call_conv, NULL},
    {OP_conv_filter, call_conv, NULL},
    {OP_pool_max, call_pool, NULL},
    {OP_pool_max_grad, call_pool, NULL},
    {OP_pool_sum, call_pool, NULL},
    {OP_pool_sum_grad, call_pool, NULL},
    {OP_attention, call_attention, "attention.h"},
    {OP_attention_grad, call_attention_grad, "attention.h"},
    {OP_extern, call_extern, NULL},
    {OP_all_sum, call_all_sum, NULL},
};

static void need_header(Emit *e, const char *header) {
  bool known = !header;
  for (uint32_t i = 0; i < e->headers.len && !known; i++) known = !strcmp(e->headers.at[i], header);
  if (!known) vec_push(e->arena, &e->headers, header);
}

void call_write(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                OperandName name, void *self, const char *tail) {
  Call c = {e, p, k, value_at(p->g, k->call), out, indent, tail, name, self};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (calls[i].op == c.v->op) {
      need_header(e, calls[i].header);
      calls[i].write(&c);
      return;
    }
  die("no kernel for %s", op_def(c.v->op)->name);
}
