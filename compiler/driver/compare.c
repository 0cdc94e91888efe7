/* In: two planned jobs. Out: what differs, section by section. Order of lines and spelling were gone
   before: values are compared as the runtime reads them, graphs by their text without places. */
#include "compare.h"
#include "ast.h"
#include "keys.h"
#include <math.h>

static void add(Arena *arena, Section *out, const char *what, const char *x, const char *y,
                const char *note) {
  Difference d = {what, x, y, note ? note : ""};
  vec_push(arena, &out->list, d);
}

static void differ(Arena *arena, Section *out, const char *what, const char *x, const char *y) {
  bool same = x && y ? !strcmp(x, y) : x == y;
  if (!same) add(arena, out, what, x, y, NULL);
}

/* ---------- graphs ---------- */

static const char *graph_text(Arena *a, const Graph *g) {
  if (!g) return NULL;
  Text all = {0}, out = {0};
  ir_print(&all, g);
  for (const char *c = all.at; c && *c;) { /* places stand behind a `;` */
    size_t n = strcspn(c, "\n"), keep = n;
    for (size_t i = 0; i + 1 < n; i++)
      if (c[i] == ' ' && c[i + 1] == ';') {
        keep = i;
        break;
      }
    while (keep && c[keep - 1] == ' ') keep--;
    text_add_n(&out, c, keep);
    text_add(&out, "\n");
    c += n + (c[n] == '\n');
  }
  const char *kept = arena_strndup(a, out.at ? out.at : "", out.len);
  text_free(&all);
  text_free(&out);
  return kept;
}

void compare_note_graphs(Arena *a, Side *side, const Job *job) {
  side->job = job;
  side->train = graph_text(a, job->train);
  side->eval = graph_text(a, job->eval);
  side->schedule = graph_text(a, job->schedule);
  for (uint32_t i = 0; i < job->optimizers.len; i++)
    vec_push(a, &side->updates, graph_text(a, job->optimizers.at[i].update));
}

static const char *hash_text(Arena *a, const char *graph) {
  if (!graph) return NULL;
  return arena_printf(a, "graph %08x", (unsigned)text_hash(graph, strlen(graph), 0));
}

/* ---------- settings ---------- */

static const JobSetting *setting_of(const Job *job, const char *key) {
  for (uint32_t i = 0; i < job->settings.len; i++)
    if (!strcmp(job->settings.at[i].key, key)) return &job->settings.at[i];
  return NULL;
}

/* "": it may change when the program starts. */
static const char *fixed_text(Arena *a, const JobSetting *s) {
  if (s->is_final) return "recompile: `final`";
  if (s->fixed_by) return arena_printf(a, "recompile: fixed, %s", s->fixed_by);
  return s->fixed ? "recompile" : "";
}

void compare_settings(Arena *a, const Side *x, const Side *y, Section *out) {
  for (uint32_t i = 0; i < x->job->settings.len; i++) {
    const JobSetting *s = &x->job->settings.at[i], *t = setting_of(y->job, s->key);
    if (!t || !strcmp(s->value, t->value)) continue;
    const KeyRow *row = key_find(s->key);
    const char *fixed = fixed_text(a, s), *block = row ? row->block : "train";
    const char *note = *fixed ? fixed : arena_printf(a, "same binary: --%s %s", s->key, t->value);
    add(a, out, arena_printf(a, "%s.%s", block, s->key), s->value, t->value, note);
  }
}

bool compare_same_binary(const Side *x, const Side *y) {
  for (uint32_t i = 0; i < x->job->settings.len; i++) {
    const JobSetting *s = &x->job->settings.at[i], *t = setting_of(y->job, s->key);
    if (t && strcmp(s->value, t->value) != 0 && (s->fixed || s->is_final)) return false;
  }
  return true;
}

/* ---------- leaves, groups ---------- */

static const Leaf *leaf_of(const Job *job, const char *name) {
  for (uint32_t i = 0; i < job->leaves.len; i++)
    if (!strcmp(job->leaves.at[i].name, name)) return &job->leaves.at[i];
  return NULL;
}

static const char *leaf_text(Arena *a, const Job *job, const Leaf *l) {
  Text t = {0};
  type_print(&t, l->type);
  if (l->tied_to >= 0)
    text_addf(&t, " tied to %s", job->leaves.at[l->tied_to].name);
  else if (l->buffer || !l->trained)
    text_add(&t, l->buffer ? " buffer" : l->unused ? " unused" : " frozen");
  const char *kept = arena_strdup(a, t.at);
  text_free(&t);
  return kept;
}

void compare_leaves(Arena *a, const Side *x, const Side *y, Section *out) {
  for (uint32_t i = 0; i < x->job->leaves.len; i++) {
    const Leaf *l = &x->job->leaves.at[i], *m = leaf_of(y->job, l->name);
    differ(a, out, l->name, leaf_text(a, x->job, l), m ? leaf_text(a, y->job, m) : NULL);
  }
  for (uint32_t i = 0; i < y->job->leaves.len; i++) {
    const Leaf *m = &y->job->leaves.at[i];
    if (!leaf_of(x->job, m->name)) add(a, out, m->name, NULL, leaf_text(a, y->job, m), NULL);
  }
}

