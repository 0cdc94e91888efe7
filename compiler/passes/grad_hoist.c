/* Sums over the turns of a loop, taken after it: sum_t a_t' b_t is one product of stacks, sum_t sum x_t
   one sum. In: a value of the body, there and back (grad_scan.h). What is linear in one operand passes
   the sum on; products, sums and rows_add end it. */
#include "grad_scan.h"

enum { DONE = 1 }; /* what check and mark return for yes */

static Val outside(ScanGrad *sg, OpKind op, const Val *in, int n, const Attr *attrs, Val like) {
  Value x = *value_at(sg->g, like);
  return ir_must(sg->b->g, op, in, n, attrs, x.at, sg->x.scope);
}

/* Can all turns of v be had as one tensor? */
static bool can_stack(const ScanGrad *sg, Val v) {
  const Value *x = value_at(sg->g, v);
  Dim n;
  if (x->type.rank >= IR_MAX_RANK || !type_elements(scan_stack_type(x->type, sg->s.length), &n))
    return false;
  if (x->op != OP_arg) return !op_has(x->op, OPF_source);
  return v >= sg->n || x->attr[0].as.i < sg->s.over || grad_is_carried(sg, v);
}

/* The stack, or through reshapes of it. */
static Val stacked_source(const ScanGrad *sg, Val v) {
  while (value_at(sg->g, v)->op == OP_reshape) v = value_at(sg->g, v)->in[0];
  return v;
}

/* [K, M] of every turn below each other: [T K, M]. */
static Val rows_of_all_turns(ScanGrad *sg, Val v) {
  Type t = value_at(sg->g, v)->type;
  Val stack = grad_stack(sg, stacked_source(sg, v));
  Attr shape = {.as.dims.len = 2};
  dim_mul(sg->s.length, t.dim[0], &shape.as.dims.at[0]);
  shape.as.dims.at[1] = t.dim[1];
  Attr attrs[IR_MAX_ATTRS] = {shape};
  return outside(sg, OP_reshape, &stack, 1, attrs, v);
}

static Val hoist_product(ScanGrad *sg, Val v, HoistMode mode) {
  const Value x = *value_at(sg->g, v);
  Dim rows;
  bool ta = x.attr[0].as.i != 0, tb = x.attr[1].as.i != 0;
  Type a = value_at(sg->g, x.in[0])->type;
  if (!ta || tb || a.rank != 2 || value_at(sg->g, x.in[1])->type.rank != 2) return NO_VAL;
  if (!dim_mul(sg->s.length, a.dim[0], &rows)) return NO_VAL;
  Val in[2];
  for (int i = 0; i < 2; i++) {
    Val from = stacked_source(sg, x.in[i]);
    if (!can_stack(sg, from)) return NO_VAL;
    if (mode == HOIST_mark) sg->stacked[from] = true;
    if (mode == HOIST_build) in[i] = rows_of_all_turns(sg, x.in[i]);
  }
  return mode == HOIST_build ? outside(sg, OP_matmul, in, 2, x.attr, v) : DONE;
}

static Val hoist_sum(ScanGrad *sg, Val v, HoistMode mode) {
  const Value x = *value_at(sg->g, v);
  if (!can_stack(sg, x.in[0])) return NO_VAL;
  if (mode == HOIST_mark) sg->stacked[x.in[0]] = true;
  if (mode != HOIST_build) return DONE;
  Attr attrs[IR_MAX_ATTRS] = {x.attr[0], x.attr[1]};
  bool keepdim = attrs[1].as.i != 0;
  int n = attrs[0].as.ints.len;
  for (int i = 0; i < n; i++) attrs[0].as.ints.at[i] = x.attr[0].as.ints.at[i] + 1;
  Val in = grad_stack(sg, x.in[0]);
  if (!keepdim) { /* one sum over all */
    for (int i = n; i > 0; i--) attrs[0].as.ints.at[i] = attrs[0].as.ints.at[i - 1];
    attrs[0].as.ints.at[0] = 0;
    attrs[0].as.ints.len = n + 1;
    return outside(sg, OP_sum, &in, 1, attrs, v);
  }
  in = outside(sg, OP_sum, &in, 1, attrs, v);
  Attr first[IR_MAX_ATTRS] = {{.as.ints = {1, {0}}}, {.as.i = 0}};
  return outside(sg, OP_sum, &in, 1, first, v);
}

/* Rows summed into a table: more of them. */
static Val hoist_rows(ScanGrad *sg, Val v, HoistMode mode) {
  const Value x = *value_at(sg->g, v);
  Val in[2];
  for (int i = 0; i < 2; i++) {
    if (!can_stack(sg, x.in[i])) return NO_VAL;
    if (mode == HOIST_mark) sg->stacked[x.in[i]] = true;
    if (mode == HOIST_build) in[i] = grad_stack(sg, x.in[i]);
  }
  return mode == HOIST_build ? outside(sg, OP_rows_add, in, 2, x.attr, v) : DONE;
}

static Val hoist_add(ScanGrad *sg, Val v, HoistMode mode) {
  const Value x = *value_at(sg->g, v);
  Type t = x.type;
  if (!type_equal(value_at(sg->g, x.in[0])->type, t) ||
      !type_equal(value_at(sg->g, x.in[1])->type, t))
    return NO_VAL;
  Val a = grad_hoist(sg, x.in[0], mode), b = a ? grad_hoist(sg, x.in[1], mode) : NO_VAL;
  if (!a || !b || mode != HOIST_build) return a && b ? DONE : NO_VAL;
  return outside(sg, OP_add, (Val[]){a, b}, 2, NULL, v);
}

Val grad_hoist(ScanGrad *sg, Val v, HoistMode mode) {
  const Value x = *value_at(sg->g, v);
  if (v < sg->n) return NO_VAL;
  if (x.op == OP_matmul) return hoist_product(sg, v, mode);
  if (x.op == OP_sum) return hoist_sum(sg, v, mode);
  if (x.op == OP_rows_add) return hoist_rows(sg, v, mode);
  if (x.op == OP_add) return hoist_add(sg, v, mode);
  if (x.op != OP_permute && x.op != OP_reshape && x.op != OP_neg) return NO_VAL;
  Val in = grad_hoist(sg, x.in[0], mode);
  if (!in || mode != HOIST_build) return in;
  return outside(sg, x.op, &in, 1, x.attr, v);
}
