/* Library ops on GPUs: matrix products through cuBLASLt, the others by the kernels in runtime/kernels/cuda. All
   are enqueued on the step's stream and share its scratch memory. */
#include "call.h"
#include "device.h"
#include "die.h"
#include "op.h"
#include "kernels/scratch.h"

/* ---------- where and how much ---------- */

static const char *stream_of(const Call *c) {
  return c->name(c->self, OPERAND_stream, 0);
}
static const char *scratch_of(const Call *c) {
  return c->name(c->self, OPERAND_scratch, 0);
}
/* At the largest batch. */
static long long most(const Call *c, Dim d) {
  return (long long)(d.fixed + d.per_batch * c->p->batch_max);
}

/* ---------- matrix products ---------- */

enum { MOST_BATCH = 6 };
static const char *const batch_names[MOST_BATCH] = {"i", "j", "k", "l", "m", "n"};

typedef struct Gemm {
  const char *a, *b, *y, *bias, *aux; /* memory; NULL: none */
  const char *epilogue;               /* "gelu_aux_bias" */
  DType in, out;
  bool ta, tb;
  Dim m, n, k;
  Dim count, stride_a, stride_b, stride_y; /* count 0: one product */
} Gemm;

static const char *extent_text(Arena *a, Dim d) {
  return arena_printf(a, "{%lld, %lld}", (long long)d.fixed, (long long)d.per_batch);
}

/* "[B, 64] x [10, 64]T -> [B, 10]" */
static const char *shape_text(const Call *c, const Gemm *g) {
  Arena *a = c->e->arena;
  const char *m = call_size(c, g->m), *n = call_size(c, g->n), *k = call_size(c, g->k);
  const char *epilogue = !g->epilogue                   ? ""
                         : !strcmp(g->epilogue, "bias") ? " + bias"
                                                        : arena_printf(a, ", %s", g->epilogue);
  const char *text = arena_printf(a, "[%s, %s]%s x [%s, %s]%s%s -> [%s, %s]", g->ta ? k : m,
                                  g->ta ? m : k, g->ta ? "T" : "", g->tb ? n : k, g->tb ? k : n,
                                  g->tb ? "T" : "", epilogue, m, n);
  if (dim_is(g->count, 0)) return text;
  return arena_printf(a, "%s, %s times", text, call_size(c, g->count));
}

/* "gemm_nt_3072_768_bias": transposed or not, and the sizes that are no number of rows. */
static const char *product_name(const Call *c, const Gemm *g) {
  Arena *a = c->e->arena;
  const Dim sizes[] = {g->m, g->n, g->k};
  const char *name = arena_printf(a, "gemm_%c%c", g->ta ? 't' : 'n', g->tb ? 't' : 'n');
  for (int i = 0; i < 3; i++)
    if (dim_known(sizes[i])) name = arena_printf(a, "%s_%lld", name, (long long)sizes[i].fixed);
  return g->epilogue ? arena_printf(a, "%s_%s", name, g->epilogue) : name;
}

static const char *find_product(const Call *c, const Gemm *g) {
  Emit *e = c->e;
  Arena *a = e->arena;
  const char *init = arena_printf(
      a, ".in = DDP_%s, .out = DDP_%s%s%s%s,\n    .m = %s, .n = %s, .k = %s", dtype_name(g->in),
      dtype_name(g->out), g->ta ? ", .ta = true" : "", g->tb ? ", .tb = true" : "",
      g->in == DT_f32 && device_tf32(e) ? ", .tf32 = true" : "", extent_text(a, g->m),
      extent_text(a, g->n), extent_text(a, g->k));
  if (!dim_is(g->count, 0))
    init = arena_printf(a, "%s, .count = %s,\n    .stride_a = %s, .stride_b = %s, .stride_y = %s",
                        init, extent_text(a, g->count), extent_text(a, g->stride_a),
                        extent_text(a, g->stride_b), extent_text(a, g->stride_y));
  if (g->epilogue)
    init = arena_printf(a, "%s,\n    .epilogue = DDP_EPILOGUE_%s", init, g->epilogue);
  for (uint32_t i = 0; i < e->products.len; i++)
    if (!strcmp(e->products.at[i].init, init)) return e->products.at[i].name;
  const char *first = c->k->name && *c->k->name ? c->k->name : "product";
  Product p = {.name = names_add(&e->globals, product_name(c, g)),
               .shape = shape_text(c, g),
               .init = init,
               .first = first};
  vec_push(a, &e->products, p);
  return p.name;
}

