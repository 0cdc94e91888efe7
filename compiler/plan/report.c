/* `ddpc plan`: what was decided, as tables for people. In: a plan. Out: text; the driver adds what
   only the data can tell (steps per epoch). */
#include "conv.h"
#include "fuse.h"
#include "op.h"
#include "scan.h"
#include <stdarg.h>
#include <stdio.h>

/* ---------- tables ---------- */
enum { MAX_COLUMNS = 8 };
typedef struct Table {
  Arena *a;
  int columns;
  const char *align; /* one letter a column: l or r */
  VEC(const char *) cells;
} Table;

static void row(Table *t, ...) {
  va_list args;
  va_start(args, t);
  for (int i = 0; i < t->columns; i++) vec_push(t->a, &t->cells, va_arg(args, const char *));
  va_end(args);
}

/* Width in characters: bytes that start one. */
static int width_of(const char *s) {
  int n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
  return n;
}

static void print_table(Text *out, const Table *t) {
  int width[MAX_COLUMNS] = {0};
  for (uint32_t i = 0; i < t->cells.len; i++) {
    int w = width_of(t->cells.at[i]), c = (int)i % t->columns;
    if (w > width[c]) width[c] = w;
  }
  for (uint32_t i = 0; i < t->cells.len; i++) {
    int c = (int)i % t->columns, pad = width[c] - width_of(t->cells.at[i]);
    bool right = t->align[c] == 'r';
    text_addf(out, "  %*s", right ? pad : 0, "");
    text_add(out, t->cells.at[i]);
    if (c < t->columns - 1) {
      text_addf(out, "%*s", right ? 0 : pad, "");
      continue;
    }
    while (out->len && out->at[out->len - 1] == ' ') out->at[--out->len] = 0;
    text_add(out, "\n");
  }
}

/* ---------- numbers ---------- */
/* 1234567 -> "1,234,567" */
static const char *grouped(Arena *a, int64_t n) {
  char digits[32], out[48];
  int len = snprintf(digits, sizeof digits, "%lld", (long long)n), to = 0;
  for (int i = 0; i < len; i++) {
    if (i && (len - i) % 3 == 0 && digits[i - 1] != '-') out[to++] = ',';
    out[to++] = digits[i];
  }
  out[to] = 0;
  return arena_strdup(a, out);
}

static const char *amount(Arena *a, int64_t bytes) {
  if (bytes < 1024) return arena_printf(a, "%lld B", (long long)bytes);
  if (bytes < 1024 * 1024) return arena_printf(a, "%.1f KiB", (double)bytes / 1024);
  if (bytes < (int64_t)10 << 30) return arena_printf(a, "%.1f MiB", (double)bytes / 1048576);
  return arena_printf(a, "%.2f GiB", (double)bytes / 1073741824);
}

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
  if (!leaf->trained) return "frozen";
  if (leaf->group < 0 || (uint32_t)leaf->group >= job->groups.len) return "-";
  return job->groups.at[leaf->group].name;
}

