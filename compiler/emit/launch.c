/* See launch.h. */
#include "nest_device.h"
#include "die.h"

enum {
  WARP = 32,
  BLOCK = 256,       /* threads of a block */
  WIDE_BLOCK = 1024, /* where a row is */
  WIDE_ROW =
      8192, /* more elements: few rows at a time, so that they stay in the cache between passes */
  WARPS_A_BLOCK = 4,  /* where a team is a warp */
  ALONE = 4,          /* up to so many elements of a row are left to one thread */
  WARP_ROW = 1024,    /* up to so many to one warp */
  FEW_ROWS = 1024,    /* that many warps do not fill a GPU: a block a row */
  INSIDE = 32,        /* up to so many elements are reduced within a thread */
  TURNS = 16,         /* of a thread along what is reduced, before more blocks take part */
  MOST_BLOCKS = 1024, /* of columns, all parts together */
  PARTS = 256,        /* of sums over rows, where each team has one */
  ROW_BLOCKS =
      264, /* blocks with sums over rows: two for each multiprocessor of the GPUs that have most, */
  ALL_BLOCKS = 1056,   /* more where these are single numbers, */
  COLUMN_BLOCKS = 528, /* or all that there is to keep; */
  ROWS_A_TEAM =
      4, /* but as many rows at least for each team, so that parts are few beside what is read */
  ROWS_A_COLUMN = 8,
  MOST_TURNS = 32,  /* of a thread, that are written out */
  ONE_BLOCK = 4096, /* stages of up to so many elements need no kernels of their own */
};

int64_t launch_extent(const Program *p, const Nest *n, const LoopPath *path, uint32_t from,
                      uint32_t to) {
  int64_t product = 1;
  for (uint32_t i = from; i < to; i++)
    product *= dim_at(n->loops.at[path->loop[i]].extent, p->batch_max);
  return product;
}

static LoopPath path_of(const Nest *n, const Stage *s) {
  LoopPath path = {0};
  for (uint32_t l = 0; l < n->outer; l++) path.loop[path.len++] = l;
  for (uint32_t l = 0; l < s->loops; l++) path.loop[path.len++] = s->first_loop + l;
  return path;
}

/* The loops of the path that the root keeps, as bits. */
static uint32_t kept_loops(const Nest *n, const NestRoot *r, const LoopPath *path) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < path->len; i++)
    if (nest_ix_uses_loop(n, r->ix, path->loop[i])) kept |= 1u << i;
  return kept;
}

static uint32_t all_loops(uint32_t len) {
  return (1u << len) - 1;
}

bool launch_over_rows(const Nest *n, const NestRoot *r, const Pass *pass) {
  for (uint32_t i = 0; i < pass->rows; i++)
    if (!nest_ix_uses_loop(n, r->ix, pass->path.loop[i])) return true;
  return false;
}

/* ---------- one stage alone ---------- */

typedef struct StageOf {
  Arena *a;
  const Program *p;
  const Nest *n;
  uint32_t stage;
  LoopPath path;
  const bool *among; /* by root */
} StageOf;

static const Stage *stage_at(const StageOf *s) {
  return &s->n->stages.at[s->stage];
}

/* A pass over all loops of the path: those in `spread` (bits) behind the rows, then the others. */
static Pass make_pass(const StageOf *s, uint32_t rows, uint32_t spread, const bool *root) {
  Pass pass = {.stage = s->stage, .root = root, .rows = rows, .vector = 1};
  for (uint32_t i = 0; i < rows; i++) pass.path.loop[pass.path.len++] = s->path.loop[i];
  for (uint32_t i = rows; i < s->path.len; i++)
    if (spread >> i & 1) pass.path.loop[pass.path.len++] = s->path.loop[i];
  pass.spread = pass.path.len - rows;
  for (uint32_t i = rows; i < s->path.len; i++)
    if (!(spread >> i & 1)) pass.path.loop[pass.path.len++] = s->path.loop[i];
  return pass;
}

static int64_t extent_of(const StageOf *s, uint32_t loops) {
  int64_t product = 1;
  for (uint32_t i = 0; i < s->path.len; i++)
    if (loops >> i & 1) product *= launch_extent(s->p, s->n, &s->path, i, i + 1);
  return product;
}

static int power_of_two(int64_t atmost) {
  int n = 1;
  while (n * 2 <= atmost) n *= 2;
  return n;
}

