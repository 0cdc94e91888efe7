/* The loss in chunks of samples. In: a program that is laid out. Out: Program.chunk, a run of kernels that the
   emitted program calls once for every few samples, so that what only they write and read (the logits over a
   vocabulary, their gradient) takes the memory of a chunk; or nothing, where that saves too little.

   The run is grown from the largest value that the loss reads: whoever writes and reads it, and what stands
   between these in the order of dependences. All of them must be chunkable (chunkable.c), and none may read a sum over
   samples that another makes. Other large values at its border are taken in as long as that holds. Kernels
   between them that do not belong to the run move in front of it or behind it. A chunk after the first adds
   to the sums; gradients are ready after the last. */
#include "fuse.h"
#include "op.h"
#include "ops.h"

enum {
  MOST_KERNELS = 16, /* more is no loss, but a part of the model */
  MOST_CHUNKS = 8,   /* a weight's gradient is read and written by each */
  LEAST_ROWS = 1024, /* of a matrix product: fewer do not fill a processor */
  LEAST_SAVED = 64,  /* MiB; less is not worth more and smaller kernels */
  COMPARABLE = 4,    /* values from a quarter of the largest on are taken in */
};

typedef struct Chunking {
  Program *p;
  Arena *a;
  uint32_t n;          /* kernels */
  uint32_t *writer;    /* by value: kernel + 1 */
  ItemList *readers;   /* by value: kernels */
  PlanWaits *waits;    /* by kernel */
  signed char *fits;   /* by kernel: 1 chunkable, -1 not, 0 nobody has asked */
  const bool *forward; /* by value */
  bool *inside;        /* by kernel: of the run */
  int64_t rows;        /* of its products, of a sample */
} Chunking;

int64_t plan_chunk_samples(int64_t batch, int64_t rows, int64_t wanted) {
  int64_t samples = wanted;
  if (wanted == CHUNK_by_size) {
    int64_t least = (LEAST_ROWS + rows - 1) / rows;
    samples = (batch + MOST_CHUNKS - 1) / MOST_CHUNKS;
    if (samples < least) samples = least;
  }
  return samples > 0 && samples < batch ? samples : 0;
}

/* ---------- the run ---------- */

static bool fits(Chunking *c, uint32_t k) {
  if (!c->fits[k]) c->fits[k] = plan_chunkable(c->p, &c->p->kernels.at[k]) ? 1 : -1;
  return c->fits[k] > 0;
}

/* By kernel: do those in the run need it? Where a product and what it may do in the same call are no part of
   it, neither goes without the other. */
static bool *find_needed(const Chunking *c, const bool *inside) {
  bool *needed = ARENA_ARRAY(c->a, bool, c->n);
  for (uint32_t k = c->n; k-- > 0;)
    for (uint32_t i = 0; i < c->waits[k].len; i++)
      needed[k] = needed[k] || inside[c->waits[k].at[i]] || needed[c->waits[k].at[i]];
  for (uint32_t k = 1; k < c->n; k++)
    if (c->p->kernels.at[k].apart)
      needed[k] = needed[k - 1]; /* it waits for no more than the product */
  return needed;
}

/* Puts in what lies on a path from one of them to another. Returns how many there are. */
static uint32_t close_run(const Chunking *c, bool *inside) {
  for (uint32_t k = 1; k < c->n; k++)
    if (c->p->kernels.at[k].apart) inside[k] = inside[k - 1] = inside[k] || inside[k - 1];
  bool *below = ARENA_ARRAY(c->a, bool, c->n), *needed = find_needed(c, inside);
  uint32_t count = 0;
  for (uint32_t k = 0; k < c->n; k++)
    for (uint32_t i = 0; i < c->waits[k].len && (inside[k] || below[k]); i++)
      below[c->waits[k].at[i]] = true;
  for (uint32_t k = 0; k < c->n; k++) {
    inside[k] = inside[k] || (below[k] && needed[k]);
    count += inside[k];
  }
  return count;
}

static bool is_sum(const Chunking *c, Val v) {
  return plan_sample_elements(c->p->g, v) == 0;
}

static bool run_fits(Chunking *c, const bool *inside) {
  for (uint32_t k = 0; k < c->n; k++) {
    const Kernel *kernel = &c->p->kernels.at[k];
    if (!inside[k]) continue;
    if (!fits(c, k)) return false;
    for (uint32_t r = 0; r < kernel->reads.len; r++) {
      Val v = kernel->reads.at[r];
      if (c->writer[v] && inside[c->writer[v] - 1] && is_sum(c, v)) return false;
    }
  }
  return true;
}

/* Takes in the value's writer and readers, if the run can still be one. */
static bool take_in(Chunking *c, Val v) {
  if (!c->writer[v] || !c->readers[v].len) return false;
  bool *inside = ARENA_ARRAY(c->a, bool, c->n);
  memcpy(inside, c->inside, sizeof *inside * c->n);
  inside[c->writer[v] - 1] = true;
  for (uint32_t i = 0; i < c->readers[v].len; i++) inside[c->readers[v].at[i]] = true;
  if (close_run(c, inside) > MOST_KERNELS || !run_fits(c, inside)) return false;
  c->inside = inside;
  return true;
}

