/* See emitted.h. */
#include "emitted.h"
#include "ddp/job.h"
#include "device.h"
#include "device/device.h"
#include "die.h"
#include "fuse.h"
#include "kernels/random.h"
#include "program.h"
#include "recorded.h"
#include <dlfcn.h>
#include <libgen.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEED = 1234, UPDATE = 5, EPOCH = 3, FIRST_SAMPLE = 40, FIRST_ROW = 700 };
enum { MOST_SUMS = DDP_MAX_COUNTS };

typedef struct Entry {
  Program p;
  Plan *plan;
  int64_t leaf_elements; /* of all leaves, in each arena */
  void (*run)(DdpStep *step);
} Entry;

/* What stands around the functions of a target, and who compiles it. */
typedef struct Language {
  const Target *target;
  const char *file, *before, *array, *command;
} Language;
static const Language languages[] = {
    {&target_cpu, "graphs.c",
     "#include \"ddp/job.h\"\n#include \"ddp/settings.h\"\n#include \"kernels/cpu/conv.h\"\n"
     "#include \"kernels/cpu/gemm16.h\"\n#include \"kernels/cpu/index.h\"\n"
     "#include \"kernels/cpu/math.h\"\n#include \"kernels/cpu/pool.h\"\n"
     "#include \"kernels/random.h\"\n"
     "void ddp_trace_kernel(struct DdpTrace *t, int32_t k) {\n  (void)t, (void)k;\n}\n"
     "void ddp_all_sum(DdpStep *step, float *out, const float *in, int64_t n) { /* one rank */\n"
     "  (void)step;\n  memmove(out, in, (size_t)n * sizeof *out);\n}\n",
     "extern void (*const graphs[])(DdpStep *);\nvoid (*const graphs[])(DdpStep *) = {",
     "%s -std=gnu11 -fno-math-errno -fno-trapping-math -ffp-contract=off -fopenmp-simd -fPIC "
     "-shared -Wall -Wextra -Werror %s -I%s %s -o %s %s %s -lm"},
    /* with all that a program for GPUs links; the stand-in of cuBLASLt finds the emulator in it */
    {&target_cuda, "graphs.cu", "",
     "extern \"C\" {\nextern void (*const graphs[])(DdpStep *);\n}\n"
     "void (*const graphs[])(DdpStep *) = {",
     "%s -std=c++20 -x c++ -ffp-contract=off -fPIC -shared -Wall -Wextra -Werror "
     "-Wno-unknown-pragmas %s -I%s -I" TEST_CUDASIM_INCLUDE
     " %s -o %s %s -x none %s " TEST_CUDASIM_LIBRARIES},
};

typedef struct Taken {
  void *at;
  size_t bytes;
} Taken;

struct Emitted {
  Arena *arena;
  const Language *language;
  const DdpTarget *there; /* what the text of a device says of it; else NULL */
  VEC(Taken) taken;       /* memory of the device, for one run */
  Text functions;
  char *whole;
  Emit emit;
  EmitOptions options;
  VEC(Entry) entries;
  bool wide;
};

Emitted *emitted_new(Arena *a, const Target *target) {
  Emitted *e = ARENA_NEW(a, Emitted);
  e->arena = a;
  e->language = &languages[target == &target_cuda];
  e->options = (EmitOptions){target, "test", "native"};
  e->emit = (Emit){.options = &e->options, .target = target, .arena = a};
  names_init(&e->emit.globals, a, NULL);
  return e;
}

/* A job with the fields and leaves that the graph reads. Its outputs become buffers, whose memory has a
   dtype and a place. */
