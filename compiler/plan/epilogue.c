/* What a product does with its result in the same call, on targets whose products can (cuBLASLt's epilogues).
   epilogue_find, before fusion: from the graph, which values a product could leave in memory by itself. These
   get a nest of their own, right behind the product: what it does apart. Both ways leave the same values in the
   same memory, so one plan serves both, and the program chooses when it runs. epilogue_check, afterwards: is
   that nest exactly what the epilogue does?

     bias    y = product + bias, where a call reads y. Where only nests read it, they add the bias for free
     gelu    y = gelu(product + bias), the form with tanh; backward reads what gelu read
     dgelu   y = product * gelu'(what gelu read); f32: and the sums of its columns
     bgrad   the gradient of a bias with that of its weight: sums of an operand's columns, where no nest reads
             that operand anyway

   What is to be gelu is compared as a function, at some points: passes and gradient rules write it in many
   ways. All ops of such a formula are smooth, so agreement is no chance. What gelu's gradient needs beside x it
   computes again: nothing between x and y is stored. */
#include "die.h"
#include "fuse.h"
#include "op.h"
#include <math.h>

enum { MOST_PARTS = 48, AUX_MULTIPLE = 8 };

typedef struct Finder {
  Fuser *f;
  const Graph *g;
  uint32_t *uses; /* by value: inputs that it is, and outputs */
  Val *product;   /* by value: whose result this is, with its bias; 0: none */
  Val *bias;      /* by such a value */
} Finder;

/* ---------- shapes ---------- */

static Val through(const Graph *g, Val v) {
  while (value_at(g, v)->op == OP_reshape) v = value_at(g, v)->in[0];
  return v;
}

static bool same_elements(const Graph *g, Val a, Val b) {
  Type x = value_at(g, a)->type, y = value_at(g, b)->type;
  Dim n, m;
  return x.dtype == y.dtype && type_elements(x, &n) && type_elements(y, &m) && dim_equal(n, m);
}

static bool flag(const Value *x, const char *name) {
  return x->attr[op_attr(x->op, name)].as.i != 0;
}

/* A product of matrices in one call: no batch of them. */
static bool is_product(const Graph *g, Val v) {
  const Value *x = value_at(g, v);
  if (x->op == OP_matmul_bias) return true;
  if (x->op != OP_matmul) return false;
  Type a = value_at(g, x->in[0])->type, b = value_at(g, x->in[1])->type;
  return b.rank == 2 && (a.rank == 2 || !flag(x, "ta"));
}

static Dim columns(const Graph *g, Val v) {
  Type t = value_at(g, v)->type;
  return t.rank ? t.dim[t.rank - 1] : dim_of(1);
}

/* The sum of all dimensions of `of` but the last. */
static bool sums_columns(const Graph *g, Val v) {
  const Value *x = value_at(g, v);
  if (x->op != OP_sum || x->type.dtype != DT_f32) return false;
  Type t = value_at(g, x->in[0])->type;
  const Attr *dims = &x->attr[op_attr(OP_sum, "dim")];
  bool last = false;
  for (int i = 0; i < dims->as.ints.len; i++) last = last || dims->as.ints.at[i] == t.rank - 1;
  return t.rank > 1 && dims->as.ints.len == t.rank - 1 && !last;
}

static bool is_gradient(const Finder *x, Val v) {
  return x->f->output[v] && x->f->output[v]->kind == OUT_grad;
}

/* ---------- product + bias ---------- */

/* The product behind v, if v is all that reads it. */
static Val lone_product(const Finder *x, Val v) {
  for (;; v = value_at(x->g, v)->in[0]) {
    if (x->uses[v] != 1 || value_at(x->g, v)->kept) return NO_VAL;
    if (value_at(x->g, v)->op == OP_matmul) return is_product(x->g, v) ? v : NO_VAL;
    if (value_at(x->g, v)->op != OP_reshape) return NO_VAL;
  }
}

