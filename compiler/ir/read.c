/* Text -> Graph, for --from-ir and for the tests of single passes. The grammar is that of ir_print:

     graph NAME [training] {
       %1 = op %a, %b attr=value ... [: TYPE [again=N] [kept]]   [; scope.path place]
       out KIND INDEX %1
     }

   The value of an attribute that is a graph is such lines in braces.

   Numbers of values are names: any order of counting, each given once before it is used. Types are
   inferred; a written one must agree. `;` starts a comment; its first word is the scope. */
#include "diag.h"
#include "ir_text.h"
#include "op.h"
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
  IrText text;
  const char *start; /* of the source */
  uint32_t file;
  Arena *arena;
  Graph *g;
  VEC(Val) map; /* number in the text -> value */
  bool failed;
} Reader;

static Span here(const Reader *r) {
  uint32_t at = (uint32_t)(r->text.at - r->start);
  return (Span){r->file, at, at + (*r->text.at != 0)};
}

static bool unexpected(Reader *r, const char *wanted) {
  if (!r->failed) diag_report(DIAG_E0201, here(r), "unexpected text: %s belongs here", wanted);
  r->failed = true;
  return false;
}

static bool fault(Reader *r, int code, const char *message) {
  char name[16];
  DiagCode c = DIAG_E0201;
  snprintf(name, sizeof name, "E%04d", code);
  diag_find(name, &c);
  if (!r->failed) diag_report(c, here(r), "%s", message);
  r->failed = true;
  return false;
}

static void skip_line(Reader *r) {
  while (*r->text.at && *r->text.at != '\n') r->text.at++;
}

/* Comments behind values are read by read_scope; elsewhere they are skipped as white space is. */
static void skip_space(Reader *r) {
  for (;;) {
    ir_text_blanks(&r->text);
    if (*r->text.at == ';') skip_line(r);
    if (*r->text.at != '\n') return;
    r->text.at++;
  }
}

static bool read_ref(Reader *r, uint32_t *number) {
  int64_t n;
  if (!ir_text_char(&r->text, '%') || !ir_text_int(&r->text, &n) || n < 1 || n > 100000000)
    return unexpected(r, "a value such as `%3`");
  *number = (uint32_t)n;
  return true;
}

static bool read_use(Reader *r, Val *out) {
  uint32_t n;
  if (!read_ref(r, &n)) return false;
  *out = n < r->map.len ? r->map.at[n] : NO_VAL;
  if (*out) return true;
  return fault(r, 301, arena_printf(r->arena, "value `%%%u` is not made above this line", n));
}

static bool read_body(Reader *r);

/* { lines }: a graph with scopes and numbers of its own. */
static bool read_inner(Reader *r, Attr *out) {
  if (!ir_text_char(&r->text, '{')) return unexpected(r, "`{`");
  Reader outer = *r;
  r->g = graph_new(r->arena, "body", outer.g->training);
  memset(&r->map, 0, sizeof r->map);
  bool ok = read_body(r);
  out->as.graph = r->g;
  r->g = outer.g;
  r->map.at = outer.map.at;
  r->map.len = outer.map.len;
  r->map.cap = outer.map.cap;
  return ok;
}

static bool read_attrs(Reader *r, OpKind op, Attr *attrs) {
  const OpDef *d = op_def(op);
  bool given[IR_MAX_ATTRS] = {0};
  char word[64];
  ir_default_attrs(op, attrs);
  while (ir_text_word(&r->text, word, sizeof word)) {
    int k = op_attr(op, word);
    if (k < 0)
      return fault(r, 502, arena_printf(r->arena, "`%s` has no attribute `%s`", d->name, word));
    bool begun = ir_text_char(&r->text, '=');
    bool graph = begun && d->attr[k].kind == ATTR_graph;
    if (graph && !read_inner(r, &attrs[k])) return false;
    if (!begun || (!graph && !ir_text_attr(&r->text, d->attr[k].kind, &attrs[k])))
      return unexpected(r, arena_printf(r->arena, "a value for `%s`", word));
    given[k] = true;
  }
  for (int i = 0; i < d->attrs; i++)
    if (!given[i] && !d->attr[i].has_default)
      return fault(r, 503, arena_printf(r->arena, "`%s` needs `%s`", d->name, d->attr[i].name));
  return true;
}

static bool read_type_check(Reader *r, Val v) {
  Type written, inferred = value_at(r->g, v)->type;
  if (!ir_text_char(&r->text, ':')) return true;
  if (!ir_text_type(&r->text, &written)) return unexpected(r, "a type such as `f32[B,64]`");
  if (type_equal(written, inferred)) return true;
  Text t = {0};
  type_print(&t, inferred);
  fault(r, 518, arena_printf(r->arena, "this value is %s", t.at));
  text_free(&t);
  return false;
}

/* again=N kept */
static bool read_marks(Reader *r, Value *v) {
  char word[16];
  int64_t region;
  while (ir_text_word(&r->text, word, sizeof word)) {
    if (!strcmp(word, "kept")) {
      v->kept = true;
      continue;
    }
    if (strcmp(word, "again") != 0 || !ir_text_char(&r->text, '=') ||
        !ir_text_int(&r->text, &region) || region < 0 || region > UINT16_MAX)
      return unexpected(r, "`again=NUMBER`, `kept` or the end of the line");
    v->region = (uint16_t)region;
  }
  return true;
}