int launch_turns(const Nest *n, int team, const Pass *pass) {
  int64_t elements = 1;
  for (uint32_t i = pass->rows; i < pass->rows + pass->spread; i++) {
    Dim extent = n->loops.at[pass->path.loop[i]].extent;
    if (extent.per_batch) return 0;
    elements *= extent.fixed;
  }
  int step = team * pass->vector;
  int64_t turns = (elements + step - 1) / step;
  return step > 1 && turns * pass->vector <= MOST_TURNS ? (int)turns : 0;
}

/* Blocks of so many rows at a time, each with `least` turns. */
static int64_t blocks_of(int64_t rows, int64_t block, int64_t least, int64_t most) {
  int64_t blocks = (rows + block * least - 1) / (block * least);
  return blocks < 1 ? 1 : blocks < most ? blocks : most;
}

/* Sums along columns whose last loop is kept: where neighbours can be read at once, what is reduced are rows, and a
   team is as many threads as one of them takes. */
static bool columns_of_rows(const StageOf *s, uint32_t kept, Piece *out) {
  uint32_t all = all_loops(s->path.len);
  Pass pass = {.stage = s->stage, .root = s->among, .vector = 1};
  for (uint32_t i = 0; i < s->path.len; i++)
    if (!(kept >> i & 1)) pass.path.loop[pass.rows++] = s->path.loop[i];
  pass.path.len = pass.rows;
  for (uint32_t i = 0; i < s->path.len; i++)
    if (kept >> i & 1) pass.path.loop[pass.path.len++] = s->path.loop[i];
  pass.spread = pass.path.len - pass.rows;
  pass.vector = vector_of(s->p, s->n, &pass);
  if (pass.vector == 1) return false;
  int64_t threads = extent_of(s, kept) / pass.vector, turns = (threads + BLOCK - 1) / BLOCK;
  int team = (int)((threads + turns - 1) / turns);
  team = team > WARP ? (team + WARP - 1) / WARP * WARP : power_of_two(2 * team - 1);
  if (team == 1 || !launch_turns(s->n, team, &pass)) return false;
  int block = BLOCK / team;
  int64_t rows = extent_of(s, all & ~kept);
  *out = (Piece){.shape = SHAPE_rows,
                 .rows = pass.rows,
                 .threads = team * block,
                 .team = team,
                 .across = 1,
                 .along = 1,
                 .parts = blocks_of(rows, block, ROWS_A_COLUMN, COLUMN_BLOCKS),
                 .of_blocks = true};
  vec_push(s->a, &out->passes, pass);
  return true;
}

/* A thread for each element of `kept`; sums may be split along the rest. */
static Piece columns(const StageOf *s, uint32_t kept, bool sums) {
  uint32_t all = all_loops(s->path.len);
  int64_t width = extent_of(s, kept), depth = extent_of(s, all & ~kept);
  Pass pass = make_pass(s, 0, kept, s->among);
  pass.vector = vector_of(s->p, s->n, &pass);
  int64_t most = width / pass.vector;
  int across = most >= BLOCK ? BLOCK : (int)(most + WARP - 1) / WARP * WARP;
  Piece piece = {.shape = kept == all ? SHAPE_flat : SHAPE_columns,
                 .threads = across,
                 .team = 1,
                 .across = across,
                 .along = 1,
                 .parts = 1};
  vec_push(s->a, &piece.passes, pass);
  if (!sums || depth <= INSIDE) return piece;
  /* neighbours in memory to neighbouring threads: what is kept, if the last loop is, else what is not */
  bool last = kept >> (s->path.len - 1) & 1;
  if (last && columns_of_rows(s, kept, &piece)) return piece;
  piece.across = last ? power_of_two(width < WARP ? width : WARP) : 1;
  piece.along = BLOCK / piece.across;
  while (piece.along > 1 && piece.along / 2 >= depth) piece.along /= 2;
  piece.threads = piece.across * piece.along;
  int64_t blocks = (width + piece.across - 1) / piece.across;
  int64_t wanted = depth / (piece.along * TURNS);
  most = MOST_BLOCKS / blocks;
  piece.parts = wanted < most ? wanted : most;
  if (piece.parts < 1) piece.parts = 1;
  return piece;
}

/* The first loops of the path that all roots keep. */
static uint32_t leading(const StageOf *s) {
  uint32_t lead = s->path.len;
  for (uint32_t i = stage_at(s)->first_root; i < stage_at(s)->first_root + stage_at(s)->roots;
       i++) {
    if (!s->among[i]) continue;
    uint32_t kept = kept_loops(s->n, &s->n->roots.at[i], &s->path), n = 0;
    while (kept >> n & 1) n++;
    if (n < lead) lead = n;
  }
  return lead;
}

