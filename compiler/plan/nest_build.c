/* The nest of one kernel. In: roots that are to share loops. Out: a nest, or NULL when a root reads
   what the kernel has not computed yet at that point.

   Every root has a domain: the loops over its shape, for a reduction over that of its input. The
   first `outer` loops are shared by all roots; those left form stages. A root that reads another
   root of the kernel comes in a later stage and may read it only at the same outer index; if both
   have the same domain and neither waits for a reduction, they share a stage and the first is
   pulled into the second as the same temp. */
#include "die.h"
#include "fuse.h"
#include "op.h"

Domain fuse_domain(const Graph *g, Val root) {
  const Value *x = value_at(g, root);
  bool reduces = op_has(x->op, OPF_reduce);
  Type t = reduces ? value_at(g, x->in[0])->type : x->type;
  bool reduced[IR_MAX_RANK] = {false};
  if (reduces) {
    const Attr *dims = &x->attr[op_attr(x->op, "dim")];
    for (int i = 0; i < dims->as.ints.len; i++) reduced[dims->as.ints.at[i]] = true;
  }
  bool last = reduces && x->op != OP_sum; /* max, argmax: reduced loops innermost */
  Domain d = {0};
  for (int pass = 0; pass < (last ? 2 : 1); pass++)
    for (int i = 0; i < t.rank; i++) {
      if (dim_is(t.dim[i], 1) || (last && reduced[i] != (pass == 1))) continue;
      d.axis[d.n] = i;
      d.extent[d.n] = t.dim[i];
      d.reduced[d.n++] = reduced[i];
    }
  return d;
}

/* How many leading loops a kernel of this root alone puts outside. */
int fuse_outer_default(const Graph *g, Val root) {
  Domain d = fuse_domain(g, root);
  bool whole = op_has(value_at(g, root)->op, OPF_reduce) && value_at(g, root)->op != OP_sum;
  if (d.n == 0 || (whole && d.reduced[0])) return 0;
  int n = 1;
  while (n < d.n && d.reduced[n] == d.reduced[0]) n++;
  return n == d.n ? n - 1 : n;
}

/* ---------- one build ---------- */
typedef struct Part { /* a root of the kernel */
  Val v;
  Domain domain;
  int level;      /* stages are in order of level */
  bool done;      /* its stage has ended */
  bool per_outer; /* one scalar for each outer index */
  bool across;    /* summed over the outer loops */
  NestIndex ix;
} Part;

typedef struct Build {
  Fuser *f;
  Part *part;
  uint32_t n;
  int outer;
  bool failed;
} Build;

static Part *part_of(const Build *b, Val v) {
  for (uint32_t i = 0; i < b->n; i++)
    if (b->part[i].v == v) return &b->part[i];
  return NULL;
}

static bool in_memory(const Nest *n, Val v) {
  const Build *b = n->self;
  const Part *m = part_of(b, v);
  return m ? m->done : b->f->memory[v];
}

NestIndex fuse_outer_index(Nest *n) {
  NestIndex flat = nest_ix_const(n, dim_of(0));
  for (uint32_t l = 0; l < n->outer; l++)
    flat = nest_ix_add(n, nest_ix_mul(n, flat, n->loops.at[l].extent), nest_ix_loop(n, l));
  return flat;
}

static NestTemp row_value(Nest *n, Val v, const NestIndex *index) {
  Build *b = n->self;
  const Part *m = part_of(b, v);
  if (!m || !m->done || !m->per_outer) return 0;
  if (nest_ix_flat(n, value_at(n->g, v)->type, index) == fuse_outer_index(n)) return nest_row(n, v);
  b->failed = true; /* another row's */
  return nest_row(n, v);
}

/* May p, which r reads, be computed along with r in one stage? */
static bool same_stage(const Graph *g, const Part *p, const Part *r) {
  if (op_has(value_at(g, p->v)->op, OPF_reduce) || p->domain.n != r->domain.n) return false;
  for (int i = 0; i < p->domain.n; i++)
    if (!dim_equal(p->domain.extent[i], r->domain.extent[i])) return false;
  return true;
}

