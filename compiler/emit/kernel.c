/* Loop nests as C functions: loops, accumulators, stores. Scalars are written by scalar.c.
   A root's loops that do not occur in its index are reduced: the last of the path in a scalar, the
   others (and kept loops inside them) by adding to memory that is cleared before; see nest.h. */
#include "kernel.h"
#include "die.h"
#include "scalar.h"
#include "op.h"

Val kernel_base(const Program *p, Val v) {
  while (p->places.at[v].home == HOME_alias) v = p->places.at[v].alias;
  Val source = p->places.at[v].updates;
  return source ? source : v;
}

Val kernel_named(const Program *p, Val v) {
  while (p->places.at[v].home == HOME_alias) v = p->places.at[v].alias;
  return p->places.at[v].home == HOME_block ? v : kernel_base(p, v);
}

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
  static const char *const prefix[] = {"", "sum", "h", "draw", "B", "accumulate"};
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

/* ---------- what a root needs ---------- */

typedef struct RootPlan {
  bool reduces;
  bool scalar; /* has an accumulator, declared before path loop `from` */
  bool memory; /* adds to memory that is cleared before path loop `clear` */
  uint32_t from, clear;
  const char *acc, *at; /* accumulator; position (argmax), NaN flag (max) */
} RootPlan;

typedef struct Writer {
  Body b;
  LoopPath *path;  /* by stage */
  RootPlan *root;  /* by root */
  bool accumulate; /* the kernel may add to gradients */
  uint32_t sums, maxima;
} Writer;

static const ValuePlace *place_of(const Writer *w, Val v) {
  return &w->b.p->places.at[kernel_base(w->b.p, v)];
}
static bool is_sum(const Writer *w, const NestRoot *r) {
  return !r->row_only && place_of(w, r->val)->home == HOME_sum;
}

static void plan_root(Writer *w, uint32_t number, const LoopPath *path) {
  const NestRoot *r = &w->b.n->roots.at[number];
  RootPlan *plan = &w->root[number];
  bool reduced[16];
  uint32_t first = path->len, from = path->len;
  for (uint32_t i = path->len; i-- > 0;) {
    reduced[i] = !nest_ix_uses_loop(w->b.n, r->ix, path->loop[i]);
    if (reduced[i]) first = i;
    if (reduced[i] && from == i + 1) from = i;
  }
  plan->reduces = first < path->len;
  if (r->kind == ROOT_store) {
    check(!plan->reduces, "a store inside a loop that it does not depend on");
    return;
  }
  plan->scalar = from < path->len;
  plan->from = from;
  plan->memory = plan->reduces && first != from;
  check(!plan->memory || !dtype_is_half(value_at(w->b.n->g, r->val)->type.dtype),
        "a sum in 16-bit memory");
  plan->clear = first;
  if (!plan->scalar) return;
  check(!plan->memory || r->kind == ROOT_sum, "a maximum over loops that are not the last ones");
  Arena *a = w->b.e->arena;
  if (r->kind == ROOT_sum) {
    plan->acc = arena_printf(a, "s%u", w->sums++);
    return;
  }
  plan->acc = arena_printf(a, "m%u", w->maxima);
  plan->at = arena_printf(a, r->kind == ROOT_argmax ? "at%u" : "nan%u", w->maxima++);
}

/* Type in which a sum or maximum of t is kept: losses and metrics in double. */
static const char *acc_type(const Writer *w, const NestRoot *r) {
  DType t = w->b.n->insts.at[r->temp].dtype;
  if (is_sum(w, r)) return "double";
  if (dtype_category(t) != 'f' && r->kind == ROOT_sum) return "int64_t";
  return w->b.e->target->compute_type(t);
}

