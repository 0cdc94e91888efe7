/* Source expressions of a dataset: csv(...), shuffle(...), slices ..., and names given by `let`. In: the
   expression. Out: nodes of Dataset.sources. What each source takes stands in one table; its arguments
   and the fields it can fill are checked here. Files are looked for when a program or a plan is made,
   so that a missing one is found before anything runs, and never by `ddpc check`. Sources that nothing
   reads yet are refused by name when a program is made. */
#include "data_source.h"
#include "diag.h"
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CHILDREN = 8 /* DdpSource.children */, MAX_ARGS = 4 };

typedef struct SourceArg {
  const char *name;
  enum { ARG_path, ARG_text, ARG_int, ARG_bool, ARG_source, ARG_word } kind;
  bool required;
  int64_t low;       /* int */
  const char *words; /* word: "none|llmc" */
} SourceArg;

typedef struct SourceDef SourceDef;
struct SourceDef {
  const char *name;
  bool later;      /* checked, and not read yet */
  bool by_field;   /* one file per field, by the field's name */
  SourceKind kind; /* of those */
  SourceArg args[MAX_ARGS];
  /* Do the fields of the dataset fit? false after a report; NULL: any do. */
  SourceFits *fits;
  int32_t (*make)(SourceBuild *b, const Given *given, const Expr *x);
};

static int32_t build(SourceBuild *b, const Expr *x);

static int32_t add_source(SourceBuild *b, DataSource s) {
  vec_push(b->a->arena, &b->d->sources, s);
  return (int32_t)b->d->sources.len - 1;
}

/* ---------- arguments ---------- */

static int count_args(const SourceDef *def) {
  int n = 0;
  while (n < MAX_ARGS && def->args[n].name) n++;
  return n;
}

static int find_arg(const SourceDef *def, const Arg *arg) {
  TextNearest near = {.wanted = arg->name};
  for (int k = 0; k < count_args(def); k++) {
    if (!strcmp(def->args[k].name, arg->name)) return k;
    text_offer(&near, def->args[k].name);
  }
  diag_report(DIAG_E0502, arg->span, "`%s` has no argument `%s`", def->name, arg->name);
  if (near.best) diag_help("did you mean `%s`?", near.best);
  return -1;
}

/* Puts each argument in its place; false after a report. */
static bool place_args(const SourceDef *def, const Expr *x, Given *out) {
  const ArgList *args = &x->as.call.args;
  int n = count_args(def), next = 0;
  for (uint32_t i = 0; i < args->len; i++) {
    const Arg *arg = &args->at[i];
    int k = arg->name ? find_arg(def, arg) : next++;
    if (k < 0) return false;
    if (k >= n) {
      diag_report(DIAG_E0505, arg->span, "`%s` takes at most %d argument%s", def->name, n,
                  n == 1 ? "" : "s");
      return false;
    }
    if (out[k].arg) {
      diag_report(DIAG_E0504, arg->span, "`%s` is given twice", def->args[k].name);
      return false;
    }
    out[k].arg = arg;
  }
  for (int k = 0; k < n; k++) {
    if (out[k].arg || !def->args[k].required) continue;
    diag_report(DIAG_E0503, x->span, "`%s` needs the argument `%s`", def->name, def->args[k].name);
    return false;
  }
  return true;
}

static bool arg_word(const SourceArg *want, const Expr *x, const char **out) {
  const char *word = x->kind == EXPR_name   ? x->as.name.text
                     : x->kind == EXPR_text ? x->as.text.text
                     : x->kind == EXPR_none ? "none"
                                            : "";
  size_t n = strlen(word);
  for (const char *w = want->words; *w;) {
    size_t len = strcspn(w, "|");
    if (n == len && !strncmp(w, word, n)) return *out = word, true;
    w += len + (w[len] == '|');
  }
  diag_report(DIAG_E0703, x->span, "`%s` is one of %s", want->name, want->words);
  return false;
}