static void set_team(Piece *piece, int64_t rows, int64_t widest, bool keeps_sums) {
  int64_t warp_row = rows > FEW_ROWS ? WARP_ROW : BLOCK;
  piece->team = widest <= ALONE && !keeps_sums ? 1
                : widest <= warp_row           ? WARP
                : widest <= WIDE_ROW           ? BLOCK
                                               : WIDE_BLOCK;
  piece->threads = piece->team == 1      ? BLOCK
                   : piece->team == WARP ? WARP * WARPS_A_BLOCK
                                         : piece->team;
}

static void set_vectors(const Program *p, const Nest *n, Piece *piece) {
  int least = INT32_MAX;
  for (uint32_t i = 0; i < piece->passes.len && piece->team > 1; i++) {
    Pass *pass = &piece->passes.at[i];
    pass->vector = vector_of(p, n, pass);
    if (pass->vector > 1 && pass->vector < least) least = pass->vector;
  }
  /* the same for all, so that a thread has the same elements in all */
  for (uint32_t i = 0; i < piece->passes.len; i++)
    if (piece->passes.at[i].vector > least) piece->passes.at[i].vector = least;
}

static Piece rows(const StageOf *s, uint32_t kept) {
  uint32_t lead = leading(s);
  Piece piece = {.shape = SHAPE_rows, .rows = lead, .across = 1, .along = 1};
  /* spread: what is kept behind the rows, or all where nothing is */
  uint32_t inner = all_loops(s->path.len) & ~all_loops(lead);
  uint32_t spread = kept & inner ? kept & inner : inner;
  vec_push(s->a, &piece.passes, make_pass(s, lead, spread, s->among));
  set_team(&piece, extent_of(s, all_loops(lead)), extent_of(s, spread), false);
  set_vectors(s->p, s->n, &piece);
  return piece;
}

/* One kernel for roots that keep the same loops; `stores` beside them keep all. */
static Piece stage_piece(const StageOf *s, uint32_t kept, bool sums) {
  uint32_t all = all_loops(s->path.len);
  if (kept == all) return columns(s, kept, false);
  uint32_t lead = leading(s);
  bool last = kept >> (s->path.len - 1) & 1;
  bool prefix = kept && kept == all_loops(lead);
  if (extent_of(s, all & ~kept) <= INSIDE || last) return columns(s, kept, sums);
  if (prefix || !sums) return rows(s, kept);
  return columns(s, kept, true);
}

static bool *no_roots(const StageOf *s) {
  return ARENA_ARRAY(s->a, bool, s->n->roots.len + 1);
}

/* Roots that keep the same loops go together; what is stored without any sum goes with the last ones, since
   a value may be stored over one that the others read. */
static void stage_pieces(StageOf s, Pieces *out) {
  const Stage *st = stage_at(&s);
  uint32_t all = all_loops(s.path.len);
  bool *open = no_roots(&s), *stores = no_roots(&s);
  uint32_t reduces = 0;
  for (uint32_t i = st->first_root; i < st->first_root + st->roots; i++) {
    bool store = kept_loops(s.n, &s.n->roots.at[i], &s.path) == all;
    (store ? stores : open)[i] = true;
    reduces += !store;
  }
  for (uint32_t i = st->first_root; i < st->first_root + st->roots; i++) {
    if (!open[i]) continue;
    uint32_t kept = kept_loops(s.n, &s.n->roots.at[i], &s.path);
    bool *mine = no_roots(&s), sums = true;
    for (uint32_t k = i; k < st->first_root + st->roots; k++) {
      if (!open[k] || kept_loops(s.n, &s.n->roots.at[k], &s.path) != kept) continue;
      mine[k] = true;
      open[k] = false;
      reduces--;
      sums = sums && s.n->roots.at[k].kind == ROOT_sum;
    }
    for (uint32_t k = 0; !reduces && k < s.n->roots.len; k++) mine[k] = mine[k] || stores[k];
    s.among = mine;
    vec_push(s.a, out, stage_piece(&s, kept, sums));
  }
  if (reduces == 0 && out->len && out->at[out->len - 1].passes.at[0].stage == s.stage) return;
  s.among = stores;
  vec_push(s.a, out, stage_piece(&s, all, false));
}

/* ---------- several stages ---------- */