static const char *lowest(DType t) {
  switch (dtype_category(t)) {
  case 'b':
    return "false";
  case 'f':
    return "-INFINITY";
  default:
    return t == DT_u8 ? "0" : t == DT_i32 ? "INT32_MIN" : "INT64_MIN";
  }
}
static bool checks_nan(const Writer *w, const NestRoot *r) {
  return dtype_category(w->b.n->insts.at[r->temp].dtype) == 'f';
}

/* ---------- stores ---------- */

static void write_store(Writer *w, const NestRoot *r, const char *value) {
  Body *b = &w->b;
  const ValuePlace *place = place_of(w, r->val);
  if (place->home == HOME_sum) {
    body_line(b, "*%s += %s;", body_operand(b, OPERAND_sum, r->val, true), value);
    return;
  }
  const char *convert = b->e->target->store(value_at(b->n->g, r->val)->type.dtype);
  if (*convert) value = arena_printf(b->e->arena, "%s(%s)", convert, value);
  const char *y = body_operand(b, OPERAND_memory, r->val, true);
  const char *ix = scalar_index(b, r->ix, BIND_weak);
  if (place->home == HOME_out)
    body_line(b, "%s%s = %s;", b->operand_name ? "" : "*", y, value);
  else if (place->home == HOME_grad && w->accumulate) /* the value may be a sum or a choice */
    body_line(b,
              strchr(value, ' ') ? "%s[%s] = %s ? %s[%s] + (%s) : %s;"
                                 : "%s[%s] = %s ? %s[%s] + %s : %s;",
              y, ix, body_operand(b, OPERAND_accumulate, 0, false), y, ix, value, value);
  else
    body_line(b, "%s[%s] = %s;", y, ix, value);
}

static void open_loop(Writer *w, uint32_t loop);
static void close_loop(Writer *w);

/* Clears the memory that a root adds to, over the kept loops inside the first reduced one. */
static void write_clear(Writer *w, const NestRoot *r, const RootPlan *plan, const LoopPath *path) {
  Body *b = &w->b;
  const char *indent = b->indent;
  bool keeps = place_of(w, r->val)->home == HOME_grad && w->accumulate;
  uint32_t opened = 0;
  if (keeps) {
    body_line(b, "if (!%s) {", body_operand(b, OPERAND_accumulate, 0, false));
    b->indent = arena_printf(b->e->arena, "%s  ", b->indent);
  }
  for (uint32_t i = plan->clear; i < path->len; i++) {
    if (!nest_ix_uses_loop(b->n, r->ix, path->loop[i])) continue;
    open_loop(w, path->loop[i]);
    opened++;
  }
  body_line(b, "%s[%s] = 0;", body_operand(b, OPERAND_memory, r->val, true),
            scalar_index(b, r->ix, BIND_weak));
  while (opened--) close_loop(w);
  b->indent = indent;
  if (keeps) body_line(b, "}");
}

/* ---------- accumulators ---------- */

static void declare_accumulator(Writer *w, uint32_t number) {
  Body *b = &w->b;
  const NestRoot *r = &b->n->roots.at[number];
  const RootPlan *plan = &w->root[number];
  DType t = b->n->insts.at[r->temp].dtype;
  if (r->kind == ROOT_sum) {
    body_line(b, "%s %s = 0;", acc_type(w, r), plan->acc);
    return;
  }
  body_line(b, "%s %s = %s;", acc_type(w, r), plan->acc, lowest(t));
  if (r->kind == ROOT_argmax)
    body_line(b, "int64_t %s = 0;", plan->at);
  else if (checks_nan(w, r))
    body_line(b, "int %s = 0;", plan->at);
}

static const char *reduced_position(Writer *w, const RootPlan *plan, const LoopPath *path) {
  Body *b = &w->b;
  const char *text = b->loop_name[path->loop[plan->from]];
  for (uint32_t i = plan->from + 1; i < path->len; i++) {
    Text d = {0};
    write_dim(&d, b->n->loops.at[path->loop[i]].extent);
    text = arena_printf(b->e->arena, i == plan->from + 1 ? "%s * (%s) + %s" : "(%s) * (%s) + %s",
                        text, d.at, b->loop_name[path->loop[i]]);
    text_free(&d);
  }
  return text;
}

