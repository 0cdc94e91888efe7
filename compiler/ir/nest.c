/* Loop nests: building, sharing and printing. Index nodes are shared throughout a nest,
   instructions and pulled values within a stage (a stage's loops do not enclose another's
   instructions). Pulling itself is in ops/pull.c, index algebra in nest_index.c. */
#include "nest.h"
#include "die.h"
#include "nest_memo.h"

/* Open-addressing table of numbers; what a number stands for is compared by the caller. */
typedef struct Table {
  uint32_t *slot; /* number + 1; 0 = empty */
  uint32_t cap, used;
} Table;

typedef struct Pulled {
  Val v;
  NestTemp guard, temp;
  NestIndex index[IR_MAX_RANK];
} Pulled;

struct NestMemo {
  Table ix, insts, pulls;
  VEC(Pulled) pulled;
  NestTemp guard;
  bool in_stage;
};

static uint64_t ix_hash(const Ix *x) {
  uint64_t key[7] = {(uint64_t)x->kind,
                     (uint64_t)x->value.per_batch,
                     (uint64_t)x->value.fixed,
                     x->loop,
                     x->left,
                     x->right,
                     x->temp};
  return text_hash(key, sizeof key, 1);
}
static bool ix_same(const Ix *a, const Ix *b) {
  return a->kind == b->kind && dim_equal(a->value, b->value) && a->loop == b->loop &&
         a->left == b->left && a->right == b->right && a->temp == b->temp;
}
static uint64_t inst_hash(const Inst *i) {
  uint64_t key[11] = {(uint64_t)i->kind,
                      (uint64_t)i->dtype,
                      (uint64_t)i->op,
                      i->in[0],
                      i->in[1],
                      i->in[2],
                      0,
                      i->val,
                      i->ix,
                      i->ix2,
                      i->guard};
  memcpy(&key[6], &i->k, sizeof i->k);
  return text_hash(key, sizeof key, 2);
}
static bool inst_same(const Inst *a, const Inst *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
         !memcmp(a->in, b->in, sizeof a->in) && !memcmp(&a->k, &b->k, sizeof a->k) &&
         a->val == b->val && a->ix == b->ix && a->ix2 == b->ix2 && a->guard == b->guard;
}
static uint64_t pulled_hash(const Pulled *p) {
  uint32_t key[2 + IR_MAX_RANK] = {p->v, p->guard};
  memcpy(key + 2, p->index, sizeof p->index);
  return text_hash(key, sizeof key, 3);
}
static bool pulled_same(const Pulled *a, const Pulled *b) {
  return a->v == b->v && a->guard == b->guard && !memcmp(a->index, b->index, sizeof a->index);
}

/* The slot where the thing with this hash is, or belongs. SAME(number) compares. */
#define TABLE_FIND(table, hash, SAME, out)                                                         \
  do {                                                                                             \
    uint32_t at_ = (uint32_t)(hash) & ((table)->cap - 1);                                          \
    while ((table)->slot[at_] && !(SAME((table)->slot[at_] - 1)))                                  \
      at_ = (at_ + 1) & ((table)->cap - 1);                                                        \
    *(out) = at_;                                                                                  \
  } while (0)

static void table_clear(Table *t) {
  if (t->used) memset(t->slot, 0, sizeof *t->slot * t->cap);
  t->used = 0;
}

/* True when the table was made larger: everything has to be put in again. */
static bool table_grow(Table *t, Arena *a) {
  if (t->cap && t->used * 2 < t->cap) return false;
  t->cap = t->cap ? t->cap * 2 : 64;
  t->slot = ARENA_ARRAY(a, uint32_t, t->cap);
  t->used = 0;
  return true;
}

static void table_put(Table *t, uint64_t hash, uint32_t number) {
  uint32_t at = (uint32_t)hash & (t->cap - 1);
  while (t->slot[at]) at = (at + 1) & (t->cap - 1);
  t->slot[at] = number + 1;
  t->used++;
}

