/* One kernel being written, whatever the target: its operands, what its roots need to know. */
#include "die.h"
#include "scalar.h"

const char *body_operand(Body *b, OperandKind kind, Val val, bool written) {
  bool memory = kind == OPERAND_memory || kind == OPERAND_sum;
  Val shown = memory ? kernel_named(b->p, val) : val;
  if (b->operand_name) return b->operand_name(b->self, kind, shown);
  if (memory) val = kernel_base(b->p, val);
  uint32_t same_kind = 0;
  for (uint32_t i = 0; i < b->operands->len; i++) {
    Operand *o = &b->operands->at[i];
    if (o->kind == kind && o->val == val) {
      if (written) o->shown = shown;
      o->written = o->written || written;
      o->read = o->read || !written;
      return o->name;
    }
    if (o->kind == kind && (kind != OPERAND_memory || *o->name == (written ? 'y' : 'x')))
      same_kind++;
  }
  static const char *const prefix[] = {"",           "sum",     "h",       "draw",  "B",
                                       "accumulate", "more",    "scalars", "rates", "groups",
                                       "group",      "scratch", "stream"};
  const char *name = kind == OPERAND_memory ? (written ? "y" : "x") : prefix[kind];
  if (kind < OPERAND_batch) name = arena_printf(b->e->arena, "%s%u", name, same_kind);
  vec_push(b->e->arena, b->operands, (Operand){kind, val, shown, written, !written, name});
  return name;
}

bool body_in_place(const Body *b, Val val) {
  val = kernel_base(b->p, val);
  for (uint32_t i = 0; i < b->n->roots.len; i++) {
    const NestRoot *r = &b->n->roots.at[i];
    if (!r->row_only && kernel_base(b->p, r->val) == val) return true;
  }
  return false;
}

void body_begin(Body *b, const Kernel *k) {
  Arena *a = b->e->arena;
  const Nest *n = b->n = k->nest;
  b->accumulates = k->accumulate;
  b->scalar = ARENA_ARRAY(a, Scalar, n->insts.len + 1);
  b->uses = ARENA_ARRAY(a, uint32_t, n->insts.len + 1);
  b->depth = ARENA_ARRAY(a, uint32_t, n->insts.len + 1);
  b->row = ARENA_ARRAY(a, const char *, n->roots.len + 1);
  b->loop_name = ARENA_ARRAY(a, const char *, n->loops.len + 1);
}

LoopPath body_path(Body *b, const Stage *s) {
  static const char *const names[] = {"i", "j", "k", "l", "m", "n", "o", "p", "q"};
  LoopPath path = {0};
  for (uint32_t l = 0; l < b->n->outer; l++) path.loop[path.len++] = l;
  for (uint32_t l = 0; l < s->loops; l++) path.loop[path.len++] = s->first_loop + l;
  check(path.len <= sizeof names / sizeof *names, "a kernel of %u loops", path.len);
  for (uint32_t l = 0; l < path.len; l++) b->loop_name[path.loop[l]] = names[l];
  return path;
}

void body_written(Body *b) {
  for (uint32_t i = 0; i < b->n->roots.len; i++) {
    const NestRoot *r = &b->n->roots.at[i];
    if (!r->row_only)
      body_operand(b, root_is_sum(b, r) ? OPERAND_sum : OPERAND_memory, r->val, true);
  }
}

/* ---------- roots ---------- */

const ValuePlace *body_place(const Body *b, Val v) {
  return &b->p->places.at[kernel_base(b->p, v)];
}

bool root_is_sum(const Body *b, const NestRoot *r) {
  return !r->row_only && body_place(b, r->val)->home == HOME_sum;
}

const char *root_type(const Body *b, const NestRoot *r) {
  DType t = b->n->insts.at[r->temp].dtype;
  if (root_is_sum(b, r)) return "double";
  if (dtype_category(t) != 'f' && r->kind == ROOT_sum) return "int64_t";
  return b->e->target->compute_type(t);
}

const char *root_lowest(DType t) {
  switch (dtype_category(t)) {
  case 'b':
    return "false";
  case 'f':
    return "-INFINITY";
  default:
    return t == DT_u8 ? "0" : t == DT_i32 ? "INT32_MIN" : "INT64_MIN";
  }
}

bool root_checks_nan(const Nest *n, const NestRoot *r) {
  return dtype_category(n->insts.at[r->temp].dtype) == 'f';
}

bool root_is_read(const Nest *n, Val v) {
  for (uint32_t i = 1; i < n->insts.len; i++)
    if (n->insts.at[i].kind == INST_row && n->insts.at[i].val == v) return true;
  return false;
}

const char *root_stored(Body *b, const NestRoot *r, const char *value) {
  const char *convert = b->e->target->store(value_at(b->n->g, r->val)->type.dtype);
  return *convert ? arena_printf(b->e->arena, "%s(%s)", convert, value) : value;
}

const char *root_adds(Body *b, const NestRoot *r) {
  if (body_place(b, r->val)->home == HOME_grad && b->accumulates)
    return body_operand(b, OPERAND_accumulate, 0, false);
  bool sum = b->p->places.at[r->val].chunk == CHUNK_sum; /* its own: not what lay there before */
  return sum ? body_operand(b, OPERAND_more, 0, false) : NULL;
}

void body_store(Body *b, const NestRoot *r, const char *value) {
  const ValuePlace *place = body_place(b, r->val);
  if (place->home == HOME_sum) {
    body_line(b, "*%s += %s;", body_operand(b, OPERAND_sum, r->val, true), value);
    return;
  }
  value = root_stored(b, r, value);
  const char *y = body_operand(b, OPERAND_memory, r->val, true);
  const char *ix = scalar_index(b, r->ix, BIND_weak), *adds = root_adds(b, r);
  if (place->home == HOME_out)
    body_line(b, "%s%s = %s;", b->operand_name ? "" : "*", y, value);
  else if (adds) /* the value may be a sum or a choice */
    body_line(b,
              strchr(value, ' ') ? "%s[%s] = %s ? %s[%s] + (%s) : %s;"
                                 : "%s[%s] = %s ? %s[%s] + %s : %s;",
              y, ix, adds, y, ix, value, value);
  else
    body_line(b, "%s[%s] = %s;", y, ix, value);
}
