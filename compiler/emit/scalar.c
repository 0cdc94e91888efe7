/* Scalars of a nest as C expressions. */
#include "scalar.h"
#include "die.h"
#include "op.h"
#include <ctype.h>

enum { LONGEST_INLINE = 40 }; /* longer expressions get a name */

void body_line(Body *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  text_add(b->out, b->indent);
  text_add(b->out, arena_vprintf(b->e->arena, format, args));
  text_add(b->out, "\n");
  va_end(args);
}

static const char *protect(Body *b, const char *text, Binding has, Binding at_least) {
  return has <= at_least ? text : arena_printf(b->e->arena, "(%s)", text);
}

/* ---------- indices ---------- */

static Scalar index_expr(Body *b, NestIndex at);

static const char *dim_text(Body *b, Dim d, Binding at_least) {
  Text t = {0};
  write_dim(&t, d);
  const char *s = arena_strdup(b->e->arena, t.at);
  text_free(&t);
  if (d.per_batch) body_operand(b, OPERAND_batch, 0, false);
  Binding has = d.per_batch == 0   ? (d.fixed < 0 ? BIND_sum : BIND_atom)
                : d.fixed          ? BIND_sum
                : d.per_batch == 1 ? BIND_atom
                                   : BIND_product;
  return protect(b, s, has, at_least);
}

static Scalar index_sum(Body *b, const Ix *x) {
  Arena *a = b->e->arena;
  const Ix *right = &b->n->ix.at[x->right];
  const char *left = scalar_index(b, x->left, BIND_sum);
  if (right->kind == IX_const && right->value.per_batch == 0 && right->value.fixed < 0) {
    const char *text = arena_printf(a, "%s - %lld", left, -(long long)right->value.fixed);
    return (Scalar){.text = text, .binding = BIND_sum};
  }
  const char *text = arena_printf(a, "%s + %s", left, scalar_index(b, x->right, BIND_product));
  return (Scalar){.text = text, .binding = BIND_sum};
}

static Scalar index_expr(Body *b, NestIndex at) {
  const Ix *x = &b->n->ix.at[at];
  Arena *a = b->e->arena;
  const char *left;
  switch (x->kind) {
  case IX_const:
    return (Scalar){.text = dim_text(b, x->value, BIND_atom), .binding = BIND_atom};
  case IX_loop:
    return (Scalar){.text = b->loop_name[x->loop], .binding = BIND_atom};
  case IX_add:
    return index_sum(b, x);
  case IX_mul:
    left = scalar_index(b, x->left, BIND_product);
    return (Scalar){.text = arena_printf(a, "%s * %s", left, dim_text(b, x->value, BIND_atom)),
                    .binding = BIND_product};
  case IX_div:
  case IX_mod:
    left = scalar_index(b, x->left, BIND_product);
    return (Scalar){.text = arena_printf(a, "%s %c %s", left, x->kind == IX_div ? '/' : '%',
                                         dim_text(b, x->value, BIND_atom)),
                    .binding = BIND_product};
  case IX_temp: {
    bool wide = b->n->insts.at[x->temp].dtype == DT_i64;
    left = scalar_text(b, x->temp, BIND_atom);
    if (wide && b->index && !strncmp(left, "((int64_t)", 10)) /* from a narrow one */
      left = arena_strndup(b->e->arena, left + 10, strlen(left) - 11);
    if (wide != (b->index != NULL)) return (Scalar){.text = left, .binding = BIND_atom};
    return (Scalar){.text = arena_printf(a, "(%s)%s", b->index ? b->index : "int64_t", left),
                    .binding = BIND_product};
  }
  }
  die("unknown index expression");
}

const char *scalar_index(Body *b, NestIndex ix, Binding at_least) {
  Scalar e = index_expr(b, ix);
  return protect(b, e.text, e.binding, at_least);
}

