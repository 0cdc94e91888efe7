/* Text -> AST: tokens, then the bison parser. */
#include "parse.h"
#include "parser.h"
#include "build.h"
#include "ddp.tab.h"
#include <stdarg.h>

bool parse_report(Parse *p, DiagCode code, Span at, const char *format, ...) {
  bool warning = diag_name(code)[0] == 'W';
  if (!warning) p->failed = true;
  if (p->reports >= REPORTS_MAX) return false;
  p->reports++;
  va_list args;
  va_start(args, format);
  char *text = arena_vprintf(p->scratch, format, args);
  va_end(args);
  diag_report(code, at, "%s", text);
  return true;
}

/* False when there was nothing to parse. */
static bool run(Parse *p, uint32_t source, Arena *arena, int first) {
  const Source *s = source_get(source);
  p->arena = arena;
  p->scratch = arena_new();
  p->source = source;
  p->text = s->view ? s->view : s->text;
  p->length = s->length > UINT32_MAX ? UINT32_MAX : (uint32_t)s->length;
  p->file = ARENA_NEW(arena, AstFile);
  p->file->source = source;
  p->file->path = s->path;
  p->file->edition = 1;
  bool read = tokens_read(p, first);
  if (!read || ddp_parse(p) != 0) p->failed = true;
  p->file->comments.at = p->comments.at;
  p->file->comments.len = p->comments.len;
  p->file->ok = !p->failed;
  tokens_free(&p->tokens);
  arena_free(p->scratch);
  return read;
}

AstFile *parse_source(Arena *arena, uint32_t source) {
  Parse p = {0};
  run(&p, source, arena, T_START_FILE);
  return p.file;
}

Expr *parse_expression(Arena *arena, uint32_t source) {
  Parse p = {0};
  run(&p, source, arena, T_START_EXPRESSION);
  return p.failed ? NULL : p.expression;
}
