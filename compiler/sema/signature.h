/* Arguments against formals: matching, defaults, kinds, dtypes, ranks, sizes, in that order. */
#ifndef SEMA_SIGNATURE_H
#define SEMA_SIGNATURE_H
#include "eval.h"

typedef struct Signature {
  const char *what; /* for messages: "relu", "net.fc1" */
  FormalList formals;
  Span at; /* of the definition */
} Signature;

typedef enum Bound {
  BOUND_ok,
  BOUND_wrong, /* reported */
  BOUND_waits, /* nothing but arguments of a place is missing: a recipe */
} Bound;

/* Binds formals and sizes in env, whose parent is where defaults and types look names up. */
Bound signature_bind(Eval *e, const Signature *s, CallArgs args, Env *env, Span at);
/* Checks a result against its declared type (E0518). */
bool signature_result(Eval *e, const char *what, const TypeExpr *type, Env *env, Datum value,
                      Span at);
/* A name that a place may supply: shape, step, warmup, total, base_lr, p. */
bool place_supplies(const char *name);
/* First letter upper case: may be a size. */
bool size_like(const char *name);
/* Known to anything that a body sees: scopes, file, library, builtins. */
bool name_known(Eval *e, Env *env, const char *name);
/* Text of a place, for messages. */
const char *span_text(Arena *a, Span at);
#endif
