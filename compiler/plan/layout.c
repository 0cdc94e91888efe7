/* The one memory layout: trained tensors in the order in which their gradients become ready, each
   at a multiple of 64 bytes; frozen ones and buffers in arenas of their own; buckets as ranges of
   that order; the hash that ranks compare before the first collective. */
#include "die.h"
#include "fuse.h"
#include "op.h"
#include <stdlib.h>

static int64_t elements_of(const Leaf *leaf) {
  return type_elements_at(leaf->type, 1);
}

static void find_ready(Plan *plan) {
  const Program *p = &plan->train;
  Arena *a = plan->job->arena;
  bool *done = ARENA_ARRAY(a, bool, plan->job->leaves.len + 1);
  for (uint32_t k = 0; k < p->kernels.len; k++)
    for (uint32_t i = 0; i < p->kernels.at[k].grads_ready.len; i++) {
      int32_t leaf = p->kernels.at[k].grads_ready.at[i];
      vec_push(a, &plan->ready, leaf);
      done[leaf] = true;
    }
  for (uint32_t l = 0; l < plan->job->leaves.len; l++) {
    const Leaf *leaf = &plan->job->leaves.at[l];
    if (!leaf->trained || leaf->tied_to >= 0 || !p->g) continue;
    check(done[l], "no kernel completes the gradient of %s", leaf->name);
  }
}

static void add_arena(Plan *plan, ArenaRole role, int32_t state, DType t, int64_t elements) {
  if (elements > 0)
    vec_push(plan->job->arena, &plan->arenas, (PlanArena){role, state, t, elements});
}

/* An optimizer's states, one arena for each number, in the order of the parameters: where all have a
   state of the tensor's shape, its place is that of the tensor. */
static void place_states(Plan *plan) {
  Job *job = plan->job;
  int64_t size[4] = {0};
  for (uint32_t i = 0; i < plan->ready.len && job->optimizers.len; i++) {
    Segment *s = &plan->segments.at[i];
    const Optimizer *o = &job->optimizers.at[job->leaves.at[s->leaf].optimizer];
    for (uint32_t k = 0; k < o->states.len; k++) {
      int64_t n = o->whole ? type_elements_at(o->state_type.at[k], 1) : s->elements;
      s->state[k] = size[k];
      size[k] = plan_align(size[k] + n, PLAN_ALIGN_ELEMENTS);
    }
  }
  for (int k = 0; k < 4; k++) add_arena(plan, ARENA_state, k, DT_f32, size[k]);
}

static void place_leaves(Plan *plan) {
  Job *job = plan->job;
  int64_t trained = 0, frozen = 0, buffers = 0;
  for (uint32_t i = 0; i < plan->ready.len; i++) {
    int64_t n = elements_of(&job->leaves.at[plan->ready.at[i]]);
    vec_push(job->arena, &plan->segments,
             (Segment){.leaf = plan->ready.at[i], .offset = trained, .elements = n});
    trained = plan_align(trained + n, PLAN_ALIGN_ELEMENTS);
  }
  for (uint32_t l = 0; l < job->leaves.len; l++) {
    const Leaf *leaf = &job->leaves.at[l];
    if (leaf->buffer || leaf->trained || leaf->tied_to >= 0) continue;
    vec_push(job->arena, &plan->segments,
             (Segment){.leaf = (int32_t)l, .offset = frozen, .elements = elements_of(leaf)});
    frozen = plan_align(frozen + elements_of(leaf), PLAN_ALIGN_ELEMENTS);
  }
  for (uint32_t l = 0; l < job->leaves.len; l++) { /* bytes: dtypes differ */
    const Leaf *leaf = &job->leaves.at[l];
    if (!leaf->buffer || leaf->tied_to >= 0) continue;
    vec_push(job->arena, &plan->segments,
             (Segment){.leaf = (int32_t)l, .offset = buffers, .elements = elements_of(leaf)});
    buffers = plan_align(buffers + elements_of(leaf) * dtype_bytes(leaf->type.dtype), PLAN_ALIGN);
  }
  plan->segment_of = ARENA_ARRAY(job->arena, int32_t, job->leaves.len + 1);
  for (uint32_t l = 0; l < job->leaves.len; l++) plan->segment_of[l] = -1;
  for (uint32_t i = 0; i < plan->segments.len; i++)
    plan->segment_of[plan->segments.at[i].leaf] = (int32_t)i;
  add_arena(plan, ARENA_param, 0, DT_f32, trained);
  add_arena(plan, ARENA_grad, 0, DT_f32, trained);
  place_states(plan);
  add_arena(plan, ARENA_frozen, 0, DT_f32, frozen);
  add_arena(plan, ARENA_buffer, 0, DT_u8, buffers);
}