static uint32_t index_depth(const Body *b, NestIndex at, const LoopPath *path) {
  const Ix *x = &b->n->ix.at[at];
  uint32_t d = 0, r = 0;
  switch (x->kind) {
  case IX_const:
    return 0;
  case IX_loop:
    while (path->loop[d] != x->loop) check(++d < path->len, "a loop that is not around its use");
    return d + 1;
  case IX_temp:
    return b->depth[x->temp];
  case IX_add:
    r = index_depth(b, x->right, path);
    break;
  case IX_mul:
  case IX_div:
  case IX_mod:
    break;
  }
  d = index_depth(b, x->left, path);
  return d > r ? d : r;
}

static void index_count(Body *b, NestIndex at) {
  const Ix *x = &b->n->ix.at[at];
  if (x->kind == IX_temp) b->uses[x->temp]++;
  if (x->kind == IX_const || x->kind == IX_loop || x->kind == IX_temp) return;
  index_count(b, x->left);
  if (x->kind == IX_add) index_count(b, x->right);
}

/* ---------- the op table's C expressions ---------- */

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

/* How often a, b or c (`which` = 0, 1, 2) stands in the expression. */
static uint32_t op_mentions(const char *c, int which) {
  uint32_t n = 0;
  for (const char *s = c; *s; s++)
    if (*s == "abc"[which] && (s == c || !is_word(s[-1])) && !is_word(s[1])) n++;
  return n;
}

/* Skips "!= 0" after a bool: true when it was there. `== 0` is left. */
static bool skip_truth(const char **s) {
  if (strncmp(*s, " != 0", 5) || is_word((*s)[5])) return false;
  *s += 5;
  return true;
}

static bool alone(const char *c, const char *s) { /* the whole of an argument or of the text */
  bool before = s == c || s[-1] == '(';
  bool after = !s[1] || s[1] == ')' || s[1] == ',';
  if (!before && s - c > 1 && s[-1] == ' ' && s[-2] == ',') before = true;
  return before && after;
}

/* An expression that names an operand twice becomes a function of its own, written once. */
static bool op_repeats(OpKind op) {
  const char *c = op_def(op)->c;
  for (int i = 0; i < op_def(op)->inputs; i++)
    if (op_mentions(c, i) > 1) return true;
  return false;
}

/* The expression with what the operands are called; `logical`: the operand is a bool. */
typedef struct OpText {
  OpKind op;
  DType work;                      /* what functions compute in */
  const char *loose[3], *tight[3]; /* operands that stand alone, and those that are bound */
  bool logical[3];
} OpText;

static Binding op_text(Emit *e, const OpText *o, Text *t) {
  const char *c = op_def(o->op)->c;
  int depth = 0;
  Binding binding = !strcmp(c, "a") ? BIND_weak : BIND_atom;
  for (const char *s = c; *s; s++) {
    bool start = s == c || !is_word(s[-1]);
    if (start && !strncmp(s, "F(", 2)) {
      const char *end = strchr(s, ')');
      char *name = arena_strndup(e->arena, s + 2, (size_t)(end - s - 2));
      const char *f = e->target->function(name, o->work);
      check(f, "%s: no function %s for %s", op_def(o->op)->name, name, dtype_name(o->work));
      text_add(t, f);
      s = end;
    } else if (start && *s >= 'a' && *s <= 'c' && !is_word(s[1])) {
      int arg = *s - 'a';
      text_add(t, alone(c, s) ? o->loose[arg] : o->tight[arg]);
      const char *next = s + 1;
      if (o->logical[arg] && skip_truth(&next)) s = next - 1;
    } else {
      if (*s == '(') depth++;
      if (*s == ')') depth--;
      if (depth == 0 && (*s == ' ' || *s == '-')) binding = BIND_weak;
      text_add_n(t, s, 1);
    }
  }
  return binding;
}

