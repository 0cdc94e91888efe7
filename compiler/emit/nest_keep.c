/* Numbers that several passes of a team over its row read stay in registers: what one pass loads or stores, a later
   one takes from an array of the thread, where both spread the same elements over it. In: the piece. Out:
   names of arrays by load and by root; Device.keep. */
#include "nest_device.h"
#include "op.h"

enum {
  NARROW_WORDS = 160,
  BLOCK_WORDS = 96,
  WIDE_WORDS = 24
}; /* of a thread, with sums over rows */

typedef struct Entry { /* what a pass had in its hands */
  const Pass *pass;
  Val base;      /* of the memory */
  NestTemp load; /* or 0: stored by */
  uint32_t root;
  bool gone;        /* other numbers stand there now */
  const char *name; /* once somebody wants it */
} Entry;

typedef struct Keeper {
  Device *d;
  VEC(Entry) entries;
  int words; /* left */
} Keeper;

/* ---------- the same element in two passes ---------- */

typedef struct Pair { /* of passes, and an instruction or index of each */
  const Nest *n;
  const LoopPath *a, *b;
} Pair;

static bool same_index(const Pair *p, NestIndex a, NestIndex b);

static bool same_inst(const Pair *p, NestTemp a, NestTemp b) {
  if (a == b) return true;
  if (!a || !b) return false;
  const Inst *x = &p->n->insts.at[a], *y = &p->n->insts.at[b];
  if (x->kind != y->kind || x->dtype != y->dtype || x->op != y->op || x->k != y->k ||
      x->val != y->val || x->guard || y->guard || x->kind == INST_random)
    return false;
  for (int i = 0; i < 3; i++)
    if (!same_inst(p, x->in[i], y->in[i])) return false;
  return same_index(p, x->ix, y->ix) && same_index(p, x->ix2, y->ix2);
}

static bool same_loop(const Pair *p, uint32_t a, uint32_t b) {
  for (uint32_t i = 0; i < p->a->len; i++)
    if (p->a->loop[i] == a) return p->b->loop[i] == b;
  return false;
}

static bool same_index(const Pair *p, NestIndex a, NestIndex b) {
  if (!a || !b) return a == b;
  const Ix *x = &p->n->ix.at[a], *y = &p->n->ix.at[b];
  if (x->kind != y->kind || !dim_equal(x->value, y->value)) return false;
  switch (x->kind) {
  case IX_const:
    return true;
  case IX_loop:
    return same_loop(p, x->loop, y->loop);
  case IX_add:
    return (same_index(p, x->left, y->left) && same_index(p, x->right, y->right)) ||
           (same_index(p, x->left, y->right) && same_index(p, x->right, y->left));
  case IX_temp:
    return same_inst(p, x->temp, y->temp);
  default:
    return same_index(p, x->left, y->left);
  }
}

/* Do both passes give a thread the same elements in the same turns? */
static bool same_spread(const Nest *n, const Pass *a, const Pass *b) {
  if (a->rows != b->rows || a->spread != b->spread || a->vector != b->vector) return false;
  for (uint32_t i = 0; i < a->path.len; i++)
    if (!dim_equal(n->loops.at[a->path.loop[i]].extent, n->loops.at[b->path.loop[i]].extent))
      return false;
  return true;
}

/* ---------- the plan ---------- */

static bool is_open(const Device *d, const Pass *pass) {
  return pass->spread && pass->path.len == pass->rows + pass->spread &&
         launch_turns(d->b.n, d->piece->team, pass) > 0;
}

/* Which rows data name is not known: that may need statements of the innermost level. */
static bool uses_rows(const Nest *n, NestIndex ix, const Pass *pass) {
  for (uint32_t i = 0; i < pass->rows; i++)
    if (nest_ix_uses_loop(n, ix, pass->path.loop[i])) return true;
  return pass->rows == 0 || nest_ix_reads_data(n, ix);
}

static bool is_load(const Device *d, NestTemp t, const Pass *pass) {
  const Inst *x = &d->b.n->insts.at[t];
  if (x->kind != INST_load || x->guard || !d->b.uses[t]) return false;
  uint32_t last = pass->path.loop[pass->rows + pass->spread - 1];
  return nest_ix_uses_loop(d->b.n, x->ix, last) && uses_rows(d->b.n, x->ix, pass) &&
         (pass->vector == 1 ? !nest_ix_reads_data(d->b.n, x->ix) : vector_loads(d, x, pass));
}

