/* The job's data as C tables. */
#include "tables.h"
#include "die.h"
#include "program.h"
#include <math.h>

static const char *const roles[] = {"param", "grad", "state", "param_bf16", "frozen", "buffer"};

static void write_place_literal(Text *out, Span at) {
  if (!at.file) {
    text_add(out, "NULL");
    return;
  }
  text_add(out, "\"");
  write_place(out, at);
  text_add(out, "\"");
}

static void write_ints(Text *out, const Type *t) {
  text_add(out, "{");
  for (int i = 0; i < t->rank; i++)
    text_addf(out, "%s%lld", i ? ", " : "", (long long)t->dim[i].fixed);
  text_add(out, t->rank ? "}" : "0}");
}

/* ---------- tensors ---------- */

static const char *leaf_role(const Leaf *l) {
  return l->buffer ? "buffer" : l->trained ? "param" : "frozen";
}

static void write_tensor(Emit *e, int32_t i, Text *out) {
  const Leaf *l = &e->plan->job->leaves.at[i];
  Dim n;
  check(type_elements(l->type, &n), "leaf %s has no size", l->name);
  text_add(out, "    {.name = ");
  write_string(out, l->name, "");
  text_addf(out, ", .dtype = DDP_%s, .rank = %d, .shape = ", dtype_name(l->type.dtype),
            l->type.rank);
  write_ints(out, &l->type);
  const Leaf *home = &e->plan->job->leaves.at[leaf_home(e->plan, i)];
  text_addf(out, ",\n     .elements = %lld, .role = DDP_ROLE_%s, .offset = %lld, .group = %d, ",
            (long long)n.fixed, leaf_role(home), (long long)program_segment(e->plan, i)->offset,
            home->trained && !home->buffer ? home->group : -1);
  text_addf(out, ".tied_to = %d", l->tied_to);
  if (home->trained && !home->buffer && e->plan->job->optimizers.len) {
    const Optimizer *o = &e->plan->job->optimizers.at[home->optimizer];
    text_addf(out, ",\n     .optimizer = %d", home->optimizer);
    for (uint32_t k = 0; k < o->states.len; k++)
      text_addf(out, "%s%lld%s", k ? ", " : ", .state = {",
                (long long)program_segment(e->plan, i)->state[k],
                k + 1 == o->states.len ? "}" : "");
  }
  text_add(out, "},\n");
}

void tables_write_numbers(const Emit *e, Text *out) {
  const Job *job = e->plan->job;
  text_add(out, "enum {");
  size_t column = 100;
  for (uint32_t i = 0; i < job->leaves.len; i++) {
    size_t need = strlen(e->leaf_name[i]) + 4;
    if (column + need > 100) {
      text_add(out, "\n  ");
      column = 2;
    } else {
      text_add(out, " ");
      column++;
    }
    text_addf(out, "P_%s,", e->leaf_name[i]);
    column += need - 1;
  }
  text_add(out, "\n};\n");
}

static void write_tensors(Emit *e, Text *out) {
  const Job *job = e->plan->job;
  text_add(
      out,
      "/* Tensors in state-dict order; P_NAME is the number of one. Offsets are those of their "
      "arena. */\n");
  tables_write_numbers(e, out);
  text_add(out, "static const DdpTensor tensors[] = {\n");
  for (uint32_t i = 0; i < job->leaves.len; i++) write_tensor(e, (int32_t)i, out);
  text_add(out, "};\n\n");
}

static void write_arenas(Emit *e, Text *out) {
  const Plan *plan = e->plan;
  text_add(out, "/* Arenas; the first ones share the order in which gradients become ready. */\n");
  text_add(out, "static const DdpArenaInfo arenas[] = {\n");
  for (uint32_t i = 0; i < plan->arenas.len; i++) {
    const PlanArena *a = &plan->arenas.at[i];
    text_addf(out, "    {.role = DDP_ROLE_%s, .state = %d, .dtype = DDP_%s, .elements = %lld},\n",
              roles[a->role], a->state, dtype_name(a->dtype), (long long)a->elements);
  }
  text_add(out, "};\nstatic const int32_t ready[] = {");
  size_t column = 100;
  for (uint32_t i = 0; i < plan->ready.len; i++) {
    const char *name = e->leaf_name[plan->ready.at[i]];
    if (column + strlen(name) + 4 > 100) {
      text_add(out, "\n   ");
      column = 3;
    }
    text_addf(out, " P_%s,", name);
    column += strlen(name) + 4;
  }
  text_add(out, "\n};\n\n");
}

