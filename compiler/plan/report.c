/* `ddpc plan`: what was decided, as tables for people. In: a plan. Out: text; the driver adds what
   only the data can tell (steps per epoch). */
#include "fuse.h"
#include "map.h"
#include "op.h"
#include "ops.h"
#include "scan.h"
#include "table.h"
#include "work.h"
#include <stdlib.h>

/* ---------- pieces ---------- */
static const char *shape_text(Arena *a, Type t) {
  Text s = {0};
  text_add(&s, "[");
  for (int i = 0; i < t.rank; i++) {
    if (i) text_add(&s, ", ");
    dim_print(&s, t.dim[i]);
  }
  text_add(&s, "]");
  const char *copy = arena_strdup(a, s.at);
  text_free(&s);
  return copy;
}

static const char *place_text(Arena *a, Span at) {
  if (!at.file) return "";
  Place p = source_place(at.file, at.begin);
  const char *slash = strrchr(p.path, '/');
  return arena_printf(a, "%s:%u", slash ? slash + 1 : p.path, p.line);
}

/* ---------- parameters and arenas ---------- */
const Segment *plan_segment(const Plan *plan, int32_t leaf) {
  int32_t at = plan->segment_of[leaf];
  return at < 0 ? NULL : &plan->segments.at[at];
}

/* Trained leaves are the first segments, in ready order. */
int64_t plan_bucket_of(const Plan *plan, int32_t leaf) {
  int32_t at = plan->segment_of[leaf];
  for (uint32_t b = 0; b < plan->buckets.len && at >= 0; b++)
    if (at >= plan->buckets.at[b].first &&
        at < plan->buckets.at[b].first + plan->buckets.at[b].count)
      return b + 1;
  return 0;
}

const char *plan_group_name(const Job *job, const Leaf *leaf) {
  if (leaf->buffer) return "buffer";
  if (leaf->tied_to >= 0) return "tied";
  if (!leaf->trained) return leaf->unused ? "unused" : "frozen";
  if (leaf->group < 0 || (uint32_t)leaf->group >= job->groups.len) return "-";
  return job->groups.at[leaf->group].name;
}

/* Leaves of equal shape and group whose names differ in numbers alone. */
typedef struct LeafRow {
  uint32_t first, last, times;
} LeafRow;

static uint64_t leaf_key(const Job *job, const Leaf *leaf) {
  const char *group = plan_group_name(job, leaf);
  uint64_t h = numbered_hash(leaf->name, 1);
  for (int i = 0; i < leaf->type.rank; i++)
    h = text_hash(&leaf->type.dim[i].fixed, sizeof(int64_t), h);
  h = text_hash(group, strlen(group), h);
  return h ? h : 1;
}

/* By leaf; times 0 for one that stands in the row of another. Short lists stay as they are. */
static LeafRow *fold_leaves(const Job *job, Arena *a) {
  enum { FEW = 8 };
  LeafRow *rows = ARENA_ARRAY(a, LeafRow, job->leaves.len + 1);
  Map times = {.arena = a}, first = {.arena = a};
  for (uint32_t l = 0; l < job->leaves.len; l++)
    ++*map_at(&times, leaf_key(job, &job->leaves.at[l]));
  for (uint32_t l = 0; l < job->leaves.len; l++) {
    uint64_t key = leaf_key(job, &job->leaves.at[l]);
    uint32_t *at = map_at(&first, key);
    rows[l] = (LeafRow){l, l, 1};
    if (map_get(&times, key) < FEW) continue;
    if (!*at) {
      *at = l + 1;
      continue;
    }
    rows[*at - 1].last = l;
    rows[*at - 1].times++;
    rows[l].times = 0;
  }
  return rows;
}

static const char *bucket_text(const Plan *plan, const LeafRow *r, Arena *a) {
  int64_t first = plan_bucket_of(plan, (int32_t)r->first);
  int64_t last = plan_bucket_of(plan, (int32_t)r->last);
  if (!first) return "-";
  return first == last ? arena_printf(a, "%lld", (long long)first)
                       : arena_printf(a, "%lld .. %lld", (long long)first, (long long)last);
}