static Plan *make_plan(Arena *a, Graph *g, int64_t *leaf_elements) {
  Plan *plan = ARENA_NEW(a, Plan);
  Job *job = plan->job = ARENA_NEW(a, Job);
  vec_push(a, &job->settings, ((JobSetting){.key = "tf32", .value = "false"}));
  job->arena = a;
  job->path = "graphs.ddp";
  vec_push(a, &job->target.archs, "sm_80");
  int64_t offset = 0;
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    bool leaf = x->op == OP_param || x->op == OP_buffer;
    if (!leaf && x->op != OP_input) continue;
    uint32_t n = (uint32_t)x->attr[0].as.i;
    Leaf l = {
        .type = x->type, .trained = x->op == OP_param, .buffer = x->op == OP_buffer, .tied_to = -1};
    Field f = {.type = x->type, .used = true};
    while (leaf && job->leaves.len <= n) {
      l.name = arena_printf(a, "w%u", job->leaves.len);
      vec_push(a, &job->leaves, l);
      vec_push(a, &plan->segments,
               ((Segment){.leaf = (int32_t)job->leaves.len - 1, .offset = offset}));
      offset += 1 << 12;
    }
    while (!leaf && job->dataset.fields.len <= n) {
      f.name = arena_printf(a, "x%u", job->dataset.fields.len);
      vec_push(a, &job->dataset.fields, f);
    }
    if (leaf) job->leaves.at[n].type = x->type;
  }
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    Output *o = &g->outputs.at[i];
    Leaf l = {.name = arena_printf(a, "out%u", i), .buffer = true, .tied_to = -1};
    l.type = value_at(g, o->value)->type;
    *o = (Output){OUT_buffer, (int32_t)job->leaves.len, o->value};
    vec_push(a, &job->leaves, l);
    vec_push(a, &plan->segments, ((Segment){.leaf = o->index, .offset = offset}));
    offset += 1 << 12;
  }
  plan->segment_of = ARENA_ARRAY(a, int32_t, job->leaves.len + 1); /* each leaf has its own */
  for (uint32_t i = 0; i < job->leaves.len; i++) plan->segment_of[i] = (int32_t)i;
  *leaf_elements = offset;
  return plan;
}

void emitted_wide(Emitted *e, bool wide) {
  e->wide = wide;
}

int emitted_add(Emitted *e, Graph *g, int64_t batch_max, int64_t chunk) {
  Entry entry = {0};
  entry.plan = make_plan(e->arena, g, &entry.leaf_elements);
  if (e->wide) vec_push(e->arena, &entry.plan->arenas, ((PlanArena){.elements = INT64_C(1) << 33}));
  ProgramOptions how = {
      .batch_max = batch_max, .chunk = chunk, .epilogues = e->language->target->epilogues != NULL};
  plan_program(&entry.p, e->arena, g, &how);
  plan_name_values(&entry.p, e->arena, NULL);
  KernelNames taken = {0};
  plan_name_kernels(&entry.p, e->arena, &taken);
  uint32_t n = entry.plan->job->leaves.len;
  e->emit.plan = entry.plan;
  e->emit.leaf_name = ARENA_ARRAY(e->arena, const char *, n + 1);
  for (uint32_t i = 0; i < n; i++) e->emit.leaf_name[i] = entry.plan->job->leaves.at[i].name;
  int number = (int)e->entries.len;
  text_addf(&e->functions,
            "#define forward_backward graph_%d\n#define forward_backward_chunk chunk_%d\n", number,
            number);
  program_write(&e->emit, &entry.p, ROLE_train, 0, &e->functions);
  text_add(&e->functions, "#undef forward_backward\n#undef forward_backward_chunk\n\n");
  vec_push(e->arena, &e->entries, entry);
  return number;
}

const Program *emitted_program(const Emitted *e, int number) {
  return &e->entries.at[number].p;
}

const char *emitted_text(const Emitted *e) {
  return e->whole;
}

static void assemble(Emitted *e) {
  bool device = e->language->target->host;
  Text t = {0};
  if (device)
    device_write_header(&e->emit, &t);
  else
    emit_includes(&e->emit, &t);
  text_add(&t, e->language->before);
  text_add(&t, "\n");
  if (device) device_write_products(&e->emit, &t);
  emit_functions(&e->emit, &t);
  text_add(&t, e->functions.at);
  if (device) device_write_target(&e->emit, &t);
  text_add(&t, e->language->array);
  for (uint32_t i = 0; i < e->entries.len; i++) text_addf(&t, "%sgraph_%u", i ? ", " : "", i);
  text_add(&t, "};\n");
  e->whole = arena_strdup(e->arena, t.at);
  text_free(&t);
}

