/* pass_recompute: with `gradient_checkpointing`, forward values that backward reads are computed again
   right before backward needs them, instead of being kept. In: the training graph with gradients. Out:
   the same graph, in which backward reads copies; copies of one segment carry its number
   (Value.region), and what they read of the forward pass is marked `kept`.

   The forward pass is cut into segments where little crosses (between the blocks of a transformer only
   the residual stream does). What crosses a cut is kept, the last segment is kept whole, since backward
   begins with it; of all other segments everything that backward needs is computed again from what was
   kept. Cuts are chosen so that the most that lives at one time (what is kept, and one segment in full)
   is least, found over bounds of a segment's size; with a `memory_budget` above 0, values that cost the
   most operations for a byte are kept after all while they fit. Sizes are those of the largest batch.

   Copies have no side effects: they are values, updates of buffers are outputs and stay alone, and draws
   are counter based: a copy draws the same numbers. */
#include "passes.h"
#include "rewrite.h"
#include <stdlib.h>

typedef struct Cut { /* between two segments */
  Val behind;        /* the last value before it */
  int64_t crossing;  /* bytes that are made before it and read by the forward pass behind it */
  int64_t made;      /* bytes made before it that backward wants */
} Cut;
typedef VEC(Cut) Cuts;

typedef struct Recompute {
  Graph *g;
  int64_t batch;
  /* by value */
  bool *forward, *varies, *stored;
  bool *wanted;  /* backward reads it from memory */
  bool *again;   /* to be computed again */
  bool *held;    /* kept although it need not be */
  bool *strided; /* an operand that a call reads through strides, directly or as a view */
  bool *seen;
  int64_t *bytes; /* that backward reads of it, by-products of calls included */
  Val *last_use;  /* the last forward value that reads it, through views; 0 */
  Val *copy;
  Cuts places, cuts; /* where a cut may be; those chosen */
  int64_t made;      /* all that backward wants */
  bool *copied;      /* by segment */
} Recompute;

/* ---------- what lies in memory ---------- */

/* Everything that results other than gradients need is forward. */
static void find_forward(Recompute *r) {
  const Graph *g = r->g;
  for (uint32_t i = 0; i < g->outputs.len; i++)
    if (g->outputs.at[i].kind != OUT_grad) r->forward[g->outputs.at[i].value] = true;
  for (Val v = g->values.len - 1; v > 0; v--)
    for (int i = 0; r->forward[v] && i < value_at(g, v)->inputs; i++)
      r->forward[value_at(g, v)->in[i]] = true;
}

/* Computed from samples or draws; the rest (weights, masks of positions) costs no memory a sample. */
static void find_varying(Recompute *r) {
  for (Val v = 1; v < r->g->values.len; v++) {
    const Value *x = value_at(r->g, v);
    r->varies[v] = x->op == OP_input || op_has(x->op, OPF_random);
    for (int i = 0; i < x->inputs; i++) r->varies[v] |= r->varies[x->in[i]];
  }
}

static bool is_view(const Value *x) {
  return op_has(x->op, OPF_view);
}

static int64_t bytes_of(const Recompute *r, Val v) {
  Type t = value_at(r->g, v)->type;
  return type_elements_at(t, r->batch) * dtype_bytes(t.dtype);
}

/* Readers through views; results and operands of library calls, and reductions, are stored. */
static uint32_t *find_forced(Recompute *r) {
  const Graph *g = r->g;
  uint32_t *readers = ARENA_ARRAY(g->arena, uint32_t, g->values.len);
  for (Val v = g->values.len - 1; v > 0; v--) {
    const Value *x = value_at(g, v);
    bool library = op_has(x->op, OPF_library), operand = library;
    bool shares = r->stored[v] && (x->op == OP_reshape || (is_view(x) && r->strided[v]));
    operand = operand || shares; /* the memory is that of what it shows */
    if (shares) r->stored[v] = false;
    if (library || x->op == OP_part || op_has(x->op, OPF_reduce)) r->stored[v] = true;
    for (int i = 0; i < x->inputs; i++) {
      readers[x->in[i]] += is_view(x) ? readers[v] : 1;
      if (operand) r->stored[x->in[i]] = true;
      bool strided = library ? op_has(x->op, OPF_strided) : shares && r->strided[v];
      if (strided) r->strided[x->in[i]] = true;
    }
  }
  return readers;
}

/* An estimate of what the planner stores: the forced ones, and what several read and is no cheap
   function of one stored value. */
