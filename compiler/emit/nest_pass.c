/* Walks of a kernel over the loops of a stage: which element a thread has, sums within a thread and over the
   team, where results go. */
#include "nest_device.h"
#include "die.h"
#include "op.h"

const char *device_index_type(const Body *b) {
  return b->index ? b->index : "int64_t";
}

void device_open(Device *d, const char *format, ...) {
  Body *b = &d->b;
  va_list args;
  va_start(args, format);
  body_line(b, "%s {", arena_vprintf(b->e->arena, format, args));
  va_end(args);
  b->indent = arena_printf(b->e->arena, "%s  ", b->indent);
}

void device_close(Device *d) {
  Body *b = &d->b;
  b->indent = arena_strndup(b->e->arena, b->indent, strlen(b->indent) - 2);
  body_line(b, "}");
}

/* ---------- numbers of elements ---------- */

static const char *extent_text(Device *d, const LoopPath *path, uint32_t from, uint32_t to,
                               bool bound) {
  Body *b = &d->b;
  Dim product = dim_of(1);
  Text t = {0};
  for (uint32_t i = from; i < to; i++) {
    Dim extent = b->n->loops.at[path->loop[i]].extent, next;
    if (extent.per_batch) body_operand(b, OPERAND_batch, 0, false);
    if (!dim_mul(product, extent, &next)) { /* of B times B: what there is so far as a factor */
      write_dim(&t, product);
      text_add(&t, ") * (");
      next = extent;
    }
    product = next;
  }
  bool factors = t.len;
  write_dim(&t, product);
  bool atom =
      !factors && (bound || product.per_batch == 0 || (product.per_batch == 1 && !product.fixed));
  const char *s = arena_printf(b->e->arena, factors ? "((%s))" : atom ? "%s" : "(%s)", t.at);
  text_free(&t);
  return s;
}

const char *device_extent(Device *d, const LoopPath *path, uint32_t from, uint32_t to) {
  return extent_text(d, path, from, to, false);
}
const char *device_bound(Device *d, const LoopPath *path, uint32_t from, uint32_t to) {
  return extent_text(d, path, from, to, true);
}

void device_unflatten(Device *d, const LoopPath *path, uint32_t from, uint32_t to, const char *at) {
  Body *b = &d->b;
  Text t = {0};
  for (uint32_t i = from; i < to; i++) {
    text_addf(&t, "%s%s = %s", i == from ? "" : ", ", b->loop_name[path->loop[i]], at);
    if (i + 1 < to) text_addf(&t, " / %s", device_extent(d, path, i + 1, to));
    if (i > from) text_addf(&t, " %% %s", device_extent(d, path, i, i + 1));
  }
  if (t.len) body_line(b, "const %s %s;", device_index_type(b), t.at);
  text_free(&t);
}

/* ---------- what becomes of the roots ---------- */

static uint32_t uses_of(const Nest *n, const NestRoot *r, const LoopPath *path, uint32_t from,
                        uint32_t to) {
  uint32_t uses = 0;
  for (uint32_t i = from; i < to; i++) uses += nest_ix_uses_loop(n, r->ix, path->loop[i]);
  return uses;
}

void device_plan_pass(Device *d, const Pass *pass) {
  const Nest *n = d->b.n;
  const LoopPath *path = &pass->path;
  uint32_t spread = pass->rows + pass->spread;
  for (uint32_t i = 0; i < n->roots.len; i++) {
    if (!pass->root[i]) continue;
    const NestRoot *r = &n->roots.at[i];
    DeviceRoot *plan = &d->root[i];
    uint32_t inner = uses_of(n, r, path, spread, path->len);
    plan->reduced = inner < path->len - spread;
    check(!plan->reduced || inner == 0, "a root that keeps some of the loops inside a thread");
    uint32_t kept = uses_of(n, r, path, pass->rows, spread);
    plan->team = pass->spread && kept == 0;
    check(kept == 0 || kept == pass->spread, "a root that keeps some of the loops that are spread");
    plan->over_rows = launch_over_rows(n, r, pass);
    plan->alike = plan->over_rows && !pass->spread;
    const char *base = r->kind == ROOT_sum ? "s" : "m";
    Arena *a = d->b.e->arena;
    plan->acc = arena_printf(a, "%s%u", base, i);
    plan->at = arena_printf(a, "at%u", i);
    plan->total = plan->over_rows ? arena_printf(a, "total%u", i) : NULL;
    if (plan->over_rows && plan->team) plan->acc = plan->total;
  }
}