static void accumulate(Writer *w, uint32_t number, const LoopPath *path) {
  Body *b = &w->b;
  const NestRoot *r = &b->n->roots.at[number];
  const RootPlan *plan = &w->root[number];
  if (r->kind == ROOT_sum) {
    body_line(b, "%s += %s;", plan->acc, scalar_text(b, r->temp, BIND_weak));
    return;
  }
  const char *t = scalar_name(b, r->temp);
  bool nan = checks_nan(w, r);
  if (r->kind == ROOT_max) {
    if (nan) body_line(b, "%s |= isnan(%s);", plan->at, t);
    body_line(b, "%s = %s > %s ? %s : %s;", plan->acc, t, plan->acc, t, plan->acc);
    return;
  }
  if (nan)
    body_line(b, "if (%s > %s || (isnan(%s) && !isnan(%s))) {", t, plan->acc, t, plan->acc);
  else
    body_line(b, "if (%s > %s) {", t, plan->acc);
  body_line(b, "  %s = %s;", plan->acc, t);
  body_line(b, "  %s = %s;", plan->at, reduced_position(w, plan, path));
  body_line(b, "}");
}

/* After the loops of the accumulator: where its value goes. */
static void finish_accumulator(Writer *w, uint32_t number) {
  Body *b = &w->b;
  const NestRoot *r = &b->n->roots.at[number];
  const RootPlan *plan = &w->root[number];
  const char *value = r->kind == ROOT_argmax ? plan->at : plan->acc;
  if (r->kind == ROOT_max && checks_nan(w, r))
    body_line(b, "if (%s) %s = NAN;", plan->at, plan->acc);
  if (plan->memory) {
    body_line(b, "%s[%s] += %s;", body_operand(b, OPERAND_memory, r->val, true),
              scalar_index(b, r->ix, BIND_weak), value);
    return;
  }
  if (!r->row_only) write_store(w, r, value);
  b->row[number] = value;
}

/* Roots that have something to do before / after path loop `position`, which lies at this level. */
static void before_loop(Writer *w, uint32_t stage, uint32_t position) {
  const Stage *s = &w->b.n->stages.at[stage];
  for (uint32_t i = s->first_root; i < s->first_root + s->roots; i++) {
    const RootPlan *plan = &w->root[i];
    if (plan->memory && plan->clear == position)
      write_clear(w, &w->b.n->roots.at[i], plan, &w->path[stage]);
    if (plan->scalar && plan->from == position) declare_accumulator(w, i);
  }
}
static void after_loop(Writer *w, uint32_t stage, uint32_t position) {
  const Stage *s = &w->b.n->stages.at[stage];
  for (uint32_t i = s->first_root; i < s->first_root + s->roots; i++)
    if (w->root[i].scalar && w->root[i].from == position) finish_accumulator(w, i);
}

/* ---------- loops ---------- */

static void open_loop(Writer *w, uint32_t loop) {
  Body *b = &w->b;
  const char *i = b->loop_name[loop];
  Dim extent = b->n->loops.at[loop].extent;
  Text d = {0};
  write_dim(&d, extent);
  if (extent.per_batch) body_operand(b, OPERAND_batch, 0, false);
  body_line(b, "for (int64_t %s = 0; %s < %s; %s++) {", i, i, d.at, i);
  text_free(&d);
  b->indent = arena_printf(b->e->arena, "%s  ", b->indent);
}
static void close_loop(Writer *w) {
  Body *b = &w->b;
  b->indent = arena_strndup(b->e->arena, b->indent, strlen(b->indent) - 2);
  body_line(b, "}");
}

/* The innermost loop of some stages: sums and maxima in lanes of a fixed number, so that the order of
   additions does not depend on the compiler. */
