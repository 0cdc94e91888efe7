/* Files of a job. In: the path of the job file. Out: every file it imports, each read once, in order
   of reading, and the values of its params under -D. Missing files, cycles and -D that name nothing
   are reported here. */
#include "analysis.h"
#include "diag.h"
#include "parse.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *path_directory(Arena *a, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? arena_strndup(a, path, (size_t)(slash - path) + 1) : "";
}

const char *path_join(Arena *a, const char *directory, const char *file) {
  if (file[0] == '/' || !directory[0]) return arena_strdup(a, file);
  size_t n = strlen(directory);
  while (!strncmp(file, "./", 2)) file += 2;
  return arena_printf(a, directory[n - 1] == '/' ? "%s%s" : "%s/%s", directory, file);
}

static bool is_library(const char *path) {
  return !strncmp(path, "std/", 4);
}

static LoadedFile *find_loaded(Analysis *a, const char *real) {
  for (uint32_t i = 0; i < a->loaded.len; i++) {
    if (!strcmp(a->loaded.at[i].real, real)) return &a->loaded.at[i];
  }
  return NULL;
}

static void report_cycle(Analysis *a, const char *path, Span at) {
  Text chain = {0};
  bool inside = false;
  for (uint32_t i = 0; i < a->opened.len; i++) {
    inside |= !strcmp(a->opened.at[i], path);
    if (inside) text_addf(&chain, "`%s` imports ", a->opened.at[i]);
  }
  diag_report(DIAG_E0308, at, "imports form a cycle: %s`%s`", chain.at ? chain.at : "", path);
  diag_help("move what both need into a third file");
  text_free(&chain);
}

static void read_imports(Analysis *a, File *file);

static File *read_file(Analysis *a, const char *path, const char *written, Span at) {
  char *real = realpath(path, NULL);
  LoadedFile *known = real ? find_loaded(a, real) : NULL;
  if (known) {
    free(real);
    if (!known->open) return known->file;
    report_cycle(a, known->file->path, at);
    return NULL;
  }
  uint32_t source = real ? source_read(path) : 0;
  if (!source) {
    diag_report(DIAG_E0307, at, "cannot read `%s`: %s", written, strerror(errno));
    if (at.file && errno == ENOENT) diag_help("paths are relative to the file that imports");
    free(real);
    return NULL;
  }
  const char *kept = arena_strdup(a->arena, real);
  free(real);
  AstFile *ast = parse_source(a->arena, source);
  File *file = program_add(a->program, ast, false);
  uint32_t number = a->loaded.len;
  vec_push(a->arena, &a->loaded, (LoadedFile){.real = kept, .file = file, .open = true});
  vec_push(a->arena, &a->job->files, ast);
  vec_push(a->arena, &a->opened, file->path);
  read_imports(a, file);
  a->opened.len--;
  a->loaded.at[number].open = false;
  return file;
}

File *import_file(Analysis *a, File *from, const Decl *d) {
  if (d->language) return external_file(a, from, d);
  if (is_library(d->file)) {
    File *file = program_library(a->program, d->file);
    if (!file) {
      diag_report(DIAG_E0307, d->file_span, "the standard library has no `%s`", d->file);
      return NULL;
    }
    for (uint32_t i = 0; i < a->job->files.len; i++) {
      if (a->job->files.at[i] == file->ast) return file;
    }
    vec_push(a->arena, &a->job->files, file->ast);
    return file;
  }
  return read_file(a, path_join(a->arena, path_directory(a->arena, from->path), d->file), d->file,
                   d->file_span);
}

static void read_imports(Analysis *a, File *file) {
  for (uint32_t i = 0; i < file->ast->decls.len; i++) {
    const Decl *d = file->ast->decls.at[i];
    if (d->kind != DECL_import || !d->file) continue;
    File *got = import_file(a, file, d);
    FileName *name = file_find(file, d->name.text);
    if (name && name->decl == d) name->import = got;
  }
}

bool import_job(Analysis *a, const char *path) {
  a->root = read_file(a, path, path, (Span){0});
  if (!a->root) return false;
  for (uint32_t i = 0; i < a->job->files.len; i++) {
    if (!a->job->files.at[i]->ok) return false;
  }
  return true;
}

File *import_hook(void *self, File *from, const Decl *decl) {
  (void)self;
  FileName *name = file_find(from, decl->name.text);
  return name ? name->import : NULL; /* read_imports has asked, and reported */
}

/* ---------- params and -D ---------- */

