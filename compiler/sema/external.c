/* import c "x.h" as x: a header -> a File whose names are operators. In: what cimport.c read. The text of
   an annotation is parsed where it stands, by the parser of the language, and compared with the
   parameters of the C function; what does not fit is E0909 in the header. */
#include "external.h"
#include "die.h"
#include "parse.h"
#include "signature.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---------- annotations as texts of the language ---------- */

/* The header blank but for bytes begin..end, in which line ends and comments are blank as well. */
static char *blank_view(Arena *a, Span part) {
  const Source *s = source_get(part.file);
  char *view = arena_alloc(a, s->length + 1);
  memset(view, ' ', s->length);
  view[s->length] = 0;
  for (uint32_t i = part.begin; i < part.end; i++) {
    if (!strncmp(s->text + i, "/*", 2)) {
      const char *end = strstr(s->text + i + 2, "*/");
      if (!end) break;
      i = (uint32_t)(end - s->text) + 1;
    } else if (!strncmp(s->text + i, "//", 2)) {
      while (i < part.end && s->text[i] != '\n') i++;
    } else if (s->text[i] != '\n' && s->text[i] != '\r' && s->text[i] != '\\') {
      view[i] = s->text[i];
    }
  }
  return view;
}

static Expr *parse_note(Arena *a, Span part) {
  return parse_expression(a, source_add_view(part.file, blank_view(a, part)));
}

/* (e) of MACRO(e). */
static Span with_parens(const CNote *n) {
  return (Span){n->text.file, n->text.begin - 1, n->text.end + 1};
}

static bool has_text(const CNote *n, const char *macro) {
  const Source *s = source_get(n->at.file);
  size_t length = strlen(macro);
  bool itself = n->at.end - n->at.begin == length && !strncmp(s->text + n->at.begin, macro, length);
  if (itself && n->text.end > n->text.begin) return true;
  diag_report(DIAG_E0909, n->at, "expected `%s(...)` itself at this place", macro);
  if (!itself) diag_help("an annotation inside of another macro cannot be read");
  return false;
}

/* DDP_OP(name(formals) -> type) as `def name(formals) -> type = 0`, of the same places. */
static Decl *parse_head(Arena *a, const CNote *n) {
  if (!has_text(n, "DDP_OP")) return NULL;
  char *view = blank_view(a, n->text);
  static const char edition[] = "edition 1\n"; /* the header includes ddp/op.h in front of this */
  size_t length = sizeof edition - 1;
  check(n->text.begin >= length + 4, "an annotation at the begin of a header");
  memcpy(view, edition, length);
  memcpy(view + n->text.begin - 4, "def ", 4);
  memcpy(view + n->text.end, "= 0", 3); /* the C function stands behind it */
  AstFile *ast = parse_source(a, source_add_view(n->text.file, view));
  if (!ast->ok) return NULL;
  Decl *d = ast->decls.len == 1 ? ast->decls.at[0] : NULL;
  bool head = d && d->kind == DECL_def && d->type && d->type->kind == TYPE_tensor;
  if (head) {
    d->value = NULL;
    return d;
  }
  diag_report(DIAG_E0909, n->text, "expected `name(inputs and attributes) -> type` of one tensor");
  return NULL;
}

static const char *note_word(Arena *a, const CNote *n) {
  const char *text = span_text(a, n->text);
  while (*text == ' ') text++;
  size_t length = strlen(text);
  while (length && text[length - 1] == ' ') length--;
  return text_intern_n(text, length);
}

/* ---------- types ---------- */

bool external_dtype(const TypeExpr *type, DType *out) {
  if (!type->name || !strcmp(type->name, "float")) {
    *out = DT_f32;
  } else if (!strcmp(type->name, "int")) {
    *out = DT_i64;
  } else {
    return dtype_parse(type->name, out);
  }
  return true;
}

/* Attributes: float, int, bool, in one of two sizes. */
static bool attribute_fits(const TypeExpr *type, const CType *c) {
  char want = type->name[0];
  return c->known && !c->pointer && dtype_category(c->dtype) == want && c->dtype != DT_u8;
}

