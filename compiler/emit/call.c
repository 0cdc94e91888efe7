/* What calls of library ops have in common: operands, sizes, shapes. */
#include "call.h"
#include "die.h"
#include "op.h"

const char *call_memory(const Call *c, Val v) {
  return c->name(c->self, OPERAND_memory, kernel_named(c->p, v));
}

Type call_type(const Call *c, Val v) {
  return value_at(c->p->g, v)->type;
}

const char *call_size(const Call *c, Dim d) {
  Text t = {0};
  write_dim(&t, d);
  const char *s = arena_strdup(c->e->arena, t.at);
  text_free(&t);
  return s;
}

Dim call_product(Type t, int from, int to) {
  Dim d = dim_of(1);
  for (int i = from; i < to; i++)
    check(dim_mul(d, t.dim[i], &d), "a size that is not linear in the batch");
  return d;
}

bool call_flag(const Call *c, const char *attr) {
  return c->v->attr[op_attr(c->v->op, attr)].as.i != 0;
}

const char *call_number(const Call *c, double number, DType dtype) {
  Text t = {0};
  write_number(&t, number, dtype);
  const char *s = arena_strdup(c->e->arena, t.at);
  text_free(&t);
  return s;
}

const char *call_accumulate(const Call *c) {
  if (c->k->accumulate) return c->name(c->self, OPERAND_accumulate, 0);
  bool sum = c->p->places.at[c->k->call].chunk == CHUNK_sum;
  return sum ? c->name(c->self, OPERAND_more, 0) : "false";
}

const char *call_part(const Call *c, int index) {
  Val part = plan_part(c->p, c->k, index);
  return part ? call_memory(c, part) : "NULL";
}

static const char *list_text(const Call *c, const int64_t *at, int n) {
  Arena *a = c->e->arena;
  const char *text = "";
  for (int i = 0; i < n; i++)
    text = arena_printf(a, "%s%s%lld", text, i ? ", " : "", (long long)at[i]);
  return arena_printf(a, "{%s}", text);
}

const char *call_conv(const Call *c, const ConvShape *s) {
  return arena_printf(c->e->arena, "{%d, %lld, %lld, %lld, %lld, %lld, %s, %s, %s, %s, %s, %s}",
                      s->space, (long long)s->groups, (long long)s->big.channels,
                      (long long)s->small.channels, (long long)s->big.block,
                      (long long)s->small.block, list_text(c, s->big.size, s->space),
                      list_text(c, s->small.size, s->space), list_text(c, s->kernel, s->space),
                      list_text(c, s->stride, s->space), list_text(c, s->padding, s->space),
                      list_text(c, s->dilation, s->space));
}

const char *call_pool(const Call *c, const PoolShape *s) {
  return arena_printf(c->e->arena, "{%d, %s, %s, %s, %s, %s, %s, %s, %d}", s->space,
                      list_text(c, s->in, s->space), list_text(c, s->out, s->space),
                      list_text(c, s->window, s->space), list_text(c, s->stride, s->space),
                      list_text(c, s->padding, s->space), list_text(c, s->dilation, s->space),
                      s->adaptive ? "true" : "false", (int)s->divide);
}

void call_all_sum(const Call *c, const char *function) {
  Type t = c->v->type;
  check(t.dtype == DT_f32, "a sum over ranks in %s", dtype_name(t.dtype));
  const char *args[] = {"step", call_memory(c, c->k->call), call_memory(c, c->v->in[0]),
                        call_size(c, call_product(t, 0, t.rank))};
  write_call(c->out, c->indent, function, args, 4, c->tail);
}

/* ---------- attention ---------- */

const char *call_view(const Call *c, Val v, View *view) {
  Val base = v;
  while (c->p->places.at[base].home == HOME_alias) base = c->p->places.at[base].alias;
  check(plan_view(c->p->g, v, base, view), "%%%u is no view of its memory", v);
  const char *name = call_memory(c, v);
  if (dim_is(view->offset, 0)) return name;
  return arena_printf(c->e->arena, "%s + %s", name, call_size(c, view->offset));
}

const char *call_heads(const Call *c, const char *type, Val v) {
  View view;
  const char *at = call_view(c, v, &view);
  return arena_printf(c->e->arena, "%s{%s, %s, %s, %s}", type, at, call_size(c, view.stride[0]),
                      call_size(c, view.stride[1]), call_size(c, view.stride[2]));
}

static void add(Arguments *p, const char *text) {
  p->at[p->n++] = text;
}

void call_rows_add(const Call *c, Arguments *p) {
  Type index = call_type(c, c->v->in[0]), y = c->v->type;
  add(p, call_memory(c, c->k->call));
  add(p, call_memory(c, c->v->in[0]));
  add(p, call_memory(c, c->v->in[1]));
  add(p, call_size(c, call_product(index, 0, index.rank)));
  add(p, call_size(c, call_product(y, 1, y.rank)));
  add(p, call_size(c, y.dim[0]));
  add(p, call_accumulate(c));
}

void call_scatter_add(const Call *c, Arguments *p) {
  Type x = call_type(c, c->v->in[0]), index = call_type(c, c->v->in[1]);
  int dim = (int)c->v->attr[op_attr(c->v->op, "dim")].as.ints.at[0];
  for (int d = 0; d < x.rank; d++)
    check(d == dim || dim_equal(x.dim[d], index.dim[d]), "scatter_add of a part of its rows");
  add(p, call_memory(c, c->k->call));
  for (int i = 0; i < 3; i++) add(p, call_memory(c, c->v->in[i]));
  add(p, call_size(c, call_product(x, 0, dim)));
  add(p, call_size(c, x.dim[dim]));
  add(p, call_size(c, index.dim[dim]));
  add(p, call_size(c, call_product(x, dim + 1, x.rank)));
  add(p, call_accumulate(c));
}

