/* Element types: facts from tables/dtype.def, names in several spellings, promotion. */
#include "ir.h"
#include <math.h>
#include <string.h>

typedef struct DTypeFacts {
  const char *name, *ctype;
  int bytes;
  char category;
} DTypeFacts;

static const DTypeFacts facts[DT_COUNT] = {
#define DTYPE(name, ctype, bytes, category, st) {#name, #ctype, bytes, category},
#include "dtype.def"
};

const char *dtype_name(DType t) {
  return facts[t].name;
}
const char *dtype_ctype(DType t) {
  return facts[t].ctype;
}
int dtype_bytes(DType t) {
  return facts[t].bytes;
}
char dtype_category(DType t) {
  return facts[t].category;
}

bool dtype_parse(const char *name, DType *out) {
  static const struct {
    const char *name;
    DType t;
  } long_names[] = {
      {"uint8", DT_u8},    {"int32", DT_i32},   {"int64", DT_i64},
      {"float16", DT_f16}, {"half", DT_f16},    {"bfloat16", DT_bf16},
      {"float32", DT_f32}, {"float64", DT_f64}, {"double", DT_f64},
  };
  for (int t = 0; t < DT_COUNT; t++) {
    if (!strcmp(name, facts[t].name)) {
      *out = (DType)t;
      return true;
    }
  }
  for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++) {
    if (!strcmp(name, long_names[i].name)) {
      *out = long_names[i].t;
      return true;
    }
  }
  return false;
}

static int category_rank(DType t) {
  char c = dtype_category(t);
  return c == 'b' ? 0 : c == 'i' ? 1 : 2;
}

DType dtype_promote(DType a, DType b) {
  if (a == b) return a;
  int ra = category_rank(a), rb = category_rank(b);
  if (ra != rb) return ra > rb ? a : b;
  if ((a == DT_f16 && b == DT_bf16) || (a == DT_bf16 && b == DT_f16)) return DT_f32;
  return dtype_bytes(a) >= dtype_bytes(b) ? a : b;
}

/* To `digits` bits behind the leading one, ties to even, with exponents from `least`. */
static double round_digits(double x, int digits, int least, double largest) {
  if (!isfinite(x) || x == 0) return x;
  int e;
  frexp(x, &e); /* |x| = m 2^e with 1/2 <= m < 1 */
  int place = (e - 1 < least ? least : e - 1) - digits;
  double r = ldexp(rint(ldexp(x, -place)), place);
  return fabs(r) > largest ? copysign(INFINITY, x) : r;
}

/* By way of float, as emitted code does. */
double dtype_round(DType t, double x) {
  if (dtype_category(t) != 'f' || t == DT_f64) return x;
  x = (double)(float)x;
  if (t == DT_bf16) return round_digits(x, 7, -126, 0x1.fep127);
  return t == DT_f16 ? round_digits(x, 10, -14, 65504) : x;
}