static const char *op_helper(Emit *e, OpKind op, DType in, DType result) {
  for (uint32_t i = 0; i < e->helpers.len; i++)
    if (e->helpers.at[i].op == op && e->helpers.at[i].in == in && e->helpers.at[i].result == result)
      return e->helpers.at[i].name;
  Helper h = {op, in, result, NULL, NULL};
  h.name =
      names_add(&e->globals, arena_printf(e->arena, "%s_%s", op_def(op)->name, dtype_name(in)));
  OpText o = {.op = op,
              .work = op_has(op, OPF_compare) ? in : result,
              .loose = {"a", "b", "c"},
              .tight = {"a", "b", "c"},
              .logical = {in == DT_bool, in == DT_bool, in == DT_bool}};
  Text t = {0};
  op_text(e, &o, &t);
  h.body = arena_strdup(e->arena, t.at);
  text_free(&t);
  vec_push(e->arena, &e->helpers, h);
  return h.name;
}

static Scalar op_call(Body *b, const Inst *x) {
  DType in = b->n->insts.at[x->in[0]].dtype;
  Text t = {0};
  text_add(&t, op_helper(b->e, x->op, in, x->dtype));
  Scalar out = {.binding = BIND_atom};
  for (int i = 0; i < 3 && x->in[i]; i++) {
    text_addf(&t, "%s%s", i ? ", " : "(", scalar_text(b, x->in[i], BIND_weak));
    out.loads = out.loads || b->scalar[x->in[i]].loads;
  }
  text_add(&t, ")");
  out.text = arena_strdup(b->e->arena, t.at);
  text_free(&t);
  return out;
}

static Scalar op_expr(Body *b, const Inst *x) {
  check(op_def(x->op)->c, "%s has no C expression", op_def(x->op)->name);
  if (op_repeats(x->op)) return op_call(b, x);
  DType in = b->n->insts.at[x->in[0]].dtype;
  OpText o = {.op = x->op, .work = op_has(x->op, OPF_compare) ? in : x->dtype};
  Scalar out = {0};
  for (int i = 0; i < 3 && x->in[i]; i++) {
    o.loose[i] = scalar_text(b, x->in[i], BIND_weak);
    o.tight[i] = scalar_text(b, x->in[i], BIND_atom);
    o.logical[i] = b->n->insts.at[x->in[i]].dtype == DT_bool;
    out.loads = out.loads || b->scalar[x->in[i]].loads;
  }
  Text t = {0};
  out.binding = op_text(b->e, &o, &t);
  out.text = arena_strdup(b->e->arena, t.at);
  text_free(&t);
  return out;
}

/* ---------- instructions ---------- */

static const char *sample_text(Body *b, const Inst *x, const char *draw) {
  Type t = value_at(b->n->g, x->val)->type;
  for (int i = 0; i < t.rank; i++)
    if (t.dim[i].per_batch)
      return arena_printf(b->e->arena, "%s.sample[%s]", draw, scalar_index(b, x->ix2, BIND_weak));
  return "0"; /* one draw for all samples */
}

static const char *draw_row(Body *b, const Inst *x) {
  for (uint32_t i = 0; i < b->draw_rows.len; i++)
    if (b->draw_rows.at[i].val == x->val && b->draw_rows.at[i].ix == x->ix2)
      return b->draw_rows.at[i].name;
  die("a draw without its row");
}

static Scalar random_expr(Body *b, const Inst *x) {
  const Value *v = value_at(b->n->g, x->val);
  const OpDef *def = op_def(v->op);
  Text t = {0};
  text_addf(&t, "ddp_%s(%s, ", def->name, draw_row(b, x));
  text_addf(&t, "(uint32_t)%s", scalar_index(b, x->ix, BIND_atom));
  bool scaled = v->op == OP_uniform || v->op == OP_normal;
  for (int i = 0; i < def->attrs && !scaled; i++) {
    bool number = def->attr[i].kind == ATTR_float || def->attr[i].kind == ATTR_int;
    if (!number || !strcmp(def->attr[i].name, "site")) continue;
    text_add(&t, ", ");
    if (def->attr[i].kind == ATTR_float)
      write_number(&t, v->attr[i].as.f, DT_f32);
    else
      write_int(&t, v->attr[i].as.i);
  }
  text_add(&t, ")");
  Scalar e = {.binding = BIND_atom};
  if (scaled) { /* lo + (hi - lo) u, mean + std z */
    double first = v->attr[0].as.f, second = v->attr[1].as.f;
    Text s = {0};
    write_number(&s, first, DT_f32);
    text_add(&s, " + ");
    write_number(&s, v->op == OP_uniform ? second - first : second, DT_f32);
    text_addf(&s, " * %s", t.at);
    e = (Scalar){.text = arena_strdup(b->e->arena, s.at), .binding = BIND_sum};
    text_free(&s);
  } else {
    e.text = arena_strdup(b->e->arena, t.at);
  }
  text_free(&t);
  return e;
}