static void print_parameters(Text *out, const Plan *plan, Arena *a) {
  const Job *job = plan->job;
  Table t = {.a = a, .columns = 6, .align = "llrlrr"};
  table_row(&t, "name", "shape", "elements", "group", "bucket", "offset");
  int64_t trained = 0, all = 0;
  const LeafRow *rows = fold_leaves(job, a);
  for (uint32_t l = 0; l < job->leaves.len; l++) {
    const Leaf *leaf = &job->leaves.at[l];
    int64_t n = type_elements_at(leaf->type, 1);
    const Segment *s = plan_segment(plan, (int32_t)l);
    if (leaf->tied_to < 0 && !leaf->buffer) all += n;
    if (leaf->tied_to < 0 && leaf->trained) trained += n;
    const LeafRow *r = &rows[l];
    if (!r->times) continue;
    const char *name = leaf->name;
    if (r->times > 1)
      name = arena_printf(a, "%s (%u)", numbered_range(a, name, job->leaves.at[r->last].name),
                          r->times);
    table_row(&t, name, shape_text(a, leaf->type), number_grouped(a, n), plan_group_name(job, leaf),
              bucket_text(plan, r, a), s ? number_grouped(a, s->offset) : "-");
  }
  text_addf(out, "parameters: %s, of which %s are trained\n", number_grouped(a, all),
            number_grouped(a, trained));
  table_print(out, &t);
}

const char *plan_arena_name(const Plan *plan, const PlanArena *x, Arena *a) {
  static const char *const role[] = {"parameters",  "gradients", "optimizer state",
                                     "bf16 copies", "frozen",    "buffers"};
  const Job *job = plan->job;
  if (x->role != ARENA_state) return role[x->role];
  const char *name = NULL; /* the one that all optimizers have for it */
  bool same = true;
  for (uint32_t i = 0; i < job->optimizers.len; i++) {
    const Optimizer *o = &job->optimizers.at[i];
    if ((uint32_t)x->state >= o->states.len) continue;
    same = same && (!name || !strcmp(name, o->states.at[x->state]));
    name = o->states.at[x->state];
  }
  return name && same ? name : arena_printf(a, "optimizer state %d", (int)x->state + 1);
}

/* Where the samples of a micro-batch are gathered: per field that is read, rounded up to 64 bytes. */
int64_t plan_sample_bytes(const Plan *plan) {
  int64_t sum = 0, batch = plan->train.batch_max;
  if (plan->eval.g && plan->eval.batch_max > batch) batch = plan->eval.batch_max;
  for (uint32_t i = 0; i < plan->job->dataset.fields.len; i++) {
    const Field *f = &plan->job->dataset.fields.at[i];
    int64_t bytes = batch * type_elements_at(f->type, 1) * dtype_bytes(f->type.dtype);
    if (f->used) sum += (bytes + 63) / 64 * 64;
  }
  return sum;
}

int64_t plan_average_bytes(const Plan *plan) {
  int64_t sum = 0;
  if (job_setting_is(plan->job, "ema_decay", "none")) return 0;
  for (uint32_t i = 0; i < plan->arenas.len; i++) {
    const PlanArena *x = &plan->arenas.at[i];
    if (x->role == ARENA_param) sum += x->elements * dtype_bytes(x->dtype);
  }
  return sum;
}

int64_t plan_kept_bytes(const Plan *plan) {
  const Job *job = plan->job;
  for (uint32_t i = 0; i < plan->arenas.len; i++) {
    const PlanArena *x = &plan->arenas.at[i];
    if (x->role != ARENA_buffer) continue;
    bool keeps = !job_setting_is(job, "gradient_accumulation_steps", "1") ||
                 job_setting_is(job, "on_nan", "skip");
    return keeps ? x->elements * dtype_bytes(x->dtype) : 0;
  }
  return 0;
}