static void print_parameters(Text *out, const Plan *plan, Arena *a) {
  const Job *job = plan->job;
  Table t = {.a = a, .columns = 6, .align = "llrlrr"};
  row(&t, "name", "shape", "elements", "group", "bucket", "offset");
  int64_t trained = 0, all = 0;
  for (uint32_t l = 0; l < job->leaves.len; l++) {
    const Leaf *leaf = &job->leaves.at[l];
    int64_t n = type_elements_at(leaf->type, 1);
    const Segment *s = plan_segment(plan, (int32_t)l);
    int64_t bucket = plan_bucket_of(plan, (int32_t)l);
    if (leaf->tied_to < 0 && !leaf->buffer) all += n;
    if (leaf->tied_to < 0 && leaf->trained) trained += n;
    row(&t, leaf->name, shape_text(a, leaf->type), grouped(a, n), plan_group_name(job, leaf),
        bucket ? arena_printf(a, "%lld", (long long)bucket) : "-", s ? grouped(a, s->offset) : "-");
  }
  text_addf(out, "parameters: %s, of which %s are trained\n", grouped(a, all), grouped(a, trained));
  print_table(out, &t);
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

int64_t plan_rank_bytes(const Plan *plan) {
  int64_t most = plan_step_block(plan); /* one after the other in the same memory */
  if (plan->train.block_bytes > most) most = plan->train.block_bytes;
  if (plan->eval.block_bytes > most) most = plan->eval.block_bytes;
  int64_t sum = most + plan_sample_bytes(plan);
  for (uint32_t i = 0; i < plan->arenas.len; i++)
    sum += plan->arenas.at[i].elements * dtype_bytes(plan->arenas.at[i].dtype);
  return sum;
}

static void print_memory(Text *out, const Plan *plan, Arena *a) {
  Table t = {.a = a, .columns = 5, .align = "llrrl"};
  row(&t, "what", "dtype", "elements", "bytes", "");
  for (uint32_t i = 0; i < plan->arenas.len; i++) {
    const PlanArena *x = &plan->arenas.at[i];
    int64_t bytes = x->elements * dtype_bytes(x->dtype);
    const char *name = plan_arena_name(plan, x, a);
    row(&t, name, dtype_name(x->dtype), grouped(a, x->elements), grouped(a, bytes),
        amount(a, bytes));
  }
  const Program *p[] = {&plan->train, &plan->eval};
  for (int i = 0; i < 2; i++) {
    if (!p[i]->g) continue;
    const char *name = arena_printf(a, "activations, %s (batch %lld)",
                                    i ? "evaluation" : "training", (long long)p[i]->batch_max);
    row(&t, name, "", "", grouped(a, p[i]->block_bytes), amount(a, p[i]->block_bytes));
  }
  int64_t step = plan_step_block(plan);
  if (step) row(&t, "workspace of an optimizer step", "", "", grouped(a, step), amount(a, step));
  int64_t gathered = plan_sample_bytes(plan), total = plan_rank_bytes(plan);
  row(&t, "samples of one batch", "", "", grouped(a, gathered), amount(a, gathered));
  row(&t, "all of one rank, beside the data", "", "", grouped(a, total), amount(a, total));
  text_add(out, "memory of one rank\n");
  print_table(out, &t);
}

/* ---------- kernels ---------- */
int64_t plan_call_flops(const Program *p, const Kernel *k) {
  if (k->loop) {
    int64_t turn = 0;
    for (uint32_t i = 0; i < k->loop->body.kernels.len; i++)
      turn += plan_call_flops(&k->loop->body, &k->loop->body.kernels.at[i]);
    return turn * dim_at(scan_of(value_at(p->g, k->call)).length, p->batch_max);
  }
  if (k->kind != KERNEL_call) return 0;
  const Value *x = value_at(p->g, k->call);
  if (conv_is(x->op)) {
    const ConvShape c = conv_shape(p->g, x);
    return dim_at(conv_flops(&c), p->batch_max);
  }
  if (x->op != OP_matmul) return 0;
  Type left = value_at(p->g, x->in[0])->type;
  bool ta = x->attr[op_attr(OP_matmul, "ta")].as.i != 0;
  int64_t inner = dim_at(left.dim[left.rank - (ta ? 2 : 1)], p->batch_max);
  return 2 * inner * type_elements_at(x->type, p->batch_max);
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
    if (x->op == OP_matmul && x->attr[op_attr(OP_matmul, i ? "tb" : "ta")].as.i)
      flag = " transposed";
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
  return k->nest ? nest_text(p, k, a) : call_text(p, k, a);
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
    row(t, own, k->name, plan_kernel_text(body, k, a), place_text(a, k->at), "");
    if (k->loop) add_turn(t, &k->loop->body, own, a);
  }
}

static void print_kernels(Text *out, const Plan *plan, const Program *p, const char *what,
                          Arena *a) {
  if (!p->g) return;
  bool trains = p == &plan->train;
  Table t = {.a = a, .columns = trains ? 5 : 4, .align = "rllll"};
  int64_t flops = 0;
  uint32_t products = 0;
  row(&t, "", "kernel", "computes", "line", "completes the gradient of");
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    flops += plan_call_flops(p, k);
    products += plan_call_flops(p, k) > 0;
    row(&t, arena_printf(a, "%u", i + 1), k->name, plan_kernel_text(p, k, a), place_text(a, k->at),
        ready_text(plan, k, a));
    if (k->loop) add_turn(&t, &k->loop->body, arena_printf(a, "%u", i + 1), a);
  }
  text_addf(out, "%s: %u kernels, %u of them products of %s FLOP at batch %lld\n", what,
            p->kernels.len, products, grouped(a, flops), (long long)p->batch_max);
  print_table(out, &t);
}

/* ---------- buckets ---------- */
static void print_buckets(Text *out, const Plan *plan, Arena *a) {
  Table t = {.a = a, .columns = 5, .align = "rrrrl"};
  int64_t wire = 0;
  row(&t, "", "tensors", "elements", "bytes", "starts after");
  for (uint32_t b = 0; b < plan->buckets.len; b++) {
    const Bucket *k = &plan->buckets.at[b];
    int64_t n = k->end - k->begin;
    wire += n * dtype_bytes(DT_f32);
    row(&t, arena_printf(a, "%u", b + 1), arena_printf(a, "%d", k->count), grouped(a, n),
        grouped(a, n * dtype_bytes(DT_f32)),
        arena_printf(a, "kernel %d of %u, %s", k->ready_after + 1, plan->train.kernels.len,
                     plan->train.kernels.at[k->ready_after].name));
  }
  text_addf(out, "buckets: %u; %s bytes all-reduced per update\n", plan->buckets.len,
            grouped(a, wire));
  print_table(out, &t);
}

void plan_print(Text *out, const Plan *plan) {
  Arena *a = arena_new();
  print_parameters(out, plan, a);
  text_add(out, "\n");
  print_memory(out, plan, a);
  text_add(out, "\n");
  print_kernels(out, plan, &plan->train, "training step", a);
  text_add(out, "\n");
  if (plan->eval.g) {
    print_kernels(out, plan, &plan->eval, "evaluation step", a);
    text_add(out, "\n");
  }
  print_buckets(out, plan, a);
  arena_free(a);
}