/* The text in a file of a new folder. */
static const char *write_source(Emitted *e) {
  assemble(e);
  char *folder = arena_strdup(e->arena, "/tmp/ddpc-emit-XXXXXX");
  check(mkdtemp(folder), "no temporary folder");
  const char *source = arena_printf(e->arena, "%s/%s", folder, e->language->file);
  FILE *f = fopen(source, "w");
  check(f && fputs(e->whole, f) >= 0 && !fclose(f), "cannot write %s", source);
  return source;
}

static void remove_files(const char *source, const char *other) {
  unlink(other);
  unlink(source);
  rmdir(dirname(strdupa(source)));
}

void emitted_compiles(Emitted *e, const char *compiler) {
  const char *source = write_source(e), *object = arena_printf(e->arena, "%s.o", source);
  const char *command =
      arena_printf(e->arena, "%s -I%s -c %s -o %s", compiler, TEST_INCLUDE, source, object);
  check(system(command) == 0, "`%s` failed", command);
  remove_files(source, object);
}

static void fine(DdpError *error) {
  check(!error, "%s", error->message);
}

static void open_device(Emitted *e, void *library) {
  e->there = dlsym(library, "target");
  check(e->there, "no target in the library");
  const DdpJob job = {.target = e->there};
  fine(e->there->device->open(&job, 0, 1));
}

/* TEST_ORDERS="forward reverse ...": compiled once, what follows happens in a process for each order of threads and blocks.
   The first process ends with what they say; it alone removes the files. */
static bool split_by_order(const char *source, const char *library) {
  char *orders = getenv("TEST_ORDERS"), *save = NULL;
  int bad = 0, status;
  if (!orders) return false;
  for (char *order = strtok_r(strdupa(orders), " ", &save); order;
       order = strtok_r(NULL, " ", &save)) {
    fflush(NULL);
    pid_t child = fork();
    check(child >= 0, "cannot fork");
    if (child == 0) {
      setenv("CUDASIM_ORDER", order, 1);
      fprintf(stderr, "order %s\n", order);
      return true;
    }
    check(waitpid(child, &status, 0) == child, "no child");
    bad |= status != 0;
  }
  remove_files(source, library);
  exit(bad);
}

void emitted_build(Emitted *e, const char *cc, const char *flags) {
  const char *source = write_source(e), *library = arena_printf(e->arena, "%s.so", source);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const char *command = arena_printf(e->arena, e->language->command, cc, flags, TEST_INCLUDE,
                                     TEST_DEFINITIONS, library, source, TEST_LIBRARIES);
#pragma GCC diagnostic pop
  check(system(command) == 0, "`%s` failed", command);
  bool mine = !split_by_order(source, library);
  void *handle = dlopen(library, RTLD_NOW | (e->language->target->host ? RTLD_GLOBAL : RTLD_LOCAL));
  check(handle, "%s", dlerror());
  void (*const *graphs)(DdpStep *) = (void (*const *)(DdpStep *))dlsym(handle, "graphs");
  check(graphs, "no graphs in %s", library);
  for (uint32_t i = 0; i < e->entries.len; i++) e->entries.at[i].run = graphs[i];
  if (e->language->target->host) open_device(e, handle);
  if (mine) remove_files(source, library);
}

/* ---------- running ---------- */

static void put(void *to, DType t, int64_t i, double v) {
  switch (t) {
  case DT_bool:
  case DT_u8:
    ((uint8_t *)to)[i] = (uint8_t)v;
    break;
  case DT_i32:
    ((int32_t *)to)[i] = (int32_t)v;
    break;
  case DT_i64:
    ((int64_t *)to)[i] = (int64_t)v;
    break;
  case DT_f64:
    ((double *)to)[i] = v;
    break;
  case DT_bf16:
    ((uint16_t *)to)[i] = ddp_store_bf16((float)v);
    break;
  case DT_f16:
    ((uint16_t *)to)[i] = ddp_store_f16((float)v);
    break;
  default:
    ((float *)to)[i] = (float)v;
    break;
  }
}
static double get(const void *from, DType t, int64_t i) {
  switch (t) {
  case DT_bool:
  case DT_u8:
    return ((const uint8_t *)from)[i];
  case DT_i32:
    return ((const int32_t *)from)[i];
  case DT_i64:
    return (double)((const int64_t *)from)[i];
  case DT_f64:
    return ((const double *)from)[i];
  case DT_bf16:
    return (double)ddp_load_bf16(((const uint16_t *)from)[i]);
  case DT_f16:
    return (double)ddp_load_f16(((const uint16_t *)from)[i]);
  default:
    return (double)((const float *)from)[i];
  }
}