/* The comment behind a value: the path of its scope, then a place, which is for people. */
static Scope read_scope(Reader *r) {
  char word[512];
  Scope s = 0;
  if (!ir_text_char(&r->text, ';')) return 0;
  bool path = ir_text_word(&r->text, word, sizeof word) && *r->text.at != ':' && *r->text.at != '/';
  for (char *at = path ? word : NULL, *dot; at; at = dot) {
    dot = strchr(at, '.');
    if (dot) *dot++ = 0;
    s = graph_scope(r->g, s, at);
  }
  skip_line(r);
  return s;
}

static void define(Reader *r, uint32_t number, Val v) {
  while (r->map.len <= number) vec_push(r->arena, &r->map, NO_VAL);
  r->map.at[number] = v;
}

static bool read_value(Reader *r) {
  uint32_t number;
  char word[64];
  OpKind op;
  Val in[IR_MAX_INPUTS];
  Attr attrs[IR_MAX_ATTRS] = {0};
  int n = 0;
  Span at = here(r);
  if (!read_ref(r, &number)) return false;
  if (number < r->map.len && r->map.at[number])
    return fault(r, 302, arena_printf(r->arena, "value `%%%u` is made twice", number));
  if (!ir_text_char(&r->text, '=') || !ir_text_word(&r->text, word, sizeof word))
    return unexpected(r, "`= op`");
  if (!op_find(word, &op)) return fault(r, 301, arena_printf(r->arena, "unknown op `%s`", word));
  ir_text_blanks(&r->text);
  if (*r->text.at == '%') {
    do {
      if (n == IR_MAX_INPUTS) return unexpected(r, "no further input");
      if (!read_use(r, &in[n++])) return false;
    } while (ir_text_char(&r->text, ','));
  }
  if (!read_attrs(r, op, attrs)) return false;
  const char *error = "";
  int code = 0;
  Val v = ir_add(r->g, op, in, n, attrs, (Span){0}, 0, &error, &code);
  if (!v) {
    r->text.at = r->start + at.begin;
    return fault(r, code, error);
  }
  if (!read_type_check(r, v)) return false;
  if (!read_marks(r, value_at(r->g, v))) return false;
  value_at(r->g, v)->scope = read_scope(r);
  define(r, number, v);
  return true;
}

static bool read_output(Reader *r) {
  char word[16];
  int64_t index;
  Val v;
  if (!ir_text_word(&r->text, word, sizeof word)) return unexpected(r, "a kind of output");
  for (int k = 0; k < ir_output_kinds; k++) {
    if (strcmp(word, ir_output_names[k]) != 0) continue;
    if (!ir_text_int(&r->text, &index)) return unexpected(r, "the number of the output");
    if (!read_use(r, &v)) return false;
    graph_output(r->g, (OutputKind)k, (int32_t)index, v);
    return true;
  }
  return unexpected(r, "a kind of output");
}

/* Up to the closing brace. */
static bool read_body(Reader *r) {
  char word[128];
  for (;;) {
    skip_space(r);
    if (ir_text_char(&r->text, '}')) return true;
    bool ok = *r->text.at == '%' ? read_value(r)
              : ir_text_word(&r->text, word, sizeof word) && !strcmp(word, "out")
                  ? read_output(r)
                  : unexpected(r, "a value, `out` or `}`");
    if (!ok) return false;
  }
}

static Graph *read_graph(Reader *r) {
  char word[128];
  if (!ir_text_word(&r->text, word, sizeof word) || strcmp(word, "graph") != 0 ||
      !ir_text_word(&r->text, word, sizeof word)) {
    unexpected(r, "`graph NAME {`");
    return NULL;
  }
  const char *name = text_intern(word);
  bool training = ir_text_word(&r->text, word, sizeof word) && !strcmp(word, "training");
  if (!ir_text_char(&r->text, '{')) {
    unexpected(r, "`{`");
    return NULL;
  }
  r->g = graph_new(r->arena, name, training);
  r->map.len = 0;
  return read_body(r) ? r->g : NULL;
}

int ir_parse_all(Arena *a, uint32_t source, Graph **out, int max) {
  const char *text = source_get(source)->text;
  Reader r = {.text = {text}, .start = text, .file = source, .arena = a};
  int n = 0;
  for (skip_space(&r); *r.text.at; skip_space(&r)) {
    if (n == max) {
      unexpected(&r, "the end of the file");
      return -1;
    }
    out[n] = read_graph(&r);
    if (!out[n++]) return -1;
  }
  return n;
}

Graph *ir_parse(Arena *a, uint32_t source) {
  Graph *g = NULL;
  int n = ir_parse_all(a, source, &g, 1);
  if (n == 0) diag_report(DIAG_E0201, (Span){source, 0, 0}, "this file holds no graph");
  return n == 1 ? g : NULL;
}
