/* Shared by print and parse of textual IR, and by whoever else reads attributes as text (the op
   table's own attribute column and samples). */
#ifndef IR_IR_TEXT_H
#define IR_IR_TEXT_H
#include "ir.h"

extern const char *const ir_output_names[];
extern const int ir_output_kinds;

void ir_print_attr(Text *out, AttrKind kind, const Attr *a); /* no graph: print.c, read.c */

/* Cursor over text. Readers skip blanks (not line ends), return false without moving far when the
   text is not theirs, and never read past the NUL. */
typedef struct IrText {
  const char *at;
} IrText;
void ir_text_blanks(IrText *t);
bool ir_text_char(IrText *t, char c);                /* takes c if it is next */
bool ir_text_word(IrText *t, char *out, size_t cap); /* letters, digits, `_`, `.`; not a number */
bool ir_text_int(IrText *t, int64_t *out);
bool ir_text_dim(IrText *t, Dim *out); /* "B", "2B+1", "64" */
bool ir_text_type(IrText *t, Type *out);
bool ir_text_attr(IrText *t, AttrKind kind, Attr *out);
#endif
