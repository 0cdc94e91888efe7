/* See real.h. */
#include "real.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits without the point, and the exponent of the first one. */
static int shortest(double v, char digits[24], int *exponent) {
  char text[DDP_REAL_TEXT];
  int n = 1;
  for (; n < 17; n++) {
    snprintf(text, sizeof text, "%.*e", n - 1, v);
    if (strtod(text, NULL) == v) break;
  }
  snprintf(text, sizeof text, "%.*e", n - 1, v);
  int k = 0;
  for (const char *p = text; *p != 'e'; p++) {
    if (*p >= '0' && *p <= '9') digits[k++] = *p;
  }
  digits[k] = 0;
  *exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
  return k;
}

const char *ddp_real_text(double v, char text[DDP_REAL_TEXT]) {
  char digits[24];
  int exponent, n = shortest(v, digits, &exponent), at = 0;
  const size_t size = DDP_REAL_TEXT;
  const char *sign = __builtin_signbit(v) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    snprintf(text, size, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
             exponent < 0 ? '-' : '+', abs(exponent));
  } else if (exponent < 0) {
    snprintf(text, size, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
  } else if (n > exponent + 1) {
    snprintf(text, size, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
  } else {
    at = snprintf(text, size, "%s%s", sign, digits);
    snprintf(text + at, size - (size_t)at, "%.*s.0", exponent + 1 - n, "000000000000000");
  }
  return text;
}