static void set_levels(Build *b, ValList *loads) {
  for (uint32_t i = 0; i < b->n; i++) {
    Part *m = &b->part[i];
    loads->len = 0;
    fuse_loads(b->f, m->v, loads);
    for (uint32_t k = 0; k < loads->len; k++) {
      const Part *p = part_of(b, loads->at[k]);
      if (!p) continue;
      int level = p->level + !same_stage(b->f->g, p, m);
      if (level > m->level) m->level = level;
    }
  }
}

/* Do the domains have the same outer loops, each root reducing over all of them or over none? */
static bool fits_outer(Build *b) {
  const Domain *first = &b->part[0].domain;
  for (uint32_t i = 0; i < b->n; i++) {
    Part *m = &b->part[i];
    if (m->domain.n < b->outer) return false;
    int reduced = 0;
    for (int k = 0; k < b->outer; k++) {
      if (!dim_equal(m->domain.extent[k], first->extent[k])) return false;
      reduced += m->domain.reduced[k];
    }
    if (reduced && reduced < b->outer) return false;
    m->across = reduced > 0;
    if (m->across && value_at(b->f->g, m->v)->op != OP_sum) return false;
    m->per_outer = !m->across;
    for (int k = b->outer; k < m->domain.n; k++)
      m->per_outer = m->per_outer && m->domain.reduced[k];
  }
  return true;
}

static RootKind root_kind(const Graph *g, Val v) {
  OpKind op = value_at(g, v)->op;
  if (!op_has(op, OPF_reduce)) return ROOT_store;
  return op == OP_sum ? ROOT_sum : op == OP_amax ? ROOT_max : ROOT_argmax;
}

static void add_root(Build *b, Nest *n, Part *m, uint32_t first_loop) {
  const Graph *g = n->g;
  const Value *x = value_at(g, m->v);
  RootKind kind = root_kind(g, m->v);
  Type shape = kind == ROOT_store ? x->type : value_at(g, x->in[0])->type;
  NestIndex at[IR_MAX_RANK], out[IR_MAX_RANK];
  for (int i = 0; i < shape.rank; i++) at[i] = out[i] = nest_ix_const(n, dim_of(0));
  for (int k = 0; k < m->domain.n; k++) {
    uint32_t loop = k < b->outer ? (uint32_t)k : first_loop + (uint32_t)(k - b->outer);
    int axis = m->domain.axis[k];
    at[axis] = nest_ix_loop(n, loop);
    if (!m->domain.reduced[k]) out[axis] = at[axis];
  }
  /* Sizes of 1 stand for the reduced dimensions, kept or not: the flat element is the same. */
  Type kept = shape;
  for (int k = 0; k < m->domain.n; k++)
    if (m->domain.reduced[k]) kept.dim[m->domain.axis[k]] = dim_of(1);
  m->ix = nest_ix_flat(n, kept, out);
  NestTemp t = nest_pull(n, kind == ROOT_store ? m->v : x->in[0], at);
  bool reduces = false;
  for (int k = 0; k < m->domain.n; k++) reduces = reduces || m->domain.reduced[k];
  if (!reduces) { /* over sizes of 1 only */
    if (kind == ROOT_argmax) t = nest_const(n, 0, x->type.dtype);
    kind = ROOT_store;
  }
  if (kind != ROOT_argmax) t = nest_cast(n, t, x->type.dtype);
  nest_root(n, kind, m->v, t, m->ix, false);
}

static bool same_inner(const Build *b, const Part *a, const Part *c) {
  if (a->level != c->level || a->domain.n != c->domain.n) return false;
  for (int k = b->outer; k < a->domain.n; k++)
    if (!dim_equal(a->domain.extent[k], c->domain.extent[k])) return false;
  return true;
}

