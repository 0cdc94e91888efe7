/* One CSV cell -> one value. Numbers are rounded correctly: the short path is exact (Clinger's case),
   everything else goes through strtod. */
#include "csv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

typedef struct Number {
  bool whole; /* no point, no exponent, fits in 62 bits */
  int64_t i;
  double f;
} Number;

/* What only strtod can round, or is no number. */
static bool number_slow(const char *text, size_t n, Number *out) {
  char copy[400], *end;
  if (n == 0 || n >= sizeof copy) return false;
  memcpy(copy, text, n);
  copy[n] = 0;
  if (strspn(copy, "+-.0123456789eE") != n) return false; /* no hex, inf, nan */
  out->whole = false;
  out->f = strtod(copy, &end);
  return *end == 0 && end != copy;
}

static bool number_read(const char *text, size_t n, Number *out) {
  const char *p = text, *end = text + n;
  bool negative = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) p++;
  int64_t mantissa = 0;
  int digits = 0, fraction = 0;
  bool point = false;
  for (; p < end; p++) {
    unsigned digit = (unsigned)(*p - '0');
    if (digit < 10) {
      if (++digits > 18) return number_slow(text, n, out);
      mantissa = mantissa * 10 + (int64_t)digit;
      fraction += point;
    } else if (*p == '.' && !point) {
      point = true;
    } else {
      return number_slow(text, n, out);
    }
  }
  if (digits == 0) return false;
  out->whole = !point;
  out->i = negative ? -mantissa : mantissa;
  if (point && mantissa >= (INT64_C(1) << 53)) return number_slow(text, n, out);
  double v = (double)mantissa / powers[fraction]; /* both exact: one rounding */
  out->f = negative ? -v : v;
  return true;
}

static bool store_category(const DdpField *f, void *at, const char *text, size_t n, DdpWhy *why) {
  for (int i = 0; f->categories[i]; i++) {
    if (strlen(f->categories[i]) == n && memcmp(f->categories[i], text, n) == 0) {
      DdpField plain = *f;
      plain.has_range = false;
      return ddp_field_store_int(&plain, at, i, why);
    }
  }
  ddp_field_expected(f, why);
  return false;
}

bool ddp_csv_store(const DdpField *f, void *at, const char *text, size_t n, DdpWhy *why) {
  Number v;
  if (f->categories && f->categories[0]) return store_category(f, at, text, n, why);
  if (!number_read(text, n, &v)) {
    ddp_field_expected(f, why);
    return false;
  }
  if (v.whole) return ddp_field_store_int(f, at, v.i, why);
  return ddp_field_store_float(f, at, v.f, why);
}
