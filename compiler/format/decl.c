/* Declarations, and what stands between them. */
#include "layout.h"

/* A part of the file as a document of its own, to see how long its one line is. */
static Layout apart(const Layout *l, uint32_t begin) {
  Layout alone = *l;
  alone.doc = (Doc){.arena = l->doc.arena};
  while (comment_before(&alone, begin)) alone.comment++;
  return alone;
}

/* The body of a `def` behind `=`: on this line if it fits; or on the next one; or here with its last
   bracket broken. */
static void put_def_value(Layout *l, const Expr *e) {
  if (expr_ends_in_bracket(e) && !comment_before(l, e->span.begin)) {
    Layout alone = apart(l, e->span.begin);
    put_value(&alone, e, true);
    if (!doc_is_one_line(&alone.doc, DOC_WIDTH - 2)) {
      put(l, " = ");
      put_value(l, e, false);
      return;
    }
  }
  put(l, " =");
  doc_open(&l->doc);
  doc_indent(&l->doc);
  doc_line(&l->doc);
  put_part(l, e->span.begin);
  put_value(l, e, true);
  doc_dedent(&l->doc);
  doc_close(&l->doc);
}

static void put_definition(Layout *l, const Decl *d) {
  put_kernel(l, d->kernel);
  put(l, d->kind == DECL_def ? "def " : d->kind == DECL_module ? "module " : "optimizer ");
  put_name(l, &d->name);
  put_formals(l, &d->formals);
  if (d->kind != DECL_def) {
    put(l, " ");
    put_members(l, &d->members, d->span.end - 1);
    return;
  }
  put_result(l, d->type);
  if (!d->has_body) {
    put_def_value(l, d->value);
    return;
  }
  put(l, " ");
  put_body(l, (Body){&d->body, &d->returns, "return", d->span.end - 1});
}

static void put_import(Layout *l, const Decl *d) {
  put(l, "import ");
  if (d->language) {
    put(l, d->language);
    put(l, " ");
  }
  put_quoted(l, d->file, strlen(d->file));
  put(l, " as ");
  put_name(l, &d->name);
}

static void put_constant(Layout *l, const Decl *d) {
  put(l, d->kind == DECL_param ? "param " : "const ");
  put_name(l, &d->name);
  if (d->kind == DECL_param) {
    put(l, ": ");
    put_type(l, d->type);
  }
  put(l, " = ");
  put_value(l, d->value, false);
}

static void put_model(Layout *l, const Decl *d) {
  put(l, "model ");
  put_name(l, &d->name);
  put(l, " = ");
  put_value(l, d->value, false);
  if (!d->has_block) return;
  put(l, " ");
  put_model_items(l, &d->model, d->span.end - 1);
}

static void put_settings_decl(Layout *l, const Decl *d) {
  static const char *const words[] = {[DECL_train] = "train",
                                      [DECL_runtime] = "runtime",
                                      [DECL_target] = "target ",
                                      [DECL_sweep] = "sweep"};
  SettingsBlock b = {
      .settings = &d->settings, .axes = d->kind == DECL_sweep, .close = d->span.end - 1};
  if (d->kind == DECL_train || d->kind == DECL_runtime) b.table = words[d->kind];
  put(l, words[d->kind]);
  if (d->kind == DECL_target) put_name(l, &d->name);
  for (uint32_t i = 0; i < d->extends.len; i++) {
    put(l, i ? "." : " extends ");
    put_name(l, &d->extends.at[i]);
  }
  put(l, " ");
  put_settings(l, b);
}

static void put_decl(Layout *l, const Decl *d) {
  switch (d->kind) {
  case DECL_import:
    put_import(l, d);
    break;
  case DECL_param:
  case DECL_const:
    put_constant(l, d);
    break;
  case DECL_def:
  case DECL_module:
  case DECL_optimizer:
    put_definition(l, d);
    break;
  case DECL_dataset:
    put(l, "dataset ");
    put_name(l, &d->name);
    put(l, " ");
    put_data(l, &d->data, d->span.end - 1);
    break;
  case DECL_model:
    put_model(l, d);
    break;
  case DECL_objective:
    put(l, "objective ");
    put_body(l, (Body){.stmts = &d->body, .close = d->span.end - 1});
    break;
  case DECL_train:
  case DECL_runtime:
  case DECL_target:
  case DECL_sweep:
    put_settings_decl(l, d);
    break;
  case DECL_error:
    break;
  }
}

/* Whether it is a `param` or `const` of one line. */
static bool is_short(const Layout *l, const Decl *d) {
  if (d->kind != DECL_param && d->kind != DECL_const) return false;
  Layout alone = apart(l, d->value->span.begin);
  put_decl(&alone, d);
  return doc_is_one_line(&alone.doc, DOC_WIDTH);
}

/* Imports stand together, lines of `param` and `const` where they did; all else is apart. */
void put_decls(Layout *l) {
  const Decl *before = NULL;
  bool short_before = false;
  for (uint32_t i = 0; i < l->file->decls.len; i++) {
    const Decl *d = l->file->decls.at[i];
    bool same = before && before->kind == d->kind, is_import = d->kind == DECL_import;
    bool now_short = is_short(l, d); /* before its comments are placed */
    bool headed = d->kind == DECL_param || d->kind == DECL_const || d->kind == DECL_model;
    doc_hard(&l->doc);
    put_item(l, (Item){.begin = d->span.begin,
                       .until = headed ? d->value->span.begin : d->span.begin,
                       .close = same && is_import,
                       .blank = !same || (!is_import && !(short_before && now_short))});
    put_decl(l, d);
    before = d;
    short_before = now_short;
  }
}
