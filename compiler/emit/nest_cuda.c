/* Loop nests as kernels of a GPU: the pieces that launch.c chooses, each a kernel with its grid, and where
   several teams or blocks keep sums, a second one. */
#include "nest_cuda.h"
#include "nest_device.h"
#include "die.h"
#include "nest_loops.h"

/* Do all numbers of elements of this kernel fit into an int, and those of threads behind the last one? */
static bool is_narrow(const Program *p, const Nest *n, const Plan *plan) {
  const int64_t most = INT32_MAX - (1 << 20);
  for (uint32_t i = 1; i < n->insts.len; i++)
    if (n->insts.at[i].kind == INST_load &&
        type_elements_at(value_at(n->g, n->insts.at[i].val)->type, p->batch_max) > most)
      return false;
  for (uint32_t i = 0; i < n->roots.len; i++)
    if (type_elements_at(value_at(n->g, n->roots.at[i].val)->type, p->batch_max) > most)
      return false;
  for (uint32_t k = 0; k < n->stages.len; k++) {
    double product = 1;
    for (uint32_t l = 0; l < n->outer + n->stages.at[k].loops; l++) {
      uint32_t loop = l < n->outer ? l : n->stages.at[k].first_loop + l - n->outer;
      product *= (double)dim_at(n->loops.at[loop].extent, p->batch_max);
    }
    if (product > (double)most) return false;
  }
  for (uint32_t i = 0; plan && i < plan->arenas.len; i++) /* optimizers walk over ranges of them */
    if (plan->arenas.at[i].elements > most) return false;
  return true;
}

static void write_serial(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls) {
  Text body = {0};
  KernelCall call = {.grid = "1", .block = "1"};
  nest_loops(e, p, k, &call, &body);
  const char *head =
      arena_printf(e->arena, "%s void __launch_bounds__(1)", e->target->kernel_qualifier);
  kernel_share(e, p, k, "", head, body.at ? body.at : "", &call);
  text_free(&body);
  vec_push(e->arena, calls, call);
}

/* ---------- grids ---------- */

static const char *grid_of(Device *d) {
  const Piece *piece = d->piece;
  Arena *a = d->b.e->arena;
  if (piece->shape == SHAPE_rows) {
    int64_t block = piece->threads / piece->team;
    if (piece->parts)
      return arena_printf(a, "%lld",
                          (long long)(piece->of_blocks ? piece->parts : piece->parts / block));
    const char *rows = device_bound(d, &piece->passes.at[0].path, 0, piece->rows);
    if (block == 1) return rows;
    return arena_printf(a, "ddp_blocks(%s, %lld)", rows, (long long)block);
  }
  const Pass *pass = &piece->passes.at[0];
  const char *width = device_bound(d, &pass->path, 0, pass->spread);
  bool one = launch_extent(d->b.p, d->b.n, &pass->path, 0, pass->spread) == 1;
  const char *blocks =
      one ? "1" : arena_printf(a, "ddp_blocks(%s, %d)", width, piece->across * pass->vector);
  return piece->parts > 1 ? arena_printf(a, "dim3(%s, %lld)", blocks, (long long)piece->parts)
                          : blocks;
}

static const char *block_of(Device *d) {
  const Piece *piece = d->piece;
  if (piece->along > 1)
    return arena_printf(d->b.e->arena, "dim3(%d, %d)", piece->across, piece->along);
  return arena_printf(d->b.e->arena, "%d", piece->threads);
}

/* ---------- bodies ---------- */

/* Rows' sums of all threads of a block, in shared memory. */
static bool is_over_rows(const DeviceRoot *r) {
  return r->over_rows && !r->held && !r->parts_hold;
}
static bool is_of_block(const DeviceRoot *r) {
  return r->team && (!r->over_rows || is_over_rows(r));
}
static bool is_kept(const DeviceRoot *r) {
  return r->over_rows && !r->parts_hold;
}
static bool is_reduced(const DeviceRoot *r) {
  return r->reduced;
}

static void write_rows(Device *d) {
  Body *b = &d->b;
  const Piece *piece = d->piece;
  const char *type = device_index_type(b), *wide = b->index ? "" : "(int64_t)";
  const char *rows = device_bound(d, &piece->passes.at[0].path, 0, piece->rows);
  int team = piece->team, block = piece->threads / team;
  d->thread = team == 1 ? NULL : team == 32 ? "lane" : "thread";
  int64_t width = device_shared_width(d);
  if (block == 1)
    device_shared(d, 32, is_of_block);
  else if (piece->of_blocks) /* what one thread or warp reduces needs none */
    device_shared(d, width > 32 ? (int)width : 32, is_kept);
  if (team > 1 && block > 1)
    body_line(b, "const int %s = threadIdx.x %% %d;", d->thread, team);
  else if (team > 1)
    body_line(b, "const int thread = threadIdx.x;");
  const char *own = team > 1 ? arena_printf(b->e->arena, "threadIdx.x / %d", team) : "threadIdx.x";
  const char *first = block > 1
                          ? arena_printf(b->e->arena, "%sblockIdx.x * %d + %s", wide, block, own)
                          : "blockIdx.x";
  const LoopPath *path = &piece->passes.at[0].path;
  const char *row = piece->rows == 1 ? b->loop_name[path->loop[0]] : "row";
  if (piece->parts) {
    if (team > 1) body_line(b, "const int team = %s;", first);
    device_declare_parts(d);
    int64_t teams = piece->of_blocks ? piece->parts * block : piece->parts;
    device_open(d, "for (%s %s = %s; %s < %s; %s += %lld)", type, row, team > 1 ? "team" : first,
                row, rows, row, (long long)teams);
  } else if (piece->rows || block > 1) {
    body_line(b, "const %s %s = %s;", type, row, first);
    if (block > 1) body_line(b, "if (%s >= %s) return;", row, rows);
  }
  if (piece->rows > 1) device_unflatten(d, path, 0, piece->rows, row);
  for (uint32_t i = 0; i < piece->passes.len; i++) device_team_pass(d, &piece->passes.at[i]);
  if (!piece->parts) return;
  device_close(d);
  device_write_parts(d);
}

