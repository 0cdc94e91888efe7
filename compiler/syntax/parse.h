/* Text -> AST. Errors go to diag; the tree holds *_error nodes where text was dropped. */
#ifndef SYNTAX_PARSE_H
#define SYNTAX_PARSE_H
#include "arena.h"
#include "ast.h"

/* Parses a registered source (source.h). Never NULL. */
AstFile *parse_source(Arena *arena, uint32_t source);
/* Parses one expression, e.g. "g * x1" of the op table or the value of -D; NULL after an error. */
Expr *parse_expression(Arena *arena, uint32_t source);
#endif
