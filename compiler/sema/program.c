/* Files of a job and the embedded library: declared names, their values (evaluated once, on demand,
   with cycles reported), and scopes of bodies. A library file is parsed when a name is looked for in
   it. */
#include "eval.h"
#include "parse.h"
#include "sema.h"
#include <string.h>

struct Library {
  VEC(File *) files; /* parsed so far */
};

Program *program_new(Arena *arena) {
  Program *p = ARENA_NEW(arena, Program);
  p->arena = arena;
  p->library = ARENA_NEW(arena, struct Library);
  return p;
}

static void add_name(Program *p, File *file, const Decl *decl, const char *name, Span at) {
  FileName *old = file_find(file, name);
  if (old) {
    diag_report(DIAG_E0302, at, "`%s` is declared twice in this file", name);
    diag_note(old->decl->name.span, "the first declaration");
    return;
  }
  FileName n = {.name = name, .decl = decl};
  vec_push(p->arena, &file->names, n);
}

File *program_add(Program *p, AstFile *ast, bool library) {
  File *file = ARENA_NEW(p->arena, File);
  file->ast = ast;
  file->path = ast->path;
  file->library = library;
  for (uint32_t i = 0; i < ast->decls.len; i++) {
    const Decl *d = ast->decls.at[i];
    if (d->kind != DECL_error && d->kind != DECL_target && d->name.text && d->name.text[0])
      add_name(p, file, d, d->name.text, d->name.span);
  }
  File **last = &p->files;
  while (*last) last = &(*last)->next;
  *last = file;
  return file;
}

File *program_library(Program *p, const char *path) {
  for (uint32_t i = 0; i < p->library->files.len; i++)
    if (!strcmp(p->library->files.at[i]->path, path)) return p->library->files.at[i];
  size_t length;
  const char *text = stdlib_find(path, &length);
  if (!text) return NULL;
  AstFile *ast = parse_source(p->arena, source_add(path, text, length));
  File *file = program_add(p, ast, true);
  vec_push(p->arena, &p->library->files, file);
  return file;
}

FileName *file_find(File *file, const char *name) {
  for (uint32_t i = 0; i < file->names.len; i++)
    if (file->names.at[i].name == name) return &file->names.at[i];
  return NULL;
}

void file_mark_used(File *file, const char *name) {
  FileName *n = file_find(file, text_intern(name));
  if (n) n->used = true;
}

static Datum import_value(Eval *e, File *file, FileName *n, Span at) {
  const Decl *d = n->decl;
  if (d->language && (file->library || !e->program->hooks.import)) {
    eval_report(e, DIAG_E0716, at, "operators from C headers in the library are not supported yet");
    return datum_error();
  }
  if (d->language) {
    n->import = e->program->hooks.import(e->program->hooks.self, file, d);
  } else if (!strncmp(d->file, "std/", 4)) {
    n->import = program_library(e->program, d->file);
    if (!n->import)
      eval_report(e, DIAG_E0307, d->file_span, "the library has no file `%s`", d->file);
  } else if (file->library) { /* files of the library import beside themselves */
    const char *slash = strrchr(file->path, '/');
    n->import =
        program_library(e->program, arena_printf(e->arena, "%.*s/%s", (int)(slash - file->path),
                                                 file->path, d->file));
  } else if (e->program->hooks.import) {
    n->import = e->program->hooks.import(e->program->hooks.self, file, d);
  }
  if (!n->import) return datum_error();
  return (Datum){.kind = DATUM_namespace, .as.file = n->import};
}

static Datum closure_of(Eval *e, DatumKind kind, File *file, const Decl *d) {
  Closure *c = ARENA_NEW(e->arena, Closure);
  c->decl = d;
  c->file = file;
  c->at = d->name.span;
  return (Datum){.kind = kind, .as.closure = c};
}

static Datum declared_value(Eval *e, File *file, FileName *n, Span at) {
  const Decl *d = n->decl;
  switch (d->kind) {
  case DECL_import:
    return import_value(e, file, n, at);
  case DECL_def:
    return closure_of(e, DATUM_function, file, d);
  case DECL_module:
    return closure_of(e, DATUM_module, file, d);
  case DECL_optimizer:
    return closure_of(e, DATUM_optimizer, file, d);
  case DECL_const: {
    /* A constant belongs to the file, not to the graph in which it is first read. */
    Eval outer = eval_new(e->program, NULL, NULL, false);
    outer.frame = e->frame;
    return eval_expr(&outer, d->value, env_new(e->arena, NULL, file));
  }
  case DECL_param:
  case DECL_dataset:
  case DECL_model:
    if (e->program->hooks.declaration)
      return e->program->hooks.declaration(e->program->hooks.self, e, file, d);
    break;
  default:
    break;
  }
  if (d->kind == DECL_param && d->value) {
    Eval outer = eval_new(e->program, NULL, NULL, false);
    return eval_expr(&outer, d->value, env_new(e->arena, NULL, file));
  }
  eval_report(e, DIAG_E0311, at, "`%s` cannot be used as a value here", n->name);
  return datum_error();
}

Datum file_value(Eval *e, File *file, FileName *n, Span at) {
  n->used = true;
  if (n->state == NAME_done) return n->value;
  if (n->state == NAME_working) {
    eval_report(e, DIAG_E0310, n->decl->name.span, "`%s` is defined by itself", n->name);
    n->value = datum_error();
    n->state = NAME_done;
    return n->value;
  }
  n->state = NAME_working;
  Datum v = declared_value(e, file, n, at);
  /* names never moves while a value is evaluated: it is complete since program_add */
  if (n->state == NAME_done) return n->value;
  n->value = v;
  n->state = NAME_done;
  return v;
}

/* ---------- scopes ---------- */

Env *env_new(Arena *a, Env *parent, File *file) {
  Env *env = ARENA_NEW(a, Env);
  env->parent = parent;
  env->file = file ? file : parent ? parent->file : NULL;
  return env;
}

Binding *env_find(Env *env, const char *name) {
  for (; env; env = env->parent)
    for (uint32_t i = env->names.len; i-- > 0;)
      if (env->names.at[i].name == name) return &env->names.at[i];
  return NULL;
}

void env_define(Arena *a, Env *env, const char *name, Datum value, BindingKind kind, Span at) {
  for (uint32_t i = 0; i < env->names.len; i++) {
    if (env->names.at[i].name != name) continue;
    env->names.at[i] = (Binding){name, kind, value, at};
    return;
  }
  Binding b = {name, kind, value, at};
  vec_push(a, &env->names, b);
}

Eval eval_new(Program *p, Build *build, LeafStore *leaves, bool training) {
  Eval e = {.program = p, .arena = p->arena, .build = build, .leaves = leaves};
  e.training = training;
  if (!e.leaves && build) e.leaves = build->leaves;
  e.limits = ARENA_NEW(p->arena, struct Limits);
  return e;
}

Build *build_new(Arena *a, Graph *graph, LeafStore *leaves) {
  Build *b = ARENA_NEW(a, Build);
  b->graph = graph;
  b->leaves = leaves;
  b->host_dtype = DT_f32;
  b->compute = DT_f32;
  return b;
}

void build_buffers(Build *b) {
  for (uint32_t i = 0; i < b->written.len; i++) {
    if (!b->written.at[i]) continue;
    graph_output(b->graph, OUT_buffer, b->leaves->leaves.at[i].number, b->leaf_value.at[i]);
  }
}