static void write_init(Emit *e, Text *out) {
  const Job *job = e->plan->job;
  if (!job->init.len) return;
  text_add(
      out,
      "/* Initial values, drawn in the order of PyTorch's constructors. fill: a; uniform, randint: "
      "a to "
      "b;\n   normal: mean a, deviation b; orthogonal: gain a; bernoulli: probability a. Then the\n"
      "   first element, the step to the next, and limits. */\n");
  text_add(out, "static const DdpInitStep init[] = {\n");
  for (uint32_t i = 0; i < job->init.len; i++) {
    const InitStep *s = &job->init.at[i];
    text_addf(out, "    {DDP_INIT_%s, ", init_kind_name(s->kind));
    if (s->leaf < 0)
      text_add(out, "-1");
    else
      text_addf(out, "P_%s", e->leaf_name[s->leaf]);
    text_addf(out, ", %lld, ", (long long)s->elements);
    write_double(out, s->a);
    text_add(out, ", ");
    write_double(out, s->b);
    text_addf(out, ", %lld, %lld, ", (long long)s->offset, (long long)s->step);
    write_double(out, s->low);
    text_add(out, ", ");
    write_double(out, s->high);
    text_add(out, "},\n");
  }
  text_add(out, "};\n");
}

static void write_loads(Emit *e, Text *out) {
  const Job *job = e->plan->job;
  if (!job->loads.len) return;
  text_add(out, "/* Weights of files, by the names that the tensors have there. */\n");
  for (uint32_t i = 0; i < job->loads.len; i++) {
    const JobLoad *l = &job->loads.at[i];
    text_addf(out, "static const DdpLoadItem load_%u[] = {\n", i);
    for (uint32_t k = 0; k < l->items.len; k++) {
      text_addf(out, "    {P_%s, ", e->leaf_name[l->items.at[k].leaf]);
      write_string(out, l->items.at[k].name, "");
      text_add(out, "},\n");
    }
    if (!l->items.len) text_add(out, "    {0, NULL},\n");
    text_addf(out, "};\nstatic const char *const load_others_%u[] = {", i);
    for (uint32_t k = 0; k < l->others.len; k++) {
      write_string(out, l->others.at[k], "");
      text_add(out, ", ");
    }
    text_add(out, "NULL};\n");
  }
  text_add(out, "static const DdpLoad loads[] = {\n");
  for (uint32_t i = 0; i < job->loads.len; i++) {
    const JobLoad *l = &job->loads.at[i];
    text_add(out, "    {.file = ");
    write_string(out, l->file, "");
    text_addf(out, ", .items = load_%u, .n_items = %u, .others = load_others_%u, .place = ", i,
              l->items.len, i);
    write_place_literal(out, l->at);
    text_add(out, "},\n");
  }
  text_add(out, "};\n");
}

static void write_groups(Emit *e, Text *out) {
  const Job *job = e->plan->job;
  text_add(out, "static const DdpParamGroup groups[] = {\n");
  for (uint32_t i = 0; i < job->groups.len; i++) {
    const Group *g = &job->groups.at[i];
    text_add(out, "    {.name = ");
    write_string(out, g->name, "");
    text_add(out, ", .learning_rate = ");
    write_double(out, g->learning_rate);
    text_add(out, ", .weight_decay = ");
    write_double(out, g->weight_decay);
    text_addf(out, ", .optimizer = %d},\n", g->optimizer);
  }
  text_add(out, "};\n\n");
}

/* ---------- data ---------- */

enum { PER_LINE = 16 }; /* characters of a text */

static void write_categories(const Field *f, uint32_t number, Text *out) {
  if (!f->categories.len) return;
  text_addf(out, "static const char *const categories_%u[] = {", number);
  for (uint32_t i = 0; i < f->categories.len; i++) {
    if (f->categories.len > PER_LINE && i % PER_LINE == 0) text_add(out, "\n    ");
    write_string(out, f->categories.at[i], "");
    text_add(out, ", ");
  }
  text_add(out, "NULL};\n");
}