static void write_simd(Writer *w, uint32_t first_stage, uint32_t stages, uint32_t position) {
  Text sums = {0}, maxima = {0}, flags = {0};
  bool possible = true;
  for (uint32_t k = first_stage; k < first_stage + stages; k++) {
    const Stage *s = &w->b.n->stages.at[k];
    for (uint32_t i = s->first_root; i < s->first_root + s->roots; i++) {
      const NestRoot *r = &w->b.n->roots.at[i];
      const RootPlan *plan = &w->root[i];
      if (!plan->scalar || plan->from > position) continue;
      bool logical = w->b.n->insts.at[r->temp].dtype == DT_bool && r->kind == ROOT_max;
      possible = possible && r->kind != ROOT_argmax && !logical;
      Text *t = r->kind == ROOT_sum ? &sums : &maxima;
      text_addf(t, "%s%s", t->len ? ", " : "", plan->acc);
      if (r->kind == ROOT_max && checks_nan(w, r))
        text_addf(&flags, "%s%s", flags.len ? ", " : "", plan->at);
    }
  }
  if (possible && (sums.len || maxima.len)) {
    text_add(w->b.out, "#pragma omp simd simdlen(16)");
    if (sums.len) text_addf(w->b.out, " reduction(+ : %s)", sums.at);
    if (maxima.len) text_addf(w->b.out, " reduction(max : %s)", maxima.at);
    if (flags.len) text_addf(w->b.out, " reduction(| : %s)", flags.at);
    text_add(w->b.out, "\n");
  }
  text_free(&sums);
  text_free(&maxima);
  text_free(&flags);
}

/* Does a later stage read what this root leaves? */
static bool row_wanted(const Nest *n, Val v) {
  for (uint32_t i = 1; i < n->insts.len; i++)
    if (n->insts.at[i].kind == INST_row && n->insts.at[i].val == v) return true;
  return false;
}

static void write_roots(Writer *w, uint32_t stage) {
  Body *b = &w->b;
  const Stage *s = &b->n->stages.at[stage];
  const LoopPath *path = &w->path[stage];
  for (uint32_t i = s->first_root; i < s->first_root + s->roots; i++) {
    const NestRoot *r = &b->n->roots.at[i];
    const RootPlan *plan = &w->root[i];
    if (plan->scalar) {
      accumulate(w, i, path);
    } else if (plan->memory) {
      body_line(b, "%s[%s] += %s;", body_operand(b, OPERAND_memory, r->val, true),
                scalar_index(b, r->ix, BIND_weak), scalar_text(b, r->temp, BIND_weak));
    } else {
      bool per_row = s->loops == 0 && row_wanted(b->n, r->val);
      const char *t = per_row ? scalar_name(b, r->temp) : scalar_text(b, r->temp, BIND_weak);
      if (per_row) b->row[i] = t;
      if (!r->row_only) write_store(w, r, t);
    }
  }
}

static void write_stage(Writer *w, uint32_t stage, uint32_t position) {
  Body *b = &w->b;
  const Stage *s = &b->n->stages.at[stage];
  const LoopPath *path = &w->path[stage];
  scalar_statements(b, s, path, position);
  if (position == path->len) {
    write_roots(w, stage);
    return;
  }
  before_loop(w, stage, position);
  if (position + 1 == path->len) write_simd(w, stage, 1, position);
  open_loop(w, path->loop[position]);
  write_stage(w, stage, position + 1);
  close_loop(w);
  after_loop(w, stage, position);
}