int64_t plan_block_bytes(const Plan *plan) {
  int64_t most = plan_step_block(plan);
  if (plan->train.block_bytes > most) most = plan->train.block_bytes;
  return plan->eval.block_bytes > most ? plan->eval.block_bytes : most;
}

int64_t plan_rank_bytes(const Plan *plan) {
  if (plan_on_gpu(plan)) return plan_gpu(plan).all;
  int64_t sum = plan_block_bytes(plan) + plan_sample_bytes(plan) + plan_average_bytes(plan) +
                plan_kept_bytes(plan);
  for (uint32_t i = 0; i < plan->arenas.len; i++)
    sum += plan->arenas.at[i].elements * dtype_bytes(plan->arenas.at[i].dtype);
  return sum;
}

static void bytes_row(Table *t, Arena *a, const char *what, int64_t bytes) {
  if (bytes) table_row(t, what, "", "", number_grouped(a, bytes), number_bytes(a, bytes));
}

/* What there is on a GPU beside arenas and activations, and on the host for it. */
static void print_gpu(Table *t, const Plan *plan, Arena *a) {
  PlanGpu g = plan_gpu(plan);
  bytes_row(t, a, "samples of two batches", g.batches);
  bytes_row(t, a, "rates, groups and norms for steps of the optimizer", g.optimizer);
  bytes_row(t, a, "sums and denominators", g.sums);
  bytes_row(t, a,
            plan->device.scratch_open ? "scratch memory of kernels, at least"
                                      : "scratch memory of kernels",
            g.scratch);
  bytes_row(t, a, "workspace of cuBLASLt", g.workspace);
  bytes_row(t, a, "all of one rank on its GPU", g.all);
  bytes_row(t, a, "allowance: CUDA context, code, NCCL, cuDNN", g.beside);
  bytes_row(t, a, "page-locked memory of the host", g.pinned);
}

static void print_memory(Text *out, const Plan *plan, Arena *a) {
  Table t = {.a = a, .columns = 5, .align = "llrrl"};
  table_row(&t, "what", "dtype", "elements", "bytes", "");
  for (uint32_t i = 0; i < plan->arenas.len; i++) {
    const PlanArena *x = &plan->arenas.at[i];
    int64_t bytes = x->elements * dtype_bytes(x->dtype);
    const char *name = plan_arena_name(plan, x, a);
    table_row(&t, name, dtype_name(x->dtype), number_grouped(a, x->elements),
              number_grouped(a, bytes), number_bytes(a, bytes));
  }
  const Program *p[] = {&plan->train, &plan->eval};
  for (int i = 0; i < 2; i++) {
    if (!p[i]->g) continue;
    const char *name = arena_printf(a, "activations, %s (batch %lld)",
                                    i ? "evaluation" : "training", (long long)p[i]->batch_max);
    table_row(&t, name, "", "", number_grouped(a, p[i]->block_bytes),
              number_bytes(a, p[i]->block_bytes));
  }
  int64_t step = plan_step_block(plan);
  if (step)
    table_row(&t, "workspace of an optimizer step", "", "", number_grouped(a, step),
              number_bytes(a, step));
  int64_t average = plan_average_bytes(plan);
  if (average)
    table_row(&t, "average of the weights", "f32", number_grouped(a, average / 4),
              number_grouped(a, average), number_bytes(a, average));
  bytes_row(&t, a, "buffers as they were before the update", plan_kept_bytes(plan));
  int64_t gathered = plan_sample_bytes(plan), total = plan_rank_bytes(plan);
  if (plan_on_gpu(plan)) {
    print_gpu(&t, plan, a);
    total = plan_room_bytes(plan);
  } else {
    table_row(&t, "samples of one batch", "", "", number_grouped(a, gathered),
              number_bytes(a, gathered));
    table_row(&t, "all of one rank, beside the data", "", "", number_grouped(a, total),
              number_bytes(a, total));
  }
  int64_t room = plan->job->target.memory;
  if (room)
    table_row(&t, "what a rank may use", "", "", number_grouped(a, room),
              arena_printf(a, "%s, %.1f %% of it taken", number_bytes(a, room),
                           100 * (double)total / (double)room));
  text_add(out, "memory of one rank\n");
  table_print(out, &t);
}

