/* In: lists as Slurm writes them. Out: one number, one name. */
#include "slurm.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int ddp_slurm_tasks(const char *list, int node) {
  while (list && *list) {
    char *end;
    long tasks = strtol(list, &end, 10), times = 1;
    if (end == list) return 0;
    if (strncmp(end, "(x", 2) == 0) {
      times = strtol(end + 2, &end, 10);
      if (*end == ')') end++;
    }
    if (node < times) return (int)tasks;
    node -= (int)times;
    list = *end == ',' ? end + 1 : NULL;
  }
  return 0;
}

void ddp_slurm_first_host(const char *list, char *out, size_t size) {
  size_t n = 0;
  bool inside = false;
  for (const char *p = list; *p && n + 1 < size; p++) {
    if (*p == '[') {
      inside = true;
    } else if (inside && (*p == '-' || *p == ',')) {
      const char *close = strchr(p, ']'); /* a name may go on behind the bracket */
      if (!close) break;
      p = close;
      inside = false;
    } else if (*p == ']') {
      inside = false;
    } else if (*p == ',') {
      break;
    } else {
      out[n++] = *p;
    }
  }
  out[n] = 0;
}

int ddp_slurm_port(const char *job, int i) {
  uint32_t hash = 5381;
  for (const char *p = job; *p; p++) hash = hash * 33 + (unsigned char)*p;
  return 20000 + (int)((hash + (uint32_t)i * 1237) % 10000);
}