static void write_outer(Writer *w, uint32_t position) {
  Body *b = &w->b;
  const Nest *n = b->n;
  if (position == n->outer) {
    for (uint32_t k = 0; k < n->stages.len; k++) write_stage(w, k, position);
    return;
  }
  bool innermost = position + 1 == n->outer;
  for (uint32_t k = 0; k < n->stages.len; k++) {
    scalar_statements(b, &n->stages.at[k], &w->path[k], position);
    innermost = innermost && n->stages.at[k].loops == 0;
  }
  for (uint32_t k = 0; k < n->stages.len; k++) before_loop(w, k, position);
  if (innermost) write_simd(w, 0, n->stages.len, position);
  open_loop(w, w->path[0].loop[position]);
  write_outer(w, position + 1);
  close_loop(w);
  for (uint32_t k = 0; k < n->stages.len; k++) after_loop(w, k, position);
}

/* ---------- whole kernels ---------- */

static void write_body(Writer *w, const Kernel *k) {
  static const char *const names[] = {"i", "j", "k", "l", "m", "n", "o", "p", "q"};
  Body *b = &w->b;
  const Nest *n = k->nest;
  Arena *a = b->e->arena;
  b->n = n;
  b->scalar = ARENA_ARRAY(a, Scalar, n->insts.len + 1);
  b->uses = ARENA_ARRAY(a, uint32_t, n->insts.len + 1);
  b->depth = ARENA_ARRAY(a, uint32_t, n->insts.len + 1);
  b->row = ARENA_ARRAY(a, const char *, n->roots.len + 1);
  b->loop_name = ARENA_ARRAY(a, const char *, n->loops.len + 1);
  w->path = ARENA_ARRAY(a, LoopPath, n->stages.len + 1);
  w->root = ARENA_ARRAY(a, RootPlan, n->roots.len + 1);
  w->accumulate = k->accumulate;
  for (uint32_t i = 0; i < n->stages.len; i++) {
    const Stage *s = &n->stages.at[i];
    LoopPath *path = &w->path[i];
    for (uint32_t l = 0; l < n->outer; l++) path->loop[path->len++] = l;
    for (uint32_t l = 0; l < s->loops; l++) path->loop[path->len++] = s->first_loop + l;
    check(path->len <= sizeof names / sizeof *names, "a kernel of %u loops", path->len);
    for (uint32_t l = 0; l < path->len; l++) b->loop_name[path->loop[l]] = names[l];
    for (uint32_t r = s->first_root; r < s->first_root + s->roots; r++) plan_root(w, r, path);
    scalar_begin_stage(b, s, path);
  }
  /* what is written comes first in the parameters */
  for (uint32_t i = 0; i < n->roots.len && !b->operand_name; i++) {
    const NestRoot *r = &n->roots.at[i];
    if (!r->row_only) body_operand(b, is_sum(w, r) ? OPERAND_sum : OPERAND_memory, r->val, true);
  }
  write_outer(w, 0);
}

static const char *parameter(Emit *e, const Program *p, const Operand *o) {
  const Target *target = e->target;
  switch (o->kind) {
  case OPERAND_memory: {
    DType t = value_at(p->g, o->val)->type.dtype;
    const char *type = p->places.at[o->val].home == HOME_out ? "double" : target->storage_type(t);
    return arena_printf(e->arena, "%s%s *%s %s", o->written ? "" : "const ", type,
                        target->restrict_word, o->name);
  }
  case OPERAND_sum:
    return arena_printf(e->arena, "double *%s %s", target->restrict_word, o->name);
  case OPERAND_host:
    return arena_printf(e->arena, "%s %s", target->compute_type(value_at(p->g, o->val)->type.dtype),
                        o->name);
  case OPERAND_draw:
    return arena_printf(e->arena, "DdpDraw %s", o->name);
  case OPERAND_batch:
    return "int64_t B";
  case OPERAND_accumulate:
    return "bool accumulate";
  }
  die("unknown operand");
}

