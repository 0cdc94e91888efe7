/* Pieces of calls that modules.c and rule.c use too. */
#ifndef SEMA_CALL_H
#define SEMA_CALL_H
#include "eval.h"

/* Enters a call: frame and source scope; false when the limit is reached. Undone by call_leave. */
typedef struct CallGuard {
  Frame frame;
  const Frame *caller;
  Scope scope;
} CallGuard;
bool call_enter(Eval *e, CallGuard *g, const char *what, const Decl *decl, Span at);
bool call_enter_instance(Eval *e, CallGuard *g, const Instance *i, Span at);
void call_leave(Eval *e, const CallGuard *g);

/* Name of an instance for messages: its path, or the name of its module at the root. */
const char *instance_name(const Instance *i);
#endif