static bool is_attribute(const TypeExpr *type) {
  static const char *const names[] = {"float", "int", "bool"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (type->kind == TYPE_name && !strcmp(type->name, names[i])) return true;
  return false;
}

static bool pointer_fits(const CType *c, DType dtype, bool constant) {
  DType stored = dtype == DT_bool ? DT_u8 : dtype;
  return c->known && c->pointer && c->constant == constant && c->dtype == stored;
}

/* ---------- parameters ---------- */

typedef struct Checking {
  Analysis *a;
  const NativeOp *op;
  bool *seen;  /* by formal */
  int last;    /* formal of the parameter before; -1 */
  bool result; /* seen */
  bool wrong;
} Checking;

static int formal_named(const Decl *d, const char *name) {
  for (uint32_t i = 0; i < d->formals.len; i++)
    if (!strcmp(d->formals.at[i].name, name)) return (int)i;
  return -1;
}

/* A size of the signature with this name, in any case of letters. */
static const Expr *size_named(const Decl *d, const char *name) {
  for (uint32_t i = 0; i < d->formals.len; i++) {
    const DimList *dims = &d->formals.at[i].type->dims;
    for (uint32_t k = 0; k < dims->len; k++) {
      const Expr *x = dims->at[k].value;
      bool size = x && x->kind == EXPR_name && size_like(x->as.name.text);
      if (size && !strcasecmp(x->as.name.text, name)) return x;
    }
  }
  return NULL;
}

static void mismatch(Checking *k, const CParam *p, const char *what, const char *expected) {
  diag_report(DIAG_E0909, p->at, "%s: expected `%s`, here stands `%s`", what, expected,
              p->type.text);
  k->wrong = true;
}

static void check_formal(Checking *k, const CParam *p, int i, Role *role) {
  Arena *a = k->a->arena;
  const Decl *d = k->op->decl;
  const Formal *f = &d->formals.at[i];
  const char *type = span_text(a, f->type->span);
  bool tensor = external_is_tensor(f);
  role->kind = tensor ? ROLE_input : ROLE_attribute;
  role->formal = (uint32_t)i;
  role->dtype = p->type.dtype;
  if (k->seen[i]) {
    diag_report(DIAG_E0909, p->at, "`%s` is passed twice", f->name);
    k->wrong = true;
  } else if (i < k->last) {
    diag_report(DIAG_E0909, p->at, "`%s` comes before `%s` in DDP_OP", f->name,
                d->formals.at[k->last].name);
    diag_help("parameters have the order of the annotation");
    k->wrong = true;
  }
  k->seen[i] = true;
  k->last = i > k->last ? i : k->last;
  if (tensor) {
    external_dtype(f->type, &role->dtype); /* checked with the head */
    const char *c = arena_printf(a, "const %s *", dtype_ctype(role->dtype));
    if (!pointer_fits(&p->type, role->dtype, true))
      mismatch(k, p, arena_printf(a, "input `%s` is %s", f->name, type), c);
  } else if (!attribute_fits(f->type, &p->type)) {
    const char *c = f->type->name[0] == 'i' ? "int64_t" : f->type->name;
    mismatch(k, p, arena_printf(a, "attribute `%s` is %s", f->name, type), c);
  }
}

static void check_result(Checking *k, const CParam *p, Role *role) {
  Arena *a = k->a->arena;
  const TypeExpr *type = k->op->decl->type;
  role->kind = ROLE_result;
  external_dtype(type, &role->dtype);
  if (k->result) {
    diag_report(DIAG_E0909, p->at, "a second DDP_OUT; an operator has one result");
    k->wrong = true;
  }
  k->result = true;
  if (!pointer_fits(&p->type, role->dtype, false))
    mismatch(k, p, arena_printf(a, "the result is %s", span_text(a, type->span)),
             arena_printf(a, "%s *", dtype_ctype(role->dtype)));
}

static void check_size(Checking *k, const CParam *p, Role *role) {
  role->kind = ROLE_size;
  role->dtype = DT_i64;
  if (!p->type.known || p->type.pointer || p->type.dtype != DT_i64)
    mismatch(k, p, arena_printf(k->a->arena, "`%s` is a size", p->name), "int64_t");
}

static void unknown_parameter(Checking *k, const CParam *p, const char *name, Span at) {
  const Decl *d = k->op->decl;
  TextNearest near = {.wanted = name};
  for (uint32_t i = 0; i < d->formals.len; i++) text_offer(&near, d->formals.at[i].name);
  diag_report(DIAG_E0909, at, "no input, attribute or size of `%s` is called `%s`", d->name.text,
              name);
  if (near.best)
    diag_help("did you mean `%s`?", near.best);
  else if (p->type.pointer && !p->type.constant)
    diag_help("the result is marked with DDP_OUT");
  else
    diag_help("DDP_SIZE(expression) says what a size is");
  k->wrong = true;
}

static void check_param(Checking *k, const CParam *p, Role *role) {
  Arena *a = k->a->arena;
  const CNote *note = p->note;
  if (note[NOTE_out].given) {
    check_result(k, p, role);
    return;
  }
  if (note[NOTE_size].given) {
    role->size = has_text(&note[NOTE_size], "DDP_SIZE")
                     ? parse_note(a, with_parens(&note[NOTE_size]))
                     : NULL;
    if (!role->size) k->wrong = true;
    check_size(k, p, role);
    return;
  }
  const CNote *named = note[NOTE_in].given ? &note[NOTE_in] : &note[NOTE_attr];
  bool renamed = named->given && named->text.end > named->text.begin;
  const char *name = renamed ? note_word(a, named) : p->name;
  Span at = renamed ? named->text : p->at;
  int i = formal_named(k->op->decl, name);
  if (i >= 0) {
    check_formal(k, p, i, role);
    return;
  }
  role->size = named->given ? NULL : size_named(k->op->decl, name);
  if (role->size)
    check_size(k, p, role);
  else
    unknown_parameter(k, p, name, at);
}

/* ---------- one operator ---------- */

static bool check_head(const Decl *d) {
  bool good = true;
  int tensors = 0;
  DType unused;
  for (uint32_t i = 0; i < d->formals.len; i++) {
    const Formal *f = &d->formals.at[i];
    bool tensor = external_is_tensor(f) && external_dtype(f->type, &unused);
    tensors += tensor;
    if (tensor || is_attribute(f->type)) continue;
    diag_report(DIAG_E0909, f->type->span,
                "`%s` can be a tensor, or an attribute: float, int or bool", f->name);
    good = false;
  }
  if (!external_dtype(d->type, &unused)) {
    diag_report(DIAG_E0909, d->type->span, "the result cannot be of this type");
    good = false;
  }
  if (tensors >= 1 && tensors <= IR_MAX_LISTED) return good;
  diag_report(DIAG_E0909, d->name.span, "an operator takes 1 to %d tensors, `%s` takes %d",
              IR_MAX_LISTED, d->name.text, tensors);
  return false;
}

static bool check_params(Analysis *a, NativeOp *op) {
  const Decl *d = op->decl;
  Checking k = {.a = a, .op = op, .last = -1};
  k.seen = ARENA_ARRAY(a->arena, bool, d->formals.len + 1);
  for (uint32_t i = 0; i < op->c->params.len; i++) {
    Role role = {.kind = ROLE_size};
    check_param(&k, &op->c->params.at[i], &role);
    vec_push(a->arena, &op->roles, role);
  }
  if (k.wrong) return false;
  for (uint32_t i = 0; i < d->formals.len; i++) {
    if (k.seen[i]) continue;
    diag_report(DIAG_E0909, d->formals.at[i].span, "the C function `%s` takes no `%s`", op->c->name,
                d->formals.at[i].name);
    k.wrong = true;
  }
  if (!k.result) {
    diag_report(DIAG_E0909, op->c->at, "no parameter of `%s` is marked with DDP_OUT", op->c->name);
    k.wrong = true;
  }
  if (!op->c->returns_void) {
    diag_report(DIAG_E0909, op->c->at, "`%s` must return void; its result goes to DDP_OUT",
                op->c->name);
    k.wrong = true;
  }
  return !k.wrong;
}

static bool read_grad(Arena *a, NativeOp *op) {
  const CNote *n = &op->c->note[NOTE_grad];
  if (!has_text(n, "DDP_GRAD")) return false;
  op->grad = parse_note(a, (Span){n->at.file, n->at.begin, n->text.end + 1});
  if (!op->grad) return false;
  bool good = op->grad->kind == EXPR_call;
  for (uint32_t i = 0; good && i < op->grad->as.call.args.len; i++) {
    const Arg *arg = &op->grad->as.call.args.at[i];
    int f = arg->name ? formal_named(op->decl, arg->name) : -1;
    bool tensor = f >= 0 && external_is_tensor(&op->decl->formals.at[f]);
    if (tensor) continue;
    diag_report(DIAG_E0909, arg->span, "expected `INPUT = gradient` with an input of `%s`",
                op->decl->name.text);
    good = false;
  }
  return good;
}

/* ("x.ddp", name): the definition of that name, with the formals of the annotation. */
static bool find_body(Analysis *a, File *file, NativeOp *op, const Expr *pair) {
  const Expr *path = pair->as.items.at[0], *name = pair->as.items.at[1];
  Decl d = {.kind = DECL_import, .span = path->span, .file_span = path->span};
  d.file = arena_strndup(a->arena, path->as.text.text, path->as.text.length);
  const char *folder = path_directory(a->arena, file->path);
  if (!strncmp(folder, "std/", 4)) d.file = arena_printf(a->arena, "%s%s", folder, d.file);
  op->body_file = import_file(a, file, &d);
  if (!op->body_file) return false;
  op->body = file_find(op->body_file, name->as.name.text);
  const Decl *def = op->body ? op->body->decl : NULL;
  bool same = def && def->kind == DECL_def && def->formals.len == op->decl->formals.len;
  for (uint32_t i = 0; same && i < def->formals.len; i++)
    same = !strcmp(def->formals.at[i].name, op->decl->formals.at[i].name);
  if (op->body) op->body->used = true;
  if (same) return true;
  if (!def || def->kind != DECL_def) {
    diag_report(DIAG_E0909, name->span, "`%s` has no `def %s`", d.file, name->as.name.text);
  } else {
    diag_report(DIAG_E0909, name->span, "`%s` does not take what `%s` takes", name->as.name.text,
                op->decl->name.text);
    diag_note(def->name.span, "the body");
  }
  return false;
}

static bool read_body(Analysis *a, File *file, NativeOp *op, Decl *decl) {
  const CNote *n = &op->c->note[NOTE_body];
  if (!has_text(n, "DDP_BODY")) return false;
  Expr *x = parse_note(a->arena, with_parens(n));
  if (!x) return false;
  if (x->kind != EXPR_tuple) {
    decl->value = x;
    return true;
  }
  bool pair = x->as.items.len == 2 && x->as.items.at[0]->kind == EXPR_text &&
              x->as.items.at[1]->kind == EXPR_name;
  if (pair) return find_body(a, file, op, x);
  diag_report(DIAG_E0909, n->text, "expected an expression, or `\"FILE.ddp\", NAME`");
  return false;
}

static bool read_op(Analysis *a, File *file, const CFunction *c, NativeOp *op) {
  *op = (NativeOp){.c = c};
  if (!c->note[NOTE_op].given) {
    diag_report(DIAG_E0909, c->at, "`%s` has annotations but no DDP_OP", c->name);
    return false;
  }
  Decl *decl = parse_head(a->arena, &c->note[NOTE_op]);
  if (!decl || !check_head(decl)) return false;
  op->decl = decl;
  bool good = check_params(a, op);
  if (c->note[NOTE_body].given) good = read_body(a, file, op, decl) && good;
  if (c->note[NOTE_grad].given) good = read_grad(a->arena, op) && good;
  return good;
}

/* ---------- files ---------- */

static const char *beside(Arena *a, const char *header, const char *ending) {
  const char *dot = strrchr(header, '.');
  const char *path = arena_printf(a, "%.*s%s", (int)(dot - header), header, ending);
  return access(path, R_OK) ? NULL : path;
}

static bool all_inside(const CHeader *h) {
  for (uint32_t i = 0; i < h->functions.len; i++)
    if (!h->functions.at[i].inside) return false;
  return true;
}

static void add_op(Analysis *a, File *file, Natives *n, const NativeOp *op) {
  FileName *old = file_find(file, op->decl->name.text);
  if (old) {
    diag_report(DIAG_E0302, op->decl->name.span, "`%s` is declared twice in this header",
                op->decl->name.text);
    diag_note(old->decl->name.span, "the first declaration");
    return;
  }
  FileName name = {.name = op->decl->name.text, .decl = op->decl};
  vec_push(a->arena, &file->names, name);
  vec_push(a->arena, &n->ops, *op);
}

static File *make_file(Analysis *a, const Decl *d, uint32_t source, const char *path) {
  NativeHeader native = {.path = path, .source = source};
  native.include = job_shown_path(a->job, source_get(source)->path);
  File *file = ARENA_NEW(a->arena, File);
  file->ast = ARENA_NEW(a->arena, AstFile);
  file->ast->source = source;
  file->ast->path = file->path = source_get(source)->path;
  file->ast->edition = 1;
  file->ast->ok = true;
  file->library = true;
  file->natives = ARENA_NEW(a->arena, Natives);
  CHeader *h = ARENA_NEW(a->arena, CHeader);
  const char *folders[2];
  uint32_t n = 0;
  if (a->options->include) folders[n++] = a->options->include(a->arena);
  if (n && !folders[0]) {
    diag_report(DIAG_E0307, d->file_span, "cannot read `%s` without the runtime's headers",
                d->file);
    return NULL;
  }
  folders[n++] = *a->job->directory ? a->job->directory : ".";
  if (!cimport_read(a->arena, source, path, folders, n, d->span, h)) return NULL;
  bool good = true;
  for (uint32_t i = 0; i < h->functions.len; i++) {
    NativeOp op;
    if (read_op(a, file, &h->functions.at[i], &op))
      add_op(a, file, file->natives, &op);
    else
      good = false;
  }
  if (!good) return NULL;
  if (!h->functions.len) {
    diag_report(DIAG_E0909, d->file_span, "`%s` has no function with DDP_OP", d->file);
    return NULL;
  }
  native.c_file = beside(a->arena, path, ".c");
  native.cu_file = beside(a->arena, path, ".cu");
  file->natives->import = d;
  file->natives->inside = all_inside(h);
  file->natives->number = a->job->natives.len;
  vec_push(a->arena, &a->job->natives, native);
  return file;
}

/* The first operator that only its function defines, or NULL. */
static const NativeOp *without_body(const Natives *n) {
  for (uint32_t i = 0; i < n->ops.len; i++)
    if (!n->ops.at[i].body && !n->ops.at[i].decl->value) return &n->ops.at[i];
  return NULL;
}

/* The functions run on CPUs, where there is a source for them. */
static void choose(Analysis *a, Natives *n) {
  NativeHeader *native = &a->job->natives.at[n->number];
  const char *file = n->import->file;
  const char *stem = arena_strndup(a->arena, file, strlen(file) - 2);
  bool gpu = a->job->target.cuda, source = native->c_file || n->inside;
  n->compiled = native->compiled = source && !gpu;
  if (n->compiled) return;
  Span at = n->import->file_span;
  const NativeOp *op = without_body(n);
  if (!op) {
    if (gpu)
      diag_report(DIAG_W0912, at,
                  "functions in C run on CPUs: for a GPU the bodies of the operators of `%s` are "
                  "compiled",
                  file);
    else
      diag_report(DIAG_W0912, at, "there is no `%s.c`: the bodies of these operators are compiled",
                  stem);
    return;
  }
  n->compiled = true; /* calls have nothing else */
  if (gpu) {
    diag_report(DIAG_E0716, at, "`%s` has no body, and functions in C run on CPUs only",
                op->decl->name.text);
    diag_note(op->decl->name.span, "its head");
    diag_help("say in the header what it means, with `DDP_BODY`: that is compiled for the GPU");
    return;
  }
  diag_report(DIAG_E0307, at, "cannot read `%s.c`: %s", stem, strerror(ENOENT));
  diag_help(native->cu_file ? "this target is a CPU; `%s.cu` is for GPUs"
                            : "the functions of a header stand beside it in `%s.c`",
            stem);
}

void external_choose(Analysis *a) {
  for (uint32_t i = 0; i < a->headers.len; i++) {
    const File *file = a->headers.at[i].file;
    if (file) choose(a, file->natives);
  }
}

/* The text of a file of the library under its name in the library. */
static uint32_t read_library(const char *path, const char *name) {
  uint32_t read = source_read(path);
  return read ? source_add(name, source_get(read)->text, source_get(read)->length) : 0;
}

File *external_file(Analysis *a, File *from, const Decl *d) {
  size_t length = strlen(d->file);
  if (!cimport_available()) {
    cimport_read(a->arena, 0, d->file, NULL, 0, d->span, NULL);
    return NULL;
  }
  if (length < 3 || strcmp(d->file + length - 2, ".h") != 0) {
    diag_report(DIAG_E0307, d->file_span, "`import c` reads a header: a file that ends in `.h`");
    return NULL;
  }
  bool library = !strncmp(d->file, "std/", 4);
  const char *path = path_join(a->arena, path_directory(a->arena, from->path), d->file);
  if (library && a->options->include) {
    const char *include = a->options->include(a->arena);
    if (include) path = arena_printf(a->arena, "%s/%s", include, d->file);
  }
  char *real = realpath(path, NULL);
  for (uint32_t i = 0; real && i < a->headers.len; i++) {
    if (strcmp(a->headers.at[i].real, real) != 0) continue;
    free(real);
    if (a->headers.at[i].open)
      diag_report(DIAG_E0308, d->file_span, "imports form a cycle: `%s` is being read", d->file);
    return a->headers.at[i].file;
  }
  uint32_t source = !real ? 0 : library ? read_library(path, d->file) : source_read(path);
  if (!source) {
    diag_report(DIAG_E0307, d->file_span, "cannot read `%s`: %s", d->file, strerror(errno));
    free(real);
    return NULL;
  }
  LoadedFile entry = {.real = arena_strdup(a->arena, real), .open = true};
  free(real);
  uint32_t number = a->headers.len;
  vec_push(a->arena, &a->headers, entry);
  File *file = make_file(a, d, source, path);
  a->headers.at[number].file = file;
  a->headers.at[number].open = false;
  return file;
}