static void write_gemm(const Call *c, const char *indent, const char *function, const Gemm *g) {
  Arena *a = c->e->arena;
  const char *stream = stream_of(c);
  bool on_step = !strcmp(stream, "step->stream");
  const char *args[9] = {arena_printf(a, "&%s", find_product(c, g))};
  uint32_t n = 1;
  args[n++] = on_step ? "step" : stream;
  if (!on_step) args[n++] = "1"; /* tensors of an optimizer have no dimension of samples */
  args[n++] = g->a;
  args[n++] = g->b;
  args[n++] = g->y;
  args[n++] = g->bias ? g->bias : "NULL";
  args[n++] = g->aux ? g->aux : "NULL";
  args[n++] = call_accumulate(c);
  check(on_step || !g->epilogue, "an epilogue outside of a step");
  write_call(c->out, indent, on_step ? function : "ddp_cuda_gemm_on", args, n, c->tail);
}

static void check_types(const Call *c) {
  Type a = call_type(c, c->v->in[0]), b = call_type(c, c->v->in[1]);
  DType y = c->v->type.dtype;
  check(a.rank >= 2 && b.rank >= 2, "a product of vectors");
  check(a.dtype == b.dtype && (y == DT_f32 || dtype_is_half(y)), "a product of %s and %s in %s",
        dtype_name(a.dtype), dtype_name(b.dtype), dtype_name(y));
}

/* Elements from one index of batch dimension d to the next; 0 where the operand is the same for all. */
static Dim batch_stride(Type t, int d, int batch) {
  int own = d - (batch - (t.rank - 2));
  if (own < 0 || dim_is(t.dim[own], 1)) return dim_of(0);
  return call_product(t, own + 1, t.rank);
}

/* Can dimensions d and d + 1 be one in this operand? */
static bool merges(Type t, Dim inner, int d, int batch) {
  Dim outer = batch_stride(t, d, batch), step = batch_stride(t, d + 1, batch), whole;
  return dim_mul(step, inner, &whole) && dim_equal(outer, whole);
}

/* "x + i * 64 + j * 8": where the products of the loops around begin. */
static const char *batch_offset(const Call *c, const char *base, Type t, int loops, int batch) {
  for (int d = 0; d < loops; d++) {
    Dim stride = batch_stride(t, d, batch);
    if (!dim_is(stride, 0))
      base =
          arena_printf(c->e->arena, "%s + %s * (%s)", base, batch_names[d], call_size(c, stride));
  }
  return base;
}

/* One call for as many batch dimensions as lie behind each other in all operands; loops around it for
   the rest. */
static void write_batched(const Call *c, Gemm *g) {
  Type types[3] = {call_type(c, c->v->in[0]), call_type(c, c->v->in[1]), c->v->type},
       y = c->v->type;
  int batch = y.rank - 2, loops = batch - 1;
  check(batch <= MOST_BATCH, "a product with %d dimensions of batches", batch);
  g->count = y.dim[loops];
  g->stride_a = batch_stride(types[0], loops, batch);
  g->stride_b = batch_stride(types[1], loops, batch);
  g->stride_y = batch_stride(types[2], loops, batch);
  for (Dim all; loops > 0; loops--) {
    bool one = dim_mul(g->count, y.dim[loops - 1], &all);
    for (int i = 0; i < 3; i++) one = one && merges(types[i], y.dim[loops], loops - 1, batch);
    if (!one) break;
    g->count = all;
  }
  const char *indent = c->indent;
  for (int d = 0; d < loops; d++) {
    text_addf(c->out, "%sfor (int64_t %s = 0; %s < %s; %s++)\n", indent, batch_names[d],
              batch_names[d], call_size(c, y.dim[d]), batch_names[d]);
    indent = arena_printf(c->e->arena, "%s  ", indent);
  }
  g->a = batch_offset(c, g->a, types[0], loops, batch);
  g->b = batch_offset(c, g->b, types[1], loops, batch);
  g->y = batch_offset(c, g->y, types[2], loops, batch);
  write_gemm(c, indent, "ddp_cuda_gemm", g);
}

