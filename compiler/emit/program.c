/* Scheduled graphs as functions. First all kernels are made (so that their names are known), then the
   calls, then the declarations of the memory that the calls name, which stand in front of them. */
#include "scene.h"
#include "call.h"
#include "die.h"
#include "op.h"

int32_t leaf_home(const Plan *plan, int32_t leaf) {
  while (plan->job->leaves.at[leaf].tied_to >= 0) leaf = plan->job->leaves.at[leaf].tied_to;
  return leaf;
}

const Segment *program_segment(const Plan *plan, int32_t leaf) {
  leaf = leaf_home(plan, leaf);
  check(plan->segment_of[leaf] >= 0, "leaf %d has no place in an arena", leaf);
  return &plan->segments.at[plan->segment_of[leaf]];
}

/* ---------- what the arguments are called ---------- */

static const char *wanted_name(const Scene *s, Val v) {
  const ValuePlace *at = &s->p->places.at[v];
  const Job *job = s->e->plan->job;
  switch (at->home) {
  case HOME_param:
  case HOME_buffer:
    return s->e->leaf_name[leaf_home(s->e->plan, at->index)];
  case HOME_grad:
    return arena_printf(s->e->arena, "d_%s", s->e->leaf_name[leaf_home(s->e->plan, at->index)]);
  case HOME_input:
    if (scene_on_step(s)) return job->dataset.fields.at[at->index].name;
    return "g";
  case HOME_state:
    return at->index < 0 ? "p" : at->name && *at->name ? at->name : "state";
  default:
    return at->name && *at->name ? at->name : "t";
  }
}

static const char *memory_name(Scene *s, Val v) {
  if (s->memory[v]) return s->memory[v];
  if (s->outer) return loop_memory(s, v);
  /* several values may be one memory (a parameter read twice) */
  const ValuePlace *at = &s->p->places.at[v];
  bool by_index = at->home == HOME_param || at->home == HOME_buffer || at->home == HOME_input ||
                  at->home == HOME_grad || at->home == HOME_state;
  if (by_index) {
    uint32_t *first = map_at(&s->named, (uint64_t)at->home << 32 | (uint32_t)(at->index + 1));
    if (*first) return s->memory[v] = s->memory[*first];
    *first = v;
  }
  bool leaf = at->home == HOME_param || at->home == HOME_buffer;
  const char *wanted = wanted_name(s, v);
  s->memory[v] = leaf ? wanted : names_add(s->names, wanted);
  vec_push(s->e->arena, &s->order, v);
  return s->memory[v];
}

static const char *host_text(Scene *s, const Value *v) {
  Arena *a = s->e->arena;
  s->host = true;
  if (v->op == OP_turn) return s->turn;
  const char *from = s->role == ROLE_optimizer ? "s" : "step";
  if (v->op == OP_count) return arena_printf(a, "step->counts[%lld]", (long long)v->attr[0].as.i);
  if (v->op == OP_share) return "step->share";
  const char *name = v->attr[0].as.text;
  const char *dot = strrchr(name, '.');
  if (s->role == ROLE_finish && !strncmp(name, "sum.", 4))
    return arena_printf(a, "sums[%s]", name + 4);
  if (s->role == ROLE_schedule && !dot) return name;
  if (s->role == ROLE_optimizer && !dot) return arena_printf(a, "s->%s", name);
  if (s->role == ROLE_train && !dot) return arena_printf(a, "step->%s", name);
  check(dot && s->role != ROLE_finish && s->role != ROLE_schedule, "no host scalar `%s` here",
        name);
  return arena_printf(a, "%s->settings->%s", from, dot + 1);
}

static const char *draw_name(Scene *s, const Value *v) {
  int64_t site = v->attr[op_attr(v->op, "site")].as.i;
  int attr = op_attr(v->op, "data"); /* a call that draws belongs to the model */
  bool data = attr >= 0 && v->attr[attr].as.i != 0;
  for (uint32_t i = 0; i < s->draws.len; i++)
    if (s->draws.at[i].site == site && s->draws.at[i].data == data) return s->draws.at[i].name;
  const char *from = s->outer ? draw_name(s->outer, v) : NULL;
  const char *path = s->outer ? "" : graph_scope_path(s->e->arena, s->p->g, v->scope);
  const char *wanted = s->outer ? arena_printf(s->e->arena, "%s_turn", from)
                                : arena_printf(s->e->arena, "draw_%s", path);
  const char *name = names_add(s->names, wanted);
  vec_push(s->e->arena, &s->draws, (SceneDraw){site, data, name, from});
  return name;
}

