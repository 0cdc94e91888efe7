/* Loops of the program as C. In: the kernel of a scan with its plan. Out: a `for` whose turns work on
   pointers into the stacks, in scratch that all turns share. First the calls of a turn are written, then
   the declarations of the memory that they name, which stand in front of them. */
#include "scene.h"
#include "die.h"
#include "op.h"
#include "scan.h"

typedef struct LoopText {
  Scene *s;     /* of a turn */
  Scene *outer; /* around the loop */
  const Kernel *k;
  const PlanLoop *plan;
  Scan scan;
  Text *out;
  const char *indent;
} LoopText;

static Scan scan_in(const Scene *turn) {
  return scan_of(value_at(turn->outer->p->g, turn->loop->call));
}

static Val input_of(const Scene *turn, int k) {
  return value_at(turn->outer->p->g, turn->loop->call)->in[k];
}

/* ---------- names ---------- */

static Scene *function_of(Scene *s) {
  while (s->outer) s = s->outer;
  return s;
}

const char *loop_memory(Scene *s, Val v) {
  const ValuePlace *at = &s->p->places.at[v];
  Arena *a = s->e->arena;
  Scan scan = scan_in(s);
  const char *wanted = at->name && *at->name ? at->name : "t";
  if (at->home == HOME_arg && at->index >= scan.over + scan.carried)
    return s->memory[v] = scene_memory(s->outer, input_of(s, at->index));
  if (at->home == HOME_arg && at->index < scan.over)
    wanted = arena_printf(a, "%s_part", scene_memory(s->outer, input_of(s, at->index)));
  else if (at->home == HOME_arg)
    wanted = arena_printf(a, "carried_%d", at->index - scan.over);
  s->memory[v] = names_add(s->names, wanted);
  if (at->home == HOME_block) {
    Scene *f = function_of(s);
    scene_declare_block(f, s->memory[v], value_at(s->p->g, v)->type, s->base + at->offset,
                        &f->block);
  } else {
    vec_push(a, &s->order, v);
  }
  return s->memory[v];
}

/* ---------- places ---------- */

/* As a factor. */
static const char *dim_text(const LoopText *l, Dim d) {
  Text t = {0};
  write_dim(&t, d);
  const char *s =
      arena_printf(l->s->e->arena, d.per_batch && d.fixed ? "(%s)" : "%s", t.at ? t.at : "0");
  text_free(&t);
  if (d.per_batch) function_of(l->s)->batch = true;
  return s;
}

static const char *part_size(const LoopText *l, Type part) {
  Dim n = dim_of(1);
  check(type_elements(part, &n), "a part that is not linear in the batch");
  return dim_text(l, n);
}

/* STACK + (TURN) * SIZE; where: "turn", "turn + 1" ... */
static const char *part_at(const LoopText *l, const char *stack, const char *where, Type part) {
  bool plain = !strpbrk(where, " ");
  return arena_printf(l->s->e->arena, plain ? "%s + %s * %s" : "%s + (%s) * %s", stack, where,
                      part_size(l, part));
}

/* The number of the turn `by` turns later, in the order in which they run. */
static const char *turn_text(const LoopText *l, int by) {
  if (l->scan.reverse) by = -by;
  if (!by) return l->s->turn;
  return arena_printf(l->s->e->arena, "%s %c %d", l->s->turn, by < 0 ? '-' : '+',
                      by < 0 ? -by : by);
}

static const char *last_number(const LoopText *l) {
  Dim d = l->scan.length;
  d.fixed--;
  Text t = {0};
  write_dim(&t, d);
  const char *s = arena_strdup(l->s->e->arena, t.at ? t.at : "0");
  text_free(&t);
  if (d.per_batch) function_of(l->s)->batch = true;
  return s;
}

/* Is this the first (last) turn to run? */
static const char *is_first(const LoopText *l, bool first) {
  bool zero = l->scan.reverse != first;
  return arena_printf(l->s->e->arena, "%s == %s", l->s->turn, zero ? "0" : last_number(l));
}

static const char *result_memory(const LoopText *l, int result) {
  Val v = plan_loop_result(l->outer->p, l->k, result);
  return v == NO_VAL ? NULL : scene_memory(l->outer, v);
}

static const char *stack_memory(const LoopText *l, int yield) {
  return result_memory(l, l->scan.carried + yield);
}

/* A buffer in the scratch; declared once. */
static const char *spare(const LoopText *l, int64_t offset, Type type) {
  const Emit *e = l->s->e;
  Scene *f = function_of(l->s);
  const char *ctype = e->target->storage_type(type.dtype);
  const char *tail = arena_printf(e->arena, "block + %lld);", (long long)(l->s->base + offset));
  for (uint32_t i = 0; i < f->block.len; i++) { /* told apart by the place */
    const char *code = f->block.at[i].code;
    const char *name = strstr(code, "*spare");
    if (name && strstr(code, tail) && !strncmp(code, ctype, strlen(ctype)))
      return arena_strndup(e->arena, name + 1, strcspn(name + 1, " "));
  }
  const char *name = names_add(f->names, "spare");
  scene_declare_block(f, name, type, l->s->base + offset, &f->block);
  return name;
}

/* What the last turn writes, and what turns before it write by turns. */
static const char *last_buffer(const LoopText *l, int j, Type t) {
  const char *result = result_memory(l, j);
  return result ? result : spare(l, l->plan->carry[j].last, t);
}

/* Turns count down to the last one, which writes the result. */
static const char *turns_left(const LoopText *l) {
  if (l->scan.reverse) return l->s->turn;
  return arena_printf(l->s->e->arena, "(%s - %s)", last_number(l), l->s->turn);
}

/* ---------- declarations of a turn ---------- */

