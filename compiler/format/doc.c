/* Pieces to lines. A group is measured where it begins, with what follows up to the next possible line
   end; a line end is written when something follows it, so that comments can still go before it. */
#include "doc.h"

static void push(Doc *d, Piece p) {
  vec_push(d->arena, &d->pieces, p);
}

void doc_text_n(Doc *d, const char *text, size_t length) {
  push(d, (Piece){.kind = PIECE_text, .text = text, .length = (uint32_t)length});
}
void doc_text(Doc *d, const char *text) {
  doc_text_n(d, text, strlen(text));
}
void doc_line(Doc *d) {
  push(d, (Piece){.kind = PIECE_line});
}
void doc_soft(Doc *d) {
  push(d, (Piece){.kind = PIECE_soft});
}
void doc_hard(Doc *d) {
  doc_break(d);
  push(d, (Piece){.kind = PIECE_hard});
}
void doc_if_broken(Doc *d, const char *text) {
  push(d, (Piece){.kind = PIECE_broken, .text = text, .length = (uint32_t)strlen(text)});
}
void doc_if_flat(Doc *d, const char *text) {
  push(d, (Piece){.kind = PIECE_flat, .text = text, .length = (uint32_t)strlen(text)});
}
void doc_indent(Doc *d) {
  push(d, (Piece){.kind = PIECE_indent});
}
void doc_dedent(Doc *d) {
  push(d, (Piece){.kind = PIECE_dedent});
}
void doc_blank(Doc *d) {
  push(d, (Piece){.kind = PIECE_blank});
}

void doc_open(Doc *d) {
  vec_push(d->arena, &d->open, d->pieces.len);
  push(d, (Piece){.kind = PIECE_open});
}

/* What is broken breaks what is around it. */
void doc_close(Doc *d) {
  bool forced = d->pieces.at[d->open.at[--d->open.len]].forced;
  if (forced) doc_break(d);
  push(d, (Piece){.kind = PIECE_close});
}

void doc_break(Doc *d) {
  if (d->open.len) d->pieces.at[d->open.at[d->open.len - 1]].forced = true;
}

void doc_comment(Doc *d, const char *text, size_t length, bool trailing) {
  doc_break(d);
  push(d, (Piece){.kind = trailing ? PIECE_trailing : PIECE_comment,
                  .text = text,
                  .length = (uint32_t)length});
}

/* ---------- printing ---------- */
typedef struct Printer {
  Text *out;
  const Doc *doc;
  int column, indent;
  int ends; /* line ends that are due: 0, 1, or 2 for an empty line */
  int ends_indent;
  VEC(bool) flat; /* of the groups around */
} Printer;

static int columns(const Piece *p) {
  int n = 0;
  for (uint32_t i = 0; i < p->length; i++) n += ((unsigned char)p->text[i] & 0xC0) != 0x80;
  return n;
}

/* Whether the group that opens at `at` and what follows it up to the next line end fit. */
static bool fits(const Doc *d, uint32_t at, int room) {
  int depth = 0; /* 0 and less: behind the group */
  for (uint32_t i = at; i < d->pieces.len && room >= 0; i++) {
    const Piece *p = &d->pieces.at[i];
    switch (p->kind) {
    case PIECE_open:
      if (depth > 0 || i == at) depth++;
      break;
    case PIECE_close:
      if (depth > 0) depth--;
      break;
    case PIECE_text:
      room -= columns(p);
      break;
    case PIECE_flat:
      if (depth > 0) room -= columns(p);
      break;
    case PIECE_broken:
      if (depth <= 0) room -= columns(p);
      break;
    case PIECE_line:
    case PIECE_soft:
    case PIECE_hard:
      if (depth <= 0) return true;
      room -= p->kind == PIECE_line;
      break;
    default:
      break;
    }
  }
  return room >= 0;
}

bool doc_is_one_line(const Doc *d, int room) {
  for (uint32_t i = 0; i < d->pieces.len; i++) {
    const Piece *p = &d->pieces.at[i];
    if (p->kind == PIECE_hard || p->kind == PIECE_comment || p->kind == PIECE_trailing)
      return false;
    if (p->kind == PIECE_open && p->forced) return false;
    if (p->kind == PIECE_text || p->kind == PIECE_flat) room -= columns(p);
    if (p->kind == PIECE_line) room--;
  }
  return room >= 0;
}

static void write_text(Printer *r, const Piece *p) {
  if (r->ends) {
    if (r->out->len) text_add(r->out, r->ends == 2 ? "\n\n" : "\n");
    for (int i = 0; i < r->ends_indent; i++) text_add(r->out, "  ");
    r->column = 2 * r->ends_indent;
    r->ends = 0;
  }
  text_add_n(r->out, p->text, p->length);
  r->column += columns(p);
}

static void write_line(Printer *r, const Piece *p) {
  bool flat = r->flat.len && r->flat.at[r->flat.len - 1] && p->kind != PIECE_hard;
  if (flat) {
    static const Piece blank = {.kind = PIECE_text, .text = " ", .length = 1};
    if (p->kind == PIECE_line) write_text(r, &blank);
    return;
  }
  if (!r->ends) r->ends = 1;
  r->ends_indent = r->indent;
}

static void write_comment(Printer *r, const Piece *p) {
  if (p->kind == PIECE_trailing && r->out->len) {
    text_add(r->out, " ");
    text_add_n(r->out, p->text, p->length);
    return;
  }
  write_text(r, p);
  r->ends = 1; /* the indentation stays */
}

static void open_group(Printer *r, uint32_t i) {
  const Piece *p = &r->doc->pieces.at[i];
  int column = r->ends ? 2 * r->ends_indent : r->column;
  bool flat = r->flat.len && r->flat.at[r->flat.len - 1];
  flat = flat || (!p->forced && fits(r->doc, i, DOC_WIDTH - column));
  vec_push(r->doc->arena, &r->flat, flat);
}

void doc_print(Text *out, const Doc *d) {
  Printer r = {.out = out, .doc = d};
  for (uint32_t i = 0; i < d->pieces.len; i++) {
    const Piece *p = &d->pieces.at[i];
    bool flat = r.flat.len && r.flat.at[r.flat.len - 1];
    switch (p->kind) {
    case PIECE_text:
      write_text(&r, p);
      break;
    case PIECE_broken:
    case PIECE_flat:
      if (flat == (p->kind == PIECE_flat)) write_text(&r, p);
      break;
    case PIECE_line:
    case PIECE_soft:
    case PIECE_hard:
      write_line(&r, p);
      break;
    case PIECE_open:
      open_group(&r, i);
      break;
    case PIECE_close:
      r.flat.len--;
      break;
    case PIECE_indent:
      r.indent++;
      break;
    case PIECE_dedent:
      r.indent--;
      break;
    case PIECE_blank:
      if (r.ends) r.ends = 2;
      break;
    case PIECE_comment:
    case PIECE_trailing:
      write_comment(&r, p);
      break;
    }
  }
  text_add(out, "\n");
}
