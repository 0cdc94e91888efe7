/* Sizes of signatures: bound where they stand alone in an input, checked everywhere else. */
#ifndef SEMA_SIZES_H
#define SEMA_SIZES_H
#include "eval.h"

typedef struct SizedArg {
  const char *name;
  const TypeExpr *type;
  Datum value;
  Span at;
} SizedArg;

/* Ranks first, then sizes, of all tensor arguments; binds sizes in env (E0404-E0408). */
bool sizes_bind(Eval *e, const char *what, const SizedArg *args, uint32_t n, Env *env);
/* The shape of a result fits its declaration; reports nothing about a mere mismatch. */
bool sizes_result(Eval *e, const TypeExpr *type, Datum value, Env *env);
#endif
