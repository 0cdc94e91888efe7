/* Hand-written kernels behind `@kernel("name")` of functions. The body is evaluated in any case: it is the
   meaning, gives the type, and stays where the kernel says no; otherwise its values are not used. */
#ifndef SEMA_KERNEL_H
#define SEMA_KERNEL_H
#include "eval.h"

/* E0906 where the name is not known or the formals are others; NULL is no kernel. */
void kernel_check(const char *name, FormalList formals, Span at);

/* A call of a definition with a kernel: the arguments as they are bound, before the body changes them. */
typedef struct KernelCall {
  Eval *e;
  const Decl *decl;
  Env *env;
  Val first; /* values from here on are the body's */
  Span at;
} KernelCall;
/* False: there is nothing that could replace the body. */
bool kernel_begin(KernelCall *c, Eval *e, const Decl *d, Env *env, Span at);
/* The call of the kernel, or the body's result and a remark why. */
Datum kernel_end(const KernelCall *c, Datum body);
#endif
