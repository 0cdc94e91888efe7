/* Sizes that are linear in the batch B, and tensor types made of them. */
#include "ir.h"
#include <inttypes.h>

bool dim_mul(Dim a, Dim b, Dim *out) {
  if (a.per_batch && b.per_batch) return false;
  Dim r;
  int64_t cross1, cross2;
  if (__builtin_mul_overflow(a.fixed, b.fixed, &r.fixed)) return false;
  if (__builtin_mul_overflow(a.per_batch, b.fixed, &cross1)) return false;
  if (__builtin_mul_overflow(a.fixed, b.per_batch, &cross2)) return false;
  r.per_batch = cross1 + cross2;
  *out = r;
  return true;
}

bool dim_div(Dim a, Dim b, Dim *out) {
  if (dim_known(b)) {
    if (!b.fixed || a.per_batch % b.fixed || a.fixed % b.fixed) return false;
    *out = (Dim){a.per_batch / b.fixed, a.fixed / b.fixed};
    return true;
  }
  /* a must be a whole multiple of b */
  if (a.per_batch % b.per_batch) return false;
  int64_t k = a.per_batch / b.per_batch;
  if (a.fixed != k * b.fixed) return false;
  *out = dim_of(k);
  return true;
}

void dim_print(Text *t, Dim d) {
  if (dim_known(d)) {
    text_addf(t, "%" PRId64, d.fixed);
    return;
  }
  if (d.per_batch == -1)
    text_add(t, "-");
  else if (d.per_batch != 1)
    text_addf(t, "%" PRId64, d.per_batch);
  text_add(t, "B");
  if (d.fixed) text_addf(t, "%+" PRId64, d.fixed);
}

bool type_equal(Type a, Type b) {
  if (a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; i++)
    if (!dim_equal(a.dim[i], b.dim[i])) return false;
  return true;
}

bool type_elements(Type t, Dim *out) {
  Dim n = dim_of(1);
  for (int i = 0; i < t.rank; i++)
    if (!dim_mul(n, t.dim[i], &n)) return false;
  *out = n;
  return true;
}

int64_t type_elements_at(Type t, int64_t batch) {
  int64_t n = 1;
  for (int i = 0; i < t.rank; i++) {
    int64_t d;
    if (__builtin_mul_overflow(t.dim[i].per_batch, batch, &d) ||
        __builtin_add_overflow(d, t.dim[i].fixed, &d) || __builtin_mul_overflow(n, d, &n))
      return INT64_MAX;
  }
  return n;
}

void type_print(Text *t, Type type) {
  text_add(t, dtype_name(type.dtype));
  text_add(t, "[");
  for (int i = 0; i < type.rank; i++) {
    if (i) text_add(t, ",");
    dim_print(t, type.dim[i]);
  }
  text_add(t, "]");
}
