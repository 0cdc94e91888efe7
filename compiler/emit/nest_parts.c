/* Sums that several teams or blocks keep, each a part in scratch: by columns split along what is reduced, by
   rows over all rows. A second kernel adds the parts in their order. */
#include "nest_device.h"

static const Pass *pass_of(const Device *d, uint32_t root) {
  for (uint32_t i = 0; i < d->piece->passes.len; i++)
    if (d->piece->passes.at[i].root[root]) return &d->piece->passes.at[i];
  return NULL;
}

/* The loops that the sum keeps: those of its pass that are spread, or none. */
static uint32_t kept_from(const Pass *pass) {
  return pass->rows;
}
static uint32_t kept_to(const Device *d, uint32_t root, const Pass *pass) {
  return pass->rows + (d->root[root].team ? 0 : pass->spread);
}

static int64_t width_of(const Device *d, uint32_t root) {
  const Pass *pass = pass_of(d, root);
  return launch_extent(d->b.p, d->b.n, &pass->path, kept_from(pass), kept_to(d, root, pass));
}
static const char *width_text(Device *d, uint32_t root) {
  const Pass *pass = pass_of(d, root);
  return device_extent(d, &pass->path, kept_from(pass), kept_to(d, root, pass));
}

int64_t device_place_parts(Device *d, int64_t offset) {
  for (uint32_t i = 0; i < d->b.n->roots.len; i++) {
    const Pass *pass = pass_of(d, i);
    if (!pass) continue;
    DeviceRoot *plan = &d->root[i];
    plan->in_parts =
        d->piece->shape == SHAPE_columns ? plan->reduced && d->piece->parts > 1 : plan->over_rows;
    if (!plan->in_parts) continue;
    if (plan->over_rows && !plan->team && !plan->alike) {
      plan->held = launch_turns(d->b.n, d->piece->team, pass);
      plan->parts_hold = !plan->held;
    }
    if (plan->held) plan->held *= pass->vector;
    plan->part = arena_printf(d->b.e->arena, "part%u", i);
    plan->offset = offset;
    offset += (d->piece->parts * width_of(d, i) * 8 + 255) / 256 * 256;
  }
  return offset;
}

int64_t device_shared_width(const Device *d) {
  int64_t widest = 0;
  for (uint32_t i = 0; i < d->b.n->roots.len; i++)
    if (pass_of(d, i) && d->root[i].held && width_of(d, i) > widest) widest = width_of(d, i);
  return d->piece->of_blocks && d->piece->threads > d->piece->team ? widest : 0;
}

int64_t device_parts_width(const Device *d) {
  int64_t widest = 0;
  for (uint32_t i = 0; i < d->b.n->roots.len; i++)
    if (pass_of(d, i) && d->root[i].in_parts && width_of(d, i) > widest) widest = width_of(d, i);
  return widest;
}

void device_shared(Device *d, int n, bool (*which)(const DeviceRoot *)) {
  VEC(const char *) known = {0};
  for (uint32_t i = 0; i < d->b.n->roots.len; i++) {
    if (!pass_of(d, i) || !which(&d->root[i])) continue;
    const NestRoot *r = &d->b.n->roots.at[i];
    const char *type = root_type(&d->b, r);
    bool argmax = r->kind == ROOT_argmax, there = false;
    for (uint32_t k = 0; k < known.len; k++) there = there || !strcmp(known.at[k], type);
    if (!there) body_line(&d->b, "__shared__ %s shared_%s[%d];", type, type, n);
    if (!there) vec_push(d->b.e->arena, &known, type);
    for (uint32_t k = 0; k < known.len; k++) argmax = argmax && strcmp(known.at[k], "at") != 0;
    if (argmax) body_line(&d->b, "__shared__ int64_t shared_at[%d];", n);
    if (argmax) vec_push(d->b.e->arena, &known, "at");
  }
}

static void declare_pointer(Device *d, uint32_t root, const char *which) {
  Body *b = &d->b;
  const char *type = root_type(b, &b->n->roots.at[root]);
  const char *scratch = body_operand(b, OPERAND_scratch, 0, false);
  const char *at = scratch;
  if (d->root[root].offset)
    at = arena_printf(b->e->arena, "((char *)%s + %lld)", scratch, (long long)d->root[root].offset);
  if (which)
    body_line(b, "%s *const %s = (%s *)%s + %s * %s;", type, d->root[root].part, type, at, which,
              width_text(d, root));
  else
    body_line(b, "const %s *const %s = (const %s *)%s;", type, d->root[root].part, type, at);
}

void device_declare_parts(Device *d) {
  Body *b = &d->b;
  for (uint32_t i = 0; i < b->n->roots.len; i++) {
    const DeviceRoot *plan = &d->root[i];
    if (!pass_of(d, i) || !plan->in_parts) continue;
    bool rows = d->piece->shape == SHAPE_rows;
    declare_pointer(d, i, !rows ? "blockIdx.y" : d->piece->of_blocks ? "blockIdx.x" : "team");
    if (!rows) continue;
    const char *type = root_type(b, &b->n->roots.at[i]);
    if (plan->held) {
      body_line(b, "%s %s[%d] = {0};", type, plan->total, plan->held);
    } else if (plan->parts_hold) {
      device_open(d, "for (%s at = %s; at < %s; at += %d)", device_index_type(b), d->thread,
                  width_text(d, i), d->piece->team);
      body_line(b, "%s[at] = 0;", plan->part);
      device_close(d);
    } else {
      body_line(b, "%s %s = 0;", type, plan->total);
    }
  }
}