/* A path, or a list of them. */
static bool arg_paths(SourceBuild *b, const SourceArg *want, Given *g, Datum d) {
  const Expr *x = g->arg->value;
  bool list = d.kind == DATUM_list;
  for (uint32_t i = 0; i < (list ? d.as.list.len : 1); i++) {
    const char *path = NULL;
    if (!need_text(b->e, list ? d.as.list.at[i] : d, x->span, want->name, &path)) return false;
    vec_push(b->a->arena, &g->paths, path);
  }
  if (g->paths.len) return true;
  diag_report(DIAG_E0503, x->span, "`%s` names no file", want->name);
  return false;
}

static bool arg_value(SourceBuild *b, const SourceArg *want, Given *g) {
  const Expr *x = g->arg->value;
  if (want->kind == ARG_source) return g->source = build(b, x), g->source >= 0;
  if (want->kind == ARG_word) return arg_word(want, x, &g->text);
  Datum d = eval_expr(b->e, x, b->env);
  if (want->kind == ARG_bool) return need_bool(b->e, d, x->span, want->name, &g->flag);
  if (want->kind == ARG_path) return arg_paths(b, want, g, d);
  if (want->kind != ARG_int) {
    if (d.kind == DATUM_none && !want->required) return true;
    return need_text(b->e, d, x->span, want->name, &g->text);
  }
  if (!need_int(b->e, d, x->span, want->name, &g->n)) return false;
  if (g->n >= want->low) return true;
  diag_report(DIAG_E0702, x->span, "`%s` is %lld; it must be at least %lld", want->name,
              (long long)g->n, (long long)want->low);
  return false;
}

/* ---------- files ---------- */

const char *source_path(Analysis *a, const char *path) {
  const SettingValue *root = settings_value(a->settings, "data_root");
  const char *directory = root->kind == VALUE_text ? root->text : a->job->directory;
  return path_join(a->arena, directory, path);
}

static void say_root(SourceBuild *b) {
  const SettingValue *root = settings_value(b->a->settings, "data_root");
  if (root->kind == VALUE_text)
    diag_help("`data_root` is `%s`", root->text);
  else
    diag_help("paths are relative to the job file; `data_root` in `runtime` moves them");
}

static bool is_pattern(const char *path) {
  return strpbrk(path, "*?[") != NULL;
}

static bool file_there(SourceBuild *b, const char *path, Span at) {
  if (b->a->options->check_only || access(source_path(b->a, path), R_OK) == 0) return true;
  diag_report(DIAG_E0307, at, "cannot read `%s`: %s", path, strerror(errno));
  say_root(b);
  return false;
}

static int by_bytes(const void *x, const void *y) {
  return strcmp(*(char *const *)x, *(char *const *)y);
}

/* The files that fit, in the order of their bytes. */
static bool files_fitting(SourceBuild *b, const char *pattern, Span at, DataSource *s) {
  const char *full = source_path(b->a, pattern);
  size_t skip = strlen(full) - strlen(pattern);
  glob_t found = {0};
  if (glob(full, GLOB_NOSORT, NULL, &found) != 0 || !found.gl_pathc) {
    diag_report(DIAG_E0307, at, "no file fits `%s`", pattern);
    say_root(b);
    globfree(&found);
    return false;
  }
  qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), by_bytes);
  for (size_t i = 0; i < found.gl_pathc; i++)
    vec_push(b->a->arena, &s->paths, arena_strdup(b->a->arena, found.gl_pathv[i] + skip));
  globfree(&found);
  return true;
}

/* The files of a source, one after another; `ddpc check` leaves patterns as they are. */
static bool files_of(SourceBuild *b, const Given *g, DataSource *s) {
  Span at = g->arg->value->span;
  for (uint32_t i = 0; i < g->paths.len; i++) {
    const char *path = g->paths.at[i];
    bool pattern = is_pattern(path);
    if (pattern && !b->a->options->check_only) {
      if (!files_fitting(b, path, at, s)) return false;
      continue;
    }
    if (!pattern && !file_there(b, path, at)) return false;
    vec_push(b->a->arena, &s->paths, path);
  }
  return true;
}