/* ---------- accumulators ---------- */

void device_begin(Device *d, uint32_t root) {
  Body *b = &d->b;
  const NestRoot *r = &b->n->roots.at[root];
  const DeviceRoot *plan = &d->root[root];
  const char *start = r->kind == ROOT_sum ? "0" : root_lowest(b->n->insts.at[r->temp].dtype);
  body_line(b, "%s %s = %s;", root_type(b, r), plan->acc, start);
  if (r->kind == ROOT_argmax) body_line(b, "int64_t %s = 0;", plan->at);
}

/* The number of the element among those that are reduced, row-major. */
static const char *position(Device *d) {
  Body *b = &d->b;
  const Pass *pass = d->pass;
  uint32_t spread = pass->rows + pass->spread;
  uint32_t from = spread < pass->path.len ? spread : pass->rows;
  const char *text = b->loop_name[pass->path.loop[from]];
  for (uint32_t i = from + 1; i < pass->path.len; i++)
    text = arena_printf(b->e->arena, i == from + 1 ? "%s * %s + %s" : "(%s) * %s + %s", text,
                        device_extent(d, &pass->path, i, i + 1), b->loop_name[pass->path.loop[i]]);
  return text;
}

static void accumulate(Device *d, uint32_t root) {
  Body *b = &d->b;
  const NestRoot *r = &b->n->roots.at[root];
  const DeviceRoot *plan = &d->root[root];
  if (r->kind == ROOT_sum) {
    body_line(b, "%s += %s;", plan->acc, scalar_text(b, r->temp, BIND_weak));
    return;
  }
  const char *t = scalar_name(b, r->temp);
  if (r->kind == ROOT_max)
    body_line(b, "%s = ddp_greater(%s, %s);", plan->acc, t, plan->acc);
  else
    body_line(b, "ddp_argmax_add(%s, %s, %s, %s);", plan->acc, plan->at, t, position(d));
}

/* ---------- where values go ---------- */

const char *device_slot(Device *d, uint32_t root, bool read) {
  Body *b = &d->b;
  const NestRoot *r = &b->n->roots.at[root];
  const char *type = r->kind == ROOT_argmax ? "int64_t" : root_type(b, r);
  return arena_printf(b->e->arena, "*(%s%s *)((char *)%s + %u)", read ? "const " : "", type,
                      body_operand(b, OPERAND_scratch, 0, false), root * 16);
}

void device_leave(Device *d, uint32_t root, const char *value) {
  Body *b = &d->b;
  const NestRoot *r = &b->n->roots.at[root];
  const char *to = d->root[root].neighbours;
  if (to)
    body_line(b, "%s.at[v] = %s;", to, root_stored(b, r, value));
  else if (d->keep_store[root])
    keep_stored(d, root, root_stored(b, r, value));
  else if (!r->row_only)
    body_store(b, r, value);
  if (d->many && root_is_read(b->n, r->val))
    body_line(b, "%s = %s;", device_slot(d, root, false), value);
}

/* By one thread of the team alone. */
static void leave_alone(Device *d, uint32_t root, const char *value) {
  Body *b = &d->b;
  const NestRoot *r = &b->n->roots.at[root];
  bool kept = d->many && root_is_read(b->n, r->val);
  if (r->row_only && !kept) return;
  if (!d->thread) {
    device_leave(d, root, value);
    return;
  }
  device_open(d, "if (%s == 0)", d->thread);
  device_leave(d, root, value);
  device_close(d);
}

/* One more element of a sum over rows. */
static void add_to_rows(Device *d, uint32_t root, const char *value) {
  Body *b = &d->b;
  const DeviceRoot *plan = &d->root[root];
  if (plan->held)
    body_line(b, "%s[%s] += %s;", plan->total, d->turn, value);
  else if (plan->parts_hold)
    body_line(b, "%s[%s] += %s;", plan->part, d->element, value);
  else
    body_line(b, "%s += %s;", plan->total, value);
}

static void barrier(Device *d) {
  if (d->thread) body_line(&d->b, d->piece->team == 32 ? "__syncwarp();" : "__syncthreads();");
  d->read.len = d->written.len = 0;
}