static void write_field(const Field *f, uint32_t number, Text *out) {
  Dim n;
  check(type_elements(f->type, &n), "field %s has no size", f->name);
  text_add(out, "    {.name = ");
  write_string(out, f->name, "");
  text_add(out, ", .column = ");
  write_string_or_null(out, f->column);
  text_addf(out, ", .dtype = DDP_%s, .rank = %d, .shape = ", dtype_name(f->type.dtype),
            f->type.rank);
  write_ints(out, &f->type);
  text_addf(out, ",\n     .elements = %lld, .has_range = %s, .low = ", (long long)n.fixed,
            f->has_range ? "true" : "false");
  write_double(out, f->has_range ? f->low : 0);
  text_add(out, ", .high = ");
  write_double(out, f->has_range ? f->high : 0);
  if (f->categories.len) text_addf(out, ", .categories = categories_%u", number);
  if (f->text) text_add(out, ", .text = true");
  text_addf(out, ",\n     .used = %s, .place = ", f->used ? "true" : "false");
  write_place_literal(out, f->at);
  text_add(out, "},\n");
}

static void write_name_list(Text *out, const char *what, uint32_t number, const char *const *names,
                            uint32_t n) {
  if (!n) return;
  text_addf(out, "static const char *const source_%s_%u[] = {", what, number);
  for (uint32_t i = 0; i < n; i++) {
    write_string(out, names[i], "");
    text_add(out, ", ");
  }
  text_add(out, "NULL};\n");
}

static void write_source(const DataSource *s, uint32_t number, Text *out) {
  static const char *const kinds[] = {
#define SOURCE(name) #name,
#include "source.def"
#undef SOURCE
  };
  static const char *const bounds[] = {"none", "count", "percent"};
  text_addf(out, "    {.kind = DDP_SOURCE_%s", kinds[s->kind]);
  if (s->paths.len) text_addf(out, ", .paths = source_paths_%u", number);
  if (s->fields.len) text_addf(out, ", .fields = source_fields_%u", number);
  if (s->header) text_add(out, ", .header = true");
  if (s->skip) text_addf(out, ", .skip = %lld", (long long)s->skip);
  if (s->missing) {
    text_add(out, ", .missing = ");
    write_string(out, s->missing, "");
  }
  if (s->width) text_addf(out, ", .width = %lld", (long long)s->width);
  if (s->stride) text_addf(out, ", .stride = %lld", (long long)s->stride);
  if (s->count) text_addf(out, ", .count = %lld", (long long)s->count);
  if (s->kind == SOURCE_shuffle || s->kind == SOURCE_synthetic)
    text_addf(out, ", .seed = %lluu", (unsigned long long)s->seed);
  if (s->kind == SOURCE_slice) {
    text_addf(out, ",\n     .start_kind = DDP_BOUND_%s, .start = ", bounds[s->start_kind]);
    write_double(out, s->start);
    text_addf(out, ", .stop_kind = DDP_BOUND_%s, .stop = ", bounds[s->stop_kind]);
    write_double(out, s->stop);
  }
  if (s->children.len) {
    text_addf(out, "%s.children = {", s->kind == SOURCE_slice ? ",\n     " : ", ");
    for (uint32_t i = 0; i < s->children.len; i++)
      text_addf(out, "%s%d", i ? ", " : "", s->children.at[i]);
    text_addf(out, "}, .n_children = %u", s->children.len);
  }
  text_add(out, s->children.len ? ",\n     .place = " : ", .place = ");
  write_place_literal(out, s->at);
  text_add(out, "},\n");
}

static void write_data(Emit *e, Text *out) {
  const Dataset *d = &e->plan->job->dataset;
  text_addf(out, "/* Data: fields of dataset %s, sources, splits */\n", d->name ? d->name : "");
  for (uint32_t i = 0; i < d->fields.len; i++) write_categories(&d->fields.at[i], i, out);
  text_add(out, "static const DdpField fields[] = {\n");
  for (uint32_t i = 0; i < d->fields.len; i++) write_field(&d->fields.at[i], i, out);
  text_add(out, "};\n");
  for (uint32_t i = 0; i < d->sources.len; i++) {
    const DataSource *s = &d->sources.at[i];
    write_name_list(out, "paths", i, s->paths.at, s->paths.len);
    write_name_list(out, "fields", i, s->fields.at, s->fields.len);
  }
  text_add(out, "static const DdpSource sources[] = {\n");
  for (uint32_t i = 0; i < d->sources.len; i++) write_source(&d->sources.at[i], i, out);
  text_add(out, "};\nstatic const DdpSplit splits[] = {\n");
  for (uint32_t i = 0; i < d->splits.len; i++) {
    text_add(out, "    {.name = ");
    write_string(out, d->splits.at[i].name, "");
    text_addf(out, ", .source = %d},\n", d->splits.at[i].source);
  }
  text_add(out, "};\n\n");
}