/* A vector of parameters, perhaps in another type. */
static bool is_bias(const Graph *g, Val v) {
  const Value *x = value_at(g, v);
  return x->type.rank == 1 && (x->op == OP_param || (x->op == OP_cast && is_bias(g, x->in[0])));
}

static void find_products(Finder *x) {
  for (Val v = 1; v < x->g->values.len; v++) {
    const Value *sum = value_at(x->g, v);
    if (is_product(x->g, v)) x->product[v] = v;
    for (int i = 0; sum->op == OP_add && i < 2; i++) {
      Val p = lone_product(x, sum->in[i]), b = sum->in[1 - i];
      bool fits = p && is_bias(x->g, b) && same_elements(x->g, p, v) &&
                  value_at(x->g, b)->type.dtype == sum->type.dtype &&
                  dim_equal(columns(x->g, p), columns(x->g, b)) &&
                  dim_equal(columns(x->g, p), columns(x->g, v));
      if (!fits || x->product[v]) continue;
      x->product[v] = p;
      x->product[p] = NO_VAL; /* nobody sees it without the bias */
      x->bias[v] = b;
    }
  }
}

/* ---------- formulas ---------- */

/* A value as a function of up to two results of products. */
typedef struct Formula {
  Val root;
  Val part[MOST_PARTS]; /* inner values, each behind what it reads; the root is the last */
  Val leaf[2];
  int parts, leaves, depth;
} Formula;

static bool is_smooth(OpKind op) {
  static const OpKind smooth[] = {OP_add, OP_sub, OP_mul, OP_neg, OP_tanh};
  for (size_t i = 0; i < sizeof smooth / sizeof *smooth; i++)
    if (op == smooth[i]) return true;
  return false;
}

static bool add_leaf(Formula *f, Val v) {
  for (int i = 0; i < f->leaves; i++)
    if (f->leaf[i] == v) return true;
  if (f->leaves == 2) return false;
  f->leaf[f->leaves++] = v;
  return true;
}

static bool add_part(const Finder *x, Formula *f, Val v);

static bool add_inputs(const Finder *x, Formula *f, const Value *p) {
  bool ok = f->depth++ < MOST_PARTS;
  for (int i = 0; i < p->inputs; i++) ok = ok && add_part(x, f, p->in[i]);
  f->depth--;
  return ok;
}

static bool add_part(const Finder *x, Formula *f, Val v) {
  v = through(x->g, v);
  const Value *p = value_at(x->g, v);
  double k;
  bool number = ir_is_const(x->g, v, &k);
  if (!number && !same_elements(x->g, v, f->root)) return false;
  if (v != f->root && x->product[v]) return add_leaf(f, v);
  if (!number && !is_smooth(p->op)) return false;
  for (int i = 0; i < f->parts; i++)
    if (f->part[i] == v) return true;
  if (!number && !add_inputs(x, f, p)) return false;
  if (f->parts == MOST_PARTS) return false;
  f->part[f->parts++] = v;
  return true;
}

static double known(const Formula *f, const double *at, const double *leaf, Val v) {
  for (int i = 0; i < f->leaves; i++)
    if (f->leaf[i] == v) return leaf[i];
  for (int i = f->parts - 1; i >= 0; i--)
    if (f->part[i] == v) return at[i];
  die("a formula reads what it does not have");
}

static double evaluate(const Graph *g, const Formula *f, const double *leaf) {
  double at[MOST_PARTS];
  for (int i = 0; i < f->parts; i++) {
    const Value *p = value_at(g, f->part[i]);
    double in[2] = {0, 0};
    if (ir_is_const(g, f->part[i], &at[i])) continue;
    for (int k = 0; k < p->inputs; k++) in[k] = known(f, at, leaf, through(g, p->in[k]));
    at[i] = op_def(p->op)->eval(in[0], in[1], 0);
  }
  return at[f->parts - 1];
}