static bool is_store(const Device *d, uint32_t root, const Pass *pass) {
  const NestRoot *r = &d->b.n->roots.at[root];
  return r->kind == ROOT_store && !r->row_only && body_place(&d->b, r->val)->home == HOME_block &&
         (pass->vector == 1 || vector_stores(d, root, pass));
}

static int words_of(const Device *d, Val v, const Pass *pass) {
  int turns = launch_turns(d->b.n, d->piece->team, pass);
  int bytes = (int)dtype_bytes(value_at(d->b.n->g, v)->type.dtype) * pass->vector;
  return turns * ((bytes + 3) / 4);
}

/* Gives the entry an array, if there is room. */
static bool want(Keeper *k, Entry *e) {
  if (e->name) return true;
  Device *d = k->d;
  Val v = e->load ? d->b.n->insts.at[e->load].val : d->b.n->roots.at[e->root].val;
  int words = words_of(d, v, e->pass);
  if (words > k->words) return false;
  k->words -= words;
  e->name = arena_printf(d->b.e->arena, "kept%u", d->n_kept++);
  if (e->load)
    d->keep_load[e->load] = e->name;
  else
    d->keep_store[e->root] = e->name;
  return true;
}

static Entry *find(Keeper *k, const Pass *pass, const Inst *x) {
  const Nest *n = k->d->b.n;
  for (uint32_t i = k->entries.len; i-- > 0;) {
    Entry *e = &k->entries.at[i];
    if (e->gone || e->base != kernel_base(k->d->b.p, x->val) || !same_spread(n, e->pass, pass))
      continue;
    const Pair pair = {n, &e->pass->path, &pass->path};
    NestIndex had = e->load ? n->insts.at[e->load].ix : n->roots.at[e->root].ix;
    Val v = e->load ? n->insts.at[e->load].val : n->roots.at[e->root].val;
    bool same_type = value_at(n->g, v)->type.dtype == value_at(n->g, x->val)->type.dtype;
    if (same_type && same_index(&pair, had, x->ix)) return e;
  }
  return NULL;
}

static void plan_loads(Keeper *k, const Pass *pass) {
  Device *d = k->d;
  const Nest *n = d->b.n;
  const Stage *s = &n->stages.at[pass->stage];
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    if (!is_load(d, i, pass)) continue;
    const Inst *x = &n->insts.at[i];
    Entry *e = find(k, pass, x);
    if (e && want(k, e)) {
      d->kept_load[i] = e->name;
      continue;
    }
    Entry own = {.pass = pass, .base = kernel_base(d->b.p, x->val), .load = i};
    vec_push(d->b.e->arena, &k->entries, own);
  }
}

/* What a pass writes takes the place of what was read before. */
static void plan_stores(Keeper *k, const Pass *pass, bool open) {
  Device *d = k->d;
  const Nest *n = d->b.n;
  for (uint32_t r = 0; r < n->roots.len; r++) {
    if (!pass->root[r] || n->roots.at[r].row_only) continue;
    Val base = kernel_base(d->b.p, n->roots.at[r].val);
    for (uint32_t i = 0; i < k->entries.len; i++)
      if (k->entries.at[i].base == base) k->entries.at[i].gone = true;
    if (!open || !is_store(d, r, pass)) continue;
    Entry own = {.pass = pass, .base = base, .root = r};
    vec_push(d->b.e->arena, &k->entries, own);
  }
}

/* Does a later pass read the memory that this one stores to? */
static bool is_read(const Device *d, const Pass *pass, Val base) {
  const Nest *n = d->b.n;
  const Stage *s = &n->stages.at[pass->stage];
  for (uint32_t i = s->first_inst + s->insts; i < n->insts.len; i++)
    if (n->insts.at[i].kind == INST_load && !d->kept_load[i] &&
        kernel_base(d->b.p, n->insts.at[i].val) == base)
      return true;
  return false;
}

/* What this kernel alone would read again is not stored, where an array has it. */
static void plan_unread(Keeper *k) {
  Device *d = k->d;
  int32_t kernel = (int32_t)(d->k - d->b.p->kernels.at);
  for (uint32_t i = 0; i < k->entries.len; i++) {
    const Entry *e = &k->entries.at[i];
    if (e->load || !e->name) continue;
    const ValuePlace *place = &d->b.p->places.at[d->b.n->roots.at[e->root].val];
    bool own = place->first == kernel && place->last == kernel;
    d->unread[e->root] = own && !is_read(d, e->pass, e->base);
  }
}

