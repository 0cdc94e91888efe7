/* `ddpc plan --max-batch`: plans the job at candidate sizes. What a rank takes grows with the batch, so
   that doubling and then halving the interval finds the last size that fits. */
#include "max_batch.h"
#include "diag.h"
#include "pipeline.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

int64_t machine_memory(void) {
  int64_t bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
  static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                       "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  for (int i = 0; i < 2; i++) {
    long long n = -1;
    FILE *f = fopen(limits[i], "re");
    if (!f) continue;
    if (fscanf(f, "%lld", &n) == 1 && n > 0 && n < bytes) bytes = n; /* "max": no limit */
    fclose(f);
  }
  return bytes;
}

/* Bytes of one rank at this batch size; -1 after errors, which are printed. */
static int64_t bytes_at(const Run *r, const char *path, int64_t batch) {
  Arena *a = arena_new();
  uint32_t n = r->options.defines.len;
  SemaDefine *defines = ARENA_ARRAY(a, SemaDefine, n + 1);
  for (uint32_t i = 0; i < n; i++) defines[i] = r->options.defines.at[i];
  defines[n] =
      (SemaDefine){"train.per_device_train_batch_size", arena_printf(a, "%lld", (long long)batch)};
  SemaOptions how = {
      .defines = defines, .n_defines = (int)n + 1, .target = r->options.value[OPT_target]};
  diag_reset();
  Job *job = sema_analyse(a, path, &how);
  Plan *plan = job ? pipeline_run(job, NULL, NULL) : NULL;
  int64_t bytes = plan && !diag_errors() ? plan_room_bytes(plan) : -1;
  if (bytes < 0)
    run_flush(WRONG_JOB);
  else
    diag_reset(); /* warnings were printed with the plan */
  arena_free(a);
  return bytes;
}

MaxBatch max_batch_find(const Run *r, const char *path, int64_t memory) {
  enum { MOST = 1000000000 }; /* of the key */
  MaxBatch found = {.memory = memory};
  int64_t low = 0, high = 1, low_bytes = 0, high_bytes = 0;
  for (;;) {
    high_bytes = bytes_at(r, path, high);
    if (high_bytes < 0) return (MaxBatch){.batch = -1};
    if (high_bytes > memory || high == MOST) break;
    low = high;
    low_bytes = high_bytes;
    high = high * 2 < MOST ? high * 2 : MOST;
  }
  if (high_bytes <= memory) low = high, low_bytes = high_bytes, high = high + 1;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2, bytes = bytes_at(r, path, middle);
    if (bytes < 0) return (MaxBatch){.batch = -1};
    if (bytes <= memory)
      low = middle, low_bytes = bytes;
    else
      high = middle, high_bytes = bytes;
  }
  found.batch = low;
  found.bytes = low ? low_bytes : high_bytes;
  found.next_bytes = high_bytes;
  return found;
}
