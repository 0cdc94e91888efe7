/* Resident memory of this process. In: what the kernel counts. Out: bytes that lie in memory because
   this process wrote to them: anonymous pages, and its part of what ranks of the host share. Pages of
   files (the program, libraries) are not among them: they can be dropped and read again. */
#include "run.h"
#include <stdio.h>

static bool field(const char *line, const char *format, int64_t *sum) {
  long long kib = 0;
  if (sscanf(line, format, &kib) != 1) return false;
  *sum += kib * 1024;
  return true;
}

int64_t run_resident(void) {
  /* Shared pages count by the number of processes that map them; where the kernel does not say that,
     they count whole. */
  static const char *const sources[][3] = {
      {"/proc/self/smaps_rollup", "Pss_Anon: %lld", "Pss_Shmem: %lld"},
      {"/proc/self/status", "RssAnon: %lld", "RssShmem: %lld"}};
  for (int i = 0; i < 2; i++) {
    char line[256];
    int64_t sum = 0;
    int found = 0;
    FILE *f = fopen(sources[i][0], "re");
    if (!f) continue;
    while (fgets(line, sizeof line, f)) {
      if (field(line, sources[i][1], &sum) || field(line, sources[i][2], &sum)) found++;
    }
    fclose(f);
    if (found == 2) return sum;
  }
  return -1;
}