static const char *rate(Arena *a, double v) {
  if (isnan(v)) return "train's";
  Text t = {0};
  text_add_double(&t, v);
  const char *kept = arena_strdup(a, t.at);
  text_free(&t);
  return kept;
}

/* The group of a parameter with its own rates, so that groups may be numbered otherwise. */
static const char *group_text(Arena *a, const Job *job, const Leaf *l) {
  if (l->group < 0 || l->tied_to >= 0) return "";
  const Group *g = &job->groups.at[l->group];
  const Optimizer *o = &job->optimizers.at[g->optimizer];
  const char *s = arena_printf(a, "%s, learning rate %s, weight decay %s", o->name,
                               rate(a, g->learning_rate), rate(a, g->weight_decay));
  for (uint32_t i = 0; i < o->constants.len; i++)
    s = arena_printf(a, "%s, %s %s", s, o->constants.at[i].name, rate(a, o->constants.at[i].value));
  return s;
}

void compare_groups(Arena *a, const Side *x, const Side *y, Section *out) {
  for (uint32_t i = 0; i < x->job->leaves.len; i++) {
    const Leaf *l = &x->job->leaves.at[i], *m = leaf_of(y->job, l->name);
    if (m) differ(a, out, l->name, group_text(a, x->job, l), group_text(a, y->job, m));
  }
  uint32_t most = x->updates.len > y->updates.len ? x->updates.len : y->updates.len;
  for (uint32_t i = 0; i < most; i++) {
    const char *u = i < x->updates.len ? x->updates.at[i] : NULL;
    const char *v = i < y->updates.len ? y->updates.at[i] : NULL;
    differ(a, out, arena_printf(a, "update rule %u", i + 1), hash_text(a, u), hash_text(a, v));
  }
  differ(a, out, "schedule", hash_text(a, x->schedule), hash_text(a, y->schedule));
}

/* ---------- data ---------- */

static const char *field_text(Arena *a, const Field *f) {
  Text t = {0};
  type_print(&t, f->type);
  if (f->has_range) text_addf(&t, " in %g..%g", f->low, f->high);
  if (f->column) text_addf(&t, " as \"%s\"", f->column);
  for (uint32_t i = 0; i < f->categories.len; i++)
    text_addf(&t, "%s%s", i ? "|" : " category ", f->categories.at[i]);
  const char *kept = arena_strdup(a, t.at);
  text_free(&t);
  return kept;
}

static const Decl *dataset_of(const Job *job) {
  for (uint32_t i = 0; i < job->files.len; i++)
    for (uint32_t k = 0; k < job->files.at[i]->decls.len; k++)
      if (job->files.at[i]->decls.at[k]->kind == DECL_dataset) return job->files.at[i]->decls.at[k];
  return NULL;
}

/* `let`, `split` and `transform` as written, with single blanks and without comments. */
static const char *item_text(Arena *a, const DataItem *d) {
  const Source *s = source_get(d->span.file);
  char *out = arena_alloc(a, d->span.end - d->span.begin + 1), *to = out;
  bool text = false;
  for (uint32_t i = d->span.begin; i < d->span.end; i++) {
    char c = s->text[i];
    if (c == '"' && (i == 0 || s->text[i - 1] != '\\')) text = !text;
    while (!text && c == '#' && i < d->span.end && s->text[i] != '\n') i++;
    if (!text && (c == '#' || c == '\n' || c == '\t' || c == '\r')) c = ' ';
    if (!text && c == ' ' && (to == out || to[-1] == ' ')) continue;
    *to++ = c;
  }
  while (to > out && to[-1] == ' ') to--;
  *to = 0;
  return out;
}

/* Blanks make no difference outside texts. */
static bool same_item(const char *x, const char *y) {
  for (bool text = false;; x++, y++) {
    while (!text && *x == ' ') x++;
    while (!text && *y == ' ') y++;
    if (*x != *y) return false;
    if (!*x) return true;
    if (*x == '"') text = !text;
  }
}

static const DataItem *item_of(const Decl *d, const DataItem *like) {
  for (uint32_t i = 0; d && i < d->data.len; i++) {
    const DataItem *o = &d->data.at[i];
    bool named = o->name.text && like->name.text ? !strcmp(o->name.text, like->name.text)
                                                 : o->name.text == like->name.text;
    if (o->kind == like->kind && named) return o;
  }
  return NULL;
}

static const char *item_name(Arena *a, const DataItem *d) {
  static const char *const words[] = {"error", "let", "field", "split", "transform"};
  return arena_printf(a, "%s%s%s", words[d->kind], d->name.text ? " " : "",
                      d->name.text ? d->name.text : "");
}

static void compare_items(Arena *a, const Decl *from, const Decl *to, bool only_new, Section *out) {
  for (uint32_t i = 0; from && i < from->data.len; i++) {
    const DataItem *d = &from->data.at[i], *o = item_of(to, d);
    if (d->kind == DATA_field || (only_new && o)) continue;
    const char *x = item_text(a, d), *y = o ? item_text(a, o) : NULL;
    if (y && same_item(x, y)) continue;
    differ(a, out, item_name(a, d), only_new ? NULL : x, only_new ? x : y);
  }
}