static void *filled(Arena *a, const Graph *g, Val v, int64_t batch, void *to,
                    void (*source)(void *, const Graph *, Val, double *), void *self) {
  Type t = value_at(g, v)->type;
  int64_t n = type_elements_at(t, batch);
  double *x = ARENA_ARRAY(a, double, n + 1);
  source(self, g, v, x);
  if (!to) to = arena_alloc(a, (size_t)(n + 1) * 8);
  for (int64_t i = 0; i < n; i++) put(to, t.dtype, i, x[i]);
  return to;
}

/* ---------- memory of the device ---------- */

/* What kernels see: on a device a copy in its memory, until the end of the run. */
static void *there(Emitted *e, const void *here, size_t bytes) {
  if (!e->there) return (void *)(uintptr_t)here;
  const DdpDevice *d = e->there->device;
  Taken taken = {.bytes = bytes + 64};
  fine(d->alloc(DDP_MEMORY_block, taken.bytes, &taken.at));
  vec_push(e->arena, &e->taken, taken);
  fine(d->to_device(taken.at, here, bytes, d->stream(DDP_STREAM_compute)));
  return taken.at;
}

/* Memory that kernels write before they read it: no number. */
static void *workspace(Emitted *e, size_t bytes) {
  return there(e, memset(arena_alloc(e->arena, bytes + 64), 0xff, bytes + 64), bytes);
}

/* Waits for the kernels and brings `bytes` to the host. */
static const char *back(Emitted *e, const void *at, size_t bytes) {
  if (!e->there) return at;
  const DdpDevice *d = e->there->device;
  void *stream = d->stream(DDP_STREAM_compute), *here = arena_alloc(e->arena, bytes);
  fine(d->to_host(here, at, bytes, stream));
  fine(d->synchronise(stream));
  fine(d->failure());
  for (uint32_t i = 0; i < e->taken.len; i++)
    d->free(DDP_MEMORY_block, e->taken.at[i].at, e->taken.at[i].bytes);
  e->taken.len = 0;
  return here;
}

/* A step with all that it reads, in the host's memory. */
typedef struct Laid {
  DdpStep step;
  const void *fields[RECORDED_FIELDS];
  size_t field_bytes[RECORDED_FIELDS], arena_bytes;
  double counts[MOST_SUMS], sums[MOST_SUMS];
  int64_t sample[RECORDED_SAMPLES], row[RECORDED_SAMPLES];
  DdpScalars scalars;
} Laid;

static void lay_sources(Emitted *e, const Entry *entry, int64_t batch,
                        void (*source)(void *, const Graph *, Val, double *), void *self, Laid *l) {
  const Program *p = &entry->p;
  for (Val v = 1; v < p->g->values.len; v++) {
    const Value *x = value_at(p->g, v);
    int64_t n = op_has(x->op, OPF_source) && op_def(x->op)->attrs ? x->attr[0].as.i : 0;
    if (x->op == OP_input) {
      l->fields[n] = filled(e->arena, p->g, v, batch, NULL, source, self);
      l->field_bytes[n] = (size_t)type_elements_at(x->type, batch) * 8;
    }
    if (x->op == OP_param)
      filled(e->arena, p->g, v, batch,
             l->step.params + program_segment(entry->plan, (int32_t)n)->offset, source, self);
    if (x->op == OP_buffer)
      filled(e->arena, p->g, v, batch,
             l->step.buffers + program_segment(entry->plan, (int32_t)n)->offset, source, self);
    if (x->op == OP_count) source(self, p->g, v, &l->counts[n]);
    if (x->op == OP_share) source(self, p->g, v, &l->step.share);
    if (x->op == OP_host) source(self, p->g, v, &l->step.loss_scale);
  }
}

