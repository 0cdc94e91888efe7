/* One text through the parser. In: any bytes. Holds afterwards: no crash, no leak; the tree prints;
   places lie in the text; a refused text has a diagnostic, an accepted one none but warnings; the same
   bytes give the same tree. */
#include "diag.h"
#include "parse.h"
#include "print.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "parser_target: %s does not hold\n", #condition);                            \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

static void check_span(Span s, size_t size) {
  MUST(s.begin <= s.end);
  MUST(s.end <= size);
}

static void check_expr(const Expr *e, size_t size) {
  if (!e) return;
  check_span(e->span, size);
  MUST(e->depth >= 1 && e->depth <= AST_DEPTH_MAX);
  if (e->kind == EXPR_binary) {
    check_expr(e->as.binary.left, size);
    check_expr(e->as.binary.right, size);
  } else if (e->kind == EXPR_unary) {
    check_expr(e->as.unary.operand, size);
  } else if (e->kind == EXPR_call) {
    check_expr(e->as.call.callee, size);
    for (uint32_t i = 0; i < e->as.call.args.len; i++) {
      check_expr(e->as.call.args.at[i].value, size);
    }
  }
}

static void check_file(const AstFile *f, size_t size) {
  for (uint32_t i = 0; i < f->decls.len; i++) {
    const Decl *d = f->decls.at[i];
    check_span(d->span, size);
    check_expr(d->value, size);
    for (uint32_t k = 0; k < d->members.len; k++) check_span(d->members.at[k]->span, size);
    for (uint32_t k = 0; k < d->settings.len; k++) check_expr(d->settings.at[k].value, size);
    for (uint32_t k = 0; k < d->body.len; k++) check_span(d->body.at[k]->span, size);
    MUST(!f->ok || d->kind != DECL_error);
  }
  for (uint32_t i = 0; i < f->comments.len; i++) check_span(f->comments.at[i].span, size);
}

static void flush_unseen(void) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  MUST(out);
  diag_flush(out, false);
  fclose(out);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint32_t source = source_add("fuzz.ddp", (const char *)data, size);
  Arena *arena = arena_new();
  Text first = {0}, second = {0};
  unsigned before = diag_errors();
  AstFile *file = parse_source(arena, source);
  MUST(file->ok == (diag_errors() == before));
  check_file(file, size);
  ast_print(&first, file);
  flush_unseen();
  ast_print(&second, parse_source(arena, source));
  MUST(strcmp(first.at, second.at) == 0);
  parse_expression(arena, source);
  flush_unseen();
  text_free(&first);
  text_free(&second);
  arena_free(arena);
  source_drop_last();
  return 0;
}