NestIndex nest_ix_intern(Nest *n, Ix x) {
  Table *t = &n->memo->ix;
  if (table_grow(t, n->arena))
    for (uint32_t i = 1; i < n->ix.len; i++) table_put(t, ix_hash(&n->ix.at[i]), i);
  uint64_t hash = ix_hash(&x);
  uint32_t at;
#define SAME(number) ix_same(&n->ix.at[number], &x)
  TABLE_FIND(t, hash, SAME, &at);
#undef SAME
  if (t->slot[at]) return t->slot[at] - 1;
  vec_push(n->arena, &n->ix, x);
  table_put(t, hash, n->ix.len - 1);
  return n->ix.len - 1;
}

static NestTemp inst_intern(Nest *n, Inst x) {
  check(n->memo->in_stage, "an instruction outside of a stage");
  Table *t = &n->memo->insts;
  uint32_t first = n->stages.at[n->stages.len - 1].first_inst;
  if (table_grow(t, n->arena))
    for (uint32_t i = first; i < n->insts.len; i++) table_put(t, inst_hash(&n->insts.at[i]), i);
  uint64_t hash = inst_hash(&x);
  uint32_t at;
#define SAME(number) inst_same(&n->insts.at[number], &x)
  TABLE_FIND(t, hash, SAME, &at);
#undef SAME
  if (t->slot[at]) return t->slot[at] - 1;
  vec_push(n->arena, &n->insts, x);
  table_put(t, hash, n->insts.len - 1);
  return n->insts.len - 1;
}

NestTemp nest_pulled(const Nest *n, Val v, const NestIndex *index) {
  Table *t = &n->memo->pulls;
  if (!t->cap) return 0;
  Pulled x = {.v = v, .guard = n->memo->guard};
  memcpy(x.index, index, sizeof *index * (size_t)value_at(n->g, v)->type.rank);
  uint32_t at;
#define SAME(number) pulled_same(&n->memo->pulled.at[number], &x)
  TABLE_FIND(t, pulled_hash(&x), SAME, &at);
#undef SAME
  return t->slot[at] ? n->memo->pulled.at[t->slot[at] - 1].temp : 0;
}

void nest_keep_pulled(Nest *n, Val v, const NestIndex *index, NestTemp temp) {
  NestMemo *m = n->memo;
  Pulled x = {.v = v, .guard = m->guard, .temp = temp};
  memcpy(x.index, index, sizeof *index * (size_t)value_at(n->g, v)->type.rank);
  if (table_grow(&m->pulls, n->arena))
    for (uint32_t i = 0; i < m->pulled.len; i++)
      table_put(&m->pulls, pulled_hash(&m->pulled.at[i]), i);
  vec_push(n->arena, &m->pulled, x);
  table_put(&m->pulls, pulled_hash(&x), m->pulled.len - 1);
}

NestTemp nest_guard(const Nest *n) {
  return n->memo->guard;
}
NestTemp nest_set_guard(Nest *n, NestTemp guard) {
  NestTemp before = n->memo->guard;
  n->memo->guard = guard;
  return before;
}

/* ---------- building ---------- */
Nest *nest_new(Arena *a, const Graph *g) {
  Nest *n = ARENA_NEW(a, Nest);
  n->g = g;
  n->arena = a;
  n->memo = ARENA_NEW(a, NestMemo);
  vec_push(a, &n->ix, (Ix){0});
  vec_push(a, &n->insts, (Inst){0});
  return n;
}

uint32_t nest_loop(Nest *n, Dim extent, bool reduce) {
  vec_push(n->arena, &n->loops, (NestLoop){extent, reduce});
  if (n->memo->in_stage)
    n->stages.at[n->stages.len - 1].loops++;
  else {
    check(n->stages.len == 0, "an outer loop after the first stage");
    n->outer = n->loops.len;
  }
  return n->loops.len - 1;
}

void nest_stage_begin(Nest *n) {
  check(!n->memo->in_stage, "stages do not nest");
  Stage s = {.first_loop = n->loops.len, .first_inst = n->insts.len, .first_root = n->roots.len};
  vec_push(n->arena, &n->stages, s);
  n->memo->in_stage = true;
  n->memo->guard = 0;
  table_clear(&n->memo->insts);
  table_clear(&n->memo->pulls);
  n->memo->pulled.len = 0;
}