static void write_grid(Device *d) {
  if (d->piece->along > 1) device_shared(d, d->piece->threads, is_reduced);
  if (d->piece->parts > 1) device_declare_parts(d);
  device_grid_pass(d, &d->piece->passes.at[0]);
}

/* Operands of what this piece writes come first; sums in parts are written by the second kernel. */
static void name_written(Device *d, bool parts) {
  const Nest *n = d->b.n;
  for (uint32_t i = 0; i < n->roots.len; i++) {
    const NestRoot *r = &n->roots.at[i];
    bool mine = false;
    for (uint32_t k = 0; k < d->piece->passes.len; k++)
      mine = mine || d->piece->passes.at[k].root[i];
    if (!mine || r->row_only || d->root[i].in_parts != parts || d->unread[i]) continue;
    body_operand(&d->b, root_is_sum(&d->b, r) ? OPERAND_sum : OPERAND_memory, r->val, true);
  }
}

static void share(Device *d, const char *suffix, int threads, KernelCall *call,
                  KernelCalls *calls) {
  Emit *e = d->b.e;
  const char *head =
      arena_printf(e->arena, "%s void __launch_bounds__(%d)", e->target->kernel_qualifier, threads);
  call->index = d->b.index;
  call->batch = strchr(call->grid, 'B') != NULL;
  kernel_share(e, d->b.p, d->k, suffix, head, d->b.out->at ? d->b.out->at : "", call);
  vec_push(e->arena, calls, *call);
}

static void write_sums(Device *d, KernelCalls *calls) {
  Text body = {0};
  KernelCall call = {.block = "dim3(32, 8)"};
  int64_t blocks = (device_parts_width(d) + 31) / 32;
  call.grid = arena_printf(d->b.e->arena, "%lld", (long long)(blocks < 1024 ? blocks : 1024));
  d->b.out = &body;
  d->b.operands = &call.operands;
  d->b.indent = "  ";
  name_written(d, true);
  body_hold(&d->b);
  device_add_parts(d);
  share(d, "sum", 256, &call, calls);
  text_free(&body);
}

/* Values per row that earlier pieces left. */
static void find_rows(Device *d) {
  Body *b = &d->b;
  if (!d->many) return;
  for (uint32_t i = 0; i < b->n->roots.len; i++)
    if (root_is_read(b->n, b->n->roots.at[i].val)) b->row[i] = device_slot(d, i, true);
}

static void write_piece(Device *d, const char *suffix, KernelCalls *calls) {
  Emit *e = d->b.e;
  Text body = {0};
  KernelCall call = {0};
  d->b.out = &body;
  d->b.operands = &call.operands;
  body_begin(&d->b, d->k);
  for (uint32_t i = 0; i < d->b.n->stages.len; i++) body_path(&d->b, &d->b.n->stages.at[i]);
  d->root = ARENA_ARRAY(e->arena, DeviceRoot, d->b.n->roots.len + 1);
  for (uint32_t i = 0; i < d->piece->passes.len; i++) device_plan_pass(d, &d->piece->passes.at[i]);
  int64_t end =
      device_place_parts(d, d->many ? (int64_t)(d->b.n->roots.len * 16 + 255) / 256 * 256 : 0);
  if (end > e->nest_scratch) e->nest_scratch = end;
  keep_plan(d);
  name_written(d, false);
  body_hold(&d->b);
  find_rows(d);
  device_once(d);
  if (d->piece->shape == SHAPE_rows)
    write_rows(d);
  else
    write_grid(d);
  Operands unused = {0};
  d->b.operands = &unused;
  call.grid = grid_of(d);
  call.block = block_of(d);
  share(d, suffix, d->piece->threads, &call, calls);
  text_free(&body);
  if (device_parts_width(d)) write_sums(d, calls);
}

void nest_cuda_functions(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls) {
  Pieces pieces = launch_pieces(e->arena, p, k->nest);
  if (pieces.at[0].shape == SHAPE_serial) {
    write_serial(e, p, k, calls);
    return;
  }
  const char *index = is_narrow(p, k->nest, e->plan) ? "int" : NULL;
  for (uint32_t i = 0; i < pieces.len; i++) {
    Device d = {.b = {.e = e, .p = p, .indent = "  ", .index = index},
                .k = k,
                .piece = &pieces.at[i],
                .many = pieces.len > 1};
    write_piece(&d, i ? arena_printf(e->arena, "%u", i + 1) : "", calls);
  }
}
