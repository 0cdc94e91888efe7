/* pass_fold: constants, identities, views of views, comparisons that declared ranges decide. What
   it does holds for NaN and infinities too, but for the sign of a zero (x + 0). Rules are listed by
   op in the fold_* files; here they are applied, inputs first. */
#include "folding.h"
#include "die.h"
#include "passes.h"
#include "rewrite.h"

Attr fold_shape(Type t) {
  Attr a = {.as.dims.len = t.rank};
  for (int i = 0; i < t.rank; i++) a.as.dims.at[i] = t.dim[i];
  return a;
}

Val fold_full(Fold *f, double c, Type t, Val like) {
  const Value x = *value_at(f->to, like);
  Val k = ir_const(f->to, c, t.dtype, x.at, x.scope);
  if (!t.rank) return k;
  Attr attrs[IR_MAX_ATTRS] = {fold_shape(t), {.as.ints.len = -1}};
  return ir_must(f->to, OP_expand, &k, 1, attrs, x.at, x.scope);
}

Val fold_broadcast(Fold *f, Val v, Type t, Val like) {
  Type from = value_at(f->to, v)->type;
  if (from.dtype != t.dtype) return NO_VAL;
  if (type_equal(from, t)) return v;
  Attr attrs[IR_MAX_ATTRS] = {fold_shape(t), {.as.ints.len = -1}};
  return fold_add(f, OP_expand, &v, 1, attrs, like);
}

Val fold_reshape(Fold *f, Val v, Type t, Val like) {
  Attr attrs[IR_MAX_ATTRS] = {fold_shape(t)};
  return fold_add(f, OP_reshape, &v, 1, attrs, like);
}

static Val fold_one(Fold *f, Val v) {
  static const FoldRule *const lists[] = {fold_arithmetic, fold_movement, fold_reductions,
                                          fold_products, fold_scan};
  OpKind op = value_at(f->to, v)->op;
  bool elementwise = op_has(op, OPF_elementwise);
  for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
    for (const FoldRule *rule = lists[l]; rule->apply; rule++) {
      /* OP_none: of every elementwise op */
      if (rule->op != op && !(rule->op == OP_none && elementwise)) continue;
      Val r = rule->apply(f, v);
      if (!r || r == v) continue;
      check(type_equal(value_at(f->to, r)->type, value_at(f->to, v)->type),
            "fold: a rule of %s changes the type", op_def(op)->name);
      return r;
    }
  return v;
}

Val fold_add(Fold *f, OpKind op, const Val *in, int n, const Attr *attrs, Val like) {
  const Value x = *value_at(f->to, like);
  return fold_one(f, ir_must(f->to, op, in, n, attrs, x.at, x.scope));
}

uint32_t fold_uses(const Fold *f, Val v) {
  return v < f->uses.len ? f->uses.at[v] : 0;
}

static void count_uses(const Graph *g, uint32_t *uses) {
  for (Val v = 1; v < g->values.len; v++)
    for (int i = 0; i < value_at(g, v)->inputs; i++) uses[value_at(g, v)->in[i]]++;
  for (uint32_t i = 0; i < g->outputs.len; i++) uses[g->outputs.at[i].value]++;
}

static Graph *fold_body(Graph *body, const void *job) {
  return pass_fold(body, job);
}

Graph *pass_fold(Graph *g, const Job *job) {
  Rewrite r = rewrite_begin(g);
  Fold f = {.to = r.to, .job = job};
  uint32_t *uses = ARENA_ARRAY(g->arena, uint32_t, g->values.len);
  count_uses(g, uses);
  for (Val v = 1; v < g->values.len; v++) {
    r.map[v] = fold_one(&f, ir_copy(r.to, g, v, r.map));
    rewrite_body(r.to, r.map[v], fold_body, job);
    while (f.uses.len <= r.map[v]) vec_push(g->arena, &f.uses, 0);
    f.uses.at[r.map[v]] += uses[v];
  }
  return pass_dce(rewrite_end(&r));
}