void nest_stage_end(Nest *n) {
  Stage *s = &n->stages.at[n->stages.len - 1];
  s->insts = n->insts.len - s->first_inst;
  s->roots = n->roots.len - s->first_root;
  n->memo->in_stage = false;
}

void nest_root(Nest *n, RootKind kind, Val v, NestTemp temp, NestIndex ix, bool row_only) {
  const Inst *i = &n->insts.at[temp];
  bool twice = i->kind == INST_cast && dtype_is_half(i->dtype) &&
               i->dtype == value_at(n->g, v)->type.dtype; /* storing rounds */
  if (kind == ROOT_store && twice) temp = i->in[0];
  NestRoot root = {.kind = kind, .val = v, .temp = temp, .ix = ix, .row_only = row_only};
  vec_push(n->arena, &n->roots, root);
}

/* ---------- instructions ---------- */
NestTemp nest_const(Nest *n, double k, DType t) {
  return inst_intern(n, (Inst){.kind = INST_const, .dtype = dtype_computed(t), .k = k});
}

NestTemp nest_op(Nest *n, OpKind op, DType t, NestTemp a, NestTemp b, NestTemp c) {
  Inst x = {.kind = INST_op, .dtype = dtype_computed(t), .op = op, .in = {a, b, c}};
  return inst_intern(n, x);
}

NestTemp nest_cast(Nest *n, NestTemp a, DType t) {
  const Inst *from = &n->insts.at[a];
  t = dtype_computed(t);
  if (from->dtype == t) return a;
  bool exact = dtype_category(t) == 'f' || (from->k == (double)(int64_t)from->k && t != DT_bool);
  if (from->kind == INST_const && exact && (t == DT_f64 || t == DT_i64 || t == DT_f32))
    return nest_const(n, t == DT_f32 ? (double)(float)from->k : from->k, t);
  return inst_intern(n, (Inst){.kind = INST_cast, .dtype = t, .in = {a}});
}

NestTemp nest_round(Nest *n, NestTemp a, DType t) {
  a = nest_cast(n, a, t);
  if (!dtype_is_half(t)) return a;
  return inst_intern(n, (Inst){.kind = INST_cast, .dtype = t, .in = {a}});
}

NestTemp nest_index(Nest *n, NestIndex ix) {
  int64_t k;
  if (nest_ix_is_const(n, ix, &k)) return nest_const(n, (double)k, DT_i64);
  return inst_intern(n, (Inst){.kind = INST_index, .dtype = DT_i64, .ix = ix});
}

NestTemp nest_select(Nest *n, NestTemp c, NestTemp yes, NestTemp no) {
  const Inst *test = &n->insts.at[c];
  if (test->kind == INST_const) return test->k != 0 ? yes : no;
  if (yes == no) return yes;
  DType t = n->insts.at[yes].dtype;
  no = nest_cast(n, no, t);
  return inst_intern(n, (Inst){.kind = INST_select, .dtype = t, .in = {c, yes, no}});
}

NestTemp nest_host(Nest *n, Val v) {
  return inst_intern(n,
                     (Inst){.kind = INST_host, .dtype = value_at(n->g, v)->type.dtype, .val = v});
}

NestTemp nest_random(Nest *n, Val v, NestIndex sample, NestIndex element) {
  const Value *x = value_at(n->g, v);
  return inst_intern(n, (Inst){.kind = INST_random,
                               .dtype = x->type.dtype,
                               .op = x->op,
                               .val = v,
                               .ix = element,
                               .ix2 = sample});
}

NestTemp nest_row(Nest *n, Val v) {
  DType t = dtype_computed(value_at(n->g, v)->type.dtype);
  return inst_intern(n, (Inst){.kind = INST_row, .dtype = t, .val = v});
}