static Scalar load_expr(Body *b, const Inst *x) {
  Arena *a = b->e->arena;
  DType lies = value_at(b->n->g, x->val)->type.dtype;
  const char *text = b->neighbour ? b->neighbour[x - b->n->insts.at] : NULL;
  if (!text)
    text = arena_printf(a, "%s[%s]", body_operand(b, OPERAND_memory, x->val, false),
                        scalar_index(b, x->ix, BIND_weak));
  const char *convert = b->e->target->load(lies);
  if (*convert) text = arena_printf(a, "%s(%s)", convert, text);
  bool clipped = b->e->target->scalars_in_memory && body_is_gradient(b, x->val);
  if (clipped)
    text = arena_printf(a, "%s * %s->clip", text, body_operand(b, OPERAND_rates, 0, false));
  Binding binding = clipped ? BIND_product : BIND_atom;
  if (!x->guard) return (Scalar){.text = text, .binding = binding, .loads = true};
  text = arena_printf(a, "%s ? %s : 0", scalar_text(b, x->guard, BIND_atom), text);
  return (Scalar){.text = text, .binding = BIND_weak, .loads = true};
}

static Scalar const_expr(Body *b, const Inst *x) {
  Text t = {0};
  write_number(&t, x->k, x->dtype);
  Scalar e = {.text = arena_strdup(b->e->arena, t.at)};
  e.binding = *e.text == '-' ? BIND_weak : BIND_atom;
  text_free(&t);
  return e;
}

/* A scalar of the step where a kernel finds it: as an argument, or in the device's memory, if it
   changes from step to step. */
static Scalar host_expr(Body *b, const Inst *x) {
  const Value *v = value_at(b->n->g, x->val);
  const char *ctype = b->e->target->compute_type(x->dtype), *from = NULL;
  if (v->op == OP_dimval) {
    from = dim_text(b, v->attr[0].as.dims.at[0], BIND_atom);
    if (x->dtype == DT_i64 && !b->index) return (Scalar){.text = from, .binding = BIND_atom};
  } else {
    from = b->e->target->scalars_in_memory ? body_in_memory(b, v) : NULL;
    if (!from)
      return (Scalar){.text = body_operand(b, OPERAND_host, x->val, false), .binding = BIND_atom};
  }
  if (x->dtype == DT_f64 && body_is_double(v)) return (Scalar){.text = from, .binding = BIND_atom};
  return (Scalar){.text = arena_printf(b->e->arena, "(%s)%s", ctype, from),
                  .binding = BIND_product};
}

/* 16-bit floats are computed with as float. */
static bool same_type(const Body *b, DType from, DType to) {
  return !strcmp(b->e->target->compute_type(from), b->e->target->compute_type(to));
}

static Scalar cast_expr(Body *b, const Inst *x) {
  Arena *a = b->e->arena;
  const char *from = scalar_text(b, x->in[0], BIND_atom);
  Scalar e = {.binding = BIND_product, .loads = b->scalar[x->in[0]].loads};
  if (x->dtype == DT_bool) {
    e.text = arena_printf(a, "%s != 0", from);
    e.binding = BIND_weak;
  } else if (dtype_is_half(x->dtype)) {
    from = scalar_text(b, x->in[0], BIND_weak);
    e.text = arena_printf(a, "%s(%s)", b->e->target->round(x->dtype), from);
    e.binding = BIND_atom;
  } else if (same_type(b, b->n->insts.at[x->in[0]].dtype, x->dtype)) {
    e = b->scalar[x->in[0]];
  } else {
    e.text = arena_printf(a, "(%s)%s", b->e->target->compute_type(x->dtype), from);
  }
  return e;
}