/* What is kept of the loops of the stage alone. */
static uint32_t kept_inside(const StageOf *s, uint32_t root, uint32_t lead) {
  return kept_loops(s->n, &s->n->roots.at[root], &s->path) & ~all_loops(lead);
}

/* The passes of one stage behind the rows: one for each set of loops that roots keep, where those that keep
   all or nothing go together, last. */
static void stage_passes(StageOf s, uint32_t lead, Piece *piece) {
  const Stage *st = stage_at(&s);
  uint32_t inner = all_loops(s.path.len) & ~all_loops(lead), last = st->first_root + st->roots;
  bool *open = no_roots(&s), *rest = no_roots(&s), any = false;
  for (uint32_t i = st->first_root; i < last; i++) {
    uint32_t kept = kept_inside(&s, i, lead);
    bool partly = kept != 0 && kept != inner;
    (partly ? open : rest)[i] = true;
    any = any || !partly;
  }
  for (uint32_t i = st->first_root; i < last; i++) {
    if (!open[i]) continue;
    uint32_t kept = kept_inside(&s, i, lead);
    bool *mine = no_roots(&s);
    for (uint32_t k = i; k < last; k++) {
      if (!open[k] || kept_inside(&s, k, lead) != kept) continue;
      mine[k] = true;
      open[k] = false;
    }
    vec_push(s.a, &piece->passes, make_pass(&s, lead, kept, mine));
  }
  if (any) vec_push(s.a, &piece->passes, make_pass(&s, lead, inner, rest));
}

static StageOf stage_of(Arena *a, const Program *p, const Nest *n, uint32_t stage) {
  return (StageOf){
      .a = a, .p = p, .n = n, .stage = stage, .path = path_of(n, &n->stages.at[stage])};
}

/* Who keeps sums over rows. Blocks do, but for those that are too many for the registers of a thread. */
static void set_parts(const Nest *n, Piece *piece, int64_t rows) {
  bool single = true;
  piece->of_blocks = true;
  for (uint32_t i = 0; i < piece->passes.len; i++) {
    const Pass *pass = &piece->passes.at[i];
    for (uint32_t r = 0; r < n->roots.len; r++) {
      if (!pass->root[r] || !launch_over_rows(n, &n->roots.at[r], pass)) continue;
      bool kept = false;
      for (uint32_t l = pass->rows; l < pass->rows + pass->spread; l++)
        kept = kept || nest_ix_uses_loop(n, n->roots.at[r].ix, pass->path.loop[l]);
      single = single && !kept;
      if (kept && !launch_turns(n, piece->team, pass)) piece->of_blocks = false;
    }
  }
  int64_t block = piece->threads / piece->team;
  int64_t most = !piece->of_blocks || piece->team == WIDE_BLOCK ? ROW_BLOCKS : ALL_BLOCKS;
  if (!piece->of_blocks)
    piece->parts = blocks_of(rows, block, 1, PARTS / block) * block;
  else
    piece->parts = blocks_of(rows, block, single ? 1 : ROWS_A_TEAM, single ? most : ROW_BLOCKS);
}

static Piece row_piece(Arena *a, const Program *p, const Nest *n) {
  Piece piece = {.shape = SHAPE_rows, .rows = n->outer, .across = 1, .along = 1};
  for (uint32_t k = 0; k < n->stages.len; k++) stage_passes(stage_of(a, p, n, k), n->outer, &piece);
  int64_t widest = 1, all_rows = 1;
  bool sums = false, wide_sums = false;
  for (uint32_t i = 0; i < piece.passes.len; i++) {
    const Pass *pass = &piece.passes.at[i];
    int64_t width = launch_extent(p, n, &pass->path, pass->rows, pass->rows + pass->spread);
    widest = width > widest ? width : widest;
    all_rows = launch_extent(p, n, &pass->path, 0, pass->rows);
    for (uint32_t r = 0; r < n->roots.len; r++) {
      bool over = pass->root[r] && launch_over_rows(n, &n->roots.at[r], pass);
      sums = sums || over;
      wide_sums = wide_sums || (over && pass->spread);
    }
  }
  set_team(&piece, all_rows, widest, wide_sums);
  set_vectors(p, n, &piece);
  if (sums) set_parts(n, &piece, all_rows);
  return piece;
}

/* Are all stages so small that one block does them at once? */
static bool is_small(Arena *a, const Program *p, const Nest *n) {
  for (uint32_t k = 0; k < n->stages.len; k++) {
    StageOf s = stage_of(a, p, n, k);
    if (extent_of(&s, all_loops(s.path.len)) > ONE_BLOCK) return false;
  }
  return true;
}