/* What a loss in chunks has of the block. */
static void print_chunk(Text *out, const Program *p, const char *what, Arena *a) {
  const PlanChunk *c = &p->chunk;
  if (!c->count) return;
  const Kernel *first = &p->kernels.at[c->first];
  text_addf(
      out, "loss in %lld chunks of %lld sample%s, %s: %s -> %s (kernels %u .. %u, from %s to %s)\n",
      (long long)((p->batch_max + c->samples - 1) / c->samples), (long long)c->samples,
      c->samples == 1 ? "" : "s", what, number_bytes(a, c->whole_bytes), number_bytes(a, c->bytes),
      c->first + 1, c->first + c->count, first->name, first[c->count - 1].name);
}

/* ---------- kernels ---------- */
int64_t plan_call_flops(const Program *p, const Kernel *k) {
  return k->kind == KERNEL_call ? (int64_t)op_flops(p->g, k->call, p->batch_max) : 0;
}

static const char *loop_text(const Program *p, const Kernel *k, Arena *a) {
  Scan s = scan_of(value_at(p->g, k->call));
  Text n = {0};
  dim_print(&n, s.length);
  const char *text = arena_printf(a, "loop of %s turns%s over %u kernels", n.at,
                                  s.reverse ? ", last to first," : "", k->loop->body.kernels.len);
  text_free(&n);
  return text;
}

static const char *call_text(const Program *p, const Kernel *k, Arena *a) {
  if (k->loop) return loop_text(p, k, a);
  const Value *x = value_at(p->g, k->call);
  const char *s = op_def(x->op)->name;
  for (int i = 0; i < x->inputs; i++) {
    const char *flag = "";
    int at = i < 2 ? op_attr(x->op, i ? "tb" : "ta") : -1;
    if ((at >= 0 && x->attr[at].as.i) || (x->op == OP_matmul_bias && i == 1)) flag = " transposed";
    s = arena_printf(a, "%s%s %s%s", s, i ? "," : "", shape_text(a, value_at(p->g, x->in[i])->type),
                     flag);
  }
  return s;
}

/* The ops of a nest, each once, with its count. */
static const char *nest_text(const Program *p, const Kernel *k, Arena *a) {
  ValList pulled = {0};
  plan_pulled(p, k, a, &pulled);
  const char *s = "";
  for (uint32_t i = 0; i < pulled.len; i++) {
    OpKind op = value_at(p->g, pulled.at[i])->op;
    int before = 0, all = 0;
    for (uint32_t j = 0; j < pulled.len; j++) {
      bool same = value_at(p->g, pulled.at[j])->op == op;
      all += same;
      before += same && j < i;
    }
    if (before) continue;
    s = arena_printf(a, "%s%s%s", s, *s ? " " : "", op_def(op)->name);
    if (all > 1) s = arena_printf(a, "%s*%d", s, all);
  }
  if (k->nest->stages.len > 1) s = arena_printf(a, "%s in %u stages", s, k->nest->stages.len);
  return *s ? s : "copy";
}

const char *plan_kernel_text(const Program *p, const Kernel *k, Arena *a) {
  if (k->nest) return nest_text(p, k, a);
  if (!k->epilogue.kind) return call_text(p, k, a);
  return arena_printf(a, "%s + %s", call_text(p, k, a), plan_epilogue_text(&k->epilogue, a));
}

