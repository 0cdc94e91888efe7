/* Lifts values over one sample to the batch. In: a graph whose inputs are fields of one sample. Out:
   the same values in another graph with B in front of every shape that depends on a field or a draw;
   what depends on neither is copied as it is. Lists of axes move by one, sizes get B, and ranks are
   aligned where an op broadcasts. */
#include "analysis.h"
#include "die.h"
#include "op.h"

static const Dim batch = {1, 0};

typedef struct Lift {
  Graph *to;
  const Graph *sample;
  Val *map;
  Scope scope;
} Lift;

/* The result is lifted iff its own rank is one more than the sample's. */
static bool is_lifted(const Lift *l, Val v) {
  return value_at(l->to, l->map[v])->type.rank == value_at(l->sample, v)->type.rank + 1;
}

static Val reshape(Lift *l, Val v, const Dim *dims, int rank, Span at) {
  Attr attr = {.as.dims.len = rank};
  for (int i = 0; i < rank; i++) attr.as.dims.at[i] = dims[i];
  return ir_must(l->to, OP_reshape, &v, 1, &attr, at, l->scope);
}

/* [B, dims] -> [B, 1 ..., dims], as long as a result of `rank` dimensions per sample. */
static Val align(Lift *l, Val v, int rank, Span at) {
  Type t = value_at(l->to, v)->type;
  if (t.rank >= rank + 1) return v;
  Dim dims[IR_MAX_RANK];
  int missing = rank + 1 - t.rank;
  dims[0] = t.dim[0];
  for (int i = 0; i < missing; i++) dims[1 + i] = dim_of(1);
  for (int i = 1; i < t.rank; i++) dims[missing + i] = t.dim[i];
  return reshape(l, v, dims, rank + 1, at);
}

static Val expand_batch(Lift *l, Val v, Span at) {
  Type t = value_at(l->to, v)->type;
  Attr attrs[2] = {{.as.dims.len = t.rank + 1}, {.as.ints = {.len = 1}}};
  attrs[0].as.dims.at[0] = batch;
  for (int i = 0; i < t.rank; i++) attrs[0].as.dims.at[i + 1] = t.dim[i];
  return ir_must(l->to, OP_expand, &v, 1, attrs, at, l->scope);
}

/* What stands in front of a list of sizes: B, or nothing cut from and added to the batch. */
static Dim front(OpKind op, const char *attr) {
  bool nothing = (op == OP_slice && !strcmp(attr, "start")) || op == OP_pad;
  return nothing ? dim_of(0) : batch;
}

static void lift_attrs(OpKind op, Attr *attrs) {
  const OpDef *def = op_def(op);
  for (int k = 0; k < def->attrs; k++) {
    Attr *a = &attrs[k];
    if (def->attr[k].kind == ATTR_dims) {
      for (int i = a->as.dims.len; i > 0; i--) a->as.dims.at[i] = a->as.dims.at[i - 1];
      a->as.dims.at[0] = front(op, def->attr[k].name);
      a->as.dims.len++;
    } else if (def->attr[k].kind == ATTR_axes || def->attr[k].kind == ATTR_ints) {
      bool axes = def->attr[k].kind == ATTR_axes, whole = op == OP_permute || !axes;
      if (a->as.ints.len < 0) continue;
      for (int i = 0; axes && i < a->as.ints.len; i++) a->as.ints.at[i]++;
      if (!whole) continue;
      for (int i = a->as.ints.len; i > 0; i--) a->as.ints.at[i] = a->as.ints.at[i - 1];
      a->as.ints.at[0] = axes ? 0 : 1;
      a->as.ints.len++;
    }
  }
}

static Val lift(Lift *l, Val v);

static Val lift_source(Lift *l, Val v) {
  const Value *x = value_at(l->sample, v);
  if (x->op != OP_input && !op_has(x->op, OPF_random)) {
    return ir_must(l->to, x->op, NULL, 0, x->attr, x->at, l->scope);
  }
  Attr attrs[IR_MAX_ATTRS];
  op_copy_attrs(x, attrs);
  lift_attrs(x->op, attrs);
  return ir_must(l->to, x->op, NULL, 0, attrs, x->at, l->scope);
}

static Val lift_op(Lift *l, Val v) {
  const Value *x = value_at(l->sample, v);
  Val in[IR_MAX_INPUTS];
  bool any = false, all = true;
  for (int i = 0; i < x->inputs; i++) {
    in[i] = lift(l, x->in[i]);
    if (in[i] == NO_VAL) return NO_VAL;
    any |= is_lifted(l, x->in[i]);
    all &= is_lifted(l, x->in[i]);
  }
  Attr attrs[IR_MAX_ATTRS];
  op_copy_attrs(x, attrs);
  if (!any) return ir_must(l->to, x->op, in, x->inputs, attrs, x->at, l->scope);
  if (op_has(x->op, OPF_elementwise) || x->op == OP_matmul) {
    for (int i = 0; i < x->inputs; i++) {
      if (is_lifted(l, x->in[i])) in[i] = align(l, in[i], x->type.rank, x->at);
    }
    return ir_must(l->to, x->op, in, x->inputs, attrs, x->at, l->scope);
  }
  bool table = x->op == OP_rows && !is_lifted(l, x->in[0]);
  if (table) return ir_must(l->to, x->op, in, x->inputs, attrs, x->at, l->scope);
  /* Calls that know which dimension is what: another in front would mean something else. */
  bool call = op_has(x->op, OPF_library) && x->op != OP_scatter_add;
  if (call || x->op == OP_rows || x->op == OP_part) return NO_VAL;
  for (int i = 0; i < x->inputs && !all; i++) {
    if (!is_lifted(l, x->in[i])) in[i] = expand_batch(l, in[i], x->at);
  }
  if (x->type.rank >= IR_MAX_RANK) return NO_VAL;
  lift_attrs(x->op, attrs);
  return ir_must(l->to, x->op, in, x->inputs, attrs, x->at, l->scope);
}

static Val lift(Lift *l, Val v) {
  if (l->map[v] != NO_VAL) return l->map[v];
  Val made = op_has(value_at(l->sample, v)->op, OPF_source) ? lift_source(l, v) : lift_op(l, v);
  l->map[v] = made;
  return made;
}

Val lift_value(Graph *to, const Graph *sample, Val v, Val *map, Scope scope) {
  Lift l = {.to = to, .sample = sample, .map = map, .scope = scope};
  Val made = lift(&l, v);
  if (made == NO_VAL) return NO_VAL;
  return is_lifted(&l, v) ? made : expand_batch(&l, made, value_at(sample, v)->at);
}