static const char *bounds_text(Arena *a, const DataSource *s) {
  return arena_printf(a, "%d:%g %d:%g seed %llu skip %lld", (int)s->start_kind, s->start,
                      (int)s->stop_kind, s->stop, (unsigned long long)s->seed, (long long)s->skip);
}

void compare_data(Arena *a, const Side *x, const Side *y, Section *out) {
  const Dataset *d = &x->job->dataset, *e = &y->job->dataset;
  uint32_t most = d->fields.len > e->fields.len ? d->fields.len : e->fields.len;
  for (uint32_t i = 0; i < most; i++) {
    const Field *f = i < d->fields.len ? &d->fields.at[i] : NULL;
    const Field *g = i < e->fields.len ? &e->fields.at[i] : NULL;
    const char *name = arena_printf(a, "field %s", f ? f->name : g->name);
    const char *renamed = f && g && strcmp(f->name, g->name) != 0 ? g->name : NULL;
    differ(a, out, name, f ? field_text(a, f) : NULL,
           !g        ? NULL
           : renamed ? arena_printf(a, "%s: %s", renamed, field_text(a, g))
                     : field_text(a, g));
  }
  const Decl *p = dataset_of(x->job), *q = dataset_of(y->job);
  compare_items(a, p, q, false, out);
  compare_items(a, q, p, true, out);
  if (out->list.len) return;
  for (uint32_t i = 0; i < d->sources.len && i < e->sources.len; i++) /* a param stands in it */
    differ(a, out, arena_printf(a, "source %u", i + 1), bounds_text(a, &d->sources.at[i]),
           bounds_text(a, &e->sources.at[i]));
}

/* ---------- objective, memory, checkpoints ---------- */

void compare_objective(Arena *a, const Side *x, const Side *y, Section *out) {
  differ(a, out, "loss and model in training", hash_text(a, x->train), hash_text(a, y->train));
  differ(a, out, "loss, model and metrics in evaluation", hash_text(a, x->eval),
         hash_text(a, y->eval));
  uint32_t most =
      x->job->metrics.len > y->job->metrics.len ? x->job->metrics.len : y->job->metrics.len;
  for (uint32_t i = 0; i < most; i++)
    differ(a, out, arena_printf(a, "metric %u", i + 1),
           i < x->job->metrics.len ? x->job->metrics.at[i].name : NULL,
           i < y->job->metrics.len ? y->job->metrics.at[i].name : NULL);
  const Job *j = x->job, *k = y->job;
  bool same = j->init.len == k->init.len;
  for (uint32_t i = 0; same && i < j->init.len; i++) {
    const InitStep *s = &j->init.at[i], *t = &k->init.at[i];
    same = s->kind == t->kind && s->elements == t->elements && s->a == t->a && s->b == t->b &&
           s->offset == t->offset && s->step == t->step && s->low == t->low && s->high == t->high;
  }
  if (!same)
    add(a, out, "initial values", arena_printf(a, "%u steps", j->init.len),
        arena_printf(a, "%u steps", k->init.len), "drawn otherwise");
}

void compare_memory(Arena *a, const Side *x, const Side *y, Section *out) {
  const struct {
    const char *what;
    int64_t x, y;
  } rows[] = {
      {"activations in training", x->plan->train.block_bytes, y->plan->train.block_bytes},
      {"activations in evaluation", x->plan->eval.block_bytes, y->plan->eval.block_bytes},
      {"average of the weights", plan_average_bytes(x->plan), plan_average_bytes(y->plan)},
      {"samples of a batch", plan_sample_bytes(x->plan), plan_sample_bytes(y->plan)},
      {"all of a rank, beside the data", plan_rank_bytes(x->plan), plan_rank_bytes(y->plan)},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].x == rows[i].y) continue;
    add(a, out, rows[i].what, arena_printf(a, "%lld B", (long long)rows[i].x),
        arena_printf(a, "%lld B", (long long)rows[i].y),
        arena_printf(a, "%+lld B", (long long)(rows[i].y - rows[i].x)));
  }
}

static const char *stored_text(Arena *a, const Leaf *l) {
  if (!l || l->tied_to >= 0) return NULL; /* a file holds what it is tied to */
  Text t = {0};
  type_print(&t, l->type);
  const char *kept = arena_strdup(a, t.at);
  text_free(&t);
  return kept;
}

void compare_checkpoint(Arena *a, const Side *x, const Side *y, Section *out) {
  for (uint32_t i = 0; i < y->job->leaves.len; i++) {
    const Leaf *l = &y->job->leaves.at[i];
    if (l->tied_to < 0)
      differ(a, out, l->name, stored_text(a, leaf_of(x->job, l->name)), stored_text(a, l));
  }
  for (uint32_t i = 0; i < x->job->leaves.len; i++) {
    const Leaf *l = &x->job->leaves.at[i];
    if (l->tied_to < 0 && !leaf_of(y->job, l->name))
      add(a, out, l->name, stored_text(a, l), NULL, NULL);
  }
}
