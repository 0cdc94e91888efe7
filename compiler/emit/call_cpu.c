/* Library ops as calls of the kernels in runtime/kernels/cpu. */
#include "call.h"
#include "die.h"
#include "extern.h"
#include "op.h"

/* Element offset of a batched operand: its own batch index where it has that dimension. */
static const char *batch_offset(const Call *c, const char *base, Type t, int batch_rank) {
  static const char *const names[] = {"i", "j", "k", "l", "m", "n"};
  Arena *a = c->e->arena;
  const char *text = base;
  int own = t.rank - 2;
  for (int d = 0; d < own; d++) {
    if (dim_is(t.dim[d], 1)) continue;
    const char *stride = call_size(c, call_product(t, d + 1, t.rank));
    text = arena_printf(a, "%s + %s * (%s)", text, names[d + batch_rank - own], stride);
  }
  return text;
}

static void gemm(const Call *c, const char *indent, const char *a, const char *b, const char *y,
                 Dim m, Dim n, Dim k) {
  bool ta = call_flag(c, "ta"), tb = call_flag(c, "tb");
  const char *adds = call_accumulate(c), *beta = "0.0f";
  bool never = !strcmp(adds, "false");
  if (!never) beta = arena_printf(c->e->arena, "%s ? 1.0f : 0.0f", adds);
  DType in = call_type(c, c->v->in[0]).dtype, out = c->v->type.dtype;
  bool half = dtype_is_half(in), rounds = dtype_is_half(out);
  check(!rounds || never, "a sum of products in %s", dtype_name(out));
  const char *args[9] = {ta ? "true" : "false",
                         tb ? "true" : "false",
                         call_size(c, m),
                         call_size(c, n),
                         call_size(c, k),
                         a,
                         b,
                         rounds ? y : beta,
                         y};
  const char *name = !half ? "ddp_gemm" : arena_printf(c->e->arena, "ddp_gemm_%s", dtype_name(in));
  if (rounds) name = arena_printf(c->e->arena, "%s_%s", name, dtype_name(out));
  write_call(c->out, indent, name, args, rounds ? 8 : 9, c->tail);
}

static void write_matmul(const Call *c) {
  Type a = call_type(c, c->v->in[0]), b = call_type(c, c->v->in[1]), y = c->v->type;
  const char *an = call_memory(c, c->v->in[0]), *bn = call_memory(c, c->v->in[1]),
             *yn = call_memory(c, c->k->call);
  bool ta = call_flag(c, "ta");
  check(a.rank >= 2 && b.rank >= 2, "a product of vectors");
  check(a.dtype == b.dtype && (y.dtype == DT_f32 || dtype_is_half(y.dtype)),
        "a product of %s and %s in %s", dtype_name(a.dtype), dtype_name(b.dtype),
        dtype_name(y.dtype));
  Dim n = y.dim[y.rank - 1], k = a.dim[ta ? a.rank - 2 : a.rank - 1];
  int batch = y.rank - 2;
  bool rows_only = b.rank == 2 && (!ta || a.rank == 2);
  if (rows_only) {
    gemm(c, c->indent, an, bn, yn, call_product(y, 0, y.rank - 1), n, k);
    return;
  }
  static const char *const names[] = {"i", "j", "k", "l", "m", "n"};
  const char *indent = c->indent;
  for (int d = 0; d < batch; d++) {
    text_addf(c->out, "%sfor (int64_t %s = 0; %s < %s; %s++)\n", indent, names[d], names[d],
              call_size(c, y.dim[d]), names[d]);
    indent = arena_printf(c->e->arena, "%s  ", indent);
  }
  gemm(c, indent, batch_offset(c, an, a, batch), batch_offset(c, bn, b, batch),
       batch_offset(c, yn, y, batch), y.dim[y.rank - 2], n, k);
}

static void write_matmul_bias(const Call *c) {
  Type x = call_type(c, c->v->in[0]), y = c->v->type;
  check(y.dtype == DT_f32, "a product with a bias in %s", dtype_name(y.dtype));
  const char *args[] = {call_size(c, y.dim[0]),      call_size(c, y.dim[1]),
                        call_size(c, x.dim[1]),      call_memory(c, c->v->in[0]),
                        call_memory(c, c->v->in[1]), call_memory(c, c->v->in[2]),
                        call_memory(c, c->k->call)};
  write_call(c->out, c->indent, "ddp_gemm_bias", args, 7, c->tail);
}