/* One stage: m and the later members with the same level and inner loops. */
static void add_stage(Build *b, Nest *n, uint32_t first, bool *placed) {
  Part *m = &b->part[first];
  nest_stage_begin(n);
  uint32_t first_loop = n->loops.len;
  for (int k = b->outer; k < m->domain.n; k++) {
    bool reduce = true;
    for (uint32_t i = first; i < b->n; i++)
      if (!placed[i] && same_inner(b, m, &b->part[i]))
        reduce = reduce && b->part[i].domain.reduced[k];
    nest_loop(n, m->domain.extent[k], reduce);
  }
  for (uint32_t i = first; i < b->n; i++) {
    if (placed[i] || !same_inner(b, m, &b->part[i])) continue;
    placed[i] = true;
    add_root(b, n, &b->part[i], first_loop);
  }
  nest_stage_end(n);
  for (uint32_t i = first; i < b->n; i++)
    if (placed[i]) b->part[i].done = true;
}

/* ---------- is it right? ---------- */
/* A source that the kernel overwrites may only be read where it is written, in the same stage. */
static bool source_read_is_safe(const Build *b, const Nest *n, uint32_t stage, const Inst *load) {
  for (uint32_t i = 0; i < b->n; i++) {
    const Output *o = b->f->output[b->part[i].v];
    if (!o || !fuse_overwrites(n->g, o, load->val)) continue;
    const Stage *s = &n->stages.at[stage];
    bool here = false;
    for (uint32_t r = 0; r < s->roots; r++)
      here = here || n->roots.at[s->first_root + r].val == b->part[i].v;
    if (!here || load->ix != b->part[i].ix) return false;
  }
  return true;
}

/* A root of the kernel may only be loaded from the outer iteration at hand. */
static bool load_is_safe(Build *b, Nest *n, uint32_t stage, const Inst *load) {
  const Part *m = part_of(b, load->val);
  if (!m) return source_read_is_safe(b, n, stage, load);
  if (m->across) return false;
  Dim row = dim_of(1);
  for (int k = b->outer; k < m->domain.n; k++)
    if (!m->domain.reduced[k] && !dim_mul(row, m->domain.extent[k], &row)) return false;
  return nest_ix_div(n, load->ix, row) == fuse_outer_index(n);
}

static bool is_right(Build *b, Nest *n) {
  if (b->failed) return false;
  for (uint32_t s = 0; s < n->stages.len; s++)
    for (uint32_t i = 0; i < n->stages.at[s].insts; i++) {
      const Inst load = n->insts.at[n->stages.at[s].first_inst + i];
      if (load.kind == INST_load && !load_is_safe(b, n, s, &load)) return false;
      if (load.kind == INST_row && part_of(b, load.val)->across) return false;
    }
  return true;
}

Nest *fuse_build(Fuser *f, const Val *roots, uint32_t count, int outer) {
  Build b = {.f = f, .n = count, .outer = outer};
  b.part = ARENA_ARRAY(f->arena, Part, count);
  for (uint32_t i = 0; i < count; i++)
    b.part[i] = (Part){.v = roots[i], .domain = fuse_domain(f->g, roots[i])};
  if (!fits_outer(&b)) return NULL;
  ValList loads = {0};
  set_levels(&b, &loads);
  Nest *n = nest_new(f->arena, f->g);
  n->in_memory = in_memory;
  n->row_value = row_value;
  n->self = &b;
  for (int k = 0; k < outer; k++) {
    bool reduce = true;
    for (uint32_t i = 0; i < count; i++) reduce = reduce && b.part[i].across;
    nest_loop(n, b.part[0].domain.extent[k], reduce);
  }
  bool *placed = ARENA_ARRAY(f->arena, bool, count);
  for (uint32_t left = count, level = 0; left > 0; level++) {
    for (uint32_t i = 0; i < count; i++)
      if (!placed[i] && b.part[i].level == (int)level) add_stage(&b, n, i, placed);
    left = 0;
    for (uint32_t i = 0; i < count; i++) left += !placed[i];
  }
  bool right = is_right(&b, n);
  n->self = NULL;
  return right ? n : NULL;
}