/* What a stage writes lies where it reads other elements, or all of them before the sum is known: threads
   would race. */
static bool races(const Program *p, const Nest *n) {
  for (uint32_t r = 0; r < n->roots.len; r++) {
    const NestRoot *root = &n->roots.at[r];
    if (root->row_only) continue;
    uint32_t stage = 0;
    while (r >= n->stages.at[stage].first_root + n->stages.at[stage].roots) stage++;
    const Stage *s = &n->stages.at[stage];
    for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
      const Inst *x = &n->insts.at[i];
      bool same = x->kind == INST_load && kernel_base(p, x->val) == kernel_base(p, root->val);
      if (same && (x->ix != root->ix || root->kind != ROOT_store)) return true;
    }
  }
  return false;
}

Pieces launch_pieces(Arena *a, const Program *p, const Nest *n) {
  Pieces out = {0};
  if (races(p, n)) {
    vec_push(a, &out, ((Piece){.shape = SHAPE_serial, .threads = 1, .team = 1, .parts = 1}));
    return out;
  }
  if (n->stages.len > 1 && (n->outer || is_small(a, p, n))) {
    vec_push(a, &out, row_piece(a, p, n));
    return out;
  }
  for (uint32_t k = 0; k < n->stages.len; k++) stage_pieces(stage_of(a, p, n, k), &out);
  return out;
}

/* ---------- for people ---------- */

const char *launch_shape_name(Shape shape) {
  static const char *const names[] = {"flat", "columns", "rows", "serial"};
  return names[shape];
}

/* At the largest batch. */
static int64_t threads_of(const Program *p, const Nest *n, const Piece *piece) {
  if (!piece->passes.len) return 1;
  const Pass *pass = &piece->passes.at[0];
  if (piece->shape == SHAPE_rows) {
    int64_t rows = launch_extent(p, n, &pass->path, 0, piece->rows);
    int64_t teams = piece->of_blocks ? piece->parts * piece->threads / piece->team : piece->parts;
    return (teams ? teams : rows) * piece->team;
  }
  int64_t each = (int64_t)piece->across * pass->vector;
  int64_t blocks = (launch_extent(p, n, &pass->path, 0, pass->spread) + each - 1) / each;
  return blocks * piece->threads * piece->parts;
}

static int64_t elements_of(const Program *p, const Nest *n, const Piece *piece) {
  int64_t most = 1;
  for (uint32_t k = 0; k < n->stages.len; k++) {
    bool mine = !piece->passes.len;
    for (uint32_t i = 0; i < piece->passes.len; i++) mine = mine || piece->passes.at[i].stage == k;
    const LoopPath path = path_of(n, &n->stages.at[k]);
    int64_t elements = launch_extent(p, n, &path, 0, path.len);
    if (mine && elements > most) most = elements;
  }
  return most;
}

static void print_piece(const Program *p, const Kernel *k, const Piece *piece, Text *out) {
  text_addf(out, "  %s: %s, %lld elements by %lld threads in blocks of %d", k->name,
            launch_shape_name(piece->shape), (long long)elements_of(p, k->nest, piece),
            (long long)threads_of(p, k->nest, piece), piece->threads);
  if (piece->team > 1) text_addf(out, ", %d a row", piece->team);
  if (piece->passes.len && piece->passes.at[0].vector > 1)
    text_addf(out, ", %d neighbours each", piece->passes.at[0].vector);
  if (piece->parts > 1) text_addf(out, ", sums in %lld parts", (long long)piece->parts);
  text_add(out, "\n");
}

static void print_program(const Program *p, Arena *a, Text *out) {
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    if (k->loop) print_program(&k->loop->body, a, out);
    if (k->kind != KERNEL_nest) continue;
    const Pieces pieces = launch_pieces(a, p, k->nest);
    for (uint32_t n = 0; n < pieces.len; n++) print_piece(p, k, &pieces.at[n], out);
  }
}

void launch_print(Text *out, const Plan *plan) {
  Arena *a = plan->job->arena;
  const Program *const programs[] = {&plan->train, &plan->eval, &plan->predict, &plan->counts};
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    if (!programs[i]->g) continue;
    text_addf(out, "program %s\n", programs[i]->g->name);
    print_program(programs[i], a, out);
  }
  for (uint32_t i = 0; i < plan->optimizers.len; i++) {
    text_addf(out, "program %s\n", plan->optimizers.at[i].g->name);
    print_program(&plan->optimizers.at[i], a, out);
  }
}
