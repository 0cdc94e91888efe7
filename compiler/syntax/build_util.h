/* Helpers that the constructors share. Private to this folder. */
#ifndef SYNTAX_BUILD_UTIL_H
#define SYNTAX_BUILD_UTIL_H
#include "build.h"
#include "parser.h"

/* Moves a finished list into a node: LIST_SET(node->args, args). */
#define LIST_SET(field, vec)                                                                       \
  do {                                                                                             \
    if (vec) {                                                                                     \
      (field).at = (vec)->at;                                                                      \
      (field).len = (vec)->len;                                                                    \
    }                                                                                              \
  } while (0)

/* What may end a body. */
typedef enum BodyEnd { ENDS_plain, ENDS_with_return, ENDS_with_yield } BodyEnd;
/* Gives the statements of a body and refuses a wrong, missing or needless end of it; `at` is the
   place of what holds the body, `owner` names it in messages. */
StmtList block_close(Parse *p, Span at, const Block *b, BodyEnd end, const char *owner);
/* E0213 when the body holds nothing; true when it does. */
bool block_not_empty(Parse *p, Span at, const Block *b, const char *owner);
/* Text of a string literal; NULL for no place. */
const char *text_at(Parse *p, const Span *at);
#endif
