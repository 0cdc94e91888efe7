/* Loop nests as loops of one thread: loops, accumulators, stores. Scalars are written by scalar.c.
   A root's loops that do not occur in its index are reduced: the last of the path in a scalar, the
   others (and kept loops inside them) by adding to memory that is cleared before; see nest.h. */
#include "nest_loops.h"
#include "die.h"
#include "scalar.h"
#include "op.h"

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
  LoopPath *path; /* by stage */
  RootPlan *root; /* by root */
  uint32_t sums, maxima;
} Writer;

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

/* ---------- memory ---------- */

static void open_loop(Writer *w, uint32_t loop);
static void close_loop(Writer *w);

/* Clears the memory that a root adds to, over the kept loops inside the first reduced one. */
static void write_clear(Writer *w, const NestRoot *r, const RootPlan *plan, const LoopPath *path) {
  Body *b = &w->b;
  const char *indent = b->indent;
  const char *keeps = root_adds(b, r);
  uint32_t opened = 0;
  if (keeps) {
    body_line(b, "if (!%s) {", keeps);
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
    body_line(b, "%s %s = 0;", root_type(b, r), plan->acc);
    return;
  }
  body_line(b, "%s %s = %s;", root_type(b, r), plan->acc, root_lowest(t));
  if (r->kind == ROOT_argmax)
    body_line(b, "int64_t %s = 0;", plan->at);
  else if (root_checks_nan(w->b.n, r))
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
  bool nan = root_checks_nan(w->b.n, r);
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
  if (r->kind == ROOT_max && root_checks_nan(w->b.n, r))
    body_line(b, "if (%s) %s = NAN;", plan->at, plan->acc);
  if (plan->memory) {
    body_line(b, "%s[%s] += %s;", body_operand(b, OPERAND_memory, r->val, true),
              scalar_index(b, r->ix, BIND_weak), value);
    return;
  }
  if (!r->row_only) body_store(b, r, value);
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
      if (r->kind == ROOT_max && root_checks_nan(w->b.n, r))
        text_addf(&flags, "%s%s", flags.len ? ", " : "", plan->at);
    }
  }
  if (w->b.e->target->simd && possible && (sums.len || maxima.len)) {
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
      bool per_row = s->loops == 0 && root_is_read(b->n, r->val);
      const char *t = per_row ? scalar_name(b, r->temp) : scalar_text(b, r->temp, BIND_weak);
      if (per_row) b->row[i] = t;
      if (!r->row_only) body_store(b, r, t);
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
  Body *b = &w->b;
  const Nest *n = k->nest;
  Arena *a = b->e->arena;
  body_begin(b, k);
  w->path = ARENA_ARRAY(a, LoopPath, n->stages.len + 1);
  w->root = ARENA_ARRAY(a, RootPlan, n->roots.len + 1);
  for (uint32_t i = 0; i < n->stages.len; i++) {
    const Stage *s = &n->stages.at[i];
    w->path[i] = body_path(b, s);
    for (uint32_t r = s->first_root; r < s->first_root + s->roots; r++)
      plan_root(w, r, &w->path[i]);
    scalar_begin_stage(b, s, &w->path[i], NULL);
  }
  if (!b->operand_name) body_written(b);
  body_hold(b);
  write_outer(w, 0);
}

void nest_loops(Emit *e, const Program *p, const Kernel *k, KernelCall *call, Text *out) {
  Writer w = {.b = {.e = e, .p = p, .out = out, .indent = "  ", .operands = &call->operands}};
  write_body(&w, k);
}

void nest_loops_functions(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls) {
  Text body = {0};
  KernelCall call = {0};
  nest_loops(e, p, k, &call, &body);
  kernel_share(e, p, k, "", arena_printf(e->arena, "%s void", e->target->kernel_qualifier),
               body.at ? body.at : "", &call);
  text_free(&body);
  vec_push(e->arena, calls, call);
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