static Scalar select_expr(Body *b, const Inst *x) {
  const char *c = scalar_text(b, x->in[0], BIND_atom);
  const char *yes = scalar_text(b, x->in[1], BIND_atom), *no = scalar_text(b, x->in[2], BIND_atom);
  bool loads = b->scalar[x->in[0]].loads || b->scalar[x->in[1]].loads || b->scalar[x->in[2]].loads;
  return (Scalar){.text = arena_printf(b->e->arena, "%s ? %s : %s", c, yes, no),
                  .binding = BIND_weak,
                  .loads = loads};
}

static Scalar inst_expr(Body *b, const Inst *x) {
  switch (x->kind) {
  case INST_const:
    return const_expr(b, x);
  case INST_load:
    return load_expr(b, x);
  case INST_op:
    return op_expr(b, x);
  case INST_cast:
    return cast_expr(b, x);
  case INST_index: {
    Scalar e = index_expr(b, x->ix);
    if (x->dtype == DT_i64 && !b->index) return e;
    e.text = arena_printf(b->e->arena, "(%s)%s", b->e->target->compute_type(x->dtype),
                          protect(b, e.text, e.binding, BIND_atom));
    e.binding = BIND_product;
    return e;
  }
  case INST_random:
    return random_expr(b, x);
  case INST_select:
    return select_expr(b, x);
  case INST_host:
    return host_expr(b, x);
  case INST_row: {
    const char *row = NULL;
    for (uint32_t r = 0; r < b->n->roots.len; r++)
      if (b->n->roots.at[r].val == x->val) row = b->row[r];
    check(row, "a row value that no earlier stage left");
    return (Scalar){.text = row, .binding = BIND_atom};
  }
  }
  die("unknown instruction");
}

/* ---------- placing ---------- */

static uint32_t max_depth(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

static int inst_inputs(const Inst *x) {
  int n = 0;
  while (n < 3 && x->in[n]) n++;
  return x->kind == INST_op || x->kind == INST_cast || x->kind == INST_select ? n : 0;
}

static bool inst_uses_ix(const Inst *x) {
  return x->kind == INST_load || x->kind == INST_index || x->kind == INST_random;
}

static uint32_t depth_of(const Body *b, const Inst *x, const LoopPath *path) {
  uint32_t d = x->kind == INST_row ? b->n->outer : 0;
  if (x->kind == INST_host && b->e->target->scalars_in_memory) d = body_host_depth(b, x->val, path);
  for (int j = 0; j < inst_inputs(x); j++) d = max_depth(d, b->depth[x->in[j]]);
  if (x->guard) d = max_depth(d, b->depth[x->guard]);
  if (inst_uses_ix(x)) d = max_depth(d, index_depth(b, x->ix, path));
  if (x->kind == INST_random) d = max_depth(d, index_depth(b, x->ix2, path));
  return d;
}

static void count_inputs(Body *b, const Inst *x) {
  for (int j = 0; j < inst_inputs(x); j++) b->uses[x->in[j]]++;
  if (x->guard) b->uses[x->guard]++;
  if (inst_uses_ix(x)) index_count(b, x->ix);
  if (x->kind == INST_random) index_count(b, x->ix2);
}

/* Users stand behind what they use. */
static void count_stage(Body *b, const Stage *s) {
  for (uint32_t i = s->first_inst + s->insts; i-- > s->first_inst;)
    if (b->uses[i] && !(b->once && b->once[i])) count_inputs(b, &b->n->insts.at[i]);
}

void scalar_begin_stage(Body *b, const Stage *s, const LoopPath *path, const bool *among) {
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    b->depth[i] = depth_of(b, &b->n->insts.at[i], path);
    b->uses[i] = 0;
    b->scalar[i] = (Scalar){0};
    if (b->once && b->once[i]) b->scalar[i] = (Scalar){.text = b->once[i], .binding = BIND_atom};
  }
  for (uint32_t i = s->first_root; i < s->first_root + s->roots; i++) {
    if (among && !among[i]) continue;
    b->uses[b->n->roots.at[i].temp]++;
    index_count(b, b->n->roots.at[i].ix);
  }
  count_stage(b, s);
}

