/* In: a graph. Out: for each value what it depends on. A value is "mixed" when a number taken over the
   samples of one micro-batch went into it: it has no B among its sizes, yet comes from data. */
#include "batch.h"

bool batch_has_dim(Type t) {
  for (int i = 0; i < t.rank; i++) {
    if (t.dim[i].per_batch) return true;
  }
  return false;
}

static uint8_t source_flags(const Value *x) {
  if (x->op == OP_param) return BATCH_param;
  if (x->op == OP_buffer) return BATCH_state;
  if (x->op == OP_dimval) return x->attr[0].as.dims.at[0].per_batch ? BATCH_data : 0;
  uint8_t f = op_has(x->op, OPF_random) ? BATCH_state : 0;
  if (x->op == OP_input || batch_has_dim(x->type)) f |= BATCH_data;
  return f;
}

static uint8_t flags_of(const Batch *b, Val v) {
  const Value *x = value_at(b->g, v);
  if (op_has(x->op, OPF_source)) return source_flags(x);
  uint8_t f = 0;
  for (int i = 0; i < x->inputs; i++) {
    f |= b->flags[x->in[i]];
    const Value *in = value_at(b->g, x->in[i]);
    bool number = (b->flags[x->in[i]] & BATCH_data) && !batch_has_dim(in->type);
    if (number && batch_has_dim(x->type)) f |= BATCH_mixed;
  }
  if (batch_has_dim(x->type)) f |= BATCH_data;
  return f;
}

Batch batch_begin(Arena *a, Graph *g) {
  return (Batch){.arena = a, .g = g};
}

uint8_t batch_flags(Batch *b, Val v) {
  if (b->g->values.len > b->known) {
    uint8_t *more = arena_alloc(b->arena, b->g->values.len);
    if (b->known) memcpy(more, b->flags, b->known);
    b->flags = more;
    for (uint32_t i = b->known ? b->known : 1; i < b->g->values.len; i++) {
      b->flags[i] = flags_of(b, i);
    }
    b->known = b->g->values.len;
  }
  return b->flags[v];
}

bool batch_is_sum(Batch *b, Val v) {
  const Value *x = value_at(b->g, v);
  if (x->op == OP_dimval) {
    Dim d = x->attr[0].as.dims.at[0];
    return d.per_batch != 0 && d.fixed == 0;
  }
  return x->op == OP_sum && !batch_has_dim(x->type) &&
         batch_has_dim(value_at(b->g, x->in[0])->type);
}

Val batch_scalar(const Graph *g, Val v) {
  while (value_at(g, v)->type.rank > 0) {
    const Value *x = value_at(g, v);
    if (x->op != OP_expand && x->op != OP_reshape) return NO_VAL;
    Dim n;
    Type in = value_at(g, x->in[0])->type;
    if (x->op == OP_reshape && !(type_elements(in, &n) && dim_is(n, 1))) return NO_VAL;
    v = x->in[0];
  }
  return v;
}