static void find_stored(Recompute *r) {
  const Graph *g = r->g;
  const uint32_t *readers = find_forced(r);
  uint32_t *loads =
      ARENA_ARRAY(g->arena, uint32_t, g->values.len); /* of its size; one more: dear */
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (!r->varies[v] || op_has(x->op, OPF_source)) {
      r->stored[v] = false;
      loads[v] = x->op == OP_input;
      continue;
    }
    if (!is_view(x) && !op_has(x->op, OPF_cheap)) loads[v]++;
    for (int i = 0; i < x->inputs; i++) {
      bool again = false; /* x * x loads x once */
      for (int k = 0; k < i; k++) again = again || x->in[k] == x->in[i];
      if (!again && bytes_of(r, x->in[i]) >= bytes_of(r, v)) loads[v] += loads[x->in[i]];
    }
    if (readers[v] > 1 && loads[v] > 1 && !is_view(x)) r->stored[v] = true;
    if (r->stored[v] || loads[v] > 2) loads[v] = r->stored[v] ? 1 : 2;
  }
}

/* Forward values that backward reads from memory. */
static void want(Recompute *r, Val v) {
  if (!r->forward[v] || r->seen[v]) return;
  r->seen[v] = true;
  if (r->stored[v]) {
    r->wanted[v] = true;
    r->bytes[v] += bytes_of(r, v);
    return;
  }
  for (int i = 0; i < value_at(r->g, v)->inputs; i++) want(r, value_at(r->g, v)->in[i]);
}

/* The last forward value that reads v, through views. */
static void find_last_uses(Recompute *r) {
  for (Val v = r->g->values.len - 1; v > 0; v--) {
    const Value *x = value_at(r->g, v);
    if (!r->forward[v]) {
      for (int i = 0; i < x->inputs; i++) want(r, x->in[i]);
      if (x->op == OP_part && r->forward[x->in[0]]) r->bytes[x->in[0]] += bytes_of(r, v);
      continue;
    }
    Val at = is_view(x) ? r->last_use[v] : v;
    for (int i = 0; i < x->inputs; i++)
      if (r->last_use[x->in[i]] < at) r->last_use[x->in[i]] = at;
  }
}

/* ---------- cuts ---------- */

/* Places where less crosses than before and behind: behind which value, how much crosses there, and how
   much of what backward wants was made up to it. */
static void find_places(Recompute *r) {
  Graph *g = r->g;
  int64_t *change = ARENA_ARRAY(g->arena, int64_t, g->values.len + 1);
  for (Val v = 1; v < g->values.len; v++) {
    if (!r->forward[v] || !r->varies[v] || is_view(value_at(g, v))) continue;
    if (value_at(g, v)->op == OP_input || op_has(value_at(g, v)->op, OPF_random)) continue;
    if (r->last_use[v] <= v) continue;
    bool part = value_at(g, v)->op == OP_part; /* is there with its call */
    change[part ? value_at(g, v)->in[0] : v] += bytes_of(r, v);
    change[r->last_use[v]] -= bytes_of(r, v);
  }
  int64_t crossing = 0, made = 0;
  bool falling = true;
  for (Val v = 1; v < g->values.len; v++) {
    int64_t before = made;
    made += r->bytes[v];
    if (!change[v]) continue;
    if (change[v] > 0 && falling && crossing > 0)
      vec_push(g->arena, &r->places, (Cut){v - 1, crossing, before});
    falling = change[v] < 0;
    crossing += change[v];
  }
  r->made = made;
}