const char *scene_memory(Scene *s, Val v) {
  return scene_operand(s, OPERAND_memory, kernel_named(s->p, v));
}

const char *scene_operand(void *self, OperandKind kind, Val val) {
  Scene *s = self;
  switch (kind) {
  case OPERAND_memory: {
    const ValuePlace *at = &s->p->places.at[val];
    if (at->home != HOME_out) return memory_name(s, val);
    if (s->role == ROLE_schedule) return s->inlined ? "factor" : "&factor";
    return arena_printf(s->e->arena, s->inlined ? "out[%d]" : "&out[%d]", at->index);
  }
  case OPERAND_sum: {
    const char *of = s->role == ROLE_counts ? "counts" : "step->sums";
    return arena_printf(s->e->arena, "&%s[%d]", of, s->p->places.at[val].index);
  }
  case OPERAND_host:
    return host_text(s, value_at(s->p->g, val));
  case OPERAND_draw:
    return draw_name(s, value_at(s->p->g, val));
  case OPERAND_batch:
    s->batch = true;
    return "B";
  case OPERAND_accumulate:
    s->accumulate = true;
    return "step->accumulate";
  case OPERAND_more:
    check(s->chunk, "a sum of chunks outside of them");
    return "first > 0";
  case OPERAND_scalars:
    return "step->scalars";
  case OPERAND_rates:
    return "s->rates";
  case OPERAND_groups:
    return "s->groups";
  case OPERAND_group:
    return "s->group";
  case OPERAND_scratch:
    return s->role == ROLE_optimizer ? "s->scratch" : "step->scratch";
  case OPERAND_stream:
    return s->role == ROLE_optimizer ? "s->stream" : "step->stream";
  }
  die("unknown operand");
}

/* ---------- calls ---------- */

static bool loop_free(const Kernel *k) {
  return k->kind == KERNEL_nest && k->nest->loops.len == 0;
}

const char *program_origin(Emit *e, const Program *p, const Kernel *k) {
  Text t = {0};
  Scope scope = 0;
  if (k->kind == KERNEL_call)
    scope = value_at(p->g, k->call)->scope;
  else if (k->nest->roots.len)
    scope = value_at(p->g, k->nest->roots.at[0].val)->scope;
  if (scope) text_add(&t, graph_scope_path(e->arena, p->g, scope));
  if (k->at.file) {
    if (t.len) text_add(&t, ", ");
    write_place(&t, k->at);
  }
  const char *text = t.len ? arena_strdup(e->arena, t.at) : "";
  text_free(&t);
  return text;
}

/* "/ * net.fc1, job.ddp:31 * /" in front of the kernels of one place of the job. */
static void write_heading(Scene *s, const Kernel *k, Text *out, const char *indent,
                          const char **last) {
  const char *text = program_origin(s->e, s->p, k);
  if (*text && (!*last || strcmp(*last, text))) text_addf(out, "%s/* %s */\n", indent, text);
  *last = text;
}

static void write_ready(Scene *s, const Kernel *k, Text *out) {
  if (s->role != ROLE_train || s->chunk) return;
  for (uint32_t i = 0; i < k->grads_ready.len; i++)
    text_addf(out, "  ddp_grad_ready(step, P_%s);\n", s->e->leaf_name[k->grads_ready.at[i]]);
}

static void write_ran(Scene *s, const Kernel *k, Text *out, const char *indent) {
  if (s->role == ROLE_train && !s->outer)
    text_addf(out, "%sDDP_RAN(%u);\n", indent, (unsigned)(k - s->p->kernels.at));
}

