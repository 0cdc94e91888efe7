/* Source expressions of a dataset: csv(...), idx(...), shuffle(...), concat(...), slices, and names
   given by `let`. In: the expression. Out: nodes of Dataset.sources. Files are looked for here, so
   that a missing one is found before anything runs; sources of later versions are refused by name. */
#include "analysis.h"
#include "diag.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CHILDREN = 8 }; /* DdpSource.children */

static const char *const later_sources[] = {"npy",       "npz",         "cifar_bin", "token_bin",
                                            "windows",   "safetensors", "jsonl",     "image_folder",
                                            "synthetic", "grouped",     "text",      "parquet"};

static int32_t add_source(Analysis *a, Dataset *d, DataSource s) {
  vec_push(a->arena, &d->sources, s);
  return (int32_t)d->sources.len - 1;
}

/* ---------- arguments ---------- */

typedef struct Formals {
  const char *const *names;
  int n, required;
} Formals;

/* Puts each argument in its place; false after a report. */
static bool place_args(const char *callee, const Expr *x, Formals formals, const Arg **out) {
  const ArgList *args = &x->as.call.args;
  int next = 0;
  for (uint32_t i = 0; i < args->len; i++) {
    const Arg *arg = &args->at[i];
    int k = -1;
    if (!arg->name) {
      k = next++;
      if (k >= formals.n) {
        diag_report(DIAG_E0505, arg->span, "`%s` takes at most %d arguments", callee, formals.n);
        return false;
      }
    } else {
      TextNearest near = {.wanted = arg->name};
      for (int j = 0; j < formals.n; j++) {
        if (!strcmp(formals.names[j], arg->name)) k = j;
        text_offer(&near, formals.names[j]);
      }
      if (k < 0) {
        diag_report(DIAG_E0502, arg->span, "`%s` has no argument `%s`", callee, arg->name);
        if (near.best) diag_help("did you mean `%s`?", near.best);
        return false;
      }
    }
    if (out[k]) {
      diag_report(DIAG_E0504, arg->span, "`%s` is given twice", formals.names[k]);
      return false;
    }
    out[k] = arg;
  }
  for (int k = 0; k < formals.required; k++) {
    if (out[k]) continue;
    diag_report(DIAG_E0503, x->span, "`%s` needs the argument `%s`", callee, formals.names[k]);
    return false;
  }
  return true;
}

static bool arg_text(Eval *e, Env *env, const Arg *arg, const char **out) {
  if (!arg) return true;
  return need_text(e, eval_expr(e, arg->value, env), arg->value->span,
                   arg->name ? arg->name : "path", out);
}

static bool arg_int(Eval *e, Env *env, const Arg *arg, int64_t low, int64_t *out) {
  if (!arg) return true;
  if (!need_int(e, eval_expr(e, arg->value, env), arg->value->span,
                arg->name ? arg->name : "number", out)) {
    return false;
  }
  if (*out >= low) return true;
  diag_report(DIAG_E0702, arg->value->span, "`%s` is %lld; it must be at least %lld",
              arg->name ? arg->name : "number", (long long)*out, (long long)low);
  return false;
}

/* ---------- files ---------- */

static bool file_there(Analysis *a, const char *path, Span at) {
  if (strpbrk(path, "*?[")) {
    diag_report(DIAG_E0716, at, "patterns of file names are not supported yet");
    diag_help("name one file, or `concat` several");
    return false;
  }
  const SettingValue *root = settings_value(a->settings, "data_root");
  const char *directory = root->kind == VALUE_text ? root->text : a->job->directory;
  const char *full = path_join(a->arena, directory, path);
  if (access(full, R_OK) == 0) return true;
  diag_report(DIAG_E0307, at, "cannot read `%s`: %s", path, strerror(errno));
  if (root->kind == VALUE_text)
    diag_help("`data_root` is `%s`", directory);
  else
    diag_help("paths are relative to the job file; `data_root` in `runtime` moves them");
  return false;
}