/* ---------- sources that are read ---------- */

static int32_t add_files(SourceBuild *b, const Given *g, DataSource s) {
  return files_of(b, g, &s) ? add_source(b, s) : -1;
}

static int32_t make_csv(SourceBuild *b, const Given *g, const Expr *x) {
  return add_files(b, g,
                   (DataSource){.kind = SOURCE_csv,
                                .header = g[1].flag,
                                .skip = g[2].n,
                                .missing = g[3].text,
                                .at = x->span});
}

static int32_t make_text(SourceBuild *b, const Given *g, const Expr *x) {
  return add_files(b, g, (DataSource){.kind = SOURCE_text, .stream = true, .at = x->span});
}

static int32_t make_tokens(SourceBuild *b, const Given *g, const Expr *x) {
  DataSource s = {.kind = SOURCE_token_bin, .stream = true, .at = x->span};
  s.header = g[1].text && !strcmp(g[1].text, "llmc");
  s.width = b->d->fields.len ? b->d->fields.at[0].stored : 0;
  return add_files(b, g, s);
}

static int32_t make_windows(SourceBuild *b, const Given *g, const Expr *x) {
  DataSource s = {.kind = SOURCE_windows, .windowed = true, .stride = g[1].n, .at = x->span};
  const Type *t = b->d->fields.len ? &b->d->fields.at[0].type : NULL;
  if (!g[1].arg && t && t->rank == 1) s.stride = t->dim[0].fixed;
  vec_push(b->a->arena, &s.children, g[0].source);
  return add_source(b, s);
}

static int32_t make_npz(SourceBuild *b, const Given *g, const Expr *x) {
  return add_files(b, g, (DataSource){.kind = SOURCE_npz, .at = x->span});
}

/* The labels of a record, which tell CIFAR-10 and CIFAR-100 apart. */
static int32_t make_cifar(SourceBuild *b, const Given *g, const Expr *x) {
  static const char *const labels[] = {"label", "coarse_label", "fine_label"};
  DataSource s = {.kind = SOURCE_cifar_bin, .at = x->span};
  bool ten = false, hundred = false;
  for (uint32_t i = 0; i < b->d->fields.len; i++) {
    ten |= !strcmp(b->d->fields.at[i].name, labels[0]);
    hundred |= strstr(b->d->fields.at[i].name, "_label") != NULL;
  }
  for (int i = 0; i < 3; i++) {
    if (i ? hundred : ten) vec_push(b->a->arena, &s.fields, labels[i]);
  }
  return add_files(b, g, s);
}

static int32_t make_synthetic(SourceBuild *b, const Given *g, const Expr *x) {
  return add_source(
      b, (DataSource){
             .kind = SOURCE_synthetic, .count = g[0].n, .seed = (uint64_t)g[1].n, .at = x->span});
}

static int32_t make_shuffle(SourceBuild *b, const Given *g, const Expr *x) {
  DataSource s = {.kind = SOURCE_shuffle, .seed = (uint64_t)g[1].n, .at = x->span};
  const DataSource *of = &b->d->sources.at[g[0].source];
  if (of->stream) {
    diag_report(DIAG_E0501, x->span, "a row of tokens keeps its order");
    diag_help("shuffle the samples: `shuffle(windows(...), seed = ...)`");
    return -1;
  }
  s.windowed = of->windowed;
  vec_push(b->a->arena, &s.children, g[0].source);
  return add_source(b, s);
}

/* ---------- the table ---------- */

#define PATH                                                                                       \
  { "path", ARG_path, true, 0, NULL }
#define SOURCE                                                                                     \
  { "source", ARG_source, true, 0, NULL }