/* By place in the ready order: the kernel that completes the gradient. */
static int32_t *completing_kernels(const Plan *plan, Arena *a) {
  int32_t *kernel = ARENA_ARRAY(a, int32_t, plan->ready.len + 1);
  uint32_t n = 0;
  for (uint32_t k = 0; k < plan->train.kernels.len; k++)
    for (uint32_t i = 0; i < plan->train.kernels.at[k].grads_ready.len; i++)
      kernel[n++] = (int32_t)k;
  return kernel;
}

static void find_buckets(Plan *plan) {
  Arena *a = plan->job->arena;
  int n = (int)plan->ready.len;
  const char *text = job_setting(plan->job, "ddp_bucket_cap_mb");
  double cap = text ? strtod(text, NULL) : 0; /* "none" reads as 0 */
  int64_t mib = 1 << 20, limit = cap > 0 ? (int64_t)(cap * (double)mib) : 25 * mib;
  int64_t *bytes = ARENA_ARRAY(a, int64_t, n + 1);
  int32_t *ends = ARENA_ARRAY(a, int32_t, n + 1);
  for (int i = 0; i < n; i++) bytes[i] = plan->segments.at[i].elements * dtype_bytes(DT_f32);
  const int32_t *completes = completing_kernels(plan, a);
  int count = plan_buckets(bytes, n, cap > 0 ? limit : mib, limit, ends);
  for (int b = 0, first = 0; b < count; first = ends[b++]) {
    const Segment *last = &plan->segments.at[ends[b] - 1];
    Bucket bucket = {.first = first, .count = ends[b] - first};
    bucket.begin = plan->segments.at[first].offset;
    bucket.end = plan_align(last->offset + last->elements, PLAN_ALIGN_ELEMENTS);
    for (int i = first; i < ends[b]; i++)
      if (completes[i] > bucket.ready_after) bucket.ready_after = completes[i];
    vec_push(a, &plan->buckets, bucket);
  }
}

void plan_layout(Plan *plan) {
  find_ready(plan);
  place_leaves(plan);
  find_buckets(plan);
}

/* ---------- what ranks must agree on ---------- */
static uint64_t hash_text(const char *s, uint64_t h) {
  return text_hash(s, strlen(s), h);
}
static uint64_t hash_number(int64_t n, uint64_t h) {
  return text_hash(&n, sizeof n, h);
}

static uint64_t hash_program(const Program *p, uint64_t h) {
  h = hash_number(p->g ? p->batch_max : 0, h);
  if (p->chunk.count) h = hash_number(p->chunk.samples, hash_number(p->chunk.count, h));
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    h = hash_number(k->nest ? (int64_t)k->key : 0, h);
    if (k->epilogue.kind) h = hash_number((int64_t)k->epilogue.kind, h);
    if (k->nest) continue;
    if (k->loop) h = hash_program(&k->loop->body, h);
    const Value *x = value_at(p->g, k->call);
    Text t = {0};
    for (int j = 0; j < x->inputs; j++) type_print(&t, value_at(p->g, x->in[j])->type);
    type_print(&t, x->type);
    h = text_hash(t.at, t.len, hash_text(op_def(x->op)->name, h));
    text_free(&t);
  }
  return h;
}

uint64_t plan_hash(const Plan *plan) {
  const Job *job = plan->job;
  uint64_t h = 1;
  for (uint32_t i = 0; i < plan->segments.len; i++) {
    const Segment *s = &plan->segments.at[i];
    const Leaf *leaf = &job->leaves.at[s->leaf];
    h = hash_text(leaf->name, h);
    h = hash_text(dtype_name(leaf->type.dtype), h);
    h = hash_number(leaf->group, hash_number(s->elements, hash_number(s->offset, h)));
  }
  for (uint32_t i = 0; i < plan->arenas.len; i++)
    h = hash_number(plan->arenas.at[i].elements, hash_number((int64_t)plan->arenas.at[i].role, h));
  for (uint32_t i = 0; i < job->optimizers.len; i++) h = hash_text(job->optimizers.at[i].name, h);
  for (uint32_t i = 0; i < job->groups.len; i++)
    h = hash_number(job->groups.at[i].optimizer, hash_text(job->groups.at[i].name, h));
  h = hash_program(&plan->eval, hash_program(&plan->train, h));
  h = hash_program(&plan->finish, hash_program(&plan->counts, h));
  for (uint32_t i = 0; i < plan->optimizers.len; i++) h = hash_program(&plan->optimizers.at[i], h);
  return h;
}
