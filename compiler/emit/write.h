/* Pieces of C text: literals, sizes, places, identifiers. */
#ifndef EMIT_WRITE_H
#define EMIT_WRITE_H
#include "ir.h"
#include "map.h"
#include "text.h"

/* A C string literal; one piece a line where the text has several lines, each after `indent`. */
void write_string(Text *t, const char *s, const char *indent);
/* NULL, or the literal. */
void write_string_or_null(Text *t, const char *s);
/* The number as a literal of the C type that computes in dtype: "0.1f", "3", "INFINITY". */
void write_number(Text *t, double v, DType dtype);
void write_int(Text *t, int64_t v);
void write_double(Text *t, double v); /* shortest; INFINITY, NAN */
void write_dim(Text *t, Dim d);       /* "64", "B", "2 * B + 1" */
void write_shape(Text *t, Type type); /* "[B, 64]" */
/* "job.ddp:31": file name without folders, so that the text does not depend on where the job lies. */
void write_place(Text *t, Span at);

/* Identifiers of one scope: every name once, none that C or the emitted text needs. */
typedef struct Names {
  Arena *arena;
  const struct Names *outer;
  Map taken; /* interned name -> the last number that was tried behind it */
} Names;
void names_init(Names *n, Arena *a, const Names *outer);
/* `wanted` made into an identifier ("fc1.weight" -> "fc1_weight"), with _2, _3 where it is taken. */
const char *names_add(Names *n, const char *wanted);
bool names_has(const Names *n, const char *name);
#endif