static int32_t build_csv(Analysis *a, Dataset *d, Eval *e, Env *env, const Expr *x) {
  static const char *const names[] = {"path", "header", "skip", "missing"};
  const Arg *args[4] = {0};
  DataSource s = {.kind = SOURCE_csv, .at = x->span};
  const char *path = NULL;
  if (!place_args("csv", x, (Formals){names, 4, 1}, args)) return -1;
  if (!arg_text(e, env, args[0], &path)) return -1;
  if (args[1] &&
      !need_bool(e, eval_expr(e, args[1]->value, env), args[1]->value->span, "header", &s.header)) {
    return -1;
  }
  if (!arg_int(e, env, args[2], 0, &s.skip) || !arg_text(e, env, args[3], &s.missing)) return -1;
  if (!file_there(a, path, args[0]->value->span)) return -1;
  vec_push(a->arena, &s.paths, path);
  return add_source(a, d, s);
}

static int32_t build_idx(Analysis *a, Dataset *d, Eval *e, Env *env, const Expr *x) {
  DataSource s = {.kind = SOURCE_idx, .at = x->span};
  const ArgList *args = &x->as.call.args;
  bool ok = true;
  for (uint32_t i = 0; i < args->len; i++) {
    const Arg *arg = &args->at[i];
    const char *path = NULL;
    if (!arg->name) {
      diag_report(DIAG_E0505, arg->span, "`idx` takes one file per field, by the field's name");
      diag_help("write `idx(image = \"images.gz\", label = \"labels.gz\")`");
      return -1;
    }
    bool known = false;
    TextNearest near = {.wanted = arg->name};
    for (uint32_t k = 0; k < d->fields.len; k++) {
      known |= !strcmp(d->fields.at[k].name, arg->name);
      text_offer(&near, d->fields.at[k].name);
    }
    for (uint32_t k = 0; k < s.fields.len; k++) {
      if (strcmp(s.fields.at[k], arg->name) != 0) continue;
      diag_report(DIAG_E0504, arg->span, "`%s` is given twice", arg->name);
      return -1;
    }
    if (!known) {
      diag_report(DIAG_E0502, arg->span, "dataset `%s` has no field `%s`", d->name, arg->name);
      if (near.best) diag_help("did you mean `%s`?", near.best);
      ok = false;
      continue;
    }
    if (!arg_text(e, env, arg, &path) || !file_there(a, path, arg->value->span)) {
      ok = false;
      continue;
    }
    vec_push(a->arena, &s.paths, path);
    vec_push(a->arena, &s.fields, arg->name);
  }
  for (uint32_t k = 0; ok && k < d->fields.len; k++) {
    bool given = false;
    for (uint32_t i = 0; i < s.fields.len; i++) given |= s.fields.at[i] == d->fields.at[k].name;
    if (given) continue;
    diag_report(DIAG_E0802, x->span, "`idx` names no file for the field `%s`",
                d->fields.at[k].name);
    diag_note(d->fields.at[k].at, "declared here");
    ok = false;
  }
  return ok ? add_source(a, d, s) : -1;
}

static int32_t build_shuffle(Analysis *a, Dataset *d, Eval *e, Env *env, const Expr *x) {
  static const char *const names[] = {"source", "seed"};
  const Arg *args[2] = {0};
  int64_t seed = 0;
  if (!place_args("shuffle", x, (Formals){names, 2, 2}, args)) return -1;
  int32_t child = source_build(a, d, e, env, args[0]->value);
  if (!arg_int(e, env, args[1], 0, &seed) || child < 0) return -1;
  DataSource s = {.kind = SOURCE_shuffle, .seed = (uint64_t)seed, .at = x->span};
  vec_push(a->arena, &s.children, child);
  return add_source(a, d, s);
}