/* A bias that is only read; epilogues write there too, but not this one. */
static const char *bias_memory(const Call *c, Val v) {
  const char *name = call_memory(c, v);
  return call_type(c, v).dtype == DT_f32 ? arena_printf(c->e->arena, "(float *)%s", name) : name;
}

static Gemm product_of(const Call *c) {
  Type a = call_type(c, c->v->in[0]), b = call_type(c, c->v->in[1]), y = c->v->type;
  bool biased = c->v->op == OP_matmul_bias;
  check_types(c);
  Gemm g = {.a = call_memory(c, c->v->in[0]),
            .b = call_memory(c, c->v->in[1]),
            .y = call_memory(c, c->k->call),
            .bias = biased ? bias_memory(c, c->v->in[2]) : NULL,
            .epilogue = biased ? "bias" : NULL,
            .in = a.dtype,
            .out = y.dtype,
            .ta = !biased && call_flag(c, "ta"),
            .tb = biased || call_flag(c, "tb"),
            .m = y.dim[y.rank - 2],
            .n = y.dim[y.rank - 1]};
  g.k = a.dim[g.ta ? a.rank - 2 : a.rank - 1];
  bool rows_only = b.rank == 2 && (!g.ta || a.rank == 2);
  if (rows_only) g.m = call_product(y, 0, y.rank - 1);
  return g;
}

static void write_matmul(const Call *c) {
  Type a = call_type(c, c->v->in[0]), b = call_type(c, c->v->in[1]);
  Gemm g = product_of(c);
  if (b.rank == 2 && (!g.ta || a.rank == 2))
    write_gemm(c, c->indent, "ddp_cuda_gemm", &g);
  else
    write_batched(c, &g);
}

/* ---------- a product and what follows, in one call ---------- */

/* Sums of later micro-batches are added: the library writes them elsewhere. */
static const char *sums_memory(const Call *c, Val sums) {
  long long bytes = most(c, call_product(call_type(c, sums), 0, 1)) * 4;
  emit_scratch_known(c->e, arena_printf(c->e->arena, "%lld", bytes), bytes);
  return arena_printf(c->e->arena, "%s ? %s : %s", c->name(c->self, OPERAND_accumulate, 0),
                      scratch_of(c), call_memory(c, sums));
}

static Gemm fused_product(const Call *c) {
  const Epilogue *e = &c->k->epilogue;
  Gemm g = product_of(c);
  g.epilogue = plan_epilogue_text(e, c->e->arena);
  g.y = call_memory(c, e->y);
  g.aux = e->aux ? call_memory(c, e->aux) : NULL;
  g.bias = e->sums ? sums_memory(c, e->sums) : e->bias ? bias_memory(c, e->bias) : NULL;
  return g;
}

static void open_epilogue(const Call *c) {
  Gemm g = fused_product(c);
  write_gemm(c, c->indent, "if (!ddp_cuda_gemm_fused", &g);
}

static void close_epilogue(const Call *c) {
  const char *inside = arena_printf(c->e->arena, "%s  ", c->indent);
  Val sums = c->k->epilogue.sums;
  Gemm g = fused_product(c);
  const char *apart[] = {arena_printf(c->e->arena, "&%s", find_product(c, &g)), "step"};
  write_call(c->out, inside, "ddp_cuda_gemm_apart", apart, 2, c->tail);
  text_addf(c->out, "%s}", c->indent);
  if (sums) {
    emit_need(c->e, "epilogue.h");
    const char *args[] = {stream_of(c), call_memory(c, sums), scratch_of(c),
                          call_size(c, call_product(call_type(c, sums), 0, 1))};
    text_addf(c->out, " else if (%s) {\n", c->name(c->self, OPERAND_accumulate, 0));
    write_call(c->out, inside, "ddp_add_sums", args, 4, c->tail);
    text_addf(c->out, "%s}", c->indent);
  }
  text_add(c->out, "\n");
}