static bool is_alone(const Piece *piece, const Pass *pass) {
  for (uint32_t i = 0; i < piece->passes.len; i++)
    if (&piece->passes.at[i] != pass && piece->passes.at[i].stage == pass->stage) return false;
  return true;
}

void keep_plan(Device *d) {
  const Nest *n = d->b.n;
  Arena *a = d->b.e->arena;
  const Piece *piece = d->piece;
  d->keep_load = ARENA_ARRAY(a, const char *, n->insts.len + 1);
  d->kept_load = ARENA_ARRAY(a, const char *, n->insts.len + 1);
  d->keep_store = ARENA_ARRAY(a, const char *, n->roots.len + 1);
  d->unread = ARENA_ARRAY(a, bool, n->roots.len + 1);
  if (piece->shape != SHAPE_rows || piece->team == 1) return;
  Keeper k = {.d = d};
  k.words = piece->threads < 256 ? NARROW_WORDS : piece->threads == 256 ? BLOCK_WORDS : WIDE_WORDS;
  for (uint32_t r = 0; r < n->roots.len; r++) k.words -= d->root[r].held;
  for (uint32_t i = 0; i < piece->passes.len; i++) {
    const Pass *pass = &piece->passes.at[i];
    bool open = is_open(d, pass) && is_alone(piece, pass);
    scalar_begin_stage(&d->b, &n->stages.at[pass->stage], &pass->path, pass->root);
    if (open) plan_loads(&k, pass);
    plan_stores(&k, pass, open);
  }
  plan_unread(&k);
}

/* ---------- writing ---------- */

const char *keep_turn(const Device *d) {
  return arena_printf(d->b.e->arena, "u / %d", d->piece->team * d->pass->vector);
}

static void declare(Device *d, const char *name, Val v) {
  const Pass *pass = d->pass;
  const char *type = d->b.e->target->storage_type(value_at(d->b.n->g, v)->type.dtype);
  int turns = launch_turns(d->b.n, d->piece->team, pass);
  /* where the last turn has no element for some threads, compilers would warn */
  bool some = launch_extent(d->b.p, d->b.n, &pass->path, pass->rows, pass->rows + pass->spread) %
              (d->piece->team * pass->vector);
  if (pass->vector > 1) type = arena_printf(d->b.e->arena, "DdpVector<%s, %d>", type, pass->vector);
  body_line(&d->b, "%s %s[%d]%s;", type, name, turns, some ? " = {}" : "");
}

void keep_declare(Device *d) {
  const Nest *n = d->b.n;
  const Stage *s = &n->stages.at[d->pass->stage];
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++)
    if (d->keep_load[i]) declare(d, d->keep_load[i], n->insts.at[i].val);
  for (uint32_t r = 0; r < n->roots.len; r++)
    if (d->pass->root[r] && d->keep_store[r]) declare(d, d->keep_store[r], n->roots.at[r].val);
}

void keep_stored(Device *d, uint32_t root, const char *value) {
  Body *b = &d->b;
  const NestRoot *r = &b->n->roots.at[root];
  const char *keep = arena_printf(b->e->arena, "%s[%s]", d->keep_store[root], keep_turn(d));
  if (d->unread[root])
    body_line(b, "%s = %s;", keep, value);
  else
    body_line(b, "%s[%s] = %s = %s;", body_operand(b, OPERAND_memory, r->val, true),
              scalar_index(b, r->ix, BIND_weak), keep, value);
}

/* Without neighbours: loads of the turn, in front of its statements. */
void keep_single(Device *d) {
  Body *b = &d->b;
  const Nest *n = b->n;
  const Stage *s = &n->stages.at[d->pass->stage];
  const char *turn = keep_turn(d);
  b->neighbour = ARENA_ARRAY(b->e->arena, const char *, n->insts.len + 1);
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    const char *name = d->keep_load[i] ? d->keep_load[i] : d->kept_load[i];
    if (!name) continue;
    const char *at = b->neighbour[i] = arena_printf(b->e->arena, "%s[%s]", name, turn);
    const Inst *x = &n->insts.at[i];
    if (d->keep_load[i])
      body_line(b, "%s = %s[%s];", at, body_operand(b, OPERAND_memory, x->val, false),
                scalar_index(b, x->ix, BIND_weak));
  }
}