void write_call(Text *t, const char *indent, const char *head, const char *const *args, uint32_t n,
                const char *tail) {
  size_t column = strlen(indent) + strlen(head) + 1, deep = column, begin = t->len;
  text_addf(t, "%s%s(", indent, head);
  for (uint32_t i = 0; i < n; i++) {
    size_t need = strlen(args[i]) + (i + 1 < n ? 2 : strlen(tail) + 1);
    if (i && column + need > 100) {
      text_addf(t, "\n%*s", (int)deep, "");
      column = deep;
    }
    text_addf(t, "%s%s", args[i], i + 1 < n ? ", " : "");
    if (i + 1 < n) column += strlen(args[i]) + 2;
  }
  text_addf(t, ")%s", tail);
  /* a blank after a comma before a line break is none of ours */
  char *from = t->at + begin, *to = from;
  for (; *from; from++)
    if (!(from[0] == ' ' && from[1] == '\n')) *to++ = *from;
  *to = 0;
  t->len = (size_t)(to - t->at);
}

/* Operands in the order of the parameters: memory written, read, the rest as met; B and accumulate
   last. */
static int operand_order(const Operand *o) {
  switch (o->kind) {
  case OPERAND_memory:
    return o->written ? 0 : 2;
  case OPERAND_sum:
    return 1;
  case OPERAND_host:
  case OPERAND_draw:
    return 3;
  case OPERAND_batch:
    return 4;
  case OPERAND_accumulate:
    return 5;
  }
  return 6;
}
static void sort_operands(Operands *o) {
  for (uint32_t i = 1; i < o->len; i++)
    for (uint32_t j = i; j > 0 && operand_order(&o->at[j]) < operand_order(&o->at[j - 1]); j--) {
      Operand swap = o->at[j];
      o->at[j] = o->at[j - 1];
      o->at[j - 1] = swap;
    }
}

static const char *place_text(Emit *e, const Kernel *k) {
  Text t = {0};
  write_place(&t, k->at);
  const char *s = t.at ? arena_strdup(e->arena, t.at) : "";
  text_free(&t);
  return s;
}

static const char *share_function(Emit *e, const Kernel *k, Function new) {
  const char *at = place_text(e, k);
  Function *f = NULL;
  for (uint32_t i = 0; i < e->functions.len && !f; i++)
    if (!strcmp(e->functions.at[i].key, new.key)) f = &e->functions.at[i];
  if (!f) {
    /* a name of one word may be one of the C library's */
    const char *wanted = k->name && *k->name ? k->name : "fused";
    if (!strchr(wanted, '_')) wanted = arena_printf(e->arena, "%s_kernel", wanted);
    new.name = names_add(&e->globals, wanted);
    vec_push(e->arena, &e->functions, new);
    f = &e->functions.at[e->functions.len - 1];
  }
  bool known = !*at;
  for (uint32_t i = 0; i < f->at.len && !known; i++) known = !strcmp(f->at.at[i], at);
  if (!known) vec_push(e->arena, &f->at, at);
  return f->name;
}

const char *kernel_function(Emit *e, const Program *p, const Kernel *k, Operands *operands) {
  Text body = {0}, key = {0};
  Writer w = {.b = {.e = e, .p = p, .out = &body, .indent = "  ", .operands = operands}};
  write_body(&w, k);
  sort_operands(operands);
  const char **parameters = ARENA_ARRAY(e->arena, const char *, operands->len + 1);
  for (uint32_t i = 0; i < operands->len; i++) {
    parameters[i] = parameter(e, p, &operands->at[i]);
    text_addf(&key, "%s, ", parameters[i]);
  }
  text_add(&key, body.at ? body.at : "");
  Function f = {.parameters = parameters,
                .n_parameters = operands->len,
                .body = arena_strdup(e->arena, body.at ? body.at : ""),
                .key = arena_strdup(e->arena, key.at)};
  text_free(&key);
  text_free(&body);
  return share_function(e, k, f);
}

void kernel_inline(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                   OperandName name, void *self) {
  Operands none = {0};
  Writer w = {.b = {.e = e,
                    .p = p,
                    .out = out,
                    .indent = indent,
                    .operands = &none,
                    .operand_name = name,
                    .self = self}};
  write_body(&w, k);
}
