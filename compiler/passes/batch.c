/* In: a graph. Out: for each value what it depends on. A value is "mixed" when a number taken over the
   samples of one micro-batch went into it: it has no B among its sizes, yet comes from data. */
#include "batch.h"
#include "scan.h"

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

static uint8_t flags_with(const Graph *g, const uint8_t *flags, Val v);

/* What any turn of a loop depends on; what is carried depends on more from turn to turn. */
static uint8_t scan_flags(const uint8_t *flags, const Value *x) {
  Scan s = scan_of(x);
  Arena *a = arena_new();
  uint8_t arg[IR_MAX_INPUTS], *body = arena_alloc(a, s.body->values.len), all = 0;
  for (int k = 0; k < s.inputs; k++) arg[k] = flags[x->in[k]];
  for (bool more = true; more;) {
    more = false;
    for (Val v = 1; v < s.body->values.len; v++) {
      const Value *y = value_at(s.body, v);
      body[v] = y->op == OP_arg ? arg[y->attr[0].as.i] : flags_with(s.body, body, v);
    }
    for (int j = 0; j < s.carried; j++) {
      uint8_t now = arg[s.over + j] | body[scan_output(&s, j)];
      more = more || now != arg[s.over + j];
      arg[s.over + j] = now;
    }
  }
  for (int k = 0; k < scan_results(&s); k++) all |= body[scan_output(&s, k)];
  for (int j = 0; j < s.carried; j++) all |= arg[s.over + j];
  arena_free(a);
  if (s.length.per_batch) all |= BATCH_data | BATCH_mixed; /* it walks over samples */
  return all;
}

static uint8_t flags_with(const Graph *g, const uint8_t *flags, Val v) {
  const Value *x = value_at(g, v);
  if (x->op == OP_scan) return scan_flags(flags, x);
  if (x->op == OP_part) return flags[x->in[0]];
  if (op_has(x->op, OPF_source)) return source_flags(x);
  uint8_t f = x->op == OP_all_sum ? BATCH_state : 0; /* counting must not ask the other ranks */
  for (int i = 0; i < x->inputs; i++) {
    f |= flags[x->in[i]];
    const Value *in = value_at(g, x->in[i]);
    bool number = (flags[x->in[i]] & BATCH_data) && !batch_has_dim(in->type);
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
      b->flags[i] = flags_with(b->g, b->flags, i);
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
