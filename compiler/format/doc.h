/* A document: a list of pieces of text and places where lines may end. A group stays on one line if it
   fits in DOC_WIDTH columns; else every line end that belongs to it is taken.

     doc_open(d); doc_text(d, "("); doc_indent(d); doc_soft(d); ... doc_dedent(d); doc_soft(d);
     doc_text(d, ")"); doc_close(d);
     doc_print(out, d);

   A comment needs a line end before it, and all groups around it are broken: there is no line with
   text behind a comment. */
#ifndef FORMAT_DOC_H
#define FORMAT_DOC_H
#include "text.h"
#include "vec.h"
#include <stdbool.h>

enum { DOC_WIDTH = 100 };

typedef enum PieceKind {
  PIECE_text,
  PIECE_line,   /* a line end; a blank in a group on one line */
  PIECE_soft,   /* a line end; nothing in a group on one line */
  PIECE_hard,   /* a line end */
  PIECE_broken, /* text that is there when the group is broken: the comma after the last item */
  PIECE_flat,   /* text that is there when it is not */
  PIECE_open,
  PIECE_close,
  PIECE_indent,
  PIECE_dedent,
  PIECE_blank,    /* an empty line, if a line ends here */
  PIECE_comment,  /* a line of its own */
  PIECE_trailing, /* a comment behind the line that ends here */
} PieceKind;

typedef struct Piece {
  PieceKind kind;
  bool forced;      /* open: the group is broken in any case */
  uint32_t length;  /* of text, in bytes */
  const char *text; /* text, broken, flat, comments */
} Piece;

typedef struct Doc {
  Arena *arena;
  VEC(Piece) pieces;
  VEC(uint32_t) open; /* groups that are not closed */
} Doc;

void doc_text(Doc *d, const char *text); /* not copied */
void doc_text_n(Doc *d, const char *text, size_t length);
void doc_line(Doc *d);
void doc_soft(Doc *d);
void doc_hard(Doc *d);
void doc_if_broken(Doc *d, const char *text);
void doc_if_flat(Doc *d, const char *text);
void doc_open(Doc *d);
void doc_close(Doc *d);
void doc_indent(Doc *d);
void doc_dedent(Doc *d);
void doc_blank(Doc *d);
void doc_break(Doc *d); /* breaks the groups that are open */
void doc_comment(Doc *d, const char *text, size_t length, bool trailing);

/* Whether all of it is one line of at most so many columns. */
bool doc_is_one_line(const Doc *d, int room);
void doc_print(Text *out, const Doc *d);
#endif