static const SourceDef defs[] = {
    {"csv",
     .args = {PATH,
              {"header", .kind = ARG_bool},
              {"skip", .kind = ARG_int},
              {"missing", .kind = ARG_text}},
     .make = make_csv},
    {"idx", .by_field = true, .kind = SOURCE_idx},
    {"npy", .by_field = true, .kind = SOURCE_npy, .fits = fits_numbers},
    {"npz", .args = {PATH}, .fits = fits_numbers, .make = make_npz},
    {"safetensors", .args = {PATH}, .later = true, .fits = fits_numbers},
    {"cifar_bin", .args = {PATH}, .fits = fits_cifar, .make = make_cifar},
    {"image_folder", .args = {PATH, {"size", .kind = ARG_int, .low = 1}}, .later = true,
     .fits = fits_folder},
    {"token_bin", .args = {PATH, {"header", .kind = ARG_word, .words = "none|llmc"}},
     .fits = fits_tokens, .make = make_tokens},
    {"windows", .args = {SOURCE, {"stride", .kind = ARG_int, .low = 1}}, .fits = fits_windows,
     .make = make_windows},
    {"text", .args = {PATH}, .make = make_text},
    {"jsonl", .args = {PATH}, .later = true},
    {"synthetic", .args = {{"samples", ARG_int, true, 1, NULL}, {"seed", .kind = ARG_int}},
     .fits = fits_synthetic, .make = make_synthetic},
    {"grouped", .args = {SOURCE, {"count", ARG_int, true, 1, NULL}}, .later = true},
    {"shuffle", .args = {SOURCE, {"seed", ARG_int, true, 0, NULL}}, .make = make_shuffle},
    {.name = "concat"},
};
enum { DEFS = sizeof(defs) / sizeof(*defs) };

static const SourceDef *find_def(const char *name) {
  for (int i = 0; i < DEFS; i++) {
    if (!strcmp(defs[i].name, name)) return &defs[i];
  }
  return NULL;
}

static void say_sources(void) {
  Text t = {0};
  for (int i = 0; i < DEFS; i++) {
    if (!defs[i].later) text_addf(&t, "%s`%s`", t.len ? ", " : "", defs[i].name);
  }
  diag_help("these are: %s", t.at);
  text_free(&t);
}

/* Stands where a source is that nothing reads yet: with it there is no program. */
static int32_t make_later(SourceBuild *b, const SourceDef *def, const Given *g, const Expr *x) {
  DataSource s = {.kind = SOURCE_concat, .at = x->span};
  s.stream = !strcmp(def->name, "grouped") && b->d->sources.at[g[0].source].stream;
  return add_source(b, s);
}

/* ---------- one file per field ---------- */

static bool file_of_field(SourceBuild *b, const SourceDef *def, const Arg *arg, DataSource *s) {
  if (!arg->name) {
    diag_report(DIAG_E0505, arg->span, "`%s` takes one file per field, by the field's name",
                def->name);
    diag_help("write `%s(image = \"images.gz\", label = \"labels.gz\")`", def->name);
    return false;
  }
  bool known = false;
  TextNearest near = {.wanted = arg->name};
  for (uint32_t k = 0; k < b->d->fields.len; k++) {
    known |= !strcmp(b->d->fields.at[k].name, arg->name);
    text_offer(&near, b->d->fields.at[k].name);
  }
  for (uint32_t k = 0; k < s->fields.len; k++) {
    if (strcmp(s->fields.at[k], arg->name) != 0) continue;
    diag_report(DIAG_E0504, arg->span, "`%s` is given twice", arg->name);
    return false;
  }
  if (!known) {
    diag_report(DIAG_E0502, arg->span, "dataset `%s` has no field `%s`", b->d->name, arg->name);
    if (near.best) diag_help("did you mean `%s`?", near.best);
    return false;
  }
  const char *path = NULL;
  if (!need_text(b->e, eval_expr(b->e, arg->value, b->env), arg->value->span, arg->name, &path)) {
    return false;
  }
  if (is_pattern(path)) {
    diag_report(DIAG_E0716, arg->value->span,
                "patterns of file names in `%s` are not supported yet", def->name);
    diag_help("name one file, or `concat` several");
  } else if (!def->later && !file_there(b, path, arg->value->span)) {
    return false;
  }
  vec_push(b->a->arena, &s->paths, path);
  vec_push(b->a->arena, &s->fields, arg->name);
  return true;
}

