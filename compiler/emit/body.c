/* One kernel being written, whatever the target: its operands, what its roots need to know. */
#include "die.h"
#include "op.h"
#include "scalar.h"
#include <ctype.h>

/* Those of the texts around operands that look like theirs; t0, from1 and the like are kept free too. */
static const char *const used[] = {"i",     "j",      "k",      "l",          "m",      "n",
                                   "o",     "p",      "q",      "u",          "v",      "B",
                                   "at",    "row",    "rows",   "first",      "last",   "lane",
                                   "along", "team",   "thread", "accumulate", "more",   "scalars",
                                   "rates", "groups", "group",  "scratch",    "stream", "s"};

/* "weight", "weight_2". */
static const char *own_name(Body *b, const char *wanted) {
  if (!b->taken.arena) {
    names_init(&b->taken, b->e->arena, NULL);
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) names_add(&b->taken, used[i]);
  }
  if (!wanted || !*wanted) wanted = "x";
  const char *c = wanted;
  while (isalpha((unsigned char)*c)) c++;
  bool numbered = isdigit((unsigned char)*c);
  while (isdigit((unsigned char)*c)) c++;
  if (numbered && !*c) wanted = arena_printf(b->e->arena, "%s_", wanted);
  return names_add(&b->taken, wanted);
}

/* "adam_beta1" of train.adam_beta1. */
static const char *host_word(const Value *v) {
  if (v->op != OP_host) return op_def(v->op)->name;
  const char *name = v->attr[0].as.text, *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

const char *body_operand(Body *b, OperandKind kind, Val val, bool written) {
  bool memory = kind == OPERAND_memory || kind == OPERAND_sum;
  Val shown = memory ? kernel_named(b->p, val) : val;
  if (b->operand_name) return b->operand_name(b->self, kind, shown);
  if (memory) val = kernel_base(b->p, val);
  for (uint32_t i = 0; i < b->operands->len; i++) {
    Operand *o = &b->operands->at[i];
    if (o->kind == kind && o->val == val) {
      if (written) o->shown = shown;
      o->written = o->written || written;
      o->read = o->read || !written;
      return o->name;
    }
  }
  static const char *const words[] = {"",           "sum",     "",        "draw",  "B",
                                      "accumulate", "more",    "scalars", "rates", "groups",
                                      "group",      "scratch", "stream"};
  const char *name = words[kind];
  if (kind == OPERAND_memory) name = b->p->places.at[shown].local;
  if (kind == OPERAND_host) name = host_word(value_at(b->n->g, val));
  if (kind < OPERAND_batch) name = own_name(b, name);
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

/* Where the bracket that the text begins with is closed; 0: it begins with none. */
static size_t closes_at(const char *text) {
  size_t i = 0;
  int depth = 0;
  do {
    depth += (text[i] == '(') - (text[i] == ')');
  } while (depth > 0 && text[++i]);
  return i;
}

const char *root_stored(Body *b, const NestRoot *r, const char *value) {
  DType t = value_at(b->n->g, r->val)->type.dtype;
  const char *convert = b->e->target->store(t);
  if (dtype_is_half(t)) { /* what is rounded already is stored as it is */
    const char *round = b->e->target->round(t);
    size_t n = strlen(round), end = strlen(value);
    if (!strncmp(value, round, n) && closes_at(value + n) == end - n - 1)
      value = arena_strndup(b->e->arena, value + n + 1, end - n - 2);
  }
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
  const char *adds = root_adds(b, r);
  if (adds && strchr(value, ' ')) { /* it stands there twice */
    const char *name = arena_printf(b->e->arena, "t%u", b->names++);
    body_line(b, "const %s %s = %s;", root_type(b, r), name, value);
    value = name;
  }
  const char *y = body_operand(b, OPERAND_memory, r->val, true);
  const char *ix = scalar_index(b, r->ix, BIND_weak);
  if (place->home == HOME_out)
    body_line(b, "%s%s = %s;", b->operand_name ? "" : "*", y, value);
  else if (adds)
    body_line(b, "%s[%s] = %s ? %s[%s] + %s : %s;", y, ix, adds, y, ix, value, value);
  else
    body_line(b, "%s[%s] = %s;", y, ix, value);
}
