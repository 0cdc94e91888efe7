/* What nest.c and nest_index.c share: interning of index nodes. Private to compiler/ir. */
#ifndef IR_NEST_MEMO_H
#define IR_NEST_MEMO_H
#include "nest.h"

NestIndex nest_ix_intern(Nest *n, Ix x);
#endif