static void write_rows_add(const Call *c) {
  Arguments p = {0};
  call_rows_add(c, &p);
  DType index = call_type(c, c->v->in[0]).dtype;
  write_call(c->out, c->indent, arena_printf(c->e->arena, "ddp_rows_add_%s", dtype_name(index)),
             p.at, p.n, c->tail);
}

static void write_scatter_add(const Call *c) {
  Arguments p = {0};
  call_scatter_add(c, &p);
  DType index = call_type(c, c->v->in[1]).dtype;
  write_call(c->out, c->indent, arena_printf(c->e->arena, "ddp_scatter_add_%s", dtype_name(index)),
             p.at, p.n, c->tail);
}

static void write_conv(const Call *c) {
  const ConvShape s = conv_shape(c->p->g, c->v);
  Arguments p = {0};
  for (int i = 0; i < 2; i++)
    check(call_type(c, c->v->in[i]).dtype == DT_f32, "a convolution in %s",
          dtype_name(call_type(c, c->v->in[i]).dtype));
  p.at[p.n++] = arena_printf(c->e->arena, "&(DdpConv)%s", call_conv(c, &s));
  p.at[p.n++] = call_conv_result(c);
  call_conv_operands(c, &s, &p);
  write_call(c->out, c->indent, "ddp_conv", p.at, p.n, c->tail);
}

static void write_pool(const Call *c) {
  check(c->v->type.dtype == DT_f32, "pooling in %s", dtype_name(c->v->type.dtype));
  const PoolShape s = pool_shape(c->p->g, c->v);
  Arguments p = {0};
  p.at[p.n++] = arena_printf(c->e->arena, "&(DdpPool)%s", call_pool(c, &s));
  call_pool_operands(c, &s, &p);
  write_call(c->out, c->indent, call_pool_function(c), p.at, p.n, c->tail);
}

/* A function from a C header of the job. */
static void write_extern(const Call *c) {
  const ExternalCall *x = external_of(c->v);
  const char **args = ARENA_ARRAY(c->e->arena, const char *, x->args.len + 1);
  for (uint32_t i = 0; i < x->args.len; i++) {
    const ExternalArg *a = &x->args.at[i];
    args[i] = a->kind == EXTERNAL_result  ? call_memory(c, c->k->call)
              : a->kind == EXTERNAL_input ? call_memory(c, c->v->in[a->input])
              : a->kind == EXTERNAL_size  ? call_size(c, a->size)
                                          : call_number(c, a->number, a->dtype);
  }
  write_call(c->out, c->indent, x->function, args, x->args.len, c->tail);
}

/* The pieces so far are those of one argument. */
static void close_attention(const Call *c, Arguments *p) {
  p->at[0] = arena_printf(c->e->arena, "&(DdpAttention){%s", p->at[0]);
  p->at[p->n - 1] = arena_printf(c->e->arena, "%s}", p->at[p->n - 1]);
}

static void write_attention(const Call *c) {
  Arguments p = {0};
  call_attention(c, &p, 0, true);
  close_attention(c, &p);
  call_attention_results(c, &p);
  write_call(c->out, c->indent, "ddp_attention", p.at, p.n, c->tail);
}

static void write_attention_grad(const Call *c) {
  Arguments p = {0};
  call_attention(c, &p, 3, true);
  close_attention(c, &p);
  call_attention_gradients(c, "(DdpHeads)", &p);
  write_call(c->out, c->indent, "ddp_attention_grad", p.at, p.n, c->tail);
}

static void write_all_sum(const Call *c) {
  call_all_sum(c, "ddp_all_sum");
}

const CallRow calls_cpu[] = {
    {OP_matmul, write_matmul, NULL},
    {OP_matmul_bias, write_matmul_bias, NULL},
    {OP_rows_add, write_rows_add, NULL},
    {OP_scatter_add, write_scatter_add, NULL},
    {OP_conv, write_conv, NULL},
    {OP_conv_transpose, write_conv, NULL},
    {OP_conv_filter, write_conv, NULL},
    {OP_pool_max, write_pool, NULL},
    {OP_pool_max_grad, write_pool, NULL},
    {OP_pool_sum, write_pool, NULL},
    {OP_pool_sum_grad, write_pool, NULL},
    {OP_attention, write_attention, "attention.h"},
    {OP_attention_grad, write_attention_grad, "attention.h"},
    {OP_extern, write_extern, NULL},
    {OP_all_sum, write_all_sum, NULL},
    {.write = NULL},
};