/* Does the kernel belong to the loss? It sums something over samples, or turns from forward to backward. */
static bool is_of_loss(const Chunking *c, uint32_t k) {
  bool sums = false, forward = false, backward = false;
  for (uint32_t w = 0; w < c->p->kernels.at[k].writes.len; w++) {
    Val v = c->p->kernels.at[k].writes.at[w];
    bool ahead = c->forward[v] && !value_at(c->p->g, v)->region;
    sums = sums || (ahead && is_sum(c, v));
    forward = forward || ahead;
    backward = backward || !ahead;
  }
  return sums || (forward && backward);
}

static bool is_read_by_loss(const Chunking *c, Val v) {
  for (uint32_t i = 0; i < c->readers[v].len; i++)
    if (is_of_loss(c, (uint32_t)c->readers[v].at[i])) return true;
  return false;
}

static int64_t bytes_of(const Chunking *c, Val v) {
  Type t = value_at(c->p->g, v)->type;
  return type_elements_at(t, c->p->batch_max) * dtype_bytes(t.dtype);
}

/* May the value have the memory of a chunk? */
static bool is_candidate(const Chunking *c, Val v) {
  if (c->p->places.at[v].home != HOME_block || plan_sample_elements(c->p->g, v) <= 0) return false;
  for (uint32_t i = 0; i < c->p->g->outputs.len; i++)
    if (c->p->g->outputs.at[i].value == v) return false;
  return true;
}

static bool touches_run(const Chunking *c, Val v) {
  bool touches = c->writer[v] && c->inside[c->writer[v] - 1];
  for (uint32_t i = 0; i < c->readers[v].len; i++)
    touches = touches || c->inside[c->readers[v].at[i]];
  return touches;
}

/* The largest value below `below` bytes, the first of equals behind `after`. */
static Val next_largest(const Chunking *c, const ValList *values, int64_t below, Val after) {
  Val best = NO_VAL;
  for (uint32_t i = 0; i < values->len; i++) {
    Val v = values->at[i];
    int64_t bytes = bytes_of(c, v);
    if (bytes > below || (bytes == below && v <= after)) continue;
    if (!best || bytes > bytes_of(c, best)) best = v;
  }
  return best;
}

static bool find_run(Chunking *c, int64_t least) {
  ValList values = {0};
  for (Val v = 1; v < c->p->places.len; v++)
    if (is_candidate(c, v) && bytes_of(c, v) >= least) vec_push(c->a, &values, v);
  int64_t largest = INT64_MAX, bytes = INT64_MAX;
  Val v = NO_VAL;
  while ((v = next_largest(c, &values, bytes, v))) {
    bytes = bytes_of(c, v);
    if (is_read_by_loss(c, v) && take_in(c, v)) break;
  }
  if (!v) return false;
  for (largest = bytes; (v = next_largest(c, &values, bytes, v)); bytes = bytes_of(c, v))
    if (bytes_of(c, v) >= largest / COMPARABLE && touches_run(c, v)) take_in(c, v);
  return true;
}

/* Rows of a sample in the products of the run; the fewest. */
static int64_t rows_of(const Chunking *c) {
  int64_t rows = 0;
  for (uint32_t k = 0; k < c->n; k++) {
    const Kernel *kernel = &c->p->kernels.at[k];
    if (!c->inside[k] || kernel->nest) continue;
    const Value *y = value_at(c->p->g, kernel->call);
    if (op_samples(c->p->g, y) != SAMPLES_apart) continue;
    int64_t own = plan_sample_elements(c->p->g, kernel->call) / y->type.dim[y->type.rank - 1].fixed;
    if (!rows || own < rows) rows = own;
  }
  return rows ? rows : 1;
}

/* ---------- the program with it ---------- */

/* What the run needs comes in front of it, the rest of what stood between its kernels behind it. */
static void make_run(Chunking *c, int64_t samples) {
  Program *p = c->p;
  const bool *needed = find_needed(c, c->inside);
  uint32_t first = 0;
  while (!c->inside[first]) first++;
  Kernel *old = ARENA_ARRAY(c->a, Kernel, c->n);
  memcpy(old, p->kernels.at, sizeof *old * c->n);
  uint32_t n = 0;
  for (uint32_t k = 0; k < c->n; k++)
    if (!c->inside[k] && (k < first || needed[k])) p->kernels.at[n++] = old[k];
  p->chunk = (PlanChunk){.first = n, .samples = samples};
  for (uint32_t k = 0; k < c->n; k++)
    if (c->inside[k]) p->kernels.at[n++] = old[k];
  p->chunk.count = n - p->chunk.first;
  for (uint32_t k = first; k < c->n; k++)
    if (!c->inside[k] && !needed[k]) p->kernels.at[n++] = old[k];
}