static int32_t build_by_field(SourceBuild *b, const SourceDef *def, const Expr *x) {
  DataSource s = {.kind = def->kind, .at = x->span};
  const ArgList *args = &x->as.call.args;
  bool ok = true;
  for (uint32_t i = 0; i < args->len; i++) {
    if (!file_of_field(b, def, &args->at[i], &s)) ok = false;
    if (!args->at[i].name) return -1;
  }
  for (uint32_t k = 0; ok && k < b->d->fields.len; k++) {
    bool given = false;
    for (uint32_t i = 0; i < s.fields.len; i++) given |= s.fields.at[i] == b->d->fields.at[k].name;
    if (given) continue;
    diag_report(DIAG_E0802, x->span, "`%s` names no file for the field `%s`", def->name,
                b->d->fields.at[k].name);
    diag_note(b->d->fields.at[k].at, "declared here");
    ok = false;
  }
  if (ok && def->fits) ok = def->fits(b, NULL, x);
  return ok ? add_source(b, s) : -1;
}

/* Rows of tokens stand behind such rows, samples behind samples. */
static bool same_kind(SourceBuild *b, DataSource *s, int32_t child, Span at) {
  const DataSource *c = &b->d->sources.at[child];
  if (s->children.len && s->stream != c->stream) {
    diag_report(DIAG_E0501, at, "`concat` puts together samples, or rows of tokens, not both");
    return false;
  }
  s->stream = c->stream;
  s->windowed |= c->windowed;
  return true;
}

static int32_t build_concat(SourceBuild *b, const Expr *x) {
  DataSource s = {.kind = SOURCE_concat, .at = x->span};
  const ArgList *args = &x->as.call.args;
  bool list = args->len == 1 && args->at[0].value->kind == EXPR_list;
  uint32_t n = list ? args->at[0].value->as.items.len : args->len;
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) {
    if (!list && args->at[i].name) {
      diag_report(DIAG_E0502, args->at[i].span, "`concat` has no argument `%s`", args->at[i].name);
      return -1;
    }
    int32_t child = build(b, list ? args->at[0].value->as.items.at[i] : args->at[i].value);
    ok &= child >= 0;
    ok = ok &&
         same_kind(b, &s, child, list ? args->at[0].value->as.items.at[i]->span : args->at[i].span);
    vec_push(b->a->arena, &s.children, child);
  }
  if (!n || n > MAX_CHILDREN) {
    diag_report(n ? DIAG_E0505 : DIAG_E0503, x->span, "`concat` takes 1 to %d sources",
                MAX_CHILDREN);
    return -1;
  }
  return ok ? add_source(b, s) : -1;
}

/* ---------- slices ---------- */

static bool bound(SourceBuild *b, const Expr *x, int *kind, double *value) {
  *kind = BOUND_none;
  if (!x) return true;
  bool negative = x->kind == EXPR_unary && x->as.unary.op == UN_neg;
  const Expr *inner = negative ? x->as.unary.operand : x;
  if (inner->kind == EXPR_percent) {
    *kind = BOUND_percent;
    *value = negative ? -inner->as.f : inner->as.f;
    if (inner->as.f <= 100) return true;
    diag_report(DIAG_E0702, x->span, "a part of a source is at most 100%%");
    return false;
  }
  int64_t n = 0;
  *kind = BOUND_count;
  if (!need_int(b->e, eval_expr(b->e, x, b->env), x->span, "the bound of a slice", &n)) {
    return false;
  }
  *value = (double)n;
  return true;
}