/* The innermost statements of a pass: stores, or one more element of a sum. */
static void write_roots(Device *d) {
  Body *b = &d->b;
  const Nest *n = b->n;
  const Stage *s = &n->stages.at[d->pass->stage];
  bool alone = d->piece->shape == SHAPE_rows && !d->pass->spread; /* all threads have the same */
  for (uint32_t i = s->first_root; alone && i < s->first_root + s->roots; i++) {
    const NestRoot *r = &n->roots.at[i];
    if (!d->pass->root[i] || r->row_only) continue;
    for (uint32_t k = 0; k < d->read.len; k++)
      if (d->read.at[k] == kernel_base(b->p, r->val)) {
        barrier(d);
        break;
      }
  }
  for (uint32_t i = s->first_root; i < s->first_root + s->roots; i++) {
    const NestRoot *r = &n->roots.at[i];
    const DeviceRoot *plan = &d->root[i];
    if (!d->pass->root[i]) continue;
    if (plan->over_rows && !plan->reduced && !plan->team) {
      add_to_rows(d, i, scalar_text(b, r->temp, BIND_weak));
    } else if (plan->reduced || plan->team) {
      accumulate(d, i);
    } else if (alone) {
      const char *t =
          root_is_read(n, r->val) ? scalar_name(b, r->temp) : scalar_text(b, r->temp, BIND_weak);
      b->row[i] = t;
      leave_alone(d, i, t);
    } else {
      device_leave(d, i, scalar_text(b, r->temp, BIND_weak));
    }
  }
}

/* The loops inside a thread, and what they leave. */
static void write_inner(Device *d, uint32_t position) {
  Body *b = &d->b;
  const Pass *pass = d->pass;
  if (position == pass->path.len) {
    write_roots(d);
    return;
  }
  const char *name = b->loop_name[pass->path.loop[position]];
  device_open(d, "for (%s %s = 0; %s < %s; %s++)", device_index_type(b), name, name,
              device_bound(d, &pass->path, position, position + 1), name);
  scalar_statements(b, &b->n->stages.at[pass->stage], &pass->path, position + 1);
  write_inner(d, position + 1);
  device_close(d);
}

static void each_root(Device *d, bool (*which)(const DeviceRoot *),
                      void (*what)(Device *, uint32_t)) {
  for (uint32_t i = 0; i < d->b.n->roots.len; i++)
    if (d->pass->root[i] && which(&d->root[i])) what(d, i);
}

static const char *value_of(const Device *d, uint32_t root) {
  return d->b.n->roots.at[root].kind == ROOT_argmax ? d->root[root].at : d->root[root].acc;
}

static bool is_inside(const DeviceRoot *r) {
  return r->reduced && !r->team;
}
static void leave_inside(Device *d, uint32_t root) {
  const DeviceRoot *plan = &d->root[root];
  if (plan->over_rows)
    add_to_rows(d, root, value_of(d, root));
  else
    device_leave(d, root, value_of(d, root));
}

/* The statements of a thread for its element, whose loops are open. */
static void write_element(Device *d) {
  const Pass *pass = d->pass;
  each_root(d, is_inside, device_begin);
  write_inner(d, pass->rows + pass->spread);
  each_root(d, is_inside, leave_inside);
}

static void begin_pass(Device *d, const Pass *pass) {
  Body *b = &d->b;
  d->pass = pass;
  b->draw_rows.len = 0;
  scalar_begin_stage(b, &b->n->stages.at[pass->stage], &pass->path, pass->root);
}

static void statements(Device *d, uint32_t from, uint32_t to) {
  const Stage *s = &d->b.n->stages.at[d->pass->stage];
  for (uint32_t i = from; i <= to; i++) scalar_statements(&d->b, s, &d->pass->path, i);
}

/* ---------- teams ---------- */

static bool has(const Val *at, uint32_t len, Val v) {
  for (uint32_t i = 0; i < len; i++)
    if (at[i] == v) return true;
  return false;
}

/* A barrier where this pass reads what was written since the last one, or writes what was read. */
static void wait_for_memory(Device *d) {
  Body *b = &d->b;
  const Stage *s = &b->n->stages.at[d->pass->stage];
  bool wait = false;
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    const Inst *x = &b->n->insts.at[i];
    if (x->kind != INST_load || !b->uses[i] || d->kept_load[i]) continue;
    wait = wait || has(d->written.at, d->written.len, kernel_base(b->p, x->val));
  }
  for (uint32_t i = s->first_root; i < s->first_root + s->roots; i++) {
    Val v = kernel_base(b->p, b->n->roots.at[i].val);
    if (!d->pass->root[i] || b->n->roots.at[i].row_only) continue;
    wait = wait || has(d->written.at, d->written.len, v) || has(d->read.at, d->read.len, v);
  }
  if (wait) barrier(d);
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    const Inst *x = &b->n->insts.at[i];
    if (x->kind == INST_load && b->uses[i] && !d->kept_load[i])
      vec_push(b->e->arena, &d->read, kernel_base(b->p, x->val));
  }
}