const char *call_conv_result(const Call *c) {
  return c->v->op == OP_conv             ? "DDP_CONV_SMALL"
         : c->v->op == OP_conv_transpose ? "DDP_CONV_BIG"
                                         : "DDP_CONV_FILTER";
}

void call_conv_operands(const Call *c, const ConvShape *s, Arguments *p) {
  const char *x0 = call_memory(c, c->v->in[0]), *x1 = call_memory(c, c->v->in[1]),
             *y = call_memory(c, c->k->call);
  bool small = c->v->op == OP_conv, big = c->v->op == OP_conv_transpose;
  add(p, call_size(c, s->batch));
  add(p, big ? y : x0);
  add(p, small ? y : big ? x0 : x1);
  add(p, small || big ? x1 : y);
  add(p, call_accumulate(c));
}

static bool pools_max(const Call *c) {
  return c->v->op == OP_pool_max || c->v->op == OP_pool_max_grad;
}

const char *call_pool_function(const Call *c) {
  return pools_max(c) ? "ddp_pool_max" : "ddp_pool_sum";
}

void call_pool_operands(const Call *c, const PoolShape *s, Arguments *p) {
  bool back = c->v->op == OP_pool_max_grad || c->v->op == OP_pool_sum_grad;
  add(p, call_size(c, s->outer));
  add(p, call_size(c, dim_of(s->inner)));
  add(p, pools_max(c) || !back ? call_memory(c, c->v->in[0]) : "NULL");
  add(p, back ? call_memory(c, c->v->in[c->v->inputs - 1]) : "NULL");
  add(p, call_memory(c, c->k->call));
  add(p, call_accumulate(c));
}

static void add_mask(const Call *c, Arguments *p, Val v) {
  const char *step[4] = {"0", "0", "0", "0"};
  Type t = call_type(c, v);
  View view;
  const char *at = call_view(c, v, &view);
  for (int i = 0; i < t.rank; i++)
    if (!dim_is(t.dim[i], 1)) step[i + 4 - t.rank] = call_size(c, view.stride[i]);
  add(p, arena_printf(c->e->arena, ".mask = %s", at));
  add(p, arena_printf(c->e->arena, ".mask_step = {%s, %s, %s, %s}", step[0], step[1], step[2],
                      step[3]));
  if (t.dtype != DT_bool) add(p, ".mask_added = true");
}

void call_attention(const Call *c, Arguments *p, int first, bool draws) {
  Arena *a = c->e->arena;
  const Val *in = &c->v->in[first];
  Type q = call_type(c, in[0]), k = call_type(c, in[1]), v = call_type(c, in[2]);
  double keep = c->v->attr[op_attr(c->v->op, "keep")].as.f;
  double scale = c->v->attr[op_attr(c->v->op, "scale")].as.f;
  bool masked = c->v->inputs > first + 3;
  add(p, arena_printf(a, ".batch = %s", call_size(c, q.dim[0])));
  add(p, arena_printf(a, ".heads = %s", call_size(c, q.dim[2])));
  add(p, arena_printf(a, ".groups = %s", call_size(c, k.dim[2])));
  add(p, arena_printf(a, ".t = %s", call_size(c, q.dim[1])));
  add(p, arena_printf(a, ".s = %s", call_size(c, k.dim[1])));
  add(p, arena_printf(a, ".k = %s", call_size(c, q.dim[3])));
  add(p, arena_printf(a, ".v = %s", call_size(c, v.dim[3])));
  add(p, arena_printf(a, ".scale = %s", call_number(c, scale, DT_f32)));
  if (call_flag(c, "causal")) add(p, ".causal = true");
  add(p, call_heads(c, ".q = ", in[0]));
  add(p, call_heads(c, ".key = ", in[1]));
  add(p, call_heads(c, ".value = ", in[2]));
  if (masked) add_mask(c, p, in[3]);
  add(p, arena_printf(a, ".keep = %s", call_number(c, keep, DT_f32)));
  if (draws && keep < 1)
    add(p, arena_printf(a, ".draw = %s", c->name(c->self, OPERAND_draw, c->k->call)));
}

void call_attention_results(const Call *c, Arguments *p) {
  add(p, call_memory(c, c->k->call));
  add(p, call_part(c, 1));
}

void call_attention_gradients(const Call *c, const char *heads, Arguments *p) {
  add(p, call_heads(c, heads, c->v->in[0]));
  add(p, call_heads(c, heads, c->v->in[1]));
  add(p, call_memory(c, c->v->in[2]));
  add(p, call_memory(c, c->k->call));
  add(p, call_part(c, 1));
  add(p, call_part(c, 2));
}

/* ---------- calls ---------- */

void call_write(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                OperandName name, void *self, const char *tail) {
  Call c = {e, p, k, value_at(p->g, k->call), out, indent, tail, name, self};
  const CallRow *row = e->target->calls;
  while (row->write && row->op != c.v->op) row++;
  check(row->write, "no kernel for %s", op_def(c.v->op)->name);
  if (row->header) emit_need(e, row->header);
  row->write(&c);
}

void call_epilogue_open(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                        OperandName name, void *self) {
  Call c = {e, p, k, value_at(p->g, k->call), out, indent, ") {\n", name, self};
  check(e->target->epilogues, "no epilogues on %s", e->target->name);
  e->target->epilogues->open(&c);
}

void call_epilogue_close(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                         OperandName name, void *self) {
  Call c = {e, p, k, value_at(p->g, k->call), out, indent, ";\n", name, self};
  e->target->epilogues->close(&c);
}