static void write_kernel_call(Scene *s, const Kernel *k, const Made *made, Text *out,
                              const char *indent) {
  if (k->loop) {
    loop_write(s, k, made->turn, out, indent);
    return;
  }
  if (k->kind == KERNEL_call) {
    call_write(s->e, s->p, k, out, indent, scene_operand, s, ";\n");
    Dim unused;
    for (int i = 0; i <= value_at(s->p->g, k->call)->inputs; i++) { /* sizes may name B */
      const Value *v = value_at(s->p->g, k->call);
      Type t = i < v->inputs ? value_at(s->p->g, v->in[i])->type : v->type;
      if (type_elements(t, &unused) && unused.per_batch) s->batch = true;
    }
    return;
  }
  if (!made->calls.len) {
    bool alone = s->p->kernels.len == 1; /* several have names of their own in braces */
    if (!alone) text_addf(out, "%s{\n", indent);
    s->inlined = true;
    kernel_inline(s->e, s->p, k, out, alone ? indent : arena_printf(s->e->arena, "%s  ", indent),
                  scene_operand, s);
    s->inlined = false;
    if (!alone) text_addf(out, "%s}\n", indent);
    return;
  }
  kernel_launch(s->e, &made->calls, out, indent, scene_operand, s);
}

/* A product that can do what the next kernel does: both in one call, or one after the other. */
static void write_epilogue(Scene *s, const Kernel *k, const Made *made, Text *out,
                           const char *indent) {
  const char *inside = arena_printf(s->e->arena, "%s  ", indent);
  call_epilogue_open(s->e, s->p, k, out, indent, scene_operand, s);
  write_kernel_call(s, k, made, out, inside);
  write_ran(s, k, out, inside);
  write_kernel_call(s, k + 1, made + 1, out, inside);
  call_epilogue_close(s->e, s->p, k, out, indent, scene_operand, s);
}

/* ---------- declarations ---------- */

/* Shapes stand in one column, but a few long lines do not push it out. */
static void write_declarations(const Declarations *d, Text *out) {
  size_t column = 0;
  for (uint32_t i = 0; i < d->len; i++) {
    size_t n = strlen(d->at[i].code);
    if (n > column && n <= 72) column = n;
  }
  for (uint32_t i = 0; i < d->len; i++) {
    Text comment = {0};
    text_add(&comment, "/* ");
    write_shape(&comment, d->at[i].shape);
    if (d->at[i].over) text_addf(&comment, ", over %s", d->at[i].over);
    size_t n = strlen(d->at[i].code);
    bool fits = 2 + (n > column ? n : column) + 1 + comment.len + 3 <= 100;
    text_addf(out, fits ? "  %-*s %s */\n" : "  %-*s\n      %s */\n", fits ? (int)column : 0,
              d->at[i].code, comment.at);
    text_free(&comment);
  }
}

static bool is_written(const Scene *s, Val v) {
  const ValuePlace *at = &s->p->places.at[v];
  return at->home != HOME_input && at->home != HOME_param;
}

void scene_declare_block(Scene *s, const char *name, Type type, int64_t offset, Declarations *out) {
  const char *ctype = s->e->target->storage_type(type.dtype);
  Declaration d = {arena_printf(s->e->arena, "%s *%s = (%s *)(block + %lld);", ctype, name, ctype,
                                (long long)offset),
                   type, NULL};
  vec_push(s->e->arena, out, d);
}

/* In chunks: " + first * 64", where the value has all samples. */
static const char *chunk_offset(const Scene *s, Val v) {
  int64_t size = s->chunk ? plan_sample_elements(s->p->g, v) : 0;
  if (size <= 0 || s->p->places.at[v].chunk == CHUNK_own) return "";
  return size == 1 ? " + first" : arena_printf(s->e->arena, " + first * %lld", (long long)size);
}

static const char *arena_offset(Arena *a, const char *arena, int64_t offset) {
  return offset ? arena_printf(a, "%s + %lld", arena, (long long)offset) : arena;
}