static Laid *lay_out(Emitted *e, const Entry *entry, int64_t batch,
                     void (*source)(void *, const Graph *, Val, double *), void *self) {
  Arena *a = e->arena;
  Laid *l = ARENA_NEW(a, Laid);
  *l = (Laid){.arena_bytes = (size_t)entry->leaf_elements * 4 + 64};
  for (int64_t i = 0; i < RECORDED_SAMPLES; i++)
    l->sample[i] = FIRST_SAMPLE + i, l->row[i] = FIRST_ROW + i;
  l->step = (DdpStep){.batch = batch,
                      .fields = l->fields,
                      .sample = l->sample,
                      .row = l->row,
                      .params = arena_alloc(a, l->arena_bytes),
                      .frozen = arena_alloc(a, l->arena_bytes),
                      .grads = arena_alloc(a, l->arena_bytes),
                      .buffers = arena_alloc(a, l->arena_bytes),
                      .counts = l->counts,
                      .share = 1,
                      .seed = SEED,
                      .update = UPDATE,
                      .epoch = EPOCH,
                      .sums = l->sums};
  lay_sources(e, entry, batch, source, self, l);
  l->scalars = (DdpScalars){.seed = SEED,
                            .update = UPDATE,
                            .epoch = EPOCH,
                            .share = l->step.share,
                            .loss_scale = l->step.loss_scale};
  memcpy(l->scalars.counts, l->counts, sizeof l->scalars.counts);
  return l;
}

/* The step in the memory of the device. */
static void place_step(Emitted *e, Laid *l) {
  DdpStep *step = &l->step;
  for (int i = 0; i < RECORDED_FIELDS; i++)
    if (l->fields[i]) l->fields[i] = there(e, l->fields[i], l->field_bytes[i]);
  step->params = there(e, step->params, l->arena_bytes);
  step->frozen = there(e, step->frozen, l->arena_bytes);
  step->grads = there(e, step->grads, l->arena_bytes);
  step->buffers = there(e, step->buffers, l->arena_bytes);
  step->sample = there(e, step->sample, sizeof l->sample);
  step->row = there(e, step->row, sizeof l->row);
  step->sums = there(e, step->sums, sizeof l->sums);
  step->scalars = there(e, &l->scalars, sizeof l->scalars);
  if (!e->there) return;
  step->scratch = workspace(e, (size_t)e->there->scratch);
  step->stream = e->there->device->stream(DDP_STREAM_compute);
}

/* Where in the buffers output i of a graph stands. */
static int64_t output_place(const Entry *entry, uint32_t i, Type *type) {
  const Program *p = &entry->p;
  Val v = kernel_base(p, p->g->outputs.at[i].value);
  *type = value_at(p->g, p->g->outputs.at[i].value)->type;
  check(p->places.at[v].home == HOME_buffer, "an output that is no buffer");
  return program_segment(entry->plan, p->places.at[v].index)->offset;
}

void emitted_run(Emitted *e, int number, int64_t batch,
                 void (*source)(void *self, const Graph *g, Val v, double *out), void *self,
                 double **out) {
  Entry *entry = &e->entries.at[number];
  Laid *l = lay_out(e, entry, batch, source, self);
  l->step.block = workspace(e, (size_t)entry->p.block_bytes);
  place_step(e, l);
  entry->run(&l->step);
  const char *buffers = back(e, l->step.buffers, l->arena_bytes);
  for (uint32_t i = 0; i < entry->p.g->outputs.len; i++) {
    Type t;
    const char *from = buffers + output_place(entry, i, &t);
    for (int64_t k = 0; k < type_elements_at(t, batch); k++) out[i][k] = get(from, t.dtype, k);
  }
}

/* ---------- for a machine without ddpc ---------- */

void emitted_write(Emitted *e, const char *path) {
  assemble(e);
  FILE *f = fopen(path, "w");
  check(f && fputs(e->whole, f) >= 0 && !fclose(f), "cannot write %s", path);
}