static const char *ready_text(const Plan *plan, const Kernel *k, Arena *a) {
  const char *s = "";
  for (uint32_t i = 0; i < k->grads_ready.len; i++)
    s = arena_printf(a, "%s%s%s", s, *s ? ", " : "",
                     plan->job->leaves.at[k->grads_ready.at[i]].name);
  return s;
}

/* The kernels of one turn, numbered below those of the loop. */
static void add_turn(Table *t, const Program *body, const char *number, Arena *a) {
  for (uint32_t i = 0; i < body->kernels.len; i++) {
    const Kernel *k = &body->kernels.at[i];
    const char *own = arena_printf(a, "%s.%u", number, i + 1);
    table_row(t, own, k->name, plan_kernel_text(body, k, a), place_text(a, k->at), "");
    if (k->loop) add_turn(t, &k->loop->body, own, a);
  }
}

/* Rows of a table that differ in their numbers alone: three and more become one. */
typedef struct KernelRow {
  const char *name, *computes, *place, *ready; /* of the first */
  const char *last_name, *last_ready;
  uint32_t first, last, times;
} KernelRow;
typedef VEC(KernelRow) KernelRows;

static KernelRow row_of(const Plan *plan, const Program *p, uint32_t i, Arena *a) {
  const Kernel *k = &p->kernels.at[i];
  const char *ready = ready_text(plan, k, a);
  return (KernelRow){
      k->name, plan_kernel_text(p, k, a), place_text(a, k->at), ready, k->name, ready, i + 1, i + 1,
      1};
}

static uint64_t row_key(const KernelRow *r) {
  uint64_t h = numbered_hash(r->ready, numbered_hash(r->name, 1));
  h = text_hash(r->computes, strlen(r->computes), h);
  h = text_hash(r->place, strlen(r->place), h);
  return h ? h : 1;
}

/* By kernel: what its row says; times 0 for those that stand in the row of another. */
static KernelRow *fold_rows(const Plan *plan, const Program *p, Arena *a) {
  uint32_t n = p->kernels.len;
  KernelRow *rows = ARENA_ARRAY(a, KernelRow, n + 1);
  Map first = {.arena = a}, times = {.arena = a};
  for (uint32_t i = 0; i < n; i++) {
    rows[i] = row_of(plan, p, i, a);
    ++*map_at(&times, row_key(&rows[i]));
  }
  for (uint32_t i = 0; i < n; i++) {
    uint64_t key = row_key(&rows[i]);
    if (map_get(&times, key) < 3) continue;
    uint32_t *at = map_at(&first, key);
    if (!*at) {
      *at = i + 1;
      continue;
    }
    KernelRow *r = &rows[*at - 1];
    r->last = i + 1;
    r->last_name = rows[i].name;
    r->last_ready = rows[i].ready;
    r->times++;
    rows[i].times = 0;
  }
  return rows;
}

static void print_kernels(Text *out, const Plan *plan, const Program *p, const char *what,
                          Arena *a) {
  if (!p->g) return;
  bool trains = p == &plan->train;
  Table t = {.a = a, .columns = trains ? 5 : 4, .align = "rllll"};
  double flops = 0;
  uint32_t calls = 0;
  const KernelRow *rows = fold_rows(plan, p, a);
  table_row(&t, "", "kernel", "computes", "line", "completes the gradient of");
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    const KernelRow *r = &rows[i];
    flops += (double)plan_call_flops(p, k);
    calls += plan_call_flops(p, k) > 0;
    if (!r->times) continue;
    const char *number = arena_printf(a, "%u", r->first);
    if (r->times > 1) number = arena_printf(a, "%u .. %u (%u times)", r->first, r->last, r->times);
    table_row(&t, number, numbered_range(a, r->name, r->last_name), r->computes, r->place,
              numbered_range(a, r->ready, r->last_ready));
    if (k->loop) add_turn(&t, &k->loop->body, arena_printf(a, "%u", i + 1), a);
  }
  text_addf(out, "%s: %u kernels, %u of them calls of %s at batch %lld\n", what, p->kernels.len,
            calls, number_flops(a, flops), (long long)p->batch_max);
  table_print(out, &t);
}