static void declare_memory(Scene *s, Val v, Declarations *out) {
  Arena *a = s->e->arena;
  const Plan *plan = s->e->plan;
  const ValuePlace *at = &s->p->places.at[v];
  Type type = value_at(s->p->g, v)->type;
  const char *ctype = s->e->target->storage_type(type.dtype), *value = NULL;
  switch (at->home) {
  case HOME_input: {
    value = scene_on_step(s) ? arena_printf(a, "step->fields[%d]", at->index) : "s->g";
    if (scene_on_step(s) && (s->e->target->casts || s->chunk))
      value = arena_printf(a, "(const %s *)%s", ctype, value);
    break;
  }
  case HOME_param: {
    bool trained = plan->job->leaves.at[leaf_home(plan, at->index)].trained;
    value = arena_offset(a, trained ? "step->params" : "step->frozen",
                         program_segment(plan, at->index)->offset);
    break;
  }
  case HOME_grad:
    value = arena_offset(a, "step->grads", program_segment(plan, at->index)->offset);
    break;
  case HOME_buffer:
    value = arena_printf(a, "(%s *)(step->buffers + %lld)", ctype,
                         (long long)program_segment(plan, at->index)->offset);
    break;
  case HOME_state:
    value = at->index < 0 ? "s->p" : arena_printf(a, "s->state[%d]", at->index);
    break;
  case HOME_block:
    value = arena_printf(a, "(%s *)(block + %lld)", ctype, (long long)at->offset);
    break;
  default:
    die("a value without a place: %%%u", v);
  }
  const char *read_only = is_written(s, v) ? "" : "const ";
  Declaration d = {arena_printf(a, "%s%s *%s = %s%s;", read_only, ctype, s->memory[v], value,
                                chunk_offset(s, v)),
                   type, at->home == HOME_block && at->updates ? s->memory[at->updates] : NULL};
  vec_push(a, out, d);
}

static void declare_all(Scene *s, Text *out) {
  static const struct {
    Home home;
    const char *title;
  } parts[] = {
      {HOME_input, NULL},       {HOME_param, "parameters"},
      {HOME_buffer, "buffers"}, {HOME_grad, "gradients, in the order in which they become ready"},
      {HOME_state, NULL},       {HOME_block, "activations: offsets in the block by lifetime"},
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    Declarations lines = {0};
    for (uint32_t j = 0; j < s->order.len; j++)
      if (s->p->places.at[s->order.at[j]].home == parts[i].home)
        declare_memory(s, s->order.at[j], &lines);
    for (uint32_t j = 0; parts[i].home == HOME_block && j < s->block.len; j++)
      vec_push(s->e->arena, &lines, s->block.at[j]);
    if (lines.len && parts[i].title && scene_on_step(s))
      text_addf(out, "  /* %s */\n", parts[i].title);
    bool has_block = scene_on_step(s) || s->role == ROLE_optimizer; /* else it is declared */
    if (lines.len && parts[i].home == HOME_block && has_block)
      text_addf(out, "  char *block = %s->block;\n", scene_on_step(s) ? "step" : "s");
    write_declarations(&lines, out);
  }
  const Target *target = s->e->target;
  for (uint32_t i = 0; i < s->draws.len; i++) {
    const SceneDraw *d = &s->draws.at[i];
    text_addf(out, "  const %s %s =\n      %s;\n", target->draw_type, d->name,
              target->draw(s->e->arena, d->site, d->data));
  }
}

/* ---------- memory as a whole ---------- */

void scene_copy(Scene *s, const char *to, const char *from, const char *type, const char *n,
                Text *out, const char *indent) {
  const Target *target = s->e->target;
  const char *bytes = arena_printf(s->e->arena, "sizeof(%s) * %s", type, n);
  const char *args[] = {scene_operand(s, OPERAND_stream, 0), to, from, bytes};
  int first = !target->enqueues;
  write_call(out, indent, target->copy, args + first, (uint32_t)(4 - first), ";\n");
}

static void clear_counts(Scene *s, int32_t n, Text *out) {
  const char *bytes = arena_printf(s->e->arena, "sizeof *counts * %d", n);
  if (s->e->target->enqueues)
    text_addf(out, "  %s(step->stream, counts, %s);\n", s->e->target->clear, bytes);
  else
    text_addf(out, "  %s(counts, 0, %s);\n", s->e->target->clear, bytes);
}

/* ---------- whole functions ---------- */