static void put_bytes(FILE *to, const void *at, size_t bytes) {
  check(bytes == 0 || fwrite(at, bytes, 1, to) == 1, "cannot write the cases");
}

/* What is not zero of an arena. */
static void put_arena(FILE *to, const void *arena, size_t bytes) {
  const char *at = arena;
  RecordedChunk c;
  for (size_t i = 0; i < bytes; i += sizeof c.data) {
    size_t n = bytes - i < sizeof c.data ? bytes - i : sizeof c.data;
    c = (RecordedChunk){.offset = (int64_t)i};
    memcpy(c.data, at + i, n);
    for (size_t k = 0; k < sizeof c.data; k++) {
      if (!c.data[k]) continue;
      put_bytes(to, &c, sizeof c);
      break;
    }
  }
  put_bytes(to, &(RecordedChunk){.offset = -1}, sizeof c);
}

void emitted_record(Emitted *e, int number, int64_t batch,
                    void (*source)(void *self, const Graph *g, Val v, double *out), void *self,
                    const EmittedWant *want, FILE *to) {
  const Entry *entry = &e->entries.at[number];
  const Laid *l = lay_out(e, entry, batch, source, self);
  Type t;
  RecordedCase c = {.graph = number,
                    .batch = batch,
                    .arena_bytes = (int64_t)l->arena_bytes,
                    .block_bytes = entry->p.block_bytes,
                    .scalars = l->scalars};
  check(entry->p.g->outputs.len == 1, "a case of several outputs");
  snprintf(c.name, sizeof c.name, "%s", want->name);
  c.output = output_place(entry, 0, &t);
  c.dtype = (int32_t)t.dtype;
  c.elements = type_elements_at(t, batch);
  memcpy(c.sample, l->sample, sizeof c.sample);
  memcpy(c.row, l->row, sizeof c.row);
  for (int i = 0; i < RECORDED_FIELDS; i++) c.field_bytes[i] = (int64_t)l->field_bytes[i];
  put_bytes(to, &c, sizeof c);
  for (int i = 0; i < RECORDED_FIELDS; i++) put_bytes(to, l->fields[i], l->field_bytes[i]);
  put_arena(to, l->step.params, l->arena_bytes);
  put_arena(to, l->step.buffers, l->arena_bytes);
  put_bytes(to, want->value, (size_t)c.elements * sizeof *want->value);
  put_bytes(to, want->tolerance, (size_t)c.elements * sizeof *want->tolerance);
}

/* The draw in the turns of the loops that the interpreter is in. */
static DdpDraw draw_in(DdpDraw d, const Interp *how) {
  return how && how->outer ? ddp_draw_turn(draw_in(d, how->outer), how->turn) : d;
}

void emitted_draw(const Graph *g, Val v, int64_t batch, double *out) {
  const Value *x = value_at(g, v);
  int64_t n = type_elements_at(x->type, batch), each = n;
  bool batched = false;
  for (int i = 0; i < x->type.rank; i++) batched = batched || x->type.dim[i].per_batch;
  if (batched) each = n / batch;
  uint64_t site = (uint64_t)x->attr[op_attr(x->op, "site")].as.i;
  bool data = x->attr[op_attr(x->op, "data")].as.i;
  int64_t first = data ? FIRST_ROW : FIRST_SAMPLE;
  DdpDraw draw = draw_in(ddp_draw(SEED, data ? EPOCH : UPDATE, site, NULL), interp_current());
  for (int64_t i = 0; i < n; i++) {
    DdpRow row = ddp_row(draw, batched ? first + i / each : 0);
    uint32_t element = (uint32_t)(i % each);
    float a = (float)x->attr[0].as.f, b = (float)x->attr[1].as.f;
    if (x->op == OP_bernoulli) out[i] = (double)ddp_bernoulli(row, element, a);
    if (x->op == OP_uniform) out[i] = (double)(a + (b - a) * ddp_uniform(row, element));
    if (x->op == OP_normal) out[i] = (double)(a + b * ddp_normal(row, element));
    if (x->op == OP_randint)
      out[i] = (double)ddp_randint(row, element, x->attr[0].as.i, x->attr[1].as.i);
  }
}
