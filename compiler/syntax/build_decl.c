/* Constructors of declarations and of the items of their blocks. */
#include "build_util.h"
#include "text.h"

static Decl *decl_new(Parse *p, DeclKind kind, Span at) {
  Decl *d = ARENA_NEW(p->arena, Decl);
  d->kind = kind;
  d->span = at;
  return d;
}

const char *text_at(Parse *p, const Span *at) {
  uint32_t length;
  return at ? literal_text(p, *at, &length) : NULL;
}

void ast_file(Parse *p, Span edition, DeclVec *decls) {
  int64_t number = edition.begin == edition.end ? 1 : literal_int(p, edition);
  if (number != 1) parse_report(p, DIAG_E0203, edition, "unknown edition %lld", (long long)number);
  p->file->edition = number;
  LIST_SET(p->file->decls, decls);
}

Decl *ast_decl_error(Parse *p, Span at) {
  return decl_new(p, DECL_error, at);
}

Decl *ast_import(Parse *p, Span at, const Span *language, Span file, Span alias) {
  Decl *d = decl_new(p, DECL_import, at);
  if (language) {
    d->language = ast_name(p, *language).text;
    if (strcmp(d->language, "c") != 0) {
      bool told = parse_report(p, DIAG_E0211, *language, "unknown language `%s`", d->language);
      if (told)
        diag_help("`import c \"x.h\" as x` is for C headers, `import \"x.ddp\" as x` for the rest");
    }
  }
  d->file = text_at(p, &file);
  d->file_span = file;
  d->name = ast_name(p, alias);
  return d;
}

Decl *ast_param(Parse *p, Span at, Name name, TypeExpr *type, Expr *value) {
  Decl *d = decl_new(p, DECL_param, at);
  ast_plain(p, name);
  d->name = name;
  d->type = type;
  d->value = value;
  return d;
}

Decl *ast_const(Parse *p, Span at, Name name, Expr *value) {
  Decl *d = decl_new(p, DECL_const, at);
  ast_plain(p, name);
  d->name = name;
  d->value = value;
  return d;
}

Decl *ast_kernel(Parse *p, Span at, Span kernel, Decl *decl) {
  decl->span = at;
  decl->kernel = text_at(p, &kernel);
  decl->kernel_span = kernel;
  return decl;
}

Decl *ast_def(Parse *p, Span at, Span name, FormalVec *formals, TypeExpr *result, Expr *value,
              Block *body) {
  Decl *d = decl_new(p, DECL_def, at);
  d->name = ast_name(p, name);
  LIST_SET(d->formals, formals);
  d->type = result;
  d->value = value;
  d->has_body = !value;
  if (value || !block_not_empty(p, at, body, "the body of this `def`")) return d;
  d->body = block_close(p, at, body, ENDS_with_return, "the body of this `def`");
  LIST_SET(d->returns, body->returns);
  return d;
}

Decl *ast_module(Parse *p, Span at, DeclKind kind, Span name, FormalVec *formals,
                 MemberVec *members) {
  Decl *d = decl_new(p, kind, at);
  d->name = ast_name(p, name);
  LIST_SET(d->formals, formals);
  LIST_SET(d->members, members);
  return d;
}

Decl *ast_dataset(Parse *p, Span at, Name name, DataVec *items) {
  Decl *d = decl_new(p, DECL_dataset, at);
  ast_plain(p, name);
  d->name = name;
  LIST_SET(d->data, items);
  return d;
}

Decl *ast_model(Parse *p, Span at, Name name, Expr *value, bool has_block, ModelVec *items) {
  Decl *d = decl_new(p, DECL_model, at);
  ast_plain(p, name);
  d->name = name;
  d->value = value;
  d->has_block = has_block;
  LIST_SET(d->model, items);
  return d;
}

Decl *ast_objective(Parse *p, Span at, Block *body) {
  Decl *d = decl_new(p, DECL_objective, at);
  block_not_empty(p, at, body, "this objective");
  d->body = block_close(p, at, body, ENDS_plain, "an objective");
  return d;
}

/* ---------- settings ---------- */
Decl *ast_settings_block(Parse *p, Span at, DeclKind kind, SettingVec *settings) {
  Decl *d = decl_new(p, kind, at);
  LIST_SET(d->settings, settings);
  return d;
}