static void write_about(Scene *s, Text *out) {
  static const char *const about[] = {
      [ROLE_counts] = "Denominators of the loss: what this micro-batch adds to those of the update",
      [ROLE_eval] = "Adds this batch to the accumulators of the evaluation",
      [ROLE_finish] = "Metrics from the accumulators of all ranks",
      [ROLE_predict] = "Where the outputs of this batch lie",
      [ROLE_schedule] = "Factor on the base learning rate; step counts completed updates"};
  bool known = (size_t)s->role < sizeof about / sizeof *about;
  if (s->chunk)
    text_addf(
        out,
        "/* The loss and what is around it, for the samples of `step`: those from number `first` "
        "of the\n   micro-batch on, %lld at most. What only they need has no memory for more. */\n",
        (long long)s->p->chunk.samples);
  else if (known && about[s->role])
    text_addf(out, "/* %s */\n", about[s->role]);
}

static void write_head(Scene *s, const char *name, Text *out) {
  const Program *p = s->p;
  const Target *target = s->e->target;
  if (s->chunk) {
    text_addf(out, "%s void %s(DdpStep *step, int64_t first) {\n", target->chunk_head, name);
    return;
  }
  switch (s->role) {
  case ROLE_train:
  case ROLE_eval:
  case ROLE_predict:
    text_addf(out, "%s void %s(DdpStep *step) {\n", target->calls_head, name);
    break;
  case ROLE_counts:
    text_addf(out, "%s void %s(const DdpStep *step, double *counts) {\n", target->function_head,
              name);
    break;
  case ROLE_optimizer:
    text_addf(out, "%s void %s(const DdpSegment *s) {\n", target->function_head, name);
    break;
  case ROLE_finish:
    text_addf(out, "static void %s(const double *sums, double *out) {\n", name);
    break;
  case ROLE_schedule:
    text_addf(out, "static double %s(double step, double warmup, double total, double base_lr) {\n",
              name);
    break;
  }
  if (!scene_on_step(s) && s->role != ROLE_optimizer && p->block_bytes)
    text_addf(out, "  _Alignas(64) char block[%lld];\n", (long long)p->block_bytes);
}

static void write_unused(const Scene *s, const char *body, Text *out) {
  static const char *const schedule[] = {"step", "warmup", "total", "base_lr"};
  if (s->role == ROLE_schedule) {
    for (int i = 0; i < 4; i++) {
      const char *at = body;
      bool used = false;
      size_t n = strlen(schedule[i]);
      while (!used && (at = strstr(at, schedule[i]))) {
        char after = at[n], before = at == body ? ' ' : at[-1];
        used = !strchr("_abcdefghijklmnopqrstuvwxyz0123456789", after) &&
               !strchr("_abcdefghijklmnopqrstuvwxyz0123456789", before);
        at += n;
      }
      if (!used) text_addf(out, "  (void)%s;\n", schedule[i]);
    }
  }
  if (s->role == ROLE_finish && !strstr(body, "sums[")) text_add(out, "  (void)sums;\n");
}

/* inlines: nests without loops stand where they are called. */
Made *scene_make(Emit *e, const Program *p, bool inlines) {
  Made *made = ARENA_ARRAY(e->arena, Made, p->kernels.len + 1);
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    if (k->loop) made[i].turn = scene_make(e, &k->loop->body, false);
    if (k->kind == KERNEL_nest && !(inlines && loop_free(k)))
      kernel_functions(e, p, k, &made[i].calls);
  }
  return made;
}

static const char *chunk_function(const Scene *s) {
  return s->role == ROLE_train ? "forward_backward_chunk" : "evaluate_chunk";
}

static void write_chunks(Scene *s, Text *out, const char *indent) {
  const PlanChunk *c = &s->p->chunk;
  long long samples = (long long)c->samples;
  s->batch = true;
  text_addf(out, "%s/* the loss, %lld sample%s at a time */\n", indent, samples,
            samples == 1 ? "" : "s");
  text_addf(out, "%sfor (int64_t first = 0; first < B; first += %lld) {\n", indent, samples);
  text_addf(out, "%s  DdpStep part = ddp_step_part(step, first, %lld);\n", indent, samples);
  text_addf(out, "%s  %s(&part, first);\n%s}\n", indent, chunk_function(s), indent);
  write_ready(s, &s->p->kernels.at[c->first + c->count - 1], out);
}