static void write_settings(Emit *e, Text *out) {
  const Job *job = e->plan->job;
  text_add(out, "/* Settings: value, where it was set (NULL: default), fixed in this binary and by "
                "what */\n");
  text_add(out, "static const DdpSettingText settings[] = {\n");
  for (uint32_t i = 0; i < job->settings.len; i++) {
    const JobSetting *s = &job->settings.at[i];
    text_add(out, "    {");
    write_string(out, s->key, "");
    text_add(out, ", ");
    write_string(out, s->value, "");
    text_add(out, ", ");
    if (s->origin == FROM_define)
      text_add(out, "\"-D\"");
    else
      write_place_literal(out, s->origin == FROM_spec ? s->at : (Span){0});
    text_addf(out, ", %s, ", s->fixed || s->is_final ? "true" : "false");
    write_string_or_null(out, s->fixed_by);
    text_add(out, "},\n");
  }
  text_add(out, "};\n\n");
}

static void write_counts(Emit *e, Text *out) {
  const Job *job = e->plan->job;
  if (job->train_counts) {
    text_add(out, "/* Denominators of the loss: constant per sample, or NAN: window_counts() */\n");
    text_add(out, "static const double count_per_sample[] = {");
    for (int32_t i = 0; i < job->train_counts; i++) {
      if (i) text_add(out, ", ");
      write_double(out,
                   (uint32_t)i < job->count_per_sample.len ? job->count_per_sample.at[i] : NAN);
    }
    text_add(out, "};\n");
  }
  text_add(out, "static const char *const metrics[] = {\"loss\"");
  for (uint32_t i = 0; i < job->metrics.len; i++) {
    text_add(out, ", ");
    write_string(out, job->metrics.at[i].name, "");
  }
  text_add(out, "};\n");
}

void tables_write(Emit *e, Text *out) {
  write_tensors(e, out);
  write_arenas(e, out);
  write_init(e, out);
  write_loads(e, out);
  write_groups(e, out);
  write_data(e, out);
  write_settings(e, out);
  write_counts(e, out);
}

void tables_write_late(Emit *e, Text *out) {
  const Job *job = e->plan->job;
  text_add(out, "static const DdpOptimizer optimizers[] = {\n");
  for (uint32_t i = 0; i < job->optimizers.len; i++) {
    const Optimizer *o = &job->optimizers.at[i];
    text_add(out, "    {.name = ");
    write_string(out, o->name, "");
    text_addf(out, ", .states = %u, ", o->states.len);
    if (o->states.len) text_add(out, ".state_name = {");
    for (uint32_t k = 0; k < o->states.len; k++) {
      if (k) text_add(out, ", ");
      write_string(out, o->states.at[k], "");
    }
    if (o->states.len) text_add(out, "},\n     .state_init = {");
    for (uint32_t k = 0; k < o->states.len; k++) {
      if (k) text_add(out, ", ");
      write_double(out, o->state_init.at[k]);
    }
    for (uint32_t k = 0; o->whole && k < o->states.len; k++)
      text_addf(out, "%s%lld", k ? ", " : "},\n     .state_elements = {",
                (long long)type_elements_at(o->state_type.at[k], 1));
    if (o->states.len) text_add(out, "}, ");
    if (o->whole) text_add(out, ".whole = true, ");
    text_addf(out, ".step = %s},\n", optimizer_function(e, (int32_t)i));
  }
  text_add(out, "};\n\n");
}

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static void write_results(Emit *e, Text *out) {
  const Plan *plan = e->plan;
  if (!plan->predict.g) return;
  text_add(out, "static const DdpResult results[] = {\n");
  for (uint32_t i = 0; i < plan->job->outputs.len; i++) {
    Type t = plan->job->outputs.at[i].type;
    for (int d = 1; d < t.rank; d++) t.dim[d - 1] = t.dim[d];
    t.rank--;
    Dim n;
    check(type_elements(t, &n), "an output has no size");
    text_add(out, "    {.name = ");
    write_string(out, plan->job->outputs.at[i].name, "");
    text_addf(out, ", .dtype = DDP_%s, .rank = %d, .shape = ", dtype_name(t.dtype), t.rank);
    write_ints(out, &t);
    text_addf(out, ", .elements = %lld},\n", (long long)n.fixed);
  }
  text_add(out, "};\n\n");
}

/* Names for traces. */
static void write_kernels(Emit *e, Text *out) {
  const Program *p = &e->plan->train;
  text_add(out, "static const char *const kernels[] = {\n");
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    const char *origin = program_origin(e, p, k);
    text_add(out, "    ");
    write_string(out, *origin ? arena_printf(e->arena, "%s (%s)", k->name, origin) : k->name, "");
    text_add(out, ",\n");
  }
  text_add(out, "    NULL};\n\n");
}