/* The param that `-D NAME` or `-D ALIAS.NAME` sets: of the job file, or of a file that it imports. */
static FileName *define_param(Analysis *a, const char *name, File **file) {
  const char *dot = strchr(name, '.');
  *file = a->root;
  if (dot) {
    FileName *alias = file_find(a->root, text_intern_n(name, (size_t)(dot - name)));
    if (!alias || alias->decl->kind != DECL_import || !alias->import) return NULL;
    *file = alias->import;
  }
  FileName *found = file_find(*file, text_intern(dot ? dot + 1 : name));
  return found && found->decl->kind == DECL_param ? found : NULL;
}

const SemaDefine *import_define(Analysis *a, const Decl *param) {
  const SemaDefine *found = NULL;
  for (int i = 0; i < a->options->n_defines; i++) {
    File *file;
    FileName *n = define_param(a, a->options->defines[i].name, &file);
    if (n && n->decl == param) found = &a->options->defines[i];
  }
  return found;
}

bool import_defines(Analysis *a, const char *name) {
  File *file;
  return define_param(a, name, &file) != NULL;
}

static Span define_span(Analysis *a, const char *name, const char *value) {
  size_t n = strlen(value);
  uint32_t source =
      source_add(arena_printf(a->arena, "-D %s", name), arena_strdup(a->arena, value), n);
  return (Span){source, 0, (uint32_t)n};
}

bool param_fits(const TypeExpr *type, Datum *d) {
  const char *want = type->kind == TYPE_name ? type->name : "";
  if (!strcmp(want, "int")) return d->kind == DATUM_int;
  if (!strcmp(want, "bool")) return d->kind == DATUM_bool;
  if (!strcmp(want, "text")) return d->kind == DATUM_text;
  if (!strcmp(want, "float")) {
    if (d->kind == DATUM_int) *d = datum_float((double)d->as.i);
    return d->kind == DATUM_float;
  }
  return true;
}

static const char *type_text(Arena *a, const TypeExpr *type) {
  return type->kind == TYPE_name ? type->name : arena_strdup(a, "the declared type");
}

static Datum define_value(Analysis *a, Eval *e, File *file, const Decl *decl,
                          const SemaDefine *define) {
  const TypeExpr *type = decl->type;
  Span at = define_span(a, define->name, define->value);
  bool text = type->kind == TYPE_name && !strcmp(type->name, "text");
  if (text && define->value[0] != '"') return datum_text(arena_strdup(a->arena, define->value));
  Expr *x = parse_expression(a->arena, at.file);
  if (!x) return datum_error();
  Datum d;
  if (x->kind == EXPR_name && !file_find(file, x->as.name.text)) {
    diag_report(DIAG_E0713, at, "`-D %s=%s`: `%s` takes %s, not a word", define->name,
                define->value, define->name, type_text(a->arena, type));
    return datum_error();
  }
  d = eval_expr(e, x, env_new(a->arena, NULL, file));
  if (d.kind == DATUM_error || param_fits(type, &d)) return d;
  diag_report(DIAG_E0713, at, "`-D %s=%s`: `%s` takes %s, not %s", define->name, define->value,
              define->name, type_text(a->arena, type), datum_describe(e, d));
  diag_note(decl->span, "declared here");
  return datum_error();
}

Datum import_param(Analysis *a, Eval *e, File *file, const Decl *decl) {
  const SemaDefine *define = import_define(a, decl);
  if (define) return define_value(a, e, file, decl, define);
  Datum d = eval_expr(e, decl->value, env_new(a->arena, NULL, file));
  if (d.kind == DATUM_error || param_fits(decl->type, &d)) return d;
  eval_report(e, DIAG_E0501, decl->value->span, "`%s` is declared as %s, and its value is %s",
              decl->name.text, type_text(a->arena, decl->type), datum_describe(e, d));
  return datum_error();
}

void import_check_defines(Analysis *a) {
  for (int i = 0; i < a->options->n_defines; i++) {
    const SemaDefine *define = &a->options->defines[i];
    File *file;
    FileName *name = define_param(a, define->name, &file);
    if (name) {
      Eval e = analysis_eval(a);
      file_value(&e, file, name, name->decl->span);
      continue;
    }
    if (strchr(define->name, '.')) continue; /* settings */
    diag_report(DIAG_E0713, define_span(a, define->name, define->value),
                "`-D %s`: the job has no param `%s`", define->name, define->name);
    if (setting_find(NULL, define->name) >= 0) {
      const SettingRow *row = setting_row(setting_find(NULL, define->name));
      diag_help("did you mean `-D %s.%s=%s`?", row->block, row->key, define->value);
      continue;
    }
    TextNearest near = {.wanted = define->name};
    for (uint32_t k = 0; k < a->root->names.len; k++) {
      if (a->root->names.at[k].decl->kind == DECL_param) {
        text_offer(&near, a->root->names.at[k].name);
      }
    }
    if (near.best) diag_help("did you mean `%s`?", near.best);
  }
}