/* Where the gradients begin, and their loops. */
static bool is_backward(const Program *p, const Kernel *k, const bool *forward) {
  if (k->kind == KERNEL_call) return !forward[k->call];
  for (uint32_t r = 0; r < k->nest->roots.len; r++)
    if (forward[k->nest->roots.at[r].val]) return false;
  return p->g->values.len > 0;
}

void scene_kernels(Scene *s, const Made *made, Text *out, const char *indent) {
  const Program *p = s->p;
  const PlanChunk *c = &p->chunk;
  const char *last = NULL;
  const bool *forward =
      s->role == ROLE_train && !s->outer && !s->chunk ? plan_forward(p, s->e->arena) : NULL;
  for (uint32_t i = s->chunk ? c->first : 0; i < (s->chunk ? c->first + c->count : p->kernels.len);
       i++) {
    const Kernel *k = &p->kernels.at[i];
    if (!s->chunk && c->count && i == c->first) {
      write_chunks(s, out, indent);
      last = NULL;
      i += c->count - 1;
      continue;
    }
    if (forward && is_backward(p, k, forward)) {
      text_addf(out, "\n%s/* ---------- backward ---------- */\n\n", indent);
      forward = NULL;
    }
    if (scene_on_step(s)) write_heading(s, k, out, indent, &last);
    if (k->epilogue.kind)
      write_epilogue(s, k, &made[i++], out, indent);
    else
      write_kernel_call(s, k, &made[i], out, indent);
    write_ran(s, &p->kernels.at[i], out, indent);
    write_ready(s, k, out);
    if (k->epilogue.kind) write_ready(s, k + 1, out);
  }
}

static const char *role_name(Scene *s, int32_t number) {
  switch (s->role) {
  case ROLE_train:
    return "forward_backward";
  case ROLE_eval:
    return "evaluate";
  case ROLE_predict:
    return "predict";
  case ROLE_counts:
    return "window_counts";
  case ROLE_finish:
    return "metric_values";
  case ROLE_schedule:
    return "schedule";
  case ROLE_optimizer:
    return optimizer_function(s->e, number);
  }
  return "";
}

/* A function whose kernels are made: the calls first, which name its memory. */
static void write_function(Scene *s, const char *name, const Made *made, Text *out) {
  Emit *e = s->e;
  const Program *p = s->p;
  Names names;
  Text calls = {0};
  s->names = &names;
  s->named = (Map){.arena = e->arena};
  s->memory = ARENA_ARRAY(e->arena, const char *, p->places.len + 1);
  names_init(&names, e->arena, &e->globals);
  if (p->chunk.count) names_add(&names, "first");
  if (p->chunk.count) names_add(&names, "part");
  scene_kernels(s, made, &calls, "  ");
  for (uint32_t i = 0; s->role == ROLE_predict && i < p->g->outputs.len; i++) {
    const Output *o = &p->g->outputs.at[i];
    text_addf(&calls, "  step->results[%d] = %s;\n", o->index, scene_memory(s, o->value));
  }
  const char *body = calls.at ? calls.at : "";
  write_about(s, out);
  write_head(s, name, out);
  if (s->batch)
    text_addf(out, "  const int64_t B = %s;\n", s->role == ROLE_optimizer ? "s->n" : "step->batch");
  declare_all(s, out);
  write_unused(s, body, out);
  if (s->role == ROLE_schedule) text_add(out, "  double factor = 1;\n");
  if (s->role == ROLE_counts) clear_counts(s, e->plan->job->train_counts, out);
  if (s->order.len && scene_on_step(s)) text_add(out, "\n");
  text_add(out, body);
  if (s->role == ROLE_schedule) text_add(out, "  return factor;\n");
  text_add(out, "}\n");
  text_free(&calls);
}

void program_write(Emit *e, const Program *p, Role role, int32_t number, Text *out) {
  const Made *made = scene_make(e, p, role == ROLE_finish || role == ROLE_schedule);
  if (p->chunk.count) {
    Scene chunk = {.e = e, .p = p, .role = role, .chunk = true};
    write_function(&chunk, chunk_function(&chunk), made, out);
    text_add(out, "\n");
  }
  Scene s = {.e = e, .p = p, .role = role};
  write_function(&s, role_name(&s, number), made, out);
}