/* The teams of a block add up what they hold. */
static void write_held_together(Device *d, uint32_t root) {
  const DeviceRoot *plan = &d->root[root];
  body_line(&d->b, "ddp_teams_leave<%d, %d>(%s, %lld, %s, shared_%s);", d->piece->team,
            pass_of(d, root)->vector, plan->part, (long long)width_of(d, root), plan->total,
            root_type(&d->b, &d->b.n->roots.at[root]));
}

static void write_held(Device *d, uint32_t root) {
  const DeviceRoot *plan = &d->root[root];
  if (device_shared_width(d)) {
    write_held_together(d, root);
    return;
  }
  int64_t width = width_of(d, root);
  int team = d->piece->team, vector = pass_of(d, root)->vector, step = team * vector;
  const char *type = device_index_type(&d->b);
  const char *mine = d->thread, *element;
  if (vector > 1) mine = arena_printf(d->b.e->arena, "%s * %d", d->thread, vector);
  element = vector > 1 ? arena_printf(d->b.e->arena, "u + %s + v", mine)
                       : arena_printf(d->b.e->arena, "u + %s", mine);
  body_line(&d->b, "DDP_UNROLL");
  device_open(d, "for (%s u = 0; u < %lld; u += %d)", type, (long long)width, step);
  if (width % step) device_open(d, "if (u + %s < %lld)", mine, (long long)width);
  if (vector > 1) {
    body_line(&d->b, "DDP_UNROLL");
    body_line(&d->b, "for (int v = 0; v < %d; v++) %s[%s] = %s[u / %d + v];", vector, plan->part,
              element, plan->total, team);
  } else {
    body_line(&d->b, "%s[%s] = %s[u / %d];", plan->part, element, plan->total, team);
  }
  if (width % step) device_close(d);
  device_close(d);
}

/* One number: of the block, or (not of_blocks) of the team. */
static void write_single(Device *d, uint32_t root) {
  Body *b = &d->b;
  const DeviceRoot *plan = &d->root[root];
  const char *type = root_type(b, &b->n->roots.at[root]), *total = plan->total;
  const char *who = d->piece->of_blocks ? "threadIdx.x" : d->thread ? d->thread : "threadIdx.x";
  bool several = d->piece->threads > d->piece->team && d->piece->of_blocks;
  if (several && plan->alike && d->thread) /* all of a team have the same */
    body_line(b, "%s = ddp_block_sum(%s == 0 ? %s : 0, shared_%s);", total, d->thread, total, type);
  else if (several || (plan->team && d->piece->team > 32))
    body_line(b, "%s = ddp_block_sum(%s, shared_%s);", total, total, type);
  else if (plan->team)
    body_line(b, "%s = ddp_warp_sum(%s);", total, total);
  body_line(b, "if (%s == 0) %s[0] = %s;", who, plan->part, total);
}

void device_write_parts(Device *d) {
  for (uint32_t i = 0; i < d->b.n->roots.len; i++) {
    const DeviceRoot *plan = &d->root[i];
    if (!pass_of(d, i) || !plan->in_parts || plan->parts_hold) continue;
    if (plan->held)
      write_held(d, i);
    else
      write_single(d, i);
  }
}

/* ---------- the second kernel ---------- */

static bool is_in_parts(const DeviceRoot *r) {
  return r->in_parts;
}

static void add_root(Device *d, uint32_t root) {
  Body *b = &d->b;
  const Pass *pass = pass_of(d, root);
  const DeviceRoot *plan = &d->root[root];
  const char *type = root_type(b, &b->n->roots.at[root]), *index = device_index_type(b);
  const char *width = width_text(d, root);
  uint32_t from = kept_from(pass), to = kept_to(d, root, pass);
  const char *at = to - from == 1 ? b->loop_name[pass->path.loop[from]] : "at";
  device_open(d, "for (%s first = blockIdx.x * 32; first < %s; first += gridDim.x * 32)", index,
              width);
  body_line(b, "const %s %s = first + threadIdx.x;", index, at);
  body_line(b, "%s %s = 0;", type, plan->acc);
  device_open(d, "if (%s < %s)", at, width);
  device_open(d, "for (%s part = threadIdx.y; part < %lld; part += 8)", index,
              (long long)d->piece->parts);
  body_line(b, "%s += %s[part * %s + %s];", plan->acc, plan->part, width, at);
  device_close(d);
  device_close(d);
  body_line(b, "%s = ddp_sum_along(%s, shared_%s);", plan->acc, plan->acc, type);
  device_open(d, "if (threadIdx.y == 0 && %s < %s)", at, width);
  if (to - from > 1) device_unflatten(d, &pass->path, from, to, at);
  device_leave(d, root, plan->acc);
  device_close(d);
  device_close(d);
}

void device_add_parts(Device *d) {
  const Nest *n = d->b.n;
  device_shared(d, 256, is_in_parts);
  for (uint32_t i = 0; i < n->roots.len; i++) {
    if (!pass_of(d, i) || !d->root[i].in_parts) continue;
    declare_pointer(d, i, NULL);
    add_root(d, i);
  }
}