static void note_writes(Device *d) {
  const Nest *n = d->b.n;
  for (uint32_t i = 0; i < n->roots.len; i++)
    if (d->pass->root[i] && !n->roots.at[i].row_only && !d->unread[i])
      vec_push(d->b.e->arena, &d->written, kernel_base(d->b.p, n->roots.at[i].val));
}

static bool is_team(const DeviceRoot *r) {
  return r->team && !r->over_rows;
}
static void sum_of_team(Device *d, uint32_t root) {
  Body *b = &d->b;
  const NestRoot *r = &b->n->roots.at[root];
  const DeviceRoot *plan = &d->root[root];
  const char *who = d->piece->team == 32 ? "warp" : "block", *type = root_type(b, r);
  const char *shared = d->piece->team == 32 ? "" : arena_printf(b->e->arena, ", shared_%s", type);
  if (d->thread && r->kind == ROOT_sum)
    body_line(b, "%s = ddp_%s_sum(%s%s);", plan->acc, who, plan->acc, shared);
  else if (d->thread && r->kind == ROOT_max)
    body_line(b, "%s = ddp_%s_greatest(%s%s);", plan->acc, who, plan->acc, shared);
  else if (d->thread)
    body_line(b, "ddp_%s_argmax(%s, %s%s%s);", who, plan->acc, plan->at, shared,
              d->piece->team == 32 ? "" : ", shared_at");
  if (d->piece->team > 32) d->read.len = d->written.len = 0;
  b->row[root] = value_of(d, root);
  leave_alone(d, root, b->row[root]);
}

/* The loop over the elements of the pass, each in one thread of the team. Returns how many braces are open. */
static int open_spread(Device *d, const char *at) {
  Body *b = &d->b;
  const Pass *pass = d->pass;
  const LoopPath *path = &pass->path;
  uint32_t from = pass->rows, to = pass->rows + pass->spread;
  const char *type = device_index_type(b), *extent = device_bound(d, path, from, to);
  int team = d->piece->team, step = team * pass->vector;
  int64_t elements = launch_extent(b->p, b->n, path, from, to);
  const char *thread = d->thread && pass->vector > 1
                           ? arena_printf(b->e->arena, "%s * %d", d->thread, pass->vector)
                           : d->thread;
  int opened = 1;
  if (launch_turns(b->n, team, pass)) {
    body_line(b, "DDP_UNROLL");
    device_open(d, "for (%s u = 0; u < %s; u += %d)", type, extent, step);
    d->element_at = b->out->len;
    body_line(b, "const %s %s = u + %s;", type, at, thread);
    d->turn = pass->vector > 1 ? arena_printf(b->e->arena, "u / %d + v", team)
                               : arena_printf(b->e->arena, "u / %d", team);
    if (elements % step) {
      device_open(d, "if (%s < %s)", at, extent);
      opened++;
    }
  } else {
    device_open(d, "for (%s %s = %s; %s < %s; %s += %d)", type, at, team > 1 ? thread : "0", at,
                extent, at, step);
  }
  d->element = pass->vector > 1 ? arena_printf(b->e->arena, "%s + v", at) : at;
  return opened;
}

/* What the number of an element is called: the loop, if it is the only one and each thread has one element
   at a time. */
static const char *number_name(const Device *d) {
  const Pass *pass = d->pass;
  if (pass->spread != 1) return "at";
  return pass->vector > 1 ? "first" : d->b.loop_name[pass->path.loop[pass->rows]];
}

/* The statements of a thread for the element `at`, or for it and its neighbours. */
static void write_spread(Device *d, const char *at) {
  Body *b = &d->b;
  const Pass *pass = d->pass;
  uint32_t from = pass->rows, to = pass->rows + pass->spread, last = pass->path.loop[to - 1];
  const char *name = b->loop_name[last], *first = pass->spread > 1 ? "first" : at;
  if (pass->vector == 1) {
    if (pass->spread > 1) device_unflatten(d, &pass->path, from, to, at);
    statements(d, from + 1, to - 1);
    keep_single(d);
    statements(d, to, to);
    write_element(d);
    b->neighbour = NULL;
    return;
  }
  b->loop_name[last] = first;
  if (pass->spread > 1) device_unflatten(d, &pass->path, from, to, at);
  b->loop_name[last] = name;
  statements(d, from + 1, to - 1);
  vector_open(d, first);
  statements(d, to, to);
  write_element(d);
  vector_close(d, first);
}

