/* Arithmetic on values: numbers are folded with the rules of the language (no silent overflow, no NaN
   out of numbers), symbolic sizes by their normal form, host scalars and tensors become graph nodes. */
#ifndef SEMA_FOLD_H
#define SEMA_FOLD_H
#include "eval.h"

Datum fold_unary(Eval *e, UnaryOp op, Datum x, Span at);
/* at: the operator, for faults of folding; whole: the expression, for mismatches of shapes. */
Datum fold_binary(Eval *e, BinaryOp op, Datum a, Datum b, Span at, Span whole);
/* An elementwise op of the table applied to any mixture of numbers, host scalars and tensors. */
Datum fold_elementwise(Eval *e, OpKind op, const Datum *in, int n, Span at);
/* a @ b; a transposition right before it becomes an attribute of the product. */
Datum fold_matmul(Eval *e, Datum a, Datum b, Span at);

/* a + sign * b; E0511 when it does not fit. */
bool dim_sum(Eval *e, Dim a, Dim b, int sign, Span at, Dim *out);

bool datum_is_numeric(Datum d);    /* known number or bool */
bool datum_is_tensorlike(Datum d); /* tensor, leaf */
#endif