static int32_t build_slice(SourceBuild *b, const Expr *x) {
  int32_t child = build(b, x->as.index.object);
  const SubscriptList *subs = &x->as.index.subs;
  if (child < 0) return -1;
  if (subs->len != 1 || subs->at[0].kind != SUB_slice || subs->at[0].step) {
    diag_report(DIAG_E0501, x->span, "a source is cut by one slice, as in `rows[:80%%]`");
    return -1;
  }
  const Subscript *sub = &subs->at[0];
  int start = BOUND_none, stop = BOUND_none;
  DataSource s = {.kind = SOURCE_slice, .at = x->span};
  if (!bound(b, sub->start, &start, &s.start) || !bound(b, sub->stop, &stop, &s.stop)) return -1;
  bool comparable = start == stop && start != BOUND_none && (s.start < 0) == (s.stop < 0);
  if ((comparable && s.stop <= s.start) || (stop != BOUND_none && s.stop == 0)) {
    diag_report(DIAG_E0806, sub->span, "this slice is empty");
    return -1;
  }
  s.start_kind = start == BOUND_none    ? BOUND_none
                 : start == BOUND_count ? BOUND_count
                                        : BOUND_percent;
  s.stop_kind = stop == BOUND_none ? BOUND_none : stop == BOUND_count ? BOUND_count : BOUND_percent;
  s.stream = b->d->sources.at[child].stream;
  s.windowed = b->d->sources.at[child].windowed;
  vec_push(b->a->arena, &s.children, child);
  return add_source(b, s);
}

/* ---------- all ---------- */

static void unknown_source(const Expr *callee, const char *name) {
  TextNearest near = {.wanted = name ? name : ""};
  for (int i = 0; i < DEFS; i++) text_offer(&near, defs[i].name);
  diag_report(DIAG_E0301, callee->span, "there is no source `%s`", name ? name : "of this form");
  if (near.best) diag_help("did you mean `%s`?", near.best);
}

static int32_t build_call(SourceBuild *b, const Expr *x) {
  const Expr *callee = x->as.call.callee;
  const char *name = callee->kind == EXPR_name ? callee->as.name.text : NULL;
  const SourceDef *def = name ? find_def(name) : NULL;
  if (!def) return unknown_source(callee, name), -1;
  if (def->later) {
    diag_report(DIAG_E0716, callee->span, "the source `%s` is not supported yet", name);
    say_sources();
  }
  if (def->by_field) return build_by_field(b, def, x);
  if (!count_args(def)) return build_concat(b, x);
  Given given[MAX_ARGS] = {{0}};
  if (!place_args(def, x, given)) return -1;
  int64_t outer = b->grouped;
  bool ok = true;
  for (int k = count_args(def) - 1; k >= 0; k--) { /* the count before what it groups */
    if (given[k].arg) ok &= arg_value(b, &def->args[k], &given[k]);
    if (!strcmp(def->name, "grouped") && k == 1) b->grouped = given[1].n;
  }
  b->grouped = outer;
  if (!ok || (def->fits && !def->fits(b, given, x))) return -1;
  return def->make ? def->make(b, given, x) : make_later(b, def, given, x);
}

static int32_t build(SourceBuild *b, const Expr *x) {
  switch (x->kind) {
  case EXPR_error:
    return -1;
  case EXPR_call:
    return build_call(b, x);
  case EXPR_index:
    return build_slice(b, x);
  case EXPR_name: {
    int32_t number = data_let(b->a, b->d, x->as.name.text);
    if (number != -2) return number;
    diag_report(DIAG_E0301, x->span, "unknown name `%s`", x->as.name.text);
    diag_help("sources are named by `let` in the dataset");
    return -1;
  }
  default:
    diag_report(DIAG_E0501, x->span, "this is no source of data");
    diag_help("for example `csv(\"data.csv\")`");
    return -1;
  }
}

int32_t source_build(Analysis *a, Dataset *d, Eval *e, Env *env, const Expr *x) {
  SourceBuild b = {.a = a, .d = d, .e = e, .env = env};
  return build(&b, x);
}