static const char *carried_text(const LoopText *l, int j, Type t) {
  const LoopCarry *c = &l->plan->carry[j];
  Arena *a = l->s->e->arena;
  if (c->before >= 0) return part_at(l, stack_memory(l, c->before), l->s->turn, t);
  const char *init = scene_memory(l->outer, input_of(l->s, l->scan.over + j));
  const char *then = c->after >= 0 ? part_at(l, stack_memory(l, c->after), turn_text(l, -1), t)
                                   : arena_printf(a, "%s %% 2 ? %s : %s", turns_left(l),
                                                  last_buffer(l, j, t), spare(l, c->other, t));
  return arena_printf(a, "%s ? %s : %s", is_first(l, true), init, then);
}

static const char *next_text(const LoopText *l, int j, Type t) {
  const LoopCarry *c = &l->plan->carry[j];
  Arena *a = l->s->e->arena;
  if (c->after >= 0) return part_at(l, stack_memory(l, c->after), l->s->turn, t);
  if (c->before >= 0)
    return arena_printf(a, "%s ? %s : %s", is_first(l, false), last_buffer(l, j, t),
                        part_at(l, stack_memory(l, c->before), turn_text(l, 1), t));
  return arena_printf(a, "%s %% 2 ? %s : %s", turns_left(l), spare(l, c->other, t),
                      last_buffer(l, j, t));
}

static void declare(const LoopText *l, Val v) {
  const ValuePlace *at = &l->s->p->places.at[v];
  Type t = value_at(l->s->p->g, v)->type;
  const char *from = NULL;
  if (at->home == HOME_next)
    from = next_text(l, at->index, t);
  else if (at->home == HOME_yield)
    from = part_at(l, stack_memory(l, at->index), l->s->turn, t);
  else if (at->index >= l->scan.over)
    from = carried_text(l, at->index - l->scan.over, t);
  else
    from = part_at(l, scene_memory(l->outer, input_of(l->s, at->index)), l->s->turn, t);
  const char *type = l->s->e->target->storage_type(t.dtype);
  const char *name = arena_printf(
      l->s->e->arena, "%s%s *%s =", at->home == HOME_arg ? "const " : "", type, l->s->memory[v]);
  bool fits = strlen(l->indent) + strlen(name) + strlen(from) + 4 <= 100;
  text_addf(l->out, "%s  %s", l->indent, name);
  if (fits)
    text_addf(l->out, " %s;\n", from);
  else
    text_addf(l->out, "\n%s      %s;\n", l->indent, from);
}

static void write_copy(const LoopText *l, const char *to, const char *from, Type t) {
  scene_copy(l->outer, to, from, l->s->e->target->storage_type(t.dtype), part_size(l, t), l->out,
             l->indent);
}

/* ---------- the whole ---------- */

/* In front: first values that lie in the stack of what was before each turn. */
static void write_first(const LoopText *l) {
  const char *first = l->scan.reverse ? last_number(l) : "0";
  for (int j = 0; j < l->scan.carried; j++) {
    const LoopCarry *c = &l->plan->carry[j];
    Type t = scan_result_type(&l->scan, j);
    if (c->before < 0) continue;
    const char *stack = stack_memory(l, c->before);
    const char *to = l->scan.reverse ? part_at(l, stack, first, t) : stack;
    write_copy(l, to, scene_memory(l->outer, input_of(l->s, l->scan.over + j)), t);
  }
}

/* Behind: results that lie in a stack. */
static void write_last(const LoopText *l) {
  for (int j = 0; j < l->scan.carried; j++) {
    const LoopCarry *c = &l->plan->carry[j];
    Type t = scan_result_type(&l->scan, j);
    const char *to = j || l->plan->read ? result_memory(l, j) : NULL;
    if (c->after < 0 || !to) continue;
    const char *stack = stack_memory(l, c->after);
    write_copy(l, to, l->scan.reverse ? stack : part_at(l, stack, last_number(l), t), t);
  }
}

void loop_write(Scene *s, const Kernel *k, const Made *turn, Text *out, const char *indent) {
  Arena *a = s->e->arena;
  Scene in = {.e = s->e,
              .p = &k->loop->body,
              .role = s->role,
              .names = s->names,
              .named = {.arena = a},
              .outer = s,
              .loop = k,
              .turn = names_add(s->names, "turn"),
              .base = s->base + k->loop->scratch.offset};
  in.memory = ARENA_ARRAY(a, const char *, in.p->places.len + 1);
  LoopText l = {&in, s, k, k->loop, scan_of(value_at(s->p->g, k->call)), out, indent};
  Text calls = {0};
  scene_kernels(&in, turn, &calls, arena_printf(a, "%s  ", indent));
  write_first(&l);
  const char *n = dim_text(&l, l.scan.length);
  if (l.scan.reverse)
    text_addf(out, "%sfor (int64_t %s = %s; %s-- > 0;) {\n", indent, in.turn, n, in.turn);
  else
    text_addf(out, "%sfor (int64_t %s = 0; %s < %s; %s++) {\n", indent, in.turn, in.turn, n,
              in.turn);
  for (uint32_t i = 0; i < in.order.len; i++) declare(&l, in.order.at[i]);
  const Target *target = s->e->target;
  for (uint32_t i = 0; i < in.draws.len; i++)
    text_addf(out, "%s  const %s %s = %s(%s, %s);\n", indent, target->draw_type,
              in.draws.at[i].name, target->draw_turn, in.draws.at[i].from, in.turn);
  if (calls.at) text_add(out, calls.at);
  text_addf(out, "%s}\n", indent);
  write_last(&l);
  if (in.batch) s->batch = true;
  text_free(&calls);
}