/* As the library has them; its constants have no more digits. */
static double inner(double x) {
  return 0.7978845608 * (x + 0.044715 * x * x * x);
}
static double gelu(double x) {
  return 0.5 * x * (1 + tanh(inner(x)));
}
static double gelu_slope(double x) {
  double t = tanh(inner(x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608 * (1 + 3 * 0.044715 * x * x);
}

/* Is it gelu of leaf `of`, or the other leaf times its slope? */
static bool is_gelu(const Graph *g, const Formula *f, int of) {
  for (int i = -24; i <= 24; i++) {
    double leaf[2] = {0.73 * i + 0.11, 0.73 * i + 0.11}, should = gelu(leaf[of]);
    if (f->leaves == 2) {
      leaf[of] = 0.17 * i + 0.05;
      should = leaf[1 - of] * gelu_slope(leaf[of]);
    }
    if (!(fabs(evaluate(g, f, leaf) - should) <= 1e-6 * (1 + fabs(should)))) return false;
  }
  return true;
}

/* ---------- what is found ---------- */

static void keep(Fuser *f, Val v) {
  f->memory[v] = f->keep[v] = true;
  f->base[v] = v;
}

/* Its values go into one nest, that nothing else joins. */
static void take(Finder *x, const Epilogue *e) {
  Fuser *f = x->f;
  const Val own[] = {e->kind == EPILOGUE_bgrad ? NO_VAL : e->y, e->sums,
                     e->kind == EPILOGUE_gelu ? e->aux : NO_VAL};
  vec_push(f->arena, &f->epilogues, *e);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    if (!own[i] || own[i] == e->product) continue;
    f->apart[own[i]] = f->epilogues.len;
    f->memory[own[i]] = true;
    f->base[own[i]] = own[i];
  }
  if (e->bias && !fuse_is_resident(x->g, e->bias)) keep(f, e->bias);
}

static void take_formula(Finder *x, const Formula *f, const Epilogue *e) {
  take(x, e);
  for (int i = 0; i < f->parts; i++)
    if (f->part[i] != f->root) x->f->pulled[f->part[i]] = true;
}

static bool has_epilogue(const Fuser *f, Val product) {
  for (uint32_t i = 0; i < f->epilogues.len; i++)
    if (f->epilogues.at[i].product == product) return true;
  return false;
}

static bool formula_of(const Finder *x, Val v, Formula *out) {
  *out = (Formula){.root = v};
  bool reads = x->f->keep[v] && x->f->base[v] == v && !x->product[v] && !x->f->apart[v];
  return reads && is_smooth(value_at(x->g, v)->op) && add_part(x, out, v);
}

/* Does anything beside the formula read v? */
static bool read_outside(const Finder *x, const Formula *f, Val v) {
  for (Val u = v + 1; u < x->g->values.len; u++) {
    bool part = value_at(x->g, u)->op == OP_reshape;
    for (int i = 0; i < f->parts; i++) part = part || f->part[i] == u;
    for (int i = 0; !part && i < value_at(x->g, u)->inputs; i++)
      if (through(x->g, value_at(x->g, u)->in[i]) == v) return true;
  }
  return false;
}

/* The library's rule for what lies beside a result. */
static bool aux_fits(const Graph *g, Val y) {
  return columns(g, y).fixed % AUX_MULTIPLE == 0;
}

static void find_gelu(Finder *x) {
  for (Val v = 1; v < x->g->values.len; v++) {
    Formula f;
    if (!formula_of(x, v, &f) || f.leaves != 1) continue;
    Val at = f.leaf[0];
    Epilogue e = {
        .kind = EPILOGUE_gelu, .product = x->product[at], .y = v, .aux = at, .bias = x->bias[at]};
    bool region = value_at(x->g, at)->region == value_at(x->g, v)->region;
    if (!region || has_epilogue(x->f, e.product) || !is_gelu(x->g, &f, 0)) continue;
    if (!aux_fits(x->g, v) && read_outside(x, &f, at)) continue;
    if (value_at(x->g, e.product)->op == OP_matmul_bias) e.bias = value_at(x->g, e.product)->in[2];
    take_formula(x, &f, &e);
  }
}

static bool read_by_gelu(const Finder *x, Val v) {
  for (uint32_t i = 0; i < x->f->epilogues.len; i++)
    if (x->f->epilogues.at[i].kind == EPILOGUE_gelu && x->f->epilogues.at[i].aux == v) return true;
  return false;
}

/* The gradient that holds the sums of v's columns. */
static Val find_sums(const Finder *x, Val v) {
  for (Val s = v + 1; s < x->g->values.len; s++)
    if (sums_columns(x->g, s) && is_gradient(x, s) &&
        through(x->g, value_at(x->g, s)->in[0]) == v &&
        dim_equal(columns(x->g, value_at(x->g, s)->in[0]), columns(x->g, v)))
      return s;
  return NO_VAL;
}

static void find_dgelu(Finder *x) {
  for (Val v = 1; v < x->g->values.len; v++) {
    Formula f;
    if (!formula_of(x, v, &f) || f.leaves != 2) continue;
    int of = read_by_gelu(x, f.leaf[1]);
    Val p = f.leaf[1 - of];
    bool fits = read_by_gelu(x, f.leaf[of]) && x->product[p] == p && !has_epilogue(x->f, p) &&
                value_at(x->g, p)->op == OP_matmul && dim_equal(columns(x->g, p), columns(x->g, v));
    if (!fits || !aux_fits(x->g, v) || !is_gelu(x->g, &f, of)) continue;
    Epilogue e = {.kind = EPILOGUE_dgelu, .product = p, .y = v, .aux = f.leaf[of]};
    /* sums would have the type of the result: they stay out of 16 bits */
    if (value_at(x->g, v)->type.dtype == DT_f32) e.sums = find_sums(x, v);
    take_formula(x, &f, &e);
  }
}

/* ---------- gradients of biases ---------- */

/* Does a call leave v in memory, or a product's epilogue in 16 bits, and read nothing but calls (and s)? */
static bool read_by_calls(const Finder *x, Val v, Val s) {
  const Graph *g = x->g;
  const Value *d = value_at(g, v);
  uint32_t own = x->f->apart[v];
  bool by_call = op_has(d->op, OPF_library) || d->op == OP_part ||
                 (own && x->f->epilogues.at[own - 1].kind == EPILOGUE_dgelu);
  for (Val u = v + 1; by_call && u < g->values.len; u++)
    for (int i = 0; i < value_at(g, u)->inputs; i++) {
      if (through(g, value_at(g, u)->in[i]) != v) continue;
      OpKind op = value_at(g, u)->op;
      bool own_sum = u == s || value_at(g, s)->in[0] == u;
      if (!op_has(op, OPF_library) && op != OP_reshape && op != OP_part && !own_sum) return false;
    }
  return by_call;
}

/* The gradient of a weight that reads v along its sums; `first`: as the first operand. */
static Val find_weight(const Finder *x, Val v, Val s, bool *first) {
  const Graph *g = x->g;
  for (Val w = v + 1; w < g->values.len; w++) {
    const Value *p = value_at(g, w);
    if (p->op != OP_matmul || !is_gradient(x, w) || p->type.dtype != DT_f32 || p->type.rank != 2)
      continue;
    for (int i = 0; i < 2; i++) {
      Type t = value_at(g, p->in[i])->type;
      bool along = i == 0 ? flag(p, "ta") : !flag(p, "tb");
      *first = i == 0;
      if (along && t.rank == 2 && through(g, p->in[i]) == v && dim_equal(t.dim[1], columns(g, s)))
        return w;
    }
  }
  return NO_VAL;
}

static void find_bgrad(Finder *x) {
  for (Val s = 1; s < x->g->values.len; s++) {
    if (!sums_columns(x->g, s) || !is_gradient(x, s) || x->f->apart[s]) continue;
    Val v = through(x->g, value_at(x->g, s)->in[0]);
    if (value_at(x->g, v)->op == OP_cast && x->uses[v] == 1)
      v = through(x->g, value_at(x->g, v)->in[0]);
    Epilogue e = {.kind = EPILOGUE_bgrad, .sums = s};
    e.product = e.y = find_weight(x, v, s, &e.first);
    if (!e.product || has_epilogue(x->f, e.product) || !read_by_calls(x, v, s)) continue;
    take(x, &e);
  }
}

static void find_bias(Finder *x) {
  for (Val v = 1; v < x->g->values.len; v++) {
    bool stored = x->f->keep[v] && x->f->base[v] == v;
    if (!x->bias[v] || !stored || x->f->apart[v]) continue;
    Epilogue e = {.kind = EPILOGUE_bias, .product = x->product[v], .y = v, .bias = x->bias[v]};
    take(x, &e);
  }
}

void epilogue_find(Fuser *f) {
  Finder x = {.f = f, .g = f->g};
  x.uses = ARENA_ARRAY(f->arena, uint32_t, f->g->values.len);
  x.product = ARENA_ARRAY(f->arena, Val, f->g->values.len);
  x.bias = ARENA_ARRAY(f->arena, Val, f->g->values.len);
  for (Val v = 1; v < f->g->values.len; v++)
    for (int i = 0; i < value_at(f->g, v)->inputs; i++) x.uses[value_at(f->g, v)->in[i]]++;
  for (uint32_t i = 0; i < f->g->outputs.len; i++) x.uses[f->g->outputs.at[i].value]++;
  find_products(&x);
  find_gelu(&x);
  find_dgelu(&x);
  find_bgrad(&x);
  find_bias(&x);
}

/* ---------- what came of it ---------- */

static bool lies_in_block(const Fuser *f, Val v) {
  return !f->output[v] || f->output[v]->kind == OUT_result;
}

/* Of the nest: does it write what the epilogue does, and read what that does? */
static bool same_work(const Fuser *f, const Epilogue *e, const Kernel *k) {
  const Val main = e->kind == EPILOGUE_bgrad ? e->sums : e->y;
  bool writes = false;
  for (uint32_t r = 0; r < k->nest->roots.len; r++)
    if (k->nest->roots.at[r].row_only) return false;
  for (uint32_t i = 0; i < k->writes.len; i++) {
    Val v = k->writes.at[i];
    if (v != main && v != e->sums && !(v == e->aux && e->kind == EPILOGUE_gelu)) return false;
    writes = writes || v == main;
  }
  for (uint32_t i = 0; i < k->reads.len; i++) {
    Val v = k->reads.at[i];
    if (e->kind == EPILOGUE_bgrad) {
      const Value *w = value_at(f->g, e->product);
      if (v != f->base[w->in[!e->first]]) return false;
    } else if (v != e->product && v != e->bias && v != e->aux) {
      return false;
    }
  }
  if (e->kind == EPILOGUE_dgelu && !val_list_has(k->reads.at, k->reads.len, e->aux)) return false;
  return writes && (!e->sums || val_list_has(k->writes.at, k->writes.len, e->sums));
}

bool epilogue_check(const Fuser *f, Epilogue *e, const Kernel *apart, bool others) {
  if (apart->kind != KERNEL_nest || !same_work(f, e, apart)) return false;
  if (e->kind == EPILOGUE_bgrad) return true;
  if (!lies_in_block(f, e->y) || f->output[e->product]) return false;
  if (others && e->aux != e->product) return false; /* it would not be there */
  bool leaves =
      e->aux == e->product ? others : val_list_has(apart->writes.at, apart->writes.len, e->aux);
  if (e->kind == EPILOGUE_gelu && !leaves) e->aux = NO_VAL;
  return !e->aux || aux_fits(f->g, e->y);
}

const char *plan_epilogue_text(const Epilogue *e, Arena *a) {
  switch (e->kind) {
  case EPILOGUE_bias:
    return "bias";
  case EPILOGUE_gelu:
    return arena_printf(a, "gelu%s%s", e->aux ? "_aux" : "", e->bias ? "_bias" : "");
  case EPILOGUE_dgelu:
    return e->sums ? "dgelu_bgrad" : "dgelu";
  case EPILOGUE_bgrad:
    return e->first ? "bgrada" : "bgradb";
  case EPILOGUE_none:
    break;
  }
  return "";
}
