/* pass_decompose, after grad: composite ops become what their row's body says; `detach` has done
   its work and goes; a product of a stack of matrices with one matrix becomes one product of more
   rows. */
#include "die.h"
#include "passes.h"
#include "rewrite.h"
#include "sema.h"

static Val body_of(Graph *to, Val y) {
  const Value x = *value_at(to, y);
  Val r = sema_eval_rule(to, op_def(x.op)->body, y, NO_VAL, x.scope);
  check(r, "decompose: the body of %s does not evaluate", op_def(x.op)->name);
  check(type_equal(value_at(to, r)->type, x.type), "decompose: the body of %s has another type",
        op_def(x.op)->name);
  return r;
}

static Val reshape_to(Graph *to, Val x, Type t, const Value *like) {
  Attr attrs[IR_MAX_ATTRS] = {0};
  attrs[0].as.dims.len = t.rank;
  for (int i = 0; i < t.rank; i++) attrs[0].as.dims.at[i] = t.dim[i];
  return ir_must(to, OP_reshape, &x, 1, attrs, like->at, like->scope);
}

/* [batch.., M, K] @ [K, N]: the batch is more rows of the left matrix. */
static Val flatten_rows(Graph *to, Val v) {
  const Value y = *value_at(to, v);
  Type a = value_at(to, y.in[0])->type, b = value_at(to, y.in[1])->type, rows = a;
  Attr attrs[IR_MAX_ATTRS] = {y.attr[0], y.attr[1], y.attr[2]};
  rows.rank--; /* all but K */
  Dim n;
  if (y.attr[0].as.i || a.rank < 3 || b.rank != 2 || !type_elements(rows, &n)) return v;
  Type flat = {.dtype = a.dtype, .rank = 2, .dim = {n, a.dim[a.rank - 1]}};
  Val in[2] = {reshape_to(to, y.in[0], flat, &y), y.in[1]};
  return reshape_to(to, ir_must(to, OP_matmul, in, 2, attrs, y.at, y.scope), y.type, &y);
}

static Graph *decompose_body(Graph *body, const void *with) {
  (void)with;
  return pass_decompose(body);
}

Graph *pass_decompose(Graph *g) {
  Rewrite r = rewrite_begin(g);
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (x->op == OP_detach) {
      r.map[v] = r.map[x->in[0]];
      continue;
    }
    r.map[v] = ir_copy(r.to, g, v, r.map);
    rewrite_body(r.to, r.map[v], decompose_body, NULL);
    if (op_has(x->op, OPF_decompose))
      r.map[v] = body_of(r.to, r.map[v]);
    else if (x->op == OP_matmul)
      r.map[v] = flatten_rows(r.to, r.map[v]);
  }
  return pass_dce(rewrite_end(&r));
}