static uint32_t segment_of(const Cuts *cuts, Val v) {
  uint32_t low = 0, high = cuts->len; /* the first cut at or behind v */
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (cuts->at[middle].behind < v)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* What the planner needs at most, roughly, with these cuts: all that is kept with the last segment, or
   what is kept up to a segment with all of the segment. */
static int64_t most_alive(const Recompute *r, const Cuts *cuts) {
  const Graph *g = r->g;
  int64_t *kept = ARENA_ARRAY(g->arena, int64_t, cuts->len + 2);
  for (Val v = 1; v < g->values.len; v++) {
    if (!r->forward[v] || !r->varies[v] || is_view(value_at(g, v))) continue;
    if (op_has(value_at(g, v)->op, OPF_source)) continue;
    uint32_t own = segment_of(cuts, v);
    if (segment_of(cuts, r->last_use[v]) > own) kept[own] += bytes_of(r, v);
  }
  int64_t sum = 0, most = 0, made = 0;
  for (uint32_t s = 0; s <= cuts->len; s++) {
    int64_t end = s < cuts->len ? cuts->at[s].made : r->made;
    if (sum + end - made > most) most = sum + end - made;
    sum += kept[s];
    made = end;
  }
  return most;
}

/* Segments of at most `bound` bytes where the places allow it, from the last one forward; of the places
   that a segment may begin at, the earliest of those where least crosses. */
static Cuts cut_by(const Recompute *r, int64_t bound) {
  Cuts back = {0}, cuts = {0};
  int64_t end = r->made;
  for (uint32_t i = r->places.len; i > 0;) {
    uint32_t best = --i;
    for (; i > 0 && end - r->places.at[i - 1].made <= bound; i--)
      if (4 * r->places.at[i - 1].crossing <= 5 * r->places.at[best].crossing) best = i - 1;
    if (r->places.at[best].made == 0) break; /* nothing to compute again before it */
    vec_push(r->g->arena, &back, r->places.at[best]);
    end = r->places.at[best].made;
    i = best;
  }
  for (uint32_t i = back.len; i-- > 0;) vec_push(r->g->arena, &cuts, back.at[i]);
  return cuts;
}

/* The segment before the last one is used first in backward: kept as well where that costs nothing. */
static int64_t keep_end(const Recompute *r, Cuts *cuts) {
  int64_t most = most_alive(r, cuts);
  while (cuts->len) {
    Cuts fewer = *cuts;
    fewer.len--;
    int64_t then = most_alive(r, &fewer);
    if (then > most) break;
    most = then;
    *cuts = fewer;
  }
  return most;
}

static Cuts best_cuts(const Recompute *r, int64_t *most) {
  Cuts best = {0};
  int64_t largest = 1;
  for (uint32_t i = 0; i <= r->places.len; i++) {
    int64_t end = i < r->places.len ? r->places.at[i].made : r->made;
    int64_t begin = i ? r->places.at[i - 1].made : 0;
    if (end - begin > largest) largest = end - begin;
  }
  *most = r->made;
  for (int64_t bound = largest; bound < r->made; bound += bound / 3 + 1) {
    Cuts cuts = cut_by(r, bound);
    int64_t alive = keep_end(r, &cuts);
    if (alive >= *most) continue;
    *most = alive;
    best = cuts;
  }
  return best;
}

/* ---------- what is computed again ---------- */

/* All of the segments but the last one, without what later segments read, what does not grow with the
   batch, and draws, which are never stored. Views follow what they show. */
static void choose_kept(Recompute *r) {
  for (Val v = 1; v < r->g->values.len; v++) {
    const Value *x = value_at(r->g, v);
    uint32_t own = segment_of(&r->cuts, v);
    if (!r->forward[v] || !r->varies[v] || op_has(x->op, OPF_source) || own == r->cuts.len)
      continue;
    Dim n = {0, 0};
    bool grows = !type_elements(x->type, &n) || n.per_batch;
    bool crosses = segment_of(&r->cuts, r->last_use[v]) > own;
    r->again[v] = is_view(x) || (grows && !crosses);
  }
}

/* Of them, what backward needs. */
static void choose_again(Recompute *r) {
  bool *need = ARENA_ARRAY(r->g->arena, bool, r->g->values.len);
  for (Val v = 1; v < r->g->values.len; v++) {
    const Value *x = value_at(r->g, v);
    bool any = !is_view(x) && x->op != OP_part; /* these follow what they are of */
    for (int i = 0; i < x->inputs; i++) any = any || r->again[x->in[i]];
    r->again[v] = r->again[v] && any;
  }
  for (Val v = r->g->values.len - 1; v > 0; v--) {
    const Value *x = value_at(r->g, v);
    r->again[v] = r->again[v] && need[v];
    if (r->forward[v] && !r->again[v]) continue;
    for (int i = 0; i < x->inputs; i++) need[x->in[i]] = true;
  }
}

/* Stored or not, is it the same number? A fused kernel computes 16-bit values in float32 and rounds what it
   stores; results of calls are stored anyway. */
static bool storing_keeps_bits(const Recompute *r, Val v) {
  const Value *x = value_at(r->g, v);
  bool narrow = dtype_category(x->type.dtype) == 'f' && dtype_bytes(x->type.dtype) < 4;
  return !narrow || op_has(x->op, OPF_library) || x->op == OP_part;
}

/* Operations that keeping v saves: of its call, and of those that only lead to it. */
static double work_behind(Recompute *r, Val v) {
  const Value *x = value_at(r->g, v);
  double work = op_flops(r->g, v, r->batch);
  for (int i = 0; i < x->inputs; i++) {
    Val in = x->in[i];
    if (!r->again[in] || r->wanted[in] || r->seen[in]) continue;
    r->seen[in] = true;
    work += work_behind(r, in);
  }
  return work;
}

typedef struct Saving {
  Val v;
  double rate; /* operations a byte */
} Saving;

static int by_rate(const void *a, const void *b) {
  const Saving *x = a, *y = b;
  if (x->rate != y->rate) return x->rate > y->rate ? -1 : 1;
  return x->v > y->v ? -1 : x->v < y->v;
}

/* Keeps what is dearest to compute again, while the room lasts. */
static void spend_budget(Recompute *r, int64_t room) {
  VEC(Saving) list = {0};
  memset(r->seen, 0, sizeof *r->seen * r->g->values.len);
  for (Val v = 1; v < r->g->values.len && room > 0; v++)
    if (r->again[v] && r->wanted[v] && storing_keeps_bits(r, v)) {
      Saving s = {v, work_behind(r, v) / (double)(r->bytes[v] + 1)};
      vec_push(r->g->arena, &list, s);
    }
  if (list.len) qsort(list.at, list.len, sizeof *list.at, by_rate);
  for (uint32_t i = 0; i < list.len; i++) {
    int64_t bytes = r->bytes[list.at[i].v];
    if (bytes > room) continue;
    room -= bytes;
    r->again[list.at[i].v] = false;
    r->held[list.at[i].v] = true;
  }
}

/* ---------- the new graph ---------- */

/* A copy of v whose inputs are copies where there are some. */
static Val copy_over_copies(const Recompute *r, Rewrite *w, Val v) {
  const Value *x = value_at(r->g, v);
  Val own[IR_MAX_INPUTS];
  for (int i = 0; i < x->inputs; i++) own[i] = w->map[x->in[i]];
  for (int i = 0; i < x->inputs; i++)
    if (r->again[x->in[i]]) w->map[x->in[i]] = r->copy[x->in[i]];
  Val copy = ir_copy(w->to, r->g, v, w->map);
  for (int i = 0; i < x->inputs; i++) w->map[x->in[i]] = own[i];
  return copy;
}

/* What copies read has to lie in memory: else it is computed from more, which then stays as well. */
static void mark_kept(const Recompute *r, Rewrite *w, Val v) {
  const Value *x = value_at(r->g, v);
  if (r->again[v] || !r->varies[v] || op_has(x->op, OPF_source)) return;
  if (!is_view(x)) value_at(w->to, w->map[v])->kept |= storing_keeps_bits(r, v);
  for (int i = 0; is_view(x) && i < x->inputs; i++) mark_kept(r, w, x->in[i]);
}

/* All copies of a segment in the order of the forward pass, so that they become the same kernels. */
static void copy_segment(Recompute *r, Rewrite *w, uint32_t segment) {
  Val first = segment ? r->cuts.at[segment - 1].behind + 1 : 1;
  for (Val v = first; v <= r->cuts.at[segment].behind; v++) {
    if (r->held[v]) value_at(w->to, w->map[v])->kept = true;
    if (!r->again[v]) continue;
    r->copy[v] = copy_over_copies(r, w, v);
    value_at(w->to, r->copy[v])->region = (uint16_t)(segment + 1);
    for (int i = 0; i < value_at(r->g, v)->inputs; i++) mark_kept(r, w, value_at(r->g, v)->in[i]);
  }
  r->copied[segment] = true;
}

static Graph *rewrite(Recompute *r) {
  Graph *g = r->g;
  Rewrite w = rewrite_begin(g);
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (r->forward[v]) {
      w.map[v] = ir_copy(w.to, g, v, w.map);
      continue;
    }
    for (int i = 0; i < x->inputs; i++) {
      uint32_t segment = segment_of(&r->cuts, x->in[i]);
      if (r->again[x->in[i]] && !r->copied[segment]) copy_segment(r, &w, segment);
    }
    w.map[v] = copy_over_copies(r, &w, v);
  }
  return rewrite_end(&w);
}

