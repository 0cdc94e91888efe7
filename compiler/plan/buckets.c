/* Gradient buckets by PyTorch's rule. Pure: the runtime walks the same rule for another cap. */
#include "plan.h"

int plan_buckets(const int64_t *bytes, int n, int64_t first_cap, int64_t cap, int32_t *ends) {
  int count = 0;
  int64_t size = 0, limit = first_cap;
  for (int i = 0; i < n; i++) {
    size += bytes[i];
    if (size < limit) continue;
    ends[count++] = i + 1;
    size = 0;
    limit = cap;
  }
  if (n > 0 && (count == 0 || ends[count - 1] < n)) ends[count++] = n;
  return count;
}