void tables_write_job(Emit *e, Text *out) {
  const Plan *plan = e->plan;
  const Job *job = plan->job;
  const char *file = strrchr(job->path, '/');
  bool counts = plan->counts.kernels.len > 0, eval = plan->eval.kernels.len > 0;
  write_results(e, out);
  write_kernels(e, out);
  text_add(out, "static const DdpJob job = {\n    .abi = DDP_JOB_ABI,\n    .name = ");
  write_string(out, file ? file + 1 : job->path, "");
  text_add(out, ",\n    .directory = DDP_JOB_DIRECTORY,\n    .compiler = ");
  write_string(out, arena_printf(e->arena, "ddpc %s", e->options->compiler_version), "");
  text_add(out, ",\n    .march = ");
  const EmitOptions *how = e->options;
  write_string(out,
               how->target->host ? arena_printf(e->arena, "%s:%s", how->target->name, how->march)
                                 : how->march,
               "");
  text_addf(out,
            ",\n    .cpu = DDP_CPU_COMPILED,\n    .spec = spec,\n    .spec_hash = 0x%016llxu,\n    "
            ".plan_hash = 0x%016llxu,\n",
            (unsigned long long)job->spec_hash, (unsigned long long)plan->hash);
  struct {
    const char *name, *table;
    uint32_t n;
  } tables[] = {
      {"tensors", "tensors", job->leaves.len},
      {"arenas", "arenas", plan->arenas.len},
      {"ready", "ready", plan->ready.len},
      {"init", "init", job->init.len},
      {"loads", "loads", job->loads.len},
      {"groups", "groups", job->groups.len},
      {"optimizers", "optimizers", job->optimizers.len},
      {"fields", "fields", job->dataset.fields.len},
      {"sources", "sources", job->dataset.sources.len},
      {"splits", "splits", job->dataset.splits.len},
      {"settings", "settings", job->settings.len},
  };
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    text_addf(out, "    .%s = %s,\n    .n_%s = %u,\n", tables[i].name,
              tables[i].n ? tables[i].table : "NULL", tables[i].name, tables[i].n);
  text_add(out, "    .eval_split = ");
  write_string_or_null(out, job->eval_split);
  text_add(out, ",\n    .single_at = ");
  Text single = {0};
  if (job->single_at.file) write_place(&single, job->single_at);
  write_string_or_null(out, single.at);
  text_free(&single);
  text_addf(out,
            ",\n    .train_batch = %lld,\n    .eval_batch = %lld,\n    .train_block = %lld,\n    "
            ".eval_block = %lld,\n    .step_block = %lld,\n",
            (long long)job->train_batch, (long long)job->eval_batch,
            (long long)larger(plan->train.block_bytes, plan->counts.block_bytes),
            (long long)larger(plan->eval.block_bytes, plan->predict.block_bytes),
            (long long)plan_step_block(plan));
  text_addf(out, "    .n_counts = %d,\n    .count_per_sample = %s,\n    .n_sums = %d,\n",
            job->train_counts, job->train_counts ? "count_per_sample" : "NULL", job->eval_sums);
  text_addf(out, "    .kernels = kernels,\n    .n_kernels = %u,\n", plan->train.kernels.len);
  text_addf(out, "    .loss_after = %d,\n", plan_loss_after(plan));
  text_addf(out, "    .metrics = metrics,\n    .n_metrics = %u,\n", job->metrics.len + 1);
  text_addf(
      out,
      "    .forward_backward = forward_backward,\n    .window_counts = %s,\n    .evaluate = %s,\n"
      "    .metric_values = %s,\n    .schedule = schedule,\n",
      counts ? "window_counts" : "NULL", eval ? "evaluate" : "NULL",
      eval ? "metric_values" : "NULL");
  if (plan->predict.g)
    text_addf(out, "    .predict = predict,\n    .results = results,\n    .n_results = %u,\n",
              job->outputs.len);
  if (how->target->host) text_add(out, "    .target = &target,\n");
  if (job->measured) {
    text_addf(out, "    .measured = \"%s\",\n    .measured_numbers = (const double[]){",
              job->measured);
    for (uint32_t i = 0; i < job->measured_numbers.len; i++) {
      if (i) text_add(out, ", ");
      write_double(out, job->measured_numbers.at[i]);
    }
    text_add(out, "},\n");
  }
  text_add(out, "};\n");
}