bool scalar_want(Body *b, const Stage *s, const char *const *name) {
  bool any = false;
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    b->scalar[i] = (Scalar){0};
    b->uses[i] = name[i] != NULL;
    any = any || name[i];
  }
  count_stage(b, s);
  return any;
}

/* Is this the only user, at the same level, and not under a condition that would make the load
   conditional (which keeps compilers from using vectors)? */
static bool stays_inline(const Body *b, const Stage *s, NestTemp t, const Scalar *e) {
  const Inst *x = &b->n->insts.at[t];
  if (e->binding == BIND_atom && !e->loads && x->kind != INST_random && x->kind != INST_op)
    return true;
  if (x->kind == INST_host || x->kind == INST_const || x->kind == INST_row) return true;
  if (x->kind == INST_index && b->uses[t] <= 2) return true;
  if (b->uses[t] != 1 || strlen(e->text) > LONGEST_INLINE || x->guard) return false;
  if (x->kind == INST_load && body_in_place(b, x->val)) return false;
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    const Inst *user = &b->n->insts.at[i];
    for (int j = 0; j < inst_inputs(user); j++) {
      if (user->in[j] != t) continue;
      bool choice =
          user->kind == INST_select || (user->kind == INST_op && strchr(op_def(user->op)->c, '?'));
      return b->depth[i] == b->depth[t] && !(choice && e->loads);
    }
    if (user->guard == t) return b->depth[i] == b->depth[t];
  }
  return true; /* a root or an index */
}

static void write_draw_row(Body *b, const Inst *x, const LoopPath *path, uint32_t depth) {
  if (index_depth(b, x->ix2, path) != depth) return;
  for (uint32_t i = 0; i < b->draw_rows.len; i++)
    if (b->draw_rows.at[i].val == x->val && b->draw_rows.at[i].ix == x->ix2) return;
  const char *draw = body_operand(b, OPERAND_draw, x->val, false);
  const char *name = arena_printf(b->e->arena, "row%u", b->names++);
  const char *sample = sample_text(b, x, draw);
  vec_push(b->e->arena, &b->draw_rows, (DrawRow){x->val, x->ix2, name});
  if (b->e->target->scalars_in_memory)
    draw = arena_printf(b->e->arena, "ddp_draw_here(%s, %s)",
                        body_operand(b, OPERAND_scalars, 0, false), draw);
  body_line(b, "const DdpRow %s = ddp_row(%s, %s);", name, draw, sample);
}

void scalar_statements(Body *b, const Stage *s, const LoopPath *path, uint32_t depth) {
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    const Inst *x = &b->n->insts.at[i];
    if (!b->uses[i]) continue;
    if (x->kind == INST_random) write_draw_row(b, x, path, depth);
    if (b->depth[i] != depth || b->scalar[i].text) continue;
    Scalar e = inst_expr(b, x);
    b->scalar[i] = e;
    if (!stays_inline(b, s, i, &e)) scalar_name(b, i);
  }
}

const char *scalar_name(Body *b, NestTemp t) {
  Scalar *e = &b->scalar[t];
  check(e->text, "a scalar that is used before its loops are open");
  if (e->binding == BIND_atom && !e->loads && !strpbrk(e->text, "(")) return e->text;
  const char *name = b->variable ? b->variable[t] : NULL;
  if (name) {
    body_line(b, "%s = %s;", name, e->text);
  } else {
    name = arena_printf(b->e->arena, "t%u", b->names++);
    body_line(b, "const %s %s = %s;", b->e->target->compute_type(b->n->insts.at[t].dtype), name,
              e->text);
  }
  *e = (Scalar){.text = name, .binding = BIND_atom};
  return name;
}

const char *scalar_text(Body *b, NestTemp t, Binding at_least) {
  const Scalar *e = &b->scalar[t];
  check(e->text, "a scalar that is used before its loops are open");
  return protect(b, e->text, e->binding, at_least);
}