Decl *ast_train(Parse *p, Span at, NameVec *extends, SettingVec *settings) {
  Decl *d = ast_settings_block(p, at, DECL_train, settings);
  for (uint32_t i = 0; extends && i < extends->len; i++) ast_plain(p, extends->at[i]);
  LIST_SET(d->extends, extends);
  return d;
}

Decl *ast_target(Parse *p, Span at, Name name, SettingVec *settings) {
  Decl *d = ast_settings_block(p, at, DECL_target, settings);
  ast_plain(p, name);
  d->name = name;
  return d;
}

Decl *ast_sweep(Parse *p, Span at, SettingVec *axes) {
  Span close = token_span(p, p->last);
  bool empty = token_before(p, p->last) == p->tokens.at[p->last].mate; /* not even a faulty line */
  if (empty) parse_report(p, DIAG_E0213, close, "this sweep is empty");
  return ast_settings_block(p, at, DECL_sweep, axes);
}

Setting ast_setting(Parse *p, Span at, Name key, Expr *value, bool is_final, bool comma) {
  return (Setting){.key = ast_plain(p, key),
                   .value = value,
                   .is_final = is_final,
                   .comma = comma,
                   .span = at,
                   .key_span = key.span};
}

/* ---------- datasets ---------- */
DataItem ast_data_error(Span at) {
  return (DataItem){.kind = DATA_error, .span = at};
}

DataItem ast_let(Span at, enum DataKind kind, Name name, Expr *value) {
  return (DataItem){.kind = kind, .span = at, .name = name, .value = value};
}

DataItem ast_field(Parse *p, Span at, Name name, TypeExpr *type, Expr *range, const Span *source) {
  ast_plain(p, name);
  return (DataItem){.kind = DATA_field,
                    .span = at,
                    .name = name,
                    .type = type,
                    .range = range,
                    .source_name = text_at(p, source)};
}

DataItem ast_transform(Parse *p, Span at, const Name *split, Block *body) {
  DataItem item = {.kind = DATA_transform, .span = at};
  if (split) item.name = *split;
  item.body = block_close(p, at, body, ENDS_plain, "a transform");
  return item;
}

/* ---------- model blocks ---------- */
static ModelItem *model_new(Parse *p, Span at, enum ModelKind kind) {
  ModelItem *m = ARENA_NEW(p->arena, ModelItem);
  m->kind = kind;
  m->span = at;
  return m;
}

ModelItem *ast_model_error(Parse *p, Span at) {
  return model_new(p, at, MODEL_error);
}

ModelItem *ast_load(Parse *p, Span at, const Path *path, Span file, PathVec *except) {
  ModelItem *m = model_new(p, at, MODEL_load);
  if (path) m->path = *path;
  m->file = text_at(p, &file);
  m->where = ast_where(NULL, except);
  return m;
}

ModelItem *ast_freeze(Parse *p, Span at, Where where) {
  ModelItem *m = model_new(p, at, MODEL_freeze);
  m->where = where;
  return m;
}

ModelItem *ast_eval(Parse *p, Span at, Where where) {
  ModelItem *m = model_new(p, at, MODEL_eval);
  m->where = where;
  return m;
}

ModelItem *ast_group(Parse *p, Span at, Where where, SettingVec *settings) {
  ModelItem *m = model_new(p, at, MODEL_group);
  m->where = where;
  LIST_SET(m->settings, settings);
  return m;
}

ModelItem *ast_model_tie(Parse *p, Span at, Path left, Path right) {
  ModelItem *m = model_new(p, at, MODEL_tie);
  m->path = left;
  m->right = right;
  return m;
}

ModelItem *ast_model_init(Parse *p, Span at, Path path, Expr *value) {
  ModelItem *m = model_new(p, at, MODEL_init);
  m->path = path;
  m->value = value;
  return m;
}

ModelItem *ast_model_for(Parse *p, Span at, Loop loop, ModelVec *body) {
  ModelItem *m = model_new(p, at, MODEL_for);
  m->loop = loop;
  LIST_SET(m->body, body);
  return m;
}