NestTemp nest_load(Nest *n, Val v, NestIndex flat) {
  return inst_intern(n, (Inst){.kind = INST_load,
                               .dtype = dtype_computed(value_at(n->g, v)->type.dtype),
                               .val = v,
                               .ix = flat,
                               .guard = n->memo->guard});
}

NestTemp nest_pull_guarded(Nest *n, Val v, const NestIndex *index, NestTemp guard) {
  if (n->memo->guard) guard = nest_select(n, n->memo->guard, guard, nest_const(n, 0, DT_bool));
  const Inst *test = &n->insts.at[guard];
  if (test->kind == INST_const && test->k == 0)
    return nest_const(n, 0, value_at(n->g, v)->type.dtype);
  if (test->kind == INST_const) guard = 0;
  NestTemp before = nest_set_guard(n, guard);
  NestTemp t = nest_pull(n, v, index);
  nest_set_guard(n, before);
  return t;
}

/* ---------- print ---------- */
static const char *const op_names[OP_COUNT] = {
    "none",
#define OP_EW(name, ...) #name,
#define OP_FN(name, ...) #name,
#include "ops.def"
};

static void print_inst(Text *out, const Nest *n, NestTemp t) {
  const Inst *i = &n->insts.at[t];
  text_addf(out, "t%u = ", t);
  switch (i->kind) {
  case INST_const:
    text_add_double(out, i->k);
    break;
  case INST_load:
    text_addf(out, "load %%%u[", i->val);
    nest_ix_print(out, n, i->ix);
    text_add(out, "]");
    if (i->guard) text_addf(out, " if t%u", i->guard);
    break;
  case INST_op:
    text_add(out, op_names[i->op]);
    for (int k = 0; k < 3 && i->in[k]; k++) text_addf(out, " t%u", i->in[k]);
    break;
  case INST_cast:
    text_addf(out, "cast t%u", i->in[0]);
    break;
  case INST_index:
    text_add(out, "index ");
    nest_ix_print(out, n, i->ix);
    break;
  case INST_random:
    text_addf(out, "%s %%%u sample ", op_names[i->op], i->val);
    nest_ix_print(out, n, i->ix2);
    text_add(out, " element ");
    nest_ix_print(out, n, i->ix);
    break;
  case INST_select:
    text_addf(out, "select t%u t%u t%u", i->in[0], i->in[1], i->in[2]);
    break;
  case INST_host:
    text_addf(out, "host %%%u", i->val);
    break;
  case INST_row:
    text_addf(out, "row %%%u", i->val);
    break;
  }
  text_addf(out, " : %s\n", dtype_name(i->dtype));
}

static void indent(Text *out, int depth) {
  for (int i = 0; i < depth; i++) text_add(out, "  ");
}

static void print_loop(Text *out, const Nest *n, uint32_t loop, int depth) {
  indent(out, depth);
  text_addf(out, "for i%u < ", loop);
  dim_print(out, n->loops.at[loop].extent);
  text_add(out, n->loops.at[loop].reduce ? " reduce\n" : "\n");
}

void nest_print(Text *out, const Nest *n) {
  static const char *const kind[] = {"store", "sum", "max", "argmax"};
  int depth = 0;
  for (uint32_t l = 0; l < n->outer; l++) print_loop(out, n, l, depth++);
  for (uint32_t s = 0; s < n->stages.len; s++) {
    const Stage *stage = &n->stages.at[s];
    int inner = depth;
    indent(out, inner++);
    text_addf(out, "stage %u\n", s);
    for (uint32_t l = 0; l < stage->loops; l++) print_loop(out, n, stage->first_loop + l, inner++);
    for (uint32_t i = 0; i < stage->insts; i++) {
      indent(out, inner);
      print_inst(out, n, stage->first_inst + i);
    }
    for (uint32_t r = 0; r < stage->roots; r++) {
      const NestRoot *root = &n->roots.at[stage->first_root + r];
      indent(out, inner);
      text_addf(out, "%s%s %%%u[", root->row_only ? "row " : "", kind[root->kind], root->val);
      nest_ix_print(out, n, root->ix);
      text_addf(out, "] t%u\n", root->temp);
    }
  }
}