static int32_t build_concat(Analysis *a, Dataset *d, Eval *e, Env *env, const Expr *x) {
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
    int32_t child =
        source_build(a, d, e, env, list ? args->at[0].value->as.items.at[i] : args->at[i].value);
    ok &= child >= 0;
    vec_push(a->arena, &s.children, child);
  }
  if (!n || n > MAX_CHILDREN) {
    diag_report(n ? DIAG_E0505 : DIAG_E0503, x->span, "`concat` takes 1 to %d sources",
                MAX_CHILDREN);
    return -1;
  }
  return ok ? add_source(a, d, s) : -1;
}

/* ---------- slices ---------- */

static bool bound(Eval *e, Env *env, const Expr *x, int *kind, double *value) {
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
  if (!need_int(e, eval_expr(e, x, env), x->span, "the bound of a slice", &n)) return false;
  *value = (double)n;
  return true;
}

static int32_t build_slice(Analysis *a, Dataset *d, Eval *e, Env *env, const Expr *x) {
  int32_t child = source_build(a, d, e, env, x->as.index.object);
  const SubscriptList *subs = &x->as.index.subs;
  if (child < 0) return -1;
  if (subs->len != 1 || subs->at[0].kind != SUB_slice || subs->at[0].step) {
    diag_report(DIAG_E0501, x->span, "a source is cut by one slice, as in `rows[:80%%]`");
    return -1;
  }
  const Subscript *sub = &subs->at[0];
  int start = BOUND_none, stop = BOUND_none;
  DataSource s = {.kind = SOURCE_slice, .at = x->span};
  if (!bound(e, env, sub->start, &start, &s.start) || !bound(e, env, sub->stop, &stop, &s.stop)) {
    return -1;
  }
  bool comparable = start == stop && start != BOUND_none && (s.start < 0) == (s.stop < 0);
  if ((comparable && s.stop <= s.start) || (stop != BOUND_none && s.stop == 0)) {
    diag_report(DIAG_E0806, sub->span, "this slice is empty");
    return -1;
  }
  s.start_kind = start == BOUND_none    ? BOUND_none
                 : start == BOUND_count ? BOUND_count
                                        : BOUND_percent;
  s.stop_kind = stop == BOUND_none ? BOUND_none : stop == BOUND_count ? BOUND_count : BOUND_percent;
  vec_push(a->arena, &s.children, child);
  return add_source(a, d, s);
}

/* ---------- all ---------- */

static int32_t build_call(Analysis *a, Dataset *d, Eval *e, Env *env, const Expr *x) {
  const Expr *callee = x->as.call.callee;
  const char *name = callee->kind == EXPR_name ? callee->as.name.text : NULL;
  if (name && !strcmp(name, "csv")) return build_csv(a, d, e, env, x);
  if (name && !strcmp(name, "idx")) return build_idx(a, d, e, env, x);
  if (name && !strcmp(name, "shuffle")) return build_shuffle(a, d, e, env, x);
  if (name && !strcmp(name, "concat")) return build_concat(a, d, e, env, x);
  TextNearest near = {.wanted = name ? name : ""};
  static const char *const known[] = {"csv", "idx", "shuffle", "concat"};
  for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) text_offer(&near, known[i]);
  for (size_t i = 0; name && i < sizeof(later_sources) / sizeof(*later_sources); i++) {
    if (strcmp(later_sources[i], name) != 0) continue;
    diag_report(DIAG_E0716, callee->span, "the source `%s` is not supported yet", name);
    diag_help("`csv` and `idx` are");
    return -1;
  }
  diag_report(DIAG_E0301, callee->span, "there is no source `%s`", name ? name : "of this form");
  if (near.best) diag_help("did you mean `%s`?", near.best);
  return -1;
}

int32_t source_build(Analysis *a, Dataset *d, Eval *e, Env *env, const Expr *x) {
  switch (x->kind) {
  case EXPR_error:
    return -1;
  case EXPR_call:
    return build_call(a, d, e, env, x);
  case EXPR_index:
    return build_slice(a, d, e, env, x);
  case EXPR_name: {
    int32_t number = data_let(a, x->as.name.text);
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