/* ---------- sums into places that data name ---------- */

static void write_rows_add(const Call *c) {
  Type index = call_type(c, c->v->in[0]), y = c->v->type;
  Dim count = call_product(index, 0, index.rank), width = call_product(y, 1, y.rank);
  Arguments p = {0};
  p.at[p.n++] = stream_of(c);
  call_rows_add(c, &p);
  p.at[p.n++] = scratch_of(c);
  emit_scratch_known(
      c->e,
      arena_printf(c->e->arena, "ddp_rows_add_scratch(%lld, %lld)", most(c, count), most(c, width)),
      ddp_rows_add_scratch(most(c, count), most(c, width)));
  write_call(c->out, c->indent,
             arena_printf(c->e->arena, "ddp_rows_add_%s", dtype_name(index.dtype)), p.at, p.n,
             c->tail);
}

static void write_scatter_add(const Call *c) {
  Type x = call_type(c, c->v->in[0]), index = call_type(c, c->v->in[1]);
  int dim = (int)c->v->attr[op_attr(c->v->op, "dim")].as.ints.at[0];
  Dim outer = call_product(x, 0, dim), inner = call_product(x, dim + 1, x.rank);
  Arguments p = {0};
  p.at[p.n++] = stream_of(c);
  call_scatter_add(c, &p);
  p.at[p.n++] = scratch_of(c);
  long long each = most(c, index.dim[dim]);
  emit_scratch_known(c->e,
                     arena_printf(c->e->arena, "ddp_scatter_add_scratch(%lld, %lld, %lld)",
                                  most(c, outer), each, most(c, inner)),
                     ddp_scatter_add_scratch(most(c, outer), each, most(c, inner)));
  write_call(c->out, c->indent,
             arena_printf(c->e->arena, "ddp_scatter_add_%s", dtype_name(index.dtype)), p.at, p.n,
             c->tail);
}

/* ---------- convolution and pooling ---------- */

static DdpConv numbers_of(const ConvShape *s) {
  DdpConv c = {.space = s->space,
               .groups = s->groups,
               .big = s->big.channels,
               .small = s->small.channels,
               .big_block = s->big.block,
               .small_block = s->small.block};
  for (int i = 0; i < s->space; i++) {
    c.big_size[i] = s->big.size[i];
    c.small_size[i] = s->small.size[i];
    c.kernel[i] = s->kernel[i];
    c.stride[i] = s->stride[i];
    c.padding[i] = s->padding[i];
    c.dilation[i] = s->dilation[i];
  }
  return c;
}

static DdpConvResult number_of(const char *result) {
  return !strcmp(result, "DDP_CONV_FILTER") ? DDP_CONV_FILTER : DDP_CONV_SMALL;
}

static void write_conv(const Call *c) {
  const ConvShape s = conv_shape(c->p->g, c->v);
  const char *shape = arena_printf(c->e->arena, "DdpConv%s", call_conv(c, &s));
  const char *result = call_conv_result(c);
  Arguments p = {0};
  p.at[p.n++] = "step";
  p.at[p.n++] = shape;
  call_conv_operands(c, &s, &p);
  emit_scratch_known(
      c->e,
      arena_printf(c->e->arena, "ddp_conv_scratch(%s, %s, %lld)", shape, result, most(c, s.batch)),
      ddp_conv_scratch(numbers_of(&s), number_of(result), most(c, s.batch)));
  write_call(c->out, c->indent, arena_printf(c->e->arena, "ddp_conv<%s>", result), p.at, p.n,
             c->tail);
}

static void write_pool(const Call *c) {
  const PoolShape s = pool_shape(c->p->g, c->v);
  Arguments p = {0};
  p.at[p.n++] = stream_of(c);
  p.at[p.n++] = "&pool";
  call_pool_operands(c, &s, &p);
  DType t = c->v->type.dtype;
  for (int i = 0; i < c->v->inputs; i++)
    check(call_type(c, c->v->in[i]).dtype == t, "pooling from another type to %s", dtype_name(t));
  const char *function =
      arena_printf(c->e->arena, "%s<%s>", call_pool_function(c), c->e->target->storage_type(t));
  text_addf(c->out, "%s{\n%s  const DdpPool pool = %s;\n", c->indent, c->indent, call_pool(c, &s));
  write_call(c->out, arena_printf(c->e->arena, "%s  ", c->indent), function, p.at, p.n, c->tail);
  text_addf(c->out, "%s}\n", c->indent);
}

