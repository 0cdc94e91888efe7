/* In: fields and a seed. Out: rows of numbers by chance, the same on every machine: no floating-point function
   of a library takes part. */
#include "synthetic.h"

static uint64_t mix(uint64_t x) { /* finaliser of splitmix64 */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static double unit(uint64_t h) { /* [0, 1) */
  return (double)(h >> 11) * 0x1p-53;
}

/* The sum of twelve even numbers, less its mean. */
static double normal(uint64_t h) {
  double sum = -6;
  for (int i = 0; i < 12; i++) sum += unit(h = mix(h));
  return sum;
}

static bool store(const DdpField *f, void *at, uint64_t h, DdpWhy *why) {
  bool floats = f->dtype == DDP_f32 || f->dtype == DDP_f64;
  if (floats && !f->has_range) return ddp_field_store_float(f, at, normal(h), why);
  double low = f->has_range ? f->low : 0, high = f->has_range ? f->high : 256;
  if (floats) return ddp_field_store_float(f, at, low + (high - low) * unit(h), why);
  uint64_t span = (uint64_t)(high - low);
  return ddp_field_store_int(f, at, (int64_t)low + (int64_t)(h % (span ? span : 1)), why);
}

DdpError *ddp_synthetic_make(DdpTable *t, const DdpSource *source) {
  DDP_TRY(ddp_table_reserve(t, t->rows + source->count));
  for (int32_t i = 0; i < t->n_fields; i++) {
    const DdpField *f = &t->fields[i];
    int64_t size = ddp_dtype_bytes(f->dtype), bytes = ddp_field_bytes(f);
    for (int64_t row = 0; row < source->count && t->columns[i]; row++) {
      uint64_t key = mix(mix(mix(source->seed) ^ (uint64_t)i) ^ (uint64_t)row);
      char *to = t->columns[i] + (t->rows + row) * bytes;
      DdpWhy why;
      for (int64_t k = 0; k < f->elements; k++) {
        if (store(f, to + k * size, mix(key ^ (uint64_t)k), &why)) continue;
        return ddp_error(DDP_DATA, "synthetic: %s is not %s", f->name, why.text);
      }
    }
  }
  t->rows += source->count;
  return NULL;
}