/* ---------- buckets ---------- */
int32_t plan_loss_after(const Plan *plan) {
  const Program *p = &plan->train;
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    for (uint32_t w = 0; w < k->writes.len; w++) {
      const ValuePlace *at = &p->places.at[k->writes.at[w]];
      if (at->home == HOME_sum && at->index == 0) return (int32_t)n;
    }
    n += k->grads_ready.len;
  }
  return (int32_t)n;
}

/* As runtime/train/reduce.c decides, by the values of its run. */
const char *plan_steps_late(const Plan *plan) {
  const Job *job = plan->job;
  const char *norm = job_setting(job, "max_grad_norm");
  if (norm && strtod(norm, NULL) > 0) return "max_grad_norm";
  if (job_setting_is(job, "fp16", "true")) return "fp16";
  if (job_setting_is(job, "on_nan", "skip")) return "on_nan";
  if (strstr(job_setting(job, "debug"), "underflow_overflow")) return "debug";
  bool told = plan->buckets.len && plan->buckets.at[0].count > plan_loss_after(plan);
  return job_setting_is(job, "on_nan", "stop") && !told ? "on_nan" : NULL;
}

static void print_buckets(Text *out, const Plan *plan, Arena *a) {
  Table t = {.a = a, .columns = 5, .align = "rrrrl"};
  int64_t wire = 0;
  table_row(&t, "", "tensors", "elements", "bytes", "starts after");
  for (uint32_t b = 0; b < plan->buckets.len; b++) {
    const Bucket *k = &plan->buckets.at[b];
    int64_t n = k->end - k->begin;
    wire += n * dtype_bytes(DT_f32);
    table_row(&t, arena_printf(a, "%u", b + 1), arena_printf(a, "%d", k->count),
              number_grouped(a, n), number_grouped(a, n * dtype_bytes(DT_f32)),
              arena_printf(a, "kernel %d of %u, %s", k->ready_after + 1, plan->train.kernels.len,
                           plan->train.kernels.at[k->ready_after].name));
  }
  text_addf(out, "buckets: %u; %s bytes all-reduced per update\n", plan->buckets.len,
            number_grouped(a, wire));
  table_print(out, &t);
  const char *late = plan_steps_late(plan);
  if (late)
    text_addf(out, "the optimizer steps after the last bucket: %s = %s needs all gradients first\n",
              late, job_setting(plan->job, late));
  else
    text_add(out, "the optimizer steps each bucket as soon as its sum is there\n");
}

/* Hand-written kernels that do not cover a call; E0907 says what that means. */
static void print_remarks(Text *out, const Plan *plan, Arena *a) {
  const Job *job = plan->job;
  if (!job->remarks.len) return;
  Table t = {.a = a, .columns = 3, .align = "lll"};
  for (uint32_t i = 0; i < job->remarks.len; i++) {
    const KernelRemark *r = &job->remarks.at[i];
    table_row(&t, r->kernel, place_text(a, r->at), r->why);
  }
  text_add(out, "\nbodies compiled where a kernel does not cover the case (E0907):\n");
  table_print(out, &t);
}

void plan_print(Text *out, const Plan *plan) {
  Arena *a = arena_new();
  print_parameters(out, plan, a);
  text_add(out, "\n");
  print_memory(out, plan, a);
  print_chunk(out, &plan->train, "training", a);
  print_chunk(out, &plan->eval, "evaluation", a);
  text_add(out, "\n");
  plan_print_work(out, plan, a);
  text_add(out, "\n");
  print_kernels(out, plan, &plan->train, "training step", a);
  text_add(out, "\n");
  if (plan->eval.g) {
    print_kernels(out, plan, &plan->eval, "evaluation step", a);
    text_add(out, "\n");
  }
  print_buckets(out, plan, a);
  print_remarks(out, plan, a);
  arena_free(a);
}