/* ---------- attention ---------- */

/* The shape, with a name of its own: calls stay short. Out: "ddp_attention<float, 64, 64>", and its first
   arguments in p. */
static const char *begin_attention(const Call *c, const char *function, int first, Arguments *p) {
  Arena *a = c->e->arena;
  const Val *in = &c->v->in[first];
  Type q = call_type(c, in[0]), v = call_type(c, in[2]);
  check(dim_known(q.dim[3]) && dim_known(v.dim[3]), "attention over heads of B numbers");
  if (c->v->inputs > first + 3) { /* the kernels read a mask that is added in the type of q */
    DType mask = call_type(c, in[3]).dtype;
    check(mask == DT_bool || mask == q.dtype, "a mask in %s for attention in %s", dtype_name(mask),
          dtype_name(q.dtype));
  }
  Arguments shape = {0};
  call_attention(c, &shape, first, false);
  text_addf(c->out, "%s{\n", c->indent);
  write_list(c->out, arena_printf(a, "%s  ", c->indent), "const DdpAttention heads = {", shape.at,
             shape.n, "};\n");
  bool drops = c->v->attr[op_attr(c->v->op, "keep")].as.f < 1;
  p->at[p->n++] = "step";
  p->at[p->n++] = "heads";
  p->at[p->n++] = drops ? c->name(c->self, OPERAND_draw, c->k->call) : "DdpSite{}";
  return arena_printf(a, "%s<%s, %lld, %lld>", function, c->e->target->storage_type(q.dtype),
                      (long long)q.dim[3].fixed, (long long)v.dim[3].fixed);
}

static void end_attention(const Call *c, const char *function, const Arguments *p) {
  write_call(c->out, arena_printf(c->e->arena, "%s  ", c->indent), function, p->at, p->n, c->tail);
  text_addf(c->out, "%s}\n", c->indent);
}

static void write_attention(const Call *c) {
  Arguments p = {0};
  const char *function = begin_attention(c, "ddp_attention", 0, &p);
  call_attention_results(c, &p);
  end_attention(c, function, &p);
}

static void write_attention_grad(const Call *c) {
  Arguments p = {0};
  Type q = call_type(c, c->v->in[3]);
  const char *function = begin_attention(c, "ddp_attention_grad", 3, &p);
  call_attention_gradients(c, "DdpHeads", &p);
  long long batch = most(c, q.dim[0]), heads = most(c, q.dim[2]), t = most(c, q.dim[1]);
  emit_scratch_known(
      c->e, arena_printf(c->e->arena, "ddp_attention_scratch(%lld, %lld, %lld)", batch, heads, t),
      ddp_attention_scratch(batch, heads, t));
  end_attention(c, function, &p);
}

static void write_all_sum(const Call *c) {
  call_all_sum(c, "ddp_cuda_all_sum");
}

const EpilogueCalls epilogues_cuda = {open_epilogue, close_epilogue};

const CallRow calls_cuda[] = {
    {OP_matmul, write_matmul, NULL},
    {OP_matmul_bias, write_matmul, NULL},
    {OP_rows_add, write_rows_add, "index.h"},
    {OP_scatter_add, write_scatter_add, "index.h"},
    {OP_conv, write_conv, "conv.h"},
    {OP_conv_transpose, write_conv, "conv.h"},
    {OP_conv_filter, write_conv, "conv.h"},
    {OP_pool_max, write_pool, "pool.h"},
    {OP_pool_max_grad, write_pool, "pool.h"},
    {OP_pool_sum, write_pool, "pool.h"},
    {OP_pool_sum_grad, write_pool, "pool.h"},
    {OP_attention, write_attention, "attention.h"},
    {OP_attention_grad, write_attention_grad, "attention.h"},
    {OP_all_sum, write_all_sum, NULL},
    {.write = NULL},
};