static Kernel *last_of(Program *p) {
  return &p->kernels.at[p->chunk.first + p->chunk.count - 1];
}

/* A gradient of the run is complete when its last chunk is. */
static void move_ready(Program *p, Arena *a) {
  Kernel *last = last_of(p);
  VEC(int32_t) ready = {0};
  for (Kernel *k = &p->kernels.at[p->chunk.first]; k <= last; k++) {
    for (uint32_t i = 0; i < k->grads_ready.len; i++) vec_push(a, &ready, k->grads_ready.at[i]);
    memset(&k->grads_ready, 0, sizeof k->grads_ready);
  }
  for (uint32_t i = 0; i < ready.len; i++) vec_push(a, &last->grads_ready, ready.at[i]);
}

static void mark_values(const Chunking *c) {
  Program *p = c->p;
  for (uint32_t k = 0; k < c->n; k++)
    for (uint32_t w = 0; c->inside[k] && w < p->kernels.at[k].writes.len; w++) {
      Val v = p->kernels.at[k].writes.at[w];
      bool own = is_candidate(c, v);
      for (uint32_t i = 0; i < c->readers[v].len; i++) own = own && c->inside[c->readers[v].at[i]];
      if (p->places.at[v].home == HOME_block)
        p->places.at[v].chunk = is_sum(c, v) ? CHUNK_sum : own ? CHUNK_own : CHUNK_none;
    }
}

/* The most that values of a chunk alone take at a time, at this batch. */
static int64_t own_bytes(const Program *p, Arena *a, int64_t batch) {
  int32_t first = (int32_t)p->chunk.first, count = (int32_t)p->chunk.count;
  int32_t *last = ARENA_ARRAY(a, int32_t, p->places.len);
  int64_t most = 0;
  for (Val v = 1; v < p->places.len; v++) { /* what takes its place in turn */
    const ValuePlace *at = &p->places.at[v];
    Val own = at->updates ? at->updates : v;
    if (at->chunk == CHUNK_own && at->last > last[own]) last[own] = at->last;
  }
  for (int32_t k = first; k < first + count; k++) {
    int64_t alive = 0;
    for (Val v = 1; v < p->places.len; v++) {
      const ValuePlace *at = &p->places.at[v];
      if (at->chunk != CHUNK_own || at->updates || at->first > k || last[v] < k) continue;
      Type t = value_at(p->g, v)->type;
      alive += type_elements_at(t, batch) * dtype_bytes(t.dtype);
    }
    if (alive > most) most = alive;
  }
  return most;
}

static void take_back(Program *p, Arena *a, const Kernel *old) {
  memcpy(p->kernels.at, old, sizeof *old * p->kernels.len);
  memset(&p->chunk, 0, sizeof p->chunk);
  for (Val v = 1; v < p->places.len; v++) p->places.at[v].chunk = CHUNK_none;
  plan_lay_out(p, a);
}

static void find_users(Chunking *c) {
  for (uint32_t k = 0; k < c->n; k++) {
    const Kernel *kernel = &c->p->kernels.at[k];
    for (uint32_t w = 0; w < kernel->writes.len; w++) c->writer[kernel->writes.at[w]] = k + 1;
    for (uint32_t r = 0; r < kernel->reads.len; r++)
      vec_push(c->a, &c->readers[kernel->reads.at[r]], (int32_t)k);
  }
}

void plan_chunk(Program *p, Arena *a, int64_t wanted) {
  const int64_t mib = 1 << 20;
  bool by_size = wanted == CHUNK_by_size;
  if (by_size && p->block_bytes < LEAST_SAVED * mib) return;
  Chunking c = {.p = p, .a = a, .n = p->kernels.len, .forward = plan_forward(p, a)};
  c.writer = ARENA_ARRAY(a, uint32_t, p->places.len + 1);
  c.readers = ARENA_ARRAY(a, ItemList, p->places.len + 1);
  c.fits = ARENA_ARRAY(a, signed char, c.n + 1);
  c.inside = ARENA_ARRAY(a, bool, c.n + 1);
  c.waits = plan_waits(p, a);
  find_users(&c);
  if (!find_run(&c, by_size ? LEAST_SAVED * mib : 1)) return;
  int64_t samples = plan_chunk_samples(p->batch_max, rows_of(&c), wanted), before = p->block_bytes;
  if (!samples) return;
  Kernel *old = ARENA_ARRAY(a, Kernel, c.n);
  memcpy(old, p->kernels.at, sizeof *old * c.n);
  mark_values(&c);
  make_run(&c, samples);
  move_ready(p, a);
  plan_lay_out(p, a);
  p->chunk.whole_bytes = own_bytes(p, a, p->batch_max);
  p->chunk.bytes = own_bytes(p, a, samples);
  if (by_size && before - p->block_bytes < LEAST_SAVED * mib) take_back(p, a, old);
}
