/* Pieces of expressions that statements, members and paths use too. */
#ifndef SEMA_EXPR_H
#define SEMA_EXPR_H
#include "eval.h"

/* The text of a name, with the digits of its index; NULL after E0312. Interned. */
const char *name_text(Eval *e, const Name *n, Env *env);
/* Scopes, file, library, builtins; false when nothing has the name (nothing is reported). */
bool name_lookup(Eval *e, Env *env, const char *name, Span at, Datum *out);
Datum member_of(Eval *e, Datum object, const char *name, Span at);
Datum eval_subscript(Eval *e, const Expr *x, Env *env);

/* Items of what `for` walks over. */
bool iterate(Eval *e, Datum d, Span at, DatumList *out);
/* Parts of a tensor along its first dimension, when there are not too many (loop.c). */
bool iterate_tensor(Eval *e, Datum d, Span at, DatumList *out);
/* Evaluates the lists of a loop (lists: one per iterable), all equally long. */
bool loop_lists(Eval *e, const Loop *loop, Env *env, DatumList *lists);
/* The same of what the iterables were evaluated to. */
bool loop_lists_of(Eval *e, const Loop *loop, const Datum *over, DatumList *lists);
/* `for` as a statement, with `yield` or without. */
bool run_for(Eval *e, const Stmt *s, Env *env);
/* One value for each target. */
bool assign_all(Eval *e, Env *env, NameList targets, Datum value, Span at);
/* Counts statements, turns and calls against the limit of 1,000,000; false when it is reached. */
bool count_work(Eval *e, Span at);
/* Names of one turn. */
bool loop_bind(Eval *e, const Loop *loop, const DatumList *lists, uint32_t turn, Env *env);

/* `require`: E0417 when the condition does not hold. */
bool require_holds(Eval *e, const Expr *condition, const char *message, Env *env, Span at);

/* Offers the names of the library for "did you mean". */
void library_offer(Program *p, TextNearest *near);
#endif