void device_team_pass(Device *d, const Pass *pass) {
  begin_pass(d, pass);
  wait_for_memory(d);
  statements(d, 0, pass->rows);
  if (!pass->spread) {
    write_element(d);
    note_writes(d);
    return;
  }
  keep_declare(d);
  each_root(d, is_team, device_begin);
  int opened = open_spread(d, number_name(d));
  write_spread(d, number_name(d));
  if (launch_turns(d->b.n, d->piece->team, pass))
    vector_drop_name(d, d->element_at, number_name(d));
  while (opened--) device_close(d);
  note_writes(d);
  each_root(d, is_team, sum_of_team);
}

/* ---------- grids ---------- */

static bool is_sum_along(const DeviceRoot *r) {
  return r->reduced;
}
static void leave_along(Device *d, uint32_t root) {
  DeviceRoot *plan = &d->root[root];
  if (plan->in_parts)
    body_line(&d->b, "%s[%s] = %s;", plan->part, d->element, plan->acc);
  else
    device_leave(d, root, value_of(d, root));
}
static void sum_along(Device *d, uint32_t root) {
  Body *b = &d->b;
  const char *type = root_type(b, &b->n->roots.at[root]);
  body_line(b, "%s = ddp_sum_along(%s, shared_%s);", d->root[root].acc, d->root[root].acc, type);
}

/* Along what is reduced: several threads and blocks take turns, or one thread does it all. */
static void write_along(Device *d) {
  Body *b = &d->b;
  const Pass *pass = d->pass;
  const Piece *piece = d->piece;
  uint32_t from = pass->spread, to = pass->path.len;
  if (piece->along == 1 && piece->parts == 1) {
    write_inner(d, from);
    return;
  }
  const char *type = device_index_type(b);
  const char *first = piece->parts > 1
                          ? arena_printf(b->e->arena, "blockIdx.y * %d + threadIdx.y", piece->along)
                          : "threadIdx.y";
  const char *at = to - from == 1 ? b->loop_name[pass->path.loop[from]] : "along";
  device_open(d, "for (%s %s = %s; %s < %s; %s += %lld)", type, at, first, at,
              device_bound(d, &pass->path, from, to), at, (long long)(piece->along * piece->parts));
  if (to - from > 1) device_unflatten(d, &pass->path, from, to, at);
  statements(d, from + 1, to);
  write_roots(d);
  device_close(d);
}

void device_grid_pass(Device *d, const Pass *pass) {
  Body *b = &d->b;
  const Piece *piece = d->piece;
  const LoopPath *path = &pass->path;
  begin_pass(d, pass);
  const char *extent = device_bound(d, path, 0, pass->spread), *type = device_index_type(b);
  const char *at = number_name(d);
  bool one = !pass->spread && piece->across == 1; /* nothing is kept */
  bool together = piece->along > 1;               /* threads meet at the end */
  d->element = one ? "0" : at;
  if (!one)
    body_line(b,
              pass->vector > 1 ? "const %s %s = (%sblockIdx.x * %d + threadIdx.x) * %d;"
                               : "const %s %s = %sblockIdx.x * %d + threadIdx.x;",
              type, at, b->index ? "" : "(int64_t)", piece->across, pass->vector);
  if (!one && !together) body_line(b, "if (%s >= %s) return;", at, extent);
  if (pass->spread && pass->spread == path->len) {
    statements(d, 0, 0);
    write_spread(d, at);
    return;
  }
  if (pass->spread > 1) device_unflatten(d, path, 0, pass->spread, at);
  each_root(d, is_sum_along, device_begin);
  if (!one && together) device_open(d, "if (%s < %s)", at, extent);
  statements(d, 0, pass->spread);
  if (pass->spread < path->len)
    write_along(d);
  else
    write_roots(d);
  if (!one && together) device_close(d);
  if (together) {
    each_root(d, is_sum_along, sum_along);
    device_open(d, one ? "if (threadIdx.y == 0)" : "if (threadIdx.y == 0 && %s < %s)", at, extent);
  }
  each_root(d, is_sum_along, leave_along);
  if (together) device_close(d);
}
