/* AST -> canonical S-expressions, for --dump=ast and tests of the tree. */
#ifndef SYNTAX_PRINT_H
#define SYNTAX_PRINT_H
#include "ast.h"
#include "text.h"
void ast_print(Text *out, const AstFile *file);
void ast_print_expr(Text *out, const Expr *e);
#endif
