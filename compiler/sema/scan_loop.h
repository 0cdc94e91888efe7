/* `for` over tensors as a loop of the program; loop.c decides which loops are. */
#ifndef SEMA_SCAN_LOOP_H
#define SEMA_SCAN_LOOP_H
#include "eval.h"

/* walked: one tensor for each iterable, all `length` long; changed. */
bool run_scan(Eval *e, const Stmt *s, Env *env, Val *walked, Dim length);
#endif
