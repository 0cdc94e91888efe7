/* Values of numbers and texts from their spelling. */
#include "parser.h"
#include "text.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The digits without their underscores, in scratch memory. */
static char *digits_of(Parse *p, Span at) {
  char *out = arena_alloc(p->scratch, at.end - at.begin + 1u);
  size_t n = 0;
  for (uint32_t i = at.begin; i < at.end; i++)
    if (p->text[i] != '_') out[n++] = p->text[i];
  return out;
}

int64_t literal_int(Parse *p, Span at) {
  if (at.begin == at.end) return 0;
  char *digits = digits_of(p, at);
  bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
  errno = 0;
  long long v = strtoll(digits, NULL, hex ? 16 : 10);
  if (errno != ERANGE) return v;
  if (parse_report(p, DIAG_E0105, at, "`%s` does not fit in 64 bits", digits))
    diag_help("the largest integer is 9223372036854775807; a float may be larger: `1e20`");
  return INT64_MAX;
}

double literal_float(Parse *p, Span at) {
  double v = strtod(digits_of(p, at), NULL);
  if (isfinite(v)) return v;
  if (parse_report(p, DIAG_E0106, at, "this number is too large for a float"))
    diag_help("write `inf` where infinity is meant");
  return 0;
}

/* Reports what may not stand in a text at offset i; gives the bytes it takes. */
static uint32_t copy_escape(Parse *p, uint32_t i, uint32_t end, char *out, uint32_t *n) {
  static const char names[] = "ntr\\\"", values[] = "\n\t\r\\\"";
  if (i + 1 >= end) return 1; /* an unclosed text that ends in a backslash */
  char c = p->text[i + 1];
  const char *known = c ? strchr(names, c) : NULL;
  if (known) {
    out[(*n)++] = values[known - names];
    return 2;
  }
  if (parse_report(p, DIAG_E0103, parse_span(p, i, i + 2), "unknown escape in a text"))
    diag_help("known are \\n \\t \\r \\\\ \\\"; a backslash of its own is written twice");
  return 1;
}

char *literal_text(Parse *p, Span at, uint32_t *length) {
  uint32_t begin = at.begin + 1, end = at.end;
  char quote = at.end > at.begin ? p->text[at.begin] : 0;
  if (quote && at.end - at.begin >= 2 && p->text[at.end - 1] == quote) end--;
  if (begin > end) begin = end;
  char *out = arena_alloc(p->arena, end - begin + 1u);
  uint32_t n = 0;
  for (uint32_t i = begin; i < end;) {
    unsigned char c = (unsigned char)p->text[i];
    if (c == '\\') {
      i += copy_escape(p, i, end, out, &n);
      continue;
    }
    if (c < 0x20 || c == 0x7f) {
      Span here = parse_span(p, i, i + 1);
      bool told = parse_report(p, DIAG_E0109, here, "control character 0x%02x in a text", c);
      if (told && c == '\t') diag_help("a tab is written `\\t`");
    }
    out[n++] = (char)c;
    i++;
  }
  out[n] = 0;
  *length = n;
  return out;
}