void pass_recompute(Job *job) {
  JobRecompute *how = &job->recompute;
  Graph *g = job->train;
  bool has_gradients = false;
  for (uint32_t i = 0; g && i < g->outputs.len; i++)
    has_gradients = has_gradients || g->outputs.at[i].kind == OUT_grad;
  if (!how->on || !has_gradients || how->memory_budget >= 1) return;
  uint32_t n = g->values.len;
  Recompute r = {.g = g, .batch = job->train_batch};
  bool **flags[] = {&r.forward, &r.varies, &r.stored,  &r.wanted,
                    &r.again,   &r.held,   &r.strided, &r.seen};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    *flags[i] = ARENA_ARRAY(g->arena, bool, n);
  r.last_use = ARENA_ARRAY(g->arena, Val, n);
  r.bytes = ARENA_ARRAY(g->arena, int64_t, n);
  r.copy = ARENA_ARRAY(g->arena, Val, n);
  find_forward(&r);
  find_varying(&r);
  find_stored(&r);
  find_last_uses(&r);
  find_places(&r);
  int64_t most = 0;
  r.cuts = best_cuts(&r, &most);
  if (!r.cuts.len) return;
  r.copied = ARENA_ARRAY(g->arena, bool, r.cuts.len);
  choose_kept(&r);
  choose_again(&r);
  spend_budget(&r, (int64_t)(how->memory_budget * (double)r.made) - most);
  choose_again(&r);
  how->before = g;
  job->train = rewrite(&r);
}
