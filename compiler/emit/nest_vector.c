/* Neighbours in one access: elements of the last loop that is spread, where an index is that loop plus what
   is a multiple of their number, so that the address is a multiple of the access. In: the pass. Out: loads
   in front of a loop over the neighbours, stores behind it. */
#include "nest_device.h"
#include "op.h"
#include <ctype.h>

/* Is the index a multiple of v, whatever the loops are? */
static bool is_multiple(const Nest *n, NestIndex at, int v) {
  const Ix *x = &n->ix.at[at];
  switch (x->kind) {
  case IX_const:
    return x->value.fixed % v == 0 && x->value.per_batch % v == 0;
  case IX_mul:
    return (x->value.fixed % v == 0 && x->value.per_batch % v == 0) || is_multiple(n, x->left, v);
  case IX_add:
    return is_multiple(n, x->left, v) && is_multiple(n, x->right, v);
  default:
    return false;
  }
}

/* loop + what is a multiple of v; v = 1: the loop once, and nothing else of it. */
static bool is_row(const Nest *n, NestIndex at, uint32_t loop, int v) {
  const Ix *x = &n->ix.at[at];
  if (x->kind == IX_loop) return x->loop == loop;
  if (x->kind != IX_add) return false;
  const NestIndex side[] = {x->left, x->right};
  for (int i = 0; i < 2; i++)
    if (!nest_ix_uses_loop(n, side[1 - i], loop) && is_row(n, side[i], loop, v))
      return v == 1 || is_multiple(n, side[1 - i], v);
  return false;
}

/* Memory whose address is a multiple of 16: arenas and the block, at their places. */
static bool is_aligned(const Program *p, Val v) {
  switch (p->places.at[kernel_base(p, v)].home) {
  case HOME_param:
  case HOME_buffer:
  case HOME_grad:
  case HOME_block:
    return true;
  default:
    return false;
  }
}

static uint32_t last_loop(const Pass *pass) {
  return pass->path.loop[pass->rows + pass->spread - 1];
}

static bool loads_neighbours(const Program *p, const Nest *n, const Inst *x, uint32_t loop, int v) {
  return x->kind == INST_load && !x->guard && is_aligned(p, x->val) && is_row(n, x->ix, loop, v);
}

static bool stores_neighbours(const Program *p, const Nest *n, const NestRoot *r, uint32_t loop,
                              int v) {
  return r->kind == ROOT_store && !r->row_only && is_aligned(p, r->val) &&
         is_row(n, r->ix, loop, v);
}

static int bytes_of(const Nest *n, Val v) {
  return (int)dtype_bytes(value_at(n->g, v)->type.dtype);
}

/* Is it the same for all rows, and so in the cache? */
static bool is_shared(const Nest *n, NestIndex ix, const Pass *pass) {
  for (uint32_t i = 0; i + 1 < pass->rows + pass->spread; i++)
    if (nest_ix_uses_loop(n, ix, pass->path.loop[i])) return false;
  return pass->rows + pass->spread > 1;
}

/* 16 bytes in one access; numbers that all rows share may take two. */
static bool is_short(const Nest *n, Val v, NestIndex ix, const Pass *pass, int many) {
  return many * bytes_of(n, v) <= (is_shared(n, ix, pass) ? 32 : 16);
}

bool vector_loads(const Device *d, const Inst *x, const Pass *pass) {
  return loads_neighbours(d->b.p, d->b.n, x, last_loop(pass), pass->vector);
}

int vector_of(const Program *p, const Nest *n, const Pass *pass) {
  if (!pass->spread || pass->path.len != pass->rows + pass->spread) return 1;
  uint32_t loop = last_loop(pass);
  Dim extent = n->loops.at[loop].extent;
  if (extent.per_batch) return 1;
  const Stage *s = &n->stages.at[pass->stage];
  for (int v = 8; v > 1; v /= 2) {
    bool any = false, fits = extent.fixed % v == 0;
    for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
      const Inst *x = &n->insts.at[i];
      if (!loads_neighbours(p, n, x, loop, 1)) continue;
      fits = fits && is_short(n, x->val, x->ix, pass, v);
      any = any || loads_neighbours(p, n, x, loop, v);
    }
    for (uint32_t i = s->first_root; i < s->first_root + s->roots; i++) {
      const NestRoot *r = &n->roots.at[i];
      if (!pass->root[i] || !stores_neighbours(p, n, r, loop, 1)) continue;
      fits = fits && is_short(n, r->val, r->ix, pass, v);
      any = any || stores_neighbours(p, n, r, loop, v);
    }
    if (any && fits) return v;
  }
  return 1;
}

