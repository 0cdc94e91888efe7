/* Readers for the small parts of textual IR: sizes, types, attributes. */
#include "ir_text.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void ir_text_blanks(IrText *t) {
  while (*t->at == ' ' || *t->at == '\t' || *t->at == '\r') t->at++;
}

bool ir_text_char(IrText *t, char c) {
  ir_text_blanks(t);
  if (*t->at != c) return false;
  t->at++;
  return true;
}

static bool word_char(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '.';
}

bool ir_text_word(IrText *t, char *out, size_t cap) {
  ir_text_blanks(t);
  size_t n = 0;
  if (!isalpha((unsigned char)*t->at) && *t->at != '_') return false;
  while (word_char(t->at[n])) n++;
  if (n >= cap) return false;
  memcpy(out, t->at, n);
  out[n] = 0;
  t->at += n;
  return true;
}

bool ir_text_int(IrText *t, int64_t *out) {
  ir_text_blanks(t);
  const char *digits = t->at + (*t->at == '-' || *t->at == '+');
  if (!isdigit((unsigned char)*digits)) return false;
  char *end;
  errno = 0;
  *out = strtoll(t->at, &end, 10);
  if (errno) return false;
  t->at = end;
  return true;
}

bool ir_text_dim(IrText *t, Dim *out) {
  int64_t n = 1;
  ir_text_blanks(t);
  bool minus = t->at[0] == '-' && t->at[1] == 'B';
  if (minus) t->at++;
  bool number = !minus && ir_text_int(t, &n);
  if (*t->at != 'B') {
    *out = dim_of(n);
    return number;
  }
  t->at++;
  *out = (Dim){minus ? -1 : n, 0};
  if (*t->at == '+' || *t->at == '-') return ir_text_int(t, &out->fixed);
  return true;
}

static bool read_dims(IrText *t, int *len, Dim *at) {
  *len = 0;
  if (!ir_text_char(t, '[')) return false;
  if (ir_text_char(t, ']')) return true;
  do {
    if (*len == IR_MAX_RANK || !ir_text_dim(t, &at[*len])) return false;
    ++*len;
  } while (ir_text_char(t, ','));
  return ir_text_char(t, ']');
}

bool ir_text_type(IrText *t, Type *out) {
  char word[16];
  memset(out, 0, sizeof *out);
  if (!ir_text_word(t, word, sizeof word) || !dtype_parse(word, &out->dtype)) return false;
  return read_dims(t, &out->rank, out->dim);
}

static bool read_float(IrText *t, double *out) {
  ir_text_blanks(t);
  char *end;
  *out = strtod(t->at, &end); /* also inf and nan */
  if (end == t->at) return false;
  t->at = end;
  return true;
}

static bool read_quoted(IrText *t, const char **out) {
  if (!ir_text_char(t, '"')) return false;
  Text s = {0};
  text_add(&s, "");
  for (; *t->at && *t->at != '"' && *t->at != '\n'; t->at++) {
    if (*t->at == '\\' && t->at[1]) t->at++;
    text_add_n(&s, t->at, 1);
  }
  *out = text_intern(s.at);
  text_free(&s);
  return ir_text_char(t, '"');
}

static bool read_word_attr(IrText *t, AttrKind kind, Attr *out) {
  char word[16];
  DType d;
  if (!ir_text_word(t, word, sizeof word)) return false;
  if (kind == ATTR_dtype) {
    if (!dtype_parse(word, &d)) return false;
    out->as.i = d;
    return true;
  }
  out->as.i = !strcmp(word, "true");
  return out->as.i || !strcmp(word, "false");
}

bool ir_text_attr(IrText *t, AttrKind kind, Attr *out) {
  memset(out, 0, sizeof *out);
  switch (kind) {
  case ATTR_int:
    return ir_text_int(t, &out->as.i);
  case ATTR_float:
    return read_float(t, &out->as.f);
  case ATTR_text:
    return read_quoted(t, &out->as.text);
  case ATTR_bool:
  case ATTR_dtype:
    return read_word_attr(t, kind, out);
  case ATTR_dims:
    return read_dims(t, &out->as.dims.len, out->as.dims.at);
  case ATTR_graph: /* read.c */
    return false;
  case ATTR_axes:
  case ATTR_ints: {
    Dim at[IR_MAX_RANK];
    if (!read_dims(t, &out->as.ints.len, at)) return false;
    for (int i = 0; i < out->as.ints.len; i++) {
      if (!dim_known(at[i])) return false;
      out->as.ints.at[i] = at[i].fixed;
    }
    return true;
  }
  }
  return false;
}
