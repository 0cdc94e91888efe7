/* C headers through libclang. In: the text of a header. Out: its annotated functions (cimport.h), with
   places in the text. The only file that includes libclang; without it, E0911. */
#include "cimport.h"
#include "diag.h"
#include <string.h>

#if DDP_HAVE_LIBCLANG
#include "clang_api.h"

typedef struct Reading {
  Arena *arena;
  uint32_t source;
  CXFile file;
  CHeader *out;
  CFunction *function; /* being read */
  CParam *param;
} Reading;

static const char *const note_names[NOTE_KINDS] = {
    [NOTE_op] = "ddp.op",    [NOTE_body] = "ddp.body", [NOTE_grad] = "ddp.grad",
    [NOTE_out] = "ddp.out",  [NOTE_in] = "ddp.in",     [NOTE_attr] = "ddp.attr",
    [NOTE_size] = "ddp.size"};

static const char *keep(Arena *a, CXString s) {
  const char *c = clang_getCString(s);
  const char *kept = text_intern(c ? c : "");
  (void)a;
  clang_disposeString(s);
  return kept;
}

/* ---------- places ---------- */

static bool is_word(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The word that begins at a place of the header; no place for other files. */
static Span place(const Reading *r, CXSourceLocation where) {
  CXFile file;
  unsigned offset;
  clang_getExpansionLocation(where, &file, NULL, NULL, &offset);
  if (!file || !clang_File_isEqual(file, r->file)) return (Span){0};
  const Source *s = source_get(r->source);
  uint32_t end = offset;
  while (end < s->length && is_word(s->text[end])) end++;
  return (Span){r->source, offset, end > offset ? end : offset + 1};
}

static uint32_t skip_literal(const Source *s, uint32_t i) {
  char quote = s->text[i++];
  while (i < s->length && s->text[i] != quote) i += s->text[i] == '\\' ? 2 : 1;
  return i + 1;
}

/* The text between the parentheses behind a macro's name. */
static Span arguments(Span name) {
  const Source *s = source_get(name.file);
  uint32_t i = name.end;
  int depth = 0;
  while (i < s->length && strchr(" \t\r\n", s->text[i])) i++;
  if (i >= s->length || s->text[i] != '(') return (Span){name.file, name.end, name.end};
  uint32_t begin = i + 1;
  while (i < s->length) {
    if (s->text[i] == '"' || s->text[i] == '\'') {
      i = skip_literal(s, i);
      continue;
    }
    if (s->text[i] == '(') depth++;
    if (s->text[i] == ')' && --depth == 0) break;
    i++;
  }
  return (Span){name.file, begin, i};
}

/* ---------- declarations ---------- */

static bool dtype_of(CXType t, DType *out) {
  t = clang_getCanonicalType(t);
  long long bytes = clang_Type_getSizeOf(t);
  switch (t.kind) {
  case CXType_Float:
    *out = DT_f32;
    return true;
  case CXType_Double:
    *out = DT_f64;
    return true;
  case CXType_Bool:
    *out = DT_bool;
    return true;
  case CXType_UChar:
    *out = DT_u8;
    return true;
  case CXType_Int:
  case CXType_Long:
  case CXType_LongLong:
    *out = bytes == 4 ? DT_i32 : DT_i64;
    return bytes == 4 || bytes == 8;
  default:
    return false;
  }
}

static CType type_of(Reading *r, CXType t) {
  CType c = {.text = keep(r->arena, clang_getTypeSpelling(t))};
  CXType canonical = clang_getCanonicalType(t);
  c.pointer = canonical.kind == CXType_Pointer;
  if (c.pointer) t = clang_getPointeeType(canonical);
  c.constant = c.pointer && clang_isConstQualifiedType(t);
  c.known = dtype_of(t, &c.dtype);
  return c;
}

static enum CXChildVisitResult visit_note(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  Reading *r = data;
  if (clang_getCursorKind(c) != CXCursor_AnnotateAttr) return CXChildVisit_Continue;
  const char *name = keep(r->arena, clang_getCursorSpelling(c));
  for (int k = 0; k < NOTE_KINDS; k++) {
    if (strcmp(name, note_names[k]) != 0) continue;
    CNote *n = r->param ? &r->param->note[k] : &r->function->note[k];
    Span at = place(r, clang_getCursorLocation(c));
    if (!at.file) continue; /* of a macro of another header */
    *n = (CNote){.given = true, .at = at, .text = arguments(at)};
  }
  return CXChildVisit_Continue;
}

static void read_param(Reading *r, CXCursor c) {
  CParam p = {.name = keep(r->arena, clang_getCursorSpelling(c)),
              .at = place(r, clang_getCursorLocation(c)),
              .type = type_of(r, clang_getCursorType(c))};
  r->param = &p;
  clang_visitChildren(c, visit_note, r);
  r->param = NULL;
  vec_push(r->arena, &r->function->params, p);
}

static enum CXChildVisitResult visit_declaration(CXCursor c, CXCursor parent, CXClientData data) {
  (void)parent;
  Reading *r = data;
  Span at = place(r, clang_getCursorLocation(c));
  if (clang_getCursorKind(c) == CXCursor_LinkageSpec) return CXChildVisit_Recurse;
  if (clang_getCursorKind(c) != CXCursor_FunctionDecl || !at.file) return CXChildVisit_Continue;
  CFunction f = {.name = keep(r->arena, clang_getCursorSpelling(c)), .at = at};
  r->function = &f;
  f.returns_void = clang_getCanonicalType(clang_getCursorResultType(c)).kind == CXType_Void;
  f.inside = !clang_Cursor_isNull(clang_getCursorDefinition(c));
  clang_visitChildren(c, visit_note, r);
  int n = clang_Cursor_getNumArguments(c);
  for (int i = 0; i < n; i++) read_param(r, clang_Cursor_getArgument(c, (unsigned)i));
  bool annotated = f.note[NOTE_op].given || f.note[NOTE_body].given || f.note[NOTE_grad].given;
  for (uint32_t i = 0; i < f.params.len; i++)
    for (int k = 0; k < NOTE_KINDS; k++) annotated = annotated || f.params.at[i].note[k].given;
  if (annotated) vec_push(r->arena, &r->out->functions, f);
  return CXChildVisit_Continue;
}

/* ---------- the whole ---------- */

static bool report_errors(const Reading *r, CXTranslationUnit unit, Span at) {
  unsigned n = clang_getNumDiagnostics(unit);
  for (unsigned i = 0; i < n; i++) {
    CXDiagnostic d = clang_getDiagnostic(unit, i);
    if (clang_getDiagnosticSeverity(d) < CXDiagnostic_Error) {
      clang_disposeDiagnostic(d);
      continue;
    }
    const char *text = keep(r->arena, clang_getDiagnosticSpelling(d));
    CXFile file;
    unsigned line;
    clang_getExpansionLocation(clang_getDiagnosticLocation(d), &file, &line, NULL, NULL);
    Span where = place(r, clang_getDiagnosticLocation(d));
    if (where.file) {
      diag_report(DIAG_E0908, where, "%s", text);
      diag_note(at, "imported here");
    } else {
      const char *name = file ? keep(r->arena, clang_getFileName(file)) : "";
      const char *slash = strrchr(name, '/');
      diag_report(DIAG_E0908, at, "%s:%u: %s", slash ? slash + 1 : name, line, text);
    }
    clang_disposeDiagnostic(d);
    return true;
  }
  return false;
}

bool cimport_available(void) {
  return clang_load();
}

bool cimport_read(Arena *a, uint32_t source, const char *path, const char *const *folders,
                  uint32_t n_folders, Span at, CHeader *out) {
  enum { FIXED = 4 };
  if (!clang_load()) {
    diag_report(DIAG_E0911, at, "libclang, which `import c` needs, cannot be loaded");
    diag_help("install libclang-14-dev, or write the operator in the language");
    return false;
  }
  const Source *s = source_get(source);
  const char **args = ARENA_ARRAY(a, const char *, n_folders + FIXED);
  const char *const fixed[FIXED] = {"-x", "c", "-std=gnu11", "-DDDP_SCAN=1"};
  memcpy(args, fixed, sizeof fixed);
  for (uint32_t i = 0; i < n_folders; i++) args[FIXED + i] = arena_printf(a, "-I%s", folders[i]);
  struct CXUnsavedFile text = {path, s->text, s->length}; /* places agree with what was read */
  CXIndex index = clang_createIndex(0, 0);
  CXTranslationUnit unit = clang_parseTranslationUnit(
      index, path, args, (int)(n_folders + FIXED), &text, 1, CXTranslationUnit_SkipFunctionBodies);
  bool good = unit != NULL;
  if (good) {
    Reading r = {.arena = a, .source = source, .file = clang_getFile(unit, path), .out = out};
    good = !report_errors(&r, unit, at);
    if (good) clang_visitChildren(clang_getTranslationUnitCursor(unit), visit_declaration, &r);
    clang_disposeTranslationUnit(unit);
  } else {
    diag_report(DIAG_E0908, at, "libclang cannot read this header");
  }
  clang_disposeIndex(index);
  return good;
}

#else

bool cimport_available(void) {
  return false;
}

bool cimport_read(Arena *a, uint32_t source, const char *path, const char *const *folders,
                  uint32_t n_folders, Span at, CHeader *out) {
  (void)a, (void)source, (void)path, (void)folders, (void)n_folders, (void)out;
  diag_report(DIAG_E0911, at, "this ddpc was built without libclang, which `import c` needs");
  diag_help("install libclang-14-dev and build ddpc again, or write the operator in the language");
  return false;
}
#endif