/* ---------- writing ---------- */

static const char *vector_type(Device *d, Val v) {
  const Body *b = &d->b;
  return arena_printf(b->e->arena, "DdpVector<%s, %d>",
                      b->e->target->storage_type(value_at(b->n->g, v)->type.dtype),
                      d->pass->vector);
}

bool vector_stores(const Device *d, uint32_t root, const Pass *pass) {
  const NestRoot *r = &d->b.n->roots.at[root];
  bool adds = d->b.accumulates && body_place(&d->b, r->val)->home == HOME_grad;
  return pass->root[root] && !adds &&
         stores_neighbours(d->b.p, d->b.n, r, last_loop(pass), pass->vector);
}

void vector_open(Device *d, const char *first) {
  Body *b = &d->b;
  const Pass *pass = d->pass;
  const Nest *n = b->n;
  uint32_t loop = last_loop(pass), names = 0;
  const char *name = b->loop_name[loop];
  b->loop_name[loop] = first;
  b->neighbour = ARENA_ARRAY(b->e->arena, const char *, n->insts.len + 1);
  const Stage *s = &n->stages.at[pass->stage];
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    const Inst *x = &n->insts.at[i];
    if (!b->uses[i] || !loads_neighbours(b->p, n, x, loop, pass->vector)) continue;
    if (d->kept_load[i]) {
      body_line(b, "const auto from%u = %s[%s];", names, d->kept_load[i], keep_turn(d));
    } else {
      const char *from = body_operand(b, OPERAND_memory, x->val, false);
      body_line(b, "const auto from%u = ddp_vector<%d>(%s + %s);", names, pass->vector, from,
                scalar_index(b, x->ix, BIND_sum));
      if (d->keep_load[i]) body_line(b, "%s[%s] = from%u;", d->keep_load[i], keep_turn(d), names);
    }
    b->neighbour[i] = arena_printf(b->e->arena, "from%u.at[v]", names++);
  }
  for (uint32_t i = 0; i < n->roots.len; i++) {
    d->root[i].neighbours = vector_stores(d, i, pass) ? arena_printf(b->e->arena, "to%u", i) : NULL;
    if (d->root[i].neighbours)
      body_line(b, "%s %s;", vector_type(d, n->roots.at[i].val), d->root[i].neighbours);
  }
  b->loop_name[loop] = name;
  body_line(b, "DDP_UNROLL");
  device_open(d, "for (int v = 0; v < %d; v++)", pass->vector);
  d->name_at = b->out->len;
  body_line(b, "const %s %s = %s + v;", device_index_type(b), name, first);
}

void vector_drop_name(Device *d, size_t place, const char *name) {
  Text *t = d->b.out;
  char *line = t->at + place, *behind = strchr(line, '\n') + 1;
  for (const char *at = behind; (at = strstr(at, name)); at++) {
    char before = at[-1], after = at[strlen(name)];
    if (!isalnum((unsigned char)before) && before != '_' && !isalnum((unsigned char)after) &&
        after != '_')
      return;
  }
  size_t n = (size_t)(behind - line);
  memmove(line, behind, t->len - place - n + 1);
  t->len -= n;
}

void vector_close(Device *d, const char *first) {
  Body *b = &d->b;
  const Nest *n = b->n;
  uint32_t loop = last_loop(d->pass);
  const char *name = b->loop_name[loop];
  vector_drop_name(d, d->name_at, name);
  device_close(d);
  b->neighbour = NULL;
  b->loop_name[loop] = first;
  for (uint32_t i = 0; i < n->roots.len; i++) {
    if (!d->pass->root[i] || !d->root[i].neighbours) continue;
    const NestRoot *r = &n->roots.at[i];
    if (!d->unread[i])
      body_line(b, "ddp_store_vector(%s + %s, %s);", body_operand(b, OPERAND_memory, r->val, true),
                scalar_index(b, r->ix, BIND_sum), d->root[i].neighbours);
    if (d->keep_store[i])
      body_line(b, "%s[%s] = %s;", d->keep_store[i], keep_turn(d), d->root[i].neighbours);
    d->root[i].neighbours = NULL;
  }
  b->loop_name[loop] = name;
}
